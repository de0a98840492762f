/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.c - the bytes of variables that a device holds under a layout.
 */
#include "planner/device_memory.h"

#include "base/mem.h"

#include <string.h>

int64_t mf_memory_of_variables(const mf_graph *graph, const mf_mesh_variables *v,
                               const mf_meshes *meshes, int device)
{
    mf_map seen = { 0 };
    int64_t bytes = 0;

    for (int64_t i = 0; i < graph->n_nodes; i++) {
        const mf_node *n = graph->nodes[i];
        const char *name;
        mf_mesh_variable *known;
        mf_box box;

        if (!n || strcmp(n->op_name, "VarHandleOp") != 0)
            continue;
        name = mf_node_string(n, "shared_name");
        name = name[0] ? name : n->name;
        known = mf_map_find(&v->layouts, name);
        if (!known || mf_map_find(&seen, name) || mf_map_set(&seen, name, known) != MF_OK ||
            !mf_shape_is_static(&known->shape) || !mf_mesh_has(&meshes->at[known->mesh], device))
            continue;
        box = mf_layout_box(&meshes->at[known->mesh], &known->layout, &known->shape, device);
        bytes += mf_box_count(&box, known->shape.rank) *
                 (int64_t)mf_dtype_cell(mf_node_type(n, "dtype"));
    }
    mf_map_deinit(&seen);
    return bytes;
}
