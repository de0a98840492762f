/* SPDX-License-Identifier: Apache-2.0 */
/* step_updates.c - the updates of a step: weights, moving statistics, kept rows, counters. */
#include "train/loop/nan_guard.h"
#include "train/step/clip.h"
#include "train/step/prune_weights.h"
#include "train/step/step_builder.h"

/* Rows that were looked up several times get one update, by the sum of their gradients. */
static void sum_rows(const mf_step_builder *b, mf_update *u)
{
    const mf_output unique = mf_apply(b->graph, "Unique", MF_IN(u->ids));
    const mf_output n = mf_apply(b->graph, "Size", MF_IN(unique));

    if (!unique.node)
        return;
    u->gradient = mf_apply(b->graph, "UnsortedSegmentSum",
                           MF_IN(u->gradient, (mf_output){ unique.node, 1 }, n));
    u->ids = unique;
}

/* The gradient of l1*|w| + l2*w*w. Not for weights used by rows: it would touch all of them. */
static mf_output regularised(const mf_step_builder *b, const mf_weight *w, mf_output g)
{
    if (w->l2 != 0.0)
        g = mf_step_op2(b, "AddV2", g,
                        mf_step_op2(b, "Mul", w->value, mf_step_f32(b, 2.0 * w->l2)));
    if (w->l1 != 0.0)
        g = mf_step_op2(b, "AddV2", g,
                        mf_step_op2(b, "Mul", mf_apply(b->graph, "Sign", MF_IN(w->value)),
                                    mf_step_f32(b, w->l1)));
    return g;
}

/* The loss, the statistics, the gradients. */
static mf_status watch_sums(mf_step_builder *b, const mf_update *updates, int n)
{
    mf_outputs sums = { 0 };
    const int n_moving = (int)b->model->n_moving;

    MF_TRY(mf_outputs_add(b->arena, &sums, mf_step_joined(b, 0)));
    for (int i = 0; i < n_moving; i++)
        MF_TRY(mf_outputs_add(b->arena, &sums, mf_step_joined(b, b->s->n_reports + i)));
    for (int i = 0; i < n; i++)
        MF_TRY(mf_outputs_add(b->arena, &sums, updates[i].gradient));
    return mf_guard_watch(&b->s->guard, &b->s->updates, &sums);
}

/* With loss scaling steps are skipped, too: this adjusts the scale. */
static mf_status guard_updates(mf_step_builder *b, const mf_update *updates, int n)
{
    mf_step_graph *s = b->s;

    if (s->role == MF_STEP_SERVES)
        return MF_OK;
    if (s->guard.kind == MF_GUARD_SKIP || b->scale.factor.node)
        return watch_sums(b, updates, n);
    if (s->guard.kind == MF_GUARD_STOP)
        s->updates.guard = mf_applyf(b->graph, "CheckNumerics", MF_IN(mf_step_joined(b, 0)),
                                     "message='the loss is NaN/Inf: nothing was updated' "
                                     "name='check_loss'")
                               .node;
    return mf_graph_status(b->graph);
}

mf_status mf_step_update_weights(mf_step_builder *b)
{
    const int n = b->s->n_gradients;
    mf_update *updates = MF_ARENA_ARRAY(b->arena, mf_update, n);

    if (!updates)
        return MF_NOMEM("updates");
    for (int i = 0; i < n; i++) {
        const mf_gradient *g = &b->s->gradients[i];
        mf_update *u = &updates[i];

        *u = (mf_update){ .all = &b->s->updates, .weight = g->weight, .gradient = g->value };
        if (g->rows.node) {
            u->ids = g->rows;
            sum_rows(b, u);
        }
    }
    MF_TRY(guard_updates(b, updates, n));
    mf_loss_scale_undo(&b->scale, b->graph, updates, n);
    for (int i = 0; i < n; i++) {
        if (!updates[i].ids.node)
            updates[i].gradient = regularised(b, updates[i].weight, updates[i].gradient);
    }
    if (b->options->clip)
        MF_TRY(mf_clip(b->graph, b->options->clip, updates, n));
    for (int i = 0; i < n; i++) {
        b->graph->mark.layer = mf_node_layer(updates[i].weight->handle.node);
        mf_update_weight(&updates[i]);
    }
    b->graph->mark.layer = 0;
    b->s->weights = updates;
    b->s->n_weights = n;
    if (b->s->updates.kind->finish)
        b->s->updates.kind->finish(&b->s->updates);
    MF_TRY(mf_prune_add(b->options->prune, updates, n));
    return mf_graph_status(b->graph);
}

/* Assign the servers' weights. The optimizer's ops are in the graph all the same: checkpoints have
 * its slots. */
void mf_step_assign_weights(mf_step_builder *b)
{
    b->s->updates.n_done = 0;
    for (int i = 0; i < b->s->n_gradients; i++) {
        const mf_gradient *g = &b->s->gradients[i];
        const mf_output node = g->rows.node ? mf_apply(b->graph, "ResourceScatterUpdate",
                                                       MF_IN(g->weight->handle, g->rows, g->value))
                                            : mf_apply(b->graph, "AssignVariableOp",
                                                       MF_IN(g->weight->handle, g->value));

        mf_updates_add(&b->s->updates, node);
    }
}

void mf_step_update_moving(mf_step_builder *b)
{
    const int first = b->s->n_reports;

    for (int64_t i = 0; i < b->model->n_moving; i++) {
        const mf_moving *m = &b->model->moving[i];
        const mf_output mean =
            mf_step_op2(b, "Mul", mf_step_joined(b, first + (int)i), b->s->inverse);
        const mf_output next = mf_step_op2(
            b, "AddV2", mf_step_op2(b, "Mul", m->weight->value, mf_step_f32(b, m->momentum)),
            mf_step_op2(b, "Mul", mean, mf_step_f32(b, 1.0 - m->momentum)));

        mf_updates_add(&b->s->updates,
                       mf_apply(b->graph, "AssignVariableOp", MF_IN(m->weight->handle, next)));
    }
}

/* Rows after the last sample of a small batch do not change. */
void mf_step_update_kept(mf_step_builder *b)
{
    const mf_output zero = mf_ints(b->graph, (int64_t[]){ 0 }, 1),
                    one = mf_ints(b->graph, (int64_t[]){ 1 }, 1);

    for (int i = 0; i < b->s->n_kept; i++) {
        const mf_weight *w = b->model->carried[i].weight;
        const mf_output rows = mf_step_joined(b, b->s->first_kept + i),
                        shape = mf_apply(b->graph, "Shape", MF_IN(rows)),
                        n = mf_apply(b->graph, "StridedSlice", MF_IN(shape, zero, one, one));
        const mf_output rest =
            mf_applyf(b->graph, "StridedSlice", MF_IN(w->value, n, zero, one), "end_mask=1");
        const mf_output next =
            mf_apply(b->graph, "ConcatV2", MF_IN(rows, rest, mf_scalar(b->graph, MF_DTYPE_I32, 0)));

        mf_updates_add(&b->s->updates,
                       mf_apply(b->graph, "AssignVariableOp", MF_IN(w->handle, next)));
    }
}

/* The step counter and the loss scale advance even if all other updates are skipped. */
void mf_step_count_steps(mf_step_builder *b)
{
    mf_step_graph *s = b->s;

    if (s->guard.finite.node)
        s->updates.guard = NULL;
    mf_loss_scale_adjust(&b->scale, &s->updates, s->guard.finite);
    mf_guard_count(&s->guard, &s->updates, b->scale.factor);
    s->global_step =
        mf_applyf(b->graph, "VarHandleOp", MF_NO_IN,
                  "dtype=int64 shape=shape[] shared_name='global_step' name='global_step'");
    mf_updates_add(&s->updates,
                   mf_apply(b->graph, "AssignAddVariableOp",
                            MF_IN(s->global_step, mf_scalar(b->graph, MF_DTYPE_I64, 1))));
}
