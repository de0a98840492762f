/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_array.h - arrays of tensors that live for one step; each element is written once (in a
 * gradient array, writes add up) and usually read once. */
#ifndef MF_OPS_STATE_TENSOR_ARRAY_H
#define MF_OPS_STATE_TENSOR_ARRAY_H

#include "graph/op.h"

typedef struct mf_array_item {
    mf_tensor value; /* empty until written, and after it is read and cleared */
    mf_shape shape; /* in a gradient array, known before the value: reads give zeros */
    bool has_shape, written, cleared, read;
} mf_array_item;

typedef struct mf_array mf_array;

/* A gradient array, identified by `source`. */
typedef struct mf_array_grad {
    char *source;
    mf_array *array; /* a reference */
    struct mf_array_grad *next;
} mf_array_grad;

struct mf_array {
    mf_object object;
    char *name;
    mf_dtype dtype;
    bool clear_after_read, same_shapes, is_grad;
    pthread_mutex_t lock; /* guards all members below */
    bool dynamic, closed;
    mf_shape element; /* the known shape of elements */
    mf_array_item *items;
    int64_t n, cap;
    mf_array_grad *grads;
};

extern const mf_object_type mf_array_type;

enum {
    MF_ARRAY_MAX = 1 << 24
}; /* maximum number of elements: an index from a graph must not
      exhaust memory */

MF_MUST mf_status mf_array_new(const char *name, mf_dtype dtype, int64_t n, mf_array **out);
/* The gradient array of `a` for `source`; *out has a reference. `prepend`: additional leading
 * dimensions of its elements. */
MF_MUST mf_status mf_array_gradient(mf_array *a, const char *source, const mf_shape *prepend,
                                    mf_array **out);
/* The caller holds the lock. write() takes a reference or copies; read() returns one. */
MF_MUST mf_status mf_array_resize(mf_array *a, int64_t n);
MF_MUST mf_status mf_array_write(mf_array *a, int64_t index, const mf_tensor *value);
MF_MUST mf_status mf_array_read(mf_array *a, int64_t index, mf_tensor *out);
void mf_array_close(mf_array *a);
/* Fails: FAILED_PRECONDITION unless it is open and of this type. */
MF_MUST mf_status mf_array_check(const mf_array *a, mf_dtype dtype);

#endif
