/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_engine.h - reduces a tensor over some of its axes; the engine of Sum, Max and similar ops.
 *
 * The order of operations depends only on the shape, so results have the same bits for any number
 * of threads. Floats are added in short blocks whose sums are added in double: the error does not
 * grow with the length. */
#ifndef MF_OPS_MATH_REDUCE_ENGINE_H
#define MF_OPS_MATH_REDUCE_ENGINE_H

#include "base/pool.h"
#include "tensor/tensor.h"

/* Reduction of one type by one op. An accumulator has acc_size bytes. */
typedef struct mf_reduce_engine {
    size_t acc_size;
    void (*init)(void *acc, int64_t n);
    /* Accumulates n contiguous elements in *acc. */
    void (*run)(void *acc, const void *x, int64_t n);
    /* Sets acc[g] to the reduction of x[g * n .. g * n + n), n at most MF_REDUCE_ENGINE_SHORT. */
    void (*runs)(void *acc, const void *x, int64_t n, int64_t groups);
    /* Accumulates x[r * stride + j] for all rows r in acc[j]; cols is at most
     * MF_REDUCE_ENGINE_TILE. */
    void (*rows)(void *acc, const void *x, int64_t cols, int64_t rows, int64_t stride);
    void (*merge)(void *acc, const void *from, int64_t n);
    /* `count` is the number of elements in each accumulator. */
    void (*store)(void *out, const void *acc, int64_t n, int64_t count);
} mf_reduce_engine;

enum { MF_REDUCE_ENGINE_TILE = 512, MF_REDUCE_ENGINE_SHORT = 24 };

typedef enum mf_reduce_engine_op {
    MF_REDUCE_ENGINE_SUM,
    MF_REDUCE_ENGINE_MEAN,
    MF_REDUCE_ENGINE_PROD,
    MF_REDUCE_ENGINE_MAX,
    MF_REDUCE_ENGINE_MIN,
    MF_REDUCE_ENGINE_NORM,
    MF_REDUCE_ENGINE_OPS,
} mf_reduce_engine_op;

/* NULL if the op is not defined for the type. Sum and Mean of complex numbers are those of their
 * parts: the caller adds a dimension of two. */
const mf_reduce_engine *mf_reduce_engine_find(mf_reduce_engine_op op, mf_dtype dtype);

/* Reduces the dimensions d with reduced[d] of a tensor of that shape at `in` to `out`, whose
 * elements are those of the remaining dimensions, `item` bytes each, as in `in`. */
MF_MUST mf_status mf_reduce_engine_run(const mf_reduce_engine *fold, mf_pool *pool,
                                       const mf_shape *shape, const bool *reduced, size_t item,
                                       const void *in, void *out);

#endif
