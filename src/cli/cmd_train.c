/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - `meshflow train`: this task is a supervisor or a worker. */
#include "base/exit_code.h"
#include "cli/cluster_options.h"
#include "cli/resume.h"
#include "cli/train_options_read.h"
#include "cli/train_run.h"
#include "observe/status_page.h"
#include "supervisor/supervisor.h"

#include <signal.h>
#include <unistd.h>

/* The status page is opened first: opening data may take long, and peers that wait must see it. */
static mf_status open_job(mf_job *job, mf_args *args)
{
    mf_strategy_options o;
    mf_buf name = { 0 };
    mf_status st;

    MF_TRY(mf_resume_open(job, args));
    MF_TRY(mf_connect_options_read(args, &o));
    mf_job_name(job, args, &name);
    o.job = name.data;
    st = mf_job_show(&o);
    mf_buf_deinit(&name);
    MF_TRY(st);
    job->shown = true;
    mf_status_page_phase(MF_PHASE_LOAD);
    MF_TRY(mf_job_load(job, args, true));
    MF_TRY(mf_resume_check(job, args));
    mf_status_page_phase(MF_PHASE_START);
    return MF_OK;
}

/* The supervisor has the same job name as its tasks. */
static mf_status supervise(mf_args *args, const mf_cluster *c)
{
    mf_buf name = { 0 };
    mf_strategy_options o = { 0 };
    mf_job job;
    mf_status st = mf_resume_open(&job, args);

    if (st == MF_OK)
        st = mf_connect_options_read(args, &o);
    if (st == MF_OK)
        mf_job_name(&job, args, &name);
    if (st == MF_OK)
        st = mf_buf_finish(&name);
    if (st == MF_OK)
        st = mf_supervisor_run(c, name.data, mf_job_timeout_ns(&o), &args->exit_code);
    if (st == MF_CANCELLED && args->exit_code == 0) /* stopped while it waited for its store */
        args->exit_code = MF_EXIT_STOPPED;
    mf_buf_deinit(&name);
    mf_job_deinit(&job);
    return st;
}

/* *done: this task is a supervisor, and its job is over. Mistakes in the cluster description are
 * reported later, by the worker. */
static mf_status run_supervisor(mf_train_run *run, mf_args *args, bool *done)
{
    mf_cluster_request r;
    mf_cluster *c;
    mf_status st = MF_OK;

    *done = false;
    MF_TRY(mf_cluster_request_read(args, &r));
    MF_TRY(mf_cluster_examine(&r, &c));
    run->replan.call.workers = c->size;
    run->replan.call.hosts = c->local_size > 0 ? c->size / c->local_size : 1;
    if (c->n_mistakes == 0 && mf_supervisor_is_one(c)) {
        st = supervise(args, c);
        *done = st == MF_OK;
    }
    mf_cluster_free(c);
    return st;
}

static mf_status run_worker(mf_train_run *run, mf_args *args)
{
    mf_train_handle_signals(NULL, NULL);
    MF_TRY(mf_train_options_stop(args, &run->converged));
    MF_TRY(open_job(run->job, args));
    return mf_train_work(run, args);
}

static int exit_code_of(const mf_train_run *run, mf_status st)
{
    if (!run->works)
        return mf_exit_of_setup(st);
    return run->job->trainer && run->job->trainer->lost ? MF_EXIT_LOST : mf_exit_of_work(st);
}

static mf_status train_run(mf_args *args)
{
    int64_t priority = 0;
    bool done;
    mf_job job;
    mf_train_run run = { .job = &job, .args = args };
    mf_status st;

    MF_TRY(mf_args_int(args, "priority", 1, MF_PRIORITY_MAX, &priority));
    if (priority > 0) /* before threads are started: they inherit it */
        MF_TRY(mf_priority_set(getpid(), (int)priority));
    job = (mf_job){ 0 };
    st = run_supervisor(&run, args, &done);
    if (st == MF_OK && !done)
        st = run_worker(&run, args);
    if (st != MF_OK && args->exit_code == 0 && !args->usage) {
        /* Peers that lose this task end, and the launcher then stops it: the reason and the exit
         * code must be reported all the same. */
        (void)signal(SIGTERM, SIG_IGN);
        args->exit_code = exit_code_of(&run, st);
    }
    mf_job_deinit(&job);
    mf_hook_free(&run.converged);
    mf_chosen_deinit(&run.chosen);
    mf_buf_deinit(&run.summary);
    return st;
}

const mf_command mf_command_train = {
    .name = "train",
    .arguments = "",
    .summary = "train a model",
    .about =
        "Reads the data, builds the model, trains and tests it. The weights depend only on data, "
        "settings, seed and number of shards. They do not depend on the number of threads, nor "
        "on how often training was killed and resumed.",
    .options = mf_train_options,
    .examples = (const char *const[]){ "meshflow train --model mlp --data fashion-mnist --epochs 3",
                                       "meshflow train --model cnn-small --data fashion-mnist "
                                       "--optimizer adam --epochs 5 --out run",
                                       NULL },
    .min_args = 0,
    .max_args = 0,
    .exits = MF_EXITS_OF_JOBS,
    .run = train_run,
};
