/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_queries.c - what a program may ask of a training on a mesh: setup, counters, costs. */
#include "base/host_state.h"
#include "dist/mesh/mesh_private.h"

const mf_mesh_setup *mf_strategy_mesh_setup(const mf_strategy *strategy)
{
    const mf_job_mesh *m = mf_job_mesh_of_strategy(strategy);

    return m ? &m->setup : NULL;
}

int mf_strategy_mesh_counts(const mf_strategy *strategy, mf_mesh_counts *out, int max)
{
    MF_ENTRY_OR(0);

    const mf_job_mesh *m = mf_job_mesh_of_strategy(strategy);

    if (!m || !m->counts)
        return 0;
    for (int i = 0; out && i < max && i < m->setup.meshes.devices; i++)
        out[i] = m->counts[i];
    return m->setup.meshes.devices;
}

int mf_strategy_mesh_workers(const mf_strategy *strategy, mf_mesh_worker *out, int max)
{
    MF_ENTRY_OR(0);

    const mf_job_mesh *m = mf_job_mesh_of_strategy(strategy);

    if (!m || !m->workers)
        return 0;
    for (int i = 0; out && i < max && i < m->n_workers; i++)
        out[i] = m->workers[i];
    return m->n_workers;
}

mf_status mf_strategy_mesh_costs(const mf_strategy *strategy, mf_mesh_cost_fn *each, void *ctx)
{
    MF_ENTRY;
    MF_NEED_FUNCTION(each);

    const mf_job_mesh *m = mf_job_mesh_of_strategy(strategy);

    if (!m || !m->session)
        return MF_FAIL(MF_FAILED_PRECONDITION, "no step has run on a mesh");
    return mf_mesh_session_costs(m->session, each, ctx);
}
