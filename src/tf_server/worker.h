/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - TensorFlow's WorkerService: Meshflow's or TensorFlow's masters register graphs here
 * and run them step by step, together with those of other tasks. */
#ifndef MF_TF_SERVER_WORKER_H
#define MF_TF_SERVER_WORKER_H

#include "proto/worker.pb-c.h"
#include "tf_server/server.h"

typedef struct mf_worker_service mf_worker_service;
typedef struct mf_worker_graph mf_worker_graph;
typedef struct mf_worker_partials mf_worker_partials;
struct mf_rendezvous_table;
struct mf_session;

MF_MUST mf_status mf_worker_service_new(mf_server *server, mf_worker_service **out);
void mf_worker_service_free(mf_worker_service *w);

/* Terminated by an entry without a name. */
extern const mf_method mf_worker_methods[];

/* ---- graphs (worker.c) ---- */

/* Takes a reference: release with mf_worker_graph_release(). Fails: ABORTED (unknown, possibly
 * because this task was restarted). */
MF_MUST mf_status mf_worker_service_find(mf_worker_service *w, const char *session,
                                         const char *graph, mf_worker_graph **out);
void mf_worker_graph_release(mf_worker_graph *g);
mf_worker_graph *mf_worker_graph_ref(mf_worker_graph *g);
struct mf_session *mf_worker_graph_session(const mf_worker_graph *g);
/* The leader of its groups: a task. */
int mf_worker_graph_leader(const mf_worker_graph *g);
/* The targets: all nodes without consumers. */
const char *const *mf_worker_graph_targets(const mf_worker_graph *g, int *n);

/* ---- steps (worker_run.c) ---- */

MF_MUST mf_status mf_worker_run_graph(mf_request *r, const ProtobufCMessage *message);
void mf_worker_recv_tensor(mf_request *r, const ProtobufCMessage *message);
MF_MUST mf_status mf_worker_cleanup_graph(mf_request *r, const ProtobufCMessage *message);
/* Puts values of the request into the step's rendezvous table. */
MF_MUST mf_status mf_worker_put_sent(struct mf_rendezvous_table *table,
                                     const Tensorflow__RunGraphRequest *q);

/* ---- partial runs (worker_partial.c) ---- */

MF_MUST mf_status mf_worker_partials_new(mf_server *server, mf_worker_partials **out);
void mf_worker_partials_free(mf_worker_partials *all);
/* A RunGraph of a partial run. values: the values that the master requests, in the order of its
 * keys; owned by the caller, even on failure. */
MF_MUST mf_status mf_worker_partial_call(mf_request *r, const Tensorflow__RunGraphRequest *q,
                                         mf_worker_graph *g, mf_tensor *values);
/* Ends the partial run of a step. */
void mf_worker_partials_end_step(mf_worker_partials *all, int64_t step);
/* Ends the partial runs of this graph. NULL: of all graphs. */
void mf_worker_partials_end(mf_worker_partials *all, const mf_worker_graph *g);

#endif
