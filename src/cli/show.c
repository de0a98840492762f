/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - prints tensors in NumPy's format or as JSON, and parses them from text. */
#include "cli/show.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOW_ALL = 1000, EDGE = 3, CELL = 512, CELL_STRING = 60 };

/* The shortest text that reads back as the same number, with at most `digits` digits; 30 rather
 * than 3e+01. */
static void float_text(double v, bool is_double, int digits, char *text, size_t size)
{
    for (int p = 1; p <= digits; p++) {
        (void)snprintf(text, size, "%.*g", p, v);
        if ((is_double ? strtod(text, NULL) == v : strtof(text, NULL) == (float)v) &&
            (fabs(v) >= 1e8 || !strchr(text, '+')))
            return;
    }
}

static void real_text(double v, mf_dtype dtype, bool json, char *text, size_t size)
{
    const bool is_double = dtype == MF_DTYPE_F64 || dtype == MF_DTYPE_C128;

    if (!isfinite(v))
        (void)snprintf(text, size, "%s%s%s", json ? "\"" : "",
                       isnan(v) ? "nan"
                       : v < 0  ? "-inf"
                                : "inf",
                       json ? "\"" : "");
    else
        float_text(v, is_double, json ? (is_double ? 17 : 9) : 8, text, size);
    if (!json && isfinite(v) && !strpbrk(text, ".en"))
        (void)strncat(text, ".", size - strlen(text) - 1);
}

static void complex_text(const mf_tensor *t, int64_t i, bool json, char *text, size_t size)
{
    const double im = t->dtype == MF_DTYPE_C64 ? (double)((const float *)t->data)[2 * i + 1]
                                               : ((const double *)t->data)[2 * i + 1];
    char a[64], b[64];

    real_text(mf_tensor_float_at(t, i), t->dtype, json, a, sizeof a);
    real_text(im, t->dtype, json, b, sizeof b);
    if (json)
        (void)snprintf(text, size, "[%s,%s]", a, b);
    else
        (void)snprintf(text, size, "%s%s%sj", a, b[0] == '-' ? "" : "+", b);
}

static void string_text(const mf_string *s, char *text, size_t size)
{
    const size_t n = s->len < CELL_STRING ? s->len : CELL_STRING;
    mf_buf buf = { 0 };

    mf_buf_quoted(&buf, s->data ? s->data : "", n);
    (void)snprintf(text, size, "%s%s", buf.data ? buf.data : "", n < s->len ? "..." : "");
    mf_buf_deinit(&buf);
}

/* Element i as text; strings only for text output (in JSON they may be long). */
static void cell_text(const mf_tensor *t, int64_t i, bool json, char text[CELL])
{
    if (t->dtype == MF_DTYPE_STRING)
        string_text((const mf_string *)t->data + i, text, CELL);
    else if (t->dtype == MF_DTYPE_BOOL)
        (void)snprintf(text, CELL, "%s",
                       mf_tensor_int_at(t, i) ? (json ? "true" : "True")
                       : json                 ? "false"
                                              : "False");
    else if (mf_dtype_is_float(t->dtype))
        real_text(mf_tensor_float_at(t, i), t->dtype, json, text, CELL);
    else if (mf_dtype_is_complex(t->dtype))
        complex_text(t, i, json, text, CELL);
    else if (t->dtype == MF_DTYPE_U64)
        (void)snprintf(text, CELL, "%" PRIu64, ((const uint64_t *)t->data)[i]);
    else if (!mf_dtype_is_plain(t->dtype))
        (void)snprintf(text, CELL, "%s", json ? "null" : "<object>");
    else
        (void)snprintf(text, CELL, "%" PRId64, mf_tensor_int_at(t, i));
}

/* ---- text ---- */

typedef struct tensor_printer {
    const mf_tensor *t;
    mf_buf *out; /* NULL: only measure the width */
    bool cut; /* omit the middle of long dimensions */
    int left, right; /* largest width before the decimal point, and from it on */
} tensor_printer;

static void show_cell(tensor_printer *s, int64_t i)
{
    char text[CELL];
    const char *point;
    int left, right;

    cell_text(s->t, i, false, text);
    point = mf_dtype_is_float(s->t->dtype) ? strchr(text, '.') : NULL;
    right = point ? (int)strlen(point) : 0;
    left = (int)strlen(text) - right;
    if (s->out)
        mf_buf_printf(s->out, "%*s%s%*s", s->left - left, "", text, s->right - right, "");
    s->left = left > s->left ? left : s->left;
    s->right = right > s->right ? right : s->right;
}

static void show_break(const tensor_printer *s, int axis)
{
    if (!s->out)
        return;
    if (axis == s->t->shape.rank - 1) {
        mf_buf_str(s->out, " ");
        return;
    }
    for (int i = axis; i < s->t->shape.rank - 1; i++)
        mf_buf_str(s->out, "\n");
    mf_buf_printf(s->out, "%*s", axis + 1, "");
}

/* The elements of dims[axis..) from element `at` on. The recursion is at most MF_MAX_RANK deep. */
static void show_axis(tensor_printer *s, int axis, int64_t at)
{
    const int64_t n = axis < s->t->shape.rank ? s->t->shape.dims[axis] : 0;
    const int64_t step = mf_shape_span(&s->t->shape, axis + 1, s->t->shape.rank);

    if (axis >= s->t->shape.rank) {
        show_cell(s, at);
        return;
    }
    if (s->out)
        mf_buf_str(s->out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            show_break(s, axis);
        if (s->cut && n > 2 * EDGE && i == EDGE) {
            if (s->out)
                mf_buf_str(s->out, "...");
            i = n - EDGE - 1;
        } else {
            show_axis(s, axis + 1, at + i * step);
        }
    }
    if (s->out)
        mf_buf_str(s->out, "]");
}

void mf_show_text(const mf_tensor *t, mf_buf *out)
{
    tensor_printer s = { .t = t, .cut = t->count > SHOW_ALL };

    if (t->count == 0 && t->shape.rank > 0) {
        mf_buf_str(out, "[]");
        return;
    }
    show_axis(&s, 0, 0); /* measures the width */
    s.out = out;
    show_axis(&s, 0, 0);
}

/* ---- JSON ---- */

static void json_axis(const mf_tensor *t, int axis, int64_t at, mf_buf *out)
{
    const int64_t step = mf_shape_span(&t->shape, axis + 1, t->shape.rank);
    char text[CELL];

    if (axis >= t->shape.rank) {
        if (t->dtype == MF_DTYPE_STRING) {
            const mf_string *s = (const mf_string *)t->data + at;

            mf_buf_json(out, s->data ? s->data : "", s->len);
        } else {
            cell_text(t, at, true, text);
            mf_buf_str(out, text);
        }
        return;
    }
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < t->shape.dims[axis]; i++) {
        if (i > 0)
            mf_buf_str(out, ",");
        json_axis(t, axis + 1, at + i * step, out);
    }
    mf_buf_str(out, "]");
}

void mf_show_json(const mf_tensor *t, int64_t max, mf_buf *out)
{
    if (t->count > max)
        mf_buf_str(out, "null");
    else if (t->count == 0)
        mf_buf_str(out, "[]"); /* for any shape: there may be a billion empty rows */
    else
        json_axis(t, 0, 0, out);
}

/* ---- parsing ---- */

typedef struct show_reader {
    const char *text, *at;
    double *values;
    int64_t n, cap;
    mf_dtype dtype;
    mf_shape shape; /* known dimensions; -1: not closed yet */
} show_reader;

static mf_status show_wrong(const show_reader *r, const char *what)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%.100s' is malformed at '%.20s': %s", r->text, r->at,
                   what);
}

static void show_skip(show_reader *r)
{
    r->at += strspn(r->at, " \t\n");
}

static bool show_take(show_reader *r, const char *token)
{
    const size_t n = strlen(token);

    show_skip(r);
    if (strncmp(r->at, token, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* Integers are read as doubles, which are exact up to 2^53. */
static bool show_fits(mf_dtype dtype, double v)
{
    const bool is_signed = dtype == MF_DTYPE_I8 || dtype == MF_DTYPE_I16 || dtype == MF_DTYPE_I32 ||
                           dtype == MF_DTYPE_I64;
    const int bits = (int)mf_dtype_size(dtype) * 8 - is_signed;
    const double max = ldexp(1, bits < 53 ? bits : 53);

    if (dtype == MF_DTYPE_BOOL)
        return v == 0 || v == 1;
    if (!mf_dtype_is_int(dtype))
        return true;
    return floor(v) == v && v >= (is_signed ? -max : 0) && v < max;
}

static mf_status show_read_number(show_reader *r, int depth)
{
    const char *from;
    double v = 0;
    char *end;

    if (r->shape.rank == MF_UNKNOWN_RANK)
        r->shape.rank = depth;
    if (r->shape.rank != depth)
        return show_wrong(r, "all numbers must have the same depth");
    show_skip(r);
    from = r->at;
    if (show_take(r, "true") || show_take(r, "True")) {
        v = 1;
    } else if (!show_take(r, "false") && !show_take(r, "False")) {
        v = strtod(r->at, &end);
        if (end == r->at)
            return show_wrong(r, "expected a number");
        r->at = end;
    }
    if (!show_fits(r->dtype, v))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%.*s is not a value of type %s", (int)(r->at - from),
                       from, mf_dtype_name(r->dtype));
    MF_TRY(mf_grow(&r->values, &r->cap, r->n + 1, sizeof *r->values));
    r->values[r->n++] = v;
    return MF_OK;
}

static mf_status show_read_value(show_reader *r, int depth)
{
    int64_t n = 0;

    if (!show_take(r, "["))
        return show_read_number(r, depth);
    if (depth >= MF_MAX_RANK)
        return show_wrong(r, "too many dimensions");
    if (r->shape.rank >= 0 && depth >= r->shape.rank)
        return show_wrong(r, "all numbers must have the same depth");
    while (!show_take(r, "]")) {
        if (n > 0 && !show_take(r, ","))
            return show_wrong(r, "expected ',' or ']'");
        MF_TRY(show_read_value(r, depth + 1));
        n++;
    }
    if (r->shape.rank == MF_UNKNOWN_RANK)
        r->shape.rank = depth + 1; /* [] or [[]] */
    if (r->shape.dims[depth] >= 0 && r->shape.dims[depth] != n)
        return show_wrong(r, "the lists have different lengths");
    r->shape.dims[depth] = n;
    return MF_OK;
}

mf_status mf_show_parse(const char *text, mf_dtype dtype, mf_tensor *out)
{
    show_reader r = { .text = text, .at = text, .dtype = dtype, .shape = MF_SHAPE_UNKNOWN };
    mf_status st = MF_OK;

    for (int i = 0; i < MF_MAX_RANK; i++)
        r.shape.dims[i] = MF_UNKNOWN_DIM;
    if (!mf_dtype_is_plain(dtype))
        st = MF_FAIL(MF_UNIMPLEMENTED, "values of type %s have no text format: use a file",
                     mf_dtype_name(dtype));
    if (st == MF_OK)
        st = show_read_value(&r, 0);
    show_skip(&r);
    if (st == MF_OK && *r.at)
        st = show_wrong(&r, "unexpected text after the value");
    if (st == MF_OK)
        st = mf_tensor_alloc(out, dtype, &r.shape);
    for (int64_t i = 0; st == MF_OK && i < r.n; i++)
        mf_tensor_put(out, i, r.values[i]);
    mf_free(r.values);
    return st;
}
