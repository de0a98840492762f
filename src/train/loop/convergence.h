/* SPDX-License-Identifier: Apache-2.0 */
/* convergence.h - has a training converged? A state machine that gets numbers and decides. It has
 * no clock and reads no weights, so it can be simulated (docs/guides/convergence.md has the rules
 * and the results of simulations).
 *
 * A training is converged when `horizon` more steps would reduce the loss by less than `tolerance`,
 * with certainty: all tests together are wrong with a probability of at most `false_stops`, as long
 * as the curve flattens. Where it is known not to flatten (a learning rate that will still fall,
 * shrinking weights) the machine waits. */
#ifndef MF_TRAIN_LOOP_CONVERGENCE_H
#define MF_TRAIN_LOOP_CONVERGENCE_H

#include "base/buf.h"
#include "train/loop/trend.h"

typedef enum mf_progress_state {
    MF_STATE_IMPROVING, /* or not known yet */
    MF_STATE_CONVERGED,
    MF_STATE_STALLED, /* steps change nothing: a rate of 0, skipped steps, dead units */
    MF_STATE_STARVED, /* no steps are done: input or other workers are late */
    MF_STATE_DIVERGED, /* the loss is worse than at the beginning, or NaN/Inf */
} mf_progress_state;

const char *mf_progress_state_name(mf_progress_state s);

/* 0: the default given here. */
typedef struct mf_convergence_options {
    double tolerance; /* of the loss; 0.005 */
    double horizon; /* of the steps so far; default: 0.1 */
    double false_stops; /* 0.01 */
    double still_seconds; /* converged where no step has moved the weights for so long; 0: never */
    bool only_still; /* that alone is converged, and no loss */
    double starved_seconds; /* without a step; 60 */
    int64_t stalled_steps; /* consecutive steps that change nothing; default: 100 */
} mf_convergence_options;

/* Of a step. NAN: unknown, or not measured. */
typedef struct mf_observation {
    int64_t step;
    double seconds; /* when it was done */
    double train_loss, validation_loss;
    double moved; /* relative change of the weights since they were last measured */
    double weight_norm;
    double rate; /* learning rate */
    double rate_ahead; /* the smallest rate still to come */
    bool skipped; /* the guard skipped it */
} mf_observation;

typedef enum mf_convergence_signal { MF_SIGNAL_TRAIN, MF_SIGNAL_VALIDATION } mf_convergence_signal;

/* Why. */
typedef enum mf_convergence_why {
    MF_WHY_NOT, /* no decision */
    MF_WHY_FLAT, /* the loss */
    MF_WHY_STILL, /* the weights */
    MF_WHY_RATE, /* is 0 */
    MF_WHY_SKIPPED,
    MF_WHY_NO_STEPS,
    MF_WHY_NO_NUMBER,
    MF_WHY_WORSE,
} mf_convergence_why;

typedef struct mf_convergence {
    mf_convergence_options o;
    mf_series loss[2]; /* by signal */
    mf_series weights; /* their norm */
    double z; /* of one test */
    double next; /* step of the next test */
    double rate; /* since the step `begin`, within a factor of two */
    int64_t begin;
    double first_loss[2]; /* of the first bin */
    int64_t no_number; /* consecutive losses that are NaN/Inf */
    int64_t skipped, still; /* steps in a row */
    double moved_at; /* seconds, when weights last moved, or steps resumed */
    double last_seconds; /* of the last step; NAN: none */
    mf_observation last;
    /* The decision, and the numbers that it was made of. */
    mf_progress_state state;
    mf_convergence_why why;
    mf_convergence_signal signal;
    mf_trend trend;
    double bound; /* the loss gets smaller by at most that much, as a part of it */
} mf_convergence;

/* A NULL of options: as usual. */
void mf_convergence_init(mf_convergence *c, const mf_convergence_options *options);
/* A step is done. A machine that is converged or diverged stays so. */
mf_progress_state mf_convergence_step(mf_convergence *c, const mf_observation *o);
/* Time goes by without one. */
mf_progress_state mf_convergence_wait(mf_convergence *c, double seconds);
/* One sentence: the state, the rule, and the numbers it rests on. */
void mf_convergence_describe(const mf_convergence *c, mf_buf *out);

/* Its state, as a number of doubles. Any numbers give a valid machine, if perhaps one without
 * meaning. */
int64_t mf_convergence_numbers(void);
void mf_convergence_encode(const mf_convergence *c, double *out);
void mf_convergence_decode(const double *numbers, mf_convergence *out);

#endif
