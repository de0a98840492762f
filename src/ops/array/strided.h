/* SPDX-License-Identifier: Apache-2.0 */
/* strided.h - index arithmetic of strided slices, x[1:5:2, ..., None, -1]: shared by ops that read
 * a slice and ops that assign to one. */
#ifndef MF_OPS_ARRAY_STRIDED_H
#define MF_OPS_ARRAY_STRIDED_H

#include "ops/array/strided_copy.h"

/* Bit i refers to element i of begin, end and strides. */
typedef struct mf_strided_masks {
    int64_t begin, end; /* from the start, to the end */
    int64_t ellipsis; /* "..." */
    int64_t new_axis; /* None */
    int64_t shrink; /* a single index: the dimension is removed */
} mf_strided_masks;

typedef struct mf_strided {
    int rank; /* of the tensor that is sliced */
    int64_t begin[MF_MAX_RANK]; /* first index taken, per dimension; in range unless size is 0 */
    int64_t stride[MF_MAX_RANK]; /* 0 where size is below 2 */
    int64_t size[MF_MAX_RANK]; /* number of indices; MF_UNKNOWN_DIM if unknown */
    mf_shape shape; /* of the slice, with new axes and without shrunk ones */
} mf_strided;

void mf_strided_masks_read(const mf_node *node, mf_strided_masks *out);
/* `input` may have unknown dimensions but a known rank; begin, end and strides may be NULL if their
 * values are unknown (n_spec is their length). Fails: INVALID_ARGUMENT in the same cases as
 * TensorFlow. */
MF_MUST mf_status mf_strided_init(mf_strided *s, const mf_shape *input, const mf_tensor *begin,
                                  const mf_tensor *end, const mf_tensor *strides, int64_t n_spec,
                                  const mf_strided_masks *masks);
/* The same for a kernel: all values are known, and the three vectors must have one length. */
MF_MUST mf_status mf_strided_of(mf_strided *s, const mf_shape *input, const mf_tensor *begin,
                                const mf_tensor *end, const mf_tensor *strides,
                                const mf_strided_masks *masks);

/* Offset of the slice in the tensor (in elements), and the stride along each dimension of the
 * tensor. */
int64_t mf_strided_layout(const mf_strided *s, const mf_shape *input, int64_t step[MF_MAX_RANK]);
/* Copies the slice of x (shape `input`) to dense memory. */
MF_MUST mf_status mf_strided_read(mf_pool *pool, const mf_strided *s, const mf_shape *input,
                                  mf_dtype dtype, const void *x, void *dense);
/* Copies dense memory to the slice of x; `repeat`: src is one element for the whole slice. */
MF_MUST mf_status mf_strided_write(mf_pool *pool, const mf_strided *s, const mf_shape *input,
                                   mf_dtype dtype, void *x, const void *dense, bool repeat);
/* x[slice] = value, broadcast to the slice's shape; an empty slice accepts any value. Fails:
 * INVALID_ARGUMENT (value does not broadcast). */
MF_MUST mf_status mf_strided_assign(mf_pool *pool, const mf_strided *s, const mf_shape *input,
                                    void *x, const mf_tensor *value);

#endif
