/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.h - a store in etcd, and its client. Private to this folder. */
#ifndef MF_PLUGINS_ETCD_ETCD_H
#define MF_PLUGINS_ETCD_ETCD_H

#include "cluster/store/store.h"
#include "plugins/common/tcp_address.h"
#include "plugins/etcd/etcd_answer.h"

#include <curl/curl.h>
#include <pthread.h>

enum { ETCD_ENDPOINTS_MAX = 16, ETCD_ANSWER_MAX = 64 << 20 };

extern const mf_store_kind mf_store_etcd;

/* A connection to an endpoint, used by one call at a time. */
typedef struct etcd_connection {
    struct etcd_connection *next; /* guarded by the client's lock, as busy is */
    bool busy;
    CURL *easy;
    CURLM *multi;
    char why[CURL_ERROR_SIZE]; /* reason of the last failed attempt */
    char said[MF_ADDRESS_MAX + CURL_ERROR_SIZE + 32]; /* reason of the last attempt that did not
                                                         merely time out */
    /* The reply. */
    char *bytes;
    size_t len, cap;
    bool late, too_large, no_memory; /* why it is incomplete */
} etcd_connection;

typedef struct etcd_client {
    char *endpoints[ETCD_ENDPOINTS_MAX]; /* "https://host:port" */
    int n;
    char *ca, *cert, *key; /* or NULL: no TLS */
    int64_t timeout_ns;
    struct curl_slist *headers;
    pthread_mutex_t lock; /* guards the fields below */
    etcd_connection *connections;
    int preferred; /* the endpoint that replied last */
    bool cancelled;
} etcd_client;

/* Fails: INVALID_ARGUMENT, FAILED_PRECONDITION (no TLS). Owns: the caller deinitialises it, also
 * after a failure. */
MF_MUST mf_status etcd_client_init(etcd_client *c, const char *hosts, size_t len,
                                   const mf_store_options *o);
void etcd_client_deinit(etcd_client *c);

typedef struct etcd_call {
    const char *path; /* "/v3/kv/range" */
    const char *body; /* JSON */
    bool once; /* not idempotent: never repeated after an unknown outcome */
} etcd_call;

/* ---- connections (etcd_connection.c) ---- */

typedef enum etcd_outcome {
    ETCD_ANSWERED,
    ETCD_NOT_SENT, /* it has not reached a server */
    ETCD_UNKNOWN, /* it may have been executed, without a complete reply; l->why has the reason */
    ETCD_STOPPED,
} etcd_outcome;

MF_MUST mf_status etcd_connection_take(etcd_client *c, etcd_connection **out);
/* endpoint: tried first from now on. */
void etcd_connection_give(etcd_client *c, etcd_connection *l, int endpoint);
void etcd_connection_free(etcd_connection *l);
/* Set the request and the endpoint. */
MF_MUST mf_status etcd_connection_begin(const etcd_client *c, etcd_connection *l, int endpoint,
                                        const etcd_call *call);
/* Run until the reply is complete, the deadline has passed, or `stop` (may be NULL) returns true;
 * stop is called when data has arrived and after curl_multi_wakeup(). */
etcd_outcome etcd_connection_run(etcd_connection *l, int64_t deadline_ns, bool (*stop)(void *arg),
                                 void *arg);
/* The HTTP status of the reply. */
long etcd_connection_http(const etcd_connection *l);
/* The reason of an incomplete reply. Fails: UNAVAILABLE, RESOURCE_EXHAUSTED. */
MF_MUST mf_status etcd_connection_failed(const etcd_client *c, etcd_connection *l, int endpoint);

/* ---- requests (etcd_client.c) ---- */

/* Try one endpoint after the other until one replies or the time of a call is over; `decode`
 * validates the reply (UNAVAILABLE and DEADLINE_EXCEEDED: try the next one). Fails: as `decode`,
 * UNAVAILABLE (no endpoint replies, and why). */
typedef mf_status etcd_decode(const etcd_text *t, void *arg);
MF_MUST mf_status etcd_ask(etcd_client *c, const etcd_call *call, etcd_decode *decode, void *arg);

/* Wait until something has changed. Fails: as mf_store_wait(). */
MF_MUST mf_status etcd_watch(etcd_client *c, const char *body, int64_t deadline_ns);
/* Ends all watches. */
void etcd_cancel(etcd_client *c);

#endif
