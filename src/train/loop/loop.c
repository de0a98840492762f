/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - hooks around runs. */
#include "train/loop/loop.h"

#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "runtime/session.h"
#include "train/step/trainer.h"

#include <string.h>

/* ---- making and freeing ---- */

mf_status mf_hook_loop_init(mf_hook_loop *l)
{
    l->first = mf_calloc(l->n_hooks + 1, sizeof *l->first);
    return l->first ? MF_OK : MF_NOMEM("hooks");
}

mf_status mf_hook_loop_deinit(mf_hook_loop *l)
{
    mf_status first = MF_OK;

    for (int64_t i = 0; i < l->n_writers; i++) {
        const mf_status st = mf_events_close(l->writers[i].events);

        first = first == MF_OK ? st : first;
        mf_free(l->writers[i].dir);
    }
    for (int64_t i = 0; i < l->n_results; i++)
        mf_tensor_free(l->results[i]);
    mf_free(l->writers);
    mf_free(l->feed_names);
    mf_free(l->feeds);
    mf_free(l->fetches);
    mf_free(l->results);
    mf_free(l->first);
    return first;
}

/* ---- queries of hooks ---- */

mf_session *mf_hook_loop_session(mf_hook_loop *loop)
{
    return loop ? loop->session : NULL;
}

mf_trainer *mf_hook_loop_trainer(mf_hook_loop *loop)
{
    return loop ? loop->trainer : NULL;
}

mf_coordinator *mf_hook_loop_coordinator(mf_hook_loop *loop)
{
    return loop ? loop->coordinator : NULL;
}

/* Between two runs all hooks share one read: it may cost a run. */
mf_status mf_hook_loop_step(mf_hook_loop *loop, int64_t *step)
{
    MF_ENTRY;
    MF_NEED(loop, step);

    *step = loop->step;
    if (loop->after_run && loop->step >= 0)
        return MF_OK;
    MF_TRY(loop->read_step(loop, step));
    loop->step = *step;
    return MF_OK;
}

void mf_hook_loop_stop(mf_hook_loop *loop)
{
    MF_ENTRY_OR();
    if (!loop)
        return;

    atomic_store(&loop->stop, true);
    if (loop->trainer)
        mf_trainer_stop(loop->trainer);
}

/* ---- calling all ---- */

mf_status mf_hook_loop_call_begin(mf_hook_loop *l)
{
    MF_CALLBACK;
    for (int i = 0; i < l->n_hooks; i++) {
        if (l->hooks[i].begin)
            MF_TRY(l->hooks[i].begin(l->hooks[i].ctx, l->trainer));
    }
    return MF_OK;
}

mf_status mf_hook_loop_call_created(mf_hook_loop *l)
{
    const mf_status st = l->read_step(l, &l->start);

    MF_CALLBACK;
    if (st == MF_NOT_FOUND) /* a graph that does not count */
        l->start = 0;
    else
        MF_TRY(st);
    l->sessions++;
    for (int i = 0; i < l->n_hooks; i++) {
        if (l->hooks[i].after_create_session)
            MF_TRY(l->hooks[i].after_create_session(l->hooks[i].ctx, l));
    }
    return MF_OK;
}

mf_status mf_hook_loop_call_end(mf_hook_loop *l)
{
    mf_status first = MF_OK;
    mf_error why;

    MF_CALLBACK;
    l->after_run = false;
    for (int i = 0; i < l->n_hooks; i++) {
        const mf_hook *h = &l->hooks[i];
        const mf_status st = h->end ? h->end(h->ctx, l->trainer) : MF_OK;

        if (first == MF_OK && st != MF_OK)
            mf_error_save(st, &why);
        first = first == MF_OK ? st : first;
    }
    return first == MF_OK ? MF_OK : mf_error_restore(&why);
}

bool mf_hook_loop_forgives(mf_hook_loop *l, mf_status why)
{
    MF_CALLBACK;
    for (int i = 0; i < l->n_hooks; i++) {
        if (l->hooks[i].forgive && l->hooks[i].forgive(l->hooks[i].ctx, l, why)) {
            mf_hook_loop_stop(l);
            return true;
        }
    }
    l->failed = true;
    return false;
}

/* ---- a run ---- */

static bool has_run_hooks(const mf_hook_loop *l)
{
    for (int i = 0; i < l->n_hooks; i++) {
        if (l->hooks[i].before_run || l->hooks[i].after_run)
            return true;
    }
    return false;
}

static mf_status loop_reserve(mf_hook_loop *l, int64_t feeds, int64_t fetches)
{
    MF_TRY(mf_grow(&l->feed_names, &l->cap_feed_names, feeds, sizeof *l->feed_names));
    MF_TRY(mf_grow(&l->feeds, &l->cap_feeds, feeds, sizeof *l->feeds));
    MF_TRY(mf_grow(&l->fetches, &l->cap_fetches, fetches, sizeof *l->fetches));
    MF_TRY(mf_grow(&l->results, &l->cap_results, fetches + 1, sizeof *l->results));
    while (l->n_results < fetches)
        l->results[l->n_results++] = NULL;
    return MF_OK;
}

/* Two that feed the same are refused by the session, by name. */
static mf_status loop_add_request(mf_hook_loop *l, const mf_run_request *r, mf_loop_call *all)
{
    MF_TRY(mf_host_need_all("before_run", "feed_names", (const void *const *)r->feed_names,
                            r->n_feeds));
    MF_TRY(mf_host_need_all("before_run", "feeds", (const void *const *)r->feeds, r->n_feeds));
    MF_TRY(
        mf_host_need_all("before_run", "fetches", (const void *const *)r->fetches, r->n_fetches));
    MF_TRY(loop_reserve(l, all->n_feeds + r->n_feeds, all->n_fetches + r->n_fetches));
    for (int i = 0; i < r->n_feeds; i++) {
        l->feed_names[all->n_feeds] = r->feed_names[i];
        l->feeds[all->n_feeds++] = r->feeds[i];
    }
    for (int i = 0; i < r->n_fetches; i++)
        l->fetches[all->n_fetches++] = r->fetches[i];
    return MF_OK;
}

static mf_status loop_gather(mf_hook_loop *l, mf_loop_call *all, mf_run_options *options)
{
    MF_CALLBACK;
    for (int i = 0; i < l->n_hooks; i++) {
        const mf_hook *h = &l->hooks[i];
        mf_run_request request = { 0 };

        l->first[i] = all->n_fetches;
        if (!h->before_run)
            continue;
        MF_TRY(h->before_run(h->ctx, l, &request));
        MF_TRY(loop_add_request(l, &request, all));
        if (request.trace_path)
            options->trace_path = request.trace_path;
    }
    return MF_OK;
}

/* The caller's handles come first while the session fills them. */
static mf_status loop_run_all(mf_hook_loop *l, const mf_run_options *options,
                              const mf_loop_call *call, const mf_loop_call *all)
{
    mf_status st;

    for (int i = 0; i < call->n_fetches; i++) {
        mf_tensor_free(l->results[i]); /* a hook's, of a run in which the caller fetched less */
        l->results[i] = call->results[i];
    }
    st = mf_session_run(l->session, options, l->feed_names, l->feeds, all->n_feeds, l->fetches,
                        all->n_fetches, all->targets, all->n_targets, l->results);
    for (int i = 0; i < call->n_fetches; i++) {
        call->results[i] = l->results[i];
        l->results[i] = NULL;
    }
    return st;
}

mf_status mf_hook_loop_run(mf_hook_loop *l, const mf_run_options *options, const mf_loop_call *call)
{
    mf_run_options o = options ? *options : (mf_run_options){ 0 };
    mf_loop_call all = { .targets = call->targets, .n_targets = call->n_targets };
    const mf_run_request own = { .feed_names = call->feed_names,
                                 .feeds = call->feeds,
                                 .n_feeds = call->n_feeds,
                                 .fetches = call->fetches,
                                 .n_fetches = call->n_fetches };

    l->after_run = false;
    if (!has_run_hooks(l))
        return mf_session_run(l->session, options, call->feed_names, call->feeds, call->n_feeds,
                              call->fetches, call->n_fetches, call->targets, call->n_targets,
                              call->results);
    MF_TRY(loop_add_request(l, &own, &all));
    MF_TRY(loop_gather(l, &all, &o));
    MF_TRY(loop_run_all(l, &o, call, &all));
    l->after_run = true;
    l->step = -1;
    for (int i = 0; i < l->n_hooks; i++) {
        if (l->hooks[i].after_run)
            MF_TRY(l->hooks[i].after_run(l->hooks[i].ctx, l, l->results + l->first[i]));
    }
    return MF_OK;
}

/* ---- events ---- */

static mf_status open_writer(mf_hook_loop *l, const char *dir, mf_hook_loop_writer **out)
{
    mf_hook_loop_writer w = { 0 };

    for (int64_t i = 0; i < l->n_writers; i++) {
        *out = &l->writers[i];
        if (strcmp(l->writers[i].dir, dir) == 0)
            return MF_OK;
    }
    MF_TRY(mf_grow(&l->writers, &l->cap_writers, l->n_writers + 1, sizeof *l->writers));
    MF_TRY(mf_events_open(dir, &w.events));
    w.dir = mf_strdup(dir);
    if (!w.dir) {
        (void)!mf_events_close(w.events);
        return MF_NOMEM("events");
    }
    l->writers[l->n_writers++] = w;
    *out = &l->writers[l->n_writers - 1];
    return MF_OK;
}

/* A session's first event in a file has its first step: readers then discard later steps that an
 * earlier session, which lost its end, has written. */
mf_status mf_hook_loop_events(mf_hook_loop *l, const char *dir, mf_events **out)
{
    mf_hook_loop_writer *w;

    *out = NULL;
    MF_TRY(open_writer(l, dir, &w));
    if (w->session != l->sessions) {
        MF_TRY(l->trainer && l->trainer->run[0]
                   ? mf_events_begin_run(w->events, l->start + 1, l->trainer->run)
                   : mf_events_session(w->events, l->start + 1,
                                       TENSORFLOW__SESSION_LOG__SESSION_STATUS__START, NULL));
        w->session = l->sessions;
    }
    *out = w->events;
    return MF_OK;
}

void mf_hook_loop_flush(mf_hook_loop *l)
{
    for (int64_t i = 0; i < l->n_writers; i++) {
        if (mf_events_flush(l->writers[i].events) != MF_OK)
            MF_WARN("%s", mf_error_message());
    }
}

/* ---- timers ---- */

mf_status mf_every_check(const mf_every *every)
{
    if (every->steps < 0 || every->seconds < 0 || (every->steps > 0) == (every->seconds > 0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "give either a number of steps or a number of seconds");
    return MF_OK;
}

bool mf_timer_is_due(const mf_timer *t, int64_t step)
{
    if (!t->fired)
        return true;
    if (step == t->last_step)
        return false;
    if (t->every.seconds > 0)
        return (double)(mf_clock_ns() - t->last_ns) >= t->every.seconds * 1e9;
    return step >= t->last_step + t->every.steps;
}

void mf_timer_fire(mf_timer *t, int64_t step, int64_t *steps, double *seconds)
{
    const int64_t now = mf_clock_ns();

    if (steps)
        *steps = t->fired ? step - t->last_step : 0;
    if (seconds)
        *seconds = t->fired ? (double)(now - t->last_ns) * 1e-9 : 0.0;
    t->last_step = step;
    t->last_ns = now;
    t->fired = true;
}
