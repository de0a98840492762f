/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - see caller.h. */
#include "client/caller.h"

#include "base/cond.h"
#include "comm/rpc.h"
#include "proto/wire.h"

#include <stdio.h>
#include <string.h>

struct mf_caller {
    const mf_rpc_kind *rpc;
    mf_rpc_channel *channel;
    char *address;
    pthread_mutex_t lock; /* of all calls' states */
    pthread_cond_t changed;
};

/* A question on its way. */
typedef struct call {
    mf_cancel_hook hook; /* first */
    mf_caller *caller;
    const mf_question *q;
    mf_arena *arena;
    void *asked; /* for cancelling; valid while !done */
    bool done; /* guarded by the caller's lock, as is all below */
    mf_error why;
    ProtobufCMessage *reply;
} call;

/* ---- opening ---- */

mf_status mf_caller_new(const char *address, const mf_security *security, mf_caller **out)
{
    mf_caller *c = mf_calloc(1, sizeof *c);
    mf_status st;

    *out = NULL;
    if (!c)
        return MF_NOMEM("a connection");
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    c->address = mf_strdup(address);
    st = c->address ? mf_rpc_find(&c->rpc) : MF_NOMEM("a connection");
    if (st == MF_OK)
        st = c->rpc->connect(address, security, &c->channel);
    if (st != MF_OK) {
        mf_caller_free(c);
        return st;
    }
    *out = c;
    return MF_OK;
}

void mf_caller_free(mf_caller *c)
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

const char *mf_caller_address(const mf_caller *c)
{
    return c->address;
}

/* ---- the answer ---- */

/* What gRPC says of its own knows neither whom we asked nor what to do. */
static mf_status refuse(const call *k, mf_status status, const char *message)
{
    const char *address = k->caller->address;

    if (k->q->cancel && mf_cancel_is_raised(k->q->cancel))
        return MF_FAIL(MF_CANCELLED, "the call of the server at %s was cancelled", address);
    if (status == MF_UNAVAILABLE || status == MF_DEADLINE_EXCEEDED)
        return MF_FAIL(status, "asking the server at %s: %s", address, message);
    return MF_FAIL(status, "%s", message);
}

static mf_status read_answer(call *k, const void *data, size_t size)
{
    const mf_status st = mf_wire_decode(k->q->reply, data, size, NULL, k->arena, &k->reply);

    return st == MF_OK ? MF_OK
                       : MF_FAIL(MF_INTERNAL, "the answer of the server at %s cannot be read: %s",
                                 k->caller->address, mf_error_message());
}

static void answered(void *ctx, mf_status status, const char *message, const void *data,
                     size_t size)
{
    call *k = ctx;
    mf_caller *c = k->caller;
    const mf_status st = status == MF_OK ? read_answer(k, data, size) : refuse(k, status, message);

    pthread_mutex_lock(&c->lock);
    mf_error_save(st, &k->why);
    k->done = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* ---- the question ---- */

static void give_up(mf_cancel_hook *hook)
{
    call *k = (call *)(void *)hook;
    mf_caller *c = k->caller;

    pthread_mutex_lock(&c->lock); /* so that it is not done meanwhile */
    if (!k->done)
        c->rpc->cancel(c->channel, k->asked);
    pthread_mutex_unlock(&c->lock);
}

static void await(call *k)
{
    mf_caller *c = k->caller;
    const bool hooked = k->q->cancel && mf_cancel_add(k->q->cancel, &k->hook);

    if (k->q->cancel && !hooked)
        give_up(&k->hook);
    pthread_mutex_lock(&c->lock);
    while (!k->done)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    if (hooked)
        (void)mf_cancel_remove(k->q->cancel, &k->hook);
}

static void release_bytes(void *bytes)
{
    mf_free(bytes);
}

mf_status mf_caller_ask(mf_caller *c, const mf_question *q, mf_arena *arena, ProtobufCMessage **out)
{
    call k = { .hook.fn = give_up, .caller = c, .q = q, .arena = arena };
    mf_buf bytes = { 0 };
    mf_rpc_part part;
    mf_rpc_question question = { .method = q->method,
                                 .parts = &part,
                                 .n_parts = 1,
                                 .deadline_ns = q->deadline_ns ? q->deadline_ns : INT64_MAX,
                                 .waits = q->waits,
                                 .done = answered,
                                 .ctx = &k };
    mf_status st;

    *out = NULL;
    st = mf_wire_encode(q->message, &bytes);
    if (st != MF_OK) {
        mf_buf_deinit(&bytes);
        return st;
    }
    part = (mf_rpc_part){ .data = bytes.data,
                          .size = bytes.len,
                          .release = bytes.data ? release_bytes : NULL,
                          .ctx = bytes.data };
    k.asked = c->rpc->ask(c->channel, &question);
    await(&k);
    if (k.why.status != MF_OK)
        return mf_error_restore(&k.why);
    *out = k.reply;
    return MF_OK;
}
