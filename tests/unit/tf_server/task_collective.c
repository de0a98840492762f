/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective.c - groups of servers in one process, and a server that is killed. */
#include "base/host_state.h"
#include "unit/tf_server/cluster_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50, SHORT_MS = 1000 };

/* A task's member of an addition: "x0" is fed, "y0" the sum. */
static void add_sum(mf_graph *g, int at, int size, int instance)
{
    const mf_output x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x%d'", at);
    const mf_output y = mf_applyf(g, "CollectiveReduce", MF_IN(x),
                                  "group_size=%d group_key=1 instance_key=%d merge_op='Add' "
                                  "final_op='Id' subdiv_offsets=[0] name='y%d'",
                                  size, instance, at);

    put_on(x, at);
    put_on(y, at);
    T_OK(mf_graph_status(g));
}

static mf_tensor *values_new(int at, int64_t n)
{
    static const float values[TASKS] = { 1e8f, -1e8f, 1.25f }; /* whose order shows in the sum */
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, &n, 1, &t));
    for (int64_t i = 0; i < n; i++)
        ((float *)mf_tensor_data(t))[i] = values[at] + (float)i;
    return t;
}

/* Feeds and fetches the first n tasks' nodes. */
static mf_status run(mf_session *s, int first, int n, const int64_t *counts, int64_t timeout_ms,
                     mf_tensor **results)
{
    static const char *const feeds[] = { "x0", "x1", "x2" }, *const fetches[] = { "y0", "y1",
                                                                                  "y2" };
    mf_tensor *fed[TASKS];
    mf_status st;

    for (int i = 0; i < n; i++) {
        fed[i] = values_new(first + i, counts ? counts[i] : COUNT);
        results[i] = NULL;
    }
    st = mf_session_run(s, &(mf_run_options){ .timeout_ms = timeout_ms }, &feeds[first],
                        (const mf_tensor *const *)fed, n, &fetches[first], n, NULL, 0, results);
    for (int i = 0; i < n; i++)
        mf_tensor_free(fed[i]);
    return st;
}

static void drop(mf_tensor **results, int n)
{
    for (int i = 0; i < n; i++)
        mf_tensor_free(results[i]);
}

/* Of three: a piece has 32 elements, and its sum begins with the rank that has its number. */
static float sum_of(int64_t i)
{
    const int piece = (int)(i / 32);
    float sum = 0;

    for (int k = 0; k < TASKS; k++) {
        mf_tensor *t = values_new((piece + k) % TASKS, COUNT);
        const float v = ((const float *)mf_tensor_data(t))[i];

        sum = k == 0 ? v : sum + v;
        mf_tensor_free(t);
    }
    return sum;
}

static void check_sums(mf_tensor **results)
{
    for (int at = 0; at < TASKS; at++) {
        for (int64_t i = 0; i < COUNT; i++)
            T_EQ_F(((const float *)mf_tensor_data(results[at]))[i], sum_of(i));
    }
}

/* ---- tests ---- */

MF_TEST(server_collective_sums_have_the_same_bits_in_every_step_on_all_members)
{
    mf_graph *g = graph_new();
    mf_session *s;

    serve_all(TASKS);
    for (int i = 0; i < TASKS; i++)
        add_sum(g, i, TASKS, 1);
    s = session_at(1, g, NULL); /* a master that is not the leader */
    for (int step = 0; step < 20; step++) {
        mf_tensor *results[TASKS];

        T_OK(run(s, 0, TASKS, NULL, 0, results));
        check_sums(results);
        drop(results, TASKS);
    }
    mf_session_free(s);
    mf_graph_free(g);
    stop_all();
}

/* A master of its own for each member. */
typedef struct client {
    int at;
    mf_status st;
    char error[500];
    mf_tensor *results[1];
    mf_session *session;
} client;

static void *run_client(void *ctx)
{
    client *c = ctx;

    usleep((useconds_t)(c->at * 2000)); /* they come one after the other, or all at once */
    c->st = run(c->session, c->at, 1, NULL, 20000, c->results);
    if (c->st != MF_OK)
        (void)snprintf(c->error, sizeof c->error, "%s", mf_error_message());
    return NULL;
}

static void open_client(client *c, int at, int n)
{
    static const char *const filters[TASKS] = { "/job:worker/task:0", "/job:worker/task:1",
                                                "/job:worker/task:2" };
    mf_graph *g = graph_new();

    add_sum(g, at, n, 1);
    *c = (client){ .at = at, .session = session_at(at, g, filters[at]) };
    mf_graph_free(g);
}

static void run_clients(client *c, int n)
{
    pthread_t threads[TASKS];

    for (int i = 0; i < n; i++)
        T_EQ(pthread_create(&threads[i], NULL, run_client, &c[i]), 0);
    for (int i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
}

MF_TEST(server_collective_members_of_several_masters_agree_on_step_ids)
{
    client c[TASKS];

    serve_all(TASKS);
    for (int i = 0; i < TASKS; i++)
        open_client(&c[i], i, TASKS);
    for (int step = 0; step < 10; step++) {
        mf_tensor *results[TASKS];

        run_clients(c, TASKS);
        for (int i = 0; i < TASKS; i++) {
            T_STREQ(c[i].error, "");
            results[i] = c[i].results[0];
        }
        check_sums(results);
        drop(results, TASKS);
    }
    for (int i = 0; i < TASKS; i++)
        mf_session_free(c[i].session);
    stop_all();
}

MF_TEST(server_collective_mismatch_names_the_members_and_leaves_no_state)
{
    static const int64_t equal[] = { 5, 5 }, first[] = { 3, 4 }, later[] = { 6, 5 };
    mf_graph *g = graph_new();
    mf_tensor *results[TASKS];
    mf_session *s;

    serve_all(2);
    for (int i = 0; i < 2; i++)
        add_sum(g, i, 2, 1);
    s = session_at(0, g, NULL);
    T_FAILS(MF_INVALID_ARGUMENT, "group 1, instance 1: members must agree",
            run(s, 0, 2, first, 20000, results));
    T_OK(run(s, 0, 2, equal, 20000, results));
    drop(results, 2);
    T_FAILS(MF_INVALID_ARGUMENT, "their values differ", run(s, 0, 2, later, 20000, results));
    T_OK(run(s, 0, 2, equal, 20000, results));
    drop(results, 2);
    mf_session_free(s);
    mf_graph_free(g);
    stop_all();
}

MF_TEST(server_collective_with_missing_members_ends_at_the_deadline_or_when_cancelled)
{
    mf_graph *g = graph_new();
    mf_tensor *results[TASKS];
    mf_session *s;
    pthread_t thread;
    client c;

    serve_all(2);
    for (int i = 0; i < 2; i++)
        add_sum(g, i, 2, 1);
    s = session_at(0, g, NULL);
    T_FAILS(MF_DEADLINE_EXCEEDED, "group 1: the deadline expired",
            run(s, 0, 1, NULL, SHORT_MS, results));
    T_FAILS(MF_DEADLINE_EXCEEDED,
            "with 1 of 2 members present: /job:worker/replica:0/task:1/device:CPU:0",
            run(s, 1, 1, NULL, SHORT_MS, results));
    T_OK(run(s, 0, 2, NULL, 20000, results)); /* no member waits for them any more */
    drop(results, 2);
    T_FAILS(MF_DEADLINE_EXCEEDED, "group 1, instance 1: ", run(s, 0, 1, NULL, SHORT_MS, results));
    c = (client){ .at = 1, .session = s };
    T_EQ(pthread_create(&thread, NULL, run_client, &c), 0);
    usleep(100000);
    mf_session_cancel(s);
    (void)pthread_join(thread, NULL);
    T_EQ(c.st, MF_CANCELLED);
    T_OK(run(s, 0, 2, NULL, 20000, results));
    drop(results, 2);
    mf_session_free(s);
    mf_graph_free(g);
    stop_all();
}

/* A task in a process of its own. */
static pid_t serve_apart(int at)
{
    const pid_t pid = fork();

    if (pid == 0) {
        mf_host_adopt_fork(); /* the library has no threads yet */
        mf_server_join(serve(at));
        _exit(0);
    }
    return pid;
}

MF_TEST(server_collective_names_a_member_that_is_killed)
{
    mf_graph *g = graph_new();
    mf_tensor *results[TASKS];
    client c;
    pid_t other;
    mf_session *s;
    mf_status st;

    find_addresses(2);
    other = serve_apart(1);
    servers[0] = serve(0);
    for (int i = 0; i < 2; i++)
        add_sum(g, i, 2, 1);
    s = session_at(0, g, NULL);
    T_OK(run(s, 0, 2, NULL, 20000, results));
    drop(results, 2);
    open_client(&c, 0, 2); /* whose other member never runs its part */
    c.st = run(c.session, 0, 1, NULL, SHORT_MS, c.results);
    T_EQ(c.st, MF_DEADLINE_EXCEEDED);
    T_EQ(kill(other, SIGKILL), 0);
    T_EQ(waitpid(other, NULL, 0), other);
    T_FAILS(MF_UNAVAILABLE, "/job:worker/replica:0/task:1", run(s, 0, 2, NULL, 20000, results));
    T_FAILS(MF_UNAVAILABLE,
            "group 1, instance 1: receiving from /job:worker/replica:0/task:1/device:CPU:0",
            run(c.session, 0, 1, NULL, 20000, c.results));
    servers[1] = serve(1); /* it comes back */
    mf_session_free(s);
    s = session_at(0, g, NULL);
    while ((st = run(s, 0, 2, NULL, 20000, results)) != MF_OK) { /* it is found out who it is */
        if (st != MF_ABORTED && st != MF_UNAVAILABLE)
            T_OK(st);
    }
    drop(results, 2);
    mf_session_free(c.session);
    mf_session_free(s);
    mf_graph_free(g);
    stop_all();
}
