/* SPDX-License-Identifier: Apache-2.0 */
/* uds_socket.c - Unix sockets: names, peer credentials, reads and writes with deadlines. */
#include "net/uds_socket.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

socklen_t mf_uds_name(const char *address, struct sockaddr_un *out)
{
    const int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "meshflow-%u-%s",
                           (unsigned)geteuid(), address);

    out->sun_family = AF_UNIX;
    out->sun_path[0] = '\0';
    if (n < 0 || (size_t)n >= sizeof out->sun_path - 1)
        return 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

mf_status mf_uds_check_user(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid())
        return MF_FAIL(MF_PERMISSION_DENIED, "the peer is a process of another user");
    return MF_OK;
}

enum {
    LOOK_MS = 20, /* interval of checks while a write is blocked */
    FINISH_NS = 200000000, /* time for a frame in flight to complete after a failure */
};

static mf_status uds_socket_check(mf_uds_writer *w)
{
    const mf_status st = w->inbox->kind->waits(w->inbox, w->peer, w->frame);

    if (st == MF_OK || !w->begun)
        return st;
    if (w->give_up_ns == 0)
        w->give_up_ns = mf_clock_ns() + FINISH_NS;
    return mf_clock_ns() < w->give_up_ns ? MF_OK : st;
}

static mf_status uds_socket_wait_for(int fd, short events, int64_t deadline_ns, mf_uds_writer *w)
{
    for (;;) {
        const int64_t left = deadline_ns > 0 ? (deadline_ns - mf_clock_ns()) / 1000000 : LOOK_MS;
        struct pollfd p = { .fd = fd, .events = events };

        if (deadline_ns > 0 && left <= 0)
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
        if (poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS) > 0)
            return MF_OK;
        if (w)
            MF_TRY(uds_socket_check(w));
    }
}

/* The peer may wait until this task reads. False: it is time to sleep. */
static bool uds_socket_poll(mf_uds_writer *w)
{
    if (!w || !w->polled)
        return false;
    if (w->polls == 0)
        w->limit = mf_spin_limit(w->spin, MF_TRANSPORT_POLLS_LEAST, w->polled->polls);
    if (w->polls++ < w->limit) {
        (void)w->polled->kind->poll(w->polled);
        return true;
    }
    mf_spin_learn(w->spin, w->polls, false);
    w->polls = 0;
    w->polled->kind->end_poll(w->polled);
    return false;
}

static void uds_socket_wrote(mf_uds_writer *w)
{
    w->begun = true;
    if (w->polls > 0)
        mf_spin_learn(w->spin, w->polls, true);
    w->polls = 0;
}

mf_status mf_uds_write(int fd, struct iovec *at, int n, int64_t deadline_ns, mf_uds_writer *w)
{
    while (n > 0) {
        const struct msghdr m = { .msg_iov = at, .msg_iovlen = (size_t)n };
        ssize_t done = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (done < 0 && errno == EAGAIN) {
            if (!uds_socket_poll(w))
                MF_TRY(uds_socket_wait_for(fd, POLLOUT, deadline_ns, w));
            continue;
        }
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return MF_FAIL(MF_UNAVAILABLE, "the connection is closed: %s", strerror(errno));
        if (w)
            uds_socket_wrote(w);
        for (; n > 0 && (size_t)done >= at->iov_len; at++, n--)
            done -= (ssize_t)at->iov_len;
        if (n > 0) {
            at->iov_base = (char *)at->iov_base + done;
            at->iov_len -= (size_t)done;
        }
    }
    return MF_OK;
}

mf_status mf_uds_send_text(int fd, uint32_t code, const char *text, bool with_code,
                           int64_t deadline_ns)
{
    const uint32_t head[2] = { code, (uint32_t)strlen(text) };
    struct iovec parts[2] = {
        { (void *)(uintptr_t)(with_code ? head : head + 1), with_code ? 8 : 4 },
        { (void *)(uintptr_t)text, head[1] },
    };

    return mf_uds_write(fd, parts, 2, deadline_ns, NULL);
}

static mf_status uds_socket_read_all(int fd, void *data, size_t size, int64_t deadline_ns)
{
    for (size_t have = 0; have < size;) {
        const ssize_t n = recv(fd, (char *)data + have, size - have, MSG_DONTWAIT);

        if (n > 0)
            have += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            MF_TRY(uds_socket_wait_for(fd, POLLIN, deadline_ns, NULL));
        else if (n == 0 || errno != EINTR)
            return MF_FAIL(MF_UNAVAILABLE, "the peer closed the connection before it replied");
    }
    return MF_OK;
}

mf_status mf_uds_read_answer(int fd, char *text, int64_t deadline_ns)
{
    uint32_t head[2];

    MF_TRY(uds_socket_read_all(fd, head, sizeof head, deadline_ns));
    if (head[1] >= MF_UDS_TEXT_MAX || head[0] > MF_UNAUTHENTICATED)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the process that listens there is not Meshflow");
    MF_TRY(uds_socket_read_all(fd, text, head[1], deadline_ns));
    text[head[1]] = '\0';
    if (head[0] != MF_OK)
        return MF_FAIL((mf_status)head[0], "%s", text);
    return MF_OK;
}
