/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.h - a store in etcd, and how it is asked. For this folder only. */
#ifndef MF_PLUGINS_ETCD_ETCD_H
#define MF_PLUGINS_ETCD_ETCD_H

#include "cluster/store/store.h"
#include "plugins/common/tcp_address.h"
#include "plugins/etcd/answer.h"

#include <curl/curl.h>
#include <pthread.h>

enum { ETCD_ENDPOINTS_MAX = 16, ETCD_ANSWER_MAX = 64 << 20 };

extern const mf_store_kind mf_store_etcd;

/* A connection, to one endpoint or another, for one call at a time. */
typedef struct etcd_line {
    struct etcd_line *next; /* guarded by the lock of the client, as is busy */
    bool busy;
    CURL *easy;
    CURLM *multi;
    char why[CURL_ERROR_SIZE]; /* the last try has failed */
    char said[MF_ADDRESS_MAX + CURL_ERROR_SIZE + 32]; /* of the last one that did not only wait */
    /* The answer. */
    char *bytes;
    size_t len, cap;
    bool late, too_large, no_memory; /* why it is not whole */
} etcd_line;

typedef struct etcd_client {
    char *endpoints[ETCD_ENDPOINTS_MAX]; /* "https://host:port" */
    int n;
    char *ca, *cert, *key; /* or NULL: no TLS */
    int64_t timeout_ns;
    struct curl_slist *headers;
    pthread_mutex_t lock; /* what follows */
    etcd_line *lines;
    int preferred; /* the endpoint that answered last */
    bool cancelled;
} etcd_client;

/* Fails: INVALID_ARGUMENT, FAILED_PRECONDITION (no TLS). Owns: deinit, after a failure, too. */
MF_MUST mf_status etcd_client_init(etcd_client *c, const char *hosts, size_t len,
                                   const mf_store_options *o);
void etcd_client_deinit(etcd_client *c);

typedef struct etcd_call {
    const char *path; /* "/v3/kv/range" */
    const char *body; /* JSON */
    bool once; /* it must not be asked a second time if it is not known what became of the first */
} etcd_call;

/* ---- lines (line.c) ---- */

typedef enum etcd_outcome {
    ETCD_ANSWERED,
    ETCD_NOT_SENT, /* it has not reached anybody */
    ETCD_UNKNOWN, /* it may have, and no whole answer came; l->why says more */
    ETCD_STOPPED,
} etcd_outcome;

MF_MUST mf_status etcd_line_take(etcd_client *c, etcd_line **out);
/* endpoint: the one to be asked first from now on. */
void etcd_line_give(etcd_client *c, etcd_line *l, int endpoint);
void etcd_line_free(etcd_line *l);
/* What is to be asked, and whom. */
MF_MUST mf_status etcd_line_begin(const etcd_client *c, etcd_line *l, int endpoint,
                                  const etcd_call *call);
/* Until there is an answer, the time is over, or (unless it is NULL) `stop` says so; it is asked
 * whenever something has come, and when somebody calls curl_multi_wakeup(). */
etcd_outcome etcd_line_run(etcd_line *l, int64_t deadline_ns, bool (*stop)(void *arg), void *arg);
/* The status of the answer. */
long etcd_line_http(const etcd_line *l);
/* There is no whole answer: why. UNAVAILABLE, RESOURCE_EXHAUSTED. */
MF_MUST mf_status etcd_line_failed(const etcd_client *c, etcd_line *l, int endpoint);

/* ---- asking (client.c) ---- */

/* Asks one endpoint after the other until one answers or the time of a call is over; `decode` says
 * whether it is an answer (UNAVAILABLE and DEADLINE_EXCEEDED: ask the next one). Fails: as
 * `decode`, UNAVAILABLE (none answers, and why). */
typedef mf_status etcd_decode(const etcd_text *t, void *arg);
MF_MUST mf_status etcd_ask(etcd_client *c, const etcd_call *call, etcd_decode *decode, void *arg);

/* Until something has changed. Fails: as mf_store_wait(). */
MF_MUST mf_status etcd_watch(etcd_client *c, const char *body, int64_t deadline_ns);
/* Watches end. */
void etcd_cancel(etcd_client *c);

#endif
