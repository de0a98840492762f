/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.c - permutes dimensions; permutations and their inverse. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/strided_copy.h"
#include "ops/control/grad_util.h"

static mf_status check_perm(const mf_ivec *perm, int rank)
{
    unsigned seen = 0;

    if (perm->n != rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "transpose expects a vector of size %d. But input(1) is a vector of size %d",
                       rank, perm->n);
    for (int i = 0; i < rank; i++) {
        if (perm->v[i] < -rank || perm->v[i] >= rank)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%" PRId64 " is out of range [0 .. %d)", perm->v[i],
                           rank);
        seen |= 1u << (perm->v[i] < 0 ? perm->v[i] + rank : perm->v[i]);
    }
    if (seen != (1u << rank) - 1)
        for (int i = 0; i < rank; i++) {
            if (!(seen >> i & 1))
                return MF_FAIL(MF_INVALID_ARGUMENT, "%d is missing from the permutation", i);
        }
    return MF_OK;
}

static mf_status transpose_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0];
    mf_ivec perm;

    if (in->in_value[1])
        MF_TRY(mf_ivec_read(in->in_value[1], MF_MAX_RANK, "perm", &perm));
    if (x->rank < 0)
        return MF_OK;
    in->out[0].rank = x->rank;
    if (in->in_value[1])
        MF_TRY(check_perm(&perm, x->rank));
    for (int i = 0; i < x->rank; i++) {
        if (in->in_value[1])
            in->out[0].dims[i] = x->dims[perm.v[i] < 0 ? perm.v[i] + x->rank : perm.v[i]];
        else
            in->out[0].dims[i] = MF_UNKNOWN_DIM;
    }
    return MF_OK;
}

static void conjugate(mf_tensor *t)
{
    if (t->dtype == MF_DTYPE_C64) {
        for (int64_t i = 0; i < t->count; i++)
            ((float *)t->data)[2 * i + 1] = -((float *)t->data)[2 * i + 1];
    } else if (t->dtype == MF_DTYPE_C128) {
        for (int64_t i = 0; i < t->count; i++)
            ((double *)t->data)[2 * i + 1] = -((double *)t->data)[2 * i + 1];
    }
}

static mf_status transpose_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const int rank = x->shape.rank;
    mf_strided_copy m = { .dtype = x->dtype, .src = x->data };
    int64_t in_stride[MF_MAX_RANK], out_stride[MF_MAX_RANK];
    mf_shape shape = { .rank = rank };
    mf_tensor *out;
    mf_ivec perm;

    MF_TRY(mf_ivec_read(k->in[1], MF_MAX_RANK, "perm", &perm));
    MF_TRY(check_perm(&perm, rank));
    mf_strides_of(&x->shape, in_stride);
    for (int i = 0; i < rank; i++) {
        if (perm.v[i] < 0)
            perm.v[i] += rank;
        shape.dims[i] = x->shape.dims[perm.v[i]];
    }
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_strides_of(&shape, out_stride);
    for (int i = 0; i < rank; i++)
        mf_strided_copy_add(&m, shape.dims[i], out_stride[i], in_stride[perm.v[i]]);
    m.dst = out->data;
    MF_TRY(mf_strided_copy_run(k->step->pool, &m));
    if (k->node->op_name[0] == 'C')
        conjugate(out);
    return MF_OK;
}

static mf_status transpose_grad(mf_grad *g)
{
    g->dx[0] = MF_G2(g->node->op_name, g->dy[0], MF_G1("InvertPermutation", g->x[1]));
    return MF_OK;
}

static mf_status invert_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    return mf_infer_same(in);
}

static mf_status invert_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_tensor *out;

    if (x->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "invert_permutation expects a 1D vector.");
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    for (int64_t i = 0; i < x->count; i++)
        mf_index_put(out, i, -1);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t to = mf_index_at(x, i);

        if (to < 0 || to >= x->count)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%" PRId64 " is not between 0 and %" PRId64, to,
                           x->count);
        if (mf_index_at(out, to) != -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%" PRId64 " is duplicated in the input.", to);
        mf_index_put(out, to, i);
    }
    return MF_OK;
}

static void transpose_split(mf_split *s)
{
    const mf_tensor *perm = s->in_value[1];

    if (!perm || perm->count != s->in[0].rank)
        return;
    for (int d = 0; d < s->in[0].rank; d++) {
        int from, letter;

        if (!mf_axis_fix(mf_tensor_int_at(perm, d), s->in[0].rank, &from))
            return;
        letter = mf_split_new(s, s->out[0].dims[d], MF_CUT_FREE);
        mf_split_in(s, 0, from, letter);
        mf_split_out(s, 0, d, letter);
    }
    s->additive = 1;
}

const mf_op mf_ops_transpose[] = {
    { .name = "Transpose",
      .rows = mf_rows_transpose,
      .def = "(x:T, perm:Tperm) -> (y:T) {T:type, Tperm:type=int32 in index}",
      .infer = transpose_infer,
      .grad = transpose_grad,
      .run = transpose_run,
      .split = transpose_split,
      .samples = MF_SAMPLES("f32[2,3] i32[2]{1,0}", "f32[2,3,4] i64[3]{2,0,1}",
                            "f64[19,35] i32[2]{1,0} !nograd", "f32[33,40] i32[2]{1,0} !nograd",
                            "i8[17,50] i32[2]{1,0}", "f16[3,20,18] i32[3]{0,2,1} !nograd",
                            "c128[20,17] i32[2]{1,0} !nograd", "f32[2,3,4,5] i32[4]{0,2,1,3}",
                            "f32[] i32[0]", "f32[0,3] i32[2]{1,0}", "str[2,3] i32[2]{1,0}",
                            "f32[2,5,6,3] i32[4]{0,3,1,2} !nograd",
                            "f32[5,3,4] i32[3]{-1,0,-2} !nograd", "f32[2,3] i32[2]{0,0} !fails",
                            "f32[2,3] i32[2]{0,2} !fails", "f32[2,3] i32[1]{0} !fails") },
    { .name = "ConjugateTranspose",
      .def = "(x:T, perm:Tperm) -> (y:T) {T:type, Tperm:type=int32 in index}",
      .infer = transpose_infer,
      .grad = transpose_grad,
      .run = transpose_run,
      .samples =
          MF_SAMPLES("c64[2,3] i32[2]{1,0}", "f32[2,3] i32[2]{1,0}", "c128[2,3,2] i64[3]{1,2,0}") },
    { .name = "InvertPermutation",
      .def = "(x:T) -> (y:T) {T:type=int32 in index}",
      .infer = invert_infer,
      .grad = mf_grad_none,
      .run = invert_run,
      .samples = MF_SAMPLES("i32[4]{2,0,3,1}", "i64[1]{0}", "i32[0]", "i32[2]{0,0} !fails",
                            "i32[2]{0,2} !fails") },
    { 0 },
};
