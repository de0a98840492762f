/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - a compiled step: the input of the executor.
 *
 * Items pass tokens (a tensor, or dead) along edges. An item belongs to a frame: the root, or the
 * body of a loop; each iteration of a frame has its own slots, one per input of its items. A region
 * is one item with a plan: a straight-line sequence of kernel calls with fixed shapes and memory.
 *
 * Programs are immutable; any number of steps may run concurrently. */
#ifndef MF_COMPILER_PROGRAM_H
#define MF_COMPILER_PROGRAM_H

#include "graph/op.h"

typedef enum mf_item_kind {
    MF_ITEM_OP, /* run a kernel */
    MF_ITEM_ASYNC, /* start a kernel, which completes later */
    MF_ITEM_REGION, /* run a plan */
    MF_ITEM_FEED,
    MF_ITEM_FETCH,
    MF_ITEM_SWITCH,
    MF_ITEM_MERGE,
    MF_ITEM_ENTER,
    MF_ITEM_EXIT,
    MF_ITEM_NEXT,
    MF_ITEM_TRIGGER,
} mf_item_kind;

/* The destination of a token. */
typedef struct mf_edge {
    int32_t item; /* in program->items */
    int32_t input; /* its input, or -1: control */
} mf_edge;

/* The source of an input: a slot of the iteration, or a constant. */
typedef struct mf_item_input {
    const mf_tensor *constant; /* NULL: slot */
    int32_t slot;
    bool deref; /* a reference for a plain input: read the variable */
} mf_item_input;

typedef struct mf_plan mf_plan;

/* The record chosen for a node, and the state of its kernel. */
typedef struct mf_prepared {
    const mf_kernel_def *def; /* NULL: none */
    void *state;
} mf_prepared;

typedef struct mf_item {
    mf_item_kind kind;
    const mf_node *node; /* for a region: its first node */
    mf_prepared kernel; /* OP, ASYNC */
    mf_plan *plan; /* regions */
    mf_item_input *in;
    int n_in, n_out;
    mf_edge *edges; /* of port 0, then port 1, ..., then control edges */
    int32_t *edges_end; /* n_out + 1 end indices into edges; the last is for control edges */
    int frame; /* the frame it runs in */
    int local; /* index among the frame's items */
    int pending; /* tokens to wait for: slot inputs and control inputs */
    int controls; /* of these, control inputs */
    int child; /* ENTER: the frame entered; EXIT, NEXT: the frame left or iterated */
    int index; /* FEED, FETCH: its index */
    bool constant_enter;
    bool is_back; /* it computes gradients, */
    bool is_late; /* for weights only */
    int64_t micro_batch; /* of this micro-batch, from 1; 0: none */
} mf_item;

typedef struct mf_frame_def {
    const char *name;
    int parent;
    int n_items, n_slots;
    int enters; /* number of ENTER items for this frame */
    int parallel_iterations;
    struct mf_cell *cells; /* initial cells of a new iteration; created by the executor */
} mf_frame_def;

typedef struct mf_program {
    mf_arena *arena;
    mf_graph *graph; /* owns nodes, names, constants */
    mf_item *items;
    mf_frame_def *frames; /* [0] is the root */
    int32_t *roots; /* items without inputs */
    int n_items, n_frames, n_roots, n_feeds, n_fetches;
    int max_in, max_out; /* maximum over all items */
    int n_regions; /* number of regions and plan entries, for statistics */
    int64_t n_planned;
    int64_t peak_bytes; /* peak memory of a run, without variables and feeds, see memory_peak.c */
    mf_prepared *kernels; /* by node id; their states are released with the program */
    /* Idle step states for reuse; guarded by lock. */
    pthread_mutex_t lock;
    struct mf_run_state *idle;
    void (*free_state)(struct mf_run_state *state);
} mf_program;

void mf_program_free(mf_program *program);
/* Peak memory of a run, without variables and feeds (memory_peak.c). c: facts of its nodes.
 * scratch(ctx, ...): workspace of a kernel in bytes; NULL: excluded. */
struct mf_compile;
typedef int64_t mf_scratch_fn(void *ctx, const mf_node *node, void *state);
MF_MUST mf_status mf_program_peak(const struct mf_compile *c, const mf_program *program,
                                  mf_scratch_fn *scratch, void *ctx, int64_t *out);
/* Readable text: items, regions, plan entries with their memory. */
void mf_program_print(const mf_program *program, mf_buf *out);

/* ---- plans ---- */

typedef enum mf_value_kind {
    MF_VALUE_CONST, /* tensor shared by all instances */
    MF_VALUE_INPUT, /* provided by the executor */
    MF_VALUE_ARENA, /* placed in the plan's block */
    MF_VALUE_HEAP, /* allocated by its kernel */
} mf_value_kind;

typedef struct mf_plan_value {
    mf_value_kind kind;
    mf_dtype dtype;
    mf_shape shape; /* ARENA */
    int64_t offset; /* ARENA: offset in the block */
    const mf_tensor *constant;
} mf_plan_value;

/* A reference for a plain input: the variable is read into a separate value before the call. */
typedef struct mf_plan_read {
    int32_t handle, value; /* values */
} mf_plan_read;

typedef struct mf_plan_entry {
    const mf_node *node;
    mf_prepared kernel;
    int32_t *in, *out; /* values */
    mf_plan_read *reads;
    int32_t *drops; /* values whose storage is not used after this entry */
    int n_in, n_out, n_reads, n_drops;
    uint64_t reuse; /* see mf_kernel */
} mf_plan_entry;

struct mf_plan {
    mf_plan_entry *entries;
    mf_plan_value *values;
    int32_t *inputs, *outputs; /* values, in the order of the item's inputs and outputs */
    int n_entries, n_values, n_inputs, n_outputs;
    int64_t block_bytes;
    /* Idle instances for reuse; guarded by lock. */
    pthread_mutex_t lock;
    struct mf_plan_instance *idle;
};

/* ---- running a plan ---- */

/* A plan with memory: one per concurrent run. */
typedef struct mf_plan_instance mf_plan_instance;
MF_MUST mf_status mf_plan_take(mf_plan *plan, mf_plan_instance **out);
void mf_plan_give(mf_plan *plan, mf_plan_instance *instance);
void mf_plan_free_instances(mf_plan *plan);
/* Inputs are moved in (and are empty afterwards), outputs are moved out. On failure *failed is the
 * node. Fails with CANCELLED between entries when the step is cancelled. `trace` may be NULL. */
typedef struct mf_trace mf_trace;
MF_MUST mf_status mf_plan_run(mf_plan_instance *instance, const mf_step *step, mf_tensor *const *in,
                              mf_tensor *out, mf_trace *trace, const mf_node **failed);

#endif
