/* SPDX-License-Identifier: Apache-2.0 */
/* inproc_rpc.c - the RPC transport between servers and sessions of one process. The canceller may
 * hold locks that a service needs, so a separate thread, which also handles deadlines, notifies
 * services. It exists as long as there is a server. */
#include "rpc/inproc_rpc.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char SCHEME[] = "inside:";

struct mf_rpc_server {
    char address[32];
    const mf_rpc_service *service;
    void *ctx;
    int calls; /* calls that refer to it */
    struct mf_rpc_server *next;
};

struct mf_rpc_channel {
    char address[32];
    int calls;
};

typedef struct inproc_call {
    mf_rpc_call base; /* must be the first field */
    mf_rpc_server *server; /* NULL: no server at that address */
    mf_rpc_channel *channel;
    char *method, *data; /* one block */
    size_t size;
    mf_rpc_question q;
    /* Guarded by net.lock: */
    int refs; /* of the thread, of the list, and during cancellation */
    bool is_delivered, is_answered, is_cancelled;
    bool is_late; /* cancelled by its deadline */
    int64_t until_ns; /* time of cancellation */
    struct inproc_call *next;
} inproc_call;

/* One per process, like its addresses. */
static struct {
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed, sooner; /* a call has ended; a deadline is earlier than the known
                                       ones */
    bool has_conditions, watches;
    pthread_t watch;
    mf_rpc_server *servers;
    int64_t number; /* number of the last server */
    inproc_call *calls; /* calls in flight */
} net = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool mf_is_inproc(const char *address)
{
    return strncmp(address, SCHEME, sizeof SCHEME - 1) == 0;
}

/* ---- calls; the caller holds the lock ---- */

static void inproc_rpc_unref(inproc_call *c)
{
    if (--c->refs > 0)
        return;
    if (c->server)
        c->server->calls--;
    c->channel->calls--;
    pthread_cond_broadcast(&net.changed);
    mf_free(c->method);
    mf_free(c);
}

/* Releases the lock while the service is notified. */
static void inproc_rpc_cancel_one(inproc_call *c)
{
    const bool tell = c->is_delivered && !c->is_answered && !c->is_cancelled;

    c->is_cancelled = true;
    atomic_store(&c->base.gone, true);
    if (!tell)
        return;
    c->refs++;
    pthread_mutex_unlock(&net.lock);
    c->server->service->cancelled(c->server->ctx, &c->base);
    pthread_mutex_lock(&net.lock);
    inproc_rpc_unref(c);
}

static void inproc_rpc_cancel_all(const mf_rpc_server *s, const mf_rpc_channel *channel)
{
    inproc_call *c = net.calls;

    while (c) {
        if (!c->is_cancelled && ((s && c->server == s) || (channel && c->channel == channel))) {
            inproc_rpc_cancel_one(c);
            c = net.calls; /* the list may have changed */
        } else {
            c = c->next;
        }
    }
}

static void inproc_rpc_take_off(inproc_call *c)
{
    inproc_call **at = &net.calls;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

/* ---- deadlines ---- */

/* Cancels expired calls; returns the time of the next deadline. */
static int64_t cancel_due(void)
{
    const int64_t now = mf_clock_ns();
    int64_t next = INT64_MAX;
    inproc_call *c = net.calls;

    while (c) {
        if (!c->is_cancelled && now >= c->until_ns) {
            c->is_late = now >= c->base.deadline_ns;
            inproc_rpc_cancel_one(c);
            next = INT64_MAX;
            c = net.calls;
            continue;
        }
        if (!c->is_cancelled && c->until_ns < next)
            next = c->until_ns;
        c = c->next;
    }
    return next;
}

static void *inproc_rpc_watch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&net.lock);
    while (net.watches) {
        const int64_t next = cancel_due();

        if (net.watches)
            (void)mf_cond_wait_until(&net.sooner, &net.lock, next);
    }
    pthread_mutex_unlock(&net.lock);
    return NULL;
}

static mf_status start_watching(void)
{
    if (!net.has_conditions) {
        mf_cond_init(&net.changed);
        mf_cond_init(&net.sooner);
        net.has_conditions = true;
    }
    if (net.watches)
        return MF_OK;
    net.watches = mf_thread_start(&net.watch, inproc_rpc_watch, NULL) == 0;
    return net.watches ? MF_OK : MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
}

/* ---- replies ---- */

static char *inproc_rpc_join(const mf_iovec *parts, int n, size_t *size)
{
    char *bytes, *to;

    *size = 0;
    for (int i = 0; i < n; i++)
        *size += parts[i].size;
    to = bytes = mf_calloc((int64_t)*size + 1, 1);
    for (int i = 0; bytes && i < n; i++) {
        if (parts[i].size > 0)
            memcpy(to, parts[i].data, parts[i].size);
        to += parts[i].size;
    }
    return bytes;
}

static void inproc_answer(mf_rpc_call *call, mf_status status, const char *message,
                          const mf_iovec *parts, int n_parts)
{
    inproc_call *c = (inproc_call *)call;
    size_t size = 0;
    char *bytes = inproc_rpc_join(parts, n_parts, &size);

    mf_iovec_release(parts, n_parts);
    if (!bytes && status == MF_OK) {
        status = MF_RESOURCE_EXHAUSTED;
        message = "no memory for a reply";
    }
    pthread_mutex_lock(&net.lock);
    MF_ASSERT(!c->is_answered);
    c->is_answered = true;
    inproc_rpc_take_off(c);
    if (c->is_cancelled && c->is_late) {
        status = MF_DEADLINE_EXCEEDED;
        message = "the deadline was exceeded";
    } else if (c->is_cancelled && status == MF_OK) {
        status = MF_CANCELLED;
    }
    pthread_mutex_unlock(&net.lock);
    c->q.done(c->q.ctx, status, message ? message : "", &(mf_iovec){ .data = bytes, .size = size },
              status == MF_OK);
    mf_free(bytes);
    pthread_mutex_lock(&net.lock);
    inproc_rpc_unref(c);
    pthread_mutex_unlock(&net.lock);
}

static void *inproc_rpc_run(void *arg)
{
    inproc_call *c = arg;
    bool tell;

    pthread_mutex_lock(&net.lock);
    tell = c->is_delivered = c->server && !c->is_cancelled;
    pthread_mutex_unlock(&net.lock);
    if (tell)
        c->server->service->called(c->server->ctx, &c->base, c->method, c->data, c->size);
    else
        inproc_answer(&c->base, c->server ? MF_CANCELLED : MF_UNAVAILABLE,
                      "no such server in this process", NULL, 0);
    pthread_mutex_lock(&net.lock);
    inproc_rpc_unref(c);
    pthread_mutex_unlock(&net.lock);
    return NULL;
}

/* ---- requests ---- */

/* The caller holds the lock. */
static mf_rpc_server *inproc_rpc_find(const char *address)
{
    mf_rpc_server *s = net.servers;

    while (s && strcmp(s->address, address) != 0)
        s = s->next;
    return s;
}

/* Returns NULL when memory is exhausted. */
static inproc_call *new_call(mf_rpc_channel *channel, const mf_rpc_question *q)
{
    const size_t method = strlen(q->method) + 1;
    inproc_call *c = mf_calloc(1, sizeof *c);
    char *bytes;

    if (!c)
        return NULL;
    bytes = inproc_rpc_join(q->parts, q->n_parts, &c->size);
    c->method = mf_calloc((int64_t)(method + c->size) + 1, 1);
    if (!bytes || !c->method) {
        mf_free(bytes);
        mf_free(c->method);
        mf_free(c);
        return NULL;
    }
    memcpy(c->method, q->method, method);
    c->data = c->method + method;
    memcpy(c->data, bytes, c->size);
    mf_free(bytes);
    c->base.kind = &mf_rpc_inproc;
    c->base.deadline_ns = c->until_ns = q->deadline_ns;
    c->channel = channel;
    c->q = *q;
    c->refs = 2;
    return c;
}

static void inproc_rpc_list(inproc_call *c)
{
    pthread_mutex_lock(&net.lock);
    c->server = inproc_rpc_find(c->channel->address);
    if (c->server)
        c->server->calls++;
    c->channel->calls++;
    c->next = net.calls;
    net.calls = c;
    if (c->until_ns != INT64_MAX && net.watches)
        pthread_cond_signal(&net.sooner);
    pthread_mutex_unlock(&net.lock);
}

static void *inproc_ask(mf_rpc_channel *channel, const mf_rpc_question *q)
{
    inproc_call *c = new_call(channel, q);
    pthread_t thread;

    mf_iovec_release(q->parts, q->n_parts);
    if (!c) {
        q->done(q->ctx, MF_RESOURCE_EXHAUSTED, "no memory for a call", NULL, 0);
        return NULL;
    }
    inproc_rpc_list(c);
    if (mf_thread_start(&thread, inproc_rpc_run, c) != 0) {
        inproc_answer(&c->base, MF_RESOURCE_EXHAUSTED, "cannot start a thread", NULL, 0);
        pthread_mutex_lock(&net.lock);
        inproc_rpc_unref(c);
        pthread_mutex_unlock(&net.lock);
        return NULL;
    }
    pthread_detach(thread);
    return c;
}

static void inproc_cancel(mf_rpc_channel *channel, void *asked)
{
    (void)channel;
    pthread_mutex_lock(&net.lock);
    for (inproc_call *c = net.calls; c; c = c->next) {
        if (c == asked)
            c->until_ns = 0;
    }
    if (net.watches)
        pthread_cond_signal(&net.sooner);
    pthread_mutex_unlock(&net.lock);
}

static mf_status inproc_connect(const char *address, const mf_security *security,
                                mf_rpc_channel **out)
{
    (void)security; /* there is no other peer */
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("a connection");
    (void)snprintf((*out)->address, sizeof(*out)->address, "%s", address);
    return MF_OK;
}

static bool inproc_reaches(mf_rpc_channel *channel)
{
    bool reaches;

    pthread_mutex_lock(&net.lock);
    reaches = inproc_rpc_find(channel->address) != NULL;
    pthread_mutex_unlock(&net.lock);
    return reaches;
}

static void inproc_disconnect(mf_rpc_channel *channel)
{
    pthread_mutex_lock(&net.lock);
    inproc_rpc_cancel_all(NULL, channel);
    while (channel->calls > 0)
        pthread_cond_wait(&net.changed, &net.lock);
    pthread_mutex_unlock(&net.lock);
    mf_free(channel);
}

/* ---- listening ---- */

static mf_status inproc_serve(const mf_rpc_server_options *o, mf_rpc_server **out)
{
    mf_rpc_server *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a server");
    s->service = o->service;
    s->ctx = o->ctx;
    pthread_mutex_lock(&net.lock);
    st = start_watching();
    if (st == MF_OK) {
        (void)snprintf(s->address, sizeof s->address, "%s%lld", SCHEME, (long long)++net.number);
        s->next = net.servers;
        net.servers = s;
        *out = s;
    }
    pthread_mutex_unlock(&net.lock);
    if (st != MF_OK)
        mf_free(s);
    return st;
}

static const char *inproc_address(const mf_rpc_server *s)
{
    return s->address;
}

static void inproc_stop(mf_rpc_server *s)
{
    mf_rpc_server **at = &net.servers;
    pthread_t watching;
    bool last;

    pthread_mutex_lock(&net.lock);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    inproc_rpc_cancel_all(s, NULL);
    while (s->calls > 0)
        pthread_cond_wait(&net.changed, &net.lock);
    last = !net.servers && net.watches;
    watching = net.watch; /* another server may start the thread again */
    if (last) {
        net.watches = false;
        pthread_cond_signal(&net.sooner);
    }
    pthread_mutex_unlock(&net.lock);
    if (last)
        (void)pthread_join(watching, NULL);
    mf_free(s);
}

const mf_rpc_kind mf_rpc_inproc = {
    .serve = inproc_serve,
    .address = inproc_address,
    .answer = inproc_answer,
    .stop = inproc_stop,
    .connect = inproc_connect,
    .reaches = inproc_reaches,
    .ask = inproc_ask,
    .cancel = inproc_cancel,
    .disconnect = inproc_disconnect,
};
