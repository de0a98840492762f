/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_server.c - `meshflow server`: a task that serves TensorFlow's clients. */
#include "base/log.h"
#include "cli/command.h"

#include <meshflow/server.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* Signals come here, so that no thread is interrupted by them. */
static void *await_signal(void *arg)
{
    sigset_t set;
    int which;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    while (sigwait(&set, &which) != 0)
        ;
    mf_server_stop(arg);
    return NULL;
}

static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static mf_status serve(mf_server *s)
{
    pthread_t thread;
    mf_buf out = { 0 };

    if (pthread_create(&thread, NULL, await_signal, s) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    pthread_detach(thread);
    mf_buf_printf(&out, "serving at %s\n", mf_server_target(s));
    MF_TRY(mf_cli_print(&out));
    mf_server_join(s);
    return MF_OK;
}

static mf_status server_run(mf_args *args)
{
    const char *dir = mf_args_value(args, "allow-dir");
    int64_t threads = 0, memory = 0;
    mf_server *s;
    mf_status st;

    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    MF_TRY(mf_args_int(args, "memory", 16, INT64_C(1) << 40, &memory));
    block_signals();
    MF_TRY(mf_server_new(
        &(mf_server_options){ .cluster = mf_args_value(args, "cluster"),
                              .job_name = mf_args_value(args, "job-name"),
                              .task_index = mf_args_value(args, "task-index"),
                              .threads = (int)threads,
                              .allow_dirs = &dir,
                              .n_allow_dirs = dir ? 1 : 0,
                              .tls_dir = mf_args_value(args, "tls-dir"),
                              .insecure_any_peer = mf_args_has(args, "insecure-any-peer"),
                              .memory = memory << 20 },
        &s));
    st = serve(s);
    mf_server_free(s);
    return st;
}

static const mf_option options[] = {
    { "cluster", "SPEC", "its tasks, as JSON or a file; TF_CONFIG unless told, else a task alone",
      0, false },
    { "job-name", "JOB", "which of them this is", 0, false },
    { "task-index", "N", "its number in the job; 0 unless told", 0, false },
    { "threads", "N", "threads; as many as there are cores unless told", 0, false },
    { "memory", "MIB", "the most that tensors and requests may take; the machine's unless told", 0,
      false },
    { "allow-dir", "DIR", "where graphs may read and write files; nowhere unless told", 0, false },
    { "tls-dir", "DIR", "certificates, as `meshflow cert` makes them", 0, false },
    { "insecure-any-peer", NULL, "without TLS, let anybody in", 0, false },
    { 0 },
};

const mf_command mf_command_server = {
    .name = "server",
    .arguments = "",
    .summary = "serve TensorFlow's clients",
    .about =
        "Runs until SIGINT or SIGTERM. tf.compat.v1.Session(\"grpc://HOST:PORT\") runs its graphs "
        "here. Variables and queues outlive sessions.",
    .options = options,
    .examples = (const char *const[]){ "meshflow server",
                                       "meshflow server --cluster "
                                       "'{\"worker\": [\"localhost:2222\"]}' --job_name worker",
                                       NULL },
    .run = server_run,
};
