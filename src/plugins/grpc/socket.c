/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c - finds the socket of a call, which gRPC does not expose.
 *
 * It is needed to find the owner of the peer, and to end a connection whose peer does not read any
 * more (gRPC can only wait, and meanwhile refers to the sender's memory). A duplicate descriptor
 * serves both: gRPC shuts its socket down when it closes it, so the duplicate keeps nothing open.
 */
#include "plugins/grpc/grpc_wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "ipv4:127.0.0.1:80", "ipv6:%5B::1%5D:80" */
static mf_status parse_peer(grpc_call *call, mf_endpoint *out)
{
    char *text = grpc_call_get_peer(call), plain[MF_ADDRESS_MAX];
    const char *p = text ? strchr(text, ':') : NULL;
    size_t n = 0;
    mf_status st;

    for (p = p ? p + 1 : ""; *p && n + 1 < sizeof plain; n++) {
        if (strncmp(p, "%5B", 3) == 0 || strncmp(p, "%5D", 3) == 0) {
            plain[n] = p[2] == 'B' ? '[' : ']';
            p += 3;
        } else {
            plain[n] = *p++;
        }
    }
    plain[n] = '\0';
    st = mf_endpoint_read(plain, out);
    gpr_free(text);
    return st;
}

static bool ends_of(int fd, mf_endpoint *theirs, mf_endpoint *ours)
{
    theirs->size = ours->size = sizeof ours->at;
    return getpeername(fd, (struct sockaddr *)&theirs->at, &theirs->size) == 0 &&
           getsockname(fd, (struct sockaddr *)&ours->at, &ours->size) == 0 &&
           (ours->at.ss_family == AF_INET || ours->at.ss_family == AF_INET6);
}

/* Properties of the socket. For an outgoing call, `ours` is the address that the peer reported
 * (NULL if NAT may have changed it). For an incoming call, it is the address where we listen:
 * another process may connect from the same address to another socket of ours. */
typedef struct grpc_socket_wanted {
    const mf_endpoint *theirs, *ours;
    bool listens; /* the port of `ours`; on any address of this host if that is 0 */
} grpc_socket_wanted;

static bool grpc_socket_is_here(const mf_endpoint *at, const grpc_socket_wanted *w)
{
    if (mf_endpoint_same(at, w->ours))
        return true;
    return w->listens && mf_endpoint_is_any(w->ours) &&
           mf_endpoint_port(at) == mf_endpoint_port(w->ours);
}

static bool grpc_socket_fits(int fd, const grpc_socket_wanted *w, mf_endpoint *ours)
{
    mf_endpoint remote;

    return ends_of(fd, &remote, ours) && mf_endpoint_same(&remote, w->theirs) &&
           (!w->ours || grpc_socket_is_here(ours, w));
}

/* TCP doubles its retransmission interval each time, so after ten seconds of partition a connection
 * could be idle for another ten. Once a second is cheap. Linux before 6.15 does not support this
 * and recovers later. */
static void send_again_soon(int fd)
{
#ifndef TCP_RTO_MAX_MS
    enum { TCP_RTO_MAX_MS = 44 };
#endif
    const int ms = 1000;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &ms, sizeof ms);
}

static ino_t socket_number(int fd)
{
    struct stat about;

    return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

/* The descriptor of the only matching socket; -1: none; -2: several. */
static int grpc_socket_find(DIR *dir, const grpc_socket_wanted *w, mf_endpoint *ours)
{
    const struct dirent *e;
    int found = -1;

    while ((e = readdir(dir)) != NULL) {
        char *end;
        const int fd = (int)strtol(e->d_name, &end, 10);
        mf_endpoint at;

        if (*end != '\0' || end == e->d_name || !grpc_socket_fits(fd, w, &at))
            continue;
        if (found >= 0 && socket_number(fd) != socket_number(found))
            return -2;
        found = fd;
        *ours = at;
    }
    return found;
}

/* *out is -1 and becomes a duplicate descriptor. */
static mf_status grpc_socket_claim(const grpc_socket_wanted *w, mf_endpoint *ours, int *out)
{
    DIR *dir = opendir("/proc/self/fd");
    char text[MF_ADDRESS_MAX];
    int fd;

    if (!dir)
        return MF_FAIL(MF_INTERNAL, "cannot read /proc/self/fd: %s", strerror(errno));
    fd = grpc_socket_find(dir, w, ours);
    if (fd >= 0)
        *out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    (void)closedir(dir);
    mf_endpoint_print(w->theirs, text);
    if (fd == -2)
        return MF_FAIL(MF_PERMISSION_DENIED, "cannot distinguish several connections from %s",
                       text);
    if (*out < 0)
        return MF_FAIL(MF_UNAVAILABLE, "the connection has ended");
    send_again_soon(*out);
    return MF_OK;
}

mf_status socket_claim(stream *s, mf_endpoint *theirs, mf_endpoint *ours)
{
    grpc_socket_wanted w = { .theirs = theirs };
    mf_endpoint told;

    MF_TRY(parse_peer(s->call, theirs));
    if (!s->channel) {
        mf_endpoint_print(theirs, s->seen_at);
        w.ours = &s->t->at;
        w.listens = true;
        return grpc_socket_claim(&w, ours, &s->fd);
    }
    if (mf_endpoint_read(s->seen_at, &told) == MF_OK) {
        w.ours = &told;
        if (grpc_socket_claim(&w, ours, &s->fd) == MF_OK)
            return MF_OK;
    }
    w.ours = NULL;
    return grpc_socket_claim(&w, ours, &s->fd);
}

mf_status socket_of_caller(grpc_call *call, const mf_endpoint *at, mf_endpoint *theirs,
                           mf_endpoint *ours, int *fd)
{
    *fd = -1;
    MF_TRY(parse_peer(call, theirs));
    return grpc_socket_claim(&(grpc_socket_wanted){ theirs, at, true }, ours, fd);
}

void socket_release(stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}
