/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_list.h - lists of tensors as numbers: what gradients do with them. */
#ifndef MF_OPS_TENSOR_LIST_H
#define MF_OPS_TENSOR_LIST_H

#include "graph/op.h"

/* Output 0 is a list like input 0 whose elements are zero; lists within lists too. */
MF_MUST mf_status mf_tensor_list_zeros(mf_kernel *k);
/* Output 0 is the sum of the lists in all inputs, element by element. An element that was not set
 * counts as zero. INVALID_ARGUMENT when lengths, types or shapes differ. */
MF_MUST mf_status mf_tensor_list_sum(mf_kernel *k);

#endif
