/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_lower.h - lowers a graph with layouts to device graphs: ops on shards, and the communication
 * between devices. */
#ifndef MF_SPMD_LOWER_SPMD_LOWER_H
#define MF_SPMD_LOWER_SPMD_LOWER_H

#include "spmd/layout/op_costs.h"
#include "spmd/propagate/sharding_table.h"

/* A value under one layout. */
typedef struct mf_mesh_version {
    int mesh;
    mf_layout layout;
    mf_box *boxes; /* by device of the mesh, when the parts overlap and the layout does not describe
                      them */
    mf_output *at; /* by local device of the mesh */
    struct mf_mesh_version *next;
} mf_mesh_version;

typedef struct mf_lowering {
    const mf_sharding_table *table;
    const int *devices; /* the local devices */
    int n;
    mf_graph **graphs; /* their graphs */
    mf_mesh_version ***versions; /* by node's id and port */
    mf_node ***copies; /* by node's id and local device: for control edges */
    mf_mesh_version **signals; /* by node's id: signals to other meshes that the node has run */
    mf_node **ends; /* by local device: waits for sends to other meshes; NULL: no sends */
    int64_t *receives; /* by local device: bytes received in a run */
    mf_mesh_costs *costs; /* of the first local device */
    int *branches; /* by node's id: number of enclosing conditional branches */
    int64_t next_id; /* of the next collective: the same on all devices */
} mf_lowering;

/* The sharding of a node. */
typedef struct mf_mesh_choice {
    mf_layout_dim letters[MF_SPLIT_LETTERS];
    mf_layout *in, *out; /* by input and output */
    mf_box **windows; /* by input: the part that each device of the mesh needs; NULL: as the layout
                         says */
} mf_mesh_choice;

/* Chooses the sharding of this node on this mesh with the fewest received bytes and the least
 * duplicated work (op_sharding.c). Its inputs have been lowered. Fails: UNIMPLEMENTED (a variable
 * is split in a way that the op does not support). */
MF_MUST mf_status mf_mesh_choose(const mf_lowering *l, const mf_node *n, int mesh,
                                 mf_mesh_choice *out);

/* The value on this mesh under this layout, converted if necessary (reshard.c). */
MF_MUST mf_status mf_reshard(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                             const mf_mesh_version **out);
/* The same, where each device gets its own box. */
MF_MUST mf_status mf_reshard_boxes(mf_lowering *l, mf_output o, int mesh, mf_box *boxes,
                                   const mf_mesh_version **out);
/* A control input on this mesh for a node that runs on another mesh. */
MF_MUST mf_status mf_reshard_signal(mf_lowering *l, mf_node *n, int mesh,
                                    const mf_mesh_version **out);
/* Records a version of the value. */
MF_MUST mf_status mf_mesh_add_version(mf_lowering *l, mf_output o, int mesh,
                                      const mf_layout *layout, mf_mesh_version **out);

/* Names in the device graphs: feeds "_feed_0", fetches "_fetch_0"; targets keep their names. */
enum { MF_MESH_END_NAME = 32 };
#define MF_MESH_FEED "_feed_%d"
#define MF_MESH_FETCH "_fetch_%d"
/* Waits for sends to other meshes, which no other node waits for. */
#define MF_MESH_SENT "_sent"

/* Makes one graph per local device. Owns: the caller frees them, even after a failure. Feeds and
 * fetches are not split. receives: bytes that each local device receives in a run; costs: of the
 * first local device. */
MF_MUST mf_status mf_mesh_lower(const mf_sharding_table *table, const int *devices, int n,
                                mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs);

#endif
