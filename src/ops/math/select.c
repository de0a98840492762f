/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - elements of one of two tensors, by a condition.
 *
 * Only the size of an element matters: one loop per size serves all plain types. Strings and
 * objects are copied one by one. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/math/math_util.h"

typedef struct pair64 {
    uint64_t lo, hi;
} pair64;

#define SELECT_CASE(T, E)                                                                          \
    MF_IVDEP                                                                                       \
    for (int64_t i = 0; i < n; i++)                                                                \
        o[i] = c[i] ? (T) : (E);
/* Scalar values are read before anything is written: the output may alias an input. */
#define SELECT_LOOP(NAME, TYPE)                                                                    \
    static void NAME(const mf_span *s)                                                             \
    {                                                                                              \
        const uint8_t *c = s->in[0];                                                               \
        const TYPE *t = s->in[1], *e = s->in[2];                                                   \
        const TYPE t0 = *t, e0 = *e;                                                               \
        const int64_t n = s->n; /* bytes written might be *s for all the compiler knows */         \
        TYPE *o = s->out;                                                                          \
        if (s->scalar[0]) {                                                                        \
            const TYPE *from = *c ? t : e, one = *from;                                            \
            if (s->scalar[*c ? 1 : 2]) {                                                           \
                for (int64_t i = 0; i < n; i++)                                                    \
                    o[i] = one;                                                                    \
            } else if (from != o) {                                                                \
                memcpy(o, from, (size_t)n * sizeof(TYPE));                                         \
            }                                                                                      \
        } else if (s->scalar[1]) {                                                                 \
            if (s->scalar[2]) {                                                                    \
                SELECT_CASE(t0, e0)                                                                \
            } else {                                                                               \
                SELECT_CASE(t0, e[i])                                                              \
            }                                                                                      \
        } else if (s->scalar[2]) {                                                                 \
            SELECT_CASE(t[i], e0)                                                                  \
        } else {                                                                                   \
            SELECT_CASE(t[i], e[i])                                                                \
        }                                                                                          \
    }
SELECT_LOOP(select1, uint8_t)
SELECT_LOOP(select2, uint16_t)
SELECT_LOOP(select4, uint32_t)
SELECT_LOOP(select8, uint64_t)
SELECT_LOOP(select16, pair64)

MF_LOOP_TABLE(select, 3, [MF_DTYPE_BOOL] = select1, [MF_DTYPE_I8] = select1,
              [MF_DTYPE_U8] = select1, [MF_DTYPE_QI8] = select1, [MF_DTYPE_QU8] = select1,
              [MF_DTYPE_I16] = select2, [MF_DTYPE_U16] = select2, [MF_DTYPE_QI16] = select2,
              [MF_DTYPE_QU16] = select2, [MF_DTYPE_F16] = select2, [MF_DTYPE_BF16] = select2,
              [MF_DTYPE_I32] = select4, [MF_DTYPE_U32] = select4, [MF_DTYPE_QI32] = select4,
              [MF_DTYPE_F32] = select4, [MF_DTYPE_I64] = select8, [MF_DTYPE_U64] = select8,
              [MF_DTYPE_F64] = select8, [MF_DTYPE_C64] = select8, [MF_DTYPE_C128] = select16)

/* Strings and objects. */
static mf_status select_cells(mf_kernel *k)
{
    const mf_shape *shapes[3] = { &k->in[0]->shape, &k->in[1]->shape, &k->in[2]->shape };
    const uint8_t *condition = k->in[0]->data;
    mf_shape shape;
    mf_broadcast b;
    mf_tensor *out;

    MF_TRY(mf_shape_broadcast(shapes[0], shapes[1], &shape));
    MF_TRY(mf_shape_broadcast(&shape, shapes[2], &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_broadcast_init(&b, &shape, shapes, 3);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i, at[3] = { 0 };
        int from;

        for (int d = b.rank - 1; d >= 0; d--) {
            for (int j = 0; j < 3; j++)
                at[j] += rest % b.dims[d] * b.stride[j][d];
            rest /= b.dims[d];
        }
        from = condition[at[0]] ? 1 : 2;
        MF_TRY(mf_cells_copy(out->dtype, out->data, i, k->in[from]->data, at[from], 1));
    }
    return MF_OK;
}

static mf_status select_select_run(mf_kernel *k)
{
    return mf_dtype_is_plain(k->in[1]->dtype) ? mf_loop_run_hidden(k, &select_loop)
                                              : select_cells(k);
}

/* ---- Select: no broadcasting, but a scalar condition or one element per row ---- */

static mf_status select_v1_run(mf_kernel *k)
{
    mf_tensor condition = *k->in[0]; /* borrowed, with another shape */
    const mf_tensor *in[3] = { &condition, k->in[1], k->in[2] };
    const mf_shape *t = &in[1]->shape;
    mf_kernel inner = *k;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (!mf_shape_equal(t, &in[2]->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'then' and 'else' must have the same size. but received: %s vs. %s",
                       mf_shape_text(t, a), mf_shape_text(&in[2]->shape, b));
    if (condition.shape.rank == 1 && t->rank > 1 && condition.shape.dims[0] == t->dims[0]) {
        for (int d = 1; d < t->rank; d++)
            condition.shape.dims[d] = 1;
        condition.shape.rank = t->rank;
    } else if (condition.shape.rank != 0 && !mf_shape_equal(&condition.shape, t)) {
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "'cond' must be a scalar, have the shape of 'then' or its first dimension: %s "
            "vs. %s",
            mf_shape_text(&condition.shape, a), mf_shape_text(t, b));
    }
    inner.in = in;
    return select_select_run(&inner);
}

static mf_status select_v1_infer(mf_infer *in)
{
    const mf_shape *c = &in->in[0];
    mf_shape first;

    MF_TRY(mf_shape_merge(&in->in[1], &in->in[2], &in->out[0]));
    if (c->rank <= 0 || in->out[0].rank == MF_UNKNOWN_RANK)
        return MF_OK;
    if (c->rank > 1)
        return mf_shape_merge(&in->out[0], c, &in->out[0]);
    first = MF_SHAPE(in->out[0].rank > 0 ? in->out[0].dims[0] : 0);
    if (!mf_shape_compatible(c, &first))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'cond' has %lld elements, the first dimension of 'then' is %lld",
                       (long long)c->dims[0], (long long)first.dims[0]);
    return MF_OK;
}

static mf_status select_grad(mf_grad *g)
{
    const mf_output zeros = MF_G1("ZerosLike", g->x[1]);

    g->dx[1] = MF_G3("Select", g->x[0], g->dy[0], zeros);
    g->dx[2] = MF_G3("Select", g->x[0], zeros, g->dy[0]);
    return MF_OK;
}

static mf_output select_sum_like(mf_grad *g, mf_output dx, int i)
{
    const mf_output shape = MF_G1("Shape", g->x[i]);
    const mf_output axes = MF_G2("BroadcastGradientArgs", shape, MF_G1("Shape", g->y[0]));

    return MF_G2("Reshape", MF_G2("Sum", dx, axes), shape);
}

static mf_status select_v2_grad(mf_grad *g)
{
    const mf_output zero = mf_grad_scalar(g, g->dy[0], 0);

    g->dx[1] = select_sum_like(g, MF_G3("SelectV2", g->x[0], g->dy[0], zero), 1);
    g->dx[2] = select_sum_like(g, MF_G3("SelectV2", g->x[0], zero, g->dy[0]), 2);
    return MF_OK;
}

static void select_v1_split(mf_split *s)
{
    if (mf_shape_equal(&s->in[0], &s->in[1]))
        mf_split_elementwise(s);
}

const mf_op mf_ops_select[] = {
    { .name = "Select",
      .rows = mf_rows_all,
      .def = "(condition:bool, t:T, e:T) -> (output:T) {T:type}",
      .flags = MF_OP_INPLACE,
      .infer = select_v1_infer,
      .grad = select_grad,
      .run = select_v1_run, /* it broadcasts differently: not for fusion */
      .split = select_v1_split,
      .samples =
          MF_SAMPLES("bool[2,3] f32[2,3] f32[2,3]", "bool[2] f32[2,3] f32[2,3]",
                     "bool[] f32[2,3] f32[2,3]", "bool[3] f64[3] f64[3]", "bool[] i32[] i32[]",
                     "bool[3] str[3] str[3]", "bool[2] str[2,2] str[2,2]", "bool[0] f32[0] f32[0]",
                     "bool[5] u8[5] u8[5]", "bool[2] c128[2] c128[2] !nograd",
                     "bool[3] f32[2,3] f32[2,3] !fails", "bool[2] f32[2] f32[3] !fails",
                     "bool[1,2] f32[2,2] f32[2,2] !fails", "bool[2] f32[] f32[] !fails") },
    { .name = "SelectV2",
      .rows = mf_rows_elementwise,
      .def = "(condition:bool, t:T, e:T) -> (output:T) {T:type}",
      .flags = MF_OP_INPLACE,
      .infer = mf_loop_infer,
      .grad = select_v2_grad,
      .run = select_select_run,
      .loop = &select_loop,
      .samples = MF_SAMPLES(
          "bool[2,3] f32[2,3] f32[2,3]", "bool[3] f32[2,3] f32[]", "bool[2,1] f32[3] f32[2,3]",
          "bool[] f32[4] f32[4]", "bool[] f32[4] f32[]", "bool[4] f64[] f64[]",
          "bool[5] i8[5] i8[]", "bool[5] bf16[5] bf16[5]", "bool[3] c128[3] c128[3] !nograd",
          "bool[2,2] str[2] str[]", "bool[2,1,2] bool[3,1] bool[]", "bool[0] f32[] f32[0]",
          "bool[] i32[] i32[]", "bool[2] f32[3] f32[3] !fails") },
    { 0 },
};
