/* SPDX-License-Identifier: Apache-2.0 */
/* contention.c - measures how much slower kernels are when all devices of the machine compute. */
#include "planner/contention.h"

#include "planner/trial.h"

enum { RUNS = 3 };

static const double LONGEST_NS = 1e9; /* of all runs together */

/* Device 0 represents all devices: they do the same. */
static mf_status contention_compare(const mf_trial *trial, const mf_planned_machine *m,
                                    mf_mesh_setup *setup, double *out)
{
    const int n = setup->meshes.devices;
    mf_planned_machine alone = { .times = m->times, .threads = 1 };
    mf_trial_result did;
    mf_prediction is;
    double took;

    setup->n = 1;
    MF_TRY(mf_predict_step(trial->step, &alone, setup, &is, NULL));
    if (!(is.compute_ns > 0) || is.compute_ns * n > LONGEST_NS)
        return MF_OK;
    MF_TRY(mf_trial_run(trial, setup, &did));
    if (m->threads == 1) /* starting the step uses all cores, too */
        took = (did.own_ns - m->links.step_ns * (m->cores < n ? m->cores : n)) / n;
    else
        took = did.least_ns - m->links.step_ns;
    *out = took / is.compute_ns;
    *out = *out < 1 ? 1 : *out > 2 ? 2 : *out;
    return MF_OK;
}

mf_status mf_contention_measure(const mf_trainer *t, const mf_planned_machine *machine, int devices,
                                int64_t batch, double *out)
{
    mf_arena *arena = mf_arena_new();
    mf_mesh_setup setup = { 0 };
    mf_planned_step step;
    const mf_trial trial = {
        .t = t, .step = &step, .threads = machine->cores, .runs = RUNS, .seconds = LONGEST_NS * 1e-9
    };
    mf_mesh mesh;
    mf_status st = arena ? MF_OK : MF_NOMEM("a step");

    *out = 1;
    (void)mf_plan_meshes(machine->cores > 0 ? devices : 1, &mesh, 1);
    mf_meshes_one(&mesh, &setup.meshes);
    if (st == MF_OK)
        st = mf_planned_step_of(t, batch, arena, &step);
    if (st == MF_OK)
        st = contention_compare(&trial, machine, &setup, out);
    mf_arena_free(arena);
    return st;
}
