/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_members.c - recovery of a mesh: devices are assigned to the new set of workers, and training
 * continues from the last complete variables. */
#include "base/mem.h"
#include "base/param.h"
#include "dist/mesh/mesh_private.h"

#include <string.h>

/* Steps that may have to be done again when a worker is lost. */
MF_PARAM_INT(mesh_snapshot_steps, 64,
             "interval in steps of full copies of the weights on each mesh worker, for recovery "
             "from a lost worker; 0: recover from a checkpoint");

int64_t mf_job_mesh_keep_steps(void)
{
    return MF_PARAM(mesh_snapshot_steps);
}

/* Training continues from the variables that were gathered last. */
static void mesh_release(mf_dist *dist)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    mf_job_mesh_end_session(m);
    if (m->kept.steps >= 0)
        mf_trainer_set_progress(m->trainer, &m->kept);
    else if (!mf_trainer_has_variables(m->trainer))
        m->trainer->has_state = false; /* the slices of the lost worker are lost */
}

typedef struct said {
    int64_t changes, keep_steps;
    mf_status_page_layout now;
} said;

/* Workers that were members when the layout changed know the current one; the first worker decides
 * how often variables are gathered. */
static mf_status agree_on_layout(mf_job_mesh *m)
{
    said mine = { .changes = m->changes, .keep_steps = mf_job_mesh_keep_steps() };
    said *all = mf_calloc(m->dist.size, sizeof *all);
    mf_mesh_spec now;

    (void)mf_relayout_request_text(&m->now, &mine.now); /* it fits wherever changes > 0 */
    mf_status st =
        all ? mf_dist_all_gather(&m->dist, 0, "the layout", &mine, (int64_t)sizeof mine, all)
            : MF_NOMEM("a layout");

    if (st == MF_OK)
        m->keep_steps = all[0].keep_steps;
    for (int i = 0; st == MF_OK && i < m->dist.size; i++) {
        if (all[i].changes <= m->changes)
            continue;
        m->changes = all[i].changes;
        all[i].now.mesh[sizeof all[i].now.mesh - 1] = '\0';
        all[i].now.layout[sizeof all[i].now.layout - 1] = '\0';
        st = mf_mesh_spec_parse(all[i].now.mesh, all[i].now.layout, &now);
        if (st == MF_OK)
            st = mf_mesh_spec_expand(&now, &m->setup.meshes);
        m->setup.rules = now.rules;
        m->now = now;
        memset(m->setup.layers, 0, sizeof m->setup.layers);
    }
    mf_free(all);
    return st;
}

static mf_status mesh_assign(mf_dist *dist, mf_trainer *t)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    (void)t;
    MF_TRY(agree_on_layout(m));
    return mf_job_mesh_begin_session(m);
}

/* A planned change loses no step: all workers gather the variables of this step. The barrier
 * prevents a worker that is done from closing connections that others still use. */
static mf_status mesh_prepare(mf_dist *dist, mf_trainer *t)
{
    mf_job_mesh *m = mf_job_mesh_of(dist);

    if (!m->session)
        return MF_OK;
    MF_TRY(mf_job_mesh_gather(m));
    return mf_dist_barrier(dist, t->step, "the rendezvous");
}

const mf_recovery_hooks mf_job_mesh_recovery = { .prepare = mesh_prepare,
                                                 .release = mesh_release,
                                                 .assign = mesh_assign };

/* All workers have the same variables now. */
mf_status mf_job_mesh_aligned(mf_dist *dist, mf_trainer *t)
{
    mf_job_mesh_of(dist)->kept = mf_trainer_progress(t);
    return MF_OK;
}
