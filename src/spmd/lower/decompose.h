/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.h - replaces ops that cannot run on a split dimension by ops that can. */
#ifndef MF_SPMD_LOWER_DECOMPOSE_H
#define MF_SPMD_LOWER_DECOMPOSE_H

#include "spmd/propagate/sharding_table.h"

/* Softmax and cross entropy over split classes become a maximum, a sum of exponentials and
 * elementwise ops. Batch normalisation over split samples becomes means and elementwise ops. Both
 * round differently, so they are not done in exact mode. TopK over a split dimension becomes the
 * top k of each shard, then of the candidates. *changed: the graph has changed, and the caller must
 * compute its facts again. */
MF_MUST mf_status mf_mesh_expand(const mf_sharding_table *s, bool *changed);

#endif
