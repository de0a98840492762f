/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_stub.c - client stubs: calls with protobuf messages, asynchronous or blocking. */
#include "rpc/rpc_stub.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/waiter.h"
#include "proto/wire.h"

#include <stdio.h>
#include <string.h>

static const int64_t LOOK_NS = 200000000;

struct mf_rpc_stub {
    const mf_rpc_kind *rpc;
    mf_rpc_channel *channel;
    char *address;
    pthread_mutex_t lock; /* guards the states of all calls */
    pthread_cond_t changed;
};

/* A request in flight. */
typedef struct rpc_stub_call {
    mf_waiter pending; /* must be the first field */
    mf_rpc_stub *caller;
    const ProtobufCMessageDescriptor *reply;
    mf_arena *arena; /* NULL: the reply is not decoded */
    bool owns_arena;
    mf_rpc_answer_fn *done;
    mf_rpc_answer_parts_fn *done_parts; /* used instead of done if the reply is not decoded */
    void *ctx;
    void *asked; /* handle for cancelling; NULL: not available yet */
} rpc_stub_call;

/* ---- opening ---- */

mf_status mf_rpc_stub_new(const mf_rpc_kind *rpc, const char *address, const mf_security *security,
                          mf_rpc_stub **out)
{
    mf_rpc_stub *c = mf_calloc(1, sizeof *c);
    mf_status st;

    *out = NULL;
    if (!c)
        return MF_NOMEM("a connection");
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    c->rpc = rpc;
    c->address = mf_strdup(address);
    st = c->address ? MF_OK : MF_NOMEM("a connection");
    if (st == MF_OK)
        st = c->rpc->connect(address, security, &c->channel);
    if (st != MF_OK) {
        mf_rpc_stub_free(c);
        return st;
    }
    *out = c;
    return MF_OK;
}

void mf_rpc_stub_free(mf_rpc_stub *c)
{
    if (!c)
        return;
    if (c->channel)
        c->rpc->disconnect(c->channel);
    mf_free(c->address);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mf_free(c);
}

const char *mf_rpc_stub_address(const mf_rpc_stub *c)
{
    return c->address;
}

bool mf_rpc_stub_reaches(const mf_rpc_stub *c)
{
    return c->rpc->reaches && c->rpc->reaches(c->channel);
}

/* ---- replies ---- */

static void rpc_stub_unref(rpc_stub_call *k)
{
    if (!mf_waiter_unref(&k->pending))
        return;
    if (k->owns_arena)
        mf_arena_free(k->arena);
    mf_free(k);
}

/* gRPC's own messages name neither the server nor a fix. */
static mf_status rpc_stub_refuse(const rpc_stub_call *k, mf_status status, const char *message)
{
    const char *address = k->caller->address;

    if (k->pending.cancel && mf_cancel_is_raised(k->pending.cancel))
        return MF_FAIL(MF_CANCELLED, "the call of the server at %s was cancelled", address);
    if (status == MF_UNAVAILABLE || status == MF_DEADLINE_EXCEEDED || status == MF_UNAUTHENTICATED)
        return MF_FAIL(status, "request to the server at %s: %s", address, message);
    return MF_FAIL(status, "%s", message);
}

static mf_status rpc_stub_decode(const rpc_stub_call *k, const mf_iovec *parts, int n,
                                 ProtobufCMessage **out)
{
    mf_buf bytes = { 0 };
    mf_status st;

    if (n == 1)
        return mf_wire_decode(k->reply, parts->data, parts->size, NULL, k->arena, out);
    for (int i = 0; i < n; i++)
        mf_buf_bytes(&bytes, parts[i].data, parts[i].size);
    st = mf_buf_finish(&bytes);
    if (st == MF_OK)
        st = mf_wire_decode(k->reply, bytes.data, bytes.len, NULL, k->arena, out);
    mf_buf_deinit(&bytes);
    return st;
}

static void read_answer(const rpc_stub_call *k, mf_status st, const mf_iovec *parts, int n)
{
    ProtobufCMessage *reply = NULL;

    if (st == MF_OK) {
        st = rpc_stub_decode(k, parts, n, &reply);
        if (st != MF_OK)
            st = MF_FAIL(MF_INTERNAL, "cannot decode the reply of the server at %s: %s",
                         k->caller->address, mf_error_message());
    }
    mf_iovec_release(parts, n);
    k->done(k->ctx, st, reply);
}

static void rpc_stub_answered(void *ctx, mf_status status, const char *message, mf_iovec *parts,
                              int n)
{
    rpc_stub_call *k = ctx;

    mf_waiter_end(&k->pending);
    if (status != MF_OK)
        status = rpc_stub_refuse(k, status, message);
    if (k->done_parts)
        k->done_parts(k->ctx, status, parts, n);
    else
        read_answer(k, status, parts, n);
    rpc_stub_unref(k);
}

/* ---- requests ---- */

static void rpc_stub_give_up(mf_cancel_hook *hook)
{
    rpc_stub_call *k = (rpc_stub_call *)(void *)hook;
    mf_rpc_stub *c = k->caller;

    pthread_mutex_lock(&c->lock); /* keeps the call alive meanwhile */
    if (!k->pending.is_over)
        c->rpc->cancel(c->channel, k->asked);
    pthread_mutex_unlock(&c->lock);
}

static void rpc_stub_release_bytes(void *bytes)
{
    mf_free(bytes);
}

static mf_status make_call(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                           rpc_stub_call **out)
{
    rpc_stub_call *k = mf_calloc(1, sizeof *k);

    *out = k;
    if (!k)
        return MF_NOMEM("a call");
    *k = (rpc_stub_call){ .pending = mf_waiter_of(&c->lock, q->cancel, rpc_stub_give_up),
                          .caller = c,
                          .reply = q->reply,
                          .arena = arena };
    return MF_OK;
}

/* For a call that decodes its reply. */
static mf_status find_arena(rpc_stub_call *k)
{
    if (k->arena)
        return MF_OK;
    k->arena = mf_arena_new();
    k->owns_arena = true;
    return k->arena ? MF_OK : MF_NOMEM("a call");
}

/* One of done and done_parts is NULL. */
static void start_call(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                       mf_rpc_answer_fn *done, mf_rpc_answer_parts_fn *done_parts, void *ctx)
{
    mf_buf bytes = { 0 };
    mf_iovec part;
    mf_rpc_question question = { .method = q->method,
                                 .parts = &part,
                                 .n_parts = 1,
                                 .deadline_ns = q->deadline_ns ? q->deadline_ns : INT64_MAX,
                                 .waits = q->waits,
                                 .done = rpc_stub_answered };
    rpc_stub_call *k;
    mf_status st = make_call(c, q, arena, &k);

    if (st == MF_OK && done)
        st = find_arena(k);
    if (st == MF_OK)
        st = mf_wire_encode(q->message, &bytes);
    if (st != MF_OK) {
        mf_buf_deinit(&bytes);
        if (k && k->owns_arena)
            mf_arena_free(k->arena);
        mf_free(k);
        if (done)
            done(ctx, st, NULL);
        else
            done_parts(ctx, st, NULL, 0);
        return;
    }
    k->done = done;
    k->done_parts = done_parts;
    k->ctx = ctx;
    question.ctx = k;
    part = (mf_iovec){ .data = bytes.data,
                       .size = bytes.len,
                       .release = bytes.data ? rpc_stub_release_bytes : NULL,
                       .ctx = bytes.data };
    k->asked = c->rpc->ask(c->channel, &question);
    mf_waiter_begin(&k->pending);
    rpc_stub_unref(k);
}

void mf_rpc_stub_start(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                       mf_rpc_answer_fn *done, void *ctx)
{
    start_call(c, q, arena, done, NULL, ctx);
}

void mf_rpc_stub_start_parts(mf_rpc_stub *c, const mf_rpc_stub_call *q,
                             mf_rpc_answer_parts_fn *done, void *ctx)
{
    start_call(c, q, NULL, NULL, done, ctx);
}

/* ---- blocking calls ---- */

typedef struct rpc_stub_awaited {
    mf_rpc_stub *caller;
    bool done; /* guarded by the caller's lock, as the fields below */
    mf_error why;
    ProtobufCMessage *reply;
} rpc_stub_awaited;

static void rpc_stub_on_reply(void *ctx, mf_status status, ProtobufCMessage *reply)
{
    rpc_stub_awaited *a = ctx;
    mf_rpc_stub *c = a->caller;

    pthread_mutex_lock(&c->lock);
    mf_error_save(status, &a->why);
    a->reply = reply;
    a->done = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* The caller holds the lock. */
static void wait_for_answer(mf_rpc_stub *c, const mf_rpc_stub_call *q)
{
    if (!q->poll) {
        pthread_cond_wait(&c->changed, &c->lock);
        return;
    }
    if (mf_cond_wait_until(&c->changed, &c->lock, mf_clock_ns() + LOOK_NS))
        return;
    pthread_mutex_unlock(&c->lock);
    q->poll(q->ctx);
    pthread_mutex_lock(&c->lock);
}

mf_status mf_rpc_stub_ask(mf_rpc_stub *c, const mf_rpc_stub_call *q, mf_arena *arena,
                          ProtobufCMessage **out)
{
    rpc_stub_awaited a = { .caller = c };

    *out = NULL;
    mf_rpc_stub_start(c, q, arena, rpc_stub_on_reply, &a);
    pthread_mutex_lock(&c->lock);
    while (!a.done)
        wait_for_answer(c, q);
    pthread_mutex_unlock(&c->lock);
    if (a.why.status != MF_OK)
        return mf_error_restore(&a.why);
    *out = a.reply;
    return MF_OK;
}
