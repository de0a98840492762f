/* SPDX-License-Identifier: Apache-2.0 */
/* ps_host_aggregate.h - workers of one host whose parameter servers are elsewhere add their
 * gradients before the first of them pushes for all; it shares the reply with the others. So
 * traffic between hosts does not grow with the workers of a host. They add siblings of the tree
 * only, which does not change a bit. Synchronous training only. */
#ifndef MF_DIST_PARAM_SERVER_PS_HOST_AGGREGATE_H
#define MF_DIST_PARAM_SERVER_PS_HOST_AGGREGATE_H

#include "collective/group.h"
#include "dist/param_server/push_pull.h"
#include "net/net.h"

typedef struct mf_ps_host_aggregate {
    mf_group *group; /* NULL: no aggregation, every worker pushes */
    int64_t timeout_ns;
} mf_ps_host_aggregate;

/* All workers of this host, tasks 0 .. n_workers - 1, if there are several, their ranks are
 * neighbours, and not all servers, the n_servers tasks after them, are on this host. */
MF_MUST mf_status mf_ps_host_aggregate_open(mf_net *net, int n_workers, int n_servers,
                                            int64_t timeout_ns, mf_ps_host_aggregate *out);
void mf_ps_host_aggregate_close(mf_ps_host_aggregate *host_aggregate);

static inline bool mf_ps_host_aggregate_is_first(const mf_ps_host_aggregate *host_aggregate)
{
    return !host_aggregate->group || host_aggregate->group->rank == 0;
}

/* Collective: the rounds of all members; the first gets one round of all of them, without results
 * yet. Owns: mf_push_pull_round_deinit(all), also after a failure. */
MF_MUST mf_status mf_ps_host_aggregate_gather(mf_ps_host_aggregate *host_aggregate, int64_t shards,
                                              const mf_push_pull_round *mine,
                                              mf_push_pull_round *all);
/* Collective: the first member's results, and the step flags of all workers. */
MF_MUST mf_status mf_ps_host_aggregate_share(mf_ps_host_aggregate *host_aggregate,
                                             mf_push_pull_round *r, int *step_flags);

#endif
