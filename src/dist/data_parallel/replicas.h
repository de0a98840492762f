/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.h - one process that computes a batch in several places at once: each replica has a
 * thread, a session and its shards of the batch. The trainer itself is replica 0.
 *
 * Either every replica has its own variables and updates them identically, or all of them read
 * those of the trainer, which alone writes. */
#ifndef MF_DIST_DATA_PARALLEL_REPLICAS_H
#define MF_DIST_DATA_PARALLEL_REPLICAS_H

#include "dist/data_parallel/gradient_allreduce.h"
#include "train/step/trainer.h"

typedef struct mf_replicas mf_replicas;

typedef struct mf_replicas_options {
    mf_trainer *trainer; /* must outlive the replicas, except for its session */
    int n;
    bool one_store; /* the others read the trainer's variables and write none */
    mf_aggregation aggregation; /* its weights must outlive the replicas */
} mf_replicas_options;

/* The trainer's session exchanges from now on. */
MF_MUST mf_status mf_replicas_new(const mf_replicas_options *o, mf_replicas **out);
void mf_replicas_free(mf_replicas *r);

/* A step of so many samples begins. */
MF_MUST mf_status mf_replicas_begin_step(mf_replicas *r, int64_t step, int64_t samples,
                                         bool wants_stop);
/* Run it: `call` is the trainer's, on the complete batch. */
MF_MUST mf_status mf_replicas_run(mf_replicas *r, const mf_run_options *options,
                                  const struct mf_loop_call *call);
/* Abort: replicas that wait for each other fail with the thread's error. */
void mf_replicas_abort(mf_replicas *r, mf_status why);
bool mf_replicas_wants_stop(mf_replicas *r);
/* Do all replicas have the same variables? INTERNAL naming a replica with others. */
MF_MUST mf_status mf_replicas_compare(mf_replicas *r);

#endif
