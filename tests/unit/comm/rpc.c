/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c - calls by name, over the plugin `grpc`. */
#include "base/clock.h"
#include "base/cond.h"
#include "comm/local_rpc.h"
#include "mf_test.h"
#include "proto/tensor_message.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
        const mf_part parts[] = { { .data = head, .size = strlen(head), release, e },
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

static mf_rpc_server *serve_by(const mf_rpc_kind *rpc, echo *e, const char *address)
{
    mf_rpc_server *s = NULL;
    char own[64];

    (void)snprintf(own, sizeof own, "test-%ld", (long)getpid());
    if (rpc == &mf_rpc_local)
        address = own;

    memset(e, 0, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    mf_cond_init(&e->changed);
    e->rpc = rpc;
    T_OK(e->rpc->serve(
        &(mf_rpc_server_options){ .address = address, .service = &service, .ctx = e }, &s));
    return s;
}

static const mf_rpc_kind *grpc(void)
{
    const mf_rpc_kind *rpc = NULL;

    T_OK(mf_rpc_find(&rpc));
    return rpc;
}

static mf_rpc_server *serve(echo *e, const char *address)
{
    return serve_by(grpc(), e, address);
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

static void take(void *ctx, mf_status status, const char *message, mf_part *parts, int n)
{
    answer *a = ctx;
    size_t at = 0;

    pthread_mutex_lock(&a->lock);
    a->status = status;
    a->size = mf_parts_size(parts, n);
    a->text = malloc(a->size + strlen(message) + 1);
    for (int i = 0; i < n; at += parts[i++].size) {
        if (parts[i].size > 0)
            memcpy(a->text + at, parts[i].data, parts[i].size);
    }
    mf_parts_release(parts, n);
    memcpy(a->text + at, message, strlen(message) + 1);
    a->done = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void *ask(const mf_rpc_kind *rpc, mf_rpc_channel *c, const char *method, const char *text,
                 size_t size, int64_t timeout_ms, bool waits, answer *a)
{
    const mf_part part = { .data = text, .size = size };

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

static void check_answers(const mf_rpc_kind *rpc)
{
    echo e;
    mf_rpc_server *s = serve_by(rpc, &e, "127.0.0.1:0");
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

MF_TEST(comm_rpc_a_call_is_answered)
{
    check_answers(grpc());
}

MF_TEST(comm_rpc_on_one_host_a_call_is_answered)
{
    check_answers(&mf_rpc_local);
}

static void check_large(const mf_rpc_kind *rpc)
{
    enum { SIZE = 24 << 20 };
    char *large = malloc(SIZE);
    echo e;
    mf_rpc_server *s = serve_by(rpc, &e, "127.0.0.1:0");
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

MF_TEST(comm_rpc_large_messages_pass)
{
    check_large(grpc());
}

MF_TEST(comm_rpc_on_one_host_large_messages_pass)
{
    check_large(&mf_rpc_local);
}

static void check_cancelling(const mf_rpc_kind *rpc)
{
    echo e;
    mf_rpc_server *s = serve_by(rpc, &e, "127.0.0.1:0");
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

MF_TEST(comm_rpc_a_deadline_and_a_caller_who_gives_up_cancel)
{
    check_cancelling(grpc());
}

MF_TEST(comm_rpc_on_one_host_a_deadline_and_a_caller_who_gives_up_cancel)
{
    check_cancelling(&mf_rpc_local);
}

static void check_waiting(const mf_rpc_kind *rpc)
{
    enum { N = 40 };
    echo e;
    mf_rpc_server *s = serve_by(rpc, &e, "127.0.0.1:0");
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

MF_TEST(comm_rpc_many_may_wait_while_others_are_answered)
{
    check_waiting(grpc());
}

MF_TEST(comm_rpc_on_one_host_many_may_wait_while_others_are_answered)
{
    check_waiting(&mf_rpc_local);
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

MF_TEST(comm_rpc_on_one_host_what_cannot_be_sent_fails_and_the_next_one_passes)
{
    const mf_part parts[9] = { { .data = "", .size = 0 } };
    mf_rpc_channel *c;
    mf_rpc_server *s;
    answer a;
    echo e;

    s = serve_by(&mf_rpc_local, &e, "");
    T_OK(mf_rpc_local.connect(mf_rpc_local.address(s), &(mf_security){ 0 }, &c));
    memset(&a, 0, sizeof a);
    pthread_mutex_init(&a.lock, NULL);
    mf_cond_init(&a.changed);
    (void)mf_rpc_local.ask(c, &(mf_rpc_question){ .method = "/echo",
                                                  .parts = parts,
                                                  .n_parts = 9,
                                                  .deadline_ns = INT64_MAX,
                                                  .done = take,
                                                  .ctx = &a });
    await(&a);
    T_EQ(a.status, MF_UNAVAILABLE);
    free(a.text);
    while (!mf_rpc_local.reaches(c)) /* by a new line */
        (void)usleep(1000);
    (void)ask(&mf_rpc_local, c, "/echo", "hello", 5, 0, false, &a);
    await(&a);
    T_EQ(a.status, MF_OK);
    free(a.text);
    mf_rpc_local.disconnect(c);
    mf_rpc_local.stop(s);
}

/* ---- memory that both see ---- */

static void lend(void *ctx, mf_rpc_call *call, const char *method, const void *data, size_t size)
{
    const mf_tensor *lent = ctx;
    mf_buf head = { 0 };
    mf_arena *arena = mf_arena_new();
    mf_part parts[2];

    (void)method;
    (void)data;
    (void)size;
    T_OK(mf_tensor_message_make(lent, arena, &head, &parts[1]));
    parts[0] = (mf_part){ .data = head.data, .size = head.len };
    mf_rpc_local.answer(call, MF_OK, NULL, parts, 2);
    mf_buf_deinit(&head);
    mf_arena_free(arena);
}

typedef struct got {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    mf_tensor value;
} got;

static void get(void *ctx, mf_status status, const char *message, mf_part *parts, int n)
{
    got *g = ctx;
    bool dead;

    (void)message;
    T_EQ(status, MF_OK);
    T_OK(mf_tensor_message_read(parts, n, 0, &g->value, &dead));
    pthread_mutex_lock(&g->lock);
    g->done = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void fetch(mf_rpc_channel *c, got *g)
{
    *g = (got){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    (void)mf_rpc_local.ask(
        c, &(mf_rpc_question){ .method = "/get", .deadline_ns = INT64_MAX, .done = get, .ctx = g });
    pthread_mutex_lock(&g->lock);
    while (!g->done)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

MF_TEST(comm_rpc_on_one_host_tensors_are_lent_and_given_back)
{
    static const mf_rpc_service lending = { lend, cancelled };
    const mf_shape shape = { .rank = 1, .dims = { 100000 } };
    mf_tensor value = { 0 };
    mf_rpc_channel *c;
    mf_rpc_server *s;
    char address[64];
    got a, b;

    mf_region_open();
    T_OK(mf_tensor_alloc(&value, MF_DTYPE_F32, &shape));
    for (int i = 0; i < 100000; i++)
        ((float *)value.data)[i] = (float)i;
    (void)snprintf(address, sizeof address, "test-%ld", (long)getpid());
    T_OK(mf_rpc_local.serve(
        &(mf_rpc_server_options){ .address = address, .service = &lending, .ctx = &value }, &s));
    T_OK(mf_rpc_local.connect(address, &(mf_security){ 0 }, &c));
    T_TRUE(mf_rpc_local.reaches(c));
    fetch(c, &a);
    fetch(c, &b);
    T_TRUE(a.value.buffer->read_only && !mf_buffer_is_sole(a.value.buffer));
    T_TRUE(!mf_buffer_is_sole(value.buffer));
    T_EQ(memcmp(a.value.data, value.data, 400000), 0);
    mf_tensor_clear(&a.value);
    T_TRUE(!mf_buffer_is_sole(value.buffer)); /* one has it still */
    mf_rpc_local.disconnect(c);
    mf_rpc_local.stop(s);
    T_TRUE(!mf_buffer_is_sole(value.buffer)); /* whoever is connected or not */
    T_EQ(((const float *)b.value.data)[99999], 99999.0F);
    mf_tensor_clear(&b.value);
    T_TRUE(mf_buffer_is_sole(value.buffer));
    T_EQ(atomic_load(&mf_region_lent), 0);
    mf_tensor_clear(&value);
}

MF_TEST(comm_rpc_on_one_host_the_dead_have_given_back_everything)
{
    static const mf_rpc_service lending = { lend, cancelled };
    const mf_shape shape = { .rank = 1, .dims = { 100000 } };
    mf_tensor value = { 0 };
    mf_rpc_server *s;
    char address[64];
    int ready[2];
    char byte;
    pid_t pid;

    T_EQ(pipe(ready), 0);
    (void)snprintf(address, sizeof address, "test-%ld", (long)getpid());
    pid = fork();
    if (pid == 0) { /* borrows, and is killed */
        mf_rpc_channel *c;
        got a;

        T_OK(mf_rpc_local.connect(address, &(mf_security){ 0 }, &c));
        while (!mf_rpc_local.reaches(c))
            (void)usleep(1000);
        fetch(c, &a);
        T_EQ(write(ready[1], "", 1), 1);
        for (;;)
            (void)pause();
    }
    mf_region_open();
    T_OK(mf_tensor_alloc(&value, MF_DTYPE_F32, &shape));
    memset(value.data, 0, 400000);
    T_OK(mf_rpc_local.serve(
        &(mf_rpc_server_options){ .address = address, .service = &lending, .ctx = &value }, &s));
    T_EQ(read(ready[0], &byte, 1), 1);
    T_TRUE(!mf_buffer_is_sole(value.buffer));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    while (!mf_buffer_is_sole(value.buffer)) /* for ever, if it is not given back */
        (void)usleep(1000);
    mf_rpc_local.stop(s);
    mf_tensor_clear(&value);
}
