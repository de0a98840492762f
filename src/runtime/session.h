/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - the internal interface of sessions: a table of functions. One implementation runs
 * graphs in this process (session.c), the other on a server (tf_client/remote_session.c).
 * <meshflow/session.h> has the contracts. */
#ifndef MF_RUNTIME_SESSION_H
#define MF_RUNTIME_SESSION_H

#include "base/cancel.h"
#include "base/pool.h"
#include "graph/resource.h"

#include <meshflow/session.h>

struct mf_exchange;
struct mf_mesh_link;
struct mf_rendezvous;
struct mf_trace;

/* Internal parameters of a run. */
typedef struct mf_run_with {
    mf_cancel *until; /* ends this run alone, with CANCELLED, when it is raised; may be NULL */
    struct mf_rendezvous *rendezvous; /* with other tasks; NULL: none */
    struct mf_mesh_link *mesh; /* to other devices of a mesh; NULL: none */
    struct mf_trace *trace; /* records what runs; NULL: the session's trace */
    const char *task; /* the task of a distributed step, for stall reports; NULL: none */
    int64_t step; /* with task: the number of the step */
} mf_run_with;

typedef struct mf_session_kind {
    /* As mf_session_run_with(); `with` is not NULL. */
    mf_status (*run)(mf_session *session, const mf_run_options *options, const mf_run_with *with,
                     const char *const *feed_names, const mf_tensor *const *feeds, int n_feeds,
                     const char *const *fetches, int n_fetches, const char *const *targets,
                     int n_targets, mf_tensor **results);
    mf_status (*extend)(mf_session *session, const mf_graph *graph);
    mf_status (*devices)(mf_session *session, mf_device_fn *each, void *ctx);
    void (*cancel)(mf_session *session);
    void (*free)(mf_session *session);
    /* Optional: as mf_session_set_trace(); if NULL, nothing is recorded. */
    void (*set_trace)(mf_session *session, struct mf_trace *trace);
} mf_session_kind;

struct mf_session {
    const mf_session_kind *kind;
};

/* ---- sessions of this process ---- */

extern const mf_session_kind mf_session_local;

/* State that sessions can share; it must outlive them. NULL: the session's own. */
typedef struct mf_session_shared {
    mf_pool *pool;
    mf_resources *resources; /* variables, queues */
    mf_resources *node_state; /* state of nodes across steps, by name */
} mf_session_shared;

/* As mf_session_new() without a target. */
MF_MUST mf_status mf_session_new_shared(const mf_graph *graph, const mf_session_options *options,
                                        const mf_session_shared *shared, mf_session **out);

/* From the next run on, shards are exchanged with other workers (NULL: not any more). Call it again
 * when the shards of the exchange change. The exchange must outlive the session. Thread: while no
 * run is in progress. */
void mf_session_set_exchange(mf_session *session, struct mf_exchange *exchange);
/* Record runs in this trace from now on (NULL: none). Thread: while no run is in progress. */
void mf_session_set_trace(mf_session *session, struct mf_trace *trace);
/* The trace of a session in this process; NULL: none. */
struct mf_trace *mf_session_trace(mf_session *session);

/* ---- all implementations ---- */

/* As mf_session_run(). with: may be NULL. */
MF_MUST mf_status mf_session_run_with(mf_session *session, const mf_run_options *options,
                                      const mf_run_with *with, const char *const *feed_names,
                                      const mf_tensor *const *feeds, int n_feeds,
                                      const char *const *fetches, int n_fetches,
                                      const char *const *targets, int n_targets,
                                      mf_tensor **results);

#endif
