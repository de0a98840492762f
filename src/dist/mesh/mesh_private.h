/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_private.h - what the files of the strategy mesh share. */
#ifndef MF_DIST_MESH_MESH_PRIVATE_H
#define MF_DIST_MESH_MESH_PRIVATE_H

#include "dist/job_members.h"
#include "dist/mesh/mesh_balance.h"
#include "dist/mesh/mesh_settings.h"
#include "dist/mesh/relayout_request.h"
#include "spmd/session/mesh_net.h"
#include "train/loop/loop.h"

#include <stddef.h>

typedef struct mf_job_mesh {
    mf_strategy strategy; /* first */
    mf_dist dist;
    mf_mesh_setup setup;
    mf_net *net; /* NULL: there is nobody else */
    mf_mesh_wire *wire;
    mf_trainer *trainer; /* NULL: none has joined */
    bool joined; /* one has been here */
    bool wants_stop;
    int64_t samples; /* of the step at hand */
    int64_t whole_bytes; /* of variables that the trainer has had during the last step */
    mf_relayout_request wish;
    mf_graph *graph; /* the model's, and what writes and reads each variable */
    mf_session *session;
    uint64_t *handed; /* by variable: mf_variable_writes() of what processors have */
    const char **value, **set, **get; /* by variable: names of nodes; NULL: no step has it */
    mf_mesh_counts *counts; /* by processor; NULL: nobody has asked */
    mf_mesh_worker *workers; /* by rank, of n_workers; the same */
    int n_workers;
    mf_job_members members; /* where workers come and go: team.members */
    int64_t keep_steps; /* mesh_keep_steps of worker 0 */
    mf_train_progress kept; /* what the trainer's variables are of; steps -1: of nothing */
    mf_aggregation aggregation; /* of micro-batches */
    double *weights; /* for it */
    int64_t n_weights;
    bool balances; /* slow workers get less */
    mf_mesh_balance balance;
    mf_status_page_layout now; /* as it was said last, */
    int64_t changes; /* so often */
} mf_job_mesh;

static inline mf_job_mesh *mf_job_mesh_of(mf_dist *dist)
{
    return (mf_job_mesh *)(void *)((char *)dist - offsetof(mf_job_mesh, dist));
}

static inline mf_net *mf_job_mesh_net(const mf_job_mesh *m)
{
    return m->dist.members ? m->members.net : m->net;
}

static inline mf_run_options mf_job_mesh_patience(const mf_job_mesh *m)
{
    return (mf_run_options){ .timeout_ms = m->dist.timeout_ns / 1000000 };
}

/* ---- variables: mesh_weights.c ---- */

/* The model's graph, with what sets and gets each variable. */
MF_MUST mf_status mf_job_mesh_make_graph(mf_job_mesh *m);
/* What was written in the trainer's variables since the last time goes to the processors. */
MF_MUST mf_status mf_job_mesh_hand_over(mf_job_mesh *m);
/* The trainer has all of what processors hold, as it is now. Collective. */
MF_MUST mf_status mf_job_mesh_keep(mf_job_mesh *m);
/* What processors have is theirs alone, but for single numbers, until it is brought together. */
void mf_job_mesh_let_go(mf_job_mesh *m);
/* mf_dist_state_ops.each_slice. */
MF_MUST mf_status mf_job_mesh_each_slice(mf_dist *dist, const struct mf_trainer *t, int64_t i,
                                         mf_status (*fn)(void *ctx, struct mf_variable *slice),
                                         void *ctx);
/* Of variables that the trainer has. */
int64_t mf_job_mesh_whole_bytes(const mf_job_mesh *m);
/* What a guard counts (train/loop/guard.h), and the steps, which is looked at after every step.
 * Collective. */
MF_MUST mf_status mf_job_mesh_take_counts(mf_job_mesh *m);

/* Do workers keep whole variables to go on from when one of them is lost? All have met when the
 * first step was not done yet, so until then they do. */
static inline bool mf_job_mesh_keeps(const mf_job_mesh *m)
{
    return m->dist.members && (m->keep_steps > 0 || m->trainer->step == 0);
}

/* ---- who there is is known: strategy_mesh.c ---- */

/* Fails: INVALID_ARGUMENT (there is no processor for this worker), ABORTED (for another one). */
MF_MUST mf_status mf_job_mesh_begin_session(mf_job_mesh *m);
void mf_job_mesh_end_session(mf_job_mesh *m);

/* ---- recovery: mesh_members.c ---- */

extern const mf_recovery_hooks mf_job_mesh_recovery;
/* mf_dist_membership_ops.aligned. */
MF_MUST mf_status mf_job_mesh_aligned(mf_dist *dist, struct mf_trainer *t);
/* Steps after which the trainer has all of the variables again. */
int64_t mf_job_mesh_keep_steps(void);

#endif
