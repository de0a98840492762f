/* SPDX-License-Identifier: Apache-2.0 */
/* source_csv.c - text tables: all columns except the label become one float vector, x. */
#include "data/arrays.h"
#include "data/class_labels.h"
#include "data/match.h"
#include "data/source.h"
#include "formats/csv.h"
#include "formats/number.h"
#include "formats/stream.h"
#include "proto/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { IGNORED = -1 };

typedef struct source_csv_table {
    const mf_options *o;
    const mf_expected *expected;
    const mf_schema_column *known; /* "x" of the model; NULL: no model */
    char delimiter;
    float missing; /* replaces a cell without a number, if requested */
    int64_t width; /* cells per row; 0: not known yet */
    int64_t label; /* index of the label; -1: none */
    int64_t features; /* cells per row without the label */
    int64_t *places; /* by cell: index in x; IGNORED: the label */
    char **names; /* by index in x, from the header; NULL: no header */
    char **cell_names; /* by cell, from the header, for messages; NULL: no header */
    mf_buf x; /* floats, `features` per row */
    mf_buf labels; /* NUL-terminated texts */
    mf_buf lines; /* int64_t: line number of each row in its file */
    mf_buf starts; /* int64_t: first row of each file */
    mf_paths files;
    int64_t rows;
} source_csv_table;

/* ---- the first row ---- */

static bool is_field(const mf_schema_column *known, const char *name)
{
    for (int64_t i = 0; known && known->fields && i < known->n_fields; i++) {
        if (strcmp(known->fields[i], name) == 0)
            return true;
    }
    return false;
}

/* A column with a common label name that is not a field of the model. */
static int64_t usual_label(const source_csv_table *t, const mf_csv *c)
{
    static const char *const usual[] = { "label", "class", "target", "y" };

    for (int k = 0; k < MF_COUNT(usual); k++) {
        for (int64_t i = 0; i < c->n_cells; i++) {
            if (strcmp(c->cells[i].data, usual[k]) == 0 && !is_field(t->known, usual[k]))
                return i;
        }
    }
    return -1;
}

/* Data for prediction may lack the label column. */
static bool may_lack_label(const source_csv_table *t, const mf_csv *c, bool header)
{
    if (!t->expected->label_optional)
        return false;
    return header || !t->known || (t->known->is.rank == 1 && c->n_cells == t->known->is.dims[0]);
}

/* Number of numeric cells in the first row, without the label. */
static int64_t count_numbers(const mf_csv *c, int64_t label)
{
    int64_t n = 0;
    float value;

    for (int64_t i = 0; i < c->n_cells; i++)
        n += i != label && mf_number_float(c->cells[i].data, c->cells[i].len, &value);
    return n;
}

/* A first row of numbers and at most a class is probably not a header. */
static const char *without_header(const mf_csv *c, bool header)
{
    return header && c->n_cells > 1 && count_numbers(c, -1) >= c->n_cells - 1
               ? "; if the first row is not a header, set header=false and give the label by its "
                 "number"
               : "";
}

/* Hint for a row in one cell that contains another delimiter. */
static const char *other_delimiter(const mf_csv *c)
{
    static const char *const fixes[] = { "; if ';' separates its columns, set delimiter=;",
                                         "; if a tab separates its columns, set delimiter=tab",
                                         "; if '|' separates its columns, set delimiter=|" };
    static const char others[] = ";\t|";

    for (int i = 0; i < MF_COUNT(fixes) && c->n_cells == 1; i++) {
        if (strchr(c->cells[0].data, others[i]))
            return fixes[i];
    }
    return "";
}

static mf_status refuse_label(const mf_csv *c, bool header, const char *wanted)
{
    mf_buf names = { 0 };
    mf_status st;

    for (int64_t i = 0; header && i < c->n_cells; i++)
        mf_buf_printf(&names, "%s%s", i > 0 ? ", " : "; its columns are ", c->cells[i].data);
    st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no column '%s'%.300s%s%s", c->name, wanted,
                 names.data ? names.data : "", without_header(c, header), other_delimiter(c));
    mf_buf_deinit(&names);
    return st;
}

/* By name in the header, or by number; negative numbers count from the end. */
static mf_status find_label(const source_csv_table *t, const mf_csv *c, bool header, int64_t *out)
{
    const char *wanted = mf_options_string(t->o, "label");
    const bool given = mf_options_given(t->o, "label");

    *out = header && !given ? usual_label(t, c) : -1;
    if (!given || strcmp(wanted, "none") == 0)
        return MF_OK;
    for (int64_t i = 0; header && i < c->n_cells && *out < 0; i++)
        *out = strcmp(c->cells[i].data, wanted) == 0 ? i : -1;
    if (*out >= 0)
        return MF_OK;
    if (mf_number_int(wanted, strlen(wanted), out)) {
        if (!header && may_lack_label(t, c, header)) {
            *out = -1;
            return MF_OK;
        }
        *out += *out < 0 ? c->n_cells : 0;
        if (*out >= 0 && *out < c->n_cells)
            return MF_OK;
    }
    *out = -1;
    return may_lack_label(t, c, header) ? MF_OK : refuse_label(c, header, wanted);
}

static mf_status keep_header(source_csv_table *t, const mf_csv *c)
{
    t->cell_names = mf_calloc(c->n_cells, sizeof *t->cell_names);
    t->names = mf_calloc(t->features + 1, sizeof *t->names);
    if (!t->cell_names || !t->names)
        return MF_NOMEM("a table");
    for (int64_t i = 0; i < c->n_cells; i++) {
        t->cell_names[i] = mf_strdup(c->cells[i].data);
        if (!t->cell_names[i])
            return MF_NOMEM("a table");
        if (t->places[i] != IGNORED)
            t->names[t->places[i]] = t->cell_names[i];
    }
    return MF_OK;
}

static mf_status refuse_field(const mf_csv *c, const char *lacks, const char *more)
{
    if (lacks)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%s' has no column '%.100s', which the model was trained on%s", c->name,
                       lacks, without_header(c, true));
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%s' has a column '%.100s', which the model was not trained on; if it "
                   "is the label, set label=%.100s",
                   c->name, more, more);
}

/* Maps exactly the fields of the model, in any order. */
static mf_status source_csv_find_places(source_csv_table *t, const mf_csv *c)
{
    const mf_schema_column *x = t->known;
    mf_match_name *wanted = mf_calloc(x->n_fields + 1, sizeof *wanted);
    mf_match_name *given = mf_calloc(c->n_cells, sizeof *given);
    int64_t n = 0, lacks, more;
    mf_status st = wanted && given ? MF_OK : MF_NOMEM("a table");

    if (st == MF_OK) {
        for (int64_t f = 0; f < x->n_fields; f++)
            wanted[f] = (mf_match_name){ x->fields[f], f };
        for (int64_t i = 0; i < c->n_cells; i++) {
            if (i != t->label)
                given[n++] = (mf_match_name){ c->cells[i].data, i };
        }
        mf_match(wanted, x->n_fields, given, n, t->places, &lacks, &more);
        if (lacks >= 0 || more >= 0)
            st = refuse_field(c, lacks >= 0 ? x->fields[lacks] : NULL,
                              more >= 0 ? c->cells[more].data : NULL);
    }
    mf_free(wanted);
    mf_free(given);
    return st;
}

/* 0, 1, 2 or 1, 2, 3: column names that programs generate. */
static bool names_count(const mf_csv *c)
{
    int64_t first, v;

    if (!mf_number_int(c->cells[0].data, c->cells[0].len, &first) || first < 0 || first > 1)
        return false;
    for (int64_t i = 1; i < c->n_cells; i++) {
        if (mf_number_int(c->cells[i].data, c->cells[i].len, &v) && v != first + i)
            return false;
    }
    return true;
}

/* A first sample taken for a header would be lost. A label found by its name proves that there is a
 * header. */
static mf_status check_is_header(const source_csv_table *t, const mf_csv *c)
{
    const char *wanted = mf_options_string(t->o, "label");
    const bool by_number = t->label < 0 || (mf_options_given(t->o, "label") &&
                                            strcmp(c->cells[t->label].data, wanted) != 0);

    if (!by_number || mf_options_given(t->o, "header") || t->features < 1 || names_count(c) ||
        count_numbers(c, t->label) < t->features)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "'%s': the first row has numbers: '%.40s' ...; set header=false if it is a "
                   "sample, or header=true if these are names",
                   c->name, c->cells[t->label == 0].data);
}

/* A whole row in one cell: there is only a label, or a cell that is not a number. */
static mf_status check_delimiter(const mf_csv *c)
{
    const char *fix = other_delimiter(c);

    return fix[0] ? MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has one column, '%.100s'%s", c->name,
                            c->cells[0].data, fix)
                  : MF_OK;
}

static mf_status source_csv_begin(source_csv_table *t, const mf_csv *c, bool header)
{
    int64_t place = 0;

    t->width = c->n_cells;
    MF_TRY(find_label(t, c, header, &t->label));
    MF_TRY(check_delimiter(c));
    t->features = t->width - (t->label >= 0);
    if (header)
        MF_TRY(check_is_header(t, c));
    t->places = mf_calloc(t->width, sizeof *t->places);
    if (!t->places)
        return MF_NOMEM("a table");
    for (int64_t i = 0; i < t->width; i++)
        t->places[i] = i == t->label ? IGNORED : place++;
    if (header && t->known && t->known->fields)
        MF_TRY(source_csv_find_places(t, c));
    return header ? keep_header(t, c) : MF_OK;
}

/* Later files must have the same column names. */
static mf_status check_header(const source_csv_table *t, const mf_csv *c)
{
    for (int64_t i = 0; t->cell_names && i < c->n_cells && i < t->width; i++) {
        if (strcmp(t->cell_names[i], c->cells[i].data) != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'%s': column %lld is '%.100s', in '%s' it is '%.100s'", c->name,
                           (long long)i + 1, c->cells[i].data, t->files.paths[0], t->cell_names[i]);
    }
    return MF_OK;
}

/* ---- rows ---- */

/* Common notations of a missing number. */
static bool source_csv_is_missing(const mf_csv_cell *cell)
{
    static const char *const texts[] = { "", "nan", "na", "n/a", "null", "none" };

    for (int i = 0; i < MF_COUNT(texts); i++) {
        if (strcasecmp(cell->data, texts[i]) == 0)
            return true;
    }
    return false;
}

static const char *hint_of_cell(const source_csv_table *t, const mf_csv *c, bool missing)
{
    if (missing)
        return "; set missing=0 to read such cells as 0";
    if (!mf_options_bool(t->o, "header") && c->line - 1 == 1)
        return "'; if the first row is a header, set header=true";
    return "'";
}

static mf_status wrong_cell(const source_csv_table *t, const mf_csv *c, int64_t i)
{
    const mf_csv_cell *cell = &c->cells[i];
    const bool missing = source_csv_is_missing(cell);

    return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld, column %lld%s%.60s%s: %s%.60s%s", c->name,
                   (long long)c->line - 1, (long long)i + 1, t->cell_names ? " ('" : "",
                   t->cell_names ? t->cell_names[i] : "", t->cell_names ? "')" : "",
                   cell->len == 0 ? "the cell is empty"
                   : missing      ? "the number is missing: "
                                  : "not a number: '",
                   cell->data, hint_of_cell(t, c, missing));
}

static mf_status source_csv_read_number(const source_csv_table *t, const mf_csv *c, int64_t i,
                                        float *out)
{
    const mf_csv_cell *cell = &c->cells[i];
    const bool is_number = mf_number_float(cell->data, cell->len, out);

    if (is_number && isfinite(*out))
        return MF_OK;
    if (mf_options_given(t->o, "missing") &&
        (is_number ? isnan(*out) : source_csv_is_missing(cell))) {
        *out = t->missing;
        return MF_OK;
    }
    return wrong_cell(t, c, i);
}

static mf_status source_csv_add_row(source_csv_table *t, const mf_csv *c)
{
    const int64_t line = c->line - 1;
    float *to;

    if (c->n_cells != t->width)
        return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld: %lld cells instead of %lld", c->name,
                       (long long)line, (long long)c->n_cells, (long long)t->width);
    to = mf_buf_room(&t->x, (size_t)t->features * sizeof *to);
    if (!to)
        return MF_NOMEM("a table");
    for (int64_t i = 0; i < c->n_cells; i++) {
        if (i == t->label)
            mf_buf_bytes(&t->labels, c->cells[i].data, strlen(c->cells[i].data) + 1);
        else
            MF_TRY(source_csv_read_number(t, c, i, &to[t->places[i]]));
    }
    mf_buf_bytes(&t->lines, &line, sizeof line);
    t->rows++;
    return t->labels.failed || t->lines.failed ? MF_NOMEM("a table") : MF_OK;
}

static bool begins_with(const mf_buf *text, const char *bytes)
{
    return text->len >= 2 && memcmp(text->data, bytes, 2) == 0;
}

/* Names of classes and columns are written to JSON files, which are UTF-8. */
static mf_status check_encoding(const char *path, const mf_buf *text)
{
    const char *nul = text->len > 0 ? memchr(text->data, 0, text->len) : NULL;
    const size_t good = text->len > 0 ? mf_utf8_span(text->data, text->len) : 0;
    const size_t end = nul ? (size_t)(nul - text->data) : good;
    int64_t line = 1;

    if (begins_with(text, "\xff\xfe") || begins_with(text, "\xfe\xff"))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is UTF-16: save it as UTF-8", path);
    if (!nul && good == text->len)
        return MF_OK;
    for (size_t i = 0; i < end; i++)
        line += text->data[i] == '\n';
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%s', line %lld: %s: save the file as UTF-8", path,
                   (long long)line, nul ? "there is a NUL byte" : "this is not UTF-8");
}

static mf_status add_file(source_csv_table *t, const char *path, const mf_buf *text)
{
    const bool header = mf_options_bool(t->o, "header");
    bool first = true;
    mf_csv c;
    mf_status st;

    MF_TRY(check_encoding(path, text));
    mf_buf_bytes(&t->starts, &t->rows, sizeof t->rows);
    mf_csv_init(&c, path, text->data, text->len, t->delimiter);
    while ((st = mf_csv_next(&c)) == MF_OK) {
        if (first && t->width == 0)
            st = source_csv_begin(t, &c, header);
        else if (first && header)
            st = check_header(t, &c);
        if (st == MF_OK && !(first && header))
            st = source_csv_add_row(t, &c);
        first = false;
        if (st != MF_OK)
            break;
    }
    mf_csv_deinit(&c);
    return st == MF_OUT_OF_RANGE ? MF_OK : st;
}

static mf_status source_csv_read_files(source_csv_table *t, const char *pattern)
{
    mf_buf text = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_paths_glob(pattern, &t->files));
    for (int64_t i = 0; i < t->files.n; i++) {
        MF_TRY_TO(done, mf_file_unpack(t->files.paths[i], MF_DETECT, (size_t)1 << 36, &text));
        MF_TRY_TO(done, add_file(t, t->files.paths[i], &text));
    }
    if (t->rows == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no samples", pattern);
done:
    mf_buf_deinit(&text);
    return st;
}

/* ---- the set ---- */

/* Prepends "'FILE', line N: " to the error of a row. */
static mf_status wrong_row(const source_csv_table *t, int64_t row, mf_status st)
{
    const int64_t *starts = (const int64_t *)(const void *)t->starts.data;
    const int64_t *lines = (const int64_t *)(const void *)t->lines.data;
    int64_t file = t->files.n - 1;
    char text[64];

    while (file > 0 && starts[file] > row)
        file--;
    (void)snprintf(text, sizeof text, "', line %lld: ", (long long)lines[row]);
    (void)mf_error_wrap(st, text, "");
    (void)mf_error_wrap(st, t->files.paths[file], "");
    return mf_error_wrap(st, "'", "");
}

static mf_status source_csv_make_labels(const source_csv_table *t, mf_labels *out)
{
    const mf_schema_column *known = mf_schema_label(t->expected->schema);
    const char **texts = mf_calloc(t->rows, sizeof *texts), *at = t->labels.data;
    mf_status st;

    if (!texts)
        return MF_NOMEM("labels");
    for (int64_t i = 0; i < t->rows; i++) {
        texts[i] = at;
        at += strlen(at) + 1;
    }
    st = mf_labels_of_texts(texts, t->rows, mf_target_of(mf_options_string(t->o, "target"), known),
                            known, out);
    mf_free(texts);
    if (st != MF_INVALID_ARGUMENT)
        return st;
    return out->wrong >= 0 ? wrong_row(t, out->wrong, st) : mf_path_wrong(st, t->files.paths[0]);
}

static mf_status source_csv_make_set(const source_csv_table *t, mf_dataset **out)
{
    mf_rows rows[2] = { { .name = "x" }, { .name = "label" } };
    mf_labels labels = { 0 };
    mf_status st;

    if (t->features < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the table has no column besides the label");
    MF_TRY_TO(done,
              mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ t->rows, t->features }, 2, &rows[0].tensor));
    memcpy(mf_tensor_data(rows[0].tensor), t->x.data, t->x.len);
    if (t->label >= 0) {
        st = source_csv_make_labels(t, &labels);
        if (st == MF_INVALID_ARGUMENT && t->expected->label_optional)
            mf_labels_deinit(&labels); /* possibly empty: labels are not used here */
        else if (st != MF_OK)
            goto done;
        rows[1].tensor = labels.tensor;
        labels.tensor = NULL;
    }
    MF_TRY_TO(done, mf_arrays_new(rows, rows[1].tensor ? 2 : 1, out));
    MF_TRY_TO(done, mf_labels_apply(&labels, *out));
    if (t->names)
        MF_TRY_TO(done, mf_dataset_set_fields(*out, (const char *const *)t->names, t->features));
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

static void table_deinit(source_csv_table *t)
{
    for (int64_t i = 0; t->cell_names && i < t->width; i++)
        mf_free(t->cell_names[i]);
    mf_free(t->cell_names);
    mf_free(t->names);
    mf_free(t->places);
    mf_buf_deinit(&t->x);
    mf_buf_deinit(&t->labels);
    mf_buf_deinit(&t->lines);
    mf_buf_deinit(&t->starts);
    mf_paths_deinit(&t->files);
}

/* The setting; default for .tsv files: tab. */
static mf_status find_delimiter(const char *data, const mf_options *o, char *out)
{
    const char *text = mf_options_string(o, "delimiter");

    *out = text[0];
    if (strcmp(text, "\\t") == 0 || strcmp(text, "tab") == 0 ||
        (!mf_options_given(o, "delimiter") &&
         (mf_path_ends(data, ".tsv") || mf_path_ends(data, ".tsv.gz"))))
        *out = '\t';
    else if (strlen(text) != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "csv: the delimiter must be one character, or tab, not '%.20s'", text);
    return MF_OK;
}

/* Parsed as text: only here NaN is a valid number. */
static mf_status read_missing(const mf_options *o, float *out)
{
    const char *text = mf_options_string(o, "missing");

    if (mf_number_float(text, strlen(text), out))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "csv: missing is not a number: '%.60s'", text);
}

static mf_status csv_open(const char *data, const mf_options *o, const mf_expected *e,
                          mf_dataset **out)
{
    source_csv_table t = {
        .o = o, .expected = e, .known = mf_schema_find(e->schema, "x"), .label = -1
    };
    mf_status st;

    MF_TRY_TO(done, read_missing(o, &t.missing));
    MF_TRY_TO(done, find_delimiter(data, o, &t.delimiter));
    MF_TRY_TO(done, source_csv_read_files(&t, data));
    MF_TRY_TO(done, source_csv_make_set(&t, out));
done:
    table_deinit(&t);
    return st;
}

static const char *const csv_endings[] = { ".csv", ".csv.gz", ".tsv", ".tsv.gz", NULL };

const mf_source mf_source_csv = {
    .name = "csv",
    .summary = "text tables, with or without a header",
    .settings = "{label: string = 'label', header: bool = true, delimiter: string = ',', "
                "missing: string = '0', " MF_TARGETS "}",
    .open_for = csv_open,
    .endings = csv_endings,
};
