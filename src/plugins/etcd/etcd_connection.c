/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_connection.c - a connection to one endpoint of etcd: one HTTP request at a time, with
 * libcurl. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "plugins/etcd/etcd.h"

#include <stdio.h>
#include <string.h>

enum { POLL_MS = 1000 };

static size_t take_bytes(char *data, size_t one, size_t n, void *arg)
{
    etcd_connection *l = arg;

    (void)one; /* always 1 */
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

/* Options that are the same for all calls. */
static bool etcd_connection_set_up(const etcd_client *c, etcd_connection *l)
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
    ok &= curl_easy_setopt(e, CURLOPT_CAPATH, NULL) == CURLE_OK; /* our authority only */
    ok &= curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert) == CURLE_OK;
    ok &= curl_easy_setopt(e, CURLOPT_SSLKEY, c->key) == CURLE_OK;
    return ok;
}

void etcd_connection_free(etcd_connection *l)
{
    MF_NO_SIGPIPE; /* TLS sends a close message, possibly to a lost peer */
    curl_easy_cleanup(l->easy);
    if (l->multi)
        (void)curl_multi_cleanup(l->multi);
    mf_free(l->bytes);
    mf_free(l);
}

static etcd_connection *line_new(const etcd_client *c)
{
    etcd_connection *l = mf_calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->easy = curl_easy_init();
    l->multi = curl_multi_init();
    if (l->easy && l->multi && etcd_connection_set_up(c, l))
        return l;
    etcd_connection_free(l);
    return NULL;
}

mf_status etcd_connection_take(etcd_client *c, etcd_connection **out)
{
    etcd_connection *l;

    pthread_mutex_lock(&c->lock);
    for (l = c->connections; l && l->busy;)
        l = l->next;
    if (!l) {
        l = line_new(c);
        if (l) {
            l->next = c->connections;
            c->connections = l;
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

void etcd_connection_give(etcd_client *c, etcd_connection *l, int endpoint)
{
    pthread_mutex_lock(&c->lock);
    l->busy = false;
    c->preferred = endpoint;
    pthread_mutex_unlock(&c->lock);
}

/* ---- requests ---- */

static etcd_outcome outcome_of(etcd_connection *l)
{
    int left;
    const CURLMsg *m = curl_multi_info_read(l->multi, &left);
    const CURLcode code = m ? m->data.result : CURLE_RECV_ERROR;

    if (code == CURLE_OK)
        return ETCD_ANSWERED;
    if (l->why[0] == '\0')
        (void)snprintf(l->why, sizeof l->why, "%s", curl_easy_strerror(code));
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return ETCD_NOT_SENT;
    default:
        return ETCD_UNKNOWN;
    }
}

/* Timeout. For a new connection (etcd_call.once) it is known whether it was established. */
static etcd_outcome etcd_connection_give_up(etcd_connection *l)
{
    curl_off_t connected = 0;

    l->late = true;
    (void)snprintf(l->why, sizeof l->why, "no reply in time");
    (void)curl_easy_getinfo(l->easy, CURLINFO_CONNECT_TIME_T, &connected);
    return connected == 0 ? ETCD_NOT_SENT : ETCD_UNKNOWN;
}

etcd_outcome etcd_connection_run(etcd_connection *l, int64_t deadline_ns, bool (*stop)(void *arg),
                                 void *arg)
{
    etcd_outcome how = ETCD_UNKNOWN;
    int running = 1;

    MF_NO_SIGPIPE;
    if (curl_multi_add_handle(l->multi, l->easy) != CURLM_OK)
        return ETCD_NOT_SENT;
    while (curl_multi_perform(l->multi, &running) == CURLM_OK) {
        const int64_t left_ms = (deadline_ns - mf_clock_ns()) / 1000000;

        if (stop && stop(arg)) {
            how = ETCD_STOPPED;
            break;
        }
        if (running == 0) {
            how = outcome_of(l);
            break;
        }
        if (left_ms <= 0) {
            how = etcd_connection_give_up(l);
            break;
        }
        (void)curl_multi_poll(l->multi, NULL, 0, left_ms < POLL_MS ? (int)left_ms : POLL_MS, NULL);
    }
    (void)curl_multi_remove_handle(l->multi, l->easy); /* closes a connection with a pending
                                                          reply */
    return how;
}

mf_status etcd_connection_begin(const etcd_client *c, etcd_connection *l, int endpoint,
                                const etcd_call *call)
{
    char url[MF_ADDRESS_MAX + 64];
    bool ok;

    l->len = 0;
    l->late = l->too_large = l->no_memory = false;
    l->why[0] = '\0';
    (void)snprintf(url, sizeof url, "%s%s", c->endpoints[endpoint], call->path);
    ok = curl_easy_setopt(l->easy, CURLOPT_URL, url) == CURLE_OK;
    ok &= curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, call->body) == CURLE_OK;
    /* On a reused connection, libcurl would repeat an unanswered request. */
    ok &= curl_easy_setopt(l->easy, CURLOPT_FRESH_CONNECT, call->once ? 1L : 0L) == CURLE_OK;
    return ok ? MF_OK : MF_NOMEM("a request");
}

long etcd_connection_http(const etcd_connection *l)
{
    long http = 0;

    (void)curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &http);
    return http;
}

/* After a timeout, the failure of an earlier attempt is more informative. */
mf_status etcd_connection_failed(const etcd_client *c, etcd_connection *l, int endpoint)
{
    if (l->no_memory)
        return MF_NOMEM("a reply of etcd");
    if (l->too_large)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "the reply of etcd at %s exceeds %d bytes",
                       c->endpoints[endpoint], ETCD_ANSWER_MAX);
    if (!l->late || l->said[0] == '\0')
        (void)snprintf(l->said, sizeof l->said, "etcd at %s: %s", c->endpoints[endpoint], l->why);
    return MF_FAIL(MF_UNAVAILABLE, "%s", l->said);
}
