/* SPDX-License-Identifier: Apache-2.0 */
/* source_libsvm.c - sparse samples as text: ids, values and labels. */
#include "data/arrays.h"
#include "data/class_labels.h"
#include "data/source.h"
#include "formats/libsvm.h"
#include "formats/stream.h"

#include <stdio.h>

enum { IDS, VALUES, LABEL, COLUMNS };

static mf_status source_libsvm_read_files(const char *pattern, mf_libsvm *text)
{
    mf_paths files;
    mf_buf bytes = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_paths_glob(pattern, &files));
    for (int64_t i = 0; i < files.n; i++) {
        MF_TRY_TO(done, mf_file_unpack(files.paths[i], MF_DETECT, (size_t)1 << 36, &bytes));
        MF_TRY_TO(done, mf_libsvm_decode(files.paths[i], bytes.data, bytes.len, text));
    }
    if (text->rows == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no samples", pattern);
done:
    mf_buf_deinit(&bytes);
    mf_paths_deinit(&files);
    return st;
}

/* Pads every row to the longest with ids -1 and values 0. */
static mf_status source_libsvm_pad(const mf_libsvm *s, int64_t width, int64_t base, mf_rows *rows)
{
    const int64_t dims[] = { s->rows, width };
    int32_t *ids;
    float *values;

    MF_TRY(mf_tensor_new(MF_DTYPE_I32, dims, 2, &rows[IDS].tensor));
    MF_TRY(mf_tensor_new(MF_DTYPE_F32, dims, 2, &rows[VALUES].tensor));
    ids = mf_tensor_data(rows[IDS].tensor);
    values = mf_tensor_data(rows[VALUES].tensor);
    for (int64_t r = 0; r < s->rows; r++) {
        const int64_t n = s->starts[r + 1] - s->starts[r];

        for (int64_t i = 0; i < width; i++) {
            const int64_t id = i < n ? s->ids[s->starts[r] + i] - base : -1;

            if (i < n && id < 0)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "sample %lld has the index 0, but indices start at 1: set base=0",
                               (long long)r);
            ids[r * width + i] = (int32_t)id;
            values[r * width + i] = i < n ? s->values[s->starts[r] + i] : 0;
        }
    }
    return MF_OK;
}

/* The setting, the model's width, or the longest row. */
static int64_t width_of(const mf_libsvm *s, const mf_options *o, const mf_expected *e)
{
    const mf_schema_column *ids = mf_schema_find(e->schema, "ids");

    if (ids && ids->is.rank == 1)
        return ids->is.dims[0];
    return mf_options_given(o, "width") ? mf_options_int(o, "width") : s->most;
}

static mf_status source_libsvm_make_labels(const char *data, const mf_libsvm *s,
                                           const mf_options *o, const mf_expected *e,
                                           mf_labels *out)
{
    const mf_schema_column *known = mf_schema_label(e->schema);
    const mf_target target = mf_target_of(mf_options_string(o, "target"), known);
    const mf_status st = mf_labels_of_numbers(s->labels, s->rows, target, known, out);
    char place[64];

    if (st != MF_INVALID_ARGUMENT)
        return st;
    if (out->wrong >= 0) {
        (void)snprintf(place, sizeof place, "sample %lld: ", (long long)out->wrong);
        (void)mf_error_wrap(st, place, "");
    }
    return mf_path_wrong(st, data);
}

static mf_status libsvm_open(const char *data, const mf_options *o, const mf_expected *e,
                             mf_dataset **out)
{
    mf_rows rows[COLUMNS] = { { .name = "ids" }, { .name = "values" }, { .name = "label" } };
    mf_libsvm s = { 0 };
    mf_labels labels = { 0 };
    int64_t width;
    mf_status st;

    MF_TRY_TO(done, source_libsvm_read_files(data, &s));
    width = width_of(&s, o, e);
    if (s.most > width) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s': a sample has %lld features, more than width=%lld",
                     data, (long long)s.most, (long long)width);
        goto done;
    }
    st = source_libsvm_pad(&s, width, mf_options_int(o, "base"), rows);
    if (st != MF_OK) {
        (void)mf_path_wrong(st, data);
        goto done;
    }
    MF_TRY_TO(done, source_libsvm_make_labels(data, &s, o, e, &labels));
    rows[LABEL].tensor = labels.tensor;
    labels.tensor = NULL;
    MF_TRY_TO(done, mf_arrays_new(rows, COLUMNS, out));
    MF_TRY_TO(done, mf_labels_apply(&labels, *out));
done:
    mf_labels_deinit(&labels);
    mf_libsvm_deinit(&s);
    for (int i = 0; i < COLUMNS; i++)
        mf_tensor_free(rows[i].tensor);
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
    return st;
}

static const char *const libsvm_endings[] = { ".libsvm", ".svm", ".libsvm.gz", ".svm.gz", NULL };

const mf_source mf_source_libsvm = {
    .name = "libsvm",
    .summary = "sparse samples as text, \"label index:value ...\"",
    .settings = "{base: int >= 0 = 1, width: int >= 1 = 1, " MF_TARGETS "}",
    .open_for = libsvm_open,
    .endings = libsvm_endings,
};
