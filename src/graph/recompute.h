/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.h - values of the forward pass that are computed again on the way back, instead of
 * being kept until then. */
#ifndef MF_GRAPH_RECOMPUTE_H
#define MF_GRAPH_RECOMPUTE_H

#include "graph/graph.h"

/* After mf_gradients(): gradients use copies of what they took from the inside of a segment.
 *
 * segment: by layer (mf_node_layer(), from 1 to n_layers): a number from 1 that layers which are
 * computed again together share, in the order of the layers; 0: the layer keeps its values.
 *
 * What enters a segment, what leaves it, and what an op with state gives are kept; the rest is
 * computed again, by the same ops, from what enters: the same bits, random numbers included, since
 * these are functions of what they are given. The copies wait until gradients arrive at the
 * segment's end. They are called "recompute/..." and are marked as gradients of their layer. */
MF_MUST mf_status mf_recompute(mf_graph *graph, const int64_t *segment, int64_t n_layers);

#endif
