/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.c - prints tensors as text as TensorFlow does, and helpers of string ops. */
#include "ops/string/tensor_text.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one element ---- */

/* The shorter of two precisions that parses to the same number. */
static void tensor_text_print_float(double v, bool is_double, mf_buf *out)
{
    char text[64];

    if (isnan(v) || isinf(v)) {
        mf_buf_str(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    (void)snprintf(text, sizeof text, "%.*g", is_double ? DBL_DIG : FLT_DIG, v);
    if (is_double ? strtod(text, NULL) != v : (double)strtof(text, NULL) != v)
        (void)snprintf(text, sizeof text, "%.*g", is_double ? DBL_DIG + 2 : FLT_DIG + 3, v);
    mf_buf_str(out, text);
}

static void print_escaped(const mf_string *s, mf_buf *out)
{
    static const char named[] = { ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't' };

    for (size_t i = 0; i < s->len; i++) {
        const unsigned char c = (unsigned char)s->data[i];

        if (c == '"' || c == '\'' || c == '\\')
            mf_buf_printf(out, "\\%c", c);
        else if (c < sizeof named && named[c])
            mf_buf_printf(out, "\\%c", named[c]);
        else if (c < 0x20 || c == 0x7f) /* other bytes are UTF-8 */
            mf_buf_printf(out, "\\%03o", c);
        else
            mf_buf_bytes(out, &s->data[i], 1);
    }
}

static void tensor_text_print_element(const mf_tensor *t, int64_t i, bool quote, mf_buf *out)
{
    if (t->dtype == MF_DTYPE_STRING) {
        mf_buf_str(out, quote ? "\"" : "");
        print_escaped(&mf_strings(t)[i], out);
        mf_buf_str(out, quote ? "\"" : "");
    } else if (mf_dtype_is_float(t->dtype)) {
        tensor_text_print_float(mf_tensor_float_at(t, i), t->dtype == MF_DTYPE_F64, out);
    } else if (t->dtype == MF_DTYPE_U64) {
        mf_buf_printf(out, "%llu", (unsigned long long)((const uint64_t *)t->data)[i]);
    } else if (mf_dtype_is_int(t->dtype) || t->dtype == MF_DTYPE_BOOL) {
        mf_buf_printf(out, "%lld", (long long)mf_tensor_int_at(t, i));
    } else {
        mf_buf_str(out, "?");
    }
}

/* ---- flat ---- */

static void flat_dim(const mf_tensor *t, int dim, int64_t limit, int64_t *next, mf_buf *out)
{
    const int64_t n = t->shape.dims[dim];

    for (int64_t i = 0; i < n && *next < limit; i++) {
        if (dim < t->shape.rank - 1) {
            mf_buf_str(out, "[");
            flat_dim(t, dim + 1, limit, next, out);
            mf_buf_str(out, "]");
        } else {
            mf_buf_str(out, i ? " " : "");
            tensor_text_print_element(t, (*next)++, false, out);
            if (*next >= limit && i + 1 < n && dim > 0)
                mf_buf_str(out, "...");
        }
    }
}

void mf_text_flat(const mf_tensor *t, int64_t limit, mf_buf *out)
{
    int64_t next = 0;

    if (limit < 0 || limit > t->count)
        limit = t->count;
    if (t->shape.rank == 0 && limit > 0)
        tensor_text_print_element(t, 0, false, out);
    else if (t->count > 0)
        flat_dim(t, 0, limit, &next, out);
    if (t->count > limit)
        mf_buf_str(out, "...");
}

/* ---- grid ---- */

static void grid_gap(int dim, int rank, mf_buf *out)
{
    if (dim == rank - 1) {
        mf_buf_str(out, " ");
        return;
    }
    for (int i = dim; i < rank - 1; i++)
        mf_buf_str(out, "\n");
    for (int i = 0; i <= dim; i++)
        mf_buf_str(out, " ");
}

static void grid_dim(const mf_tensor *t, int dim, int64_t ends, int64_t at, mf_buf *out)
{
    const int rank = t->shape.rank;
    int64_t n, step;

    if (dim == rank) {
        tensor_text_print_element(t, at, true, out);
        return;
    }
    n = t->shape.dims[dim];
    step = mf_shape_span(&t->shape, dim + 1, rank);
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 || ends == 0)
            grid_gap(dim, rank, out);
        if (i == ends && n / 2 >= ends && n > 2 * ends) { /* the middle is abbreviated */
            mf_buf_str(out, "...");
            i = n - ends - 1;
            continue;
        }
        grid_dim(t, dim + 1, ends, at + i * step, out);
    }
    mf_buf_str(out, "]");
}

void mf_text_grid(const mf_tensor *t, int64_t ends, mf_buf *out)
{
    if (ends < 0 || ends > t->count)
        ends = t->count;
    if (t->dtype == MF_DTYPE_BOOL && ends == 0)
        return;
    if (t->shape.rank == 0 && ends == 0) {
        mf_buf_str(out, "...");
        return;
    }
    if (mf_dtype_is_complex(t->dtype) && t->shape.rank > 0) { /* not supported in grids */
        mf_buf_str(out, "[");
        for (int64_t i = 0; i < ends; i++)
            mf_buf_str(out, i ? " ?" : "?");
        mf_buf_str(out, ends < t->count ? "...]" : "]");
        return;
    }
    grid_dim(t, 0, ends, 0, out);
}

/* ---- string kernels ---- */

mf_status mf_string_take(mf_string *out, mf_buf *buf)
{
    mf_status st = MF_OK;

    if (buf->failed)
        return mf_buf_finish(buf);
    st = mf_string_set(out, buf->data ? buf->data : "", buf->len);
    buf->len = 0;
    return st;
}

mf_status mf_string_map(mf_kernel *k, mf_string_map_fn *fn)
{
    const mf_tensor *in = k->in[0];
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &in->shape, &out));
    for (int64_t i = 0; i < in->count; i++) {
        MF_TRY(mf_stop_after(20 + (int64_t)mf_strings(in)[i].len));
        MF_TRY(fn(k, &mf_strings(in)[i], &((mf_string *)out->data)[i]));
    }
    return MF_OK;
}
