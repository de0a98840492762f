/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_plan.h - moves a tensor from one layout to another: which device sends what to which.
 *
 * A partial layout is reduced first: dimensions that the target splits further are reduce-scattered
 * (each device reduces only the shard that it needs), the other axes are all-reduced. Then parts
 * are moved. Each device receives exactly the elements that it lacks, once. Of the devices that
 * hold a part, the sender is the one with the receiver's index along all axes that split nothing.
 * So no device receives more bytes than necessary, and none forwards data of other devices. */
#ifndef MF_SPMD_LAYOUT_RESHARD_PLAN_H
#define MF_SPMD_LAYOUT_RESHARD_PLAN_H

#include "base/param.h"
#include "spmd/layout/mesh_layout.h"

/* How a partial layout is reduced before it becomes another. */
typedef struct mf_reduction {
    mf_axes scatter; /* reduce-scatter along these axes */
    mf_axes all; /* then all-reduce along these */
    mf_layout scattered, reduced; /* the layout after each */
} mf_reduction;

mf_reduction mf_reduction_plan(const mf_mesh *m, const mf_layout *from, const mf_layout *to,
                               const mf_shape *shape);

/* A part that is sent or received: its offset in the local block, and its size. */
typedef struct mf_reshard_part {
    int peer;
    mf_box box;
} mf_reshard_part;

typedef struct mf_reshard_plan {
    mf_reshard_part *send, *receive;
    int n_send, n_receive;
    mf_box keep_from, keep_to; /* the part that the device holds already, in the old and the new
                                  block */
    bool keeps; /* keep_from and keep_to are valid */
} mf_reshard_plan;

/* What one device sends and receives so that all devices get from `from`, which is not partial, to
 * their boxes. `to` is by device of the mesh. */
MF_MUST mf_status mf_reshard_plan_make(const mf_mesh *m, const mf_layout *from,
                                       const mf_shape *shape, const mf_box *to, int device,
                                       mf_arena *arena, mf_reshard_plan *out);

/* A move from one mesh to another. */
typedef struct mf_cross_mesh {
    const mf_mesh *a, *b;
    const mf_layout *from, *to; /* neither is partial */
    const mf_shape *shape;
} mf_cross_mesh;

/* What a device of either mesh sends and receives. A device of both keeps what it has. */
MF_MUST mf_status mf_cross_mesh_plan(const mf_cross_mesh *c, int device, mf_arena *arena,
                                     mf_reshard_plan *out);

/* True if the new block of every device lies in its old one. */
bool mf_reshard_is_local(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                         const mf_layout *to);
/* Elements that a device receives for the whole conversion, reductions included: the maximum over
 * all devices, or over a sample of them on a large mesh. */
int64_t mf_reshard_elements(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                            const mf_layout *to);

/* Sums of at most this many elements are all-reduced by direct exchange: one round instead of two.
 */
extern mf_param mf_param_mesh_direct_reduce_elements;
#define MF_REDUCE_DIRECT MF_PARAM(mesh_direct_reduce_elements)

#endif
