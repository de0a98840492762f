/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names of dimensions, and which mesh a node is on: attributes of the node, so they
 * travel with the graph. */
#include "mesh/sheet.h"

#include <meshflow/mesh.h>

#include <string.h>

void mf_name_dims(mf_graph *graph, mf_output tensor, const char *names)
{
    mf_attr a = { .kind = MF_ATTR_STRING, .is_list = true };
    mf_status st;

    if (!tensor.node)
        return; /* the graph has failed before */
    a.strings = MF_ARENA_ARRAY(graph->arena, mf_bytes, (int64_t)strlen(names) + 1);
    for (const char *at = names; a.strings; at++) {
        const size_t n = strcspn(at, ",");

        a.strings[a.n++] = (mf_bytes){ mf_arena_strndup(graph->arena, at, n), n };
        at += n;
        if (!*at)
            break;
    }
    if (!a.strings || tensor.node->n_outputs != 1)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: its dimensions cannot have names",
                     tensor.node->name);
    else
        st = mf_node_set_attr(graph, tensor.node, MF_DIMS_ATTR, &a);
    if (st != MF_OK)
        mf_graph_fail(graph, st);
}

void mf_put_on_mesh(mf_graph *graph, mf_output tensor, int mesh)
{
    const mf_attr a = { .kind = MF_ATTR_INT, .n = 1, .i = mesh };
    mf_status st = MF_OK;

    if (tensor.node)
        st = mf_node_set_attr(graph, tensor.node, MF_MESH_ATTR, &a);
    if (st != MF_OK)
        mf_graph_fail(graph, st);
}
