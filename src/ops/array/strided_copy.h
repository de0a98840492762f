/* SPDX-License-Identifier: Apache-2.0 */
/* strided_copy.h - the engine of all ops that copy elements from one regular pattern to another:
 * slices, transposes, concatenations, padding, tiling, reversal, blocks.
 *
 * A copy is a box of cells with one stride per dimension on either side. The engine merges
 * dimensions, copies runs with memcpy, transposes in tiles, and divides the work into pieces that
 * depend only on the shape. */
#ifndef MF_OPS_ARRAY_STRIDED_COPY_H
#define MF_OPS_ARRAY_STRIDED_COPY_H

#include "graph/op.h"

enum { MF_STRIDED_COPY_RANK = 2 * MF_MAX_RANK + 1 };

typedef struct mf_strided_copy {
    mf_dtype dtype;
    void *dst; /* the first destination cell; must not overlap the source */
    const void *src; /* the first source cell */
    int rank;
    /* Outermost first. Strides are in cells and may be negative; 0 in `from` repeats. No two cells
     * may have the same destination. */
    int64_t dims[MF_STRIDED_COPY_RANK], to[MF_STRIDED_COPY_RANK], from[MF_STRIDED_COPY_RANK];
} mf_strided_copy;

/* Fails only for strings (RESOURCE_EXHAUSTED). pool may be NULL. */
MF_MUST mf_status mf_strided_copy_run(mf_pool *pool, const mf_strided_copy *m);

/* Row-major strides of a static shape, in cells. */
void mf_strides_of(const mf_shape *shape, int64_t *stride);
/* Adds an innermost dimension. */
static inline void mf_strided_copy_add(mf_strided_copy *m, int64_t dim, int64_t to, int64_t from)
{
    m->dims[m->rank] = dim;
    m->to[m->rank] = to;
    m->from[m->rank++] = from;
}
static inline void *mf_cell_at(mf_dtype dtype, const void *data, int64_t at)
{
    return (char *)(uintptr_t)data + at * (int64_t)mf_dtype_cell(dtype);
}

/* Copies `rows` runs of `run` cells each, with these strides (in cells). */
MF_MUST mf_status mf_strided_copy_rows(mf_pool *pool, mf_dtype dtype, void *dst, int64_t dst_at,
                                       int64_t dst_step, const void *src, int64_t src_at,
                                       int64_t src_step, int64_t rows, int64_t run);

#endif
