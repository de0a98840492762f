/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.h - lists of tensors as numbers, and the gradients of the ops on them: lists of the
 * gradients of the elements. */
#ifndef MF_OPS_TENSOR_LIST_H
#define MF_OPS_TENSOR_LIST_H

#include "graph/op.h"

mf_grad_fn mf_list_push_grad, mf_list_pop_grad, mf_list_stack_grad, mf_list_from_tensor_grad;
mf_grad_fn mf_list_get_grad, mf_list_set_grad, mf_list_gather_grad, mf_list_resize_grad;
mf_grad_fn mf_list_scatter_grad, mf_list_scatter_existing_grad;
/* Output 0 is a list like input 0 whose elements are zero; lists within lists too. */
MF_MUST mf_status mf_tensor_list_zeros(mf_kernel *k);
/* Output 0 is the sum of the lists in all inputs, element by element. An element that was not set
 * counts as zero. INVALID_ARGUMENT when lengths, types or shapes differ. */
MF_MUST mf_status mf_tensor_list_sum(mf_kernel *k);

#endif
