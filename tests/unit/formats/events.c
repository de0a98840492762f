/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - event files: writing, reading, truncation; histograms; images. */
#include "formats/events.h"

#include "base/file.h"
#include "formats/histogram.h"
#include "mf_test.h"

#include <dirent.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mf_tensor *floats(const float *values, int64_t n)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, &n, 1, &t));
    if (n > 0)
        memcpy(t->data, values, (size_t)n * sizeof *values);
    return t;
}

/* The folder and all files in it. */
static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    char path[600];

    while ((e = readdir(d)) != NULL) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        (void)unlink(path);
    }
    (void)closedir(d);
    T_TRUE(rmdir(dir) == 0);
}

static const Tensorflow__Event *next(mf_events_reader *r, int64_t step, int what)
{
    const Tensorflow__Event *event;

    T_OK(mf_events_next(r, &event));
    T_EQ(event->step, step);
    T_EQ(event->what_case, what);
    T_TRUE(event->wall_time > 1.6e9);
    return event;
}

static void write_one_of_each(const char *dir, char *path)
{
    const unsigned char pixels[] = { 0, 255, 10, 20, 30, 40 };
    mf_tensor *t = floats((float[]){ -1, 0, 0.5f, 2 }, 4);
    mf_events *e;

    T_OK(mf_events_open(dir, &e));
    T_OK(mf_events_session(e, 5, TENSORFLOW__SESSION_LOG__SESSION_STATUS__START, NULL));
    T_OK(mf_events_graph(e, "graph", 5));
    T_OK(mf_events_scalars(e, 5, (mf_event_scalar[]){ { "loss", 0.25 }, { "accuracy", 0.5 } }, 2));
    T_OK(mf_events_histogram(e, 6, "weights", t));
    T_OK(mf_events_image(e, 7, "image", pixels, &(mf_image){ 1, 2, 3 }));
    T_OK(mf_events_summary(e, 8, "\x0a\x08\x0a\x01x\x15\0\0\xc0\x3f", 10)); /* x = 1.5 */
    T_OK(mf_events_run_metadata(e, 9, "step_9", "meta", 4));
    (void)snprintf(path, 300, "%s", mf_events_path(e));
    T_OK(mf_events_close(e));
    mf_tensor_free(t);
}

MF_TEST(formats_events_round_trip)
{
    char dir[] = "/tmp/mf_events_XXXXXX", path[300];
    const Tensorflow__Event *event;
    mf_events_reader *r;
    mf_buf pixels = { 0 };
    mf_image size;

    T_TRUE(mkdtemp(dir) != NULL);
    write_one_of_each(dir, path);
    T_OK(mf_events_reader_open(path, &r));
    T_STREQ(next(r, 0, TENSORFLOW__EVENT__WHAT_FILE_VERSION)->file_version, "brain.Event:2");
    T_EQ(next(r, 5, TENSORFLOW__EVENT__WHAT_SESSION_LOG)->session_log->status, 1);
    T_EQ(next(r, 0, TENSORFLOW__EVENT__WHAT_GRAPH_DEF)->graph_def.len, 5);
    event = next(r, 5, TENSORFLOW__EVENT__WHAT_SUMMARY);
    T_STREQ(event->summary->value[1]->tag, "accuracy");
    T_EQ_F(event->summary->value[1]->simple_value, 0.5);
    T_EQ_F(next(r, 6, TENSORFLOW__EVENT__WHAT_SUMMARY)->summary->value[0]->histo->sum, 1.5);
    event = next(r, 7, TENSORFLOW__EVENT__WHAT_SUMMARY);
    T_OK(mf_image_decode(event->summary->value[0]->image->encoded_image_string.data,
                         event->summary->value[0]->image->encoded_image_string.len, 3, &pixels,
                         &size));
    T_EQ(size.width, 2);
    T_EQ((unsigned char)pixels.data[1], 255);
    event = next(r, 8, TENSORFLOW__EVENT__WHAT_SUMMARY);
    T_STREQ(event->summary->value[0]->tag, "x");
    T_EQ_F(event->summary->value[0]->simple_value, 1.5);
    event = next(r, 9, TENSORFLOW__EVENT__WHAT_TAGGED_RUN_METADATA);
    T_STREQ(event->tagged_run_metadata->tag, "step_9");
    T_FAILS(MF_OUT_OF_RANGE, "", mf_events_next(r, &event));
    mf_events_reader_close(r);
    mf_buf_deinit(&pixels);
    remove_dir(dir);
}

MF_TEST(formats_truncated_event_files_are_read_up_to_the_end)
{
    char dir[] = "/tmp/mf_events_XXXXXX", path[300], *data;
    size_t len;

    T_TRUE(mkdtemp(dir) != NULL);
    write_one_of_each(dir, path);
    T_OK(mf_file_read(path, 1 << 20, &data, &len));
    for (size_t n = 0; n < len; n++) {
        const Tensorflow__Event *event;
        mf_events_reader *r;
        mf_status st;

        T_TRUE(truncate(path, 0) == 0);
        T_OK(mf_file_write(path, data, n));
        T_OK(mf_events_reader_open(path, &r));
        do
            st = mf_events_next(r, &event);
        while (st == MF_OK);
        T_TRUE(st == MF_OUT_OF_RANGE || st == MF_DATA_LOSS);
        mf_events_reader_close(r);
        n += n > 100 ? 16 : 0; /* writing is slow: every length is tried at the beginning only */
    }
    mf_free(data);
    remove_dir(dir);
}

MF_TEST(formats_events_of_a_later_run_are_in_a_later_file)
{
    char dir[] = "/tmp/mf_events_XXXXXX", first[300], second[300];

    T_TRUE(mkdtemp(dir) != NULL);
    write_one_of_each(dir, first);
    write_one_of_each(dir, second); /* in the same second */
    T_TRUE(strcmp(first, second) < 0);
    remove_dir(dir);
}

/* The bucket of a value, as TensorFlow finds it: the first limit above. */
static void check_bucket(double v)
{
    mf_histogram *h = mf_calloc(1, sizeof *h);
    mf_tensor *t;
    double below = 1e-12;
    int at = 0;

    T_OK(mf_tensor_new(MF_DTYPE_F64, NULL, 0, &t));
    ((double *)t->data)[0] = v;
    mf_histogram_of(t, h);
    while (at < h->n && h->count[at] == 0.0)
        at++;
    T_TRUE(at < h->n && h->count[at] == 1.0);
    T_TRUE(h->limit[at] > v || v == DBL_MAX);
    if (at > 0)
        T_TRUE(h->limit[at - 1] <= v);
    for (int i = 0; v > 0 && i < 2000 && below <= v && below < 1e20; i++)
        below *= 1.1;
    if (v > 0 && v < 1e19)
        T_EQ_F(h->limit[at], below);
    T_EQ_F(h->num, 1);
    mf_tensor_free(t);
    mf_free(h);
}

MF_TEST(formats_histogram_puts_values_where_tensorflow_does)
{
    double limit = 1e-12;

    for (int i = 0; i < 60; i++) {
        const double v[] = { limit, limit * (1 - 1e-15), limit * 1.03, limit * (1 + 1e-15) };

        for (int k = 0; k < 4; k++) {
            check_bucket(v[k]);
            check_bucket(-v[k]);
        }
        for (int k = 0; k < 13; k++)
            limit *= 1.1;
    }
    check_bucket(0.0);
    check_bucket(-0.0);
    check_bucket(1e-300);
    check_bucket(-1e-300);
    check_bucket(1e300);
    check_bucket(-1e300);
    check_bucket(DBL_MAX);
}

MF_TEST(formats_histogram_skips_nan_and_inf)
{
    mf_histogram *h = mf_calloc(1, sizeof *h);
    mf_tensor *t = floats((float[]){ 1, (float)(0.0 / 0.0), 3, (float)(1.0 / 0.0) }, 4);
    mf_tensor *none = floats(NULL, 0);

    mf_histogram_of(t, h);
    T_EQ_F(h->num, 2);
    T_EQ_F(h->sum, 4);
    T_EQ_F(h->max, 3);
    mf_histogram_of(none, h);
    T_EQ_F(h->num, 0);
    T_EQ(h->n, 1);
    mf_tensor_free(t);
    mf_tensor_free(none);
    mf_free(h);
}
