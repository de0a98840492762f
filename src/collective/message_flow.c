/* SPDX-License-Identifier: Apache-2.0 */
/* message_flow.c - concurrent messages between members.
 *
 * Receives are posted before anything is sent, so bytes go directly from the connection to their
 * destination. A long message waits until its receiver is ready, so no task has to buffer data it
 * did not request. Every member announces what it is ready for before it waits, which excludes
 * deadlock. */
#include "base/param.h"
#include "collective/group_net.h"

#include <string.h>

MF_PARAM_INT(comm_eager_kib, 64, "KiB of a message sent before its receiver is ready");
MF_PARAM_INT(comm_frame_kib, 65536, "maximum KiB of a frame; longer messages are split");

typedef struct flowing {
    mf_net_group *g;
    const mf_collective *c;
    mf_frame frame; /* everything except its size */
    mf_net_waiter *waiters;
    int posted, n;
} flowing;

static int64_t frame_bytes(void)
{
    const int64_t bytes = MF_PARAM(comm_frame_kib) * 1024;

    return bytes < 1024 ? 1024 : bytes > MF_FRAME_MAX ? MF_FRAME_MAX : bytes;
}

static bool is_long(int64_t size)
{
    return size > MF_PARAM(comm_eager_kib) * 1024;
}

static int64_t pieces(int64_t size)
{
    return size == 0 ? 1 : (size + frame_bytes() - 1) / frame_bytes();
}

static mf_status message_flow_send_ready(const flowing *x, const mf_message_flow *f)
{
    mf_frame ready = x->frame;

    ready.kind = MF_MESSAGE_READY;
    return mf_net_send(x->g->net, x->g->tasks[f->rank], &ready, NULL, x->c->deadline_ns);
}

static void message_flow_post(flowing *x, const mf_message_flow *f)
{
    int64_t at = 0;

    do {
        mf_net_waiter *w = &x->waiters[x->posted++];
        const int64_t left = f->size - at;

        *w = (mf_net_waiter){ .frame = x->frame,
                              .from = x->g->tasks[f->rank],
                              .data = (char *)f->data + at,
                              .what = x->c->what };
        w->frame.size = (uint64_t)(left < frame_bytes() ? left : frame_bytes());
        at += (int64_t)w->frame.size;
        mf_net_post(x->g->net, w);
    } while (at < f->size);
}

static mf_status send_flow(const flowing *x, const mf_message_flow *f)
{
    const int task = x->g->tasks[f->rank];
    mf_frame frame = x->frame;
    int64_t at = 0;

    if (is_long(f->size)) {
        frame.kind = MF_MESSAGE_READY;
        MF_TRY(mf_net_recv(x->g->net, task, &frame, NULL, x->c->deadline_ns, x->c->what));
        frame.kind = MF_MESSAGE_COLLECTIVE;
    }
    do {
        const int64_t left = f->size - at;

        frame.size = (uint64_t)(left < frame_bytes() ? left : frame_bytes());
        MF_TRY(mf_net_send(x->g->net, task, &frame, (char *)f->data + at, x->c->deadline_ns));
        at += (int64_t)frame.size;
    } while (at < f->size);
    x->g->head.bytes += f->size;
    return MF_OK;
}

/* Messages to the member itself: the k-th sent is the k-th received. */
static void copy_own(const flowing *x, const mf_message_flow *flows, int n)
{
    int in = 0;

    for (int out = 0; out < n; out++) {
        if (!flows[out].out || flows[out].rank != x->g->head.rank)
            continue;
        while (flows[in].out || flows[in].rank != x->g->head.rank)
            in++;
        if (flows[out].size > 0)
            memcpy(flows[in].data, flows[out].data, (size_t)flows[out].size);
        in++;
    }
}

static mf_status message_flow_run(flowing *x, const mf_message_flow *flows, int n)
{
    const int self = x->g->head.rank;

    for (int i = 0; i < n; i++) {
        if (!flows[i].out && flows[i].rank != self)
            message_flow_post(x, &flows[i]);
    }
    for (int i = 0; i < n; i++) {
        if (!flows[i].out && flows[i].rank != self && is_long(flows[i].size))
            MF_TRY(message_flow_send_ready(x, &flows[i]));
    }
    copy_own(x, flows, n);
    for (int i = 0; i < n; i++) {
        if (flows[i].out && flows[i].rank != self)
            MF_TRY(send_flow(x, &flows[i]));
    }
    while (x->n < x->posted)
        MF_TRY(mf_net_finish(x->g->net, &x->waiters[x->n++], x->c->deadline_ns));
    return MF_OK;
}

mf_status mf_net_flow(mf_net_group *g, const mf_collective *c, const mf_message_flow *flows, int n)
{
    flowing x = { .g = g,
                  .c = c,
                  .frame = { .kind = MF_MESSAGE_COLLECTIVE,
                             .epoch = g->net->epoch,
                             .group = g->id,
                             .seq = g->seq,
                             .step = c->step } };
    int64_t incoming = 0;
    mf_status st;

    for (int i = 0; i < n; i++)
        incoming += flows[i].out ? 0 : pieces(flows[i].size);
    x.waiters = mf_net_group_alloc(g, incoming, sizeof *x.waiters);
    if (!x.waiters)
        return MF_RESOURCE_EXHAUSTED;
    st = message_flow_run(&x, flows, n);
    if (st != MF_OK) { /* the thread's error is that of the first failure */
        mf_error e;

        mf_error_save(st, &e);
        for (; x.n < x.posted; x.n++)
            mf_net_unpost(g->net, &x.waiters[x.n]);
        (void)mf_error_restore(&e);
    }
    return st;
}
