/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_queue_submit.c - `meshflow queue submit`: adds a command to the queue. */
#include "base/exit_code.h"
#include "cli/command.h"
#include "jobqueue/jobqueue.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t since_1970_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

static mf_status list_after(const mf_args *args, mf_arena *arena, mf_jobqueue_order *o)
{
    const char **after = MF_ARENA_ARRAY(arena, const char *, args->n_given + 1);
    int64_t at = 0;

    if (!after)
        return MF_NOMEM("a job");
    while ((after[o->n_after] = mf_args_next(args, "after", &at)) != NULL)
        o->n_after++;
    o->after = after;
    return MF_OK;
}

static mf_status cmd_queue_submit_put(mf_args *args, mf_arena *arena, const char *dir, mf_buf *out)
{
    char cwd[4096], unnamed[32];
    const char *name = mf_args_value(args, "name");
    mf_jobqueue_order o = { .submitted_ns = since_1970_ns(),
                            .slots = 1,
                            .grace_s = MF_JOBQUEUE_GRACE_S,
                            .cwd = getcwd(cwd, sizeof cwd),
                            .words = args->words,
                            .n_words = args->n_words,
                            .environment = (const char *const *)environ };

    MF_TRY(mf_args_int(args, "slots", 1, 65536, &o.slots));
    MF_TRY(mf_args_int(args, "restarts", 0, 1000000, &o.restarts));
    MF_TRY(mf_args_int(args, "grace", 0, MF_JOBQUEUE_MOST_GRACE_S, &o.grace_s));
    if (!o.cwd)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the current folder no longer exists");
    while (environ[o.n_environment])
        o.n_environment++;
    MF_TRY(list_after(args, arena, &o));
    (void)snprintf(unnamed, sizeof unnamed, "job-%llx", (unsigned long long)o.submitted_ns);
    name = name ? name : unnamed;
    MF_TRY(mf_jobqueue_submit(dir, name, &o));
    mf_buf_printf(out, "%s\n", name);
    if (!mf_jobqueue_has_daemon(dir))
        mf_args_hint(args, "no daemon runs for '%s': start one with `meshflow queue daemon`", dir);
    return MF_OK;
}

static mf_status submit_run(mf_args *args)
{
    mf_arena *arena = mf_arena_new();
    mf_buf dir = { 0 }, out = { 0 };
    mf_status st = arena ? mf_jobqueue_dir(mf_args_value(args, "dir"), &dir) : MF_NOMEM("a job");

    if (st == MF_OK)
        st = cmd_queue_submit_put(args, arena, dir.data, &out);
    if (st == MF_OK && args->hint[0])
        (void)fprintf(stderr, "meshflow: %s\n", args->hint);
    mf_arena_free(arena);
    mf_buf_deinit(&dir);
    if (st != MF_OK && !args->usage)
        args->exit_code = mf_exit_of_setup(st);
    return mf_cli_print_done(st, &out);
}

static const mf_option options[] = {
    { .name = "name", .value = "NAME", .help = "name of the job (default: a number)" },
    { .name = "after",
      .value = "JOB",
      .help = "start after this job has succeeded; if it fails, this job is skipped",
      .many = true },
    { .name = "restarts",
      .value = "N",
      .help = "restart the job up to N times when it fails or is killed (default: 0)" },
    { .name = "grace",
      .value = "SECONDS",
      .help = "time between SIGTERM and SIGKILL when the job is cancelled (default: 10)" },
    { .name = "slots",
      .value = "N",
      .help = "slots of the daemon that the job occupies "
              "(default: 1)" },
    { .name = "dir",
      .value = "DIR",
      .help = "folder of the queue (default: MESHFLOW_SPOOL, or ~/.meshflow/jobs)" },
    { 0 },
};

const mf_command mf_command_queue_submit = {
    .name = "queue submit",
    .arguments = "-- COMMAND [WORD...]",
    .summary = "submit a command to the daemon",
    .about =
        "Prints the name of the job. The job runs in the current folder with the current "
        "environment, as soon as the daemon has free slots, and continues after this terminal is "
        "closed.\n\nTo let a training continue when it is restarted, give it --out and --resume. "
        "`meshflow queue list` shows the exit code of the job, and `meshflow queue attach` "
        "returns it; jobs that end with 2, 3, 75, 126 or 127 are not restarted.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow queue submit --name a --restarts 3 -- meshflow train --model "
            "mlp --out run --resume",
            "meshflow queue submit --name b --after a -- meshflow eval --from run "
            "--data fashion-mnist",
            NULL },
    .min_args = 1,
    .max_args = -1,
    .exits =
        "  0   the job was submitted\n"
        "  1   it could not be submitted; another try may succeed\n"
        "  2   invalid usage or settings\n"
        "exit codes of the job:\n" MF_EXITS_OF_JOBS "  N   another program: its own exit code\n",
    .run = submit_run,
};
