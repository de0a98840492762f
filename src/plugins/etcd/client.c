/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - asking etcd: which endpoint, for how long, and what to do when one does not answer. */
#include "base/clock.h"
#include "base/mem.h"
#include "plugins/common/security.h"
#include "plugins/etcd/etcd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int64_t TRY_NS = 500000000; /* at least, for one endpoint of several */
static const int64_t PAUSE_NS = 100000000; /* when none has answered */
enum { POLL_MS = 1000 };

/* ---- opening ---- */

static mf_status copy(char **to, const char *from)
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
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is no address of etcd: write HOST:PORT", address);
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
    MF_TRY(copy(&c->ca, o->security.ca));
    MF_TRY(copy(&c->cert, o->security.cert));
    MF_TRY(copy(&c->key, o->security.key));
    for (const char *p = hosts; p <= end;) {
        const size_t n = strcspn(p, ",/");

        MF_TRY(add_endpoint(c, p, n, &o->security));
        p += n + 1;
    }
    c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    return c->headers ? MF_OK : MF_NOMEM("a store");
}

static void line_free(etcd_line *l)
{
    curl_easy_cleanup(l->easy);
    if (l->multi)
        (void)curl_multi_cleanup(l->multi);
    mf_free(l->bytes);
    mf_free(l);
}

void etcd_client_deinit(etcd_client *c)
{
    for (etcd_line *l = c->lines, *next; l; l = next) {
        next = l->next;
        line_free(l);
    }
    for (int i = 0; i < c->n; i++)
        mf_free(c->endpoints[i]);
    mf_free(c->ca);
    mf_free(c->cert);
    mf_free(c->key);
    curl_slist_free_all(c->headers);
    pthread_mutex_destroy(&c->lock);
}

/* ---- lines ---- */

static size_t take_bytes(char *data, size_t one, size_t n, void *arg)
{
    etcd_line *l = arg;

    (void)one; /* is 1 */
    l->too_large |= l->len + n > ETCD_ANSWER_MAX;
    if (l->too_large)
        return 0;
    if (l->len + n + 1 > l->cap) {
        const size_t cap = 2 * (l->len + n) + 4096;
        char *larger = mf_calloc((int64_t)cap, 1);

        if (!larger) {
            l->no_memory = true;
            return 0;
        }
        if (l->len > 0)
            memcpy(larger, l->bytes, l->len);
        mf_free(l->bytes);
        l->bytes = larger;
        l->cap = cap;
    }
    memcpy(l->bytes + l->len, data, n);
    l->len += n;
    return n;
}

/* What stays the same from call to call. */
static bool set_up(const etcd_client *c, etcd_line *l)
{
    CURL *e = l->easy;
    bool ok = curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;

    ok &= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, c->ca ? "https" : "http") == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, l->why) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_bytes) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_WRITEDATA, l) == CURLE_OK;
    if (!c->ca)
        return ok;
    ok &= curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_CAINFO, c->ca) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_CAPATH, NULL) == CURLE_OK; /* ours, and no other */
    ok &= curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_SSLKEY, c->key) == CURLE_OK;
    return ok;
}

static etcd_line *line_new(const etcd_client *c)
{
    etcd_line *l = mf_calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->easy = curl_easy_init();
    l->multi = curl_multi_init();
    if (l->easy && l->multi && set_up(c, l))
        return l;
    line_free(l);
    return NULL;
}

static mf_status line_take(etcd_client *c, etcd_line **out)
{
    etcd_line *l;

    pthread_mutex_lock(&c->lock);
    for (l = c->lines; l && l->busy;)
        l = l->next;
    if (!l) {
        l = line_new(c);
        if (l) {
            l->next = c->lines;
            c->lines = l;
        }
    }
    if (l) {
        l->busy = true;
        l->said[0] = '\0';
    }
    pthread_mutex_unlock(&c->lock);
    *out = l;
    return l ? MF_OK : MF_NOMEM("a connection");
}

static void line_give(etcd_client *c, etcd_line *l, int endpoint)
{
    pthread_mutex_lock(&c->lock);
    l->busy = false;
    c->preferred = endpoint;
    pthread_mutex_unlock(&c->lock);
}

static int preferred(etcd_client *c)
{
    int i;

    pthread_mutex_lock(&c->lock);
    i = c->preferred;
    pthread_mutex_unlock(&c->lock);
    return i;
}

/* ---- one try ---- */

typedef enum outcome {
    ANSWERED,
    NOT_SENT, /* it has not reached anybody */
    UNKNOWN, /* it may have, and no whole answer came; l->why says more */
    STOPPED,
} outcome;

static outcome outcome_of(etcd_line *l)
{
    int left;
    const CURLMsg *m = curl_multi_info_read(l->multi, &left);
    const CURLcode code = m ? m->data.result : CURLE_RECV_ERROR;

    if (code == CURLE_OK)
        return ANSWERED;
    if (l->why[0] == '\0')
        (void)snprintf(l->why, sizeof l->why, "%s", curl_easy_strerror(code));
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return NOT_SENT;
    default:
        return UNKNOWN;
    }
}

/* Time is over. Of a new connection (etcd_call.once) it is known whether it came about. */
static outcome give_up(etcd_line *l)
{
    curl_off_t connected = 0;

    l->late = true;
    (void)snprintf(l->why, sizeof l->why, "no answer in time");
    (void)curl_easy_getinfo(l->easy, CURLINFO_CONNECT_TIME_T, &connected);
    return connected == 0 ? NOT_SENT : UNKNOWN;
}

static outcome run(etcd_line *l, int64_t deadline_ns, bool (*stop)(void *arg), void *arg)
{
    outcome how = UNKNOWN;
    int running = 1;

    if (curl_multi_add_handle(l->multi, l->easy) != CURLM_OK)
        return NOT_SENT;
    while (curl_multi_perform(l->multi, &running) == CURLM_OK) {
        const int64_t left_ms = (deadline_ns - mf_clock_ns()) / 1000000;

        if (stop && stop(arg)) {
            how = STOPPED;
            break;
        }
        if (running == 0) {
            how = outcome_of(l);
            break;
        }
        if (left_ms <= 0) {
            how = give_up(l);
            break;
        }
        (void)curl_multi_poll(l->multi, NULL, 0, left_ms < POLL_MS ? (int)left_ms : POLL_MS, NULL);
    }
    (void)curl_multi_remove_handle(l->multi, l->easy); /* ends a connection that is not done */
    return how;
}

static mf_status begin(const etcd_client *c, etcd_line *l, int endpoint, const etcd_call *call)
{
    char url[MF_ADDRESS_MAX + 64];
    bool ok;

    l->len = 0;
    l->late = l->too_large = l->no_memory = false;
    l->why[0] = '\0';
    (void)snprintf(url, sizeof url, "%s%s", c->endpoints[endpoint], call->path);
    ok = curl_easy_setopt(l->easy, CURLOPT_URL, url) == CURLE_OK;
    ok &= curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, call->body) == CURLE_OK;
    /* On a connection that was used before, libcurl would send again what got no answer. */
    ok &= curl_easy_setopt(l->easy, CURLOPT_FRESH_CONNECT, call->once ? 1L : 0L) == CURLE_OK;
    return ok ? MF_OK : MF_NOMEM("a request");
}

static long http_of(const etcd_line *l)
{
    long http = 0;

    (void)curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &http);
    return http;
}

/* When the time of a call is over, what earlier tries have met with says more. */
static mf_status without_answer(const etcd_client *c, etcd_line *l, int endpoint)
{
    if (l->no_memory)
        return MF_NOMEM("an answer of etcd");
    if (l->too_large)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "etcd at %s answers with more than %d bytes",
                       c->endpoints[endpoint], ETCD_ANSWER_MAX);
    if (!l->late || l->said[0] == '\0')
        (void)snprintf(l->said, sizeof l->said, "etcd at %s: %s", c->endpoints[endpoint], l->why);
    return MF_FAIL(MF_UNAVAILABLE, "%s", l->said);
}

/* What failed at one endpoint may go well at another. */
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

/* *again: another one may be asked. */
static mf_status ask_one(etcd_client *c, etcd_line *l, int endpoint, const etcd_call *call,
                         int64_t deadline_ns, etcd_decode *decode, void *arg, bool *again)
{
    mf_status st;
    outcome how;

    *again = false;
    MF_TRY(begin(c, l, endpoint, call));
    how = run(l, deadline_ns, NULL, NULL);
    if (how == ANSWERED) {
        st = decode(&(etcd_text){ l->bytes ? l->bytes : "", l->len, http_of(l) }, arg);
        if (st != MF_OK)
            st = wrapped(c, st, endpoint);
    } else {
        st = without_answer(c, l, endpoint);
    }
    *again = is_passing(st) && (how == NOT_SENT || !call->once);
    if (is_passing(st) && call->once && how != NOT_SENT)
        st = MF_FAIL(st, "%.800s (it is not known whether it was done)", mf_error_message());
    return st;
}

/* ---- one endpoint after the other ---- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void rest(void)
{
    (void)nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
}

mf_status etcd_ask(etcd_client *c, const etcd_call *call, etcd_decode *decode, void *arg)
{
    const int64_t deadline = mf_clock_ns() + c->timeout_ns;
    const int64_t one_ns =
        c->n == 1 || c->timeout_ns / c->n < TRY_NS ? TRY_NS : c->timeout_ns / c->n;
    int endpoint = preferred(c);
    bool again = true;
    etcd_line *l;
    mf_status st;

    MF_TRY(line_take(c, &l));
    for (int tries = 1;; tries++) {
        const int64_t until = c->n == 1 ? deadline : sooner(deadline, mf_clock_ns() + one_ns);

        st = ask_one(c, l, endpoint, call, until, decode, arg, &again);
        if (!is_passing(st))
            break;
        endpoint = (endpoint + 1) % c->n;
        if (!again || mf_clock_ns() + 2 * PAUSE_NS >= deadline)
            break;
        if (tries % c->n == 0)
            rest();
    }
    line_give(c, l, endpoint);
    return st;
}

/* ---- watching ---- */

typedef struct watch {
    etcd_client *c;
    etcd_line *l;
    size_t done; /* bytes that were looked at */
    bool changed, cancelled;
    mf_status st;
} watch;

static void look_at_line(watch *w, size_t len)
{
    const etcd_text t = { w->l->bytes + w->done, len, http_of(w->l) };

    w->st = etcd_watch_decode(&t, &w->changed);
}

/* Something has come, or somebody has called. */
static bool is_enough(void *arg)
{
    watch *w = arg;
    const char *end;

    pthread_mutex_lock(&w->c->lock);
    w->cancelled = w->c->cancelled;
    pthread_mutex_unlock(&w->c->lock);
    while (!w->changed && w->st == MF_OK && w->l->len > w->done &&
           (end = memchr(w->l->bytes + w->done, '\n', w->l->len - w->done)) != NULL) {
        look_at_line(w, (size_t)(end - w->l->bytes) - w->done);
        w->done = (size_t)(end - w->l->bytes) + 1;
    }
    return w->changed || w->cancelled || w->st != MF_OK;
}

/* DEADLINE_EXCEEDED: nothing has come. */
static mf_status watch_one(watch *w, int endpoint, const etcd_call *call, int64_t deadline_ns)
{
    outcome how;

    w->done = 0;
    w->st = MF_OK;
    MF_TRY(begin(w->c, w->l, endpoint, call));
    how = run(w->l, deadline_ns, is_enough, w);
    if (w->cancelled)
        return MF_FAIL(MF_CANCELLED, "waiting for the store was cancelled");
    if (how == ANSWERED && w->l->len > w->done)
        look_at_line(w, w->l->len - w->done); /* a failure is no stream */
    if (w->st != MF_OK)
        return wrapped(w->c, w->st, endpoint);
    if (w->changed)
        return MF_OK;
    if (how == ANSWERED)
        return MF_FAIL(MF_UNAVAILABLE, "etcd at %s has ended a watch", w->c->endpoints[endpoint]);
    if (w->l->late && (how != NOT_SENT || w->l->said[0] == '\0'))
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "nothing has changed");
    return without_answer(w->c, w->l, endpoint);
}

/* An endpoint may have been cut off from the others, or stand still, and say nothing: so another
 * one is asked from time to time. Nothing is missed: a watch begins at a revision. */
mf_status etcd_watch(etcd_client *c, const char *body, int64_t deadline_ns)
{
    const etcd_call call = { .path = "/v3/watch", .body = body };
    int endpoint = preferred(c);
    watch w = { .c = c };
    mf_status st = MF_OK;

    MF_TRY(line_take(c, &w.l));
    for (;;) {
        st = watch_one(&w, endpoint, &call, sooner(deadline_ns, mf_clock_ns() + c->timeout_ns));
        if (!is_passing(st))
            break;
        endpoint = (endpoint + 1) % c->n;
        if (mf_clock_ns() + (st == MF_UNAVAILABLE ? 2 * PAUSE_NS : 0) >= deadline_ns)
            break;
        if (st == MF_UNAVAILABLE)
            rest();
    }
    line_give(c, w.l, endpoint);
    return st;
}

void etcd_cancel(etcd_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->cancelled = true;
    for (etcd_line *l = c->lines; l; l = l->next)
        (void)curl_multi_wakeup(l->multi);
    pthread_mutex_unlock(&c->lock);
}
