/* SPDX-License-Identifier: Apache-2.0 */
/* expand.h - ops that need a dimension whole, where it is to be cut, become others that do not. */
#ifndef MF_MESH_EXPAND_H
#define MF_MESH_EXPAND_H

#include "mesh/sheet.h"

/* Softmax and cross entropy over classes that are cut: the largest, the sum of exponentials, and
 * the rest element by element. Batch normalisation over samples that are cut: means, and the rest.
 * They round otherwise, so not where bits count. TopK over a dimension that is cut: of each part,
 * and then of these. *changed: the graph is another one: what is known of it has to be found out
 * again. */
MF_MUST mf_status mf_mesh_expand(const mf_mesh_sheet *s, bool *changed);

#endif
