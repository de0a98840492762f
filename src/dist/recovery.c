/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.c - the state machine of a recovery: one function for each state, and one loop.
 *
 * A state's function returns the next state. Failures are kept in mf_recovery.why: the thread's
 * error changes while connections are closed. */
#include "dist/recovery.h"

#include "base/clock.h"
#include "base/log.h"
#include "dist/job_members.h"

#include <string.h>
#include <time.h>

static const int64_t POLL_NS = 20000000;

bool mf_recovery_is_by_peer(mf_status st)
{
    return st == MF_UNAVAILABLE || st == MF_ABORTED || st == MF_DEADLINE_EXCEEDED;
}

/* ---- messages ---- */

static const char *const state_names[MF_RECOVERY_STATES] = {
    [MF_RECOVERY_RUNNING] = "running",       [MF_RECOVERY_DETECTED] = "detected",
    [MF_RECOVERY_ABORTING] = "aborting",     [MF_RECOVERY_AGREEING] = "agreeing on a view",
    [MF_RECOVERY_CONNECTING] = "connecting", [MF_RECOVERY_WAITING] = "waiting for servers",
    [MF_RECOVERY_REBUILDING] = "rebuilding", [MF_RECOVERY_ASSIGNING] = "assigning shards",
    [MF_RECOVERY_ALIGNING] = "aligning",     [MF_RECOVERY_REDOING] = "redoing the step",
    [MF_RECOVERY_SERVING] = "serving",       [MF_RECOVERY_ENDED] = "ended",
};

static double recovery_ms_since(int64_t ns)
{
    return (double)(mf_clock_ns() - ns) * 1e-6;
}

static void log_state(const mf_job_members *j)
{
    const mf_recovery *r = &j->recovery;

    MF_LOG(MF_LOG_DEBUG, "recovery: %s%s%s", state_names[r->state],
           r->why.status != MF_OK ? ": " : "", r->why.status != MF_OK ? r->why.message : "");
}

static void log_suspect(const mf_job_members *j)
{
    MF_WARN("epoch %lld: %s", (long long)j->view->epoch, mf_error_message());
}

/* The epoch, its members, and why it began. */
static void log_view(const mf_job_members *j)
{
    const mf_recovery *r = &j->recovery;
    const char *cause = r->cause.status == MF_OK ? "tasks join or leave" : r->cause.message;
    mf_buf names = { 0 };

    if (j->view->epoch == 1)
        return;
    for (int i = 0; i < j->view->n; i++)
        mf_buf_printf(&names, "%s%s", i > 0 ? ", " : "", j->view->members[i].name);
    MF_INFO("epoch %lld: training continues with %s after %.0f ms (cause: %.*s)",
            (long long)j->view->epoch, names.data ? names.data : "", recovery_ms_since(r->began_ns),
            (int)strcspn(cause, "\n"), cause);
    mf_buf_deinit(&names);
}

static void log_redone(const mf_recovery *r, int64_t step)
{
    MF_INFO("step %lld is complete, %.0f ms after the failure was detected", (long long)step,
            recovery_ms_since(r->detected_ns));
}

static void log_waiting(const mf_job_members *j, int needed)
{
    MF_INFO("training waits for parameter servers: the job has %d of %d", j->n_servers, needed);
}

/* mf_members_options.excluded. */
void mf_recovery_log_excluded(const mf_job_members *j, int64_t ns)
{
    MF_WARN("%s is excluded: it and other live members cannot connect; it rejoins in %.3g s",
            j->name, (double)ns * 1e-9);
}

/* ---- failures ---- */

static void note_ended(mf_job_members *j, mf_status st)
{
    mf_dist *dist = j->recovery.dist;

    if (st == MF_OUT_OF_RANGE) {
        dist->state = MF_DIST_OVER;
        dist->stopped |= j->members && mf_members_were_stopped(j->members);
    } else if (st == MF_CANCELLED && j->recovery.may_leave) {
        dist->state = MF_DIST_LEFT;
    }
}

/* The state after the end of another one: `retry`, if a peer is the cause of its failure. */
static mf_recovery_state end_or_retry(mf_job_members *j, mf_status st, mf_recovery_state retry)
{
    mf_error_save(st, &j->recovery.why);
    if (mf_recovery_is_by_peer(st))
        return retry;
    note_ended(j, st);
    return MF_RECOVERY_ENDED;
}

/* ---- states ---- */

/* Neither the failure nor the state of the connections is a peer's fault. */
static bool is_own_failure(const mf_job_members *j)
{
    const mf_status st = j->recovery.why.status;

    if (st == MF_OK)
        return false;
    if (!mf_recovery_is_by_peer(st))
        return true;
    return j->net && !mf_recovery_is_by_peer(mf_net_check(j->net));
}

static mf_recovery_state recovery_classify(mf_job_members *j)
{
    mf_recovery *r = &j->recovery;

    r->began_ns = mf_clock_ns();
    if (r->why.status == MF_OK && r->hooks->prepare)
        mf_error_save(r->hooks->prepare(r->dist, r->trainer), &r->why);
    r->cause = r->why;
    if (r->why.status != MF_OK && r->detected_ns == 0)
        r->detected_ns = r->began_ns;
    return is_own_failure(j) ? MF_RECOVERY_ENDED : MF_RECOVERY_ABORTING;
}

static mf_recovery_state recovery_abort(mf_job_members *j)
{
    mf_recovery *r = &j->recovery;

    r->hooks->release(r->dist);
    mf_group_free(r->dist->group);
    r->dist->group = NULL;
    mf_job_members_disconnect(j, mf_error_restore(&r->why));
    return MF_RECOVERY_AGREEING;
}

static mf_status recovery_next_view(mf_job_members *j)
{
    if (!j->members)
        MF_TRY(mf_job_members_register(j));
    return mf_members_next(j->members, &j->view);
}

/* A server that has served before stays as long as there are workers. */
static mf_recovery_state recovery_agree(mf_job_members *j)
{
    mf_status st;

    j->recovery.may_leave = !j->recovery.hooks->serve || !j->view;
    st = recovery_next_view(j);
    if (st == MF_OUT_OF_RANGE)
        st = mf_job_members_check_end(j, st);
    return st == MF_OK ? MF_RECOVERY_CONNECTING : end_or_retry(j, st, MF_RECOVERY_ABORTING);
}

/* A live member did not connect: the next view excludes it, or this task. */
static mf_status recovery_suspect(mf_job_members *j, int task)
{
    log_suspect(j);
    return mf_members_suspect(j->members, mf_job_members_place_of(j, task));
}

static mf_recovery_state recovery_connect(mf_job_members *j)
{
    int missing = -1;
    mf_status st = mf_job_members_connect(j, &missing);

    if (st == MF_OK)
        return j->recovery.hooks->serve ? MF_RECOVERY_SERVING : MF_RECOVERY_REBUILDING;
    if (st == MF_DEADLINE_EXCEEDED && missing >= 0) {
        st = recovery_suspect(j, missing);
        return st == MF_OK ? MF_RECOVERY_AGREEING : end_or_retry(j, st, MF_RECOVERY_ABORTING);
    }
    return end_or_retry(j, st, MF_RECOVERY_AGREEING);
}

static mf_recovery_state recovery_rebuild(mf_job_members *j)
{
    mf_recovery *r = &j->recovery;
    mf_dist *dist = r->dist;
    mf_status st = mf_job_members_describe_view(j, dist);

    if (st == MF_OK && r->hooks->servers_needed && j->n_servers < r->hooks->servers_needed(dist))
        return MF_RECOVERY_WAITING;
    if (st == MF_OK)
        st = mf_job_members_group(j, 1, &dist->group);
    return st == MF_OK ? MF_RECOVERY_ASSIGNING : end_or_retry(j, st, MF_RECOVERY_ABORTING);
}

static mf_recovery_state recovery_wait(mf_job_members *j)
{
    const mf_recovery *r = &j->recovery;
    const mf_status st = mf_recovery_await_servers(j, r->hooks->servers_needed(r->dist));

    return end_or_retry(j, st, MF_RECOVERY_ABORTING);
}

static mf_recovery_state recovery_assign(mf_job_members *j)
{
    const mf_recovery *r = &j->recovery;
    const mf_status st = r->hooks->assign ? r->hooks->assign(r->dist, r->trainer) : MF_OK;

    if (st != MF_OK)
        return end_or_retry(j, st, MF_RECOVERY_ABORTING);
    if (r->dist->state == MF_DIST_LEFT || r->dist->state == MF_DIST_OVER)
        r->dist->state = MF_DIST_ACTIVE;
    log_view(j);
    return MF_RECOVERY_ALIGNING;
}

/* Alignment fails like a step: its error is classified again. */
static mf_recovery_state recovery_align(mf_job_members *j)
{
    mf_recovery *r = &j->recovery;

    mf_error_save(mf_dist_align_state(r->dist, r->trainer), &r->why);
    if (r->why.status != MF_OK)
        return MF_RECOVERY_DETECTED;
    return r->detected_ns > 0 ? MF_RECOVERY_REDOING : MF_RECOVERY_RUNNING;
}

static mf_recovery_state recovery_serve(mf_job_members *j)
{
    mf_recovery *r = &j->recovery;

    r->may_leave = j->n_workers == 0;
    return end_or_retry(j, r->hooks->serve(r->dist, r->trainer), MF_RECOVERY_ABORTING);
}

/* ---- the loop ---- */

typedef mf_recovery_state transition(mf_job_members *j);

static transition *const transitions[MF_RECOVERY_STATES] = {
    [MF_RECOVERY_DETECTED] = recovery_classify, [MF_RECOVERY_ABORTING] = recovery_abort,
    [MF_RECOVERY_AGREEING] = recovery_agree,    [MF_RECOVERY_CONNECTING] = recovery_connect,
    [MF_RECOVERY_WAITING] = recovery_wait,      [MF_RECOVERY_REBUILDING] = recovery_rebuild,
    [MF_RECOVERY_ASSIGNING] = recovery_assign,  [MF_RECOVERY_ALIGNING] = recovery_align,
    [MF_RECOVERY_SERVING] = recovery_serve,
};

mf_status mf_recovery_rendezvous(mf_dist *dist, mf_trainer *t, mf_status why)
{
    mf_job_members *j = dist->members;
    mf_recovery *r = &j->recovery;

    mf_error_save(why, &r->why);
    r->dist = dist;
    r->trainer = t;
    r->state = MF_RECOVERY_DETECTED;
    while (transitions[r->state]) {
        log_state(j);
        r->state = transitions[r->state](j);
    }
    log_state(j);
    return r->state == MF_RECOVERY_ENDED ? mf_error_restore(&r->why) : MF_OK;
}

void mf_recovery_step_done(mf_dist *dist, int64_t step)
{
    mf_recovery *r = dist->members ? &dist->members->recovery : NULL;

    if (!r || r->state != MF_RECOVERY_REDOING)
        return;
    log_redone(r, step);
    r->state = MF_RECOVERY_RUNNING;
    r->detected_ns = 0;
}

/* ---- waiting ---- */

static mf_status recovery_await_change(mf_job_members *j, int needed)
{
    const int64_t deadline = needed > 0 ? mf_clock_ns() + j->timeout_ns : INT64_MAX;

    while (!mf_members_wait_for_next(j->members)) {
        MF_TRY(mf_members_check(j->members));
        MF_TRY(mf_members_check_stop(j->members,
                                     "training waited for parameter servers, so nothing is saved "
                                     "now; --resume continues from the newest checkpoint"));
        MF_TRY(mf_net_check(j->net));
        if (mf_clock_ns() > deadline)
            return MF_FAIL(MF_FAILED_PRECONDITION,
                           "%d of %d parameter servers are lost and were not restarted within "
                           "%.0f s; give `launch --max-restarts`, and --save-steps to continue "
                           "from a checkpoint with --resume",
                           needed - j->n_servers, needed, (double)j->timeout_ns * 1e-9);
        (void)nanosleep(&(struct timespec){ 0, POLL_NS }, NULL);
    }
    return MF_FAIL(MF_ABORTED, "a task joins");
}

mf_status mf_recovery_await_servers(mf_job_members *j, int needed)
{
    if (needed > 0)
        log_waiting(j, needed);
    return recovery_await_change(j, needed);
}
