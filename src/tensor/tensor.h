/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - the internal tensor: a small value that refers to reference-counted storage. Copy with
 * mf_tensor_set(), drop with mf_tensor_clear(); the public handle is a heap-allocated mf_tensor. */
#ifndef MF_TENSOR_TENSOR_H
#define MF_TENSOR_TENSOR_H

#include "base/buf.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

struct mf_tensor {
    mf_dtype dtype; /* MF_DTYPE_INVALID: empty slot */
    mf_shape shape; /* static */
    int64_t count; /* elements */
    void *data; /* first element; usually buffer->data */
    mf_buffer *buffer; /* NULL: memory of a plan, which outlives every use */
};

/* Element of a string tensor. data is heap memory of the buffer, NULL when empty. */
typedef struct mf_string {
    char *data;
    size_t len;
} mf_string;

/* Element of a resource or variant tensor: any object with a reference count and a destructor. */
typedef struct mf_object mf_object;
typedef struct mf_object_type {
    const char *name;
    void (*destroy)(mf_object *object);
} mf_object_type;
struct mf_object {
    const mf_object_type *type;
    union {
        atomic_int refs;
        mf_object *next; /* next object in the list of unreferenced objects to be destroyed */
    };
};

static inline mf_object *mf_object_ref(mf_object *o)
{
    if (o)
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}
/* For an object without references. Nested objects are destroyed with it, to any depth. */
void mf_object_destroy(mf_object *o);
static inline void mf_object_unref(mf_object *o)
{
    if (o && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
        mf_object_destroy(o);
}

/* Allocate storage for an empty slot. Contents are undefined for plain types. */
MF_MUST mf_status mf_tensor_alloc(mf_tensor *t, mf_dtype dtype, const mf_shape *shape);
/* dst (empty or not) becomes a second reference to src's storage. */
void mf_tensor_set(mf_tensor *dst, const mf_tensor *src);
/* Moves; src becomes empty. */
void mf_tensor_move(mf_tensor *dst, mf_tensor *src);
void mf_tensor_clear(mf_tensor *t);
/* Same storage, other shape; the caller has checked that the number of elements is equal. */
void mf_tensor_reshape(mf_tensor *dst, const mf_tensor *src, const mf_shape *shape);
/* Copies the elements to new storage. */
MF_MUST mf_status mf_tensor_clone(mf_tensor *dst, const mf_tensor *src);

/* Copy n elements between storage of the same type; ranges must not overlap.
 * Strings are duplicated, objects counted. */
MF_MUST mf_status mf_cells_copy(mf_dtype dtype, void *dst, int64_t dst_at, const void *src,
                                int64_t src_at, int64_t n);
MF_MUST mf_status mf_string_set(mf_string *s, const void *data, size_t len);
/* Makes the element `len` zero bytes, for the caller to fill. Fails: RESOURCE_EXHAUSTED, also
 * beyond the limit of base/quota.h in any thread. */
MF_MUST mf_status mf_string_new(mf_string *s, int64_t len);

/* Integer element i of any integer type (and bool) as int64. */
int64_t mf_tensor_int_at(const mf_tensor *t, int64_t i);
/* Element i of a number type as double (complex: the real part). */
double mf_tensor_float_at(const mf_tensor *t, int64_t i);
/* Store a number into element i of any number type (complex: imaginary part 0). Integers round
 * towards 0 and saturate; NaN becomes 0. */
void mf_tensor_put(mf_tensor *t, int64_t i, double value);

/* "Tensor<float [2,3]: 1 2 3...>" for messages and dumps: up to max elements. */
void mf_tensor_print(const mf_tensor *t, int64_t max, mf_buf *out);

#endif
