/* SPDX-License-Identifier: Apache-2.0 */
/* monitored_session.c - a session with hooks that is made again when it is lost.
 *
 *   1. begin of all hooks once; after_create_session once for each session.
 *   2. A run that ends with ABORTED or UNAVAILABLE, by itself or through a hook or a thread, loses
 *      the session: threads are joined, a new session is made and its variables restored, and the
 *      run is repeated from the beginning, hooks included.
 *   3. end of all hooks once, unless a run has failed. */
#include "base/clock.h"
#include "base/host_state.h"
#include "base/log.h"
#include "train/loop/loop.h"
#include "train/step/variables.h"

#include <meshflow/monitored.h>

#include <string.h>
#include <time.h>

enum { WAIT_MS = 7200000, RECOVERIES = 100, PAUSE_MS_MAX = 1000 };

struct mf_monitored_session {
    mf_graph *graph; /* a copy, with nodes to save and restore */
    mf_graph_variables variables;
    mf_monitored_options o; /* pointers are the caller's, except: */
    char *dir, *init; /* NULL: none */
    mf_hook_loop loop;
    bool begun; /* begin of the hooks was called */
    bool ended; /* the input has */
};

static mf_monitored_session *of_loop(mf_hook_loop *l)
{
    return (mf_monitored_session *)((char *)l - offsetof(mf_monitored_session, loop));
}

static mf_status monitored_session_read_step(mf_hook_loop *l, int64_t *step)
{
    return mf_graph_variables_step(&of_loop(l)->variables, l->session, step);
}

static mf_status monitored_session_take_snapshot(mf_hook_loop *l, mf_snapshot **out)
{
    int64_t step = 0;
    const mf_status st = mf_hook_loop_step(l, &step);

    if (st != MF_NOT_FOUND)
        MF_TRY(st);
    return mf_graph_variables_snapshot(&of_loop(l)->variables, l->session, step, out);
}

static bool is_preemption(mf_status st)
{
    return st == MF_ABORTED || st == MF_UNAVAILABLE;
}

static void pause_ms(int64_t ms)
{
    const struct timespec pause = { ms / 1000, (long)(ms % 1000) * 1000000 };

    nanosleep(&pause, NULL);
}

/* ---- making a session ---- */

static mf_status monitored_session_restore(void *ctx, const char *prefix)
{
    mf_monitored_session *m = ctx;

    return mf_graph_variables_restore(&m->variables, m->loop.session, prefix);
}

/* The chief: from the newest checkpoint, or afresh. */
static mf_status monitored_session_initialise(mf_monitored_session *m)
{
    const char *target = m->init, *missing;
    char *prefix = NULL;

    if (m->dir)
        MF_TRY(mf_checkpoints_try(m->dir, monitored_session_restore, m, &prefix));
    if (prefix)
        MF_INFO("restored %s", prefix);
    if (!prefix && target)
        MF_TRY(mf_session_run(m->loop.session, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL));
    mf_free(prefix);
    MF_TRY(mf_graph_variables_missing(&m->variables, m->loop.session, &missing));
    if (missing)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the variable '%s' has no value%s%s", missing,
                       target ? " after " : "; name a target that initialises it",
                       target ? target : "");
    return MF_OK;
}

static mf_status wait_for_chief(mf_monitored_session *m)
{
    const int64_t wait = m->o.wait_ms > 0 ? m->o.wait_ms : WAIT_MS;
    const int64_t until = mf_clock_ns() + wait * 1000000;
    const char *missing;

    for (int64_t ms = 1;; ms = ms * 2 < PAUSE_MS_MAX ? ms * 2 : PAUSE_MS_MAX) {
        MF_TRY(mf_graph_variables_missing(&m->variables, m->loop.session, &missing));
        if (!missing)
            return MF_OK;
        if (mf_clock_ns() >= until)
            return MF_FAIL(
                MF_DEADLINE_EXCEEDED,
                "the variable '%s' still has no value after %lld ms; is the chief there?", missing,
                (long long)wait);
        pause_ms(ms);
    }
}

static mf_status monitored_session_make_session(mf_monitored_session *m)
{
    mf_hook_loop *l = &m->loop;

    MF_CALLBACK;
    if (m->o.connect)
        MF_TRY(m->o.connect(m->o.connect_ctx, m->graph, &l->session));
    else
        MF_TRY(mf_session_new(m->graph, &m->o.session, &l->session));
    MF_TRY(m->o.is_worker ? wait_for_chief(m) : monitored_session_initialise(m));
    MF_TRY(mf_coordinator_new(&l->coordinator));
    for (int i = 0; i < m->o.n_queue_runners; i++)
        MF_TRY(mf_queue_runner_start(&m->o.queue_runners[i], l->session, l->coordinator));
    return mf_hook_loop_call_created(l);
}

/* The failure of a thread, if one has failed. */
static mf_status drop_session(mf_monitored_session *m)
{
    mf_hook_loop *l = &m->loop;
    mf_status st = MF_OK;

    if (l->coordinator) {
        mf_coordinator_request_stop(l->coordinator, MF_OK);
        st = mf_coordinator_join(l->coordinator, m->o.grace_ms);
        if (st == MF_DEADLINE_EXCEEDED) {
            MF_WARN("%s", mf_error_message());
            st = MF_OK;
        }
    }
    mf_coordinator_free(l->coordinator);
    mf_session_free(l->session);
    l->coordinator = NULL;
    l->session = NULL;
    return st;
}

/* A session was lost: prepare for another one. Fails with `why` after too many losses. */
static mf_status after_loss(mf_monitored_session *m, mf_status why, int losses)
{
    const int most = m->o.max_recoveries > 0 ? m->o.max_recoveries : RECOVERIES;
    mf_error error;

    mf_error_save(why, &error);
    if (drop_session(m) != MF_OK)
        MF_INFO("%s", mf_error_message());
    if (losses >= most)
        return mf_error_restore(&error);
    MF_WARN("the session was lost (%s) and is replaced", error.message);
    pause_ms(losses > 10 ? PAUSE_MS_MAX : (1 << losses) - 1);
    return MF_OK;
}

static mf_status need_session(mf_monitored_session *m, int *losses)
{
    mf_status st = m->loop.session ? MF_OK : monitored_session_make_session(m);

    while (is_preemption(st)) {
        MF_TRY(after_loss(m, st, ++*losses));
        st = monitored_session_make_session(m);
    }
    return st;
}

/* ---- making and closing ---- */

static mf_status copy_strings(mf_monitored_session *m, const mf_graph *graph)
{
    const char *init = m->o.init;

    if (!init && mf_graph_find(graph, "init"))
        init = "init";
    m->dir = m->o.checkpoint_dir ? mf_strdup(m->o.checkpoint_dir) : NULL;
    m->init = init ? mf_strdup(init) : NULL;
    if ((m->o.checkpoint_dir && !m->dir) || (init && !m->init))
        return MF_NOMEM("a session");
    return MF_OK;
}

static mf_status monitored_session_begin(mf_monitored_session *m, const mf_graph *graph)
{
    int losses = 0;

    MF_TRY(copy_strings(m, graph));
    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_graph_copy(graph, NULL, &m->graph));
    MF_TRY(mf_graph_variables_init(&m->variables, m->graph));
    m->loop.graph = m->graph;
    m->loop.hooks = m->o.hooks;
    m->loop.n_hooks = m->o.n_hooks;
    m->loop.read_step = monitored_session_read_step;
    m->loop.snapshot = monitored_session_take_snapshot;
    MF_TRY(mf_hook_loop_init(&m->loop));
    MF_TRY(mf_hook_loop_call_begin(&m->loop));
    m->begun = true;
    return need_session(m, &losses);
}

mf_status mf_monitored_session_new(const mf_graph *graph, const mf_monitored_options *options,
                                   mf_monitored_session **out)
{
    MF_ENTRY;
    MF_NEED(graph, out);
    if (options) {
        MF_NEED_ARRAY(options->hooks, options->n_hooks);
        MF_NEED_ARRAY(options->queue_runners, options->n_queue_runners);
    }

    mf_monitored_session *m = mf_calloc(1, sizeof *m);
    mf_error why;
    mf_status st;

    *out = NULL;
    if (!m)
        return MF_NOMEM("a session");
    if (options)
        m->o = *options;
    st = monitored_session_begin(m, graph);
    if (st == MF_OK) {
        *out = m;
        return MF_OK;
    }
    mf_error_save(st, &why);
    m->loop.failed = true;
    (void)!mf_monitored_session_close(m);
    return mf_error_restore(&why);
}

/* The root of a failure may be a thread's loss of its session. */
static mf_status root_cause(mf_monitored_session *m, mf_status st)
{
    mf_error own;
    mf_status other;

    if (is_preemption(st) || !m->loop.coordinator)
        return st;
    mf_error_save(st, &own);
    other = mf_coordinator_failure(m->loop.coordinator);
    return is_preemption(other) ? other : mf_error_restore(&own);
}

mf_status mf_monitored_session_run(mf_monitored_session *m, const mf_run_options *options,
                                   const char *const *feed_names, const mf_tensor *const *feeds,
                                   int n_feeds, const char *const *fetches, int n_fetches,
                                   const char *const *targets, int n_targets, mf_tensor **results)
{
    MF_ENTRY;
    MF_NEED(m);
    MF_NEED_ALL(feed_names, n_feeds);
    MF_NEED_ALL(feeds, n_feeds);
    MF_NEED_ALL(fetches, n_fetches);
    MF_NEED_ALL(targets, n_targets);
    MF_NEED_ARRAY(results, n_fetches);

    const mf_loop_call call = { feed_names, feeds,     fetches,   targets,
                                n_feeds,    n_fetches, n_targets, results };
    mf_error why;
    mf_status st;
    int losses = 0;

    if (mf_monitored_session_should_stop(m))
        return MF_FAIL(MF_FAILED_PRECONDITION, "a run after a stop of the session was requested");
    for (;;) {
        st = need_session(m, &losses);
        if (st == MF_OK)
            st = mf_hook_loop_run(&m->loop, options, &call);
        if (st == MF_OK)
            return MF_OK;
        st = root_cause(m, st);
        if (!m->loop.session || !is_preemption(st))
            break;
        MF_TRY(after_loss(m, st, ++losses));
    }
    mf_error_save(st, &why);
    if (st == MF_OUT_OF_RANGE)
        m->ended = true;
    else
        (void)mf_hook_loop_forgives(&m->loop, st);
    return mf_error_restore(&why);
}

bool mf_monitored_session_should_stop(mf_monitored_session *m)
{
    MF_ENTRY_OR(true);
    if (!m)
        return true;

    mf_hook_loop *l = &m->loop;

    if (l->failed || m->ended || atomic_load(&l->stop))
        return true;
    if (!l->coordinator || !mf_coordinator_should_stop(l->coordinator))
        return false;
    /* A thread that lost the session is a reason to replace it, not to stop. */
    if (!is_preemption(mf_coordinator_failure(l->coordinator)))
        return true;
    (void)drop_session(m);
    return false;
}

mf_session *mf_monitored_session_raw(mf_monitored_session *m)
{
    MF_ENTRY_OR(NULL);
    if (!m)
        return NULL;

    return m->loop.session;
}

mf_status mf_monitored_session_close(mf_monitored_session *m)
{
    MF_ENTRY;

    mf_status st = MF_OK, more;
    mf_error why = { 0 };

    if (!m)
        return MF_OK;
    if (m->begun && !m->loop.failed && m->loop.session)
        st = mf_hook_loop_call_end(&m->loop);
    mf_error_save(st, &why);
    more = drop_session(m);
    if (st == MF_OK && more != MF_OK && more != MF_OUT_OF_RANGE) {
        st = more;
        mf_error_save(st, &why);
    }
    more = mf_hook_loop_deinit(&m->loop);
    if (st == MF_OK && more != MF_OK) {
        st = more;
        mf_error_save(st, &why);
    }
    mf_graph_variables_deinit(&m->variables);
    mf_graph_free(m->graph);
    mf_free(m->dir);
    mf_free(m->init);
    mf_free(m);
    return st == MF_OK ? MF_OK : mf_error_restore(&why);
}
