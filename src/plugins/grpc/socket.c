/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c - the socket of a call, which gRPC does not tell.
 *
 * It is needed twice: to see whose process is at the other end, and to end a connection whose peer
 * does not read any more (gRPC can only wait until it does, and holds on to the sender's memory as
 * long). A second descriptor of the socket does both: gRPC shuts its own down when it closes it, so
 * ours keeps nothing open. */
#include "plugins/grpc/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
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

/* Is it the one? For a call of ours, the other side has told the address that we have for it; if a
 * router has changed that on the way, only where we called is known. */
static bool fits(int fd, const mf_endpoint *theirs, const mf_endpoint *told, mf_endpoint *ours)
{
    mf_endpoint remote;

    return ends_of(fd, &remote, ours) && mf_endpoint_same(&remote, theirs) &&
           (!told || mf_endpoint_same(ours, told));
}

/* TCP waits twice as long each time before it sends something again, so after a link was cut for
 * ten seconds nothing may go on for another ten. Once a second is often enough not to be a burden.
 * Linux before 6.15 does not know this, and goes on later. */
static void send_again_soon(int fd)
{
#ifndef TCP_RTO_MAX_MS
    enum { TCP_RTO_MAX_MS = 44 };
#endif
    const int ms = 1000;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &ms, sizeof ms);
}

/* *out is -1 and becomes another descriptor of it. */
static mf_status claim(const mf_endpoint *theirs, const mf_endpoint *told, mf_endpoint *ours,
                       int *out)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;

    if (!dir)
        return MF_FAIL(MF_INTERNAL, "cannot read /proc/self/fd: %s", strerror(errno));
    while (*out < 0 && (e = readdir(dir)) != NULL) {
        char *end;
        const int fd = (int)strtol(e->d_name, &end, 10);

        if (*end == '\0' && end != e->d_name && fits(fd, theirs, told, ours))
            *out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    (void)closedir(dir);
    if (*out >= 0)
        send_again_soon(*out);
    return *out >= 0 ? MF_OK : MF_FAIL(MF_UNAVAILABLE, "the connection is over already");
}

mf_status socket_claim(stream *s, mf_endpoint *theirs, mf_endpoint *ours)
{
    mf_endpoint told;

    MF_TRY(parse_peer(s->call, theirs));
    if (!s->channel)
        mf_endpoint_print(theirs, s->seen_at);
    else if (mf_endpoint_read(s->seen_at, &told) == MF_OK &&
             claim(theirs, &told, ours, &s->fd) == MF_OK)
        return MF_OK;
    return claim(theirs, NULL, ours, &s->fd);
}

mf_status socket_of_caller(grpc_call *call, mf_endpoint *theirs, mf_endpoint *ours, int *fd)
{
    *fd = -1;
    MF_TRY(parse_peer(call, theirs));
    return claim(theirs, NULL, ours, fd);
}

void socket_release(stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}
