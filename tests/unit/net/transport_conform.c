/* SPDX-License-Identifier: Apache-2.0 */
/* transport_conform.c - the contract of transports: tasks connect, exchange messages, and detect
 * the end of each other. */
#include "unit/net/transport_conform.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- meeting ---- */

void talk_meet(const way *w)
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

/* ---- refusal ---- */

void talk_refuse(const char *transport)
{
    way w = { 0 };
    task t[2] = { { .identity = "numerics=avx2\nmodel=mlp\n" },
                  { .identity = "numerics=avx512\nmodel=mlp\n" } };

    way_init(&w, transport, 2);
    open_all(t, 2, true, &w);
    T_EQ(t[1].st, MF_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) { /* both tasks report the error, with both names */
        T_TRUE(strstr(t[i].error, "numerics is ") != NULL);
        T_TRUE(strstr(t[i].error, "'avx2' for worker 0") != NULL);
        T_TRUE(strstr(t[i].error, "'avx512' for worker 1") != NULL);
    }
    T_EQ(t[0].st, MF_INVALID_ARGUMENT);
    T_TRUE(strstr(t[0].error, "worker 1") != NULL);
}

/* ---- giving up ---- */

void talk_give_up(const char *transport)
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
    T_FAILS(MF_ABORTED, "worker 1 aborted: its data is damaged",
            mf_net_recv(t[0].net, 2, &f, text, mf_clock_ns() + 5000000000, "a word"));
    T_FAILS(MF_DATA_LOSS, "damaged", mf_net_check(t[1].net));
    close_all(t, 3);
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

void talk_kill(const way *w)
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

/* ---- large and many messages ---- */

enum { BIG = 100 << 20, SMALL_ONES = 20000 };

typedef struct stretch {
    mf_net *net;
    char *data;
    mf_status st;
} stretch;

static void *send_big(void *arg)
{
    stretch *s = arg;
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 1, .size = BIG };

    s->st = mf_net_send(s->net, 1, &f, s->data, mf_clock_ns() + 50000000000);
    return NULL;
}

void talk_big(const way *w)
{
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 1, .size = BIG };
    task t[2] = { 0 };
    stretch s;
    char *got = mf_calloc(BIG, 1);
    pthread_t thread;

    open_all(t, 2, true, w);
    T_STREQ(t[0].error, "");
    T_STREQ(t[1].error, "");
    s = (stretch){ .net = t[0].net, .data = mf_calloc(BIG, 1) };
    for (int64_t i = 0; i < BIG; i += 997)
        s.data[i] = (char)i;
    T_EQ(pthread_create(&thread, NULL, send_big, &s), 0);
    T_OK(mf_net_recv(t[1].net, 0, &f, got, mf_clock_ns() + 50000000000, "much"));
    pthread_join(thread, NULL);
    T_OK(s.st);
    T_EQ(memcmp(got, s.data, BIG), 0);
    mf_free(got);
    mf_free(s.data);
    close_all(t, 2);
}

static void *send_small(void *arg)
{
    stretch *s = arg;

    for (int i = 0; i < SMALL_ONES && s->st == MF_OK; i++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)i, .size = sizeof i };

        s->st = mf_net_send(s->net, 1, &f, &i, mf_clock_ns() + 20000000000);
    }
    return NULL;
}

void talk_small(const char *transport)
{
    way w = { 0 };
    task t[2] = { 0 };
    stretch s;
    pthread_t thread;

    way_init(&w, transport, 2);
    open_all(t, 2, true, &w);
    T_STREQ(t[0].error, "");
    T_STREQ(t[1].error, "");
    s = (stretch){ .net = t[0].net };
    T_EQ(pthread_create(&thread, NULL, send_small, &s), 0);
    for (int i = 0; i < SMALL_ONES; i++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)i, .size = sizeof i };
        int got = -1;

        T_OK(mf_net_recv(t[1].net, 0, &f, &got, mf_clock_ns() + 20000000000, "a number"));
        T_EQ(got, i);
    }
    pthread_join(thread, NULL);
    T_OK(s.st);
    close_all(t, 2);
}

/* ---- a peer that does not read ---- */

static int64_t peak_kib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static _Noreturn void be_task_1(const way *w)
{
    task t = { .self = 1, .n = 2, .known = true, .way = w, .timeout_ns = 20000000000 };

    if (open_task(&t) != MF_OK)
        _exit(1);
    for (;;)
        pause();
}

/* self 0 accepts the connection, self 1 makes it: neither end may block. */
void talk_stop_reading(const char *transport)
{
    way w = { 0 };
    task t = { .self = 0, .n = 2, .known = true, .way = &w, .timeout_ns = 20000000000 };
    mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 32 << 20 };
    char *data = mf_calloc((int64_t)f.size, 1);
    int64_t before, since;
    mf_status st = MF_OK;
    pid_t child;

    memset(data, 1, f.size);
    way_init(&w, transport, 2);
    child = fork();
    if (child == 0)
        be_task_1(&w);
    T_OK(open_task(&t));
    T_OK(mf_net_send(t.net, 1, &f, data, mf_clock_ns() + 10000000000));
    kill(child, SIGSTOP);
    before = peak_kib();
    since = mf_clock_ns();
    for (int i = 1; i < 100 && st == MF_OK; i++) {
        f.seq = (uint32_t)i;
        st = mf_net_send(t.net, 1, &f, data, since + 700000000);
    }
    T_TRUE(st == MF_DEADLINE_EXCEEDED);
    T_TRUE(mf_clock_ns() - since < 3000000000);
    T_TRUE(peak_kib() - before < 64 << 10);
    memset(data, 2, f.size); /* it is ours again */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mf_net_close(t.net);
    mf_free(data);
}
