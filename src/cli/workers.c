/* SPDX-License-Identifier: Apache-2.0 */
/* workers.c - see workers.h. What it takes to be a worker of a job is asked of the kernel, which
 * knows how one that is there was started: the same user, the same host. */
#include "cli/workers.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int mf_worker_index(const char *task)
{
    int index, end = 0;

    return sscanf(task, "worker %d%n", &index, &end) == 1 && task[end] == '\0' ? index : -1;
}

static bool is_here(const mf_board_seen *t)
{
    return t->alive && !mf_running_is_kept(t) && mf_worker_index(t->page.task) >= 0;
}

int mf_workers_count(const mf_running_job *job)
{
    int n = 0;

    for (int i = 0; i < job->n; i++)
        n += is_here(&job->tasks[i]);
    return n;
}

mf_status mf_worker_leave(const mf_board_seen *t)
{
    if (mf_running_is_kept(t))
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s is on %s; say it there", t->page.task,
                       t->page.host);
    if (mf_worker_index(t->page.task) < 0)
        return MF_FAIL(
            MF_FAILED_PRECONDITION,
            "%s is no worker, and only workers leave; a server may be killed at any time",
            t->page.task);
    if (!mf_board_lives(t) || kill((pid_t)t->page.pid, SIGTERM) != 0)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s is gone already", t->page.task);
    return MF_OK;
}

/* ---- becoming one ---- */

static const char *find_variable(const mf_words *env, const char *name)
{
    const size_t n = strlen(name);

    for (int64_t i = 0; env->list[i]; i++) {
        if (strncmp(env->list[i], name, n) == 0 && env->list[i][n] == '=')
            return env->list[i] + n + 1;
    }
    return NULL;
}

/* In place of what is there, if anything is; NULL: take it away. */
static void set_variable(mf_words *env, const char *name, char *line)
{
    const size_t n = strlen(name);
    int64_t to = 0;

    for (int64_t i = 0; env->list[i]; i++) {
        if (strncmp(env->list[i], name, n) != 0 || env->list[i][n] != '=')
            env->list[to++] = env->list[i];
    }
    if (line)
        env->list[to++] = line;
    env->list[to] = NULL;
}

static mf_status find_port(mf_buf *out)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool found = fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 &&
                       getsockname(fd, (struct sockaddr *)&at, &len) == 0;

    if (fd >= 0)
        (void)close(fd);
    if (!found)
        return MF_FAIL(MF_UNAVAILABLE, "there is no free port: %s", strerror(errno));
    mf_buf_printf(out, "127.0.0.1:%d", ntohs(at.sin_port));
    return mf_buf_finish(out);
}

/* The worker alone, where it is, and the servers as they were. */
static mf_status make_config(const char *before, int index, const char *address, mf_buf *out)
{
    json_t *old = before ? json_loads(before, 0, NULL) : NULL;
    json_t *ps = json_object_get(json_object_get(old, "cluster"), "ps");
    char number[16];
    json_t *config;
    char *text;

    (void)snprintf(number, sizeof number, "%d", index);
    config = json_pack("{s{s{ss}} s{ss si}}", "cluster", "worker", number, address, "task", "type",
                       "worker", "index", index);
    if (ps)
        (void)json_object_set(json_object_get(config, "cluster"), "ps", ps);
    text = config ? json_dumps(config, JSON_COMPACT) : NULL;
    mf_buf_printf(out, "TF_CONFIG=%s", text ? text : "");
    free(text);
    json_decref(config);
    json_decref(old);
    return text ? mf_buf_finish(out) : MF_NOMEM("a command");
}

static mf_status become(const mf_board_seen *like, int index, const char *address)
{
    mf_words command = { 0 }, env = { 0 };
    mf_buf config = { 0 };
    char exe[64], cwd[64];
    mf_status st;

    (void)snprintf(exe, sizeof exe, "/proc/%lld/exe", (long long)like->page.pid);
    (void)snprintf(cwd, sizeof cwd, "/proc/%lld/cwd", (long long)like->page.pid);
    MF_TRY_TO(done, mf_words_read(like->page.pid, "cmdline", &command));
    MF_TRY_TO(done, mf_words_read(like->page.pid, "environ", &env));
    if (!find_variable(&env, "MESHFLOW_STORE")) {
        st = MF_FAIL(MF_FAILED_PRECONDITION,
                     "job '%s' has no store (MESHFLOW_STORE), so nobody can join it",
                     like->page.job);
        goto done;
    }
    MF_TRY_TO(done, make_config(find_variable(&env, "TF_CONFIG"), index, address, &config));
    set_variable(&env, "TF_CONFIG", config.data);
    set_variable(&env, "MESHFLOW_LAUNCHER", NULL);
    set_variable(&env, "MESHFLOW_RESTARTS", NULL);
    if (chdir(cwd) == 0)
        (void)execve(exe, command.list, env.list);
    st = mf_errno_status(errno, "run", exe);
done:
    mf_buf_deinit(&config);
    mf_words_deinit(&command);
    mf_words_deinit(&env);
    return st;
}

mf_status mf_worker_become(const mf_running_job *job, int index, const char *address)
{
    const mf_board_seen *like = NULL;
    mf_buf port = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; i < job->n; i++) {
        const int taken = mf_worker_index(job->tasks[i].page.task);

        index = taken >= index ? taken + 1 : index;
        like = is_here(&job->tasks[i]) && !like ? &job->tasks[i] : like;
    }
    if (!like)
        return MF_FAIL(MF_NOT_FOUND, "job '%s' has no worker on this host that could be asked how",
                       job->tasks[0].page.job);
    if (!address)
        st = find_port(&port);
    if (st == MF_OK)
        st = become(like, index, address ? address : port.data);
    mf_buf_deinit(&port);
    return st;
}
