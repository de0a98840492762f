/* SPDX-License-Identifier: Apache-2.0 */
/* lr_schedule.c - learning rate schedules. SLEEF's plain C functions, not libm's: their bits do not
 * depend on the machine. */
#include "train/optim/lr_schedule.h"

#include <sleef.h>

static double constant_factor(const mf_schedule *s, int64_t step, int64_t steps)
{
    (void)s;
    (void)step;
    (void)steps;
    return 1.0;
}

/* rate * drop^(number of boundaries passed). */
static double step_factor(const mf_schedule *s, int64_t step, int64_t steps)
{
    const double drop = mf_options_float(&s->o, "drop");
    int64_t n, passed = 0;
    const int64_t *at = mf_options_ints(&s->o, "at", &n);
    double factor = 1.0;

    (void)steps;
    for (int64_t i = 0; i < n; i++)
        passed += step >= at[i];
    if (n == 0)
        passed = step / mf_options_int(&s->o, "every");
    for (int64_t i = 0; i < passed && factor > 0.0; i++)
        factor *= drop;
    return factor;
}

static double exponential_factor(const mf_schedule *s, int64_t step, int64_t steps)
{
    const double turns = (double)step / (double)mf_options_int(&s->o, "every");

    (void)steps;
    return Sleef_powd1_u10purec(mf_options_float(&s->o, "decay"),
                                mf_options_bool(&s->o, "staircase") ? (double)(int64_t)turns
                                                                    : turns);
}

/* From 1 at x = 0 to 0 at x = 1 along half a cosine. */
static double half_cosine(double x)
{
    return 0.5 * (1.0 + Sleef_cosd1_u10purec(3.14159265358979323846 * (x < 1.0 ? x : 1.0)));
}

static double cosine_factor(const mf_schedule *s, int64_t step, int64_t steps)
{
    const double end = mf_options_float(&s->o, "end");
    const double x = steps > 0 ? (double)step / (double)steps : 1.0;

    return end + (1.0 - end) * half_cosine(x);
}

/* Up from start*rate to rate, then down to end*rate, both along half a cosine. */
static double one_cycle_factor(const mf_schedule *s, int64_t step, int64_t steps)
{
    const double start = mf_options_float(&s->o, "start"), end = mf_options_float(&s->o, "end");
    const double up = mf_options_float(&s->o, "up");
    const double x = steps > 0 ? (double)step / (double)steps : 1.0;

    if (x < up)
        return start + (1.0 - start) * (1.0 - half_cosine(x / up));
    return end + (1.0 - end) * half_cosine((x - up) / (1.0 - up));
}

#define WARMUP "warmup: int >= 0 = 0"
#define STEPS "steps: int >= 0 = 0, " WARMUP

const mf_schedule_kind mf_schedules[] = {
    { "constant", "{" WARMUP "}", "always the same", constant_factor },
    { "step", "{at: list(int) = [], every: int >= 1 = 1000, drop: float = 0.1, " WARMUP "}",
      "falls by a factor at given steps", step_factor },
    { "exponential",
      "{every: int >= 1 = 1000, decay: float = 0.96, staircase: bool = false, " WARMUP "}",
      "falls by a factor over a number of steps, gradually", exponential_factor },
    { "cosine", "{end: float = 0.0, " STEPS "}", "falls along half a cosine", cosine_factor },
    { "one_cycle", "{start: float = 0.04, up: float = 0.3, end: float = 0.0001, " STEPS "}",
      "rises, then falls", one_cycle_factor },
    { 0 },
};

static const mf_kinds kinds = { "schedule", mf_schedules, sizeof *mf_schedules };

mf_status mf_schedule_parse(const char *text, double rate, mf_arena *arena, mf_schedule *out)
{
    const void *row;
    const char *rest;

    *out = (mf_schedule){ .rate = rate };
    MF_TRY(mf_kinds_find(&kinds, text ? text : "constant", arena, &row, &rest));
    out->kind = row;
    return mf_options_parse(out->kind->name, out->kind->settings, rest, arena, &out->o);
}

static bool has_steps(const mf_schedule *s)
{
    return mf_options_has(&s->o, "steps");
}

float mf_schedule_at(const mf_schedule *s, int64_t done)
{
    const int64_t warmup = mf_options_int(&s->o, "warmup");
    int64_t steps = has_steps(s) ? mf_options_int(&s->o, "steps") : 0;

    if (done < warmup)
        return (float)(s->rate * (double)(done + 1) / (double)warmup);
    if (steps == 0)
        steps = s->total;
    return (float)(s->rate * s->kind->factor(s, done - warmup, steps - warmup));
}

double mf_schedule_least(const mf_schedule *s, int64_t done)
{
    const int64_t left = s->total - done;
    double least = (double)mf_schedule_at(s, done);

    for (int i = 1; i <= 64; i++) {
        const double rate = (double)mf_schedule_at(s, done + left * i / 64);

        least = rate < least ? rate : least;
    }
    return least;
}
