/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h - matrix products of all number types, for every op that multiplies matrices.
 *
 * C[b] = A[b] * B[b] for each b of a batch. A and B have any row and column strides (so a transpose
 * is free), C has contiguous rows.
 *
 * An element of C is one chain of multiply-adds over k, divided into slices of at most MF_GEMM_K
 * steps: its bits depend neither on threads nor on the number of rows and columns. For float and
 * double they do not depend on the instruction set either. If both operands are bfloat16 and the
 * set has instructions for them, the chain is theirs (gemm_bf16.h, gemm_amx.h). */
#ifndef MF_OPS_MATH_GEMM_H
#define MF_OPS_MATH_GEMM_H

#include "graph/op.h"

typedef struct mf_gemm_side {
    const void *data;
    mf_dtype type;
    int64_t row, col; /* strides in elements */
    bool conj;
    int64_t batch_stride[MF_MAX_RANK]; /* 0 if the batch dimension is repeated */
} mf_gemm_side;

typedef struct mf_gemm {
    int64_t m, n, k;
    mf_gemm_side a, b; /* m x k, k x n */
    void *c;
    mf_dtype c_type;
    int64_t c_row; /* stride of rows */
    int64_t c_batch_stride[MF_MAX_RANK];
    int batch_rank;
    int64_t batch_dims[MF_MAX_RANK]; /* outermost first */
    int64_t shards, samples; /* 0, or k is a multiple of the batch size, divided into shards whose
                                products are added by the
                                reduction tree; floats only, no batch */
    const int64_t *shard_k; /* set by mf_gemm_run() */
    const mf_epilogue *then; /* NULL, or called with each finished part of C, in C's type */
} mf_gemm;

/* Makes C contiguous. m, n and the batch are set. */
static inline void mf_gemm_c_follows(mf_gemm *g)
{
    int64_t step = g->m * g->n;

    g->c_row = g->n;
    for (int d = g->batch_rank - 1; d >= 0; d--) {
        g->c_batch_stride[d] = step;
        step *= g->batch_dims[d];
    }
}

/* Maximum steps of k in one chain before they are added to C. */
enum { MF_GEMM_K = 256 };

/* Fails: UNIMPLEMENTED (type), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_gemm_run(const mf_kernel *k, const mf_gemm *g);

#endif
