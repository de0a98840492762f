/* SPDX-License-Identifier: Apache-2.0 */
/* from_torchrun.c - RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: `torchrun --no-python`, and
 * Kubernetes' operator for PyTorch, which sets them without torchrun. mf_cluster_ranks() in
 * roles_from_ranks.c assigns roles to ranks. */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <string.h>

static const mf_rank_names names = {
    .rank = { "RANK" },
    .size = { "WORLD_SIZE" },
    .local_rank = { "LOCAL_RANK" },
    .local_size = { "LOCAL_WORLD_SIZE" },
};

static bool torchrun_applies(const mf_cluster_request *request)
{
    return mf_request_env(request, "RANK") || mf_request_env(request, "WORLD_SIZE");
}

/* torchrun's own store listens on MASTER_PORT, so the next port is used. */
static void from_torchrun_set_rendezvous(const mf_cluster_request *request, mf_cluster *c)
{
    const bool agent = mf_request_env(request, "TORCHELASTIC_RUN_ID") != NULL;
    const char *host = mf_request_env(request, "MASTER_ADDR");
    int64_t port;

    if (mf_request_env(request, "MESHFLOW_RENDEZVOUS"))
        return;
    if (!host) {
        mf_cluster_mistake(c, "MASTER_ADDR", "set it to the host of process 0",
                           "it is not set, so the host of process 0 is unknown");
        return;
    }
    if (!mf_request_env(request, "MASTER_PORT"))
        mf_cluster_mistake(c, "MASTER_PORT", "set it to a free port on MASTER_ADDR",
                           "it is not set, so the port of process 0 is unknown");
    else if (!strchr(host, ':') && !mf_host_is_name(host, strlen(host)))
        mf_cluster_mistake(c, "MASTER_ADDR", "set it to the host of process 0",
                           "'%.60s' is no host's name", host);
    else if (mf_request_int(request, c, "MASTER_PORT", 1, MF_PORT_MAX - agent, &port))
        mf_cluster_set_rendezvous(request, c, host, (int)port + agent,
                                  agent ? "MASTER_ADDR, MASTER_PORT+1"
                                        : "MASTER_ADDR, MASTER_PORT");
}

static void torchrun_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    if (mf_cluster_ranks(request, c, &names) > 1)
        from_torchrun_set_rendezvous(request, c);
}

const mf_resolver mf_resolver_torchrun = {
    .name = "torchrun",
    .applies = torchrun_applies,
    .resolve = torchrun_resolve,
};
