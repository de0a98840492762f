/* SPDX-License-Identifier: Apache-2.0 */
/* launch_watch.c - waits for tasks, their output and signals, in one thread.
 *
 * A run has three phases: running; leaving (parameter servers have the grace period to end after
 * the workers); stopping (all tasks were sent a signal, and are killed after the grace period). */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "supervisor/launch.h"
#include "supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum phase { GOING, LEAVING, STOPPING, KILLING } phase;

enum { LOOK_MS = 50 };

typedef struct launch_watch {
    mf_launch *l;
    phase phase;
    int64_t deadline; /* of LEAVING and STOPPING */
    int sent_signal; /* the signal that all tasks were sent; 0: none */
    bool asked; /* a signal to the launcher started it */
    bool any_succeeded; /* a task that leads has ended with exit code 0 */
    bool without; /* the tasks continue without a lost task */
    int code; /* of the first permanent error, else of the first failure; 0 */
    char why[128]; /* and how */
    int signals; /* signalfd */
    struct pollfd *polls; /* signals, then out and err of each task */
} launch_watch;

static void launch_watch_say(const char *fmt, ...) MF_PRINTF(1, 2);

static void launch_watch_say(const char *fmt, ...)
{
    char text[512];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text - 1, fmt, args);
    va_end(args);
    if (n > 0)
        (void)fprintf(stderr, "[launch] %s\n", text);
}

/* ---- signalling tasks ---- */

static void launch_watch_notify(launch_watch *w, int signal_number, bool servers_only)
{
    for (int i = 0; i < w->l->n; i++) {
        const mf_launched *t = &w->l->tasks[i];

        if (t->pid > 0 && (!servers_only || t->role == MF_ROLE_PS))
            (void)kill(-t->pid, signal_number);
    }
}

static void stop(launch_watch *w, int signal_number)
{
    launch_watch_notify(w, signal_number, false);
    w->sent_signal = signal_number;
    w->phase = STOPPING;
    w->deadline = mf_clock_ns() + w->l->grace_ns;
}

static void kill_all(launch_watch *w)
{
    launch_watch_notify(w, SIGKILL, false);
    if (w->l->by_masters)
        (void)mf_supervisor_end_tasks(w->l->store, true);
    w->sent_signal = SIGKILL;
    w->phase = KILLING;
}

static bool launch_watch_runs(const mf_launch *l, bool followers)
{
    for (int i = 0; i < l->n; i++) {
        if (!l->tasks[i].done && (followers || mf_launch_leads(l, &l->tasks[i])))
            return true;
    }
    return false;
}

/* ---- tasks that end ---- */

static void launch_watch_describe(const siginfo_t *info, int code, char *text, size_t size)
{
    if (info->si_code == CLD_EXITED && code == MF_EXIT_STOPPED)
        (void)snprintf(text, size, "was stopped before its end (exit code %d)", code);
    else if (info->si_code == CLD_EXITED)
        (void)snprintf(text, size, "ended with exit code %d", info->si_status);
    else
        (void)snprintf(text, size, "was killed by signal %d (%s)%s", info->si_status,
                       strsignal(info->si_status),
                       info->si_code == CLD_DUMPED ? ", core dumped" : "");
}

/* True if a task runs, or will run, that was started later than this server: the server served the
 * earlier tasks and ended. */
static bool is_needed_again(const mf_launch *l, const mf_launched *server)
{
    for (int i = 0; i < l->n; i++) {
        const mf_launched *t = &l->tasks[i];

        if (mf_launch_leads(l, t) && (t->again_ns > 0 || (!t->done && t->restarts > 0 &&
                                                          t->started_ns > server->started_ns)))
            return true;
    }
    return false;
}

/* Servers end with code 0 when their workers end, even if the workers failed. */
static void restart_servers(launch_watch *w, int64_t at_ns)
{
    for (int i = 0; i < w->l->n; i++) {
        mf_launched *t = &w->l->tasks[i];

        if (t->role != MF_ROLE_PS || !t->done || !t->succeeded || w->l->by_masters ||
            !is_needed_again(w->l, t))
            continue;
        t->done = false;
        t->again_ns = at_ns;
    }
}

/* A kill from outside says nothing about the task itself, so the delays do not grow. Otherwise a
 * job whose tasks are killed repeatedly would spend more time waiting than training. */
static bool try_again(launch_watch *w, mf_launched *t, int code, const char *how)
{
    const int64_t now = mf_clock_ns();

    if (w->phase != GOING || t->restarts >= w->l->max_restarts || !mf_exit_may_restart(code))
        return false;
    t->in_row = code == MF_EXIT_SIGNAL + SIGKILL ? 0 : t->in_row;
    t->again_ns = now + mf_launch_pause_ns(t->started_ns, now, &t->in_row);
    t->restarts++;
    t->code = code;
    restart_servers(w, t->again_ns);
    launch_watch_say("%s %s: restart %d of %d in %.2f s", t->name, how, t->restarts,
                     w->l->max_restarts, (double)(t->again_ns - now) * 1e-9);
    return true;
}

/* How much a code says about the job: a permanent failure causes those of its peers, and a task
 * that was stopped did not fail. */
static int launch_watch_weight_of(int code)
{
    return code == MF_EXIT_DONE         ? 0
           : code == MF_EXIT_STOPPED    ? 1
           : mf_exit_is_permanent(code) ? 3
                                        : 2;
}

/* Keeps the first of the failures with the largest weight. */
static void launch_watch_note_failure(launch_watch *w, const mf_launched *t, int code,
                                      const char *how)
{
    if (launch_watch_weight_of(code) <= launch_watch_weight_of(w->code))
        return;
    w->code = code;
    (void)snprintf(w->why, sizeof w->why, "%s %s", t->name, how);
}

/* A training that our signal ended before it could handle the signal counts as stopped, too. */
static int code_of_lost(const launch_watch *w, int code)
{
    return w->asked && w->l->trains ? MF_EXIT_STOPPED : code;
}

/* Restarts the tasks whose delay is over. */
static void start_again(launch_watch *w)
{
    for (int i = 0; i < w->l->n; i++) {
        mf_launched *t = &w->l->tasks[i];

        if (t->again_ns == 0 || mf_clock_ns() < t->again_ns)
            continue;
        t->again_ns = 0;
        if (w->phase == GOING && mf_launch_start(w->l, t) == MF_OK)
            continue;
        if (w->phase == GOING)
            launch_watch_say("%s", mf_error_message());
        t->done = true;
        launch_watch_note_failure(w, t, code_of_lost(w, t->code), "was not restarted");
    }
}

static int code_of(const launch_watch *w, const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? info->si_status
                                       : code_of_lost(w, MF_EXIT_SIGNAL + info->si_status);
}

static void launch_watch_failed(launch_watch *w, mf_launched *t, const siginfo_t *info)
{
    const bool exited = info->si_code == CLD_EXITED;
    const int code = code_of(w, info);
    char how[96];

    /* A follower that our signal ended has done its part. */
    if (!mf_launch_leads(w->l, t) && w->sent_signal && !exited && info->si_status == w->sent_signal)
        return;
    launch_watch_describe(info, code, how, sizeof how);
    if (exited && code == MF_EXIT_STOPPED && w->phase == GOING && mf_launch_has_members(w->l)) {
        launch_watch_say("%s has left: the other tasks continue", t->name);
        launch_watch_note_failure(w, t, code, "has left");
        w->without = true;
        return;
    }
    if (w->l->masters && t->role != MF_ROLE_MASTER) {
        launch_watch_say("%s %s: the masters handle it", t->name, how);
        return;
    }
    if (try_again(w, t, code, how)) {
        t->done = false;
        return;
    }
    launch_watch_note_failure(w, t, code, how);
    if (w->phase == STOPPING || w->phase == KILLING)
        return;
    if (launch_watch_runs(w->l, false) && mf_launch_has_members(w->l)) {
        launch_watch_say("%s %s: the other tasks continue", t->name, how);
        w->without = true;
        return;
    }
    if (launch_watch_runs(w->l, true)) {
        launch_watch_say("%s %s: the other tasks are stopped", t->name, how);
        stop(w, SIGTERM);
    }
}

static void ended(launch_watch *w, mf_launched *t, const siginfo_t *info)
{
    /* Kill the processes that the task started. Its process group id is not reused before it is
     * reaped. */
    (void)kill(-t->pid, SIGKILL);
    while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    t->pid = 0;
    t->done = true;
    (void)mf_launch_output_read(&t->out);
    (void)mf_launch_output_read(&t->err);
    t->succeeded = info->si_code == CLD_EXITED && info->si_status == 0;
    if (!t->succeeded)
        launch_watch_failed(w, t, info);
    else if (mf_launch_leads(w->l, t))
        w->any_succeeded = true;
    else if (w->phase == GOING)
        restart_servers(w, mf_clock_ns());
}

static void launch_watch_reap(launch_watch *w)
{
    for (int i = 0; i < w->l->n; i++) {
        mf_launched *t = &w->l->tasks[i];
        siginfo_t info = { 0 };

        if (t->pid > 0 && waitid(P_PID, (id_t)t->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == t->pid)
            ended(w, t, &info);
    }
    if (w->phase == GOING && !launch_watch_runs(w->l, false) && launch_watch_runs(w->l, true)) {
        if (w->code != MF_EXIT_DONE && !w->any_succeeded) { /* no worker is left to serve */
            stop(w, SIGTERM);
            return;
        }
        w->phase = LEAVING;
        w->deadline = mf_clock_ns() + w->l->grace_ns;
    }
}

/* ---- time and signals ---- */

static void launch_watch_check_clock(launch_watch *w)
{
    if ((w->phase != LEAVING && w->phase != STOPPING) || mf_clock_ns() < w->deadline)
        return;
    for (int i = 0; i < w->l->n; i++) {
        const mf_launched *t = &w->l->tasks[i];

        if (!t->done)
            launch_watch_say("%s %s after %.3g s: it is %s", t->name,
                             w->phase == STOPPING ? "has not ended"
                             : w->l->masters      ? "has not followed the masters"
                                                  : "has not followed the workers",
                             (double)w->l->grace_ns * 1e-9,
                             w->phase == LEAVING ? "sent SIGTERM" : "killed");
    }
    if (w->phase == LEAVING)
        stop(w, SIGTERM);
    else
        kill_all(w);
}

/* SIGTERM to one worker makes it leave, and the others continue; here the whole job is interrupted.
 */
static void take_signals(launch_watch *w)
{
    struct signalfd_siginfo got;

    while (read(w->signals, &got, sizeof got) == (ssize_t)sizeof got) {
        const int number = (int)got.ssi_signo;

        if (number == SIGCHLD)
            continue;
        if (w->asked) {
            launch_watch_say("%s again: killing the tasks", strsignal(number));
            kill_all(w);
            continue;
        }
        w->asked = true;
        if (w->phase == GOING) /* the job has survived the failures so far */
            w->code = MF_EXIT_DONE;
        launch_watch_say("%s: forwarded to the tasks; a second one kills them", strsignal(number));
        stop(w, w->l->trains && mf_launch_has_members(w->l) ? SIGINT : number);
    }
}

static int time_left_ms(const launch_watch *w)
{
    int64_t next = w->phase == LEAVING || w->phase == STOPPING ? w->deadline : 0, left;

    for (int i = 0; i < w->l->n; i++) {
        const int64_t again = w->l->tasks[i].again_ns;

        if (again > 0 && (next == 0 || again < next))
            next = again;
    }
    left = (next - mf_clock_ns()) / 1000000 + 1;
    if (next == 0)
        return -1;
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

/* ---- the loop ---- */

static mf_launch_output *lines_of(const launch_watch *w, int i)
{
    mf_launched *t = &w->l->tasks[i / 2];

    return i % 2 == 0 ? &t->out : &t->err;
}

static void launch_watch_wait_once(launch_watch *w)
{
    const int n = 2 * w->l->n;

    w->polls[0] = (struct pollfd){ .fd = w->signals, .events = POLLIN };
    for (int i = 0; i < n; i++)
        w->polls[1 + i] = (struct pollfd){ .fd = lines_of(w, i)->from, .events = POLLIN };
    if (poll(w->polls, (nfds_t)n + 1, time_left_ms(w)) < 0)
        return; /* EINTR, by a signal that the signalfd does not take */
    for (int i = 0; i < n; i++) {
        if (w->polls[1 + i].revents)
            (void)mf_launch_output_read(lines_of(w, i));
    }
    take_signals(w);
    launch_watch_reap(w);
    start_again(w);
    launch_watch_check_clock(w);
}

static mf_status launch_watch_start_all(launch_watch *w)
{
    for (int i = 0; i < w->l->n; i++) {
        const mf_status st = w->l->tasks[i].done ? MF_OK : mf_launch_start(w->l, &w->l->tasks[i]);

        if (st != MF_OK) {
            mf_error why;

            mf_error_save(st, &why);
            kill_all(w);
            for (; i < w->l->n; i++)
                w->l->tasks[i].done = true;
            while (launch_watch_runs(w->l, true))
                launch_watch_wait_once(w);
            return mf_error_restore(&why);
        }
    }
    return MF_OK;
}

/* Masters that were lost may have left tasks, which are interrupted here. */
static void end_tasks_of_masters(launch_watch *w)
{
    while (w->phase == STOPPING && mf_supervisor_end_tasks(w->l->store, false) > 0) {
        struct pollfd p = { .fd = w->signals, .events = POLLIN };

        (void)poll(&p, 1, LOOK_MS);
        take_signals(w);
        if (w->phase == STOPPING && mf_clock_ns() > w->deadline) {
            launch_watch_say("tasks without a master have not ended after %.3g s: they are killed",
                             (double)w->l->grace_ns * 1e-9);
            kill_all(w);
        }
    }
}

static mf_status watch_all(launch_watch *w, int *exit_code)
{
    MF_TRY(launch_watch_start_all(w));
    while (launch_watch_runs(w->l, true))
        launch_watch_wait_once(w);
    if (w->l->by_masters)
        end_tasks_of_masters(w);
    for (int i = 0; i < 2 * w->l->n; i++) {
        (void)mf_launch_output_read(lines_of(w, i));
        mf_launch_output_close(lines_of(w, i));
    }
    if (w->without && w->any_succeeded && !w->asked)
        w->code = 0;
    *exit_code = w->code;
    return w->code == MF_EXIT_DONE ? MF_OK : MF_FAIL(MF_ABORTED, "%s", w->why);
}

mf_status mf_launch_run(mf_launch *l, int *exit_code)
{
    launch_watch w = { .l = l };
    sigset_t set, before;
    mf_status st;

    sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    w.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    w.polls = mf_calloc(2 * (int64_t)l->n + 1, sizeof *w.polls);
    if (w.signals < 0 || !w.polls)
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot watch tasks: %s", strerror(errno));
    else
        st = watch_all(&w, exit_code);
    if (w.signals >= 0)
        (void)close(w.signals);
    mf_free(w.polls);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}
