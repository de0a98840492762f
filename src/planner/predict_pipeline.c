/* SPDX-License-Identifier: Apache-2.0 */
/* predict_pipeline.c - simulates the schedule of a pipeline. */
#include "planner/predict_pipeline.h"

#include "base/mem.h"
#include "spmd/pipeline/pipeline_schedule.h"

#include <math.h>
#include <string.h>

/* ---- time ---- */

typedef struct progress {
    int at; /* the current item, or the one it waits for */
    bool busy;
    double talk, compute; /* remaining time of the item */
} progress;

static const mf_stage_item *predict_pipeline_item_of(const mf_stages *s, int k, int at)
{
    return &s->items[k * mf_stage_items(s->micro_batches) + at];
}

/* Forward needs the micro-batch of the previous stage, backward that of the next stage. */
static bool may_begin(const mf_stages *s, const progress *all, int k)
{
    const int ahead = mf_pipeline_ahead(s->how, s->n, k, s->micro_batches);

    for (int micro_batch = 0; micro_batch < s->micro_batches; micro_batch++) {
        for (int back = 0; back < 2; back++) {
            const int from = back ? k + 1 : k - 1;
            const int its = mf_pipeline_ahead(s->how, s->n, from, s->micro_batches);

            if (mf_pipeline_place(micro_batch, back, s->micro_batches, ahead) == all[k].at)
                return from < 0 || from >= s->n ||
                       all[from].at > mf_pipeline_place(micro_batch, back, s->micro_batches, its);
        }
    }
    return true;
}

static bool predict_pipeline_begin(const mf_stages *s, progress *all)
{
    bool any = false;

    for (int k = 0; k < s->n; k++) {
        if (!all[k].busy && all[k].at < mf_stage_items(s->micro_batches) && may_begin(s, all, k)) {
            all[k].busy = true;
            all[k].talk = predict_pipeline_item_of(s, k, all[k].at)->talk_ns;
            all[k].compute = predict_pipeline_item_of(s, k, all[k].at)->compute_ns;
        }
        any = any || all[k].busy;
    }
    return any;
}

/* The relative speed of all computing stages: 1 if there are enough cores. */
static double speed(const mf_stages *s, const progress *all)
{
    double wanted = 0;

    for (int k = 0; k < s->n; k++)
        wanted +=
            all[k].busy && all[k].talk <= 0 ? predict_pipeline_item_of(s, k, all[k].at)->cores : 0;
    return s->cores > 0 && wanted > s->cores ? s->cores / wanted : 1;
}

/* Advances the simulation until the first stage finishes its current activity. */
static double predict_pipeline_go_on(const mf_stages *s, progress *all)
{
    const double rate = speed(s, all);
    double ns = INFINITY;

    for (int k = 0; k < s->n; k++) {
        const double left = all[k].talk > 0 ? all[k].talk : all[k].compute / rate;

        ns = all[k].busy && left < ns ? left : ns;
    }
    for (int k = 0; k < s->n; k++) {
        double *left = all[k].talk > 0 ? &all[k].talk : &all[k].compute;
        const double done = all[k].talk > 0 ? ns : ns * rate;

        if (!all[k].busy)
            continue;
        *left = *left - done > 1e-6 ? *left - done : 0;
        if (all[k].talk <= 0 && all[k].compute <= 0) {
            all[k].busy = false;
            all[k].at++;
        }
    }
    return ns;
}

mf_status mf_stages_time(const mf_stages *s, double *ns)
{
    progress *all = mf_calloc(s->n, sizeof *all);

    *ns = 0;
    if (!all)
        return MF_NOMEM("a prediction");
    while (predict_pipeline_begin(s, all))
        *ns += predict_pipeline_go_on(s, all);
    mf_free(all);
    return MF_OK;
}

/* ---- nodes of items ---- */

enum { NOWHERE = -1 };

static int predict_pipeline_said(const mf_node *n, const mf_stages *s, int ahead)
{
    const int64_t micro_batch = mf_node_micro_batch(n);

    if (s->micro_batches == 0 || strcmp(n->op_name, "Const") == 0)
        return NOWHERE;
    if (micro_batch == 0 && (s->micro_batches > 1 || mf_node_layer(n) == 0))
        return NOWHERE;
    return (int)mf_pipeline_place(micro_batch > 0 ? micro_batch - 1 : 0, mf_node_is_gradient(n),
                                  s->micro_batches, ahead);
}

/* The latest item of its inputs. */
static int by_inputs(const mf_node *n, const int *part)
{
    int last = NOWHERE;

    for (int k = 0; k < n->n_inputs; k++) {
        const int from = part[n->inputs[k].node->id];

        last = from > last ? from : last;
    }
    return last;
}

void mf_stage_parts(mf_node *const *order, int64_t n, const mf_stages *s, int stage, int *part)
{
    const int ahead = mf_pipeline_ahead(s->how, s->n, stage, s->micro_batches),
              rest = 2 * s->micro_batches;
    int64_t i;

    for (i = 0; i < n; i++) {
        part[order[i]->id] = predict_pipeline_said(order[i], s, ahead);
        if (part[order[i]->id] == NOWHERE)
            part[order[i]->id] = by_inputs(order[i], part);
    }
    for (i = n - 1; i >= 0; i--) { /* consumers were visited before */
        const int its = part[order[i]->id];

        for (int k = 0; its != NOWHERE && k < order[i]->n_inputs; k++) {
            int *from = &part[order[i]->inputs[k].node->id];

            *from = *from == NOWHERE || *from > its ? its : *from;
        }
    }
    for (i = 0; i < n; i++)
        part[order[i]->id] = part[order[i]->id] == NOWHERE ? rest : part[order[i]->id];
}
