/* SPDX-License-Identifier: Apache-2.0 */
/* task_collective_hop.c - the hops of a chunk: receive, merge or keep, send on. Sent chunks are
 * never modified, so a sender does not wait until they are fetched. */
#include "base/clock.h"
#include "proto/buf_message.h"
#include "proto/worker.pb-c.h"
#include "tf_server/group_barrier.h"
#include "tf_server/peer_tasks.h"
#include "tf_server/task_collective.h"
#include "tf_server/task_collective_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- chunks ---- */

static void task_collective_hop_make_key(const mf_collective_run *r, const mf_hop_key *k,
                                         char key[MF_COLLECTIVE_KEY])
{
    (void)snprintf(key, MF_COLLECTIVE_KEY,
                   "%" PRId32 ":%" PRId32 ":%" PRIu64 ":%" PRId64 ":%d:%d:%d", r->collect->group,
                   r->collect->instance, r->kernel->frame, r->kernel->iteration, k->part[0],
                   k->part[1], k->part[2]);
}

/* This member's part, without a copy. */
static void take_own(const mf_collective_run *r, const mf_collective_route *route, mf_tensor *out)
{
    const mf_tensor *in = r->kernel->in[0];

    mf_tensor_set(out, in);
    out->shape = MF_SHAPE(route->count);
    out->count = route->count;
    if (in->data)
        out->data = (char *)in->data + route->own * (int64_t)mf_dtype_cell(in->dtype);
}

static mf_status task_collective_hop_merge(const mf_collective_run *r,
                                           const mf_collective_route *route, const void *received,
                                           mf_tensor *value)
{
    mf_tensor own = { 0 };

    MF_TRY(mf_tensor_alloc(value, r->collect->dtype, &MF_SHAPE(route->count)));
    take_own(r, route, &own);
    r->collect->merge(
        &(mf_span){ .in = { own.data, received }, .out = value->data, .n = route->count });
    mf_tensor_clear(&own);
    return MF_OK;
}

static void task_collective_hop_divide(const mf_collective_run *r, mf_tensor *value)
{
    if (r->collect->divide)
        r->collect->divide(&(mf_span){ .in = { value->data, r->size.data },
                                       .scalar = { false, true },
                                       .out = value->data,
                                       .n = value->count });
}

static mf_status task_collective_hop_send(const mf_collective_run *r, const mf_hop *hop,
                                          const mf_tensor *value)
{
    for (int i = 0; i < hop->n_sends; i++) {
        char key[MF_COLLECTIVE_KEY], place[MF_COLLECTIVE_PLACE];

        task_collective_hop_make_key(r, &hop->sends[i], key);
        mf_collective_place(key, place);
        MF_TRY(mf_rendezvous_table_send(r->rendezvous->table, place, value));
    }
    return MF_OK;
}

/* The chunk's part of the result. */
static void task_collective_hop_take_result(const mf_collective_run *r,
                                            const mf_collective_route *route, mf_tensor *out)
{
    mf_tensor_set(out, &r->out);
    out->shape = MF_SHAPE(route->count);
    out->count = route->count;
    out->data = (char *)r->out.data + route->first * (int64_t)mf_dtype_cell(r->out.dtype);
}

/* The chunk is final. */
static void task_collective_hop_keep(const mf_collective_run *r, const mf_collective_route *route,
                                     const void *data)
{
    const size_t bytes = mf_dtype_cell(r->out.dtype);

    if (route->count > 0)
        memcpy((char *)r->out.data + (size_t)route->first * bytes, data,
               (size_t)route->count * bytes);
}

/* ---- trips ---- */

static void task_collective_hop_receive(mf_chunk_transfer *t, const mf_hop *hop);

static void chunk_transfer_end(mf_chunk_transfer *t, mf_status st)
{
    mf_collective_run *r = t->run;

    mf_tensor_clear(&t->value);
    if (st != MF_OK)
        mf_collective_fail(r, st);
    mf_collective_release(r);
}

/* Merges the received data with this member's part, or stores it in the result. */
static mf_status apply_received(mf_chunk_transfer *t, const mf_hop *hop)
{
    const mf_collective_run *r = t->run;
    mf_status st = MF_OK;

    mf_tensor_clear(&t->value);
    if (hop->merges) {
        st = task_collective_hop_merge(r, t->route, t->received.data, &t->value);
    } else {
        task_collective_hop_keep(r, t->route, t->received.data);
        task_collective_hop_take_result(r, t->route, &t->value);
    }
    mf_iovec_release(&t->received, 1);
    t->received = (mf_iovec){ 0 };
    return st;
}

/* The chunk is complete for this hop: send it on. */
static mf_status task_collective_hop_pass_on(mf_chunk_transfer *t)
{
    const mf_hop *hop = &t->route->hops[t->hop];
    mf_collective_run *r = t->run;

    if (hop->from >= 0)
        MF_TRY(apply_received(t, hop));
    if (hop->finishes)
        task_collective_hop_divide(r, &t->value);
    t->hop++;
    if (hop->from < 0 && t->hop == t->route->n_hops)
        task_collective_hop_keep(r, t->route, t->value.data);
    return task_collective_hop_send(r, hop, &t->value);
}

void mf_chunk_transfer_run(mf_chunk_transfer *t)
{
    while (t->hop < t->route->n_hops) {
        const mf_hop *hop = &t->route->hops[t->hop];
        mf_status st;

        if (hop->from >= 0) {
            task_collective_hop_receive(t, hop);
            return;
        }
        if (t->hop == 0)
            take_own(t->run, t->route, &t->value);
        st = task_collective_hop_pass_on(t);
        if (st != MF_OK) {
            chunk_transfer_end(t, st);
            return;
        }
    }
    chunk_transfer_end(t, MF_OK);
}

/* Attributes the thread's error to this member. */
static mf_status task_collective_hop_blame(const mf_collective_run *r,
                                           const mf_group_resolver_member *m, mf_status st)
{
    char before[300];

    if (st == MF_ABORTED) { /* the member may have been restarted */
        mf_error why;

        mf_error_save(st, &why);
        mf_group_resolver_suspect(r->rendezvous->server, r->rendezvous->leader, r->collect, m);
        (void)mf_error_restore(&why);
    }
    (void)snprintf(before, sizeof before,
                   "group %d, instance %d: receiving from %s: ", r->collect->group,
                   r->collect->instance, m->device);
    return mf_error_wrap(st, before, "");
}

static void chunk_transfer_task(mf_task *task)
{
    mf_chunk_transfer *t = (mf_chunk_transfer *)(void *)task;
    const mf_status st = task_collective_hop_pass_on(t);

    if (st == MF_OK)
        mf_chunk_transfer_run(t);
    else
        chunk_transfer_end(t, st);
}

static void task_collective_hop_received(void *ctx, mf_status st, mf_iovec *parts, int n)
{
    mf_chunk_transfer *t = ctx;
    const mf_collective_run *r = t->run;
    const mf_hop *hop = &t->route->hops[t->hop];
    const size_t bytes = (size_t)t->route->count * mf_dtype_cell(r->collect->dtype);

    if (st == MF_OK)
        st = mf_buf_message_read(parts, n, bytes, &t->received);
    if (st != MF_OK) {
        chunk_transfer_end(t, task_collective_hop_blame(r, &r->group->members[hop->from], st));
        return;
    }
    t->task.fn = chunk_transfer_task;
    mf_pool_submit(r->rendezvous->server->pool, &t->task);
}

static void task_collective_hop_receive(mf_chunk_transfer *t, const mf_hop *hop)
{
    mf_collective_run *r = t->run;
    mf_server *server = r->rendezvous->server;
    const mf_group_resolver_member *from = &r->group->members[hop->from];
    Tensorflow__RecvBufRequest request = TENSORFLOW__RECV_BUF_REQUEST__INIT;
    const int64_t until = mf_deadline_ahead(r->deadline_ns);
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/RecvBuf",
                                 .message = &request.base,
                                 .deadline_ns = until == INT64_MAX ? 0 : until,
                                 .cancel = &r->cancel };
    mf_rpc_stub *caller;
    const mf_status st = mf_peer_tasks_caller(server->peers, from->task, &caller);
    char key[MF_COLLECTIVE_KEY];

    if (st != MF_OK) {
        chunk_transfer_end(t, task_collective_hop_blame(r, from, st));
        return;
    }
    task_collective_hop_make_key(r, &hop->key, key);
    request.step_id = r->rendezvous->step;
    request.buf_rendezvous_key = key;
    request.num_bytes = t->route->count * (int64_t)mf_dtype_cell(r->collect->dtype);
    request.src_device = (char *)(uintptr_t)from->device;
    request.dst_device = (char *)(uintptr_t)mf_server_self(server)->device;
    request.src_incarnation = from->incarnation;
    request.request_id = (int64_t)(mf_random_seed() >> 1 | 1);
    mf_rpc_stub_start_parts(caller, &q, task_collective_hop_received, t);
}

mf_status mf_chunk_transfers_make(mf_collective_run *r, mf_chunk_transfer **out)
{
    const mf_group_resolver *c = r->group;
    mf_collective_schedule_of of = {
        .collect = r->collect, .task = c->task, .n = c->n, .self = c->self, .source = c->source
    };

    MF_TRY(mf_shape_count(&r->shape, &of.count));
    MF_TRY(mf_collective_schedule_make(&of, r->arena, &r->routes));
    *out = MF_ARENA_ARRAY(r->arena, mf_chunk_transfer, r->routes.n + 1);
    if (!*out)
        return MF_NOMEM("a collective");
    for (int i = 0; i < r->routes.n; i++)
        (*out)[i] = (mf_chunk_transfer){ .run = r, .route = &r->routes.all[i] };
    if (r->collect->divide) {
        MF_TRY(mf_tensor_alloc(&r->size, r->collect->dtype, &MF_SCALAR));
        mf_tensor_put(&r->size, 0, r->collect->size);
    }
    return mf_tensor_alloc(&r->out, r->collect->dtype, &r->shape);
}
