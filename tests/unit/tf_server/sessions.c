/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - clients' sessions on several tasks of one process. */
#include "base/param.h"
#include "mf_test.h"

#include <meshflow/server.h>
#include <meshflow/session.h>

#include <pthread.h>
#include <stdio.h>

enum { RUNS = 60 };

/* y0, y1, ...: twice a variable of task 0, computed by task 1, and as much more as the number says.
 */
static mf_graph *many_runs(void)
{
    mf_graph *g;
    mf_output v, two;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                  "dtype=float shape=shape[] name='v' shared_name='v' device='/job:worker/task:0'");
    two = mf_scalar(g, MF_DTYPE_F32, 2);
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, two), "name='set'");
    v = mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float");
    v = mf_applyf(g, "Mul", MF_IN(v, two), "device='/job:worker/task:1'");
    for (int i = 0; i < RUNS; i++)
        (void)mf_applyf(g, "Add", MF_IN(v, mf_scalar(g, MF_DTYPE_F32, i)),
                        "name='y%d' device='/job:worker/task:1'", i);
    T_OK(mf_graph_status(g));
    return g;
}

typedef struct client {
    mf_local_cluster *cluster;
    mf_session *session;
} client;

static void client_begin(client *c, mf_graph *g)
{
    const char *set = "set";

    T_OK(mf_local_cluster_new("worker=2", &(mf_server_options){ .threads = 2 }, &c->cluster));
    T_OK(mf_session_new(
        g, &(mf_session_options){ .target = mf_local_cluster_target(c->cluster, "worker", 0) },
        &c->session));
    T_OK(mf_session_run(c->session, NULL, NULL, NULL, 0, NULL, 0, &set, 1, NULL));
}

static void client_end(client *c, mf_graph *g)
{
    mf_session_free(c->session);
    mf_local_cluster_free(c->cluster);
    mf_graph_free(g);
}

static void run_each(mf_session *s, int first, int step)
{
    mf_tensor *t = NULL;

    for (int i = first; i < RUNS; i += step) {
        char name[16];
        const char *fetch = name;

        (void)snprintf(name, sizeof name, "y%d", i);
        T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &t));
        T_EQ_F(*(const float *)mf_tensor_data(t), 4 + i);
    }
    mf_tensor_free(t);
}

MF_TEST(server_session_evicts_the_least_recently_used_plans)
{
    mf_graph *g = many_runs();
    client c;

    T_OK(mf_param_set("server_exec_plans=3"));
    T_OK(mf_param_set("server_graphs=20")); /* of a session, on another task */
    client_begin(&c, g);
    run_each(c.session, 0, 1);
    run_each(c.session, 0, 1); /* laid out again */
    client_end(&c, g);
}

static void *run_all(void *session)
{
    run_each(session, 0, 1);
    return NULL;
}

MF_TEST(server_session_makes_many_plans_concurrently)
{
    mf_graph *g = many_runs();
    pthread_t threads[4];
    client c;

    T_OK(mf_param_set("server_exec_plans=10"));
    client_begin(&c, g);
    for (int i = 0; i < 4; i++)
        T_TRUE(pthread_create(&threads[i], NULL, run_all, c.session) == 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    client_end(&c, g);
}

MF_TEST(server_session_distinguishes_runs_with_any_names)
{
    const char *both[] = { "y0:0", "y1:0" }, *one = "y0:0\ny1:0";
    mf_graph *g = many_runs();
    mf_tensor *t[2] = { NULL, NULL };
    client c;

    client_begin(&c, g);
    T_OK(mf_session_run(c.session, NULL, NULL, NULL, 0, both, 2, NULL, 0, t));
    T_EQ_F(*(const float *)mf_tensor_data(t[1]), 5);
    T_FAILS(MF_NOT_FOUND, "", mf_session_run(c.session, NULL, NULL, NULL, 0, &one, 1, NULL, 0, t));
    mf_tensor_free(t[0]);
    mf_tensor_free(t[1]);
    client_end(&c, g);
}

/* A variable of task 0 is read on task 1 after an assignment of what task 2 has made. The value is
 * late: its task waits for a queue first. */
static mf_graph *late_read(void)
{
    mf_output v, value, assign, read, queue, get;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VariableV2", MF_NO_IN,
                  "dtype=float shape=shape[] name='v' device='/job:worker/task:0'");
    (void)mf_applyf(g, "Assign", MF_IN(v, mf_scalar(g, MF_DTYPE_F32, 1)), "name='set'");
    queue = mf_applyf(g, "FIFOQueueV2", MF_NO_IN,
                      "component_types=[float] shared_name='q' device='/job:worker/task:2'");
    get = mf_applyf(g, "QueueDequeueV2", MF_IN(queue), "component_types=[float]");
    (void)mf_applyf(g, "QueueEnqueueV2", MF_IN(queue, mf_scalar(g, MF_DTYPE_F32, 3)),
                    "name='put' Tcomponents=[float]");
    value = mf_applyf(g, "Neg", MF_IN(get), "device='/job:worker/task:2'");
    assign = mf_apply(g, "Assign", MF_IN(v, value));
    read = mf_applyf(g, "Identity", MF_IN(v), "name='read' device='/job:worker/task:1'");
    mf_control(g, read.node, assign.node);
    T_OK(mf_graph_status(g));
    return g;
}

static void *put_one(void *session)
{
    const char *put = "put";

    T_OK(mf_session_run(session, NULL, NULL, NULL, 0, NULL, 0, &put, 1, NULL));
    return NULL;
}

MF_TEST(server_reads_a_remote_reference_after_the_inputs_of_the_reader)
{
    const char *set = "set", *read = "read:0";
    mf_graph *g = late_read();
    mf_tensor *t = NULL;
    pthread_t putter;
    client c;

    T_OK(mf_local_cluster_new("worker=3", &(mf_server_options){ .threads = 2 }, &c.cluster));
    T_OK(mf_session_new(
        g, &(mf_session_options){ .target = mf_local_cluster_target(c.cluster, "worker", 1) },
        &c.session));
    for (int i = 0; i < 5; i++) {
        T_OK(mf_session_run(c.session, NULL, NULL, NULL, 0, NULL, 0, &set, 1, NULL));
        T_TRUE(pthread_create(&putter, NULL, put_one, c.session) == 0);
        T_OK(mf_session_run(c.session, NULL, NULL, NULL, 0, &read, 1, NULL, 0, &t));
        T_EQ_F(*(const float *)mf_tensor_data(t), -3);
        (void)pthread_join(putter, NULL);
    }
    mf_tensor_free(t);
    client_end(&c, g);
}
