/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c - the loop: batches, steps, epochs, hooks, and recovery after a lost peer. */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "data/file_slices.h"
#include "observe/status_page.h"
#include "train/loop/fit_private.h"
#include "train/loop/roll_back.h"
#include "train/loop/variable_query.h"
#include "train/step/offload.h"

/* ---- hooks ---- */

/* Only the chief writes events; another worker may have been the chief before. */
static bool is_heard(const mf_fit_ctx *f, int hook)
{
    return hook < f->o.n_hooks || mf_dist_is_chief(f->t->dist);
}

static mf_status call_after_step(mf_fit_ctx *f, const mf_step_report *report)
{
    MF_CALLBACK;
    for (int i = 0; i < f->loop.n_hooks; i++) {
        const mf_hook *h = &f->hooks[i];

        if (h->after_step && is_heard(f, i))
            MF_TRY(h->after_step(h->ctx, f->t, report));
    }
    return MF_OK;
}

static mf_status call_after_epoch(mf_fit_ctx *f, const mf_step_report *report)
{
    mf_result results[MF_MAX_RESULTS];
    int n = 0;

    mf_status_page_phase(MF_PHASE_EVALUATE);
    if (f->validation)
        MF_TRY(mf_evaluate(f->t, f->validation, results, &n));
    f->reported_epoch = report->step;
    MF_CALLBACK;
    for (int i = 0; i < f->loop.n_hooks; i++) {
        const mf_hook *h = &f->hooks[i];

        if (h->after_epoch && is_heard(f, i))
            MF_TRY(h->after_epoch(h->ctx, f->t, report, results, n));
    }
    return MF_OK;
}

/* ---- the loop ---- */

/* All workers' variables are equal from here on. */
static mf_status fit_settle(mf_fit_ctx *f)
{
    return mf_dist_settle(f->t->dist, &f->stop);
}

/* Steps are reported once, even if they are repeated. Leased steps come in any order. */
static bool is_reported(const mf_fit_ctx *f, int64_t last, int64_t step)
{
    const bool leased = mf_dist_leases_batches(f->t->dist);

    return leased ? last == step : last >= step;
}

int64_t mf_fit_progress(const mf_fit_ctx *f)
{
    const mf_dist *dist = f->t->dist;

    return MF_DIST_HAS(dist, step, progress) ? dist->ops.step->progress(dist) : f->t->step;
}

/* Has the job passed a multiple of `every` steps since this worker's last step? It does only some
 * of the leased batches. */
static bool passes(const mf_fit_ctx *f, int64_t now, int64_t every)
{
    return f->progress >= 0 && now / every > f->progress / every;
}

static mf_status after_batch(mf_fit_ctx *f, const mf_step_report *report)
{
    const bool leased = mf_dist_leases_batches(f->t->dist);
    const int64_t now = mf_fit_progress(f);
    const bool between = leased && mf_dist_can(f->t->dist, MF_DIST_SAVES_BETWEEN);
    const bool saves =
        f->o.save_steps > 0 && !between &&
        (leased ? passes(f, now, f->o.save_steps) : f->t->step % f->o.save_steps == 0);
    const bool epoch = leased ? passes(f, now, f->per_epoch) : f->t->epoch != report->epoch;

    if (saves || epoch)
        MF_TRY(fit_settle(f));
    if (!is_reported(f, f->reported_step, report->step)) {
        f->reported_step = report->step;
        MF_TRY(call_after_step(f, report));
    }
    if (saves)
        MF_TRY(mf_fit_save(f, false));
    if (epoch && !is_reported(f, f->reported_epoch, report->step))
        MF_TRY(call_after_epoch(f, report));
    if (epoch && f->o.save_steps == 0 && !between)
        MF_TRY(mf_fit_save(f, false));
    f->progress = now;
    return MF_OK;
}

/* Each worker has batches of its own: go to the next one. */
static mf_status seek_leased_batch(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    mf_dist_lease lease = { .total = f->total };

    if (f->out)
        lease.save_every = f->o.save_steps > 0 ? f->o.save_steps : f->per_epoch;
    MF_TRY(t->dist->ops.step->lease(t->dist, &lease));
    while (lease.save && !lease.over) {
        MF_TRY(mf_fit_save(f, false));
        MF_TRY(t->dist->ops.step->lease(t->dist, &lease));
    }
    f->stop = lease.over;
    if (f->stop)
        return MF_OK;
    t->step = lease.batch;
    if (f->progress < 0)
        f->progress = mf_fit_progress(f);
    return mf_iterator_seek(f->it, lease.batch / f->per_epoch,
                            lease.batch % f->per_epoch * f->batch);
}

/* With a trace, if this is the step. Workers that do it together write one. */
static mf_status fit_run_step(mf_fit_ctx *f, const mf_batch *batch)
{
    mf_trainer *t = f->t;
    const bool traced = t->step + 1 == t->progress.traced,
               together = mf_dist_traces_together(t->dist);

    t->trace = traced && !together && mf_dist_is_chief(t->dist) ? f->o.trace : NULL;
    if (traced && together)
        MF_TRY(mf_dist_trace_begin(&f->trace, t->dist, t));
    MF_TRY(mf_trainer_run_step(t, f->train, batch, f->results));
    MF_TRY(mf_offload_slots(t));
    return traced && together ? mf_dist_trace_end(&f->trace, t->dist, t, f->o.trace) : MF_OK;
}

mf_status mf_fit_share(mf_fit_ctx *f)
{
    const mf_dist *dist = f->t->dist;

    mf_status_page_shards(dist->shards.first, dist->shards.n);
    MF_TRY(mf_iterator_share_part(f->it, dist->shards.first, dist->shards.n,
                                  dist->shards.part_first, dist->shards.part_n));
    return mf_fit_read_rows(f);
}

static void show_traffic(const mf_dist *dist)
{
    mf_traffic traffic;

    if (!MF_DIST_HAS(dist, trace, traffic))
        return;
    mf_dist_traffic(dist, &traffic);
    mf_status_page_traffic(traffic.pushed_bytes > 0 ? traffic.pushed_bytes : traffic.bytes);
}

/* `meshflow job set --mesh` for a training without a mesh. A mesh handles the request itself. */
static void refuse_layout(const mf_dist *dist)
{
    mf_status_page_layout wish;

    if (!mf_dist_can(dist, MF_DIST_STATE_IN_SLICES) && mf_status_page_take_layout(&wish))
        mf_status_page_answer_layout(
            MF_VARIABLE_REQUEST_REFUSED,
            "this training has no mesh, so there is no layout to change; start it with --mesh");
}

/* Between two steps is the time to change threads. */
static mf_status next_batch(mf_fit_ctx *f, const mf_batch **out)
{
    const int wish = mf_status_page_take_thread_request();
    int64_t begin;

    if (wish > 0)
        mf_input_autotune_fix(&f->feeding, f->t, wish);
    refuse_layout(f->t->dist);
    mf_status_page_phase(MF_PHASE_INPUT);
    begin = mf_clock_ns();
    MF_TRY(mf_trainer_next(f->it, out));
    f->waited_ns = mf_clock_ns() - begin;
    mf_status_page_phase(MF_PHASE_STEP);
    return MF_OK;
}

/* What other workers need if they have missed the end of the step. */
static void fit_note_step(mf_fit_ctx *f, const mf_batch *batch, double learning_rate)
{
    mf_trainer *t = f->t;

    t->progress.step_epoch = batch->epoch;
    t->progress.samples = batch->whole;
    t->progress.learning_rate = learning_rate;
    for (int i = 0; i < t->graph.n_reports; i++)
        t->progress.results[i] = f->results[i].value;
    mf_iterator_position(f->it, &t->epoch, &t->first);
    mf_output_dir_add(&f->dir, t, batch);
    mf_dist_step_done(t->dist, t->step);
}

/* Will a hook or a check read variables after this step? All hooks are asked. */
static bool will_look(mf_fit_ctx *f)
{
    bool looks = mf_replica_check_looks(&f->agreement);

    MF_CALLBACK;
    for (int i = 0; i < f->loop.n_hooks; i++) {
        const mf_hook *h = &f->hooks[i];

        if (h->looks && is_heard(f, i))
            looks |= h->looks(h->ctx, f->t, f->t->step);
    }
    return looks;
}

static mf_status one_step(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    const mf_batch *batch;
    double learning_rate;

    MF_TRY(next_batch(f, &batch));
    if (t->dist)
        mf_fit_note_rows(f, batch);
    MF_TRY(mf_dist_begin_step(t->dist, t->step, batch->whole, mf_trainer_wants_stop(t)));
    learning_rate = (double)mf_schedule_at(&t->schedule, t->step);
    MF_TRY(fit_run_step(f, batch));
    fit_note_step(f, batch, learning_rate);
    if (!t->dist)
        return MF_OK;
    t->dist->reads_variables = will_look(f);
    MF_TRY(mf_dist_end_step(t->dist, t->step, &f->stop));
    t->progress.stop = f->stop;
    return MF_OK;
}

/* ---- after a rendezvous ---- */

/* The chief writes; the files may be another worker's. */
static mf_status take_over_output(mf_fit_ctx *f)
{
    const mf_output_dir_data data = { f->train, &f->order, f->per_epoch,
                                      .leased = mf_dist_leases_batches(f->t->dist) };
    const mf_hook *events;

    if (!data.leased)
        mf_output_dir_catch_up(&f->dir, f->o.out, f->t, &data);
    if (!f->out || f->o.out)
        return MF_OK;
    MF_TRY(mf_fit_claim(f));
    f->o.out = f->out;
    f->saves = true;
    MF_TRY(mf_output_dir_take_over(&f->dir, f->out, f->o.keep, f->t, &data));
    MF_TRY(mf_fit_add_events(f));
    for (int i = 0; i < f->o.n_hooks; i++) {
        if (f->hooks[i].take_over)
            MF_TRY(f->hooks[i].take_over(f->hooks[i].ctx, f->t));
    }
    events = &f->hooks[f->loop.n_hooks - 1];
    return events->after_create_session(events->ctx, &f->loop);
}

/* State, shards and role of this worker may have changed. */
mf_status mf_fit_follow_rendezvous(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    mf_dist *dist = t->dist;

    if (!dist || f->rendezvous_count == dist->rendezvous_count)
        return MF_OK;
    f->rendezvous_count = dist->rendezvous_count;
    f->progress = -1;
    f->stop = t->progress.stop != 0;
    if (f->followed > t->step) /* a step that not all workers completed is repeated */
        f->followed = t->step;
    mf_replica_check_forget(&f->agreement);
    mf_status_page_shards(dist->shards.first, dist->shards.n);
    mf_dist_trace_deinit(&f->trace, t);
    if (!f->it) /* the loop is still being prepared */
        return MF_OK;
    MF_TRY(mf_fit_share(f));
    MF_TRY(mf_iterator_seek(f->it, t->epoch, t->first));
    if (mf_dist_is_chief(dist))
        return take_over_output(f);
    mf_output_dir_hand_over(&f->dir);
    return MF_OK;
}

/* ---- after a step ---- */

/* The trainer is back at an earlier step: so are files, reports and input. */
static mf_status fit_go_back(mf_fit_ctx *f)
{
    const mf_output_dir_data data = { f->train, &f->order, f->per_epoch, .leased = false };

    MF_TRY(mf_output_dir_go_back(&f->dir, f->o.out, f->t, &data));
    f->followed = f->reported_step = f->reported_epoch = f->t->step;
    f->saved = f->saved > f->t->step ? -1 : f->saved;
    if (f->t->dist)
        MF_TRY(mf_fit_share(f));
    return mf_iterator_seek(f->it, f->t->epoch, f->t->first);
}

/* Check the weights. *back: they were replaced by those of an earlier step. */
static mf_status look_after(mf_fit_ctx *f, bool *back)
{
    MF_TRY(mf_roll_back_if_due(f->t, f->o.out, f->dir.checkpoints));
    MF_TRY(mf_replica_check_step(&f->agreement, f->t->step >= f->total || f->stop, back));
    return *back ? fit_go_back(f) : MF_OK;
}

/* Everything that follows a step. After a failure a second call does only the rest. */
static mf_status follow_step(mf_fit_ctx *f)
{
    mf_trainer *t = f->t;
    const mf_train_progress *s = &t->progress;
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
    show_traffic(t->dist);
    mf_status_page_step(report.step, report.epoch, report.samples,
                        report.n_results > 0 ? f->results[0].value : 0.0);
    if (t->dist && t->dist->size > 1 && mf_dist_is_chief(t->dist))
        mf_straggler_look(&f->straggler);
    MF_TRY(after_batch(f, &report));
    if (t->dist)
        MF_TRY(mf_fit_share(f));
    MF_TRY(mf_input_autotune_step(&f->feeding, t, f->it, f->waited_ns));
    mf_variable_query_answer(t);
    f->followed = t->step;
    return MF_OK;
}

/* Lease a batch, if one is left. */
static mf_status one_leased_step(mf_fit_ctx *f)
{
    MF_TRY(seek_leased_batch(f));
    if (f->stop)
        return MF_OK;
    MF_TRY(one_step(f));
    return follow_step(f);
}

/* The next that is to be done. */
static mf_status do_next(mf_fit_ctx *f)
{
    mf_dist *dist = f->t->dist;
    mf_status st = MF_OK;

    if (mf_dist_leases_batches(dist))
        st = dist->rendezvous_due ? mf_dist_rendezvous(dist, f->t, MF_OK) : one_leased_step(f);
    else if (f->followed == f->t->step)
        st = dist && dist->rendezvous_due ? mf_dist_rendezvous(dist, f->t, MF_OK) : one_step(f);
    if (st == MF_OK)
        st = mf_fit_follow_rendezvous(f);
    if (st == MF_OK && !mf_dist_leases_batches(dist) && f->followed != f->t->step)
        st = follow_step(f);
    if (st != MF_OK && mf_dist_may_recover(dist))
        st = mf_dist_rendezvous(dist, f->t, st);
    return st == MF_OK ? mf_fit_follow_rendezvous(f) : st;
}

/* A failure that a hook forgives ends the current step. */
static mf_status do_next_or_forgive(mf_fit_ctx *f)
{
    const mf_status st = do_next(f);

    if (!f->t->dist)
        f->stop = mf_trainer_wants_stop(f->t);
    if (st == MF_OK)
        return MF_OK;
    f->followed = f->t->step;
    return mf_hook_loop_forgives(&f->loop, st) ? MF_OK : st;
}

static bool fit_is_over(const mf_fit_ctx *f)
{
    if (mf_dist_leases_batches(f->t->dist))
        return f->stop; /* batches of lost workers may be leased again */
    return f->followed == f->t->step && (f->t->step >= f->total || f->stop);
}

/* All steps are done. The job is over once its result is on disk, not before: later tasks are
 * rejected then. */
static mf_status fit_finish(mf_fit_ctx *f)
{
    mf_status_page_phase(MF_PHASE_END);
    MF_TRY(fit_settle(f));
    MF_TRY(mf_dist_finish(f->t->dist, f->t));
    MF_TRY(mf_fit_save(f, true));
    MF_TRY(mf_fit_confirm(f));
    return mf_dist_over(f->t->dist);
}

static mf_status fit_run(mf_fit_ctx *f)
{
    mf_status st;
    bool again;

    MF_TRY(mf_hook_loop_call_begin(&f->loop));
    MF_TRY(mf_hook_loop_call_created(&f->loop));
    f->t->loop = &f->loop;
    mf_status_page_begin(f->t->step, f->total);
    if (f->t->dist)
        mf_status_page_shards(f->t->dist->shards.first, f->t->dist->shards.n);
    do {
        while (!fit_is_over(f)) {
            MF_TRY(do_next_or_forgive(f));
            mf_trainer_lock_pass(&f->t->turns);
        }
        st = fit_finish(f);
        again = st != MF_OK && mf_dist_may_recover(f->t->dist);
        if (again)
            MF_TRY(mf_dist_rendezvous(f->t->dist, f->t, st));
        if (again)
            MF_TRY(mf_fit_follow_rendezvous(f));
        f->saved = again ? -1 : f->saved; /* a lost worker may have written it */
    } while (again);
    return st;
}

static void end_loop(mf_fit_ctx *f)
{
    f->t->loop = NULL;
    if (mf_hook_loop_deinit(&f->loop) != MF_OK)
        MF_WARN("the last events were not written: %s", mf_error_message());
    for (int i = f->o.n_hooks; i < f->loop.n_hooks; i++)
        mf_hook_free(&f->hooks[i]);
    mf_free(f->hooks);
}

/* At the end: a signal may arrive before the beginning. */
static void clear_stop(mf_trainer *t)
{
    atomic_store(&t->stop, false);
    if (t->options.strategy)
        atomic_store(&t->options.strategy->stop, false);
}

static mf_status fit_fit(mf_trainer *t, mf_dataset *train, mf_dataset *validation,
                         const mf_fit_options *options)
{
    mf_fit_ctx f = { .t = t, .train = train, .validation = validation, .restored = -1 };
    mf_status st, closed;
    mf_error why;
    bool failed;

    MF_ALONE(&t->turns);
    if (options)
        f.o = *options;
    st = mf_fit_prepare(&f);
    if (st == MF_OK)
        st = fit_run(&f);
    clear_stop(t);
    failed = st != MF_OK;
    f.loop.failed |= failed;
    if (failed)
        mf_dist_failed(t->dist, st);
    if (failed)
        mf_error_save(st, &why);
    if (f.it) {
        closed = mf_hook_loop_call_end(&f.loop);
        st = st == MF_OK ? closed : st;
    }
    end_loop(&f);
    mf_straggler_deinit(&f.straggler);
    mf_replica_check_deinit(&f.agreement);
    mf_dist_trace_deinit(&f.trace, t);
    mf_iterator_free(f.it);
    closed = mf_output_dir_close(&f.dir);
    mf_output_lock_release(f.claim);
    if (failed)
        return mf_error_restore(&why);
    return st == MF_OK ? closed : st;
}

static mf_status check_counts(const mf_fit_options *o)
{
    if (o->batch < 0 || o->epochs < 0 || o->steps < 0 || o->save_steps < 0 || o->keep < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mf_fit(): batch %lld, epochs %lld, steps %lld, save_steps %lld, keep %d: "
                       "none may be negative",
                       (long long)o->batch, (long long)o->epochs, (long long)o->steps,
                       (long long)o->save_steps, o->keep);
    if (o->input_threads < 0 || o->trace_step < 0 || o->summary_steps < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "mf_fit(): input_threads %d, trace_step %lld, summary_steps %lld: none may "
                       "be negative",
                       o->input_threads, (long long)o->trace_step, (long long)o->summary_steps);
    return mf_slicing_check(o->slice);
}

mf_status mf_fit(mf_trainer *t, mf_dataset *train, mf_dataset *validation,
                 const mf_fit_options *options)
{
    MF_ENTRY;
    MF_NEED(t);

    const bool serves = mf_dist_serves(t->dist);
    mf_status st;

    if (!serves)
        MF_NEED(train);
    if (options) {
        MF_NEED_ARRAY(options->hooks, options->n_hooks);
        MF_TRY(check_counts(options));
    }
    if (atomic_exchange(&t->fitting, true))
        return MF_FAIL(MF_FAILED_PRECONDITION, "mf_fit() of this trainer runs already");
    mf_status_page_threads(mf_pool_threads(t->pool), 0);
    st =
        serves ? t->dist->ops.lifecycle->serve(t->dist, t) : fit_fit(t, train, validation, options);
    atomic_store(&t->fitting, false);
    return st;
}
