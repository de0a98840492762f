/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.h - the same training by many: one argument more.
 *
 *     mf_strategy *s;
 *     mf_strategy_open("multi_worker_mirrored", NULL, &s);
 *     mf_model_compile(m, &(mf_compile_options){ .optimizer = "adam", .strategy = s }, &t);
 *     mf_fit(t, train, validation, &options);
 *     mf_trainer_free(t);
 *     mf_strategy_close(s);
 *
 * Which tasks there are and which one this process is, is found in the environment (TF_CONFIG, the
 * variables of mpirun, srun and torchrun; docs/guides/roles-and-launching.md). The weights that
 * come out are the same for any number of workers. */
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
        *cluster; /* as TF_CONFIG's "cluster", with job_name and task_index; NULL: environment */
    const char *job_name;
    const char *task_index; /* a number */
    const char *worker_hosts, *ps_hosts; /* "a:2222,b:2222", as TensorFlow 1 programs have them */
    const char *hostfile;
    int ps; /* how many of the processes of mpirun, srun or torchrun are parameter servers */
    const char *identity; /* "name=value" lines that all tasks must agree on; may be NULL */
    int64_t timeout_ms; /* nobody is waited for longer; 0: a minute */
    const char *transport; /* "local", "grpc", "ucx", "mpi"; NULL: local on one host, else grpc */
    const char *tls_dir; /* what `meshflow cert` has made; NULL: MESHFLOW_TLS_CA and so on */
    bool trusted_network; /* for transports that do not encrypt */
    bool insecure_any_peer; /* between hosts without TLS: whoever comes is let in */
    const char *job; /* show this process to `meshflow job status`, as a task of the job of this
                        name; the first task's name counts for all; NULL: it is not shown */
    const char *
        store; /* where the job keeps who belongs to it, so that tasks may die, come and
                  leave: "file:DIR" or "etcd://HOST:PORT/PREFIX", docs/guides/elastic-membership.md;
                  NULL: MESHFLOW_STORE; without it all tasks must stay */
    const char *codec; /* gradients travel in fewer bytes: "fp16", "*bias*: none; top_k ratio=0.01",
                          docs/guides/codecs.md; NULL: as they are */
} mf_strategy_options;

/* "mirrored replicas=2", "multi_worker_mirrored"; docs/guides/distributed-training.md lists all.
 * NULL: multi_worker_mirrored where there are several tasks, else none. Returns when all tasks have
 * come. options may be NULL. Fails: NOT_FOUND, INVALID_ARGUMENT (naming the setting, or what is
 * wrong with the cluster's description), DEADLINE_EXCEEDED (naming who did not come). */
MF_API MF_MUST mf_status mf_strategy_open(const char *strategy, const mf_strategy_options *options,
                                          mf_strategy **out);
/* A trainer keeps its strategy: it is closed when the last trainer that uses it is freed, too. */
MF_API void mf_strategy_close(mf_strategy *strategy);

/* This process among those that train together. */
MF_API int mf_strategy_rank(const mf_strategy *strategy);
MF_API int mf_strategy_size(const mf_strategy *strategy);
/* It only holds weights for others: mf_fit() serves until training is over, and there is nothing to
 * evaluate. */
MF_API bool mf_strategy_serves(const mf_strategy *strategy);
/* It is the one that writes checkpoints and tells what happens. Where tasks come and go it may
 * become so in mf_fit(), and rank and size may change there. */
MF_API bool mf_strategy_is_chief(const mf_strategy *strategy);
/* mf_fit() has failed with OUT_OF_RANGE because this process came when the job was over. */
MF_API bool mf_strategy_is_over(const mf_strategy *strategy);

/* What this process has sent to the others for sums of gradients. */
typedef struct mf_traffic {
    int64_t bytes; /* sent to others */
    int64_t plain_bytes; /* without a codec: of what codecs have sent, the least that is
                            possible instead; all else as it is. Equal to bytes without codecs */
    /* To parameter servers, and from them in answers, through messages or shared memory: */
    int64_t pushed_bytes, pulled_bytes;
    /* What these have done in the end; of the one that has done least and of the one that has done
     * most: */
    int64_t updates[2];
    int64_t batches[2]; /* that went into them, each counted once; 0: not known */
    int64_t late_pushes; /* that were thrown away: others were enough */
    int64_t staleness; /* by how many steps a worker was ahead of another, at most; -1: workers do
                          every step together */
} mf_traffic;

MF_API void mf_strategy_traffic(const mf_strategy *strategy, mf_traffic *out);

/* ---- a coordinator between processes: what coordinator.h does between threads ---- */

/* Wait until all workers have come to the barrier of this name (of at most 60 characters). Alone,
 * it returns at once. Thread: the one that trains, and not inside of mf_fit().
 * Fails: INVALID_ARGUMENT naming who came to another barrier; DEADLINE_EXCEEDED, UNAVAILABLE,
 * ABORTED naming who did not come, is gone, or has given up and why. */
MF_API MF_MUST mf_status mf_strategy_barrier(mf_strategy *strategy, const char *name);
/* mf_fit() of all workers ends after the same step, with MF_OK, as soon as they can agree on one.
 * Thread: any; also from a signal handler. */
MF_API void mf_strategy_stop(mf_strategy *strategy);
/* This worker leaves after the next step, and the others go on: its mf_fit() fails with CANCELLED,
 * and mf_strategy_has_left() is true. Where all want to leave, or tasks must stay, it is as
 * mf_strategy_stop(). Thread: any; also from a signal handler. */
MF_API void mf_strategy_leave(mf_strategy *strategy);
MF_API bool mf_strategy_has_left(const mf_strategy *strategy);
/* This worker cannot go on, for the reason that its thread's message says: all who wait for it, now
 * or later, fail with ABORTED and that message. */
MF_API void mf_strategy_abort(mf_strategy *strategy, mf_status why);

#ifdef __cplusplus
}
#endif
#endif
