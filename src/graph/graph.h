/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - nodes and edges inside the library. The public view is <meshflow/graph.h>.
 *
 * Everything of a graph lives in its arena and ends with it. Node pointers are stable. The same
 * structure serves the user's graph, function bodies and the working copy that passes rewrite. */
#ifndef MF_GRAPH_GRAPH_H
#define MF_GRAPH_GRAPH_H

#include "base/map.h"
#include "graph/attr.h"
#include "graph/opdef.h"

#include <meshflow/graph.h>

typedef struct mf_op mf_op;
typedef struct mf_function mf_function;

struct mf_node {
    int id; /* index in graph->nodes */
    const char *name;
    const char *op_name;
    const char *device; /* "" when unset */
    const mf_op *op; /* NULL: a call of `function` */
    mf_function *function;
    const mf_opdef *def;
    mf_output *inputs;
    mf_node **controls; /* run before this node */
    mf_named_attr *attrs; /* sorted by name; defaults filled in */
    mf_dtype *in_types, *out_types; /* reference edges have MF_DTYPE_REF added */
    int n_inputs, n_controls, n_attrs, n_outputs;
    mf_node **grown; /* controls, as long as nobody else has set them: there is room for more, */
    int cap_grown; /* so many in all */
    mf_bytes unknown; /* wire bytes of fields we do not know, written out again */
    bool removed; /* by a pass; skipped everywhere */
    bool any_shape; /* a variable that a node of the whole graph may give another shape */
};

struct mf_function {
    const char *name;
    const mf_opdef *def;
    const void *proto; /* Tensorflow__FunctionDef in the graph's arena */
    mf_bytes bytes; /* as received, written out again */
};

typedef struct mf_graph_tensor {
    mf_tensor tensor;
    struct mf_graph_tensor *next;
} mf_graph_tensor;

/* What nodes are marked with while they are added: where in a model they belong. */
typedef struct mf_node_mark {
    int64_t layer; /* attribute _layer: the layer's number, from 1; 0: none, no attribute */
    bool gradient; /* attribute _gradient: made by mf_gradients(), for nodes of that layer */
    int64_t turn; /* attribute _turn: of which micro-batch, from 1; 0: none, no attribute */
} mf_node_mark;

struct mf_graph {
    mf_arena *arena;
    mf_node **nodes;
    int64_t n_nodes, cap_nodes;
    mf_map names; /* name -> mf_node */
    mf_map functions; /* name -> mf_function; empty in a function's body, see library */
    mf_map unique; /* base name -> int64_t counter, for new names */
    mf_graph_tensor *tensors;
    const char *scope; /* "" or "a/b/" */
    mf_node_mark mark; /* of new nodes; set and put back by whoever builds a layer's */
    mf_map gradients; /* name of a function -> name of the function that is its gradient */
    mf_bytes unknown; /* GraphDef's unknown fields */
    int32_t producer, min_consumer;
    mf_error *failed; /* first failure of building, or NULL */
    mf_graph *library; /* whose functions these nodes call: itself; of a body: its root's */
    const mf_function *body_of; /* of a function's body: the function, */
    const mf_graph *outer; /* and the graph that calls it */
    int64_t differentiated; /* nodes of bodies that the gradients being built went through */
};

/* ---- nodes ---- */

/* Everything about a node to be. Attributes absent here take their defaults or follow from inputs.
 * inputs == NULL with n_inputs > 0: they come later, by mf_node_set_inputs(). */
typedef struct mf_node_spec {
    const char *name; /* NULL: made from op_name */
    const char *op;
    const char *device; /* NULL: "" */
    const mf_output *inputs;
    int n_inputs;
    mf_node *const *controls;
    int n_controls;
    const mf_named_attr *attrs; /* any order; copied */
    int n_attrs;
    mf_bytes unknown;
} mf_node_spec;

/* Fails: NOT_FOUND (op), ALREADY_EXISTS (name), INVALID_ARGUMENT (attribute, type, count). */
MF_MUST mf_status mf_graph_add(mf_graph *graph, const mf_node_spec *spec, mf_node **out);
/* A name not in use, made from `base`. In the graph's arena; NULL when memory is gone. */
const char *mf_graph_unique_name(mf_graph *graph, const char *base);
/* Keep a reference to tensor storage until the graph ends; returns the kept header or NULL. */
mf_tensor *mf_graph_own_tensor(mf_graph *graph, const mf_tensor *tensor);

/* The inputs of `node` are checked against its signature; types and counts are worked out. Used
 * when inputs are known only later (decoding). */
MF_MUST mf_status mf_node_set_inputs(mf_graph *graph, mf_node *node, const mf_output *inputs,
                                     int n_inputs, mf_node *const *controls, int n_controls);

/* `node` becomes what `spec` says, under its old name and id: what refers to its outputs still
 * does, so those it had must keep their types. Fails as mf_graph_add(), leaving the node as it was.
 */
MF_MUST mf_status mf_node_become(mf_graph *graph, mf_node *node, const mf_node_spec *spec);

/* ---- attributes of a verified node: present and of the right kind, zero otherwise ---- */

const mf_attr *mf_node_attr(const mf_node *node, const char *name); /* NULL when absent */
/* NULL, too, when it is no list of this kind: an attribute that the op's signature does not have
 * ("_class") comes as the sender likes. An empty list is of every kind. */
const mf_attr *mf_node_list(const mf_node *node, const char *name, mf_attr_kind kind);
int64_t mf_node_int(const mf_node *node, const char *name);
float mf_node_float(const mf_node *node, const char *name);
bool mf_node_bool(const mf_node *node, const char *name);
mf_dtype mf_node_type(const mf_node *node, const char *name);
const char *mf_node_string(const mf_node *node, const char *name); /* "" when absent */
const mf_shape *mf_node_shape(const mf_node *node, const char *name); /* unknown when absent */
/* Int list; *n = 0 when absent. */
const int64_t *mf_node_ints(const mf_node *node, const char *name, int64_t *n);
/* Replace or add. The value's memory must be in the graph's arena. */
MF_MUST mf_status mf_node_set_attr(mf_graph *graph, mf_node *node, const char *name,
                                   const mf_attr *value);

enum { MF_MARK_MAX = 65536 }; /* a file can say anything */
static inline int64_t mf_node_mark_of(const mf_node *node, const char *name)
{
    const int64_t n = mf_node_int(node, name);

    return n > 0 && n <= MF_MARK_MAX ? n : 0;
}
/* The number of the model's layer that a node belongs to, see mf_node_mark; 0: none. */
static inline int64_t mf_node_layer(const mf_node *node)
{
    return mf_node_mark_of(node, "_layer");
}
static inline bool mf_node_is_gradient(const mf_node *node)
{
    return mf_node_bool(node, "_gradient");
}

static inline int64_t mf_node_turn(const mf_node *node)
{
    return mf_node_mark_of(node, "_turn");
}
/* Of gradients of a micro-batch: they are for weights alone, no other layer waits for them
 * (spmd/pipeline/pipeline_schedule.c). */
static inline bool mf_node_is_late(const mf_node *node)
{
    return mf_node_bool(node, "_late");
}

/* First of the inputs / outputs that belong to the signature's argument `arg`, and how many. */
void mf_node_arg_range(const mf_node *node, bool output, int arg, int *first, int *count);

/* ---- whole graphs ---- */

/* The function of this name that nodes of the graph can call; NULL: none. */
mf_function *mf_graph_function(const mf_graph *graph, const char *name);
/* Add one serialised FunctionDef to the graph's library; a second one of the same name must have
 * the same bytes. */
MF_MUST mf_status mf_graph_add_function(mf_graph *graph, const void *data, size_t len);

/* Nodes in an order where inputs come first; edges into Merge from NextIteration are left out.
 * `order` has room for n_nodes. INVALID_ARGUMENT naming a node on a cycle. */
MF_MUST mf_status mf_graph_order(const mf_graph *graph, mf_node **order, int64_t *n);
/* The names of nodes that no other node needs, in the arena. */
MF_MUST mf_status mf_graph_ends(const mf_graph *graph, mf_arena *arena, const char ***names,
                                int *n);
/* All that must hold between nodes: references exist, types agree, no cycles. */
MF_MUST mf_status mf_graph_verify(const mf_graph *graph);
/* The variable that this node may give another shape than the declared one, or NULL. */
mf_node *mf_node_reshapes(const mf_node *node);
/* A copy with its own arena, where variables that a node of src reshapes are marked; unneeded nodes
 * may be left out by `keep` (indexed by id; NULL: all).
 */
MF_MUST mf_status mf_graph_copy(const mf_graph *src, const bool *keep, mf_graph **out);
/* Add to `dst` the nodes and functions of `src` whose names it lacks, connected as in src. Calls
 * that have got more outputs in src, when gradients went through them, get them in dst too.
 * INVALID_ARGUMENT when a function of the same name differs. */
MF_MUST mf_status mf_graph_merge(mf_graph *dst, const mf_graph *src);
/* Record the thread's error as the graph's sticky one. graph may be NULL. */
void mf_graph_fail(mf_graph *graph, mf_status status);
/* The same where status is a failure. True: it is, or the graph had failed before. */
bool mf_graph_refuses(mf_graph *graph, mf_status status);
/* Is this a node of that graph? */
bool mf_graph_has(const mf_graph *graph, const mf_node *node);
/* INVALID_ARGUMENT unless this is an output of a node of the graph: as input i of `what`. */
MF_MUST mf_status mf_graph_owns(const mf_graph *graph, mf_output output, const char *what, int i);
/* The same for n of them. */
MF_MUST mf_status mf_graph_owns_all(const mf_graph *graph, const mf_output *outputs, int n,
                                    const char *what);

/* Text for people, stable and diffable; and Graphviz. */
void mf_graph_print(const mf_graph *graph, mf_buf *out);
void mf_graph_dot(const mf_graph *graph, mf_buf *out);

static inline bool mf_type_is_ref(mf_dtype t)
{
    return (int)t > MF_DTYPE_REF;
}
static inline mf_dtype mf_type_base(mf_dtype t)
{
    return (int)t > MF_DTYPE_REF ? (mf_dtype)((int)t - MF_DTYPE_REF) : t;
}

#endif
