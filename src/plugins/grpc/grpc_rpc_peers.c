/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_rpc_peers.c - checks callers. Finding the socket of a call and its owner is slow, so it is
 * done once per connection, and the result, also a refusal, is cached. A duplicate descriptor of
 * the socket is kept with the result: as long as it is connected with that address, no other
 * process can have the address. */
#include "base/log.h"
#include "base/mem.h"
#include "plugins/grpc/grpc_rpc.h"

#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct rpc_peer {
    char name[MF_ADDRESS_MAX]; /* gRPC's name of the peer */
    int fd;
    mf_status verdict;
    char why[200]; /* refused */
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

/* The caller holds the lock. */
static void grpc_rpc_peers_sweep(rpc_peers *p)
{
    for (int i = p->n - 1; i >= 0; i--) {
        if (is_connected(p->all[i].fd))
            continue;
        close(p->all[i].fd);
        p->all[i] = p->all[--p->n];
    }
}

void rpc_peers_sweep(rpc_peers *p)
{
    pthread_mutex_lock(&p->lock);
    grpc_rpc_peers_sweep(p);
    pthread_mutex_unlock(&p->lock);
}

/* Returns false if it is not cached. */
static bool grpc_rpc_peers_is_known(rpc_peers *p, const char *name, mf_status *verdict)
{
    bool known = false;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n && !known; i++) {
        const struct rpc_peer *at = &p->all[i];

        known = strcmp(at->name, name) == 0 && is_connected(at->fd);
        if (known)
            *verdict = at->verdict == MF_OK ? MF_OK : MF_FAIL(at->verdict, "%s", at->why);
    }
    pthread_mutex_unlock(&p->lock);
    return known;
}

static bool grpc_rpc_peers_make_room(rpc_peers *p)
{
    const int cap = p->cap > 0 ? 2 * p->cap : 16;
    struct rpc_peer *all;

    if (p->n < p->cap)
        return true;
    all = mf_calloc(cap, sizeof *all);
    if (!all)
        return false;
    if (p->n > 0)
        memcpy(all, p->all, (size_t)p->n * sizeof *all);
    mf_free(p->all);
    p->all = all;
    p->cap = cap;
    return true;
}

/* Takes ownership of the descriptor. Without memory the check is repeated next time. */
static void grpc_rpc_peers_remember(rpc_peers *p, const char *name, int fd, mf_status verdict)
{
    pthread_mutex_lock(&p->lock);
    grpc_rpc_peers_sweep(p);
    if (strlen(name) < MF_ADDRESS_MAX && grpc_rpc_peers_make_room(p)) {
        struct rpc_peer *at = &p->all[p->n++];

        *at = (struct rpc_peer){ .fd = fd, .verdict = verdict };
        memcpy(at->name, name, strlen(name) + 1);
        if (verdict != MF_OK)
            (void)snprintf(at->why, sizeof at->why, "%s", mf_error_message());
        fd = -1;
    }
    pthread_mutex_unlock(&p->lock);
    if (fd >= 0)
        close(fd);
}

static mf_status grpc_rpc_peers_identify(rpc_peers *p, const mf_security *security,
                                         const mf_endpoint *at, grpc_call *call, const char *name)
{
    mf_endpoint theirs, ours;
    mf_status st = MF_OK;
    int fd;

    MF_TRY(socket_of_caller(call, at, &theirs, &ours, &fd));
    if (!security->insecure_any_peer || mf_endpoint_is_loopback(&theirs))
        st = mf_endpoint_check_owner(&theirs, &ours);
    if (st != MF_OK)
        MF_WARN("calls refused: %s", mf_error_message());
    if (mf_endpoint_is_any(at)) /* a name may refer to several connections */
        close(fd);
    else
        grpc_rpc_peers_remember(p, name, fd, st);
    return st;
}

mf_status rpc_peers_check(rpc_peers *p, const mf_security *security, const mf_endpoint *at,
                          grpc_call *call)
{
    mf_status st;
    char *name;

    if (mf_security_has_tls(security)) /* with TLS, peers unknown to the authority cannot connect */
        return MF_OK;
    name = grpc_call_get_peer(call);
    if (!name || !grpc_rpc_peers_is_known(p, name, &st))
        st = grpc_rpc_peers_identify(p, security, at, call, name ? name : "");
    gpr_free(name);
    return st;
}
