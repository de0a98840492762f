/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.h - lists of tensors as values (variants). A list never changes once somebody else
 * can see it: an op that gives a changed list copies it (references to its elements, not their
 * storage), unless the list it was given has no other use. */
#ifndef MF_OPS_STATE_TENSOR_LIST_H
#define MF_OPS_STATE_TENSOR_LIST_H

#include "graph/op.h"

typedef struct mf_list {
    mf_object object;
    mf_dtype dtype;
    mf_shape element; /* what is known of the elements */
    int64_t max; /* negative: no limit */
    mf_tensor *items; /* an empty slot was not set yet, and reads as zeros */
    int64_t n, cap;
} mf_list;

enum { MF_LIST_MAX = 1 << 24 };

extern const mf_object_type mf_list_type;

/* n elements that are not set; one reference for the caller. */
MF_MUST mf_status mf_list_new(mf_dtype dtype, const mf_shape *element, int64_t n, mf_list **out);
MF_MUST mf_status mf_list_resize(mf_list *l, int64_t n);

/* ---- inputs and outputs of ops ---- */

/* *t becomes a scalar variant that holds the list; takes over the reference, also on failure. */
MF_MUST mf_status mf_list_wrap(mf_list *l, mf_tensor *t);
/* Output i becomes the list; takes over the reference, also on failure. */
MF_MUST mf_status mf_list_put(mf_kernel *k, int i, mf_list *l);
/* Input 0, which must be a list of this type (MF_DTYPE_INVALID: of any). */
MF_MUST mf_status mf_list_input(const mf_kernel *k, mf_dtype dtype, mf_list **out);
/* The same as a list that may be changed, with one reference for the caller. */
MF_MUST mf_status mf_list_writable(const mf_kernel *k, mf_dtype dtype, mf_list **out);
MF_MUST mf_status mf_list_int_input(const mf_kernel *k, int i, int64_t *out);
/* An element_shape input: a vector that may hold -1, or the scalar -1 for an unknown rank. */
MF_MUST mf_status mf_list_shape_input(const mf_kernel *k, int i, mf_shape *out);
/* The element shape that the op (its input i) and the list together know. */
MF_MUST mf_status mf_list_both_shapes(const mf_kernel *k, int i, const mf_list *l, mf_shape *out);
/* The element shape that input i says, if its value is known. */
mf_shape mf_list_infer_element(const mf_infer *in, int i);

/* ---- elements ---- */

/* May t be an element? */
MF_MUST mf_status mf_list_check_item(const mf_list *l, const mf_tensor *t);
/* Element i; zeros where it was not set, of `shape` or of the shape of those that were. */
MF_MUST mf_status mf_list_read_item(const mf_list *l, int64_t i, const mf_shape *shape,
                                    mf_tensor *out);

/* ---- lists as numbers (tensor_list_math.c) ---- */

/* Output 0 is a list like input 0 whose elements are zero; lists within lists too. */
MF_MUST mf_status mf_tensor_list_zeros(mf_kernel *k);
/* Output 0 is the sum of the lists in all inputs, element by element. An element that was not set
 * counts as zero. INVALID_ARGUMENT when lengths, types or shapes differ. */
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
