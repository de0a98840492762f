/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_members.c - workers of a mesh come, leave and are lost: processors are dealt out anew, and
 * go on from what was kept last. */
#include "base/mem.h"
#include "base/param.h"
#include "dist/mesh/mesh_private.h"

#include <string.h>

/* Steps that may have to be done again when a worker is lost. */
MF_PARAM_INT(mesh_keep_steps, 64,
             "steps on a mesh after which all workers have whole weights, to go on from when one "
             "of them is lost; 0: none keeps any, and all go on from a checkpoint");

int64_t mf_job_mesh_keep_steps(void)
{
    return MF_PARAM(mesh_keep_steps);
}

/* What belongs to the epoch that is over; what was kept is what there is. */
static void mesh_members_part(mf_dist_worker *team, mf_status why)
{
    mf_job_mesh *m = mf_job_mesh_of(team);
    mf_error e;

    mf_error_save(why, &e);
    mf_job_mesh_end_session(m);
    mf_group_free(team->group);
    team->group = NULL;
    if (m->kept.steps >= 0)
        mf_trainer_stand(m->trainer, &m->kept);
    else if (!mf_trainer_has_variables(m->trainer))
        m->trainer->has_state = false; /* slices of whoever is lost are gone */
    (void)mf_error_restore(&e);
    mf_job_members_part(&m->members, why);
}

typedef struct said {
    int64_t changes, keep_steps;
    mf_status_page_layout now;
} said;

/* Whoever was there when the layout was changed knows which it is; how often all is kept is the
 * first worker's business. */
static mf_status agree_on_layout(mf_job_mesh *m)
{
    said mine = { .changes = m->changes, .keep_steps = mf_job_mesh_keep_steps() };
    said *all = mf_calloc(m->team.size, sizeof *all);
    mf_mesh_spec now;

    (void)mf_relayout_request_text(&m->now, &mine.now); /* it fits wherever changes > 0 */
    mf_status st =
        all ? mf_dist_worker_gather(&m->team, 0, "the layout", &mine, (int64_t)sizeof mine, all)
            : MF_NOMEM("a layout");

    if (st == MF_OK)
        m->keep_steps = all[0].keep_steps;
    for (int i = 0; st == MF_OK && i < m->team.size; i++) {
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

static mf_status mesh_members_meet_once(mf_dist_worker *team, mf_trainer *t)
{
    mf_job_mesh *m = mf_job_mesh_of(team);

    (void)t;
    MF_TRY(mf_job_members_meet(&m->members));
    MF_TRY(mf_job_describe_view(&m->members, team));
    MF_TRY(mf_job_members_group(&m->members, 1, &team->group));
    MF_TRY(agree_on_layout(m));
    return mf_job_mesh_begin_session(m);
}

/* Where nobody is lost, no step is, either. */
mf_status mf_job_mesh_meet(mf_dist_worker *team, mf_trainer *t, mf_status why)
{
    static const mf_job_meeting meeting = { mesh_members_part, mesh_members_meet_once };
    mf_job_mesh *m = mf_job_mesh_of(team);

    if (why == MF_OK && m->session)
        why = mf_job_mesh_keep(m);
    if (why == MF_OK && m->session) /* whoever is done waits for the others, or they would fail */
        why = mf_dist_worker_meet(team, t->step, "the meeting");
    return mf_job_meet(team, t, &meeting, why);
}

/* All have the same variables now. */
mf_status mf_job_mesh_aligned(mf_dist_worker *team, mf_trainer *t)
{
    mf_job_mesh_of(team)->kept = mf_trainer_standing(t);
    return MF_OK;
}
