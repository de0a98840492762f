/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - writes the samples of a data set as TFRecord files of tf.Examples. */
#include "data/convert.h"

#include "base/file.h"
#include "data/dataset.h"
#include "formats/example.h"
#include "formats/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Buffers for one sample, made once: the lists of the features point into them. */
typedef struct sample {
    const mf_dataset *set;
    mf_arena *arena;
    void *columns[MF_DATASET_COLUMNS];
    mf_feature features[2 * MF_DATASET_COLUMNS];
    mf_string raw[MF_DATASET_COLUMNS];
    int64_t *ints[MF_DATASET_COLUMNS]; /* for columns that are widened to int64 */
    int64_t n_features;
} sample;

static bool is_integer(mf_dtype t)
{
    return t == MF_DTYPE_I32 || t == MF_DTYPE_I64 || t == MF_DTYPE_BOOL;
}

static mf_status add_shape(sample *s, const mf_column *c)
{
    const char *name = mf_arena_printf(s->arena, "%s/shape", c->name);

    if (!name)
        return MF_NOMEM("a record");
    s->features[s->n_features++] =
        (mf_feature){ .name = name, .type = MF_DTYPE_I64, .n = c->rank, .ints = c->dims };
    return MF_OK;
}

static mf_status add_column(sample *s, int i)
{
    const mf_column *c = &s->set->columns[i];
    const int64_t count = (int64_t)(s->set->bytes[i] / mf_dtype_size(c->dtype));
    mf_feature *f = &s->features[s->n_features++];

    s->columns[i] = mf_arena_alloc(s->arena, (int64_t)s->set->bytes[i] + 1, 1);
    s->ints[i] = MF_ARENA_ARRAY(s->arena, int64_t, count);
    if (!s->columns[i] || !s->ints[i])
        return MF_NOMEM("a record");
    *f = (mf_feature){ .name = c->name, .n = count };
    if (c->dtype == MF_DTYPE_F32) {
        f->type = MF_DTYPE_F32;
        f->floats = s->columns[i];
        return MF_OK;
    }
    if (is_integer(c->dtype)) {
        f->type = MF_DTYPE_I64;
        f->ints = s->ints[i];
        return MF_OK;
    }
    s->raw[i] = (mf_string){ s->columns[i], s->set->bytes[i] };
    f->type = MF_DTYPE_STRING;
    f->n = 1;
    f->strings = &s->raw[i];
    return add_shape(s, c);
}

static void convert_widen(sample *s)
{
    for (int i = 0; i < s->set->n_columns; i++) {
        const mf_dtype t = s->set->columns[i].dtype;
        const int64_t n = (int64_t)(s->set->bytes[i] / mf_dtype_size(t));

        for (int64_t k = 0; is_integer(t) && k < n; k++)
            s->ints[i][k] = t == MF_DTYPE_I32   ? ((const int32_t *)s->columns[i])[k]
                            : t == MF_DTYPE_I64 ? ((const int64_t *)s->columns[i])[k]
                                                : ((const bool *)s->columns[i])[k];
    }
}

static mf_status write_samples(sample *s, mf_writer *w)
{
    mf_buf bytes = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; i < s->set->n_columns && st == MF_OK; i++)
        st = add_column(s, i);
    for (int64_t i = 0; i < s->set->count && st == MF_OK; i++) {
        mf_buf_clear(&bytes);
        MF_TRY_TO(done, mf_dataset_read(s->set, 0, i, s->columns));
        convert_widen(s);
        MF_TRY_TO(done, mf_example_encode(&(mf_example){ s->features, s->n_features }, &bytes));
        MF_TRY_TO(done, mf_record_write(w, bytes.data, bytes.len));
    }
done:
    mf_buf_deinit(&bytes);
    return st;
}

mf_status mf_dataset_to_records(const mf_dataset *set, const char *path, mf_compression compression)
{
    sample s = { .set = set, .arena = mf_arena_new() };
    mf_writer *w = NULL;
    char temporary[4096] = "";
    mf_status st = s.arena ? MF_OK : MF_NOMEM("a record");
    mf_status closed;

    MF_TRY_TO(done, st);
    if (snprintf(temporary, sizeof temporary, "%s.part", path) >= (int)sizeof temporary) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the path is too long");
        temporary[0] = 0;
        goto done;
    }
    MF_TRY_TO(done, mf_writer_open(temporary, compression, false, &w));
    MF_TRY_TO(done, write_samples(&s, w));
    MF_TRY_TO(done, mf_writer_flush(w, true));
done:
    closed = mf_writer_close(w);
    st = st == MF_OK ? closed : st;
    if (st == MF_OK && rename(temporary, path) != 0)
        st = mf_errno_status(errno, "create", path);
    if (st != MF_OK && temporary[0])
        unlink(temporary);
    mf_arena_free(s.arena);
    return st;
}
