/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_hosts.h - a running job has as many workers on this host as a list of hosts says, which
 * may change while it runs: printed by a program, or a value in the job's store. */
#ifndef MF_SUPERVISOR_ELASTIC_HOSTS_H
#define MF_SUPERVISOR_ELASTIC_HOSTS_H

#include "supervisor/local_workers.h"

typedef struct mf_elastic_hosts_options {
    const char *job; /* its name */
    const char *list; /* "key:NAME" of the store, else a command for the shell */
    const char *host; /* what the list calls this host; NULL: the system's name */
    const char *address; /* where new workers listen; NULL: the loopback */
    int64_t every_ns; /* how often it is looked at */
    int max_restarts; /* workers that may end badly, one after another */
} mf_elastic_hosts_options;

/* The NAME of "key:NAME"; NULL: it is a command. */
const char *mf_elastic_hosts_key(const char *list);
/* Until the job is over. Whatever goes wrong with the list is said, and the last good one holds.
 * Fails: as mf_recipe_read(); ABORTED (workers end again and again). */
MF_MUST mf_status mf_elastic_hosts(const mf_job_view_job *job, const mf_elastic_hosts_options *o);
/* Put this list where others follow it. Fails: INVALID_ARGUMENT, naming what is wrong with it. */
MF_MUST mf_status mf_elastic_hosts_put(const mf_job_view_job *job, const char *key,
                                       const char *path);

/* One worker more, a process of its own whose words are not read: its process; -1 after a failure,
 * which is the thread's error. */
long long mf_elastic_hosts_start(mf_recipe *recipe, int index, const char *address);

#endif
