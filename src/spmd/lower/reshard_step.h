/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_step.h - one step of the conversion of a value from one layout to another: what every
 * local device adds to its graph. Shared by reshard.c and cross_mesh.c. */
#ifndef MF_SPMD_LOWER_RESHARD_STEP_H
#define MF_SPMD_LOWER_RESHARD_STEP_H

#include "spmd/layout/reshard_plan.h"
#include "spmd/lower/spmd_lower.h"

typedef struct mf_reshard_step {
    mf_lowering *l;
    mf_output o;
    mf_dtype type;
    const mf_mesh *m; /* mesh of the new version */
    const mf_shape *shape;
    const mf_mesh_version *from;
    mf_mesh_version *to;
    int64_t id; /* the same on all devices */
    mf_box *boxes; /* for a move, by device of the mesh: its new part */
    mf_axes axes; /* for a reduction: its axes */
    bool scatter; /* reduce-scatter instead of all-reduce */
    mf_arena *scratch; /* for the plan of one device; reset between devices */
} mf_reshard_step;

/* Appends a new version to the list. */
MF_MUST mf_status mf_reshard_step_version(const mf_lowering *l, int mesh, const mf_layout *layout,
                                          mf_mesh_version **list, mf_mesh_version **out);
/* Begins the step from a version to a new version of another layout on the mesh `mesh`. */
MF_MUST mf_status mf_reshard_step_begin(mf_lowering *l, mf_output o, const mf_mesh_version *from,
                                        int mesh, const mf_layout *to, mf_reshard_step *out);
/* Adds a node to the graph of the i-th local device. */
MF_MUST mf_status mf_reshard_step_add(const mf_reshard_step *g, int i, const char *op,
                                      const mf_output *in, int n_in, const mf_named_attr *attrs,
                                      int n_attrs, mf_node **out);
/* The same; the node's output is the new version on that device. */
MF_MUST mf_status mf_reshard_step_make(const mf_reshard_step *g, int i, const char *op,
                                       const mf_output *in, int n_in, const mf_named_attr *attrs,
                                       int n_attrs);
/* Calls add() for every local device of the new version's mesh and, if the value comes from another
 * mesh, of that mesh. */
MF_MUST mf_status mf_reshard_step_everywhere(mf_reshard_step *g,
                                             mf_status (*add)(const mf_reshard_step *g, int i));
/* Counts elements that the i-th local device receives in every run. */
void mf_reshard_step_count(const mf_reshard_step *g, int i, int64_t elements);
/* The part that a device holds. */
mf_box mf_reshard_step_box(const mf_reshard_step *g, const mf_mesh_version *v, int device);
mf_shape mf_box_shape(const mf_box *box, int rank);
/* Writes parcels as attributes: the peers, and the offset and size of each part. */
MF_MUST mf_status mf_reshard_step_write_boxes(mf_arena *arena, const mf_reshard_part *parcels,
                                              int n, int rank, mf_attr *peers, mf_attr *boxes);

/* Makes the reductions that a version still needs (reshard.c). */
MF_MUST mf_status mf_reshard_step_reduce(mf_lowering *l, mf_output o, const mf_mesh_version **v);
/* Moves the value from another mesh (cross_mesh.c). */
MF_MUST mf_status mf_mesh_cross(mf_lowering *l, mf_output o, int mesh, const mf_layout *layout,
                                const mf_mesh_version **out);

static inline mf_attr mf_int_attr(int64_t i)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = i };
}

static inline mf_attr mf_ints_attr(int64_t *list, int64_t n)
{
    return (mf_attr){ .kind = MF_ATTR_INT, .is_list = true, .n = n, .ints = list };
}

static inline mf_attr mf_shape_attr(mf_shape *shape)
{
    return (mf_attr){ .kind = MF_ATTR_SHAPE, .n = 1, .shape = shape };
}

#endif
