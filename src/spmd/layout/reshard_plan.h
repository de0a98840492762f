/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_plan.h - from one layout of a tensor to another: who sends what to whom.
 *
 * First what is partial is reduced: pieces that the target has, too, come out of it cut (each
 * processor adds up what it will need); along other axes everybody gets all. Then parts are moved.
 * Each processor gets exactly what it lacks, once: of those who have a part, from the one that is
 * where it is itself along all axes that cut nothing. So nobody gets more bytes than it must, and
 * nobody sends for others. */
#ifndef MF_SPMD_LAYOUT_RESHARD_PLAN_H
#define MF_SPMD_LAYOUT_RESHARD_PLAN_H

#include "base/param.h"
#include "spmd/layout/mesh_layout.h"

/* How a partial layout is reduced on the way to another. */
typedef struct mf_reduction {
    mf_axes scatter; /* along these each keeps a piece of the sum, */
    mf_axes all; /* along these, afterwards, everybody all of it */
    mf_layout scattered, reduced; /* what it is after each */
} mf_reduction;

mf_reduction mf_reduction_plan(const mf_mesh *m, const mf_layout *from, const mf_layout *to,
                               const mf_shape *shape);

/* A part that travels: where it begins in the block at hand, and how large it is. */
typedef struct mf_parcel {
    int peer;
    mf_box box;
} mf_parcel;

typedef struct mf_reshard_plan {
    mf_parcel *send, *receive;
    int n_send, n_receive;
    mf_box keep_from, keep_to; /* what one has already, in the old and the new block */
    bool keeps; /* there is such a part */
} mf_reshard_plan;

/* What a processor does so that everybody comes from `from`, which is not partial, to its box; `to`
 * is by processor of the mesh. */
MF_MUST mf_status mf_reshard_plan_make(const mf_mesh *m, const mf_layout *from,
                                       const mf_shape *shape, const mf_box *to, int processor,
                                       mf_arena *arena, mf_reshard_plan *out);

/* From one mesh to another. */
typedef struct mf_cross_mesh {
    const mf_mesh *a, *b;
    const mf_layout *from, *to; /* neither is partial */
    const mf_shape *shape;
} mf_cross_mesh;

/* What a processor of either does. One that is of both keeps what it has. */
MF_MUST mf_status mf_cross_mesh_plan(const mf_cross_mesh *c, int processor, mf_arena *arena,
                                     mf_reshard_plan *out);

/* Everybody's new block lies in its old one. */
bool mf_reshard_is_local(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                         const mf_layout *to);
/* Elements that a processor receives on the whole way, reductions included: the most of any, or, on
 * a large mesh, of some. */
int64_t mf_reshard_elements(const mf_mesh *m, const mf_layout *from, const mf_shape *shape,
                            const mf_layout *to);

/* Elements up to which a sum for everybody is made by everybody: one round instead of two. */
extern mf_param mf_param_mesh_reduce_direct;
#define MF_REDUCE_DIRECT MF_PARAM(mesh_reduce_direct)

#endif
