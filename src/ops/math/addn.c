/* SPDX-License-Identifier: Apache-2.0 */
/* addn.c - the sum of many tensors of one shape, in the order of the inputs. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/math/math_util.h"
#include "ops/state/tensor_list.h"

/* Accumulators of this size stay in the first-level cache next to the input. */
enum { BLOCK = 1024 };

typedef void sum_fn(const mf_kernel *k, void *out, int64_t at, int64_t n);

/* Sums are collected in a separate block until all inputs are read: the output may alias an input.
 */
#define SUM_KIND(NAME, kind, ADD)                                                                  \
    static void NAME##_##kind(const mf_kernel *k, void *out, int64_t at, int64_t n)                \
    {                                                                                              \
        MF_C_##kind sum[BLOCK];                                                                    \
        MF_S_##kind *o = out;                                                                      \
        const MF_S_##kind *a = (const MF_S_##kind *)k->in[0]->data + at;                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            sum[i] = MF_LD_##kind(a, i);                                                           \
        for (int j = 1; j < k->n_in; j++) {                                                        \
            a = (const MF_S_##kind *)k->in[j]->data + at;                                          \
            for (int64_t i = 0; i < n; i++)                                                        \
                sum[i] = (MF_C_##kind)ADD(sum[i], MF_LD_##kind(a, i));                             \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            o[at + i] = MF_ST_##kind(sum[i]);                                                      \
    }
#define ADD(x, y) ((x) + (y))
MF_EACH_FLOAT_COMPLEX(SUM_KIND, sum, ADD)
MF_EACH_INT(SUM_KIND, sum, MF_WRAP_ADD)

static sum_fn *const sums[MF_DTYPE_COUNT] = { MF_FN_FLOATS_COMPLEX(sum), MF_FN_INTS(sum) };

typedef struct sum_job {
    const mf_kernel *k;
    sum_fn *fn;
    void *out;
    int64_t n;
} sum_job;

static void addn_sum_piece(void *ctx, int64_t piece)
{
    const sum_job *job = ctx;
    const int64_t from = piece * MF_LOOP_GRAIN;
    const int64_t end = from + MF_LOOP_GRAIN < job->n ? from + MF_LOOP_GRAIN : job->n;

    for (int64_t at = from; at < end; at += BLOCK)
        job->fn(job->k, job->out, at, end - at < BLOCK ? end - at : BLOCK);
}

static mf_status addn_run(mf_kernel *k)
{
    const mf_tensor *first = k->in[0];
    const int64_t pieces = (first->count + MF_LOOP_GRAIN - 1) / MF_LOOP_GRAIN;
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    sum_job job = { .k = k, .fn = sums[first->dtype], .n = first->count };
    mf_tensor *out;

    if (first->dtype == MF_DTYPE_VARIANT)
        return mf_tensor_list_sum(k);
    if (!job.fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(first->dtype));
    for (int j = 1; j < k->n_in; j++) {
        if (!mf_shape_equal(&first->shape, &k->in[j]->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Inputs to operation %s of type %s must have the same size and shape. "
                           "Input 0: %s != input %d: %s",
                           k->node->name, k->node->op_name, mf_shape_text(&first->shape, a), j,
                           mf_shape_text(&k->in[j]->shape, b));
    }
    MF_TRY(mf_kernel_out(k, 0, &first->shape, &out));
    job.out = out->data;
    return mf_kernel_parallel(k, pieces, addn_sum_piece, &job);
}

static mf_status accumulate_infer(mf_infer *in)
{
    MF_TRY(mf_same_shape_infer(in));
    return mf_shape_merge(&in->out[0], mf_node_shape(in->node, "shape"), &in->out[0]);
}

static mf_status addn_grad(mf_grad *g)
{
    for (int i = 0; i < g->n_in; i++)
        g->dx[i] = g->dy[0];
    return MF_OK;
}

const mf_op mf_ops_addn[] = {
    { .name = "AddN",
      .rows = mf_rows_all,
      .def = "(inputs:N*T) -> (sum:T) {N:int>=1, T:type in [float,double,int32,uint8,int16,int8,"
             "complex64,int64,qint8,quint8,qint32,bfloat16,qint16,quint16,uint16,complex128,half,"
             "uint32,"
             "uint64,variant]} is_commutative is_aggregate",
      .flags = MF_OP_INPLACE,
      .infer = mf_same_shape_infer,
      .grad = addn_grad,
      .run = addn_run,
      .split = mf_split_additive,
      .samples = MF_SAMPLES("f32[2,3] f32[2,3]", "f32[5] f32[5] f32[5]", "f64[]",
                            "i32[3] i32[3] i32[3] i32[3]", "u8[2]{200,3} u8[2]{100,4}",
                            "f16[3] f16[3] f16[3] !nograd", "bf16[3] bf16[3] !nograd",
                            "c64[2] c64[2] !nograd", "f32[0] f32[0]", "f32[2] f32[3] !fails",
                            "f32[1] f32[3] !fails") },
    { .name = "AccumulateNV2",
      .def = "(inputs:N*T) -> (sum:T) {N:int>=1, T:type in numbers, shape:shape} is_commutative "
             "is_aggregate",
      .flags = MF_OP_INPLACE,
      .infer = accumulate_infer,
      .grad = addn_grad,
      .run = addn_run,
      /* TensorFlow has no kernel for it: its optimizer rewrites it. */
      .samples = MF_SAMPLES("f32[2,3] f32[2,3] ; shape=shape[2,3] !notf",
                            "f64[3] f64[3] f64[3] ; shape=shape[3] !notf",
                            "i32[] i32[] ; shape=shape[] !notf",
                            "f32[2] f32[3] ; shape=shape[2] !fails") },
    { 0 },
};
