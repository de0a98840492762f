/* SPDX-License-Identifier: Apache-2.0 */
/* ps_job.h - the strategy parameter_server inside: strategy_param_server.c (workers: steps, leases,
 * checkpoints), ps_elastic.c (state of servers after a rendezvous, recovery, serving). */
#ifndef MF_DIST_PARAM_SERVER_PS_JOB_H
#define MF_DIST_PARAM_SERVER_PS_JOB_H

#include "dist/data_parallel/load_balance.h"
#include "dist/job_members.h"
#include "dist/param_server/ps_host_aggregate.h"
#include "dist/param_server/ps_replica_table.h"
#include "dist/param_server/strategy_param_server.h"

#include <stddef.h>

/* In the store: asynchronous workers have done steps. */
#define MF_PS_TRAINED "trained"

typedef struct mf_ps_job {
    mf_strategy strategy; /* first */
    mf_dist dist;
    mf_net *net;
    int n_workers, n_servers, index; /* index: among the servers; -1: a worker */
    mf_job_members members; /* of an elastic job: dist.members, which owns the net */
    mf_ps_replica_table copies; /* a server's */
    int n_copies; /* on so many other servers */
    bool by_host;
    bool balances; /* faster workers get more shards; synchronous workers only */
    mf_balance balance;
    mf_ps_mode mode;
    double *weights; /* of workers, for mode.aggregation */
    mf_ps_client *client;
    struct server
        *kept; /* of an asynchronous server, between two epochs; see mf_ps_server_options */
    mf_ps_host_aggregate host_aggregate;
    int64_t sent; /* bytes to other hosts, average of all workers */
    int64_t pushed, pulled; /* bytes, by clients of earlier epochs */
    mf_traffic done; /* by the servers, in the end */
    bool began; /* servers wait for this worker's requests */
    bool stop; /* a worker asks to stop */
    int n_slices; /* slices of asynchronous servers, one for each server; the initial number of
                     servers */
    bool marked; /* the store has a mark that a step was done */
    int64_t start; /* batches that were done before this training was begun or resumed */
} mf_ps_job;

static inline mf_ps_job *mf_ps_job_of(mf_dist *dist)
{
    return (mf_ps_job *)(void *)((char *)dist - offsetof(mf_ps_job, dist));
}

/* ---- strategy_param_server.c ---- */

/* mf_dist_lifecycle_ops.join and mf_dist_trace_ops.traffic. */
MF_MUST mf_status mf_ps_job_join(mf_dist *dist, mf_trainer *t);
void mf_ps_job_traffic(const mf_dist *dist, mf_traffic *out);

/* ---- ps_elastic.c ---- */

extern const mf_recovery_hooks mf_ps_worker_recovery, mf_ps_server_recovery;
/* mf_dist_membership_ops.aligned and mf_dist_lifecycle_ops.serve. */
MF_MUST mf_status mf_ps_job_aligned(mf_dist *dist, mf_trainer *t);
MF_MUST mf_status mf_ps_job_serve(mf_dist *dist, mf_trainer *t);

#endif
