/* SPDX-License-Identifier: Apache-2.0 */
/* rpc.c - calls by name, over the plugin `grpc`. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "base/param.h"
#include "mf_test.h"
#include "proto/tensor_message.h"
#include "rpc/uds_rpc.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
        const mf_iovec parts[] = { { .data = head, .size = strlen(head), release, e },
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

/* ---- callers ---- */

typedef struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    mf_status status;
    char *text;
    size_t size;
} answer;

static void take(void *ctx, mf_status status, const char *message, mf_iovec *parts, int n)
{
    answer *a = ctx;
    size_t at = 0;

    pthread_mutex_lock(&a->lock);
    a->status = status;
    a->size = mf_iovec_size(parts, n);
    a->text = malloc(a->size + strlen(message) + 1);
    for (int i = 0; i < n; at += parts[i++].size) {
        if (parts[i].size > 0)
            memcpy(a->text + at, parts[i].data, parts[i].size);
    }
    mf_iovec_release(parts, n);
    memcpy(a->text + at, message, strlen(message) + 1);
    a->done = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void *ask(const mf_rpc_kind *rpc, mf_rpc_channel *c, const char *method, const char *text,
                 size_t size, int64_t timeout_ms, bool waits, answer *a)
{
    const mf_iovec part = { .data = text, .size = size };

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

MF_TEST(comm_rpc_a_deadline_and_a_caller_can_cancel)
{
    check_cancelling(grpc());
}

MF_TEST(comm_rpc_on_one_host_a_deadline_and_a_caller_can_cancel)
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

MF_TEST(comm_rpc_many_calls_wait_while_others_are_answered)
{
    check_waiting(grpc());
}

MF_TEST(comm_rpc_on_one_host_many_calls_wait_while_others_are_answered)
{
    check_waiting(&mf_rpc_local);
}

MF_TEST(comm_rpc_a_missing_server_fails_at_once_or_is_waited_for)
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
        MF_FAILED_PRECONDITION, "would accept any peer on the network",
        rpc->serve(&(mf_rpc_server_options){ .address = "0.0.0.0:0", .service = &service }, &s));
}

MF_TEST(comm_rpc_on_one_host_a_failed_send_does_not_affect_the_next_call)
{
    const mf_iovec parts[9] = { { .data = "", .size = 0 } };
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
    mf_iovec parts[2];

    (void)method;
    (void)data;
    (void)size;
    T_OK(mf_tensor_message_make(lent, arena, &head, &parts[1]));
    parts[0] = (mf_iovec){ .data = head.data, .size = head.len };
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

static void get(void *ctx, mf_status status, const char *message, mf_iovec *parts, int n)
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

MF_TEST(comm_rpc_on_one_host_tensors_are_lent_and_returned)
{
    static const mf_rpc_service lending = { lend, cancelled };
    const mf_shape shape = { .rank = 1, .dims = { 100000 } };
    mf_tensor value = { 0 };
    mf_rpc_channel *c;
    mf_rpc_server *s;
    char address[64];
    got a, b;

    mf_shared_region_open();
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
    T_TRUE(!mf_buffer_is_sole(value.buffer)); /* one reader still holds it */
    mf_rpc_local.disconnect(c);
    mf_rpc_local.stop(s);
    T_TRUE(!mf_buffer_is_sole(value.buffer)); /* with or without a connection */
    T_EQ(((const float *)b.value.data)[99999], 99999.0F);
    mf_tensor_clear(&b.value);
    T_TRUE(mf_buffer_is_sole(value.buffer));
    T_EQ(atomic_load(&mf_lender_lent), 0);
    mf_tensor_clear(&value);
}

MF_TEST(comm_rpc_on_one_host_a_dead_borrower_returns_everything)
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
    mf_shared_region_open();
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

/* ---- peers that misbehave ---- */

static int connect_raw(const char *address)
{
    struct sockaddr_un name;
    const socklen_t size = mf_uds_rpc_name(address, &name);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_TRUE(size > 0 && fd >= 0);
    T_EQ(connect(fd, (struct sockaddr *)&name, size), 0);
    return fd;
}

MF_TEST(comm_rpc_on_one_host_half_a_message_times_out)
{
    const mf_uds_frame f = { .magic = MF_UDS_RPC_MAGIC, .kind = MF_UDS_HELLO, .text = 100 };
    mf_rpc_server *s;
    mf_rpc_channel *c;
    answer a;
    echo e;
    char byte;
    int fd;

    T_OK(mf_param_set("rpc_io_timeout_ms=100"));
    s = serve_by(&mf_rpc_local, &e, "");
    for (size_t part = 1; part <= sizeof f; part += sizeof f - 1) {
        fd = connect_raw(e.rpc->address(s));
        T_EQ(write(fd, &f, part), (ssize_t)part);
        T_EQ(read(fd, &byte, 1), 0); /* the server hangs up */
        (void)close(fd);
    }
    T_OK(e.rpc->connect(e.rpc->address(s), &(mf_security){ 0 }, &c));
    (void)ask(e.rpc, c, "/echo", "hello", 5, 0, false, &a);
    await(&a);
    T_STREQ(a.text, "you said: hello");
    free(a.text);
    e.rpc->disconnect(c);
    e.rpc->stop(s);
}

static bool is_mapped(unsigned seals)
{
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    mf_uds_line from, to;
    mf_uds_frame f;
    const void *data;
    size_t size;
    char *text;
    void *at;
    int ends[2];

    T_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    T_EQ(ftruncate(file, 4096), 0);
    T_EQ(fcntl(file, F_ADD_SEALS, (int)seals), 0);
    T_OK(mf_uds_line_init(&from, ends[0]));
    T_OK(mf_uds_line_init(&to, ends[1]));
    T_OK(mf_uds_line_send(&from, &(mf_uds_frame){ .kind = MF_UDS_HELLO }, "", NULL, 0, file));
    T_OK(mf_uds_line_read(&to, &f, &text, &data));
    at = mf_uds_line_map(&to, true, &size);
    if (at)
        T_EQ(munmap(at, size), 0);
    mf_free(text);
    mf_uds_line_deinit(&from);
    mf_uds_line_deinit(&to);
    (void)close(file);
    return at != NULL;
}

MF_TEST(comm_rpc_on_one_host_unsealed_memory_is_not_mapped)
{
    T_TRUE(is_mapped(F_SEAL_SHRINK | F_SEAL_GROW));
    T_TRUE(!is_mapped(F_SEAL_GROW));
    T_TRUE(!is_mapped(0));
}

/* ---- two connections from one address, of two users ---- */

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* *from 0: any port, which it becomes. */
static int connect_from(int *from, int to)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in ours = loopback(*from), theirs = loopback(to);
    socklen_t size = sizeof ours;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&ours, size) != 0 ||
        connect(fd, (struct sockaddr *)&theirs, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&ours, &size) != 0)
        return -1;
    *from = ntohs(ours.sin_port);
    return fd;
}

static int port_of(const char *address)
{
    return atoi(strrchr(address, ':') + 1);
}

/* Another user connects to a server of ours, and stays. */
static pid_t stranger(int server, int *from)
{
    int told[2];
    pid_t pid;

    T_EQ(pipe(told), 0);
    pid = fork();
    if (pid == 0) {
        const int fd = setuid(65534) == 0 ? connect_from(from, server) : -1;

        if (fd < 0 || write(told[1], from, sizeof *from) != (ssize_t)sizeof *from)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(told[1]);
    T_EQ(read(told[0], from, sizeof *from), (ssize_t)sizeof *from);
    (void)close(told[0]);
    return pid;
}

/* Between the server and a client, whose address is not configurable. */
typedef struct relay {
    int listening, from, server;
} relay;

static void *run_relay(void *ctx)
{
    const relay *r = ctx;
    int from = r->from;
    const int a = accept4(r->listening, NULL, NULL, SOCK_CLOEXEC);
    const int b = connect_from(&from, r->server);
    struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
    char bytes[4096];

    while (a >= 0 && b >= 0 && poll(p, 2, -1) > 0) {
        const int i = p[0].revents ? 0 : 1;
        const ssize_t n = read(p[i].fd, bytes, sizeof bytes);

        if (n <= 0 || write(p[1 - i].fd, bytes, (size_t)n) != n)
            break;
    }
    (void)close(a);
    (void)close(b);
    return NULL;
}

MF_TEST(comm_rpc_callers_with_the_same_port_are_distinguished)
{
    relay r = { .listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    mf_rpc_server *ours, *other;
    mf_rpc_channel *c;
    char address[32];
    pthread_t thread;
    echo e, e2;
    answer a;
    pid_t pid;

    if (geteuid() != 0)
        T_SKIP("a second user needs root");
    ours = serve(&e, "127.0.0.1:0");
    other = serve(&e2, "127.0.0.1:0");
    pid = stranger(port_of(e2.rpc->address(other)), &r.from);
    r.server = port_of(e.rpc->address(ours));
    T_EQ(bind(r.listening, (struct sockaddr *)&at, size), 0);
    T_EQ(listen(r.listening, 1), 0);
    T_EQ(getsockname(r.listening, (struct sockaddr *)&at, &size), 0);
    T_EQ(pthread_create(&thread, NULL, run_relay, &r), 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    T_OK(e.rpc->connect(address, &(mf_security){ 0 }, &c));
    (void)ask(e.rpc, c, "/echo", "hello", 5, 0, true, &a);
    await(&a);
    T_EQ(a.status, MF_OK);
    T_STREQ(a.text, "you said: hello");
    free(a.text);
    e.rpc->disconnect(c);
    T_EQ(pthread_join(thread, NULL), 0);
    e.rpc->stop(ours);
    (void)kill(pid, SIGKILL);
    T_EQ(waitpid(pid, NULL, 0), pid);
    e2.rpc->stop(other);
    (void)close(r.listening);
}
