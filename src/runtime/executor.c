/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - threads take ready items, run them, and forward tokens.
 *
 * One lock per run guards all tokens; kernels run without it. A runner is the calling thread or a
 * task of the pool; it works until no item is ready. Runners are counted from submission, so the
 * run's memory stays valid until the last one has ended. Asynchronous kernels hold no runner: when
 * they complete, on any thread, a runner is submitted for the items that became ready. */
#include "runtime/executor.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/quota.h"
#include "base/stop.h"
#include "runtime/busy_meter.h"
#include "runtime/run_stall_report.h"
#include "runtime/run_state.h"

#include <stdio.h>

enum { MAX_RUNNERS = 64 };

/* ---- failure ---- */

/* Keep the first error, with the node's name. The caller holds the lock. */
static void record_failure(mf_run_state *run, mf_status st, const mf_node *node)
{
    char after[300];

    if (run->failed)
        return;
    run->failed = true;
    if (node) {
        (void)snprintf(after, sizeof after, "\n\t [[{{node %.200s}}]]", node->name);
        (void)mf_error_wrap(st, "", after);
    }
    mf_error_save(st, &run->error);
}

/* The first error ends the run. The caller holds the lock, which is released meanwhile: the hooks
 * of cancel complete kernels, which take it. */
static void executor_fail(mf_run_state *run, mf_status st, const mf_node *node)
{
    if (run->failed)
        return;
    record_failure(run, st, node);
    pthread_mutex_unlock(&run->lock);
    mf_cancel_raise(&run->cancel);
    pthread_mutex_lock(&run->lock);
}

/* ---- asynchronous kernels ---- */

static void submit_runner(mf_run_state *run);

/* Adds it to the list of waiting kernels, for reports. The caller holds the lock. */
static void executor_list_waiting(mf_run_state *run, mf_async *a)
{
    a->began = mf_clock_ns();
    a->prev = NULL;
    a->next = run->waiting;
    if (run->waiting)
        run->waiting->prev = a;
    run->waiting = a;
}

static void executor_take_off(mf_run_state *run, mf_async *a)
{
    *(a->prev ? &a->prev->next : &run->waiting) = a->next;
    if (a->next)
        a->next->prev = a->prev;
}

static void start_async(mf_run_state *run, const mf_item *item, mf_ready what)
{
    mf_async *a;
    mf_status st = MF_OK;

    pthread_mutex_lock(&run->lock);
    a = run->idle_async;
    if (a)
        run->idle_async = a->next;
    pthread_mutex_unlock(&run->lock);
    if (!a)
        a = mf_async_new(run->program);
    if (!a) {
        st = MF_NOMEM("a run");
        pthread_mutex_lock(&run->lock);
        record_failure(run, st, item->node);
        mf_frames_done(&run->frames, what, NULL, false, true);
        pthread_mutex_unlock(&run->lock);
        return;
    }
    a->run = run;
    a->what = what;
    a->started = run->args->trace ? mf_trace_now() : 0;
    a->kernel = mf_item_kernel(item, what.iteration, &run->step, a->in, a->out_ptrs);
    a->kernel.owner = a;
    if (!a->kernel.dead)
        st = mf_item_bind(item, what.iteration, a->in);
    if (run->args->task) {
        pthread_mutex_lock(&run->lock);
        executor_list_waiting(run, a);
        pthread_mutex_unlock(&run->lock);
    }
    if (st != MF_OK)
        mf_kernel_done(&a->kernel, st);
    else
        item->kernel.def->start(&a->kernel);
}

/* Wake the caller if the run is complete, or if only the caller can run ready items. The caller
 * holds the lock. */
static void check_finished(mf_run_state *run)
{
    if (run->runners == 0 && (run->frames.outstanding == 0 || run->frames.q_len > 0))
        pthread_cond_broadcast(&run->finished);
}

static void end_async(mf_kernel *k, mf_status status, bool dead)
{
    mf_async *a = k->owner;
    mf_run_state *run = a->run;
    const mf_node *node = k->node;
    bool cancel = false;

    if (run->args->trace)
        mf_trace_add_async(run->args->trace, node->name, node->op_name, a->started);
    pthread_mutex_lock(&run->lock);
    if (status != MF_OK && !run->failed) {
        record_failure(run, status, node);
        cancel = true;
    }
    if (run->args->task)
        executor_take_off(run, a);
    run->runners += cancel; /* keeps the run alive until cancelling is done */
    mf_frames_done(&run->frames, a->what, a->out, dead, run->failed);
    a->next = run->idle_async;
    run->idle_async = a;
    if (run->frames.q_len > 0 && !(run->caller_waits && run->runners == 0))
        submit_runner(run);
    check_finished(run);
    pthread_mutex_unlock(&run->lock);
    if (cancel) {
        mf_cancel_raise(&run->cancel);
        pthread_mutex_lock(&run->lock);
        run->runners--;
        check_finished(run);
        pthread_mutex_unlock(&run->lock);
    }
}

void mf_kernel_done(mf_kernel *k, mf_status status)
{
    if (k->done)
        k->done(k, status);
    else
        end_async(k, status, k->dead);
}

void mf_kernel_done_dead(mf_kernel *k)
{
    end_async(k, MF_OK, true);
}

/* ---- runners ---- */

/* Merge and ControlTrigger examine their tokens themselves. */
static bool sees_dead(const mf_item *item)
{
    return (item->kind == MF_ITEM_OP || item->kind == MF_ITEM_ASYNC) &&
           item->kernel.def->flags & MF_OP_SEES_DEAD;
}

/* Runs one ready item. The caller holds the lock before and after. */
static void step_item(mf_runner *r, mf_ready what)
{
    mf_run_state *run = r->run;
    const mf_item *item = &run->program->items[what.item];
    const bool dead = mf_item_is_dead(item, what.iteration);
    const bool skip = run->failed || (dead && !sees_dead(item));
    mf_mesh_meter *meter =
        run->args->mesh && run->args->depth == 0 ? &run->args->mesh->meter : NULL;
    const mf_node *failed = item->node;
    mf_status st = MF_OK;

    if (!skip) {
        const int64_t began = meter ? mf_busy_meter_begin(meter) : 0;

        pthread_mutex_unlock(&run->lock);
        if (item->kind == MF_ITEM_ASYNC)
            start_async(run, item, what);
        else
            st = mf_item_run(r, item, what.iteration, &failed);
        pthread_mutex_lock(&run->lock);
        if (meter)
            mf_busy_meter_end(meter, item, began);
        if (item->kind == MF_ITEM_ASYNC)
            return;
    }
    if (st != MF_OK)
        executor_fail(run, st, failed);
    mf_frames_done(&run->frames, what, r->out, dead, run->failed);
}

/* Works until no item is ready. The caller holds the lock before and after. */
static void executor_work(mf_runner *r)
{
    mf_run_state *run = r->run;
    const mf_stop before = mf_stop_enter((mf_stop){ run->step.cancel, run->step.deadline_ns });

    for (;;) {
        const mf_ready what = mf_frames_pop(&run->frames);

        if (what.item < 0)
            break;
        if (run->frames.q_len > 0 && run->program->items[what.item].kind != MF_ITEM_ASYNC)
            submit_runner(run); /* asynchronous items only take a moment to start */
        step_item(r, what);
        if (run->frames.out_of_memory && !run->failed)
            executor_fail(run, MF_NOMEM("a run"), NULL);
    }
    (void)mf_stop_enter(before);
}

static mf_mem_account *account_of(const mf_run_args *args)
{
    return mf_resources_account(args->resources);
}

static void runner_main(mf_task *task)
{
    mf_runner *r = (mf_runner *)task;
    mf_run_state *run = r->run;
    mf_mem_account *before = mf_mem_account_enter(account_of(run->args));

    pthread_mutex_lock(&run->lock);
    executor_work(r);
    r->next = run->idle_runners;
    run->idle_runners = r;
    run->runners--;
    (void)mf_mem_account_enter(before);
    check_finished(run);
    pthread_mutex_unlock(&run->lock);
}

/* The caller holds the lock. Does nothing if there are enough runners, or no memory for another
 * one; existing runners take ready items, or the caller if there are none. */
static void submit_runner(mf_run_state *run)
{
    mf_runner *r = run->idle_runners;

    if (run->runners >= run->max_runners)
        return;
    if (r)
        run->idle_runners = r->next;
    else
        r = mf_runner_new(run);
    if (!r)
        return;
    r->task.fn = runner_main;
    run->runners++;
    mf_pool_submit(run->step.pool, &r->task);
}

/* ---- the run ---- */

static void on_session_cancel(mf_cancel_hook *hook)
{
    mf_run_state *run = (mf_run_state *)((char *)hook - offsetof(mf_run_state, session_hook));

    pthread_mutex_lock(&run->lock);
    if (!run->failed)
        record_failure(run,
                       MF_FAIL(MF_CANCELLED, "Step was cancelled by an explicit call to "
                                             "`Session::Close()`."),
                       NULL);
    pthread_mutex_unlock(&run->lock);
    mf_cancel_raise(&run->cancel);
}

/* Wait for runners and asynchronous kernels, at most until the deadline. Items that become ready
 * run on runners, or here if there are none. The caller holds the lock. */
static void wait_finished(mf_run_state *run, mf_runner *r, mf_run_stall *stalled)
{
    const int64_t deadline = run->args->deadline_ns ? run->args->deadline_ns : INT64_MAX;
    const bool reports = run->args->task != NULL;

    while (run->frames.outstanding > 0 || run->runners > 0) {
        if (run->frames.q_len > 0 && run->runners == 0) {
            executor_work(r);
            continue;
        }
        run->caller_waits = true;
        if (run->failed || (deadline == INT64_MAX && !reports)) {
            pthread_cond_wait(&run->finished, &run->lock);
            run->caller_waits = false;
            continue;
        }
        (void)mf_cond_wait_until(
            &run->finished, &run->lock,
            reports && stalled->next_check_ns < deadline ? stalled->next_check_ns : deadline);
        run->caller_waits = false;
        if (reports && !run->failed)
            mf_run_stall_check(stalled, run);
        if (mf_clock_ns() >= deadline && !run->failed &&
            (run->frames.outstanding > 0 || run->runners > 0))
            executor_fail(run, MF_FAIL(MF_DEADLINE_EXCEEDED, "the run exceeded its deadline"),
                          NULL);
    }
}

static mf_status executor_check_results(const mf_run_state *run)
{
    for (int i = 0; i < run->program->n_fetches; i++) {
        if (run->args->results[i].dtype == MF_DTYPE_INVALID)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Retval[%d] does not have value", i);
    }
    return MF_OK;
}

static void executor_begin(mf_run_state *run, const mf_run_args *args)
{
    mf_resources *local = run->step.local;

    run->args = args;
    run->failed = false;
    run->runners = 0;
    run->max_runners = args->alone ? 0 : mf_pool_threads(args->pool);
    if (run->max_runners > MAX_RUNNERS)
        run->max_runners = MAX_RUNNERS;
    mf_cancel_init(&run->cancel);
    run->step = (mf_step){ .pool = args->pool,
                           .resources = args->resources,
                           .local = local,
                           .cancel = &run->cancel,
                           .exchange = args->exchange,
                           .rendezvous = args->rendezvous,
                           .mesh = args->mesh,
                           .id = args->step_id,
                           .depth = args->depth,
                           .deadline_ns = args->deadline_ns,
                           .allow_dirs = args->allow_dirs,
                           .n_allow_dirs = args->n_allow_dirs };
}

static mf_status executor_run_all(mf_run_state *run)
{
    mf_runner *r;
    mf_status st = mf_frames_start(&run->frames);
    mf_run_stall stalled = { 0 };
    bool failed;

    if (run->args->task)
        mf_run_stall_begin(&stalled);

    pthread_mutex_lock(&run->lock);
    r = run->idle_runners;
    if (r)
        run->idle_runners = r->next;
    else
        r = mf_runner_new(run);
    if (st == MF_OK && !r)
        st = MF_NOMEM("a run");
    if (st != MF_OK)
        record_failure(run, st, NULL);
    if (r) {
        executor_work(r);
        wait_finished(run, r, &stalled); /* asynchronous kernels complete on other threads */
        mf_run_stall_end(&stalled, run, !run->failed);
        r->next = run->idle_runners;
        run->idle_runners = r;
    }
    failed = run->failed; /* a late cancellation may still write it */
    if (failed)
        (void)mf_error_restore(&run->error);
    st = run->error.status;
    pthread_mutex_unlock(&run->lock);
    return failed ? st : executor_check_results(run);
}

static mf_status run_program(mf_program *program, const mf_run_args *args)
{
    mf_run_state *run = NULL;
    bool hooked;
    mf_status st;

    MF_TRY(mf_run_state_take(program, &run));
    executor_begin(run, args);
    run->session_hook = (mf_cancel_hook){ .fn = on_session_cancel };
    hooked = mf_cancel_add(args->cancel, &run->session_hook);
    st = hooked ? executor_run_all(run) : MF_FAIL(MF_CANCELLED, "the session is closed");
    if (hooked)
        (void)mf_cancel_remove(args->cancel, &run->session_hook);
    for (int i = 0; st != MF_OK && i < program->n_fetches; i++)
        mf_tensor_clear(&args->results[i]);
    mf_frames_reset(&run->frames);
    mf_resources_clear_all(run->step.local);
    mf_cancel_deinit(&run->cancel);
    mf_run_state_give(program, run);
    return st;
}

mf_status mf_program_run(mf_program *program, const mf_run_args *args)
{
    const mf_mem_account_run run = { .ops = program->n_planned + program->n_items,
                                     .planned = program->peak_bytes };
    mf_mem_account *account = account_of(args), *before = mf_mem_account_enter(account);
    mf_status st;

    mf_mem_account_begin(account);
    st = run_program(program, args);
    mf_mem_account_end(account, &run);
    (void)mf_mem_account_enter(before);
    if (args->depth == 0)
        mf_quota_settle();
    return st;
}
