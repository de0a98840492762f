/* SPDX-License-Identifier: Apache-2.0 */
/* uds_transport.c - the transport between processes of one host and one user: Unix sockets in the
 * abstract namespace, named after the address of a task. The kernel identifies the peer: both sides
 * refuse other users before reading a byte from them.
 *
 * One thread does all reads, unless another one polls; each sending thread writes by itself. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/machine_limits.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/thread.h"
#include "net/net.h"
#include "net/uds_socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

MF_PARAM_INT(comm_poll_rounds, 300,
             "maximum polls of the connections before a thread that waits sleeps");

enum { EVENTS = 16, PAUSE_MS = 20, REST_NS = 1000000, AHEAD = 8 << 10 };

typedef struct connection {
    int fd;
    int peer; /* -1: has not identified itself */
    pthread_mutex_t writing; /* one frame at a time */
    bool dead; /* guarded by writing */
    /* state of reads, guarded by reading */
    bool left; /* for the transport's thread: a request, or a failure */
    mf_error failure; /* found by a thread that polled */
    char ahead[AHEAD]; /* bytes read ahead: small messages need one system call */
    size_t ahead_at, ahead_end;
    unsigned char head[MF_FRAME_BYTES];
    size_t have; /* bytes received of the header, the greeting or the frame's data */
    mf_frame frame;
    char *data; /* NULL: the header is incomplete */
    char *greeting;
    struct connection *next;
} connection;

typedef struct uds_transport_local {
    mf_transport base;
    mf_transport_options o;
    char address[128];
    const char *hello; /* owned by the inbox */
    int listener, epoll, wake;
    pthread_t thread;
    pthread_mutex_t reading; /* one thread at a time; acquired first */
    bool left; /* guarded by reading: some connection is left for the transport's thread */
    pthread_mutex_t lock;
    pthread_cond_t resume; /* the transport's thread shall not rest any more */
    bool polled, resting; /* guarded by lock: polled since the last rest */
    connection **by_peer; /* guarded by lock; freed only by uds_transport_local_close() */
    connection *all; /* guarded by lock */
    bool closing; /* guarded by lock */
} uds_transport_local;

/* ---- peers ---- */

static connection *connection_new(int fd, int peer)
{
    connection *c = mf_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->fd = fd;
    c->peer = peer;
    pthread_mutex_init(&c->writing, NULL);
    return c;
}

static void connection_free(connection *c)
{
    close(c->fd);
    pthread_mutex_destroy(&c->writing);
    mf_free(c->greeting);
    mf_free(c);
}

static connection *uds_transport_find_peer(uds_transport_local *t, int peer)
{
    connection *c;

    pthread_mutex_lock(&t->lock);
    c = t->by_peer[peer];
    pthread_mutex_unlock(&t->lock);
    return c;
}

/* ---- writing ---- */

/* Another thread of this process may be writing, blocked by a peer that does not read. */
static mf_status lock_writing(connection *c, int64_t deadline_ns)
{
    const int64_t until = mf_clock_wall_ns() + (deadline_ns - mf_clock_ns());

    if (deadline_ns <= 0)
        (void)pthread_mutex_lock(&c->writing);
    else if (pthread_mutex_timedlock(/* pthread_mutex_clocklock() would be better, but TSan does not
                                        support it */
                                     &c->writing, &(struct timespec){ until / 1000000000,
                                                                      until % 1000000000 }) != 0)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
    return MF_OK;
}

static mf_status local_send(mf_transport *transport, int peer, const mf_frame *f, const void *data,
                            int64_t deadline_ns)
{
    uds_transport_local *t = (uds_transport_local *)transport;
    connection *c = uds_transport_find_peer(t, peer);
    unsigned char head[MF_FRAME_BYTES];
    struct iovec parts[2] = { { head, sizeof head }, { (void *)(uintptr_t)data, (size_t)f->size } };
    static _Thread_local mf_spin spin;
    mf_uds_writer w = { .inbox = t->o.inbox, .peer = peer, .frame = f, .spin = &spin };
    mf_status st;

    if (!c)
        return MF_FAIL(MF_UNAVAILABLE, "there is no connection");
    if (t->base.polls > 0 && mf_net_is_collective(f))
        w.polled = transport;
    mf_frame_write(f, head);
    MF_TRY(lock_writing(c, deadline_ns));
    st = c->dead ? MF_FAIL(MF_UNAVAILABLE, "the connection is closed")
                 : mf_uds_write(c->fd, parts, f->size > 0 ? 2 : 1, deadline_ns, &w);
    if (st != MF_OK && w.begun) { /* a partially written frame cannot be followed by another one */
        c->dead = true;
        (void)shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&c->writing);
    return st;
}

/* ---- the reading thread ---- */

static mf_status uds_transport_watch(uds_transport_local *t, connection *c)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

    pthread_mutex_lock(&t->lock);
    c->next = t->all;
    t->all = c;
    if (c->peer >= 0)
        t->by_peer[c->peer] = c;
    pthread_mutex_unlock(&t->lock);
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
    return MF_OK;
}

/* A connection that never identified itself. */
static void uds_transport_forget(uds_transport_local *t, connection *c)
{
    pthread_mutex_lock(&t->lock);
    for (connection **at = &t->all; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&t->lock);
    connection_free(c);
}

static void end_connection(uds_transport_local *t, connection *c, const char *why)
{
    (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    (void)shutdown(c->fd, SHUT_RDWR); /* before taking the lock: ends a write that holds it */
    pthread_mutex_lock(&c->writing);
    c->dead = true;
    pthread_mutex_unlock(&c->writing);
    if (c->peer >= 0)
        t->o.inbox->kind->gone(t->o.inbox, c->peer, why);
    else
        uds_transport_forget(t, c);
}

static void accept_one(uds_transport_local *t)
{
    const int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
    connection *c;

    if (fd < 0) {
        if (errno != EAGAIN) /* out of file descriptors: it stays in the backlog */
            (void)usleep(1000 * PAUSE_MS);
        return;
    }
    if (mf_uds_check_user(fd) != MF_OK) {
        MF_WARN("a connection was refused: %s", mf_error_message());
        close(fd);
        return;
    }
    c = connection_new(fd, -1);
    if (!c)
        close(fd);
    else if (uds_transport_watch(t, c) != MF_OK)
        end_connection(t, c, mf_error_message());
}

/* The greeting is complete: identify the peer. */
static mf_status uds_transport_accept_greeting(uds_transport_local *t, connection *c)
{
    const int64_t soon = mf_clock_ns() + 5000000000;
    mf_status st = t->o.inbox->kind->hello(t->o.inbox, c->greeting, &c->peer);

    if (st != MF_OK) {
        c->peer = -1;
        (void)!mf_uds_send_text(c->fd, (uint32_t)st, mf_error_message(), true, soon);
        t->o.inbox->kind->refused(t->o.inbox);
        return st;
    }
    mf_free(c->greeting);
    c->greeting = NULL;
    c->have = 0;
    MF_TRY(mf_uds_send_text(c->fd, MF_OK, t->hello, true, soon)); /* before any frame */
    pthread_mutex_lock(&t->lock);
    t->by_peer[c->peer] = c;
    pthread_mutex_unlock(&t->lock);
    t->o.inbox->kind->ready(t->o.inbox, c->peer);
    return MF_OK;
}

/* The destination and number of the next bytes. */
static void place_for(connection *c, char **to, size_t *want)
{
    if (c->peer < 0 && c->greeting) {
        uint32_t size;

        memcpy(&size, c->head, sizeof size);
        *to = c->greeting + c->have;
        *want = size - c->have;
    } else if (c->peer < 0) {
        *to = (char *)c->head + c->have;
        *want = sizeof(uint32_t) - c->have;
    } else if (!c->data) {
        *to = (char *)c->head + c->have;
        *want = MF_FRAME_BYTES - c->have;
    } else {
        *to = c->data + c->have;
        *want = (size_t)c->frame.size - c->have;
    }
}

/* The expected bytes are complete. */
static mf_status uds_transport_take_step(uds_transport_local *t, connection *c)
{
    c->have = 0;
    if (c->peer < 0 && c->greeting)
        return uds_transport_accept_greeting(t, c);
    if (c->peer < 0) {
        uint32_t size;

        memcpy(&size, c->head, sizeof size);
        if (size >= MF_UDS_TEXT_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT, "not a greeting of Meshflow");
        c->greeting = mf_calloc(size + 1, 1);
        return c->greeting ? MF_OK : MF_NOMEM("a greeting");
    }
    if (!c->data) {
        if (!mf_frame_read(c->head, &c->frame))
            return MF_FAIL(MF_DATA_LOSS, "the peer sent an invalid message");
        c->data = t->o.inbox->kind->begin(t->o.inbox, c->peer, &c->frame);
        if (!c->data)
            return MF_RESOURCE_EXHAUSTED;
        if (c->frame.size > 0)
            return MF_OK;
    }
    c->data = NULL;
    t->o.inbox->kind->end(t->o.inbox, c->peer, &c->frame);
    return MF_OK;
}

/* Receives at most `want` bytes, small numbers from those read ahead. -1: none has arrived. 0: the
 * end. *drained: nothing more has arrived. */
static ssize_t receive(connection *c, char *to, size_t want, bool *drained)
{
    const bool direct = want >= sizeof c->ahead;
    size_t have = c->ahead_end - c->ahead_at;

    if (have == 0) {
        const size_t room = direct ? want : sizeof c->ahead;
        const ssize_t n = recv(c->fd, direct ? to : c->ahead, room, MSG_DONTWAIT);

        *drained = n < (ssize_t)room;
        if (direct || n <= 0)
            return n;
        c->ahead_at = 0;
        c->ahead_end = have = (size_t)n;
    }
    have = have < want ? have : want;
    memcpy(to, c->ahead + c->ahead_at, have);
    c->ahead_at += have;
    return (ssize_t)have;
}

/* A request is passed to a function that is called by the transport's thread only. */
static bool is_at_request(const connection *c)
{
    mf_frame f;

    return c->peer >= 0 && !c->data && c->have == MF_FRAME_BYTES && mf_frame_read(c->head, &f) &&
           f.kind == MF_MESSAGE_REQUEST;
}

/* by_poll: not by the transport's thread. */
static mf_status read_some(uds_transport_local *t, connection *c, bool by_poll)
{
    bool drained = false;

    for (int i = 0; i < 64 || c->ahead_at < c->ahead_end;
         i++) { /* then the others get their turn */
        size_t want;
        ssize_t n;
        char *to;

        place_for(c, &to, &want);
        if (want > 0 && drained && c->ahead_at == c->ahead_end)
            return MF_OK;
        n = want > 0 ? receive(c, to, want, &drained) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return MF_OK;
        if (n < 0)
            return MF_FAIL(MF_UNAVAILABLE, "its connection broke: %s", strerror(errno));
        if (n == 0 && want > 0)
            return MF_FAIL(MF_UNAVAILABLE, "its connection was closed");
        c->have += (size_t)n;
        if (by_poll && is_at_request(c)) {
            c->left = true;
            return MF_OK;
        }
        if ((size_t)n == want)
            MF_TRY(uds_transport_take_step(t, c));
    }
    return MF_OK;
}

/* ---- polling ---- */

/* Leaves requests and failures to the transport's thread. */
static void uds_transport_poll_connection(uds_transport_local *t, connection *c)
{
    const mf_status st = read_some(t, c, true);

    if (st != MF_OK) {
        mf_error_save(st, &c->failure);
        c->left = true;
    }
    if (c->left) {
        t->left = true;
        (void)eventfd_write(t->wake, 1);
    }
}

static bool local_poll(mf_transport *transport)
{
    uds_transport_local *t = (uds_transport_local *)transport;
    struct epoll_event e[EVENTS];
    bool some = false;
    int n;

    if (pthread_mutex_trylock(&t->reading) != 0)
        return false;
    pthread_mutex_lock(&t->lock);
    t->polled = true;
    pthread_mutex_unlock(&t->lock);
    n = epoll_wait(t->epoll, e, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        connection *c = e[i].data.ptr;

        if (!c || e[i].data.ptr == t || c->peer < 0 || c->left)
            continue;
        uds_transport_poll_connection(t, c);
        some = true;
    }
    pthread_mutex_unlock(&t->reading);
    return some;
}

static void local_end_poll(mf_transport *transport)
{
    uds_transport_local *t = (uds_transport_local *)transport;

    pthread_mutex_lock(&t->lock);
    t->polled = false;
    if (t->resting) {
        t->resting = false;
        pthread_cond_signal(&t->resume);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- the transport's thread ---- */

/* Another thread polls: it will probably have read what has arrived. */
static void rest_a_moment(uds_transport_local *t)
{
    const int64_t until = mf_clock_ns() + REST_NS;

    pthread_mutex_lock(&t->lock);
    t->resting = t->polled && !t->closing;
    t->polled = false;
    while (t->resting && mf_cond_wait_until(&t->resume, &t->lock, until))
        continue;
    t->resting = false;
    pthread_mutex_unlock(&t->lock);
}

static bool uds_transport_is_closing(uds_transport_local *t)
{
    bool closing;

    pthread_mutex_lock(&t->lock);
    closing = t->closing;
    pthread_mutex_unlock(&t->lock);
    return closing;
}

static void uds_transport_read(uds_transport_local *t, connection *c)
{
    mf_status st = MF_OK;

    c->left = false;
    if (c->failure.status != MF_OK)
        st = mf_error_restore(&c->failure);
    else
        st = read_some(t, c, false);
    if (st != MF_OK)
        end_connection(t, c, mf_error_message());
}

static void read_left(uds_transport_local *t)
{
    connection *c, *next;

    if (!t->left)
        return;
    t->left = false;
    pthread_mutex_lock(&t->lock);
    c = t->all;
    pthread_mutex_unlock(&t->lock);
    for (; c; c = next) { /* connections are added in front, and removed by this thread only */
        next = c->next;
        if (c->left)
            uds_transport_read(t, c);
    }
}

static void handle_events(uds_transport_local *t, const struct epoll_event *e, int n)
{
    read_left(t);
    for (int i = 0; i < n; i++) {
        eventfd_t count;

        if (e[i].data.ptr == NULL)
            (void)eventfd_read(t->wake, &count);
        else if (e[i].data.ptr == t)
            accept_one(t);
        else
            uds_transport_read(t, e[i].data.ptr);
    }
}

static void *read_everything(void *arg)
{
    uds_transport_local *t = arg;
    struct epoll_event e[EVENTS];

    while (!uds_transport_is_closing(t)) {
        const int n = epoll_wait(t->epoll, e, EVENTS, -1);

        rest_a_moment(t);
        pthread_mutex_lock(&t->reading);
        handle_events(t, e, n);
        pthread_mutex_unlock(&t->reading);
    }
    return NULL;
}

/* ---- opening, connecting, closing ---- */

static mf_status uds_transport_listen_at(uds_transport_local *t, const char *address)
{
    struct sockaddr_un name = { 0 };
    char any[64];
    socklen_t size;

    if (!address) { /* any free name */
        (void)snprintf(any, sizeof any, "any-%d-%016llx", (int)getpid(),
                       (unsigned long long)mf_random_seed());
        address = any;
    }
    if (snprintf(t->address, sizeof t->address, "%s", address) >= (int)sizeof t->address)
        return MF_FAIL(MF_INVALID_ARGUMENT, "address '%s' is too long", address);
    size = mf_uds_name(t->address, &name);
    if (size == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "address '%s' is too long", address);
    if (bind(t->listener, (struct sockaddr *)&name, size) != 0)
        return MF_FAIL(errno == EADDRINUSE ? MF_ALREADY_EXISTS : MF_INTERNAL,
                       "cannot listen at %s: %s", address,
                       errno == EADDRINUSE ? "another task listens there" : strerror(errno));
    if (listen(t->listener, 128) != 0)
        return MF_FAIL(MF_INTERNAL, "cannot listen at %s: %s", address, strerror(errno));
    return MF_OK;
}

static mf_status add_event(uds_transport_local *t, int fd, void *ptr)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = ptr };

    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "epoll: %s", strerror(errno));
    return MF_OK;
}

static void uds_transport_local_close(mf_transport *transport);

static mf_status uds_transport_start(uds_transport_local *t)
{

    t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->by_peer = mf_calloc(t->o.n_peers, sizeof(connection *));
    if (t->listener < 0 || t->epoll < 0 || t->wake < 0 || !t->by_peer)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more sockets or memory: %s", strerror(errno));
    MF_TRY(uds_transport_listen_at(t, t->o.address));
    t->hello = t->o.inbox->kind->greeting(t->o.inbox, t->address);
    if (!t->hello)
        return MF_RESOURCE_EXHAUSTED;
    MF_TRY(add_event(t, t->listener, t));
    MF_TRY(add_event(t, t->wake, NULL));
    if (mf_thread_start(&t->thread, read_everything, t) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    return MF_OK;
}

static mf_status local_open(const mf_transport_options *o, mf_transport **out)
{
    uds_transport_local *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("connections");
    t->base.kind = &mf_transport_local;
    t->o = *o;
    t->listener = t->epoll = t->wake = -1;
    if (o->n_peers <= mf_usable_cores())
        t->base.polls = MF_PARAM(comm_poll_rounds);
    pthread_mutex_init(&t->reading, NULL);
    pthread_mutex_init(&t->lock, NULL);
    mf_cond_init(&t->resume);
    st = uds_transport_start(t);
    if (st != MF_OK)
        uds_transport_local_close(&t->base);
    else
        *out = &t->base;
    return st;
}

static const char *local_address(const mf_transport *transport)
{
    return ((const uds_transport_local *)transport)->address;
}

static mf_status uds_transport_greet(uds_transport_local *t, int fd, int peer, int64_t deadline_ns)
{
    char text[MF_UDS_TEXT_MAX];
    int who = -1;

    MF_TRY(mf_uds_check_user(fd));
    MF_TRY(mf_uds_send_text(fd, 0, t->hello, false, deadline_ns));
    MF_TRY(mf_uds_read_answer(fd, text, deadline_ns));
    MF_TRY(t->o.inbox->kind->hello(t->o.inbox, text, &who));
    if (who != peer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "another task listens there, with number %d", who);
    return MF_OK;
}

/* connect() blocks if the peer's backlog is full. */
static int connect_in_time(int fd, const struct sockaddr_un *name, socklen_t size,
                           int64_t deadline_ns)
{
    const int64_t left = deadline_ns - mf_clock_ns();
    const struct timeval limit = { .tv_sec = left / 1000000000,
                                   .tv_usec = left % 1000000000 / 1000 + 1 };

    if (deadline_ns > 0 && left <= 0)
        return -1;
    if (deadline_ns > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return connect(fd, (const struct sockaddr *)name, size);
}

static mf_status uds_transport_local_connect(mf_transport *transport, int peer, const char *address,
                                             int64_t deadline_ns)
{
    uds_transport_local *t = (uds_transport_local *)transport;
    struct sockaddr_un name = { 0 };
    const socklen_t size = mf_uds_name(address, &name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connection *c;
    mf_status st = MF_OK;

    if (fd < 0 || size == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "cannot connect to '%s'", address);
    else if (connect_in_time(fd, &name, size, deadline_ns) != 0)
        st = MF_FAIL(MF_UNAVAILABLE, "no process listens there yet");
    if (st == MF_OK)
        st = uds_transport_greet(t, fd, peer, deadline_ns);
    c = st == MF_OK ? connection_new(fd, peer) : NULL;
    if (st == MF_OK && !c)
        st = MF_NOMEM("a connection");
    if (st != MF_OK) {
        if (fd >= 0)
            close(fd);
        return st;
    }
    MF_TRY(uds_transport_watch(t, c));
    t->o.inbox->kind->ready(t->o.inbox, peer);
    return MF_OK;
}

static void local_drop(mf_transport *transport, int peer)
{
    connection *c = uds_transport_find_peer((uds_transport_local *)transport, peer);

    if (c)
        (void)shutdown(c->fd, SHUT_RDWR); /* the reading thread handles the end */
}

static void uds_transport_local_close(mf_transport *transport)
{
    uds_transport_local *t = (uds_transport_local *)transport;

    pthread_mutex_lock(&t->lock);
    t->closing = true;
    t->resting = false;
    pthread_cond_signal(&t->resume);
    pthread_mutex_unlock(&t->lock);
    if (t->thread) {
        (void)eventfd_write(t->wake, 1);
        pthread_join(t->thread, NULL);
    }
    while (t->all) {
        connection *c = t->all;

        t->all = c->next;
        connection_free(c);
    }
    for (int i = 0; i < 3; i++) {
        const int fd = i == 0 ? t->listener : i == 1 ? t->epoll : t->wake;

        if (fd >= 0)
            close(fd);
    }
    pthread_cond_destroy(&t->resume);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->reading);
    mf_free(t->by_peer);
    mf_free(t);
}

const mf_transport_kind mf_transport_local = {
    .name = "local",
    .about = "Unix sockets between processes of one host",
    .open = local_open,
    .address = local_address,
    .connect = uds_transport_local_connect,
    .send = local_send,
    .drop = local_drop,
    .close = uds_transport_local_close,
    .poll = local_poll,
    .end_poll = local_end_poll,
};
