/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster_options.h"

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
