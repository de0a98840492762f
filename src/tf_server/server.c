/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - starts and stops a server. */
#include "tf_server/server.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/quota.h"
#include "net/transport_registry.h"
#include "rpc/inproc_rpc.h"
#include "rpc/uds_rpc.h"
#include "runtime/rendezvous_table.h"
#include "tensor/buffer.h"
#include "tf_server/group_leader.h"
#include "tf_server/master.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/step_sequence.h"
#include "tf_server/worker.h"

#include <stdio.h>
#include <string.h>

MF_PARAM_INT(server_sessions, 1000,
             "maximum number of sessions of clients and masters on a server");

static mf_status server_copy_dirs(mf_server *s, const mf_server_options *o)
{
    s->allow_dirs = mf_calloc(o->n_allow_dirs, sizeof *s->allow_dirs);
    if (!s->allow_dirs && o->n_allow_dirs > 0)
        return MF_NOMEM("a server");
    for (int i = 0; i < o->n_allow_dirs; i++) {
        s->allow_dirs[i] = mf_strdup(o->allow_dirs[i]);
        if (!s->allow_dirs[i])
            return MF_NOMEM("a server");
        s->n_allow_dirs++;
    }
    return MF_OK;
}

/* ---- opening and closing ---- */

void mf_server_clear(mf_server *s, const char *const *containers, int n)
{
    for (int i = 0; i < n; i++)
        mf_resources_clear(s->resources, containers[i]);
    if (n == 0)
        mf_resources_clear(s->resources, "");
}

mf_status mf_server_check_sessions(const mf_server *s, int64_t count)
{
    if (count < MF_PARAM(server_sessions))
        return MF_OK;
    return MF_FAIL(
        MF_RESOURCE_EXHAUSTED,
        "%s already has %lld sessions: close some, or all with Session.reset(), or raise "
        "server_sessions",
        mf_server_self(s)->name, (long long)count);
}

/* Optional: callers fall back to gRPC. */
static void listen_near(mf_server *s, const mf_rpc_server_options *rpc)
{
    mf_rpc_server_options uds = *rpc;

    uds.address = s->rpc->address(s->listening);
    mf_shared_region_open();
    if (mf_rpc_local.serve(&uds, &s->uds) != MF_OK)
        MF_INFO("tasks of this host use gRPC: %s", mf_error_message());
}

static mf_status server_listen_there(mf_server *s, const mf_server_options *o)
{
    mf_rpc_server_options rpc = { .address = mf_server_self(s)->address,
                                  .service = &mf_server_service,
                                  .memory = (size_t)mf_quota_room(),
                                  .ctx = s };
    char *memory = NULL, task[100];
    mf_status st = MF_OK;

    (void)snprintf(task, sizeof task, "%s %d", mf_server_self(s)->job, mf_server_self(s)->index);
    rpc.security.insecure_any_peer = o->insecure_any_peer;
    if (o->tls_dir)
        st = mf_security_from_dir(o->tls_dir, task, &rpc.security, &memory);
    else
        mf_security_fill(&rpc.security);
    if (st == MF_OK)
        st = mf_peer_tasks_new(s->rpc, &s->tasks, &rpc.security, &s->peers);
    if (st == MF_OK)
        st = s->rpc->serve(&rpc, &s->listening);
    if (st == MF_OK)
        st = mf_server_tasks_move(&s->tasks, s->tasks.self, s->rpc->address(s->listening));
    if (st == MF_OK && s->rpc != &mf_rpc_inproc && mf_server_is_local(&rpc.security)) {
        rpc.address = mf_server_self(s)->address;
        listen_near(s, &rpc);
    }
    mf_free(memory);
    MF_TRY(st);
    (void)snprintf(s->target, sizeof s->target, "%s%s", s->rpc == &mf_rpc_inproc ? "" : "grpc://",
                   mf_server_self(s)->address);
    return MF_OK;
}

static mf_status server_open_all(mf_server *s, const mf_server_options *o)
{
    if (o->memory > 0)
        mf_quota_set(o->memory);
    MF_TRY(mf_server_tasks_read(o->cluster, o->job_name, o->task_index, &s->tasks));
    MF_TRY(server_copy_dirs(s, o));
    MF_TRY(mf_pool_new(o->threads, &s->pool));
    MF_TRY(mf_resources_new(&s->resources));
    do
        s->incarnation = mf_random_seed();
    while (s->incarnation == 0);
    MF_TRY(mf_rendezvous_tables_new(&s->tables));
    MF_TRY(mf_group_leader_new(&s->tasks, &s->groups));
    MF_TRY(mf_step_sequences_new(&s->sequences));
    MF_TRY(mf_worker_partials_new(s, &s->partials));
    MF_TRY(mf_worker_service_new(s, &s->workings));
    MF_TRY(mf_clients_new(s, &s->clients));
    return server_listen_there(s, o);
}

mf_status mf_server_open(const mf_server_options *options, const mf_rpc_kind *rpc, mf_server **out)
{
    const mf_server_options none = { 0 };
    mf_server *s = mf_calloc(1, sizeof *s);
    mf_status st;
    mf_error why;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a server");
    s->rpc = rpc;
    pthread_mutex_init(&s->lock, NULL);
    mf_cond_init(&s->changed);
    st = server_open_all(s, options ? options : &none);
    if (st == MF_OK) {
        *out = s;
        return MF_OK;
    }
    mf_error_save(st, &why);
    mf_server_free(s);
    return mf_error_restore(&why);
}

mf_status mf_server_new(const mf_server_options *options, mf_server **out)
{
    MF_ENTRY;
    MF_NEED(out);
    if (options)
        MF_NEED_ALL(options->allow_dirs, options->n_allow_dirs);

    const mf_rpc_kind *rpc = &mf_rpc_inproc;

    *out = NULL;
    if (!options || !options->inside)
        MF_TRY(mf_rpc_find(&rpc));
    return mf_server_open(options, rpc, out);
}

const char *mf_server_target(const mf_server *server)
{
    return server ? server->target : NULL;
}

void mf_server_join(mf_server *server)
{
    MF_ENTRY_OR();
    if (!server)
        return;

    pthread_mutex_lock(&server->lock);
    while (!server->stopped)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

void mf_server_stop(mf_server *server)
{
    MF_ENTRY_OR();
    if (!server)
        return;

    pthread_mutex_lock(&server->lock);
    server->stopped = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void mf_server_free(mf_server *server)
{
    MF_ENTRY_OR();

    if (!server)
        return;
    if (server->uds)
        mf_rpc_local.stop(server->uds);
    if (server->listening)
        server->rpc->stop(server->listening);
    if (server->clients)
        mf_clients_free(server->clients);
    mf_worker_service_free(server->workings);
    mf_worker_partials_free(server->partials);
    mf_peer_tasks_free(server->peers);
    mf_group_leader_free(server->groups);
    mf_step_sequences_free(server->sequences);
    mf_rendezvous_tables_free(server->tables);
    mf_resources_free(server->resources);
    mf_pool_free(server->pool);
    for (int i = 0; i < server->n_allow_dirs; i++)
        mf_free(server->allow_dirs[i]);
    mf_free(server->allow_dirs);
    mf_server_tasks_deinit(&server->tasks);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    mf_free(server);
}
