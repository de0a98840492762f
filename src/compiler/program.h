/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - a compiled step: what the executor runs.
 *
 * Items pass tokens (a tensor, or dead) along edges. An item belongs to a frame: the root, or the
 * body of a loop; each iteration of a frame has its own slots, one per input of its items. A region
 * is one item with a plan inside: a straight run of kernel calls with fixed shapes and memory.
 * Programs do not change while they run; any number of steps may run one at the same time. */
#ifndef MF_COMPILER_PROGRAM_H
#define MF_COMPILER_PROGRAM_H

#include "graph/op.h"

typedef enum mf_item_kind {
    MF_ITEM_OP, /* run a kernel */
    MF_ITEM_ASYNC, /* start a kernel, which ends later */
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

/* Where a token goes. */
typedef struct mf_edge {
    int32_t item; /* in program->items */
    int32_t input; /* its input, or -1: control */
} mf_edge;

/* Where an input comes from: a slot of the iteration, or a constant. */
typedef struct mf_item_input {
    const mf_tensor *constant; /* NULL: slot */
    int32_t slot;
    bool deref; /* a reference feeding a plain input: read the variable */
} mf_item_input;

typedef struct mf_plan mf_plan;

typedef struct mf_item {
    mf_item_kind kind;
    const mf_node *node; /* of a region: its first */
    void *state; /* what prepare made */
    mf_plan *plan; /* regions */
    mf_item_input *in;
    int n_in, n_out;
    mf_edge *edges; /* of port 0, then port 1, ..., then control edges */
    int32_t *edges_end; /* n_out + 1 ends into edges; the last is for control edges */
    int frame; /* the frame it runs in */
    int local; /* index among the frame's items */
    int pending; /* tokens to wait for: slot inputs and control inputs */
    int controls; /* of these, control inputs */
    int child; /* ENTER: the frame entered; EXIT, NEXT: the frame left or iterated */
    int index; /* FEED, FETCH: which */
    bool constant_enter;
    bool is_back; /* it is of gradients, */
    bool is_late; /* for weights alone */
    int64_t turn; /* and of this micro-batch, from 1; 0: of none */
} mf_item;

typedef struct mf_frame_def {
    const char *name;
    int parent;
    int n_items, n_slots;
    int enters; /* ENTER items into it */
    int parallel_iterations;
    struct mf_cell *cells; /* how the cells of a fresh iteration begin; made by the executor */
} mf_frame_def;

typedef struct mf_program {
    mf_arena *arena;
    mf_graph *graph; /* owns nodes, names, constants */
    mf_item *items;
    mf_frame_def *frames; /* [0] is the root */
    int32_t *roots; /* items that wait for nothing */
    int n_items, n_frames, n_roots, n_feeds, n_fetches;
    int max_in, max_out; /* of any item */
    int n_regions; /* regions and plan entries, for people */
    int64_t n_planned;
    int64_t
        peak_bytes; /* a run holds at most, besides variables and what is fed, see memory_peak.c */
    void **states; /* what prepare made, by node id; released with the program */
    /* Idle step states, reused; guarded by lock. */
    pthread_mutex_t lock;
    struct mf_run_state *idle;
    void (*free_state)(struct mf_run_state *state);
} mf_program;

void mf_program_free(mf_program *program);
/* What a run holds at most, besides variables and what is fed (memory_peak.c). c: facts of its
 * nodes. scratch(ctx, ...): bytes that a kernel takes for itself; NULL: that is left out. */
struct mf_compile;
typedef int64_t mf_scratch_fn(void *ctx, const mf_node *node, void *state);
MF_MUST mf_status mf_program_peak(const struct mf_compile *c, const mf_program *program,
                                  mf_scratch_fn *scratch, void *ctx, int64_t *out);
/* Text for people: items, regions, plan entries with their memory. */
void mf_program_print(const mf_program *program, mf_buf *out);

/* ---- plans ---- */

typedef enum mf_value_kind {
    MF_VALUE_CONST, /* tensor shared by all instances */
    MF_VALUE_INPUT, /* given by the executor */
    MF_VALUE_ARENA, /* placed in the plan's block */
    MF_VALUE_HEAP, /* made by its kernel */
} mf_value_kind;

typedef struct mf_plan_value {
    mf_value_kind kind;
    mf_dtype dtype;
    mf_shape shape; /* ARENA */
    int64_t offset; /* ARENA: bytes into the block */
    const mf_tensor *constant;
} mf_plan_value;

/* A plain input fed by a reference: the variable is read into a value of its own before the call.
 */
typedef struct mf_plan_read {
    int32_t handle, value; /* values */
} mf_plan_read;

typedef struct mf_plan_entry {
    const mf_node *node;
    mf_status (*run)(mf_kernel *k);
    void *state;
    int32_t *in, *out; /* values */
    mf_plan_read *reads;
    int32_t *drops; /* values whose storage nobody needs after this entry */
    int n_in, n_out, n_reads, n_drops;
    uint64_t reuse; /* see mf_kernel */
} mf_plan_entry;

struct mf_plan {
    mf_plan_entry *entries;
    mf_plan_value *values;
    int32_t *inputs, *outputs; /* values, in the order of the item's inputs and outputs */
    int n_entries, n_values, n_inputs, n_outputs;
    int64_t block_bytes;
    /* Idle instances, reused; guarded by lock. */
    pthread_mutex_t lock;
    struct mf_plan_instance *idle;
};

/* ---- running a plan ---- */

/* A plan with memory: one per run at the same time. */
typedef struct mf_plan_instance mf_plan_instance;
MF_MUST mf_status mf_plan_take(mf_plan *plan, mf_plan_instance **out);
void mf_plan_give(mf_plan *plan, mf_plan_instance *instance);
void mf_plan_free_instances(mf_plan *plan);
/* Inputs are moved in (they come back empty), outputs are moved out. On failure *failed is the
 * node. Stops with CANCELLED between entries once the step is cancelled. `trace` may be NULL. */
typedef struct mf_trace mf_trace;
MF_MUST mf_status mf_plan_run(mf_plan_instance *instance, const mf_step *step, mf_tensor *const *in,
                              mf_tensor *out, mf_trace *trace, const mf_node **failed);

#endif
