/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - a task that serves TensorFlow's clients: tf.train.Server in C.
 *
 *     mf_server *s;
 *     mf_server_new(&(mf_server_options){ .cluster = "{\"worker\": [\"localhost:2222\"]}" }, &s);
 *     puts(mf_server_target(s));      grpc://localhost:2222, for tf.compat.v1.Session()
 *     mf_server_join(s);
 *     mf_server_free(s);
 */
#ifndef MESHFLOW_SERVER_H
#define MESHFLOW_SERVER_H

#include <meshflow/status.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_server mf_server;

/* All zero: a cluster of this process alone, at any free port of the loopback. */
typedef struct mf_server_options {
    const char
        *cluster; /* as TF_CONFIG's "cluster", or the name of a file; NULL: the environment */
    const char *job_name; /* which task this is */
    const char *task_index; /* a number */
    int threads; /* 0: as many as there are cores */
    const char *const *allow_dirs; /* where graphs may read and write files; NULL: nowhere */
    int n_allow_dirs;
    const char *tls_dir; /* what `meshflow cert` has made; NULL: MESHFLOW_TLS_CA and so on */
    bool insecure_any_peer; /* between hosts without TLS: whoever comes is let in */
    bool inside; /* for sessions of this process alone: no sockets, no plugin; the target is
                    "inside:N" */
    int64_t memory; /* bytes that the process's tensors and requests may take together; 0: what the
                       machine, or the control group, has */
} mf_server_options;

/* Listens from now on. options may be NULL. Fails: INVALID_ARGUMENT (what is wrong with the
 * cluster's description), ALREADY_EXISTS (somebody listens there), FAILED_PRECONDITION (no TLS). */
MF_API MF_MUST mf_status mf_server_new(const mf_server_options *options, mf_server **out);
/* "grpc://host:port" */
MF_API const char *mf_server_target(const mf_server *server);
/* Wait until somebody calls mf_server_stop(). */
MF_API void mf_server_join(mf_server *server);
/* Thread: any, also of a signal's handler's thread; several times. */
MF_API void mf_server_stop(mf_server *server);
/* Ends all steps, frees the port. */
MF_API void mf_server_free(mf_server *server);

/* ---- several tasks in one process ----
 *
 *     mf_local_cluster *c;
 *     mf_local_cluster_new("worker=2,ps=1", NULL, &c);
 *     mf_session_new(graph, &(mf_session_options){
 *                               .target = mf_local_cluster_target(c, "worker", 0) }, &session);
 */
typedef struct mf_local_cluster mf_local_cluster;

/* jobs: "worker=2,ps=1", how many tasks of which job: a whole cluster
 * (tf.test.create_local_cluster), at free ports of the loopback; with options->inside it is
 * threads without sockets, for sessions of this process. NULL: those tasks of
 * options->cluster that are on this host; the others are elsewhere (a hybrid cluster). Each has its
 * own threads and variables; job_name and task_index of the options are not looked at. options may
 * be NULL if jobs is not. Fails: as mf_server_new(); INVALID_ARGUMENT if no task is on this host.
 */
MF_API MF_MUST mf_status mf_local_cluster_new(const char *jobs, const mf_server_options *options,
                                              mf_local_cluster **out);
/* All tasks, {"worker": ["127.0.0.1:34567", ...], ...}: for clients, and for tasks elsewhere. */
MF_API const char *mf_local_cluster_spec(const mf_local_cluster *cluster);
/* "grpc://host:port", or "inside:N"; NULL: it is not here. */
MF_API const char *mf_local_cluster_target(const mf_local_cluster *cluster, const char *job,
                                           int index);
/* As those of a server, for all of them. */
MF_API void mf_local_cluster_join(mf_local_cluster *cluster);
MF_API void mf_local_cluster_stop(mf_local_cluster *cluster);
MF_API void mf_local_cluster_free(mf_local_cluster *cluster);

#ifdef __cplusplus
}
#endif
#endif
