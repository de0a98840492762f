/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - tasks meet, exchange messages, and learn of each other's end. */
#include "comm/net.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct task {
    int self, n;
    const char *identity;
    bool known; /* addresses are */
    mf_net *net;
    mf_status st;
    char error[200];
} task;

static void *open_net(void *arg)
{
    task *t = arg;
    mf_net_task tasks[8];
    char names[8][16], addresses[8][32], meet[32];

    for (int i = 0; i < t->n; i++) {
        (void)snprintf(names[i], sizeof names[i], "worker %d", i);
        (void)snprintf(addresses[i], sizeof addresses[i], "test-%d-%d", (int)getpid(), i);
        tasks[i] = (mf_net_task){ names[i], t->known ? addresses[i] : NULL };
    }
    (void)snprintf(meet, sizeof meet, "meet-%d", (int)getpid());
    t->st = mf_net_open(&(mf_net_options){ .tasks = tasks,
                                           .n_tasks = t->n,
                                           .self = t->self,
                                           .rendezvous = meet,
                                           .identity = t->identity,
                                           .timeout_ns = 3000000000 },
                        &t->net);
    (void)snprintf(t->error, sizeof t->error, "%s", t->st == MF_OK ? "" : mf_error_message());
    return NULL;
}

static void open_all(task *t, int n, bool known)
{
    pthread_t thread[8];

    for (int i = 0; i < n; i++) {
        t[i] = (task){ .self = i, .n = n, .known = known, .identity = t[i].identity };
        T_EQ(pthread_create(&thread[i], NULL, open_net, &t[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

MF_TEST(comm_net_tasks_meet_with_addresses_or_with_a_place_to_meet)
{
    const int64_t soon = mf_clock_ns() + 5000000000;

    for (int known = 0; known < 2; known++) {
        task t[5] = { 0 };
        mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 3, .size = 6 };
        char text[8] = "";
        void *data;
        size_t size;

        open_all(t, 5, known);
        for (int i = 0; i < 5; i++)
            T_OK(t[i].st);
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
        T_FAILS(MF_UNAVAILABLE, "worker 2 has left",
                mf_net_recv(t[1].net, 2, &f, text, soon, "a word"));
        for (int i = 0; i < 5; i++) {
            if (i != 2)
                mf_net_close(t[i].net);
        }
    }
}

MF_TEST(comm_net_tasks_that_do_not_fit_together_are_refused_with_both_sides_named)
{
    task t[2] = { { .identity = "numerics=avx2\nmodel=mlp\n" },
                  { .identity = "numerics=avx512\nmodel=mlp\n" } };

    open_all(t, 2, true);
    T_EQ(t[1].st, MF_FAILED_PRECONDITION);
    T_TRUE(strstr(t[1].error, "numerics is 'avx512' there and 'avx2' here") ||
           strstr(t[1].error, "numerics is 'avx2' there and 'avx512' here"));
    T_EQ(t[0].st, MF_DEADLINE_EXCEEDED);
    T_TRUE(strstr(t[0].error, "worker 1") != NULL);
}

MF_TEST(comm_net_who_gives_up_tells_all_others_why)
{
    task t[3] = { 0 };
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 4 };
    char text[8];

    open_all(t, 3, true);
    mf_net_abort(t[1].net, MF_FAIL(MF_DATA_LOSS, "its data is damaged"));
    T_FAILS(MF_ABORTED, "worker 1 gave up: its data is damaged",
            mf_net_recv(t[0].net, 2, &f, text, mf_clock_ns() + 5000000000, "a word"));
    T_FAILS(MF_DATA_LOSS, "damaged", mf_net_check(t[1].net));
    for (int i = 0; i < 3; i++)
        mf_net_close(t[i].net);
}

MF_TEST(comm_net_a_task_that_is_killed_is_named_at_once)
{
    task t[3] = { 0 };
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 4 };
    pthread_t thread[2];
    pid_t child;
    char text[8];
    int64_t killed;

    /* The child is task 2 of this very cluster, so names must not depend on the process. */
    for (int i = 0; i < 3; i++)
        t[i] = (task){ .self = i, .n = 3, .known = true };
    child = fork();
    if (child == 0) {
        mf_net_task tasks[3];
        char names[3][16], addresses[3][32];

        for (int i = 0; i < 3; i++) {
            (void)snprintf(names[i], sizeof names[i], "worker %d", i);
            (void)snprintf(addresses[i], sizeof addresses[i], "test-%d-%d", (int)getppid(), i);
            tasks[i] = (mf_net_task){ names[i], addresses[i] };
        }
        if (mf_net_open(&(mf_net_options){ .tasks = tasks, .n_tasks = 3, .self = 2 }, &t[2].net) !=
            MF_OK)
            _exit(1);
        for (;;)
            pause();
    }
    for (int i = 0; i < 2; i++)
        T_EQ(pthread_create(&thread[i], NULL, open_net, &t[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    T_OK(t[0].st);
    T_OK(t[1].st);
    kill(child, SIGKILL);
    killed = mf_clock_ns();
    T_FAILS(MF_UNAVAILABLE, "worker 2",
            mf_net_recv(t[0].net, 2, &f, text, killed + 5000000000, "a word"));
    T_TRUE(mf_clock_ns() - killed < 2000000000);
    T_FAILS(MF_UNAVAILABLE, "worker 2",
            mf_net_recv(t[1].net, 0, &f, text, killed + 5000000000, "a word"));
    waitpid(child, NULL, 0);
    mf_net_close(t[0].net);
    mf_net_close(t[1].net);
}
