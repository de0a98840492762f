/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_job_scale.c - `meshflow job scale`: changes the number of workers of a job on this host. */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/running.h"
#include "supervisor/elastic_hosts.h"

static mf_status start_more(const mf_job_view_job *job, int n, mf_buf *out)
{
    const int first = mf_worker_free_index(job, 0);
    mf_recipe recipe;
    mf_status st = mf_recipe_read(job, &recipe);

    for (int i = 0; i < n && st == MF_OK; i++) {
        if (mf_elastic_hosts_start(&recipe, first + i, NULL) < 0)
            st = MF_RESOURCE_EXHAUSTED;
        else
            mf_buf_printf(out, "worker %d was started\n", first + i);
    }
    mf_recipe_deinit(&recipe);
    return st;
}

static mf_status cmd_scale(const mf_job_view_job *job, int wanted, mf_buf *out)
{
    const int have = mf_workers_count(job);
    const mf_status_page_seen *last = mf_worker_to_leave(job, NULL);

    if (have == 0)
        return MF_FAIL(MF_NOT_FOUND, "job '%s' has no living worker here", job->tasks[0].page.job);
    if (wanted > have)
        MF_TRY(start_more(job, wanted - have, out));
    for (int i = wanted; i < have && last; i++) {
        MF_TRY(mf_worker_leave(last));
        mf_buf_printf(out, "%s leaves after its next step\n", last->page.task);
        last = mf_worker_to_leave(job, last);
    }
    if (have == wanted)
        mf_buf_printf(out, "there are %d workers already\n", have);
    return MF_OK;
}

static mf_status cmd_job_scale_put(mf_args *args, const mf_job_view_job *job, const char *list)
{
    if (!mf_elastic_hosts_key(list))
        return mf_args_wrong(args, "--put needs a key of the store: --hosts key:NAME");
    return mf_elastic_hosts_put(job, mf_elastic_hosts_key(list), mf_args_value(args, "put"));
}

static mf_status cmd_job_scale_follow(mf_args *args, const mf_job_view_job *job, const char *list)
{
    int64_t every = 1, restarts = 9;

    MF_TRY(mf_args_int(args, "every", 1, 3600, &every));
    MF_TRY(mf_args_int(args, "max-restarts", 0, 1000000, &restarts));
    return mf_elastic_hosts(job,
                            &(mf_elastic_hosts_options){ .job = job->tasks[0].page.job,
                                                         .list = list,
                                                         .host = mf_args_value(args, "host"),
                                                         .address = mf_args_value(args, "address"),
                                                         .every_ns = every * 1000000000,
                                                         .max_restarts = (int)restarts });
}

static mf_status scale_run(mf_args *args)
{
    const char *list = mf_args_value(args, "hosts");
    int64_t wanted = 0;
    mf_buf out = { 0 };
    mf_job_view r;
    mf_status st;

    MF_TRY(mf_args_int(args, "workers", 1, 1024, &wanted));
    if ((wanted == 0) == !list)
        return mf_args_wrong(args, "give the number of workers with either --workers or --hosts");
    if (!list && mf_args_value(args, "put"))
        return mf_args_wrong(args, "--put needs a key of the store: --hosts key:NAME");
    st = mf_cli_running(args, args->words[0], &r);
    if (st == MF_OK && !list)
        st = cmd_scale(&r.jobs[0], (int)wanted, &out);
    else if (st == MF_OK)
        st = mf_args_value(args, "put") ? cmd_job_scale_put(args, &r.jobs[0], list)
                                        : cmd_job_scale_follow(args, &r.jobs[0], list);
    mf_job_view_deinit(&r);
    return mf_cli_print_done(st, &out);
}

static const mf_option options[] = {
    { .name = "workers", .value = "N", .help = "number of workers on this host" },
    { .name = "hosts",
      .value = "LIST",
      .help = "follow a list of hosts until the job ends: a command that prints it, or key:NAME "
              "in the store of the job" },
    { .name = "host",
      .value = "NAME",
      .help = "name of this host in the list (default: its host name)" },
    { .name = "every",
      .value = "S",
      .help = "interval at which the list is read, in seconds (default: 1)" },
    { .name = "address",
      .value = "HOST",
      .help = "address at which new workers listen (default: the loopback interface)" },
    { .name = "max-restarts",
      .value = "N",
      .help = "give up after N consecutive failed workers (default: 9)" },
    { .name = "put",
      .value = "FILE",
      .help = "write this list to key:NAME for all hosts that follow it, and exit" },
    { 0 },
};

const mf_command mf_command_job_scale = {
    .name = "job scale",
    .arguments = "JOB",
    .summary = "change the number of workers of a running job on this host",
    .about =
        "New workers train with the command line of a running worker (`meshflow job join`). To "
        "reduce the number, workers that do not train yet leave first, then those with the "
        "highest index (`meshflow job leave`). Results do not change. With --hosts the number "
        "follows a list of lines like 'node1 slots=4' or 'node1:4', the formats of mpirun and "
        "horovodrun; run the command on each host.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow job scale resnet --workers 4",
                               "meshflow job scale resnet --hosts ./discover.sh",
                               "meshflow job scale resnet --hosts key:hosts",
                               "meshflow job scale resnet --hosts key:hosts --put hosts.txt",
                               NULL },
    .min_args = 1,
    .max_args = 1,
    .run = scale_run,
};
