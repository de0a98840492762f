/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - threads that take ready items, run them, and pass tokens on.
 *
 * One lock per run guards all tokens; kernels run without it. A runner is the calling thread or a
 * task of the pool; it works until nothing is ready. Runners are counted from the moment they are
 * submitted, so the run's memory stays until the last one has left. Asynchronous kernels hold no
 * runner: when they end, from whatever thread, a runner is submitted for what became ready. */
#include "runtime/executor.h"

#include "base/clock.h"
#include "runtime/frames.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNNERS = 64 };

typedef struct runner {
    mf_task task; /* first */
    struct mf_run_state *run;
    const mf_tensor **in;
    mf_tensor **in_moved;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct runner *next; /* idle list */
} runner;

/* An asynchronous kernel under way. */
typedef struct async_op {
    mf_kernel kernel;
    struct mf_run_state *run;
    mf_ready what;
    const mf_tensor **in;
    mf_tensor *out;
    mf_tensor **out_ptrs;
    struct async_op *next; /* idle list */
} async_op;

struct mf_run_state {
    struct mf_run_state *next; /* idle list of the program */
    mf_program *program;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    mf_frames frames; /* guarded by lock */
    runner *idle_runners; /* guarded by lock */
    async_op *idle_async; /* guarded by lock */
    int runners; /* submitted or working, the caller not counted; guarded by lock */
    int max_runners;
    mf_error error; /* first failure; guarded by lock */
    bool failed;
    mf_cancel cancel;
    mf_cancel_hook session_hook;
    mf_step step;
    const mf_run_args *args;
};

/* ---- memory ---- */

static void runner_free(runner *r)
{
    if (!r)
        return;
    mf_free(r->in);
    mf_free(r->in_moved);
    mf_free(r->out);
    mf_free(r->out_ptrs);
    mf_free(r);
}

static runner *runner_new(struct mf_run_state *run)
{
    runner *r = mf_calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->run = run;
    r->in = mf_calloc(run->program->max_in, sizeof *r->in);
    r->in_moved = mf_calloc(run->program->max_in, sizeof *r->in_moved);
    r->out = mf_calloc(run->program->max_out, sizeof *r->out);
    r->out_ptrs = mf_calloc(run->program->max_out, sizeof *r->out_ptrs);
    if (!r->in || !r->in_moved || !r->out || !r->out_ptrs) {
        runner_free(r);
        return NULL;
    }
    for (int i = 0; i < run->program->max_out; i++)
        r->out_ptrs[i] = &r->out[i];
    return r;
}

static void async_free(async_op *a)
{
    if (!a)
        return;
    mf_free(a->in);
    mf_free(a->out);
    mf_free(a->out_ptrs);
    mf_free(a);
}

static async_op *async_new(const mf_program *p)
{
    async_op *a = mf_calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->in = mf_calloc(p->max_in, sizeof *a->in);
    a->out = mf_calloc(p->max_out, sizeof *a->out);
    a->out_ptrs = mf_calloc(p->max_out, sizeof *a->out_ptrs);
    if (!a->in || !a->out || !a->out_ptrs) {
        async_free(a);
        return NULL;
    }
    for (int i = 0; i < p->max_out; i++)
        a->out_ptrs[i] = &a->out[i];
    return a;
}

static void state_free(struct mf_run_state *run)
{
    while (run) {
        struct mf_run_state *next = run->next;

        while (run->idle_runners) {
            runner *r = run->idle_runners;

            run->idle_runners = r->next;
            runner_free(r);
        }
        while (run->idle_async) {
            async_op *a = run->idle_async;

            run->idle_async = a->next;
            async_free(a);
        }
        mf_frames_deinit(&run->frames);
        mf_resources_free(run->step.local);
        pthread_cond_destroy(&run->finished);
        pthread_mutex_destroy(&run->lock);
        mf_free(run);
        run = next;
    }
}

static mf_status state_new(mf_program *program, struct mf_run_state **out)
{
    struct mf_run_state *run = mf_calloc(1, sizeof *run);
    pthread_condattr_t attr;
    mf_status st;

    if (!run)
        return MF_NOMEM("a run");
    run->program = program;
    pthread_mutex_init(&run->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&run->finished, &attr);
    pthread_condattr_destroy(&attr);
    st = mf_frames_init(&run->frames, program);
    if (st == MF_OK)
        st = mf_resources_new(&run->step.local);
    if (st != MF_OK) {
        state_free(run);
        return st;
    }
    *out = run;
    return MF_OK;
}

static mf_status state_take(mf_program *program, struct mf_run_state **out)
{
    pthread_mutex_lock(&program->lock);
    program->free_state = state_free;
    *out = program->idle;
    if (*out)
        program->idle = (*out)->next;
    pthread_mutex_unlock(&program->lock);
    if (*out) {
        (*out)->next = NULL;
        return MF_OK;
    }
    return state_new(program, out);
}

static void state_give(mf_program *program, struct mf_run_state *run)
{
    pthread_mutex_lock(&program->lock);
    run->next = program->idle;
    program->idle = run;
    pthread_mutex_unlock(&program->lock);
}

/* ---- failure ---- */

/* Keep the first error, with the node's name. Under the lock. */
static void record_failure(struct mf_run_state *run, mf_status st, const mf_node *node)
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

/* The first error ends the run. Called and returns with the lock held, but lets go of it meanwhile:
 * the hooks of cancel end kernels, which take it. */
static void fail(struct mf_run_state *run, mf_status st, const mf_node *node)
{
    if (run->failed)
        return;
    record_failure(run, st, node);
    pthread_mutex_unlock(&run->lock);
    mf_cancel_raise(&run->cancel);
    pthread_mutex_lock(&run->lock);
}

/* ---- one item ---- */

static mf_status deref(mf_tensor *slot)
{
    mf_object *o = slot->count == 1 ? *(mf_object **)slot->data : NULL;
    mf_tensor value = { 0 };

    if (!o || o->type != &mf_variable_type)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a reference to a %s is used as a tensor",
                       o ? o->type->name : "nothing");
    MF_TRY(mf_variable_read((mf_variable *)o, &value));
    mf_tensor_move(slot, &value);
    return MF_OK;
}

static mf_status bind_inputs(const mf_item *item, mf_iteration *it, const mf_tensor **in)
{
    for (int i = 0; i < item->n_in; i++) {
        if (item->in[i].constant) {
            in[i] = item->in[i].constant;
            continue;
        }
        in[i] = &it->slots[item->in[i].slot];
        if (item->in[i].deref)
            MF_TRY(deref(&it->slots[item->in[i].slot]));
    }
    return MF_OK;
}

/* Constants are shared: their storage has further references, so "reuse all" is safe. */
static mf_kernel kernel_of(const mf_item *item, mf_step *step, const mf_tensor **in,
                           mf_tensor **out)
{
    return (mf_kernel){ .node = item->node,
                        .state = item->state,
                        .step = step,
                        .in = in,
                        .out = out,
                        .n_in = item->n_in,
                        .n_out = item->n_out,
                        .reuse = UINT64_MAX };
}

static mf_status run_op(runner *r, const mf_item *item, mf_iteration *it)
{
    struct mf_run_state *run = r->run;
    const int64_t start = run->args->trace ? mf_trace_now() : 0;
    mf_kernel k = kernel_of(item, &run->step, r->in, r->out_ptrs);
    mf_status st;

    MF_TRY(bind_inputs(item, it, r->in));
    st = item->node->op->run(&k);
    if (run->args->trace)
        mf_trace_add(run->args->trace, item->node, start);
    return st;
}

static mf_status run_region(runner *r, const mf_item *item, mf_iteration *it,
                            const mf_node **failed)
{
    struct mf_run_state *run = r->run;
    mf_plan_instance *plan;
    mf_status st;

    for (int i = 0; i < item->n_in; i++)
        r->in_moved[i] = &it->slots[item->in[i].slot];
    MF_TRY(mf_plan_take(item->plan, &plan));
    st = mf_plan_run(plan, &run->step, r->in_moved, r->out, run->args->trace, failed);
    mf_plan_give(item->plan, plan);
    return st;
}

static mf_status run_switch(const runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *in[2];

    MF_TRY(bind_inputs(item, it, in));
    if (in[1]->dtype != MF_DTYPE_BOOL || in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The second input must be a scalar");
    mf_tensor_set(&r->out[*(const uint8_t *)in[1]->data ? 1 : 0], in[0]);
    return MF_OK;
}

static mf_status run_merge(const runner *r, const mf_item *item, mf_iteration *it)
{
    const int chosen = it->cells[item->local].chosen - 1;

    if (item->in[chosen].deref)
        MF_TRY(deref(&it->slots[item->in[chosen].slot]));
    mf_tensor_move(&r->out[0], &it->slots[item->in[chosen].slot]);
    MF_TRY(mf_tensor_alloc(&r->out[1], MF_DTYPE_I32, &MF_SCALAR));
    *(int32_t *)r->out[1].data = chosen;
    return MF_OK;
}

static mf_status run_fetch(const runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *in[1];

    MF_TRY(bind_inputs(item, it, in));
    mf_tensor_set(&r->run->args->results[item->index], in[0]);
    return MF_OK;
}

static mf_status pass_on(const runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *in[1];

    MF_TRY(bind_inputs(item, it, in));
    mf_tensor_set(&r->out[0], in[0]);
    return MF_OK;
}

static mf_status run_item(runner *r, const mf_item *item, mf_iteration *it, const mf_node **failed)
{
    *failed = item->node;
    switch (item->kind) {
    case MF_ITEM_OP:
        return run_op(r, item, it);
    case MF_ITEM_REGION:
        return run_region(r, item, it, failed);
    case MF_ITEM_FEED:
        mf_tensor_set(&r->out[0], r->run->args->feeds[item->index]);
        return MF_OK;
    case MF_ITEM_FETCH:
        return run_fetch(r, item, it);
    case MF_ITEM_SWITCH:
        return run_switch(r, item, it);
    case MF_ITEM_MERGE:
        return run_merge(r, item, it);
    case MF_ITEM_ENTER:
    case MF_ITEM_EXIT:
    case MF_ITEM_NEXT:
        return pass_on(r, item, it);
    case MF_ITEM_TRIGGER:
    case MF_ITEM_ASYNC:
        break;
    }
    return MF_OK;
}

/* ---- asynchronous kernels ---- */

static void submit_runner(struct mf_run_state *run);

static void start_async(struct mf_run_state *run, const mf_item *item, mf_ready what)
{
    async_op *a;
    mf_status st = MF_OK;

    pthread_mutex_lock(&run->lock);
    a = run->idle_async;
    if (a)
        run->idle_async = a->next;
    pthread_mutex_unlock(&run->lock);
    if (!a)
        a = async_new(run->program);
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
    a->kernel = kernel_of(item, &run->step, a->in, a->out_ptrs);
    a->kernel.owner = a;
    st = bind_inputs(item, what.iteration, a->in);
    if (st != MF_OK)
        mf_kernel_done(&a->kernel, st);
    else
        item->node->op->start(&a->kernel);
}

/* Wake the caller when nothing is left, or nobody but it for what is ready. Under the lock. */
static void check_finished(struct mf_run_state *run)
{
    if (run->runners == 0 && (run->frames.outstanding == 0 || run->frames.q_len > 0))
        pthread_cond_broadcast(&run->finished);
}

void mf_kernel_done(mf_kernel *k, mf_status status)
{
    async_op *a = k->owner;
    struct mf_run_state *run = a->run;
    const mf_node *node = k->node;
    bool cancel = false;

    pthread_mutex_lock(&run->lock);
    if (status != MF_OK && !run->failed) {
        record_failure(run, status, node);
        cancel = true;
    }
    run->runners += cancel; /* keeps the run alive until cancelling is over */
    mf_frames_done(&run->frames, a->what, a->out, false, run->failed);
    a->next = run->idle_async;
    run->idle_async = a;
    if (run->frames.q_len > 0)
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

/* ---- runners ---- */

static bool is_dead(const mf_item *item, const mf_iteration *it)
{
    const mf_cell *cell = &it->cells[item->local];

    if (item->kind == MF_ITEM_MERGE)
        return !cell->chosen;
    return cell->dead > 0 && item->kind != MF_ITEM_TRIGGER;
}

/* One item, from ready to done. Called and returns with the lock held. */
static void step_item(runner *r, mf_ready what)
{
    struct mf_run_state *run = r->run;
    const mf_item *item = &run->program->items[what.item];
    const bool dead = is_dead(item, what.iteration), skip = run->failed || dead;
    const mf_node *failed = item->node;
    mf_status st = MF_OK;

    if (!skip) {
        pthread_mutex_unlock(&run->lock);
        if (item->kind == MF_ITEM_ASYNC) {
            start_async(run, item, what);
            pthread_mutex_lock(&run->lock);
            return;
        }
        st = run_item(r, item, what.iteration, &failed);
        pthread_mutex_lock(&run->lock);
    }
    if (st != MF_OK)
        fail(run, st, failed);
    mf_frames_done(&run->frames, what, r->out, dead, run->failed);
}

/* Works until nothing is ready. Called and returns with the lock held. */
static void work(runner *r)
{
    struct mf_run_state *run = r->run;

    for (;;) {
        const mf_ready what = mf_frames_pop(&run->frames);

        if (what.item < 0)
            return;
        if (run->frames.q_len > 0)
            submit_runner(run);
        step_item(r, what);
        if (run->frames.out_of_memory && !run->failed)
            fail(run, MF_NOMEM("a run"), NULL);
    }
}

static void runner_main(mf_task *task)
{
    runner *r = (runner *)task;
    struct mf_run_state *run = r->run;

    pthread_mutex_lock(&run->lock);
    work(r);
    r->next = run->idle_runners;
    run->idle_runners = r;
    run->runners--;
    check_finished(run);
    pthread_mutex_unlock(&run->lock);
}

/* Under the lock. Does nothing when enough are at work, or no memory is left for more; whoever is
 * will take what is ready, and the caller if nobody is. */
static void submit_runner(struct mf_run_state *run)
{
    runner *r = run->idle_runners;

    if (run->runners >= run->max_runners)
        return;
    if (r)
        run->idle_runners = r->next;
    else
        r = runner_new(run);
    if (!r)
        return;
    r->task.fn = runner_main;
    run->runners++;
    mf_pool_submit(run->step.pool, &r->task);
}

/* ---- the run ---- */

static void on_session_cancel(mf_cancel_hook *hook)
{
    struct mf_run_state *run =
        (struct mf_run_state *)((char *)hook - offsetof(struct mf_run_state, session_hook));

    pthread_mutex_lock(&run->lock);
    if (!run->failed)
        record_failure(run,
                       MF_FAIL(MF_CANCELLED, "Step was cancelled by an explicit call to "
                                             "`Session::Close()`."),
                       NULL);
    pthread_mutex_unlock(&run->lock);
    mf_cancel_raise(&run->cancel);
}

/* Wait for runners and asynchronous kernels, at most until the deadline. What they make ready runs
 * there, or here when nobody is there. Under the lock. */
static void wait_finished(struct mf_run_state *run, runner *r)
{
    const int64_t deadline = run->args->deadline_ns;

    while (run->frames.outstanding > 0 || run->runners > 0) {
        struct timespec ts = { .tv_sec = (time_t)(deadline / 1000000000),
                               .tv_nsec = (long)(deadline % 1000000000) };

        if (run->frames.q_len > 0 && run->runners == 0) {
            work(r);
            continue;
        }
        if (deadline == 0 || run->failed) {
            pthread_cond_wait(&run->finished, &run->lock);
            continue;
        }
        (void)pthread_cond_timedwait(&run->finished, &run->lock, &ts);
        if (mf_clock_ns() >= deadline && !run->failed &&
            (run->frames.outstanding > 0 || run->runners > 0))
            fail(run, MF_FAIL(MF_DEADLINE_EXCEEDED, "the run did not end in time"), NULL);
    }
}

static mf_status check_results(const struct mf_run_state *run)
{
    for (int i = 0; i < run->program->n_fetches; i++) {
        if (run->args->results[i].dtype == MF_DTYPE_INVALID)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Retval[%d] does not have value", i);
    }
    return MF_OK;
}

static void begin(struct mf_run_state *run, const mf_run_args *args)
{
    mf_resources *local = run->step.local;

    run->args = args;
    run->failed = false;
    run->runners = 0;
    run->max_runners = mf_pool_threads(args->pool);
    if (run->max_runners > MAX_RUNNERS)
        run->max_runners = MAX_RUNNERS;
    mf_cancel_init(&run->cancel);
    run->step = (mf_step){ .pool = args->pool,
                           .resources = args->resources,
                           .local = local,
                           .cancel = &run->cancel,
                           .exchange = args->exchange,
                           .id = args->step_id,
                           .deadline_ns = args->deadline_ns,
                           .allow_dirs = args->allow_dirs,
                           .n_allow_dirs = args->n_allow_dirs };
}

static mf_status run_all(struct mf_run_state *run)
{
    runner *r;
    mf_status st = mf_frames_start(&run->frames);
    bool failed;

    pthread_mutex_lock(&run->lock);
    r = run->idle_runners;
    if (r)
        run->idle_runners = r->next;
    else
        r = runner_new(run);
    if (st == MF_OK && !r)
        st = MF_NOMEM("a run");
    if (st != MF_OK)
        record_failure(run, st, NULL);
    if (r) {
        work(r);
        wait_finished(run, r); /* asynchronous kernels end on other threads */
        r->next = run->idle_runners;
        run->idle_runners = r;
    }
    failed = run->failed; /* cancelling may come too late, and still writes it */
    if (failed)
        (void)mf_error_restore(&run->error);
    st = run->error.status;
    pthread_mutex_unlock(&run->lock);
    return failed ? st : check_results(run);
}

mf_status mf_program_run(mf_program *program, const mf_run_args *args)
{
    struct mf_run_state *run = NULL;
    bool hooked;
    mf_status st;

    MF_TRY(state_take(program, &run));
    begin(run, args);
    run->session_hook = (mf_cancel_hook){ .fn = on_session_cancel };
    hooked = mf_cancel_add(args->cancel, &run->session_hook);
    st = hooked ? run_all(run) : MF_FAIL(MF_CANCELLED, "the session is closed");
    if (hooked)
        (void)mf_cancel_remove(args->cancel, &run->session_hook);
    for (int i = 0; st != MF_OK && i < program->n_fetches; i++)
        mf_tensor_clear(&args->results[i]);
    mf_frames_reset(&run->frames);
    mf_resources_clear_all(run->step.local);
    mf_cancel_deinit(&run->cancel);
    state_give(program, run);
    return st;
}
