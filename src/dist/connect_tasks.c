/* SPDX-License-Identifier: Apache-2.0 */
/* connect_tasks.c - from the cluster description of the options to connected tasks. */
#include "base/buf.h"
#include "collective/net_groups.h"
#include "dist/job_numerics.h"
#include "dist/strategies.h"
#include "graph/op.h"
#include "net/transport_registry.h"

#include <meshflow/version.h>

#include <string.h>

enum {
    DEFAULT_TIMEOUT_MS = 60000,
    ALONE_AREA = 256 << 10, /* bytes of memory for a group of one */
};

mf_status mf_job_resolve(const mf_strategy_options *o, mf_cluster **out)
{
    return mf_cluster_resolve(&(mf_cluster_request){ .cluster = o->cluster,
                                                     .job_name = o->job_name,
                                                     .task_index = o->task_index,
                                                     .worker_hosts = o->worker_hosts,
                                                     .ps_hosts = o->ps_hosts,
                                                     .hostfile = o->hostfile,
                                                     .ps = o->ps },
                              out);
}

int64_t mf_job_timeout_ns(const mf_strategy_options *o)
{
    return 1000000 * (o->timeout_ms > 0 ? o->timeout_ms : DEFAULT_TIMEOUT_MS);
}

/* Properties that all tasks must share: otherwise results would differ in their bits, or be wrong.
 */
mf_status mf_job_identity(const mf_strategy_call *call, mf_buf *out)
{
    mf_buf_printf(out, "version=%s\nnumerics=%s\nstrategy=", MESHFLOW_VERSION,
                  mf_numerics_class(false));
    if (call->settings)
        mf_strategy_text(call->settings, out);
    else
        mf_buf_str(out, call->name);
    mf_buf_str(out, "\ncodec=");
    if (call->codecs)
        mf_codecs_text(call->codecs, out);
    mf_buf_printf(out, "\n%s", call->o->identity ? call->o->identity : "");
    return mf_buf_finish(out);
}

/* Names and addresses: the tasks that train together, then those of the role `others`. */
static mf_status list_tasks(const mf_strategy_call *call, mf_role others, mf_net_task *tasks,
                            const char **addresses, int n)
{
    const mf_cluster *c = call->cluster;

    for (int i = 0; i < n; i++) {
        const mf_cluster_task *t =
            i < c->size ? mf_cluster_rank(c, i) : mf_cluster_find(c, others, i - c->size);

        if (!t)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the cluster lists %d tasks, but not all that are needed; give every "
                           "task's address",
                           c->n_tasks);
        tasks[i].name = mf_arena_printf(call->arena, "%s %d", mf_role_name(t->role), t->index);
        tasks[i].address = addresses[i] = t->address;
        if (!tasks[i].name)
            return MF_NOMEM("tasks");
    }
    if (n == 1 && !addresses[0]) /* no other task connects: any port is good */
        tasks[0].address = addresses[0] = "127.0.0.1:0";
    if (!addresses[0])
        addresses[0] = c->rendezvous;
    return MF_OK;
}

/* A launcher numbered the processes, and some of them are on other hosts, or may be. */
static bool connect_tasks_spread(const mf_cluster *c)
{
    if (c->addresses || c->n_tasks < 2 || !c->rendezvous)
        return false;
    return c->local_size > 0 ? c->local_size < c->n_tasks : !mf_address_is_local(c->rendezvous);
}

mf_status mf_job_transport(const mf_strategy_call *call, const char *const *addresses, int n,
                           const char *self, mf_job_way *out)
{
    out->security.trusted = call->o->trusted_network;
    out->security.insecure_any_peer = call->o->insecure_any_peer;
    if (call->o->tls_dir)
        MF_TRY(mf_security_from_dir(call->o->tls_dir, self, &out->security, &out->paths));
    mf_security_fill(&out->security);
    if (call->o->transport)
        return mf_transport_find(call->o->transport, &out->transport);
    if (connect_tasks_spread(call->cluster))
        return mf_transport_find("grpc", &out->transport);
    return mf_transport_choose(addresses, n, &out->transport);
}

mf_status mf_job_connect_with(const mf_strategy_call *call, mf_role others, const int *hub,
                              mf_net **out)
{
    const mf_cluster *c = call->cluster;
    const int n = c->size + mf_cluster_count(c, others);
    const int self = c->rank >= 0 ? c->rank : c->size + mf_cluster_self(c)->index;
    mf_net_task *tasks = MF_ARENA_ARRAY(call->arena, mf_net_task, n);
    const char **addresses = MF_ARENA_ARRAY(call->arena, const char *, n);
    mf_net_options o = { .tasks = tasks,
                         .n_tasks = n,
                         .self = self,
                         .rendezvous = c->rendezvous,
                         .note = mf_job_numerics_note(),
                         .star = hub != NULL,
                         .hub = hub ? *hub : 0,
                         .timeout_ns = call->timeout_ns };
    mf_buf identity = { 0 };
    mf_job_way way = { 0 };
    mf_status st = tasks && addresses ? mf_job_identity(call, &identity) : MF_NOMEM("tasks");

    o.identity = identity.data;
    if (st == MF_OK)
        st = list_tasks(call, others, tasks, addresses, n);
    if (st == MF_OK)
        st = mf_job_transport(call, addresses, n, tasks[self].name, &way);
    o.transport = way.transport;
    o.security = way.security;
    if (st == MF_OK)
        st = mf_net_open(&o, out);
    if (st == MF_OK && !hub)
        mf_job_numerics_agree(*out, mf_job_numerics_common(*out));
    mf_free(way.paths);
    mf_buf_deinit(&identity);
    return st;
}

mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out)
{
    return mf_job_connect_with(call, MF_ROLE_PS, NULL, out);
}

mf_status mf_job_group_of(mf_net *net, const int *members, int n, uint32_t id, const char *how,
                          mf_group **out)
{
    const mf_algorithm *const *a = mf_algorithms;

    if (strcmp(how, "auto") == 0)
        return mf_group_auto(net, members, n, id, out);
    if (strcmp(how, "shared") == 0)
        return mf_group_host(net, members, n, id, out);
    while (*a && strcmp((*a)->name, how) != 0)
        a++;
    if (!*a && strcmp(how, "net") != 0)
        return MF_FAIL(MF_NOT_FOUND, "there is no collective '%s'", how);
    return mf_group_net(net, members, n, id, *a, out);
}

mf_status mf_job_group(const mf_strategy_call *call, mf_net *net, uint32_t id, mf_group **out)
{
    const int n = call->cluster->size;
    int *members = MF_ARENA_ARRAY(call->arena, int, n);

    *out = NULL;
    if (!members)
        return MF_NOMEM("workers");
    for (int i = 0; i < n; i++)
        members[i] = i;
    return mf_job_group_of(net, members, n, id, call->settings->collective, out);
}

mf_status mf_job_group_alone(mf_segment **memory, mf_group **out)
{
    static const char *const names[] = { "worker 0" };

    MF_TRY(mf_segment_new(1, ALONE_AREA, memory));
    return mf_group_shared(*memory, &(mf_group){ .rank = 0, .size = 1, .names = names }, out);
}
