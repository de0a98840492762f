/* SPDX-License-Identifier: Apache-2.0 */
/* replan.c - compares measured with predicted step times during training, and changes the layout.
 */
#include "cli/replan.h"

#include "base/clock.h"
#include "base/log.h"
#include "dist/strategies.h"

#include <meshflow/mesh.h>

#include <string.h>

/* The first steps after a change compile. The first window is short, the later ones get longer. */
enum { SKIPPED = 2, WINDOW = 20, TIMES = 3 };

static bool replan_is_other(const mf_chosen *a, const mf_chosen *b)
{
    return !b->name.data || strcmp(a->name.data, b->name.data) != 0;
}

/* Micro-batches are part of the training's graph: they are not changed. */
static mf_status plan_again(mf_replan *r)
{
    const int micro = r->chosen->micro_batches > 1 ? r->chosen->micro_batches : 1;
    mf_chosen next = { 0 }, last = *r->chosen;
    mf_status st;

    r->call.micro_batches = micro;
    st = mf_planning_choose(&r->call, &next);
    if (st == MF_OK && replan_is_other(&next, &last))
        st = mf_strategy_mesh_relayout_to(r->call.job->strategy, &next.spec);
    if (st == MF_OK) { /* the same layout, too: its prediction is new */
        *r->chosen = next;
        next = last;
    }
    mf_chosen_deinit(&next);
    return st;
}

static mf_status replan_compare(mf_replan *r, double step_ns)
{
    const double predicted = r->chosen->is.step_ns;

    mf_planning_remember(&r->call, r->chosen, step_ns);
    if (r->times == TIMES || !mf_planner_was_wrong(predicted, step_ns))
        return MF_OK;
    MF_INFO("a step takes %.3f ms, %.3f ms were predicted: planning again", step_ns * 1e-6,
            predicted * 1e-6);
    r->times++;
    if (plan_again(r) != MF_OK) /* the training continues with the old layout */
        MF_WARN("planning again: %s", mf_error_message());
    return MF_OK;
}

static mf_status replan_after_step(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    mf_replan *r = ctx;
    mf_status st;

    (void)t;
    (void)report;
    if (++r->seen <= SKIPPED)
        r->begin_ns = mf_clock_ns();
    if (r->seen < SKIPPED + r->window)
        return MF_OK;
    st = replan_compare(r, (double)(mf_clock_ns() - r->begin_ns) / (double)r->window);
    r->seen = 0;
    r->window *= 4;
    return st;
}

static mf_status replan_barrier(void *ctx)
{
    return mf_strategy_barrier(ctx, "links");
}

mf_status mf_replan_together(mf_replan *r)
{
    mf_strategy *strategy = r->call.job->strategy;

    MF_TRY(mf_links_measure_together(
        &(mf_link_peers){ mf_strategy_mesh_setup(strategy), replan_barrier, strategy }, &r->links));
    r->call.links = &r->links;
    if (mf_strategy_is_chief(strategy))
        MF_TRY(plan_again(r));
    return mf_strategy_barrier(strategy, "the plan");
}

mf_hook mf_replan_hook(mf_replan *r)
{
    r->window = WINDOW;
    return (mf_hook){ .ctx = r, .after_step = replan_after_step };
}
