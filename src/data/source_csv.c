/* SPDX-License-Identifier: Apache-2.0 */
/* source_csv.c - tables as text: all columns but the label become one vector of floats, x. */
#include "data/arrays.h"
#include "data/labels.h"
#include "data/source.h"
#include "formats/csv.h"
#include "formats/number.h"
#include "formats/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    const mf_options *o;
    int64_t width; /* cells of a row; 0: not known yet */
    int64_t label; /* which one; -1: none */
    mf_buf x; /* floats, width (less the label) for each row */
    mf_buf labels; /* texts, each with its NUL */
    int64_t rows;
} table;

/* A name of the header, or a number, from the end where negative. */
static mf_status find_label(const table *t, const mf_csv *c, bool header, int64_t *out)
{
    static const char *const usual[] = { "label", "class", "target", "y" };
    const char *wanted = mf_options_string(t->o, "label");
    const bool given = mf_options_given(t->o, "label");

    *out = -1;
    for (int64_t i = 0; header && i < c->n_cells; i++) {
        for (int k = 0; !given && k < MF_COUNT(usual) && *out < 0; k++)
            *out = strcmp(c->cells[i].data, usual[k]) == 0 ? i : -1;
        if (given && strcmp(c->cells[i].data, wanted) == 0)
            *out = i;
    }
    if (!given || *out >= 0 || strcmp(wanted, "none") == 0)
        return MF_OK;
    if (mf_number_int(wanted, strlen(wanted), out)) {
        *out += *out < 0 ? c->n_cells : 0;
        if (*out >= 0 && *out < c->n_cells)
            return MF_OK;
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no column '%s'", c->name, wanted);
}

static mf_status read_number(const table *t, const mf_csv *c, int64_t i, float *out)
{
    const mf_csv_cell *cell = &c->cells[i];

    if (cell->len == 0 && mf_options_given(t->o, "missing")) {
        *out = (float)mf_options_float(t->o, "missing");
        return MF_OK;
    }
    if (mf_number_float(cell->data, cell->len, out))
        return MF_OK;
    return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld, column %lld: %s'%.60s'%s", c->name,
                   (long long)c->line - 1, (long long)i + 1,
                   cell->len ? "no number: " : "nothing: ", cell->data,
                   cell->len ? "" : "; say missing=0?");
}

static mf_status add_row(table *t, const mf_csv *c)
{
    if (c->n_cells != t->width)
        return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld: %lld cells instead of %lld", c->name,
                       (long long)c->line - 1, (long long)c->n_cells, (long long)t->width);
    for (int64_t i = 0; i < c->n_cells; i++) {
        float value;

        if (i == t->label) {
            mf_buf_bytes(&t->labels, c->cells[i].data, strlen(c->cells[i].data) + 1);
            continue;
        }
        MF_TRY(read_number(t, c, i, &value));
        mf_buf_bytes(&t->x, &value, sizeof value);
    }
    t->rows++;
    return t->x.failed || t->labels.failed ? MF_NOMEM("a table") : MF_OK;
}

static mf_status add_file(table *t, const char *path, const mf_buf *text)
{
    const bool header = mf_options_bool(t->o, "header");
    bool first = true;
    mf_csv c;
    mf_status st;

    mf_csv_init(&c, path, text->data, text->len, mf_options_string(t->o, "delimiter")[0]);
    while ((st = mf_csv_next(&c)) == MF_OK) {
        if (first && t->width == 0) {
            t->width = c.n_cells;
            st = find_label(t, &c, header, &t->label);
        }
        if (st == MF_OK && !(first && header))
            st = add_row(t, &c);
        first = false;
        if (st != MF_OK)
            break;
    }
    mf_csv_deinit(&c);
    return st == MF_OUT_OF_RANGE ? MF_OK : st;
}

static mf_status read_files(table *t, const char *pattern)
{
    mf_buf text = { 0 };
    mf_paths files;
    mf_status st;

    MF_TRY_TO(done, mf_paths_glob(pattern, &files));
    for (int64_t i = 0; i < files.n; i++) {
        MF_TRY_TO(done, mf_file_unpack(files.paths[i], MF_DETECT, (size_t)1 << 36, &text));
        MF_TRY_TO(done, add_file(t, files.paths[i], &text));
    }
    if (t->rows == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no samples", pattern);
done:
    mf_paths_deinit(&files);
    mf_buf_deinit(&text);
    return st;
}

static mf_status make_labels(const table *t, mf_labels *out)
{
    const char **texts = mf_calloc(t->rows, sizeof *texts), *at = t->labels.data;
    const bool numbers = strcmp(mf_options_string(t->o, "target"), "number") == 0;
    mf_status st;

    if (!texts)
        return MF_NOMEM("labels");
    for (int64_t i = 0; i < t->rows; i++) {
        texts[i] = at;
        at += strlen(at) + 1;
    }
    st = mf_labels_of_texts(texts, t->rows, numbers, out);
    mf_free(texts);
    return st;
}

static mf_status make_set(const table *t, mf_dataset **out)
{
    const int64_t features = t->width - (t->label >= 0);
    mf_rows rows[2] = { { .name = "x" }, { .name = "label" } };
    mf_labels labels = { 0 };
    mf_status st;

    if (features < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the table has nothing but a label");
    MF_TRY_TO(done,
              mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ t->rows, features }, 2, &rows[0].tensor));
    memcpy(mf_tensor_data(rows[0].tensor), t->x.data, t->x.len);
    if (t->label >= 0) {
        MF_TRY_TO(done, make_labels(t, &labels));
        rows[1].tensor = labels.tensor;
        labels.tensor = NULL;
    }
    MF_TRY_TO(done, mf_arrays_new(rows, t->label >= 0 ? 2 : 1, out));
    MF_TRY_TO(done, mf_labels_apply(&labels, *out));
done:
    mf_labels_deinit(&labels);
    for (int i = 0; i < MF_COUNT(rows); i++)
        mf_tensor_free(rows[i].tensor);
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
    return st;
}

static mf_status csv_open(const char *data, const mf_options *o, mf_dataset **out)
{
    table t = { .o = o, .label = -1 };
    mf_status st;

    if (strlen(mf_options_string(o, "delimiter")) != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "csv: the delimiter is one character");
    MF_TRY_TO(done, read_files(&t, data));
    MF_TRY_TO(done, make_set(&t, out));
done:
    mf_buf_deinit(&t.x);
    mf_buf_deinit(&t.labels);
    return st;
}

static const char *const csv_endings[] = { ".csv", ".csv.gz", NULL };

const mf_source mf_source_csv = {
    .name = "csv",
    .summary = "tables as text, with a header or not",
    .settings = "{label: string = 'label', header: bool = true, delimiter: string = ',', "
                "missing: float = 0.0, target: string in ['class','number'] = 'class'}",
    .open = csv_open,
    .endings = csv_endings,
};
