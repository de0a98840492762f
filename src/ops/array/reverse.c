/* SPDX-License-Identifier: Apache-2.0 */
/* reverse.c - reverses or rotates elements along dimensions. */
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

/* A copy of x's box `dims`, reversed along the dimensions in `back`. */
static mf_strided_copy box_move(const mf_tensor *x, const mf_tensor *out, const int64_t *dims,
                                const bool *back)
{
    mf_strided_copy m = { .dtype = x->dtype, .dst = out->data };
    int64_t stride[MF_MAX_RANK], at = 0;

    mf_strides_of(&x->shape, stride);
    for (int d = 0; d < x->shape.rank; d++) {
        const bool b = back[d] && dims[d] > 1;

        mf_strided_copy_add(&m, dims[d], stride[d], b ? -stride[d] : stride[d]);
        at += b ? (dims[d] - 1) * stride[d] : 0;
    }
    m.src = mf_cell_at(x->dtype, x->data, at);
    return m;
}

/* ---- ReverseV2, Reverse ---- */

static mf_status reverse_axes(const mf_tensor *axes, int rank, bool *back)
{
    mf_ivec v;

    MF_TRY(mf_ivec_read(axes, MF_MAX_RANK, "axis", &v));
    for (int i = 0; i < v.n; i++) {
        int axis;

        if (!mf_axis_fix(v.v[i], rank, &axis))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'axis'[%d] = %" PRId64 " is out of valid range [0, %d)", i, v.v[i],
                           rank);
        if (back[axis])
            return MF_FAIL(MF_INVALID_ARGUMENT, "axis %d specified more than once", axis);
        back[axis] = true;
    }
    return MF_OK;
}

static mf_status reverse_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *which = k->in[1];
    bool back[MF_MAX_RANK] = { false };
    mf_tensor *out;
    mf_strided_copy m;

    if (which->dtype == MF_DTYPE_BOOL) {
        if (which->shape.rank != 1 || which->count != x->shape.rank)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "'dims' must have a value for each of the %d dimensions, got %" PRId64,
                           x->shape.rank, which->count);
        for (int d = 0; d < x->shape.rank; d++)
            back[d] = ((const uint8_t *)which->data)[d] != 0;
    } else {
        MF_TRY(reverse_axes(which, x->shape.rank, back));
    }
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    m = box_move(x, out, x->shape.dims, back);
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status reverse_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 1, 1));
    return mf_infer_same(in);
}

static mf_status reverse_grad(mf_grad *g)
{
    g->dx[0] = MF_G2(g->node->op_name, g->dy[0], g->x[1]);
    return MF_OK;
}

/* ---- ReverseSequence ---- */

typedef struct sequence_dims {
    int64_t seq, batch;
} sequence_dims;

static mf_status sequence_prepare(mf_prepare *p)
{
    sequence_dims *dims = MF_ARENA_NEW(p->arena, sequence_dims);

    if (!dims)
        return MF_NOMEM("a kernel");
    dims->seq = mf_node_int(p->node, "seq_dim");
    dims->batch = mf_node_int(p->node, "batch_dim");
    p->state = dims;
    return MF_OK;
}

static mf_status check_sequence(const sequence_dims *dims, const mf_shape *x, int64_t n_lengths)
{
    if (dims->seq < 0 || dims->seq >= x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "seq_dim must be < input rank ( %" PRId64 " vs. %d)",
                       dims->seq, x->rank);
    if (dims->batch < 0 || dims->batch >= x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "batch_dim must be < input rank ( %" PRId64 " vs. %d)",
                       dims->batch, x->rank);
    if (dims->seq == dims->batch)
        return MF_FAIL(MF_INVALID_ARGUMENT, "batch_dim == seq_dim == %" PRId64, dims->seq);
    if (n_lengths >= 0 && x->dims[dims->batch] >= 0 && n_lengths != x->dims[dims->batch])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Length of seq_lengths != input.dims(%" PRId64 "), (%" PRId64 " vs. %" PRId64
                       ")",
                       dims->batch, n_lengths, x->dims[dims->batch]);
    return MF_OK;
}

static mf_status sequence_infer(mf_infer *in)
{
    const sequence_dims dims = { mf_node_int(in->node, "seq_dim"),
                                 mf_node_int(in->node, "batch_dim") };

    MF_TRY(mf_infer_rank(in, 1, 1));
    if (in->in[0].rank >= 0)
        MF_TRY(check_sequence(&dims, &in->in[0], in->in[1].rank == 1 ? in->in[1].dims[0] : -1));
    return mf_infer_same(in);
}

/* One batch entry: reverses its first `length` steps, copies the rest. */
static mf_status reverse_entry(mf_kernel *k, mf_tensor *out, const sequence_dims *dims, int64_t b,
                               int64_t length)
{
    const mf_tensor *x = k->in[0];
    bool back[MF_MAX_RANK] = { false };
    int64_t stride[MF_MAX_RANK], from;
    mf_shape box = x->shape;
    mf_strided_copy m;

    mf_strides_of(&x->shape, stride);
    box.dims[dims->batch] = 1;
    for (int part = 0; part < 2; part++) {
        const int64_t first = part ? length : 0;

        box.dims[dims->seq] = part ? x->shape.dims[dims->seq] - length : length;
        back[dims->seq] = part == 0;
        from = b * stride[dims->batch] + first * stride[dims->seq];
        m = box_move(x, out, box.dims, back);
        m.src = mf_cell_at(x->dtype, m.src, from);
        m.dst = mf_cell_at(x->dtype, m.dst, from);
        MF_TRY(mf_strided_copy_run(k->step->pool, &m));
    }
    return MF_OK;
}

static mf_status sequence_run(mf_kernel *k)
{
    const sequence_dims *dims = k->state;
    const mf_tensor *x = k->in[0], *lengths = k->in[1];
    mf_tensor *out;

    MF_TRY(check_sequence(dims, &x->shape, lengths->count));
    for (int64_t i = 0; i < lengths->count; i++) {
        const int64_t n = mf_index_at(lengths, i);

        if (n < 0 || n > x->shape.dims[dims->seq])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "seq_lens(%" PRId64 ") = %" PRId64 " is not in [0, %" PRId64 "]", i, n,
                           x->shape.dims[dims->seq]);
    }
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    for (int64_t i = 0; i < lengths->count; i++)
        MF_TRY(reverse_entry(k, out, dims, i, mf_index_at(lengths, i)));
    return MF_OK;
}

static mf_status sequence_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, "ReverseSequence", MF_IN(g->dy[0], g->x[1]),
                         "seq_dim=%lld batch_dim=%lld", (long long)mf_node_int(g->node, "seq_dim"),
                         (long long)mf_node_int(g->node, "batch_dim"));
    return MF_OK;
}

/* ---- Roll ---- */

/* The shift of each dimension towards larger indices, in [0, dim). */
static mf_status roll_shifts(const mf_kernel *k, int64_t *shift)
{
    const mf_shape *x = &k->in[0]->shape;

    if (k->in[1]->shape.rank > 1 || k->in[1]->count != k->in[2]->count || k->in[2]->shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "shift and axis must have the same size: %" PRId64 " vs. %" PRId64,
                       k->in[1]->count, k->in[2]->count);
    for (int64_t i = 0; i < k->in[1]->count; i++) {
        int64_t by = mf_index_at(k->in[1], i), dim;
        int axis;

        MF_TRY(mf_axis_read(mf_index_at(k->in[2], i), x->rank, "axis", &axis));
        dim = x->dims[axis] > 0 ? x->dims[axis] : 1;
        by = by % dim;
        shift[axis] = (shift[axis] + (by < 0 ? by + dim : by)) % dim;
    }
    return MF_OK;
}

/* A rotated dimension has two parts, which swap places; a box is one part of each dimension. Bit d
 * of `parts` selects the part that wraps around. */
static mf_status roll_box(mf_kernel *k, const mf_tensor *out, const int64_t *shift, unsigned parts)
{
    const mf_tensor *x = k->in[0];
    mf_strided_copy m = { .dtype = x->dtype };
    int64_t stride[MF_MAX_RANK], from = 0, to = 0;

    mf_strides_of(&x->shape, stride);
    for (int d = 0; d < x->shape.rank; d++) {
        const bool wraps = parts >> d & 1;
        const int64_t stays = x->shape.dims[d] - shift[d];

        mf_strided_copy_add(&m, wraps ? shift[d] : stays, stride[d], stride[d]);
        from += wraps ? stays * stride[d] : 0;
        to += wraps ? 0 : shift[d] * stride[d];
    }
    m.src = mf_cell_at(x->dtype, x->data, from);
    m.dst = mf_cell_at(x->dtype, out->data, to);
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status roll_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    int64_t shift[MF_MAX_RANK] = { 0 };
    unsigned moving = 0;
    mf_tensor *out;

    if (x->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be 1-D or higher");
    MF_TRY(roll_shifts(k, shift));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    if (out->count == 0)
        return MF_OK;
    for (int d = 0; d < x->shape.rank; d++)
        moving |= shift[d] ? 1u << d : 0;
    for (unsigned parts = 0; parts < 1u << x->shape.rank; parts++) {
        if ((parts & ~moving) == 0)
            MF_TRY(roll_box(k, out, shift, parts));
    }
    return MF_OK;
}

static mf_status roll_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    return mf_infer_same(in);
}

static mf_status roll_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("Roll", g->dy[0], MF_G1("Neg", g->x[1]), g->x[2]);
    return MF_OK;
}

const mf_op mf_ops_reverse[] = {
    { .name = "ReverseV2",
      .def = "(tensor:T, axis:Tidx) -> (output:T) {Tidx:type=int32 in index, T:type "
             "in [uint8,int8,uint16,int16,int32,uint32,int64,uint64,bool,bfloat16,"
             "half,float,double,complex64,complex128,string]}",
      .infer = reverse_infer,
      .grad = reverse_grad,
      .run = reverse_run,
      .samples = MF_SAMPLES("f32[2,3] i32[1]{1}", "f64[2,3,4] i64[2]{0,-1}", "f32[3] i32[0]",
                            "str[3] i32[1]{0}", "f32[0,2] i32[1]{0}", "c64[4] i32[1]{0}",
                            "f32[2,3] i32[1]{2} !fails", "f32[2,3] i32[2]{1,-1} !fails") },
    { .name = "Reverse",
      .def = "(tensor:T, dims:bool) -> (output:T) {T:type in [uint8,int8,uint16,int16,"
             "uint32,int32,uint64,int64,bool,bfloat16,half,float,double,complex64,"
             "complex128,string]}",
      .infer = reverse_infer,
      .grad = reverse_grad,
      .run = reverse_run,
      .samples =
          MF_SAMPLES("f32[2,3] bool[2]{0,1}", "i32[3] bool[1]{1}", "f32[2,3] bool[1]{1} !fails") },
    { .name = "ReverseSequence",
      .def = "(input:T, seq_lengths:Tlen) -> (output:T) {seq_dim:int, batch_dim:int=0,"
             " T:type, Tlen:type=int64 in index}",
      .infer = sequence_infer,
      .grad = sequence_grad,
      .prepare = sequence_prepare,
      .run = sequence_run,
      .samples = MF_SAMPLES(
          "f32[3,4,2] i64[3]{2,0,4} ; seq_dim=1", "f64[4,3] i32[3]{1,4,3} ; seq_dim=0 batch_dim=1",
          "str[2,3] i32[2]{3,2} ; seq_dim=1", "f32[2,3] i32[2]{4,0} ; seq_dim=1 !fails",
          "f32[2,3] i32[3]{1,1,1} ; seq_dim=1 !fails", "f32[2,3] i32[2]{1,1} ; seq_dim=2 !fails") },
    { .name = "Roll",
      .def = "(input:T, shift:Tshift, axis:Taxis) -> (output:T) {T:type, Tshift:type "
             "in index, Taxis:type in index}",
      .infer = roll_infer,
      .grad = roll_grad,
      .run = roll_run,
      .samples =
          MF_SAMPLES("f32[5] i32[]{2} i32[]{0}", "f32[4,5] i32[2]{-1,7} i32[2]{0,1}",
                     "f64[3,2,4] i64[3]{1,1,2} i64[3]{2,0,2}", "str[3] i32[]{1} i32[]{-1}",
                     "f32[0,3] i32[]{1} i32[]{0}", "f32[] i32[]{1} i32[]{0} !fails",
                     "f32[3] i32[]{1} i32[]{1} !fails", "f32[3] i32[2]{1,2} i32[1]{0} !fails") },
    { 0 },
};
