/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - the loop: batches, steps, epochs, and whoever wants to know of them. */
#include "base/board.h"
#include "base/clock.h"
#include "base/log.h"
#include "data/ledger.h"
#include "train/agreement.h"
#include "train/feeding.h"
#include "train/input.h"
#include "train/loop.h"
#include "train/roll_back.h"
#include "train/team_trace.h"

#include <string.h>

enum { TRACED = 10 }; /* the step whose trace is written, unless told: by then all is warm */

typedef struct fit {
    mf_trainer *t;
    mf_dataset *train, *validation;
    mf_fit_options o;
    mf_iterator *it;
    mf_checkpoints *checkpoints;
    mf_ledger *ledger; /* of used samples */
    mf_iterator_options order; /* of samples */
    mf_agreement agreement; /* with the other workers */
    mf_hook_loop loop;
    mf_hook *hooks; /* the caller's, then ours */
    int64_t total; /* steps of the whole training */
    int64_t saved; /* step of the last checkpoint */
    bool saves; /* there are to be checkpoints, though perhaps not by us */
    bool stop; /* somebody of the team wanted to, or there is nothing left */
    mf_feeding feeding; /* of threads */
    int64_t waited_ns; /* for the last batch */
    int64_t traced; /* the step whose trace is written; 0: none */
    mf_team_trace trace; /* of all workers */
    int64_t batch, per_epoch; /* samples of a batch; batches of an epoch */
    mf_result results[MF_MAX_RESULTS];
} fit;

/* ---- hooks ---- */

static mf_status call_after_step(fit *f, const mf_step_report *report)
{
    for (int i = 0; i < f->loop.n_hooks; i++) {
        const mf_hook *h = &f->hooks[i];

        if (h->after_step)
            MF_TRY(h->after_step(h->ctx, f->t, report));
    }
    return MF_OK;
}

static mf_status call_after_epoch(fit *f, const mf_step_report *report)
{
    mf_result results[MF_MAX_RESULTS];
    int n = 0;

    mf_board_phase(MF_PHASE_EVALUATE);
    if (f->validation)
        MF_TRY(mf_evaluate(f->t, f->validation, results, &n));
    for (int i = 0; i < f->loop.n_hooks; i++) {
        const mf_hook *h = &f->hooks[i];

        if (h->after_epoch)
            MF_TRY(h->after_epoch(h->ctx, f->t, report, results, n));
    }
    return MF_OK;
}

static mf_status read_step(mf_hook_loop *l, int64_t *step)
{
    mf_tensor value = { 0 };

    MF_TRY(mf_variable_read(mf_trainer_find(l->trainer, "global_step")->variable, &value));
    *step = ((const int64_t *)value.data)[0];
    mf_tensor_clear(&value);
    return MF_OK;
}

static mf_status take_snapshot(mf_hook_loop *l, mf_snapshot **out)
{
    return mf_snapshot_take(l->trainer, out);
}

/* The caller's hooks, and that which writes events. */
static mf_status add_hooks(fit *f)
{
    const mf_summary_options events = { .dir = f->o.out,
                                        .every = { .steps = f->o.summary_steps },
                                        .graph = true,
                                        .weights_by_epoch = true };

    f->hooks = mf_calloc(f->o.n_hooks + 1, sizeof *f->hooks);
    if (!f->hooks)
        return MF_NOMEM("hooks");
    for (int i = 0; i < f->o.n_hooks; i++)
        f->hooks[i] = f->o.hooks[i];
    f->loop = (mf_hook_loop){ .session = f->t->session,
                              .trainer = f->t,
                              .graph = f->t->model->graph,
                              .hooks = f->hooks,
                              .n_hooks = f->o.n_hooks,
                              .read_step = read_step,
                              .snapshot = take_snapshot };
    if (f->o.out)
        MF_TRY(mf_hook_summary(&events, &f->hooks[f->loop.n_hooks++]));
    return mf_hook_loop_init(&f->loop);
}

/* ---- the ledger of samples ---- */

/* A ledger that cannot be written is said, and training goes on without it. */
static void check_ledger(fit *f, mf_status st)
{
    if (st == MF_OK)
        return;
    MF_WARN("used samples are not written down any more; training goes on: %s", mf_error_message());
    if (mf_ledger_close(f->ledger) != MF_OK)
        MF_WARN("%s", mf_error_message());
    f->ledger = NULL;
}

/* All samples of the step, whoever of the team has taken them. */
static mf_status add_to_ledger(fit *f, const mf_batch *batch)
{
    mf_batch whole = *batch;

    whole.n = batch->whole;
    whole.first -= batch->place;
    whole.ids = batch->whole_ids;
    return mf_ledger_add(f->ledger, f->t->step, &whole);
}

/* goes_on: with what is written of the steps so far. */
static void open_ledger(fit *f, bool goes_on)
{
    const int64_t step = goes_on && f->t->step > 0 ? f->t->step : -1;
    mf_status st = mf_ledger_open(f->o.out, "train", f->train, &f->order, step, &f->ledger);

    if (st != MF_OK && step > 0) {
        MF_WARN("the ledger of samples begins anew at step %lld: %s", (long long)f->t->step,
                mf_error_message());
        st = mf_ledger_open(f->o.out, "train", f->train, &f->order, -1, &f->ledger);
    }
    check_ledger(f, st);
}

/* ---- the loop ---- */

/* Those who hold variables write them, and the rest is ours. *out NULL: nobody does. */
static mf_status save_with_others(fit *f, mf_snapshot **out)
{
    mf_team *team = f->t->team;
    char *prefix;
    mf_status st;

    MF_TRY(mf_checkpoints_prefix(f->o.out, f->t->step, &prefix));
    st = mf_snapshot_take(f->t, out);
    if (st == MF_OK)
        st = team->kind->save_parts(team, f->t, prefix, *out);
    if (st != MF_OK || !mf_snapshot_has_parts(*out)) {
        mf_snapshot_free(*out);
        *out = NULL;
    }
    mf_free(prefix);
    return st;
}

static bool others_save_the_last(const fit *f)
{
    return f->t->team && f->t->team->kind->save_parts;
}

static mf_status save(fit *f, bool last)
{
    mf_snapshot *s = NULL;

    if (!f->saves || f->saved == f->t->step)
        return MF_OK;
    if (!last && others_save_the_last(f) && f->t->step >= f->total)
        return MF_OK; /* it comes soon */
    f->saved = f->t->step;
    mf_board_phase(MF_PHASE_SAVE);
    if (mf_team_keeps(f->t->team))
        MF_TRY(f->t->team->kind->collect(f->t->team, f->t->step));
    if (!f->checkpoints)
        return MF_OK;
    if (last && others_save_the_last(f))
        MF_TRY(save_with_others(f, &s));
    if (!s && f->t->team && f->t->team->kind->before_save)
        MF_TRY(f->t->team->kind->before_save(f->t->team, f->t));
    if (f->ledger) /* a checkpoint may not know of more than the ledger */
        check_ledger(f, mf_ledger_flush(f->ledger, false));
    mf_hook_loop_flush(&f->loop); /* who goes on from here has the events up to here */
    return s ? mf_checkpoints_put(f->checkpoints, s) : mf_checkpoints_save(f->checkpoints, f->t);
}

/* Everybody's variables are the same from here on. */
static mf_status settle(fit *f)
{
    const mf_team *team = f->t->team;

    return team && team->kind->settle ? team->kind->settle(f->t->team, &f->stop) : MF_OK;
}

static mf_status after_batch(fit *f, const mf_step_report *report)
{
    const bool saves = f->o.save_steps > 0 && f->t->step % f->o.save_steps == 0;
    const bool epoch = f->t->epoch != report->epoch;

    if (saves || epoch)
        MF_TRY(settle(f));
    MF_TRY(call_after_step(f, report));
    if (saves)
        MF_TRY(save(f, false));
    if (!epoch)
        return MF_OK;
    MF_TRY(call_after_epoch(f, report));
    return f->o.save_steps == 0 ? save(f, false) : MF_OK;
}

static bool wants_stop(const fit *f)
{
    const mf_strategy *s = f->t->options.strategy;

    return atomic_load(&f->t->stop) || (s && atomic_load(&s->stop));
}

/* Each worker has batches of its own: go to the next one. */
static mf_status take_lease(fit *f)
{
    mf_trainer *t = f->t;
    int64_t batch;

    MF_TRY(t->team->kind->lease(t->team, f->total, &batch, &f->stop));
    if (f->stop)
        return MF_OK;
    t->step = batch;
    return mf_iterator_seek(f->it, batch / f->per_epoch, batch % f->per_epoch * f->batch);
}

/* With a trace, if this is the step. Workers that do it together write one. */
static mf_status run_step(fit *f, const mf_batch *batch)
{
    mf_trainer *t = f->t;
    const bool traced = t->step + 1 == f->traced, together = mf_team_traces(t->team);

    t->trace = traced && !together && mf_team_is_chief(t->team) ? f->o.trace : NULL;
    if (traced && together)
        MF_TRY(mf_team_trace_begin(&f->trace, t->team, t));
    MF_TRY(mf_trainer_run_step(t, f->train, batch, f->results));
    return traced && together ? mf_team_trace_end(&f->trace, t->team, t, f->o.trace) : MF_OK;
}

/* Which shards of a batch are ours may change from step to step. */
static mf_status share(fit *f)
{
    const mf_team *team = f->t->team;

    mf_board_shards(team->first_shard, team->n_shards);
    return mf_iterator_share(f->it, team->first_shard, team->n_shards);
}

static void show_traffic(const mf_team *team)
{
    mf_traffic traffic = { 0 };

    if (!team || !team->kind->traffic)
        return;
    team->kind->traffic(team, &traffic);
    mf_board_traffic(traffic.bytes);
}

/* Between two steps is the time to change threads. */
static mf_status next_batch(fit *f, const mf_batch **out)
{
    const int wish = mf_board_take_wish();
    int64_t begin;

    if (wish > 0)
        mf_feeding_fix(&f->feeding, f->t, wish);
    mf_board_phase(MF_PHASE_INPUT);
    begin = mf_clock_ns();
    MF_TRY(mf_iterator_next(f->it, out));
    f->waited_ns = mf_clock_ns() - begin;
    mf_board_phase(MF_PHASE_STEP);
    return MF_OK;
}

/* The trainer stands at an earlier step again: so do input, ledger and checkpoints. */
static mf_status go_back(fit *f)
{
    if (f->ledger) {
        check_ledger(f, mf_ledger_flush(f->ledger, false));
        if (f->ledger && mf_ledger_close(f->ledger) != MF_OK)
            MF_WARN("%s", mf_error_message());
        f->ledger = NULL;
        open_ledger(f, true);
    }
    if (f->checkpoints)
        MF_TRY(mf_checkpoints_drop_after(f->checkpoints, f->t->step));
    f->saved = f->saved > f->t->step ? -1 : f->saved;
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}

/* Are the weights still good? *back: they were not, and are those of an earlier step. */
static mf_status look_after(fit *f, bool *back)
{
    MF_TRY(mf_roll_back_if_due(f->t, f->o.out, f->checkpoints));
    MF_TRY(mf_agreement_step(&f->agreement, f->t->step >= f->total || f->stop, back));
    return *back ? go_back(f) : MF_OK;
}

static mf_status one_step(fit *f)
{
    mf_trainer *t = f->t;
    const mf_batch *batch;
    bool back;
    mf_step_report report = { .results = f->results, .n_results = t->graph.n_reports };

    if (t->team && t->team->kind->lease) {
        MF_TRY(take_lease(f));
        if (f->stop)
            return MF_OK;
    }
    MF_TRY(next_batch(f, &batch));
    if (t->team)
        MF_TRY(t->team->kind->begin_step(t->team, t->step, batch->whole, wants_stop(f)));
    report.learning_rate = (double)mf_schedule_at(&t->schedule, t->step);
    MF_TRY(run_step(f, batch));
    report.step = t->step;
    report.epoch = batch->epoch;
    report.samples = batch->whole;
    if (t->team)
        MF_TRY(t->team->kind->end_step(t->team, t->step, &f->stop));
    show_traffic(t->team);
    mf_board_step(report.step, report.epoch, report.samples,
                  report.n_results > 0 ? f->results[0].value : 0.0);
    mf_iterator_position(f->it, &t->epoch, &t->first);
    if (f->ledger)
        check_ledger(f, add_to_ledger(f, batch));
    report.skipped_steps = mf_guard_skipped(t);
    MF_TRY(look_after(f, &back));
    if (!back)
        MF_TRY(after_batch(f, &report));
    if (t->team)
        MF_TRY(share(f));
    return mf_feeding_step(&f->feeding, t, f->it, f->waited_ns);
}

/* When everybody has something for a checkpoint, everybody knows when the chief makes one. */
static mf_status agree_on_saves(fit *f)
{
    int64_t plan[] = { f->saves, f->o.save_steps, f->saved };
    const mf_collective c = mf_team_call(f->t->team, f->t->step, "when to save");

    MF_TRY(mf_broadcast(f->t->team->group, &c, 0, plan, sizeof plan));
    f->saves = plan[0] != 0;
    f->o.save_steps = plan[1];
    f->saved = plan[2];
    return MF_OK;
}

/* The chief says which step is traced. */
static mf_status agree_on_trace(fit *f)
{
    mf_team *team = f->t->team;
    const mf_collective c = mf_team_call(team, f->t->step, "what to trace");

    return mf_broadcast(team->group, &c, 0, &f->traced, sizeof f->traced);
}

static mf_status prepare(fit *f)
{
    mf_team *team = f->t->team;
    const bool leased =
        team && team->kind->lease; /* then nothing is known of the batches to come */
    const int64_t batch = f->o.batch > 0 ? f->o.batch : 32;
    const int64_t epochs = f->o.epochs > 0 ? f->o.epochs : 1;
    const int64_t per_epoch = (mf_dataset_count(f->train) + batch - 1) / batch;
    mf_iterator_options *order = &f->order;
    char *prefix = NULL;

    *order =
        (mf_iterator_options){ .batch = batch,
                               .in_order = f->o.in_order,
                               .slice = leased && f->o.slice == MF_SLICE_FILE ? MF_SLICE_FILE_BATCH
                                                                              : f->o.slice,
                               .seed = f->t->options.seed,
                               .shards = f->t->options.shards,
                               .n_shards = f->t->options.shards };
    if (mf_dataset_count(f->train) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set to train on is empty");
    f->total = f->o.steps > 0 ? f->o.steps : epochs * per_epoch;
    f->t->schedule.total = f->total;
    f->batch = batch < mf_dataset_count(f->train) ? batch : mf_dataset_count(f->train);
    f->per_epoch = per_epoch;
    if (!mf_team_is_chief(team))
        f->o.out = NULL; /* one writes for all */
    if (f->o.out && f->o.resume)
        MF_TRY(mf_checkpoints_restore(f->o.out, f->t, &prefix));
    mf_free(prefix);
    MF_TRY(mf_input_check_order(f->t, f->train, order));
    if (team) {
        MF_TRY(mf_team_align(team, f->t));
        MF_TRY(mf_input_take_near(f->t, f->train, order, f->o.near));
        order->shards = team->shards;
        order->first_shard = team->first_shard;
        order->n_shards = team->n_shards;
    }
    f->saves = f->o.out != NULL;
    f->saved = f->o.resume ? f->t->step : -1;
    if (mf_team_keeps(team))
        MF_TRY(agree_on_saves(f));
    f->traced = !f->o.trace ? 0 : f->o.trace_step > 0 ? f->o.trace_step : TRACED;
    if (mf_team_traces(team))
        MF_TRY(agree_on_trace(f));
    if (f->o.out)
        MF_TRY(mf_checkpoints_open(f->o.out, f->o.keep, &f->checkpoints));
    if (f->o.out && !leased)
        open_ledger(f, f->o.resume);
    MF_TRY(add_hooks(f));
    mf_feeding_init(&f->feeding, f->t, leased && f->o.input_threads == 0 ? 1 : f->o.input_threads);
    order->threads = f->feeding.input;
    MF_TRY(mf_agreement_init(&f->agreement, f->t, f->o.check_steps));
    MF_TRY(mf_iterator_new(f->train, order, &f->it));
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}

static mf_status run(fit *f)
{
    MF_TRY(mf_hook_loop_call_begin(&f->loop));
    MF_TRY(mf_hook_loop_call_created(&f->loop));
    f->t->loop = &f->loop;
    mf_board_begin(f->t->step, f->total);
    if (f->t->team)
        mf_board_shards(f->t->team->first_shard, f->t->team->n_shards);
    while (f->t->step < f->total && !f->stop) {
        const mf_status st = one_step(f);

        if (!f->t->team)
            f->stop = wants_stop(f);
        if (st != MF_OK && !mf_hook_loop_forgives(&f->loop, st))
            return st;
    }
    mf_board_phase(MF_PHASE_END);
    MF_TRY(settle(f));
    if (f->t->team && f->t->team->kind->finish)
        MF_TRY(f->t->team->kind->finish(f->t->team, f->t));
    return save(f, true);
}

static void end_loop(fit *f)
{
    f->t->loop = NULL;
    if (mf_hook_loop_deinit(&f->loop) != MF_OK)
        MF_WARN("the last events were not written: %s", mf_error_message());
    for (int i = f->o.n_hooks; i < f->loop.n_hooks; i++)
        mf_hook_free(&f->hooks[i]);
    mf_free(f->hooks);
}

mf_status mf_fit(mf_trainer *t, mf_dataset *train, mf_dataset *validation,
                 const mf_fit_options *options)
{
    fit f = { .t = t, .train = train, .validation = validation };
    mf_status st, closed;
    mf_error why;
    bool failed;

    mf_board_threads(mf_pool_threads(t->pool), 0);
    if (t->team && t->team->kind->serve)
        return t->team->kind->serve(t->team, t);
    if (options)
        f.o = *options;
    atomic_store(&t->stop, false);
    if (t->options.strategy)
        atomic_store(&t->options.strategy->stop, false);
    st = prepare(&f);
    if (st == MF_OK)
        st = run(&f);
    failed = st != MF_OK;
    f.loop.failed |= failed;
    if (failed && t->team)
        t->team->kind->failed(t->team, st);
    if (failed)
        mf_error_save(st, &why);
    if (f.it) {
        closed = mf_hook_loop_call_end(&f.loop);
        st = st == MF_OK ? closed : st;
    }
    end_loop(&f);
    mf_agreement_deinit(&f.agreement);
    mf_team_trace_deinit(&f.trace, t);
    mf_iterator_free(f.it);
    if (f.ledger)
        check_ledger(&f, mf_ledger_flush(f.ledger, false));
    if (f.ledger && mf_ledger_close(f.ledger) != MF_OK)
        MF_WARN("%s", mf_error_message());
    closed = mf_checkpoints_close(f.checkpoints);
    if (failed)
        return mf_error_restore(&why);
    return st == MF_OK ? closed : st;
}
