/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - shared by mf_fit() and monitored sessions: hooks around runs, the step, and event files
 * that all hooks share. */
#ifndef MF_TRAIN_LOOP_LOOP_H
#define MF_TRAIN_LOOP_LOOP_H

#include "formats/events.h"
#include "graph/graph.h"

#include <meshflow/hooks.h>

#include <stdatomic.h>

struct mf_snapshot;

/* A writer of events for a folder. TensorBoard follows one file of a folder at a time, so hooks
 * that name the same folder write into one file. */
typedef struct mf_hook_loop_writer {
    char *dir;
    mf_events *events;
    int64_t session; /* the START of this session was written */
} mf_hook_loop_writer;

struct mf_hook_loop {
    mf_session *session;
    mf_trainer *trainer; /* NULL: a monitored session */
    mf_coordinator *coordinator; /* NULL: mf_fit() */
    const mf_graph *graph;
    const mf_hook *hooks;
    int n_hooks;
    atomic_bool stop;
    bool failed; /* a run has failed, and no hook forgave it: hooks end without further work */

    mf_status (*read_step)(mf_hook_loop *loop, int64_t *step);
    mf_status (*snapshot)(mf_hook_loop *loop, struct mf_snapshot **out);
    int64_t sessions; /* sessions made so far */
    int64_t start; /* steps done when the session was made */
    bool after_run; /* and before the next: the step does not change */
    int64_t step; /* of that time; -1: not read yet */

    mf_hook_loop_writer *writers;
    int64_t n_writers, cap_writers;

    /* The names of a run, assembled; reused by the next. */
    const char **feed_names, **fetches;
    const mf_tensor **feeds;
    mf_tensor **results;
    int *first; /* by hook: its first result */
    int64_t cap_feed_names, cap_feeds, cap_fetches, cap_results, n_results;
};

/* One call of mf_session_run(). */
typedef struct mf_loop_call {
    const char *const *feed_names;
    const mf_tensor *const *feeds;
    const char *const *fetches, *const *targets;
    int n_feeds, n_fetches, n_targets;
    mf_tensor **results;
} mf_loop_call;

/* The caller has set trainer or its replacement, graph and hooks; everything else is 0. */
MF_MUST mf_status mf_hook_loop_init(mf_hook_loop *l);
/* Close all event files: the first failure of that. */
MF_MUST mf_status mf_hook_loop_deinit(mf_hook_loop *l);

MF_MUST mf_status mf_hook_loop_call_begin(mf_hook_loop *l);
/* A session was made: record its first step, notify the hooks. */
MF_MUST mf_status mf_hook_loop_call_created(mf_hook_loop *l);
/* Every hook's end is called; the first failure counts. */
MF_MUST mf_status mf_hook_loop_call_end(mf_hook_loop *l);
/* Does a hook forgive this failure of a run? */
bool mf_hook_loop_forgives(mf_hook_loop *l, mf_status why);

/* before_run of all hooks, the run with their additions, after_run of all. */
MF_MUST mf_status mf_hook_loop_run(mf_hook_loop *l, const mf_run_options *options,
                                   const mf_loop_call *call);

/* The events of this folder, begun if need be. Owns: the loop's. */
MF_MUST mf_status mf_hook_loop_events(mf_hook_loop *l, const char *dir, mf_events **out);
/* Flush the events of all folders. */
void mf_hook_loop_flush(mf_hook_loop *l);

/* ---- when to do something ---- */

typedef struct mf_timer {
    mf_every every;
    int64_t last_step, last_ns; /* when it was done last */
    bool fired; /* it was */
} mf_timer;

/* Never at the same step twice. */
bool mf_timer_is_due(const mf_timer *t, int64_t step);
/* It was done. *steps and *seconds: since the time before; 0 the first time. May be NULL. */
void mf_timer_fire(mf_timer *t, int64_t step, int64_t *steps, double *seconds);
/* INVALID_ARGUMENT unless exactly one of the two is set. */
MF_MUST mf_status mf_every_check(const mf_every *every);

#endif
