/* SPDX-License-Identifier: Apache-2.0 */
/* uds_framing.c - frames of calls over a Unix socket; see uds_rpc.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/param.h"
#include "net/uds_socket.h"
#include "rpc/uds_rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROOM = 32 << 10, /* buffer for small reads */
    MOST_PARTS = 8,
    TEXT_MAX = 64 << 10,
};
MF_PARAM_INT(rpc_io_timeout_ms, 60000,
             "timeout in ms for a pause within a message between tasks of a host");

static const int64_t NS_PER_BYTE = 1000; /* additional time for large messages: 1 MB/s */
#define SIZE_LIMIT ((uint64_t)INT32_MAX)

socklen_t mf_uds_rpc_name(const char *address, struct sockaddr_un *out)
{
    char name[sizeof out->sun_path];

    (void)snprintf(name, sizeof name, "rpc-%s", address);
    return mf_uds_name(name, out);
}

mf_status mf_uds_line_init(mf_uds_line *l, int fd)
{
    *l = (mf_uds_line){ .fd = fd, .received_fd = -1, .in = mf_realloc(NULL, 1, ROOM) };
    pthread_mutex_init(&l->writing, NULL);
    return l->in ? MF_OK : MF_NOMEM("a connection");
}

void mf_uds_line_deinit(mf_uds_line *l)
{
    if (l->received_fd >= 0)
        (void)close(l->received_fd);
    (void)close(l->fd);
    mf_free(l->in);
    pthread_mutex_destroy(&l->writing);
}

/* ---- writing ---- */

/* The file descriptor is sent with the first byte. */
static mf_status send_first(int fd, struct iovec *first, int file)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec one = { first->iov_base, 1 };
    struct msghdr m = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS,
                           .cmsg_len = CMSG_LEN(sizeof file) };
    memcpy(CMSG_DATA(c), &file, sizeof file);
    if (sendmsg(fd, &m, MSG_NOSIGNAL) != 1)
        return MF_FAIL(MF_UNAVAILABLE, "the connection is closed: %s", strerror(errno));
    first->iov_base = (char *)first->iov_base + 1;
    first->iov_len--;
    return MF_OK;
}

/* The caller holds the lock. */
static mf_status uds_framing_send_all(const mf_uds_line *l, const mf_uds_frame *frame,
                                      const char *text, const mf_iovec *parts, int n, int file)
{
    mf_uds_frame head = *frame;
    struct iovec all[MOST_PARTS + 2];

    if (n > MOST_PARTS)
        return MF_FAIL(MF_INTERNAL, "%d parts of a message", n);
    head.magic = MF_UDS_RPC_MAGIC;
    head.text = (uint32_t)strlen(text);
    head.size = mf_iovec_size(parts, n);
    if (head.text > TEXT_MAX || head.size > SIZE_LIMIT)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "a message of %llu bytes exceeds the limit of %llu",
                       (unsigned long long)head.size, (unsigned long long)SIZE_LIMIT);
    all[0] = (struct iovec){ &head, sizeof head };
    all[1] = (struct iovec){ (char *)(uintptr_t)text, head.text };
    for (int i = 0; i < n; i++)
        all[2 + i] = (struct iovec){ (void *)(uintptr_t)parts[i].data, parts[i].size };
    if (file >= 0)
        MF_TRY(send_first(l->fd, &all[0], file));
    return mf_uds_write(l->fd, all, n + 2, mf_clock_ns() + MF_PARAM(rpc_io_timeout_ms) * 1000000,
                        NULL);
}

mf_status mf_uds_line_send(mf_uds_line *l, const mf_uds_frame *frame, const char *text,
                           const mf_iovec *parts, int n, int file)
{
    mf_status st;

    pthread_mutex_lock(&l->writing);
    st = uds_framing_send_all(l, frame, text, parts, n, file);
    pthread_mutex_unlock(&l->writing);
    if (st != MF_OK)
        (void)shutdown(l->fd, SHUT_RDWR);
    return st;
}

/* ---- reading ---- */

static void keep_file(mf_uds_line *l, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        int file;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
            c->cmsg_len != CMSG_LEN(sizeof file))
            continue;
        memcpy(&file, CMSG_DATA(c), sizeof file);
        if (l->received_fd >= 0)
            (void)close(l->received_fd);
        l->received_fd = file;
    }
}

/* A task that sends half a message must not block the reading thread. */
static mf_status await_more(const mf_uds_line *l)
{
    const int64_t left = (l->until_ns - mf_clock_ns()) / 1000000;
    struct pollfd p = { .fd = l->fd, .events = POLLIN };

    if (left <= 0)
        return MF_FAIL(MF_UNAVAILABLE, "the peer stopped in the middle of a message");
    (void)poll(&p, 1, left < INT_MAX ? (int)left : INT_MAX);
    return MF_OK;
}

static mf_status uds_framing_receive(mf_uds_line *l, void *to, size_t room, size_t *got)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec at = { to, room };

    for (;;) {
        struct msghdr m = { .msg_iov = &at,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control };
        const ssize_t n = recvmsg(l->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            MF_TRY(await_more(l));
            continue;
        }
        if (n <= 0)
            return MF_FAIL(MF_UNAVAILABLE, "the peer closed the connection");
        keep_file(l, &m);
        *got = (size_t)n;
        return MF_OK;
    }
}

/* Reads until the buffer has at least this many bytes. */
static mf_status uds_framing_fill(mf_uds_line *l, size_t need)
{
    if (l->to - l->from >= need)
        return MF_OK;
    memmove(l->in, l->in + l->from, l->to - l->from);
    l->to -= l->from;
    l->from = 0;
    while (l->to < need) {
        size_t got;

        MF_TRY(uds_framing_receive(l, l->in + l->to, ROOM - l->to, &got));
        l->to += got;
    }
    return MF_OK;
}

static mf_status uds_framing_take(mf_uds_line *l, char *to, size_t size)
{
    const size_t here = l->to - l->from < size ? l->to - l->from : size;

    memcpy(to, l->in + l->from, here);
    l->from += here;
    for (size_t have = here; have < size;) {
        size_t got;

        MF_TRY(uds_framing_receive(l, to + have, size - have, &got));
        have += got;
    }
    return MF_OK;
}

/* Bytes after the text are aligned for any type. */
static size_t uds_framing_room_of(uint32_t text)
{
    return ((size_t)text + 1 + 15) & ~(size_t)15;
}

mf_status mf_uds_line_read(mf_uds_line *l, mf_uds_frame *frame, char **text, const void **data)
{
    mf_status st;

    *text = NULL;
    l->until_ns = mf_clock_ns() + MF_PARAM(rpc_io_timeout_ms) * 1000000;
    MF_TRY(uds_framing_fill(l, sizeof *frame));
    memcpy(frame, l->in + l->from, sizeof *frame);
    l->from += sizeof *frame;
    if (frame->magic != MF_UDS_RPC_MAGIC || frame->text > TEXT_MAX || frame->size > SIZE_LIMIT)
        return MF_FAIL(MF_UNAVAILABLE, "the peer is not Meshflow, or another version");
    *text = mf_realloc(NULL, 1, uds_framing_room_of(frame->text) + frame->size);
    if (!*text)
        return MF_NOMEM("a message");
    *data = *text + uds_framing_room_of(frame->text);
    l->until_ns += (int64_t)frame->size * NS_PER_BYTE;
    st = uds_framing_take(l, *text, frame->text);
    (*text)[frame->text] = '\0';
    return st == MF_OK ? uds_framing_take(l, *text + uds_framing_room_of(frame->text), frame->size)
                       : st;
}

bool mf_uds_line_has_more(const mf_uds_line *l)
{
    return l->to > l->from;
}

/* A sealed file cannot be truncated after it was mapped. */
static bool is_sealed(int file)
{
    const int seals = fcntl(file, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

void *mf_uds_line_map(mf_uds_line *l, bool writable, size_t *size)
{
    struct stat about;
    void *at = MAP_FAILED;

    *size = 0;
    if (l->received_fd < 0)
        return NULL;
    if (fstat(l->received_fd, &about) == 0 && about.st_size > 0 && is_sealed(l->received_fd)) {
        *size = (size_t)about.st_size;
        at = mmap(NULL, *size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                  MAP_SHARED | MAP_NORESERVE, l->received_fd, 0);
    }
    (void)close(l->received_fd);
    l->received_fd = -1;
    return at == MAP_FAILED ? NULL : at;
}
