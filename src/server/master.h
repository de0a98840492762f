/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - TensorFlow's MasterService: sessions of clients. */
#ifndef MF_SERVER_MASTER_H
#define MF_SERVER_MASTER_H

#include "server/cast.h"
#include "server/layout.h"

typedef struct mf_clients mf_clients;

MF_MUST mf_status mf_clients_new(mf_server *server, mf_clients **out);
/* Ends all steps. */
void mf_clients_free(mf_clients *m);

/* Ended by one without a name. */
extern const mf_method mf_master_methods[];

/* ---- sessions (master.c) ---- */

typedef struct mf_client_session {
    mf_clients *clients;
    char handle[17];
    mf_cast cast;
    bool soft; /* placement */
    int64_t timeout_ms; /* of all runs that have no other; 0: none */
    mf_resources *resources; /* of a session that shares nothing; NULL: the server's */
    mf_resources *node_state;
    struct mf_session *session; /* of the whole graph: what is done here alone */
    mf_cancel closed; /* raised for good: what has not begun yet shall not */
    int refs; /* guarded by the clients' lock */

    pthread_mutex_t extending; /* all below */
    mf_graph *graph;
    int *task; /* by node id */
    int64_t version; /* extensions so far */
    mf_map layouts; /* by the names of a run */
} mf_client_session;

/* With a reference, which mf_client_session_release() gives back. ABORTED: there is none. */
MF_MUST mf_status mf_clients_find(mf_clients *m, const char *handle, mf_client_session **out);
void mf_client_session_release(mf_client_session *s);

/* ---- runs (master_run.c, master_step.c) ---- */

MF_MUST mf_status mf_master_run_step(mf_request *r, const ProtobufCMessage *message);

/* A step: names, tensors, where results go. */
typedef struct mf_master_step {
    mf_run_names names;
    const mf_tensor *const *feeds;
    mf_tensor **results;
    int64_t timeout_ms; /* 0: none */
} mf_master_step;

/* On all tasks it lies on. The message of an error begins with "From /job:...". */
MF_MUST mf_status mf_master_step_run(mf_request *r, mf_client_session *s,
                                     const mf_master_step *step);

/* Forgets how runs lay on tasks. */
void mf_client_session_free_layouts(mf_client_session *s);

#endif
