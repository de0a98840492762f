/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - splits CSV and TSV text (RFC 4180) into cells, with positions for error messages. */
#include "formats/csv.h"

#include "base/mem.h"

#include <string.h>

void mf_csv_init(mf_csv *c, const char *name, const void *text, size_t len, char delimiter)
{
    *c = (mf_csv){ .at = text, .name = name, .delimiter = delimiter, .line = 1 };
    c->end = c->at + len;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        c->at += 3; /* the byte order mark that some programs write before UTF-8 */
}

void mf_csv_deinit(mf_csv *c)
{
    mf_free(c->cells);
    mf_buf_deinit(&c->text);
    *c = (mf_csv){ 0 };
}

static mf_status csv_wrong(const mf_csv *c, const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld: %s", c->name, (long long)c->line, what);
}

/* From after the opening quote to after the closing one; two quotes encode one. */
static mf_status quoted(mf_csv *c, int64_t *lines)
{
    while (c->at < c->end) {
        const char *quote = memchr(c->at, '"', (size_t)(c->end - c->at));

        if (!quote)
            break;
        for (const char *p = c->at; p < quote; p++)
            *lines += *p == '\n';
        mf_buf_bytes(&c->text, c->at, (size_t)(quote - c->at));
        c->at = quote + 1;
        if (c->at == c->end || *c->at != '"')
            return MF_OK;
        mf_buf_bytes(&c->text, "\"", 1);
        c->at++;
    }
    return csv_wrong(c, "unterminated quote");
}

static bool at_line_end(const mf_csv *c)
{
    return c->at == c->end || *c->at == '\n' ||
           (*c->at == '\r' && (c->at + 1 == c->end || c->at[1] == '\n'));
}

/* Padding around a cell: spaces, and tabs if they are not the delimiter. */
static bool csv_is_blank(const mf_csv *c, char x)
{
    return (x == ' ' || x == '\t') && x != c->delimiter;
}

static void csv_skip_blanks(mf_csv *c)
{
    while (c->at < c->end && csv_is_blank(c, *c->at))
        c->at++;
}

/* Cells are stored as offsets into the text, which may move while it grows. */
static mf_status one_cell(mf_csv *c, int64_t *lines)
{
    const size_t from = c->text.len;

    if (c->n_cells == MF_CSV_CELLS)
        return csv_wrong(c, "too many cells");
    MF_TRY(mf_grow(&c->cells, &c->cap_cells, c->n_cells + 1, sizeof *c->cells));
    csv_skip_blanks(c);
    if (c->at < c->end && *c->at == '"') {
        c->at++;
        MF_TRY(quoted(c, lines));
        csv_skip_blanks(c);
        if (!at_line_end(c) && *c->at != c->delimiter)
            return csv_wrong(c, "text after a closing quote");
    } else {
        const char *p = c->at, *end;

        while (!at_line_end(c) && *c->at != c->delimiter)
            c->at++;
        for (end = c->at; end > p && csv_is_blank(c, end[-1]);)
            end--;
        mf_buf_bytes(&c->text, p, (size_t)(end - p));
    }
    c->cells[c->n_cells++].len = c->text.len - from;
    mf_buf_bytes(&c->text, "", 1);
    return MF_OK;
}

static void skip_line_end(mf_csv *c)
{
    if (c->at < c->end && *c->at == '\r')
        c->at++;
    if (c->at < c->end && *c->at == '\n')
        c->at++;
}

mf_status mf_csv_next(mf_csv *c)
{
    const char *text;
    int64_t lines = 1;

    while (c->at < c->end && at_line_end(c)) {
        skip_line_end(c);
        c->line++;
    }
    c->n_cells = 0;
    mf_buf_clear(&c->text);
    if (c->at == c->end)
        return MF_FAIL(MF_OUT_OF_RANGE, "'%s' has no more rows", c->name);
    for (;;) {
        MF_TRY(one_cell(c, &lines));
        if (at_line_end(c))
            break;
        c->at++; /* the delimiter */
    }
    skip_line_end(c);
    c->line += lines;
    if (c->text.failed)
        return MF_NOMEM("a row");
    text = c->text.data;
    for (int64_t i = 0; i < c->n_cells; i++) {
        c->cells[i].data = text;
        text += c->cells[i].len + 1;
    }
    return MF_OK;
}
