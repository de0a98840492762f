/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast.c - repeating a tensor: tiles, broadcasting, and the arithmetic of broadcast shapes. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

/* ---- Tile ---- */

static mf_status tile_result(const mf_shape *x, const mf_ivec *multiples, mf_shape *out)
{
    if (multiples->n != x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected multiples argument to be a vector of length %d but got length %d",
                       x->rank, multiples->n);
    out->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        if (multiples->v[d] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Expected multiples[%d] >= 0, but got %" PRId64, d,
                           multiples->v[d]);
        out->dims[d] = x->dims[d];
        if (x->dims[d] >= 0 && !mf_mul_i64(x->dims[d], multiples->v[d], &out->dims[d]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "dimension %d tiled exceeds 2^63", d);
    }
    return MF_OK;
}

static mf_status tile_infer(mf_infer *in)
{
    mf_ivec multiples;

    MF_TRY(mf_infer_rank(in, 1, 1));
    if (in->in[0].rank < 0)
        return MF_OK;
    if (in->in_value[1]) {
        MF_TRY(mf_ivec_read(in->in_value[1], MF_MAX_RANK, "multiples", &multiples));
        return tile_result(&in->in[0], &multiples, &in->out[0]);
    }
    if (in->in[1].rank == 1 && in->in[1].dims[0] >= 0 && in->in[1].dims[0] != in->in[0].rank)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Expected multiples argument to be a vector of length %d but got length %lld",
            in->in[0].rank, (long long)in->in[1].dims[0]);
    in->out[0].rank = in->in[0].rank;
    for (int d = 0; d < in->in[0].rank; d++)
        in->out[0].dims[d] = MF_UNKNOWN_DIM;
    return MF_OK;
}

static mf_status tile_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    int64_t in_stride[MF_MAX_RANK], out_stride[MF_MAX_RANK];
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };
    mf_ivec multiples;
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_ivec_read(k->in[1], MF_MAX_RANK, "multiples", &multiples));
    MF_TRY(tile_result(&x->shape, &multiples, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_strides_of(&x->shape, in_stride);
    mf_strides_of(&shape, out_stride);
    for (int d = 0; d < shape.rank; d++) {
        mf_strided_copy_add(&m, multiples.v[d], out_stride[d] * x->shape.dims[d], 0);
        mf_strided_copy_add(&m, x->shape.dims[d], out_stride[d], in_stride[d]);
    }
    m.dst = out->data;
    return mf_strided_copy_run(k->step->pool, &m);
}

/* The product of elements [from, from + n) of the vector of MF_MAX_RANK sizes, as a vector of one.
 */
static mf_output sizes_product(mf_grad *g, mf_output sizes, int from, int n)
{
    const mf_output at = mf_ints(g->graph, (int64_t[]){ from }, 1);
    const mf_output length = mf_ints(g->graph, (int64_t[]){ n }, 1);
    const mf_output zero = mf_ints(g->graph, (int64_t[]){ 0 }, 1);

    return mf_applyf(g->graph, "Prod", MF_IN(MF_G3("Slice", sizes, at, length), zero),
                     "keep_dims=true");
}

/* Sums dimensions [from, from + n) of the tiled dy to those of x: they are viewed as [.., multiple,
 * size, .., ..] and reduced over the multiples. Earlier dimensions are still tiled, later ones are
 * not. */
static mf_output untile(mf_grad *g, mf_output dy, mf_output multiples, mf_output sizes, int from,
                        int n)
{
    const mf_output axis = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output at = mf_ints(g->graph, (int64_t[]){ from }, 1);
    const mf_output length = mf_ints(g->graph, (int64_t[]){ n }, 1);
    const mf_output flat = mf_ints(g->graph, (int64_t[]){ -1 }, 1);
    const mf_output pairs = mf_applyf(
        g->graph, "Pack",
        MF_IN(MF_G3("Slice", multiples, at, length), MF_G3("Slice", sizes, at, length)), "axis=1");
    const mf_output before = sizes_product(g, MF_G2("Mul", multiples, sizes), 0, from);
    const mf_output behind = sizes_product(g, sizes, from + n, MF_MAX_RANK - from - n);
    const mf_output view =
        mf_apply(g->graph, "ConcatV2", MF_IN(before, MF_G2("Reshape", pairs, flat), behind, axis));
    const mf_output axes = mf_ints(g->graph, (int64_t[]){ 1, 3, 5 }, n);

    return MF_G2("Sum", MF_G2("Reshape", dy, view), axes);
}

/* `sizes` padded with leading ones to MF_MAX_RANK. */
static mf_output padded_sizes(mf_grad *g, mf_output sizes)
{
    const mf_output rank = mf_scalar(g->graph, MF_DTYPE_I32, MF_MAX_RANK);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output missing = MF_G2("Sub", rank, MF_G1("Size", sizes));
    const mf_output ones =
        MF_G2("Fill", MF_G2("Reshape", missing, mf_ints(g->graph, (int64_t[]){ 1 }, 1)), one);

    return MF_G3("ConcatV2", ones, sizes, mf_scalar(g->graph, MF_DTYPE_I32, 0));
}

/* Three dimensions at a time, last first: a view of all of them would have twice the rank. The rank
 * may be unknown; missing leading dimensions are 1. */
static mf_status tile_grad(mf_grad *g)
{
    const mf_output shape = MF_G1("Shape", g->x[0]), sizes = padded_sizes(g, shape);
    const mf_output given = mf_grad_type(g->x[1]) == MF_DTYPE_I32
                                ? g->x[1]
                                : mf_applyf(g->graph, "Cast", MF_IN(g->x[1]), "DstT=int32");
    const mf_output multiples = padded_sizes(g, given);
    mf_output dx = g->dy[0];

    for (int end = MF_MAX_RANK; end > 0; end -= 3)
        dx = untile(g, dx, multiples, sizes, end > 3 ? end - 3 : 0, end > 3 ? 3 : end);
    g->dx[0] = MF_G2("Reshape", dx, shape);
    return MF_OK;
}

/* ---- BroadcastTo ---- */

static mf_status check_broadcast(const mf_shape *x, const mf_shape *to)
{
    char tx[MF_SHAPE_TEXT], tt[MF_SHAPE_TEXT];
    bool ok = x->rank <= to->rank;

    for (int d = 0; ok && d < x->rank; d++) {
        const int64_t dim = x->dims[d], want = to->dims[to->rank - x->rank + d];

        ok = dim == 1 || dim < 0 || want < 0 || dim == want;
    }
    if (ok)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s", mf_shape_text(x, tx),
                   mf_shape_text(to, tt));
}

static mf_status broadcast_to_infer(mf_infer *in)
{
    MF_TRY(mf_infer_shape_input(in, 1, &in->out[0]));
    if (in->in[0].rank < 0 || in->out[0].rank < 0)
        return MF_OK;
    return check_broadcast(&in->in[0], &in->out[0]);
}

static mf_status broadcast_to_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    int64_t in_stride[MF_MAX_RANK], out_stride[MF_MAX_RANK];
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_shape_read(k->in[1], "shape", &shape));
    MF_TRY(check_broadcast(&x->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_strides_of(&x->shape, in_stride);
    mf_strides_of(&shape, out_stride);
    for (int d = 0; d < shape.rank; d++) {
        const int dx = d - (shape.rank - x->shape.rank);
        const bool repeats = dx < 0 || x->shape.dims[dx] == 1;

        mf_strided_copy_add(&m, shape.dims[d], out_stride[d], repeats ? 0 : in_stride[dx]);
    }
    m.dst = out->data;
    return mf_strided_copy_run(k->step->pool, &m);
}

static mf_status broadcast_to_grad(mf_grad *g)
{
    const mf_output shape = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s",
                                      mf_dtype_name(mf_grad_type(g->x[1])));
    const mf_output axes = MF_G2("BroadcastGradientArgs", shape, g->x[1]);

    g->dx[0] = MF_G2("Reshape", MF_G2("Sum", g->dy[0], axes), shape);
    return MF_OK;
}

/* ---- BroadcastArgs, BroadcastGradientArgs ---- */

static mf_status sizes_read(const mf_tensor *t, const char *what, mf_ivec *out)
{
    if (t->shape.rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be a vector, got shape []", what);
    return mf_ivec_read(t, MF_MAX_RANK, what, out);
}

/* The broadcast of two shapes given as vectors, and bit sets of the dimensions along which each is
 * repeated. Dimensions that are 1 in both are in both sets: summing over them changes nothing.
 * Equal shapes reduce nothing. As in TensorFlow, sizes may be any numbers, including -1. */
static mf_status broadcast_vectors(const mf_tensor *s0, const mf_tensor *s1, mf_ivec *out,
                                   unsigned reduce[2])
{
    bool equal;
    mf_ivec a, b;

    MF_TRY(sizes_read(s0, "s0", &a));
    MF_TRY(sizes_read(s1, "s1", &b));
    reduce[0] = reduce[1] = 0;
    equal = a.n == b.n;
    out->n = a.n > b.n ? a.n : b.n;
    for (int d = 0; d < out->n; d++) {
        const int da = d - (out->n - a.n), db = d - (out->n - b.n);
        const int64_t x = da < 0 ? 1 : a.v[da], y = db < 0 ? 1 : b.v[db];

        if (x != y && x != 1 && y != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Incompatible shapes: sizes %" PRId64 " and %" PRId64
                           " of dimension %d, counted from the last",
                           x, y, d - out->n);
        out->v[d] = x == 1 ? y : x;
        reduce[0] |= x == 1 ? 1u << d : 0;
        reduce[1] |= y == 1 ? 1u << d : 0;
        equal = equal && x == y;
    }
    if (equal)
        reduce[0] = reduce[1] = 0;
    return MF_OK;
}

static mf_status args_infer(mf_infer *in)
{
    const mf_shape *a = &in->in[0], *b = &in->in[1];

    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM);
    if (a->rank == 1 && b->rank == 1 && a->dims[0] >= 0 && b->dims[0] >= 0)
        in->out[0].dims[0] = a->dims[0] > b->dims[0] ? a->dims[0] : b->dims[0];
    return MF_OK;
}

static mf_status args_run(mf_kernel *k)
{
    unsigned reduce[2];
    mf_ivec sizes;
    mf_tensor *out;

    MF_TRY(broadcast_vectors(k->in[0], k->in[1], &sizes, reduce));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(sizes.n), &out));
    for (int d = 0; d < sizes.n; d++)
        mf_index_put(out, d, sizes.v[d]);
    return MF_OK;
}

static int broadcast_axes_of(unsigned set, int64_t axes[MF_MAX_RANK])
{
    int n = 0;

    for (int d = 0; d < MF_MAX_RANK; d++) {
        if (set >> d & 1)
            axes[n++] = d;
    }
    return n;
}

static mf_status gradient_args_infer(mf_infer *in)
{
    int64_t axes[MF_MAX_RANK];
    unsigned reduce[2];
    mf_ivec sizes;

    MF_TRY(mf_infer_rank(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 1));
    in->out[0] = in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    if (!in->in_value[0] || !in->in_value[1])
        return MF_OK;
    MF_TRY(broadcast_vectors(in->in_value[0], in->in_value[1], &sizes, reduce));
    for (int i = 0; i < 2; i++)
        MF_TRY(mf_infer_ints(in, i, 1, axes, broadcast_axes_of(reduce[i], axes)));
    return MF_OK;
}

static mf_status gradient_args_run(mf_kernel *k)
{
    int64_t axes[MF_MAX_RANK];
    unsigned reduce[2];
    mf_ivec sizes;
    mf_tensor *out;

    MF_TRY(broadcast_vectors(k->in[0], k->in[1], &sizes, reduce));
    for (int i = 0; i < 2; i++) {
        const int n = broadcast_axes_of(reduce[i], axes);

        MF_TRY(mf_kernel_out(k, i, &MF_SHAPE(n), &out));
        for (int j = 0; j < n; j++)
            mf_index_put(out, j, axes[j]);
    }
    return MF_OK;
}

/* Dimensions with multiple 1. */
static void tile_split(mf_split *s)
{
    for (int d = 0; s->in_value[1] && d < s->in[0].rank; d++) {
        if (mf_tensor_int_at(s->in_value[1], d) == 1)
            mf_split_through(s, 0, d, d);
    }
    s->additive = 1;
}

static void broadcast_to_split(mf_split *s)
{
    if (!s->in_value[1])
        return;
    mf_split_broadcast(s, 1);
    s->sizes_input = 1;
    s->additive = 1;
}

const mf_op mf_ops_broadcast[] = {
    { .name = "Tile",
      .rows = mf_rows_tile,
      .def = "(input:T, multiples:Tmultiples) -> (output:T) {T:type, "
             "Tmultiples:type=int32 in index}",
      .infer = tile_infer,
      .grad = tile_grad,
      .run = tile_run,
      .split = tile_split,
      .samples =
          MF_SAMPLES("f32[2,3] i32[2]{2,1}", "f64[3] i64[1]{4}", "f32[2,1,3] i32[3]{1,5,2}",
                     "f32[1,2,1,3,1,2] i32[6]{2,2,1,1,3,2}", "f32[] i32[0]", "f32[2,3] i32[2]{0,2}",
                     "str[2] i32[1]{2}", "u8[2,2] i32[2]{3,3}", "f32[2] i32[1]{-1} !fails",
                     "f32[2] i32[2]{1,1} !fails", "f32[] i32[1]{2} !fails") },
    { .name = "BroadcastTo",
      .rows = mf_rows_broadcast,
      .def = "(input:T, shape:Tidx) -> (output:T) {T:type, Tidx:type=int32 in index}",
      .infer = broadcast_to_infer,
      .grad = broadcast_to_grad,
      .run = broadcast_to_run,
      .split = broadcast_to_split,
      .samples = MF_SAMPLES("f32[3] i32[2]{2,3}", "f64[2,1] i64[3]{4,2,5}", "f32[] i32[1]{3}",
                            "f32[1,3] i32[2]{0,3}", "str[1] i32[1]{3}", "f32[2] i32[1]{2}",
                            "f32[3] i32[2]{3,2} !fails", "f32[2,2] i32[1]{2} !fails") },
    { .name = "BroadcastArgs",
      .def = "(s0:T, s1:T) -> (r0:T) {T:type=int32 in index}",
      .infer = args_infer,
      .grad = mf_grad_missing,
      .run = args_run,
      .samples = MF_SAMPLES("i32[2]{2,1} i32[1]{3}", "i64[0] i64[2]{4,5}", "i32[1]{0} i32[1]{1}",
                            "i32[2]{-1,1} i32[2]{1,-1}", "i32[1]{2} i32[1]{3} !fails",
                            "i32[]{2} i32[1]{2} !fails") },
    { .name = "BroadcastGradientArgs",
      .def = "(s0:T, s1:T) -> (r0:T, r1:T) {T:type=int32 in index}",
      .infer = gradient_args_infer,
      .grad = mf_grad_none,
      .run = gradient_args_run,
      .samples = MF_SAMPLES("i32[2]{2,1} i32[1]{3}", "i64[3]{1,1,5} i64[2]{1,5}",
                            "i32[0] i32[2]{4,5}", "i32[2]{2,3} i32[2]{2,3}", "i32[1]{1} i32[1]{1}",
                            "i32[0] i32[0]", "i32[1]{0} i32[1]{1}", "i32[1]{2} i32[1]{3} !fails",
                            "i32[]{2} i32[1]{2} !fails") },
    { 0 },
};
