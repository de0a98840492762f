/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.h - ops that need a dimension whole, where it is to be cut, become others that do not.
 */
#ifndef MF_SPMD_LOWER_DECOMPOSE_H
#define MF_SPMD_LOWER_DECOMPOSE_H

#include "spmd/propagate/sharding_table.h"

/* Softmax and cross entropy over classes that are cut: the largest, the sum of exponentials, and
 * the rest element by element. Batch normalisation over samples that are cut: means, and the rest.
 * They round otherwise, so not where bits count. TopK over a dimension that is cut: of each part,
 * and then of these. *changed: the graph is another one: what is known of it has to be found out
 * again. */
MF_MUST mf_status mf_mesh_expand(const mf_sharding_table *s, bool *changed);

#endif
