/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_launch.c - `meshflow launch`: the tasks of a cluster as processes of this machine. */
#include "base/exit_code.h"
#include "base/machine_limits.h"
#include "cli/command.h"
#include "supervisor/launch.h"
#include "train/checkpoint/output_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024 }; /* of each role */

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

/* Every task that computes gets its part of the cores, unless the user has decided. */
static int threads_of_each(int64_t workers)
{
    const int cores = mf_usable_cores();

    if (getenv("MESHFLOW_THREADS") || getenv("OMP_NUM_THREADS"))
        return 0;
    return workers >= cores ? 1 : cores / (int)workers;
}

/* A command of ours is run by this very program, wherever it lies. */
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

/* The words behind "--"; one of ours gets the program's name in front. */
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
        mf_args_hint(args, "leave --port out, and free ports are found");
    if (st == MF_OK)
        st = mf_launch_run(&l, &args->exit_code);
    if (st == MF_OK && args->exit_code == 0) /* a result that nobody can read is none */
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
      .help = "workers to start; 1 unless told. Worker 0 is the chief" },
    { .name = "ps", .value = "N", .help = "parameter servers; 0 unless told" },
    { .name = "masters",
      .value = "N",
      .help = "masters: they start the tasks of a training, and hand out work (graph map); 0 "
              "unless told" },
    { .name = "port",
      .value = "BASE",
      .help = "use the ports from BASE on; free ones are found unless told" },
    { .name = "grace",
      .value = "SECONDS",
      .help = "between telling tasks to end and killing them; 10 unless told" },
    { .name = "max-restarts",
      .value = "N",
      .help = "how often a task that failed is started again; 0 unless told" },
    { .name = "all-stay", .help = "the job ends with the first task that is lost" },
    { .name = "log-dir",
      .value = "DIR",
      .help = "write outputs to DIR/worker-0.out, DIR/worker-0.err, ... as well" },
    { .name = "no-prefix", .help = "do not put the task before its lines" },
    { .name = "json",
      .help =
          "standard output is the chief's, or master 0's, alone; others' goes to standard error" },
    { 0 },
};

const mf_command mf_command_launch = {
    .name = "launch",
    .arguments = "-- COMMAND [ARGUMENT]...",
    .summary = "start the tasks of a cluster on this machine",
    .about =
        "Starts COMMAND once for every task, with the cluster and its own place in TF_CONFIG. "
        "COMMAND is a command of this program (train, ...) or another program. Each line of output "
        "begins with its task: [worker 1].\n\n"
        "Tasks that train together go on without one that is lost, and let in one that is started "
        "again (--max-restarts; after a pause that doubles while it fails within 5 s). They also "
        "go on when the "
        "launcher itself is killed, which ends all other tasks; their output is then appended to "
        "the files of --log-dir, or without it to store-PID/worker-0.out, ... in the run directory "
        "(MESHFLOW_RUN_DIR). Where they cannot, or with "
        "--all-stay, the others are told to "
        "end when a task fails (SIGTERM), and killed after --grace seconds. Parameter servers that "
        "stay when all "
        "others have ended well are told to end after --grace seconds. SIGINT and SIGTERM are "
        "passed on; a second one kills.\n\n"
        "With --masters a training's tasks are started by them, each its own, and started again "
        "when they are lost; those of a master that dies are taken over. Masters that are lost are "
        "started again by the launcher (--max-restarts is for each of them, and for each task). Of "
        "other commands the masters decide: a worker that fails does not end the job, and is not "
        "started again; when the masters have ended, all others are told to.\n\n"
        "Every task gets its part of the cores (MESHFLOW_THREADS), unless MESHFLOW_THREADS or "
        "OMP_NUM_THREADS is set. MESHFLOW_RESTARTS counts its restarts.\n\n"
        "The exit code is that of the task that failed (when several failed: of the first "
        "permanent error, 2, 3, 126 or 127, "
        "else of the first failure), 128 and the number of the signal if "
        "one killed it; 0 when all tasks ended well, or those did that continued without a lost "
        "one. A training that the launcher was told to end has 75. Tasks that end with 2, 3, 75, "
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
    .exits = MF_EXITS_OF_JOBS "  N   of any other program: its own exit code\n",
    .run = launch_run,
};
