/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_rpc_client.c - outgoing calls: each is one gRPC batch, whose completion is handled by a
 * thread of the channel. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "base/race.h"
#include "base/thread.h"
#include "plugins/grpc/grpc_plugin.h"
#include "plugins/grpc/grpc_rpc.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>

typedef struct grpc_rpc_client_asked grpc_rpc_client_asked;

struct mf_rpc_channel {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    grpc_rpc_client_asked *all; /* calls in flight */
};

struct grpc_rpc_client_asked {
    mf_rpc_channel *c;
    grpc_rpc_client_asked *next;
    grpc_call *call;
    mf_rpc_done_fn *done;
    void *ctx;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
};

/* ---- completion ---- */

static void grpc_rpc_client_forget(grpc_rpc_client_asked *a)
{
    mf_rpc_channel *c = a->c;

    pthread_mutex_lock(&c->lock);
    for (grpc_rpc_client_asked **at = &c->all; *at; at = &(*at)->next) {
        if (*at == a) {
            *at = a->next;
            break;
        }
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void free_asked(grpc_rpc_client_asked *a)
{
    if (a->call)
        grpc_call_unref(a->call);
    if (a->request)
        grpc_byte_buffer_destroy(a->request);
    if (a->reply)
        grpc_byte_buffer_destroy(a->reply);
    grpc_metadata_array_destroy(&a->initial);
    grpc_metadata_array_destroy(&a->trailing);
    grpc_slice_unref(a->details);
    mf_free(a);
}

/* Statuses have the same numbers; invalid numbers become UNKNOWN. */
static mf_status status_of(grpc_status_code code)
{
    return code >= GRPC_STATUS_OK && code <= GRPC_STATUS_UNAUTHENTICATED ? (mf_status)code
                                                                         : MF_UNKNOWN;
}

/* The reason why a retry by gRPC would be useless; NULL: it may succeed. */
static const char *permanent_failure(mf_status st, const char *message)
{
    if (st != MF_UNAVAILABLE)
        return NULL;
    if (strstr(message, "certificate verify failed"))
        return "the certificate of the server is not from our authority, not for that address, "
               "or has expired";
    if (strstr(message, "wrong version number"))
        return "the server does not use TLS: start it with --tls-dir, or connect without TLS";
    return NULL;
}

/* gRPC's message for a failed connection, shortened to its last part, the system's message. */
static const char *grpc_rpc_client_plain(mf_status st, const char *message, char *text, size_t size)
{
    static const char no_name[] = "DNS resolution failed for ", no_way[] = "failed to connect to ";
    const char *last = strrchr(message, ':');

    if (st != MF_UNAVAILABLE)
        return message;
    if (strncmp(message, no_name, strlen(no_name)) == 0) {
        message += strlen(no_name);
        (void)snprintf(text, size, "the name '%.*s' does not resolve", (int)strcspn(message, ":"),
                       message);
        return text;
    }
    if (strncmp(message, no_way, strlen(no_way)) != 0 || !last)
        return message;
    return last + strspn(last, ": ");
}

static void grpc_rpc_client_hand_over(grpc_rpc_client_asked *a)
{
    char text[300];
    char *details = grpc_slice_to_c_string(a->details);
    mf_status st = status_of(a->status);
    const char *why = permanent_failure(st, details);
    const char *message = why ? why : grpc_rpc_client_plain(st, details, text, sizeof text);
    mf_iovec *parts = NULL;
    int n = 0;

    if (st == MF_OK && !rpc_message_parts(a->reply, &parts, &n)) {
        st = MF_INTERNAL;
        message = "cannot read the reply";
    }
    a->done(a->ctx, why ? MF_UNAUTHENTICATED : st, message, parts, n);
    mf_free(parts);
    gpr_free(details);
}

static void *grpc_rpc_client_take_completions(void *arg)
{
    mf_rpc_channel *c = arg;

    for (;;) {
        const grpc_event e =
            grpc_completion_queue_next(c->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        grpc_rpc_client_asked *a = e.tag;

        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        mf_race_take(a);
        grpc_rpc_client_hand_over(a);
        grpc_rpc_client_forget(a);
        free_asked(a);
    }
}

/* ---- requests ---- */

static gpr_timespec grpc_rpc_client_time_of(int64_t deadline_ns)
{
    const int64_t left = deadline_ns - mf_clock_ns();

    if (deadline_ns == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(left > 0 ? left : 0, GPR_TIMESPAN));
}

static bool grpc_rpc_client_start(grpc_rpc_client_asked *a, const mf_rpc_question *q)
{
    grpc_call *call = a->call; /* a may be freed immediately */
    grpc_op ops[6] = { 0 };

    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (q->waits)
        ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                       GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = a->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &a->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &a->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &a->trailing;
    ops[5].data.recv_status_on_client.status = &a->status;
    ops[5].data.recv_status_on_client.status_details = &a->details;
    mf_race_give(a);
    return grpc_call_start_batch(call, ops, MF_COUNT(ops), a, NULL) == GRPC_CALL_OK;
}

static void *rpc_ask(mf_rpc_channel *c, const mf_rpc_question *q)
{
    grpc_rpc_client_asked *a = mf_calloc(1, sizeof *a);
    grpc_slice method;

    if (!a) {
        q->done(q->ctx, MF_RESOURCE_EXHAUSTED, "no memory for a call", NULL, 0);
        return NULL;
    }
    a->c = c;
    a->done = q->done;
    a->ctx = q->ctx;
    a->details = grpc_empty_slice();
    grpc_metadata_array_init(&a->initial);
    grpc_metadata_array_init(&a->trailing);
    a->request = rpc_message_make(q->parts, q->n_parts);
    method = grpc_slice_from_copied_string(q->method);
    a->call = grpc_channel_create_call(c->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->queue, method,
                                       NULL, grpc_rpc_client_time_of(q->deadline_ns), NULL);
    grpc_slice_unref(method);
    pthread_mutex_lock(&c->lock);
    a->next = c->all;
    c->all = a;
    pthread_mutex_unlock(&c->lock);
    if (a->request && grpc_rpc_client_start(a, q))
        return a;
    grpc_rpc_client_forget(a);
    free_asked(a);
    q->done(q->ctx, MF_RESOURCE_EXHAUSTED, "no memory for a call", NULL, 0);
    return NULL;
}

static bool rpc_reaches(mf_rpc_channel *c)
{
    return grpc_channel_check_connectivity_state(c->channel, 0) == GRPC_CHANNEL_READY;
}

static void rpc_cancel(mf_rpc_channel *c, void *which)
{
    grpc_call *call = NULL;

    pthread_mutex_lock(&c->lock);
    for (grpc_rpc_client_asked *a = c->all; a && !call; a = a->next) {
        if (a == which)
            call = a->call;
    }
    if (call)
        grpc_call_ref(call);
    pthread_mutex_unlock(&c->lock);
    if (!call)
        return;
    (void)grpc_call_cancel(call, NULL);
    grpc_call_unref(call);
}

/* ---- opening and closing ---- */

static void grpc_rpc_client_cancel_all(mf_rpc_channel *c)
{
    pthread_mutex_lock(&c->lock);
    for (const grpc_rpc_client_asked *a = c->all; a; a = a->next)
        (void)grpc_call_cancel(a->call, NULL); /* does not call back synchronously */
    while (c->all)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static void rpc_disconnect(mf_rpc_channel *c)
{
    if (c->has_thread)
        grpc_rpc_client_cancel_all(c);
    if (c->queue)
        grpc_completion_queue_shutdown(c->queue);
    if (c->has_thread)
        pthread_join(c->thread, NULL);
    if (c->channel)
        grpc_channel_destroy(c->channel);
    if (c->queue)
        grpc_completion_queue_destroy(c->queue);
    grpc_shutdown();
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mf_free(c);
}

static grpc_channel *make_channel(const char *address, grpc_channel_credentials *credentials)
{
    static const grpc_arg settings[] = {
        MF_GRPC_SETTING(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1),
        MF_GRPC_SETTING(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20),
        MF_GRPC_SETTING(GRPC_ARG_ENABLE_RETRIES, 0),
        MF_GRPC_SETTING(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        MF_GRPC_SETTING(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        MF_GRPC_SETTING(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        MF_GRPC_SETTING(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50),
        MF_GRPC_SETTING(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10000), /* limit for one attempt */
        MF_GRPC_SETTING(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
    };
    const grpc_channel_args args = { MF_COUNT(settings), (grpc_arg *)(uintptr_t)settings };
    char target[MF_ADDRESS_MAX + 16];

    (void)snprintf(target, sizeof target, "dns:///%s", address);
    return grpc_channel_create(target, credentials, &args);
}

static mf_status grpc_rpc_client_open_all(mf_rpc_channel *c, const char *address,
                                          const mf_security *security)
{
    grpc_server_credentials *unused = NULL;
    grpc_channel_credentials *credentials = NULL;
    mf_endpoint at;
    mf_status st;

    MF_TRY(mf_security_check_files(security));
    if (mf_endpoint_parse(address, &at) == MF_OK) /* the name may resolve later */
        MF_TRY(mf_security_check_address(security, &at, address, "calling"));
    st = security_open(security, &unused, &credentials);
    if (st == MF_OK) {
        c->queue = grpc_completion_queue_create_for_next(NULL);
        c->channel = make_channel(address, credentials);
    }
    if (unused)
        grpc_server_credentials_release(unused);
    if (credentials)
        grpc_channel_credentials_release(credentials);
    MF_TRY(st);
    if (mf_thread_start(&c->thread, grpc_rpc_client_take_completions, c) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    c->has_thread = true;
    return MF_OK;
}

static mf_status rpc_connect(const char *address, const mf_security *security, mf_rpc_channel **out)
{
    mf_rpc_channel *c = mf_calloc(1, sizeof *c);
    mf_status st;

    *out = NULL;
    if (!c)
        return MF_NOMEM("a connection");
    grpc_init();
    pthread_mutex_init(&c->lock, NULL);
    mf_cond_init(&c->changed);
    st = grpc_rpc_client_open_all(c, address, security);
    if (st != MF_OK)
        rpc_disconnect(c);
    else
        *out = c;
    return st;
}

const mf_rpc_kind mf_rpc_grpc = {
    .serve = rpc_serve,
    .address = rpc_address,
    .answer = rpc_answer,
    .stop = rpc_stop,
    .connect = rpc_connect,
    .reaches = rpc_reaches,
    .ask = rpc_ask,
    .cancel = rpc_cancel,
    .disconnect = rpc_disconnect,
};
