/* SPDX-License-Identifier: Apache-2.0 */
/* front.h - shared by the files of the process that has the port. One thread, one event loop.
 *
 *     front.c             starts and stops
 *     rest_routes.c       paths and their answers
 *     replica_pool.c      starts and replaces replicas
 *     request_dispatch.c  which replica runs which requests and loads which version
 *     serving_metrics.c   counters */
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

/* A request without an answer. */
typedef struct mf_serve_call {
    TAILQ_ENTRY(mf_serve_call) link; /* of front->queue or replica->running */
    mf_front *front;
    struct evhttp_request *http; /* NULL: the client has disconnected */
    struct evbuffer *body;
    mf_serve_verb verb;
    int64_t version; /* requested, or MF_ANY_VERSION */
    int crashes; /* of replicas that were running it */
    int64_t since_ns;
} mf_serve_call;

typedef TAILQ_HEAD(mf_serve_calls, mf_serve_call) mf_serve_calls;

typedef enum mf_replica_state {
    MF_REPLICA_DEAD, /* until front->tick starts it at start_ns */
    MF_REPLICA_LOADING,
    MF_REPLICA_IDLE,
    MF_REPLICA_RUNNING
} mf_replica_state;

typedef struct mf_serve_replica {
    mf_front *front;
    mf_replica_state state;
    pid_t pid;
    struct bufferevent *line; /* replica_frame.h */
    int64_t version; /* loaded; -1: none yet */
    mf_serve_version loads; /* while it is loading */
    mf_serve_calls running; /* in the order in which they are answered */
    int64_t since_ns; /* time of the last change of `state` */
    int64_t start_ns; /* when its replacement starts */
} mf_serve_replica;

enum { MF_SERVE_BUCKETS = 12, MF_SERVE_CODES = 600 };

typedef struct mf_serve_metrics {
    int64_t codes[MF_SERVE_CODES]; /* answers by HTTP status */
    int64_t buckets[MF_SERVE_BUCKETS]; /* of time from request to answer */
    double seconds;
    int64_t answers; /* requests that replicas answered */
    int64_t runs, joined; /* runs; requests in all runs */
    int64_t crashes, retries, reloads, failed_reloads;
} mf_serve_metrics;

struct mf_front {
    const mf_serve_options *o;
    mf_model *model; /* for its signature */
    mf_serve_signature signature;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound; /* NULL: new connections are refused */
    int spare[2]; /* descriptors reserved for starting a replica; -1: none */
    struct event *tick, *wait, *on_int, *on_term;
    mf_serve_replica *replicas;
    mf_serve_calls queue; /* the oldest first */
    int64_t n_queue, n_calls; /* n_calls: queued or running */
    int64_t queue_bytes;
    int64_t unsent; /* answers being sent */
    bool over; /* all replicas have ended */
    mf_serve_version good; /* the version that replicas load */
    mf_serve_version next; /* a newer version that one replica tries first; it becomes `good` or
                              `bad`. No checkpoint: none */
    mf_serve_version bad; /* a version that could not be loaded; the next try is at bad_until_ns */
    char bad_why[400];
    int64_t bad_until_ns, next_scan_ns, stop_ns; /* stop_ns: end of draining; 0: not stopping */
    bool was_ready; /* all replicas were ready once */
    char host[64];
    int port;
    char failure[400]; /* why serving fails; "": it does not */
    mf_serve_metrics metrics;
};

/* ---- replica_pool.c ---- */

/* Forks a replica, which loads front->good. RESOURCE_EXHAUSTED: no process or no sockets. */
MF_MUST mf_status mf_serve_start(mf_serve_replica *r);
/* Makes it load `version`, whose string is copied. */
void mf_serve_load(mf_serve_replica *r, const mf_serve_version *version);
/* Makes it run the requests in r->running. */
void mf_serve_send_run(mf_serve_replica *r);
/* Reserves descriptors, so that a replica can be replaced however many connections there are. */
void mf_serve_keep_spare(mf_front *f);
void mf_serve_drop_spare(mf_front *f);
/* Ends it; it is not replaced. */
void mf_serve_end(mf_serve_replica *r);
/* It has died, or is killed: its requests return to the queue, and another replica replaces it. */
void mf_serve_replace_replica(mf_serve_replica *r, const char *why);
bool mf_serve_has_version(const mf_front *f, int64_t version);

/* ---- request_dispatch.c ---- */

void mf_serve_dispatch(mf_front *f);
/* Returns the request to the head of the queue; after too many deaths, answers with an error. */
void mf_serve_retry(mf_serve_call *c);
/* The result of a load; why NULL: it succeeded. */
void mf_serve_loaded(mf_serve_replica *r, int64_t version, const char *why);
void mf_serve_load_failed(mf_serve_replica *r, const char *why);
void mf_serve_scan_versions(mf_front *f); /* for a newer checkpoint */
/* Stops serving with this failure. */
void mf_serve_give_up(mf_front *f, const char *why);

/* ---- rest_routes.c ---- */

void mf_serve_route(struct evhttp_request *http, void *front);
/* Answers the request, and frees it. */
void mf_serve_answer(mf_serve_call *c, int status, const void *body, size_t len);
void mf_serve_answer_error(mf_serve_call *c, int status, const char *message);

/* ---- serving_metrics.c ---- */

void mf_serve_count(mf_front *f, const mf_serve_call *c, int status);
/* In the Prometheus text format. */
void mf_serve_metrics_print(const mf_front *f, mf_buf *out);

#endif
