/* SPDX-License-Identifier: Apache-2.0 */
/* exec_plan.c - the cached plan of a run: partitions registered with the tasks of a session. */
#include "tf_server/exec_plan.h"

#include "graph/graphdef_codec.h"
#include "proto/worker.pb-c.h"
#include "rpc/rpc_stub.h"
#include "runtime/session.h"
#include "tf_server/graph_partition.h"

#include <string.h>

/* ---- the parts of other tasks ---- */

static mf_status register_part(mf_exec_plan *l, const mf_exec_plan_options *o, int task,
                               const mf_graph *graph)
{
    Tensorflow__RegisterGraphRequest request = TENSORFLOW__REGISTER_GRAPH_REQUEST__INIT;
    Tensorflow__ConfigExperimental more = TENSORFLOW__CONFIG_EXPERIMENTAL__INIT;
    Tensorflow__ConfigProto config = TENSORFLOW__CONFIG_PROTO__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/RegisterGraph",
                                 .message = &request.base,
                                 .reply = &tensorflow__register_graph_response__descriptor,
                                 .cancel = o->cancel };
    mf_arena *arena = mf_arena_new();
    ProtobufCMessage *reply;
    mf_status st = arena ? MF_OK : MF_NOMEM("a graph");

    request.session_handle = (char *)(uintptr_t)o->session;
    request.create_worker_session_called = true;
    request.collective_graph_key = l->collectives.key;
    more.collective_group_leader = (char *)(uintptr_t)o->workers->server->tasks.all[o->leader].name;
    config.experimental = &more;
    request.config_proto = &config;
    if (st == MF_OK)
        st = mf_graph_encode_message(graph, arena, &request.graph_def);
    if (st == MF_OK)
        st = mf_server_ask(o->workers->server, task, &q, arena, &reply);
    if (st == MF_OK) {
        const Tensorflow__RegisterGraphResponse *answer =
            (const Tensorflow__RegisterGraphResponse *)reply;
        char *handle = mf_arena_strdup(l->arena, answer->graph_handle);

        l->parts[l->n_parts++] = (mf_exec_plan_part){ task, handle };
        st = handle ? MF_OK : MF_NOMEM("a graph");
    }
    mf_arena_free(arena);
    return st;
}

/* ---- the local part ---- */

static bool is_fed(const mf_graph_partition *p, const char *name)
{
    const size_t n = strlen(name);

    for (int i = 0; i < p->n_feeds; i++) {
        if (strncmp(p->feeds[i], name, n) == 0 && p->feeds[i][n] == ':')
            return true;
    }
    return false;
}

/* Nodes without consumers are targets; feeds are not. */
static mf_status exec_plan_find_targets(mf_exec_plan *l, const mf_graph_partition *p,
                                        const mf_graph *g)
{
    int n, left = 0;

    MF_TRY(mf_graph_ends(g, l->arena, &l->targets, &n));
    for (int i = 0; i < n; i++) {
        if (!is_fed(p, l->targets[i]))
            l->targets[left++] = l->targets[i];
    }
    l->n_targets = left;
    return MF_OK;
}

static mf_status make_own(mf_exec_plan *l, const mf_exec_plan_options *o,
                          const mf_graph_partition *p)
{
    const mf_server *s = o->workers->server;
    const mf_graph *graph = p->parts[s->tasks.self];
    const mf_session_options so = { .allow_dirs = (const char *const *)s->allow_dirs,
                                    .n_allow_dirs = s->n_allow_dirs };
    const mf_session_shared shared = { .pool = s->pool,
                                       .resources = o->resources ? o->resources : s->resources,
                                       .node_state = o->node_state };

    l->n_feeds = p->n_feeds;
    l->n_fetches = p->n_fetches;
    l->feeds = mf_arena_strings(l->arena, p->feeds, p->n_feeds);
    l->fetches = mf_arena_strings(l->arena, p->fetches, p->n_fetches);
    if (!l->feeds || !l->fetches)
        return MF_NOMEM("a graph");
    MF_TRY(exec_plan_find_targets(l, p, graph));
    return mf_session_new_shared(graph, &so, &shared, &l->own);
}

/* ---- all parts ---- */

static mf_status exec_plan_make_parts(mf_exec_plan *l, const mf_exec_plan_options *o,
                                      const mf_graph_partition *p)
{
    const int self = o->workers->server->tasks.self;
    bool alone = true;

    for (int i = 0; i < p->n_tasks; i++)
        alone = alone && (i == self || !p->parts[i]);
    if (alone && !o->gradual)
        return MF_OK;
    l->parts = MF_ARENA_ARRAY(l->arena, mf_exec_plan_part, p->n_tasks);
    if (!l->parts)
        return MF_NOMEM("a graph");
    for (int i = 0; i < p->n_tasks; i++) {
        if (i != self && p->parts[i])
            MF_TRY(register_part(l, o, i, p->parts[i]));
    }
    return make_own(l, o, p);
}

static mf_status exec_plan_cut(mf_exec_plan *l, const mf_run_names *names,
                               const mf_exec_plan_options *o)
{
    const mf_server_tasks *t = &o->workers->server->tasks;
    const mf_graph_partition_options po = { .task = o->task,
                                            .n_tasks = t->n,
                                            .self = t->self,
                                            .devices = o->workers->devices,
                                            .incarnations = o->workers->incarnations,
                                            .gradual = o->gradual };
    mf_graph_partition p = { 0 };
    mf_signature sig;
    mf_status st;

    MF_TRY(mf_signature_find(o->graph, names, l->arena, &sig));
    st = mf_graph_partition_make(o->graph, &sig, &po, &p);
    if (st == MF_OK)
        st = mf_collectives_find(p.parts, p.n_tasks, &l->collectives);
    if (st == MF_OK)
        st = exec_plan_make_parts(l, o, &p);
    mf_graph_partition_deinit(&p);
    return st;
}

mf_status mf_exec_plan_make(const mf_run_names *names, const mf_exec_plan_options *o,
                            mf_exec_plan **out)
{
    mf_exec_plan *l = mf_calloc(1, sizeof *l);
    mf_status st;
    mf_error why;

    *out = NULL;
    if (!l)
        return MF_NOMEM("a graph");
    l->leader = o->leader;
    l->arena = mf_arena_new();
    st = l->arena ? exec_plan_cut(l, names, o) : MF_NOMEM("a graph");
    if (st == MF_OK) {
        *out = l;
        return MF_OK;
    }
    mf_error_save(st, &why);
    mf_exec_plan_free(l, o->workers, o->session);
    return mf_error_restore(&why);
}

void mf_exec_plan_free(mf_exec_plan *l, const mf_session_workers *workers, const char *session)
{
    Tensorflow__DeregisterGraphRequest request = TENSORFLOW__DEREGISTER_GRAPH_REQUEST__INIT;

    request.session_handle = (char *)(uintptr_t)session;
    request.create_worker_session_called = true;
    for (int i = 0; workers->is_created && i < l->n_parts; i++) {
        request.graph_handle = l->parts[i].graph;
        if (l->parts[i].graph)
            mf_server_notify(workers->server, l->parts[i].task,
                             "/tensorflow.WorkerService/DeregisterGraph", &request.base,
                             &tensorflow__deregister_graph_response__descriptor);
    }
    mf_session_free(l->own);
    mf_arena_free(l->arena);
    mf_free(l);
}
