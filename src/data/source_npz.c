/* SPDX-License-Identifier: Apache-2.0 */
/* source_npz.c - NumPy arrays: an archive whose arrays are the columns, or a single array. */
#include "base/file.h"
#include "data/arrays.h"
#include "data/source.h"
#include "formats/npy.h"
#include "formats/npz.h"

#include <stdio.h>
#include <string.h>

/* A column named label becomes int32; if it is [n,1], as in Keras, it becomes [n]. Images get a
 * channel dimension. Takes over `t`'s storage. */
static mf_status to_column(const char *name, mf_tensor *t, mf_tensor **out)
{
    const bool label = strcmp(name, "label") == 0;

    if (label && (mf_dtype_is_int(t->dtype) || t->dtype == MF_DTYPE_BOOL)) {
        if (t->shape.rank == 2 && t->shape.dims[1] == 1)
            t->shape.rank = 1;
        return mf_arrays_to_int32(t, out);
    }
    if (strcmp(name, "image") == 0 && t->dtype == MF_DTYPE_U8 && t->shape.rank == 3) {
        t->shape.dims[3] = 1;
        t->shape.rank = 4;
    }
    return mf_tensor_copy(t, out);
}

static mf_status source_npz_add(mf_npz *npz, const char *array, const char *column, mf_rows *rows)
{
    mf_tensor t = { 0 };
    mf_status st;

    rows->name = column;
    MF_TRY_TO(done, mf_npz_read(npz, array, (size_t)1 << 40, &t));
    MF_TRY_TO(done, to_column(column, &t, &rows->tensor));
done:
    mf_tensor_clear(&t);
    return st;
}

static bool source_npz_has(const mf_npz *npz, const char *name)
{
    for (int64_t i = 0; i < mf_npz_count(npz); i++) {
        if (strcmp(mf_npz_name(npz, i), name) == 0)
            return true;
    }
    return false;
}

/* x_train and y_train of Keras archives become image and label. */
static mf_status add_pair(mf_npz *npz, const char *part, mf_rows *rows, int *n)
{
    char x[16], y[16];

    (void)snprintf(x, sizeof x, "x_%s", part);
    (void)snprintf(y, sizeof y, "y_%s", part);
    if (!source_npz_has(npz, x) || !source_npz_has(npz, y))
        return MF_OK;
    *n = 2;
    MF_TRY(source_npz_add(npz, x, "image", &rows[0]));
    return source_npz_add(npz, y, "label", &rows[1]);
}

/* "column=array"; the text is allocated in the settings' arena. */
static mf_status add_named(mf_npz *npz, const char *text, mf_arena *arena, mf_rows *rows)
{
    const char *equal = strchr(text, '=');
    const char *column = equal ? mf_arena_strndup(arena, text, (size_t)(equal - text)) : text;

    return column ? source_npz_add(npz, equal ? equal + 1 : text, column, rows)
                  : MF_NOMEM("settings");
}

/* True for a label that is optional and absent. */
static bool source_npz_is_left_out(const mf_npz *npz, const char *text, const mf_expected *e)
{
    static const char label[] = "label=";
    const size_t n = sizeof label - 1;

    return e->label_optional && strncmp(text, label, n) == 0 && !source_npz_has(npz, text + n);
}

static mf_status source_npz_collect(mf_npz *npz, const mf_options *o, const mf_expected *e,
                                    mf_arena *arena, mf_rows *rows, int *n)
{
    const mf_attr *columns = mf_options_get(o, "columns");

    for (int64_t i = 0; i < columns->n; i++) {
        if (source_npz_is_left_out(npz, columns->strings[i].data, e))
            continue;
        if (*n == MF_DATASET_COLUMNS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many columns");
        MF_TRY(add_named(npz, columns->strings[i].data, arena, &rows[(*n)++]));
    }
    if (*n == 0)
        MF_TRY(add_pair(npz, mf_options_string(o, "part"), rows, n));
    for (int64_t i = 0; *n <= i && i < mf_npz_count(npz); i++) {
        if (*n == MF_DATASET_COLUMNS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "too many columns");
        MF_TRY(source_npz_add(npz, mf_npz_name(npz, i), mf_npz_name(npz, i), &rows[(*n)++]));
    }
    return MF_OK;
}

/* Prices stored as integers would make a class of every value up to the maximum. */
static mf_status check_are_classes(const mf_dataset *set)
{
    enum { MANY = 1000 };

    if (set->classes <= MANY || set->classes <= 2 * set->count)
        return MF_OK;
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "the labels of %lld samples are whole numbers up to %lld, which would be as many "
        "classes; store numbers to predict as floats",
        (long long)set->count, (long long)set->classes - 1);
}

static mf_status source_npz_make_set(mf_npz *npz, const mf_options *o, const mf_expected *e,
                                     mf_arena *arena, mf_rows *rows, int *n, mf_dataset **out)
{
    mf_status st;

    MF_TRY(source_npz_collect(npz, o, e, arena, rows, n));
    MF_TRY(mf_arrays_new(rows, *n, out));
    st = mf_arrays_count_classes(*out, "label");
    if (st == MF_OK)
        st = check_are_classes(*out);
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
    return st;
}

static mf_status source_npz_open(const char *data, const mf_options *o, const mf_expected *e,
                                 mf_dataset **out)
{
    mf_rows rows[MF_DATASET_COLUMNS] = { { 0 } };
    mf_arena *arena = mf_arena_new();
    mf_npz *npz = NULL;
    mf_status st = arena ? MF_OK : MF_NOMEM("settings");
    int n = 0;

    MF_TRY_TO(done, st);
    MF_TRY_TO(done, mf_npz_open(data, &npz));
    st = source_npz_make_set(npz, o, e, arena, rows, &n, out);
    if (st != MF_OK)
        (void)mf_path_wrong(st, data);
done:
    for (int i = 0; i < n; i++)
        mf_tensor_free(rows[i].tensor);
    mf_npz_close(npz);
    mf_arena_free(arena);
    return st;
}

static bool npz_has_test(const char *data, const mf_options *o)
{
    mf_npz *npz;
    bool found;

    if (mf_options_get(o, "columns")->n > 0 || mf_npz_open(data, &npz) != MF_OK)
        return false;
    found = source_npz_has(npz, "x_test") && source_npz_has(npz, "y_test");
    mf_npz_close(npz);
    return found;
}

static const char *const npz_endings[] = { ".npz", NULL };

const mf_source mf_source_npz = {
    .name = "npz",
    .summary = "archive of NumPy arrays, one per column",
    .settings = "{columns: list(string) = [], part: string in ['train','test'] = 'train'}",
    .open_for = source_npz_open,
    .has_test = npz_has_test,
    .endings = npz_endings,
};

/* ---- one array ---- */

static mf_status npy_open(const char *data, const mf_options *o, mf_dataset **out)
{
    mf_rows rows = { .name = mf_options_string(o, "name") };
    mf_tensor t = { 0 };
    char *bytes = NULL;
    mf_status st;
    size_t len;

    MF_TRY_TO(done, mf_file_read(data, (size_t)1 << 40, &bytes, &len));
    MF_TRY_TO(done, mf_npy_decode(bytes, len, &t));
    MF_TRY_TO(done, to_column(rows.name, &t, &rows.tensor));
    MF_TRY_TO(done, mf_arrays_new(&rows, 1, out));
done:
    mf_tensor_clear(&t);
    mf_tensor_free(rows.tensor);
    mf_free(bytes);
    return st;
}

static const char *const npy_endings[] = { ".npy", NULL };

const mf_source mf_source_npy = {
    .name = "npy",
    .summary = "one NumPy array, whose first dimension is the samples",
    .settings = "{name: string = 'x'}",
    .open = npy_open,
    .endings = npy_endings,
};
