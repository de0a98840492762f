/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_create.c - creates the file of a status page: under a temporary name, then linked to
 * its own, so that readers see only complete pages and no two tasks share a name. Pages are created
 * and swept with the folder locked, so that a page read as dead is the page that is removed. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const int64_t LOCK_WAIT_NS = 5000000000; /* the lock is normally held for moments */
static const int64_t DAY_NS = 86400000000000;

static void status_page_create_fill(mf_status_page_area *a, const char *job, const char *task,
                                    int tasks, int64_t start)
{
    mf_status_page_file *f = &a->file;

    memset(a, 0, sizeof *a);
    *f = (mf_status_page_file){ .magic = MF_STATUS_PAGE_MAGIC,
                                .version = MF_STATUS_PAGE_VERSION,
                                .bytes = sizeof *f,
                                .page = { .pid = getpid(),
                                          .start = start,
                                          .tasks = tasks,
                                          .use = MF_USE_IDLE,
                                          .opened_ns = mf_clock_ns() } };
    f->page.phase_since_ns = f->page.use_since_ns = f->page.began_ns = f->page.changed_ns =
        f->page.opened_ns;
    mf_status_page_copy_text(f->page.job, sizeof f->page.job, job);
    mf_status_page_copy_text(f->page.task, sizeof f->page.task, task);
    if (gethostname(f->page.host, sizeof f->page.host - 1) != 0)
        (void)strcpy(f->page.host, "unknown");
}

/* The lock lasts until close(*fd). */
static mf_status lock_dir(const char *dir, int *fd)
{
    const int64_t until = mf_clock_ns() + LOCK_WAIT_NS;

    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return mf_errno_status(errno, "open", dir);
    while (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        const int why = errno;

        if ((why == EWOULDBLOCK || why == EINTR) && mf_clock_ns() < until) {
            (void)nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
            continue;
        }
        (void)close(*fd);
        if (why == EWOULDBLOCK)
            return MF_FAIL(MF_UNAVAILABLE, "another process keeps '%s' locked", dir);
        return mf_errno_status(why, "lock", dir);
    }
    return MF_OK;
}

/* A page from before a reboot has a time in the future. */
static bool is_old(const mf_status_page *p)
{
    const int64_t age = mf_clock_ns() - p->changed_ns;

    return age < 0 || age > DAY_NS;
}

/* With the folder locked: remove pages of dead tasks of the job, and old ones of any job.
 * ALREADY_EXISTS: this task is alive. A dead task may have had our process number. */
static mf_status status_page_create_sweep(const char *job, const char *task)
{
    mf_status_page_seen *all = NULL;
    mf_status st = MF_OK;
    int n = 0;

    MF_TRY(mf_status_pages_read(&all, &n));
    for (int i = 0; i < n; i++) {
        const mf_status_page *p = &all[i].page;

        const bool ours = strcmp(p->job, job) == 0;

        if (!all[i].alive && (ours || is_old(p)))
            (void)unlink(all[i].path);
        else if (all[i].alive && ours && p->keeper == 0 && p->pid != getpid() &&
                 strcmp(p->task, task) == 0)
            st = MF_FAIL(MF_ALREADY_EXISTS,
                         "process %lld is %s of a job named '%s' on this host; choose another name "
                         "(--name)",
                         (long long)p->pid, task, job);
    }
    mf_status_pages_free(all, n);
    return st;
}

/* With the folder locked. status_page_create_sweep() has found live tasks; a remaining file with
 * this name is not a status page of this version. */
static mf_status link_to(const char *from, const char *to, char **path)
{
    int why;

    *path = mf_strdup(to);
    if (!*path)
        return MF_NOMEM("a status page");
    if (link(from, to) == 0) {
        (void)unlink(from);
        return MF_OK;
    }
    why = errno;
    mf_free(*path);
    *path = NULL;
    if (why == EEXIST)
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%s' already exists and is not a status page of this version; remove it",
                       to);
    return mf_errno_status(why, "make", to);
}

mf_status mf_status_page_file_link(const char *from, const char *job, const char *task, char **path)
{
    mf_buf dir = { 0 }, name = { 0 };
    mf_status st = mf_status_page_dir(&dir);
    int fd = -1;

    if (st == MF_OK) {
        mf_status_page_path(dir.data, job, task, &name);
        st = mf_buf_finish(&name);
    }
    if (st == MF_OK)
        st = lock_dir(dir.data, &fd);
    if (st == MF_OK) {
        st = status_page_create_sweep(job, task);
        if (st == MF_OK)
            st = link_to(from, name.data, path);
        (void)close(fd);
    }
    mf_buf_deinit(&name);
    mf_buf_deinit(&dir);
    return st;
}

static mf_status make_in(const char *dir, const char *job, const char *task, int tasks,
                         mf_status_page_area **out, char **path)
{
    char draft[4200];
    mf_process self;
    mf_status st;
    int fd;

    MF_TRY(mf_status_page_dir_check(dir, true));
    if (!mf_process_read(getpid(), &self)) /* otherwise readers would take this process for dead */
        return MF_FAIL(MF_UNAVAILABLE, "cannot read /proc for this process");
    (void)snprintf(draft, sizeof draft, "%s/.%d", dir, (int)getpid());
    (void)unlink(draft);
    fd = open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return mf_errno_status(errno, "make", draft);
    st = posix_fallocate(fd, 0, sizeof **out) == 0
             ? mf_status_page_area_map(fd, out)
             : MF_FAIL(MF_RESOURCE_EXHAUSTED, "no space for '%s'", draft);
    (void)close(fd);
    if (st == MF_OK) {
        status_page_create_fill(*out, job, task, tasks, self.start);
        st = mf_status_page_file_link(draft, job, task, path);
    }
    if (st != MF_OK)
        (void)unlink(draft);
    return st;
}

mf_status mf_status_page_file_make(const char *job, const char *task, int tasks,
                                   mf_status_page_area **out, char **path)
{
    mf_buf dir = { 0 };
    mf_status st = mf_status_page_dir(&dir);

    *out = NULL;
    if (st == MF_OK)
        st = make_in(dir.data, job, task, tasks, out, path);
    mf_buf_deinit(&dir);
    if (st != MF_OK && *out) {
        mf_status_page_area_leave();
        *out = NULL;
    }
    return st;
}

mf_status mf_status_page_file_unseen(const char *job, const char *task, int tasks,
                                     mf_status_page_area **out)
{
    MF_TRY(mf_status_page_area_map(-1, out));
    status_page_create_fill(*out, job, task, tasks, 0);
    return MF_OK;
}

mf_status mf_status_pages_sweep(void)
{
    mf_status_page_seen *all = NULL;
    mf_buf dir = { 0 };
    mf_status st = mf_status_page_dir(&dir);
    int fd = -1, n = 0;

    if (st == MF_OK)
        st = mf_status_page_dir_check(dir.data, false);
    if (st == MF_OK)
        st = lock_dir(dir.data, &fd);
    mf_buf_deinit(&dir);
    if (st != MF_OK)
        return st == MF_NOT_FOUND ? MF_OK : st; /* no task has created the folder yet */
    st = mf_status_pages_read(&all, &n);
    for (int i = 0; i < n; i++) {
        if (!all[i].alive)
            (void)unlink(all[i].path);
    }
    mf_status_pages_free(all, n);
    (void)close(fd);
    return st;
}
