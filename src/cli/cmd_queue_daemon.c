/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_queue_daemon.c - `meshflow queue daemon`: runs the jobs of a queue. */
#include "cli/command.h"
#include "jobqueue/jobqueue.h"

#include <unistd.h>

static volatile sig_atomic_t stop;

static void cmd_queue_daemon_on_signal(int number)
{
    stop = number;
}

static mf_status daemon_run(mf_args *args)
{
    const struct sigaction tell = { .sa_handler = cmd_queue_daemon_on_signal };
    int64_t slots = sysconf(_SC_NPROCESSORS_ONLN);
    mf_buf dir = { 0 };
    mf_status st;

    MF_TRY(mf_args_int(args, "slots", 1, 65536, &slots));
    st = mf_jobqueue_dir(mf_args_value(args, "dir"), &dir);
    (void)sigaction(SIGTERM, &tell, NULL);
    (void)sigaction(SIGINT, &tell, NULL);
    if (st == MF_OK)
        st = mf_jobqueue_serve(dir.data, slots, &stop);
    mf_buf_deinit(&dir);
    return st;
}

static const mf_option options[] = {
    { .name = "dir",
      .value = "DIR",
      .help = "folder of the queue (default: MESHFLOW_SPOOL, or ~/.meshflow/jobs)" },
    { .name = "slots",
      .value = "N",
      .help = "slots of all running jobs together (default: one for each core)" },
    { 0 },
};

const mf_command mf_command_queue_daemon = {
    .name = "queue daemon",
    .arguments = "",
    .summary = "run submitted jobs",
    .about =
        "Starts jobs in the order of submission, when slots are free and the jobs that they "
        "depend on have finished. A job that waits for others does not block later "
        "jobs.\n\nRunning jobs do not need the daemon: it may be stopped, killed and restarted, "
        "and finds them again. A job whose processes were killed is restarted if it was "
        "submitted with --restarts. SIGTERM ends the daemon, not the jobs.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow queue daemon --slots 2 &",
                               "meshflow queue submit --name night -- meshflow train --model mlp "
                               "--data fashion-mnist",
                               NULL },
    .min_args = 0,
    .max_args = 0,
    .run = daemon_run,
};
