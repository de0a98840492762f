/* SPDX-License-Identifier: Apache-2.0 */
/* variant_tensor.h - a tensor as an element of a variant tensor. */
#ifndef MF_OPS_STATE_VARIANT_TENSOR_H
#define MF_OPS_STATE_VARIANT_TENSOR_H

#include "graph/op.h"

/* Makes the cell, which may hold something, hold a reference to t; t's memory must not belong to a
 * plan. */
MF_MUST mf_status mf_variant_tensor_set(mf_object **cell, const mf_tensor *t);
/* The tensor in the cell, borrowed. Fails: INVALID_ARGUMENT (none). */
MF_MUST mf_status mf_variant_tensor_get(const mf_object *cell, const mf_tensor **out);

#endif
