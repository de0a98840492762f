/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective.c - runs one member's part of a collective, from resolving its group to its
 * result. Replies are handled on a pool thread: a send may block until its receiver reads, so
 * sending from the reply callback could deadlock two tasks. */
#include "tf_server/task_collective.h"

#include "base/clock.h"
#include "tf_server/task_collective_private.h"

/* ---- begin and end ---- */

static void task_collective_run_free(mf_collective_run *r)
{
    mf_tensor_clear(&r->out);
    mf_tensor_clear(&r->size);
    mf_object_unref(r->group ? &r->group->base : NULL);
    mf_arena_free(r->arena);
    mf_cancel_deinit(&r->cancel);
    pthread_mutex_destroy(&r->lock);
    mf_free(r);
}

/* The resolved group is cached for the next step unless this one failed. */
static void task_collective_remember(mf_collective_run *r, bool well)
{
    mf_collective_op *c = r->collect;
    mf_object *old = NULL;

    pthread_mutex_lock(&c->lock);
    if (!well || !c->known) {
        old = c->known;
        c->known = well && r->group ? mf_object_ref(&r->group->base) : NULL;
    }
    pthread_mutex_unlock(&c->lock);
    mf_object_unref(old);
}

static mf_group_resolver *task_collective_recall(mf_collective_op *c)
{
    mf_object *known;

    pthread_mutex_lock(&c->lock);
    known = mf_object_ref(c->known);
    pthread_mutex_unlock(&c->lock);
    return (mf_group_resolver *)(void *)known;
}

static void task_collective_finish(mf_collective_run *r)
{
    mf_kernel *k = r->kernel;
    mf_error why = r->why;

    (void)mf_cancel_remove(k->step->cancel, &r->hook);
    task_collective_remember(r, why.status == MF_OK);
    if (why.status == MF_OK)
        mf_kernel_set(k, 0, &r->out);
    task_collective_run_free(r);
    mf_kernel_done(k, why.status == MF_OK ? MF_OK : mf_error_restore(&why));
}

void mf_collective_release(mf_collective_run *r)
{
    bool last;

    pthread_mutex_lock(&r->lock);
    last = --r->pending == 0;
    r->ends = r->ends || last;
    pthread_mutex_unlock(&r->lock);
    if (last)
        task_collective_finish(r);
}

/* Keeps the first error; later ones are consequences. */
void mf_collective_fail(mf_collective_run *r, mf_status st)
{
    pthread_mutex_lock(&r->lock);
    if (r->why.status == MF_OK)
        mf_error_save(st, &r->why);
    pthread_mutex_unlock(&r->lock);
    mf_cancel_raise(&r->cancel);
}

static void step_cancelled(mf_cancel_hook *hook)
{
    mf_collective_run *r = (mf_collective_run *)(void *)hook;
    bool ends;

    pthread_mutex_lock(&r->lock);
    ends = r->ends;
    if (!ends)
        r->pending++;
    pthread_mutex_unlock(&r->lock);
    if (ends)
        return;
    mf_cancel_raise(&r->cancel);
    mf_collective_release(r);
}

/* ---- run ---- */

/* The group is resolved. */
static void task_collective_begin(mf_collective_run *r)
{
    mf_chunk_transfer *trips;
    const mf_status st = mf_chunk_transfers_make(r, &trips);

    if (st != MF_OK) {
        mf_collective_fail(r, st);
        mf_collective_release(r);
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->pending += r->routes.n;
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->routes.n; i++)
        mf_chunk_transfer_run(&trips[i]);
    mf_collective_release(r);
}

static void begin_later(mf_task *task)
{
    task_collective_begin(((mf_collective_beginning *)(void *)task)->run);
}

static void task_collective_found(void *ctx, mf_status st, mf_group_resolver *group)
{
    mf_collective_run *r = ctx;

    r->group = group;
    if (st == MF_OK) {
        r->beginning = (mf_collective_beginning){ { .fn = begin_later }, r };
        mf_pool_submit(r->rendezvous->server->pool, &r->beginning.task);
        return;
    }
    mf_collective_fail(r, st);
    mf_collective_release(r);
}

static mf_status run_new(const mf_step_rendezvous *m, mf_collective_op *c, const mf_shape *shape,
                         mf_kernel *k, mf_collective_run **out)
{
    mf_collective_run *r = mf_calloc(1, sizeof *r);

    *out = NULL;
    if (!r)
        return MF_NOMEM("a collective");
    *r = (mf_collective_run){ .hook.fn = step_cancelled,
                              .rendezvous = m,
                              .collect = c,
                              .kernel = k,
                              .shape = *shape,
                              .deadline_ns = k->step->deadline_ns,
                              .arena = mf_arena_new(),
                              .pending = 1 };
    if (c->timeout_ns > 0 &&
        (r->deadline_ns == 0 || mf_clock_ns() + c->timeout_ns < r->deadline_ns))
        r->deadline_ns = mf_clock_ns() + c->timeout_ns;
    mf_cancel_init(&r->cancel);
    pthread_mutex_init(&r->lock, NULL);
    if (!r->arena) {
        task_collective_run_free(r);
        return MF_NOMEM("a collective");
    }
    *out = r;
    return MF_OK;
}

void mf_collective_start(const mf_step_rendezvous *m, mf_collective_op *c, const mf_shape *shape,
                         mf_kernel *k)
{
    mf_status st;
    mf_collective_run *r;

    st = run_new(m, c, shape, k, &r);
    if (st == MF_OK && !mf_cancel_add(k->step->cancel, &r->hook)) {
        task_collective_run_free(r);
        st = MF_FAIL(MF_CANCELLED, "the step was cancelled");
    }
    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    r->group = task_collective_recall(c);
    if (r->group)
        task_collective_begin(r);
    else
        mf_group_resolver_find(&(mf_group_resolver_search){ .server = m->server,
                                                            .leader = m->leader,
                                                            .collect = c,
                                                            .shape = *shape,
                                                            .deadline_ns = r->deadline_ns,
                                                            .cancel = &r->cancel,
                                                            .done = task_collective_found,
                                                            .ctx = r });
}
