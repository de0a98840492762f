/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_timeline.c - prints the timeline of the stages of a pipeline. A step is divided into slots
 * of equal length. Each slot shows the micro-batch that the stage worked on for most of it: F2
 * forward, B2 backward, W2 weight gradients alone. */
#include "cli/mesh_timeline.h"

#include "base/mem.h"
#include "dist/strategies.h"
#include "spmd/pipeline/pipeline_schedule.h"

#include <stdio.h>

enum { SLOTS = 24, SLOT_TEXT = 8 };

static int64_t count_micro_batches(const mf_mesh_counts *c)
{
    int64_t n = 0;

    for (int64_t i = 0; i < c->n_intervals; i++)
        n = c->intervals[i].micro_batch > n ? c->intervals[i].micro_batch : n;
    return n;
}

static int64_t mesh_timeline_end_of(const mf_mesh_counts *c)
{
    int64_t end = 0;

    for (int64_t i = 0; i < c->n_intervals; i++)
        end = c->intervals[i].end_ns > end ? c->intervals[i].end_ns : end;
    return end;
}

/* Time within [from, to) that the stage spent on the i-th micro-batch, in the same direction. */
static int64_t time_at(const mf_mesh_counts *c, int64_t i, int64_t from, int64_t to)
{
    int64_t sum = 0;

    for (int64_t k = 0; k < c->n_intervals; k++) {
        const mf_mesh_interval *t = &c->intervals[k];
        const int64_t begin = t->begin_ns > from ? t->begin_ns : from;
        const int64_t end = t->end_ns < to ? t->end_ns : to;

        if (end > begin && t->micro_batch == c->intervals[i].micro_batch &&
            t->is_back == c->intervals[i].is_back)
            sum += end - begin;
    }
    return sum;
}

/* The micro-batch with the largest part of [from, to); "." if it has less than a fiftieth.
 * Splitting the batch does not count. */
static void name_slot(const mf_mesh_counts *c, int64_t from, int64_t to, char text[SLOT_TEXT])
{
    int64_t most = (to - from) / 50;

    (void)snprintf(text, SLOT_TEXT, ".");
    for (int64_t i = 0; i < c->n_intervals; i++) {
        const int64_t time = time_at(c, i, from, to);

        if (time <= most)
            continue;
        most = time;
        (void)snprintf(text, SLOT_TEXT, "%c%d",
                       c->intervals[i].is_back == 0   ? 'F'
                       : c->intervals[i].is_back == 1 ? 'B'
                                                      : 'W',
                       (int)(c->intervals[i].micro_batch % 1000));
    }
}

static void print_stage(const mf_mesh_counts *c, int64_t longest, double ideal, int64_t step,
                        mf_buf *out)
{
    char text[SLOT_TEXT];

    mf_buf_printf(out, "stage %lld: idle %4.1f %% (ideal %4.1f %%) ", (long long)c->mesh,
                  100.0 * (1.0 - (double)c->busy_ns / (double)longest), 100.0 * ideal);
    for (int i = 0; i < SLOTS; i++) {
        name_slot(c, step * i / SLOTS, step * (i + 1) / SLOTS, text);
        mf_buf_printf(out, " %-2s", text);
    }
    mf_buf_str(out, "\n");
}

static void print_stages(const mf_mesh_setup *setup, const mf_mesh_counts *c, int n, mf_buf *out)
{
    mf_pipeline_plan plan = { .how = setup->pipeline,
                              .stages = (int)c[n - 1].mesh + 1,
                              .chunks = setup->chunks > 1 ? setup->chunks : 1 };
    int64_t longest = 1, step = 1;

    for (int i = 0; i < n; i++) {
        longest = c[i].run_ns > longest ? c[i].run_ns : longest;
        step = mesh_timeline_end_of(&c[i]) > step ? mesh_timeline_end_of(&c[i]) : step;
        if (count_micro_batches(&c[i]) > plan.micro_batches)
            plan.micro_batches = count_micro_batches(&c[i]);
    }
    if (plan.micro_batches == 0)
        return; /* only one step, or no micro-batches */
    mf_buf_printf(out, "the last step, %.3g ms in %d parts\n", (double)step * 1e-6, SLOTS);
    for (int i = 0; i < n; i++) { /* the devices of a stage behave alike */
        if (i == 0 || c[i].mesh != c[i - 1].mesh)
            print_stage(&c[i], longest, mf_pipeline_idle(&plan), step, out);
    }
}

mf_status mf_timeline_print(const mf_strategy *strategy, mf_buf *out)
{
    const int n = mf_strategy_mesh_counts(strategy, NULL, 0);
    mf_mesh_counts *c = mf_calloc(n + 1, sizeof *c);

    if (!c)
        return MF_NOMEM("a timeline");
    (void)mf_strategy_mesh_counts(strategy, c, n);
    if (n > 0 && c[n - 1].mesh > 0)
        print_stages(mf_strategy_mesh_setup(strategy), c, n, out);
    mf_free(c);
    return MF_OK;
}
