/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - the op interface: all that the system asks of an op, and all that an op may reach.
 *
 * An op is one mf_op, in one file under ops/, found by a generator. It says its signature
 * (TensorFlow's), infers shapes, builds its gradient out of other ops, computes, and brings samples
 * from which it is tested. Kernels reach memory, state, waiting and files only through what is
 * declared here. */
#ifndef MF_GRAPH_OP_H
#define MF_GRAPH_OP_H

#include "base/cancel.h"
#include "base/pool.h"
#include "base/stop.h"
#include "graph/graph.h"
#include "graph/resource.h"

/* ---- shape inference ---- */

typedef struct mf_infer {
    const mf_node *node;
    int n_in, n_out;
    const mf_shape *in; /* what is known of the inputs */
    const mf_tensor *const *in_value; /* NULL, or the input's value where it is known and small */
    mf_shape *out; /* to be filled; unknown rank on entry */
    mf_tensor *out_value; /* one per output; fill with mf_infer_value() where possible */
} mf_infer;

/* Ready-made infer functions. */
MF_MUST mf_status mf_infer_unknown(mf_infer *in); /* nothing is known */
MF_MUST mf_status mf_infer_same(mf_infer *in); /* every output like input 0 */
MF_MUST mf_status mf_infer_scalar(mf_infer *in); /* every output a scalar */
MF_MUST mf_status mf_infer_none(mf_infer *in); /* no outputs */
MF_MUST mf_status mf_infer_broadcast(mf_infer *in); /* output 0: inputs 0 and 1 broadcast */
/* Helpers. Ranks and dimensions that are unknown pass every check. */
MF_MUST mf_status mf_infer_rank(const mf_infer *in, int input, int rank);
MF_MUST mf_status mf_infer_rank_at_least(const mf_infer *in, int input, int rank);
/* Input i read as a shape: its value if known, else rank from its length; -1 elements are unknown.
 */
MF_MUST mf_status mf_infer_shape_input(const mf_infer *in, int input, mf_shape *out);
/* Input i is a known integer scalar. */
bool mf_infer_int_input(const mf_infer *in, int input, int64_t *out);
/* Say that output i has this value (a reference is taken). */
void mf_infer_value(mf_infer *in, int output, const mf_tensor *value);

/* ---- gradients ---- */

/* dy[i].node is NULL where no gradient arrives; at least one does. dx[i] stays empty where none
 * flows. Graph-building errors are sticky, so a gradient needs no checks of its own. */
typedef struct mf_grad {
    mf_graph *graph;
    mf_node *node;
    const mf_output *x, *y, *dy; /* inputs, outputs, gradients of the outputs */
    mf_output *dx; /* to be filled, one per input */
    const bool *wants; /* per input: dx[i] is asked for; others may be filled too */
    int n_in, n_out;
} mf_grad;

typedef mf_status mf_grad_fn(mf_grad *g);
/* The op stops gradients (integers, indices, shapes, state). */
MF_MUST mf_status mf_grad_none(mf_grad *g);
/* TensorFlow registers no gradient either: asking for one is UNIMPLEMENTED. */
MF_MUST mf_status mf_grad_missing(mf_grad *g);

/* ---- kernels ---- */

typedef struct mf_step mf_step;
typedef struct mf_kernel mf_kernel;

/* What a kernel may reach of the step it runs in. */
struct mf_step {
    mf_pool *pool;
    mf_resources *resources; /* by container and name; outlive steps and sessions */
    mf_resources *local; /* of this step: stacks, tensor arrays */
    mf_cancel *cancel; /* waiting ops register here */
    struct mf_exchange
        *exchange; /* with other workers, see step_exchange.h; NULL: there are none */
    struct mf_rendezvous *rendezvous; /* with other tasks, see rendezvous.h; NULL: there are none */
    struct mf_mesh_link *mesh; /* to the other processors, see spmd_op.h; NULL: there are none */
    int64_t id;
    int depth; /* kernels that run functions which this step is inside of */
    int64_t deadline_ns; /* mf_clock_ns() time, or 0 */
    const char *const *allow_dirs; /* see step_file.h */
    int n_allow_dirs;
};

/* Called once per compiled node, before it runs. Steps overlap: what prepare makes is shared by
 * several runs at once, so run() must not change it (or lock). */
typedef struct mf_prepare {
    const mf_node *node;
    const mf_graph *graph; /* that the node is in; has the functions it names */
    mf_arena *arena; /* lives as long as the compiled node */
    const mf_shape *in; /* shapes, possibly unknown */
    mf_resources *session; /* state that nodes keep from step to step, by node name */
    void *state; /* out: becomes k->state */
} mf_prepare;

/* What follows an op with MF_OP_THEN: called with each range of elements of output 0 as soon as
 * they are final, once for every element, from any thread. */
typedef struct mf_epilogue {
    void (*run)(const struct mf_epilogue *then, int64_t from, int64_t to);
} mf_epilogue;

struct mf_kernel {
    const mf_node *node; /* reading attributes is slow: do it in prepare */
    void *state;
    mf_step *step;
    const mf_tensor *const
        *in; /* plain inputs hold values; resource and reference inputs a handle */
    mf_tensor *const *out;
    int n_in, n_out;
    uint64_t reuse; /* bit i: this is the last use of input i, its storage may become an output's */
    const mf_epilogue *then; /* NULL: nothing */
    void *owner; /* executor's own */
    /* Of a kernel that another one has started: called instead of telling the executor. */
    void (*done)(mf_kernel *k, mf_status status);
    /* Outside of plans only: */
    bool dead; /* with MF_OP_SEES_DEAD: an input is, and has no value */
    uint64_t
        frame; /* the loop it is in and its iteration, as other tasks number them; 0, 0: none */
    int64_t iteration;
};

/* Memory for output i. With MF_OP_INPLACE the block of an input that nobody else reads may be
 * reused: then output and input data are the same pointer. Contents are undefined. */
MF_MUST mf_status mf_kernel_alloc(mf_kernel *k, int i, const mf_shape *shape, mf_tensor **t);
static inline mf_status mf_kernel_out(mf_kernel *k, int i, const mf_shape *shape, mf_tensor **t)
{
    mf_tensor *o = k->out[i];

    if (o->data && mf_shape_equal(&o->shape, shape)) { /* a plan has placed it already */
        *t = o;
        return MF_OK;
    }
    return mf_kernel_alloc(k, i, shape, t);
}
/* Output i is input j's storage under another shape (same number of elements). For MF_OP_VIEW. */
static inline void mf_kernel_view(mf_kernel *k, int i, int j, const mf_shape *shape)
{
    mf_tensor_reshape(k->out[i], k->in[j], shape);
}
/* Output i is `t` (a reference is taken). Not from within a plan: ops using it leave shapes unknown
 * or are MF_OP_HEAP. */
void mf_kernel_set(mf_kernel *k, int i, const mf_tensor *t);

/* Asynchronous kernels: exactly once per start(), from any thread. Error text is the thread's. */
void mf_kernel_done(mf_kernel *k, mf_status status);
/* The same: its outputs are dead. */
void mf_kernel_done_dead(mf_kernel *k);

/* The object in input i (resource or reference). INVALID_ARGUMENT when it is of another type. */
MF_MUST mf_status mf_kernel_object(const mf_kernel *k, int i, const mf_object_type *type,
                                   mf_object **out);
MF_MUST mf_status mf_kernel_variable(const mf_kernel *k, int i, mf_variable **out);
/* Output i becomes a scalar handle to the object (a reference is taken). */
MF_MUST mf_status mf_kernel_set_object(mf_kernel *k, int i, mf_object *object);

/* fn(ctx, piece) for each piece, by the pool's threads. Fails when the step has ended meanwhile; a
 * long piece asks for that itself (base/stop.h). */
MF_MUST static inline mf_status mf_kernel_parallel(const mf_kernel *k, int64_t pieces,
                                                   void (*fn)(void *ctx, int64_t piece), void *ctx)
{
    return mf_pool_parallel(k->step->pool, pieces, fn, ctx);
}
/* The same, and nothing stops it: for what writes variables. */
static inline void mf_kernel_complete(const mf_kernel *k, int64_t pieces,
                                      void (*fn)(void *ctx, int64_t piece), void *ctx)
{
    mf_pool_complete(k->step->pool, pieces, fn, ctx);
}

/* ---- elementwise loops: shared by the op's own kernel and by fusion ---- */

typedef struct mf_span {
    const void *in[3];
    bool scalar[3]; /* in[j] is one element used for all */
    void *out;
    int64_t n;
    double param; /* one attribute as a number (LeakyRelu's alpha) */
} mf_span;

typedef void mf_span_fn(const mf_span *s);

/* How an elementwise op loops. out may equal an input that is not scalar. */
typedef struct mf_loop {
    int arity;
    mf_span_fn *fn[MF_DTYPE_COUNT]; /* by the type of the last input; NULL: unsupported */
    const char *param; /* the attribute behind mf_span.param, or NULL */
} mf_loop;

/* ---- the op ---- */

struct mf_split;

enum mf_op_flag {
    MF_OP_INPLACE = 1 << 0, /* outputs may overwrite inputs of the same size */
    MF_OP_VIEW = 1 << 1, /* output 0 is input 0's storage */
    MF_OP_HEAP = 1 << 2, /* outputs come from elsewhere (variables): never placed by a plan */
    MF_OP_UNPLANNED =
        1 << 3, /* never inside a plan. Every op that keeps a reference to an input tensor
                   (queues, stacks) needs this: memory of a plan ends with the step */
    MF_OP_SEES_DEAD = 1 << 4, /* runs on dead inputs too (Merge and friends; see mf_kernel.dead) */
    MF_OP_THEN =
        1 << 5, /* calls mf_kernel.then (float and double only); there is an op "_<Name>Then"
                   of the same inputs, attributes and then those of MF_EPILOGUE_ATTRS */
    MF_OP_JOINT = 1 << 6, /* waits, but never for anything that needs another such op's outputs:
                             what follows several of them may wait for them all */
    MF_OP_TAKES_REFS = 1 << 7, /* its plain inputs get the handles of references, not the values */
};

/* Ops that the executor itself carries out. */
typedef enum mf_control_op {
    MF_CONTROL_NONE,
    MF_CONTROL_SWITCH, /* Switch and RefSwitch; output 1 when the predicate holds, else 0 */
    MF_CONTROL_MERGE,
    MF_CONTROL_ENTER,
    MF_CONTROL_EXIT,
    MF_CONTROL_NEXT,
    MF_CONTROL_TRIGGER, /* ControlTrigger: alive even when its inputs are dead */
    MF_CONTROL_ARG, /* _Arg, _Retval of function bodies: gone after inlining */
    MF_CONTROL_CALL, /* gone after inlining: PartitionedCall, If, While, Case */
} mf_control_op;

struct mf_op {
    const char *name; /* TensorFlow's: the identity on the wire and in files */
    const char *def; /* signature, see opdef.h; parsed on first use */
    unsigned flags;
    mf_control_op control;
    mf_status (*infer)(mf_infer *in);
    mf_grad_fn *grad;
    mf_status (*prepare)(mf_prepare *p); /* optional */
    void (*release)(void *state); /* optional: what the arena does not free */
    mf_status (*run)(mf_kernel *k); /* computes and returns */
    void (*start)(mf_kernel *k); /* instead of run, for ops that wait */
    const mf_loop *loop; /* elementwise ops */
    void (*split)(struct mf_split *s); /* how it may be cut, see split.h; NULL: not at all */
    /* Inputs and attributes to test with, NULL-terminated; see tests/ops/sample.h for the syntax.
     */
    const char *const *samples;
};

#define MF_SAMPLES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* What decides the bits of results on this machine, in a line: instruction sets and libraries. Two
 * machines of one class compute the same. */
const char *mf_numerics_class(void);

/* ---- registry ---- */

/* NULL when there is no such op. */
const mf_op *mf_op_find(const char *name);
/* The parsed signature. Fails only if `def` is wrong, which a test rules out. */
MF_MUST mf_status mf_op_def(const mf_op *op, const mf_opdef **out);
/* All ops in the order of their names; *n is their number. */
const mf_op *const *mf_op_all(int *n);

#endif
