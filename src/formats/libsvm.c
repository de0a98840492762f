/* SPDX-License-Identifier: Apache-2.0 */
/* libsvm.c - parses lines of LIBSVM files. */
#include "formats/libsvm.h"

#include "base/mem.h"
#include "formats/number.h"

#include <string.h>

typedef struct libsvm_cursor {
    const char *name, *at, *end; /* end of the line */
    int64_t line;
} libsvm_cursor;

void mf_libsvm_deinit(mf_libsvm *s)
{
    mf_free(s->labels);
    mf_free(s->starts);
    mf_free(s->ids);
    mf_free(s->values);
    *s = (mf_libsvm){ 0 };
}

static mf_status libsvm_wrong(const libsvm_cursor *c, const char *what)
{
    const size_t n = (size_t)(c->end - c->at);

    return MF_FAIL(MF_DATA_LOSS, "'%s', line %lld: %s at \"%.*s\"", c->name, (long long)c->line,
                   what, (int)(n < 30 ? n : 30), c->at);
}

static void libsvm_skip_blanks(libsvm_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static size_t word(const libsvm_cursor *c, char until)
{
    const char *p = c->at;

    while (p < c->end && *p != ' ' && *p != '\t' && *p != '\r' && *p != until)
        p++;
    return (size_t)(p - c->at);
}

static mf_status libsvm_read_pair(libsvm_cursor *c, mf_libsvm *s, int64_t row_start)
{
    size_t n = word(c, ':');
    int64_t id;
    float value;

    if (c->at + n == c->end || c->at[n] != ':')
        return libsvm_wrong(c, "no index:value");
    if (!mf_number_int(c->at, n, &id) || id < 0 || id > INT32_MAX)
        return libsvm_wrong(c, "no index");
    if (s->pairs > row_start && id <= s->ids[s->pairs - 1])
        return libsvm_wrong(c, "indices are not ascending");
    c->at += n + 1;
    n = word(c, 0);
    if (!mf_number_float(c->at, n, &value))
        return libsvm_wrong(c, "no value");
    c->at += n;
    MF_TRY(mf_grow(&s->ids, &s->cap_ids, s->pairs + 1, sizeof *s->ids));
    MF_TRY(mf_grow(&s->values, &s->cap_values, s->pairs + 1, sizeof *s->values));
    s->ids[s->pairs] = (int32_t)id;
    s->values[s->pairs++] = value;
    return MF_OK;
}

static mf_status libsvm_read_row(libsvm_cursor *c, mf_libsvm *s)
{
    const int64_t start = s->pairs;
    const size_t n = word(c, 0);
    float label;

    if (!mf_number_float(c->at, n, &label))
        return libsvm_wrong(c, "no label");
    c->at += n;
    for (libsvm_skip_blanks(c); c->at < c->end; libsvm_skip_blanks(c))
        MF_TRY(libsvm_read_pair(c, s, start));
    MF_TRY(mf_grow(&s->labels, &s->cap_labels, s->rows + 1, sizeof *s->labels));
    MF_TRY(mf_grow(&s->starts, &s->cap_starts, s->rows + 2, sizeof *s->starts));
    s->starts[0] = 0;
    s->labels[s->rows++] = label;
    s->starts[s->rows] = s->pairs;
    s->most = s->pairs - start > s->most ? s->pairs - start : s->most;
    return MF_OK;
}

mf_status mf_libsvm_decode(const char *name, const char *text, size_t len, mf_libsvm *out)
{
    const char *end = text + len;
    libsvm_cursor c = { .name = name };

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        const char *comment = memchr(text, '#', (size_t)(stop - text));

        c.at = text;
        c.end = comment ? comment : stop;
        c.line++;
        libsvm_skip_blanks(&c);
        if (c.at < c.end)
            MF_TRY(libsvm_read_row(&c, out));
        text = newline ? newline + 1 : end;
    }
    return MF_OK;
}
