/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - tasks meet, exchange messages, and learn of each other's end, over every transport. */
#include "comm/net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"
#include "unit/comm/ways.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- meeting ---- */

static void meet_and_talk(const way *w)
{
    const int64_t soon = mf_clock_ns() + 10000000000;

    for (int known = 0; known < 2; known++) {
        task t[5] = { 0 };
        mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 3, .size = 6 };
        char text[8] = "";
        void *data;
        size_t size;

        open_all(t, 5, known, w);
        for (int i = 0; i < 5; i++)
            T_STREQ(t[i].error, "");
        T_OK(mf_net_send(t[4].net, 1, &f, "hello", soon));
        T_OK(mf_net_recv(t[1].net, 4, &f, text, soon, "a word"));
        T_STREQ(text, "hello");
        f.seq = 4;
        T_OK(mf_net_send(t[0].net, 3, &f, "world", soon));
        T_OK(mf_net_take(t[3].net, 0, &f, &data, &size, soon, "a word"));
        T_STREQ(data, "world");
        T_EQ(size, 6);
        mf_free(data);
        T_FAILS(MF_DEADLINE_EXCEEDED, "worker 2 did not send a word of step 0",
                mf_net_recv(t[1].net, 2, &f, text, mf_clock_ns() + 20000000, "a word"));
        mf_net_close(t[2].net);
        t[2].net = NULL;
        T_FAILS(MF_UNAVAILABLE, "worker 2 has left",
                mf_net_recv(t[1].net, 2, &f, text, soon, "a word"));
        close_all(t, 5);
    }
}

MF_TEST(comm_net_tasks_meet_with_addresses_or_with_a_place_to_meet)
{
    way w = { 0 };

    way_init(&w, "local", 5);
    meet_and_talk(&w);
}

MF_TEST(comm_grpc_tasks_meet_with_addresses_or_with_a_place_to_meet)
{
    way w = { 0 };

    way_init(&w, "grpc", 5);
    meet_and_talk(&w);
}

MF_TEST(comm_grpc_tasks_meet_with_certificates)
{
    way w = { 0 };

    way_init_tls(&w, 5);
    meet_and_talk(&w);
}

MF_TEST(comm_ucx_tasks_meet_with_addresses_or_with_a_place_to_meet)
{
    way w = { 0 };

    way_init(&w, "ucx", 5);
    meet_and_talk(&w);
}

/* ---- refusal ---- */

static void refuse_another(const char *transport)
{
    way w = { 0 };
    task t[2] = { { .identity = "numerics=avx2\nmodel=mlp\n" },
                  { .identity = "numerics=avx512\nmodel=mlp\n" } };

    way_init(&w, transport, 2);
    open_all(t, 2, true, &w);
    T_EQ(t[1].st, MF_FAILED_PRECONDITION);
    T_TRUE(strstr(t[1].error, "numerics is 'avx512' there and 'avx2' here") ||
           strstr(t[1].error, "numerics is 'avx2' there and 'avx512' here"));
    T_EQ(t[0].st, MF_DEADLINE_EXCEEDED);
    T_TRUE(strstr(t[0].error, "worker 1") != NULL);
}

MF_TEST(comm_net_tasks_that_do_not_fit_together_are_refused_with_both_sides_named)
{
    refuse_another("local");
}

MF_TEST(comm_grpc_tasks_that_do_not_fit_together_are_refused_with_both_sides_named)
{
    refuse_another("grpc");
}

MF_TEST(comm_ucx_tasks_that_do_not_fit_together_are_refused_with_both_sides_named)
{
    refuse_another("ucx");
}

/* ---- giving up ---- */

static void give_up(const char *transport)
{
    way w = { 0 };
    task t[3] = { 0 };
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 4 };
    char text[8];

    way_init(&w, transport, 3);
    open_all(t, 3, true, &w);
    for (int i = 0; i < 3; i++)
        T_STREQ(t[i].error, "");
    mf_net_abort(t[1].net, MF_FAIL(MF_DATA_LOSS, "its data is damaged"));
    T_FAILS(MF_ABORTED, "worker 1 gave up: its data is damaged",
            mf_net_recv(t[0].net, 2, &f, text, mf_clock_ns() + 5000000000, "a word"));
    T_FAILS(MF_DATA_LOSS, "damaged", mf_net_check(t[1].net));
    close_all(t, 3);
}

MF_TEST(comm_net_who_gives_up_tells_all_others_why)
{
    give_up("local");
}

MF_TEST(comm_grpc_who_gives_up_tells_all_others_why)
{
    give_up("grpc");
}

MF_TEST(comm_ucx_who_gives_up_tells_all_others_why)
{
    give_up("ucx");
}

/* ---- being killed ---- */

static void *open_one(void *arg)
{
    task *t = arg;

    t->st = open_task(t);
    return NULL;
}

static _Noreturn void be_task_2(const way *w)
{
    task t = { .self = 2, .n = 3, .known = true, .way = w, .timeout_ns = 20000000000 };

    if (open_task(&t) != MF_OK)
        _exit(1);
    for (;;)
        pause();
}

static void kill_one(const way *w)
{
    task t[2] = { 0 };
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 4 };
    pthread_t thread[2];
    const pid_t child = fork();
    char text[8];
    int64_t killed;

    if (child == 0)
        be_task_2(w);
    for (int i = 0; i < 2; i++) {
        t[i] = (task){ .self = i, .n = 3, .known = true, .way = w, .timeout_ns = 20000000000 };
        T_EQ(pthread_create(&thread[i], NULL, open_one, &t[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        T_OK(t[i].st);
    }
    kill(child, SIGKILL);
    killed = mf_clock_ns();
    T_FAILS(MF_UNAVAILABLE, "worker 2",
            mf_net_recv(t[0].net, 2, &f, text, killed + 5000000000, "a word"));
    T_TRUE(mf_clock_ns() - killed < 2000000000);
    T_FAILS(MF_UNAVAILABLE, "worker 2",
            mf_net_recv(t[1].net, 0, &f, text, killed + 5000000000, "a word"));
    waitpid(child, NULL, 0);
    close_all(t, 2);
}

MF_TEST(comm_net_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "local", 3);
    kill_one(&w);
}

MF_TEST(comm_grpc_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "grpc", 3);
    kill_one(&w);
}

MF_TEST(comm_ucx_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "ucx", 3);
    kill_one(&w);
}
