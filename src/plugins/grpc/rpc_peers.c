/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_peers.c - who calls? Finding the socket of a call and its owner takes a while, so it is done
 * once for a connection. A descriptor of the socket is kept beside the answer: as long as it is
 * connected with that address, nobody else can be there. */
#include "base/mem.h"
#include "plugins/grpc/rpc.h"

#include <grpc/support/alloc.h>
#include <string.h>
#include <unistd.h>

struct rpc_peer {
    char name[MF_ADDRESS_MAX]; /* gRPC's */
    int fd;
};

void rpc_peers_init(rpc_peers *p)
{
    pthread_mutex_init(&p->lock, NULL);
}

void rpc_peers_deinit(rpc_peers *p)
{
    for (int i = 0; i < p->n; i++)
        close(p->all[i].fd);
    mf_free(p->all);
    pthread_mutex_destroy(&p->lock);
}

static bool is_connected(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;

    return getpeername(fd, (struct sockaddr *)&at, &size) == 0;
}

static void sweep(rpc_peers *p)
{
    for (int i = p->n - 1; i >= 0; i--) {
        if (is_connected(p->all[i].fd))
            continue;
        close(p->all[i].fd);
        p->all[i] = p->all[--p->n];
    }
}

static bool is_known(rpc_peers *p, const char *name)
{
    bool known = false;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n && !known; i++)
        known = strcmp(p->all[i].name, name) == 0 && is_connected(p->all[i].fd);
    pthread_mutex_unlock(&p->lock);
    return known;
}

/* Takes the descriptor over. Where there is no memory it is looked for again next time. */
static void remember(rpc_peers *p, const char *name, int fd)
{
    pthread_mutex_lock(&p->lock);
    sweep(p);
    if (p->n == p->cap) {
        const int cap = p->cap > 0 ? 2 * p->cap : 16;
        struct rpc_peer *all = mf_calloc(cap, sizeof *all);

        if (all && p->n > 0)
            memcpy(all, p->all, (size_t)p->n * sizeof *all);
        if (all) {
            mf_free(p->all);
            p->all = all;
            p->cap = cap;
        }
    }
    if (p->n < p->cap && strlen(name) < MF_ADDRESS_MAX) {
        memcpy(p->all[p->n].name, name, strlen(name) + 1);
        p->all[p->n++].fd = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&p->lock);
    if (fd >= 0)
        close(fd);
}

static mf_status look(rpc_peers *p, const mf_security *security, grpc_call *call, const char *name)
{
    mf_endpoint theirs, ours;
    mf_status st = MF_OK;
    int fd;

    MF_TRY(socket_of_caller(call, &theirs, &ours, &fd));
    if (!security->insecure_any_peer || mf_endpoint_is_loopback(&theirs))
        st = mf_endpoint_check_owner(&theirs, &ours);
    if (st == MF_OK)
        remember(p, name, fd);
    else
        close(fd);
    return st;
}

mf_status rpc_peers_check(rpc_peers *p, const mf_security *security, grpc_call *call)
{
    mf_status st = MF_OK;
    char *name;

    if (mf_security_has_tls(security)) /* whoever is not known to the authority comes nowhere */
        return MF_OK;
    name = grpc_call_get_peer(call);
    if (!name || !is_known(p, name))
        st = look(p, security, call, name ? name : "");
    gpr_free(name);
    return st;
}
