/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_lower.h - from a graph and layouts to the graphs of processors: local pieces, and what they
 * send to each other. */
#ifndef MF_SPMD_LOWER_SPMD_LOWER_H
#define MF_SPMD_LOWER_SPMD_LOWER_H

#include "spmd/layout/op_costs.h"
#include "spmd/propagate/sharding_table.h"

/* A value as it was made, under one layout. */
typedef struct mf_mesh_version {
    int mesh;
    mf_layout layout;
    mf_box *boxes; /* by processor of the mesh, if they are other than the layout says: pieces that
                      overlap */
    mf_output *at; /* by processor at hand, of the mesh */
    struct mf_mesh_version *next;
} mf_mesh_version;

typedef struct mf_lowering {
    const mf_sharding_table *sheet;
    const int *processors; /* those at hand */
    int n;
    mf_graph **graphs; /* theirs */
    mf_mesh_version ***versions; /* by node's id and port */
    mf_node ***twins; /* by node's id and processor at hand: for control edges */
    mf_mesh_version **signals; /* by node's id: it has been, told to other meshes */
    mf_node **ends; /* by processor at hand: waits for what is sent to other meshes; NULL: nothing
                       is */
    int64_t *receives; /* by processor at hand: bytes from others in a run */
    mf_mesh_costs *costs; /* of the first of them */
    int *branches; /* by node's id: it runs only if so many branches are taken */
    int64_t next_id; /* of what is done together: the same for all processors */
} mf_lowering;

/* How a node is computed. */
typedef struct mf_mesh_choice {
    mf_layout_dim letters[MF_SPLIT_LETTERS];
    mf_layout *in, *out; /* by input and output */
    mf_box **windows; /* by input: what each processor of the mesh needs, if that is no layout;
                         NULL: it is */
} mf_mesh_choice;

/* The best way for this node on this mesh, whose inputs have been made: the fewest bytes, and work
 * that is not done twice (op_sharding.c). Fails: UNIMPLEMENTED (a variable is cut as the op cannot
 * take it). */
MF_MUST mf_status mf_mesh_choose(const mf_lowering *l, const mf_node *n, int mesh,
                                 mf_mesh_choice *out);

/* The value on this mesh under this layout, made from what there is, if need be (reshard.c). */
MF_MUST mf_status mf_reshard(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                             const mf_mesh_version **out);
/* The same, of which each processor has this box. */
MF_MUST mf_status mf_reshard_boxes(mf_lowering *l, mf_output o, int mesh, mf_box *boxes,
                                   const mf_mesh_version **out);
/* That the node has been, on another mesh: what to wait for. */
MF_MUST mf_status mf_reshard_signal(mf_lowering *l, mf_node *n, int mesh,
                                    const mf_mesh_version **out);
/* It was made. */
MF_MUST mf_status mf_mesh_made(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                               mf_mesh_version **out);

/* A run's graphs, and what it is called there: feeds "_feed_0", "_fetch_0", targets as before. */
enum { MF_MESH_END_NAME = 32 };
#define MF_MESH_FEED "_feed_%d"
#define MF_MESH_FETCH "_fetch_%d"
/* Waits for what goes to other meshes, which nothing else here waits for. */
#define MF_MESH_SENT "_sent"

/* graphs: one for each processor at hand, to be made. Owns: the caller frees them, also after a
 * failure. Feeds and fetches are whole. receives: bytes that each gets from others in a run; costs:
 * what that and the rest are, of the first of them. */
MF_MUST mf_status mf_mesh_lower(const mf_sharding_table *sheet, const int *processors, int n,
                                mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs);

#endif
