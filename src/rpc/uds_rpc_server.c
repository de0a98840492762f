/* SPDX-License-Identifier: Apache-2.0 */
/* uds_rpc_server.c - serves calls of processes on this host; see uds_rpc.h. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/leader_follower.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "net/uds_socket.h"
#include "rpc/uds_rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MOST_THREADS = 1024, /* maximum; each may block */
    SPARE_THREADS = 3, /* threads that stay when idle */
    SETTLE_MS = 1000, /* interval of checks for returned memory, when no frames arrive */
    LEND_MIN = 16 << 10, /* minimum number of bytes to lend */
};

typedef struct uds_rpc_server_line uds_rpc_server_line;

struct mf_rpc_server {
    const mf_rpc_service *service;
    void *ctx;
    char address[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    int listening, epoll, stopping; /* file descriptors */
    mf_leader_follower lf;
    bool runs; /* the threads are running */

    pthread_mutex_t lock; /* guards all fields below, and the calls of connections */
    pthread_cond_t changed;
    uds_rpc_server_line *lines;
};

typedef struct uds_rpc_server_incoming {
    mf_rpc_call base; /* must be the first field */
    uds_rpc_server_line *line;
    uint64_t id;
    char *text; /* the method, followed by the request */
    struct uds_rpc_server_incoming *next; /* in the list of the connection, until it is answered */
    int refs; /* guarded by the server's lock, as the fields below */
    bool is_delivered, is_answered;
} uds_rpc_server_incoming;

struct uds_rpc_server_line {
    mf_uds_line base;
    mf_rpc_server *server;
    uds_rpc_server_line *next, *previous;
    bool is_greeted;
    mf_lender *lender; /* NULL: no lending */
    uds_rpc_server_incoming
        *calls; /* calls in flight; guarded by the server's lock, as the fields below */
    bool caller_closed;
    int refs; /* of its calls, and one while the peer is connected */
};

/* ---- connections ---- */

static void uds_rpc_server_free_line(uds_rpc_server_line *l)
{
    mf_lender_close(l->lender);
    mf_uds_line_deinit(&l->base);
    mf_free(l);
}

static void uds_rpc_server_unref_line(uds_rpc_server_line *l)
{
    mf_rpc_server *s = l->server;
    bool last;

    pthread_mutex_lock(&s->lock);
    last = --l->refs == 0;
    if (last && l->previous)
        l->previous->next = l->next;
    else if (last)
        s->lines = l->next;
    if (last && l->next)
        l->next->previous = l->previous;
    if (last)
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (last)
        uds_rpc_server_free_line(l);
}

/* The next free thread reads the connection's next frame. */
static void uds_rpc_server_await_frame(uds_rpc_server_line *l)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = l };

    if (mf_uds_line_has_more(&l->base))
        e.events |= EPOLLOUT; /* always ready: triggers an event at once */
    mf_race_give(l);
    if (epoll_ctl(l->server->epoll, EPOLL_CTL_MOD, l->base.fd, &e) != 0)
        MF_WARN("a connection was lost: %s", strerror(errno));
}

/* ---- calls ---- */

static void unref_call(uds_rpc_server_incoming *c)
{
    mf_rpc_server *s = c->line->server;
    uds_rpc_server_line *l = c->line;
    bool last;

    pthread_mutex_lock(&s->lock);
    last = --c->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    mf_free(c->text);
    mf_free(c);
    uds_rpc_server_unref_line(l);
}

/* The caller does not wait any more. This function's caller has a reference. */
static void cancel(uds_rpc_server_incoming *c)
{
    mf_rpc_server *s = c->line->server;
    bool tell;

    pthread_mutex_lock(&s->lock);
    atomic_store(&c->base.gone, true);
    tell = c->is_delivered && !c->is_answered;
    pthread_mutex_unlock(&s->lock);
    if (tell)
        s->service->cancelled(s->ctx, &c->base);
}

/* The call with this number, or any: returns a reference; NULL: there is none. */
static uds_rpc_server_incoming *uds_rpc_server_find_call(uds_rpc_server_line *l, uint64_t id,
                                                         bool any)
{
    uds_rpc_server_incoming *c;

    pthread_mutex_lock(&l->server->lock);
    for (c = l->calls; c && (any ? atomic_load(&c->base.gone) : c->id != id); c = c->next)
        ;
    if (c)
        c->refs++;
    pthread_mutex_unlock(&l->server->lock);
    return c;
}

static void uds_rpc_server_cancel_one(uds_rpc_server_line *l, uint64_t id)
{
    uds_rpc_server_incoming *c = uds_rpc_server_find_call(l, id, false);

    if (!c)
        return;
    cancel(c);
    unref_call(c);
}

/* The peer is lost. */
static void hang_up(uds_rpc_server_line *l)
{
    uds_rpc_server_incoming *c;

    (void)epoll_ctl(l->server->epoll, EPOLL_CTL_DEL, l->base.fd, NULL);
    (void)shutdown(l->base.fd, SHUT_RDWR);
    pthread_mutex_lock(&l->server->lock);
    l->caller_closed = true;
    pthread_mutex_unlock(&l->server->lock);
    while ((c = uds_rpc_server_find_call(l, 0, true)) != NULL) {
        cancel(c);
        unref_call(c);
    }
    uds_rpc_server_unref_line(l);
}

/* ---- replies ---- */

/* Bytes in shared memory are not sent; true: the part is lent, and released when it is returned. */
static bool lend(const uds_rpc_server_line *l, const mf_iovec *part, mf_uds_frame *f)
{
    int slot;

    if (!l->lender || !part->release || part->size < LEND_MIN ||
        !mf_shared_region_find(part->data, &f->lent_at))
        return false;
    slot = mf_lender_lend(l->lender, part);
    if (slot < 0)
        return false;
    f->lent_size = part->size;
    f->slot = (uint64_t)slot;
    return true;
}

void mf_uds_rpc_answer(mf_rpc_call *call, mf_status status, const char *message,
                       const mf_iovec *parts, int n_parts)
{
    uds_rpc_server_incoming *c = (uds_rpc_server_incoming *)call;
    uds_rpc_server_line *l = c->line;
    mf_uds_frame f = { .kind = MF_UDS_ANSWER, .status = status, .id = c->id };
    bool caller_closed;

    pthread_mutex_lock(&l->server->lock);
    c->is_answered = true;
    for (uds_rpc_server_incoming **at = &l->calls; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    caller_closed = l->caller_closed;
    pthread_mutex_unlock(&l->server->lock);
    if (!caller_closed) {
        const bool lent = n_parts > 0 && lend(l, &parts[n_parts - 1], &f);

        n_parts -= lent;
        if (mf_uds_line_send(&l->base, &f, message ? message : "", parts, n_parts, -1) != MF_OK)
            MF_LOG(MF_LOG_DEBUG, "a reply was lost: %s", mf_error_message());
    }
    mf_iovec_release(parts, n_parts);
    unref_call(c);
}

/* ---- requests ---- */

static void uds_rpc_server_refuse(uds_rpc_server_incoming *c, mf_status status, const char *message)
{
    mf_uds_rpc_answer(&c->base, status, message, NULL, 0);
}

/* One reference belongs to the reply. Owns: takes the text, on success. */
static uds_rpc_server_incoming *uds_rpc_server_add_call(uds_rpc_server_line *l,
                                                        const mf_uds_frame *f, char *text)
{
    uds_rpc_server_incoming *c = mf_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (uds_rpc_server_incoming){
        .line = l, .id = f->id, .text = text, .refs = 2, .is_delivered = true
    };
    c->base.kind = &mf_rpc_local;
    c->base.deadline_ns =
        f->left_ns >= INT64_MAX - mf_clock_ns() ? INT64_MAX : mf_clock_ns() + f->left_ns;
    pthread_mutex_lock(&l->server->lock);
    c->next = l->calls;
    l->calls = c;
    l->refs++;
    pthread_mutex_unlock(&l->server->lock);
    return c;
}

static void uds_rpc_server_ask(uds_rpc_server_line *l, const mf_uds_frame *f, char *text,
                               const void *data, bool alone)
{
    mf_rpc_server *s = l->server;
    uds_rpc_server_incoming *c = uds_rpc_server_add_call(l, f, text);

    if (!c) {
        MF_WARN("no memory for a call");
        mf_free(text);
        (void)shutdown(l->base.fd, SHUT_RDWR); /* otherwise the client would wait without limit */
        uds_rpc_server_await_frame(l);
        return;
    }
    uds_rpc_server_await_frame(l); /* from here on another thread owns it and may free it */
    if (alone)
        uds_rpc_server_refuse(c, MF_RESOURCE_EXHAUSTED, "too many calls in flight");
    else
        s->service->called(s->ctx, &c->base, c->text, data, f->size);
    unref_call(c);
}

/* ---- greeting ---- */

static mf_status uds_rpc_server_greet(uds_rpc_server_line *l)
{
    const mf_uds_frame f = { .kind = MF_UDS_HELLO };
    struct ucred who = { 0 };
    socklen_t who_size = sizeof who;
    size_t size;
    mf_lend_words *words = mf_uds_line_map(&l->base, true, &size);

    if (words && size != sizeof *words) {
        (void)munmap(words, size);
        return MF_FAIL(MF_UNAVAILABLE, "invalid size of the lending words: %zu bytes", size);
    }
    (void)getsockopt(l->base.fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size);
    if (words)
        MF_TRY(mf_lender_new(words, who.pid, &l->lender));
    l->is_greeted = true;
    return mf_uds_line_send(&l->base, &f, "", NULL, 0, mf_shared_region_fd());
}

/* ---- threads ---- */

/* Handles one frame of a connection, which belongs to this thread until
 * uds_rpc_server_await_frame() or hang_up(). */
static void uds_rpc_server_take_frame(uds_rpc_server_line *l, bool alone)
{
    mf_uds_frame f;
    const void *data;
    char *text = NULL;
    mf_status st;

    mf_race_take(l);
    st = mf_uds_line_read(&l->base, &f, &text, &data);
    if (st == MF_OK && f.kind == MF_UDS_ASK && l->is_greeted) {
        uds_rpc_server_ask(l, &f, text, data, alone);
        return;
    }
    mf_free(text);
    if (st == MF_OK && f.kind == MF_UDS_HELLO && !l->is_greeted)
        st = uds_rpc_server_greet(l);
    else if (st == MF_OK && f.kind == MF_UDS_CANCEL)
        uds_rpc_server_cancel_one(l, f.id);
    else if (st == MF_OK)
        st = MF_UNAVAILABLE;
    if (st == MF_OK)
        uds_rpc_server_await_frame(l);
    else
        hang_up(l);
}

static void accept_line(mf_rpc_server *s)
{
    const int fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC);
    uds_rpc_server_line *l;

    if (fd < 0) /* another thread accepted it */
        return;
    l = mf_calloc(1, sizeof *l);
    if (!l || mf_uds_check_user(fd) != MF_OK || mf_uds_line_init(&l->base, fd) != MF_OK) {
        if (l && l->base.in)
            mf_uds_line_deinit(&l->base);
        else
            (void)close(fd);
        mf_free(l);
        return;
    }
    l->server = s;
    l->refs = 1;
    pthread_mutex_lock(&s->lock);
    l->next = s->lines;
    if (l->next)
        l->next->previous = l;
    s->lines = l;
    pthread_mutex_unlock(&s->lock);
    mf_race_give(l);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd,
                  &(struct epoll_event){ .events = EPOLLIN | EPOLLONESHOT, .data.ptr = l }) != 0)
        hang_up(l);
}

static void uds_rpc_server_live(void *ctx)
{
    mf_rpc_server *s = ctx;

    do {
        struct epoll_event e;
        int n;

        do {
            n = epoll_wait(s->epoll, &e, 1, atomic_load(&mf_lender_lent) > 0 ? SETTLE_MS : -1);
            if (n == 0)
                mf_lender_settle();
        } while (n == 0 || (n < 0 && errno == EINTR));
        if (n < 0 || e.data.ptr == s) { /* stopping */
            mf_leader_follower_ends(&s->lf);
            return;
        }
        const bool alone = !mf_leader_follower_takes(&s->lf);

        if (e.data.ptr == &s->listening)
            accept_line(s);
        else
            uds_rpc_server_take_frame(e.data.ptr, alone);
    } while (mf_leader_follower_stays(&s->lf));
}

/* ---- opening and closing ---- */

static mf_status uds_rpc_server_listen_there(mf_rpc_server *s)
{
    struct sockaddr_un name;
    const socklen_t size = mf_uds_rpc_name(s->address, &name);

    if (size == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s is too long for a socket name", s->address);
    s->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listening < 0 || bind(s->listening, (const struct sockaddr *)&name, size) != 0 ||
        listen(s->listening, 64) != 0)
        return MF_FAIL(MF_UNAVAILABLE, "cannot listen on this host for %s: %s", s->address,
                       strerror(errno));
    return MF_OK;
}

static mf_status uds_rpc_server_open_all(mf_rpc_server *s)
{
    MF_TRY(uds_rpc_server_listen_there(s));
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->stopping = eventfd(0, EFD_CLOEXEC);
    if (s->epoll < 0 || s->stopping < 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listening,
                  &(struct epoll_event){ .events = EPOLLIN, .data.ptr = &s->listening }) != 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stopping,
                  &(struct epoll_event){ .events = EPOLLIN, .data.ptr = s }) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot listen on this host: %s", strerror(errno));
    s->lf = (mf_leader_follower){
        .most = MOST_THREADS, .spare = SPARE_THREADS, .live = uds_rpc_server_live, .ctx = s
    };
    MF_TRY(mf_leader_follower_start(&s->lf));
    s->runs = true;
    return MF_OK;
}

const char *mf_uds_rpc_address(const mf_rpc_server *s)
{
    return s->address;
}

/* Shuts down all connections; their threads end them. */
static void end_lines(mf_rpc_server *s)
{
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->listening, NULL);
    pthread_mutex_lock(&s->lock);
    for (const uds_rpc_server_line *l = s->lines; l; l = l->next)
        (void)shutdown(l->base.fd, SHUT_RDWR);
    while (s->lines)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void mf_uds_rpc_stop(mf_rpc_server *s)
{
    if (s->runs) {
        const uint64_t one = 1;

        end_lines(s);
        if (write(s->stopping, &one, sizeof one) < 0)
            MF_WARN("cannot stop a server: %s", strerror(errno));
        mf_leader_follower_join(&s->lf);
    }
    for (int i = 0; i < 3; i++) {
        const int file = (int[]){ s->listening, s->epoll, s->stopping }[i];

        if (file >= 0)
            (void)close(file);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mf_free(s);
}

mf_status mf_uds_rpc_serve(const mf_rpc_server_options *o, mf_rpc_server **out)
{
    mf_rpc_server *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a server");
    s->service = o->service;
    s->ctx = o->ctx;
    s->listening = s->epoll = s->stopping = -1;
    (void)snprintf(s->address, sizeof s->address, "%s", o->address);
    pthread_mutex_init(&s->lock, NULL);
    mf_cond_init(&s->changed);
    st = uds_rpc_server_open_all(s);
    if (st != MF_OK)
        mf_uds_rpc_stop(s);
    else
        *out = s;
    return st;
}
