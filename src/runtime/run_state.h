/* SPDX-License-Identifier: Apache-2.0 */
/* run_state.h - what a run needs besides its frames, and running one item. Shared by executor.c,
 * which decides what runs, run_state.c (memory) and run_item.c (kernels). */
#ifndef MF_RUNTIME_RUN_STATE_H
#define MF_RUNTIME_RUN_STATE_H

#include "runtime/executor.h"
#include "runtime/frames.h"

typedef struct mf_run_state mf_run_state;

/* Who runs items: the calling thread or a task of the pool, with room for what an item takes and
 * gives. */
typedef struct mf_runner {
    mf_task task; /* first */
    mf_run_state *run;
    const mf_tensor **in;
    mf_tensor **in_moved;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct mf_runner *next; /* idle list */
} mf_runner;

/* An asynchronous kernel under way. */
typedef struct mf_async {
    mf_kernel kernel;
    mf_run_state *run;
    mf_ready what;
    int64_t started; /* for a trace */
    int64_t began; /* mf_clock_ns(), where stalls are reported */
    const mf_tensor **in;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct mf_async *next, *prev; /* idle list, which has no prev; those that wait */
} mf_async;

struct mf_run_state {
    mf_run_state *next; /* idle list of the program */
    mf_program *program;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    mf_frames frames; /* guarded by lock */
    mf_runner *idle_runners; /* guarded by lock */
    mf_async *idle_async; /* guarded by lock */
    mf_async *waiting; /* those under way, where stalls are reported; guarded by lock */
    int runners; /* submitted or working, the caller not counted; guarded by lock */
    bool caller_waits; /* it takes what becomes ready, if nobody else does; guarded by lock */
    int max_runners;
    mf_error error; /* first failure; guarded by lock */
    bool failed;
    mf_cancel cancel;
    mf_cancel_hook session_hook;
    mf_step step;
    const mf_run_args *args;
};

/* ---- memory (run_state.c) ---- */

/* A state of the program that nobody uses, or a new one. */
MF_MUST mf_status mf_run_state_take(mf_program *program, mf_run_state **out);
void mf_run_state_give(mf_program *program, mf_run_state *run);
mf_runner *mf_runner_new(mf_run_state *run); /* NULL: no memory. They are freed with the run */
mf_async *mf_async_new(const mf_program *p);

/* ---- one item, without the run's lock (run_item.c) ---- */

/* Outputs go to r->out. *failed: the node that did. Not for asynchronous kernels. */
MF_MUST mf_status mf_item_run(mf_runner *r, const mf_item *item, mf_iteration *it,
                              const mf_node **failed);
/* in[i] becomes input i, a constant or what has arrived; references are read now. */
MF_MUST mf_status mf_item_bind(const mf_item *item, mf_iteration *it, const mf_tensor **in);
mf_kernel mf_item_kernel(const mf_item *item, const mf_iteration *it, mf_step *step,
                         const mf_tensor **in, mf_tensor **out);
/* A token that is dead came to it. */
bool mf_item_is_dead(const mf_item *item, const mf_iteration *it);

#endif
