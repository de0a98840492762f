/* SPDX-License-Identifier: Apache-2.0 */
/* shape_ops.c - returns shapes (Shape, Size, Rank) and changes them (Reshape, Squeeze, ExpandDims).
 * Inference computes values, too: plans need static shapes. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- Shape, ShapeN ---- */

static mf_status shape_ops_shape_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++) {
        const mf_shape *s = &in->in[i];

        if (mf_shape_is_static(s))
            MF_TRY(mf_infer_ints(in, i, 1, s->dims, s->rank));
        else
            in->out[i] = MF_SHAPE(s->rank < 0 ? MF_UNKNOWN_DIM : s->rank);
    }
    return MF_OK;
}

static mf_status shape_ops_shape_run(mf_kernel *k)
{
    for (int i = 0; i < k->n_out; i++) {
        const mf_shape *s = &k->in[i]->shape;
        mf_tensor *out;

        MF_TRY(mf_kernel_out(k, i, &MF_SHAPE(s->rank), &out));
        for (int d = 0; d < s->rank; d++) {
            MF_TRY(mf_index_check(k->node, i, s->dims[d]));
            mf_index_put(out, d, s->dims[d]);
        }
    }
    return MF_OK;
}

/* ---- Size, Rank ---- */

static mf_status shape_ops_size_infer(mf_infer *in)
{
    int64_t n;

    in->out[0] = MF_SCALAR;
    if (!mf_shape_is_static(&in->in[0]))
        return MF_OK;
    MF_TRY(mf_shape_count(&in->in[0], &n));
    return mf_infer_ints(in, 0, 0, &n, 1);
}

static mf_status shape_ops_size_run(mf_kernel *k)
{
    mf_tensor *out;

    MF_TRY(mf_index_check(k->node, 0, k->in[0]->count));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    mf_index_put(out, 0, k->in[0]->count);
    return MF_OK;
}

static mf_status rank_infer(mf_infer *in)
{
    const int64_t rank = in->in[0].rank;

    in->out[0] = MF_SCALAR;
    return rank < 0 ? MF_OK : mf_infer_ints(in, 0, 0, &rank, 1);
}

static mf_status rank_run(mf_kernel *k)
{
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    mf_index_put(out, 0, k->in[0]->shape.rank);
    return MF_OK;
}

/* ---- Reshape ---- */

/* Index of the dimension given as -1; -1: all are given. */
static mf_status find_missing(const mf_ivec *dims, int *missing)
{
    *missing = -1;
    for (int i = 0; i < dims->n; i++) {
        if (dims->v[i] == -1) {
            if (*missing >= 0)
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "Only one input size may be -1, not both %d and %d", *missing, i);
            *missing = i;
        } else if (dims->v[i] < 0) {
            return MF_FAIL(MF_INVALID_ARGUMENT, "Size %d must be non-negative, not %" PRId64, i,
                           dims->v[i]);
        }
    }
    return MF_OK;
}

/* The value of the -1. If the shape has a zero, zeros of the input are ignored: [0,3] as [-1,0] is
 * [3,0]. */
static mf_status shape_ops_fill_missing(const mf_shape *from, int64_t count, mf_ivec *dims,
                                        int missing)
{
    int64_t known = 1, total = 1;
    bool asks_zero = false;

    for (int i = 0; i < dims->n; i++) {
        if (dims->v[i] == 0)
            asks_zero = true;
        else if (i != missing && !mf_mul_i64(known, dims->v[i], &known))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the requested shape has more than 2^63 elements");
    }
    for (int i = 0; i < from->rank; i++)
        total *= asks_zero && from->dims[i] == 0 ? 1 : from->dims[i];
    if (!(asks_zero && count == 0) && total % known != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input to reshape is a tensor with %" PRId64
                       " values, but the requested shape requires a multiple of %" PRId64,
                       count, known);
    dims->v[missing] = total / known;
    return MF_OK;
}

/* The result of reshaping the static shape `from` to `wanted`. */
static mf_status reshape_result(const mf_shape *from, const mf_tensor *wanted, mf_shape *out)
{
    int64_t count, asked;
    int missing;
    mf_ivec dims;

    MF_TRY(mf_ivec_read(wanted, MF_MAX_RANK, "sizes input", &dims));
    MF_TRY(mf_shape_count(from, &count));
    MF_TRY(find_missing(&dims, &missing));
    if (missing >= 0)
        MF_TRY(shape_ops_fill_missing(from, count, &dims, missing));
    MF_TRY(mf_shape_from_dims(dims.v, dims.n, out));
    MF_TRY(mf_shape_count(out, &asked));
    if (asked != count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input to reshape is a tensor with %" PRId64
                       " values, but the requested shape has %" PRId64,
                       count, asked);
    return MF_OK;
}

static mf_status shape_ops_reshape_infer(mf_infer *in)
{
    const mf_tensor *wanted = in->in_value[1];
    mf_tensor value = { 0 };

    if (!wanted || !mf_shape_is_static(&in->in[0]))
        return mf_infer_shape_input(in, 1, &in->out[0]);
    MF_TRY(reshape_result(&in->in[0], wanted, &in->out[0]));
    if (in->in_value[0]) {
        mf_tensor_reshape(&value, in->in_value[0], &in->out[0]);
        mf_infer_value(in, 0, &value);
        mf_tensor_clear(&value);
    }
    return MF_OK;
}

static mf_status shape_ops_reshape_run(mf_kernel *k)
{
    mf_shape shape;

    MF_TRY(reshape_result(&k->in[0]->shape, k->in[1], &shape));
    mf_kernel_view(k, 0, 0, &shape);
    return MF_OK;
}

/* For all ops in this file: reshapes dy to the input's shape. */
static mf_status reshape_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("Reshape", g->dy[0], MF_G1("Shape", g->x[0]));
    return MF_OK;
}

/* ---- Squeeze ---- */

typedef struct squeeze_dims {
    const int64_t *v;
    int64_t n;
} squeeze_dims;

static mf_status squeeze_result(const mf_shape *from, squeeze_dims dims, mf_shape *out)
{
    bool drop[MF_MAX_RANK] = { false };

    *out = MF_SHAPE_UNKNOWN;
    if (from->rank < 0)
        return MF_OK;
    for (int64_t i = 0; i < dims.n; i++) {
        int axis;

        if (!mf_axis_fix(dims.v[i], from->rank, &axis))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Tried to squeeze dim index %" PRId64 " for tensor with %d dimensions.",
                           dims.v[i], from->rank);
        if (from->dims[axis] > 1 || from->dims[axis] == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Can not squeeze dim[%d], expected a dimension of 1, got %" PRId64, axis,
                           from->dims[axis]);
        drop[axis] = true;
    }
    *out = MF_SCALAR;
    for (int d = 0; d < from->rank; d++) {
        if (dims.n == 0 && from->dims[d] < 0) { /* it may be squeezed or kept, so the rank is
                                                   unknown */
            *out = MF_SHAPE_UNKNOWN;
            return MF_OK;
        }
        if (dims.n == 0 ? from->dims[d] != 1 : !drop[d])
            out->dims[out->rank++] = from->dims[d];
    }
    return MF_OK;
}

static mf_status squeeze_infer(mf_infer *in)
{
    squeeze_dims dims;

    dims.v = mf_node_ints(in->node, "squeeze_dims", &dims.n);
    return squeeze_result(&in->in[0], dims, &in->out[0]);
}

static mf_status squeeze_prepare(mf_prepare *p)
{
    squeeze_dims *dims = MF_ARENA_NEW(p->arena, squeeze_dims);

    if (!dims)
        return MF_NOMEM("a kernel");
    dims->v = mf_node_ints(p->node, "squeeze_dims", &dims->n);
    p->state = dims;
    return MF_OK;
}

static mf_status squeeze_run(mf_kernel *k)
{
    mf_shape shape;

    MF_TRY(squeeze_result(&k->in[0]->shape, *(const squeeze_dims *)k->state, &shape));
    mf_kernel_view(k, 0, 0, &shape);
    return MF_OK;
}

/* ---- ExpandDims ---- */

static mf_status expand_result(const mf_shape *from, int64_t axis, mf_shape *out)
{
    int at;

    MF_TRY(mf_rank_check(from->rank + 1));
    if (!mf_axis_fix(axis, from->rank + 1, &at))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Tried to expand dim index %" PRId64 " for tensor with %d dimensions.", axis,
                       from->rank);
    *out = (mf_shape){ .rank = from->rank + 1 };
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = d < at ? from->dims[d] : d == at ? 1 : from->dims[d - 1];
    return MF_OK;
}

static mf_status expand_infer(mf_infer *in)
{
    int64_t axis;

    if (in->in[0].rank < 0)
        return MF_OK;
    if (mf_infer_int_input(in, 1, &axis))
        return expand_result(&in->in[0], axis, &in->out[0]);
    MF_TRY(mf_rank_check(in->in[0].rank + 1));
    in->out[0].rank = in->in[0].rank + 1;
    for (int d = 0; d < in->out[0].rank; d++)
        in->out[0].dims[d] = MF_UNKNOWN_DIM;
    return MF_OK;
}

static mf_status expand_run(mf_kernel *k)
{
    mf_shape shape;

    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'dim' must be a tensor with a single value");
    MF_TRY(expand_result(&k->in[0]->shape, mf_index_at(k->in[1], 0), &shape));
    mf_kernel_view(k, 0, 0, &shape);
    return MF_OK;
}

static void reshape_split(mf_split *s)
{
    if (!s->in_value[1])
        return;
    mf_split_regroup(s);
    s->sizes_input = 1;
    s->additive = 1;
}

static void expand_split(mf_split *s)
{
    mf_split_regroup(s);
    s->additive = 1;
}

/* A shard may have size 1 where the whole dimension does not. */
static void squeeze_split(mf_split *s)
{
    int64_t n;

    (void)mf_node_ints(s->node, "squeeze_dims", &n);
    if (n > 0)
        expand_split(s);
}

const mf_op mf_ops_shape[] = {
    { .name = "Shape",
      .def = "(input:T) -> (output:out_type) {T:type, out_type:type=int32 in index}",
      .infer = shape_ops_shape_infer,
      .grad = mf_grad_none,
      .run = shape_ops_shape_run,
      .samples = MF_SAMPLES("f32[2,3]", "f32[]", "i32[0,5] ; out_type=int64", "str[2]") },
    { .name = "ShapeN",
      .def = "(input:N*T) -> (output:N*out_type) {N:int>=1, T:type, "
             "out_type:type=int32 in index}",
      .infer = shape_ops_shape_infer,
      .grad = mf_grad_none,
      .run = shape_ops_shape_run,
      .samples = MF_SAMPLES("f32[2,3] f32[] f32[0] ; N=3", "i32[4] ; N=1 out_type=int64") },
    { .name = "Size",
      .def = "(input:T) -> (output:out_type) {T:type, out_type:type=int32 in index}",
      .infer = shape_ops_size_infer,
      .grad = mf_grad_none,
      .run = shape_ops_size_run,
      .samples = MF_SAMPLES("f32[2,3]", "f32[] ; out_type=int64", "i32[0,5]") },
    { .name = "Rank",
      .def = "(input:T) -> (output:int32) {T:type}",
      .infer = rank_infer,
      .grad = mf_grad_none,
      .run = rank_run,
      .samples = MF_SAMPLES("f32[2,3]", "f32[]", "str[0]") },
    { .name = "Reshape",
      .rows = mf_rows_reshape,
      .def = "(tensor:T, shape:Tshape) -> (output:T) {T:type, Tshape:type=int32 in "
             "index}",
      .flags = MF_OP_VIEW,
      .infer = shape_ops_reshape_infer,
      .grad = reshape_grad,
      .run = shape_ops_reshape_run,
      .split = reshape_split,
      .samples = MF_SAMPLES("f32[2,3] i32[2]{3,2}", "f64[2,3,2] i64[2]{-1,4}", "f32[1] i32[0]",
                            "f32[0,3] i32[2]{-1,3}", "f32[0,3] i32[2]{-1,0}", "str[4] i32[2]{2,2}",
                            "f32[2,3] i32[2]{4,2} !fails", "f32[6] i32[2]{-1,-1} !fails",
                            "f32[6] i32[2]{-1,4} !fails", "f32[6] i32[2]{-2,3} !fails") },
    { .name = "Squeeze",
      .rows = mf_rows_squeeze,
      .def = "(input:T) -> (output:T) {T:type, squeeze_dims:list(int)>=0=[]}",
      .flags = MF_OP_VIEW,
      .infer = squeeze_infer,
      .grad = reshape_grad,
      .prepare = squeeze_prepare,
      .run = squeeze_run,
      .split = squeeze_split,
      .samples =
          MF_SAMPLES("f32[1,3,1]", "f32[1,3,1] ; squeeze_dims=[0]",
                     "f64[1,2,1] ; squeeze_dims=[-1]", "i32[]", "f32[1,0] ; squeeze_dims=[0]",
                     "f32[2,1] ; squeeze_dims=[0] !fails", "f32[1] ; squeeze_dims=[3] !fails") },
    { .name = "ExpandDims",
      .rows = mf_rows_expand,
      .def = "(input:T, dim:Tdim) -> (output:T) {T:type, Tdim:type=int32 in index}",
      .flags = MF_OP_VIEW,
      .infer = expand_infer,
      .grad = reshape_grad,
      .run = expand_run,
      .split = expand_split,
      .samples =
          MF_SAMPLES("f32[2,3] i32[]{1}", "f64[2] i64[]{-1}", "f32[] i32[1]{0}",
                     "f32[0,2] i32[]{-3}", "f32[2] i32[]{3} !fails", "f32[2] i32[2]{0,1} !fails") },
    { 0 },
};
