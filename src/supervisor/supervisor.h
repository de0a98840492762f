/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.h - a master of a training: it starts tasks, starts lost ones again, and takes over
 * those of a master that is lost. */
#ifndef MF_SUPERVISOR_SUPERVISOR_H
#define MF_SUPERVISOR_SUPERVISOR_H

#include "cluster/resolve/cluster_spec.h"

/* Is this process a master, with a store to work with? */
bool mf_supervisor_is_one(const mf_cluster *c);
/* Until the job is over, shown as a task of the job of that name. It waits so long for a store that
 * does not answer at the start. *exit_code: the job's, see base/exit_code.h; it stays as it is
 * where the master itself fails. */
MF_MUST mf_status mf_supervisor_run(const mf_cluster *c, const char *job, int64_t timeout_ns,
                                    int *exit_code);

/* Kill all processes of a job's tasks, as its masters have noted them in the store. */
void mf_supervisor_kill_wards(const char *store);

#endif
