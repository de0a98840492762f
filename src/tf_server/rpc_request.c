/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_request.c - dispatches an incoming call: method, message, reply. */
#include "base/quota.h"
#include "proto/wire.h"
#include "tf_server/caller_role.h"
#include "tf_server/master.h"
#include "tf_server/worker.h"

#include <string.h>

/* ---- one call ---- */

static mf_request *request_new(mf_server *s, mf_rpc_call *call)
{
    mf_request *r = mf_calloc(1, sizeof *r);

    if (!r)
        return NULL;
    *r = (mf_request){ .server = s, .call = call, .arena = mf_arena_new(), .refs = 1 };
    mf_cancel_init(&r->cancel);
    pthread_mutex_lock(&s->lock);
    call->state = r;
    pthread_mutex_unlock(&s->lock);
    if (atomic_load(&call->gone)) /* cancelled before it was registered */
        mf_cancel_raise(&r->cancel);
    return r;
}

static void request_unref(mf_request *r)
{
    bool last;

    pthread_mutex_lock(&r->server->lock);
    last = --r->refs == 0;
    pthread_mutex_unlock(&r->server->lock);
    if (!last)
        return;
    mf_cancel_deinit(&r->cancel);
    mf_arena_free(r->arena);
    mf_quota_give_back(r->charged);
    mf_buf_deinit(&r->reply);
    mf_iovec_release(&r->content, 1);
    mf_free(r);
}

static void rpc_request_release_bytes(void *bytes)
{
    mf_free(bytes);
}

/* Ownership of the bytes is transferred. */
static void rpc_request_answer(mf_request *r, mf_status st)
{
    const mf_iovec parts[2] = { { .data = r->reply.data,
                                  .size = r->reply.len,
                                  .release = r->reply.data ? rpc_request_release_bytes : NULL,
                                  .ctx = r->reply.data },
                                r->content };
    mf_server *s = r->server;
    int n = 0;

    pthread_mutex_lock(&s->lock);
    r->call->state = NULL;
    pthread_mutex_unlock(&s->lock);
    if (st == MF_OK) {
        n = r->content.data ? 2 : 1;
        r->reply = (mf_buf){ 0 };
        r->content = (mf_iovec){ 0 };
    }
    r->call->kind->answer(r->call, st, st == MF_OK ? NULL : mf_error_message(), parts, n);
}

mf_status mf_request_reply(mf_request *r, const ProtobufCMessage *message)
{
    return mf_wire_encode(message, &r->reply);
}

/* ---- memory ---- */

mf_status mf_request_keep(const mf_request *r, int64_t *kept)
{
    const int64_t bytes = r->charged + (int64_t)mf_arena_used(r->arena);

    MF_TRY(mf_quota_take(bytes));
    *kept += bytes;
    return MF_OK;
}

/* ---- the service ---- */

static const mf_method *rpc_request_find(const char *name)
{
    static const mf_method *const services[] = { mf_master_methods, mf_worker_methods };

    for (int i = 0; i < MF_COUNT(services); i++) {
        for (const mf_method *m = services[i]; m->name; m++) {
            if (strcmp(m->name, name) == 0)
                return m;
        }
    }
    return NULL;
}

/* Charges the bytes of the request; the decoded message is heap memory, which is charged anyway. */
static mf_status rpc_request_charge(mf_request *r, size_t bytes)
{
    MF_TRY(mf_quota_take((int64_t)bytes));
    r->charged += (int64_t)bytes;
    return MF_OK;
}

static mf_status rpc_request_decode(mf_request *r, const mf_method *m, const void *data,
                                    size_t size, ProtobufCMessage **out)
{
    const size_t usual = ((size_t)16 << 20) + 32 * size, room = (size_t)mf_quota_room();
    const mf_wire_limits limits = { .max_alloc = usual < room ? usual : room };
    const mf_status st = mf_wire_decode(m->message, data, size, &limits, r->arena, out);

    return st == MF_INVALID_ARGUMENT
               ? MF_FAIL(MF_INTERNAL, "cannot parse the request: %s", mf_error_message())
               : st;
}

static mf_status rpc_request_read_request(mf_request *r, const char *name, const void *data,
                                          size_t size, const mf_method **method,
                                          ProtobufCMessage **out)
{
    *method = rpc_request_find(name);
    if (!*method)
        return MF_FAIL(MF_UNIMPLEMENTED, "there is no method %s", name);
    if (!r->arena)
        return MF_NOMEM("a request");
    MF_TRY(rpc_request_charge(r, size));
    return rpc_request_decode(r, *method, data, size, out);
}

void mf_request_done(mf_request *r, mf_status status)
{
    rpc_request_answer(r, status);
    request_unref(r);
}

static void called(void *ctx, mf_rpc_call *call, const char *method, const void *data, size_t size)
{
    mf_server *s = ctx;
    mf_request *r;
    const mf_method *m;
    ProtobufCMessage *message;
    mf_status st = mf_role_check(&s->tasks, call->tasks, method);

    if (st != MF_OK) {
        call->kind->answer(call, st, mf_error_message(), NULL, 0);
        return;
    }
    r = request_new(s, call);
    if (!r) {
        call->kind->answer(call, MF_RESOURCE_EXHAUSTED, "not enough memory for a request", NULL, 0);
        return;
    }
    st = rpc_request_read_request(r, method, data, size, &m, &message);
    if (st == MF_OK && m->start)
        m->start(r, message);
    else
        mf_request_done(r, st == MF_OK ? m->run(r, message) : st);
}

static void rpc_request_cancelled(void *ctx, mf_rpc_call *call)
{
    mf_server *s = ctx;
    mf_request *r;

    pthread_mutex_lock(&s->lock);
    r = call->state;
    if (r)
        r->refs++;
    pthread_mutex_unlock(&s->lock);
    if (!r)
        return;
    mf_cancel_raise(&r->cancel);
    request_unref(r);
}

const mf_rpc_service mf_server_service = { called, rpc_request_cancelled };
