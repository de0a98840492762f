/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - internal nodes and edges. The public interface is <meshflow/graph.h>.
 *
 * All memory of a graph is in its arena. Node pointers are stable. The same structure represents
 * the user's graph, function bodies, and the working copy that passes rewrite. */
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
    const struct mf_kernel_def *const *kernels; /* its records, see mf_node_kernel() */
    mf_function *function;
    const mf_opdef *def;
    mf_output *inputs;
    mf_node **controls; /* run before this node */
    mf_named_attr *attrs; /* sorted by name; defaults filled in */
    mf_dtype *in_types, *out_types; /* reference edges have MF_DTYPE_REF added */
    int n_inputs, n_controls, n_attrs, n_outputs;
    mf_node **grown; /* owned array of controls with spare capacity, until other code replaces
                        controls; */
    int cap_grown; /* its capacity */
    mf_bytes unknown; /* wire bytes of unknown fields, preserved */
    bool removed; /* by a pass; ignored everywhere */
    bool any_shape; /* variable: a node of the graph may change its shape */
};

struct mf_function {
    const char *name;
    const mf_opdef *def;
    const void *proto; /* Tensorflow__FunctionDef in the graph's arena */
    mf_bytes bytes; /* as received, preserved */
};

typedef struct mf_graph_tensor {
    mf_tensor tensor;
    struct mf_graph_tensor *next;
} mf_graph_tensor;

/* Marks of newly added nodes: their place in a model. */
typedef struct mf_node_mark {
    int64_t layer; /* attribute _layer: the layer's number, from 1; 0: none */
    bool gradient; /* attribute _gradient: built by mf_gradients() for nodes of that layer */
    int64_t micro_batch; /* attribute _micro_batch: the micro-batch, from 1; 0: none */
} mf_node_mark;

struct mf_graph {
    mf_arena *arena;
    mf_node **nodes;
    int64_t n_nodes, cap_nodes;
    mf_map names; /* name -> mf_node */
    mf_map functions; /* name -> mf_function; empty for a function body, see library */
    mf_map unique; /* base name -> int64_t counter, for unique names */
    mf_graph_tensor *tensors;
    const char *scope; /* "" or "a/b/" */
    mf_node_mark mark; /* for new nodes; set and restored by code that builds a layer */
    mf_map gradients; /* name of a function -> name of its gradient function */
    mf_bytes unknown; /* GraphDef's unknown fields */
    int32_t producer, min_consumer;
    mf_error *failed; /* first failure while building, or NULL */
    mf_graph *library; /* the graph whose functions the nodes call: this one, or the root of a
                          body */
    const mf_function *body_of; /* for a function body: the function, */
    const mf_graph *outer; /* and the calling graph */
    int64_t differentiated; /* number of nodes of bodies differentiated so far */
};

/* ---- nodes ---- */

/* Description of a new node. Missing attributes have their defaults or are inferred from inputs.
 * inputs == NULL with n_inputs > 0: set later with mf_node_set_inputs(). */
typedef struct mf_node_spec {
    const char *name; /* NULL: derived from op_name */
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
/* A unique name derived from `base`. In the graph's arena; NULL when memory is exhausted. */
const char *mf_graph_unique_name(mf_graph *graph, const char *base);
/* Hold a reference to tensor storage as long as the graph exists; returns the stored header or
 * NULL. */
mf_tensor *mf_graph_own_tensor(mf_graph *graph, const mf_tensor *tensor);

/* Check the inputs of `node` against its signature and infer types and counts. For inputs that are
 * set after the node is added (decoding). */
MF_MUST mf_status mf_node_set_inputs(mf_graph *graph, mf_node *node, const mf_output *inputs,
                                     int n_inputs, mf_node *const *controls, int n_controls);

/* Replace `node` by `spec`, keeping its name and id. References to its outputs stay valid, so the
 * existing outputs must keep their types. Fails as mf_graph_add(), leaving the node unchanged. */
MF_MUST mf_status mf_node_become(mf_graph *graph, mf_node *node, const mf_node_spec *spec);

/* ---- attributes of a verified node: of the declared kind; zero if absent ---- */

const mf_attr *mf_node_attr(const mf_node *node, const char *name); /* NULL when absent */
/* Also NULL if it is not a list of this kind: an attribute outside the op's signature ("_class")
 * has any kind the sender chooses. An empty list is of every kind. */
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

enum { MF_MARK_MAX = 65536 }; /* a file may contain any value */
static inline int64_t mf_node_mark_of(const mf_node *node, const char *name)
{
    const int64_t n = mf_node_int(node, name);

    return n > 0 && n <= MF_MARK_MAX ? n : 0;
}
/* The number of the model layer of a node, see mf_node_mark; 0: none. */
static inline int64_t mf_node_layer(const mf_node *node)
{
    return mf_node_mark_of(node, "_layer");
}
static inline bool mf_node_is_gradient(const mf_node *node)
{
    return mf_node_bool(node, "_gradient");
}

static inline int64_t mf_node_micro_batch(const mf_node *node)
{
    return mf_node_mark_of(node, "_micro_batch");
}
/* Is it a gradient of a micro-batch that only weights use, so that no other layer waits for it
 * (spmd/pipeline/pipeline_schedule.c)? */
static inline bool mf_node_is_late(const mf_node *node)
{
    return mf_node_bool(node, "_late");
}

/* First index and number of the inputs / outputs of the signature's argument `arg`. */
void mf_node_arg_range(const mf_node *node, bool output, int arg, int *first, int *count);

/* ---- complete graphs ---- */

/* The function of this name that nodes of the graph can call; NULL: none. */
mf_function *mf_graph_function(const mf_graph *graph, const char *name);
/* Add one serialised FunctionDef to the graph's library. A duplicate name is allowed only with
 * equal bytes. */
MF_MUST mf_status mf_graph_add_function(mf_graph *graph, const void *data, size_t len);

/* Nodes in topological order, ignoring edges into Merge from NextIteration. `order` has room for
 * n_nodes. Fails: INVALID_ARGUMENT naming a node on a cycle. */
MF_MUST mf_status mf_graph_order(const mf_graph *graph, mf_node **order, int64_t *n);
/* Names of nodes without consumers, in the arena. */
MF_MUST mf_status mf_graph_ends(const mf_graph *graph, mf_arena *arena, const char ***names,
                                int *n);
/* Check the invariants between nodes: references exist, types agree, no cycles. */
MF_MUST mf_status mf_graph_verify(const mf_graph *graph);
/* The variable whose shape this node may change, or NULL. */
mf_node *mf_node_reshapes(const mf_node *node);
/* A copy with its own arena, in which variables whose shape a node of src may change are marked.
 * `keep` selects nodes (indexed by id; NULL: all). */
MF_MUST mf_status mf_graph_copy(const mf_graph *src, const bool *keep, mf_graph **out);
/* Add to `dst` the nodes and functions of `src` whose names it does not have, connected as in src.
 * Calls with additional outputs in src, from gradients, get them in dst too. Fails:
 * INVALID_ARGUMENT (a function of the same name differs). */
MF_MUST mf_status mf_graph_merge(mf_graph *dst, const mf_graph *src);
/* Record the thread's error as the graph's sticky error. graph may be NULL. */
void mf_graph_fail(mf_graph *graph, mf_status status);
/* The same if status is a failure. True: it is one, or the graph had failed before. */
bool mf_graph_refuses(mf_graph *graph, mf_status status);
/* Does the node belong to the graph? */
bool mf_graph_has(const mf_graph *graph, const mf_node *node);
/* Fails with INVALID_ARGUMENT unless this is an output of a node of the graph; reported as input i
 * of `what`. */
MF_MUST mf_status mf_graph_owns(const mf_graph *graph, mf_output output, const char *what, int i);
/* The same for n outputs. */
MF_MUST mf_status mf_graph_owns_all(const mf_graph *graph, const mf_output *outputs, int n,
                                    const char *what);

/* Readable text, stable and diffable; and Graphviz. */
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
