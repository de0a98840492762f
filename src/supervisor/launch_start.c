/* SPDX-License-Identifier: Apache-2.0 */
/* launch_start.c - ports, environment, fork and exec.
 *
 * Ports: a socket with SO_REUSEADDR is bound to each port and kept until the end, without
 * listening. Linux lets a task bind the same port if the task sets SO_REUSEADDR, too, as servers do
 * (gRPC among them), and never assigns the port to a program that asks for any free port. So there
 * is no moment in which another program could take it. */
#include "base/clock.h"
#include "base/file.h"
#include "base/param.h"
#include "supervisor/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- ports ---- */

static mf_status reserve_one(int port, mf_launched *t)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot make a socket for %s: %s", t->name,
                       strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&at, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        const int err = errno;

        (void)close(fd);
        return MF_FAIL(MF_UNAVAILABLE, "port %d for %s cannot be used: %s", port, t->name,
                       strerror(err));
    }
    t->reserved = fd;
    (void)snprintf(t->address, sizeof t->address, "127.0.0.1:%d", ntohs(at.sin_port));
    return MF_OK;
}

mf_status mf_launch_reserve(mf_launch *l, int base)
{
    for (int i = 0; i < l->n; i++) {
        if (base > 0 && base + i > 65535)
            return MF_FAIL(MF_INVALID_ARGUMENT, "port %d for %s is beyond 65535", base + i,
                           l->tasks[i].name);
        MF_TRY(reserve_one(base > 0 ? base + i : 0, &l->tasks[i]));
    }
    return MF_OK;
}

/* ---- the environment of a task ---- */

static mf_status put_tf_config(const mf_launch *l, const mf_launched *t, mf_buf *out)
{
    mf_cluster_task *all = mf_calloc(l->n, sizeof *all);

    if (!all)
        return MF_NOMEM("an environment");
    for (int i = 0; i < l->n; i++)
        all[i] = (mf_cluster_task){ .role = l->tasks[i].role, .address = l->tasks[i].address };
    mf_buf_str(out, "TF_CONFIG=");
    mf_cluster_write_tf_config(all, l->n, t->role, t->index, out);
    mf_free(all);
    return mf_buf_finish(out);
}

/* Tasks on one host share its memory for samples. */
#define MEMORY "MESHFLOW_DATA_MEMORY_PERCENT"

static int64_t memory_percent(const mf_launch *l)
{
    mf_param *const *all;
    int n;

    mf_params_load();
    all = mf_params(&n);
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i]->name, "data_memory_percent") == 0)
            return atomic_load(&all[i]->value) / l->n;
    }
    return 0;
}

/* A variable that the launcher sets, or that would override one. */
static bool is_replaced(const mf_launch *l, const char *variable)
{
    static const char *const ours[] = { "TF_CONFIG=",           "MESHFLOW_RENDEZVOUS=",
                                        "MESHFLOW_RESTARTS=",   "MESHFLOW_LAUNCHER=",
                                        "MESHFLOW_STORE=",      "MESHFLOW_MAX_RESTARTS=",
                                        "MESHFLOW_LOG_PREFIX=", MEMORY "=",
                                        "MESHFLOW_LOST_OUTPUT=" };

    for (int i = 0; i < MF_COUNT(ours); i++) {
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return true;
    }
    return l->threads > 0 && strncmp(variable, "MESHFLOW_THREADS=", 17) == 0;
}

/* The file to which a task that outlives the launcher appends its output (dist/orphan_output.h):
 * its log if it has one, else a file beside the job's store, which `meshflow job sweep` removes. */
static mf_status put_lost_output(const mf_launch *l, const mf_launched *t, mf_buf *out)
{
    const char *dir = l->log_dir ? l->log_dir : l->store_dir;

    if (!dir || l->by_masters)
        return MF_OK;
    mf_buf_printf(out, "MESHFLOW_LOST_OUTPUT=%s/%s-%d", dir, mf_role_name(t->role), t->index);
    return mf_buf_finish(out);
}

typedef struct task_environment {
    mf_buf config, store, lost;
    char threads[64], restarts[64], launcher[64], memory[64], budget[64], prefix[64];

    char **list;
} task_environment;

static mf_status make_environment(const mf_launch *l, const mf_launched *t, task_environment *s)
{
    int64_t n = 0, have = 0;

    while (environ[have])
        have++;
    s->list = mf_calloc(have + 10, sizeof *s->list);
    mf_buf_printf(&s->store, "MESHFLOW_STORE=%s", l->store ? l->store : "");
    MF_TRY(put_tf_config(l, t, &s->config));
    MF_TRY(put_lost_output(l, t, &s->lost));
    if (!s->list || s->store.failed)
        return MF_NOMEM("an environment");
    for (int64_t i = 0; i < have; i++) {
        if (!is_replaced(l, environ[i]))
            s->list[n++] = environ[i];
    }
    (void)snprintf(s->threads, sizeof s->threads, "MESHFLOW_THREADS=%d", l->threads);
    (void)snprintf(s->restarts, sizeof s->restarts, "MESHFLOW_RESTARTS=%d", t->restarts);
    (void)snprintf(s->launcher, sizeof s->launcher, "MESHFLOW_LAUNCHER=%d", (int)getpid());
    (void)snprintf(s->memory, sizeof s->memory, MEMORY "=%lld", (long long)memory_percent(l));
    s->list[n++] = s->config.data;
    (void)snprintf(s->budget, sizeof s->budget, "MESHFLOW_MAX_RESTARTS=%d", l->max_restarts);
    s->list[n++] = s->memory;
    s->list[n++] = s->budget;
    (void)snprintf(s->prefix, sizeof s->prefix, "MESHFLOW_LOG_PREFIX=[%s] ", t->name);
    if (l->by_masters)
        s->list[n++] = s->prefix;
    s->list[n++] = s->store.data;
    if (s->lost.len > 0)
        s->list[n++] = s->lost.data;
    s->list[n++] = s->restarts;
    s->list[n++] = s->launcher;
    if (l->threads > 0)
        s->list[n++] = s->threads;
    return MF_OK;
}

/* ---- the process ---- */

/* What the process of a task receives besides its environment. */
typedef struct launch_start_ends {
    int in, out, err; /* its standard streams */
    int failed; /* receives errno of a failed exec(); close-on-exec */
} launch_start_ends;

/* Runs between fork and exec: async-signal-safe calls only. */
static _Noreturn void launch_start_become(const mf_launch *l, const launch_start_ends *e,
                                          char *const *env, pid_t launcher)
{
    sigset_t none;
    int err;

    (void)setpgid(0, 0); /* a process group, so that signals also reach the task's children */
    (void)prctl(PR_SET_PDEATHSIG,
                SIGKILL); /* members of a job that survives the launcher reset it */
    if (getppid() != launcher) /* the launcher has ended already */
        _exit(1);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL); /* ignored in background jobs of a shell */
    (void)signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(e->in, 0) >= 0 && dup2(e->out, 1) >= 0 && dup2(e->err, 2) >= 0)
        (void)execvpe(l->program, (char *const *)l->command, env);
    err = errno;
    (void)!write(e->failed, &err, sizeof err);
    _exit(127);
}

/* errno of a failed exec(); 0: exec() succeeded. */
static int wait_for_exec(int fd)
{
    int err = 0;
    ssize_t n;

    do
        n = read(fd, &err, sizeof err);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof err ? err : 0;
}

static mf_status fork_task(mf_launch *l, mf_launched *t, const launch_start_ends *e,
                           int failed_read, char *const *env)
{
    const pid_t launcher = getpid(), pid = fork();
    int err;

    if (pid == 0)
        launch_start_become(l, e, env, launcher);
    err = errno;
    (void)close(e->failed);
    if (pid < 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start %s: %s", t->name, strerror(err));
    (void)setpgid(pid, pid); /* both processes do it: the order is not known */
    err = wait_for_exec(failed_read);
    if (err == 0) {
        t->pid = pid;
        return MF_OK;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return mf_errno_status(err, "run", l->command[0]);
}

static void launch_start_close_all(int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}

/* Pipes for stdout, stderr and the result of exec(), in the order read end, write end. */
static mf_status start_with_pipes(mf_launch *l, mf_launched *t, char *const *env)
{
    int fds[7] = { -1, -1, -1, -1, -1, -1, -1 };
    mf_status st;

    fds[6] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fds[6] < 0 || pipe2(&fds[0], O_CLOEXEC) != 0 || pipe2(&fds[2], O_CLOEXEC) != 0 ||
        pipe2(&fds[4], O_CLOEXEC) != 0) {
        st = MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot make a pipe for %s: %s", t->name,
                     strerror(errno));
        launch_start_close_all(fds, MF_COUNT(fds));
        return st;
    }
    /* Only our ends: a task's writes must block. */
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(fds[2], F_SETFL, O_NONBLOCK);
    /* The tasks of a master outlive the master and the launcher: they inherit our outputs, and put
     * their own names before their lines. */
    st = fork_task(l, t,
                   l->by_masters
                       ? &(launch_start_ends){ fds[6], STDOUT_FILENO, STDERR_FILENO, fds[5] }
                       : &(launch_start_ends){ fds[6], fds[1], fds[3], fds[5] },
                   fds[4], env);
    fds[5] = -1; /* fork_task() has closed it */
    if (st == MF_OK && !l->by_masters) {
        t->out.from = fds[0];
        t->err.from = fds[2];
        fds[0] = fds[2] = -1;
    }
    launch_start_close_all(fds, MF_COUNT(fds));
    return st;
}

mf_status mf_launch_start(mf_launch *l, mf_launched *t)
{
    task_environment s = { 0 };
    mf_status st = make_environment(l, t, &s);

    t->started_ns = mf_clock_ns();
    mf_launch_output_close(&t->out);
    mf_launch_output_close(&t->err);
    if (st == MF_OK)
        st = mf_launch_output_open(l, t);
    if (st == MF_OK)
        st = start_with_pipes(l, t, s.list);
    mf_buf_deinit(&s.config);
    mf_buf_deinit(&s.store);
    mf_buf_deinit(&s.lost);
    mf_free(s.list);
    return st;
}
