/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - TensorFlow's WorkerService: graphs that masters, of ours or of TensorFlow's, register
 * here and run, step by step, together with those on other tasks. */
#ifndef MF_SERVER_WORKER_H
#define MF_SERVER_WORKER_H

#include "proto/worker.pb-c.h"
#include "server/server.h"

typedef struct mf_workings mf_workings;
typedef struct mf_worker_graph mf_worker_graph;
struct mf_session;

MF_MUST mf_status mf_workings_new(mf_server *server, mf_workings **out);
void mf_workings_free(mf_workings *w);

/* Ended by one without a name. */
extern const mf_method mf_worker_methods[];

/* ---- graphs (worker.c) ---- */

/* With a reference, which mf_worker_graph_release() gives back. ABORTED: it is not known, perhaps
 * because this task was restarted. */
MF_MUST mf_status mf_workings_find(mf_workings *w, const char *session, const char *graph,
                                   mf_worker_graph **out);
void mf_worker_graph_release(mf_worker_graph *g);
struct mf_session *mf_worker_graph_session(const mf_worker_graph *g);
/* The task that leads its groups. */
int mf_worker_graph_leader(const mf_worker_graph *g);
/* What has to be run: all nodes that nobody else needs. */
const char *const *mf_worker_graph_targets(const mf_worker_graph *g, int *n);

/* ---- steps (worker_run.c) ---- */

MF_MUST mf_status mf_worker_run_graph(mf_request *r, const ProtobufCMessage *message);
void mf_worker_recv_tensor(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_worker_cleanup_graph(mf_request *r, const ProtobufCMessage *message);

#endif
