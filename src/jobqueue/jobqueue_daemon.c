/* SPDX-License-Identifier: Apache-2.0 */
/* jobqueue_daemon.c - the daemon: scans the folder, and starts jobs. It has no state outside the
 * folder except the jobs that it has just started. */
#include "base/file.h"
#include "base/log.h"
#include "jobqueue/jobqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_MS = 100, AFTER_FAILURE_MS = 5000 };

/* A job whose watcher has not recorded its process yet. */
typedef struct started {
    char name[64];
    int64_t pid;
} started;

typedef struct daemon_state {
    const char *dir;
    int64_t slots;
    started fresh[64];
    int n_fresh;
} daemon_state;

static started *find_fresh(daemon_state *d, const char *name)
{
    for (int i = 0; i < d->n_fresh; i++) {
        if (strcmp(d->fresh[i].name, name) == 0)
            return &d->fresh[i];
    }
    return NULL;
}

/* Forgets started watchers that have recorded their process. False: one ended before it could
 * record it. */
static bool jobqueue_daemon_reap(daemon_state *d)
{
    bool well = true;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = d->n_fresh - 1; i >= 0; i--) {
            if (d->fresh[i].pid != pid)
                continue;
            if (status != 0)
                MF_WARN("%s did not start: no file can be written to its folder in '%s'; is the "
                        "disk full?",
                        d->fresh[i].name, d->dir);
            well &= status == 0;
            d->fresh[i] = d->fresh[--d->n_fresh];
        }
    }
    return well;
}

static void forget_fresh(daemon_state *d, const char *name)
{
    started *f = find_fresh(d, name);

    if (f)
        *f = d->fresh[--d->n_fresh];
}

static const mf_jobqueue_job *jobqueue_daemon_find(const mf_jobqueue_job *jobs, int n,
                                                   const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(jobs[i].name, name) == 0)
            return &jobs[i];
    }
    return NULL;
}

/* Checks the folder itself: a listing may have missed the job. */
static bool jobqueue_daemon_is_gone(const char *dir, const char *name)
{
    mf_arena *arena = mf_arena_new();
    mf_jobqueue_job job;
    const bool gone = arena && mf_jobqueue_read(dir, name, arena, &job) == MF_NOT_FOUND;

    mf_arena_free(arena);
    return gone;
}

/* 1: all jobs of its --after are done, or it has been started before; 0: not yet; -1: one of them
 * failed or does not exist, and which. */
static int may_start(const char *dir, const mf_jobqueue_job *jobs, int n,
                     const mf_jobqueue_job *job, const char **which)
{
    int may = 1;

    if (job->tries > 0)
        return 1;

    for (int64_t i = 0; i < job->order.n_after; i++) {
        const mf_jobqueue_job *other = jobqueue_daemon_find(jobs, n, job->order.after[i]);

        *which = job->order.after[i];
        if (other ? mf_jobqueue_is_over(other->state) && other->state != MF_JOBQUEUE_DONE
                  : jobqueue_daemon_is_gone(dir, *which))
            return -1;
        if (!other || other->state != MF_JOBQUEUE_DONE)
            may = 0;
    }
    return may;
}

static mf_status jobqueue_daemon_start(daemon_state *d, const mf_jobqueue_job *job)
{
    const int64_t pid = mf_jobqueue_start(d->dir, job);

    if (pid < 0) {
        MF_WARN("%s: %s", job->name, mf_error_message());
        return MF_OK; /* try again at the next scan */
    }
    MF_INFO("starting %s: process %lld, try %lld", job->name, (long long)pid,
            (long long)job->tries + 1);
    (void)snprintf(d->fresh[d->n_fresh].name, sizeof d->fresh[0].name, "%s", job->name);
    d->fresh[d->n_fresh++].pid = pid;
    return MF_OK;
}

/* Its watcher is dead. */
static mf_status jobqueue_daemon_recover(daemon_state *d, const mf_jobqueue_job *job, bool *again)
{
    *again = job->tries <= job->order.restarts;
    mf_jobqueue_kill(job->name, job->pid);
    MF_WARN("%s was lost: its processes were killed, or the machine stopped%s", job->name,
            *again ? "; restarting it" : "");
    return *again ? MF_OK
                  : mf_jobqueue_write_end(d->dir, job->name, MF_JOBQUEUE_FAILED, 137,
                                          "was lost: its watcher was killed");
}

static mf_status consider(daemon_state *d, const mf_jobqueue_job *jobs, int n,
                          const mf_jobqueue_job *job, int64_t *free)
{
    const char *which = "";
    char how[MF_JOBQUEUE_TEXT];
    bool again = true;
    int may;

    if (job->state != MF_JOBQUEUE_QUEUED && job->state != MF_JOBQUEUE_LOST)
        return MF_OK;
    if (job->state == MF_JOBQUEUE_LOST)
        MF_TRY(jobqueue_daemon_recover(d, job, &again));
    may = again ? may_start(d->dir, jobs, n, job, &which) : 0;
    if (may < 0) {
        (void)snprintf(how, sizeof how, "was skipped: it depends on '%s', which did not succeed",
                       which);
        MF_INFO("%s %s", job->name, how);
        return mf_jobqueue_write_end(d->dir, job->name, MF_JOBQUEUE_FAILED, 1, how);
    }
    if (may == 0 || d->n_fresh == MF_COUNT(d->fresh))
        return MF_OK;
    if (job->order.slots > *free && *free < d->slots) { /* a job that asks for more slots than there
                                                           are gets all of them */
        *free = 0; /* later jobs wait, too; else this one could starve */
        return MF_OK;
    }
    *free -= job->order.slots;
    return jobqueue_daemon_start(d, job);
}

static mf_status jobqueue_daemon_scan(daemon_state *d)
{
    mf_arena *arena = mf_arena_new();
    int64_t free = d->slots;
    mf_jobqueue_job *jobs;
    int n = 0;
    mf_status st = arena ? mf_jobqueue_list(d->dir, arena, &jobs, &n) : MF_NOMEM("jobs");

    for (int i = 0; st == MF_OK && i < n; i++) {
        const bool begins = find_fresh(d, jobs[i].name) != NULL;

        if (mf_jobqueue_is_over(jobs[i].state) || (begins && jobs[i].state == MF_JOBQUEUE_RUNS))
            forget_fresh(d, jobs[i].name);
        if (jobs[i].state == MF_JOBQUEUE_RUNS || (begins && !mf_jobqueue_is_over(jobs[i].state)))
            free -= jobs[i].order.slots;
    }
    for (int i = 0; st == MF_OK && i < n; i++) {
        if (!find_fresh(d, jobs[i].name))
            st = consider(d, jobs, n, &jobs[i], &free);
    }
    mf_arena_free(arena);
    return st;
}

static mf_status jobqueue_daemon_lock(const char *dir, int *fd)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    mf_buf path = { 0 };
    mf_status st = mf_jobqueue_path(dir, ".daemon", "", &path);

    *fd = -1;
    if (st == MF_OK)
        *fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (st == MF_OK && *fd < 0)
        st = mf_errno_status(errno, "open", path.data);
    else if (st == MF_OK && fcntl(*fd, F_SETLK, &whole) != 0) /* unlike flock(), children do not
                                                                 inherit it */
        st = MF_FAIL(MF_ALREADY_EXISTS, "another daemon serves '%s'", dir);
    mf_buf_deinit(&path);
    return st;
}

mf_status mf_jobqueue_serve(const char *dir, int64_t slots, const volatile sig_atomic_t *stop)
{
    daemon_state d = { .dir = dir, .slots = slots };
    int fd;
    mf_status st = jobqueue_daemon_lock(dir, &fd);

    while (st == MF_OK && !*stop) {
        int ms = jobqueue_daemon_reap(&d) ? EVERY_MS : AFTER_FAILURE_MS;

        if (jobqueue_daemon_scan(&d) != MF_OK) { /* for example a full disk: the cause may be
                                                    temporary */
            MF_WARN("%s", mf_error_message());
            ms = AFTER_FAILURE_MS;
        }
        for (; ms > 0 && !*stop; ms -= EVERY_MS)
            (void)nanosleep(&(struct timespec){ 0, EVERY_MS * 1000000L }, NULL);
    }
    if (fd >= 0)
        (void)close(fd);
    return st;
}
