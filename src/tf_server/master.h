/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - TensorFlow's MasterService: sessions of clients. */
#ifndef MF_TF_SERVER_MASTER_H
#define MF_TF_SERVER_MASTER_H

#include "tf_server/exec_plan.h"
#include "tf_server/session_workers.h"

typedef struct mf_clients mf_clients;

MF_MUST mf_status mf_clients_new(mf_server *server, mf_clients **out);
/* Ends all steps. */
void mf_clients_free(mf_clients *m);

/* Terminated by an entry without a name. */
extern const mf_method mf_master_methods[];

/* ---- sessions (master.c) ---- */

/* A placed graph. Immutable: an extension replaces it. */
typedef struct mf_placed {
    mf_graph *graph;
    int *task; /* by node id */
    int refs; /* guarded by the session's lock */
} mf_placed;

/* A cached execution plan. */
typedef struct mf_cached_plan {
    char *key; /* of its feeds, fetches and targets */
    mf_exec_plan
        *plan; /* NULL: in progress. Guarded by the session's lock, like all members below */
    int users;
    int64_t used_at;
} mf_cached_plan;

typedef struct mf_client_session {
    mf_clients *clients;
    char handle[17];
    mf_session_workers workers;
    bool soft; /* soft placement */
    int leader; /* leader of groups: a task */
    int64_t timeout_ms; /* default timeout of runs; 0: none */
    mf_resources *resources; /* for an isolated session; NULL: the server's */
    mf_resources *node_state;
    struct mf_session *session; /* runs the whole graph, for runs that are entirely local */
    atomic_bool collects; /* its graph has collectives */
    mf_cancel closed; /* permanent: runs that have not begun fail, too */
    int refs; /* guarded by the clients' lock */

    pthread_mutex_t extending; /* all below */
    mf_placed *placed;
    int64_t version; /* extensions so far */
    int64_t charged; /* bytes charged to the memory quota */
    mf_map plans; /* by the names of a run */
    int64_t layout_clock; /* uses of plans so far, for LRU */
    pthread_cond_t plan_ready; /* signals that a plan is ready or has failed */
    mf_map partials, callables; /* by handle */
    int64_t n_callables; /* created so far */
} mf_client_session;

/* Takes a reference: release with mf_client_session_release(). Fails: ABORTED (no such session). */
MF_MUST mf_status mf_clients_find(mf_clients *m, const char *handle, mf_client_session **out);
void mf_client_session_release(mf_client_session *s);

/* ---- runs (master_run.c, master_step.c) ---- */

MF_MUST mf_status mf_master_run_step(mf_request *r, const ProtobufCMessage *message);

/* A step: names, tensors, destination of the results. */
typedef struct mf_master_step {
    mf_run_names names;
    const mf_tensor *const *feeds; /* NULL: they arrive through the rendezvous table */
    mf_tensor **results; /* NULL: they are left in the rendezvous table */
    int64_t timeout_ms; /* 0: none */
    int64_t collectives; /* the collective graph key; 0: derived from the collectives */
    mf_buf *stats; /* StepStats of all tasks are appended; NULL: not requested */
    /* mf_master_step_run() sets these: */
    int64_t id;
    mf_cancel *cancel; /* cancels all parts; raised when one fails */
} mf_master_step;

/* Runs a step on all its tasks. The message of an error begins with "From /job:...". */
MF_MUST mf_status mf_master_step_run(mf_request *r, mf_client_session *s,
                                     const mf_master_step *step);

/* The partitioned graphs of a run, as encoded GraphDefs in the arena (master_parts.c). */
MF_MUST mf_status mf_master_parts(mf_client_session *s, const mf_run_names *names, mf_arena *arena,
                                  ProtobufCBinaryData **out, size_t *n);

/* A new step id; runs all parts of a step; cleans up a step on remote tasks. */
int64_t mf_master_new_step(void);
MF_MUST mf_status mf_master_run_plan(mf_server *server, const char *session, const mf_exec_plan *l,
                                     const mf_master_step *m);
void mf_master_clean_up(const mf_session_workers *workers, const mf_exec_plan *l, int64_t id,
                        bool well);

/* ---- execution plans (master_exec_plans.c) ---- */

/* The caller holds the session's lock. */
mf_placed *mf_placed_ref(mf_placed *p);
void mf_placed_unref(mf_placed *p);
/* The same; the lock is released meanwhile, so other runs continue. */
MF_MUST mf_status mf_client_session_make_plan(mf_client_session *s, const mf_run_names *names,
                                              mf_cancel *cancel, bool gradual, mf_exec_plan **out);
/* The plan of this run, made on first use. Owns: mf_client_session_release_plan(). */
MF_MUST mf_status mf_client_session_plan(mf_client_session *s, const mf_run_names *names,
                                         mf_cancel *cancel, mf_cached_plan **out);
void mf_client_session_release_plan(mf_client_session *s, mf_cached_plan *k);
/* No run uses them any more. */
void mf_client_session_free_plans(mf_client_session *s);

/* ---- partial runs (master_partial.c) ---- */

MF_MUST mf_status mf_master_partial_setup(mf_request *r, const ProtobufCMessage *message);
/* A RunStep with a partial_run_handle. Results are ordered by fetch. */
MF_MUST mf_status mf_master_partial_run(mf_request *r, mf_client_session *s, const char *handle,
                                        const mf_master_step *m);
/* Ends all partial runs in progress. */
void mf_client_session_end_partials(mf_client_session *s);

/* ---- callables (master_callable.c) ---- */

MF_MUST mf_status mf_master_make_callable(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_master_run_callable(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_master_release_callable(mf_request *r, const ProtobufCMessage *message);
void mf_client_session_free_callables(mf_client_session *s);

#endif
