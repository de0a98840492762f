/* SPDX-License-Identifier: Apache-2.0 */
/* convergence.c - eight kinds of learning curves, each with many seeds: the decision and its step.
 *
 * The oracle knows the curve without its scatter: its plateau begins at the first step whose loss
 * is within the tolerance (0.5 %) of the smallest of the whole curve. A decision before that
 * step is too early. */
#include "train/loop/convergence.h"

#include "base/mem.h"
#include "mf_test.h"

#include <math.h>
#include <string.h>

enum { SEEDS = 200 };

/* ---- random scatter ---- */

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2.0 * log(uniform(seed))) * cos(2.0 * acos(-1.0) * uniform(seed));
}

/* ---- curves ---- */

typedef struct point {
    double train, validation; /* without scatter; NAN: none */
    double rate, rate_ahead, weight_norm;
} point;

typedef struct curve {
    const char *name;
    point (*at)(double step);
    double scatter; /* of a training loss, by its size; a tenth of it of a validation */
    int64_t steps;
    int64_t validate; /* every N steps; 0: never */
} curve;

static point plain(double loss)
{
    return (point){ loss, NAN, 0.1, 0.1, 10.0 };
}

static double falling(double step, double from, double to, double tau)
{
    return to + (from - to) * exp(-step / tau);
}

static point plateau(double step)
{
    return plain(falling(step, 10.0, 1.0, 5000.0));
}

static point validated(double step)
{
    point p = plain(falling(step, 10.0, 0.5, 4000.0)); /* it overfits: */

    p.validation = falling(step, 10.0, 1.0, 1000.0) + 1e-5 * fmax(0.0, step - 9000.0);
    return p;
}

/* The rate falls to a tenth at step 10000: half of the loss is found only then. */
static point rate_step(double step)
{
    const bool late = step >= 10000.0;
    point p = plain(falling(step, 10.0, 1.0, 1000.0) -
                    (late ? falling(step - 10000.0, 0.0, 0.5, 500.0) : 0.0));

    p.rate = late ? 0.01 : 0.1;
    p.rate_ahead = 0.01;
    return p;
}

/* The model overfits at step 1000; then weights shrink, and the validation loss follows at 12000.
 */
static point grokking(double step)
{
    point p = plain(falling(step, 4.0, 0.05, 200.0));

    p.validation = 0.1 + 3.9 / (1.0 + exp((step - 12000.0) / 300.0));
    p.weight_norm = step < 14000.0 ? 100.0 - 70.0 * step / 14000.0 : 30.0;
    return p;
}

static point diverging(double step)
{
    const double low = falling(3000.0, 10.0, 1.0, 1000.0);

    return plain(step < 3000.0 ? falling(step, 10.0, 1.0, 1000.0)
                               : low * exp((step - 3000.0) / 500.0));
}

static point oscillating(double step)
{
    return plain(falling(step, 10.0, 1.0, 1000.0) + 0.05 * sin(step / 60.0));
}

static point power_law(double step)
{
    return plain(10.0 * pow(step, -0.2));
}

/* A tenth more steps make it smaller by 0.6 %: barely more than the tolerance. */
static point barely_falling(double step)
{
    return plain(10.0 * pow(step, -0.063));
}

/* ---- simulating ---- */

typedef struct outcome {
    mf_progress_state state;
    int64_t step; /* step of the decision */
    mf_convergence c;
} outcome;

static outcome simulate(const curve *k, uint64_t seed)
{
    outcome r = { .state = MF_STATE_IMPROVING };

    seed = seed * 0x9e3779b97f4a7c15u + 1;
    mf_convergence_init(&r.c, NULL);
    for (int64_t step = 1; step <= k->steps && r.state == MF_STATE_IMPROVING; step++) {
        const point p = k->at((double)step);
        const bool validated_now = k->validate > 0 && step % k->validate == 0;
        const mf_observation o = {
            .step = step,
            .seconds = 0.01 * (double)step,
            .train_loss = p.train * (1.0 + k->scatter * normal(&seed)),
            .validation_loss =
                validated_now ? p.validation * (1.0 + 0.1 * k->scatter * normal(&seed)) : NAN,
            .moved = 0.001,
            .weight_norm = step % 50 == 0 ? p.weight_norm : NAN,
            .rate = p.rate,
            .rate_ahead = p.rate_ahead,
        };

        r.state = mf_convergence_step(&r.c, &o);
        r.step = step;
    }
    return r;
}

static double judged_loss(const curve *k, int64_t step)
{
    const point p = k->at((double)step);

    return isnan(p.validation) ? p.train : p.validation;
}

static int64_t oracle(const curve *k)
{
    double least = INFINITY;
    int64_t step = 1;

    for (int64_t i = 1; i <= k->steps; i++)
        least = fmin(least, judged_loss(k, i));
    while (judged_loss(k, step) > 1.005 * least)
        step++;
    return step;
}

/* For every seed: converged, not before the oracle's step and at most this fraction after it. */
static void converges(const curve *k, double most)
{
    const int64_t plateau_step = oracle(k);

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const outcome r = simulate(k, seed);

        if (r.state != MF_STATE_CONVERGED || r.step < plateau_step ||
            (double)r.step > most * (double)plateau_step)
            T_FAIL("%s, seed %d: %s at step %lld; its plateau begins at %lld", k->name, (int)seed,
                   mf_progress_state_name(r.state), (long long)r.step, (long long)plateau_step);
    }
}

/* For every seed this decision and no other. */
static void is_always(const curve *k, mf_progress_state state)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const outcome r = simulate(k, seed);

        if (r.state != state)
            T_FAIL("%s, seed %d: %s at step %lld", k->name, (int)seed,
                   mf_progress_state_name(r.state), (long long)r.step);
    }
}

/* ---- the kinds ---- */

MF_TEST(convergence_of_a_plateau_is_detected_at_most_a_tenth_late)
{
    converges(&(curve){ "plateau", plateau, 0.003, 60000, 0 }, 1.1);
}

/* More scatter delays the decision, but never makes it too early. */
MF_TEST(convergence_of_a_noisy_plateau_is_never_detected_too_early)
{
    converges(&(curve){ "noisy plateau", plateau, 0.01, 60000, 0 }, 1.25);
    converges(&(curve){ "noisier plateau", plateau, 0.05, 100000, 0 }, 2.0);
    converges(&(curve){ "noisiest plateau", plateau, 0.2, 200000, 0 }, 3.0);
}

MF_TEST(convergence_is_not_before_the_last_rate)
{
    converges(&(curve){ "step of the rate", rate_step, 0.003, 20000, 0 }, 1.2);
    converges(&(curve){ "noisy step of the rate", rate_step, 0.02, 40000, 0 }, 1.5);
}

MF_TEST(convergence_is_not_while_weights_shrink)
{
    converges(&(curve){ "grokking", grokking, 0.01, 20000, 100 }, 1.1);
    converges(&(curve){ "noisy grokking", grokking, 0.1, 40000, 100 }, 2.0);
}

MF_TEST(convergence_keeps_the_best_validation_loss_of_an_overfit)
{
    converges(&(curve){ "validation", validated, 0.01, 20000, 100 }, 1.4);
    converges(&(curve){ "few validations", validated, 0.1, 40000, 500 }, 2.5);
}

MF_TEST(convergence_reports_divergence)
{
    is_always(&(curve){ "diverging", diverging, 0.05, 20000, 0 }, MF_STATE_DIVERGED);
    is_always(&(curve){ "quietly diverging", diverging, 0.001, 20000, 0 }, MF_STATE_DIVERGED);
}

MF_TEST(convergence_is_detected_despite_oscillation)
{
    converges(&(curve){ "oscillating", oscillating, 0.05, 50000, 0 }, 3.0);
}

MF_TEST(convergence_is_not_in_a_slow_power_law)
{
    is_always(&(curve){ "power law", power_law, 0.05, 40000, 0 }, MF_STATE_IMPROVING);
    is_always(&(curve){ "noisy power law", power_law, 0.2, 40000, 0 }, MF_STATE_IMPROVING);
    is_always(&(curve){ "barely falling", barely_falling, 0.01, 20000, 0 }, MF_STATE_IMPROVING);
    is_always(&(curve){ "noisy barely falling", barely_falling, 0.05, 40000, 0 },
              MF_STATE_IMPROVING);
}

/* ---- stalls ---- */

static mf_observation quiet_step(int64_t step, double seconds)
{
    return (mf_observation){ .step = step,
                             .seconds = seconds,
                             .train_loss = 1.0 + 9.0 * exp(-(double)step / 1000.0),
                             .validation_loss = NAN,
                             .moved = 0.001,
                             .weight_norm = 10.0,
                             .rate = 0.1,
                             .rate_ahead = 0.1 };
}

/* A pause between steps is no sign of convergence, however long and under any rule. Its time does
 * not count after steps resume. */
MF_TEST(convergence_is_not_a_worker_that_stalls)
{
    mf_convergence c;
    int64_t step = 1;

    mf_convergence_init(&c, &(mf_convergence_options){ .still_seconds = 30.0 });
    for (int turn = 0; turn < SEEDS; turn++) {
        const double begin = 10000.0 * turn;
        mf_observation o;

        for (int i = 0; i < 10; i++, step++) {
            o = quiet_step(step, begin + 0.1 * i);
            o.moved = i == 9 ? 0.0 : 0.001;
            T_EQ(mf_convergence_step(&c, &o), MF_STATE_IMPROVING);
        }
        T_EQ(mf_convergence_wait(&c, begin + 20.0), MF_STATE_IMPROVING);
        for (int i = 2; i < 100; i++)
            T_EQ(mf_convergence_wait(&c, begin + 100.0 * i), MF_STATE_STARVED);
    }
}

static mf_progress_state after_steps(mf_convergence *c, const mf_convergence_options *options,
                                     int n, double rate, double moved, bool skipped)
{
    mf_progress_state s = MF_STATE_IMPROVING;

    mf_convergence_init(c, options);
    for (int i = 1; i <= n && s == MF_STATE_IMPROVING; i++) {
        mf_observation o = quiet_step(i, i);

        o.rate = o.rate_ahead = rate;
        o.moved = moved;
        o.skipped = skipped;
        o.train_loss = skipped ? NAN : 2.0;
        s = mf_convergence_step(c, &o);
    }
    return s;
}

MF_TEST(convergence_is_not_in_steps_that_change_no_weight)
{
    const mf_convergence_options o = { .still_seconds = 50.0 };
    mf_convergence c;

    T_EQ(after_steps(&c, &o, 40, 0.0, 0.0, false), MF_STATE_IMPROVING);
    T_EQ(after_steps(&c, &o, 400, 0.0, 0.0, false), MF_STATE_STALLED);
    T_EQ(c.why, MF_WHY_RATE);
    T_EQ(after_steps(&c, &o, 400, 0.1, 0.0, true), MF_STATE_STALLED);
    T_EQ(c.why, MF_WHY_SKIPPED);
    T_EQ(after_steps(&c, NULL, 400, 0.1, 0.0, false), MF_STATE_STALLED);
    T_EQ(c.why, MF_WHY_STILL);
    T_EQ(after_steps(&c, &o, 400, 0.1, 0.0, false), MF_STATE_CONVERGED); /* by the literal rule */
    T_EQ(c.why, MF_WHY_STILL);
    T_EQ(c.last.step, 51);
}

MF_TEST(convergence_is_not_in_losses_of_nan_or_inf)
{
    mf_convergence c;
    mf_progress_state s = MF_STATE_IMPROVING;

    mf_convergence_init(&c, NULL);
    for (int i = 1; i <= 10; i++) {
        mf_observation o = quiet_step(i, i);

        o.train_loss = i > 1 ? NAN : 1.0;
        s = mf_convergence_step(&c, &o);
        T_EQ(s, MF_STATE_IMPROVING);
    }
    s = mf_convergence_step(&c, &(mf_observation){ .step = 11, .train_loss = INFINITY, .rate = 1 });
    T_EQ(s, MF_STATE_DIVERGED);
}

MF_TEST(convergence_reports_the_rule_and_its_numbers)
{
    const outcome r = simulate(&(curve){ "plateau", plateau, 0.003, 60000, 0 }, 1);
    mf_buf out = { 0 };

    mf_convergence_describe(&r.c, &out);
    T_TRUE(strncmp(out.data, "converged at step ", 18) == 0);
    T_TRUE(strstr(out.data, "in 10 % more steps (tolerance 0.5 %)") != NULL);
    T_TRUE(strstr(out.data, "at most one training in 100 is ended too early") != NULL);
    mf_buf_deinit(&out);
}

/* ---- statistics ---- */

/* From published tables; Meshflow's values may be slightly larger. */
MF_TEST(trend_quantiles_are_those_of_the_tables)
{
    static const struct {
        double p, z, freedom, t;
    } rows[] = { { 1e-3, 3.0902, 10, 4.1437 },
                 { 1e-3, 3.0902, 30, 3.3852 },
                 { 1e-5, 4.2649, 20, 5.5429 },
                 { 1e-7, 5.1993, 30, 6.7014 } };

    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        const double t = mf_student_quantile(rows[i].z, rows[i].freedom);

        T_NEAR(mf_normal_quantile(rows[i].p), rows[i].z, 1e-4);
        T_TRUE(t >= rows[i].t - 1e-3 && t < 1.01 * rows[i].t);
    }
}

/* The slope of pure scatter is within its error as often as it should be: 95.45 % within two. */
MF_TEST(trend_error_bounds_are_calibrated)
{
    int within = 0;

    for (uint64_t seed = 1; seed <= 2000; seed++) {
        static mf_series s;
        uint64_t state = seed * 0x9e3779b97f4a7c15u;
        mf_trend t;

        s = (mf_series){ 0 };
        for (int i = 1; i <= 1000; i++)
            mf_series_add(&s, i, 5.0 - 0.01 * i + normal(&state));
        t = mf_series_trend(&s, 1.0);
        within += fabs(t.slope + 0.01) < 2.0 * t.error;
    }
    T_TRUE(within > 1860 && within < 1960); /* 1900 +- 40: lines through 32 blocks have fat tails */
}

/* ---- state as numbers ---- */

static mf_observation observe(int64_t step, uint64_t *seed)
{
    const point p = plateau((double)step);

    return (mf_observation){ .step = step,
                             .seconds = (double)step * 0.01,
                             .train_loss = p.train * (1.0 + 0.003 * normal(seed)),
                             .validation_loss = step % 100 == 0 ? p.train : NAN,
                             .moved = step % 16 == 0 ? 1e-3 : NAN,
                             .weight_norm = step % 16 == 0 ? p.weight_norm : NAN,
                             .rate = p.rate,
                             .rate_ahead = p.rate_ahead };
}

static void compare_machines(const mf_convergence *a, const mf_convergence *b)
{
    mf_buf said[2] = { { 0 }, { 0 } };

    T_EQ(a->state, b->state);
    T_EQ(a->last.step, b->last.step);
    mf_convergence_describe(a, &said[0]);
    mf_convergence_describe(b, &said[1]);
    T_STREQ(said[0].data, said[1].data);
    mf_buf_deinit(&said[0]);
    mf_buf_deinit(&said[1]);
}

MF_TEST(convergence_state_round_trips_at_any_step)
{
    double *numbers = mf_calloc(mf_convergence_numbers(), sizeof *numbers);
    static mf_convergence whole, broken;
    const mf_convergence_options rules = { .tolerance = 0.01, .still_seconds = 7.0 };
    uint64_t seed = 3;

    T_TRUE(numbers != NULL);
    mf_convergence_init(&whole, &rules);
    mf_convergence_init(&broken, &rules);
    for (int64_t step = 1; whole.state != MF_STATE_CONVERGED && step < 100000; step++) {
        const mf_observation o = observe(step, &seed);

        (void)mf_convergence_step(&whole, &o);
        (void)mf_convergence_step(&broken, &o);
        if (step % 997 == 0) {
            mf_convergence_encode(&broken, numbers);
            memset(&broken, 0xff, sizeof broken);
            mf_convergence_decode(numbers, &broken);
            compare_machines(&whole, &broken);
        }
    }
    T_EQ(whole.state, MF_STATE_CONVERGED);
    compare_machines(&whole, &broken);
    mf_free(numbers);
}

MF_TEST(convergence_accepts_observations_after_decoding_invalid_state)
{
    const int64_t n = mf_convergence_numbers();
    double *numbers = mf_calloc(n, sizeof *numbers);
    static const double nonsense[] = { NAN, INFINITY, -1.0, 1e300, 511.0, 512.0, -1e300 };
    static mf_convergence c;
    uint64_t seed = 1;

    T_TRUE(numbers != NULL);
    for (int k = 0; k < MF_COUNT(nonsense); k++) {
        mf_buf said = { 0 };

        for (int64_t i = 0; i < n; i++)
            numbers[i] = nonsense[(k + i * (k % 3)) % MF_COUNT(nonsense)];
        mf_convergence_decode(numbers, &c);
        for (int64_t step = 1; step < 3000; step++) {
            const mf_observation o = observe(step, &seed);

            (void)mf_convergence_step(&c, &o);
        }
        mf_convergence_describe(&c, &said);
        T_OK(mf_buf_finish(&said));
        mf_buf_deinit(&said);
    }
    mf_free(numbers);
}
