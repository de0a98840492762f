/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_client.c - requests to etcd: selection of an endpoint, timeouts, and retries. */
#include "base/clock.h"
#include "base/mem.h"
#include "plugins/common/network_trust.h"
#include "plugins/etcd/etcd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t TRY_NS = 500000000; /* minimum for one of several endpoints */
static const int64_t ALONE_NS = 1000000000; /* for the first attempt with a single endpoint */
static const int64_t PAUSE_NS = 100000000; /* after a round without a reply */

/* ---- opening ---- */

static mf_status etcd_client_copy(char **to, const char *from)
{
    if (from && access(from, R_OK) != 0)
        return MF_FAIL(MF_NOT_FOUND, "cannot read '%s': %s", from, strerror(errno));
    *to = from ? mf_strdup(from) : NULL;
    return !from || *to ? MF_OK : MF_NOMEM("a file name");
}

static mf_status add_endpoint(etcd_client *c, const char *host, size_t len, const mf_security *s)
{
    static const char known[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_[]:";
    char address[MF_ADDRESS_MAX], url[MF_ADDRESS_MAX + 16];
    mf_endpoint there;

    (void)snprintf(address, sizeof address, "%.*s", (int)len, host);
    if (len == 0 || len >= sizeof address || strspn(address, known) != len || !strchr(address, ':'))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is not an address of etcd: expected HOST:PORT",
                       address);
    if (c->n == ETCD_ENDPOINTS_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "more than %d endpoints of etcd", ETCD_ENDPOINTS_MAX);
    if (!mf_security_has_tls(s) && !s->insecure_any_peer) {
        MF_TRY(mf_endpoint_parse(address, &there));
        MF_TRY(mf_security_check_address(s, &there, address, "asking etcd at"));
    }
    (void)snprintf(url, sizeof url, "%s://%s", mf_security_has_tls(s) ? "https" : "http", address);
    c->endpoints[c->n] = mf_strdup(url);
    return c->endpoints[c->n++] ? MF_OK : MF_NOMEM("an address");
}

mf_status etcd_client_init(etcd_client *c, const char *hosts, size_t len, const mf_store_options *o)
{
    const char *end = hosts + len;

    pthread_mutex_init(&c->lock, NULL);
    c->timeout_ns = o->timeout_ns;
    MF_TRY(mf_security_check_files(&o->security));
    MF_TRY(etcd_client_copy(&c->ca, o->security.ca));
    MF_TRY(etcd_client_copy(&c->cert, o->security.cert));
    MF_TRY(etcd_client_copy(&c->key, o->security.key));
    for (const char *p = hosts; p <= end;) {
        const size_t n = strcspn(p, ",/");

        MF_TRY(add_endpoint(c, p, n, &o->security));
        p += n + 1;
    }
    c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    return c->headers ? MF_OK : MF_NOMEM("a store");
}

void etcd_client_deinit(etcd_client *c)
{
    for (etcd_connection *l = c->connections, *next; l; l = next) {
        next = l->next;
        etcd_connection_free(l);
    }
    for (int i = 0; i < c->n; i++)
        mf_free(c->endpoints[i]);
    mf_free(c->ca);
    mf_free(c->cert);
    mf_free(c->key);
    curl_slist_free_all(c->headers);
    pthread_mutex_destroy(&c->lock);
}

static int preferred(etcd_client *c)
{
    int i;

    pthread_mutex_lock(&c->lock);
    i = c->preferred;
    pthread_mutex_unlock(&c->lock);
    return i;
}

/* ---- one attempt ---- */

/* A failure that may not affect other endpoints. */
static bool is_passing(mf_status st)
{
    return st == MF_UNAVAILABLE || st == MF_DEADLINE_EXCEEDED;
}

static mf_status wrapped(const etcd_client *c, mf_status st, int endpoint)
{
    char before[MF_ERROR_MESSAGE_MAX];

    (void)snprintf(before, sizeof before, "%s", mf_error_message());
    return MF_FAIL(st, "%s: %.800s", c->endpoints[endpoint], before);
}

/* *again: another endpoint may be tried. */
static mf_status ask_one(etcd_client *c, etcd_connection *l, int endpoint, const etcd_call *call,
                         int64_t deadline_ns, etcd_decode *decode, void *arg, bool *again)
{
    mf_status st;
    etcd_outcome how;

    *again = false;
    MF_TRY(etcd_connection_begin(c, l, endpoint, call));
    how = etcd_connection_run(l, deadline_ns, NULL, NULL);
    if (how == ETCD_ANSWERED) {
        st = decode(&(etcd_text){ l->bytes ? l->bytes : "", l->len, etcd_connection_http(l) }, arg);
        if (st != MF_OK)
            st = wrapped(c, st, endpoint);
    } else {
        st = etcd_connection_failed(c, l, endpoint);
    }
    *again = is_passing(st) && (how == ETCD_NOT_SENT || !call->once);
    if (is_passing(st) && call->once && how != ETCD_NOT_SENT)
        st = MF_FAIL(st, "%.800s (the request may have been executed)", mf_error_message());
    return st;
}

/* ---- retries ---- */

static int64_t etcd_client_sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void etcd_client_rest(void)
{
    (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
}

/* After a network partition a connection can stay silent for long, so a new one is tried soon;
 * later attempts get more time, because etcd may be slow. */
static int64_t try_ns(const etcd_client *c, int tries)
{
    if (c->n == 1)
        return tries * ALONE_NS;
    return c->timeout_ns / c->n < TRY_NS ? TRY_NS : c->timeout_ns / c->n;
}

mf_status etcd_ask(etcd_client *c, const etcd_call *call, etcd_decode *decode, void *arg)
{
    const int64_t deadline = mf_clock_ns() + c->timeout_ns;
    int endpoint = preferred(c);
    bool again = true;
    etcd_connection *l;
    mf_status st;

    MF_TRY(etcd_connection_take(c, &l));
    for (int tries = 1;; tries++) {
        const bool once = call->once && c->n == 1; /* not repeated */
        const int64_t until =
            once ? deadline : etcd_client_sooner(deadline, mf_clock_ns() + try_ns(c, tries));

        st = ask_one(c, l, endpoint, call, until, decode, arg, &again);
        if (!is_passing(st))
            break;
        endpoint = (endpoint + 1) % c->n;
        if (!again || mf_clock_ns() + 2 * PAUSE_NS >= deadline)
            break;
        if (tries % c->n == 0)
            etcd_client_rest();
    }
    etcd_connection_give(c, l, endpoint);
    return st;
}

/* ---- watching ---- */

typedef struct etcd_client_watch {
    etcd_client *c;
    etcd_connection *l;
    size_t done; /* bytes already scanned */
    bool changed, cancelled;
    mf_status st;
} etcd_client_watch;

static void decode_line(etcd_client_watch *w, size_t len)
{
    const etcd_text t = { w->l->bytes + w->done, len, etcd_connection_http(w->l) };

    w->st = etcd_watch_decode(&t, &w->changed);
}

/* Data has arrived, or the watch was woken. */
static bool is_enough(void *arg)
{
    etcd_client_watch *w = arg;
    const char *end;

    pthread_mutex_lock(&w->c->lock);
    w->cancelled = w->c->cancelled;
    pthread_mutex_unlock(&w->c->lock);
    while (!w->changed && w->st == MF_OK && w->l->len > w->done &&
           (end = memchr(w->l->bytes + w->done, '\n', w->l->len - w->done)) != NULL) {
        decode_line(w, (size_t)(end - w->l->bytes) - w->done);
        w->done = (size_t)(end - w->l->bytes) + 1;
    }
    return w->changed || w->cancelled || w->st != MF_OK;
}

/* Fails with DEADLINE_EXCEEDED if nothing has changed. */
static mf_status watch_one(etcd_client_watch *w, int endpoint, const etcd_call *call,
                           int64_t deadline_ns)
{
    etcd_outcome how;

    w->done = 0;
    w->st = MF_OK;
    MF_TRY(etcd_connection_begin(w->c, w->l, endpoint, call));
    how = etcd_connection_run(w->l, deadline_ns, is_enough, w);
    if (w->cancelled)
        return MF_FAIL(MF_CANCELLED, "waiting for the store was cancelled");
    if (how == ETCD_ANSWERED && w->l->len > w->done)
        decode_line(w, w->l->len - w->done); /* an error reply is not a stream */
    if (w->st != MF_OK)
        return wrapped(w->c, w->st, endpoint);
    if (w->changed)
        return MF_OK;
    if (how == ETCD_ANSWERED)
        return MF_FAIL(MF_UNAVAILABLE, "etcd at %s ended a watch", w->c->endpoints[endpoint]);
    if (w->l->late && (how != ETCD_NOT_SENT || w->l->said[0] == '\0'))
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "nothing has changed");
    return etcd_connection_failed(w->c, w->l, endpoint);
}

/* An endpoint that is partitioned from the others, or stopped, sends nothing, so the watch moves to
 * another endpoint periodically. No change is missed: a watch begins at a revision. */
mf_status etcd_watch(etcd_client *c, const char *body, int64_t deadline_ns)
{
    const etcd_call call = { .path = "/v3/watch", .body = body };
    int endpoint = preferred(c);
    etcd_client_watch w = { .c = c };
    mf_status st = MF_OK;

    MF_TRY(etcd_connection_take(c, &w.l));
    for (;;) {
        st = watch_one(&w, endpoint, &call,
                       etcd_client_sooner(deadline_ns, mf_clock_ns() + c->timeout_ns));
        if (!is_passing(st))
            break;
        endpoint = (endpoint + 1) % c->n;
        if (mf_clock_ns() + (st == MF_UNAVAILABLE ? 2 * PAUSE_NS : 0) >= deadline_ns)
            break;
        if (st == MF_UNAVAILABLE)
            etcd_client_rest();
    }
    etcd_connection_give(c, w.l, endpoint);
    return st;
}

void etcd_cancel(etcd_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->cancelled = true;
    for (etcd_connection *l = c->connections; l; l = l->next)
        (void)curl_multi_wakeup(l->multi);
    pthread_mutex_unlock(&c->lock);
}
