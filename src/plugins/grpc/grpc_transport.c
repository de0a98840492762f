/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_transport.c - the transport `grpc`: listening, connecting, closing, and the completion
 * thread. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "base/thread.h"
#include "plugins/grpc/grpc_plugin.h"
#include "plugins/grpc/grpc_wire.h"

#include <errno.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- settings ---- */

#define SETTING(name, number)                                                                      \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = (char *)(name), .value.integer = (number)                 \
    }

/* For a few connections with much traffic between cooperating tasks. */
static const grpc_arg settings[] = {
    SETTING(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MESSAGE_MAX),
    SETTING(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
    SETTING(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20),
    SETTING(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20),
    SETTING(GRPC_ARG_HTTP2_BDP_PROBE, 1), /* the window adapts to the network */
    SETTING(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20),
    SETTING(GRPC_ARG_TCP_READ_CHUNK_SIZE, 256 << 10),
    SETTING(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20),
    SETTING(GRPC_ARG_ENABLE_RETRIES, 0),
    SETTING(GRPC_ARG_ENABLE_CHANNELZ, 0),
    SETTING(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
    SETTING(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
    SETTING(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), /* a separate connection per pair of tasks */
    SETTING(GRPC_ARG_ALLOW_REUSEPORT, 0), /* fail if the address is in use */
    /* A host that is switched off closes no connections. */
    SETTING(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
    SETTING(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000),
    SETTING(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
    SETTING(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
    SETTING(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0),
};

static const grpc_channel_args channel_args = { MF_COUNT(settings), (grpc_arg *)settings };

/* ---- incoming calls ---- */

static void grpc_transport_ask_for_call(grpc_wire *t)
{
    grpc_call_details_init(&t->details);
    grpc_metadata_array_init(&t->metadata);
    t->next_call = NULL;
    if (grpc_server_request_call(t->server, &t->next_call, &t->details, &t->metadata, t->queue,
                                 t->queue, &t->accepted) != GRPC_CALL_OK)
        MF_WARN("gRPC accepts no more connections");
}

static void grpc_transport_on_accepted(grpc_wire *t, bool ok)
{
    stream *s = NULL;
    const bool ours = ok && grpc_slice_str_cmp(t->details.method, MF_GRPC_METHOD) == 0;

    if (ours) {
        s = stream_new(t, t->next_call, NULL);
    } else if (ok) {
        (void)grpc_call_cancel_with_status(t->next_call, GRPC_STATUS_UNIMPLEMENTED,
                                           "this is a task of Meshflow", NULL);
        grpc_call_unref(t->next_call);
    }
    grpc_call_details_destroy(&t->details);
    grpc_metadata_array_destroy(&t->metadata);
    if (!ok)
        return; /* the server is stopping */
    if (s) {
        stream_start_server(s);
        stream_unuse(s); /* kept alive by its tags */
        stream_unref(s);
    }
    grpc_transport_ask_for_call(t);
}

/* An answer is a status, the address of the peer as seen here, and a text. */
static void grpc_transport_send_answer(stream *s, mf_status st, const char *text)
{
    const size_t n = strlen(s->seen_at), m = strlen(text);
    grpc_slice answer = grpc_slice_malloc_large(1 + n + 1 + m);
    unsigned char *to = answer.data.refcounted.bytes;

    to[0] = (unsigned char)st;
    memcpy(to + 1, s->seen_at, n);
    to[1 + n] = '\n';
    memcpy(to + 1 + n + 1, text, m);
    stream_send_first(s, answer);
}

static void grpc_transport_keep(grpc_wire *t, stream *s, int peer)
{
    stream *before;

    stream_ref(s);
    pthread_mutex_lock(&t->lock);
    before = t->by_peer[peer];
    t->by_peer[peer] = s;
    pthread_mutex_unlock(&t->lock);
    if (before)
        stream_unref(before);
}

mf_status wire_greet(stream *s, const char *text)
{
    grpc_wire *t = s->t;
    mf_status st = security_check_peer(s, text);
    int peer = -1;

    if (st == MF_OK)
        st = t->inbox->kind->hello(t->inbox, text, &peer);
    if (st == MF_OK) {
        stream_start_frames(s, peer);
        grpc_transport_send_answer(s, MF_OK, t->hello); /* before any frame */
        grpc_transport_keep(t, s, peer);
        t->inbox->kind->ready(t->inbox, peer);
    } else {
        MF_LOG(st == MF_PERMISSION_DENIED ? MF_LOG_WARNING : MF_LOG_DEBUG,
               "a connection was refused: %s", mf_error_message());
        grpc_transport_send_answer(s, st, mf_error_message());
        s->refused = true;
    }
    return st;
}

void wire_forget(stream *s)
{
    grpc_wire *t = s->t;

    if (s->refused)
        t->inbox->kind->refused(t->inbox);
    pthread_mutex_lock(&t->lock);
    for (stream **at = &t->all; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* ---- the completion thread ---- */

static void *grpc_transport_take_completions(void *arg)
{
    grpc_wire *t = arg;

    for (;;) {
        const grpc_event e =
            grpc_completion_queue_next(t->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        tag *which = e.tag;

        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (e.type != GRPC_OP_COMPLETE)
            continue;
        mf_race_take(which);
        if (which == &t->accepted) {
            grpc_transport_on_accepted(t, e.success != 0);
        } else if (which == &t->stopped) {
            pthread_mutex_lock(&t->lock);
            t->is_stopped = true;
            pthread_cond_broadcast(&t->changed);
            pthread_mutex_unlock(&t->lock);
        } else {
            stream *s = which->s;

            which->done(s, e.success != 0);
            stream_unuse(s);
            stream_unref(s);
        }
    }
}

/* ---- opening ---- */

static char *grpc_transport_copy(const char *s)
{
    return s ? mf_strdup(s) : NULL;
}

static mf_status grpc_transport_copy_options(grpc_wire *t, const mf_transport_options *o)
{
    t->inbox = o->inbox;
    t->n_peers = o->n_peers;
    t->security = o->security;
    t->security.ca = grpc_transport_copy(o->security.ca);
    t->security.cert = grpc_transport_copy(o->security.cert);
    t->security.key = grpc_transport_copy(o->security.key);
    t->by_peer = mf_calloc(o->n_peers, sizeof(stream *));
    if (!t->by_peer || (o->security.ca && !t->security.ca) ||
        (o->security.cert && !t->security.cert) || (o->security.key && !t->security.key))
        return MF_NOMEM("connections");
    return mf_security_check_files(&t->security);
}

static mf_status grpc_transport_find_address(grpc_wire *t, const mf_transport_options *o)
{
    char numbers[MF_ADDRESS_MAX];

    if (o->address) {
        MF_TRY(mf_endpoint_parse(o->address, &t->at));
        (void)snprintf(t->address, sizeof t->address, "%s", o->address);
    } else {
        MF_TRY(mf_endpoint_towards(o->meet ? o->meet : "127.0.0.1:0", &t->at));
        mf_endpoint_print(&t->at, numbers);
        (void)snprintf(t->address, sizeof t->address, "%s", numbers);
    }
    return mf_security_check_address(&t->security, &t->at, t->address, "listening at");
}

static mf_status grpc_transport_listen_there(grpc_wire *t)
{
    t->server = grpc_server_create(&channel_args, NULL);
    grpc_server_register_completion_queue(t->server, t->queue, NULL);
    return listen_at(t->server, &t->security, &t->at, t->address, &t->credentials);
}

static mf_status grpc_transport_start(grpc_wire *t, const mf_transport_options *o)
{
    MF_TRY(grpc_transport_copy_options(t, o));
    MF_TRY(grpc_transport_find_address(t, o));
    t->queue = grpc_completion_queue_create_for_next(NULL);
    MF_TRY(grpc_transport_listen_there(t));
    t->hello = t->inbox->kind->greeting(t->inbox, t->address);
    if (!t->hello)
        return MF_RESOURCE_EXHAUSTED;
    grpc_server_start(t->server);
    grpc_transport_ask_for_call(t);
    if (mf_thread_start(&t->thread, grpc_transport_take_completions, t) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    t->has_thread = true;
    return MF_OK;
}

static void grpc_transport_close(mf_transport *transport);

static mf_status grpc_transport_open(const mf_transport_options *o, mf_transport **out)
{
    grpc_wire *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("connections");
    grpc_init();
    t->base.kind = &mf_transport_grpc;
    pthread_mutex_init(&t->lock, NULL);
    mf_cond_init(&t->changed);
    st = grpc_transport_start(t, o);
    if (st != MF_OK)
        grpc_transport_close(&t->base);
    else
        *out = &t->base;
    return st;
}

static const char *grpc_transport_address(const mf_transport *transport)
{
    return ((const grpc_wire *)transport)->address;
}

/* ---- connecting ---- */

/* The call ended without an answer. gRPC's reason is verbose; a retry helps only if the peer was
 * not up. (With TLS 1.3 a server that rejects our certificate just closes the connection.) */
static mf_status missing_reply(const stream *s)
{
    const mf_security *security = &s->t->security;

    if (strstr(s->why, "not Meshflow"))
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s", s->why);
    if (strstr(s->why, "certificate verify failed"))
        return MF_FAIL(MF_UNAUTHENTICATED,
                       "its certificate is not from our authority '%s', or has expired; use "
                       "certificates that `meshflow cert` created in one directory",
                       security->ca);
    if (strstr(s->why, "SSL") || strstr(s->why, "andshake"))
        return MF_FAIL(MF_UNAUTHENTICATED, "%s", s->why);
    if (strstr(s->why, "No route to host") || strstr(s->why, "timed out") ||
        strstr(s->why, "unreachable"))
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "no response: %s", s->why);
    if (strstr(s->why, "Connection refused"))
        return MF_FAIL(MF_UNAVAILABLE, "no process listens there yet");
    if (strstr(s->why, "Socket closed") || strstr(s->why, "onnection reset"))
        return MF_FAIL(MF_UNAVAILABLE, "it closes the connection immediately: %s%s%s",
                       security->ca ? "does it know the authority of our certificate '"
                                    : "does it require TLS, for which this task has no "
                                      "certificate",
                       security->ca ? security->cert : "", security->ca ? "'" : "");
    return MF_FAIL(MF_UNAVAILABLE, "%s", s->why);
}

static mf_status grpc_transport_await_answer(stream *s, int64_t deadline_ns)
{
    bool late = false;
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->lock);
    while (s->state == AWAIT_ANSWER && !s->is_ended && !late)
        late = !mf_cond_wait_until(&s->changed, &s->lock, deadline_ns);
    if (s->state == HAVE_ANSWER && s->answer_status != MF_OK)
        st = MF_FAIL(s->answer_status, "%s", s->answer);
    else if (s->state != HAVE_ANSWER && late)
        st = MF_FAIL(MF_DEADLINE_EXCEEDED, "no response");
    else if (s->state != HAVE_ANSWER)
        st = missing_reply(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status grpc_transport_greet(stream *s, int peer, int64_t deadline_ns)
{
    grpc_wire *t = s->t;
    int who = -1;

    stream_start_client(s);
    MF_TRY(grpc_transport_await_answer(s, deadline_ns));
    MF_TRY(security_check_peer(s, s->answer));
    MF_TRY(t->inbox->kind->hello(t->inbox, s->answer, &who));
    if (who != peer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "another task listens there, with number %d", who);
    grpc_transport_keep(t, s, peer);
    stream_start_frames(s, peer);
    t->inbox->kind->ready(t->inbox, peer);
    return MF_OK;
}

static mf_status grpc_transport_connect(mf_transport *transport, int peer, const char *address,
                                        int64_t deadline_ns)
{
    grpc_wire *t = (grpc_wire *)transport;
    char target[MF_ADDRESS_MAX + 16];
    grpc_channel *channel;
    mf_endpoint there;
    grpc_call *call;
    mf_status st;
    stream *s;

    MF_TRY(mf_endpoint_parse(address, &there));
    MF_TRY(mf_security_check_address(&t->security, &there, address, "connecting to"));
    (void)snprintf(target, sizeof target, "dns:///%s", address);
    channel = grpc_channel_create(target, t->credentials, &channel_args);
    call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, t->queue,
                                    grpc_slice_from_static_string(MF_GRPC_METHOD), NULL,
                                    gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    s = stream_new(t, call, channel);
    if (!s)
        return MF_NOMEM("a connection");
    st = grpc_transport_greet(s, peer, deadline_ns);
    if (st != MF_OK)
        stream_break(s);
    stream_unuse(s);
    stream_unref(s);
    return st;
}

/* ---- sending, closing ---- */

static stream *grpc_transport_find_peer(grpc_wire *t, int peer)
{
    stream *s;

    pthread_mutex_lock(&t->lock);
    s = t->by_peer[peer];
    if (s)
        stream_ref(s);
    pthread_mutex_unlock(&t->lock);
    return s;
}

static mf_status grpc_transport_send(mf_transport *transport, int peer, const mf_frame *f,
                                     const void *data, int64_t deadline_ns)
{
    stream *s = grpc_transport_find_peer((grpc_wire *)transport, peer);
    mf_status st;

    if (!s)
        return MF_FAIL(MF_UNAVAILABLE, "there is no connection");
    st = stream_send(s, f, data, deadline_ns);
    stream_unref(s);
    return st;
}

static void grpc_transport_drop(mf_transport *transport, int peer)
{
    stream *s = grpc_transport_find_peer((grpc_wire *)transport, peer);

    if (!s)
        return;
    stream_break(s);
    stream_unref(s);
}

/* Calls fn for all streams, with a reference to each. */
static void for_each(grpc_wire *t, void (*fn)(stream *s))
{
    stream *s;

    t->round++;
    do {
        pthread_mutex_lock(&t->lock);
        for (s = t->all; s && (s->round == t->round || !stream_try_ref(s)); s = s->next)
            ;
        if (s)
            s->round = t->round;
        pthread_mutex_unlock(&t->lock);
        if (s) {
            fn(s);
            stream_unref(s);
        }
    } while (s);
}

static bool all_ended(grpc_wire *t)
{
    bool all = true;

    for (stream *s = t->all; s; s = s->next)
        all &= stream_is_ended(s);
    return all;
}

static void wait_for_ends(grpc_wire *t, int64_t deadline_ns)
{
    pthread_mutex_lock(&t->lock);
    while (!all_ended(t) && mf_cond_wait_until(&t->changed, &t->lock, deadline_ns))
        ;
    pthread_mutex_unlock(&t->lock);
}

static void flush_and_finish(stream *s)
{
    stream_flush(s, s->t->close_at);
    stream_finish(s);
}

/* First gracefully: sent data arrives, then both sides know the end. Then by force. */
static void end_streams(grpc_wire *t)
{
    t->close_at = mf_clock_ns() + 1000000000;
    for_each(t, flush_and_finish);
    wait_for_ends(t, t->close_at);
    grpc_server_shutdown_and_notify(t->server, t->queue, &t->stopped);
    for_each(t, stream_break);
    grpc_server_cancel_all_calls(t->server);
    for (int i = 0; i < t->n_peers; i++) {
        stream *s = t->by_peer[i];

        t->by_peer[i] = NULL;
        if (s)
            stream_unref(s);
    }
    pthread_mutex_lock(&t->lock);
    while (t->all || !t->is_stopped)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void grpc_transport_close(mf_transport *transport)
{
    grpc_wire *t = (grpc_wire *)transport;

    if (t->has_thread) {
        end_streams(t);
        grpc_completion_queue_shutdown(t->queue);
        pthread_join(t->thread, NULL);
    } else if (t->queue) {
        if (t->server) {
            grpc_server_shutdown_and_notify(t->server, t->queue, &t->stopped);
            grpc_server_cancel_all_calls(t->server);
        }
        grpc_completion_queue_shutdown(t->queue);
        while (
            grpc_completion_queue_next(t->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
            GRPC_QUEUE_SHUTDOWN)
            ;
    }
    if (t->server)
        grpc_server_destroy(t->server);
    if (t->queue)
        grpc_completion_queue_destroy(t->queue);
    if (t->credentials)
        grpc_channel_credentials_release(t->credentials);
    grpc_shutdown();
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mf_free(t->by_peer);
    mf_free((char *)(uintptr_t)t->security.ca);
    mf_free((char *)(uintptr_t)t->security.cert);
    mf_free((char *)(uintptr_t)t->security.key);
    mf_free(t);
}

const mf_transport_kind mf_transport_grpc = {
    .name = "grpc",
    .about = "HTTP/2 between hosts, with TLS",
    .open = grpc_transport_open,
    .address = grpc_transport_address,
    .connect = grpc_transport_connect,
    .send = grpc_transport_send,
    .drop = grpc_transport_drop,
    .close = grpc_transport_close,
};
