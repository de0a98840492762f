/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - writing event files. */
#include "formats/events.h"

#include "base/clock.h"
#include "base/file.h"
#include "formats/histogram.h"
#include "formats/record.h"
#include "proto/wire.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "events.out.tfevents.";
enum { FLUSH_SECONDS = 10, MAX_SCALARS = 64 };

struct mf_events {
    pthread_mutex_t lock; /* guards all fields below */
    mf_writer *writer;
    char *path;
    mf_buf bytes; /* of the current event; kept, so that a scalar needs no allocation */
    int64_t flushed_ns;
    int64_t written; /* bytes */
};

bool mf_events_is_name(const char *name)
{
    return strstr(name, ".tfevents.") != NULL;
}

/* ---- the file ---- */

/* TensorBoard reads files in the order of their names, so a new name must sort after existing ones,
 * even if two runs begin in the same second or the clock was set back. */
static int64_t time_for_name(const char *dir)
{
    int64_t seconds = mf_clock_wall_ns() / 1000000000;
    DIR *d = opendir(dir);
    const struct dirent *entry;

    while (d && (entry = readdir(d)) != NULL) {
        int64_t other;

        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0)
            continue;
        other = strtoll(entry->d_name + sizeof prefix - 1, NULL, 10);
        if (other >= seconds && other < INT64_MAX / 2)
            seconds = other + 1;
    }
    if (d)
        (void)closedir(d);
    return seconds;
}

static mf_status make_path(const char *dir, char **out)
{
    char host[256] = "";
    mf_buf path = { 0 };

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create", dir);
    (void)gethostname(host, sizeof host - 1);
    mf_buf_printf(&path, "%s/%s%010lld.%s.%lld", dir, prefix, (long long)time_for_name(dir),
                  host[0] ? host : "localhost", (long long)getpid());
    *out = path.data;
    return mf_buf_finish(&path);
}

/* Add one event. The caller holds the lock, or has not published the writer yet. */
static mf_status put_locked(mf_events *e, Tensorflow__Event *event)
{
    const int64_t now = mf_clock_ns();

    event->wall_time = (double)mf_clock_wall_ns() * 1e-9;
    mf_buf_clear(&e->bytes);
    MF_TRY(mf_wire_encode(&event->base, &e->bytes));
    MF_TRY(mf_record_write(e->writer, e->bytes.data, e->bytes.len));
    e->written += (int64_t)e->bytes.len + MF_RECORD_HEADER + MF_RECORD_TRAILER;
    if (now - e->flushed_ns < (int64_t)FLUSH_SECONDS * 1000000000)
        return MF_OK;
    e->flushed_ns = now;
    return mf_writer_flush(e->writer, false);
}

static mf_status events_put(mf_events *e, Tensorflow__Event *event)
{
    mf_status st;

    pthread_mutex_lock(&e->lock);
    st = put_locked(e, event);
    pthread_mutex_unlock(&e->lock);
    return st;
}

static mf_status begin_file(mf_events *e, const char *dir)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
    Tensorflow__SourceMetadata source = TENSORFLOW__SOURCE_METADATA__INIT;

    MF_TRY(make_path(dir, &e->path));
    MF_TRY(mf_writer_open(e->path, MF_PLAIN, false, &e->writer));
    event.what_case = TENSORFLOW__EVENT__WHAT_FILE_VERSION;
    event.file_version = (char[]){ "brain.Event:2" };
    source.writer = (char[]){ "meshflow" };
    event.source_metadata = &source;
    e->flushed_ns = mf_clock_ns();
    MF_TRY(put_locked(e, &event));
    return mf_writer_flush(e->writer, false);
}

mf_status mf_events_open(const char *dir, mf_events **out)
{
    mf_events *e = mf_calloc(1, sizeof *e);
    mf_status st;

    *out = NULL;
    if (!e)
        return MF_NOMEM("an event file");
    pthread_mutex_init(&e->lock, NULL);
    st = begin_file(e, dir);
    if (st == MF_OK)
        *out = e;
    else
        (void)!mf_events_close(e);
    return st;
}

mf_status mf_events_close(mf_events *e)
{
    mf_status st;

    if (!e)
        return MF_OK;
    st = mf_writer_close(e->writer);
    mf_buf_deinit(&e->bytes);
    pthread_mutex_destroy(&e->lock);
    mf_free(e->path);
    mf_free(e);
    return st;
}

mf_status mf_events_flush(mf_events *e)
{
    mf_status st;

    pthread_mutex_lock(&e->lock);
    e->flushed_ns = mf_clock_ns();
    st = mf_writer_flush(e->writer, false);
    pthread_mutex_unlock(&e->lock);
    return st;
}

const char *mf_events_path(const mf_events *e)
{
    return e->path;
}

int64_t mf_events_bytes(mf_events *e)
{
    int64_t n;

    pthread_mutex_lock(&e->lock);
    n = e->written;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* ---- events ---- */

static mf_status events_put_values(mf_events *e, int64_t step, Tensorflow__Summary__Value *values,
                                   int n)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
    Tensorflow__Summary summary = TENSORFLOW__SUMMARY__INIT;
    Tensorflow__Summary__Value *list[MAX_SCALARS];

    for (int i = 0; i < n; i++)
        list[i] = &values[i];
    summary.n_value = (size_t)n;
    summary.value = list;
    event.step = step;
    event.what_case = TENSORFLOW__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return events_put(e, &event);
}

static void set_tag(Tensorflow__Summary__Value *v, const char *tag)
{
    tensorflow__summary__value__init(v);
    v->tag = (char *)(uintptr_t)tag; /* not modified */
}

mf_status mf_events_scalars(mf_events *e, int64_t step, const mf_event_scalar *scalars, int n)
{
    Tensorflow__Summary__Value values[MAX_SCALARS];

    if (n > MAX_SCALARS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "at most %d scalars make an event", MAX_SCALARS);
    for (int i = 0; i < n; i++) {
        set_tag(&values[i], scalars[i].tag);
        values[i].value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)scalars[i].value;
    }
    return events_put_values(e, step, values, n);
}

mf_status mf_events_histogram(mf_events *e, int64_t step, const char *tag, const mf_tensor *tensor)
{
    Tensorflow__HistogramProto message = TENSORFLOW__HISTOGRAM_PROTO__INIT;
    Tensorflow__Summary__Value value;
    mf_histogram *h = mf_calloc(1, sizeof *h);
    mf_status st;

    if (!h)
        return MF_NOMEM("a histogram");
    mf_histogram_of(tensor, h);
    message.min = h->min;
    message.max = h->max;
    message.num = h->num;
    message.sum = h->sum;
    message.sum_squares = h->sum_squares;
    message.bucket_limit = h->limit;
    message.bucket = h->count;
    message.n_bucket_limit = message.n_bucket = (size_t)h->n;
    set_tag(&value, tag);
    value.value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_HISTO;
    value.histo = &message;
    st = events_put_values(e, step, &value, 1);
    mf_free(h);
    return st;
}

mf_status mf_events_image(mf_events *e, int64_t step, const char *tag, const unsigned char *pixels,
                          const mf_image *size)
{
    Tensorflow__Summary__Image image = TENSORFLOW__SUMMARY__IMAGE__INIT;
    Tensorflow__Summary__Value value;
    mf_buf png = { 0 };
    mf_status st = mf_png_encode(pixels, size, &png);

    image.height = (int32_t)size->height;
    image.width = (int32_t)size->width;
    image.colorspace = (int32_t)size->channels;
    image.encoded_image_string = (ProtobufCBinaryData){ png.len, (uint8_t *)png.data };
    set_tag(&value, tag);
    value.value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE;
    value.image = &image;
    if (st == MF_OK)
        st = events_put_values(e, step, &value, 1);
    mf_buf_deinit(&png);
    return st;
}

mf_status mf_events_graph(mf_events *e, const void *data, size_t len)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;

    event.what_case = TENSORFLOW__EVENT__WHAT_GRAPH_DEF;
    event.graph_def = (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)data };
    return events_put(e, &event);
}

/* The bytes are inserted unchanged, as the field `summary`: the encoder treats it as an unknown
 * field. */
mf_status mf_events_summary(mf_events *e, int64_t step, const void *data, size_t len)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
    ProtobufCMessageUnknownField summary = { .tag = 5,
                                             .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED };
    mf_buf bytes = { 0 };
    uint64_t rest = len;
    mf_status st;

    do { /* the length, as a varint */
        const unsigned char byte = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));

        mf_buf_bytes(&bytes, &byte, 1);
        rest >>= 7;
    } while (rest > 0);
    mf_buf_bytes(&bytes, data, len);
    summary.len = bytes.len;
    summary.data = (uint8_t *)bytes.data;
    event.step = step;
    event.base.n_unknown_fields = 1;
    event.base.unknown_fields = &summary;
    st = mf_buf_finish(&bytes);
    if (st == MF_OK)
        st = events_put(e, &event);
    mf_buf_deinit(&bytes);
    return st;
}

mf_status mf_events_run_metadata(mf_events *e, int64_t step, const char *tag, const void *data,
                                 size_t len)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
    Tensorflow__TaggedRunMetadata run = TENSORFLOW__TAGGED_RUN_METADATA__INIT;

    run.tag = (char *)(uintptr_t)tag;
    run.run_metadata = (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)data };
    event.step = step;
    event.what_case = TENSORFLOW__EVENT__WHAT_TAGGED_RUN_METADATA;
    event.tagged_run_metadata = &run;
    return events_put(e, &event);
}

static mf_status put_session(mf_events *e, int64_t step, Tensorflow__SessionLog *log)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;

    event.step = step;
    event.what_case = TENSORFLOW__EVENT__WHAT_SESSION_LOG;
    event.session_log = log;
    return events_put(e, &event);
}

mf_status mf_events_session(mf_events *e, int64_t step,
                            Tensorflow__SessionLog__SessionStatus status, const char *path)
{
    Tensorflow__SessionLog log = TENSORFLOW__SESSION_LOG__INIT;

    log.status = status;
    if (path)
        log.checkpoint_path = (char *)(uintptr_t)path;
    return put_session(e, step, &log);
}

static const char run_mark[] = "meshflow run ";

mf_status mf_events_begin_run(mf_events *e, int64_t step, const char *run)
{
    Tensorflow__SessionLog log = TENSORFLOW__SESSION_LOG__INIT;
    char text[64];

    (void)snprintf(text, sizeof text, "%s%s", run_mark, run);
    log.status = TENSORFLOW__SESSION_LOG__SESSION_STATUS__START;
    log.msg = text;
    return put_session(e, step, &log);
}

const char *mf_events_run_of(const Tensorflow__Event *e)
{
    const char *text = e->what_case == TENSORFLOW__EVENT__WHAT_SESSION_LOG && e->session_log
                           ? e->session_log->msg
                           : NULL;

    return text && strncmp(text, run_mark, sizeof run_mark - 1) == 0 ? text + sizeof run_mark - 1
                                                                     : NULL;
}
