/* SPDX-License-Identifier: Apache-2.0 */
/* group_convergence.c - which groups have converged. Each group has a state machine
 * (train/loop/convergence.h) that gets the group's losses. All workers update it alike, when groups
 * are averaged, so all make the same decision, independently of which worker has the group and
 * which workers were lost. */
#include "base/log.h"
#include "dist/local_sgd/strategy_local_sgd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mf_status group_convergence_begin(mf_local_sgd *l, const mf_convergence_options *rules)
{
    const int64_t n = l->trainer->progress.groups;

    mf_free(l->machines);
    l->machines = mf_calloc(n, sizeof *l->machines);
    if (!l->machines)
        return MF_NOMEM("convergence");
    for (int64_t i = 0; i < n; i++)
        mf_convergence_init(&l->machines[i], rules);
    l->verdict =
        (mf_local_verdict){ .on = true, .rules = *rules, .step = l->commit.step, .loss = NAN };
    return MF_OK;
}

static bool are_equal(const mf_convergence_options *a, const mf_convergence_options *b)
{
    return a->tolerance == b->tolerance && a->horizon == b->horizon &&
           a->false_stops == b->false_stops && a->still_seconds == b->still_seconds &&
           a->only_still == b->only_still;
}

mf_status mf_local_watch(mf_dist *dist, const mf_convergence_options *rules)
{
    mf_local_sgd *l = (mf_local_sgd *)(void *)((char *)dist - offsetof(mf_local_sgd, dist));

    if (l->slots == MF_SLOTS_KEEP)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "with slots=keep a group cannot move to other workers, so a converged "
                       "group cannot end early; use slots=average or slots=reset");
    l->watched = true;
    if (l->verdict.on && l->verdict.state == MF_STATE_IMPROVING &&
        are_equal(&l->verdict.rules, rules))
        return MF_OK;
    return group_convergence_begin(l, rules);
}

mf_progress_state mf_local_get_verdict(const mf_dist *dist, const char **why, double *loss)
{
    const mf_local_sgd *l =
        (const mf_local_sgd *)(const void *)((const char *)dist - offsetof(mf_local_sgd, dist));

    *why = l->verdict.why;
    *loss = l->verdict.loss;
    return l->verdict.state;
}

/* ---- checkpoints ---- */

mf_status mf_local_before_save(mf_dist *dist, mf_trainer *t)
{
    const mf_local_sgd *l =
        (const mf_local_sgd *)(const void *)((const char *)dist - offsetof(mf_local_sgd, dist));
    const int64_t n = t->progress.groups, numbers = mf_convergence_numbers();

    mf_tensor_clear(&t->judged);
    if (!l->verdict.on)
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&t->judged, MF_DTYPE_F64, &MF_SHAPE(n, numbers)));
    for (int64_t i = 0; i < n; i++)
        mf_convergence_encode(&l->machines[i], (double *)t->judged.data + i * numbers);
    return MF_OK;
}

/* The state of a checkpoint. The state of another version, or of another step, is ignored. */
static mf_status take_saved(mf_local_sgd *l)
{
    const mf_tensor *saved = &l->trainer->judged;
    const int64_t n = l->trainer->progress.groups, numbers = mf_convergence_numbers();
    int64_t last = 0;

    if (l->verdict.on || !saved->data || saved->dtype != MF_DTYPE_F64 ||
        !mf_shape_equal(&saved->shape, &MF_SHAPE(n, numbers)))
        return MF_OK;
    MF_TRY(group_convergence_begin(l, &(mf_convergence_options){ 0 }));
    for (int64_t i = 0; i < n; i++) {
        mf_convergence *c = &l->machines[i];

        mf_convergence_decode((const double *)saved->data + i * numbers, c);
        l->verdict.rules = c->o;
        if (c->last_seconds > l->verdict.seconds)
            l->verdict.seconds = c->last_seconds;
        last = c->last.step > last ? c->last.step : last;
    }
    l->verdict.step = l->trainer->step;
    l->verdict.on = last == l->trainer->step;
    return MF_OK;
}

/* ---- workers that joined or missed an average ---- */

static int group_convergence_find_furthest(const mf_local_sgd *l, const int64_t *steps)
{
    int root = 0;

    for (int r = 1; r < l->dist.size; r++) {
        if (steps[r] > steps[root])
            root = r;
    }
    return root;
}

static mf_status give_verdict(mf_local_sgd *l, const mf_collective *c, int root)
{
    const int64_t n = l->trainer->progress.groups;
    mf_convergence *machines = mf_calloc(n, sizeof *machines);
    mf_local_verdict verdict = l->verdict;
    mf_status st = machines ? MF_OK : MF_NOMEM("convergence");

    if (st == MF_OK && l->machines)
        memcpy(machines, l->machines, (size_t)n * sizeof *machines);
    if (st == MF_OK)
        st = mf_broadcast(l->dist.group, c, root, &verdict, sizeof verdict);
    if (st == MF_OK)
        st = mf_broadcast(l->dist.group, c, root, machines, n * (int64_t)sizeof *machines);
    if (st != MF_OK) { /* all of it, or the previous state */
        mf_free(machines);
        return st;
    }
    mf_free(l->machines);
    l->machines = machines;
    l->verdict = verdict;
    return MF_OK;
}

mf_status mf_local_align_verdict(mf_local_sgd *l)
{
    const mf_collective c = mf_dist_collective(&l->dist, l->trainer->step,
                                               "the convergence of "
                                               "groups");
    int64_t *steps = mf_calloc(2 * l->dist.size, sizeof *steps), *sizes;
    mf_status st = take_saved(l);
    const int64_t mine = l->verdict.on ? l->verdict.step : -1;
    int root;

    if (!steps)
        return MF_NOMEM("convergence");
    sizes = steps + l->dist.size;
    for (int r = 0; r < l->dist.size; r++)
        sizes[r] = sizeof mine;
    if (st == MF_OK)
        st = mf_all_gather(l->dist.group, &(mf_gather){ c, &mine, sizes, steps });
    root = group_convergence_find_furthest(l, steps);
    if (st == MF_OK && steps[root] >= 0)
        st = give_verdict(l, &c, root);
    mf_free(steps);
    return st;
}

/* ---- feeding ---- */

static void group_convergence_feed(mf_local_sgd *l, const mf_local_notes *n, int place,
                                   double rate_ahead)
{
    const mf_trainer *t = l->trainer;
    const mf_local_group_note *g = n->groups[place];
    mf_convergence *machine = &l->machines[l->groups.active[place]];

    for (int64_t i = 0; i < n->n_steps; i++) {
        const int64_t step = t->step - n->n_steps + i + 1;
        const bool last = i == n->n_steps - 1;
        const double part = (double)(i + 1) / (double)n->n_steps;
        const mf_observation o = { .step = step,
                                   .seconds = l->verdict.seconds + part * n->seconds,
                                   .train_loss = g->steps[i].loss,
                                   .validation_loss = NAN,
                                   .moved = last ? g->moved : NAN,
                                   .weight_norm = last ? g->norm : NAN,
                                   .rate = (double)mf_schedule_at(&t->schedule, step - 1),
                                   .rate_ahead = rate_ahead };

        if (g->steps[i].samples > 0)
            (void)mf_convergence_step(machine, &o);
    }
}

/* Of the last step, over all samples. */
static double mean_loss(const mf_local_sgd *l, const mf_local_notes *n)
{
    double sum = 0.0, samples = 0.0;

    for (int p = 0; p < l->groups.n_active; p++) {
        const mf_local_step *s = &n->groups[p]->steps[n->n_steps - 1];

        sum += s->samples > 0 ? s->loss * (double)s->samples : 0.0;
        samples += (double)s->samples;
    }
    return samples > 0.0 ? sum / samples : l->verdict.loss;
}

/* ---- words ---- */

/* "group 1 converged at step 120: ..." of all groups in this state. Returns their number. */
static int describe_groups(const mf_local_sgd *l, mf_progress_state state, mf_buf *out)
{
    int n = 0;

    for (int p = 0; p < l->groups.n_active; p++) {
        const mf_convergence *c = &l->machines[l->groups.active[p]];

        if (c->state != state)
            continue;
        mf_buf_printf(out, "%sgroup %d ", n++ > 0 ? "; " : "", l->groups.active[p]);
        mf_convergence_describe(c, out);
    }
    return n;
}

static bool has_group(const mf_worker_groups *g, int worker, int group)
{
    const mf_share places = mf_worker_groups_places(g, worker);

    for (int64_t p = places.first; p < places.first + places.n; p++) {
        if (g->active[p] == group)
            return true;
    }
    return false;
}

/* Workers that get other groups: ", worker 1 goes to group 0". */
static void describe_moves(const mf_local_sgd *l, mf_buf *out)
{
    const mf_train_progress *s = &l->trainer->progress;
    mf_worker_groups after;

    mf_worker_groups_assign(&after, l->groups.n, l->groups.shards, l->groups.workers, s->left_at);
    for (int w = 0; w < after.workers; w++) {
        for (int p = 0; p < after.n_active; p++) {
            const int group = after.active[p];

            if (has_group(&after, w, group) && !has_group(&l->groups, w, group))
                mf_buf_printf(out, ", %s goes to group %d", l->dist.group->names[w], group);
        }
    }
}

/* ---- deciding ---- */

static void group_convergence_end_all(mf_local_sgd *l, mf_progress_state state, const mf_buf *why)
{
    l->verdict.state = state;
    (void)snprintf(l->verdict.why, sizeof l->verdict.why, "%s", why->data ? why->data : "");
}

static void leave_converged(mf_local_sgd *l, mf_buf *text)
{
    mf_train_progress *s = &l->trainer->progress;

    for (int p = 0; p < l->groups.n_active; p++) {
        const int group = l->groups.active[p];

        if (l->machines[group].state == MF_STATE_CONVERGED)
            s->left_at[group] = l->trainer->step;
    }
    mf_buf_printf(text, "; it leaves after step %lld", (long long)l->trainer->step);
    describe_moves(l, text);
    if (mf_dist_is_chief(&l->dist))
        MF_WARN("%s", text->data ? text->data : "");
}

static mf_status group_convergence_decide(mf_local_sgd *l, bool *ends, bool *leave)
{
    mf_buf diverged = { 0 }, converged = { 0 };
    const int n_diverged = describe_groups(l, MF_STATE_DIVERGED, &diverged);
    const int n_converged = describe_groups(l, MF_STATE_CONVERGED, &converged);

    *leave = n_diverged == 0 && n_converged > 0 && n_converged < l->groups.n_active;
    if (n_diverged > 0)
        group_convergence_end_all(l, MF_STATE_DIVERGED, &diverged);
    else if (*leave)
        leave_converged(l, &converged);
    else if (n_converged > 0)
        group_convergence_end_all(l, MF_STATE_CONVERGED, &converged);
    *ends |= l->verdict.state != MF_STATE_IMPROVING;
    mf_buf_deinit(&diverged);
    mf_buf_deinit(&converged);
    return MF_OK;
}

/* A state that is neither progress nor an end is reported once. */
static void log_stalled_group(mf_local_sgd *l, int place, mf_progress_state before)
{
    const int group = l->groups.active[place];
    mf_buf text = { 0 };

    if (l->machines[group].state != MF_STATE_STALLED || before == MF_STATE_STALLED ||
        !mf_dist_is_chief(&l->dist))
        return;
    mf_convergence_describe(&l->machines[group], &text);
    MF_WARN("group %d %s", group, text.data ? text.data : "");
    mf_buf_deinit(&text);
}

mf_status mf_local_judge(mf_local_sgd *l, const mf_local_notes *notes, bool *ends, bool *leave)
{
    const mf_trainer *t = l->trainer;
    const double ahead = mf_schedule_least(&t->schedule, t->step);

    *leave = false;
    if (!notes->judged || l->verdict.state != MF_STATE_IMPROVING)
        return MF_OK;
    if (!l->verdict.on)
        MF_TRY(group_convergence_begin(l, &notes->rules));
    for (int p = 0; p < l->groups.n_active; p++) {
        const mf_progress_state before = l->machines[l->groups.active[p]].state;

        group_convergence_feed(l, notes, p, ahead);
        log_stalled_group(l, p, before);
    }
    l->verdict.loss = mean_loss(l, notes);
    l->verdict.seconds += notes->seconds;
    l->verdict.step = t->step;
    return group_convergence_decide(l, ends, leave);
}
