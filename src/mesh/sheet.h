/* SPDX-License-Identifier: Apache-2.0 */
/* sheet.h - a graph as a mesh sees it: of every value its shape and the layout it should have, of
 * every node how it may be cut.
 *
 * Layouts begin at names (mf_name_dims) and variables, and spread from there: forwards, backwards,
 * until nothing changes. What a layout says is a wish: lower.c decides for each node what is best,
 * and moves what lies otherwise. Only variables lie where they lie. */
#ifndef MF_MESH_SHEET_H
#define MF_MESH_SHEET_H

#include "compile/compile.h"
#include "mesh/layout.h"

/* The attribute that mf_name_dims() leaves. */
#define MF_DIMS_ATTR "_dims"

typedef struct mf_mesh_value {
    mf_shape shape; /* of a variable's handle: of its value */
    mf_layout layout;
    uint32_t closed; /* bits of dimensions that stay as they are */
    bool fixed; /* a variable's handle: it cannot be moved */
    mf_axes stored; /* axes that cut it only where it is stored: nothing else follows from them */
} mf_mesh_value;

typedef struct mf_mesh_sheet {
    const mf_mesh *mesh;
    bool exact; /* contracted letters are not cut */
    mf_compile *c; /* its facts are known */
    mf_arena *arena;
    mf_node **order; /* inputs first */
    int64_t n;
    mf_mesh_value **values; /* by node's id and port */
    mf_split **splits; /* by node's id; NULL: whole */
} mf_mesh_sheet;

/* Owns: mf_mesh_sheet_deinit(). c->facts must be there. UNIMPLEMENTED: there is a loop. */
MF_MUST mf_status mf_mesh_sheet_init(mf_mesh_sheet *s, const mf_mesh *mesh, mf_compile *c);
void mf_mesh_sheet_deinit(mf_mesh_sheet *s);

static inline mf_mesh_value *mf_mesh_value_of(const mf_mesh_sheet *s, mf_output o)
{
    return &s->values[o.node->id][o.port];
}

/* The dimensions that `named` (a node of this or another graph) has names for are cut by the rules.
 * Fails: INVALID_ARGUMENT (other rank; two dimensions along one axis). */
MF_MUST mf_status mf_mesh_pin(mf_mesh_sheet *s, mf_output o, const mf_node *named,
                              const mf_layout_rules *rules);
/* It has this layout, and no other. */
void mf_mesh_fix(mf_mesh_sheet *s, mf_output o, const mf_layout *layout);
/* All nodes of the graph itself that have names. */
MF_MUST mf_status mf_mesh_pin_names(mf_mesh_sheet *s, const mf_layout_rules *rules);
/* From what is pinned to the rest. */
void mf_mesh_propagate(mf_mesh_sheet *s);

/* A letter's cut as a dimension has it; axes 0: it cannot. */
static inline mf_layout_dim mf_mesh_dim_of(mf_layout_dim letter, mf_split_dim dim)
{
    return letter.axes ? (mf_layout_dim){ letter.axes, letter.grain * dim.inside }
                       : (mf_layout_dim){ 0 };
}
/* And the other way; axes 0: it is not cut, or between indices of the letter. */
mf_layout_dim mf_mesh_letter_of(mf_layout_dim cut, mf_split_dim dim);
/* A variable's name in the store. */
const char *mf_mesh_variable_name(const mf_node *n);

#endif
