/* SPDX-License-Identifier: Apache-2.0 */
/* dim_names.c - names of dimensions, and the mesh of a node. Both are attributes of the node, so
 * they travel with the graph. */
#include "base/host_state.h"
#include "spmd/propagate/sharding_table.h"

#include <meshflow/mesh.h>

#include <string.h>

void mf_name_dims(mf_graph *graph, mf_output tensor, const char *names)
{
    MF_ENTRY_OR();
    if (mf_graph_refuses(graph, MF_NEEDED(graph, names)) ||
        mf_graph_refuses(graph, mf_graph_owns(graph, tensor, "mf_name_dims()", 0)))
        return;

    mf_attr a = { .kind = MF_ATTR_STRING, .is_list = true };
    mf_status st;

    a.strings = MF_ARENA_ARRAY(graph->arena, mf_bytes, (int64_t)strlen(names) + 1);
    for (const char *at = names; a.strings; at++) {
        const size_t n = strcspn(at, ",");

        a.strings[a.n++] = (mf_bytes){ mf_arena_strndup(graph->arena, at, n), n };
        at += n;
        if (!*at)
            break;
    }
    if (!a.strings || tensor.node->n_outputs != 1)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: dimensions of this node cannot have names",
                     tensor.node->name);
    else
        st = mf_node_set_attr(graph, tensor.node, MF_DIMS_ATTR, &a);
    (void)mf_graph_refuses(graph, st);
}

void mf_put_on_mesh(mf_graph *graph, mf_output tensor, int mesh)
{
    MF_ENTRY_OR();
    if (mf_graph_refuses(graph, MF_NEEDED(graph)) ||
        mf_graph_refuses(graph, mf_graph_owns(graph, tensor, "mf_put_on_mesh()", 0)))
        return;

    const mf_attr a = { .kind = MF_ATTR_INT, .n = 1, .i = mesh };

    (void)mf_graph_refuses(graph, mf_node_set_attr(graph, tensor.node, MF_MESH_ATTR, &a));
}
