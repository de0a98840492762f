/* SPDX-License-Identifier: Apache-2.0 */
/* split_ops.c - splits a tensor along a dimension. The inverses are in concat.c. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

#include <string.h>

/* The gradients of all outputs (zeros if there is none), with room for one more input. */
static mf_output *output_grads(mf_grad *g, int skip)
{
    mf_output *list = MF_ARENA_ARRAY(g->graph->arena, mf_output, g->n_out + 2);

    if (!list) {
        mf_graph_fail(g->graph, MF_NOMEM("a gradient"));
        return NULL;
    }
    for (int i = 0; i < g->n_out; i++)
        list[skip + i] = mf_grad_dy_or_zeros(g, i);
    list[g->n_out + skip] = (mf_output)MF_END;
    return list;
}

/* ---- Unpack ---- */

static mf_status unpack_result(const mf_shape *from, int64_t num, int64_t axis, int *at,
                               mf_shape *out)
{
    char text[MF_SHAPE_TEXT];

    *out = MF_SHAPE_UNKNOWN;
    if (from->rank < 0)
        return MF_OK;
    MF_TRY(mf_axis_read(axis, from->rank, "axis", at));
    if (from->dims[*at] >= 0 && from->dims[*at] != num)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input shape axis %d must equal %" PRId64 ", got shape %s", *at, num,
                       mf_shape_text(from, text));
    out->rank = from->rank - 1;
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = from->dims[d < *at ? d : d + 1];
    return MF_OK;
}

static mf_status unpack_infer(mf_infer *in)
{
    mf_shape each;
    int at;

    MF_TRY(unpack_result(&in->in[0], in->n_out, mf_node_int(in->node, "axis"), &at, &each));
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = each;
    return MF_OK;
}

static mf_status unpack_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    int64_t outer, inner;
    mf_shape each;
    mf_tensor *out;
    int at = 0;

    MF_TRY(unpack_result(&x->shape, k->n_out, *(const int64_t *)k->state, &at, &each));
    outer = mf_shape_span(&x->shape, 0, at);
    inner = mf_shape_span(&x->shape, at + 1, x->shape.rank);
    for (int i = 0; i < k->n_out; i++) {
        MF_TRY(mf_stop_after(500));
        MF_TRY(mf_kernel_out(k, i, &each, &out));
        MF_TRY(mf_strided_copy_rows(k->step->pool, x->dtype, out->data, 0, inner, x->data,
                                    i * inner, k->n_out * inner, outer, inner));
    }
    return MF_OK;
}

static mf_status unpack_grad(mf_grad *g)
{
    mf_output *list = output_grads(g, 0);

    if (list)
        g->dx[0] =
            mf_applyf(g->graph, "Pack", list, "axis=%lld", (long long)mf_node_int(g->node, "axis"));
    return MF_OK;
}

/* ---- Split, SplitV ---- */

static mf_status split_axis(int64_t axis, int rank, int *at)
{
    *at = 0;
    if (!mf_axis_fix(axis, rank, at))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "-input rank(-%d) <= split_dim < input rank (%d), but got %" PRId64, rank,
                       rank, axis);
    return MF_OK;
}

static mf_status check_even(int64_t dim, int at, int n)
{
    if (dim >= 0 && dim % n != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Number of ways to split should evenly divide the split dimension, but got "
                       "split_dim %d (size = %" PRId64 ") and num_split %d",
                       at, dim, n);
    return MF_OK;
}

/* The value of the size -1 along a dimension of `dim`; checks that the sizes add up. */
static mf_status missing_size(const mf_tensor *sizes, int64_t dim, int n, int64_t *missing)
{
    int64_t given = 0;
    bool open = false;

    if (sizes->shape.rank != 1 || sizes->count != n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "size of the split_tensor must be 1-D with %d elements, but got %" PRId64, n,
                       sizes->count);
    for (int i = 0; i < n; i++) {
        const int64_t size = mf_tensor_int_at(sizes, i);

        if (size == -1) {
            if (open)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "There can only be one -1 in the input split sizes.");
            open = true;
        } else if (!mf_add_i64(given, size, &given)) {
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Split size at index %d must be >= 0. Got: %" PRId64, i, size);
        }
    }
    if (open ? given > dim : given != dim)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Determined shape must either match input shape along split_dim exactly if "
                       "fully specified, or be less than the size of the input along split_dim if "
                       "not fully specified. Got: %" PRId64 " of %" PRId64,
                       given, dim);
    *missing = dim - given;
    return MF_OK;
}

static int64_t size_at(const mf_tensor *sizes, int i, int64_t missing)
{
    const int64_t size = mf_tensor_int_at(sizes, i);

    return size == -1 ? missing : size;
}

/* SplitV(value, sizes, axis) or Split(axis, value). */
static bool has_sizes(const mf_node *node)
{
    return node->op_name[5] == 'V';
}

/* Infers known sizes along a known axis. */
static mf_status split_known(mf_infer *in, const mf_shape *x, int at)
{
    const mf_tensor *sizes = has_sizes(in->node) ? in->in_value[1] : NULL;
    int64_t missing = MF_UNKNOWN_DIM;

    if (!has_sizes(in->node))
        MF_TRY(check_even(x->dims[at], at, in->n_out));
    else if (sizes && x->dims[at] >= 0)
        MF_TRY(missing_size(sizes, x->dims[at], in->n_out, &missing));
    for (int i = 0; i < in->n_out; i++) {
        int64_t dim = MF_UNKNOWN_DIM;

        if (!has_sizes(in->node))
            dim = x->dims[at] < 0 ? MF_UNKNOWN_DIM : x->dims[at] / in->n_out;
        else if (sizes && i < sizes->count)
            dim = size_at(sizes, i, missing);
        if (dim < -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "split size %d is %" PRId64, i, dim);
        in->out[i] = *x;
        in->out[i].dims[at] = dim;
    }
    return MF_OK;
}

static mf_status split_ops_split_infer(mf_infer *in)
{
    const bool v = has_sizes(in->node);
    const mf_shape *x = &in->in[v ? 0 : 1];
    int64_t axis;
    int at;

    if (x->rank < 0)
        return MF_OK;
    if (mf_infer_int_input(in, v ? 2 : 0, &axis)) {
        MF_TRY(split_axis(axis, x->rank, &at));
        return split_known(in, x, at);
    }
    for (int i = 0; i < in->n_out; i++) {
        in->out[i].rank = x->rank;
        for (int d = 0; d < x->rank; d++)
            in->out[i].dims[d] = MF_UNKNOWN_DIM;
    }
    return MF_OK;
}

static mf_status split_ops_split_run(mf_kernel *k)
{
    const bool v = has_sizes(k->node);
    const mf_tensor *x = k->in[v ? 0 : 1];
    int64_t axis, missing = 0, outer, inner, done = 0;
    mf_shape each = x->shape;
    int at;

    MF_TRY(mf_int_read(k->in[v ? 2 : 0], "split_dim", &axis));
    MF_TRY(split_axis(axis, each.rank, &at));
    if (v)
        MF_TRY(missing_size(k->in[1], each.dims[at], k->n_out, &missing));
    else
        MF_TRY(check_even(each.dims[at], at, k->n_out));
    outer = mf_shape_span(&x->shape, 0, at);
    inner = mf_shape_span(&x->shape, at + 1, each.rank);
    for (int i = 0; i < k->n_out; i++) {
        const int64_t size = v ? size_at(k->in[1], i, missing) : x->shape.dims[at] / k->n_out;
        mf_tensor *out;

        MF_TRY(mf_stop_after(500));
        each.dims[at] = size;
        MF_TRY(mf_kernel_out(k, i, &each, &out));
        MF_TRY(mf_strided_copy_rows(k->step->pool, x->dtype, out->data, 0, size * inner, x->data,
                                    done * inner, x->shape.dims[at] * inner, outer, size * inner));
        done += size;
    }
    return MF_OK;
}

static mf_status split_ops_split_grad(mf_grad *g)
{
    const bool v = has_sizes(g->node);
    mf_output *list = output_grads(g, 1);

    if (!list)
        return MF_OK;
    list[0] = g->x[v ? 2 : 0];
    g->dx[v ? 0 : 1] = g->n_out == 1 ? g->dy[0] : mf_apply(g->graph, "Concat", list);
    return MF_OK;
}

static void unpack_split(mf_split *s)
{
    int axis;

    if (mf_axis_fix(mf_node_int(s->node, "axis"), s->in[0].rank, &axis))
        mf_split_around(s, 0, 1, axis, true, false);
}

/* The axis is the first input of Split, the last of SplitV. */
static void split_split(mf_split *s)
{
    const int x = strcmp(s->node->op_name, "Split") == 0 ? 1 : 0;
    int axis;

    if (mf_split_axis(s, x ? 0 : 2, s->in[x].rank, &axis))
        mf_split_around(s, x, 1, axis, true, true);
}

const mf_op mf_ops_split[] = {
    { .name = "Unpack",
      .rows = mf_rows_unpack,
      .def = "(value:T) -> (output:num*T) {num:int>=0, T:type, axis:int=0}",
      .infer = unpack_infer,
      .grad = unpack_grad,
      .prepare = mf_prepare_axis,
      .run = unpack_run,
      .split = unpack_split,
      .samples =
          MF_SAMPLES("f32[2,3] ; num=2", "f32[2,3] ; num=3 axis=1", "f64[4,2] ; num=2 axis=-1",
                     "i32[3] ; num=3", "f32[2,0] ; num=2", "str[2,2] ; num=2 axis=1",
                     "f32[2,3] ; num=3 !fails", "f32[2,3] ; num=3 axis=2 !fails") },
    { .name = "Split",
      .rows = mf_rows_split,
      .def = "(split_dim:int32, value:T) -> (output:num_split*T) {num_split:int>=1, "
             "T:type}",
      .infer = split_ops_split_infer,
      .grad = split_ops_split_grad,
      .run = split_ops_split_run,
      .split = split_split,
      .samples = MF_SAMPLES("i32[]{0} f32[4,3] ; num_split=2", "i32[]{-1} f64[2,6] ; num_split=3",
                            "i32[]{1} str[2,2] ; num_split=2", "i32[]{0} f32[0,2] ; num_split=2",
                            "i32[]{0} f32[3] ; num_split=1", "i32[]{0} f32[5] ; num_split=2 !fails",
                            "i32[]{2} f32[4] ; num_split=2 !fails") },
    { .name = "SplitV",
      .rows = mf_rows_split,
      .def = "(value:T, size_splits:Tlen, split_dim:int32) -> (output:num_split*T) "
             "{num_split:int>=1, T:type, Tlen:type=int64 in [int8,int32,int64]}",
      .infer = split_ops_split_infer,
      .grad = split_ops_split_grad,
      .run = split_ops_split_run,
      .split = split_split,
      .samples = MF_SAMPLES("f32[6,2] i64[3]{1,2,3} i32[]{0} ; num_split=3",
                            "f32[2,7] i32[3]{1,-1,2} i32[]{-1} ; num_split=3",
                            "i32[4] i64[2]{0,4} i32[]{0} ; num_split=2",
                            "f32[6,2] i64[2]{1,2} i32[]{0} ; num_split=2 !fails",
                            "f32[6] i64[2]{-1,-1} i32[]{0} ; num_split=2 !fails",
                            "f32[6] i64[2]{-3,9} i32[]{0} ; num_split=2 !fails",
                            "f32[6] i64[3]{1,2,3} i32[]{0} ; num_split=2 !fails") },
    { 0 },
};
