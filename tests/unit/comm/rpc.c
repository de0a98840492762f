/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c - calls by name, over the plugin `grpc`. */
#include "comm/rpc.h"

#include "base/clock.h"
#include "base/cond.h"
#include "mf_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a service: "/echo" says it again, "/fail" fails, "/wait" waits until it is cancelled ---- */

typedef struct echo {
    const mf_rpc_kind *rpc;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting, cancelled, released;
} echo;

static void release(void *ctx)
{
    echo *e = ctx;

    pthread_mutex_lock(&e->lock);
    e->released++;
    pthread_mutex_unlock(&e->lock);
}

static void called(void *ctx, mf_rpc_call *call, const char *method, const void *data, size_t size)
{
    static const char head[] = "you said: ";
    echo *e = ctx;

    if (strcmp(method, "/echo") == 0) {
        const mf_rpc_part parts[] = { { .data = head, .size = strlen(head), release, e },
                                      { .data = data, .size = size } };

        e->rpc->answer(call, MF_OK, NULL, parts, 2);
    } else if (strcmp(method, "/wait") == 0) {
        pthread_mutex_lock(&e->lock);
        e->waiting++;
        pthread_cond_broadcast(&e->changed);
        while (!atomic_load(&call->gone))
            (void)mf_cond_wait_until(&e->changed, &e->lock, mf_clock_ns() + 10000000);
        pthread_mutex_unlock(&e->lock);
        e->rpc->answer(call, MF_CANCELLED, "it was cancelled", NULL, 0);
    } else {
        e->rpc->answer(call, MF_UNIMPLEMENTED, method, NULL, 0);
    }
}

static void cancelled(void *ctx, mf_rpc_call *call)
{
    echo *e = ctx;

    (void)call;
    pthread_mutex_lock(&e->lock);
    e->cancelled++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static const mf_rpc_service service = { called, cancelled };

static mf_rpc_server *serve(echo *e, const char *address)
{
    mf_rpc_server *s = NULL;

    memset(e, 0, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    mf_cond_init(&e->changed);
    T_OK(mf_rpc_find(&e->rpc));
    T_OK(e->rpc->serve(
        &(mf_rpc_server_options){ .address = address, .service = &service, .ctx = e }, &s));
    return s;
}

/* ---- those who ask ---- */

typedef struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    mf_status status;
    char *text;
    size_t size;
} answer;

static void take(void *ctx, mf_status status, const char *message, const void *data, size_t size)
{
    answer *a = ctx;

    pthread_mutex_lock(&a->lock);
    a->status = status;
    a->size = size;
    a->text = malloc(size + strlen(message) + 1);
    if (size > 0)
        memcpy(a->text, data, size);
    memcpy(a->text + size, message, strlen(message) + 1);
    a->done = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void *ask(const mf_rpc_kind *rpc, mf_rpc_channel *c, const char *method, const char *text,
                 size_t size, int64_t timeout_ms, bool waits, answer *a)
{
    const mf_rpc_part part = { .data = text, .size = size };

    memset(a, 0, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    mf_cond_init(&a->changed);
    return rpc->ask(c, &(mf_rpc_question){ .method = method,
                                           .parts = &part,
                                           .n_parts = 1,
                                           .deadline_ns = timeout_ms > 0
                                                              ? mf_clock_ns() + timeout_ms * 1000000
                                                              : INT64_MAX,
                                           .waits = waits,
                                           .done = take,
                                           .ctx = a });
}

static void await(answer *a)
{
    pthread_mutex_lock(&a->lock);
    while (!a->done)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

MF_TEST(comm_rpc_a_call_is_answered)
{
    echo e;
    mf_rpc_server *s = serve(&e, "127.0.0.1:0");
    mf_rpc_channel *c;
    answer a;

    T_OK(e.rpc->connect(e.rpc->address(s), &(mf_security){ 0 }, &c));
    for (int i = 0; i < 3; i++) {
        (void)ask(e.rpc, c, "/echo", "hello", 5, 0, false, &a);
        await(&a);
        T_EQ(a.status, MF_OK);
        T_STREQ(a.text, "you said: hello");
        free(a.text);
    }
    (void)ask(e.rpc, c, "/nothing", "", 0, 0, false, &a);
    await(&a);
    T_EQ(a.status, MF_UNIMPLEMENTED);
    T_STREQ(a.text, "/nothing");
    free(a.text);
    e.rpc->disconnect(c);
    e.rpc->stop(s);
    T_EQ(e.released, 3);
}

MF_TEST(comm_rpc_large_messages_pass)
{
    enum { SIZE = 24 << 20 };
    char *large = malloc(SIZE);
    echo e;
    mf_rpc_server *s = serve(&e, "127.0.0.1:0");
    mf_rpc_channel *c;
    answer a;

    memset(large, 'x', SIZE);
    T_OK(e.rpc->connect(e.rpc->address(s), &(mf_security){ 0 }, &c));
    (void)ask(e.rpc, c, "/echo", large, SIZE, 0, false, &a);
    await(&a);
    T_EQ(a.status, MF_OK);
    T_EQ(a.size, SIZE + strlen("you said: "));
    T_TRUE(a.text && memcmp(a.text + strlen("you said: "), large, SIZE) == 0);
    free(a.text);
    free(large);
    e.rpc->disconnect(c);
    e.rpc->stop(s);
}

MF_TEST(comm_rpc_a_deadline_and_a_caller_who_gives_up_cancel)
{
    echo e;
    mf_rpc_server *s = serve(&e, "127.0.0.1:0");
    mf_rpc_channel *c;
    answer a;
    void *asked;

    T_OK(e.rpc->connect(e.rpc->address(s), &(mf_security){ 0 }, &c));
    (void)ask(e.rpc, c, "/wait", "", 0, 200, false, &a);
    await(&a);
    T_EQ(a.status, MF_DEADLINE_EXCEEDED);
    free(a.text);
    asked = ask(e.rpc, c, "/wait", "", 0, 0, false, &a);
    pthread_mutex_lock(&e.lock);
    while (e.waiting < 2)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    e.rpc->cancel(c, asked);
    await(&a);
    T_EQ(a.status, MF_CANCELLED);
    free(a.text);
    e.rpc->disconnect(c);
    e.rpc->stop(s);
    T_EQ(e.cancelled, 2);
}

MF_TEST(comm_rpc_many_may_wait_while_others_are_answered)
{
    enum { N = 40 };
    echo e;
    mf_rpc_server *s = serve(&e, "127.0.0.1:0");
    answer waiting[N], a;
    mf_rpc_channel *c;

    T_OK(e.rpc->connect(e.rpc->address(s), &(mf_security){ 0 }, &c));
    for (int i = 0; i < N; i++)
        (void)ask(e.rpc, c, "/wait", "", 0, 0, false, &waiting[i]);
    pthread_mutex_lock(&e.lock);
    while (e.waiting < N)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    (void)ask(e.rpc, c, "/echo", "", 0, 0, false, &a);
    await(&a);
    T_EQ(a.status, MF_OK);
    free(a.text);
    e.rpc->stop(s); /* ends them all */
    for (int i = 0; i < N; i++) {
        await(&waiting[i]);
        T_TRUE(waiting[i].status == MF_CANCELLED || waiting[i].status == MF_UNAVAILABLE);
        free(waiting[i].text);
    }
    e.rpc->disconnect(c);
}

MF_TEST(comm_rpc_nobody_there_is_said_at_once_or_waited_for)
{
    char address[64];
    mf_rpc_channel *c;
    mf_rpc_server *s;
    answer now, later;
    echo e;

    s = serve(&e, "127.0.0.1:0");
    (void)snprintf(address, sizeof address, "%s", e.rpc->address(s));
    e.rpc->stop(s);
    T_OK(e.rpc->connect(address, &(mf_security){ 0 }, &c));
    (void)ask(e.rpc, c, "/echo", "x", 1, 0, false, &now);
    await(&now);
    T_EQ(now.status, MF_UNAVAILABLE);
    free(now.text);
    (void)ask(e.rpc, c, "/echo", "x", 1, 0, true, &later);
    s = serve(&e, address); /* the port is free */
    await(&later);
    T_EQ(later.status, MF_OK);
    T_STREQ(later.text, "you said: x");
    free(later.text);
    e.rpc->disconnect(c);
    e.rpc->stop(s);
}

MF_TEST(comm_rpc_other_hosts_need_tls)
{
    const mf_rpc_kind *rpc;
    mf_rpc_server *s;

    T_OK(mf_rpc_find(&rpc));
    T_FAILS(
        MF_FAILED_PRECONDITION, "would let anybody on the network in",
        rpc->serve(&(mf_rpc_server_options){ .address = "0.0.0.0:0", .service = &service }, &s));
}
