/* SPDX-License-Identifier: Apache-2.0 */
/* spec_mistakes.c - errors name their place and their fix, and all are reported at once. */
#include "base/mem.h"
#include "cluster/resolve/resolve.h"
#include "mf_test.h"
#include "unit/cluster/resolve/given.h"

#include <stdio.h>

#define WORKER_0 ",\"task\":{\"type\":\"worker\",\"index\":0}}"

typedef struct wrong {
    mf_cluster_request request;
    const char *place, *problem, *fix; /* of the first mistake; parts of it */
} wrong;

static const wrong wrongs[] = {
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:2\",\"a:1\"]}" WORKER_0) },
      "TF_CONFIG cluster.worker[2]",
      "a:1 is also the address in TF_CONFIG cluster.worker[0]",
      "an address of its own" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"a:1\"]}" WORKER_0) },
      "TF_CONFIG cluster.ps[0]",
      "a:1 is also the address",
      "of its own" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\","
              "\"index\":1}}") },
      "TF_CONFIG task",
      "index 1 is out of range: the cluster has 1 of 'worker'",
      "use 0 to 0" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"ps\"}}") },
      "TF_CONFIG task",
      "the cluster has no job 'ps'",
      "add \"ps\"" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":{\"1\":\"a:1\"}}" WORKER_0) },
      "TF_CONFIG task",
      "no task 0 of 'worker'",
      "list this task" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",7]}" WORKER_0) },
      "TF_CONFIG cluster.worker[1]",
      "expected an address, not a number",
      "host:port" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":\"a:1\"}" WORKER_0) },
      "TF_CONFIG cluster.worker",
      "expected a list or a map of addresses, not a string",
      "write [" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":{\"x\":\"a:1\"}}" WORKER_0) },
      "TF_CONFIG cluster.worker.x",
      "'x' is no index of a task",
      "numbers from 0 on" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":{\"1\":\"a:1\",\"01\":\"b:1\"}}" WORKER_0) },
      "TF_CONFIG cluster.worker.",
      "task 1 of 'worker' is given twice",
      "index of its own" },
    { { GIVEN("TF_CONFIG={\"cluster\":[]" WORKER_0) },
      "TF_CONFIG cluster",
      "expected a map from jobs to tasks, not a list",
      "write {" },
    { { GIVEN("TF_CONFIG=[]") }, "TF_CONFIG", "expected a map, not a list", "write {" },
    { { GIVEN("TF_CONFIG={\"cluster\"") }, "TF_CONFIG line 1 column", "near end of file", "JSON" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"\xff:1\"]}}") },
      "TF_CONFIG line 1 column",
      "unable to decode byte 0xff",
      "JSON" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"],\"worker\":[\"b:1\"]}}") },
      "TF_CONFIG line 1 column",
      "duplicate",
      "JSON" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"wroker\":[\"a:1\"]}" WORKER_0) },
      "TF_CONFIG cluster.wroker",
      "no job 'wroker'",
      "did you mean 'worker'?" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"chef\"}}") },
      "TF_CONFIG task.type",
      "no job 'chef'",
      "did you mean 'chief'?" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"index\":0}}") },
      "TF_CONFIG task.type",
      "the job is missing",
      "\"type\": \"worker\"" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\"}"
              "}") },
      "TF_CONFIG task.index",
      "the index is missing",
      "\"index\": 0" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\","
              "\"index\":-1}}") },
      "TF_CONFIG task.index",
      "-1 is negative",
      "from 0 on" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\","
              "\"index\":[]}}") },
      "TF_CONFIG task.index",
      "not a list",
      "a number" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]}}") },
      "TF_CONFIG",
      "does not select which of its 2 tasks",
      "--task_index" },
    { { GIVEN("TF_CONFIG={\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"chief\","
              "\"index\":0}}") },
      "TF_CONFIG cluster.chief[1]",
      "more than one chief",
      "workers" },
    { { GIVEN("A=b"), .worker_hosts = "a" }, "--worker_hosts[0]", "port is missing", "host:port" },
    { { GIVEN("A=b"), .worker_hosts = "a:" }, "--worker_hosts[0]", "port is missing", "host:port" },
    { { GIVEN("A=b"), .worker_hosts = "a:22x" },
      "--worker_hosts[0]",
      "port '22x' is not a number",
      "host:port" },
    { { GIVEN("A=b"), .worker_hosts = "a:65536" },
      "--worker_hosts[0]",
      "65536 is out of range",
      "1 to 65535" },
    { { GIVEN("A=b"), .worker_hosts = "a:0" }, "--worker_hosts[0]", "0 is out of range", "1 to" },
    { { GIVEN("A=b"), .worker_hosts = "a:1,,b:1" }, "--worker_hosts[1]", "address is empty", "" },
    { { GIVEN("A=b"), .worker_hosts = "fd00::1" }, "--worker_hosts[0]", "more than one ':'", "[" },
    { { GIVEN("A=b"), .worker_hosts = "grpc://a:1" },
      "--worker_hosts[0]",
      "'grpc://'",
      "only the address" },
    { { GIVEN("A=b"), .worker_hosts = "a b:1" }, "--worker_hosts[0]", "host's name", "letters" },
    { { GIVEN("A=b"), .worker_hosts = "a:1", .task_index = "x" },
      "--task_index",
      "'x' is not a whole number",
      "from 0 on" },
    { { GIVEN("A=b"), .worker_hosts = "a:1", .job_name = "wokrer" },
      "--job_name",
      "no job 'wokrer'",
      "'worker'" },
    { { GIVEN("A=b"), .cluster = "/nowhere/c.json" },
      "--cluster",
      "cannot open '/nowhere/c.json'",
      "name a file" },
    { { GIVEN("A=b"), .cluster = "{}", .ps_hosts = "a:1" },
      "--cluster",
      "both list tasks",
      "alone" },
    { { GIVEN_ON("fit-0", "MESHFLOW_SERVICE=fit") },
      "MESHFLOW_PODS",
      "the number of pods is unknown",
      "completions or replicas" },
    { { GIVEN("MESHFLOW_SERVICE=fit", "MESHFLOW_PODS=2") },
      "the host's name",
      "'here' does not end in '-'",
      "unset MESHFLOW_SERVICE" },
    { { GIVEN_ON("fit-3", "MESHFLOW_SERVICE=fit", "MESHFLOW_PODS=2") },
      "MESHFLOW_PODS",
      "this is pod 3, but there are 2",
      "" },
    { { GIVEN_ON("fit-1", "MESHFLOW_SERVICE=fit", "MESHFLOW_PODS=2", "JOB_COMPLETION_INDEX=0") },
      "JOB_COMPLETION_INDEX",
      "it is 0, but the host is called 'fit-1'",
      "remove hostname" },
    { { GIVEN_ON("fit-1", "MESHFLOW_SERVICE=a b", "MESHFLOW_PODS=2") },
      "MESHFLOW_SERVICE",
      "is no service's name",
      "" },
    { { GIVEN_ON("fit-1", "MESHFLOW_SERVICE=fit", "MESHFLOW_PODS=2"), .ps = 2 },
      "--ps",
      "2 of 2 pods cannot be servers",
      "at least one worker" },
    { { GIVEN("RANK=0") }, "RANK", "RANK is set, but WORLD_SIZE is not", "set WORLD_SIZE" },
    { { GIVEN("WORLD_SIZE=2") }, "WORLD_SIZE", "but RANK is not", "set RANK" },
    { { GIVEN("RANK=2", "WORLD_SIZE=2") },
      "RANK",
      "RANK=2 is out of range: WORLD_SIZE=2",
      "use 0 to 1" },
    { { GIVEN("RANK=-1", "WORLD_SIZE=2") }, "RANK", "'-1' is not a whole number", "from 0" },
    { { GIVEN("RANK=0", "WORLD_SIZE=0") }, "WORLD_SIZE", "'0' is not a whole number from 1", "" },
    { { GIVEN("RANK=0", "WORLD_SIZE=99999999999999999999") }, "WORLD_SIZE", "is not a whole", "" },
    { { GIVEN("RANK=0", "WORLD_SIZE=2") }, "MASTER_ADDR", "not set", "host of process 0" },
    { { GIVEN("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a") }, "MASTER_PORT", "not set", "free port" },
    { { GIVEN("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=x") },
      "MASTER_PORT",
      "'x' is not a whole number",
      "" },
    { { GIVEN("RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=a",
              "MASTER_PORT=1") },
      "LOCAL_RANK",
      "local rank 2 is out of range",
      "use 0 to 1" },
    { { GIVEN("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"), .ps = 2 },
      "--ps",
      "leaves no worker of WORLD_SIZE=2",
      "more processes" },
    { { GIVEN("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=0",
              "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=x") },
      "PMIX_NAMESPACE",
      "several hosts",
      "MESHFLOW_RENDEZVOUS=HOST:PORT" },
    { { GIVEN("PMI_RANK=0", "PMI_SIZE=1", "MESHFLOW_RENDEZVOUS=here") },
      "MESHFLOW_RENDEZVOUS",
      "port is missing",
      "host:port" },
    { { GIVEN("SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=2", "SLURM_STEP_NODELIST=n[1-") },
      "SLURM_STEP_NODELIST",
      "brackets do not match",
      "n[1-3,7]" },
    { { GIVEN("MESHFLOW_HOSTFILE=/nowhere/hosts") }, "MESHFLOW_HOSTFILE", "cannot open", "a file" },
};

MF_TEST(cluster_mistakes_name_their_place_and_their_fix)
{
    for (int i = 0; i < MF_COUNT(wrongs); i++) {
        const wrong *w = &wrongs[i];
        mf_cluster *c;

        (void)fprintf(stderr, "# %d: %s: %s\n", i, w->place, w->problem);
        T_OK(mf_cluster_examine(&w->request, &c));
        T_TRUE(c->n_mistakes > 0);
        (void)fprintf(stderr, "#   %s: %s; %s\n", c->mistakes[0].place, c->mistakes[0].problem,
                      c->mistakes[0].fix);
        T_TRUE(strstr(c->mistakes[0].place, w->place));
        T_TRUE(strstr(c->mistakes[0].problem, w->problem));
        T_TRUE(strstr(c->mistakes[0].fix, w->fix));
        mf_cluster_free(c);
    }
}

MF_TEST(cluster_resolve_fails_with_the_first_mistake_and_counts_the_others)
{
    const mf_cluster_request request = { GIVEN("A=b"), .worker_hosts = "a:1,a:x,b",
                                         .task_index = "1" };
    mf_cluster *c;

    T_FAILS(MF_INVALID_ARGUMENT, "--worker_hosts[1]: port 'x' is not a number; write host:port",
            mf_cluster_resolve(&request, &c));
    T_FAILS(MF_INVALID_ARGUMENT, "(and 1 more: see `meshflow doctor env`)",
            mf_cluster_resolve(&request, &c));
    T_TRUE(c == NULL);
}

MF_TEST(cluster_conventions_are_noted_only_if_they_disagree)
{
    const mf_cluster_request differ = { GIVEN("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a",
                                              "MASTER_PORT=1", "PMI_RANK=0", "PMI_SIZE=2",
                                              "MPI_LOCALNRANKS=2", "MPI_LOCALRANKID=0") };
    const mf_cluster_request agree = { GIVEN("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a",
                                             "MASTER_PORT=1", "PMI_RANK=1", "PMI_SIZE=2",
                                             "MPI_LOCALNRANKS=2", "MPI_LOCALRANKID=1") };
    mf_cluster *c;

    T_OK(mf_cluster_resolve(&differ, &c));
    T_EQ(c->n_notes, 1);
    T_STREQ(c->notes[0], "torchrun specifies /job:worker/task:1 of 2, MPICH specifies "
                         "/job:worker/task:0 of 2: torchrun has priority");
    T_EQ(c->rank, 1);
    mf_cluster_free(c);
    T_OK(mf_cluster_resolve(&agree, &c));
    T_EQ(c->n_notes, 0);
    mf_cluster_free(c);
}

MF_TEST(cluster_a_client_needs_no_task)
{
    const mf_cluster_request request = { GIVEN("A=b"), .worker_hosts = "a:1,b:1", .client = true };
    mf_cluster *c;

    T_OK(mf_cluster_resolve(&request, &c));
    T_TRUE(mf_cluster_self(c) == NULL);
    T_EQ(c->rank, -1);
    T_EQ(c->size, 2);
    T_STREQ(mf_cluster_rank(c, 1)->address, "b:1");
    T_TRUE(mf_cluster_rank(c, 2) == NULL);
    T_TRUE(mf_cluster_find(c, MF_ROLE_PS, 0) == NULL);
    mf_cluster_free(c);
}

MF_TEST(cluster_resolve_survives_every_allocation_that_fails)
{
    const mf_cluster_request request = {
        GIVEN("TF_CONFIG={\"cluster\":{\"worker\":[\"a:1\",\"b:x\"]}" WORKER_0, "RANK=0",
              "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1"),
    };

    for (int64_t n = 1; n < 1000; n++) {
        mf_cluster *c = NULL;
        mf_status st;

        mf_mem_fail_at(n);
        st = mf_cluster_examine(&request, &c);
        mf_mem_fail_at(0);
        mf_cluster_free(c);
        if (st == MF_OK)
            return;
        T_EQ(st, MF_RESOURCE_EXHAUSTED);
    }
    T_FAIL("it still fails");
}
