/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_rpc_server.c - incoming calls, one request each.
 *
 * Leader/follower threads (base/leader_follower.h) take completions from one queue and handle them,
 * including the work of the service. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/leader_follower.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "plugins/grpc/grpc_plugin.h"
#include "plugins/grpc/grpc_rpc.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum {
    OPEN_CALLS = 4, /* calls posted for gRPC to fill with requests */
    MOST_CALLS = 8192, /* maximum number of concurrent calls */
    MOST_THREADS = 1024, /* maximum; each may block */
    SPARE_THREADS = 2, /* threads that stay when idle */
    IDLE_S = 1, /* clean up after this time without events */
    TIDY_S = 10, /* at the latest, under constant load */
};

typedef struct grpc_rpc_server_incoming grpc_rpc_server_incoming;

typedef struct rpc_tag {
    /* alone: no other thread takes completions, so this one must not block. */
    void (*done)(grpc_rpc_server_incoming *c, bool ok, bool alone);
    grpc_rpc_server_incoming *c;
} rpc_tag;

struct mf_rpc_server {
    mf_security security; /* owns its strings */
    const mf_rpc_service *service;
    void *ctx;
    size_t request_max, memory;
    mf_endpoint at;
    char address[MF_ADDRESS_MAX];
    grpc_completion_queue *queue;
    grpc_server *server;
    rpc_peers peers;
    rpc_tag stopped;
    mf_leader_follower lf;
    bool runs; /* the threads are running */

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    int calls; /* not freed yet */
    bool is_stopped;
    bool needs_sweep; /* events since the last cleanup */
    int64_t tidied_ns; /* time of the last cleanup */
};

struct grpc_rpc_server_incoming {
    mf_rpc_call base; /* must be the first field */
    mf_rpc_server *s;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    char *method;
    rpc_tag accepted, received, closed, sent;
    grpc_byte_buffer *request, *reply;
    grpc_slice bytes; /* of the request */
    bool has_bytes;
    grpc_slice message; /* of a status */
    int cancelled; /* set by gRPC */
    char tasks[256]; /* of its certificate */

    pthread_mutex_t lock; /* guards all fields below */
    int refs; /* pending tags, and the pending reply */
    bool is_delivered, is_answered, caller_closed; /* the service was called; a reply was given; the
                                                      caller has closed the call */
};

/* ---- calls ---- */

static void ref(grpc_rpc_server_incoming *c)
{
    pthread_mutex_lock(&c->lock);
    c->refs++;
    pthread_mutex_unlock(&c->lock);
}

static void grpc_rpc_server_forget(mf_rpc_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->calls--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void grpc_rpc_server_unref(grpc_rpc_server_incoming *c)
{
    mf_rpc_server *s = c->s;
    bool last;

    pthread_mutex_lock(&c->lock);
    last = --c->refs == 0;
    pthread_mutex_unlock(&c->lock);
    if (!last)
        return;
    if (c->call)
        grpc_call_unref(c->call);
    if (c->request)
        grpc_byte_buffer_destroy(c->request);
    if (c->reply)
        grpc_byte_buffer_destroy(c->reply);
    if (c->has_bytes)
        grpc_slice_unref(c->bytes);
    grpc_slice_unref(c->message);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    gpr_free(c->method);
    pthread_mutex_destroy(&c->lock);
    mf_free(c);
    grpc_rpc_server_forget(s);
}

/* A pending tag holds a reference. */
static bool grpc_rpc_server_start(grpc_rpc_server_incoming *c, const grpc_op *ops, size_t n,
                                  rpc_tag *end)
{
    ref(c);
    mf_race_give(end);
    if (grpc_call_start_batch(c->call, ops, n, end, NULL) == GRPC_CALL_OK)
        return true;
    MF_WARN("gRPC refuses the operations of a call");
    grpc_rpc_server_unref(c);
    return false;
}

/* ---- replies ---- */

static void grpc_rpc_server_on_sent(grpc_rpc_server_incoming *c, bool ok, bool alone)
{
    (void)ok; /* a failure means that the caller has closed the call, which needs no action */
    (void)alone;
    grpc_rpc_server_unref(c); /* already answered */
}

void rpc_answer(mf_rpc_call *call, mf_status status, const char *message, const mf_iovec *parts,
                int n_parts)
{
    grpc_rpc_server_incoming *c = (grpc_rpc_server_incoming *)call;
    grpc_op ops[3] = { 0 };
    size_t n = 0;

    pthread_mutex_lock(&c->lock);
    c->is_answered = true;
    pthread_mutex_unlock(&c->lock);
    c->reply = rpc_message_make(parts, n_parts);
    if (status == MF_OK && !c->reply) {
        status = MF_RESOURCE_EXHAUSTED;
        message = "no memory for the reply";
    }
    c->message = grpc_slice_from_copied_string(message ? message : "");
    c->sent = (rpc_tag){ grpc_rpc_server_on_sent, c };
    ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    if (status == MF_OK) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = c->reply;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)status;
    ops[n++].data.send_status_from_server.status_details = &c->message;
    if (!grpc_rpc_server_start(c, ops, n, &c->sent))
        grpc_rpc_server_unref(c);
}

/* ---- requests ---- */

static void grpc_rpc_server_refuse(grpc_rpc_server_incoming *c, mf_status status,
                                   const char *message)
{
    rpc_answer(&c->base, status, message, NULL, 0);
}

/* The service must be called, unless the caller has closed the call. */
static bool claim_delivery(grpc_rpc_server_incoming *c)
{
    bool tell;

    pthread_mutex_lock(&c->lock);
    tell = c->is_delivered = !c->caller_closed;
    pthread_mutex_unlock(&c->lock);
    return tell;
}

static void grpc_rpc_server_on_received(grpc_rpc_server_incoming *c, bool ok, bool alone)
{
    mf_rpc_server *s = c->s;

    if (!ok || !rpc_message_flatten(c->request, &c->bytes)) {
        grpc_rpc_server_refuse(c, MF_CANCELLED, "empty request");
        return;
    }
    c->has_bytes = true;
    grpc_byte_buffer_destroy(c->request);
    c->request = NULL;
    if (alone)
        grpc_rpc_server_refuse(c, MF_RESOURCE_EXHAUSTED, "too many calls in flight");
    else if (!claim_delivery(c))
        grpc_rpc_server_refuse(c, MF_CANCELLED, "the caller has closed the call");
    else
        s->service->called(s->ctx, &c->base, c->method, GRPC_SLICE_START_PTR(c->bytes),
                           GRPC_SLICE_LENGTH(c->bytes));
}

static void grpc_rpc_server_on_closed(grpc_rpc_server_incoming *c, bool ok, bool alone)
{
    bool tell;

    (void)alone;
    pthread_mutex_lock(&c->lock);
    c->caller_closed = !ok || c->cancelled;
    atomic_store(&c->base.gone, c->caller_closed);
    tell = c->caller_closed && c->is_delivered && !c->is_answered;
    pthread_mutex_unlock(&c->lock);
    if (tell)
        c->s->service->cancelled(c->s->ctx, &c->base);
}

static int64_t grpc_rpc_server_deadline_of(const grpc_rpc_server_incoming *c)
{
    const gpr_timespec by = gpr_convert_clock_type(c->details.deadline, GPR_CLOCK_MONOTONIC);
    const gpr_timespec left = gpr_time_sub(by, gpr_now(GPR_CLOCK_MONOTONIC));

    if (gpr_time_cmp(by, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0 || left.tv_sec > 1000000000)
        return INT64_MAX;
    return mf_clock_ns() + left.tv_sec * 1000000000 + left.tv_nsec;
}

static void grpc_rpc_server_read_request(grpc_rpc_server_incoming *c)
{
    grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

    c->received = (rpc_tag){ grpc_rpc_server_on_received, c };
    op.data.recv_message.recv_message = &c->request;
    if (!grpc_rpc_server_start(c, &op, 1, &c->received))
        grpc_rpc_server_refuse(c, MF_INTERNAL, "cannot read the request");
}

static void grpc_rpc_server_await_end(grpc_rpc_server_incoming *c)
{
    grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

    c->closed = (rpc_tag){ grpc_rpc_server_on_closed, c };
    op.data.recv_close_on_server.cancelled = &c->cancelled;
    (void)grpc_rpc_server_start(c, &op, 1, &c->closed);
}

static bool are_too_many(mf_rpc_server *s)
{
    bool too_many;

    pthread_mutex_lock(&s->lock);
    too_many = s->calls > MOST_CALLS;
    pthread_mutex_unlock(&s->lock);
    return too_many;
}

static void grpc_rpc_server_ask_for_call(mf_rpc_server *s);

/* The initial reference of the call belongs to the reply. */
static void grpc_rpc_server_on_accepted(grpc_rpc_server_incoming *c, bool ok, bool alone)
{
    mf_status st;

    (void)alone;
    if (!ok) { /* the server is stopping */
        grpc_rpc_server_unref(c);
        return;
    }
    grpc_rpc_server_ask_for_call(c->s);
    c->base.kind = &mf_rpc_grpc;
    c->base.deadline_ns = grpc_rpc_server_deadline_of(c);
    c->method = grpc_slice_to_c_string(c->details.method);
    grpc_rpc_server_await_end(c);
    if (are_too_many(c->s)) {
        grpc_rpc_server_refuse(c, MF_RESOURCE_EXHAUSTED, "too many calls in flight");
        return;
    }
    st = rpc_peers_check(&c->s->peers, &c->s->security, &c->s->at, c->call);
    if (st != MF_OK) {
        grpc_rpc_server_refuse(c, st, mf_error_message());
        return;
    }
    security_tasks(c->call, c->tasks, sizeof c->tasks);
    c->base.tasks = c->tasks[0] != '\0' ? c->tasks : NULL;
    grpc_rpc_server_read_request(c);
}

static grpc_rpc_server_incoming *grpc_rpc_server_call_new(mf_rpc_server *s)
{
    grpc_rpc_server_incoming *c = mf_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->s = s;
    c->refs = 1;
    c->accepted = (rpc_tag){ grpc_rpc_server_on_accepted, c };
    c->message = grpc_empty_slice();
    pthread_mutex_init(&c->lock, NULL);
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    pthread_mutex_lock(&s->lock);
    s->calls++;
    pthread_mutex_unlock(&s->lock);
    return c;
}

static void grpc_rpc_server_ask_for_call(mf_rpc_server *s)
{
    grpc_rpc_server_incoming *c = grpc_rpc_server_call_new(s);

    if (!c) {
        MF_WARN("no memory for another call");
        return;
    }
    ref(c);
    mf_race_give(&c->accepted);
    if (grpc_server_request_call(s->server, &c->call, &c->details, &c->metadata, s->queue, s->queue,
                                 &c->accepted) != GRPC_CALL_OK) {
        grpc_rpc_server_unref(c);
        grpc_rpc_server_unref(c);
    }
}

/* ---- threads ---- */

static void take_one(mf_rpc_server *s, rpc_tag *which, bool ok, bool alone)
{
    mf_race_take(which);
    if (which == &s->stopped) {
        pthread_mutex_lock(&s->lock);
        s->is_stopped = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        return;
    }
    grpc_rpc_server_incoming *c = which->c;

    which->done(c, ok, alone);
    grpc_rpc_server_unref(c);
}

static bool needs_sweep(mf_rpc_server *s)
{
    bool untidy;

    pthread_mutex_lock(&s->lock);
    untidy = s->needs_sweep;
    pthread_mutex_unlock(&s->lock);
    return untidy;
}

/* Should this thread clean up: the server was idle, or the last cleanup was long ago? */
static bool claim_sweep(mf_rpc_server *s, int64_t after_s)
{
    const int64_t now = mf_clock_ns();
    bool turn;

    pthread_mutex_lock(&s->lock);
    turn = s->needs_sweep && now - s->tidied_ns >= after_s * INT64_C(1000000000);
    if (turn) {
        s->needs_sweep = false;
        s->tidied_ns = now;
    }
    pthread_mutex_unlock(&s->lock);
    return turn;
}

/* During and after a flood of calls: drop ended connections, and return memory to the system that
 * the allocator would keep in its per-thread arenas. */
static void sweep_memory(mf_rpc_server *s)
{
    rpc_peers_sweep(&s->peers);
    (void)malloc_trim(0);
}

static grpc_event next_event(mf_rpc_server *s)
{
    for (;;) {
        const gpr_timespec soon =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(IDLE_S, GPR_TIMESPAN));
        const gpr_timespec until = needs_sweep(s) ? soon : gpr_inf_future(GPR_CLOCK_MONOTONIC);
        const grpc_event e = grpc_completion_queue_next(s->queue, until, NULL);

        if (claim_sweep(s, e.type == GRPC_QUEUE_TIMEOUT ? 0 : TIDY_S))
            sweep_memory(s);
        if (e.type != GRPC_QUEUE_TIMEOUT)
            return e;
    }
}

static void grpc_rpc_server_live(void *ctx)
{
    mf_rpc_server *s = ctx;

    do {
        const grpc_event e = next_event(s);

        if (e.type == GRPC_QUEUE_SHUTDOWN) {
            mf_leader_follower_ends(&s->lf);
            return;
        }
        const bool alone = !mf_leader_follower_takes(&s->lf);

        pthread_mutex_lock(&s->lock);
        s->needs_sweep = true;
        pthread_mutex_unlock(&s->lock);
        take_one(s, e.tag, e.success != 0, alone);
    } while (mf_leader_follower_stays(&s->lf));
}

/* ---- opening and closing ---- */

static char *grpc_rpc_server_copy(const char *s)
{
    return s ? mf_strdup(s) : NULL;
}

static grpc_server *make_server(const mf_rpc_server *s)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("meshflow server");
    const grpc_arg settings[] = {
        { .type = GRPC_ARG_POINTER,
          .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
          .value.pointer = { quota, grpc_resource_quota_arg_vtable() } },
        MF_GRPC_SETTING(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)s->request_max),
        MF_GRPC_SETTING(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 4 << 20),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20),
        MF_GRPC_SETTING(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10),
        MF_GRPC_SETTING(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024),
        MF_GRPC_SETTING(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000),
        MF_GRPC_SETTING(GRPC_ARG_ENABLE_CHANNELZ, 0),
        /* A host that disappears closes no connections, and its steps would wait without limit. */
        MF_GRPC_SETTING(GRPC_ARG_KEEPALIVE_TIME_MS, 60000),
        MF_GRPC_SETTING(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000),
        /* No compression: a few bytes could expand to many. */
        MF_GRPC_SETTING(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
        MF_GRPC_SETTING(GRPC_ARG_ALLOW_REUSEPORT, 0),
        MF_GRPC_SETTING(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
    };
    const grpc_channel_args args = { MF_COUNT(settings), (grpc_arg *)(uintptr_t)settings };
    grpc_server *server;

    if (s->memory > 0)
        grpc_resource_quota_resize(quota, s->memory);
    server = grpc_server_create(&args, NULL);
    grpc_resource_quota_unref(quota);
    return server;
}

static mf_status grpc_rpc_server_copy_options(mf_rpc_server *s, const mf_rpc_server_options *o)
{
    s->service = o->service;
    s->ctx = o->ctx;
    s->request_max = o->request_max > 0 && o->request_max < INT32_MAX ? o->request_max : INT32_MAX;
    s->memory = o->memory;
    s->security = o->security;
    s->security.ca = grpc_rpc_server_copy(o->security.ca);
    s->security.cert = grpc_rpc_server_copy(o->security.cert);
    s->security.key = grpc_rpc_server_copy(o->security.key);
    if ((o->security.ca && !s->security.ca) || (o->security.cert && !s->security.cert) ||
        (o->security.key && !s->security.key))
        return MF_NOMEM("a server");
    (void)snprintf(s->address, sizeof s->address, "%s", o->address);
    MF_TRY(mf_security_check_files(&s->security));
    MF_TRY(mf_endpoint_parse(o->address, &s->at));
    return mf_security_check_address(&s->security, &s->at, s->address, "listening at");
}

static mf_status grpc_rpc_server_open_all(mf_rpc_server *s, const mf_rpc_server_options *o)
{
    grpc_channel_credentials *channels = NULL;
    mf_status st;

    MF_TRY(grpc_rpc_server_copy_options(s, o));
    s->queue = grpc_completion_queue_create_for_next(NULL);
    s->server = make_server(s);
    grpc_server_register_completion_queue(s->server, s->queue, NULL);
    st = listen_at(s->server, &s->security, &s->at, s->address, &channels);
    if (channels)
        grpc_channel_credentials_release(channels);
    MF_TRY(st);
    s->lf = (mf_leader_follower){
        .most = MOST_THREADS, .spare = SPARE_THREADS, .live = grpc_rpc_server_live, .ctx = s
    };
    MF_TRY(mf_leader_follower_start(&s->lf));
    s->runs = true;
    grpc_server_start(s->server);
    for (int i = 0; i < OPEN_CALLS; i++)
        grpc_rpc_server_ask_for_call(s);
    return MF_OK;
}

static void wait_until_unused(mf_rpc_server *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->calls > 0 || !s->is_stopped)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* A server that never started has no thread to take its completions. */
static void drain(mf_rpc_server *s)
{
    grpc_completion_queue_shutdown(s->queue);
    while (grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
}

void rpc_stop(mf_rpc_server *s)
{
    const bool ran = s->runs;

    if (s->server) {
        grpc_server_shutdown_and_notify(s->server, s->queue, &s->stopped);
        grpc_server_cancel_all_calls(s->server);
    }
    if (ran) {
        wait_until_unused(s);
        grpc_completion_queue_shutdown(s->queue);
        mf_leader_follower_join(&s->lf);
    } else if (s->queue) {
        drain(s);
    }
    if (s->server)
        grpc_server_destroy(s->server);
    if (s->queue)
        grpc_completion_queue_destroy(s->queue);
    grpc_shutdown();
    rpc_peers_deinit(&s->peers);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mf_free((char *)(uintptr_t)s->security.ca);
    mf_free((char *)(uintptr_t)s->security.cert);
    mf_free((char *)(uintptr_t)s->security.key);
    mf_free(s);
}

mf_status rpc_serve(const mf_rpc_server_options *o, mf_rpc_server **out)
{
    mf_rpc_server *s = mf_calloc(1, sizeof *s);
    mf_status st;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a server");
    grpc_init();
    pthread_mutex_init(&s->lock, NULL);
    mf_cond_init(&s->changed);
    rpc_peers_init(&s->peers);
    st = grpc_rpc_server_open_all(s, o);
    if (st != MF_OK)
        rpc_stop(s);
    else
        *out = s;
    return st;
}

const char *rpc_address(const mf_rpc_server *s)
{
    return s->address;
}
