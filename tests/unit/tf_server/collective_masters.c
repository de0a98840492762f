/* SPDX-License-Identifier: Apache-2.0 */
/* collective_masters.c - groups whose members have masters of their own. */
#include "graph/graphdef_codec.h"
#include "proto/master.pb-c.h"
#include "rpc/rpc_stub.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/step_sequence.h"
#include "unit/tf_server/cluster_test.h"

#include <pthread.h>
#include <unistd.h>

/* The source or a receiver of a broadcast of one number; ten steps. */
enum { CASTS = 10 };

typedef struct caster {
    mf_session *session;
    int at, delay_us;
    mf_status st;
    char error[500];
    float values[CASTS];
} caster;

static void open_caster(caster *c, int at)
{
    static const char *const filters[] = { "/job:worker/task:0", "/job:worker/task:1" };
    static const char attrs[] = "group_size=2 group_key=3 instance_key=4 shape=shape[] T=float";
    mf_graph *g = graph_new();

    if (at == 0)
        (void)mf_applyf(g, "CollectiveBcastSend",
                        MF_IN(mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='x'")),
                        "%s name='y'", attrs);
    else
        (void)mf_applyf(g, "CollectiveBcastRecv", MF_NO_IN, "%s name='y'", attrs);
    T_OK(mf_graph_status(g));
    *c = (caster){ .at = at, .session = session_at(at, g, filters[at]) };
    mf_graph_free(g);
}

static mf_status cast(caster *c, int step)
{
    const char *feed = "x", *fetch = "y";
    mf_tensor *fed, *result = NULL;
    mf_status st;

    T_OK(mf_tensor_new(MF_DTYPE_F32, NULL, 0, &fed));
    *(float *)mf_tensor_data(fed) = (float)step;
    st = mf_session_run(c->session, &(mf_run_options){ .timeout_ms = 20000 }, &feed,
                        (const mf_tensor *const *)&fed, c->at == 0, &fetch, 1, NULL, 0, &result);
    if (st == MF_OK)
        c->values[step] = *(const float *)mf_tensor_data(result);
    mf_tensor_free(fed);
    mf_tensor_free(result);
    return st;
}

static void *run_caster(void *ctx)
{
    caster *c = ctx;

    for (int step = 0; c->st == MF_OK && step < CASTS; step++) {
        usleep((useconds_t)c->delay_us);
        c->st = cast(c, step);
    }
    if (c->st != MF_OK)
        (void)snprintf(c->error, sizeof c->error, "%s", mf_error_message());
    return NULL;
}

MF_TEST(server_collective_broadcasts_reach_slow_members)
{
    pthread_t threads[2];
    caster c[2];

    serve_all(2);
    for (int i = 0; i < 2; i++)
        open_caster(&c[i], i);
    c[1].delay_us = 20000;
    for (int i = 0; i < 2; i++)
        T_EQ(pthread_create(&threads[i], NULL, run_caster, &c[i]), 0);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        T_STREQ(c[i].error, "");
        mf_session_free(c[i].session);
    }
    for (int step = 0; step < CASTS; step++)
        T_EQ_F(c[1].values[step], (float)step);
    stop_all();
}

MF_TEST(server_collective_step_ids_of_a_failing_leader_are_rejected)
{
    mf_cancel cancel;
    int64_t step;

    mf_cancel_init(&cancel);
    serve_all(2);
    mf_step_sequence_end(&(mf_step_sequence){ .server = servers[0], .key = 5 }, INT64_MAX - 1,
                         true);
    T_FAILS(MF_INTERNAL,
            "worker/replica:0/task:0, the leader of groups, does not return the next step",
            mf_step_sequence_begin(&(mf_step_sequence){ .server = servers[1], .key = 5 }, &cancel,
                                   &step));
    T_OK(mf_step_sequence_begin(&(mf_step_sequence){ .server = servers[1], .key = 6 }, &cancel,
                                &step));
    stop_all();
    mf_cancel_deinit(&cancel);
}

/* ---- partial runs ---- */

static mf_status ask_first(const char *method, const ProtobufCMessage *message,
                           const ProtobufCMessageDescriptor *reply, mf_arena *arena,
                           ProtobufCMessage **out)
{
    mf_rpc_stub *caller;

    T_OK(mf_peer_tasks_caller(servers[1]->peers, 0, &caller));
    return mf_rpc_stub_ask(
        caller, &(mf_rpc_stub_call){ .method = method, .message = message, .reply = reply }, arena,
        out);
}

static const char *open_at_first(const mf_graph *g, mf_arena *arena)
{
    Tensorflow__CreateSessionRequest q = TENSORFLOW__CREATE_SESSION_REQUEST__INIT;
    ProtobufCMessage *reply;

    T_OK(mf_graph_encode_message(g, arena, &q.graph_def));
    T_OK(ask_first("/tensorflow.MasterService/CreateSession", &q.base,
                   &tensorflow__create_session_response__descriptor, arena, &reply));
    return ((const Tensorflow__CreateSessionResponse *)reply)->session_handle;
}

MF_TEST(server_collective_partial_runs_with_remote_members_are_rejected)
{
    Tensorflow__PartialRunSetupRequest q = TENSORFLOW__PARTIAL_RUN_SETUP_REQUEST__INIT;
    char shared[] = "shared:0", own[] = "own:0", two_name[] = "two:0", *fetch = shared,
         *feed = two_name;
    mf_arena *arena = mf_arena_new();
    mf_graph *g = graph_new();
    const mf_output two = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float name='two'");
    ProtobufCMessage *reply;

    (void)mf_applyf(g, "CollectiveReduce", MF_IN(two),
                    "group_size=2 group_key=1 instance_key=1 merge_op='Add' final_op='Id' "
                    "subdiv_offsets=[0] name='shared'");
    (void)mf_applyf(g, "Neg", MF_IN(two), "name='own'");
    T_OK(mf_graph_status(g));
    serve_all(2);
    q.session_handle = (char *)(uintptr_t)open_at_first(g, arena);
    q.fetch = &fetch;
    q.n_fetch = 1;
    q.feed = &feed;
    q.n_feed = 1;
    T_FAILS(MF_UNIMPLEMENTED, "a partial run with collectives whose groups have members under",
            ask_first("/tensorflow.MasterService/PartialRunSetup", &q.base,
                      &tensorflow__partial_run_setup_response__descriptor, arena, &reply));
    fetch = own;
    T_OK(ask_first("/tensorflow.MasterService/PartialRunSetup", &q.base,
                   &tensorflow__partial_run_setup_response__descriptor, arena, &reply));
    stop_all();
    mf_graph_free(g);
    mf_arena_free(arena);
}
