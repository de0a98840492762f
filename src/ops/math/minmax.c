/* SPDX-License-Identifier: Apache-2.0 */
/* minmax.c - maximum, minimum, and clipping. NaN wins in Maximum and Minimum. */
#include "ops/math/math_util.h"

#define MAX_FLOAT(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MIN_FLOAT(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))
#define MAX_INT(x, y) ((x) > (y) ? (x) : (y))
#define MIN_INT(x, y) ((x) < (y) ? (x) : (y))

MF_EACH_FLOAT(MF_BINARY, maximum, MAX_FLOAT)
MF_EACH_INT(MF_BINARY, maximum, MAX_INT)
MF_EACH_FLOAT(MF_BINARY, minimum, MIN_FLOAT)
MF_EACH_INT(MF_BINARY, minimum, MIN_INT)
MF_LOOP_TABLE(maximum, 2, MF_FN_FLOATS(maximum), MF_FN_INTS(maximum))
MF_LOOP_TABLE(minimum, 2, MF_FN_FLOATS(minimum), MF_FN_INTS(minimum))

/* The gradient goes to x where `x_wins` is true, otherwise to y. */
static void minmax_split_grad(mf_grad *g, mf_output x_wins)
{
    const mf_output zero = mf_grad_scalar(g, g->dy[0], 0);

    mf_grad_broadcast2(g, MF_G3("SelectV2", x_wins, g->dy[0], zero),
                       MF_G3("SelectV2", x_wins, zero, g->dy[0]));
}

static mf_status maximum_grad(mf_grad *g)
{
    minmax_split_grad(g, MF_G2("GreaterEqual", g->x[0], g->x[1]));
    return MF_OK;
}

static mf_status minimum_grad(mf_grad *g)
{
    minmax_split_grad(g, MF_G2("LessEqual", g->x[0], g->x[1]));
    return MF_OK;
}

/* ---- ClipByValue ---- */

/* If the bounds contradict each other, the lower one wins. */
#define TOP(v, hi) ((v) > (hi) ? (hi) : (v))
#define CLIP(v, lo, hi) (TOP(v, hi) < (lo) ? (lo) : TOP(v, hi))
#define CLIP_LOOP(kind, LO, HI)                                                                    \
    MF_IVDEP                                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const MF_C_##kind x = MF_LD_##kind(a, i), lo = LO, hi = HI;                                \
        o[i] = MF_ST_##kind(CLIP(x, lo, hi));                                                      \
    }
/* Bounds are almost always scalars; other combinations step by 0 or 1. */
#define CLIP_KIND(NAME, kind, EXPR)                                                                \
    static void NAME##_##kind(const mf_span *s)                                                    \
    {                                                                                              \
        const MF_S_##kind *a = s->in[0], *b = s->in[1], *c = s->in[2];                             \
        const int64_t bs = !s->scalar[1], cs = !s->scalar[2], n = s->n;                            \
        MF_S_##kind *o = s->out;                                                                   \
        if (!bs && !cs && !s->scalar[0]) {                                                         \
            const MF_C_##kind low = MF_LD_##kind(b, 0), high = MF_LD_##kind(c, 0);                 \
            CLIP_LOOP(kind, low, high)                                                             \
        } else if (s->scalar[0]) { /* then all inputs are scalars */                               \
            const MF_C_##kind x = MF_LD_##kind(a, 0), lo = MF_LD_##kind(b, 0),                     \
                              hi = MF_LD_##kind(c, 0);                                             \
            const MF_S_##kind r = MF_ST_##kind(CLIP(x, lo, hi));                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                o[i] = r;                                                                          \
        } else {                                                                                   \
            CLIP_LOOP(kind, MF_LD_##kind(b, i *bs), MF_LD_##kind(c, i *cs))                        \
        }                                                                                          \
    }
MF_EACH_FLOAT(CLIP_KIND, clip, )
MF_EACH_INT(CLIP_KIND, clip, )
MF_LOOP_TABLE(clip, 3, MF_FN_FLOATS(clip), MF_FN_INTS(clip), MF_FN_QUANTIZED(clip))

/* A bound is a scalar or has the tensor's shape; it does not broadcast the tensor. */
static mf_status clip_run(mf_kernel *k)
{
    char t[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    for (int i = 1; i < 3; i++) {
        const mf_shape *shape = &k->in[i]->shape;

        if (shape->rank != 0 && !mf_shape_equal(shape, &k->in[0]->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "clip_value_min and clip_value_max must be either of the same shape as "
                           "input, or a scalar. input shape: %s, %s shape: %s",
                           mf_shape_text(&k->in[0]->shape, t),
                           i == 1 ? "clip_value_min" : "clip_value_max", mf_shape_text(shape, b));
    }
    return mf_loop_run(k);
}

static mf_status clip_infer(mf_infer *in)
{
    in->out[0] = in->in[0];
    for (int i = 1; i < 3; i++) {
        if (in->in[i].rank > 0)
            MF_TRY(mf_shape_merge(&in->out[0], &in->in[i], &in->out[0]));
    }
    return MF_OK;
}

/* Sums `dx` over the dimensions along which input `i` was repeated. */
static mf_output minmax_sum_like(mf_grad *g, mf_output dx, int i)
{
    const mf_output shape = MF_G1("Shape", g->x[i]);
    const mf_output axes = MF_G2("BroadcastGradientArgs", shape, MF_G1("Shape", g->y[0]));

    return MF_G2("Reshape", MF_G2("Sum", dx, axes), shape);
}

static mf_status clip_grad(mf_grad *g)
{
    const mf_output zero = mf_grad_scalar(g, g->dy[0], 0);
    const mf_output below = MF_G2("Less", g->x[0], g->x[1]);
    const mf_output above = MF_G2("Greater", g->x[0], g->x[2]);

    g->dx[0] = MF_G3("SelectV2", MF_G2("LogicalOr", below, above), zero, g->dy[0]);
    g->dx[1] = minmax_sum_like(g, MF_G3("SelectV2", below, g->dy[0], zero), 1);
    g->dx[2] = minmax_sum_like(g, MF_G3("SelectV2", above, g->dy[0], zero), 2);
    return MF_OK;
}

const mf_op mf_ops_minmax[] = {
    MF_LOOP_OP("Maximum", "(x:T, y:T) -> (z:T) {T:type in reals}", maximum_loop, maximum_grad,
               "f32[2,3] f32[2,3]", "f32[2,3] f32[]", "f32[3]{nan,1,0} f32[3]{1,nan,-0} !nograd",
               "f64[3,1] f64[2]", "i32[3] i32[3]", "u8[4] u8[]", "bf16[5] bf16[5]",
               "f32[0,2] f32[2]", "f32[2] f32[3] !fails"),
    MF_LOOP_OP("Minimum", "(x:T, y:T) -> (z:T) {T:type in reals}", minimum_loop, minimum_grad,
               "f32[2,3] f32[2,3]", "f32[] f32[4]", "f32[3]{nan,1,0} f32[3]{1,nan,-0} !nograd",
               "f64[3,1] f64[2]", "i64[3] i64[3]", "u16[4] u16[]", "f16[5] f16[5]",
               "f32[2] f32[3] !fails"),
    { .name = "ClipByValue",
      .def = "(t:T, clip_value_min:T, clip_value_max:T) -> (output:T) {T:type in numbers}",
      .flags = MF_OP_INPLACE,
      .infer = clip_infer,
      .grad = clip_grad,
      .run = clip_run,
      .loop = &clip_loop,
      .samples = MF_SAMPLES(
          "f32[2,3] f32[]{-1} f32[]{1}", "f32[5] f32[5]@-2:-1 f32[5]@1:2",
          "f32[4] f32[]{-1} f32[4]@0:1", "f64[3] f64[3]@-1:0 f64[]{1}", "i32[7] i32[]{-1} i32[]{2}",
          "f32[4]{nan,3,1,5} f32[]{4} f32[]{2} !nograd", "f32[] f32[]{-1} f32[]{1}",
          "f32[0] f32[]{-1} f32[]{1}", "f16[3] f16[]{-1} f16[]{1}",
          "f32[2,3] f32[3] f32[]{1} !fails", "f32[1] f32[3] f32[3] !fails") },
    { 0 },
};
