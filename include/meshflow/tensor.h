/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - typed, shaped blocks of memory.
 *
 * A handle has one owner, who frees it. Its storage is shared and reference-counted: copying a
 * handle copies no elements. Storage may also belong to the caller (mf_tensor_wrap). */
#ifndef MESHFLOW_TENSOR_H
#define MESHFLOW_TENSOR_H

#include <meshflow/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* TensorFlow's numbers, which are used in files and on the wire. */
typedef enum mf_dtype {
    MF_DTYPE_INVALID = 0,
    MF_DTYPE_F32 = 1,
    MF_DTYPE_F64 = 2,
    MF_DTYPE_I32 = 3,
    MF_DTYPE_U8 = 4,
    MF_DTYPE_I16 = 5,
    MF_DTYPE_I8 = 6,
    MF_DTYPE_STRING = 7,
    MF_DTYPE_C64 = 8,
    MF_DTYPE_I64 = 9,
    MF_DTYPE_BOOL = 10,
    MF_DTYPE_QI8 = 11,
    MF_DTYPE_QU8 = 12,
    MF_DTYPE_QI32 = 13,
    MF_DTYPE_BF16 = 14,
    MF_DTYPE_QI16 = 15,
    MF_DTYPE_QU16 = 16,
    MF_DTYPE_U16 = 17,
    MF_DTYPE_C128 = 18,
    MF_DTYPE_F16 = 19,
    MF_DTYPE_RESOURCE = 20,
    MF_DTYPE_VARIANT = 21,
    MF_DTYPE_U32 = 22,
    MF_DTYPE_U64 = 23,
} mf_dtype;

enum { MF_MAX_RANK = 8 };

typedef struct mf_tensor mf_tensor;

/* TensorFlow's name of a type ("float", "int32", ...); "invalid" for an invalid number. */
MF_API const char *mf_dtype_name(mf_dtype dtype);
/* Bytes of one element; 0 for types without a fixed-size representation (string, resource,
 * variant). */
MF_API size_t mf_dtype_size(mf_dtype dtype);

/* A tensor of zeros (strings: empty strings). Owns: the caller frees *out.
 * Fails: INVALID_ARGUMENT (type, rank, dimension, overflowing size), RESOURCE_EXHAUSTED. */
MF_API MF_MUST mf_status mf_tensor_new(mf_dtype dtype, const int64_t *dims, int rank,
                                       mf_tensor **out);

/* A tensor over the caller's memory, which must stay valid until release(data, ctx) is called:
 * once, from any thread, after the last reader is done (NULL: the memory is never freed). The
 * alignment of the element type is sufficient. On failure release is not called. */
MF_API MF_MUST mf_status mf_tensor_wrap(mf_dtype dtype, const int64_t *dims, int rank, void *data,
                                        size_t bytes, void (*release)(void *data, void *ctx),
                                        void *ctx, mf_tensor **out);

/* A second handle to the same storage. */
MF_API MF_MUST mf_status mf_tensor_copy(const mf_tensor *tensor, mf_tensor **out);
MF_API void mf_tensor_free(mf_tensor *tensor);

MF_API mf_dtype mf_tensor_dtype(const mf_tensor *tensor);
MF_API int mf_tensor_rank(const mf_tensor *tensor);
MF_API int64_t mf_tensor_dim(const mf_tensor *tensor, int axis);
MF_API int64_t mf_tensor_count(const mf_tensor *tensor);
/* Row-major elements; NULL for types without a fixed-size representation. Write only before the
 * tensor is passed to another function. */
MF_API void *mf_tensor_data(const mf_tensor *tensor);
MF_API size_t mf_tensor_bytes(const mf_tensor *tensor);

/* Element i of a string tensor. Owns: set copies; get borrows from the tensor. */
MF_API MF_MUST mf_status mf_tensor_set_string(mf_tensor *tensor, int64_t i, const char *data,
                                              size_t len);
MF_API MF_MUST mf_status mf_tensor_get_string(const mf_tensor *tensor, int64_t i, const char **data,
                                              size_t *len);

#ifdef __cplusplus
}
#endif
#endif
