/* SPDX-License-Identifier: Apache-2.0 */
/* sharding_table.h - a graph as a mesh sees it: of every value its shape and the layout it should
 * have, of every node how it may be cut.
 *
 * Layouts begin at names (mf_name_dims) and variables, and spread from there: forwards, backwards,
 * until nothing changes. What a layout says is a wish: spmd_lower.c decides for each node what is
 * best, and moves what lies otherwise. Only variables lie where they lie. */
#ifndef MF_SPMD_PROPAGATE_SHARDING_TABLE_H
#define MF_SPMD_PROPAGATE_SHARDING_TABLE_H

#include "compiler/compiler.h"
#include "spmd/layout/mesh_layout.h"

/* The attribute that mf_name_dims() leaves. */
#define MF_DIMS_ATTR "_dims"
/* And mf_put_on_mesh(). */
#define MF_MESH_ATTR "_mesh"
/* Of a variable's handle: an optimizer keeps it. */
#define MF_SLOT_ATTR "_slot"

typedef struct mf_mesh_value {
    mf_shape shape; /* of a variable's handle: of its value */
    mf_layout layout;
    uint32_t closed; /* bits of dimensions that stay as they are */
    bool fixed; /* a variable's handle: it cannot be moved */
    mf_axes stored; /* axes that cut it only where it is stored: nothing else follows from them */
} mf_mesh_value;

typedef struct mf_sharding_table {
    const mf_meshes *meshes;
    bool exact; /* contracted letters are not cut */
    int chunks; /* of layers that each mesh has: the first chunk is the first mesh's, and so on */
    mf_compile *c; /* its facts are known */
    mf_arena *arena;
    mf_node **order; /* inputs first */
    int64_t n;
    mf_mesh_value **values; /* by node's id and port */
    mf_split **splits; /* by node's id; NULL: whole */
    bool *is_used; /* by node's id: others wait for it, or use what it makes */
    uint32_t *where; /* by node's id: bits of the meshes that compute it (mesh_placement.c) */
} mf_sharding_table;

/* Owns: mf_sharding_table_deinit(). c->facts must be there; everything is on the first mesh.
 * UNIMPLEMENTED: there is a loop. */
MF_MUST mf_status mf_sharding_table_init(mf_sharding_table *s, const mf_meshes *meshes,
                                         mf_compile *c);
void mf_sharding_table_deinit(mf_sharding_table *s);

static inline mf_mesh_value *mf_mesh_value_of(const mf_sharding_table *s, mf_output o)
{
    return &s->values[o.node->id][o.port];
}

/* The first mesh that computes it: what its layouts mean. */
static inline int mf_mesh_home(const mf_sharding_table *s, const mf_node *n)
{
    return s->where[n->id] ? __builtin_ctz(s->where[n->id]) : 0;
}

/* Do layouts of this value mean something to that mesh? */
static inline bool mf_mesh_speaks(const mf_sharding_table *s, mf_output o, const mf_mesh *m)
{
    return mf_mesh_alike(&s->meshes->at[mf_mesh_home(s, o.node)], m);
}

/* The dimensions that `named` (a node of this or another graph) has names for are cut by the rules.
 * Fails: INVALID_ARGUMENT (other rank; two dimensions along one axis). */
MF_MUST mf_status mf_mesh_pin(mf_sharding_table *s, mf_output o, const mf_node *named,
                              const mf_layout_rules *rules);
/* It has this layout, and no other. */
void mf_mesh_fix(mf_sharding_table *s, mf_output o, const mf_layout *layout);
/* All nodes of the graph itself that have names. */
MF_MUST mf_status mf_mesh_pin_names(mf_sharding_table *s, const mf_layout_rules *rules);
/* From what is pinned to the rest. */
void mf_mesh_propagate(mf_sharding_table *s);

/* A letter's cut as a dimension has it; axes 0: it cannot. */
static inline mf_layout_dim mf_mesh_dim_of(mf_layout_dim letter, mf_split_dim dim)
{
    return letter.axes ? (mf_layout_dim){ letter.axes, letter.grain * dim.inside }
                       : (mf_layout_dim){ 0 };
}
/* And the other way; axes 0: it is not cut, or between indices of the letter. */
mf_layout_dim mf_mesh_letter_of(mf_layout_dim cut, mf_split_dim dim);
/* It is a variable's handle. */
bool mf_mesh_is_variable(const mf_node *n);
/* Its name in the store. */
const char *mf_mesh_variable_name(const mf_node *n);

#endif
