/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.h - gradients of the ops on lists of tensors: lists of the gradients of the elements.
 */
#ifndef MF_OPS_TENSOR_LIST_H
#define MF_OPS_TENSOR_LIST_H

#include "graph/op.h"

mf_grad_fn mf_list_push_grad, mf_list_pop_grad, mf_list_stack_grad, mf_list_from_tensor_grad;
mf_grad_fn mf_list_get_grad, mf_list_set_grad, mf_list_gather_grad, mf_list_resize_grad;
mf_grad_fn mf_list_scatter_grad, mf_list_scatter_existing_grad;

#endif
