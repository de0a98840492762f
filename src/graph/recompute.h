/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.h - rematerialisation: values of the forward pass that are computed again for the
 * backward pass instead of being kept. */
#ifndef MF_GRAPH_RECOMPUTE_H
#define MF_GRAPH_RECOMPUTE_H

#include "graph/graph.h"

/* Call it after mf_gradients(): gradients then use copies of the values inside a segment. segment:
 * by layer (mf_node_layer(), from 1 to n_layers): the number, from 1, of its segment.
 * Layers of a segment are recomputed together; segments are in the order of the layers. 0: the
 * values of the layer are kept.
 * Values that enter or leave a segment, and outputs of stateful ops, are kept; the rest is
 * recomputed by the same ops from the same inputs, with the same bits. This includes random
 * numbers, which are functions of their inputs. The copies wait until gradients arrive at the
 * segment's end. They are named "recompute/..." and marked as gradients of their layer. */
MF_MUST mf_status mf_recompute(mf_graph *graph, const int64_t *segment, int64_t n_layers);

#endif
