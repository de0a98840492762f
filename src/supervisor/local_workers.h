/* SPDX-License-Identifier: Apache-2.0 */
/* local_workers.h - adds workers to, and removes workers from, a running job on this host. */
#ifndef MF_SUPERVISOR_LOCAL_WORKERS_H
#define MF_SUPERVISOR_LOCAL_WORKERS_H

#include "observe/job_view.h"
#include "supervisor/proc_cmdline.h"

/* 3 for "worker 3"; -1: not a worker. */
int mf_worker_index(const char *task);
/* True for a living worker of this host. */
bool mf_worker_is_here(const mf_status_page_seen *t);
/* The number of living workers of this host. */
int mf_workers_count(const mf_job_view_job *job);

/* The worker that leaves next when the job shrinks: first workers that do not train yet, then the
 * highest index. `before`: the worker that left before it; NULL: the first. NULL: none is left. */
const mf_status_page_seen *mf_worker_to_leave(const mf_job_view_job *job,
                                              const mf_status_page_seen *before);

/* Asks a worker to leave. Fails: FAILED_PRECONDITION (not a worker, on another host, or gone). */
MF_MUST mf_status mf_worker_leave(const mf_status_page_seen *t);

/* How to start a worker of a job: the command line and environment of a running worker. */
typedef struct mf_recipe {
    mf_proc_cmdline command, env;
    char *program, *dir;
} mf_recipe;

/* Owns: mf_recipe_deinit(), also after a failure. Fails: NOT_FOUND (no worker on this host),
 * FAILED_PRECONDITION (the job has no store). */
MF_MUST mf_status mf_recipe_read(const mf_job_view_job *job, mf_recipe *out);
void mf_recipe_deinit(mf_recipe *r);
/* The membership store of the job. */
const char *mf_recipe_store(const mf_recipe *r);
/* Executes the command as worker `index`. address: "HOST:PORT", or "HOST" with any free port; NULL:
 * the loopback. Returns only after a failure. */
MF_MUST mf_status mf_recipe_become(mf_recipe *r, int index, const char *address);

/* The lowest index, at least `index`, that no worker on the status pages has. */
int mf_worker_free_index(const mf_job_view_job *job, int index);

#endif
