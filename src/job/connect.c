/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c - from the description of a cluster to tasks that are connected with each other. */
#include "base/buf.h"
#include "graph/op.h"
#include "job/strategies.h"

#include <meshflow/version.h>

/* What all must have in common: else bits, or worse, would differ. */
static mf_status write_identity(const mf_strategy_call *call, mf_buf *out)
{
    mf_buf_printf(out, "version=%s\nnumerics=%s\nstrategy=%s\n%s", MESHFLOW_VERSION,
                  mf_numerics_class(), call->text, call->o->identity ? call->o->identity : "");
    return mf_buf_finish(out);
}

mf_status mf_job_connect(const mf_strategy_call *call, mf_net **out)
{
    const mf_cluster *c = call->cluster;
    mf_net_task *tasks = MF_ARENA_ARRAY(call->arena, mf_net_task, c->size);
    mf_buf identity = { 0 };
    mf_status st = tasks ? write_identity(call, &identity) : MF_NOMEM("tasks");

    for (int i = 0; st == MF_OK && i < c->size; i++) {
        const mf_cluster_task *t = mf_cluster_rank(c, i);

        tasks[i].name = mf_arena_printf(call->arena, "%s %d", mf_role_name(t->role), t->index);
        tasks[i].address = t->address;
        if (!tasks[i].name)
            st = MF_NOMEM("tasks");
    }
    if (st == MF_OK)
        st = mf_net_open(&(mf_net_options){ .tasks = tasks,
                                            .n_tasks = c->size,
                                            .self = c->rank,
                                            .rendezvous = c->rendezvous,
                                            .identity = identity.data,
                                            .timeout_ns = call->timeout_ns },
                         out);
    mf_buf_deinit(&identity);
    return st;
}
