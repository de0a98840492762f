/* SPDX-License-Identifier: Apache-2.0 */
/* output_lock.c - the lock file of an output directory, and the id of its run. */
#include "train/checkpoint/output_lock.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/process.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

MF_PARAM_INT(output_lease_ms, 30000,
             "an output directory is free if its writer on another host has not renewed its lease "
             "for this time in ms");

enum { TURNS = 20, MOST = 4096 }; /* tries to win the lock; bytes of a lock file */

/* The holder of the lock, as its file names it. */
typedef struct holder {
    char job[MF_JOB_ID];
    char host[128], space[128]; /* of its name; boot and space of process numbers */
    long long pid, start;
    long long lease_ms;
} holder;

struct mf_output_lock {
    char *dir, *lock;
    char run[MF_RUN_ID];
    bool continues;
    holder self;
    int fd; /* of the lock's file, with flock() */
    pthread_t thread; /* renews it */
    pthread_mutex_t guard;
    pthread_cond_t changed;
    bool closing, renews; /* closing: guarded by guard */
};

void mf_job_id(char out[MF_JOB_ID])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char own[MF_JOB_ID];
    const char *given = getenv("MESHFLOW_JOB_ID");

    pthread_mutex_lock(&lock);
    if (!own[0])
        (void)snprintf(own, sizeof own, "%016llx", (unsigned long long)mf_random_seed());
    (void)snprintf(out, MF_JOB_ID, "%s",
                   given && given[0] && strcspn(given, " \n") < MF_JOB_ID ? given : own);
    pthread_mutex_unlock(&lock);
    out[strcspn(out, " \n")] = '\0';
}

/* ---- the holder ---- */

static void output_lock_read_line(const char *path, char *out, size_t size)
{
    char *text = NULL;
    size_t len = 0;

    out[0] = '\0';
    if (mf_file_read(path, MOST, &text, &len) == MF_OK)
        (void)snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    mf_free(text);
}

static void describe_self(const char *job, holder *h)
{
    char boot[64], space[48] = "";
    const ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    mf_process p = { 0 };

    space[n > 0 ? n : 0] = '\0';
    output_lock_read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    *h = (holder){ .pid = (long long)getpid(), .lease_ms = MF_PARAM(output_lease_ms) };
    (void)snprintf(h->job, sizeof h->job, "%s", job);
    (void)snprintf(h->space, sizeof h->space, "%s/%s", boot, space);
    if (gethostname(h->host, sizeof h->host - 1) != 0)
        (void)snprintf(h->host, sizeof h->host, "unknown");
    if (mf_process_read(getpid(), &p))
        h->start = (long long)p.start;
}

static void print_holder(const holder *h, mf_buf *out)
{
    mf_buf_printf(out, "job %s\nhost %s\nspace %s\npid %lld\nstart %lld\nlease_ms %lld\n", h->job,
                  h->host, h->space, h->pid, h->start, h->lease_ms);
}

/* Missing fields stay empty: the lock is a foreign process's then, and ages. */
static void parse_holder(const char *text, holder *h)
{
    *h = (holder){ .lease_ms = MF_PARAM(output_lease_ms) };
    if (sscanf(text, "job %95s\nhost %127s\nspace %127s\npid %lld\nstart %lld\nlease_ms %lld",
               h->job, h->host, h->space, &h->pid, &h->start, &h->lease_ms) != 6)
        h->space[0] = '\0';
}

/* ---- is it held? ---- */

static bool lives_here(const holder *h)
{
    mf_process p;

    return mf_process_read(h->pid, &p) && p.start == h->start && p.state != 'Z';
}

static bool is_locked(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool is = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;

    if (fd >= 0)
        (void)close(fd);
    return is;
}

/* Seconds since it was renewed, by the clock of the file system: `fresh` was just written there. */
static double age_of(const char *path, int fresh)
{
    struct stat then, now;

    if (stat(path, &then) != 0 || futimens(fresh, NULL) != 0 || fstat(fresh, &now) != 0)
        return 0.0;
    return (double)(now.st_mtim.tv_sec - then.st_mtim.tv_sec) +
           (double)(now.st_mtim.tv_nsec - then.st_mtim.tv_nsec) * 1e-9;
}

static bool is_held(const mf_output_lock *c, const holder *h, const mf_output_lock_options *o,
                    double age)
{
    if (o->take_over && strcmp(h->job, c->self.job) == 0)
        return false;
    if (strcmp(h->space, c->self.space) == 0)
        return lives_here(h);
    return is_locked(c->lock) || age * 1000.0 < (double)h->lease_ms;
}

/* ---- taking ---- */

/* A file of this process beside the lock, complete and locked. */
static mf_status write_own(mf_output_lock *c, char *path, size_t size)
{
    mf_buf text = { 0 };
    mf_status st = MF_OK;

    if (snprintf(path, size, "%s.tmp-%016llx", c->lock, (unsigned long long)mf_random_seed()) >=
        (int)size)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the path '%s' is too long", c->lock);
    print_holder(&c->self, &text);
    MF_TRY(mf_buf_finish(&text));
    c->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (c->fd < 0 || write(c->fd, text.data, text.len) != (ssize_t)text.len || fsync(c->fd) != 0)
        st = mf_errno_status(errno, "write", path);
    if (st == MF_OK)
        (void)flock(c->fd, LOCK_EX | LOCK_NB); /* not every file system can */
    mf_buf_deinit(&text);
    return st;
}

/* Move a lock without a holder away; if it is another lock by now, move it back. */
static void output_lock_put_away(const mf_output_lock *c, const char *text)
{
    char old[4200], *now = NULL;
    size_t len = 0;

    (void)snprintf(old, sizeof old, "%s.old-%016llx", c->lock,
                   (unsigned long long)mf_random_seed());
    if (rename(c->lock, old) != 0)
        return;
    if (mf_file_read(old, MOST, &now, &len) != MF_OK || strcmp(now, text) != 0)
        (void)!link(old, c->lock);
    (void)unlink(old);
    mf_free(now);
}

static mf_status output_lock_refuse(const mf_output_lock *c, const holder *h, double age)
{
    return MF_FAIL(MF_ALREADY_EXISTS,
                   "another training writes to '%s': process %lld on %s, seen %.0f s ago; choose "
                   "another --out, or end that training",
                   c->dir, h->pid, h->host[0] ? h->host : "an unknown host", age > 0 ? age : 0.0);
}

/* Another run holds the lock: fail, or remove its stale lock. */
static mf_status look_at_lock(const mf_output_lock *c, const mf_output_lock_options *o)
{
    const double age = age_of(c->lock, c->fd);
    char *text = NULL;
    size_t len = 0;
    holder h;
    mf_status st = mf_file_read(c->lock, MOST, &text, &len);

    if (st == MF_NOT_FOUND)
        return MF_OK; /* it was just released */
    MF_TRY(st);
    parse_holder(text, &h);
    if (is_held(c, &h, o, age))
        st = output_lock_refuse(c, &h, age);
    else
        output_lock_put_away(c, text);
    mf_free(text);
    return st;
}

static mf_status output_lock(mf_output_lock *c, const mf_output_lock_options *o)
{
    char own[4200];
    bool won = false;
    mf_status st = write_own(c, own, sizeof own);

    for (int i = 0; st == MF_OK && !won && i < TURNS; i++) {
        won = link(own, c->lock) == 0;
        if (!won)
            st = errno == EEXIST ? look_at_lock(c, o) : mf_errno_status(errno, "create", c->lock);
    }
    if (st == MF_OK && !won)
        st = MF_FAIL(MF_ALREADY_EXISTS, "other processes take the lock '%s' repeatedly", c->lock);
    (void)unlink(own);
    return st;
}

mf_status mf_output_lock_check(const mf_output_lock *c)
{
    struct stat here, there;

    if (fstat(c->fd, &here) == 0 && stat(c->lock, &there) == 0 && here.st_ino == there.st_ino &&
        here.st_dev == there.st_dev)
        return MF_OK;
    if (access(c->dir, F_OK) != 0 && errno == ENOENT)
        return MF_FAIL(MF_ABORTED, "'%s' was removed while training wrote there", c->dir);
    return MF_FAIL(MF_ABORTED, "another process writes to '%s' now, or its lock was removed",
                   c->dir);
}

static void *renew(void *arg)
{
    mf_output_lock *c = arg;
    const int64_t every_ns = c->self.lease_ms * 1000000 / 6;

    pthread_mutex_lock(&c->guard);
    while (!c->closing) {
        if (!mf_cond_wait_until(&c->changed, &c->guard, mf_clock_ns() + every_ns))
            (void)futimens(c->fd, NULL);
    }
    pthread_mutex_unlock(&c->guard);
    return NULL;
}

/* ---- the run ---- */

static mf_status output_lock_write_run(const mf_output_lock *c)
{
    mf_buf path = { 0 }, text = { 0 };
    mf_status st;

    mf_buf_printf(&path, "%s/" MF_RUN_FILE, c->dir);
    mf_buf_printf(&text, "run %s\njob %s\n", c->run, c->self.job);
    st = path.data && text.data ? mf_file_write(path.data, text.data, text.len) : MF_NOMEM("a run");
    mf_buf_deinit(&path);
    mf_buf_deinit(&text);
    return st;
}

/* *run does not change if there is none. */
static void output_lock_read_run(const char *dir, char run[MF_RUN_ID], char job[MF_JOB_ID])
{
    mf_buf path = { 0 };
    char *text = NULL;
    size_t len = 0;

    job[0] = '\0';
    mf_buf_printf(&path, "%s/" MF_RUN_FILE, dir);
    if (path.data && mf_file_read(path.data, MOST, &text, &len) == MF_OK &&
        sscanf(text, "run %16[0-9a-f]\njob %95s", run, job) < 1)
        MF_WARN("'%s' is damaged", path.data);
    mf_free(text);
    mf_buf_deinit(&path);
}

bool mf_job_is_restarted(void)
{
    const char *restarts = getenv("MESHFLOW_RESTARTS");

    return restarts && atoi(restarts) > 0;
}

bool mf_output_lock_is_restart(const char *dir)
{
    char run[MF_RUN_ID], job[MF_JOB_ID], own[MF_JOB_ID];

    if (!mf_job_is_restarted())
        return false;
    mf_job_id(own);
    output_lock_read_run(dir, run, job);
    return strcmp(job, own) == 0;
}

static mf_status refuse_used(const mf_output_lock *c, const mf_run_files *files)
{
    char newest[64] = "it has no checkpoint yet";

    if (files->checkpoints > 0)
        (void)snprintf(newest, sizeof newest, "its newest checkpoint is of step %lld",
                       (long long)files->newest_step);
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "there is a training in '%s' already, %s: --resume continues it, --overwrite "
                   "removes it and starts a new one",
                   c->dir, newest);
}

/* The file that names the run is missing or damaged. Under a new name no checkpoint would be used.
 */
static mf_status adopt_run(mf_output_lock *c)
{
    MF_TRY(mf_run_files_id(c->dir, c->run));
    if (c->run[0])
        MF_WARN("'%s/" MF_RUN_FILE "' does not name a run: the run of the newest checkpoint is "
                "continued, %s",
                c->dir, c->run);
    return MF_OK;
}

/* This process has the lock: continue the run in the directory, remove it, or begin one. */
static mf_status output_lock_find_run(mf_output_lock *c, const mf_output_lock_options *o)
{
    char job[MF_JOB_ID];
    mf_run_files files;

    output_lock_read_run(c->dir, c->run, job);
    c->continues = o->resume || (o->again && strcmp(job, o->job) == 0);
    MF_TRY(mf_run_files_look(c->dir, &files));
    if (!c->continues && !o->overwrite && (files.checkpoints > 0 || files.others))
        return refuse_used(c, &files);
    if (!c->continues && o->overwrite)
        MF_TRY(mf_run_files_remove(c->dir));
    if (c->continues && !c->run[0])
        MF_TRY(adopt_run(c));
    if (!c->continues || !c->run[0])
        (void)snprintf(c->run, sizeof c->run, "%016llx", (unsigned long long)mf_random_seed());
    return output_lock_write_run(c);
}

/* ---- all ---- */

static mf_status output_lock_take(mf_output_lock *c, const mf_output_lock_options *o)
{
    mf_buf path = { 0 };
    struct stat info;

    mf_buf_printf(&path, "%s/" MF_LOCK_FILE, o->dir);
    MF_TRY(mf_buf_finish(&path));
    c->lock = path.data;
    c->dir = mf_strdup(o->dir);
    if (!c->dir)
        return MF_NOMEM("a run");
    if (mkdir(c->dir, 0777) != 0 && errno != EEXIST)
        return errno == ENOSPC || errno == EDQUOT || errno == EIO
                   ? mf_errno_status(errno, "create", c->dir)
                   : MF_FAIL(MF_INVALID_ARGUMENT, "cannot create '%s': %s", c->dir,
                             strerror(errno));
    if (stat(c->dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is a file; --out needs a directory", c->dir);
    describe_self(o->job, &c->self);
    MF_TRY(output_lock(c, o));
    MF_TRY(output_lock_find_run(c, o));
    c->renews = mf_thread_start(&c->thread, renew, c) == 0;
    return c->renews ? MF_OK : MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread for a lock");
}

mf_status mf_output_lock_take(const mf_output_lock_options *o, mf_output_lock **out)
{
    mf_output_lock *c = mf_calloc(1, sizeof *c);
    mf_status st;

    *out = NULL;
    if (!c)
        return MF_NOMEM("a run");
    c->fd = -1;
    pthread_mutex_init(&c->guard, NULL);
    mf_cond_init(&c->changed);
    st = output_lock_take(c, o);
    if (st != MF_OK) {
        mf_error why;

        mf_error_save(st, &why);
        mf_output_lock_release(c);
        return mf_error_restore(&why);
    }
    *out = c;
    return MF_OK;
}

void mf_output_lock_release(mf_output_lock *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->guard);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->guard);
    if (c->renews)
        pthread_join(c->thread, NULL);
    if (c->fd >= 0 && mf_output_lock_check(c) == MF_OK)
        (void)unlink(c->lock);
    if (c->fd >= 0)
        (void)close(c->fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->guard);
    mf_free(c->lock);
    mf_free(c->dir);
    mf_free(c);
}

bool mf_output_lock_continues(const mf_output_lock *c)
{
    return c->continues;
}

const char *mf_output_lock_run(const mf_output_lock *c)
{
    return c->run;
}
