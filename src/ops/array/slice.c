/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - parts of a tensor: Slice, StridedSlice, and their inverses. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided.h"
#include "ops/control/grad_util.h"

#include <string.h>

/* ---- Slice ---- */

static mf_status slice_dim(int d, int64_t dim, int64_t begin, int64_t size, int64_t *out)
{
    if (begin < 0 || begin > dim)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected begin[%d] in [0, %" PRId64 "], but got %" PRId64, d, dim, begin);
    *out = size == -1 ? dim - begin : size;
    if (*out < 0 || *out > dim - begin)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected size[%d] in [0, %" PRId64 "], but got %" PRId64, d, dim - begin,
                       size);
    return MF_OK;
}

static mf_status slice_slice_infer(mf_infer *in)
{
    const mf_tensor *begin = in->in_value[1], *size = in->in_value[2];
    mf_shape x = in->in[0], *out = &in->out[0];

    if (x.rank < 0) {
        const int64_t n = in->in[2].rank == 1 ? in->in[2].dims[0] : MF_UNKNOWN_DIM;

        if (n < 0 || n > MF_MAX_RANK)
            return MF_OK;
        x.rank = (int)n;
        for (int d = 0; d < x.rank; d++)
            x.dims[d] = MF_UNKNOWN_DIM;
    }
    if ((begin && begin->count != x.rank) || (size && size->count != x.rank))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected begin and size arguments to be 1-D tensors of size %d", x.rank);
    *out = x;
    for (int d = 0; d < x.rank; d++) {
        const int64_t n = size ? mf_index_at(size, d) : -1;

        out->dims[d] = n;
        if (n < -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "size[%d] is %" PRId64, d, n);
        if (!begin || !size || x.dims[d] < 0)
            continue;
        MF_TRY(slice_dim(d, x.dims[d], mf_index_at(begin, d), n, &out->dims[d]));
    }
    return MF_OK;
}

static mf_status slice_slice_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const int rank = x->shape.rank;
    mf_strided s = { .rank = rank, .shape = { .rank = rank } };
    mf_ivec begin, size;
    mf_tensor *out;

    MF_TRY(mf_ivec_read(k->in[1], MF_MAX_RANK, "begin", &begin));
    MF_TRY(mf_ivec_read(k->in[2], MF_MAX_RANK, "size", &size));
    if (begin.n != rank || size.n != rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected begin and size arguments to be 1-D tensors of size %d, but got %d "
                       "and %d elements",
                       rank, begin.n, size.n);
    for (int d = 0; d < rank; d++) {
        MF_TRY(slice_dim(d, x->shape.dims[d], begin.v[d], size.v[d], &s.size[d]));
        s.begin[d] = begin.v[d];
        s.stride[d] = 1;
        s.shape.dims[d] = s.size[d];
    }
    MF_TRY(mf_kernel_out(k, 0, &s.shape, &out));
    return mf_strided_read(k->step->pool, &s, &x->shape, x->dtype, x->data, out->data);
}

/* dy padded with zeros to the shape of x. */
static mf_status slice_slice_grad(mf_grad *g)
{
    const char *index = mf_dtype_name(mf_grad_type(g->x[1]));
    const mf_output all = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s", index);
    const mf_output part = mf_applyf(g->graph, "Shape", MF_IN(g->y[0]), "out_type=%s", index);
    const mf_output after = MF_G2("Sub", MF_G2("Sub", all, part), g->x[1]);

    g->dx[0] = MF_G2("Pad", g->dy[0], mf_applyf(g->graph, "Pack", MF_IN(g->x[1], after), "axis=1"));
    return MF_OK;
}

/* ---- StridedSlice ---- */

static mf_status masks_prepare(mf_prepare *p)
{
    mf_strided_masks *masks = MF_ARENA_NEW(p->arena, mf_strided_masks);

    if (!masks)
        return MF_NOMEM("a kernel");
    mf_strided_masks_read(p->node, masks);
    p->state = masks;
    return MF_OK;
}

static mf_status strided_infer(mf_infer *in)
{
    const mf_tensor *const *v = in->in_value;
    int64_t n = MF_UNKNOWN_DIM;
    mf_strided_masks masks;
    mf_strided s;

    for (int i = 1; i < 4; i++) {
        MF_TRY(mf_infer_rank(in, i, 1));
        if (in->in[i].rank != 1 || in->in[i].dims[0] < 0)
            continue;
        if (n >= 0 && in->in[i].dims[0] != n)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "begin, end and strides must have the same length: %" PRId64
                           " vs. %" PRId64,
                           n, in->in[i].dims[0]);
        n = in->in[i].dims[0];
    }
    if (in->in[0].rank < 0 || n < 0)
        return MF_OK;
    mf_strided_masks_read(in->node, &masks);
    MF_TRY(mf_strided_init(&s, &in->in[0], v[1], v[2], v[3], n, &masks));
    in->out[0] = s.shape;
    return MF_OK;
}

static mf_status strided_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_tensor *out;
    mf_strided s;

    MF_TRY(mf_strided_of(&s, &x->shape, k->in[1], k->in[2], k->in[3], k->state));
    MF_TRY(mf_kernel_out(k, 0, &s.shape, &out));
    return mf_strided_read(k->step->pool, &s, &x->shape, x->dtype, x->data, out->data);
}

/* `op` with the mask attributes of g->node. */
static mf_output same_masks(mf_grad *g, const char *op, const mf_output *inputs)
{
    mf_strided_masks m;

    mf_strided_masks_read(g->node, &m);
    return mf_applyf(g->graph, op, inputs,
                     "begin_mask=%lld end_mask=%lld ellipsis_mask=%lld new_axis_mask=%lld "
                     "shrink_axis_mask=%lld",
                     (long long)m.begin, (long long)m.end, (long long)m.ellipsis,
                     (long long)m.new_axis, (long long)m.shrink);
}

static mf_status slice_strided_grad(mf_grad *g)
{
    const mf_output shape = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s",
                                      mf_dtype_name(mf_grad_type(g->x[1])));

    g->dx[0] = same_masks(g, "StridedSliceGrad", MF_IN(shape, g->x[1], g->x[2], g->x[3], g->dy[0]));
    return MF_OK;
}

/* ---- StridedSliceGrad: zeros of the shape, dy in the slice ---- */

static mf_status check_slice_shape(const mf_strided *s, const mf_tensor *value, const char *what)
{
    char expected[MF_SHAPE_TEXT], actual[MF_SHAPE_TEXT];

    if (mf_shape_equal(&s->shape, &value->shape))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "shape of %s was %s instead of %s", what,
                   mf_shape_text(&value->shape, actual), mf_shape_text(&s->shape, expected));
}

static mf_status strided_grad_infer(mf_infer *in)
{
    return mf_infer_shape_input(in, 0, &in->out[0]);
}

static mf_status strided_grad_run(mf_kernel *k)
{
    const mf_tensor *dy = k->in[4];
    mf_shape shape;
    mf_tensor *out;
    mf_strided s;

    MF_TRY(mf_shape_read(k->in[0], "shape", &shape));
    MF_TRY(mf_strided_of(&s, &shape, k->in[1], k->in[2], k->in[3], k->state));
    MF_TRY(check_slice_shape(&s, dy, "dy"));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (dy->count < out->count)
        mf_cells_zero(out->dtype, out->data, 0, out->count);
    return mf_strided_write(k->step->pool, &s, &shape, dy->dtype, out->data, dy->data, false);
}

static mf_status strided_grad_grad(mf_grad *g)
{
    g->dx[4] = same_masks(g, "StridedSlice", MF_IN(g->dy[0], g->x[1], g->x[2], g->x[3]));
    return MF_OK;
}

/* ---- TensorStridedSliceUpdate ---- */

static mf_status slice_update_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *value = k->in[4];
    mf_tensor *out;
    mf_strided s;

    MF_TRY(mf_strided_of(&s, &x->shape, k->in[1], k->in[2], k->in[3], k->state));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    MF_TRY(mf_cells_copy(x->dtype, out->data, 0, x->data, 0, x->count));
    return mf_strided_assign(k->step->pool, &s, &x->shape, out->data, value);
}

static mf_status slice_update_grad(mf_grad *g)
{
    const mf_output zeros = MF_G1("ZerosLike", g->x[4]), shape = MF_G1("Shape", g->x[4]);
    const mf_output dv = same_masks(g, "StridedSlice", MF_IN(g->dy[0], g->x[1], g->x[2], g->x[3]));
    const mf_output axes = MF_G2("BroadcastGradientArgs", shape, MF_G1("Shape", dv));

    g->dx[0] = same_masks(g, "TensorStridedSliceUpdate",
                          MF_IN(g->dy[0], g->x[1], g->x[2], g->x[3], zeros));
    g->dx[4] = MF_G2("Reshape", MF_G2("Sum", dv, axes), shape);
    return MF_OK;
}

/* Dimensions that are taken completely. */
static void slice_split(mf_split *s)
{
    if (!s->in_value[1] || !s->in_value[2])
        return;
    for (int d = 0; d < s->in[0].rank; d++) {
        if (s->in[0].dims[d] == s->out[0].dims[d])
            mf_split_through(s, 0, d, d);
    }
    s->sizes_input = 2;
    s->additive = 1;
}

/* The same for dimensions that masks select completely: begin and end are ignored there. x: input
 * or output; y: the other one, which lacks shrunk dimensions. */
static void strided_letters(mf_split *s, const mf_tensor *strides, mf_split_shape *x, int rank,
                            const mf_shape *shape, mf_split_shape *y)
{
    const mf_node *n = s->node;
    const int64_t whole = mf_node_int(n, "begin_mask") & mf_node_int(n, "end_mask");
    const int64_t shrink = mf_node_int(n, "shrink_axis_mask");
    int at = 0;

    if (!strides || mf_node_int(n, "ellipsis_mask") || mf_node_int(n, "new_axis_mask"))
        return;
    for (int d = 0; d < rank; d++) {
        const bool said = d < strides->count, gone = said && shrink >> d & 1;

        if (!gone && (!said || ((whole >> d & 1) && mf_tensor_int_at(strides, d) == 1))) {
            const int letter = mf_split_new(s, shape->dims[d], MF_CUT_FREE);

            x->dims[d] = y->dims[at] = (mf_split_dim){ .letter = letter, .inside = 1 };
        }
        at += !gone;
    }
}

static void strided_split(mf_split *s)
{
    strided_letters(s, s->in_value[3], &s->in_dims[0], s->in[0].rank, &s->in[0], &s->out_dims[0]);
    s->additive = 1;
}

static void strided_grad_split(mf_split *s)
{
    if (!s->in_value[0])
        return;
    strided_letters(s, s->in_value[3], &s->out_dims[0], s->out[0].rank, &s->out[0], &s->in_dims[4]);
    s->sizes_input = 0;
    s->additive = 1 << 4;
}

const mf_op mf_ops_slice[] = {
    { .name = "Slice",
      .rows = mf_rows_slice,
      .def = "(input:T, begin:Index, size:Index) -> (output:T) {T:type, Index:type in "
             "index}",
      .infer = slice_slice_infer,
      .grad = slice_slice_grad,
      .run = slice_slice_run,
      .split = slice_split,
      .samples = MF_SAMPLES(
          "f32[4,5] i32[2]{1,2} i32[2]{2,3}", "f64[4,5] i64[2]{1,0} i64[2]{-1,-1}",
          "f32[3] i32[1]{3} i32[1]{0}", "f32[] i32[0] i32[0]", "str[3,2] i32[2]{0,1} i32[2]{3,1}",
          "u8[3,4,5] i32[3]{1,1,1} i32[3]{2,3,4}", "f32[4] i32[1]{2} i32[1]{3} !fails",
          "f32[4] i32[1]{-1} i32[1]{1} !fails", "f32[4] i32[1]{5} i32[1]{-1} !fails",
          "f32[4] i32[2]{0,0} i32[2]{1,1} !fails") },
    { .name = "StridedSlice",
      .rows = mf_rows_strided,
      .def = "(input:T, begin:Index, end:Index, strides:Index) -> (output:T) {T:type, "
             "Index:type in [int16,int32,int64], begin_mask:int=0, end_mask:int=0, "
             "ellipsis_mask:int=0, new_axis_mask:int=0, shrink_axis_mask:int=0}",
      .infer = strided_infer,
      .grad = slice_strided_grad,
      .prepare = masks_prepare,
      .run = strided_run,
      .split = strided_split,
      .samples = MF_SAMPLES(
          "f32[4,5] i32[2]{1,0} i32[2]{3,5} i32[2]{1,2}",
          "f32[4,5] i32[2]{-1,4} i32[2]{-5,0} i32[2]{-1,-2}",
          "f64[5,4,3] i64[2]{1,0} i64[2]{2,0} i64[2]{1,1} ; shrink_axis_mask=1 end_mask=2",
          "f32[4,5] i32[2]{0,0} i32[2]{0,0} i32[2]{1,-1} ; begin_mask=3 end_mask=3",
          "f32[2,3,4] i32[2]{0,1} i32[2]{0,3} i32[2]{1,1} ; ellipsis_mask=1",
          "f32[2,3] i32[2]{0,1} i32[2]{0,3} i32[2]{1,1} ; new_axis_mask=1",
          "i32[2,3,4] i32[3]{-1,0,2} i32[3]{0,0,0} i32[3]{1,1,1} ; shrink_axis_mask=5 "
          "ellipsis_mask=2",
          "f32[6] i32[1]{4} i32[1]{2} i32[1]{1}", "f32[] i32[0] i32[0] i32[0]",
          "str[5] i32[1]{-1} i32[1]{-6} i32[1]{-2}",
          "i16[5,7] i32[2]{-9,-20} i32[2]{99,20} i32[2]{2,3}",
          "f32[6] i32[1]{4} i32[1]{2} i32[1]{0} !fails",
          "f32[6] i32[1]{6} i32[1]{7} i32[1]{1} ; shrink_axis_mask=1 !fails",
          "f32[6] i32[2]{0,0} i32[2]{1,1} i32[2]{1,1} !fails",
          "f32[6,6] i32[2]{0,0} i32[2]{1,1} i32[2]{1,1} ; ellipsis_mask=3 !fails") },
    { .name = "StridedSliceGrad",
      .rows = mf_rows_strided_grad,
      .def = "(shape:Index, begin:Index, end:Index, strides:Index, dy:T) -> "
             "(output:T) {T:type, Index:type in index, begin_mask:int=0, "
             "end_mask:int=0, ellipsis_mask:int=0, new_axis_mask:int=0, "
             "shrink_axis_mask:int=0}",
      .infer = strided_grad_infer,
      .grad = strided_grad_grad,
      .prepare = masks_prepare,
      .run = strided_grad_run,
      .split = strided_grad_split,
      .samples = MF_SAMPLES("i32[2]{4,5} i32[2]{1,0} i32[2]{3,5} i32[2]{1,2} f32[2,3]",
                            "i64[1]{6} i64[1]{2} i64[1]{0} i64[1]{1} f64[] ; shrink_axis_mask=1",
                            "i32[1]{6} i32[1]{-1} i32[1]{-7} i32[1]{-3} f32[2]",
                            "i32[1]{6} i32[1]{0} i32[1]{2} i32[1]{1} f32[3] !fails",
                            "i32[1]{-6} i32[1]{0} i32[1]{2} i32[1]{1} f32[2] !fails") },
    { .name = "TensorStridedSliceUpdate",
      .def = "(input:T, begin:Index, end:Index, strides:Index, value:T) -> (output:T) "
             "{T:type, Index:type in index, begin_mask:int=0, end_mask:int=0, "
             "ellipsis_mask:int=0, new_axis_mask:int=0, shrink_axis_mask:int=0}",
      .infer = mf_infer_same,
      .grad = slice_update_grad,
      .prepare = masks_prepare,
      .run = slice_update_run,
      .samples = MF_SAMPLES("f32[4,5] i32[2]{1,0} i32[2]{3,5} i32[2]{1,2} f32[2,3]",
                            "str[3] i32[1]{1} i32[1]{0} i32[1]{1} str[] ; shrink_axis_mask=1",
                            "f32[4,5] i32[2]{1,0} i32[2]{3,5} i32[2]{1,2} f32[2,1]",
                            "f32[4] i32[1]{1} i32[1]{3} i32[1]{1} f32[]",
                            "f32[4] i32[1]{1} i32[1]{3} i32[1]{1} f32[3] !fails") },
    { 0 },
};
