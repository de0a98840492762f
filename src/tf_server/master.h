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

/* Ended by one without a name. */
extern const mf_method mf_master_methods[];

/* ---- sessions (master.c) ---- */

/* A graph and where its nodes are. It never changes: another one takes its place. */
typedef struct mf_placed {
    mf_graph *graph;
    int *task; /* by node id */
    int refs; /* guarded by the session's lock */
} mf_placed;

/* A layout that is kept for the steps to come. */
typedef struct mf_kept_layout {
    char *key; /* of its names */
    mf_exec_plan
        *layout; /* NULL: it is being made; guarded by the session's lock, as is all below */
    int users;
    int64_t used_at;
} mf_kept_layout;

typedef struct mf_client_session {
    mf_clients *clients;
    char handle[17];
    mf_session_workers cast;
    bool soft; /* placement */
    int leader; /* of groups: a task */
    int64_t timeout_ms; /* of all runs that have no other; 0: none */
    mf_resources *resources; /* of a session that shares nothing; NULL: the server's */
    mf_resources *node_state;
    struct mf_session *session; /* of the whole graph: what is done here alone */
    atomic_bool collects; /* there are collectives in its graph */
    mf_cancel closed; /* raised for good: what has not begun yet shall not */
    int refs; /* guarded by the clients' lock */

    pthread_mutex_t extending; /* all below */
    mf_placed *placed;
    int64_t version; /* extensions so far */
    int64_t kept; /* bytes that count as memory in use */
    mf_map layouts; /* by the names of a run */
    int64_t layout_clock; /* uses of them so far */
    pthread_cond_t laid_out; /* one of them was made, or could not be */
    mf_map partials, callables; /* by handle */
    int64_t n_callables; /* ever made */
} mf_client_session;

/* With a reference, which mf_client_session_release() gives back. ABORTED: there is none. */
MF_MUST mf_status mf_clients_find(mf_clients *m, const char *handle, mf_client_session **out);
void mf_client_session_release(mf_client_session *s);

/* ---- runs (master_run.c, master_step.c) ---- */

MF_MUST mf_status mf_master_run_step(mf_request *r, const ProtobufCMessage *message);

/* A step: names, tensors, where results go. */
typedef struct mf_master_step {
    mf_run_names names;
    const mf_tensor *const *feeds; /* NULL: they come by the room */
    mf_tensor **results; /* NULL: they go by the room */
    int64_t timeout_ms; /* 0: none */
    int64_t collectives; /* the key of their steps; 0: it follows from them */
    mf_buf *stats; /* what all did is appended, as StepStats; NULL: nobody wants to know */
    /* mf_master_step_run() sets these: */
    int64_t id;
    mf_cancel *cancel; /* ends all of it; raised when it fails */
} mf_master_step;

/* On all tasks it lies on. The message of an error begins with "From /job:...". */
MF_MUST mf_status mf_master_step_run(mf_request *r, mf_client_session *s,
                                     const mf_master_step *step);

/* The parts that a run lies in, as bytes of GraphDefs in the arena (master_parts.c). */
MF_MUST mf_status mf_master_parts(mf_client_session *s, const mf_run_names *names, mf_arena *arena,
                                  ProtobufCBinaryData **out, size_t *n);

/* The pieces. A number for a step; all parts of one, and what is left of it on other tasks. */
int64_t mf_master_new_step(void);
MF_MUST mf_status mf_master_run_layout(mf_server *server, const char *session,
                                       const mf_exec_plan *l, const mf_master_step *m);
void mf_master_clean_up(const mf_session_workers *cast, const mf_exec_plan *l, int64_t id,
                        bool well);

/* ---- layouts (master_exec_plans.c) ---- */

/* With the session's lock. */
mf_placed *mf_placed_ref(mf_placed *p);
void mf_placed_unref(mf_placed *p);
/* The same, which it lets go of meanwhile: other runs go on. */
MF_MUST mf_status mf_client_session_make_layout(mf_client_session *s, const mf_run_names *names,
                                                mf_cancel *cancel, bool gradual,
                                                mf_exec_plan **out);
/* How this run lies on the tasks, made unless it was before. Owns: mf_client_session_done_with().
 */
MF_MUST mf_status mf_client_session_layout(mf_client_session *s, const mf_run_names *names,
                                           mf_cancel *cancel, mf_kept_layout **out);
void mf_client_session_done_with(mf_client_session *s, mf_kept_layout *k);
/* Nobody uses them. */
void mf_client_session_free_layouts(mf_client_session *s);

/* ---- runs that feed and fetch step by step (master_partial.c) ---- */

MF_MUST mf_status mf_master_partial_setup(mf_request *r, const ProtobufCMessage *message);
/* A RunStep with a partial_run_handle: results are found by fetch. */
MF_MUST mf_status mf_master_partial_run(mf_request *r, mf_client_session *s, const char *handle,
                                        const mf_master_step *m);
/* Ends those that are under way. */
void mf_client_session_end_partials(mf_client_session *s);

/* ---- runs by number (master_callable.c) ---- */

MF_MUST mf_status mf_master_make_callable(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_master_run_callable(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_master_release_callable(mf_request *r, const ProtobufCMessage *message);
void mf_client_session_free_callables(mf_client_session *s);

#endif
