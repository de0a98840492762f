/* SPDX-License-Identifier: Apache-2.0 */
/* sharding_table.h - the sharding of a graph: for every value its shape and preferred layout, for
 * every node how it may be split.
 *
 * Layouts start at named dimensions (mf_name_dims) and variables, and are propagated forwards and
 * backwards until nothing changes. They are preferences: spmd_lower.c chooses the best sharding of
 * each node and converts values with other layouts. Only the layouts of variables are fixed. */
#ifndef MF_SPMD_PROPAGATE_SHARDING_TABLE_H
#define MF_SPMD_PROPAGATE_SHARDING_TABLE_H

#include "compiler/compiler.h"
#include "spmd/layout/mesh_layout.h"

/* The attribute that mf_name_dims() sets. */
#define MF_DIMS_ATTR "_dims"
/* The attribute that mf_put_on_mesh() sets. */
#define MF_MESH_ATTR "_mesh"
/* On a variable's handle: the variable is an optimizer slot. */
#define MF_SLOT_ATTR "_slot"

typedef struct mf_mesh_value {
    mf_shape shape; /* for a variable's handle: shape of the variable */
    mf_layout layout;
    uint32_t closed; /* bits of dimensions whose split must not change */
    bool fixed; /* a variable's handle: its layout cannot be converted */
    mf_axes stored; /* axes that split only the stored variable: not propagated */
} mf_mesh_value;

typedef struct mf_sharding_table {
    const mf_meshes *meshes;
    bool exact; /* exact mode: contracted letters are not split */
    int chunks; /* chunks of layers per mesh, assigned round-robin */
    mf_compile *c; /* with its facts computed */
    mf_arena *arena;
    mf_node **order; /* topological */
    int64_t n;
    mf_mesh_value **values; /* by node's id and port */
    mf_split **splits; /* by node's id; NULL: not split */
    bool *is_used; /* by node's id: it has consumers or successors */
    uint32_t *where; /* by node's id: bits of the meshes that compute it (mesh_placement.c) */
} mf_sharding_table;

/* Owns: mf_sharding_table_deinit(). c->facts must be computed; all nodes are placed on the first
 * mesh.
 * Fails: UNIMPLEMENTED (the graph has a loop). */
MF_MUST mf_status mf_sharding_table_init(mf_sharding_table *s, const mf_meshes *meshes,
                                         mf_compile *c);
void mf_sharding_table_deinit(mf_sharding_table *s);

static inline mf_mesh_value *mf_mesh_value_of(const mf_sharding_table *s, mf_output o)
{
    return &s->values[o.node->id][o.port];
}

/* The first mesh that computes the node: its layouts refer to this mesh. */
static inline int mf_mesh_home(const mf_sharding_table *s, const mf_node *n)
{
    return s->where[n->id] ? __builtin_ctz(s->where[n->id]) : 0;
}

/* True if layouts of this value are valid on that mesh. */
static inline bool mf_mesh_layout_applies(const mf_sharding_table *s, mf_output o, const mf_mesh *m)
{
    return mf_mesh_alike(&s->meshes->at[mf_mesh_home(s, o.node)], m);
}

/* Splits the dimensions that have names in `named` (a node of this or another graph) by the rules.
 * Fails: INVALID_ARGUMENT (another rank; two dimensions along one axis). */
MF_MUST mf_status mf_mesh_pin(mf_sharding_table *s, mf_output o, const mf_node *named,
                              const mf_layout_rules *rules);
/* Fixes the layout of a value. */
void mf_mesh_fix(mf_sharding_table *s, mf_output o, const mf_layout *layout);
/* Pins all nodes of the graph that have dimension names. */
MF_MUST mf_status mf_mesh_pin_names(mf_sharding_table *s, const mf_layout_rules *rules);
/* Propagates pinned layouts to all other values. */
void mf_mesh_propagate(mf_sharding_table *s);

/* The split of a letter, as a split of the dimension; axes 0: not possible. */
static inline mf_layout_dim mf_mesh_dim_of(mf_layout_dim letter, mf_split_dim dim)
{
    return letter.axes ? (mf_layout_dim){ letter.axes, letter.grain * dim.inside }
                       : (mf_layout_dim){ 0 };
}
/* The inverse; axes 0: not split, or split inside an index of the letter. */
mf_layout_dim mf_mesh_letter_of(mf_layout_dim cut, mf_split_dim dim);
/* True for a variable's handle. */
bool mf_mesh_is_variable(const mf_node *n);
/* Its name in the store. */
const char *mf_mesh_variable_name(const mf_node *n);

#endif
