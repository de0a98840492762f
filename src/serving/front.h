/* SPDX-License-Identifier: Apache-2.0 */
/* front.h - the process that has the port: what its files share. One thread, one event loop.
 *
 *     front.c     starts and ends          rest_routes.c   what a path means
 *     replica_pool.c      replicas come and die    request_dispatch.c who runs what, and who loads
 * which version serving_metrics.c   what was counted */
#ifndef MF_SERVING_FRONT_H
#define MF_SERVING_FRONT_H

#include "serving/model_versions.h"
#include "serving/serve.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <sys/queue.h>
#include <sys/types.h>

enum { MF_ANY_VERSION = -1 };

typedef struct mf_front mf_front;

/* A request that waits for its answer. */
typedef struct mf_serve_call {
    TAILQ_ENTRY(mf_serve_call) link; /* of front->queue or replica->running */
    mf_front *front;
    struct evhttp_request *http; /* NULL: the client is gone */
    struct evbuffer *body;
    mf_serve_verb verb;
    int64_t version; /* that must answer; MF_ANY_VERSION */
    int deaths; /* of replicas that had it */
    int64_t since_ns;
} mf_serve_call;

typedef TAILQ_HEAD(mf_serve_calls, mf_serve_call) mf_serve_calls;

typedef enum mf_replica_state {
    MF_REPLICA_DEAD, /* until front->tick starts it, at start_ns */
    MF_REPLICA_LOADING,
    MF_REPLICA_IDLE,
    MF_REPLICA_RUNNING
} mf_replica_state;

typedef struct mf_serve_replica {
    mf_front *front;
    mf_replica_state state;
    pid_t pid;
    struct bufferevent *line; /* replica_frame.h */
    int64_t version; /* that it has; -1: none yet */
    mf_serve_version loads; /* while it is loading */
    mf_serve_calls running; /* in the order of their answers */
    int64_t since_ns; /* it is in this state */
    int64_t start_ns; /* when the next takes its place */
} mf_serve_replica;

enum { MF_SERVE_BUCKETS = 12, MF_SERVE_CODES = 600 };

typedef struct mf_serve_metrics {
    int64_t codes[MF_SERVE_CODES]; /* answers by HTTP status */
    int64_t buckets[MF_SERVE_BUCKETS]; /* of time from request to answer */
    double seconds;
    int64_t answers; /* of those that went to a replica */
    int64_t runs, joined; /* requests in all runs */
    int64_t deaths, retries, reloads, failed_reloads;
} mf_serve_metrics;

struct mf_front {
    const mf_serve_options *o;
    mf_model *model; /* for its signature */
    mf_serve_signature signature;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound; /* NULL: new connections are not taken any more */
    int spare[2]; /* descriptors kept for starting a replica; -1: none */
    struct event *tick, *wait, *on_int, *on_term;
    mf_serve_replica *replicas;
    mf_serve_calls queue; /* the oldest first */
    int64_t n_queue, n_calls; /* n_calls: without an answer, queued or running */
    int64_t queue_bytes;
    int64_t unsent; /* answers on their way to clients */
    bool over; /* replicas have ended */
    mf_serve_version good; /* that replicas are to have */
    mf_serve_version next; /* that one is to try; then it is good, or bad. No checkpoint: none */
    mf_serve_version bad; /* it could not be loaded; tried again at bad_until_ns */
    char bad_why[400];
    int64_t bad_until_ns, look_ns,
        stop_ns; /* stop_ns: when draining ends; 0: nobody wants a stop */
    bool was_ready; /* all replicas have been able to answer */
    char host[64];
    int port;
    char failure[400]; /* why serving ends; "": it does not, or was asked to */
    mf_serve_metrics metrics;
};

/* ---- replica_pool.c ---- */

/* A process, which loads front->good. RESOURCE_EXHAUSTED: none can be made. */
MF_MUST mf_status mf_serve_start(mf_serve_replica *r);
/* It loads `version`, whose string is copied. */
void mf_serve_load(mf_serve_replica *r, const mf_serve_version *version);
/* It runs what was put into r->running. */
void mf_serve_send_run(mf_serve_replica *r);
/* However many connections there are, a replica that dies can be replaced. */
void mf_serve_keep_spare(mf_front *f);
void mf_serve_drop_spare(mf_front *f);
/* End it for good. */
void mf_serve_end(mf_serve_replica *r);
/* It has died, or must: what it had goes back to the queue. */
void mf_serve_bury(mf_serve_replica *r, const char *why);
bool mf_serve_has_version(const mf_front *f, int64_t version);

/* ---- request_dispatch.c ---- */

void mf_serve_dispatch(mf_front *f);
/* Back to the head of the queue; or, when too many have died of it, an error. */
void mf_serve_retry(mf_serve_call *c);
/* What a replica says of a load. */
void mf_serve_loaded(mf_serve_replica *r, int64_t version, const char *why);
void mf_serve_load_failed(mf_serve_replica *r, const char *why);
void mf_serve_look(mf_front *f); /* for a newer checkpoint */
/* Serving ends with this failure. */
void mf_serve_give_up(mf_front *f, const char *why);

/* ---- rest_routes.c ---- */

void mf_serve_route(struct evhttp_request *http, void *front);
/* The answer of a call, which is freed. */
void mf_serve_answer(mf_serve_call *c, int status, const void *body, size_t len);
void mf_serve_answer_error(mf_serve_call *c, int status, const char *message);

/* ---- serving_metrics.c ---- */

void mf_serve_count(mf_front *f, const mf_serve_call *c, int status);
/* As Prometheus reads it. */
void mf_serve_metrics_print(const mf_front *f, mf_buf *out);

#endif
