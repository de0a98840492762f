/* SPDX-License-Identifier: Apache-2.0 */
/* convergence_codec.c - the state machine of convergence.h as a row of numbers, for checkpoints.
 * One list of fields serves both directions. */
#include "train/loop/convergence.h"

typedef struct convergence_codec_walk {
    double *at; /* NULL: only count */
    int64_t n;
    bool reads; /* from the machine; otherwise into it */
} convergence_codec_walk;

static void real(convergence_codec_walk *w, double *x)
{
    if (w->at && w->reads)
        w->at[w->n] = *x;
    else if (w->at)
        *x = w->at[w->n];
    w->n++;
}

/* Steps and counts are far below 2^53. An invalid number becomes 0. */
static void convergence_codec_whole(convergence_codec_walk *w, int64_t *x)
{
    double value = (double)*x;

    real(w, &value);
    *x = value > -9e15 && value < 9e15 ? (int64_t)value : 0;
}

/* From 0 to most. */
static int choice(convergence_codec_walk *w, int x, int most)
{
    int64_t value = x;

    convergence_codec_whole(w, &value);
    return value >= 0 && value <= most ? (int)value : 0;
}

static void bin(convergence_codec_walk *w, mf_bin *b)
{
    real(w, &b->step);
    real(w, &b->value);
    convergence_codec_whole(w, &b->n);
}

static void series(convergence_codec_walk *w, mf_series *s)
{
    for (int i = 0; i < MF_SERIES_BINS; i++)
        bin(w, &s->bins[i]);
    s->n = choice(w, s->n, MF_SERIES_BINS - 1);
    convergence_codec_whole(w, &s->stride);
    s->stride = s->stride > 0 ? s->stride : 1;
    bin(w, &s->open);
}

static void convergence_codec_rules(convergence_codec_walk *w, mf_convergence_options *o)
{
    real(w, &o->tolerance);
    real(w, &o->horizon);
    real(w, &o->false_stops);
    real(w, &o->still_seconds);
    o->only_still = choice(w, o->only_still, 1);
    real(w, &o->starved_seconds);
    convergence_codec_whole(w, &o->stalled_steps);
}

static void observation(convergence_codec_walk *w, mf_observation *o)
{
    convergence_codec_whole(w, &o->step);
    real(w, &o->seconds);
    real(w, &o->train_loss);
    real(w, &o->validation_loss);
    real(w, &o->moved);
    real(w, &o->weight_norm);
    real(w, &o->rate);
    real(w, &o->rate_ahead);
    o->skipped = choice(w, o->skipped, 1);
}

static void trend(convergence_codec_walk *w, mf_trend *t)
{
    t->n = choice(w, t->n, MF_SERIES_BINS);
    real(w, &t->from);
    real(w, &t->to);
    real(w, &t->slope);
    real(w, &t->error);
    real(w, &t->value);
}

static void machine(convergence_codec_walk *w, mf_convergence *c)
{
    convergence_codec_rules(w, &c->o);
    series(w, &c->loss[0]);
    series(w, &c->loss[1]);
    series(w, &c->weights);
    real(w, &c->z);
    real(w, &c->next);
    real(w, &c->rate);
    convergence_codec_whole(w, &c->begin);
    real(w, &c->first_loss[0]);
    real(w, &c->first_loss[1]);
    convergence_codec_whole(w, &c->no_number);
    convergence_codec_whole(w, &c->skipped);
    convergence_codec_whole(w, &c->still);
    real(w, &c->moved_at);
    real(w, &c->last_seconds);
    observation(w, &c->last);
    c->state = (mf_progress_state)choice(w, (int)c->state, MF_STATE_DIVERGED);
    c->why = (mf_convergence_why)choice(w, (int)c->why, MF_WHY_WORSE);
    c->signal = (mf_convergence_signal)choice(w, (int)c->signal, MF_SIGNAL_VALIDATION);
    trend(w, &c->trend);
    real(w, &c->bound);
}

int64_t mf_convergence_numbers(void)
{
    mf_convergence c = { 0 };
    convergence_codec_walk w = { .reads = true };

    machine(&w, &c);
    return w.n;
}

void mf_convergence_encode(const mf_convergence *c, double *out)
{
    mf_convergence copy = *c;
    convergence_codec_walk w = { .at = out, .reads = true };

    machine(&w, &copy);
}

void mf_convergence_decode(const double *numbers, mf_convergence *out)
{
    double *given = (double *)(uintptr_t)numbers; /* which are only read */
    convergence_codec_walk w = { .at = given };

    *out = (mf_convergence){ 0 };
    machine(&w, out);
}
