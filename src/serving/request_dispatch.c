/* SPDX-License-Identifier: Apache-2.0 */
/* request_dispatch.c - which replica runs which requests, and loads which version.
 *
 * 1. A request is in the queue, with one replica, or answered.
 * 2. One replica at a time loads a newer version while the others serve; a version that one replica
 *    could not load is not sent to the others. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "serving/front.h"

#include <stdio.h>
#include <string.h>

/* MOST_DEATHS: after so many dead replicas the request is taken to be the cause. */
enum { MS = 1000000, MOST_DEATHS = 4, TRY_AGAIN_MS = 10000 };

/* ---- the queue ---- */

void mf_serve_retry(mf_serve_call *c)
{
    mf_front *f = c->front;

    if (++c->crashes >= MOST_DEATHS) {
        mf_serve_answer_error(c, 500, "each replica that ran this request has died");
        return;
    }
    f->metrics.retries++;
    f->n_queue++;
    f->queue_bytes += (int64_t)evbuffer_get_length(c->body);
    TAILQ_INSERT_HEAD(&f->queue, c, link);
}

/* Moves requests from the queue to this replica. A request whose replica died runs alone: it may be
 * the cause. */
static int request_dispatch_fill_run(mf_serve_replica *r)
{
    mf_front *f = r->front;
    mf_serve_call *c = TAILQ_FIRST(&f->queue), *next;
    int64_t bytes = 0;
    int n = 0;

    for (; c && n < f->o->batch && bytes < f->o->max_body; c = next) {
        const int64_t size = (int64_t)evbuffer_get_length(c->body);

        next = TAILQ_NEXT(c, link);
        if ((c->version != MF_ANY_VERSION && c->version != r->version) || (c->crashes > 0 && n > 0))
            continue;
        TAILQ_REMOVE(&f->queue, c, link);
        TAILQ_INSERT_TAIL(&r->running, c, link);
        f->n_queue--;
        f->queue_bytes -= size;
        bytes += size;
        n++;
        if (c->crashes > 0)
            break;
    }
    f->metrics.runs += n > 0;
    f->metrics.joined += n;
    return n;
}

/* True if the oldest request has waited long enough, or the run is full. Else sets the timer. */
static bool request_dispatch_is_time(mf_front *f)
{
    const mf_serve_call *oldest = TAILQ_FIRST(&f->queue);
    const int64_t left = oldest->since_ns + f->o->wait_ms * MS - mf_clock_ns();
    const struct timeval until = { .tv_sec = left / 1000000000,
                                   .tv_usec = left % 1000000000 / 1000 + 1 };

    if (f->n_queue >= f->o->batch || left <= 0 || f->stop_ns || oldest->crashes > 0)
        return true;
    if (!evtimer_pending(f->wait, NULL))
        (void)evtimer_add(f->wait, &until);
    return false;
}

/* Refuses requests for a version that no replica has any more. */
static void refuse_gone(mf_front *f)
{
    mf_serve_call *c, *next;

    for (c = TAILQ_FIRST(&f->queue); c; c = next) {
        char why[100];

        next = TAILQ_NEXT(c, link);
        if (c->version == MF_ANY_VERSION || mf_serve_has_version(f, c->version))
            continue;
        TAILQ_REMOVE(&f->queue, c, link);
        f->n_queue--;
        f->queue_bytes -= (int64_t)evbuffer_get_length(c->body);
        (void)snprintf(why, sizeof why, "version %lld is no longer served", (long long)c->version);
        mf_serve_answer_error(c, 404, why);
    }
}

/* ---- versions ---- */

static bool any_replica_loading(const mf_front *f)
{
    for (int i = 0; i < f->o->replicas; i++) {
        if (f->replicas[i].state == MF_REPLICA_LOADING)
            return true;
    }
    return false;
}

static void get_ready(mf_front *f)
{
    for (int i = 0; i < f->o->replicas; i++) {
        if (f->replicas[i].version < 0)
            return;
    }
    f->was_ready = true;
    f->o->ready(f->o->ctx, f->host, f->port, f->good.number);
}

static void request_dispatch_forget(mf_serve_version *v)
{
    mf_free(v->checkpoint);
    *v = (mf_serve_version){ 0 };
}

void mf_serve_load_failed(mf_serve_replica *r, const char *why)
{
    mf_front *f = r->front;

    MF_WARN("cannot load version %lld, %s: %s", (long long)r->loads.number, r->loads.checkpoint,
            why);
    f->metrics.failed_reloads++;
    request_dispatch_forget(&f->bad);
    f->bad = (mf_serve_version){ r->loads.number, mf_strdup(r->loads.checkpoint) };
    f->bad_until_ns = mf_clock_ns() + (int64_t)TRY_AGAIN_MS * MS;
    (void)snprintf(f->bad_why, sizeof f->bad_why, "%s", why);
    if (f->next.number == r->loads.number)
        request_dispatch_forget(&f->next);
}

/* The checkpoint that new replicas load was removed: use the newest one instead. */
static void replace_good(mf_front *f)
{
    mf_serve_version newest;

    if (mf_serve_newest(f->o->where, &newest) != MF_OK)
        return;
    request_dispatch_forget(&f->good);
    f->good = newest;
}

void mf_serve_loaded(mf_serve_replica *r, int64_t version, const char *why)
{
    mf_front *f = r->front;

    if (!why && f->next.checkpoint && version == f->next.number) {
        MF_INFO("serving version %lld", (long long)version);
        request_dispatch_forget(&f->good);
        f->good = f->next;
        f->next = (mf_serve_version){ 0 };
        f->metrics.reloads++;
    } else if (why && !f->was_ready) {
        mf_serve_give_up(f, why);
    } else if (why) {
        mf_serve_load_failed(r, why);
        if (r->version < 0) {
            replace_good(f);
            mf_serve_replace_replica(r, "could not load a model");
        }
    }
    if (!f->was_ready)
        get_ready(f);
}

/* True if a load has failed and it is too early to try again. */
static bool is_bad(const mf_front *f, const mf_serve_version *v)
{
    return f->bad.checkpoint && v->number == f->bad.number && mf_clock_ns() < f->bad_until_ns;
}

void mf_serve_scan_versions(mf_front *f)
{
    mf_serve_version newest;

    if (!f->was_ready || f->next.checkpoint)
        return;
    if (mf_serve_newest(f->o->where, &newest) != MF_OK)
        return; /* the loaded version stays in use */
    if (newest.number == f->good.number || is_bad(f, &newest))
        request_dispatch_forget(&newest);
    f->next = newest;
}

/* The version that this replica loads next; NULL: none. A replica that could not load the version
 * of the others serves the version it has. */
static const mf_serve_version *to_load(const mf_serve_replica *r)
{
    const mf_front *f = r->front;

    if (r->version != f->good.number && (r->version < 0 || !is_bad(f, &f->good)))
        return &f->good;
    return f->next.checkpoint ? &f->next : NULL;
}

/* ---- the loop ---- */

void mf_serve_dispatch(mf_front *f)
{
    bool loading = any_replica_loading(f);

    refuse_gone(f);
    for (int i = 0; i < f->o->replicas; i++) {
        mf_serve_replica *r = &f->replicas[i];

        if (r->state != MF_REPLICA_IDLE)
            continue;
        if (!loading && to_load(r)) {
            mf_serve_load(r, to_load(r));
            loading = true;
        } else if (!TAILQ_EMPTY(&f->queue) && request_dispatch_is_time(f) &&
                   request_dispatch_fill_run(r) > 0) {
            mf_serve_send_run(r);
        }
    }
}
