/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.h - updates selected rows of a tensor: the loops behind ScatterNd, TensorScatter*,
 * ScatterAdd, ResourceScatterAdd and similar ops. Duplicate rows are updated in the order of the
 * indices, whatever the number of threads. */
#ifndef MF_OPS_ARRAY_SCATTER_H
#define MF_OPS_ARRAY_SCATTER_H

#include "graph/op.h"

typedef enum mf_scatter_op {
    MF_SCATTER_ASSIGN,
    MF_SCATTER_ADD,
    MF_SCATTER_SUB,
    MF_SCATTER_MUL,
    MF_SCATTER_DIV,
    MF_SCATTER_MIN,
    MF_SCATTER_MAX,
    MF_SCATTER_COUNT,
} mf_scatter_op;

typedef struct mf_scatter {
    mf_scatter_op op;
    mf_dtype dtype;
    void *x; /* rows x row elements */
    int64_t rows, row;
    const mf_tensor *indices; /* integers of any shape: element i is the destination of row i of
                                 updates */
    const void *updates; /* indices->count x row elements, or one if `scalar` */
    bool scalar;
    bool ignore_bad; /* indices out of range are skipped */
} mf_scatter;

/* x[indices[i]] = x[indices[i]] op updates[i]. All indices are checked before x is written. Fails:
 * INVALID_ARGUMENT "indices[3] = 9 is not in [0, 5)", "Integer division by zero"; UNIMPLEMENTED (no
 * such operation for the type). */
MF_MUST mf_status mf_scatter_run(mf_pool *pool, const mf_scatter *s);

/* Fails: INVALID_ARGUMENT naming the first index that is not in [0, limit). */
MF_MUST mf_status mf_indices_check(const mf_tensor *indices, int64_t limit);

/* Treatment of indices out of range (attribute bad_indices_policy). */
typedef enum mf_bad_indices { MF_BAD_INDICES_ERROR, MF_BAD_INDICES_IGNORE } mf_bad_indices;
MF_MUST mf_status mf_bad_indices_read(const mf_node *node, mf_bad_indices *out);

/* Rows addressed by tuples: the last dimension of `indices` (of static length depth <= x's rank)
 * indexes the first `depth` dimensions of x. Makes a vector of int64 row numbers; ignored tuples
 * are -1. The caller clears *out. */
MF_MUST mf_status mf_nd_rows(const mf_tensor *indices, const mf_shape *x, mf_bad_indices bad,
                             mf_tensor *out);

#endif
