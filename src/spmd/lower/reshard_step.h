/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_step.h - one step on the way of a value from one layout to another: what every processor
 * at hand adds to its graph. Shared by reshard.c and cross_mesh.c. */
#ifndef MF_SPMD_LOWER_RESHARD_STEP_H
#define MF_SPMD_LOWER_RESHARD_STEP_H

#include "spmd/layout/reshard_plan.h"
#include "spmd/lower/spmd_lower.h"

typedef struct mf_reshard_step {
    mf_lowering *l;
    mf_output o;
    mf_dtype type;
    const mf_mesh *m; /* of the new version */
    const mf_shape *shape;
    const mf_mesh_version *from;
    mf_mesh_version *to;
    int64_t id; /* the same for all processors */
    mf_box *boxes; /* of a move, by processor of the mesh: what it is to have */
    mf_axes axes; /* of a sum: along these, */
    bool scatter; /* of which each gets a piece */
    mf_arena *scratch; /* while one processor's is planned: of all, it would be too much */
} mf_reshard_step;

/* A new version at the end of a list. */
MF_MUST mf_status mf_reshard_step_version(const mf_lowering *l, int mesh, const mf_layout *layout,
                                          mf_mesh_version **list, mf_mesh_version **out);
/* From a version to one of another layout on the mesh `mesh`, which is made. */
MF_MUST mf_status mf_reshard_step_begin(mf_lowering *l, mf_output o, const mf_mesh_version *from,
                                        int mesh, const mf_layout *to, mf_reshard_step *out);
/* A node in the graph of the i-th processor at hand. */
MF_MUST mf_status mf_reshard_step_add(const mf_reshard_step *g, int i, const char *op,
                                      const mf_output *in, int n_in, const mf_named_attr *attrs,
                                      int n_attrs, mf_node **out);
/* The same; it makes the new version there. */
MF_MUST mf_status mf_reshard_step_make(const mf_reshard_step *g, int i, const char *op,
                                       const mf_output *in, int n_in, const mf_named_attr *attrs,
                                       int n_attrs);
/* add() for every processor at hand of the new version's mesh, and, if it came from another, of
 * that one. */
MF_MUST mf_status mf_reshard_step_everywhere(mf_reshard_step *g,
                                             mf_status (*add)(const mf_reshard_step *g, int i));
/* The i-th processor at hand gets so many elements from others, in every run. */
void mf_reshard_step_count(const mf_reshard_step *g, int i, int64_t elements);
/* What a processor has of it. */
mf_box mf_reshard_step_box(const mf_reshard_step *g, const mf_mesh_version *v, int processor);
mf_shape mf_box_shape(const mf_box *box, int rank);
/* As attributes: who, and for each begin and size. */
MF_MUST mf_status mf_reshard_step_write_boxes(mf_arena *arena, const mf_parcel *parcels, int n,
                                              int rank, mf_attr *peers, mf_attr *boxes);

/* All sums that a version still lacks (reshard.c). */
MF_MUST mf_status mf_reshard_step_reduce(mf_lowering *l, mf_output o, const mf_mesh_version **v);
/* The value comes from another mesh (cross_mesh.c). */
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
