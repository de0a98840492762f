/* SPDX-License-Identifier: Apache-2.0 */
/* run_state.c - the memory of runs: allocated once, owned by the program, reused. */
#include "runtime/run_state.h"

#include "base/cond.h"

static void runner_free(mf_runner *r)
{
    if (!r)
        return;
    mf_free(r->in);
    mf_free(r->in_moved);
    mf_free(r->out);
    mf_free(r->out_ptrs);
    mf_free(r);
}

mf_runner *mf_runner_new(mf_run_state *run)
{
    mf_runner *r = mf_calloc(1, sizeof *r);

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

static void async_free(mf_async *a)
{
    if (!a)
        return;
    mf_free(a->in);
    mf_free(a->out);
    mf_free(a->out_ptrs);
    mf_free(a);
}

mf_async *mf_async_new(const mf_program *p)
{
    mf_async *a = mf_calloc(1, sizeof *a);

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

static void state_free(mf_run_state *run)
{
    while (run) {
        mf_run_state *next = run->next;

        while (run->idle_runners) {
            mf_runner *r = run->idle_runners;

            run->idle_runners = r->next;
            runner_free(r);
        }
        while (run->idle_async) {
            mf_async *a = run->idle_async;

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

static mf_status state_new(mf_program *program, mf_run_state **out)
{
    mf_run_state *run = mf_calloc(1, sizeof *run);
    mf_status st;

    if (!run)
        return MF_NOMEM("a run");
    run->program = program;
    pthread_mutex_init(&run->lock, NULL);
    mf_cond_init(&run->finished);
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

mf_status mf_run_state_take(mf_program *program, mf_run_state **out)
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

void mf_run_state_give(mf_program *program, mf_run_state *run)
{
    pthread_mutex_lock(&program->lock);
    run->next = program->idle;
    program->idle = run;
    pthread_mutex_unlock(&program->lock);
}
