/* SPDX-License-Identifier: Apache-2.0 */
/* run_state.h - the state of a run besides its frames, and running one item. Shared by executor.c,
 * which schedules items, run_state.c (memory) and run_item.c (kernels). */
#ifndef MF_RUNTIME_RUN_STATE_H
#define MF_RUNTIME_RUN_STATE_H

#include "runtime/executor.h"
#include "runtime/frames.h"

typedef struct mf_run_state mf_run_state;

/* A thread that runs items: the calling thread or a task of the pool, with buffers for inputs and
 * outputs of an item. */
typedef struct mf_runner {
    mf_task task; /* must be the first field */
    mf_run_state *run;
    const mf_tensor **in;
    mf_tensor **in_moved;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct mf_runner *next; /* idle list */
} mf_runner;

/* An asynchronous kernel in progress. */
typedef struct mf_async {
    mf_kernel kernel;
    mf_run_state *run;
    mf_ready what;
    int64_t started; /* for a trace */
    int64_t began; /* mf_clock_ns(), if stalls are reported */
    const mf_tensor **in;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct mf_async *next, *prev; /* idle list, which has no prev; list of waiting kernels */
} mf_async;

struct mf_run_state {
    mf_run_state *next; /* idle list of the program */
    mf_program *program;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    mf_frames frames; /* guarded by lock */
    mf_runner *idle_runners; /* guarded by lock */
    mf_async *idle_async; /* guarded by lock */
    mf_async *waiting; /* kernels in progress, if stalls are reported; guarded by lock */
    int runners; /* submitted or working, without the caller; guarded by lock */
    bool caller_waits; /* it runs ready items if there is no runner; guarded by lock */
    int max_runners;
    mf_error error; /* first failure; guarded by lock */
    bool failed;
    mf_cancel cancel;
    mf_cancel_hook session_hook;
    mf_step step;
    const mf_run_args *args;
};

/* ---- memory (run_state.c) ---- */

/* An unused state of the program, or a new one. */
MF_MUST mf_status mf_run_state_take(mf_program *program, mf_run_state **out);
void mf_run_state_give(mf_program *program, mf_run_state *run);
mf_runner *mf_runner_new(mf_run_state *run); /* NULL: no memory. Freed with the run */
mf_async *mf_async_new(const mf_program *p);

/* ---- one item, without the run's lock (run_item.c) ---- */

/* Outputs go to r->out. *failed: the node that failed. Not for asynchronous kernels. */
MF_MUST mf_status mf_item_run(mf_runner *r, const mf_item *item, mf_iteration *it,
                              const mf_node **failed);
/* in[i] becomes input i, a constant or a received value; references are read now. */
MF_MUST mf_status mf_item_bind(const mf_item *item, mf_iteration *it, const mf_tensor **in);
mf_kernel mf_item_kernel(const mf_item *item, const mf_iteration *it, mf_step *step,
                         const mf_tensor **in, mf_tensor **out);
/* It has received a dead token. */
bool mf_item_is_dead(const mf_item *item, const mf_iteration *it);

#endif
