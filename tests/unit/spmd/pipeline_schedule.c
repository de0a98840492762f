/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_schedule.c - simulates schedules of micro-batches on stages of equal duration: no stage
 * deadlocks, and the idle time is that of the formula. */
#include "spmd/pipeline/pipeline_schedule.h"

#include "base/mem.h"
#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8 }; /* maximum number of stages */

/* A simulation in units of time: one unit each for forward, backward and weight gradients. Backward
 * and weight gradients are one item unless the schedule separates them. */
typedef struct world {
    mf_pipeline_plan p;
    mf_pipeline_item *items[MOST];
    int64_t at[MOST], now[MOST];
    int64_t *done; /* by direction, chunk and micro-batch: the time of completion; 0: not done */
} world;

static int64_t *done_at(const world *w, mf_pipeline_way way, int64_t chunk, int64_t micro_batch)
{
    return &w->done[((int64_t)way * w->p.stages * w->p.chunks + chunk) * w->p.micro_batches +
                    micro_batch];
}

/* The time at which all inputs are available; -1: not yet. */
static int64_t ready(const world *w, const mf_pipeline_item *i, int stage)
{
    const int64_t chunk = (int64_t)i->chunk * w->p.stages + stage;
    const int64_t last = (int64_t)w->p.stages * w->p.chunks - 1;
    int64_t when = 1;

    if (i->way == MF_PIPELINE_FORWARDS && chunk > 0)
        when = *done_at(w, MF_PIPELINE_FORWARDS, chunk - 1, i->micro_batch);
    if (i->way == MF_PIPELINE_BACKWARDS)
        when = chunk < last ? *done_at(w, MF_PIPELINE_BACKWARDS, chunk + 1, i->micro_batch)
                            : *done_at(w, MF_PIPELINE_FORWARDS, chunk, i->micro_batch);
    if (i->way == MF_PIPELINE_BACKWARDS &&
        *done_at(w, MF_PIPELINE_FORWARDS, chunk, i->micro_batch) == 0)
        return -1;
    if (i->way == MF_PIPELINE_WEIGHTS)
        when = *done_at(w, MF_PIPELINE_BACKWARDS, chunk, i->micro_batch);
    return when - 1; /* 0 means not done, so all times are one later */
}

static bool step(world *w, int stage)
{
    const mf_pipeline_item *i = &w->items[stage][w->at[stage]];
    const bool apart = w->p.how == MF_PIPELINE_ZERO_BUBBLE;
    int64_t *done, from;

    if (w->at[stage] == mf_pipeline_items(&w->p) || (from = ready(w, i, stage)) < 0)
        return false;
    if (from > w->now[stage])
        w->now[stage] = from;
    w->now[stage] += i->way == MF_PIPELINE_BACKWARDS && !apart ? 2 : 1;
    done = done_at(w, i->way, (int64_t)i->chunk * w->p.stages + stage, i->micro_batch);
    T_EQ(*done, 0); /* no item runs twice */
    *done = w->now[stage] + 1;
    w->at[stage]++;
    return true;
}

/* Returns the time at which the last stage is done. kept: by stage, the maximum number of
 * micro-batches whose activations it keeps. */
static int64_t follow(const mf_pipeline_plan *plan, int64_t kept[MOST])
{
    const int64_t n = mf_pipeline_items(plan);
    world w = { .p = *plan };
    bool more = true;
    int64_t end = 0;

    w.done = mf_calloc(n * plan->stages * 3 + 1, sizeof *w.done);
    for (int s = 0; s < plan->stages; s++) {
        int64_t now = 0;

        kept[s] = 0;
        w.items[s] = mf_calloc(n + 1, sizeof *w.items[s]);
        mf_pipeline_order(plan, s, w.items[s]);
        for (int64_t i = 0; i < n; i++) {
            const mf_pipeline_way last =
                plan->how == MF_PIPELINE_ZERO_BUBBLE ? MF_PIPELINE_WEIGHTS : MF_PIPELINE_BACKWARDS;

            now += (w.items[s][i].way == MF_PIPELINE_FORWARDS) - (w.items[s][i].way == last);
            kept[s] = now > kept[s] ? now : kept[s];
        }
        T_EQ(now, 0);
    }
    while (more) {
        more = false;
        for (int s = 0; s < plan->stages; s++) {
            while (step(&w, s))
                more = true;
        }
    }
    for (int s = 0; s < plan->stages; s++) {
        T_EQ(w.at[s], n); /* no deadlock */
        end = w.now[s] > end ? w.now[s] : end;
        mf_free(w.items[s]);
    }
    mf_free(w.done);
    return end;
}

static void check(mf_pipeline how, int chunks, bool by_stages)
{
    for (int stages = 2; stages <= MOST; stages += 1 + stages / 4) {
        for (int64_t micro_batches = 1; micro_batches <= 24; micro_batches++) {
            const mf_pipeline_plan p = { how, stages, chunks, micro_batches };
            const double work = (double)(3 * micro_batches * chunks);
            int64_t kept[MOST];
            const double idle = 1 - work / (double)follow(&p, kept);

            if (by_stages && micro_batches % stages != 0)
                T_TRUE(idle >= mf_pipeline_idle(&p) - 1e-12);
            else
                T_NEAR(idle, mf_pipeline_idle(&p), 1e-12);
        }
    }
}

MF_TEST(pipeline_bubble_of_gpipe_and_1f1b_matches_the_formula)
{
    const mf_pipeline_plan p = { MF_PIPELINE_1F1B, 4, 1, 12 };

    check(MF_PIPELINE_GPIPE, 1, false);
    check(MF_PIPELINE_1F1B, 1, false);
    T_NEAR(mf_pipeline_idle(&p), 3.0 / (12 + 3), 1e-12);
}

MF_TEST(pipeline_bubble_of_interleaved_schedules_matches_the_formula)
{
    const mf_pipeline_plan p = { MF_PIPELINE_INTERLEAVED, 4, 3, 12 };

    for (int chunks = 1; chunks <= 4; chunks++)
        check(MF_PIPELINE_INTERLEAVED, chunks, true);
    T_NEAR(mf_pipeline_idle(&p), 3.0 / (3 * 12 + 3), 1e-12);
}

/* The stage keeps as many micro-batches as the first stage of 1F1B. */
MF_TEST(pipeline_bubble_of_zero_bubble_schedules_matches_the_formula)
{
    const mf_pipeline_plan p = { MF_PIPELINE_ZERO_BUBBLE, 4, 1, 12 };
    int64_t kept[MOST];

    check(MF_PIPELINE_ZERO_BUBBLE, 1, false);
    T_NEAR(mf_pipeline_idle(&p), 3.0 / (3 * 12 + 3), 1e-12);
    (void)follow(&p, kept);
    for (int s = 0; s < p.stages; s++)
        T_EQ(kept[s], p.stages);
}

/* The planner computes positions in closed form. */
MF_TEST(pipeline_positions_match_the_schedule)
{
    for (int how = MF_PIPELINE_1F1B; how <= MF_PIPELINE_GPIPE; how++) {
        for (int64_t micro_batches = 1; micro_batches <= 9; micro_batches++) {
            for (int stage = 0; stage < 4; stage++) {
                const mf_pipeline_plan p = { (mf_pipeline)how, 4, 1, micro_batches };
                const int ahead = mf_pipeline_ahead(p.how, 4, stage, micro_batches);
                mf_pipeline_item items[18];

                mf_pipeline_order(&p, stage, items);
                for (int64_t i = 0; i < 2 * micro_batches; i++)
                    T_EQ(mf_pipeline_place(items[i].micro_batch,
                                           items[i].way == MF_PIPELINE_BACKWARDS, micro_batches,
                                           ahead),
                         (int)i);
            }
        }
    }
}
