/* SPDX-License-Identifier: Apache-2.0 */
/* local_workers.h - workers of a running job on this host: more of them, and fewer. */
#ifndef MF_SUPERVISOR_LOCAL_WORKERS_H
#define MF_SUPERVISOR_LOCAL_WORKERS_H

#include "observe/job_view.h"
#include "supervisor/proc_cmdline.h"

/* "worker 3" is number 3; -1: it is no worker. */
int mf_worker_index(const char *task);
/* A living worker of this host? */
bool mf_worker_is_here(const mf_status_page_seen *t);
/* How many of them there are. */
int mf_workers_count(const mf_job_view_job *job);

/* Who leaves first, when there are to be fewer: those that do not train yet, of all the one with
 * the highest index; after `before`, or NULL: the first. NULL: nobody is left. */
const mf_status_page_seen *mf_worker_to_leave(const mf_job_view_job *job,
                                              const mf_status_page_seen *before);

/* Tell a worker to leave. Fails: FAILED_PRECONDITION (it is none, on another host, or gone). */
MF_MUST mf_status mf_worker_leave(const mf_status_page_seen *t);

/* How a worker of a job is started: as one that is there was, which the kernel tells. */
typedef struct mf_recipe {
    mf_proc_cmdline command, env;
    char *program, *dir;
} mf_recipe;

/* Owns: mf_recipe_deinit(), also after a failure. Fails: NOT_FOUND (no worker is here),
 * FAILED_PRECONDITION (the job has no store). */
MF_MUST mf_status mf_recipe_read(const mf_job_view_job *job, mf_recipe *out);
void mf_recipe_deinit(mf_recipe *r);
/* Where the job keeps who belongs to it. */
const char *mf_recipe_store(const mf_recipe *r);
/* Become worker `index`. address: "HOST:PORT", or "HOST" and any free port; NULL: of the loopback.
 * Returns only when that fails. */
MF_MUST mf_status mf_recipe_become(mf_recipe *r, int index, const char *address);

/* An index that no worker on the boards has, at least `index`. */
int mf_worker_free_index(const mf_job_view_job *job, int index);

#endif
