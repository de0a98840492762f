/* SPDX-License-Identifier: Apache-2.0 */
/* local_cluster.c - clusters in one process. */
#include "mf_test.h"

#include <meshflow/server.h>
#include <meshflow/session.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static mf_local_cluster *cluster_of(const char *jobs)
{
    mf_local_cluster *c;

    T_OK(mf_local_cluster_new(jobs, &(mf_server_options){ .threads = 2 }, &c));
    return c;
}

/* v: on the parameter server, add: v += 1; y: v * 2, computed by a worker. */
static mf_graph *spread_graph(void)
{
    mf_graph *g;
    mf_output v, one;

    T_OK(mf_graph_new(&g));
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                  "dtype=float shape=shape[] name='v' shared_name='v' device='/job:ps/task:0'");
    one = mf_scalar(g, MF_DTYPE_F32, 1);
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, one), "name='set'");
    (void)mf_applyf(g, "AssignAddVariableOp", MF_IN(v, one), "name='add'");
    (void)mf_applyf(g, "Mul",
                    MF_IN(mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='value'"),
                          mf_scalar(g, MF_DTYPE_F32, 2)),
                    "name='y' device='/job:worker/task:1'");
    T_OK(mf_graph_status(g));
    return g;
}

static mf_session *session_at(const mf_local_cluster *c, int worker, const mf_graph *g)
{
    mf_session *s;

    T_OK(mf_session_new(
        g, &(mf_session_options){ .target = mf_local_cluster_target(c, "worker", worker) }, &s));
    return s;
}

static void do_target(mf_session *s, const char *target)
{
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL));
}

static float fetch_y(mf_session *s)
{
    static const char *const y = "y";
    mf_tensor *t = NULL;
    float value;

    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &y, 1, NULL, 0, &t));
    value = *(const float *)mf_tensor_data(t);
    mf_tensor_free(t);
    return value;
}

MF_TEST(local_cluster_runs_a_graph_on_three_tasks_of_one_process)
{
    mf_local_cluster *c = cluster_of("worker=2,ps=1");
    mf_graph *g = spread_graph();
    mf_session *s = session_at(c, 0, g);

    do_target(s, "set");
    do_target(s, "add");
    T_EQ_F(fetch_y(s), 4);
    mf_session_free(s);
    mf_graph_free(g);
    mf_local_cluster_free(c);
}

MF_TEST(local_cluster_has_a_master_in_every_task)
{
    mf_local_cluster *c = cluster_of("ps=1,worker=3");
    mf_graph *g = spread_graph();
    mf_session *s[3];

    for (int i = 0; i < 3; i++)
        s[i] = session_at(c, i, g);
    do_target(s[0], "set");
    for (int i = 0; i < 3; i++)
        do_target(s[i], "add");
    for (int i = 0; i < 3; i++)
        T_EQ_F(fetch_y(s[i]), 8);
    for (int i = 0; i < 3; i++)
        mf_session_free(s[i]);
    mf_graph_free(g);
    mf_local_cluster_free(c);
}

/* ---- without sockets ---- */

static int sockets(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;
    int n = 0;

    T_TRUE(d != NULL);
    while ((e = readdir(d)) != NULL) {
        char to[64] = "";

        if (readlinkat(dirfd(d), e->d_name, to, sizeof to - 1) > 0)
            n += strncmp(to, "socket:", 7) == 0;
    }
    (void)closedir(d);
    return n;
}

static mf_local_cluster *cluster_inside(const char *jobs)
{
    mf_local_cluster *c;

    T_OK(mf_local_cluster_new(jobs, &(mf_server_options){ .threads = 2, .inside = true }, &c));
    return c;
}

MF_TEST(local_cluster_in_process_uses_no_sockets)
{
    const int before = sockets();
    mf_local_cluster *c = cluster_inside("worker=2,ps=1");
    mf_graph *g = spread_graph();
    mf_session *s[2];

    T_TRUE(strncmp(mf_local_cluster_target(c, "worker", 0), "inside:", 7) == 0);
    for (int i = 0; i < 2; i++)
        s[i] = session_at(c, i, g);
    do_target(s[0], "set");
    for (int i = 0; i < 20; i++)
        do_target(s[i % 2], "add");
    T_EQ_F(fetch_y(s[1]), 42);
    T_EQ(sockets(), before);
    for (int i = 0; i < 2; i++)
        mf_session_free(s[i]);
    mf_graph_free(g);
    mf_local_cluster_free(c);
    T_EQ(sockets(), before);
}

/* Two clusters have different addresses; a freed cluster is not found. */
MF_TEST(local_cluster_in_process_is_not_found_after_it_is_freed)
{
    mf_local_cluster *one = cluster_inside("worker=1"), *other = cluster_inside("worker=1");
    mf_graph *g;
    mf_session *s, *none = NULL;
    char target[40];

    T_OK(mf_graph_new(&g));
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='nothing'");
    (void)snprintf(target, sizeof target, "%s", mf_local_cluster_target(one, "worker", 0));
    T_TRUE(strcmp(target, mf_local_cluster_target(other, "worker", 0)) != 0);
    s = session_at(other, 0, g);
    do_target(s, "nothing");
    mf_local_cluster_free(one);
    T_FAILS(MF_UNAVAILABLE, "no such server in this process",
            mf_session_new(g, &(mf_session_options){ .target = target, .connect_ms = 1 }, &none));
    mf_session_free(s);
    mf_local_cluster_free(other);
    mf_graph_free(g);
}

static void *stop_soon(void *ctx)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    mf_session_cancel(ctx);
    return NULL;
}

/* A run that waits for what does not come ends by its deadline, and when its session is closed. */
MF_TEST(local_cluster_in_process_ends_waiting_runs)
{
    mf_local_cluster *c = cluster_inside("worker=1,ps=1");
    static const char *const taken = "take";
    mf_tensor *t = NULL;
    mf_graph *g;
    mf_session *s;
    pthread_t thread;
    mf_output q;

    T_OK(mf_graph_new(&g));
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN,
                  "component_types=[float] device='/job:ps/task:0' name='q' shared_name='q'");
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q),
                    "component_types=[float] name='take' device='/job:ps/task:0'");
    T_OK(mf_graph_status(g));
    s = session_at(c, 0, g);
    T_FAILS(MF_DEADLINE_EXCEEDED, "",
            mf_session_run(s, &(mf_run_options){ .timeout_ms = 50 }, NULL, NULL, 0, &taken, 1, NULL,
                           0, &t));
    T_EQ(pthread_create(&thread, NULL, stop_soon, s), 0);
    T_FAILS(MF_CANCELLED, "", mf_session_run(s, NULL, NULL, NULL, 0, &taken, 1, NULL, 0, &t));
    T_EQ(pthread_join(thread, NULL), 0);
    mf_session_free(s);
    mf_graph_free(g);
    mf_local_cluster_free(c);
}

MF_TEST(local_cluster_returns_the_addresses_of_its_tasks)
{
    mf_local_cluster *c = cluster_of("worker=2,evaluator=1");
    const char *first = mf_local_cluster_target(c, "worker", 0);
    char spec[300];

    (void)snprintf(spec, sizeof spec, "{\"worker\": [\"%s\", \"%s\"], \"evaluator\": [\"%s\"]}",
                   first + 7, mf_local_cluster_target(c, "worker", 1) + 7,
                   mf_local_cluster_target(c, "evaluator", 0) + 7);
    T_STREQ(mf_local_cluster_spec(c), spec);
    T_TRUE(strncmp(first, "grpc://127.0.0.1:", 17) == 0 && atoi(first + 17) > 0);
    T_TRUE(!mf_local_cluster_target(c, "worker", 2) && !mf_local_cluster_target(c, "ps", 0));
    mf_local_cluster_free(c);
}

MF_TEST(local_cluster_is_the_part_of_a_cluster_that_is_on_this_host)
{
    mf_local_cluster *c;

    T_OK(mf_local_cluster_new(
        NULL,
        &(mf_server_options){ .cluster = "{\"core\": [\"192.0.2.7:2222\", \"127.0.0.1:0\"],"
                                         " \"worker\": {\"3\": \"localhost:0\"}}" },
        &c));
    T_TRUE(!mf_local_cluster_target(c, "core", 0));
    T_TRUE(mf_local_cluster_target(c, "core", 1) && mf_local_cluster_target(c, "worker", 3));
    T_TRUE(strstr(mf_local_cluster_spec(c), "[\"192.0.2.7:2222\", \"127.0.0.1:") != NULL);
    T_TRUE(strstr(mf_local_cluster_spec(c), "\"worker\": {\"3\": \"localhost:") != NULL);
    mf_local_cluster_free(c);
}

MF_TEST(local_cluster_rejects_invalid_specs)
{
    static const char *const wrong[] = { "",          "worker", "worker=",   "worker=0",
                                         "worker=2,", "=2",     "worker=2 ", "worker=1001" };
    mf_local_cluster *c;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        T_FAILS(MF_INVALID_ARGUMENT, i == 5 ? "is not a valid job name" : "as in worker=2,ps=1",
                mf_local_cluster_new(wrong[i], NULL, &c));
    T_FAILS(MF_INVALID_ARGUMENT, "is not JSON", mf_local_cluster_new("a=1,a=1", NULL, &c));
    T_FAILS(MF_INVALID_ARGUMENT, "none of the cluster's 2 tasks is on this host",
            mf_local_cluster_new(
                NULL,
                &(mf_server_options){
                    .cluster = "{\"worker\": [\"192.0.2.7:1\", \"no.such.host.invalid:1\"]}" },
                &c));
    T_TRUE(!c);
}

static void *stop_it(void *c)
{
    mf_local_cluster_stop(c);
    return NULL;
}

MF_TEST(local_cluster_join_returns_when_it_is_stopped)
{
    mf_local_cluster *c = cluster_of("worker=2");
    pthread_t thread;

    T_TRUE(pthread_create(&thread, NULL, stop_it, c) == 0);
    mf_local_cluster_join(c);
    (void)pthread_join(thread, NULL);
    mf_local_cluster_free(c);
}

MF_TEST(local_cluster_ignores_a_class_attribute_of_another_type)
{
    static const char *const y = "y";
    mf_local_cluster *c = cluster_of("worker=2");
    mf_graph *g;
    mf_session *s;
    mf_tensor *t = NULL;

    T_OK(mf_graph_new(&g));
    (void)mf_applyf(g, "Neg", MF_IN(mf_scalar(g, MF_DTYPE_F32, 3)), "name='y' _class=[1,2]");
    T_OK(mf_graph_status(g));
    s = session_at(c, 0, g);
    T_OK(mf_session_run(s, NULL, NULL, NULL, 0, &y, 1, NULL, 0, &t));
    T_EQ_F(*(const float *)mf_tensor_data(t), -3);
    mf_tensor_free(t);
    mf_session_free(s);
    mf_graph_free(g);
    mf_local_cluster_free(c);
}
