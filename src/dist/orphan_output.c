/* SPDX-License-Identifier: Apache-2.0 */
/* orphan_output.c - redirects a task's output to a file when its launcher dies. A pipe whose reader
 * has closed shows POLLERR: one thread waits for that, and replaces the pipe by a file. */
#include "dist/orphan_output.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 2 };

static const char *const endings[STREAMS] = { "out", "err" };

static void orphan_output_replace(const char *prefix, int i)
{
    mf_buf path = { 0 };
    int fd = -1;

    mf_buf_printf(&path, "%s.%s", prefix, endings[i]);
    if (mf_buf_finish(&path) == MF_OK)
        fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    mf_buf_deinit(&path);
    if (fd < 0)
        return; /* no stream is left to report this on */
    (void)dup2(fd, STDOUT_FILENO + i);
    (void)close(fd);
}

static void *orphan_output_watch(void *arg)
{
    char *prefix = arg;
    struct pollfd fds[STREAMS] = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } };
    int left = STREAMS;

    while (left > 0) {
        if (poll(fds, STREAMS, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < STREAMS; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            if (fds[i].revents & POLLERR)
                orphan_output_replace(prefix, i);
            fds[i] = (struct pollfd){ .fd = -1 };
            left--;
        }
    }
    mf_free(prefix);
    return NULL;
}

void mf_job_keep_output(void)
{
    const char *given = getenv("MESHFLOW_LOST_OUTPUT");
    char *prefix = given && given[0] ? mf_strdup(given) : NULL;
    pthread_t thread;

    if (!prefix)
        return;
    if (mf_thread_start(&thread, orphan_output_watch, prefix) == 0) {
        (void)pthread_detach(thread);
        return;
    }
    MF_WARN("no thread could be started: this task's output is lost if its launcher is killed");
    mf_free(prefix);
}
