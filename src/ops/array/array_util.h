/* SPDX-License-Identifier: Apache-2.0 */
/* array_util.h - shared by ops that move and index elements: small integer inputs, cells of any
 * type, results of shape inference. */
#ifndef MF_OPS_ARRAY_ARRAY_UTIL_H
#define MF_OPS_ARRAY_ARRAY_UTIL_H

#include "graph/op.h"

#include <inttypes.h>

/* A short integer vector (or, in old graphs, a scalar) from an input. */
typedef struct mf_ivec {
    int n;
    int64_t v[2 * MF_MAX_RANK];
} mf_ivec;

/* Fails: INVALID_ARGUMENT when t is not a vector of at most `max` elements; `what` names it. */
MF_MUST mf_status mf_ivec_read(const mf_tensor *t, int max, const char *what, mf_ivec *out);
/* A single integer, of any rank. */
MF_MUST mf_status mf_int_read(const mf_tensor *t, const char *what, int64_t *out);
/* Reads a complete shape: every element >= 0. */
MF_MUST mf_status mf_shape_read(const mf_tensor *t, const char *what, mf_shape *out);

/* Pairs (before, after), one per row of a matrix with two columns: paddings and crops. */
typedef struct mf_pairs {
    int n;
    int64_t before[MF_MAX_RANK], after[MF_MAX_RANK];
} mf_pairs;
/* Fails: INVALID_ARGUMENT unless t is [n, 2] and nothing is negative. */
MF_MUST mf_status mf_pairs_read(const mf_tensor *t, int n, const char *what, mf_pairs *out);

/* Axis `axis` of `rank` dimensions. Fails: INVALID_ARGUMENT "axis 3 is not in [-2, 2)". */
MF_MUST mf_status mf_axis_read(int64_t axis, int rank, const char *what, int *out);
/* Fails if the rank exceeds MF_MAX_RANK. */
MF_MUST mf_status mf_rank_check(int rank);

/* Sets element i of an int32 or int64 tensor. */
static inline void mf_index_put(mf_tensor *t, int64_t i, int64_t value)
{
    if (t->dtype == MF_DTYPE_I32)
        ((int32_t *)t->data)[i] = (int32_t)value;
    else
        ((int64_t *)t->data)[i] = value;
}

/* Element i of a tensor of indices of any integer type; common types are tested first. */
static inline int64_t mf_index_at(const mf_tensor *t, int64_t i)
{
    if (t->dtype == MF_DTYPE_I32)
        return ((const int32_t *)t->data)[i];
    if (t->dtype == MF_DTYPE_I64)
        return ((const int64_t *)t->data)[i];
    return mf_tensor_int_at(t, i);
}

/* Sets n cells from `at` to zero: 0, false, the empty string, no object. */
void mf_cells_zero(mf_dtype dtype, void *dst, int64_t at, int64_t n);
/* Sets n cells from `at` to copies of the one at `value`. */
MF_MUST mf_status mf_cells_fill(mf_dtype dtype, void *dst, int64_t at, int64_t n,
                                const void *value);
/* Sets n cells from `at` to 1 (true). */
void mf_cells_one(mf_dtype dtype, void *dst, int64_t at, int64_t n);

/* Fails: INVALID_ARGUMENT (output i is int32 and the size `value` does not fit). */
MF_MUST mf_status mf_index_check(const mf_node *node, int output, int64_t value);
/* Infers the value of output i: a short integer vector (rank 1) or scalar (rank 0, n = 1) of sizes.
 * Fails: INVALID_ARGUMENT (a size does not fit). */
MF_MUST mf_status mf_infer_ints(mf_infer *in, int output, int rank, const int64_t *values, int n);
/* The type of output i. */
static inline mf_dtype mf_out_type(const mf_node *node, int i)
{
    return mf_type_base(node->out_types[i]);
}

/* prepare: k->state points to the attribute `axis` (int64_t). */
MF_MUST mf_status mf_prepare_axis(mf_prepare *p);

/* All axes of x as a vector, to reduce x to a scalar. */
mf_output mf_grad_all_axes(mf_grad *g, mf_output x);
/* dy[i], or zeros of the shape of y[i] if there is no gradient. */
mf_output mf_grad_dy_or_zeros(mf_grad *g, int i);

#endif
