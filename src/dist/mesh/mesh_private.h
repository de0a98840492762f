/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_private.h - shared by the files of the strategy mesh. */
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
    mf_net *net; /* NULL: one process only, or an elastic job */
    mf_mesh_wire *wire;
    mf_trainer *trainer; /* NULL: no trainer has joined */
    bool joined; /* one has been here */
    bool wants_stop;
    int64_t samples; /* of the current step */
    int64_t whole_bytes; /* of variables that the trainer has had during the last step */
    mf_relayout_request wish;
    mf_graph *graph; /* the model's, and nodes that write and read each variable */
    mf_session *session;
    uint64_t *handed; /* by variable: mf_variable_writes() of the devices' value */
    const char **value, **set, **get; /* by variable: names of nodes; NULL: no step has it */
    mf_mesh_counts *counts; /* by device; NULL: not requested */
    mf_mesh_worker *workers; /* by rank, of n_workers; the same */
    int n_workers;
    mf_job_members members; /* of an elastic job: dist.members */
    int64_t keep_steps; /* mesh_snapshot_steps of worker 0 */
    mf_train_progress kept; /* the progress that the trainer's variables belong to; steps -1: none
                             */
    mf_aggregation aggregation; /* of micro-batches */
    double *weights; /* for it */
    int64_t n_weights;
    bool balances; /* slow workers get less */
    mf_mesh_balance balance;
    mf_mesh_spec now; /* the mesh and layout that the training has */
    int64_t changes; /* of them since the training began */
} mf_job_mesh;

static inline mf_job_mesh *mf_job_mesh_of(mf_dist *dist)
{
    return (mf_job_mesh *)(void *)((char *)dist - offsetof(mf_job_mesh, dist));
}

static inline mf_net *mf_job_mesh_net(const mf_job_mesh *m)
{
    return m->dist.members ? m->members.net : m->net;
}

static inline mf_run_options mf_job_mesh_timeout(const mf_job_mesh *m)
{
    return (mf_run_options){ .timeout_ms = m->dist.timeout_ns / 1000000 };
}

/* ---- variables: mesh_weights.c ---- */

/* The model's graph, with nodes that set and get each variable. */
MF_MUST mf_status mf_job_mesh_make_graph(mf_job_mesh *m);
/* Send variables of the trainer that were written since the last call to the devices. */
MF_MUST mf_status mf_job_mesh_send_written(mf_job_mesh *m);
/* Gather the devices' current variables in the trainer. Collective. */
MF_MUST mf_status mf_job_mesh_gather(mf_job_mesh *m);
/* Free the trainer's copies of the devices' variables, except scalars, until the next gathering. */
void mf_job_mesh_free_copies(mf_job_mesh *m);
/* mf_dist_state_ops.each_slice. */
MF_MUST mf_status mf_job_mesh_each_slice(mf_dist *dist, const struct mf_trainer *t, int64_t i,
                                         mf_status (*fn)(void *ctx, struct mf_variable *slice),
                                         void *ctx);
/* Of variables that the trainer has. */
int64_t mf_job_mesh_whole_bytes(const mf_job_mesh *m);
/* The counters of a guard (train/loop/nan_guard.h) and of steps, which are read after every step.
 * Collective. */
MF_MUST mf_status mf_job_mesh_take_counts(mf_job_mesh *m);

/* Do workers keep complete variables, to continue from when one of them is lost? Until the first
 * step is done they do. */
static inline bool mf_job_mesh_keeps(const mf_job_mesh *m)
{
    return m->dist.members && (m->keep_steps > 0 || m->trainer->step == 0);
}

/* ---- sessions of an epoch: strategy_mesh.c ---- */

/* Fails: INVALID_ARGUMENT (no device is left for this worker), ABORTED (for another worker). */
MF_MUST mf_status mf_job_mesh_begin_session(mf_job_mesh *m);
void mf_job_mesh_end_session(mf_job_mesh *m);

/* NULL: another strategy. */
const mf_job_mesh *mf_job_mesh_of_strategy(const mf_strategy *strategy);

/* ---- recovery: mesh_members.c ---- */

extern const mf_recovery_hooks mf_job_mesh_recovery;
/* mf_dist_membership_ops.aligned. */
MF_MUST mf_status mf_job_mesh_aligned(mf_dist *dist, struct mf_trainer *t);
/* Steps after which the trainer gathers all variables. */
int64_t mf_job_mesh_keep_steps(void);

#endif
