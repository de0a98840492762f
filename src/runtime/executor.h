/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h - runs a program. */
#ifndef MF_RUNTIME_EXECUTOR_H
#define MF_RUNTIME_EXECUTOR_H

#include "compiler/program.h"
#include "observe/trace.h"

typedef struct mf_run_args {
    mf_pool *pool;
    mf_resources *resources;
    struct mf_exchange *exchange; /* may be NULL */
    struct mf_rendezvous *rendezvous; /* may be NULL */
    struct mf_mesh_link *mesh; /* may be NULL */
    const char *const *allow_dirs;
    int n_allow_dirs;
    int64_t step_id;
    const char *task; /* the task of a distributed step, for stall reports; NULL: none */
    int64_t shared_step; /* with task: the number of the step */
    int depth; /* nesting depth of the step */
    int64_t deadline_ns; /* mf_clock_ns() time; 0: none */
    mf_cancel *cancel; /* of the session: raising it ends the run with CANCELLED */
    mf_trace *trace; /* NULL: none */
    bool alone; /* run items only on the calling thread: for kernels, which must not wait for tasks
                   of the pool */
    const mf_tensor *const *feeds;
    mf_tensor *results; /* empty slots, one per fetch */
} mf_run_args;

/* Runs to completion: the calling thread runs items, then waits for asynchronous kernels.
 * Fails with the status of the first failing node; results are then empty. */
MF_MUST mf_status mf_program_run(mf_program *program, const mf_run_args *args);

#endif
