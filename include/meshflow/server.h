/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - a task that serves TensorFlow clients: the C counterpart of tf.train.Server.
 *
 *     mf_server *s;
 *     mf_server_new(&(mf_server_options){ .cluster = "{\"worker\": [\"localhost:2222\"]}" }, &s);
 *     puts(mf_server_target(s));      grpc://localhost:2222, for tf.compat.v1.Session()
 *     mf_server_join(s);
 *     mf_server_free(s); */
#ifndef MESHFLOW_SERVER_H
#define MESHFLOW_SERVER_H

#include <meshflow/status.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_server mf_server;

/* All zero: a cluster of this process alone, on a free loopback port. */
typedef struct mf_server_options {
    const char *cluster; /* as "cluster" of TF_CONFIG, or a file name; NULL: from the environment */
    const char *job_name; /* job of this task */
    const char *task_index; /* index of this task, as text */
    int threads; /* default: the number of cores */
    const char *const *allow_dirs; /* where graphs may read and write files; NULL: nowhere */
    int n_allow_dirs;
    const char *tls_dir; /* files created by `meshflow cert`; NULL: MESHFLOW_TLS_CA etc. */
    bool insecure_any_peer; /* without TLS, accept any peer from other hosts */
    bool inside; /* in-process: only for sessions of this process, without sockets and plugin;
                    the target is "inside:N" */
    int64_t memory; /* limit in bytes for tensors and requests of the process; default: the memory
                       of the machine or its control group */
} mf_server_options;

/* Listens when it returns. options may be NULL. Fails: INVALID_ARGUMENT (an error in the cluster
 * description), ALREADY_EXISTS (the address is in use), FAILED_PRECONDITION (no TLS). */
MF_API MF_MUST mf_status mf_server_new(const mf_server_options *options, mf_server **out);
/* "grpc://host:port" */
MF_API const char *mf_server_target(const mf_server *server);
/* Block until mf_server_stop() is called. */
MF_API void mf_server_join(mf_server *server);
/* May be called more than once. Thread: any; also from a thread that handles signals. */
MF_API void mf_server_stop(mf_server *server);
/* Cancels all steps and closes the port. */
MF_API void mf_server_free(mf_server *server);

/* ---- several tasks in one process ----
 *
 *     mf_local_cluster *c;
 *     mf_local_cluster_new("worker=2,ps=1", NULL, &c);
 *     mf_session_new(graph, &(mf_session_options){
 *                               .target = mf_local_cluster_target(c, "worker", 0) }, &session); */
typedef struct mf_local_cluster mf_local_cluster;

/* jobs: "worker=2,ps=1", the number of tasks per job: a complete cluster
 * (tf.test.create_local_cluster) on free loopback ports; with options->inside, in-process without
 * sockets, for sessions of this process. NULL: the tasks of options->cluster that belong to this
 * host; the others run elsewhere (a hybrid cluster). Each task has its own threads and variables.
 * job_name and task_index of the options are ignored. options may be NULL if jobs is not. Fails: as
 * mf_server_new(); INVALID_ARGUMENT (no task belongs to this host). */
MF_API MF_MUST mf_status mf_local_cluster_new(const char *jobs, const mf_server_options *options,
                                              mf_local_cluster **out);
/* All tasks, {"worker": ["127.0.0.1:34567", ...], ...}: for clients, and for tasks on other hosts.
 */
MF_API const char *mf_local_cluster_spec(const mf_local_cluster *cluster);
/* "grpc://host:port", or "inside:N"; NULL if this process does not have the task. */
MF_API const char *mf_local_cluster_target(const mf_local_cluster *cluster, const char *job,
                                           int index);
/* As mf_server_join(), mf_server_stop() and mf_server_free(), for all tasks. */
MF_API void mf_local_cluster_join(mf_local_cluster *cluster);
MF_API void mf_local_cluster_stop(mf_local_cluster *cluster);
MF_API void mf_local_cluster_free(mf_local_cluster *cluster);

#ifdef __cplusplus
}
#endif
#endif
