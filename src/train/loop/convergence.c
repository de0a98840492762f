/* SPDX-License-Identifier: Apache-2.0 */
/* convergence.c - the convergence detector of `--stop converged`. */
#include "train/loop/convergence.h"

#include <math.h>
#include <string.h>

enum {
    WINDOWS = 4,
    SIGNALS = 2,
    DOUBLINGS = 40, /* of the number of steps, that any training has at most */
    FIRST_TEST = 50, /* step */
    NO_NUMBERS = 10, /* losses in a row */
    LEAST_AHEAD = 100, /* steps of the horizon */
};

static const double windows[WINDOWS] = { 0.1, 0.15, 0.25, 0.5 }; /* last parts of the steps */
static const double test_growth = 1.01; /* of the steps, from test to test */
static const double still_below = 1e-7; /* a movement of weights that floats cannot show */
static const double shrinks =
    0.5; /* tolerances, of the weights within the horizon: still at work */
static const double least_loss = 0.01; /* of the first loss: a smaller one counts as that */

static const char *const names[] = {
    [MF_STATE_IMPROVING] = "improving", [MF_STATE_CONVERGED] = "converged",
    [MF_STATE_STALLED] = "stalled",     [MF_STATE_STARVED] = "starved",
    [MF_STATE_DIVERGED] = "diverged",
};

const char *mf_progress_state_name(mf_progress_state s)
{
    return names[s];
}

static double or_else(double value, double usual)
{
    return value > 0.0 ? value : usual;
}

void mf_convergence_init(mf_convergence *c, const mf_convergence_options *options)
{
    const mf_convergence_options none = { 0 }, *o = options ? options : &none;
    const double tests = DOUBLINGS * (log(2.0) / log(test_growth)) * WINDOWS * SIGNALS;

    *c = (mf_convergence){ .next = FIRST_TEST, .last_seconds = NAN, .moved_at = NAN };
    c->o = (mf_convergence_options){
        .tolerance = or_else(o->tolerance, 0.005),
        .horizon = or_else(o->horizon, 0.1),
        .false_stops = or_else(o->false_stops, 0.01),
        .still_seconds = o->still_seconds,
        .only_still = o->only_still,
        .starved_seconds = or_else(o->starved_seconds, 60.0),
        .stalled_steps = o->stalled_steps > 0 ? o->stalled_steps : 100,
    };
    /* Each test may be wrong with its share: together they are wrong no more often than configured.
     */
    c->z = mf_normal_quantile(c->o.false_stops / tests);
}

static mf_progress_state convergence_decide(mf_convergence *c, mf_progress_state state,
                                            mf_convergence_why why)
{
    c->state = state;
    c->why = why;
    return state;
}

static bool is_decided(const mf_convergence *c)
{
    return c->state == MF_STATE_CONVERGED || c->state == MF_STATE_DIVERGED;
}

/* ---- one trend ---- */

static mf_trend trend_of(const mf_convergence *c, const mf_series *s, double window)
{
    return mf_series_trend(s, (double)c->last.step - window * (double)(c->last.step - c->begin));
}

/* Of the shortest window that has enough. */
static mf_trend newest_trend(const mf_convergence *c, const mf_series *s)
{
    mf_trend t = { 0 };

    for (int i = 0; i < WINDOWS && t.n < MF_TREND_BLOCKS; i++)
        t = trend_of(c, s, windows[i]);
    return t;
}

typedef enum convergence_verdict { UNSURE, FALLS, FLAT, RISES } convergence_verdict;

/* The loss that a fall is a part of. */
static double size_of_loss(const mf_convergence *c, int signal, const mf_trend *t)
{
    const double least = least_loss * fabs(c->first_loss[signal]);

    return fabs(t->value) > least ? fabs(t->value) : least;
}

/* A few steps are little work and little progress, for any curve. */
static double steps_ahead(const mf_convergence *c)
{
    const double ahead = c->o.horizon * (double)c->last.step;

    return ahead > LEAST_AHEAD ? ahead : LEAST_AHEAD;
}

/* The progress over the horizon if the curve continued like in this window: a flattening curve
 * makes no more. The bounds hold with the probability of one test. */
static convergence_verdict convergence_judge(const mf_convergence *c, int signal, const mf_trend *t,
                                             double *at_most)
{
    const double size = size_of_loss(c, signal, t);
    const double ahead = steps_ahead(c) / size;
    const double wide = mf_student_quantile(c->z, (double)(t->n - 2)) * t->error * ahead;
    const double falls = -t->slope * ahead;

    *at_most = falls + wide;
    if (falls - wide > c->o.tolerance)
        return FALLS;
    if (falls + wide < -c->o.tolerance)
        return RISES;
    return falls + wide < c->o.tolerance ? FLAT : UNSURE;
}

/* ---- one signal ---- */

/* Is there a signal that a sure window may miss? The newest window gives the best answer. A curve
 * that turns is flat for a moment, or over a window that has both sides of the turn; for a
 * validation that would be its best. */
static bool contradicts(const mf_convergence *c, int signal, const mf_trend *newest)
{
    const double falls = -newest->slope * steps_ahead(c) / size_of_loss(c, signal, newest);

    return falls > c->o.tolerance || (falls < -c->o.tolerance && signal == MF_SIGNAL_TRAIN);
}

/* One window is sure, and none contradicts. */
static convergence_verdict convergence_look_at(mf_convergence *c, int signal, mf_trend *found,
                                               double *bound)
{
    bool flat = false, falls = false, rises = false, newest = true, doubt = false;

    *bound = INFINITY;
    for (int i = 0; i < WINDOWS; i++) {
        const mf_trend t = trend_of(c, &c->loss[signal], windows[i]);
        double at_most;
        convergence_verdict v;

        if (t.n < MF_TREND_BLOCKS)
            continue;
        if (newest)
            doubt = contradicts(c, signal, &t);
        newest = false;
        v = convergence_judge(c, signal, &t, &at_most);
        falls |= v == FALLS;
        rises |= v == RISES;
        flat |= v == FLAT;
        if (at_most < *bound) {
            *bound = at_most;
            *found = t;
        }
    }
    return falls ? FALLS : rises ? RISES : flat && !doubt ? FLAT : UNSURE;
}

/* Is it worse than at the beginning, surely? */
static bool is_worse(mf_convergence *c, int signal)
{
    const double first = c->first_loss[signal];
    const mf_trend t = newest_trend(c, &c->loss[signal]);

    if (t.n < MF_TREND_BLOCKS)
        return false;
    c->trend = t;
    return t.value - mf_student_quantile(c->z, (double)(t.n - 2)) * t.error * (t.to - t.from) >
           first + fabs(first) * c->o.tolerance;
}

/* Shrinking weights: the regularisation is still effective, and training may yet find a solution
 * that no loss shows (grokking). */
static bool weights_shrink(const mf_convergence *c)
{
    const mf_trend t = newest_trend(c, &c->weights);

    return t.n >= MF_TREND_BLOCKS && t.value > 0.0 &&
           -t.slope * steps_ahead(c) > shrinks * c->o.tolerance * t.value;
}

static bool rate_will_fall(const mf_convergence *c)
{
    return c->last.rate_ahead < 0.5 * c->last.rate;
}

/* ---- the loss ---- */

static mf_progress_state test(mf_convergence *c)
{
    mf_trend train = { 0 }, validation = { 0 };
    double by_train, by_validation;
    const convergence_verdict t = convergence_look_at(c, MF_SIGNAL_TRAIN, &train, &by_train);
    const convergence_verdict v =
        convergence_look_at(c, MF_SIGNAL_VALIDATION, &validation, &by_validation);
    const bool waits = c->o.only_still || c->still > 0 || rate_will_fall(c) || weights_shrink(c);

    if (t == RISES && is_worse(c, MF_SIGNAL_TRAIN)) {
        c->signal = MF_SIGNAL_TRAIN;
        return convergence_decide(c, MF_STATE_DIVERGED, MF_WHY_WORSE);
    }
    /* A validation that gets worse, while the rest learns, is past its best. */
    if (!waits && (v == FLAT || (v == RISES && t != RISES))) {
        c->signal = MF_SIGNAL_VALIDATION;
        c->trend = validation;
        c->bound = by_validation;
        return convergence_decide(c, MF_STATE_CONVERGED, MF_WHY_FLAT);
    }
    if (!waits && t == FLAT && v != FALLS) {
        c->signal = MF_SIGNAL_TRAIN;
        c->trend = train;
        c->bound = by_train;
        return convergence_decide(c, MF_STATE_CONVERGED, MF_WHY_FLAT);
    }
    return convergence_decide(c, MF_STATE_IMPROVING, MF_WHY_NOT);
}

/* Another learning rate begins another curve. */
static void note_rate(mf_convergence *c, const mf_observation *o)
{
    if (o->rate < 0.5 * c->rate || o->rate > 2.0 * c->rate) {
        c->rate = o->rate;
        c->begin = o->step - 1;
    }
}

static void convergence_add(mf_convergence *c, int signal, double loss)
{
    mf_series *s = &c->loss[signal];

    if (!isfinite(loss))
        return;
    mf_series_add(s, (double)c->last.step, loss);
    c->first_loss[signal] = s->n > 0 ? s->bins[0].value : loss;
}

/* ---- stalls: steps without progress ---- */

/* Counts steps in which the weights do not change, or cannot. A step whose movement is not measured
 * (NaN) continues a count, but does not start one. */
static void note_movement(mf_convergence *c, const mf_observation *o)
{
    const bool late = isnan(c->last_seconds) || o->seconds - c->last_seconds > c->o.starved_seconds;
    const bool moves = !o->skipped && o->rate > 0.0 && o->moved >= still_below;

    c->skipped = o->skipped ? c->skipped + 1 : 0;
    if (moves)
        c->still = 0;
    else if (o->skipped || !(o->rate > 0.0) || !isnan(o->moved) || c->still > 0)
        c->still++;
    /* time without steps, or with steps that could change nothing, proves nothing */
    if (moves || late || o->skipped || !(o->rate > 0.0) || isnan(c->moved_at))
        c->moved_at = o->seconds;
    c->last_seconds = o->seconds;
}

static mf_progress_state look_for_standstill(mf_convergence *c)
{
    const mf_observation *o = &c->last;

    if (c->o.still_seconds > 0.0 && c->still > 0 && o->seconds - c->moved_at >= c->o.still_seconds)
        return convergence_decide(c, MF_STATE_CONVERGED, MF_WHY_STILL);
    if (c->still < c->o.stalled_steps)
        return convergence_decide(c, MF_STATE_IMPROVING, MF_WHY_NOT);
    return convergence_decide(c, MF_STATE_STALLED,
                              c->skipped >= c->o.stalled_steps ? MF_WHY_SKIPPED
                              : !(o->rate > 0.0)               ? MF_WHY_RATE
                                                               : MF_WHY_STILL);
}

/* ---- a step ---- */

mf_progress_state mf_convergence_step(mf_convergence *c, const mf_observation *o)
{
    if (is_decided(c))
        return c->state;
    c->last = *o;
    note_movement(c, o);
    note_rate(c, o);
    c->no_number = isfinite(o->train_loss) || o->skipped ? 0 : c->no_number + 1;
    convergence_add(c, MF_SIGNAL_TRAIN, o->train_loss);
    convergence_add(c, MF_SIGNAL_VALIDATION, o->validation_loss);
    if (isfinite(o->weight_norm))
        mf_series_add(&c->weights, (double)o->step, o->weight_norm);
    if (c->no_number >= NO_NUMBERS)
        return convergence_decide(c, MF_STATE_DIVERGED, MF_WHY_NO_NUMBER);
    if (look_for_standstill(c) != MF_STATE_IMPROVING || (double)o->step < c->next)
        return c->state;
    c->next = (double)o->step * test_growth;
    return test(c);
}

mf_progress_state mf_convergence_wait(mf_convergence *c, double seconds)
{
    if (is_decided(c) || isnan(c->last_seconds) || seconds - c->last_seconds < c->o.starved_seconds)
        return c->state;
    c->last.seconds = seconds;
    return convergence_decide(c, MF_STATE_STARVED, MF_WHY_NO_STEPS);
}

/* ---- words ---- */

static void describe_flat(const mf_convergence *c, mf_buf *out)
{
    mf_buf_printf(out, "the %s loss, %.4g, ",
                  c->signal == MF_SIGNAL_VALIDATION ? "validation" : "training", c->trend.value);
    if (c->bound > 0.0)
        mf_buf_printf(out,
                      "would fall by at most %.2g %% in %.0f %% more steps (tolerance %.2g %%)",
                      100.0 * c->bound, 100.0 * c->o.horizon, 100.0 * c->o.tolerance);
    else
        mf_buf_str(out, "gets no smaller any more");
    mf_buf_printf(out,
                  ", judged by steps %.0f to %.0f; at most one training in %.0f is ended too "
                  "early",
                  c->trend.from, c->trend.to, 1.0 / c->o.false_stops);
}

static void describe_still(const mf_convergence *c, mf_buf *out)
{
    if (c->state == MF_STATE_CONVERGED)
        mf_buf_printf(out,
                      "no step has moved the weights by more than %.0g of their size for %.3g s "
                      "(given: %.3g s)",
                      still_below, c->last.seconds - c->moved_at, c->o.still_seconds);
    else
        mf_buf_printf(out,
                      "%lld steps in a row have not moved the weights, at a learning rate of "
                      "%.3g; units may be dead",
                      (long long)c->still, c->last.rate);
}

void mf_convergence_describe(const mf_convergence *c, mf_buf *out)
{
    mf_buf_printf(out, "%s at step %lld", names[c->state], (long long)c->last.step);
    if (c->why != MF_WHY_NOT)
        mf_buf_str(out, ": ");
    switch (c->why) {
    case MF_WHY_NOT:
        break;
    case MF_WHY_FLAT:
        describe_flat(c, out);
        break;
    case MF_WHY_STILL:
        describe_still(c, out);
        break;
    case MF_WHY_RATE:
        mf_buf_printf(out, "the learning rate has been 0 for %lld steps", (long long)c->still);
        break;
    case MF_WHY_SKIPPED:
        mf_buf_printf(out,
                      "the last %lld steps were skipped, because their gradients were "
                      "NaN/Inf",
                      (long long)c->skipped);
        break;
    case MF_WHY_NO_STEPS:
        mf_buf_printf(out, "no step was done for %.3g s: input or other workers are late",
                      c->last.seconds - c->last_seconds);
        break;
    case MF_WHY_NO_NUMBER:
        mf_buf_printf(out, "%d consecutive losses are NaN/Inf", (int)c->no_number);
        break;
    case MF_WHY_WORSE:
        mf_buf_printf(out, "the training loss rises and is %.4g; it was %.4g at first",
                      c->trend.value, c->first_loss[MF_SIGNAL_TRAIN]);
        break;
    }
}
