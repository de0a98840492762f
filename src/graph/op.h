/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - the op interface: everything that the system requires of an op, and everything that an op
 * may access.
 *
 * An op is one mf_op, in one file below ops/, found by a generator. It defines its signature
 * (TensorFlow's), infers shapes, builds its gradient from other ops, computes, and provides samples
 * for its tests. Kernels access memory, state, waiting and files only through the declarations in
 * this file. */
#ifndef MF_GRAPH_OP_H
#define MF_GRAPH_OP_H

#include "base/cancel.h"
#include "base/instruction_set.h"
#include "base/pool.h"
#include "base/stop.h"
#include "graph/graph.h"
#include "graph/resource.h"

/* ---- shape inference ---- */

typedef struct mf_infer {
    const mf_node *node;
    int n_in, n_out;
    const mf_shape *in; /* known shapes of the inputs */
    const mf_tensor *const *in_value; /* the input's value if it is known and small, else NULL */
    mf_shape *out; /* to be set; of unknown rank on entry */
    mf_tensor *out_value; /* one per output; set with mf_infer_value() where possible */
} mf_infer;

/* Common infer functions. */
MF_MUST mf_status mf_infer_unknown(mf_infer *in); /* all outputs unknown */
MF_MUST mf_status mf_infer_same(mf_infer *in); /* every output like input 0 */
MF_MUST mf_status mf_infer_scalar(mf_infer *in); /* every output a scalar */
MF_MUST mf_status mf_infer_none(mf_infer *in); /* no outputs */
MF_MUST mf_status mf_infer_broadcast(mf_infer *in); /* output 0: inputs 0 and 1 broadcast */
/* Helpers. Ranks and dimensions that are unknown pass every check. */
MF_MUST mf_status mf_infer_rank(const mf_infer *in, int input, int rank);
MF_MUST mf_status mf_infer_rank_at_least(const mf_infer *in, int input, int rank);
/* Input i interpreted as a shape: its value if known, else the rank from its length; elements of -1
 * are unknown. */
MF_MUST mf_status mf_infer_shape_input(const mf_infer *in, int input, mf_shape *out);
/* Is input i a known integer scalar? */
bool mf_infer_int_input(const mf_infer *in, int input, int64_t *out);
/* Declare the value of output i (a reference is taken). */
void mf_infer_value(mf_infer *in, int output, const mf_tensor *value);

/* ---- gradients ---- */

/* dy[i].node is NULL if there is no gradient for output i; at least one exists. dx[i] stays empty
 * if there is no gradient for input i. Graph-building errors are sticky, so a gradient function
 * needs no checks. */
typedef struct mf_grad {
    mf_graph *graph;
    mf_node *node;
    const mf_output *x, *y, *dy; /* inputs, outputs, gradients of the outputs */
    mf_output *dx; /* to be set, one per input */
    const bool *wants; /* per input: dx[i] is wanted; other elements may be set too */
    int n_in, n_out;
} mf_grad;

typedef mf_status mf_grad_fn(mf_grad *g);
/* Gradients stop at this op (integers, indices, shapes, state). */
MF_MUST mf_status mf_grad_none(mf_grad *g);
/* TensorFlow has no gradient for this op either: fails with UNIMPLEMENTED. */
MF_MUST mf_status mf_grad_missing(mf_grad *g);

/* ---- kernels ---- */

typedef struct mf_step mf_step;
typedef struct mf_kernel mf_kernel;
typedef struct mf_kernel_def mf_kernel_def;

/* The parts of a step that a kernel may access. */
struct mf_step {
    mf_pool *pool;
    mf_resources *resources; /* by container and name; outlives steps and sessions */
    mf_resources *local; /* of this step: stacks, tensor arrays */
    mf_cancel *cancel; /* waiting ops register their hooks here */
    struct mf_exchange *exchange; /* with other workers, see step_exchange.h; NULL: none */
    struct mf_rendezvous *rendezvous; /* with other tasks, see rendezvous.h; NULL: none */
    struct mf_mesh_link *mesh; /* to other devices, see spmd_op.h; NULL: none */
    int64_t id;
    int depth; /* nesting depth of kernels that run functions */
    int64_t deadline_ns; /* mf_clock_ns() time, or 0 */
    const char *const *allow_dirs; /* see step_file.h */
    int n_allow_dirs;
};

/* Passed once per compiled node, before it runs. Steps overlap: the prepared state is shared by
 * concurrent runs, so run() must not change it (or must lock). */
typedef struct mf_prepare {
    const mf_node *node;
    const mf_graph *graph; /* the graph of the node; contains the functions it refers to */
    mf_arena *arena; /* valid as long as the compiled node */
    const mf_shape *in; /* shapes, possibly unknown */
    mf_resources *session; /* state kept from step to step, by node name */
    void *state; /* out: becomes k->state */
} mf_prepare;

/* The epilogue of an op with MF_OP_THEN: called with each range of elements of output 0 as soon as
 * they are final, once per element, from any thread. */
typedef struct mf_epilogue {
    void (*run)(const struct mf_epilogue *then, int64_t from, int64_t to);
} mf_epilogue;

struct mf_kernel {
    const mf_node *node; /* reading attributes is slow: do it in prepare */
    const mf_kernel_def *def; /* the record that runs */
    void *state;
    mf_step *step;
    const mf_tensor *const
        *in; /* plain inputs hold values; resource and reference inputs a handle */
    mf_tensor *const *out;
    int n_in, n_out;
    uint64_t reuse; /* bit i: this is the last use of input i, whose storage may become an
                       output's */
    const mf_epilogue *then; /* NULL: none */
    void *owner; /* for the executor */
    /* For a kernel started by another kernel: called instead of notifying the executor. */
    void (*done)(mf_kernel *k, mf_status status);
    /* Outside plans only: */
    bool dead; /* with MF_OP_SEES_DEAD: an input is dead and has no value */
    uint64_t frame; /* the loop and its iteration, as numbered across tasks; 0, 0: none */
    int64_t iteration;
};

/* Allocate output i. With MF_OP_INPLACE the block of an input without other readers may be reused:
 * output and input data are then the same pointer. Contents are undefined. */
MF_MUST mf_status mf_kernel_alloc(mf_kernel *k, int i, const mf_shape *shape, mf_tensor **t);
static inline mf_status mf_kernel_out(mf_kernel *k, int i, const mf_shape *shape, mf_tensor **t)
{
    mf_tensor *o = k->out[i];

    if (o->data && mf_shape_equal(&o->shape, shape)) { /* already placed by a plan */
        *t = o;
        return MF_OK;
    }
    return mf_kernel_alloc(k, i, shape, t);
}
/* Output i shares the storage of input j under another shape (same number of elements). For
 * MF_OP_VIEW. */
static inline void mf_kernel_view(mf_kernel *k, int i, int j, const mf_shape *shape)
{
    mf_tensor_reshape(k->out[i], k->in[j], shape);
}
/* Output i is `t` (a reference is taken). Not within a plan: ops that use it leave shapes unknown
 * or are MF_OP_HEAP. */
void mf_kernel_set(mf_kernel *k, int i, const mf_tensor *t);

/* Asynchronous kernels: call exactly once per start(), from any thread. The error message is that
 * of the calling thread. */
void mf_kernel_done(mf_kernel *k, mf_status status);
/* The same, with dead outputs. */
void mf_kernel_done_dead(mf_kernel *k);

/* The object in input i (resource or reference). Fails: INVALID_ARGUMENT (it is of another type).
 */
MF_MUST mf_status mf_kernel_object(const mf_kernel *k, int i, const mf_object_type *type,
                                   mf_object **out);
MF_MUST mf_status mf_kernel_variable(const mf_kernel *k, int i, mf_variable **out);
/* Output i becomes a scalar handle to the object (a reference is taken). */
MF_MUST mf_status mf_kernel_set_object(mf_kernel *k, int i, mf_object *object);

/* fn(ctx, piece) for each piece, by the pool's threads. Fails if the step has ended meanwhile; a
 * long piece must check for that itself (base/stop.h). */
MF_MUST static inline mf_status mf_kernel_parallel(const mf_kernel *k, int64_t pieces,
                                                   void (*fn)(void *ctx, int64_t piece), void *ctx)
{
    return mf_pool_parallel(k->step->pool, pieces, fn, ctx);
}
/* The same without interruption: for kernels that write variables. */
static inline void mf_kernel_complete(const mf_kernel *k, int64_t pieces,
                                      void (*fn)(void *ctx, int64_t piece), void *ctx)
{
    mf_pool_complete(k->step->pool, pieces, fn, ctx);
}

/* ---- elementwise loops: shared by the op's kernel and by fusion ---- */

typedef struct mf_span {
    const void *in[3];
    bool scalar[3]; /* in[j] is one element used for all */
    void *out;
    int64_t n;
    double param; /* one attribute as a number (LeakyRelu's alpha) */
} mf_span;

typedef void mf_span_fn(const mf_span *s);

/* The loop of an elementwise op. out may equal an input that is not scalar. */
typedef struct mf_loop {
    int arity;
    mf_span_fn *fn[MF_DTYPE_COUNT]; /* by the type of the last input; NULL: unsupported */
    const char *param; /* the attribute for mf_span.param, or NULL */
} mf_loop;

/* ---- kernel records ---- */

struct mf_rows_query;

enum mf_op_flag {
    MF_OP_INPLACE = 1 << 0, /* outputs may overwrite inputs of the same size */
    MF_OP_VIEW = 1 << 1, /* output 0 is input 0's storage */
    MF_OP_HEAP = 1 << 2, /* outputs have their own storage (variables): never placed by a plan */
    MF_OP_UNPLANNED =
        1 << 3, /* never inside a plan. Required for every op that keeps a reference to an input
                   tensor (queues, stacks): memory of a plan is reused after the step */
    MF_OP_SEES_DEAD = 1 << 4, /* also runs with dead inputs (Merge etc.; see mf_kernel.dead) */
    MF_OP_THEN =
        1 << 5, /* calls mf_kernel.then (float and double only); there is an op "_<Name>Then"
                   with the same inputs, its attributes and those of MF_EPILOGUE_ATTRS */
    MF_OP_JOINT = 1 << 6, /* waits, but never for outputs of another such op: consumers of several
                             of
                             them may wait for all of them together */
    MF_OP_TAKES_REFS = 1 << 7, /* its plain inputs receive the handles of references, not the
                                  values */
};

/* How an op is computed on one device and instruction set. */
#define MF_KERNEL_FIELDS                                                                           \
    unsigned flags; /* mf_op_flag */                                                               \
    mf_status (*prepare)(mf_prepare * p); /* optional */                                           \
    void (*release)(void *state); /* optional: frees what is not in the arena */                   \
    mf_status (*run)(mf_kernel * k); /* computes and returns */                                    \
    void (*start)(mf_kernel * k); /* instead of run, for ops that wait */                          \
    const mf_loop *loop; /* elementwise ops */                                                     \
    uint64_t host_in; /* bit i: input i must be in host memory; for records of other devices */    \
    /* Does it compute each row of a batch independently of the others, with the same bits for any \
       number of rows? See rows.h; NULL: no. */                                                    \
    bool (*rows)(const struct mf_rows_query *q);

struct mf_kernel_def {
    MF_KERNEL_FIELDS
};

/* ---- the op ---- */

struct mf_split;

/* Ops that the executor implements. */
typedef enum mf_control_op {
    MF_CONTROL_NONE,
    MF_CONTROL_SWITCH, /* Switch and RefSwitch; output 1 if the predicate holds, else 0 */
    MF_CONTROL_MERGE,
    MF_CONTROL_ENTER,
    MF_CONTROL_EXIT,
    MF_CONTROL_NEXT,
    MF_CONTROL_TRIGGER, /* ControlTrigger: alive even if its inputs are dead */
    MF_CONTROL_ARG, /* _Arg, _Retval of function bodies: removed by inlining */
    MF_CONTROL_CALL, /* PartitionedCall, If, While, Case: removed by inlining */
} mf_control_op;

/* The record of the host's baseline instruction set is a part of the op; its fields are initialized
 * and named like those of the op. All other code reads the record of the node: mf_node_kernel(). */
struct mf_op {
    const char *name; /* TensorFlow's name: the identity on the wire and in files */
    const char *def; /* signature, see opdef.h; parsed on first use */
    union {
        mf_kernel_def kernel;
        struct {
            MF_KERNEL_FIELDS
        };
    };
    mf_control_op control;
    mf_status (*infer)(mf_infer *in);
    mf_grad_fn *grad;
    void (*split)(struct mf_split *s); /* how it can be sharded, see split.h; NULL: not at all */
    /* Inputs and attributes for tests, NULL-terminated; see tests/ops/sample.h for the syntax. */
    const char *const *samples;
};

#define MF_SAMPLES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* One line with everything that determines the bits of results: processes of one class compute
 * equal results. bf16: of work whose matrix products take bfloat16, for which some instruction sets
 * round differently. */
const char *mf_numerics_class_of(mf_isa isa, bool bf16);
/* The class of this process. */
const char *mf_numerics_class(bool bf16);

/* ---- kernels of ops ---- */

/* The ops of the sources that were compiled for another instruction set; the op table lists these
 * sets (tools/gen_op_table.sh). */
typedef struct mf_isa_ops {
    mf_isa isa;
    const mf_op *const *singles; /* ends with NULL */
    const mf_op *const *families; /* the first entries of arrays that end with .name == NULL */
} mf_isa_ops;

/* The record of an op for the instruction set in use: that of the highest set, up to this one, that
 * has the op. This makes the choice of the set final. */
const mf_kernel_def *mf_kernel_of(const mf_op *op);
/* The same for the op of a node; NULL: a call of a function. */
static inline const mf_kernel_def *mf_node_kernel(const mf_node *n)
{
    return n->kernels ? n->kernels[mf_isa_chosen()] : n->op ? &n->op->kernel : NULL;
}

/* ---- registry ---- */

/* NULL when there is no such op. */
const mf_op *mf_op_find(const char *name);
/* Its records, by instruction set; NULL: it is not in the registry. */
const mf_kernel_def *const *mf_op_kernels(const mf_op *op);
/* The parsed signature. Fails only if `def` is invalid, which a test excludes. */
MF_MUST mf_status mf_op_def(const mf_op *op, const mf_opdef **out);
/* All ops ordered by name; *n is their number. */
const mf_op *const *mf_op_all(int *n);

#endif
