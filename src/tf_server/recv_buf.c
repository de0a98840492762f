/* SPDX-License-Identifier: Apache-2.0 */
/* recv_buf.c - RecvBuf: another member of a group fetches a chunk from this one. */
#include "proto/buf_message.h"
#include "proto/worker.pb-c.h"
#include "tf_server/task_collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct recv_buf_fetch {
    mf_request *request;
    const Tensorflow__RecvBufRequest *asked;
} recv_buf_fetch;

/* The prefix separates chunks from other values of the table. */
void mf_collective_place(const char *key, char place[MF_COLLECTIVE_PLACE])
{
    (void)snprintf(place, MF_COLLECTIVE_PLACE, "RecvBuf %.*s", MF_COLLECTIVE_KEY - 1, key);
}

static mf_status reply(const recv_buf_fetch *f, const mf_tensor *value)
{
    const Tensorflow__RecvBufRequest *q = f->asked;
    int64_t bytes;

    if (!value || !mf_dtype_is_plain(value->dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s is not a chunk of a collective",
                       q->buf_rendezvous_key);
    bytes = value->count * (int64_t)mf_dtype_cell(value->dtype);
    if (bytes != q->num_bytes)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%s expects %lld bytes of %s, %s has %lld: their values differ in shape "
                       "or dtype",
                       q->dst_device, (long long)q->num_bytes, q->buf_rendezvous_key, q->src_device,
                       (long long)bytes);
    return mf_buf_message_make(value, &f->request->reply, &f->request->content);
}

/* A failure of the step here is passed on to the waiting member, which may be under another master.
 */
static void recv_buf_fetched(void *ctx, mf_status st, const mf_tensor *value)
{
    const recv_buf_fetch *f = ctx;

    if (st == MF_OK)
        st = reply(f, value);
    else
        st = MF_FAIL(st, "%s has ended the step: %s", mf_server_self(f->request->server)->name,
                     mf_error_message());
    mf_request_done(f->request, st);
}

static mf_status check_source(const mf_server *s, const Tensorflow__RecvBufRequest *q)
{
    if (strlen(q->buf_rendezvous_key) >= MF_COLLECTIVE_KEY)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.100s...' is not a rendezvous key",
                       q->buf_rendezvous_key);
    if (strcmp(q->src_device, mf_server_self(s)->device) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "this is %s, not '%.200s'", mf_server_self(s)->device,
                       q->src_device);
    if (q->src_incarnation != s->incarnation)
        return MF_FAIL(MF_ABORTED,
                       "RecvBuf expects a different device incarnation: %" PRIu64 " vs. %" PRIu64
                       ". Your worker job (\"%s\") was probably restarted. Check your worker job "
                       "for the reason why it was restarted.",
                       q->src_incarnation, s->incarnation, mf_server_self(s)->name);
    return MF_OK;
}

void mf_collective_recv_buf(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__RecvBufRequest *q = (const Tensorflow__RecvBufRequest *)message;
    recv_buf_fetch *f = MF_ARENA_NEW(r->arena, recv_buf_fetch);
    char place[MF_COLLECTIVE_PLACE];
    mf_rendezvous_table *table = NULL;
    mf_status st = f ? check_source(r->server, q) : MF_NOMEM("a call");

    if (st == MF_OK)
        st = mf_rendezvous_tables_enter(r->server->tables, q->step_id, &table);
    if (st != MF_OK) {
        mf_request_done(r, st);
        return;
    }
    *f = (recv_buf_fetch){ r, q };
    mf_collective_place(q->buf_rendezvous_key, place);
    mf_rendezvous_table_fetch(table, place, &r->cancel, recv_buf_fetched, f);
    mf_rendezvous_table_leave(table);
}
