/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_options.c - reads the options that describe a cluster (`--cluster`, `--worker-hosts`,
 * `--job-name`, ...) into a request for cluster/resolve/. */
#include "cli/cluster_options.h"

#include "cli/job.h"
#include "observe/wait_report.h"

mf_status mf_cluster_request_read(mf_args *args, mf_cluster_request *out)
{
    int64_t ps = 0;

    MF_TRY(mf_args_int(args, "ps", 0, MF_CLUSTER_MAX_TASKS, &ps));
    *out = (mf_cluster_request){
        .cluster = mf_args_value(args, "cluster"),
        .job_name = mf_args_value(args, "job-name"),
        .task_index = mf_args_value(args, "task-index"),
        .worker_hosts = mf_args_value(args, "worker-hosts"),
        .ps_hosts = mf_args_value(args, "ps-hosts"),
        .hostfile = mf_args_value(args, "hostfile"),
        .ps = (int)ps,
    };
    return MF_OK;
}

mf_status mf_connect_options_read(mf_args *args, mf_strategy_options *out)
{
    mf_cluster_request r;
    double timeout = 0.0;

    MF_TRY(mf_args_double(args, "timeout", 0.1, 1e6, &timeout));
    MF_TRY(mf_cluster_request_read(args, &r));
    mf_wait_report_name_option("--timeout");
    *out = (mf_strategy_options){
        .cluster = r.cluster,
        .job_name = r.job_name,
        .task_index = r.task_index,
        .worker_hosts = r.worker_hosts,
        .ps_hosts = r.ps_hosts,
        .hostfile = r.hostfile,
        .ps = r.ps,
        .timeout_ms = (int64_t)(timeout * 1000.0),
        .transport = mf_args_value(args, "transport"),
        .store = mf_args_value(args, "store"),
        .tls_dir = mf_args_value(args, "tls-dir"),
        .trusted_network = mf_args_has(args, "trusted-network"),
        .insecure_any_peer = mf_args_has(args, "insecure-any-peer"),
    };
    return MF_OK;
}
