/* SPDX-License-Identifier: Apache-2.0 */
/* hook_converged.c - the hook that feeds convergence.h: losses of every step and every validation,
 * the learning rate and its schedule, and periodically the change of the weights.
 *
 * Without a rule that uses the clock all workers make the same decision, because losses and weights
 * are the same bits on all of them; with one, the chief decides. A request to stop travels with the
 * next step, which is the last one; a single process does that step as well, so that several
 * workers end with its weights. */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "train/loop/convergence.h"
#include "train/loop/dist.h"
#include "train/loop/hook.h"
#include "train/step/trainer.h"
#include "train/step/update_norms.h"

#include <math.h>
#include <string.h>

/* Weights are measured LOOKS times over the steps so far, and at most every LOOK_STEPS steps. */
enum { LOOKS = 200, LOOK_STEPS = 10 };

static const char settings_of[] =
    "{tolerance: float = 0.005, horizon: float = 0.1, false_stops: float = 0.01, "
    "flat: bool = true, after: float = 0.0}";

typedef struct converged {
    mf_convergence c;
    mf_progress_state said;
    mf_buf why;
    double validation; /* of this epoch; NAN: reported already */
    int64_t skipped; /* steps, so far */
    mf_tensor *kept; /* weights at the last measurement; by number of the variable */
    int64_t n_kept;
    int64_t next_look; /* step */
    double last_look; /* seconds */
    int64_t asked; /* the step after which variables on a mesh are gathered for this hook */
    double rate_ahead; /* then */
    bool stops; /* with the next step */
    bool late; /* other workers have trained before */
} converged;

/* ---- the weights ---- */

/* Updates without locks would overwrite the kept values: copy. */
static mf_status hook_converged_keep(const mf_trainer *t, mf_tensor *now, mf_tensor *kept)
{
    mf_tensor_clear(kept);
    if (t->options.hogwild)
        return mf_tensor_clone(kept, now);
    mf_tensor_set(kept, now);
    return MF_OK;
}

static mf_status hook_converged_look_at_weights(converged *h, const mf_trainer *t,
                                                mf_observation *o)
{
    const bool first = !h->kept;
    mf_update_norms m = { 0 };

    if (first) {
        h->kept = mf_calloc(t->n_trained, sizeof *h->kept);
        h->n_kept = t->n_trained;
        if (!h->kept)
            return MF_NOMEM("weights to compare with");
    }
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *v = &t->trained[i];
        mf_tensor now = { 0 };
        mf_status st;

        if (!v->is_weight || v->variable->dtype != MF_DTYPE_F32)
            continue;
        MF_TRY(mf_trainer_read(t, v, &now));
        mf_update_norms_add(&m, &now, &h->kept[i]);
        st = hook_converged_keep(t, &now, &h->kept[i]);
        mf_tensor_clear(&now);
        MF_TRY(st);
    }
    o->weight_norm = mf_update_norms_norm(&m);
    if (!first)
        o->moved = mf_update_norms_by_size(&m);
    h->next_look = o->step + (o->step / LOOKS > LOOK_STEPS ? o->step / LOOKS : LOOK_STEPS);
    h->rate_ahead = mf_schedule_least(&t->schedule, t->step);
    h->last_look = o->seconds;
    return MF_OK;
}

static double now_seconds(void)
{
    return (double)mf_clock_ns() * 1e-9;
}

static bool is_look_due(const converged *h, int64_t step, double seconds)
{
    return step >= h->next_look ||
           (h->c.o.still_seconds > 0.0 && seconds - h->last_look > 0.1 * h->c.o.still_seconds);
}

static bool looks(void *ctx, mf_trainer *t, int64_t step)
{
    converged *h = ctx;
    const bool due = !mf_dist_judges_groups(t->dist) && is_look_due(h, step, now_seconds());

    h->asked = due ? step : h->asked;
    return due;
}

/* On a mesh variables are complete only on request. */
static bool can_look(const converged *h, const mf_trainer *t, const mf_observation *o)
{
    return mf_dist_can(t->dist, MF_DIST_STATE_IN_SLICES) ? h->asked == o->step
                                                         : is_look_due(h, o->step, o->seconds);
}

/* ---- steps ---- */

/* Workers that have seen the same curve make the same decision. With a rule that uses the clock, or
 * with a part of the curve, they would not: then the chief decides, which also reports the reason.
 */
static bool decides(const converged *h, const mf_trainer *t)
{
    return mf_dist_is_chief(t->dist) || (!h->late && h->c.o.still_seconds == 0.0);
}

static bool is_decision(mf_progress_state state)
{
    return state == MF_STATE_CONVERGED || state == MF_STATE_DIVERGED;
}

static void stop_if_decided(converged *h, mf_trainer *t)
{
    const bool ends = is_decision(h->c.state);

    if (ends && (t->dist || h->stops) && decides(h, t))
        mf_trainer_stop(t);
    h->stops = ends;
    t->decided |= ends;
}

static mf_status hook_converged_report(converged *h)
{
    if (h->c.state == h->said)
        return MF_OK;
    h->said = h->c.state;
    mf_buf_clear(&h->why);
    mf_convergence_describe(&h->c, &h->why);
    MF_TRY(mf_buf_finish(&h->why));
    if (h->said == MF_STATE_STALLED || h->said == MF_STATE_STARVED || h->said == MF_STATE_DIVERGED)
        MF_WARN("training %s", h->why.data);
    return MF_OK;
}

/* A worker that joins late knows only a part of the curve: it decides where no other worker is
 * left. */
static mf_status hook_converged_begin(void *ctx, mf_trainer *t)
{
    converged *h = ctx;

    h->skipped = mf_guard_skipped(t);
    h->late = t->dist && t->dist->history.trained;
    return mf_dist_judges_groups(t->dist) ? t->dist->ops.convergence->watch(t->dist, &h->c.o)
                                          : MF_OK;
}

/* The strategy judges each group; this hook handles validations, and the loss of all groups, which
 * is known when they have settled. */
static mf_status after_step_of_groups(converged *h, mf_trainer *t, const mf_step_report *r)
{
    mf_observation o = { .step = r->step,
                         .seconds = now_seconds(),
                         .validation_loss = h->validation,
                         .moved = NAN,
                         .weight_norm = NAN,
                         .rate = r->learning_rate,
                         .rate_ahead = mf_schedule_least(&t->schedule, t->step) };
    const char *why;
    const mf_progress_state state = t->dist->ops.convergence->verdict(t->dist, &why, &o.train_loss);

    if (state != MF_STATE_IMPROVING) {
        h->c.state = h->said = state;
        t->decided |= is_decision(state);
        mf_buf_clear(&h->why);
        mf_buf_str(&h->why, why);
        return mf_buf_finish(&h->why);
    }
    if (isnan(h->validation))
        return MF_OK;
    h->validation = NAN;
    (void)mf_convergence_step(&h->c, &o);
    stop_if_decided(h, t);
    return hook_converged_report(h);
}

static mf_status hook_converged_after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    converged *h = ctx;

    if (mf_dist_judges_groups(t->dist))
        return after_step_of_groups(h, t, r);

    mf_observation o = { .step = r->step,
                         .seconds = now_seconds(),
                         .train_loss = r->results[0].value,
                         .validation_loss = h->validation,
                         .moved = NAN,
                         .weight_norm = NAN,
                         .rate = r->learning_rate,
                         .skipped = r->skipped_steps > h->skipped };

    h->validation = NAN;
    h->skipped = r->skipped_steps;
    if (can_look(h, t, &o))
        MF_TRY(hook_converged_look_at_weights(h, t, &o));
    o.rate_ahead = h->rate_ahead;
    (void)mf_convergence_wait(&h->c, o.seconds);
    MF_TRY(hook_converged_report(h));
    (void)mf_convergence_step(&h->c, &o);
    stop_if_decided(h, t);
    return hook_converged_report(h);
}

static mf_status hook_converged_after_epoch(void *ctx, mf_trainer *t, const mf_step_report *r,
                                            const mf_result *validation, int n)
{
    converged *h = ctx;

    (void)t;
    (void)r;
    if (n > 0)
        h->validation = validation[0].value;
    return MF_OK;
}

/* ---- making and freeing ---- */

static void hook_converged_release(void *ctx)
{
    converged *h = ctx;

    for (int64_t i = 0; i < h->n_kept; i++)
        mf_tensor_clear(&h->kept[i]);
    mf_free(h->kept);
    mf_buf_deinit(&h->why);
    mf_free(h);
}

static mf_status hook_converged_read_settings(const char *settings, mf_convergence_options *out)
{
    mf_arena *arena = mf_arena_new();
    mf_options o;
    mf_status st =
        arena ? mf_options_parse("converged", settings_of, settings ? settings : "", arena, &o)
              : MF_NOMEM("a hook");

    if (st == MF_OK) {
        *out = (mf_convergence_options){ .tolerance = mf_options_float(&o, "tolerance"),
                                         .horizon = mf_options_float(&o, "horizon"),
                                         .false_stops = mf_options_float(&o, "false_stops"),
                                         .still_seconds = mf_options_float(&o, "after"),
                                         .only_still = !mf_options_bool(&o, "flat") };
        if (!(out->tolerance > 0.0 && out->horizon > 0.0 && out->false_stops > 0.0 &&
              out->false_stops < 0.5 && out->still_seconds >= 0.0))
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "converged: tolerance, horizon and false_stops must be above 0, "
                         "false_stops below 0.5, and after 0 or more");
    }
    mf_arena_free(arena);
    return st;
}

mf_status mf_hook_converged(const char *settings, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);

    mf_convergence_options o;
    converged *h;

    memset(out, 0, sizeof *out);
    MF_TRY(hook_converged_read_settings(settings, &o));
    h = mf_calloc(1, sizeof *h);
    if (!h)
        return MF_NOMEM("a hook");
    mf_convergence_init(&h->c, &o);
    h->validation = NAN;
    *out = (mf_hook){ .ctx = h,
                      .begin = hook_converged_begin,
                      .after_step = hook_converged_after_step,
                      .after_epoch = hook_converged_after_epoch,
                      .release = hook_converged_release,
                      .looks = looks };
    return MF_OK;
}

const char *mf_hook_converged_state(const mf_hook *hook, const char **why)
{
    MF_ENTRY_OR(NULL);
    if (!hook || hook->begin != hook_converged_begin)
        return NULL;

    const converged *h = hook->ctx;

    if (why)
        *why = h->why.data ? h->why.data : "";
    return mf_progress_state_name(h->c.state);
}
