/* SPDX-License-Identifier: Apache-2.0 */
/* uds_rpc_client.c - calls servers on this host; see uds_rpc.h. A channel connects when a server
 * listens, and connects again when the connection is lost. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/uds_socket.h"
#include "rpc/uds_rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACE_BITS = 20 }; /* bits of a request's number that are its index */

/* A request in flight; free if done is NULL. */
typedef struct uds_rpc_client_asked {
    mf_rpc_done_fn *done;
    void *ctx;
    uint64_t id;
    int64_t deadline_ns;
    bool is_cancelled;
} uds_rpc_client_asked;

typedef struct uds_rpc_client_line {
    mf_uds_line base;
    mf_rpc_channel *channel;
    int wake; /* eventfd: wakes the reading thread for other work */
    mf_lend_words *words;
    const char *region; /* mapping of the server's region; NULL: none */
    size_t region_size;
    uds_rpc_client_asked *all; /* guarded by the channel's lock, as the fields below */
    int64_t n, room, left; /* used slots; allocated slots; requests in flight */
    int64_t free_from; /* no slot before it is free */
    uint64_t made;
    int64_t nearest_ns; /* the earliest deadline */
    atomic_int refs; /* of its thread, of requests in flight, and of borrowed memory */
} uds_rpc_client_line;

struct mf_rpc_channel {
    char address[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    uds_rpc_client_line *line; /* NULL: not connected */
    int lines; /* number of reading threads */
    bool is_closing;
};

/* ---- connections ---- */

static void uds_rpc_client_free_line(uds_rpc_client_line *l)
{
    if (l->words)
        (void)munmap(l->words, sizeof *l->words);
    if (l->region)
        (void)munmap((void *)(uintptr_t)l->region, l->region_size);
    if (l->wake >= 0)
        (void)close(l->wake);
    mf_uds_line_deinit(&l->base);
    mf_free(l->all);
    mf_free(l);
}

static void uds_rpc_client_unref_line(uds_rpc_client_line *l)
{
    if (atomic_fetch_sub(&l->refs, 1) == 1)
        uds_rpc_client_free_line(l);
}

static void uds_rpc_client_wake(const uds_rpc_client_line *l)
{
    const uint64_t one = 1;

    if (write(l->wake, &one, sizeof one) < 0)
        MF_WARN("cannot create an eventfd: %s", strerror(errno));
}

/* ---- requests in flight; the caller holds the channel's lock ---- */

/* Returns NULL when memory is exhausted, or with too many requests. */
static uds_rpc_client_asked *add_asked(uds_rpc_client_line *l, const mf_rpc_question *q)
{
    int64_t i = l->free_from;

    while (i < l->n && l->all[i].done)
        i++;
    if (i == l->n) {
        if (l->n == (int64_t)1 << PLACE_BITS ||
            mf_grow(&l->all, &l->room, l->n + 1, sizeof *l->all) != MF_OK)
            return NULL;
        l->n++;
    }
    l->free_from = i + 1;
    l->all[i] = (uds_rpc_client_asked){ .done = q->done,
                                        .ctx = q->ctx,
                                        .id = ++l->made << PLACE_BITS | (uint64_t)i,
                                        .deadline_ns = q->deadline_ns };
    l->left++;
    return &l->all[i];
}

static uds_rpc_client_asked *find_asked(const uds_rpc_client_line *l, uint64_t id)
{
    const uint64_t i = id & ((UINT64_C(1) << PLACE_BITS) - 1);

    return i < (uint64_t)l->n && l->all[i].done && l->all[i].id == id ? &l->all[i] : NULL;
}

static uds_rpc_client_asked remove_asked(uds_rpc_client_line *l, uds_rpc_client_asked *a)
{
    const uds_rpc_client_asked was = *a;

    a->done = NULL;
    l->left--;
    if (a - l->all < l->free_from)
        l->free_from = a - l->all;
    pthread_cond_broadcast(&l->channel->changed);
    return was;
}

/* Removes a cancelled or expired request; false: there is none. */
static bool remove_late(uds_rpc_client_line *l, uds_rpc_client_asked *out)
{
    const int64_t now = mf_clock_ns();

    l->nearest_ns = INT64_MAX;
    for (int64_t i = 0; i < l->n; i++) {
        uds_rpc_client_asked *a = &l->all[i];

        if (a->done && (a->is_cancelled || a->deadline_ns <= now)) {
            *out = remove_asked(l, a);
            return true;
        }
        if (a->done && a->deadline_ns < l->nearest_ns)
            l->nearest_ns = a->deadline_ns;
    }
    return false;
}

/* ---- replies ---- */

/* Memory that the server lends until it is returned. */
typedef struct borrowed {
    uds_rpc_client_line *line;
    uint64_t slot;
} borrowed;

static void uds_rpc_client_give_back(uds_rpc_client_line *l, uint64_t slot)
{
    atomic_store_explicit(&l->words->lent[slot], 0, memory_order_release);
}

static void uds_rpc_client_release(void *ctx)
{
    borrowed *b = ctx;

    uds_rpc_client_give_back(b->line, b->slot);
    uds_rpc_client_unref_line(b->line);
    mf_free(b);
}

/* The lent part after the bytes of a reply. False: it is not in the region. */
static bool uds_rpc_client_borrow(uds_rpc_client_line *l, const mf_uds_frame *f, mf_iovec *out)
{
    borrowed *b;

    if (!l->region || !l->words || f->slot >= MF_LEND_SLOTS || f->lent_size > l->region_size ||
        f->lent_at > l->region_size - f->lent_size)
        return false;
    b = mf_calloc(1, sizeof *b);
    if (!b) {
        uds_rpc_client_give_back(l, f->slot);
        return false;
    }
    *b = (borrowed){ l, f->slot };
    atomic_fetch_add(&l->refs, 1);
    *out = (mf_iovec){ l->region + f->lent_at, f->lent_size, uds_rpc_client_release, b };
    return true;
}

static void uds_rpc_client_answer(uds_rpc_client_line *l, const mf_uds_frame *f, const char *text,
                                  const void *data)
{
    mf_iovec parts[2] = { { .data = data, .size = f->size } };
    int n = 1;
    uds_rpc_client_asked *a, was = { 0 };
    mf_status st = f->status <= MF_UNAUTHENTICATED ? (mf_status)f->status : MF_UNKNOWN;

    if (f->lent_size > 0 && !uds_rpc_client_borrow(l, f, &parts[n++])) {
        n = 1;
        st = MF_INTERNAL;
        text = "cannot read the reply: its memory is not in the shared region";
    }
    pthread_mutex_lock(&l->channel->lock);
    a = find_asked(l, f->id);
    if (a)
        was = remove_asked(l, a);
    pthread_mutex_unlock(&l->channel->lock);
    if (!was.done || st != MF_OK) {
        mf_iovec_release(parts, n);
        n = 0;
    }
    if (was.done)
        was.done(was.ctx, st, text, parts, n);
}

/* ---- the reading thread ---- */

static void send_cancel(uds_rpc_client_line *l, uint64_t id)
{
    if (mf_uds_line_send(&l->base, &(mf_uds_frame){ .kind = MF_UDS_CANCEL, .id = id }, "", NULL, 0,
                         -1) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}

static void end_late(uds_rpc_client_line *l)
{
    uds_rpc_client_asked a;
    bool some;

    do {
        pthread_mutex_lock(&l->channel->lock);
        some = remove_late(l, &a);
        pthread_mutex_unlock(&l->channel->lock);
        if (some) {
            send_cancel(l, a.id);
            a.done(a.ctx, a.is_cancelled ? MF_CANCELLED : MF_DEADLINE_EXCEEDED,
                   a.is_cancelled ? "the request was cancelled" : "no reply before the deadline",
                   NULL, 0);
        }
    } while (some);
}

static mf_status uds_rpc_client_take_frame(uds_rpc_client_line *l)
{
    mf_uds_frame f;
    const void *data;
    char *text;
    size_t size;
    mf_status st = mf_uds_line_read(&l->base, &f, &text, &data);

    if (st == MF_OK && f.kind == MF_UDS_HELLO && !l->region) {
        l->region = mf_uds_line_map(&l->base, false, &size);
        l->region_size = size;
    } else if (st == MF_OK && f.kind == MF_UDS_ANSWER) {
        uds_rpc_client_answer(l, &f, text, data);
    } else if (st == MF_OK) {
        st = MF_FAIL(MF_UNAVAILABLE, "the peer is not Meshflow, or another version");
    }
    mf_free(text);
    return st;
}

/* has_frame: a frame was received; is_late: deadlines or cancelled requests must be checked. */
static void await_something(uds_rpc_client_line *l, bool *has_frame, bool *is_late)
{
    struct pollfd p[2] = { { .fd = l->base.fd, .events = POLLIN },
                           { .fd = l->wake, .events = POLLIN } };
    int64_t nearest;
    uint64_t count;

    *has_frame = mf_uds_line_has_more(&l->base);
    *is_late = false;
    if (*has_frame)
        return;
    pthread_mutex_lock(&l->channel->lock);
    nearest = l->nearest_ns;
    pthread_mutex_unlock(&l->channel->lock);
    if (nearest != INT64_MAX) {
        const int64_t left = (nearest - mf_clock_ns()) / 1000000 + 1;

        (void)poll(p, 2, left < 0 ? 0 : left < 3600000 ? (int)left : 3600000);
    } else {
        (void)poll(p, 2, -1);
    }
    *has_frame = p[0].revents != 0;
    *is_late = !*has_frame || p[1].revents || mf_clock_ns() >= nearest;
    if (p[1].revents && read(l->wake, &count, sizeof count) < 0)
        MF_WARN("%s", strerror(errno));
}

static bool uds_rpc_client_is_closing(uds_rpc_client_line *l)
{
    bool closing;

    pthread_mutex_lock(&l->channel->lock);
    closing = l->channel->is_closing && l->left == 0;
    pthread_mutex_unlock(&l->channel->lock);
    return closing;
}

/* Fails all requests of a lost connection. */
static void fail_all(uds_rpc_client_line *l)
{
    char why[MF_ERROR_MESSAGE_MAX];
    uds_rpc_client_asked a;
    bool some;

    (void)snprintf(why, sizeof why, "%s", mf_error_message());
    do {
        some = false;
        pthread_mutex_lock(&l->channel->lock);
        if (l->channel->line == l)
            l->channel->line = NULL;
        for (int64_t i = 0; i < l->n && !some; i++) {
            if (l->all[i].done) {
                a = remove_asked(l, &l->all[i]);
                some = true;
            }
        }
        pthread_mutex_unlock(&l->channel->lock);
        if (some)
            a.done(a.ctx, MF_UNAVAILABLE, why, NULL, 0);
    } while (some);
}

static void *take_answers(void *arg)
{
    uds_rpc_client_line *l = arg;
    mf_rpc_channel *c = l->channel;
    mf_status st = MF_OK;

    while (st == MF_OK && !uds_rpc_client_is_closing(l)) {
        bool has_frame, is_late;

        await_something(l, &has_frame, &is_late);
        if (has_frame)
            st = uds_rpc_client_take_frame(l);
        if (is_late)
            end_late(l);
    }
    if (st == MF_OK)
        (void)MF_FAIL(MF_UNAVAILABLE, "the connection is closed");
    fail_all(l);
    uds_rpc_client_unref_line(l);
    pthread_mutex_lock(&c->lock);
    c->lines--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- connecting ---- */

/* Lending words: a file that both sides map. Without it everything is copied. */
static int make_words(uds_rpc_client_line *l)
{
    const int file = memfd_create("meshflow-lent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;

    if (file < 0)
        return -1;
    at = ftruncate(file, sizeof *l->words) == 0
             ? mmap(NULL, sizeof *l->words, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
             : MAP_FAILED;
    if (at == MAP_FAILED) {
        (void)close(file);
        return -1;
    }
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        (void)munmap(at, sizeof *l->words);
        (void)close(file);
        return -1;
    }
    l->words = at;
    return file;
}

static bool send_hello(uds_rpc_client_line *l)
{
    const int file = make_words(l);
    const mf_status st =
        mf_uds_line_send(&l->base, &(mf_uds_frame){ .kind = MF_UDS_HELLO }, "", NULL, 0, file);

    if (file >= 0)
        (void)close(file);
    return st == MF_OK;
}

static int connect_line(const char *address)
{
    struct sockaddr_un name;
    const socklen_t size = mf_uds_rpc_name(address, &name);
    const int fd = size > 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&name, size) != 0 || mf_uds_check_user(fd) != MF_OK) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* The caller holds the lock. NULL: no server listens. */
static uds_rpc_client_line *uds_rpc_client_find_line(mf_rpc_channel *c)
{
    pthread_t thread;
    uds_rpc_client_line *l;
    int fd;

    if (c->line || c->is_closing)
        return c->line;
    fd = connect_line(c->address);
    if (fd < 0)
        return NULL;
    l = mf_calloc(1, sizeof *l);
    if (!l || mf_uds_line_init(&l->base, fd) != MF_OK) {
        (void)close(fd);
        mf_free(l);
        return NULL;
    }
    l->channel = c;
    l->nearest_ns = INT64_MAX;
    atomic_init(&l->refs, 1);
    l->wake = eventfd(0, EFD_CLOEXEC);
    if (l->wake < 0 || !send_hello(l) || mf_thread_start(&thread, take_answers, l) != 0) {
        uds_rpc_client_free_line(l);
        return NULL;
    }
    (void)pthread_detach(thread);
    c->lines++;
    c->line = l;
    return l;
}

static bool local_reaches(mf_rpc_channel *c)
{
    bool reaches;

    pthread_mutex_lock(&c->lock);
    reaches = uds_rpc_client_find_line(c) != NULL;
    pthread_mutex_unlock(&c->lock);
    return reaches;
}

/* ---- requests ---- */

/* Registers the request; the connection gets a reference. NULL: *why is the reason. */
static uds_rpc_client_line *uds_rpc_client_begin(mf_rpc_channel *c, const mf_rpc_question *q,
                                                 uint64_t *id, const char **why)
{
    uds_rpc_client_line *l;
    uds_rpc_client_asked *a = NULL;

    pthread_mutex_lock(&c->lock);
    l = uds_rpc_client_find_line(c);
    if (l)
        a = add_asked(l, q);
    if (a) {
        *id = a->id;
        atomic_fetch_add(&l->refs, 1);
        if (a->deadline_ns < l->nearest_ns) {
            l->nearest_ns = a->deadline_ns;
            uds_rpc_client_wake(l);
        }
    }
    pthread_mutex_unlock(&c->lock);
    *why = l ? "no memory for a call" : "no process listens there";
    return a ? l : NULL;
}

static void *local_ask(mf_rpc_channel *c, const mf_rpc_question *q)
{
    mf_uds_frame f = { .kind = MF_UDS_ASK, .left_ns = INT64_MAX };
    const char *why;
    uds_rpc_client_line *l = uds_rpc_client_begin(c, q, &f.id, &why);

    if (!l) {
        mf_iovec_release(q->parts, q->n_parts);
        q->done(q->ctx, MF_UNAVAILABLE, why, NULL, 0);
        return NULL;
    }
    if (q->deadline_ns != INT64_MAX)
        f.left_ns = q->deadline_ns - mf_clock_ns();
    /* If sending fails the connection is shut down, and its thread fails all requests. */
    if (mf_uds_line_send(&l->base, &f, q->method, q->parts, q->n_parts, -1) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    mf_iovec_release(q->parts, q->n_parts);
    uds_rpc_client_unref_line(l);
    return (void *)(uintptr_t)f.id;
}

static void uds_rpc_client_local_cancel(mf_rpc_channel *c, void *which)
{
    uds_rpc_client_asked *a;

    pthread_mutex_lock(&c->lock);
    a = c->line ? find_asked(c->line, (uint64_t)(uintptr_t)which) : NULL;
    if (a) {
        a->is_cancelled = true;
        uds_rpc_client_wake(c->line);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- opening and closing ---- */

static mf_status uds_rpc_client_local_connect(const char *address, const mf_security *security,
                                              mf_rpc_channel **out)
{
    mf_rpc_channel *c = mf_calloc(1, sizeof *c);

    (void)security; /* the peer is of this user */
    *out = c;
    if (!c)
        return MF_NOMEM("a connection");
    (void)snprintf(c->address, sizeof c->address, "%s", address);
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    return MF_OK;
}

static void local_disconnect(mf_rpc_channel *c)
{
    pthread_mutex_lock(&c->lock);
    c->is_closing = true;
    for (int64_t i = 0; c->line && i < c->line->n; i++)
        c->line->all[i].is_cancelled = true;
    if (c->line)
        uds_rpc_client_wake(c->line);
    while (c->lines > 0)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mf_free(c);
}

const mf_rpc_kind mf_rpc_local = {
    .serve = mf_uds_rpc_serve,
    .address = mf_uds_rpc_address,
    .answer = mf_uds_rpc_answer,
    .stop = mf_uds_rpc_stop,
    .connect = uds_rpc_client_local_connect,
    .reaches = local_reaches,
    .ask = local_ask,
    .cancel = uds_rpc_client_local_cancel,
    .disconnect = local_disconnect,
};
