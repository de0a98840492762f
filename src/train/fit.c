/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - the loop: batches, steps, epochs, and whoever wants to know of them. */
#include "base/board.h"
#include "base/clock.h"
#include "base/log.h"
#include "train/agreement.h"
#include "train/feeding.h"
#include "train/input.h"
#include "train/loop.h"
#include "train/out_dir.h"
#include "train/roll_back.h"
#include "train/straggler.h"
#include "train/team_trace.h"

#include <string.h>

enum { TRACED = 10 }; /* the step whose trace is written, unless told: by then all is warm */

typedef struct fit {
    mf_trainer *t;
    mf_dataset *train, *validation;
    mf_fit_options o;
    mf_iterator *it;
    const char *out; /* where we write once we are the chief */
    mf_out_dir dir;
    mf_agreement agreement; /* with the other workers */
    mf_hook_loop loop;
    mf_hook *hooks; /* the caller's, then ours */
    int64_t total; /* steps of the whole training */
    int64_t saved; /* step of the last checkpoint */
    bool saves; /* there are to be checkpoints, though perhaps not by us */
    bool stop; /* somebody of the team wanted to, or there is nothing left */
    mf_feeding feeding; /* of threads */
    int64_t waited_ns; /* for the last batch */
    mf_team_trace trace; /* of all workers */
    mf_straggler straggler; /* of the chief */
    int64_t batch, per_epoch; /* samples of a batch; batches of an epoch */
    mf_iterator_options order;
    int64_t followed; /* the last step after which all was done that follows one */
    int64_t told_step,
        told_epoch; /* the last step that hooks were told of, and as an epoch's end */
    int64_t meetings; /* of the team, that we have taken note of */
    int64_t trouble_ns; /* when something failed because of others; 0: since then a step was done */
    mf_result results[MF_MAX_RESULTS]; /* of the last step */
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
    f->told_epoch = report->step;
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

static mf_status add_events(fit *f)
{
    const mf_summary_options events = { .dir = f->o.out,
                                        .every = { .steps = f->o.summary_steps },
                                        .graph = true,
                                        .weights_by_epoch = true };

    return mf_hook_summary(&events, &f->hooks[f->loop.n_hooks++]);
}

/* The caller's hooks, and that which writes events. */
static mf_status add_hooks(fit *f)
{
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
        MF_TRY(add_events(f));
    return mf_hook_loop_init(&f->loop);
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

/* The last checkpoint is on the disk by the time of the next one. */
static mf_status note_saved(fit *f)
{
    mf_team *team = f->t->team;

    if (!team || !team->kind->note_saved || team->saved || f->saved < 0)
        return MF_OK;
    team->saved = true;
    return team->kind->note_saved(team);
}

static mf_status save(fit *f, bool last)
{
    mf_snapshot *s = NULL;

    if (!f->saves || f->saved == f->t->step)
        return MF_OK;
    if (!last && others_save_the_last(f) && f->t->step >= f->total)
        return MF_OK; /* it comes soon */
    MF_TRY(note_saved(f));
    f->saved = f->t->step;
    mf_board_phase(MF_PHASE_SAVE);
    if (mf_team_keeps(f->t->team))
        MF_TRY(f->t->team->kind->collect(f->t->team, f->t->step));
    if (!f->dir.checkpoints)
        return MF_OK;
    if (last && others_save_the_last(f))
        MF_TRY(save_with_others(f, &s));
    if (!s && f->t->team && f->t->team->kind->before_save)
        MF_TRY(f->t->team->kind->before_save(f->t->team, f->t));
    mf_out_dir_flush(&f->dir);
    mf_hook_loop_flush(&f->loop); /* who goes on from here has the events up to here */
    return s ? mf_checkpoints_put(f->dir.checkpoints, s)
             : mf_checkpoints_save(f->dir.checkpoints, f->t);
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
    if (f->told_step != report->step) {
        f->told_step = report->step;
        MF_TRY(call_after_step(f, report));
    }
    if (saves)
        MF_TRY(save(f, false));
    if (!epoch)
        return MF_OK;
    if (f->told_epoch != report->step)
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
    const bool traced = t->step + 1 == t->standing.traced, together = mf_team_traces(t->team);

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

/* What others need to know of the step if they have missed its end. */
static void note_step(fit *f, const mf_batch *batch, double learning_rate)
{
    mf_trainer *t = f->t;

    t->standing.step_epoch = batch->epoch;
    t->standing.samples = batch->whole;
    t->standing.learning_rate = learning_rate;
    for (int i = 0; i < t->graph.n_reports; i++)
        t->standing.results[i] = f->results[i].value;
    mf_iterator_position(f->it, &t->epoch, &t->first);
    mf_out_dir_add(&f->dir, t->step, batch);
    if (f->trouble_ns > 0)
        MF_INFO("step %lld was done %.0f ms after others were found to be gone", (long long)t->step,
                (double)(mf_clock_ns() - f->trouble_ns) * 1e-6);
    f->trouble_ns = 0;
}

static mf_status one_step(fit *f)
{
    mf_trainer *t = f->t;
    const mf_batch *batch;
    double learning_rate;

    MF_TRY(next_batch(f, &batch));
    if (t->team)
        MF_TRY(t->team->kind->begin_step(t->team, t->step, batch->whole, wants_stop(f)));
    learning_rate = (double)mf_schedule_at(&t->schedule, t->step);
    MF_TRY(run_step(f, batch));
    note_step(f, batch, learning_rate);
    if (!t->team)
        return MF_OK;
    MF_TRY(t->team->kind->end_step(t->team, t->step, &f->stop));
    t->standing.stop = f->stop;
    return MF_OK;
}

/* The trainer stands at an earlier step again: so does all else. */
static mf_status go_back(fit *f)
{
    const mf_out_dir_data data = { f->train, &f->order, f->per_epoch, .leased = false };

    MF_TRY(mf_out_dir_go_back(&f->dir, f->o.out, f->t, &data));
    f->followed = f->told_step = f->told_epoch = f->t->step;
    f->saved = f->saved > f->t->step ? -1 : f->saved;
    if (f->t->team)
        MF_TRY(share(f));
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}

/* Are the weights still good? *back: they were not, and are those of an earlier step. */
static mf_status look_after(fit *f, bool *back)
{
    MF_TRY(mf_roll_back_if_due(f->t, f->o.out, f->dir.checkpoints));
    MF_TRY(mf_agreement_step(&f->agreement, f->t->step >= f->total || f->stop, back));
    return *back ? go_back(f) : MF_OK;
}

/* All that follows a step. Tried again after trouble, it does only what is left to do. */
static mf_status follow_step(fit *f)
{
    mf_trainer *t = f->t;
    const mf_standing *s = &t->standing;
    const mf_step_report report = { .step = t->step,
                                    .epoch = s->step_epoch,
                                    .samples = s->samples,
                                    .learning_rate = s->learning_rate,
                                    .results = f->results,
                                    .n_results = t->graph.n_reports,
                                    .skipped_steps = mf_guard_skipped(t) };
    bool back;

    MF_TRY(look_after(f, &back));
    if (back)
        return MF_OK;
    for (int i = 0; i < t->graph.n_reports; i++)
        f->results[i] = (mf_result){ t->graph.reports[i].name, s->results[i] };
    show_traffic(t->team);
    mf_board_step(report.step, report.epoch, report.samples,
                  report.n_results > 0 ? f->results[0].value : 0.0);
    if (t->team && t->team->size > 1 && mf_team_is_chief(t->team))
        mf_straggler_look(&f->straggler);
    MF_TRY(after_batch(f, &report));
    if (t->team)
        MF_TRY(share(f));
    MF_TRY(mf_feeding_step(&f->feeding, t, f->it, f->waited_ns));
    f->followed = t->step;
    return MF_OK;
}

/* ---- the team changes ---- */

/* The chief writes; what there is may be another worker's. */
static mf_status write_as_chief(fit *f)
{
    const mf_out_dir_data data = { f->train, &f->order, f->per_epoch, .leased = false };
    const mf_hook *events;

    mf_out_dir_catch_up(&f->dir, f->t->step, &data);
    if (!f->out || f->o.out)
        return MF_OK;
    f->o.out = f->out;
    f->saves = true;
    MF_TRY(mf_out_dir_take_over(&f->dir, f->out, f->o.keep, f->t, &data));
    MF_TRY(add_events(f));
    events = &f->hooks[f->loop.n_hooks - 1];
    return events->after_create_session(events->ctx, &f->loop);
}

/* We may have been given another state than we had, other shards, other duties. */
static mf_status take_note(fit *f)
{
    mf_trainer *t = f->t;
    mf_team *team = t->team;

    if (!team || f->meetings == team->meetings)
        return MF_OK;
    f->meetings = team->meetings;
    f->stop = t->standing.stop != 0;
    mf_agreement_forget(&f->agreement);
    mf_board_shards(team->first_shard, team->n_shards);
    mf_team_trace_deinit(&f->trace, t);
    if (!f->it) /* all is still to be made */
        return MF_OK;
    MF_TRY(mf_iterator_share(f->it, team->first_shard, team->n_shards));
    MF_TRY(mf_iterator_seek(f->it, t->epoch, t->first));
    return mf_team_is_chief(team) ? write_as_chief(f) : MF_OK;
}

static bool goes_on(const fit *f)
{
    return f->o.resume || (f->t->team && f->t->team->lost && f->t->team->saved);
}

static mf_status restore(fit *f)
{
    char *prefix = NULL;

    if (f->out && goes_on(f))
        MF_TRY(mf_checkpoints_restore(f->out, f->t, &prefix));
    if (f->t->team && f->t->team->lost && !prefix && f->t->step > 0)
        return MF_FAIL(MF_DATA_LOSS,
                       "what training has come to is lost with those who had it, and there is no "
                       "checkpoint; give --out and --save-steps, or more parameter servers");
    if (f->t->team && f->t->team->lost)
        MF_WARN("nobody is left that has all of the weights: training goes on from %s%s",
                prefix ? "the checkpoint " : "its beginning, for there is no checkpoint",
                prefix ? prefix : "");
    mf_free(prefix);
    return mf_input_check_order(f->t, f->train, &f->order);
}

/* Nobody of the team has any weights. */
static mf_status begin_team(void *ctx)
{
    return restore(ctx);
}

/* ---- before the first step ---- */

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

/* With others, if there are some: everybody begins where the chief, or a training that goes on
 * already, is. */
static mf_status find_place(fit *f)
{
    mf_trainer *t = f->t;
    mf_team *team = t->team;

    t->standing.traced = !f->o.trace ? 0 : f->o.trace_step > 0 ? f->o.trace_step : TRACED;
    if (mf_team_meets(team)) {
        MF_TRY(mf_input_check_order(t, f->train, &f->order));
        team->begin = begin_team;
        team->begin_ctx = f;
        if (!team->group)
            MF_TRY(mf_team_gather_round(team, t, MF_OK));
        return take_note(f);
    }
    t->has_state = mf_team_is_chief(team); /* one has what all begin with */
    MF_TRY(t->has_state ? restore(f) : mf_input_check_order(t, f->train, &f->order));
    return team ? mf_team_align(team, t) : MF_OK;
}

static void set_order(fit *f, bool leased)
{
    const int64_t batch = f->o.batch > 0 ? f->o.batch : 32;

    f->order =
        (mf_iterator_options){ .batch = batch,
                               .in_order = f->o.in_order,
                               .slice = leased && f->o.slice == MF_SLICE_FILE ? MF_SLICE_FILE_BATCH
                                                                              : f->o.slice,
                               .seed = f->t->options.seed,
                               .shards = f->t->options.shards,
                               .n_shards = f->t->options.shards };
    f->per_epoch = (mf_dataset_count(f->train) + batch - 1) / batch;
    f->batch = batch < mf_dataset_count(f->train) ? batch : mf_dataset_count(f->train);
}

static mf_status open_outputs(fit *f, bool leased)
{
    const mf_out_dir_data data = { f->train, &f->order, f->per_epoch, leased };

    if (!mf_team_is_chief(f->t->team))
        f->o.out = NULL; /* one writes for all */
    f->saves = f->o.out != NULL;
    f->saved = f->o.resume || f->meetings > 1 ? f->t->step : -1;
    if (mf_team_keeps(f->t->team))
        MF_TRY(agree_on_saves(f));
    if (!f->o.out)
        return MF_OK;
    return mf_out_dir_open(&f->dir, f->o.out, f->o.keep, f->t, &data, f->t->step > 0 && goes_on(f));
}

static mf_status prepare(fit *f)
{
    mf_team *team = f->t->team;
    const bool leased =
        team && team->kind->lease; /* then nothing is known of the batches to come */
    const int64_t epochs = f->o.epochs > 0 ? f->o.epochs : 1;

    if (mf_dataset_count(f->train) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set to train on is empty");
    set_order(f, leased);
    f->total = f->o.steps > 0 ? f->o.steps : epochs * f->per_epoch;
    f->t->schedule.total = f->total;
    f->out = f->o.out;
    MF_TRY(find_place(f));
    if (team) {
        if (!mf_team_meets(team)) /* those that come later do not know who has what */
            MF_TRY(mf_input_take_near(f->t, f->train, &f->order, f->o.near));
        f->order.shards = team->shards;
        f->order.first_shard = team->first_shard;
        f->order.n_shards = team->n_shards;
    }
    f->followed = f->told_step = f->told_epoch = f->t->step;
    MF_TRY(open_outputs(f, leased));
    MF_TRY(add_hooks(f));
    mf_feeding_init(&f->feeding, f->t, leased && f->o.input_threads == 0 ? 1 : f->o.input_threads);
    f->order.threads = f->feeding.input;
    MF_TRY(mf_agreement_init(&f->agreement, f->t, f->o.check_steps));
    MF_TRY(mf_iterator_new(f->train, &f->order, &f->it));
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}

/* Each worker has batches of its own, if there is one left. */
static mf_status one_leased_step(fit *f)
{
    MF_TRY(take_lease(f));
    if (f->stop)
        return MF_OK;
    MF_TRY(one_step(f));
    return follow_step(f);
}

/* The next that is to be done. */
static mf_status go_on(fit *f)
{
    mf_team *team = f->t->team;
    mf_status st = MF_OK;

    if (team && team->kind->lease)
        return one_leased_step(f);
    if (f->followed == f->t->step)
        st = team && team->changes ? mf_team_gather_round(team, f->t, MF_OK) : one_step(f);
    if (st == MF_OK)
        st = take_note(f);
    if (st == MF_OK && f->followed != f->t->step)
        st = follow_step(f);
    if (st != MF_OK && mf_team_meets(team)) {
        f->trouble_ns = f->trouble_ns > 0 ? f->trouble_ns : mf_clock_ns();
        st = mf_team_gather_round(team, f->t, st);
    }
    return st == MF_OK ? take_note(f) : st;
}

/* A failure that is forgiven is the end of what was being done. */
static mf_status go_on_or_forgive(fit *f)
{
    const mf_status st = go_on(f);

    if (!f->t->team)
        f->stop = wants_stop(f);
    if (st == MF_OK)
        return MF_OK;
    f->followed = f->t->step;
    return mf_hook_loop_forgives(&f->loop, st) ? MF_OK : st;
}

static bool is_over(const fit *f)
{
    const bool leases = f->t->team && f->t->team->kind->lease;

    return (leases || f->followed == f->t->step) && (f->t->step >= f->total || f->stop);
}

/* All steps are done. */
static mf_status finish(fit *f)
{
    mf_board_phase(MF_PHASE_END);
    MF_TRY(settle(f));
    if (f->t->team && f->t->team->kind->finish)
        MF_TRY(f->t->team->kind->finish(f->t->team, f->t));
    return save(f, true);
}

static mf_status run(fit *f)
{
    mf_status st;
    bool again;

    MF_TRY(mf_hook_loop_call_begin(&f->loop));
    MF_TRY(mf_hook_loop_call_created(&f->loop));
    f->t->loop = &f->loop;
    mf_board_begin(f->t->step, f->total);
    if (f->t->team)
        mf_board_shards(f->t->team->first_shard, f->t->team->n_shards);
    do {
        while (!is_over(f))
            MF_TRY(go_on_or_forgive(f));
        st = finish(f);
        again = st != MF_OK && mf_team_meets(f->t->team);
        if (again)
            MF_TRY(mf_team_gather_round(f->t->team, f->t, st));
        if (again)
            MF_TRY(take_note(f));
    } while (again);
    return st;
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
    mf_straggler_deinit(&f.straggler);
    mf_agreement_deinit(&f.agreement);
    mf_team_trace_deinit(&f.trace, t);
    mf_iterator_free(f.it);
    closed = mf_out_dir_close(&f.dir);
    if (failed)
        return mf_error_restore(&why);
    return st == MF_OK ? closed : st;
}
