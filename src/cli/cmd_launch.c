/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_launch.c - `meshflow launch`: starts the tasks of a cluster as processes of this machine. */
#include "base/exit_code.h"
#include "base/machine_limits.h"
#include "cli/command.h"
#include "supervisor/launch.h"
#include "train/checkpoint/output_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024 }; /* tasks of one role */

static void cmd_launch_add_tasks(mf_launch *l, mf_role role, int64_t count)
{
    for (int i = 0; i < count; i++) {
        mf_launched *t = &l->tasks[l->n++];

        *t = (mf_launched){ .role = role,
                            .index = i,
                            .reserved = -1,
                            .out.from = -1,
                            .err.from = -1,
                            .out.log = -1,
                            .err.log = -1 };
        (void)snprintf(t->name, sizeof t->name, "%s %d", mf_role_name(role), i);
    }
}

/* Computing tasks share the cores, unless the user has set a number of threads. */
static int threads_of_each(int64_t workers)
{
    const int cores = mf_usable_cores();

    if (getenv("MESHFLOW_THREADS") || getenv("OMP_NUM_THREADS"))
        return 0;
    return workers >= cores ? 1 : cores / (int)workers;
}

/* Commands of Meshflow are run by this executable, not by one in PATH. */
static const char *find_program(const char *word, char *path, size_t size)
{
    ssize_t n;

    if (!mf_command_resolve(word) && !mf_command_is_group(word))
        return word;
    n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0)
        return "/proc/self/exe";
    path[n] = '\0';
    return access(path, X_OK) == 0 ? path : "/proc/self/exe";
}

static mf_status read_options(mf_args *args, mf_launch *l, int64_t *port)
{
    int64_t workers = 1, ps = 0, masters = 0, grace = 10, restarts = 0;

    MF_TRY(mf_args_int(args, "workers", 1, MOST, &workers));
    MF_TRY(mf_args_int(args, "ps", 0, MOST, &ps));
    MF_TRY(mf_args_int(args, "masters", 0, MOST, &masters));
    MF_TRY(mf_args_int(args, "port", 1, 65535, port));
    MF_TRY(mf_args_int(args, "grace", 0, 86400, &grace));
    MF_TRY(mf_args_int(args, "max-restarts", 0, 1000000, &restarts));
    l->tasks = mf_calloc(workers + ps + masters, sizeof *l->tasks);
    if (!l->tasks)
        return MF_NOMEM("tasks");
    cmd_launch_add_tasks(l, MF_ROLE_WORKER, workers);
    cmd_launch_add_tasks(l, MF_ROLE_PS, ps);
    cmd_launch_add_tasks(l, MF_ROLE_MASTER, masters);
    l->masters = masters > 0;
    l->threads = threads_of_each(workers);
    l->grace_ns = grace * 1000000000;
    l->max_restarts = (int)restarts;
    l->log_dir = mf_args_value(args, "log-dir");
    if (!mf_args_has(args, "all-stay"))
        MF_TRY(mf_launch_store_make(l));
    l->no_prefix = mf_args_has(args, "no-prefix");
    l->json = mf_args_has(args, "json");
    return MF_OK;
}

/* The words after "--"; a command of Meshflow is preceded by the name of the program. */
static mf_status make_command(mf_args *args, mf_launch *l, char *path, size_t size)
{
    const char **words = mf_calloc(args->n_words + 2, sizeof *words);
    int64_t n = 0;

    if (!words)
        return MF_NOMEM("a command");
    l->command = words;
    l->program = find_program(args->words[0], path, size);
    if (l->program != args->words[0])
        words[n++] = "meshflow";
    l->trains = l->program != args->words[0] && strcmp(args->words[0], "train") == 0;
    l->by_masters = l->trains && l->masters && l->store;
    for (int i = 0; i < l->n; i++)
        l->tasks[i].done = l->by_masters && l->tasks[i].role != MF_ROLE_MASTER;
    for (int64_t i = 0; i < args->n_words; i++)
        words[n++] = args->words[i];
    return MF_OK;
}

static void cmd_launch_deinit(mf_launch *l)
{
    for (int i = 0; i < l->n; i++) {
        mf_launch_output_close(&l->tasks[i].out);
        mf_launch_output_close(&l->tasks[i].err);
        if (l->tasks[i].reserved >= 0)
            (void)close(l->tasks[i].reserved);
    }
    mf_launch_store_remove(l);
    mf_free(l->store);
    mf_free(l->store_dir);
    mf_free(l->tasks);
    mf_free((void *)l->command);
}

static mf_status launch_run(mf_args *args)
{
    mf_launch l = { 0 };
    char path[4096];
    char job[MF_JOB_ID];
    int64_t port = 0;
    mf_error why;
    mf_status st;

    mf_job_id(job);
    (void)setenv("MESHFLOW_JOB_ID", job, 1);
    MF_TRY_TO(done, read_options(args, &l, &port));
    MF_TRY_TO(done, make_command(args, &l, path, sizeof path));
    st = mf_launch_reserve(&l, (int)port);
    if (st == MF_UNAVAILABLE)
        mf_args_hint(args, "omit --port to use free ports");
    if (st == MF_OK)
        st = mf_launch_run(&l, &args->exit_code);
    if (st == MF_OK && args->exit_code == 0) /* an incomplete output is a failure */
        st = mf_launch_output_end(&l);
done:
    mf_error_save(st, &why);
    cmd_launch_deinit(&l);
    st = mf_error_restore(&why);
    if (st != MF_OK && !args->usage && args->exit_code == 0)
        args->exit_code = mf_exit_of_setup(st);
    return st;
}

static const mf_option options[] = {
    { .name = "workers",
      .value = "N",
      .help = "workers to start; worker 0 is the chief (default: 1)" },
    { .name = "ps", .value = "N", .help = "parameter servers to start (default: 0)" },
    { .name = "masters",
      .value = "N",
      .help = "masters to start: they supervise the tasks of a training, or distribute the calls "
              "of `graph map` (default: 0)" },
    { .name = "port",
      .value = "BASE",
      .help = "use consecutive ports from BASE (default: free ports)" },
    { .name = "grace",
      .value = "SECONDS",
      .help = "time between SIGTERM and SIGKILL (default: 10)" },
    { .name = "max-restarts",
      .value = "N",
      .help = "how often a failed task is restarted (default: 0)" },
    { .name = "all-stay", .help = "end the job when the first task is lost" },
    { .name = "log-dir",
      .value = "DIR",
      .help = "also write the output of each task to DIR/worker-0.out, DIR/worker-0.err, ..." },
    { .name = "no-prefix", .help = "do not prefix output lines with the task" },
    { .name = "json",
      .help = "write only the chief's output (or that of master 0) to standard output, and that of "
              "other tasks to standard error" },
    { 0 },
};

const mf_command mf_command_launch = {
    .name = "launch",
    .arguments = "-- COMMAND [ARGUMENT]...",
    .summary = "start the tasks of a cluster on this machine",
    .about =
        "Starts COMMAND once for every task, with the cluster and the role of the task in "
        "TF_CONFIG. COMMAND is a command of this program (train, ...) or another program. Each "
        "line of output begins with its task: [worker 1].\n\nA training continues without a lost "
        "task, and a restarted task rejoins (--max-restarts; the pause before a restart doubles "
        "while the task fails within 5 s). A training also continues if the launcher is killed: "
        "its output is then appended to the files of --log-dir or, without it, to "
        "store-PID/worker-0.out, ... in the run directory (MESHFLOW_RUN_DIR). Other commands end "
        "with a killed launcher. If the job cannot continue without a failed task, or with "
        "--all-stay, the other tasks get SIGTERM, and SIGKILL after --grace seconds. Parameter "
        "servers that remain after all other tasks have ended successfully get SIGTERM after "
        "--grace seconds. SIGINT and SIGTERM are forwarded; a second signal kills the "
        "tasks.\n\nWith --masters the masters start the tasks of a training and restart lost "
        "ones. Another master takes over the tasks of a master that dies. The launcher restarts "
        "lost masters (--max-restarts applies to each of them and to each task). For other "
        "commands the masters decide: a failed worker does not end the job and is not restarted; "
        "when the masters have ended, all other tasks are stopped.\n\nThe cores are divided "
        "among the tasks (MESHFLOW_THREADS), unless MESHFLOW_THREADS or OMP_NUM_THREADS is set. "
        "MESHFLOW_RESTARTS is the number of restarts of a task.\n\nThe exit code is that of the "
        "failed task (if several failed: of the first permanent error, 2, 3, 126 or 127, "
        "otherwise of the first failure), or 128 plus the number of the signal that killed it; 0 "
        "if all tasks, or all except lost ones, ended successfully. It is "
        "75 for a training that was stopped through the launcher. Tasks that end with 2, 3, 75, "
        "126 or 127 are not restarted.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow launch --workers 3 -- train --model mlp --data fashion-mnist",
            "meshflow launch --workers 2 --ps 1 --log-dir logs -- python3 train.py",
            "meshflow launch --masters 1 --workers 3 -- graph map model.pb --rows x=x.npy --save "
            "y:0=y.npy",
            NULL },
    .min_args = 1,
    .max_args = -1,
    .exits = MF_EXITS_OF_JOBS "  N   another program: its own exit code\n",
    .run = launch_run,
};
