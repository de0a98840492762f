/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - what a session is to those who run it: a table of functions. One kind runs graphs
 * here (session.c), another has a server do it (tf_client/remote_session.c). See
 * <meshflow/session.h> for what they promise. */
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

/* What a run may be given from inside the library. */
typedef struct mf_run_with {
    mf_cancel
        *until; /* ends this run alone, with CANCELLED, when it is raised; NULL: nothing does */
    struct mf_rendezvous *rendezvous; /* with other tasks; NULL: there are none */
    struct mf_mesh_link *mesh; /* to other processors of a mesh; NULL: there are none */
    struct mf_trace *trace; /* what runs is noted there; NULL: where the session says */
    const char *task; /* whose part of a step this is: then a stall is reported; NULL: it is not */
    int64_t step; /* with task: its number */
} mf_run_with;

typedef struct mf_session_kind {
    /* As mf_session_run_with(); `with` is there. */
    mf_status (*run)(mf_session *session, const mf_run_options *options, const mf_run_with *with,
                     const char *const *feed_names, const mf_tensor *const *feeds, int n_feeds,
                     const char *const *fetches, int n_fetches, const char *const *targets,
                     int n_targets, mf_tensor **results);
    mf_status (*extend)(mf_session *session, const mf_graph *graph);
    mf_status (*devices)(mf_session *session, mf_device_fn *each, void *ctx);
    void (*cancel)(mf_session *session);
    void (*free)(mf_session *session);
    /* Optional: as mf_session_set_trace(); without it nothing is noted. */
    void (*set_trace)(mf_session *session, struct mf_trace *trace);
} mf_session_kind;

struct mf_session {
    const mf_session_kind *kind;
};

/* ---- sessions of this process ---- */

extern const mf_session_kind mf_session_local;

/* What sessions may have in common; it must outlive them. NULL: the session's own. */
typedef struct mf_session_shared {
    mf_pool *pool;
    mf_resources *resources; /* variables, queues */
    mf_resources *node_state; /* what nodes keep from step to step, by name */
} mf_session_shared;

/* As mf_session_new() without a target. */
MF_MUST mf_status mf_session_new_shared(const mf_graph *graph, const mf_session_options *options,
                                        const mf_session_shared *shared, mf_session **out);

/* From the next run on, shards are exchanged with other workers (NULL: not any more). To be called
 * again when the exchange has other shards than before. The exchange must outlive the session.
 * Thread: while nothing runs. */
void mf_session_set_exchange(mf_session *session, struct mf_exchange *exchange);
/* What runs from now on is noted there (NULL: not any more). Thread: while nothing runs. */
void mf_session_set_trace(mf_session *session, struct mf_trace *trace);
/* Where that is, of a session of this process; NULL: nowhere. */
struct mf_trace *mf_session_trace(mf_session *session);

/* ---- of any kind ---- */

/* As mf_session_run(). with: NULL: nothing. */
MF_MUST mf_status mf_session_run_with(mf_session *session, const mf_run_options *options,
                                      const mf_run_with *with, const char *const *feed_names,
                                      const mf_tensor *const *feeds, int n_feeds,
                                      const char *const *fetches, int n_fetches,
                                      const char *const *targets, int n_targets,
                                      mf_tensor **results);

#endif
