/* SPDX-License-Identifier: Apache-2.0 */
/* ucx_frames.c - sends messages, and the thread that handles incoming ones. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "plugins/ucx/ucx_wire.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_NS = 20000000 }; /* interval of checks while a send is blocked */

conn *conn_new(ucx_wire *t)
{
    conn *c = mf_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->t = t;
    c->peer = -1;
    pthread_mutex_lock(&t->lock);
    c->next = t->all;
    t->all = c;
    pthread_mutex_unlock(&t->lock);
    return c;
}

/* ---- out ---- */

/* The caller holds the lock. A waiting thread also drives UCX; the receiving thread has no
 * substitute. */
static mf_status ucx_frames_wait_some(conn *c, int64_t deadline_ns, const mf_frame *f)
{
    ucx_wire *t = c->t;
    const bool thread = pthread_equal(pthread_self(), t->thread) != 0;
    const int64_t now = mf_clock_ns(), look = now + (thread ? LOOK_NS / 100 : LOOK_NS);
    const int64_t until = deadline_ns > 0 && deadline_ns < look ? deadline_ns : look;
    mf_status st = MF_OK;

    if (deadline_ns > 0 && now >= deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
    if (ucp_worker_progress(t->worker) != 0)
        return MF_OK;
    if (!mf_cond_wait_until(&t->changed, &t->lock, until) && f) {
        pthread_mutex_unlock(&t->lock);
        st = t->inbox->kind->waits(t->inbox, c->peer, f);
        pthread_mutex_lock(&t->lock);
    }
    return st;
}

static void ucx_frames_on_sent(void *request, ucs_status_t status, void *user_data)
{
    waiting *w = user_data;

    w->done = true;
    w->status = status;
    pthread_cond_broadcast(&w->t->changed);
    ucp_request_free(request);
}

/* The caller holds the lock and is the only sender on the connection. */
static mf_status send_one(conn *c, unsigned id, const void *head, size_t n_head, const void *data,
                          size_t n, int64_t deadline_ns, const mf_frame *f)
{
    waiting w = { .t = c->t };
    const ucp_request_param_t p = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = ucx_frames_on_sent,
        .user_data = &w,
        .flags = UCP_AM_SEND_FLAG_REPLY |
                 (f && n > SMALL ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
    };
    ucs_status_ptr_t r = ucp_am_send_nbx(c->ep, id, head, n_head, data, n, &p);
    mf_status st = MF_OK;

    worker_wake(c->t);
    if (!UCS_PTR_IS_PTR(r))
        return wire_error(UCS_PTR_RAW_STATUS(r), "send");
    while (!w.done && st == MF_OK)
        st = ucx_frames_wait_some(c, deadline_ns, f);
    if (!w.done) { /* it may be partially sent, and UCX refers to the caller's memory until the
                      connection is closed */
        worker_disconnect(c, true);
        while (!w.done)
            (void)pthread_cond_wait(&c->t->changed, &c->t->lock);
    }
    return st != MF_OK ? st : wire_error(w.status, "send");
}

mf_status conn_send(conn *c, unsigned id, const void *head, size_t n_head, const void *data,
                    size_t n, int64_t deadline_ns, const mf_frame *f)
{
    ucx_wire *t = c->t;
    mf_status st = MF_OK;

    pthread_mutex_lock(&t->lock);
    while (c->sending && !c->dead && st == MF_OK)
        st = ucx_frames_wait_some(c, deadline_ns, f);
    if (st == MF_OK && (c->dead || !c->ep))
        st = MF_FAIL(MF_UNAVAILABLE, "the connection is closed");
    if (st == MF_OK) {
        c->sending = true;
        st = send_one(c, id, head, n_head, data, n, deadline_ns, f);
        c->sending = false;
        c->dead |= st != MF_OK;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return st;
}

/* ---- receiving: the thread ---- */

static void ucx_frames_maybe_gone(conn *c)
{
    if (!c->over || c->fetching || c->notified || c->peer < 0)
        return;
    c->notified = true;
    c->t->inbox->kind->gone(c->t->inbox, c->peer, c->why);
}

static void end_conn(conn *c, const char *why)
{
    pthread_mutex_lock(&c->t->lock);
    if (c->why[0] == '\0')
        (void)snprintf(c->why, sizeof c->why, "%s", why);
    worker_disconnect(c, true);
    pthread_mutex_unlock(&c->t->lock);
    c->over = true;
    ucx_frames_maybe_gone(c);
}

static mf_status check_caller(ucx_wire *t, ucp_conn_request_h call)
{
    ucp_conn_request_attr_t attr = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR };
    mf_endpoint theirs = { .size = sizeof theirs.at };

    MF_TRY(wire_error(ucp_conn_request_query(call, &attr), "identify the caller"));
    memcpy(&theirs.at, &attr.client_address, sizeof theirs.at);
    if (t->security.trusted && !mf_endpoint_is_loopback(&theirs))
        return MF_OK;
    return mf_endpoint_check_owner(&theirs, &t->at);
}

static void take_call(ucx_wire *t, const event *e)
{
    conn *c = conn_new(t);
    mf_status st;

    pthread_mutex_lock(&t->lock);
    st = c ? check_caller(t, e->call) : MF_NOMEM("a connection");
    if (st == MF_OK)
        st = worker_connect(c, NULL, e->call);
    else
        (void)ucp_listener_reject(t->listener, e->call);
    pthread_mutex_unlock(&t->lock);
    if (st != MF_OK)
        MF_WARN("a connection was refused: %s", mf_error_message());
}

static void accept_hello(ucx_wire *t, const event *e)
{
    conn *c = e->c;
    int peer = -1;
    const mf_status st = c->peer >= 0 ? MF_FAIL(MF_INVALID_ARGUMENT, "it sent two greetings")
                                      : t->inbox->kind->hello(t->inbox, e->bytes, &peer);
    const char *text = st == MF_OK ? t->hello : mf_error_message();
    char answer[HELLO_MAX];
    const int n = snprintf(answer, sizeof answer, "%c%s", 'A' + (int)st, text);

    if (conn_send(c, AM_ANSWER, NULL, 0, answer, (size_t)n, mf_clock_ns() + 5000000000, NULL) !=
        MF_OK) {
        MF_WARN("cannot reply to a greeting: %s", mf_error_message());
        return;
    }
    if (st != MF_OK) { /* the peer closes it */
        t->inbox->kind->refused(t->inbox);
        return;
    }
    pthread_mutex_lock(&t->lock);
    c->peer = peer;
    t->by_peer[peer] = c;
    pthread_mutex_unlock(&t->lock);
    t->inbox->kind->ready(t->inbox, peer);
}

static mf_status check_answer(ucx_wire *t, conn *c, const char *text)
{
    int who = -1;

    if (text[0] < 'A' || text[0] > 'A' + MF_UNAUTHENTICATED)
        return MF_FAIL(MF_FAILED_PRECONDITION, "the process that listens there is not Meshflow");
    if (text[0] != 'A')
        return MF_FAIL((mf_status)(text[0] - 'A'), "%s", text + 1);
    if (!t->security.trusted)
        MF_TRY(mf_endpoint_check_owner(c->called, NULL));
    MF_TRY(t->inbox->kind->hello(t->inbox, text + 1, &who));
    if (who != c->wanted)
        return MF_FAIL(MF_FAILED_PRECONDITION, "another task listens there, with number %d", who);
    return MF_OK;
}

/* Done here rather than in connect(), because frames may follow immediately. */
static void ucx_frames_take_answer(ucx_wire *t, const event *e)
{
    conn *c = e->c;
    bool wanted;
    mf_status st;

    pthread_mutex_lock(&t->lock);
    wanted = c->called && !c->answered;
    pthread_mutex_unlock(&t->lock);
    if (!wanted)
        return;
    st = check_answer(t, c, e->bytes);
    pthread_mutex_lock(&t->lock);
    c->answered = true;
    c->answer.status = st;
    if (st == MF_OK) {
        c->peer = c->wanted;
        t->by_peer[c->peer] = c;
    } else {
        (void)snprintf(c->answer.message, sizeof c->answer.message, "%s", mf_error_message());
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (st == MF_OK)
        t->inbox->kind->ready(t->inbox, c->peer);
}

/* ---- frames ---- */

static void on_fetched(void *request, ucs_status_t status, size_t length, void *user_data)
{
    conn *c = user_data;
    event *e;

    (void)length;
    if (request)
        ucp_request_free(request);
    if (worker_note(c->t, EVENT_FETCHED, c, NULL, 0, &e))
        e->status = status;
}

static void finish_frame(conn *c, ucs_status_t status)
{
    ucx_wire *t = c->t;

    c->fetching = false;
    if (status == UCS_OK)
        t->inbox->kind->end(t->inbox, c->peer, &c->frame);
    else
        end_conn(c, ucs_status_string(status));
    ucx_frames_maybe_gone(c);
}

static void ucx_frames_fetch(ucx_wire *t, const event *e, void *to)
{
    conn *c = e->c;
    const ucp_request_param_t p = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = on_fetched,
        .user_data = c,
    };
    ucs_status_ptr_t r;

    c->fetching = true;
    pthread_mutex_lock(&t->lock);
    r = ucp_am_recv_data_nbx(t->worker, e->desc, to, e->size, &p);
    pthread_mutex_unlock(&t->lock);
    if (!UCS_PTR_IS_PTR(r))
        finish_frame(c, UCS_PTR_RAW_STATUS(r));
}

static void ucx_frames_release(ucx_wire *t, const event *e)
{
    if (!e->desc)
        return;
    pthread_mutex_lock(&t->lock);
    ucp_am_data_release(t->worker, e->desc);
    pthread_mutex_unlock(&t->lock);
}

static void ucx_frames_take_frame(ucx_wire *t, const event *e)
{
    conn *c = e->c;
    mf_frame f;
    void *to;

    if (c->over || c->peer < 0 || c->fetching || !mf_frame_read(e->head, &f) || f.size != e->size) {
        ucx_frames_release(t, e);
        if (!c->over)
            end_conn(c, "the peer sent an invalid message");
        return;
    }
    to = t->inbox->kind->begin(t->inbox, c->peer, &f);
    if (!to) {
        ucx_frames_release(t, e);
        end_conn(c, mf_error_message());
        return;
    }
    c->frame = f;
    if (e->desc) {
        ucx_frames_fetch(t, e, to);
        return;
    }
    if (f.size > 0)
        memcpy(to, e->bytes, f.size);
    t->inbox->kind->end(t->inbox, c->peer, &f);
}

static void ucx_frames_take(ucx_wire *t, const event *e)
{
    switch (e->what) {
    case EVENT_CALL:
        take_call(t, e);
        break;
    case EVENT_HELLO:
        accept_hello(t, e);
        break;
    case EVENT_ANSWER:
        ucx_frames_take_answer(t, e);
        break;
    case EVENT_FRAME:
        ucx_frames_take_frame(t, e);
        break;
    case EVENT_FETCHED:
        finish_frame(e->c, e->status);
        break;
    case EVENT_GONE:
        end_conn(e->c, e->status == UCS_ERR_CONNECTION_RESET ? "its connection was closed"
                                                             : ucs_status_string(e->status));
        break;
    }
}

/* ---- the thread ---- */

static event *take_events(ucx_wire *t, bool *closing)
{
    event *list;

    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < 100 && ucp_worker_progress(t->worker) != 0; i++)
        ;
    list = t->first;
    t->first = NULL;
    t->last = &t->first;
    *closing = t->closing;
    pthread_mutex_unlock(&t->lock);
    return list;
}

void *wire_run(void *arg)
{
    ucx_wire *t = arg;
    bool closing = false;

    while (!closing) {
        event *list = take_events(t, &closing);
        struct pollfd p = { .fd = t->efd, .events = POLLIN };
        ucs_status_t armed;

        if (list) {
            while (list) {
                event *e = list;

                list = e->next;
                ucx_frames_take(t, e);
                mf_free(e);
            }
            continue;
        }
        pthread_mutex_lock(&t->lock);
        armed = t->first ? UCS_ERR_BUSY : ucp_worker_arm(t->worker);
        pthread_mutex_unlock(&t->lock);
        if (armed == UCS_OK && !closing)
            (void)poll(&p, 1, 200);
    }
    return NULL;
}
