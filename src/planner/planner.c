/* SPDX-License-Identifier: Apache-2.0 */
/* planner.c - the planner's driver: measure the machine, predict layouts, choose the best. */
#include "planner/planner.h"

#include "base/clock.h"
#include "base/param.h"
#include "planner/contention.h"

#include <unistd.h>

MF_PARAM_INT(replan_percent, 150,
             "--auto plans again when a step takes this percentage of the predicted time; "
             "0: never");
MF_PARAM_INT(plan_trial_ms, 2000,
             "time in ms that the planner spends on trials of the best layouts; 0: no trials");

enum { MAX_SHAPES = 32, MAX_THREADS = 64, TRIAL_RUNS = 256 };

static const double KERNEL_SECONDS = 4;

static double seconds_since(int64_t begin)
{
    return (double)(mf_clock_ns() - begin) * 1e-9;
}

/* ---- the step ---- */

mf_status mf_planned_step_of(const mf_trainer *t, int64_t batch, mf_arena *arena,
                             mf_planned_step *out)
{
    const mf_names *n = &t->step_names;
    const char **target = MF_ARENA_NEW(arena, const char *);
    mf_shape *shapes = MF_ARENA_ARRAY(arena, mf_shape, n->n_feeds);
    const int n_in = (int)t->model->n_inputs;

    if (!target || !shapes)
        return MF_NOMEM("a step");
    *target = mf_node_name(t->graph.train);
    for (int i = 0; i < n->n_feeds; i++) {
        const mf_output o = i < n_in        ? t->model->inputs[i]
                            : i == n_in     ? t->graph.label
                            : i == n_in + 1 ? t->model->clock
                            : i == n_in + 2 ? t->graph.learning_rate
                                            : t->graph.inverse;

        shapes[i] = *mf_node_shape(o.node, "shape");
        if (shapes[i].rank > 0 && shapes[i].dims[0] < 0)
            shapes[i].dims[0] = batch;
        if (!mf_shape_is_static(&shapes[i]))
            return MF_FAIL(MF_UNIMPLEMENTED,
                           "the input '%s' has no static shape, which the planner needs",
                           o.node->name);
    }
    *out =
        (mf_planned_step){ .graph = t->model->graph,
                           .names = { n->feeds, n->fetches, target, n->n_feeds, n->n_fetches, 1 },
                           .feed_shapes = shapes,
                           .disable = t->options.disable };
    return MF_OK;
}

/* ---- the machine ---- */

static int list_meshes(const mf_planner_options *w, mf_mesh meshes[MAX_SHAPES])
{
    if (!w->mesh)
        return mf_plan_meshes(w->devices, meshes, MAX_SHAPES);
    meshes[0] = *w->mesh;
    return 1;
}

static int planner_cores_of(const mf_planner_options *w)
{
    const long n = w->threads > 0 ? w->threads : sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (int)n : 1;
}

/* Devices in this process share its cores. Simulated devices have as many cores as this machine. */
static mf_status measure_machine(const mf_planner_options *w, int devices, mf_planned_machine *m,
                                 mf_links *links)
{
    const int cores = planner_cores_of(w), all = cores * (w->hosts > 1 ? w->hosts : 1);
    const double budget = w->seconds > 0 ? w->seconds : KERNEL_SECONDS;

    if (!w->simulated && !w->links && devices > MAX_THREADS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%d devices are too many threads for one process: make them separate "
                       "machines (--simulate)",
                       devices);
    if (w->links)
        *links = *w->links;
    else
        MF_TRY(mf_links_measure(w->simulated && devices > 1 ? 2 : devices, cores, links));
    if (w->simulated && w->latency_ns > 0)
        links->round_ns += w->latency_ns;
    if (w->simulated && w->byte_ns > 0)
        links->byte_ns = w->byte_ns;
    m->links = *links;
    m->cores = w->simulated ? 0 : all;
    m->threads = w->simulated || devices <= 1 ? cores : all / devices;
    m->threads = m->threads < cores ? m->threads : cores;
    m->threads = m->threads > 1 ? m->threads : 1;
    return mf_op_times_new(m->threads, cores, (int64_t)(budget * 1e9), &m->times);
}

static int64_t memory_of_host(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (int64_t)pages * size : 0;
}

/* Trials need devices that are threads of this process, and a time budget. */
static bool can_be_tried(const mf_planner_options *w)
{
    mf_params_load();
    return !w->simulated && !w->links && MF_PARAM(plan_trial_ms) > 0;
}

/* ---- planning ---- */

static mf_status planner_choose(const mf_trainer *t, const mf_planned_step *step,
                                const mf_planner_options *w, mf_planner_answer *out)
{
    mf_mesh meshes[MAX_SHAPES];
    mf_planned_machine machine = { 0 };
    mf_plan_request r = { .step = step,
                          .machine = &machine,
                          .meshes = meshes,
                          .layout = w->layout,
                          .memory = w->memory,
                          .history = w->history,
                          .name = w->name,
                          .micro_batches = w->micro_batches,
                          .exact = w->exact };
    const mf_trial trial = {
        .t = t, .step = step, .threads = planner_cores_of(w), .runs = TRIAL_RUNS
    };
    int64_t begin = mf_clock_ns();
    mf_status st;

    r.n_meshes = list_meshes(w, meshes);
    st = measure_machine(w, meshes[0].n, &machine, &out->links);
    if (st == MF_OK)
        st = mf_contention_measure(t, &machine, meshes[0].n, 1 + (w->batch - 1) / meshes[0].n,
                                   &machine.slowdown);
    if (can_be_tried(w))
        r.trial = &trial;
    r.trial_seconds = (double)MF_PARAM(plan_trial_ms) * 1e-3;
    r.trial_memory = memory_of_host() / 4; /* a training may be running at the same time */
    out->slowdown = machine.slowdown;
    out->links_seconds = seconds_since(begin);
    begin = mf_clock_ns();
    if (st == MF_OK)
        st = mf_plan_search(&r, &out->found);
    out->search_seconds = seconds_since(begin);
    if (machine.times) {
        out->kernels = mf_op_times_count(machine.times);
        out->kernel_seconds = (double)mf_op_times_spent_ns(machine.times) * 1e-9;
    }
    mf_op_times_free(machine.times);
    return st;
}

mf_status mf_planner_run(const mf_trainer *t, const mf_planner_options *opts,
                         mf_planner_answer *out)
{
    mf_arena *arena = mf_arena_new();
    mf_planned_step step;
    mf_status st;

    *out = (mf_planner_answer){ 0 };
    if (!arena)
        return MF_NOMEM("a plan");
    st = mf_planned_step_of(t, opts->batch, arena, &step);
    if (st == MF_OK)
        st = planner_choose(t, &step, opts, out);
    mf_arena_free(arena);
    return st;
}

bool mf_planner_was_wrong(double predicted_ns, double measured_ns)
{
    mf_params_load();
    return MF_PARAM(replan_percent) > 0 &&
           measured_ns * 100 > predicted_ns * (double)MF_PARAM(replan_percent);
}

void mf_planner_answer_deinit(mf_planner_answer *a)
{
    mf_plan_result_deinit(&a->found);
}
