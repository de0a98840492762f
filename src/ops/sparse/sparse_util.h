/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_util.h - sparse tensors as inputs: a matrix of indices [n, rank], n values, a shape; and
 * numbers of any type. */
#ifndef MF_OPS_SPARSE_SPARSE_UTIL_H
#define MF_OPS_SPARSE_SPARSE_UTIL_H

#include "ops/array/array_util.h"

#include <complex.h>

typedef struct mf_sparse {
    int64_t n;
    int rank;
    const mf_tensor *index, *values; /* index: int64 or int32 */
    int64_t size[MF_MAX_RANK]; /* the dense shape */
} mf_sparse;

/* Reads inputs first, first + 1 and first + 2. Fails: INVALID_ARGUMENT (the three do not fit
 * together, or a size is negative). Indices are not checked. */
MF_MUST mf_status mf_sparse_read(const mf_kernel *k, int first, mf_sparse *out);
/* Fails: INVALID_ARGUMENT naming an index outside the shape. */
MF_MUST mf_status mf_sparse_check_bounds(const mf_sparse *s);
/* Checks the ranks in shape inference. */
MF_MUST mf_status mf_sparse_infer(const mf_infer *in, int first);

static inline int64_t mf_sparse_at(const mf_sparse *s, int64_t i, int d)
{
    return mf_index_at(s->index, i * s->rank + d);
}
/* Compares two elements of equal rank by their indices: < 0, 0, > 0. */
int mf_sparse_compare(const mf_sparse *a, int64_t i, const mf_sparse *b, int64_t j);
/* order [n]: the elements sorted by their indices (stable). Owned by the caller: mf_free(). */
MF_MUST mf_status mf_sparse_order(const mf_sparse *s, int64_t **order);
/* Number of elements of the dense tensor. Fails: INVALID_ARGUMENT (overflow). */
MF_MUST mf_status mf_sparse_dense_count(const mf_sparse *s, int64_t *out);

/* ---- numbers of any type ---- */

/* Integers are computed modulo 2^64, all others in double. */
typedef struct mf_number {
    mf_dtype type;
    uint64_t i;
    double _Complex z;
} mf_number;

mf_number mf_number_at(const mf_tensor *t, int64_t at);
void mf_number_put(mf_tensor *t, int64_t at, mf_number x);
mf_number mf_number_add(mf_number a, mf_number b);
mf_number mf_number_mul(mf_number a, mf_number b);
mf_number mf_number_conj(mf_number a);
static inline mf_number mf_number_zero(mf_dtype type)
{
    return (mf_number){ .type = type };
}
bool mf_number_less(mf_number a, mf_number b); /* by the real part */
double mf_number_size(mf_number a); /* |a| */

#endif
