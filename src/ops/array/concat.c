/* SPDX-License-Identifier: Apache-2.0 */
/* concat.c - joins tensors along a dimension: Pack (a new one) and Concat (an existing one). The
 * inverses are in split_ops.c. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

#include <string.h>

/* The shapes of inputs [first, first + n), in inference or in a kernel. */
typedef struct shape_list {
    const mf_shape *shapes;
    const mf_tensor *const *tensors;
    int n;
} shape_list;

static const mf_shape *shape_at(const shape_list *list, int i)
{
    return list->shapes ? &list->shapes[i] : &list->tensors[i]->shape;
}

/* dy as the first of n inputs of one call; the last is `last` (if it has a node). */
static mf_output *concat_gather_inputs(mf_grad *g, mf_output first, const mf_output *rest, int n)
{
    mf_output *list = MF_ARENA_ARRAY(g->graph->arena, mf_output, n + 2);

    if (!list) {
        mf_graph_fail(g->graph, MF_NOMEM("a gradient"));
        return NULL;
    }
    list[0] = first;
    for (int i = 0; i < n; i++)
        list[i + 1] = rest[i];
    list[n + 1] = (mf_output)MF_END;
    return list;
}

/* ---- Pack ---- */

static mf_status pack_result(const shape_list *list, int64_t axis, int *at, mf_shape *out)
{
    char t0[MF_SHAPE_TEXT], ti[MF_SHAPE_TEXT];
    mf_shape all = *shape_at(list, 0);

    *out = MF_SHAPE_UNKNOWN;
    *at = 0;
    for (int i = 1; i < list->n; i++) {
        const mf_shape *s = shape_at(list, i);

        if (!mf_shape_compatible(&all, s))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Shapes of all inputs must match: values[0].shape = %s != "
                           "values[%d].shape = %s",
                           mf_shape_text(&all, t0), i, mf_shape_text(s, ti));
        MF_TRY(mf_shape_merge(&all, s, &all));
    }
    if (all.rank < 0)
        return MF_OK;
    MF_TRY(mf_rank_check(all.rank + 1));
    MF_TRY(mf_axis_read(axis, all.rank + 1, "axis", at));
    out->rank = all.rank + 1;
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = d < *at ? all.dims[d] : d == *at ? list->n : all.dims[d - 1];
    return MF_OK;
}

static mf_status pack_infer(mf_infer *in)
{
    const shape_list list = { .shapes = in->in, .n = in->n_in };
    int at;

    return pack_result(&list, mf_node_int(in->node, "axis"), &at, &in->out[0]);
}

static mf_status pack_run(mf_kernel *k)
{
    const shape_list list = { .tensors = k->in, .n = k->n_in };
    const mf_shape *each = &k->in[0]->shape;
    int64_t outer, inner;
    mf_shape shape;
    mf_tensor *out;
    int at;

    MF_TRY(pack_result(&list, *(const int64_t *)k->state, &at, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    outer = mf_shape_span(each, 0, at);
    inner = mf_shape_span(each, at, each->rank);
    for (int i = 0; i < k->n_in; i++)
        MF_TRY(mf_strided_copy_rows(k->step->pool, out->dtype, out->data, i * inner,
                                    k->n_in * inner, k->in[i]->data, 0, inner, outer, inner));
    return MF_OK;
}

static mf_status pack_grad(mf_grad *g)
{
    const mf_output parts = mf_applyf(g->graph, "Unpack", MF_IN(g->dy[0]), "num=%d axis=%lld",
                                      g->n_in, (long long)mf_node_int(g->node, "axis"));

    for (int i = 0; i < g->n_in; i++)
        g->dx[i] = (mf_output){ parts.node, parts.node ? i : 0 };
    return MF_OK;
}

/* ---- Concat, ConcatV2 ---- */

/* Index of the axis input: the last of ConcatV2, the first of Concat. */
static int axis_input(const mf_node *node, int n_in)
{
    return node->op_name[6] == 'V' ? n_in - 1 : 0;
}

static mf_status mismatch(const shape_list *list, int i, int d)
{
    char t0[MF_SHAPE_TEXT], ti[MF_SHAPE_TEXT];

    (void)mf_shape_text(shape_at(list, 0), t0);
    (void)mf_shape_text(shape_at(list, i), ti);
    if (d < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. "
                       "shape[%d] = %s",
                       t0, i, ti);
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %s vs. "
                   "shape[%d] = %s",
                   d, t0, i, ti);
}

/* Dimensions other than the axis must be equal; along it they add up. axis < 0: unknown. */
static mf_status concat_result(const shape_list *list, int axis, mf_shape *out)
{
    mf_shape all = *shape_at(list, 0);

    for (int i = 1; i < list->n; i++) {
        const mf_shape *s = shape_at(list, i);

        if (all.rank < 0)
            all = *s;
        if (s->rank < 0)
            continue;
        if (s->rank != all.rank)
            return mismatch(list, i, -1);
        for (int d = 0; d < s->rank && axis >= 0; d++) {
            if (d == axis)
                continue;
            if (all.dims[d] < 0)
                all.dims[d] = s->dims[d];
            else if (s->dims[d] >= 0 && s->dims[d] != all.dims[d])
                return mismatch(list, i, d);
        }
    }
    *out = all;
    for (int d = 0; d < all.rank && axis < 0; d++)
        out->dims[d] = MF_UNKNOWN_DIM;
    if (all.rank < 0 || axis < 0)
        return MF_OK;
    out->dims[axis] = 0;
    for (int i = 0; i < list->n; i++) {
        const mf_shape *s = shape_at(list, i);

        if (s->rank < 0 || s->dims[axis] < 0) {
            out->dims[axis] = MF_UNKNOWN_DIM;
            return MF_OK;
        }
        if (!mf_add_i64(out->dims[axis], s->dims[axis], &out->dims[axis]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the concatenated dimension exceeds 2^63");
    }
    return MF_OK;
}

static mf_status concat_axis(int64_t axis, int rank, int *at)
{
    *at = 0;
    if (!mf_axis_fix(axis, rank, at))
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got "
            "%" PRId64,
            -rank, rank, axis);
    return MF_OK;
}

static mf_status concat_concat_infer(mf_infer *in)
{
    const int axis_at = axis_input(in->node, in->n_in);
    const shape_list list = { .shapes = in->in + (axis_at == 0), .n = in->n_in - 1 };
    int64_t axis;
    int at = -1, rank = -1;

    MF_TRY(mf_infer_rank(in, axis_at, 0));
    for (int i = 0; i < list.n && rank < 0; i++)
        rank = list.shapes[i].rank;
    if (rank >= 0 && mf_infer_int_input(in, axis_at, &axis))
        MF_TRY(concat_axis(axis, rank, &at));
    return concat_result(&list, at, &in->out[0]);
}

static mf_status concat_concat_run(mf_kernel *k)
{
    const int axis_at = axis_input(k->node, k->n_in);
    const shape_list list = { .tensors = k->in + (axis_at == 0), .n = k->n_in - 1 };
    int64_t axis, outer, row, done = 0;
    mf_shape shape;
    mf_tensor *out;
    int at;

    MF_TRY(mf_int_read(k->in[axis_at], "Concat dim", &axis));
    MF_TRY(concat_axis(axis, shape_at(&list, 0)->rank, &at));
    MF_TRY(concat_result(&list, at, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    outer = mf_shape_span(&shape, 0, at);
    row = mf_shape_span(&shape, at, shape.rank);
    for (int i = 0; i < list.n; i++) {
        const mf_tensor *t = list.tensors[i];
        const int64_t run = mf_shape_span(&t->shape, at, shape.rank);

        MF_TRY(mf_strided_copy_rows(k->step->pool, out->dtype, out->data, done, row, t->data, 0,
                                    run, outer, run));
        done += run;
    }
    return MF_OK;
}

/* Each input gets its slice of dy. */
static mf_status concat_concat_grad(mf_grad *g)
{
    const int axis_at = axis_input(g->node, g->n_in), first = axis_at == 0, n = g->n_in - 1;
    mf_output axis = g->x[axis_at], shapes, offsets, *list;

    if (mf_grad_type(axis) != MF_DTYPE_I32)
        axis = mf_applyf(g->graph, "Cast", MF_IN(axis), "DstT=int32");
    list = concat_gather_inputs(g, g->x[first], g->x + first + 1, n - 1);
    if (!list)
        return MF_OK;
    shapes = mf_apply(g->graph, "ShapeN", list);
    for (int i = 0; i < n; i++)
        list[i] = (mf_output){ shapes.node, i };
    list = concat_gather_inputs(g, axis, list, n);
    if (!list)
        return MF_OK;
    offsets = mf_apply(g->graph, "ConcatOffset", list);
    for (int i = 0; i < n; i++) {
        const mf_output begin = { offsets.node, i }, size = { shapes.node, i };

        g->dx[first + i] = MF_G3("Slice", g->dy[0], begin, size);
    }
    return MF_OK;
}

/* ---- ConcatOffset ---- */

/* Offsets of tensors of these shapes in their concatenation. */
static mf_status offset_run(mf_kernel *k)
{
    int64_t axis, done = 0;
    int at;

    MF_TRY(mf_int_read(k->in[0], "concat_dim", &axis));
    for (int i = 1; i < k->n_in; i++) {
        if (k->in[i]->shape.rank != 1 || k->in[i]->count != k->in[1]->count ||
            k->in[i]->count > MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "input %d should be a vector of %" PRId64 " elements like input 1", i,
                           k->in[1]->count);
    }
    MF_TRY(mf_axis_read(axis, (int)k->in[1]->count, "Concat dim", &at));
    for (int i = 0; i < k->n_out; i++) {
        const mf_tensor *dims = k->in[i + 1];
        mf_tensor *out;

        MF_TRY(mf_kernel_out(k, i, &dims->shape, &out));
        for (int d = 0; d < dims->count; d++) {
            const int64_t dim = mf_index_at(dims, d), dim0 = mf_index_at(k->in[1], d);

            if (d != at && dim != dim0)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "All dimensions except %d must match. Input %d has shape element "
                               "%" PRId64 " where input 0 has %" PRId64,
                               at, i, dim, dim0);
            mf_index_put(out, d, d == at ? done : 0);
        }
        if (!mf_add_i64(done, mf_index_at(dims, at), &done))
            return MF_FAIL(MF_INVALID_ARGUMENT, "size %" PRId64 " is negative or too large",
                           mf_index_at(dims, at));
    }
    return MF_OK;
}

static mf_status offset_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = in->in[i + 1];
    return MF_OK;
}

static void pack_split(mf_split *s)
{
    int axis;

    if (mf_axis_fix(mf_node_int(s->node, "axis"), s->out[0].rank, &axis))
        mf_split_around(s, 0, s->n_in, axis, false, true);
}

/* The axis of Concat is its first input. */
static void concat_split(mf_split *s)
{
    const int n = s->n_in - 1, first = strcmp(s->node->op_name, "Concat") == 0;
    int axis;

    if (mf_split_axis(s, first ? 0 : n, s->out[0].rank, &axis))
        mf_split_around(s, first, n, axis, true, true);
}

const mf_op mf_ops_concat[] = {
    { .name = "Pack",
      .rows = mf_rows_pack,
      .def = "(values:N*T) -> (output:T) {N:int>=1, T:type, axis:int=0}",
      .infer = pack_infer,
      .grad = pack_grad,
      .prepare = mf_prepare_axis,
      .run = pack_run,
      .split = pack_split,
      .samples = MF_SAMPLES("f32[2,3] f32[2,3]", "f32[2,3] f32[2,3] f32[2,3] ; axis=1",
                            "f64[3] f64[3] ; axis=-1", "i32[] i32[] i32[]", "f32[0,2] f32[0,2]",
                            "str[2] str[2] ; axis=1", "f32[4]", "f32[2] f32[3] !fails",
                            "f32[2] f32[2] ; axis=3 !fails") },
    { .name = "ConcatV2",
      .rows = mf_rows_concat,
      .def = "(values:N*T, axis:Tidx) -> (output:T) {N:int>=2, T:type, "
             "Tidx:type=int32 in index}",
      .infer = concat_concat_infer,
      .grad = concat_concat_grad,
      .run = concat_concat_run,
      .split = concat_split,
      .samples = MF_SAMPLES("f32[2,3] f32[4,3] i32[]{0}", "f32[2,3] f32[2,1] f32[2,0] i32[]{1}",
                            "f64[1,2,3] f64[1,5,3] i64[]{-2}", "str[2] str[1] i32[]{0}",
                            "bool[0] bool[3] i32[]{0}", "f32[2,3] f32[3,3] i32[]{1} !fails",
                            "f32[2] f32[2] i32[]{1} !fails", "f32[2] f32[2,1] i32[]{0} !fails",
                            "f32[] f32[] i32[]{0} !fails") },
    { .name = "Concat",
      .def = "(concat_dim:int32, values:N*T) -> (output:T) {N:int>=2, T:type}",
      .infer = concat_concat_infer,
      .grad = concat_concat_grad,
      .run = concat_concat_run,
      .split = concat_split,
      .samples = MF_SAMPLES("i32[]{0} f32[2,3] f32[4,3]", "i32[]{1} i64[2,3] i64[2,2]",
                            "i32[]{2} f32[2,3] f32[4,3] !fails") },
    { .name = "ConcatOffset",
      .def = "(concat_dim:int32, shape:N*shape_type) -> (offset:N*shape_type) "
             "{N:int>=2, shape_type:type=int32 in index}",
      .infer = offset_infer,
      .grad = mf_grad_none,
      .run = offset_run,
      .samples = MF_SAMPLES(
          "i32[]{1} i32[3]{2,2,7} i32[3]{2,3,7} i32[3]{2,9,7}", "i32[]{-1} i32[2]{4,1} i32[2]{4,5}",
          "i32[]{0} i32[2]{4,1} i32[2]{4,5} !fails", "i32[]{3} i32[2]{4,1} i32[2]{4,1} !fails",
          "i32[]{0} i32[2]{4,1} i32[1]{4} !fails") },
    { 0 },
};
