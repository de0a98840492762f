/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_engine.h - reducing a tensor over some of its axes; the engine behind Sum, Max and their
 * like.
 *
 * The order of operations follows from the shape alone, so results have the same bits for any
 * number of threads. Floats are added in short blocks whose sums are added in double: the error
 * does not grow with the length. */
#ifndef MF_OPS_MATH_REDUCE_ENGINE_H
#define MF_OPS_MATH_REDUCE_ENGINE_H

#include "base/pool.h"
#include "tensor/tensor.h"

/* How one op reduces one type. An accumulator holds acc_size bytes. */
typedef struct mf_reduce_engine {
    size_t acc_size;
    void (*init)(void *acc, int64_t n);
    /* *acc takes in n elements in a row. */
    void (*run)(void *acc, const void *x, int64_t n);
    /* acc[g] becomes the fold of x[g * n .. g * n + n), n at most MF_REDUCE_ENGINE_SHORT. */
    void (*runs)(void *acc, const void *x, int64_t n, int64_t groups);
    /* acc[j] takes in x[r * stride + j] for all rows r; cols is at most MF_REDUCE_ENGINE_TILE. */
    void (*rows)(void *acc, const void *x, int64_t cols, int64_t rows, int64_t stride);
    void (*merge)(void *acc, const void *from, int64_t n);
    /* `count` is how many elements each accumulator has taken in. */
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

/* NULL when the op is not defined for the type. Sum and Mean of complex numbers are those of their
 * parts: the caller adds a dimension of two. */
const mf_reduce_engine *mf_reduce_engine_find(mf_reduce_engine_op op, mf_dtype dtype);

/* Reduce the dimensions d with reduced[d] of a tensor of that shape at `in` into `out`, whose
 * elements are those of the remaining dimensions, `item` bytes each, as in `in`. */
MF_MUST mf_status mf_reduce_engine_run(const mf_reduce_engine *fold, mf_pool *pool,
                                       const mf_shape *shape, const bool *reduced, size_t item,
                                       const void *in, void *out);

#endif
