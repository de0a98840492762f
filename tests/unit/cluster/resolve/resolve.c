/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c - the role in the environment of each launcher: a table of environments and results. */
#include "cluster/resolve/resolve.h"

#include "mf_test.h"
#include "unit/cluster/resolve/given.h"

#include <stdio.h>

#define TF_CONFIG_3 "{\"worker\":[\"a:1\",\"b:2\",\"b:3\"],\"ps\":[\"c:4\"]}"

typedef struct answer {
    const char *label;
    mf_cluster_request request;
    const char *convention, *self; /* "/job:worker/task:1" */
    int tasks, rank, size, local_rank, local_size;
    const char *rendezvous;
    bool chief;
} answer;

static const answer answers[] = {
    { .label = "nothing",
      .request = { GIVEN("HOME=/") },
      .convention = "none",
      .self = "/job:worker/task:0",
      .tasks = 1,
      .size = 1,
      .local_size = 1,
      .chief = true },
    { .label = "an empty TF_CONFIG",
      .request = { GIVEN("TF_CONFIG={}") },
      .convention = "none",
      .self = "/job:worker/task:0",
      .tasks = 1,
      .size = 1,
      .local_size = 1,
      .chief = true },
    { .label = "TF_CONFIG",
      .request = { GIVEN("TF_CONFIG={\"cluster\":" TF_CONFIG_3
                         ",\"task\":{\"type\":\"worker\",\"index\":2}}") },
      .convention = "TF_CONFIG",
      .self = "/job:worker/task:2",
      .tasks = 4,
      .rank = 2,
      .size = 3,
      .local_rank = 1,
      .local_size = 2,
      .rendezvous = "a:1" },
    { .label = "TF_CONFIG of a server, its index a string",
      .request = { GIVEN("TF_CONFIG={\"cluster\":" TF_CONFIG_3
                         ",\"task\":{\"type\":\"ps\",\"index\":\"0\"}}") },
      .convention = "TF_CONFIG",
      .self = "/job:ps/task:0",
      .tasks = 4,
      .rank = -1,
      .size = 3,
      .local_size = 1,
      .rendezvous = "a:1" },
    { .label = "TF_CONFIG with a chief",
      .request = { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"b:1\"],\"chief\":[\"a:1\"]},"
                         "\"task\":{\"type\":\"worker\",\"index\":0}}") },
      .convention = "TF_CONFIG",
      .self = "/job:worker/task:0",
      .tasks = 2,
      .rank = 1,
      .size = 2,
      .local_size = 1,
      .rendezvous = "a:1" },
    { .label = "an evaluator outside of the cluster",
      .request = { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"b:1\"]},"
                         "\"task\":{\"type\":\"evaluator\",\"index\":0}}") },
      .convention = "TF_CONFIG",
      .self = "/job:evaluator/task:0",
      .tasks = 2,
      .rank = -1,
      .size = 1,
      .local_rank = -1,
      .local_size = -1,
      .rendezvous = "b:1" },
    { .label = "a sparse cluster",
      .request = { GIVEN(
          "TF_CONFIG={\"sparseCluster\":{\"worker\":{\"3\":\"b:1\"},\"ps\":[\"c:1\"]},"
          "\"task\":{\"type\":\"worker\",\"index\":3}}") },
      .convention = "TF_CONFIG",
      .self = "/job:worker/task:3",
      .tasks = 2,
      .size = 1,
      .local_size = 1 },
    { .label = "flags of TensorFlow 1, over TF_CONFIG",
      .request = { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"x:1\"]}}"), .ps_hosts = "a:1",
                   .worker_hosts = "b:1, b:2", .job_name = "worker", .task_index = "1" },
      .convention = "flags",
      .self = "/job:worker/task:1",
      .tasks = 3,
      .rank = 1,
      .size = 2,
      .local_rank = 1,
      .local_size = 2,
      .rendezvous = "b:1" },
    { .label = "--cluster",
      .request = { GIVEN("RANK=1"), .cluster = " " TF_CONFIG_3, .job_name = "ps" },
      .convention = "flags",
      .self = "/job:ps/task:0",
      .tasks = 4,
      .rank = -1,
      .size = 3,
      .local_size = 1,
      .rendezvous = "a:1" },
    { .label = "torchrun",
      .request = { GIVEN("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                         "MASTER_ADDR=h0", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=x") },
      .convention = "torchrun",
      .self = "/job:worker/task:1",
      .tasks = 4,
      .rank = 1,
      .size = 4,
      .local_rank = 1,
      .local_size = 2,
      .rendezvous = "h0:29501" },
    { .label = "torchrun's variables without torchrun",
      .request = { GIVEN("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=fd00::1", "MASTER_PORT=23456") },
      .convention = "torchrun",
      .self = "/job:worker/task:0",
      .tasks = 2,
      .size = 2,
      .local_rank = -1,
      .local_size = -1,
      .rendezvous = "[fd00::1]:23456",
      .chief = true },
    { .label = "the last ranks are servers",
      .request = { GIVEN("RANK=3", "WORLD_SIZE=4", "MASTER_ADDR=h0", "MASTER_PORT=29500",
                         "MESHFLOW_RENDEZVOUS=h7:99"),
                   .ps = 2 },
      .convention = "torchrun",
      .self = "/job:ps/task:1",
      .tasks = 4,
      .rank = -1,
      .size = 2,
      .local_rank = -1,
      .local_size = -1,
      .rendezvous = "h7:99" },
    { .label = "MPI wins over the Slurm it runs in",
      .request = { GIVEN("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3",
                         "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                         "PMIX_NAMESPACE=1234", "SLURM_JOB_NODELIST=n[7-9]", "SLURM_PROCID=0",
                         "SLURM_STEP_ID=0", "SLURM_NTASKS=3") },
      .convention = "Open MPI",
      .self = "/job:worker/task:2",
      .tasks = 3,
      .rank = 2,
      .size = 3,
      .local_size = 1,
      .rendezvous = "n7:*" },
    { .label = "MPICH on one host",
      .request = { GIVEN("PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2") },
      .convention = "MPICH",
      .self = "/job:worker/task:0",
      .tasks = 2,
      .size = 2,
      .local_size = 2,
      .rendezvous = "127.0.0.1:*",
      .chief = true },
    { .label = "Slurm",
      .request = { GIVEN("SLURM_PROCID=4", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=8",
                         "SLURM_NTASKS=9", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
                         "SLURM_STEP_NODELIST=n[08-10]", "SLURM_STEP_TASKS_PER_NODE=3(x2),2") },
      .convention = "Slurm",
      .self = "/job:worker/task:4",
      .tasks = 8,
      .rank = 4,
      .size = 8,
      .local_rank = 1,
      .local_size = 3,
      .rendezvous = "n08:*" },
    { .label = "srun that speaks PMI",
      .request = { GIVEN("SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0",
                         "SLURM_JOB_ID=77", "SLURM_STEP_NODELIST=n[3-4]", "PMI_RANK=1",
                         "PMI_SIZE=2", "PMI_JOBID=77.0") },
      .convention = "Slurm",
      .self = "/job:worker/task:1",
      .tasks = 2,
      .rank = 1,
      .size = 2,
      .local_size = -1,
      .rendezvous = "n3:*" },
    { .label = "an Indexed Job of Kubernetes",
      .request = { GIVEN_ON("fit-large-2", "JOB_COMPLETION_INDEX=2", "MESHFLOW_SERVICE=fit",
                            "MESHFLOW_PODS=4", "MESHFLOW_PORT=7000") },
      .convention = "Kubernetes",
      .self = "/job:worker/task:2",
      .tasks = 4,
      .rank = 2,
      .size = 4,
      .local_size = 1,
      .rendezvous = "fit-large-0.fit:7000" },
    { .label = "a StatefulSet of Kubernetes, the last pod a server",
      .request = { GIVEN_ON("fit-2.fit.default.svc.cluster.local", "MESHFLOW_SERVICE=fit",
                            "MESHFLOW_PODS=3"),
                   .ps = 1 },
      .convention = "Kubernetes",
      .self = "/job:ps/task:0",
      .tasks = 3,
      .rank = -1,
      .size = 2,
      .local_size = 1,
      .rendezvous = "fit-0.fit:2222" },
    { .label = "a Job of Kubernetes whose pods do not know each other",
      .request = { GIVEN_ON("fit-2", "JOB_COMPLETION_INDEX=2") },
      .convention = "none",
      .self = "/job:worker/task:0",
      .tasks = 1,
      .size = 1,
      .local_size = 1,
      .chief = true },
    { .label = "a batch script of Slurm is no step",
      .request = { GIVEN("SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=77",
                         "SLURM_JOB_NODELIST=n[1-2]") },
      .convention = "none",
      .self = "/job:worker/task:0",
      .tasks = 1,
      .size = 1,
      .local_size = 1,
      .chief = true },
};

/* "n7:*": the port is that of a job, from 20000 to 29999. */
static bool same_address(const char *expected, const char *got)
{
    const char *star = expected ? strchr(expected, '*') : NULL;
    int port = 0;

    if (!expected || !got)
        return expected == got;
    if (!star)
        return strcmp(expected, got) == 0;
    return strncmp(expected, got, (size_t)(star - expected)) == 0 &&
           sscanf(got + (star - expected), "%d", &port) == 1 && port >= 20000 && port < 30000;
}

static void compare_answer(const answer *a, const mf_cluster *c)
{
    char self[MF_TASK_NAME_MAX];

    T_STREQ(c->convention, a->convention);
    T_STREQ(mf_cluster_task_name(mf_cluster_self(c), self), a->self);
    T_EQ(c->n_tasks, a->tasks);
    T_EQ(c->rank, a->rank);
    T_EQ(c->size, a->size);
    T_EQ(c->local_rank, a->local_rank);
    T_EQ(c->local_size, a->local_size);
    if (!same_address(a->rendezvous, c->rendezvous))
        T_STREQ(c->rendezvous, a->rendezvous);
    if (a->chief)
        T_TRUE(mf_cluster_is_chief(c, mf_cluster_self(c)));
}

MF_TEST(cluster_every_convention_gives_role_and_index)
{
    for (int i = 0; i < MF_COUNT(answers); i++) {
        mf_cluster *c;

        (void)fprintf(stderr, "# %s\n", answers[i].label);
        T_OK(mf_cluster_resolve(&answers[i].request, &c));
        compare_answer(&answers[i], c);
        mf_cluster_free(c);
    }
}
