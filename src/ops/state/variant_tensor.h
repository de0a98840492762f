/* SPDX-License-Identifier: Apache-2.0 */
/* variant_tensor.h - a tensor as an element of a variant tensor. */
#ifndef MF_OPS_STATE_VARIANT_TENSOR_H
#define MF_OPS_STATE_VARIANT_TENSOR_H

#include "graph/op.h"

/* The cell, which may hold something, holds a reference to t from now on; t's memory must not be a
 * plan's. */
MF_MUST mf_status mf_variant_tensor_set(mf_object **cell, const mf_tensor *t);
/* The tensor in the cell, borrowed. INVALID_ARGUMENT when there is none. */
MF_MUST mf_status mf_variant_tensor_get(const mf_object *cell, const mf_tensor **out);

#endif
