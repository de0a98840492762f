/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_inside.c - see rpc_inside.h. */
#include "rpc_inside.h"

#include "base/clock.h"
#include "base/cond.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SERVERS = 8,
    LOOK_MS = 5, /* how often deadlines are looked at */
    HANG_S = 60, /* a call that is cancelled must end by then */
};

struct mf_rpc_server {
    char address[64];
    const mf_rpc_service *service;
    void *ctx;
    int calls;
};

struct mf_rpc_channel {
    char address[64];
    int calls;
};

typedef struct inside {
    mf_rpc_call base; /* first */
    mf_rpc_server *server; /* NULL: nobody listens there */
    mf_rpc_channel *channel;
    char method[100];
    uint8_t *data;
    size_t size;
    mf_rpc_question q;
    /* guarded by the net's lock: */
    int refs; /* of the thread, of the list, and while it is cancelled */
    bool is_told, is_answered;
    int64_t cancelled_ns; /* 0: not */
    struct inside *next;
} inside;

static struct {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    mf_rpc_server *servers[SERVERS];
    inside *calls; /* that are not answered */
    bool watches;
} net = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- calls; with the lock ---- */

static void unref(inside *c)
{
    if (--c->refs > 0)
        return;
    if (c->server)
        c->server->calls--;
    c->channel->calls--;
    pthread_cond_broadcast(&net.changed);
    free(c->data);
    free(c);
}

/* Unlocks while the service is told. */
static void cancel_one(inside *c)
{
    const bool tell = c->is_told && !c->is_answered && c->cancelled_ns == 0;

    if (c->cancelled_ns == 0)
        c->cancelled_ns = mf_clock_ns();
    atomic_store(&c->base.gone, true);
    if (!tell)
        return;
    c->refs++;
    pthread_mutex_unlock(&net.lock);
    c->server->service->cancelled(c->server->ctx, &c->base);
    pthread_mutex_lock(&net.lock);
    unref(c);
}

static bool is_of(const inside *c, const mf_rpc_server *s, const mf_rpc_channel *channel)
{
    return (s && c->server == s) || (channel && c->channel == channel);
}

static void cancel_all(const mf_rpc_server *s, const mf_rpc_channel *channel)
{
    inside *c = net.calls;

    while (c) {
        if (is_of(c, s, channel) && c->cancelled_ns == 0) {
            cancel_one(c);
            c = net.calls; /* the list may be another */
        } else {
            c = c->next;
        }
    }
}

static void take_off(inside *c)
{
    inside **at = &net.calls;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

/* ---- deadlines ---- */

static void look(void)
{
    const int64_t now = mf_clock_ns();
    inside *c = net.calls;

    while (c) {
        if (c->cancelled_ns > 0 && now - c->cancelled_ns > HANG_S * INT64_C(1000000000)) {
            fprintf(stderr, "%s does not end although it was cancelled\n", c->method);
            abort();
        }
        if (c->cancelled_ns == 0 && now >= c->base.deadline_ns) {
            cancel_one(c);
            c = net.calls;
        } else {
            c = c->next;
        }
    }
}

static void *watch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&net.lock);
    for (;;) {
        pthread_mutex_unlock(&net.lock);
        (void)nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000L }, NULL);
        pthread_mutex_lock(&net.lock);
        look();
    }
    return NULL;
}

static void start_watching(void)
{
    pthread_t thread;

    if (net.watches)
        return;
    MF_ASSERT(pthread_create(&thread, NULL, watch, NULL) == 0);
    pthread_detach(thread);
    net.watches = true;
}

/* ---- answering ---- */

static void inside_answer(mf_rpc_call *call, mf_status status, const char *message,
                          const mf_part *parts, int n_parts)
{
    inside *c = (inside *)call;
    uint8_t *bytes = NULL;
    size_t size = 0;

    for (int i = 0; i < n_parts; i++) {
        bytes = realloc(bytes, size + parts[i].size + 1);
        MF_ASSERT(bytes);
        if (parts[i].size > 0)
            memcpy(bytes + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    mf_parts_release(parts, n_parts);
    pthread_mutex_lock(&net.lock);
    MF_ASSERT(!c->is_answered);
    c->is_answered = true;
    take_off(c);
    if (c->cancelled_ns > 0 && status == MF_OK)
        status = MF_CANCELLED;
    pthread_mutex_unlock(&net.lock);
    c->q.done(c->q.ctx, status, message ? message : "", &(mf_part){ .data = bytes, .size = size },
              status == MF_OK);
    free(bytes);
    pthread_mutex_lock(&net.lock);
    unref(c);
    pthread_mutex_unlock(&net.lock);
}

static void *run(void *arg)
{
    inside *c = arg;
    bool tell;

    pthread_mutex_lock(&net.lock);
    tell = c->is_told = c->server && c->cancelled_ns == 0;
    pthread_mutex_unlock(&net.lock);
    if (tell)
        c->server->service->called(c->server->ctx, &c->base, c->method, c->data, c->size);
    else
        inside_answer(&c->base, c->server ? MF_CANCELLED : MF_UNAVAILABLE, "nobody is there", NULL,
                      0);
    pthread_mutex_lock(&net.lock);
    unref(c);
    pthread_mutex_unlock(&net.lock);
    return NULL;
}

/* ---- asking ---- */

static mf_rpc_server *find(const char *address)
{
    for (int i = 0; i < SERVERS; i++) {
        if (net.servers[i] && strcmp(net.servers[i]->address, address) == 0)
            return net.servers[i];
    }
    return NULL;
}

static void *inside_ask(mf_rpc_channel *channel, const mf_rpc_question *q)
{
    inside *c = calloc(1, sizeof *c);
    pthread_t thread;

    MF_ASSERT(c);
    c->base.kind = &rpc_inside;
    c->base.deadline_ns = q->deadline_ns;
    c->channel = channel;
    (void)snprintf(c->method, sizeof c->method, "%s", q->method);
    for (int i = 0; i < q->n_parts; i++) {
        c->data = realloc(c->data, c->size + q->parts[i].size + 1);
        MF_ASSERT(c->data);
        if (q->parts[i].size > 0)
            memcpy(c->data + c->size, q->parts[i].data, q->parts[i].size);
        c->size += q->parts[i].size;
        if (q->parts[i].release)
            q->parts[i].release(q->parts[i].ctx);
    }
    c->q = *q;
    c->refs = 2;
    pthread_mutex_lock(&net.lock);
    c->server = find(channel->address);
    if (c->server)
        c->server->calls++;
    channel->calls++;
    c->next = net.calls;
    net.calls = c;
    pthread_mutex_unlock(&net.lock);
    MF_ASSERT(pthread_create(&thread, NULL, run, c) == 0);
    pthread_detach(thread);
    return c;
}

/* It is not done yet. */
static void inside_cancel(mf_rpc_channel *channel, void *asked)
{
    (void)channel;
    pthread_mutex_lock(&net.lock);
    for (inside *c = net.calls; c; c = c->next) {
        if (c == asked) {
            c->base.deadline_ns = 0; /* whoever cancels holds locks: the watch does it */
            break;
        }
    }
    pthread_mutex_unlock(&net.lock);
}

static mf_status inside_connect(const char *address, const mf_security *security,
                                mf_rpc_channel **out)
{
    (void)security;
    *out = calloc(1, sizeof **out);
    MF_ASSERT(*out);
    (void)snprintf((*out)->address, sizeof(*out)->address, "%s", address);
    return MF_OK;
}

static void inside_disconnect(mf_rpc_channel *channel)
{
    pthread_mutex_lock(&net.lock);
    cancel_all(NULL, channel);
    while (channel->calls > 0)
        pthread_cond_wait(&net.changed, &net.lock);
    pthread_mutex_unlock(&net.lock);
    free(channel);
}

/* ---- listening ---- */

static mf_status inside_serve(const mf_rpc_server_options *o, mf_rpc_server **out)
{
    mf_rpc_server *s = calloc(1, sizeof *s);
    int at = 0;

    *out = s;
    MF_ASSERT(s);
    (void)snprintf(s->address, sizeof s->address, "%s", o->address);
    s->service = o->service;
    s->ctx = o->ctx;
    pthread_mutex_lock(&net.lock);
    start_watching();
    while (net.servers[at])
        at++;
    MF_ASSERT(at < SERVERS);
    net.servers[at] = s;
    pthread_mutex_unlock(&net.lock);
    return MF_OK;
}

static const char *inside_address(const mf_rpc_server *s)
{
    return s->address;
}

static void inside_stop(mf_rpc_server *s)
{
    pthread_mutex_lock(&net.lock);
    for (int i = 0; i < SERVERS; i++) {
        if (net.servers[i] == s)
            net.servers[i] = NULL;
    }
    cancel_all(s, NULL);
    while (s->calls > 0)
        pthread_cond_wait(&net.changed, &net.lock);
    pthread_mutex_unlock(&net.lock);
    free(s);
}

const mf_rpc_kind rpc_inside = {
    .serve = inside_serve,
    .address = inside_address,
    .answer = inside_answer,
    .stop = inside_stop,
    .connect = inside_connect,
    .ask = inside_ask,
    .cancel = inside_cancel,
    .disconnect = inside_disconnect,
};
