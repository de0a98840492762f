/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - building, reading and writing dataflow graphs.
 *
 * A graph only grows. Errors while building are sticky: the graph keeps the first failure, later
 * calls return an empty output and do nothing, and mf_graph_status() reports the failure once at
 * the end. A model therefore reads like algebra:
 *
 *     mf_output y = mf_apply(g, "Relu", MF_IN(mf_apply(g, "MatMul", MF_IN(x, w))));
 *
 * Ops, attributes and semantics are TensorFlow's. Attributes for types and counts are inferred from
 * the inputs. Thread: one at a time per graph. */
#ifndef MESHFLOW_GRAPH_H
#define MESHFLOW_GRAPH_H

#include <meshflow/tensor.h>

#include <stdbool.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

typedef struct mf_graph mf_graph;
typedef struct mf_node mf_node;

/* One output of a node. node == NULL: empty (a failed call, or no gradient). */
typedef struct mf_output {
    mf_node *node;
    int port;
} mf_output;

/* The inputs of a call: an array terminated by MF_END. It is valid only during that call. C++:
 * since C++11. */
#define MF_END                                                                                     \
    {                                                                                              \
        NULL, -1                                                                                   \
    }
#ifdef __cplusplus
#define MF_IN(...) (std::initializer_list<mf_output>{ __VA_ARGS__, MF_END }.begin())
#else
#define MF_IN(...)                                                                                 \
    (const mf_output[])                                                                            \
    {                                                                                              \
        __VA_ARGS__, MF_END                                                                        \
    }
#endif
#define MF_NO_IN NULL

MF_API MF_MUST mf_status mf_graph_new(mf_graph **out);
MF_API void mf_graph_free(mf_graph *graph);

/* The first failure of building this graph, with its message in the thread's error record; else
 * MF_OK. */
MF_API MF_MUST mf_status mf_graph_status(const mf_graph *graph);

/* Add a node with these inputs (MF_IN(...), terminated by MF_END; NULL: none). Returns its first
 * output; port k is (mf_output){r.node, k}. */
MF_API mf_output mf_apply(mf_graph *graph, const char *op, const mf_output *inputs);

/* The same with attributes, as printf-like text: "strides=[1,2,2,1] padding='SAME' T=float". Other
 * attributes have their default or are inferred from the inputs. The special attributes name='...'
 * and device='...' set the node's name and device. */
MF_API mf_output mf_applyf(mf_graph *graph, const char *op, const mf_output *inputs,
                           const char *attributes, ...) __attribute__((format(printf, 4, 5)));

/* A constant holding `value` (shared, not copied). name may be NULL. */
MF_API mf_output mf_constant(mf_graph *graph, const mf_tensor *value, const char *name);
/* Scalar constants. Fails (sticky): INVALID_ARGUMENT (an integer type that cannot hold the value).
 */
MF_API mf_output mf_scalar(mf_graph *graph, mf_dtype dtype, double value);
/* A 1-D int32 constant. Fails (sticky): INVALID_ARGUMENT (an element does not fit). */
MF_API mf_output mf_ints(mf_graph *graph, const int64_t *values, int64_t n);
/* `after` runs before `node`. */
MF_API void mf_control(mf_graph *graph, mf_node *node, mf_node *after);

/* All following names get the prefix "scope/"; "" ends the scope. */
MF_API void mf_graph_scope(mf_graph *graph, const char *scope);

/* Define a function in the graph's library: the subgraph between these inputs (any outputs, usually
 * Placeholders) and outputs. The name can be applied like an op or be the value of an attribute;
 * loops and branches are built this way:
 *
 *     mf_define(g, "step", MF_IN(i, x), MF_IN(i_next, x_next));
 *     mf_applyf(g, "While", MF_IN(zero, y), "cond=@less body=@step");
 *     mf_applyf(g, "If", MF_IN(p, y), "then_branch=@f else_branch=@h Tout=[float]");
 *
 * The nodes also stay in the graph, where they never run. Fails (sticky): INVALID_ARGUMENT (the
 * name is taken; the subgraph contains a Placeholder that is not among the inputs). */
MF_API void mf_define(mf_graph *graph, const char *name, const mf_output *inputs,
                      const mf_output *outputs);

/* Returns NULL if there is no such node. */
MF_API mf_node *mf_graph_find(const mf_graph *graph, const char *name);
MF_API const char *mf_node_name(const mf_node *node);

/* Add d(sum of ys)/dx for each x to the graph. dys: incoming gradients of ys; NULL, or an empty
 * output among them, means ones. dxs[i].node is NULL if ys do not depend on xs[i]. Function calls,
 * branches and loops on the path get additional outputs, for values that their gradients need.
 * Fails: UNIMPLEMENTED naming an op on the path that has no gradient. */
MF_API MF_MUST mf_status mf_gradients(mf_graph *graph, const mf_output *ys, int n_ys,
                                      const mf_output *xs, int n_xs, const mf_output *dys,
                                      mf_output *dxs);

/* Placement of variables when a graph runs on servers: tf.compat.v1.train.replica_device_setter. */
typedef struct mf_replica_devices {
    int ps_tasks; /* number of parameter servers; 0: variables stay on the worker */
    const char *ps_device; /* NULL: "/job:ps" */
    const char *worker_device; /* for nodes that are not variables; NULL: "/job:worker" */
    bool by_bytes; /* assign each variable to the server with the fewest bytes; default:
                      round-robin */
    bool keep; /* nodes with a device keep it unchanged; default: merge both, and the node's own
                  device wins where both have a part */
} mf_replica_devices;

/* Set the devices of all nodes of the graph. A node colocated with another one ("loc:@NAME" in
 * _class) gets its device. Fails: INVALID_ARGUMENT (an invalid device name; by_bytes: a variable of
 * unknown shape). */
MF_API MF_MUST mf_status mf_graph_set_devices(mf_graph *graph, const mf_replica_devices *devices);

/* Add the nodes of a serialised GraphDef. Unknown fields are preserved.
 * Fails: INVALID_ARGUMENT (malformed, cycle, duplicate or missing name), NOT_FOUND (op). */
MF_API MF_MUST mf_status mf_graph_decode(mf_graph *graph, const void *data, size_t len);
/* Owns: the caller frees *data with mf_bytes_free(). */
MF_API MF_MUST mf_status mf_graph_encode(const mf_graph *graph, char **data, size_t *len);
/* Read or write a file: text (.pbtxt) or binary (any other name). */
MF_API MF_MUST mf_status mf_graph_load(mf_graph *graph, const char *path);
MF_API MF_MUST mf_status mf_graph_save(const mf_graph *graph, const char *path);
MF_API void mf_bytes_free(char *data);

#ifdef __cplusplus
}
#endif
#endif
