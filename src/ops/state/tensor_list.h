/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.h - lists of tensors as values (variants). A shared list is immutable: an op that
 * returns a changed list copies it (references to its elements, not their storage), unless it holds
 * the only reference. */
#ifndef MF_OPS_STATE_TENSOR_LIST_H
#define MF_OPS_STATE_TENSOR_LIST_H

#include "graph/op.h"

typedef struct mf_list {
    mf_object object;
    mf_dtype dtype;
    mf_shape element; /* the known shape of the elements */
    int64_t max; /* negative: no limit */
    mf_tensor *items; /* an empty slot has not been set, and reads as zeros */
    int64_t n, cap;
} mf_list;

enum { MF_LIST_MAX = 1 << 24 };

extern const mf_object_type mf_list_type;

/* n elements that are not set; one reference for the caller. */
MF_MUST mf_status mf_list_new(mf_dtype dtype, const mf_shape *element, int64_t n, mf_list **out);
MF_MUST mf_status mf_list_resize(mf_list *l, int64_t n);

/* ---- inputs and outputs of ops ---- */

/* Sets *t to a scalar variant that holds the list. Takes over the reference, even on failure. */
MF_MUST mf_status mf_list_wrap(mf_list *l, mf_tensor *t);
/* Sets output i to the list. Takes over the reference, even on failure. */
MF_MUST mf_status mf_list_put(mf_kernel *k, int i, mf_list *l);
/* Input 0, which must be a list of this type (MF_DTYPE_INVALID: any). */
MF_MUST mf_status mf_list_input(const mf_kernel *k, mf_dtype dtype, mf_list **out);
/* The same as a list that may be modified, with one reference for the caller. */
MF_MUST mf_status mf_list_writable(const mf_kernel *k, mf_dtype dtype, mf_list **out);
MF_MUST mf_status mf_list_int_input(const mf_kernel *k, int i, int64_t *out);
/* An element_shape input: a vector that may contain -1, or the scalar -1 for an unknown rank. */
MF_MUST mf_status mf_list_shape_input(const mf_kernel *k, int i, mf_shape *out);
/* The element shape from the op (its input i) and the list combined. */
MF_MUST mf_status mf_list_both_shapes(const mf_kernel *k, int i, const mf_list *l, mf_shape *out);
/* The element shape in input i, if its value is known. */
mf_shape mf_list_infer_element(const mf_infer *in, int i);

/* ---- elements ---- */

/* Fails if t cannot be an element. */
MF_MUST mf_status mf_list_check_item(const mf_list *l, const mf_tensor *t);
/* Element i; if it is not set, zeros of `shape` or of the shape of elements that are set. */
MF_MUST mf_status mf_list_read_item(const mf_list *l, int64_t i, const mf_shape *shape,
                                    mf_tensor *out);

/* ---- lists as numbers (tensor_list_math.c) ---- */

/* Output 0: a list like input 0 whose elements are zero, including nested lists. */
MF_MUST mf_status mf_tensor_list_zeros(mf_kernel *k);
/* Output 0: the elementwise sum of the lists in all inputs. Elements that are not set count as
 * zero.
 * Fails: INVALID_ARGUMENT (lengths, types or shapes differ). */
MF_MUST mf_status mf_tensor_list_sum(mf_kernel *k);

/* ---- rows of the tables of ops ---- */

#define MF_LIST_OP(NAME, DEF, INFER, GRAD, RUN)                                                    \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = GRAD, .run = RUN                                                                   \
    }
#define MF_LIST_MAKES "{element_dtype:type, shape_type:type in index}"

/* Gradients of a list are lists of the gradients of its elements (tensor_list_grad.c). */
mf_grad_fn mf_list_push_grad, mf_list_pop_grad, mf_list_stack_grad, mf_list_from_tensor_grad;
mf_grad_fn mf_list_get_grad, mf_list_set_grad, mf_list_gather_grad, mf_list_resize_grad;
mf_grad_fn mf_list_scatter_grad, mf_list_scatter_existing_grad;

#endif
