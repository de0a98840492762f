/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.h - which cluster this process belongs to, and which task of it it is.
 *
 * Conventions are tried in this order; the first that applies is used, the others are only compared
 * with it (a difference becomes a note):
 *
 *   flags > TF_CONFIG > torchrun > Open MPI > MPICH and PMI > Slurm > Kubernetes > hostfile > none
 *
 *     mf_cluster *c;
 *     MF_TRY(mf_cluster_resolve(&(mf_cluster_request){ .ps = 1 }, &c));
 *     if (c->rank == 0) ...
 *     mf_cluster_free(c); */
#ifndef MF_CLUSTER_RESOLVE_RESOLVE_H
#define MF_CLUSTER_RESOLVE_RESOLVE_H

#include "cluster/resolve/cluster_spec.h"

/* All zero: the process's own environment, no flags. Strings are borrowed until the call returns.
 */
typedef struct mf_cluster_request {
    /* The environment; NULL: getenv(). Returns NULL for a variable that is not set. */
    const char *(*env)(void *ctx, const char *name);
    void *ctx;
    const char *host; /* this host's name; NULL: the system's */

    /* From the command line; NULL: not given. */
    const char *cluster; /* --cluster: JSON if it begins with '{', otherwise the name of a file */
    const char *job_name; /* --job_name; also names the own task where TF_CONFIG does not */
    const char *task_index; /* --task_index */
    const char *ps_hosts; /* --ps_hosts a:1,b:2 */
    const char *worker_hosts; /* --worker_hosts */
    const char *hostfile; /* --hostfile */
    int ps; /* --ps: how many of a launcher's processes are parameter servers, the last ones */

    bool client; /* this process need not be one of the tasks */
} mf_cluster_request;

/* Fails: INVALID_ARGUMENT with the first error, its place, its fix, and the number of further
 * errors; RESOURCE_EXHAUSTED. Owns: mf_cluster_free(). */
MF_MUST mf_status mf_cluster_resolve(const mf_cluster_request *request, mf_cluster **out);

/* The same, for callers that report all errors: fails only when out of memory. A description with
 * errors is for reading only. */
MF_MUST mf_status mf_cluster_examine(const mf_cluster_request *request, mf_cluster **out);

/* How many slots a list of hosts, in hostfile format, has for this host; 0: it is not listed. host
 * NULL: the system's name. Fails: INVALID_ARGUMENT with the first error and its fix. */
MF_MUST mf_status mf_hostfile_slots(const char *text, size_t len, const char *place,
                                    const char *host, int *slots);

#endif
