/* SPDX-License-Identifier: Apache-2.0 */
/* graphdef_codec.h - converts between messages and graphs; shared by graphdef_codec.c, encode.c and
 * function.c. */
#ifndef MF_GRAPH_GRAPHDEF_CODEC_H
#define MF_GRAPH_GRAPHDEF_CODEC_H

#include "graph/graph.h"
#include "proto/graph.pb-c.h"

/* Add the nodes of a decoded GraphDef. The message must outlive the graph. */
MF_MUST mf_status mf_graph_decode_message(mf_graph *graph, const Tensorflow__GraphDef *def);
/* The same for a message that may be freed afterwards. */
MF_MUST mf_status mf_graph_add_message(mf_graph *graph, const Tensorflow__GraphDef *def);
/* Add one node without its edges. */
MF_MUST mf_status mf_node_decode(mf_graph *graph, const Tensorflow__NodeDef *def, mf_node **out);
MF_MUST mf_status mf_attrs_decode(mf_graph *graph, Tensorflow__AttrEntry *const *entries, int n,
                                  mf_named_attr **out, int *n_out);
/* One node with its inputs, named as in a GraphDef; tensors are borrowed from the graph. */
MF_MUST mf_status mf_node_encode(const mf_node *node, mf_arena *arena, Tensorflow__NodeDef **out);
/* The complete graph as a message in `arena`; tensors are borrowed from the graph. */
MF_MUST mf_status mf_graph_encode_message(const mf_graph *graph, mf_arena *arena,
                                          Tensorflow__GraphDef **out);

#endif
