/* SPDX-License-Identifier: Apache-2.0 */
/* array_util.c - reads small integer inputs (axes, paddings, indices), and infers shapes of array
 * ops. */
#include "ops/array/array_util.h"

#include "base/mem.h"
#include "ops/control/grad_util.h"

mf_status mf_ivec_read(const mf_tensor *t, int max, const char *what, mf_ivec *out)
{
    char text[MF_SHAPE_TEXT];

    if (t->shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a vector, got shape %s", what,
                       mf_shape_text(&t->shape, text));
    if (t->count > max)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s has %" PRId64 " elements; at most %d can be used",
                       what, t->count, max);
    out->n = (int)t->count;
    for (int i = 0; i < out->n; i++)
        out->v[i] = mf_index_at(t, i);
    return MF_OK;
}

mf_status mf_int_read(const mf_tensor *t, const char *what, int64_t *out)
{
    char text[MF_SHAPE_TEXT];

    *out = 0;
    if (t->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a scalar, got shape %s", what,
                       mf_shape_text(&t->shape, text));
    *out = mf_index_at(t, 0);
    return MF_OK;
}

mf_status mf_shape_read(const mf_tensor *t, const char *what, mf_shape *out)
{
    mf_ivec v;

    MF_TRY(mf_ivec_read(t, MF_MAX_RANK, what, &v));
    return mf_shape_from_dims(v.v, v.n, out);
}

mf_status mf_pairs_read(const mf_tensor *t, int n, const char *what, mf_pairs *out)
{
    char text[MF_SHAPE_TEXT];

    if (t->shape.rank != 2 || t->shape.dims[1] != 2 || t->shape.dims[0] != n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a matrix of shape [%d,2], got %s", what, n,
                       mf_shape_text(&t->shape, text));
    out->n = n;
    for (int d = 0; d < n; d++) {
        out->before[d] = mf_index_at(t, 2 * d);
        out->after[d] = mf_index_at(t, 2 * d + 1);
        if (out->before[d] < 0 || out->after[d] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be non-negative: %" PRId64 " %" PRId64,
                           what, out->before[d], out->after[d]);
    }
    return MF_OK;
}

mf_status mf_axis_read(int64_t axis, int rank, const char *what, int *out)
{
    *out = 0;
    if (!mf_axis_fix(axis, rank, out))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s %" PRId64 " is not in [%d, %d)", what, axis, -rank,
                       rank);
    return MF_OK;
}

mf_status mf_rank_check(int rank)
{
    if (rank > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the result would have rank %d; at most %d is supported", rank, MF_MAX_RANK);
    return MF_OK;
}

void mf_cells_zero(mf_dtype dtype, void *dst, int64_t at, int64_t n)
{
    if (n <= 0)
        return;
    if (mf_dtype_is_plain(dtype)) {
        const size_t cell = mf_dtype_cell(dtype);

        memset((char *)dst + (size_t)at * cell, 0, (size_t)n * cell);
    } else if (dtype == MF_DTYPE_STRING) {
        mf_string *s = dst;

        for (int64_t i = at; i < at + n; i++) {
            mf_free(s[i].data);
            s[i] = (mf_string){ 0 };
        }
    } else {
        for (int64_t i = at; i < at + n; i++) {
            mf_object_unref(((mf_object **)dst)[i]);
            ((mf_object **)dst)[i] = NULL;
        }
    }
}

/* The first cell, then copies of what is there: any cell size at memcpy's speed. */
static void fill_plain(char *to, int64_t n, size_t cell, const void *value)
{
    const size_t total = (size_t)n * cell;

    memcpy(to, value, cell);
    for (size_t done = cell; done < total;) {
        size_t step = done < 4096 ? done : 4096 / cell * cell; /* the source stays in cache */

        step = step < total - done ? step : total - done;
        memcpy(to + done, to, step);
        done += step;
    }
}

mf_status mf_cells_fill(mf_dtype dtype, void *dst, int64_t at, int64_t n, const void *value)
{
    const size_t cell = mf_dtype_cell(dtype);

    if (mf_dtype_is_plain(dtype)) {
        if (n > 0)
            fill_plain((char *)dst + (size_t)at * cell, n, cell, value);
        return MF_OK;
    }
    for (int64_t i = 0; i < n; i++)
        MF_TRY(mf_cells_copy(dtype, dst, at + i, value, 0, 1));
    return MF_OK;
}

void mf_cells_one(mf_dtype dtype, void *dst, int64_t at, int64_t n)
{
    const size_t cell = mf_dtype_cell(dtype);
    _Alignas(16) char value[16] = { 0 };
    mf_tensor one = { .dtype = dtype, .count = 1, .data = value };

    mf_tensor_put(&one, 0, 1);
    if (n > 0)
        fill_plain((char *)dst + (size_t)at * cell, n, cell, value);
}

mf_status mf_index_check(const mf_node *node, int output, int64_t value)
{
    if (mf_out_type(node, output) == MF_DTYPE_I32 && value > INT32_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s output type is 32-bit but the value is %" PRId64
                       "; set the attribute out_type to int64",
                       node->op_name, value);
    return MF_OK;
}

mf_status mf_infer_ints(mf_infer *in, int output, int rank, const int64_t *values, int n)
{
    mf_tensor t = { 0 };
    const mf_shape shape = rank == 0 ? MF_SCALAR : MF_SHAPE(n);
    mf_status st;

    in->out[output] = shape;
    st = mf_tensor_alloc(&t, mf_out_type(in->node, output), &shape);
    for (int i = 0; i < n && st == MF_OK; i++) {
        st = mf_index_check(in->node, output, values[i]);
        if (st == MF_OK)
            mf_index_put(&t, i, values[i]);
    }
    if (st == MF_OK)
        mf_infer_value(in, output, &t);
    mf_tensor_clear(&t);
    return st;
}

mf_output mf_grad_all_axes(mf_grad *g, mf_output x)
{
    return MF_G3("Range", mf_scalar(g->graph, MF_DTYPE_I32, 0), MF_G1("Rank", x),
                 mf_scalar(g->graph, MF_DTYPE_I32, 1));
}

mf_output mf_grad_dy_or_zeros(mf_grad *g, int i)
{
    return g->dy[i].node ? g->dy[i] : MF_G1("ZerosLike", g->y[i]);
}

mf_status mf_prepare_axis(mf_prepare *p)
{
    int64_t *axis = MF_ARENA_NEW(p->arena, int64_t);

    if (!axis)
        return MF_NOMEM("a kernel");
    *axis = mf_node_int(p->node, "axis");
    p->state = axis;
    return MF_OK;
}
