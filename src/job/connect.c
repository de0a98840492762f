/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c - from the description of a cluster to tasks that are connected with each other. */
#include "base/buf.h"
#include "comm/transports.h"
#include "graph/op.h"
#include "job/strategies.h"

#include <meshflow/version.h>

/* What all must have in common: else bits, or worse, would differ. */
static mf_status write_identity(const mf_strategy_call *call, mf_buf *out)
{
    mf_buf_printf(out, "version=%s\nnumerics=%s\nstrategy=%s\ncodec=%s\n%s", MESHFLOW_VERSION,
                  mf_numerics_class(), call->name, call->o->codec ? call->o->codec : "",
                  call->o->identity ? call->o->identity : "");
    return mf_buf_finish(out);
}

/* Everybody's name and address: those that train together, then the servers. */
static mf_status list_tasks(const mf_strategy_call *call, mf_net_task *tasks,
                            const char **addresses, int n)
{
    const mf_cluster *c = call->cluster;

    for (int i = 0; i < n; i++) {
        const mf_cluster_task *t =
            i < c->size ? mf_cluster_rank(c, i) : mf_cluster_find(c, MF_ROLE_PS, i - c->size);

        if (!t)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the cluster lists %d tasks, but not all that training needs; give "
                           "every task's address",
                           c->n_tasks);
        tasks[i].name = mf_arena_printf(call->arena, "%s %d", mf_role_name(t->role), t->index);
        tasks[i].address = addresses[i] = t->address;
        if (!tasks[i].name)
            return MF_NOMEM("tasks");
    }
    if (!addresses[0])
        addresses[0] = c->rendezvous;
    return MF_OK;
}

/* An engine numbered the processes, and some of them are on other hosts, or may be. */
static bool spread(const mf_cluster *c)
{
    if (c->addresses || c->n_tasks < 2 || !c->rendezvous)
        return false;
    return c->local_size > 0 ? c->local_size < c->n_tasks : !mf_address_is_local(c->rendezvous);
}

static mf_status choose_transport(const mf_strategy_call *call, const char *const *addresses, int n,
                                  const char *self, mf_net_options *o, char **memory)
{
    o->security.trusted = call->o->trusted_network;
    o->security.insecure_any_peer = call->o->insecure_any_peer;
    if (call->o->tls_dir)
        MF_TRY(mf_security_from_dir(call->o->tls_dir, self, &o->security, memory));
    mf_security_fill(&o->security);
    if (call->o->transport)
        return mf_transport_find(call->o->transport, &o->transport);
    if (spread(call->cluster))
        return mf_transport_find("grpc", &o->transport);
    return mf_transport_choose(addresses, n, &o->transport);
}

mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out)
{
    const mf_cluster *c = call->cluster;
    const int n = c->size + mf_cluster_count(c, MF_ROLE_PS);
    const int self = c->rank >= 0 ? c->rank : c->size + mf_cluster_self(c)->index;
    mf_net_task *tasks = MF_ARENA_ARRAY(call->arena, mf_net_task, n);
    const char **addresses = MF_ARENA_ARRAY(call->arena, const char *, n);
    mf_net_options o = { .tasks = tasks,
                         .n_tasks = n,
                         .self = self,
                         .rendezvous = c->rendezvous,
                         .timeout_ns = call->timeout_ns };
    mf_buf identity = { 0 };
    char *memory = NULL;
    mf_status st = tasks && addresses ? write_identity(call, &identity) : MF_NOMEM("tasks");

    o.identity = identity.data;
    if (st == MF_OK)
        st = list_tasks(call, tasks, addresses, n);
    if (st == MF_OK)
        st = choose_transport(call, addresses, n, tasks[self].name, &o, &memory);
    if (st == MF_OK)
        st = mf_net_open(&o, out);
    mf_free(memory);
    mf_buf_deinit(&identity);
    return st;
}
