/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_hosts.h - keeps as many workers of a running job on this host as a list of hosts says.
 * The list may change while the job runs: a command prints it, or it is a value in the job's store.
 */
#ifndef MF_SUPERVISOR_ELASTIC_HOSTS_H
#define MF_SUPERVISOR_ELASTIC_HOSTS_H

#include "supervisor/local_workers.h"

typedef struct mf_elastic_hosts_options {
    const char *job; /* its name */
    const char *list; /* "key:NAME" in the store, else a shell command */
    const char *host; /* the name of this host in the list; NULL: its hostname */
    const char *address; /* where new workers listen; NULL: the loopback */
    int64_t every_ns; /* poll interval */
    int max_restarts; /* workers that may fail, one after another */
} mf_elastic_hosts_options;

/* The NAME of "key:NAME"; NULL: it is a command. */
const char *mf_elastic_hosts_key(const char *list);
/* Returns when the job is over. An unusable list is logged, and the last good list stays in force.
 * Fails: as mf_recipe_read(); ABORTED (workers fail again and again). */
MF_MUST mf_status mf_elastic_hosts(const mf_job_view_job *job, const mf_elastic_hosts_options *o);
/* Writes this list to the key that other hosts follow. Fails: INVALID_ARGUMENT, naming what is
 * wrong with the list. */
MF_MUST mf_status mf_elastic_hosts_put(const mf_job_view_job *job, const char *key,
                                       const char *path);

/* Starts a worker as a separate process whose output is not read. Returns its process id; -1 after
 * a failure, which is the thread's error. */
long long mf_elastic_hosts_start(mf_recipe *recipe, int index, const char *address);

#endif
