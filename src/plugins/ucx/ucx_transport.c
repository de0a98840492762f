/* SPDX-License-Identifier: Apache-2.0 */
/* ucx_transport.c - the transport `ucx`: opening, connecting, closing. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "plugins/common/host.h"
#include "plugins/ucx/ucx_wire.h"

#include <stdio.h>
#include <string.h>

static const mf_transport_kind mf_transport_ucx;

/* UCX neither encrypts nor supports certificates. */
static mf_status check_address(const ucx_wire *t, const mf_endpoint *e, const char *address,
                               const char *verb)
{
    if (t->security.trusted || mf_endpoint_is_loopback(e))
        return MF_OK;
    return MF_FAIL(
        MF_FAILED_PRECONDITION,
        "%s %s with UCX, which does not encrypt, allows any host of that network to read and "
        "join: declare it trusted (--trusted-network), or use transport 'grpc' with certificates "
        "(`meshflow cert`)",
        verb, address);
}

/* ---- opening ---- */

static mf_status ucx_transport_find_address(ucx_wire *t, const mf_transport_options *o)
{
    if (o->address) {
        MF_TRY(mf_endpoint_parse(o->address, &t->at));
        (void)snprintf(t->address, sizeof t->address, "%s", o->address);
    } else {
        MF_TRY(mf_endpoint_towards(o->meet ? o->meet : "127.0.0.1:0", &t->at));
        mf_endpoint_print(&t->at, t->address);
    }
    return check_address(t, &t->at, t->address, "listening at");
}

static mf_status ucx_transport_start(ucx_wire *t, const mf_transport_options *o)
{

    t->by_peer = mf_calloc(o->n_peers, sizeof(conn *));
    if (!t->by_peer)
        return MF_NOMEM("connections");
    MF_TRY(ucx_transport_find_address(t, o));
    MF_TRY(worker_open(t));
    t->hello = t->inbox->kind->greeting(t->inbox, t->address);
    if (!t->hello)
        return MF_RESOURCE_EXHAUSTED;
    if (mf_thread_start(&t->thread, wire_run, t) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    t->has_thread = true;
    return MF_OK;
}

static void ucx_close(mf_transport *transport);

static mf_status ucx_open(const mf_transport_options *o, mf_transport **out)
{
    ucx_wire *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("connections");
    t->base.kind = &mf_transport_ucx;
    t->inbox = o->inbox;
    t->n_peers = o->n_peers;
    t->security.trusted = o->security.trusted;
    t->efd = -1;
    t->last = &t->first;
    pthread_mutex_init(&t->lock, NULL);
    mf_cond_init(&t->changed);
    st = ucx_transport_start(t, o);
    if (st != MF_OK)
        ucx_close(&t->base);
    else
        *out = &t->base;
    return st;
}

static const char *ucx_address(const mf_transport *transport)
{
    return ((const ucx_wire *)transport)->address;
}

/* ---- connecting ---- */

static mf_status ucx_transport_await_answer(conn *c, int64_t deadline_ns)
{
    ucx_wire *t = c->t;
    bool late = false;
    mf_status st = MF_OK;

    pthread_mutex_lock(&t->lock);
    while (!c->answered && !c->dead && !late)
        late = !mf_cond_wait_until(&t->changed, &t->lock, deadline_ns);
    if (!c->answered && late)
        st = MF_FAIL(MF_DEADLINE_EXCEEDED, "no response");
    else if (!c->answered)
        st = MF_FAIL(MF_UNAVAILABLE, "no process listens there yet");
    else if (c->answer.status != MF_OK)
        st = MF_FAIL(c->answer.status, "%s", c->answer.message);
    c->called = NULL;
    pthread_mutex_unlock(&t->lock);
    return st;
}

static mf_status ucx_transport_greet(conn *c, const mf_endpoint *there, int64_t deadline_ns)
{
    ucx_wire *t = c->t;
    mf_status st;

    pthread_mutex_lock(&t->lock);
    st = worker_connect(c, there, NULL);
    pthread_mutex_unlock(&t->lock);
    MF_TRY(st);
    MF_TRY(conn_send(c, AM_HELLO, NULL, 0, t->hello, strlen(t->hello), deadline_ns, NULL));
    return ucx_transport_await_answer(c, deadline_ns);
}

static mf_status ucx_connect(mf_transport *transport, int peer, const char *address,
                             int64_t deadline_ns)
{
    ucx_wire *t = (ucx_wire *)transport;
    mf_endpoint there;
    conn *c;
    mf_status st;

    MF_TRY(mf_endpoint_parse(address, &there));
    MF_TRY(check_address(t, &there, address, "connecting to"));
    c = conn_new(t);
    if (!c)
        return MF_NOMEM("a connection");
    c->called = &there;
    c->wanted = peer;
    st = ucx_transport_greet(c, &there, deadline_ns);
    if (st == MF_OK)
        return MF_OK;
    pthread_mutex_lock(&t->lock);
    c->called = NULL;
    worker_disconnect(c, true);
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* ---- sending, closing ---- */

static conn *ucx_transport_find_peer(ucx_wire *t, int peer)
{
    conn *c;

    pthread_mutex_lock(&t->lock);
    c = t->by_peer[peer];
    pthread_mutex_unlock(&t->lock);
    return c;
}

static mf_status ucx_send(mf_transport *transport, int peer, const mf_frame *f, const void *data,
                          int64_t deadline_ns)
{
    conn *c = ucx_transport_find_peer((ucx_wire *)transport, peer);
    unsigned char head[MF_FRAME_BYTES];

    if (!c)
        return MF_FAIL(MF_UNAVAILABLE, "there is no connection");
    mf_frame_write(f, head);
    return conn_send(c, AM_FRAME, head, sizeof head, data, (size_t)f->size, deadline_ns, f);
}

static void ucx_drop(mf_transport *transport, int peer)
{
    ucx_wire *t = (ucx_wire *)transport;
    event *e;

    pthread_mutex_lock(&t->lock);
    if (t->by_peer[peer] && worker_note(t, EVENT_GONE, t->by_peer[peer], NULL, 0, &e)) {
        e->status = UCS_ERR_CANCELED;
        worker_wake(t);
    }
    pthread_mutex_unlock(&t->lock);
}

static void free_events(ucx_wire *t)
{
    while (t->first) {
        event *e = t->first;

        t->first = e->next;
        if (e->desc && t->worker)
            ucp_am_data_release(t->worker, e->desc);
        mf_free(e);
    }
    t->last = &t->first;
}

static void ucx_close(mf_transport *transport)
{
    ucx_wire *t = (ucx_wire *)transport;

    pthread_mutex_lock(&t->lock);
    t->closing = true;
    if (t->worker)
        worker_wake(t);
    pthread_mutex_unlock(&t->lock);
    if (t->has_thread)
        pthread_join(t->thread, NULL);
    pthread_mutex_lock(&t->lock);
    for (conn *c = t->all; c; c = c->next)
        worker_disconnect(c, c->dead);
    pthread_mutex_unlock(&t->lock);
    free_events(t);
    worker_close(t);
    free_events(t);
    while (t->all) {
        conn *c = t->all;

        t->all = c->next;
        mf_free(c);
    }
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mf_free(t->by_peer);
    mf_free(t);
}

static const mf_transport_kind mf_transport_ucx = {
    .name = "ucx",
    .about = "UCX between hosts of a trusted site: RDMA if available, not encrypted",
    .open = ucx_open,
    .address = ucx_address,
    .connect = ucx_connect,
    .send = ucx_send,
    .drop = ucx_drop,
    .close = ucx_close,
};

/* ---- the plugin ---- */

static const mf_transport_kind *const transports[] = { &mf_transport_ucx, NULL };

static const mf_plugin_v1 plugin = {
    .abi = MF_PLUGIN_ABI,
    .size = sizeof plugin,
    .name = "ucx",
    .about = "transport on UCX for trusted sites",
    .transports = transports,
};

const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host)
{
    mf_plugin_use(host);
    return &plugin;
}
