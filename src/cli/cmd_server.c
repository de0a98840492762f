/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_server.c - `meshflow server`: a task that serves TensorFlow clients. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/command.h"
#include "observe/status_page.h"
#include "tf_server/task_table.h"

#include <meshflow/server.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { GRACE = 10 }; /* seconds */

/* The running server: one task, or several. */
typedef struct served {
    mf_server *one;
    mf_local_cluster *several;
    int64_t grace; /* seconds from the first signal to the end of the process */
} served;

static sigset_t signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

static void cmd_server_await(const sigset_t *set)
{
    int which;

    while (sigwait(set, &which) != 0)
        ;
}

/* Ends the process at once, regardless of its threads. */
static _Noreturn void cut_short(const char *why)
{
    mf_buf running = { 0 };

    mf_status_page_acts_text(&running);
    (void)fprintf(stderr, "meshflow: the server ends before its steps: %s; still running: %s\n",
                  why, running.len > 0 ? running.data : "no op");
    _exit(MF_EXIT_STOPPED);
}

/* The main thread stops the server in the meantime, and ends the process if it succeeds. */
static _Noreturn void end_in_time(const served *s, const sigset_t *set)
{
    const int64_t until = mf_clock_ns() + s->grace * 1000000000;
    char why[100];

    for (;;) {
        const int64_t left = until - mf_clock_ns();
        const struct timespec t = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };

        if (left <= 0)
            break;
        if (sigtimedwait(set, NULL, &t) > 0)
            cut_short("a second signal came");
    }
    (void)snprintf(why, sizeof why, "it did not stop within %lld s (--grace)", (long long)s->grace);
    cut_short(why);
}

/* Signals are received by this thread, so that no other thread is interrupted. */
static void *await_signal(void *arg)
{
    const served *s = arg;
    const sigset_t set = signals();

    cmd_server_await(&set);
    if (s->several)
        mf_local_cluster_stop(s->several);
    else
        mf_server_stop(s->one);
    end_in_time(s, &set);
}

static void cmd_server_block_signals(void)
{
    const sigset_t set = signals();

    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* One line for each task in this process, and one for the cluster. */
static mf_status describe_several(const mf_local_cluster *c, mf_buf *out)
{
    const char *spec = mf_local_cluster_spec(c);
    mf_server_tasks tasks;
    mf_status st = mf_server_tasks_list(spec, &tasks);

    for (int i = 0; st == MF_OK && i < tasks.n; i++) {
        const mf_server_task *t = &tasks.all[i];
        const char *target = mf_local_cluster_target(c, t->job, t->index);

        if (target)
            mf_buf_printf(out, "serving /job:%s/task:%d at %s\n", t->job, t->index, target);
    }
    mf_server_tasks_deinit(&tasks);
    mf_buf_printf(out, "cluster %s\n", spec);
    return st;
}

static mf_status cmd_server_serve(served *s)
{
    pthread_t thread;
    mf_buf out = { 0 };

    if (s->several)
        MF_TRY(describe_several(s->several, &out));
    else
        mf_buf_printf(&out, "serving at %s\n", mf_server_target(s->one));
    if (mf_thread_start(&thread, await_signal, s) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    pthread_detach(thread);
    MF_TRY(mf_cli_print(&out));
    if (s->several)
        mf_local_cluster_join(s->several);
    else
        mf_server_join(s->one);
    return MF_OK;
}

/* Makes this task visible to `meshflow job status` and `meshflow job hang`, as one of a job. */
static mf_status cmd_server_show(const mf_server_options *o, const char *job)
{
    char task[MF_STATUS_PAGE_TASK];
    mf_server_tasks tasks;
    mf_status st = mf_server_tasks_read(o->cluster, o->job_name, o->task_index, &tasks);

    if (st == MF_OK) {
        const mf_server_task *self = &tasks.all[tasks.self];

        (void)snprintf(task, sizeof task, "%.20s %d", self->job, self->index);
        st = mf_status_page_open(job, task, tasks.n);
    }
    if (st == MF_OK)
        mf_status_page_phase(MF_PHASE_SERVE);
    mf_server_tasks_deinit(&tasks);
    return st;
}

/* Rejects options that contradict each other. */
static mf_status cmd_server_check_options(mf_args *args)
{
    const char *local = mf_args_value(args, "local");
    const bool here = mf_args_has(args, "here");

    if (local && (here || mf_args_value(args, "cluster")))
        return mf_args_wrong(args, "--local creates a cluster: remove --%s",
                             here ? "here" : "cluster");
    if ((local || here) && mf_args_value(args, "name"))
        return mf_args_wrong(args, "--name shows one task: remove --%s", local ? "local" : "here");
    if ((local || here) && (mf_args_value(args, "job-name") || mf_args_value(args, "task-index")))
        return mf_args_wrong(args, "--%s starts several tasks: remove --job-name and --task-index",
                             local ? "local" : "here");
    return MF_OK;
}

static mf_status cmd_server_run(mf_args *args)
{
    const char *dir = mf_args_value(args, "allow-dir"), *local = mf_args_value(args, "local");
    int64_t threads = 0, memory = 0, grace = GRACE;
    mf_server_options o = { .cluster = mf_args_value(args, "cluster"),
                            .job_name = mf_args_value(args, "job-name"),
                            .task_index = mf_args_value(args, "task-index"),
                            .allow_dirs = &dir,
                            .n_allow_dirs = dir ? 1 : 0,
                            .tls_dir = mf_args_value(args, "tls-dir"),
                            .insecure_any_peer = mf_args_has(args, "insecure-any-peer") };
    static served s; /* the thread that waits for signals outlives this function */
    mf_status st;

    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    MF_TRY(mf_args_int(args, "memory", 16, INT64_C(1) << 40, &memory));
    MF_TRY(mf_args_int(args, "grace", 0, 86400, &grace));
    MF_TRY(cmd_server_check_options(args));
    s.grace = grace;
    MF_TRY(mf_status_page_watch());
    o.threads = (int)threads;
    o.memory = memory << 20;
    cmd_server_block_signals();
    if (mf_args_value(args, "name"))
        MF_TRY(cmd_server_show(&o, mf_args_value(args, "name")));
    if (local || mf_args_has(args, "here"))
        MF_TRY(mf_local_cluster_new(local, &o, &s.several));
    else
        MF_TRY(mf_server_new(&o, &s.one));
    st = cmd_server_serve(&s);
    mf_local_cluster_free(s.several);
    mf_server_free(s.one);
    mf_status_page_close();
    return st;
}

static mf_status server_run(mf_args *args)
{
    const mf_status st = cmd_server_run(args);

    if (st != MF_OK && !args->usage)
        args->exit_code = mf_exit_of_setup(st);
    return st;
}

static const mf_option options[] = {
    { .name = "cluster",
      .value = "SPEC",
      .help = "tasks of the cluster, as JSON or a file (default: TF_CONFIG, or a single task)" },
    { .name = "job-name", .value = "JOB", .help = "role of this task" },
    { .name = "task-index",
      .value = "N",
      .help = "index of this task among the tasks of its "
              "role (default: 0)" },
    { .name = "here",
      .help = "run all tasks of the cluster that are on this host, in this "
              "process" },
    { .name = "local",
      .value = "JOBS",
      .help = "run a new cluster in this process, at free ports of the loopback interface: "
              "worker=2,ps=1" },
    { .name = "name",
      .value = "JOB",
      .help = "show this task as one of JOB in `meshflow job status` and `meshflow job hang` "
              "(default: not shown)" },
    { .name = "threads", .value = "N", .help = "threads (default: one for each core)" },
    { .name = "memory",
      .value = "MIB",
      .help = "limit of tensors, strings, requests and other memory of graphs (default: the "
              "memory of the machine)" },
    { .name = "grace",
      .value = "SECONDS",
      .help = "time from SIGTERM or SIGINT to the end of the process, even if an op still runs "
              "(default: 10)" },
    { .name = "allow-dir",
      .value = "DIR",
      .help = "folder in which graphs may read and write files (default: none)" },
    { .name = "tls-dir", .value = "DIR", .help = "certificates, as written by `meshflow cert`" },
    { .name = "insecure-any-peer", .help = "without TLS: accept every peer" },
    { 0 },
};

const mf_command mf_command_server = {
    .name = "server",
    .arguments = "",
    .summary = "run a task of a TensorFlow cluster",
    .about =
        "Runs until SIGINT or SIGTERM: then steps are cancelled and the exit code is 0. If an op "
        "does not end within the grace period, or a second signal arrives, the process names the "
        "steps that still run and ends with exit code 75. Clients connect with "
        "tf.compat.v1.Session(\"grpc://HOST:PORT\"). Variables and queues outlive sessions.",
    .options = options,
    .examples = (const char *const[]){ "meshflow server", "meshflow server --local worker=2,ps=1",
                                       "meshflow server --cluster "
                                       "'{\"worker\": [\"localhost:2222\"]}' --job_name worker",
                                       NULL },
    .exits =
        "  0   ended by SIGINT or SIGTERM, as intended\n  1   it cannot serve now, e.g. its port "
        "is in use; another try may succeed\n  2   invalid usage, cluster or certificates\n  75  "
        "the grace period was over, or a second signal arrived, before its steps had ended\n",
    .run = server_run,
};
