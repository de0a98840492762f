/* SPDX-License-Identifier: Apache-2.0 */
/* group_average.c - averages the variables of all groups. After a loss all workers continue from
 * the last average. */
#include "base/clock.h"
#include "dist/local_sgd/strategy_local_sgd.h"
#include "dist/local_sgd/weight_average.h"

#include <math.h>
#include <string.h>

/* ---- which variables are averaged ---- */

static bool is_float(const mf_variable *v)
{
    return v->dtype == MF_DTYPE_F32 || v->dtype == MF_DTYPE_F64;
}

mf_status mf_local_init_average(mf_local_sgd *l)
{
    const mf_trainer *t = l->trainer;

    l->commit.step = -1;
    l->averaged = mf_calloc(t->n_trained, sizeof *l->averaged);
    l->aggregated = mf_calloc(t->n_trained, sizeof *l->aggregated);
    l->initial = mf_calloc(t->n_trained, sizeof *l->initial);
    if (!l->averaged || !l->aggregated || !l->initial)
        return MF_NOMEM("averages");
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *v = &t->trained[i];
        const bool slot = mf_train_var_is_slot(v);

        l->aggregated[i] = mf_local_aggregates(l, i);
        l->averaged[i] =
            is_float(v->variable) && (!slot || l->slots == MF_SLOTS_AVERAGE) && !l->aggregated[i];
        if (slot && l->slots == MF_SLOTS_RESET)
            MF_TRY(mf_variable_read(v->variable, &l->initial[i]));
    }
    return MF_OK;
}

static void forget_commit(mf_local_sgd *l)
{
    for (int64_t i = 0; l->commit.values && i < l->trainer->n_trained; i++)
        mf_tensor_clear(&l->commit.values[i]);
    mf_free(l->commit.values);
    l->commit = (mf_local_commit){ .step = -1 };
}

void mf_local_deinit_average(mf_local_sgd *l)
{
    forget_commit(l);
    for (int64_t i = 0; l->initial && i < l->trainer->n_trained; i++)
        mf_tensor_clear(&l->initial[i]);
    mf_free(l->averaged);
    mf_free(l->aggregated);
    mf_free(l->initial);
    l->averaged = l->aggregated = NULL;
    l->initial = NULL;
}

/* ---- means ---- */

/* Tensors with the same n. */
typedef struct means {
    mf_tensor **values; /* by represented group and averaged variable: borrowed, */
    mf_tensor *of_first; /* but for these */
    mf_tensor *means;
    mf_share *of; /* by rank */
    int64_t n, own;
} means;

static void means_deinit(means *m)
{
    for (int64_t i = 0; i < m->n; i++) {
        if (m->of_first)
            mf_tensor_clear(&m->of_first[i]);
        if (m->means)
            mf_tensor_clear(&m->means[i]);
    }
    for (int64_t k = 1; m->values && k < m->own; k++)
        mf_free(m->values[k]);
    mf_free(m->values);
    mf_free(m->of_first);
    mf_free(m->means);
    mf_free(m->of);
}

/* All of them, in the trainer's order. */
static mf_status read_own(const mf_local_sgd *l, means *m)
{
    const mf_trainer *t = l->trainer;
    int64_t at = 0;

    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!l->averaged[i])
            continue;
        MF_TRY(mf_variable_read(t->trained[i].variable, &m->of_first[at]));
        MF_TRY(mf_tensor_alloc(&m->means[at], m->of_first[at].dtype, &m->of_first[at].shape));
        for (int64_t k = 1; k < m->own; k++)
            m->values[k][at] = l->own[k].state[i];
        at++;
    }
    return MF_OK;
}

static mf_status means_init(const mf_local_sgd *l, means *m)
{
    const int size = l->dist.size;

    m->own = l->n_own;
    for (int64_t i = 0; i < l->trainer->n_trained; i++)
        m->n += l->averaged[i];
    m->values = mf_calloc(m->own, sizeof *m->values);
    m->of_first = mf_calloc(m->n, sizeof *m->of_first);
    m->means = mf_calloc(m->n, sizeof *m->means);
    m->of = mf_calloc(size, sizeof *m->of);
    if (!m->values || !m->of_first || !m->means || !m->of)
        return MF_NOMEM("averages");
    m->values[0] = m->of_first;
    for (int64_t k = 1; k < m->own; k++) {
        m->values[k] = mf_calloc(m->n, sizeof *m->values[k]);
        if (!m->values[k])
            return MF_NOMEM("averages");
    }
    for (int r = 0; r < size; r++)
        m->of[r] =
            (mf_share){ mf_worker_groups_places(&l->groups, r).first, mf_local_spoken_for(l, r) };
    return read_own(l, m);
}

/* A loss scale stays a power of two, and a step count an integer, as in each group. */
static void make_whole(const char *name, mf_tensor *mean)
{
    float *value = mean->data;
    int power;

    if (strcmp(name, "loss_scale") == 0 && frexpf(value[0], &power) != 0.0f)
        value[0] = ldexpf(0.5f, power);
    else if (strcmp(name, "loss_scale_good_steps") == 0)
        value[0] = floorf(value[0]);
}

void mf_local_give(mf_local_sgd *l, int64_t variable, mf_tensor *value)
{
    for (int64_t k = 1; k < l->n_own; k++) {
        mf_tensor_clear(&l->own[k].state[variable]);
        mf_tensor_set(&l->own[k].state[variable], value);
    }
    mf_variable_exchange(l->trainer->trained[variable].variable, value);
    mf_tensor_clear(value);
}

/* All groups have the means from here on, and slots that are reset. */
static void take_means(mf_local_sgd *l, means *m)
{
    const mf_trainer *t = l->trainer;
    int64_t at = 0;

    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_tensor value = { 0 };

        if (l->averaged[i]) {
            make_whole(t->trained[i].name, &m->means[at]);
            mf_tensor_move(&value, &m->means[at++]);
        } else if (l->initial[i].data) {
            mf_tensor_set(&value, &l->initial[i]);
        } else {
            continue;
        }
        mf_local_give(l, i, &value);
    }
}

static mf_status average_all(mf_local_sgd *l, const mf_collective *c, const int64_t *samples)
{
    double weights[MF_MOST_GROUPS];
    means m = { 0 };
    mf_status st = means_init(l, &m);

    for (int i = 0; i < l->groups.n_active; i++)
        weights[i] = (double)samples[i];
    if (st == MF_OK)
        st = mf_average(l->dist.group, c,
                        &(mf_average_of){ .leaves = l->groups.n_active,
                                          .weights = weights,
                                          .of = m.of,
                                          .values = (const mf_tensor *const *)m.values,
                                          .n = m.n,
                                          .means = m.means });
    if (st == MF_OK)
        take_means(l, &m);
    means_deinit(&m);
    return st;
}

static mf_status average(mf_local_sgd *l, const mf_collective *c, const int64_t *samples)
{
    int64_t total = 0;

    for (int i = 0; i < l->groups.n_active; i++)
        total += samples[i];
    if (total == 0)
        return MF_OK;
    MF_TRY(average_all(l, c, samples));
    return mf_local_aggregate(l, c, samples);
}

/* ---- the average ---- */

static void group_average_begin_anew(mf_local_sgd *l)
{
    for (int64_t k = 0; k < l->n_own; k++) {
        l->own[k].samples = 0;
        l->own[k].n_steps = 0;
    }
    l->wants_stop = false;
}

mf_status mf_local_average(mf_local_sgd *l, bool *stop)
{
    mf_trainer *t = l->trainer;
    const mf_collective c = mf_dist_collective(&l->dist, t->step, "the averages");
    mf_local_notes notes = { 0 };
    bool ends = false, leave = false;
    mf_status st;

    if (l->commit.step == t->step)
        return MF_OK;
    st = mf_local_compare_notes(l, &c, &notes);
    if (st == MF_OK)
        st = average(l, &c, notes.samples);
    if (st == MF_OK)
        mf_dist_apply_step_flags(&l->dist, notes.step_flags, &ends);
    if (st == MF_OK)
        st = mf_local_judge(l, &notes, &ends, &leave);
    mf_local_notes_deinit(&notes);
    MF_TRY(st);
    *stop |= ends;
    t->progress.stop |= ends;
    group_average_begin_anew(l);
    MF_TRY(mf_local_commit_now(l));
    return leave ? mf_local_assign(l) : MF_OK;
}

/* ---- going back ---- */

mf_status mf_local_commit_now(mf_local_sgd *l)
{
    const mf_trainer *t = l->trainer;

    forget_commit(l);
    if (l->dist.members || l->verdict.on || l->aggregation.how != MF_AGGREGATE_MEAN) {
        l->commit.values = mf_calloc(t->n_trained, sizeof *l->commit.values);
        if (!l->commit.values)
            return MF_NOMEM("averages");
    }
    for (int64_t i = 0; l->commit.values && i < t->n_trained; i++)
        MF_TRY(mf_variable_read(t->trained[i].variable, &l->commit.values[i]));
    l->commit.progress = t->progress;
    l->commit.epoch = t->epoch;
    l->commit.first = t->first;
    l->commit.step = t->step;
    l->commit.ns = mf_clock_ns();
    return MF_OK;
}

/* Evaluations use averages only, so completed ones remain valid. */
static void restore_progress(mf_trainer *t, const mf_local_commit *c)
{
    const int64_t evaluations = t->progress.evaluations;
    double results[MF_MAX_RESULTS];

    memcpy(results, t->progress.evaluation, sizeof results);
    t->progress = c->progress;
    t->progress.evaluations = evaluations;
    memcpy(t->progress.evaluation, results, sizeof results);
    t->step = c->step;
    t->epoch = c->epoch;
    t->first = c->first;
}

void mf_local_go_back(mf_local_sgd *l)
{
    mf_trainer *t = l->trainer;
    const mf_local_commit *c = &l->commit;

    if (!t || c->step < 0 || !c->values || t->step == c->step)
        return;
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_tensor value = { 0 };

        mf_tensor_set(&value, &c->values[i]);
        mf_variable_exchange(t->trained[i].variable, &value);
        mf_tensor_clear(&value);
    }
    restore_progress(t, c);
}
