/* SPDX-License-Identifier: Apache-2.0 */
/* workers.h - workers of a running job on this host: more of them, and fewer. */
#ifndef MF_CLI_WORKERS_H
#define MF_CLI_WORKERS_H

#include "cli/running.h"

/* "worker 3" is number 3; -1: it is no worker. */
int mf_worker_index(const char *task);
/* Living ones on this host. */
int mf_workers_count(const mf_running_job *job);

/* Tell a worker to leave. Fails: FAILED_PRECONDITION (it is none, on another host, or gone). */
MF_MUST mf_status mf_worker_leave(const mf_board_seen *t);

/* Become one more worker of the job, with the command line and the environment of one that is
 * there, and an index that nobody has (at least `index`). address NULL: a free port of the
 * loopback. Returns only when that fails. */
MF_MUST mf_status mf_worker_become(const mf_running_job *job, int index, const char *address);

#endif
