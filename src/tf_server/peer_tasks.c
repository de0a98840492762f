/* SPDX-License-Identifier: Apache-2.0 */
/* peer_tasks.c - RPC stubs for the other tasks of a cluster, created at their first use. */
#include "tf_server/peer_tasks.h"

#include "base/mem.h"
#include "base/param.h"
#include "rpc/inproc_rpc.h"
#include "rpc/uds_rpc.h"

#include <pthread.h>

struct mf_peer_tasks {
    const mf_rpc_kind *rpc;
    const mf_server_tasks *tasks;
    mf_security security;
    pthread_mutex_t lock;
    bool local; /* tasks of this host are called through Unix sockets */
    mf_rpc_stub **callers; /* by task; NULL: not called yet; guarded by lock */
    mf_rpc_stub **uds; /* the same, through Unix sockets */
};

MF_PARAM_INT(server_uds, 1,
             "1: tasks of one host and user call each other through Unix sockets; 0: always gRPC");

bool mf_server_is_local(const mf_security *security)
{
    return MF_PARAM(server_uds) != 0 && !security->ca;
}

static char *peer_tasks_copy(const char *s)
{
    return s ? mf_strdup(s) : NULL;
}

mf_status mf_peer_tasks_new(const mf_rpc_kind *rpc, const mf_server_tasks *tasks,
                            const mf_security *security, mf_peer_tasks **out)
{
    mf_peer_tasks *p = mf_calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return MF_NOMEM("tasks");
    p->rpc = rpc;
    p->tasks = tasks;
    p->security = *security;
    p->security.ca = peer_tasks_copy(security->ca);
    p->security.cert = peer_tasks_copy(security->cert);
    p->security.key = peer_tasks_copy(security->key);
    p->local = rpc != &mf_rpc_inproc && mf_server_is_local(security);
    p->callers = mf_calloc(tasks->n, sizeof(mf_rpc_stub *));
    p->uds = mf_calloc(tasks->n, sizeof(mf_rpc_stub *));
    pthread_mutex_init(&p->lock, NULL);
    if (!p->callers || !p->uds || !p->security.ca != !security->ca ||
        !p->security.cert != !security->cert || !p->security.key != !security->key) {
        mf_peer_tasks_free(p);
        return MF_NOMEM("tasks");
    }
    *out = p;
    return MF_OK;
}

void mf_peer_tasks_free(mf_peer_tasks *p)
{
    if (!p)
        return;
    for (int i = 0; p->callers && p->uds && i < p->tasks->n; i++) {
        mf_rpc_stub_free(p->callers[i]);
        mf_rpc_stub_free(p->uds[i]);
    }
    mf_free(p->callers);
    mf_free(p->uds);
    mf_free((char *)(uintptr_t)p->security.ca);
    mf_free((char *)(uintptr_t)p->security.cert);
    mf_free((char *)(uintptr_t)p->security.key);
    pthread_mutex_destroy(&p->lock);
    mf_free(p);
}

/* The caller holds the lock. */
static mf_status peer_tasks_find(mf_peer_tasks *p, mf_rpc_stub **callers, const mf_rpc_kind *rpc,
                                 int task, mf_rpc_stub **out)
{
    mf_status st = MF_OK;

    if (!callers[task])
        st = mf_rpc_stub_new(rpc, p->tasks->all[task].address, &p->security, &callers[task]);
    *out = callers[task];
    return st;
}

mf_status mf_peer_tasks_caller(mf_peer_tasks *p, int task, mf_rpc_stub **out)
{
    mf_status st = MF_OK;

    *out = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->local)
        st = peer_tasks_find(p, p->uds, &mf_rpc_local, task, out);
    if (st == MF_OK && (!*out || !mf_rpc_stub_reaches(*out)))
        st = peer_tasks_find(p, p->callers, p->rpc, task, out);
    pthread_mutex_unlock(&p->lock);
    return st;
}
