/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.c - the master of a job: starts tasks, restarts lost tasks, takes over the tasks of a
 * lost master. All masters are active. The store records for each task its master, its process and
 * its restarts (ward/NAME), changed by compare-and-swap. So a restarted master continues where it
 * was, and two masters never start the same task. Training does not depend on masters: they only
 * keep the processes running.
 *
 * A signal to one master interrupts the whole job: the store records it, so that each master
 * interrupts the tasks it has or takes over, and restarts none. */
#include "supervisor/supervisor.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/membership/membership_snapshot.h"
#include "cluster/store/store.h"
#include "observe/status_page.h"
#include "supervisor/launch.h"
#include "supervisor/proc_cmdline.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME = 32, LOOK_MS = 50, UNKNOWN = -1 };
static const int64_t LEASE_NS = 3000000000;

typedef struct supervised {
    char name[NAME]; /* "worker 1" */
    mf_role role;
    int index;
    /* the value in the store */
    int64_t version; /* 0: no master has it yet */
    char master[NAME];
    long long pid, start; /* pid 0: not running */
    int restarts;
    int code; /* exit code of its last process; UNKNOWN: it runs, or its master did not reap it */
    /* this master's own state */
    int64_t started_ns, again_ns; /* started_ns 0: not by this master; again_ns: when to restart it
                                   */
    int in_row; /* restarts in a row, each after a short run */
    long long interrupted; /* the process that this master has interrupted; 0: none */
} supervised;

typedef struct master {
    const mf_cluster *cluster;
    char name[NAME];
    mf_store *store;
    int64_t lease, revision;
    supervised *tasks;
    int n;
    char (*alive)[NAME]; /* masters */
    int n_alive;
    bool over, stopped; /* its training has ended; before its last step */
    bool interrupted; /* by a signal to a master */
    int max_restarts;
    mf_proc_cmdline command; /* the tasks run the command line of this process */
} master;

#define INTERRUPT "interrupt" /* in the store: a signal to a master has interrupted the job */

static volatile sig_atomic_t stop_signals; /* a signal was received */

static void supervisor_on_signal(int number)
{
    stop_signals = number;
}

/* ---- the store ---- */

static void supervisor_key_of(const char *kind, const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", kind, name);
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '-' : *c;
}

/* "MASTER,PID,START,RESTARTS,CODE". */
static void supervisor_read_task(const mf_store_entry *e, supervised *w)
{
    const size_t n = strcspn(e->value, ",");

    if (n >= sizeof w->master ||
        sscanf(e->value + n, ",%lld,%lld,%d,%d", &w->pid, &w->start, &w->restarts, &w->code) != 4)
        return;
    memcpy(w->master, e->value, n);
    w->master[n] = '\0';
    w->version = e->version;
}

static void supervisor_read_entry(master *m, const mf_store_entry *e)
{
    char key[MF_STORE_KEY_MAX];

    m->interrupted |= strcmp(e->key, INTERRUPT) == 0;
    if (strcmp(e->key, "over") == 0) {
        m->over = true;
        m->stopped = strcmp(e->value, MF_STOPPED) == 0;
    }
    if (strncmp(e->key, "master/", 7) == 0 && e->size < NAME)
        memcpy(m->alive[m->n_alive++], e->value, e->size + 1);
    for (int i = 0; i < m->n; i++) {
        supervisor_key_of("ward", m->tasks[i].name, key, sizeof key);
        if (strcmp(e->key, key) == 0)
            supervisor_read_task(e, &m->tasks[i]);
    }
}

static mf_status supervisor_refresh(master *m)
{
    mf_store_entries all = { 0 };

    MF_TRY(mf_store_list(m->store, "", &all));
    mf_free(m->alive);
    m->n_alive = 0;
    m->alive = mf_calloc(all.n + 1, sizeof *m->alive);
    for (int i = 0; m->alive && i < all.n; i++)
        supervisor_read_entry(m, &all.entries[i]);
    m->revision = all.revision;
    mf_store_entries_deinit(&all);
    return m->alive ? MF_OK : MF_NOMEM("masters");
}

/* *won: no other master has changed it in between. */
static mf_status supervisor_put_task(master *m, supervised *w, bool *won)
{
    char key[MF_STORE_KEY_MAX], text[128];
    mf_status st;

    supervisor_key_of("ward", w->name, key, sizeof key);
    (void)snprintf(text, sizeof text, "%s,%lld,%lld,%d,%d", w->master, w->pid, w->start,
                   w->restarts, w->code);
    st = mf_store_put(m->store, key, text, strlen(text), w->version, 0, &w->version);
    *won = st == MF_OK;
    return st == MF_ABORTED ? MF_OK : st;
}

static mf_status register_master(master *m)
{
    char key[MF_STORE_KEY_MAX];

    supervisor_key_of("master", m->name, key, sizeof key);
    MF_TRY(mf_store_lease_grant(m->store, LEASE_NS, &m->lease));
    return mf_store_put(m->store, key, m->name, strlen(m->name), MF_STORE_ANY, m->lease, NULL);
}

static mf_status renew_registration(master *m)
{
    const mf_status st = mf_store_lease_keep(m->store, m->lease);

    return st == MF_FAILED_PRECONDITION ? register_master(m) : st;
}

/* ---- processes ---- */

/* True if a child has ended that supervisor_reap() has not reaped yet. */
static bool has_unreaped_exit(const supervised *w)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == (pid_t)w->pid;
}

static bool supervisor_runs(const supervised *w)
{
    mf_process p;

    return w->pid > 0 && mf_process_read(w->pid, &p) && p.start == w->start &&
           (p.state != 'Z' || has_unreaped_exit(w));
}

/* Between fork and exec. */
static _Noreturn void supervisor_become(const master *m, const supervised *w, const char *config,
                                        const sigset_t *before)
{
    char prefix[NAME + 4];

    (void)snprintf(prefix, sizeof prefix, "[%s] ", w->name);
    (void)setpgid(0, 0); /* its signals are its own */
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    (void)setenv("TF_CONFIG", config, 1);
    (void)setenv("MESHFLOW_LOG_PREFIX", prefix, 1);
    (void)execv("/proc/self/exe", m->command.list);
    _exit(127);
}

/* A signal to the new process is delivered once it no longer has this process's handlers. */
static pid_t supervisor_fork(const master *m, const supervised *w, const char *config)
{
    sigset_t stops, before;
    pid_t pid;

    sigemptyset(&stops);
    (void)sigaddset(&stops, SIGINT);
    (void)sigaddset(&stops, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &stops, &before);
    pid = fork();
    if (pid == 0)
        supervisor_become(m, w, config, &before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static mf_status supervisor_start(master *m, supervised *w)
{
    mf_buf config = { 0 };
    mf_process p = { 0 };
    bool won = false;
    mf_status st;
    pid_t pid;

    /* Masters are the last tasks of the list. */
    mf_cluster_write_tf_config(m->cluster->tasks,
                               m->cluster->n_tasks - mf_cluster_count(m->cluster, MF_ROLE_MASTER),
                               w->role, w->index, &config);
    MF_TRY(mf_buf_finish(&config));
    pid = supervisor_fork(m, w, config.data);
    mf_buf_deinit(&config);
    if (pid < 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start %s: %s", w->name, strerror(errno));
    (void)mf_process_read(pid, &p);
    w->pid = pid;
    w->start = p.start;
    w->code = UNKNOWN;
    w->started_ns = mf_clock_ns();
    st = supervisor_put_task(m, w, &won);
    if (!won)
        (void)kill(pid, SIGKILL);
    return st;
}

/* ---- supervising ---- */

static bool is_alive(const master *m, const char *name)
{
    for (int i = 0; i < m->n_alive; i++) {
        if (strcmp(m->alive[i], name) == 0)
            return true;
    }
    return false;
}

/* The living masters divide the tasks among themselves. */
static bool is_assigned_to_self(const master *m, int number)
{
    return m->n_alive > 0 && strcmp(m->alive[number % m->n_alive], m->name) == 0;
}

/* The first assignment: by the masters' own indices, as some masters may not be registered yet. */
static bool is_initially_ours(const master *m, int number)
{
    const int masters = mf_cluster_count(m->cluster, MF_ROLE_MASTER);

    return mf_cluster_self(m->cluster)->index == number % masters;
}

static mf_status supervisor_take(master *m, supervised *w)
{
    char before[NAME];
    bool won;

    memcpy(before, w->master, sizeof before);
    (void)snprintf(w->master, sizeof w->master, "%s", m->name);
    MF_TRY(supervisor_put_task(m, w, &won));
    if (!won) /* it is another master's now: the next read of the store shows whose */
        memcpy(w->master, before, sizeof before);
    if (won && before[0] != '\0' && strcmp(before, m->name) != 0)
        MF_WARN("%s takes over %s from %s, which is lost", m->name, w->name, before);
    return MF_OK;
}

/* True if it ended in a way that a restart does not change. A task of another master with an
 * unknown exit code is restarted. */
static bool is_final(const supervised *w)
{
    return w->code > MF_EXIT_DONE && !mf_exit_may_restart(w->code);
}

static mf_status supervise_task(master *m, supervised *w)
{
    const int64_t now = mf_clock_ns();
    bool won;

    if (supervisor_runs(w) || m->over || m->interrupted)
        return MF_OK;
    if (w->pid > 0) { /* the process is lost */
        if (w->restarts >= m->max_restarts || is_final(w))
            return MF_OK;
        w->again_ns = now + mf_launch_pause_ns(w->started_ns, now, &w->in_row);
        w->restarts++;
        MF_WARN("%s (process %lld) has exited: %s restarts it, %d of %d", w->name, w->pid, m->name,
                w->restarts, m->max_restarts);
        w->pid = 0;
        return supervisor_put_task(m, w, &won);
    }
    return now >= w->again_ns ? supervisor_start(m, w) : MF_OK;
}

static mf_status supervise_tasks(master *m)
{
    for (int i = 0; i < m->n; i++) {
        supervised *w = &m->tasks[i];

        if (w->version == 0 && !m->over && !m->interrupted) {
            if (is_initially_ours(m, i))
                MF_TRY(supervisor_take(m, w));
        } else if (w->version != 0 && !is_alive(m, w->master)) {
            if (is_assigned_to_self(m, i))
                MF_TRY(supervisor_take(m, w));
        } else if (strcmp(w->master, m->name) == 0) {
            MF_TRY(supervise_task(m, w));
        }
    }
    return MF_OK;
}

/* Records the exit codes of our tasks that have ended. */
static mf_status supervisor_reap(master *m)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < m->n; i++) {
            supervised *w = &m->tasks[i];
            bool won;

            if (w->pid != pid)
                continue;
            w->code = WIFEXITED(status) ? WEXITSTATUS(status) : MF_EXIT_SIGNAL + WTERMSIG(status);
            MF_TRY(supervisor_put_task(m, w, &won));
        }
    }
    return MF_OK;
}

/* A signal to this master. */
static mf_status note_interrupt(master *m)
{
    if (!stop_signals)
        return MF_OK;
    stop_signals = 0;
    m->interrupted = true;
    return mf_store_put(m->store, INTERRUPT, m->name, strlen(m->name), MF_STORE_ANY, 0, NULL);
}

/* A task may be interrupted by several masters: with SI_QUEUE it knows (cli/train_signals.c). */
static void interrupt_task(const supervised *w)
{
    (void)sigqueue((pid_t)w->pid, SIGINT, (union sigval){ 0 });
}

/* Each process of this master's tasks, once; the loop then waits for their end. */
static void interrupt_tasks(master *m)
{
    for (int i = 0; i < m->n && m->interrupted; i++) {
        supervised *w = &m->tasks[i];

        if (strcmp(w->master, m->name) != 0 || w->interrupted == w->pid || !supervisor_runs(w))
            continue;
        interrupt_task(w);
        w->interrupted = w->pid;
    }
}

/* No task runs or will be restarted. */
static bool is_done(const master *m)
{
    for (int i = 0; i < m->n; i++) {
        const supervised *w = &m->tasks[i];

        if (supervisor_runs(w) || (!m->over && !m->interrupted && !is_final(w) &&
                                   (w->pid == 0 || w->restarts < m->max_restarts)))
            return false;
    }
    return true;
}

/* From the tasks' codes, unless their training has recorded how it ended. */
static int code_of_job(const master *m)
{
    bool stopped = m->interrupted;
    int permanent = 0;

    for (int i = 0; i < m->n; i++) {
        const int code = m->tasks[i].code;

        stopped |= code == MF_EXIT_STOPPED;
        permanent = mf_exit_is_permanent(code) ? code : permanent;
    }
    return m->over && !m->stopped ? MF_EXIT_DONE
           : permanent            ? permanent
           : m->over || stopped   ? MF_EXIT_STOPPED
                                  : MF_EXIT_FAILED;
}

static mf_status supervisor_watch(master *m, int *exit_code)
{
    for (;;) {
        mf_status st;

        MF_TRY(renew_registration(m));
        MF_TRY(supervisor_refresh(m));
        MF_TRY(note_interrupt(m));
        MF_TRY(supervisor_reap(m));
        if (is_done(m))
            break;
        MF_TRY(supervise_tasks(m));
        interrupt_tasks(m);
        st = mf_store_wait(m->store, "", m->revision, mf_clock_ns() + LOOK_MS * INT64_C(1000000));
        if (st != MF_OK && st != MF_DEADLINE_EXCEEDED)
            return st;
    }
    *exit_code = code_of_job(m);
    if (*exit_code == MF_EXIT_DONE)
        return MF_OK;
    return MF_FAIL(MF_ABORTED, "no task of the job is left, and the job has not finished%s",
                   *exit_code == MF_EXIT_USAGE ? ": its settings are invalid"
                                               : "; start it again with --resume");
}

/* ---- opening and closing ---- */

static mf_status supervisor_list_tasks(master *m)
{
    m->tasks = mf_calloc(m->cluster->n_tasks, sizeof *m->tasks);
    if (!m->tasks)
        return MF_NOMEM("tasks");
    for (int i = 0; i < m->cluster->n_tasks; i++) {
        const mf_cluster_task *t = &m->cluster->tasks[i];
        supervised *w = &m->tasks[m->n];

        if (t->role == MF_ROLE_MASTER || t->role == MF_ROLE_EVALUATOR)
            continue;
        (void)snprintf(w->name, sizeof w->name, "%s %d", mf_role_name(t->role), t->index);
        w->role = t->role;
        w->index = t->index;
        m->n++;
    }
    return MF_OK;
}

static int budget(void)
{
    const char *text = getenv("MESHFLOW_MAX_RESTARTS");

    return text ? atoi(text) : 0;
}

bool mf_supervisor_is_one(const mf_cluster *c)
{
    const mf_cluster_task *self = mf_cluster_self(c);
    const char *store = getenv("MESHFLOW_STORE");

    return self && self->role == MF_ROLE_MASTER && store && store[0] != '\0' && c->addresses;
}

static bool supervisor_stop_requested(void *ctx)
{
    (void)ctx;
    return stop_signals != 0;
}

mf_status mf_supervisor_run(const mf_cluster *c, const char *job, int64_t timeout_ns,
                            int *exit_code)
{
    const char *store = getenv("MESHFLOW_STORE");
    master m = { .cluster = c, .max_restarts = budget() };
    const struct sigaction action = { .sa_handler = supervisor_on_signal };
    bool shown = false;
    mf_error why;
    mf_status st;

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)prctl(PR_SET_PDEATHSIG, 0); /* the end of a launcher does not end a master */
    (void)snprintf(m.name, sizeof m.name, "%s %d", mf_role_name(MF_ROLE_MASTER),
                   mf_cluster_self(c)->index);
    MF_TRY_TO(done, mf_proc_cmdline_read(getpid(), "cmdline", &m.command));
    MF_TRY_TO(done, supervisor_list_tasks(&m));
    MF_TRY_TO(done, mf_status_page_open(job, m.name, m.n));
    shown = true;
    mf_status_page_phase(MF_PHASE_WATCH);
    MF_TRY_TO(done, mf_store_await(&(mf_store_wanted){ .url = store,
                                                       .who = m.name,
                                                       .timeout_ns = timeout_ns,
                                                       .stops = supervisor_stop_requested }));
    MF_TRY_TO(done, mf_store_open(store, NULL, &m.store));
    MF_TRY_TO(done, register_master(&m));
    st = supervisor_watch(&m, exit_code);
done:
    mf_error_save(st, &why);
    if (m.lease != 0 && mf_store_lease_end(m.store, m.lease) != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
    if (m.store)
        mf_store_close(m.store);
    if (shown)
        mf_status_page_close();
    mf_free(m.alive);
    mf_free(m.tasks);
    mf_proc_cmdline_deinit(&m.command);
    return mf_error_restore(&why);
}

int mf_supervisor_end_tasks(const char *where, bool at_once)
{
    mf_store_entries all = { 0 };
    mf_store *store;
    int n = 0;

    if (mf_store_open(where, NULL, &store) != MF_OK)
        return 0;
    if (mf_store_list(store, "ward/", &all) == MF_OK) {
        for (int i = 0; i < all.n; i++) {
            supervised w = { 0 };

            supervisor_read_task(&all.entries[i], &w);
            if (!supervisor_runs(&w))
                continue;
            if (at_once)
                (void)kill((pid_t)w.pid, SIGKILL);
            else
                interrupt_task(&w);
            n++;
        }
    }
    mf_store_entries_deinit(&all);
    mf_store_close(store);
    return n;
}
