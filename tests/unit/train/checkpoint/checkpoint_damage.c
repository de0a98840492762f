/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_damage.c - checkpoints truncated at every length and with every bit flipped. Each is
 * refused without any change, or restored with exactly the saved values. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "formats/tensors.h"
#include "mf_test.h"
#include "train/checkpoint/checkpoint.h"

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/mf-damage-XXXXXX";
static const char *const files[] = { ".index", ".data-00000-of-00001" };

/* A trainer of eight weights, and what to train it on. */
typedef struct tiny {
    mf_dataset *set;
    mf_model *model;
    mf_trainer *t;
    char *a; /* prefix of a checkpoint after one step */
    char sha_a[65], sha_b[65]; /* of the weights then, and after two */
} tiny;

static mf_dataset *points(void)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 8, 3 }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ 8 }, 1, &label));
    for (int i = 0; i < 24; i++)
        ((float *)mf_tensor_data(x))[i] = (float)(i * 7 % 5) - 2.0f;
    for (int i = 0; i < 8; i++)
        ((int32_t *)mf_tensor_data(label))[i] = i % 2;
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static void steps(tiny *s, int64_t n)
{
    T_OK(mf_fit(s->t, s->set, NULL, &(mf_fit_options){ .steps = n, .batch = 4 }));
}

static void begin(tiny *s)
{
    mf_output x;

    mf_log_set_level(MF_LOG_ERROR); /* otherwise each damage prints a line */
    T_TRUE(mkdtemp(dir) != NULL);
    s->set = points();
    T_OK(mf_model_new(&s->model));
    x = mf_model_input(s->model, "x", MF_DTYPE_F32, (int64_t[]){ 3 }, 1);
    mf_model_output(s->model, mf_layer(s->model, "Dense", MF_IN(x), "units=2"));
    T_OK(mf_model_compile(s->model, &(mf_compile_options){ .optimizer = "momentum", .threads = 1 },
                          &s->t));
    steps(s, 1);
    T_OK(mf_trainer_sha256(s->t, s->sha_a));
    T_OK(mf_checkpoints_prefix(dir, 1, &s->a));
    T_OK(mf_trainer_save(s->t, s->a));
    steps(s, 2);
    T_OK(mf_trainer_sha256(s->t, s->sha_b));
    T_TRUE(strcmp(s->sha_a, s->sha_b) != 0);
}

static void end(tiny *s)
{
    char command[128];

    mf_trainer_free(s->t);
    mf_model_free(s->model);
    mf_dataset_unref(s->set);
    mf_free(s->a);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    T_EQ(system(command), 0);
}

/* Without syncing, which mf_file_write() does: that would take a thousand times as long. */
static void put(const char *path, const char *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    T_TRUE(f != NULL);
    T_EQ(fwrite(data, 1, len, f), len);
    T_EQ(fclose(f), 0);
}

static const char *file_of(const char *prefix, const char *ending)
{
    static char path[192];

    (void)snprintf(path, sizeof path, "%s%s", prefix, ending);
    return path;
}

/* Every cut and every flipped bit of one file of a checkpoint, then the file as it was. */
static void damage(tiny *s, const char *prefix, const char *ending,
                   void (*look)(tiny *s, const char *what))
{
    const int64_t since = mf_clock_ns();
    char *data, what[64];
    size_t len;

    T_OK(mf_file_read(file_of(prefix, ending), 1 << 20, &data, &len));
    for (size_t i = 0; i < len; i++) {
        put(file_of(prefix, ending), data, i);
        (void)snprintf(what, sizeof what, "%s cut to %zu bytes", ending, i);
        look(s, what);
    }
    for (size_t i = 0; i < 8 * len; i++) {
        data[i / 8] ^= (char)(1 << i % 8);
        put(file_of(prefix, ending), data, len);
        (void)snprintf(what, sizeof what, "%s with bit %zu flipped", ending, i);
        look(s, what);
        data[i / 8] ^= (char)(1 << i % 8);
    }
    put(file_of(prefix, ending), data, len);
    printf("%s: %zu cuts and %zu flipped bits, %.2f ms each\n", ending, len, 8 * len,
           (double)(mf_clock_ns() - since) * 1e-6 / (double)(9 * len));
    mf_free(data);
}

/* ---- reading ---- */

static bool is_whole(const char *prefix)
{
    mf_tensors *file;
    bool whole = true;

    if (mf_tensors_open(prefix, &file) != MF_OK)
        return false;
    for (int64_t i = 0; i < mf_tensors_count(file); i++) {
        mf_tensor t = { 0 };

        whole = mf_tensors_read(file, i, &t) == MF_OK && whole;
        mf_tensor_clear(&t);
    }
    mf_tensors_close(file);
    return whole;
}

/* All tensors of the checkpoint have the bytes of the untouched copy. */
static bool is_same(const char *prefix, const char *copy)
{
    mf_tensors *x, *y;
    bool same;

    T_OK(mf_tensors_open(prefix, &x));
    T_OK(mf_tensors_open(copy, &y));
    same = mf_tensors_count(x) == mf_tensors_count(y);
    for (int64_t i = 0; same && i < mf_tensors_count(x); i++) {
        mf_tensor a = { 0 }, b = { 0 };

        T_OK(mf_tensors_read(x, i, &a));
        T_OK(mf_tensors_read(y, i, &b));
        same = strcmp(mf_tensors_name(x, i), mf_tensors_name(y, i)) == 0 && a.dtype == b.dtype &&
               mf_shape_equal(&a.shape, &b.shape) &&
               (a.dtype == MF_DTYPE_STRING ||
                memcmp(a.data, b.data, (size_t)a.count * mf_dtype_size(a.dtype)) == 0);
        mf_tensor_clear(&a);
        mf_tensor_clear(&b);
    }
    mf_tensors_close(x);
    mf_tensors_close(y);
    return same;
}

static void look_at_tensors(tiny *s, const char *what)
{
    if (is_whole(s->a) && !is_same(s->a, file_of(dir, "/copy")))
        T_FAIL("%s: other values are read", what);
}

MF_TEST(damage_is_detected_or_has_no_effect)
{
    tiny s = { 0 };

    begin(&s);
    T_OK(mf_trainer_restore(s.t, s.a));
    T_OK(mf_trainer_save(s.t, file_of(dir, "/copy")));
    T_TRUE(is_whole(s.a) && is_same(s.a, file_of(dir, "/copy")));
    for (int f = 0; f < MF_COUNT(files); f++)
        damage(&s, s.a, files[f], look_at_tensors);
    end(&s);
}

/* ---- restoring ---- */

static void look_at_restore(tiny *s, const char *what)
{
    const mf_status st = mf_trainer_restore(s->t, s->a);
    char sha[65];

    T_OK(mf_trainer_sha256(s->t, sha));
    if (strcmp(sha, st == MF_OK ? s->sha_a : s->sha_b) != 0 ||
        mf_trainer_step(s->t) != (st == MF_OK ? 1 : 2))
        T_FAIL("%s: %s, but other values", what, st == MF_OK ? "restored" : "refused");
    if (st == MF_OK)
        steps(s, 2);
}

MF_TEST(damage_is_never_restored)
{
    tiny s = { 0 };

    begin(&s);
    for (int f = 0; f < MF_COUNT(files); f++)
        damage(&s, s.a, files[f], look_at_restore);
    end(&s);
}

/* ---- the checkpoint before ---- */

static void look_at_folder(tiny *s, const char *what)
{
    char sha[65], *prefix;
    int64_t step;

    T_OK(mf_checkpoints_restore(dir, s->t, &prefix));
    T_TRUE(prefix != NULL);
    T_OK(mf_trainer_sha256(s->t, sha));
    step = mf_trainer_step(s->t);
    if ((step != 1 && step != 2) || strcmp(sha, step == 1 ? s->sha_a : s->sha_b) != 0 ||
        (step == 1) != (strcmp(prefix, s->a) == 0))
        T_FAIL("%s: step %lld of %s, with other values", what, (long long)step, prefix);
    mf_free(prefix);
}

MF_TEST(damage_makes_a_folder_use_the_previous_checkpoint)
{
    tiny s = { 0 };
    char *b;

    begin(&s);
    T_OK(mf_checkpoints_prefix(dir, 2, &b));
    T_OK(mf_trainer_save(s.t, b));
    for (int f = 0; f < MF_COUNT(files); f++)
        damage(&s, b, files[f], look_at_folder);
    T_OK(mf_trainer_restore(s.t, b));
    mf_free(b);
    end(&s);
}

/* The data of one checkpoint under the index of another. */
MF_TEST(damage_by_files_of_another_step_is_detected)
{
    tiny s = { 0 };
    char *b, *data, sha[65], *prefix;
    size_t len;

    begin(&s);
    T_OK(mf_checkpoints_prefix(dir, 2, &b));
    T_OK(mf_trainer_save(s.t, b));
    T_OK(mf_file_read(file_of(s.a, files[1]), 1 << 20, &data, &len));
    put(file_of(b, files[1]), data, len);
    T_EQ(mf_trainer_restore(s.t, b), MF_DATA_LOSS);
    T_OK(mf_checkpoints_restore(dir, s.t, &prefix));
    T_OK(mf_trainer_sha256(s.t, sha));
    T_STREQ(prefix, s.a);
    T_STREQ(sha, s.sha_a);
    mf_free(prefix);
    mf_free(data);
    mf_free(b);
    end(&s);
}
