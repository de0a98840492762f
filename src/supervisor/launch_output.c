/* SPDX-License-Identifier: Apache-2.0 */
/* launch_output.c - the output of tasks, line by line: stdout goes to stdout, stderr to stderr, and
 * lines of different tasks are never mixed. */
#include "base/file.h"
#include "base/log.h"
#include "supervisor/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LONGEST_LINE = 1 << 20, /* longer lines are split */
    MOST_READS = 32, /* reads before other tasks get their turn: more than a pipe holds */
};

/* ---- prefixes ---- */

static void make_prefix(const mf_launch *l, const mf_launched *t, int fd, char *out, size_t size)
{
    static const int colours[] = { 36, 33, 32, 35, 34, 96, 93, 92, 95, 94 };
    const char *no_color = getenv("NO_COLOR");
    const long place = t - l->tasks;

    out[0] = '\0';
    if (l->no_prefix)
        return;
    if (isatty(fd) && !(no_color && *no_color))
        (void)snprintf(out, size, "\033[%dm[%s]\033[0m ", colours[place % MF_COUNT(colours)],
                       t->name);
    else
        (void)snprintf(out, size, "[%s] ", t->name);
}

/* With --json the standard output is the chief's alone, unchanged. Any of the workers that train
 * may become the chief; the other workers print nothing there. */
static void launch_output_direct(const mf_launch *l, mf_launched *t)
{
    const bool chief = l->masters ? t->role == MF_ROLE_MASTER && t->index == 0
                                  : t->role == MF_ROLE_WORKER && (l->trains || t->index == 0);

    t->out.to = l->json && !chief ? 2 : 1;
    t->err.to = 2;
    make_prefix(l, t, t->out.to, t->out_prefix, sizeof t->out_prefix);
    make_prefix(l, t, t->err.to, t->err_prefix, sizeof t->err_prefix);
    t->out.whose = t->err.whose = t->name;
    t->out.prefix = l->json && chief ? "" : t->out_prefix;
    t->err.prefix = t->err_prefix;
}

static mf_status launch_output_open_log(const mf_launch *l, const mf_launched *t, const char *end,
                                        int *fd)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s-%d.%s", l->log_dir, mf_role_name(t->role), t->index,
                   end);
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (t->restarts > 0 ? O_APPEND : O_TRUNC), 0644);
    return *fd < 0 ? mf_errno_status(errno, "create", path) : MF_OK;
}

mf_status mf_launch_output_open(mf_launch *l, mf_launched *t)
{
    t->out.log = t->err.log = -1;
    launch_output_direct(l, t);
    if (!l->log_dir)
        return MF_OK;
    if (mkdir(l->log_dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create", l->log_dir);
    MF_TRY(launch_output_open_log(l, t, "out", &t->out.log));
    return launch_output_open_log(l, t, "err", &t->err.log);
}

/* ---- lines ---- */

/* False if not everything could be written: no reader, or no space. */
static bool launch_output_write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EAGAIN) /* a full pipe that another process made non-blocking */
            (void)poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* Writes the first `len` bytes of the pending data, as complete lines. */
static void launch_output_put(mf_launch_output *lines, size_t len)
{
    mf_buf text = { 0 };
    const char *at = lines->line.data, *const end = at + len;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;

        mf_buf_str(&text, lines->prefix);
        mf_buf_bytes(&text, at, (size_t)(stop - at));
        mf_buf_str(&text, "\n");
        at = newline ? newline + 1 : end;
    }
    /* A job whose output has lost its reader (`| head`) continues to train. */
    if (lines->to >= 0 && text.data && !launch_output_write_all(lines->to, text.data, text.len)) {
        lines->lost = lines->to == 1 && errno != EPIPE ? errno : lines->lost;
        lines->to = -1;
    }
    mf_buf_deinit(&text);
}

static void launch_output_take(mf_launch_output *lines, const char *data, size_t len)
{
    const char *last;
    size_t whole;

    if (lines->log >= 0 && !launch_output_write_all(lines->log, data, len)) {
        MF_WARN("the output of %s is no longer written to --log-dir: %s", lines->whose,
                strerror(errno));
        (void)close(lines->log);
        lines->log = -1;
    }
    mf_buf_bytes(&lines->line, data, len);
    last = lines->line.len > 0 ? memrchr(lines->line.data, '\n', lines->line.len) : NULL;
    whole = last                             ? (size_t)(last - lines->line.data) + 1
            : lines->line.len > LONGEST_LINE ? lines->line.len
                                             : 0;
    if (whole == 0)
        return;
    launch_output_put(lines, whole);
    memmove(lines->line.data, lines->line.data + whole, lines->line.len - whole);
    lines->line.len -= whole;
}

bool mf_launch_output_read(mf_launch_output *lines)
{
    char data[65536];

    for (int i = 0; lines->from >= 0 && i < MOST_READS; i++) {
        const ssize_t n = read(lines->from, data, sizeof data);

        if (n > 0) {
            launch_output_take(lines, data, (size_t)n);
            if (n < (ssize_t)sizeof data)
                return true;
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            mf_launch_output_close(lines);
        } else if (errno == EAGAIN) {
            return true;
        }
    }
    return lines->from >= 0;
}

void mf_launch_output_close(mf_launch_output *lines)
{
    if (lines->from < 0)
        return;
    (void)close(lines->from);
    lines->from = -1;
    if (lines->line.len > 0)
        launch_output_put(lines, lines->line.len);
    mf_buf_deinit(&lines->line);
    if (lines->log >= 0)
        (void)close(lines->log);
    lines->log = -1;
}

mf_status mf_launch_output_end(mf_launch *l)
{
    int lost = 0;

    for (int i = 0; i < l->n; i++) {
        mf_launch_output_close(&l->tasks[i].out);
        lost = l->tasks[i].out.lost ? l->tasks[i].out.lost : lost;
    }
    return lost ? MF_FAIL(MF_UNAVAILABLE, "cannot write the output: %s", strerror(lost)) : MF_OK;
}
