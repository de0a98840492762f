/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.h - distributed training: the same program with one more argument.
 *
 *     mf_strategy *s;
 *     mf_strategy_open("multi_worker_mirrored", NULL, &s);
 *     mf_model_compile(m, &(mf_compile_options){ .optimizer = "adam", .strategy = s }, &t);
 *     mf_fit(t, train, validation, &options);
 *     mf_trainer_free(t);
 *     mf_strategy_close(s);
 *
 * The tasks, and the role of this process among them, come from the environment (TF_CONFIG, the
 * variables of mpirun, srun and torchrun; docs/guides/roles-and-launching.md). The trained weights
 * are the same for any number of workers. */
#ifndef MESHFLOW_STRATEGY_H
#define MESHFLOW_STRATEGY_H

#include <meshflow/status.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_strategy mf_strategy;

typedef struct mf_strategy_options {
    const char
        *cluster; /* as "cluster" of TF_CONFIG, with job_name and task_index; NULL: environment */
    const char *job_name;
    const char *task_index; /* index of this task, as text */
    const char *worker_hosts, *ps_hosts; /* "a:2222,b:2222", as in TensorFlow 1 programs */
    const char *hostfile;
    int ps; /* number of processes of mpirun, srun or torchrun that are parameter servers */
    const char *identity; /* "name=value" lines that must be equal on all tasks; may be NULL */
    int64_t timeout_ms; /* limit for each wait for other tasks; default: a minute */
    const char *transport; /* "local", "grpc", "ucx", "mpi"; NULL: local on one host, else grpc */
    const char *tls_dir; /* files created by `meshflow cert`; NULL: MESHFLOW_TLS_CA etc. */
    bool trusted_network; /* allow transports that do not encrypt */
    bool insecure_any_peer; /* without TLS, accept any peer from other hosts */
    const char *job; /* the name of the job under which `meshflow job status` shows this process;
                        the first task's name is used for all tasks; NULL: not shown */
    const char
        *store; /* store of the job's membership, which allows tasks to fail, join and leave:
                   "file:DIR" or "etcd://HOST:PORT/PREFIX", docs/guides/elastic-membership.md;
                   NULL: MESHFLOW_STORE; without a store all tasks must stay */
    const char *codec; /* gradient compression: "fp16", "*bias*: none; top_k ratio=0.01",
                          docs/guides/codecs.md; NULL: none */
} mf_strategy_options;

/* strategy: "mirrored replicas=2", "multi_worker_mirrored"; docs/guides/distributed-training.md
 * lists all. NULL: multi_worker_mirrored if there are several tasks, else none. Returns when all
 * tasks have connected. options may be NULL. Fails: NOT_FOUND, INVALID_ARGUMENT (naming the
 * setting, or the error in the cluster description), DEADLINE_EXCEEDED (naming the tasks that did
 * not connect). */
MF_API MF_MUST mf_status mf_strategy_open(const char *strategy, const mf_strategy_options *options,
                                          mf_strategy **out);
/* May be called before mf_trainer_free(): each trainer holds a reference to its strategy. */
MF_API void mf_strategy_close(mf_strategy *strategy);

/* The rank of this process among the workers, and the number of workers. */
MF_API int mf_strategy_rank(const mf_strategy *strategy);
MF_API int mf_strategy_size(const mf_strategy *strategy);
/* True: this process only holds weights for workers. mf_fit() serves until training is over; it has
 * no results to evaluate. */
MF_API bool mf_strategy_serves(const mf_strategy *strategy);
/* True: this process writes checkpoints and logs progress. With elastic membership mf_fit() may
 * change the result, and rank and size. */
MF_API bool mf_strategy_is_chief(const mf_strategy *strategy);
/* True: mf_fit() has failed with OUT_OF_RANGE because this process joined after the end of the job.
 */
MF_API bool mf_strategy_is_over(const mf_strategy *strategy);

/* Gradient traffic of this process. */
typedef struct mf_traffic {
    int64_t bytes; /* sent to other tasks */
    int64_t plain_bytes; /* the same without codecs: for messages of codecs, the least possible size
                            without one. Equal to bytes without codecs */
    /* To parameter servers, and from them in replies, through messages or shared memory: */
    int64_t pushed_bytes, pulled_bytes;
    /* Updates by parameter servers; of the one with the fewest and of the one with the most: */
    int64_t updates[2];
    int64_t batches[2]; /* batches in these updates, each counted once; 0: unknown */
    int64_t late_pushes; /* pushes that were dropped because other pushes were sufficient */
    int64_t staleness; /* maximum number of steps by which a worker was ahead of another; -1:
                          workers
                          are synchronous */
} mf_traffic;

MF_API void mf_strategy_traffic(const mf_strategy *strategy, mf_traffic *out);

/* ---- coordination between processes: what coordinator.h does between threads ---- */

/* Wait until all workers have reached the barrier of this name (at most 60 characters). Without
 * other workers it returns at once. Thread: the training thread, and not inside mf_fit().
 * Fails: INVALID_ARGUMENT naming the worker that reached another barrier; DEADLINE_EXCEEDED,
 * UNAVAILABLE, ABORTED naming the worker that did not arrive, is lost, or has aborted and why. */
MF_API MF_MUST mf_status mf_strategy_barrier(mf_strategy *strategy, const char *name);
/* End mf_fit() of all workers after the same step, with MF_OK, as soon as they can agree on one.
 * Thread: any; also from a signal handler. */
MF_API void mf_strategy_stop(mf_strategy *strategy);
/* Leave the job after the next step; the other workers continue. mf_fit() of this worker fails with
 * CANCELLED, and mf_strategy_has_left() returns true. If all workers want to leave, or membership
 * is fixed, this is mf_strategy_stop(). Thread: any; also from a signal handler. */
MF_API void mf_strategy_leave(mf_strategy *strategy);
MF_API bool mf_strategy_has_left(const mf_strategy *strategy);
/* Report that this worker cannot continue, for the reason in its thread's message: every task that
 * waits for it, now or later, fails with ABORTED and that message. */
MF_API void mf_strategy_abort(mf_strategy *strategy, mf_status why);

#ifdef __cplusplus
}
#endif
#endif
