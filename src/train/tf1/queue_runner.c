/* SPDX-License-Identifier: Apache-2.0 */
/* queue_runner.c - threads that keep a queue filled until the input ends or a stop is requested.
 *
 * No wait is endless: a stop closes the queue and ends waiting enqueues, and an enqueue that begins
 * later finds the queue closed. */
#include "base/buf.h"
#include "base/host_state.h"
#include "base/log.h"
#include "base/mem.h"

#include <meshflow/coordinator.h>

#include <stdatomic.h>

/* Shared by all threads of a queue. */
typedef struct queue_runner {
    atomic_int refs; /* threads that may still use it, and the thread that starts them */
    atomic_int active; /* enqueueing threads that have not reached the end */
    mf_session *session;
    mf_coordinator *coordinator;
    char *close, *cancel;
} queue_runner;

/* One enqueueing thread. */
typedef struct filler {
    queue_runner *r;
    char *target;
} filler;

static void runner_unref(queue_runner *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    mf_free(r->close);
    mf_free(r->cancel);
    mf_free(r);
}

static void filler_free(filler *f)
{
    if (!f)
        return;
    runner_unref(f->r);
    mf_free(f->target);
    mf_free(f);
}

static mf_status run_target(const queue_runner *r, const char *target)
{
    return mf_session_run(r->session, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL);
}

/* As in TensorFlow, failures to close are of no interest: it may be closed already. */
static void run_quietly(const queue_runner *r, const char *target)
{
    if (run_target(r, target) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s: %s", target, mf_error_message());
}

static mf_status queue_runner_fill(void *ctx)
{
    filler *f = ctx;
    queue_runner *r = f->r;
    mf_status st = MF_OK;

    while (st == MF_OK && !mf_coordinator_should_stop(r->coordinator))
        st = run_target(r, f->target);
    if (st == MF_OUT_OF_RANGE) { /* no more input */
        if (atomic_fetch_sub(&r->active, 1) == 1)
            run_quietly(r, r->close);
        st = MF_OK;
    }
    filler_free(f);
    return st; /* a failure stops the others; after a stop the cancellation is not an error */
}

static mf_status cancel_on_stop(void *ctx)
{
    queue_runner *r = ctx;

    (void)mf_coordinator_wait_for_stop(r->coordinator, -1);
    run_quietly(r, r->cancel);
    runner_unref(r);
    return MF_OK;
}

static mf_status start_filler(queue_runner *r, const char *target, int number)
{
    filler *f = mf_calloc(1, sizeof *f);
    mf_buf name = { 0 };
    mf_status st;

    if (!f)
        return MF_NOMEM("a queue runner");
    atomic_fetch_add(&r->refs, 1);
    f->r = r;
    f->target = mf_strdup(target);
    mf_buf_printf(&name, "%s %d", target, number);
    st = f->target ? mf_buf_finish(&name) : MF_NOMEM("a queue runner");
    if (st == MF_OK)
        st = mf_coordinator_start(r->coordinator, name.data, queue_runner_fill, f);
    if (st != MF_OK)
        filler_free(f);
    mf_buf_deinit(&name);
    return st;
}

static mf_status queue_runner_start_all(queue_runner *r, const mf_queue_runner *q, int threads)
{
    mf_status st;

    atomic_fetch_add(&r->refs, 1);
    st = mf_coordinator_start(r->coordinator, r->cancel, cancel_on_stop, r);
    if (st != MF_OK) {
        runner_unref(r);
        return st;
    }
    for (int i = 0; i < q->n_enqueue; i++) {
        for (int k = 0; k < threads; k++)
            MF_TRY(start_filler(r, q->enqueue[i], k));
    }
    return MF_OK;
}

mf_status mf_queue_runner_start(const mf_queue_runner *q, mf_session *session, mf_coordinator *c)
{
    MF_ENTRY;
    MF_NEED(q, session, c);
    MF_NEED_ALL(q->enqueue, q->n_enqueue);

    const int threads = q->threads > 0 ? q->threads : 1;
    queue_runner *r;
    mf_status st = MF_OK;

    if (q->n_enqueue < 1 || !q->close || !q->cancel)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "a queue runner needs targets to enqueue, to close and to cancel");
    r = mf_calloc(1, sizeof *r);
    if (!r)
        return MF_NOMEM("a queue runner");
    atomic_store(&r->refs, 1);
    atomic_store(&r->active, threads * q->n_enqueue);
    r->session = session;
    r->coordinator = c;
    r->close = mf_strdup(q->close);
    r->cancel = mf_strdup(q->cancel);
    if (!r->close || !r->cancel)
        st = MF_NOMEM("a queue runner");
    if (st == MF_OK)
        st = queue_runner_start_all(r, q, threads);
    if (st != MF_OK) /* started threads must not wait for threads that were not started */
        mf_coordinator_request_stop(c, st);
    runner_unref(r);
    return st;
}
