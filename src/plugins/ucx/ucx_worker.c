/* SPDX-License-Identifier: Apache-2.0 */
/* ucx_worker.c - context, worker and endpoints of UCX, and its callbacks. */
#include "base/mem.h"
#include "plugins/ucx/ucx_wire.h"

#include <stdio.h>
#include <string.h>

mf_status wire_error(ucs_status_t st, const char *what)
{
    return st == UCS_OK ? MF_OK
                        : MF_FAIL(MF_UNAVAILABLE, "UCX cannot %s: %s", what, ucs_status_string(st));
}

/* ---- events ---- */

bool worker_note(ucx_wire *t, happening what, conn *c, const void *bytes, size_t size, event **out)
{
    event *e = mf_calloc(1, sizeof *e + size + 1);

    *out = e;
    if (!e)
        return false;
    e->what = what;
    e->c = c;
    e->size = size;
    if (size > 0 && bytes)
        memcpy(e->bytes, bytes, size);
    *t->last = e;
    t->last = &e->next;
    return true;
}

void worker_wake(ucx_wire *t)
{
    (void)ucp_worker_signal(t->worker);
}

static conn *find_conn(ucx_wire *t, ucp_ep_h ep)
{
    conn *c = t->all;

    while (c && c->ep != ep)
        c = c->next;
    return c;
}

static ucs_status_t ucx_worker_take_text(ucx_wire *t, happening what, void *data, size_t length,
                                         const ucp_am_recv_param_t *param)
{
    conn *c = find_conn(t, param->reply_ep);
    event *e;

    if (!c || length >= HELLO_MAX || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        return UCS_OK; /* not ours: the sender will time out */
    (void)worker_note(t, what, c, data, length, &e);
    return UCS_OK;
}

static ucs_status_t on_hello(void *arg, const void *header, size_t n_header, void *data,
                             size_t length, const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)n_header;
    return ucx_worker_take_text(arg, EVENT_HELLO, data, length, param);
}

static ucs_status_t ucx_worker_on_answer(void *arg, const void *header, size_t n_header, void *data,
                                         size_t length, const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)n_header;
    return ucx_worker_take_text(arg, EVENT_ANSWER, data, length, param);
}

static ucs_status_t on_frame(void *arg, const void *header, size_t n_header, void *data,
                             size_t length, const ucp_am_recv_param_t *param)
{
    const bool later = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    ucx_wire *t = arg;
    conn *c = find_conn(t, param->reply_ep);
    event *e;

    if (!c || n_header != MF_FRAME_BYTES ||
        !worker_note(t, EVENT_FRAME, c, later ? NULL : data, later ? 0 : length, &e))
        return UCS_OK;
    memcpy(e->head, header, MF_FRAME_BYTES);
    e->size = length;
    e->desc = later ? data : NULL;
    return later ? UCS_INPROGRESS : UCS_OK;
}

static void on_call(ucp_conn_request_h call, void *arg)
{
    event *e;

    if (worker_note(arg, EVENT_CALL, NULL, NULL, 0, &e))
        e->call = call;
}

static void ucx_worker_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    conn *c = arg;
    event *e;

    (void)ep;
    c->dead = true;
    pthread_cond_broadcast(&c->t->changed);
    if (worker_note(c->t, EVENT_GONE, c, NULL, 0, &e))
        e->status = status;
}

/* ---- opening ---- */

static mf_status handle(ucx_wire *t, unsigned id, ucp_am_recv_callback_t cb)
{
    const ucp_am_handler_param_t p = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = cb,
        .arg = t,
    };

    return wire_error(ucp_worker_set_am_recv_handler(t->worker, &p), "receive");
}

static mf_status open_context(ucx_wire *t)
{
    const ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                             .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP };
    ucp_config_t *config;
    mf_status st;

    MF_TRY(wire_error(ucp_config_read(NULL, NULL, &config), "read its settings"));
    /* For data, UCX listens on every network it finds; without trust only loopback is allowed. */
    st = t->security.trusted
             ? MF_OK
             : wire_error(ucp_config_modify(config, "NET_DEVICES", "lo"), "restrict it to "
                                                                          "loopback");
    if (st == MF_OK) /* a restarted task listens on the same address */
        st = wire_error(ucp_config_modify(config, "CM_REUSEADDR", "y"), "listen again");
    if (st == MF_OK)
        st = wire_error(ucp_init(&p, config, &t->context), "start");
    ucp_config_release(config);
    return st;
}

static mf_status open_listener(ucx_wire *t)
{
    const ucp_listener_params_t p = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = { (const struct sockaddr *)&t->at.at, t->at.size },
        .conn_handler = { on_call, t },
    };
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
    const ucs_status_t st = ucp_listener_create(t->worker, &p, &t->listener);
    char *colon;

    if (st == UCS_ERR_BUSY)
        return MF_FAIL(MF_ALREADY_EXISTS,
                       "cannot listen at %s: another task or program listens there", t->address);
    if (st != UCS_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "cannot listen at %s: %s", t->address,
                       ucs_status_string(st));
    MF_TRY(wire_error(ucp_listener_query(t->listener, &attr), "query its address"));
    memcpy(&t->at.at, &attr.sockaddr, sizeof t->at.at);
    colon = strrchr(t->address, ':');
    (void)snprintf(colon, sizeof t->address - (size_t)(colon - t->address), ":%d",
                   mf_endpoint_port(&t->at));
    return MF_OK;
}

mf_status worker_open(ucx_wire *t)
{
    const ucp_worker_params_t p = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                    .thread_mode = UCS_THREAD_MODE_SERIALIZED };

    MF_TRY(open_context(t));
    MF_TRY(wire_error(ucp_worker_create(t->context, &p, &t->worker), "create a worker"));
    MF_TRY(wire_error(ucp_worker_get_efd(t->worker, &t->efd), "sleep"));
    MF_TRY(handle(t, AM_HELLO, on_hello));
    MF_TRY(handle(t, AM_ANSWER, on_answer));
    MF_TRY(handle(t, AM_FRAME, on_frame));
    return open_listener(t);
}

void worker_close(ucx_wire *t)
{
    if (t->listener)
        ucp_listener_destroy(t->listener);
    if (t->worker)
        ucp_worker_destroy(t->worker);
    if (t->context)
        ucp_cleanup(t->context);
    t->listener = NULL;
    t->worker = NULL;
    t->context = NULL;
}

/* ---- endpoints ---- */

mf_status worker_connect(conn *c, const mf_endpoint *there, ucp_conn_request_h call)
{
    ucp_ep_params_t p = { .field_mask =
                              UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                          .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                          .err_handler = { ucx_worker_on_error, c } };

    if (call) {
        p.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
        p.conn_request = call;
    } else {
        p.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
        p.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
        p.sockaddr.addr = (const struct sockaddr *)&there->at;
        p.sockaddr.addrlen = there->size;
    }
    return wire_error(ucp_ep_create(c->t->worker, &p, &c->ep), "connect");
}

void worker_disconnect(conn *c, bool force)
{
    const ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                    .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0 };
    ucs_status_ptr_t r;

    if (!c->ep)
        return;
    r = ucp_ep_close_nbx(c->ep, &p);
    c->ep = NULL;
    c->dead = true;
    pthread_cond_broadcast(&c->t->changed);
    for (int i = 0;
         UCS_PTR_IS_PTR(r) && i < 100000 && ucp_request_check_status(r) == UCS_INPROGRESS; i++)
        (void)ucp_worker_progress(c->t->worker);
    if (UCS_PTR_IS_PTR(r))
        ucp_request_free(r);
    worker_wake(c->t);
}
