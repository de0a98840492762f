/* SPDX-License-Identifier: Apache-2.0 */
/* session_open.c - sessions whose graphs are on a server (of ours: tests/tf has TensorFlow's). */
#include "base/clock.h"
#include "mf_test.h"

#include <meshflow/server.h>
#include <meshflow/session.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static mf_server *serve(void)
{
    mf_server *s;

    T_OK(mf_server_new(
        &(mf_server_options){ .cluster = "{\"worker\": [\"127.0.0.1:0\"]}", .threads = 2 }, &s));
    return s;
}

static mf_session *session_at(const char *target, const mf_graph *g)
{
    mf_session *s;

    T_OK(mf_session_new(g, &(mf_session_options){ .target = target }, &s));
    return s;
}

/* x: fed; v: a variable, add: v += x, y = x * 2; q: a queue that nothing is put in, got: what is
 * taken from it. */
static mf_graph *small_graph(void)
{
    mf_graph *g;
    mf_output x, v, q;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'");
    v = mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] name='v' shared_name='v'");
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(v, x), "name='set'");
    (void)mf_applyf(g, "AssignAddVariableOp", MF_IN(v, x), "name='add'");
    (void)mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float name='value'");
    (void)mf_applyf(g, "Mul", MF_IN(x, mf_scalar(g, MF_DTYPE_F32, 2)), "name='y'");
    q = mf_applyf(g, "FIFOQueueV2", MF_NO_IN, "component_types=[float] name='q'");
    (void)mf_applyf(g, "QueueDequeueV2", MF_IN(q), "component_types=[float] name='got'");
    T_OK(mf_graph_status(g));
    return g;
}

static mf_status run(mf_session *s, const float *x, const char *fetch, const char *target,
                     int64_t timeout_ms, float *out)
{
    static const char *const feed = "x";
    mf_tensor *fed, *result = NULL;
    mf_status st;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &fed));
    *(float *)mf_tensor_data(fed) = x ? *x : 0;
    st = mf_session_run(s, &(mf_run_options){ .timeout_ms = timeout_ms }, &feed,
                        (const mf_tensor *const *)&fed, x ? 1 : 0, &fetch, fetch ? 1 : 0, &target,
                        target ? 1 : 0, &result);
    if (st == MF_OK && result)
        *out = *(const float *)mf_tensor_data(result);
    mf_tensor_free(fed);
    mf_tensor_free(result);
    return st;
}

MF_TEST(remote_session_feeds_fetches_and_keeps_variables_on_the_server)
{
    mf_server *server = serve();
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g), *other;
    const float three = 3;
    float y = 0;

    T_OK(run(s, &three, "y:0", NULL, 0, &y));
    T_EQ_F(y, 6);
    T_OK(run(s, &three, NULL, "set", 0, &y));
    T_OK(run(s, &three, NULL, "add", 0, &y));
    mf_session_free(s);
    other = session_at(mf_server_target(server), g);
    T_OK(run(other, NULL, "value", NULL, 0, &y));
    T_EQ_F(y, 6);
    mf_session_free(other);
    T_OK(mf_session_reset(&(mf_session_options){ .target = mf_server_target(server) }, NULL, 0));
    other = session_at(mf_server_target(server), g);
    T_FAILS(MF_FAILED_PRECONDITION, "{{node value}}", run(other, NULL, "value", NULL, 0, &y));
    mf_session_free(other);
    mf_graph_free(g);
    mf_server_free(server);
}

MF_TEST(remote_session_returns_the_server_error)
{
    mf_server *server = serve();
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g);
    float y;

    T_FAILS(MF_INVALID_ARGUMENT, "{{node x}}", run(s, NULL, "y:0", NULL, 0, &y));
    T_FAILS(MF_NOT_FOUND, "nope", run(s, NULL, "nope:0", NULL, 0, &y));
    T_FAILS(MF_INVALID_ARGUMENT, "at least one target", run(s, NULL, NULL, NULL, 0, &y));
    mf_session_free(s);
    mf_graph_free(g);
    mf_server_free(server);
}

MF_TEST(remote_session_sends_only_new_nodes)
{
    mf_server *server = serve();
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g);
    const float three = 3;
    float y = 0;

    (void)mf_applyf(g, "Neg", MF_IN((mf_output){ mf_graph_find(g, "y"), 0 }), "name='z'");
    T_FAILS(MF_NOT_FOUND, "z", run(s, &three, "z", NULL, 0, &y));
    T_OK(mf_session_extend(s, g));
    T_OK(mf_session_extend(s, g));
    T_OK(run(s, &three, "z", NULL, 0, &y));
    T_EQ_F(y, -6);
    mf_session_free(s);
    mf_graph_free(g);
    mf_server_free(server);
}

MF_TEST(remote_session_rejects_changes_of_sent_nodes)
{
    mf_server *server = serve();
    mf_graph *g = small_graph(), *other;
    mf_session *s = session_at(mf_server_target(server), g);
    const float three = 3;
    float y = 0;

    T_OK(mf_graph_new(&other));
    (void)mf_applyf(other, "Placeholder", MF_NO_IN, "dtype=int32 name='x'");
    T_FAILS(MF_INVALID_ARGUMENT, "'x' has changed since it was sent", mf_session_extend(s, other));
    T_OK(run(s, &three, "y:0", NULL, 0, &y));
    mf_session_free(s);
    mf_graph_free(other);
    mf_graph_free(g);
    mf_server_free(server);
}

static void note_device(void *ctx, const char *name, const char *type)
{
    T_STREQ(type, "CPU");
    (void)strncpy(ctx, name, 99);
}

MF_TEST(remote_session_lists_the_devices_of_the_server)
{
    mf_server *server = serve();
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g);
    char name[100] = "";

    T_OK(mf_session_devices(s, note_device, name));
    T_STREQ(name, "/job:worker/replica:0/task:0/device:CPU:0");
    mf_session_free(s);
    T_OK(mf_session_new(g, NULL, &s));
    T_OK(mf_session_devices(s, note_device, name));
    T_STREQ(name, "/job:localhost/replica:0/task:0/device:CPU:0");
    mf_session_free(s);
    mf_graph_free(g);
    mf_server_free(server);
}

/* ---- ends ---- */

typedef struct waiting {
    mf_session *session;
    pthread_t thread;
    mf_status status;
} waiting;

static void *wait_for_queue(void *arg)
{
    waiting *w = arg;
    float y;

    w->status = run(w->session, NULL, "got", NULL, 0, &y);
    return NULL;
}

static void start_waiting(waiting *w, mf_session *s)
{
    w->session = s;
    T_EQ(pthread_create(&w->thread, NULL, wait_for_queue, w), 0);
    (void)usleep(200000); /* so that it waits; if not yet, the test is easier */
}

static mf_status ended_with(waiting *w)
{
    T_EQ(pthread_join(w->thread, NULL), 0);
    return w->status;
}

MF_TEST(remote_session_runs_end_at_the_deadline_and_when_cancelled)
{
    mf_server *server = serve();
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g);
    const float three = 3;
    waiting w;
    float y = 0;

    T_FAILS(MF_DEADLINE_EXCEEDED, "", run(s, NULL, "got", NULL, 100, &y));
    start_waiting(&w, s);
    T_OK(run(s, &three, "y", NULL, 0, &y)); /* beside it */
    mf_session_cancel(s);
    T_EQ(ended_with(&w), MF_CANCELLED);
    T_OK(run(s, &three, "y", NULL, 0, &y)); /* and later */
    mf_session_free(s);
    mf_graph_free(g);
    mf_server_free(server);
}

MF_TEST(remote_session_detects_a_lost_or_restarted_server)
{
    mf_server *server = serve(), *next;
    mf_graph *g = small_graph();
    mf_session *s = session_at(mf_server_target(server), g);
    char cluster[200] = "{\"worker\": [\"";
    const float three = 3;
    mf_status st;
    float y = 0;

    (void)strcat(strcat(cluster, mf_server_target(server) + strlen("grpc://")), "\"]}");
    mf_server_free(server);
    T_FAILS(MF_UNAVAILABLE,
            "request to the server at 127.0.0.1:", run(s, &three, "y", NULL, 0, &y));
    T_OK(mf_server_new(&(mf_server_options){ .cluster = cluster }, &next));
    while ((st = run(s, &three, "y", NULL, 0, &y)) == MF_UNAVAILABLE)
        (void)usleep(50000); /* it is called again after a while */
    T_FAILS(MF_ABORTED, "is not found", st);
    mf_session_free(s);
    mf_graph_free(g);
    mf_server_free(next);
}

MF_TEST(remote_session_waits_for_a_server_and_reports_the_timeout)
{
    mf_server *server = serve();
    char target[200];
    mf_graph *g = small_graph();
    mf_session *s;

    (void)strcpy(target, mf_server_target(server));
    mf_server_free(server);
    T_FAILS(MF_UNAVAILABLE, "(tried for 0.",
            mf_session_new(g, &(mf_session_options){ .target = target, .connect_ms = 400 }, &s));
    T_TRUE(!s);
    mf_graph_free(g);
}

/* A listening socket without accept(): the connection is made, and no data arrives. */
MF_TEST(remote_session_gives_up_on_a_silent_host_at_the_timeout)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof here;
    char target[64];
    mf_graph *g = small_graph();
    mf_session *s;

    T_EQ(bind(fd, (struct sockaddr *)&here, size), 0);
    T_EQ(listen(fd, 4), 0);
    T_EQ(getsockname(fd, (struct sockaddr *)&here, &size), 0);
    (void)snprintf(target, sizeof target, "grpc://127.0.0.1:%d", ntohs(here.sin_port));
    T_FAILS(MF_UNAVAILABLE, "no reply and no refusal",
            mf_session_new(g, &(mf_session_options){ .target = target, .connect_ms = 300 }, &s));
    T_TRUE(!s);
    mf_graph_free(g);
    (void)close(fd);
}

MF_TEST(remote_session_rejects_invalid_targets)
{
    static const char *const wrong[] = { "http://a:1", "grpc://", "grpc://a", "a:1",
                                         "grpc://a:1/b" };
    mf_graph *g = small_graph();
    mf_session *s;

    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++)
        T_FAILS(MF_INVALID_ARGUMENT, "grpc://host:port",
                mf_session_new(g, &(mf_session_options){ .target = wrong[i] }, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "grpc://host:port", mf_session_reset(NULL, NULL, 0));
    mf_graph_free(g);
}
