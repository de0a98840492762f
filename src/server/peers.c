/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h. */
#include "server/peers.h"

#include "base/mem.h"

#include <pthread.h>

struct mf_peers {
    const mf_rpc_kind *rpc;
    const mf_server_tasks *tasks;
    mf_security security;
    pthread_mutex_t lock;
    mf_caller **callers; /* by task; NULL: nobody has asked it; guarded by lock */
};

static char *copy(const char *s)
{
    return s ? mf_strdup(s) : NULL;
}

mf_status mf_peers_new(const mf_rpc_kind *rpc, const mf_server_tasks *tasks,
                       const mf_security *security, mf_peers **out)
{
    mf_peers *p = mf_calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return MF_NOMEM("tasks");
    p->rpc = rpc;
    p->tasks = tasks;
    p->security = *security;
    p->security.ca = copy(security->ca);
    p->security.cert = copy(security->cert);
    p->security.key = copy(security->key);
    p->callers = mf_calloc(tasks->n, sizeof(mf_caller *));
    pthread_mutex_init(&p->lock, NULL);
    if (!p->callers || !p->security.ca != !security->ca || !p->security.cert != !security->cert ||
        !p->security.key != !security->key) {
        mf_peers_free(p);
        return MF_NOMEM("tasks");
    }
    *out = p;
    return MF_OK;
}

void mf_peers_free(mf_peers *p)
{
    if (!p)
        return;
    for (int i = 0; p->callers && i < p->tasks->n; i++)
        mf_caller_free(p->callers[i]);
    mf_free(p->callers);
    mf_free((char *)(uintptr_t)p->security.ca);
    mf_free((char *)(uintptr_t)p->security.cert);
    mf_free((char *)(uintptr_t)p->security.key);
    pthread_mutex_destroy(&p->lock);
    mf_free(p);
}

mf_status mf_peers_caller(mf_peers *p, int task, mf_caller **out)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&p->lock);
    if (!p->callers[task])
        st = mf_caller_new(p->rpc, p->tasks->all[task].address, &p->security, &p->callers[task]);
    *out = p->callers[task];
    pthread_mutex_unlock(&p->lock);
    return st;
}
