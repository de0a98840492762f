/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_join.c - `meshflow job join`: this process becomes a worker of a running job. */
#include "cli/command.h"
#include "cli/running.h"
#include "supervisor/local_workers.h"

static mf_status cmd_job_join_run(mf_args *args)
{
    mf_recipe recipe = { 0 };
    mf_job_view r;
    mf_status st = mf_cli_running(args, args->words[0], &r);

    if (st == MF_OK)
        st = mf_recipe_read(&r.jobs[0], &recipe);
    if (st == MF_OK)
        st = mf_recipe_become(&recipe, mf_worker_free_index(&r.jobs[0], 0),
                              mf_args_value(args, "address"));
    mf_recipe_deinit(&recipe);
    mf_job_view_deinit(&r);
    return st;
}

static const mf_option options[] = {
    { .name = "address",
      .value = "HOST:PORT",
      .help = "address to listen at (default: a free port of the loopback interface)" },
    { 0 },
};

const mf_command mf_command_job_join = {
    .name = "job join",
    .arguments = "JOB",
    .summary = "add this process to a running job as a worker",
    .about = "Trains with the command line of a worker that runs on this host, and ends with the "
             "job. The worker joins between two steps and receives the current weights; results "
             "do not change. The job needs a store, as jobs of `meshflow launch` have.",
    .options = options,
    .examples = (const char *const[]){ "meshflow job join resnet", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = cmd_job_join_run,
};
