/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.h - a master of a job: it starts tasks, restarts lost tasks, and takes over the tasks
 * of a lost master. */
#ifndef MF_SUPERVISOR_SUPERVISOR_H
#define MF_SUPERVISOR_SUPERVISOR_H

#include "cluster/resolve/cluster_spec.h"

/* True if this process is a master with a store. */
bool mf_supervisor_is_one(const mf_cluster *c);
/* Runs until the job is over; the process is shown as a task of the job of this name. timeout: for
 * a store that does not answer at the start. *exit_code: the job's, see base/exit_code.h; unchanged
 * where the master itself fails. */
MF_MUST mf_status mf_supervisor_run(const mf_cluster *c, const char *job, int64_t timeout_ns,
                                    int *exit_code);

/* Interrupts, or at once kills, all running processes of the job's tasks that its masters have
 * recorded in the store. Returns their number. */
int mf_supervisor_end_tasks(const char *store, bool at_once);

#endif
