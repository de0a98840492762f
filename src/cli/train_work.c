/* SPDX-License-Identifier: Apache-2.0 */
/* train_work.c - the run of `meshflow train`: fit, validate, test, print the result. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "cli/progress.h"
#include "cli/resume.h"
#include "cli/train_options_read.h"
#include "cli/train_run.h"
#include "train/loop/dist.h"

#include <string.h>

/* Runs once the output directory is locked. */
static mf_status note_model(void *ctx, mf_trainer *t)
{
    const mf_train_run *run = ctx;
    mf_model_note note;

    (void)t;
    if (!run->out || !mf_strategy_is_chief(run->job->strategy))
        return MF_OK;
    mf_job_note(run->job, run->args, &note);
    MF_TRY(mf_resume_note(run->job, run->args, &note));
    return mf_model_note_write(run->out, &note);
}

static mf_status train_work_count_step(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    mf_train_run *run = ctx;
    const int64_t now = mf_clock_ns();

    (void)t;
    run->loss = report->results[0].value;
    run->loss_known = true;
    run->last_ns = now;
    if (run->first_step_ns == 0) {
        run->first_step_ns = mf_clock_since_start_ns();
        run->begin_ns = now;
        return MF_OK;
    }
    run->steps++;
    run->samples += report->samples;
    return MF_OK;
}

/* This worker evaluates the convergence rule. A stop request reaches all workers, so the chief is
 * enough; where the chief may be lost every worker evaluates the rule, with the same result. */
static bool watches_convergence(const mf_strategy *s)
{
    return mf_strategy_is_chief(s) || mf_dist_judges_groups(s->dist) ||
           mf_dist_may_recover(s->dist);
}

static mf_status fit_with_hooks(mf_train_run *run, mf_progress *progress, mf_fit_options fit)
{
    mf_job *job = run->job;
    mf_hook hooks[4] = { { .ctx = run,
                           .begin = note_model,
                           .after_step = train_work_count_step,
                           .take_over = note_model },
                         mf_progress_hook(progress) };
    mf_status st;
    bool over;

    run->total = progress->total;
    run->out = fit.out;
    fit.hooks = hooks;
    fit.n_hooks = 2;
    if (run->converged.ctx && watches_convergence(job->strategy))
        hooks[fit.n_hooks++] = run->converged;
    if (run->replan.chosen && mf_strategy_is_chief(job->strategy))
        hooks[fit.n_hooks++] = mf_replan_hook(&run->replan);
    mf_train_handle_signals(job->trainer, job->strategy);
    st = mf_fit(job->trainer, job->train, job->validation, &fit);
    /* A launcher signals its tasks one after the other. A task that has stopped because another one
     * was signalled gets its own signal later, which must not kill it; nor a task that is about to
     * report its failure. */
    over = mf_train_verdict(run, &progress->ended) || mf_trainer_step(job->trainer) >= run->total;
    if (st == MF_OK && over)
        mf_train_handle_signals(NULL, NULL);
    else
        mf_train_ignore_next_signal();
    run->failed = st != MF_OK;
    return st;
}

/* With the last weights, whether or not an epoch has ended with them. */
static mf_status validate(mf_train_run *run, mf_progress *progress)
{
    int n = 0;

    if (!run->job->validation)
        return MF_OK;
    MF_TRY(mf_evaluate(run->job->trainer, run->job->validation, run->validation, &n));
    run->n_validation = n;
    mf_progress_validated(progress, run->validation, n);
    return MF_OK;
}

/* The last checkpoint has been written, if there is an output directory. */
static mf_status report_stopped(const mf_train_run *run, mf_args *args)
{
    const char *out = mf_args_value(args, "out");

    args->exit_code = MF_EXIT_STOPPED;
    if (out && mf_strategy_is_chief(run->job->strategy))
        mf_args_hint(args, "--resume continues the training in '%s'", out);
    return MF_FAIL(MF_CANCELLED, "training was stopped after step %lld of %lld%s",
                   (long long)mf_trainer_step(run->job->trainer), (long long)run->total,
                   out ? "" : "; nothing was saved: there is no --out");
}

/* The chief prints the result. If it dies before the barrier, the next chief prints it. */
static mf_status print_result(const mf_train_run *run, bool json, const mf_result *test, int n_test)
{
    mf_strategy *strategy = run->job->strategy;
    bool printed = !json;
    mf_status st;

    do {
        if (!printed && mf_strategy_is_chief(strategy)) {
            MF_TRY(mf_train_print_json(run, test, n_test));
            printed = true;
        }
        st = mf_strategy_barrier(strategy, "the result");
        if (st != MF_OK && !mf_dist_may_recover(strategy->dist))
            return st;
        if (st != MF_OK) /* no peer is left to wait for */
            st = mf_dist_rendezvous(strategy->dist, run->job->trainer, st) == MF_OK ? MF_ABORTED
                                                                                    : MF_OK;
    } while (st != MF_OK);
    return MF_OK;
}

static void warn_of_restart(const mf_job *job)
{
    const int64_t from = job->trainer->progress.restarted - 1;

    if (from >= 0 && mf_strategy_is_chief(job->strategy))
        MF_WARN(
            "training was restarted from step %lld because all tasks that held the weights were "
            "lost: later steps were repeated",
            (long long)from);
}

mf_status mf_train_work(mf_train_run *run, mf_args *args)
{
    mf_job *job = run->job;
    const char *state, *ended = "";
    mf_progress progress = { .quiet = mf_args_has(args, "quiet"),
                             .json = mf_args_has(args, "json") };
    mf_fit_options fit = { 0 };
    mf_result test[MF_MAX_RESULTS];
    mf_status fitted, st;
    mf_error why;
    int n_test = 0;

    MF_TRY(mf_train_options_read(args, &job->compile, &fit));
    MF_TRY(mf_train_prepare(run, args, fit.batch));
    MF_TRY(mf_progress_init(&progress, job, &fit));
    run->works = true;
    fitted = fit_with_hooks(run, &progress, fit);
    MF_TRY(mf_train_summarize_plan(run, &progress.planned));
    if (fitted != MF_OK) /* the result is printed all the same, e.g. if a checkpoint failed */
        mf_error_save(fitted, &why);
    st = fitted == MF_OK || run->loss_known ? MF_OK : fitted;
    if (fitted == MF_OUT_OF_RANGE && mf_strategy_is_over(job->strategy)) {
        MF_WARN("%s", why.message); /* this worker joined too late: no failure */
        if (job->trainer->dist->stopped)
            args->exit_code = MF_EXIT_STOPPED;
        mf_progress_deinit(&progress);
        return MF_OK;
    }
    if (fitted == MF_CANCELLED && mf_strategy_has_left(job->strategy)) {
        MF_INFO("%s after step %lld", why.message, (long long)mf_trainer_step(job->trainer));
        args->exit_code = MF_EXIT_STOPPED;
        mf_progress_deinit(&progress);
        return fitted;
    }
    if (mf_strategy_serves(job->strategy)) {
        mf_progress_deinit(&progress);
        return fitted;
    }
    if (fitted != MF_OK && mf_strategy_size(job->strategy) > 1) { /* the peers have left */
        if (st == MF_OK && mf_args_has(args, "json") && mf_strategy_is_chief(job->strategy))
            st = mf_train_print_json(run, NULL, 0);
        mf_progress_deinit(&progress);
        return mf_error_restore(&why);
    }
    if (st == MF_OK)
        st = validate(run, &progress);
    if (st == MF_OK && !mf_args_has(args, "no-test"))
        st = mf_evaluate(job->trainer, job->test, test, &n_test);
    if (st == MF_OK)
        st = mf_progress_end(&progress, test, n_test);
    if (st == MF_OK && mf_args_has(args, "explain") && mf_strategy_is_chief(job->strategy))
        st = mf_train_explain(job->strategy);
    warn_of_restart(job);
    if (st == MF_OK) /* last: programs read the last line */
        st = print_result(run, mf_args_has(args, "json"), test, n_test);
    state = mf_train_verdict(run, &ended);
    if (fitted != MF_OK)
        st = mf_error_restore(&why);
    else if (st == MF_OK && state && strcmp(state, "diverged") == 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "training %s", ended);
    else if (st == MF_OK && mf_train_was_stopped(run))
        st = report_stopped(run, args);
    mf_progress_deinit(&progress);
    return st;
}
