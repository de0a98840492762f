/* SPDX-License-Identifier: Apache-2.0 */
/* from_slurm.c - processes started by srun. The batch script itself is not one of them: it has no
 * step id. */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <string.h>

static const mf_rank_names names = {
    .rank = { "SLURM_PROCID" },
    .size = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
    .local_rank = { "SLURM_LOCALID" },
};

static const char *const step_ids[] = { "SLURM_STEP_ID", "SLURM_STEPID", NULL };
static const char *const job_ids[] = { "SLURM_JOB_ID", "SLURM_JOBID", NULL };
static const char *const node_lists[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                          "SLURM_NODELIST", NULL };
static const char *const tasks_per_node[] = { "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
                                              NULL };

static bool slurm_applies(const mf_cluster_request *request)
{
    const char *name;

    return mf_request_env(request, "SLURM_PROCID") && mf_request_any(request, step_ids, &name);
}

/* The number of processes on this host, where the lists contain it. */
static void count_local(const mf_cluster_request *request, mf_cluster *c, mf_hosts *hosts, int size)
{
    const char *name, *text = mf_request_any(request, tasks_per_node, &name);
    const char *me = mf_request_env(request, "SLURMD_NODENAME");
    int64_t node = -1, total = 0;

    if (!text || !mf_tasks_per_node_decode(c, text, name, hosts))
        return;
    mf_cluster_fact(c, "tasks per node", name, "%s", text);
    (void)mf_request_int(request, c, "SLURM_NODEID", 0, MF_CLUSTER_MAX_TASKS, &node);
    for (int64_t i = 0; i < hosts->n; i++) {
        total += hosts->hosts[i].slots;
        if (i == node || (node < 0 && me && strcmp(hosts->hosts[i].name, me) == 0))
            c->local_size = hosts->hosts[i].slots;
    }
    if (total != size) {
        c->local_size = -1;
        mf_cluster_note(c, "%s is for %lld tasks, the step has %d: not used", name,
                        (long long)total, size);
    }
}

static void read_nodes(const mf_cluster_request *request, mf_cluster *c, int size)
{
    const char *name, *list = mf_request_any(request, node_lists, &name);
    const char *job_name, *job = mf_request_any(request, job_ids, &job_name);
    const char *step_name, *step = mf_request_any(request, step_ids, &step_name);
    mf_hosts hosts = { 0 };

    if (!list) {
        if (size > 1)
            mf_cluster_set_rendezvous(request, c, NULL, 0, "SLURM_STEP_NODELIST");
        return;
    }
    if (!mf_nodelist_decode(c, list, name, &hosts) || hosts.n == 0) {
        mf_free(hosts.hosts);
        return;
    }
    for (int64_t i = 0; i < hosts.n && i < 64; i++)
        mf_cluster_fact(c, "node", name, "%s", hosts.hosts[i].name);
    count_local(request, c, &hosts, size);
    if (size > 1)
        mf_cluster_set_rendezvous(
            request, c, hosts.hosts[0].name,
            mf_job_port(mf_cluster_text(c, "slurm %s.%s", job ? job : "", step)),
            mf_cluster_text(c, "first of %s, port from job and step", name));
    mf_free(hosts.hosts);
}

static void slurm_resolve(const mf_cluster_request *request, mf_cluster *c)
{
    const int size = mf_cluster_ranks(request, c, &names);

    if (size > 0)
        read_nodes(request, c, size);
}

const mf_resolver mf_resolver_slurm = {
    .name = "Slurm",
    .applies = slurm_applies,
    .resolve = slurm_resolve,
};
