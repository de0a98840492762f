/* SPDX-License-Identifier: Apache-2.0 */
/* status_page_remote.c - status pages of tasks on other hosts, which this process shows: each in a
 * file of its own that is removed with this process. Their times are converted to the clock of this
 * host. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "observe/status_page.h"
#include "observe/status_page_layout.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    char **paths; /* guarded by lock */
    int64_t n, cap;
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void move_times(mf_status_page *p, int64_t by)
{
    int64_t *const times[] = { &p->opened_ns,     &p->changed_ns, &p->phase_since_ns,
                               &p->rate_since_ns, &p->began_ns,   &p->use_since_ns,
                               &p->stepped_ns };

    for (int i = 0; i < MF_COUNT(times); i++)
        *times[i] += by;
    for (int i = 0; i < MF_STATUS_PAGE_WAITS; i++) {
        if (p->waits[i].since_ns != 0)
            p->waits[i].since_ns += by;
    }
    for (int i = 0; i < MF_STATUS_PAGE_ACTS; i++)
        p->acts[i].since_ns += by;
}

/* With the lock held: remember the path, to remove the file at the end. */
static mf_status status_page_remote_remember(const char *path)
{
    for (int64_t i = 0; i < kept.n; i++) {
        if (strcmp(kept.paths[i], path) == 0)
            return MF_OK;
    }
    MF_TRY(mf_grow(&kept.paths, &kept.cap, kept.n + 1, sizeof *kept.paths));
    kept.paths[kept.n] = mf_strdup(path);
    if (!kept.paths[kept.n])
        return MF_NOMEM("a status page");
    kept.n++;
    return MF_OK;
}

/* A reader may see a mix of the previous page and this one; both are of the same second. */
static mf_status status_page_remote_write_file(const char *path, const mf_status_page *p)
{
    const mf_status_page_file f = { .magic = MF_STATUS_PAGE_MAGIC,
                                    .version = MF_STATUS_PAGE_VERSION,
                                    .bytes = sizeof f,
                                    .page = *p };
    int fd;

    MF_TRY(status_page_remote_remember(path));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || pwrite(fd, &f, sizeof f, 0) != (ssize_t)sizeof f)
        MF_LOG(MF_LOG_DEBUG, "cannot write %s", path);
    if (fd >= 0)
        (void)close(fd);
    return MF_OK;
}

static mf_status status_page_remote_show(const mf_status_page *p)
{
    char name[MF_STATUS_PAGE_TASK + 16];
    mf_buf dir = { 0 }, path = { 0 };
    mf_status st = mf_status_page_dir(&dir);

    (void)snprintf(name, sizeof name, "%s elsewhere", p->task);
    if (st == MF_OK)
        mf_status_page_path(dir.data, p->job, name, &path);
    if (st == MF_OK)
        st = mf_buf_finish(&path);
    if (st == MF_OK) {
        pthread_mutex_lock(&kept.lock);
        st = status_page_remote_write_file(path.data, p);
        pthread_mutex_unlock(&kept.lock);
    }
    mf_buf_deinit(&dir);
    mf_buf_deinit(&path);
    return st;
}

void mf_status_page_keep(const char *task, const void *bytes, size_t n)
{
    const char *job = mf_status_page_job();
    const int64_t now = mf_clock_ns();
    mf_process self;
    mf_status_page p;
    mf_status st;

    if (!*job || !mf_process_read(getpid(), &self))
        return;
    st = mf_status_page_decode(bytes, n, &p);
    if (st == MF_OK) {
        (void)snprintf(p.job, sizeof p.job, "%s", job);
        (void)snprintf(p.task, sizeof p.task, "%s", task);
        p.keeper = getpid();
        p.keeper_start = self.start;
        move_times(&p, now - p.reported_ns);
        p.reported_ns = now;
        st = status_page_remote_show(&p);
    }
    if (st != MF_OK)
        MF_LOG(MF_LOG_DEBUG, "%s", mf_error_message());
}

void mf_status_page_drop_kept(void)
{
    pthread_mutex_lock(&kept.lock);
    while (kept.n > 0) {
        (void)unlink(kept.paths[--kept.n]);
        mf_free(kept.paths[kept.n]);
    }
    mf_free(kept.paths);
    kept.paths = NULL;
    kept.cap = 0;
    pthread_mutex_unlock(&kept.lock);
}
