/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h - running a program. */
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
    const char *task; /* whose part of a step it is: then a stall is reported; NULL: it is not */
    int64_t shared_step; /* with task: the number of the step */
    int depth; /* of the step */
    int64_t deadline_ns; /* mf_clock_ns() time; 0: none */
    mf_cancel *cancel; /* of the session: raising it ends the run with CANCELLED */
    mf_trace *trace; /* NULL: none */
    bool alone; /* items run on the calling thread only: for kernels, which may not wait for tasks
                   of the pool */
    const mf_tensor *const *feeds;
    mf_tensor *results; /* empty slots, one per fetch */
} mf_run_args;

/* Runs to the end: the calling thread works too, then waits for what is asynchronous.
 * Fails with the first failing node's status; results are then empty. */
MF_MUST mf_status mf_program_run(mf_program *program, const mf_run_args *args);

#endif
