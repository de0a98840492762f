/* SPDX-License-Identifier: Apache-2.0 */
/* ps_crew.h - workers of one host whose parameter servers are elsewhere add their gradients up
 * before one of them, the first, pushes for all; it gives the others what comes back. So what goes
 * between hosts does not grow with the workers of a host. They add siblings of the tree only, which
 * leaves all bits as they are. Synchronous training only. */
#ifndef MF_JOB_PS_CREW_H
#define MF_JOB_PS_CREW_H

#include "comm/net.h"
#include "parallel/rounds.h"

typedef struct mf_ps_crew {
    mf_group *group; /* NULL: there is no crew, everybody pushes */
    int64_t timeout_ns;
} mf_ps_crew;

/* All workers of this host, tasks 0 .. n_workers - 1, if there are several, their ranks are
 * neighbours, and not all servers, the n_servers tasks behind them, are here. */
MF_MUST mf_status mf_ps_crew_open(mf_net *net, int n_workers, int n_servers, int64_t timeout_ns,
                                  mf_ps_crew *out);
void mf_ps_crew_close(mf_ps_crew *crew);

static inline bool mf_ps_crew_is_first(const mf_ps_crew *crew)
{
    return !crew->group || crew->group->rank == 0;
}

/* Collective: everybody's round; the first gets one of all of them, which has no results yet. Owns:
 * mf_round_deinit(all), also after a failure. */
MF_MUST mf_status mf_ps_crew_gather(mf_ps_crew *crew, int64_t shards, const mf_round *mine,
                                    mf_round *all);
/* Collective: the first one's results, and what somebody has voted for. */
MF_MUST mf_status mf_ps_crew_share(mf_ps_crew *crew, mf_round *r, int *votes);

#endif
