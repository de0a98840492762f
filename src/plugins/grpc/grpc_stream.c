/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_stream.c - one bidirectional call.
 *
 * Sending: parts of frames wait in `pending`; all pending parts go out as one message as soon as
 * the previous message was sent, so small frames are batched and large ones are split. Large parts
 * are not copied: gRPC refers to the sender's memory, and the sender waits until gRPC releases it.
 * Receiving: the next message is requested when the last one was handled, so a slow reader applies
 * backpressure to the sender; only a window of HTTP/2 is in flight. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/race.h"
#include "plugins/grpc/grpc_wire.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_NS = 20000000 }; /* interval of checks while a send is blocked */

/* ---- lifetime ---- */

void stream_ref(stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->refs++;
    pthread_mutex_unlock(&s->lock);
}

bool stream_try_ref(stream *s)
{
    bool alive;

    pthread_mutex_lock(&s->lock);
    alive = s->refs > 0;
    s->refs += alive;
    pthread_mutex_unlock(&s->lock);
    return alive;
}

bool stream_is_ended(stream *s)
{
    bool ended;

    pthread_mutex_lock(&s->lock);
    ended = s->is_ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

static void stream_free(stream *s)
{
    socket_release(s);
    if (s->call)
        grpc_call_unref(s->call);
    if (s->channel)
        grpc_channel_destroy(s->channel);
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->details);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mf_free(s->answer);
    mf_free(s);
}

void stream_unref(stream *s)
{
    int left;

    pthread_mutex_lock(&s->lock);
    left = --s->refs;
    pthread_mutex_unlock(&s->lock);
    if (left > 0)
        return;
    wire_forget(s);
    stream_free(s);
}

/* Returns NULL if the call has ended and was released. */
static grpc_call *use(stream *s)
{
    grpc_call *call;

    pthread_mutex_lock(&s->lock);
    call = s->call;
    s->uses += call != NULL;
    pthread_mutex_unlock(&s->lock);
    return call;
}

/* A call that has ended may still refer to memory of senders until it is released. */
void stream_unuse(stream *s)
{
    grpc_call *call = NULL;

    pthread_mutex_lock(&s->lock);
    if (--s->uses == 0 && s->is_ended) {
        call = s->call;
        s->call = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (call)
        grpc_call_unref(call);
}

static void grpc_stream_start(stream *s, const grpc_op *ops, size_t n, tag *which)
{
    grpc_call *call = use(s);
    grpc_call_error e;

    if (!call) {
        which->done(s, false);
        return;
    }
    stream_ref(s);
    mf_race_give(which);
    e = grpc_call_start_batch(call, ops, n, which, NULL);
    if (e == GRPC_CALL_OK)
        return;
    MF_LOG(MF_LOG_DEBUG, "gRPC refuses a batch: %s", grpc_call_error_to_string(e));
    which->done(s, false);
    stream_unuse(s);
    stream_unref(s);
}

/* ---- sending ---- */

/* The caller holds the lock, which is released for a while: sends all pending parts, if no message
 * is being sent. */
static void send_pending(stream *s)
{
    grpc_op op = { .op = GRPC_OP_SEND_MESSAGE };

    if (s->outgoing || s->n_pending == 0 || s->dead)
        return;
    s->outgoing = grpc_raw_byte_buffer_create(s->pending, (size_t)s->n_pending);
    for (int i = 0; i < s->n_pending; i++)
        grpc_slice_unref(s->pending[i]); /* never the last reference: the buffer has one */
    s->n_pending = 0;
    s->pending_bytes = 0;
    op.data.send_message.send_message = s->outgoing;
    pthread_mutex_unlock(&s->lock);
    grpc_stream_start(s, &op, 1, &s->sent);
    pthread_mutex_lock(&s->lock);
}

/* The caller holds the lock: no more sends. */
static int stop_sending(stream *s, grpc_slice left[PENDING_MAX])
{
    const int n = s->n_pending;

    memcpy(left, s->pending, (size_t)n * sizeof *left);
    s->n_pending = 0;
    s->pending_bytes = 0;
    s->dead = true;
    pthread_cond_broadcast(&s->changed);
    return n;
}

static void mark_dead(stream *s)
{
    grpc_slice left[PENDING_MAX];
    int n;

    pthread_mutex_lock(&s->lock);
    n = stop_sending(s, left);
    pthread_mutex_unlock(&s->lock);
    while (n > 0)
        grpc_slice_unref(left[--n]); /* calls grpc_stream_release_part() */
}

static void grpc_stream_on_sent(stream *s, bool ok)
{
    grpc_byte_buffer *done;

    if (!ok)
        mark_dead(s);
    pthread_mutex_lock(&s->lock);
    done = s->outgoing;
    s->outgoing = NULL;
    send_pending(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    grpc_byte_buffer_destroy(done);
}

/* gRPC has released a part of a sender's memory. */
static void grpc_stream_release_part(void *arg)
{
    stream *s = arg;

    pthread_mutex_lock(&s->lock);
    s->held--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* The caller holds the lock: waits for a change, or for an interval. The inbox is asked
 * periodically whether to continue. */
static mf_status grpc_stream_wait_some(stream *s, int64_t deadline_ns, const mf_frame *f)
{
    const int64_t now = mf_clock_ns(), look = now + LOOK_NS;
    const int64_t until = deadline_ns > 0 && deadline_ns < look ? deadline_ns : look;
    mf_status st = MF_OK;

    if (deadline_ns > 0 && now >= deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "the peer does not read fast enough");
    if (!mf_cond_wait_until(&s->changed, &s->lock, until) && f) {
        pthread_mutex_unlock(&s->lock);
        st = s->t->inbox->kind->waits(s->t->inbox, s->peer, f);
        pthread_mutex_lock(&s->lock);
    }
    return st;
}

/* The caller holds the lock: waits for a free slot in `pending`. */
static mf_status grpc_stream_wait_for_room(stream *s, int64_t deadline_ns, const mf_frame *f)
{
    while (!s->dead && (s->n_pending == PENDING_MAX || s->pending_bytes >= PIECE))
        MF_TRY(grpc_stream_wait_some(s, deadline_ns, f));
    return s->dead ? MF_FAIL(MF_UNAVAILABLE, "the connection is closed") : MF_OK;
}

static void grpc_stream_add_part(stream *s, grpc_slice part)
{
    s->pending[s->n_pending++] = part;
    s->pending_bytes += GRPC_SLICE_LENGTH(part);
    send_pending(s);
}

static grpc_slice copy_frame(const mf_frame *f, const void *data, size_t size)
{
    grpc_slice part = grpc_slice_malloc_large(MF_FRAME_BYTES + size);
    unsigned char *to = part.data.refcounted.bytes;

    mf_frame_write(f, to);
    if (size > 0)
        memcpy(to + MF_FRAME_BYTES, data, size);
    return part;
}

/* The caller holds the lock and is the only sender of a frame. */
static mf_status grpc_stream_send_parts(stream *s, const mf_frame *f, const char *data,
                                        int64_t deadline_ns)
{
    const bool small = f->size <= SMALL;

    MF_TRY(grpc_stream_wait_for_room(s, deadline_ns, f));
    grpc_stream_add_part(s, copy_frame(f, data, small ? (size_t)f->size : 0));
    for (uint64_t at = 0; !small && at < f->size; at += PIECE) {
        const size_t n = f->size - at < PIECE ? (size_t)(f->size - at) : PIECE;

        MF_TRY(grpc_stream_wait_for_room(s, deadline_ns, f));
        s->held++;
        grpc_stream_add_part(s, grpc_slice_new_with_user_data((void *)(uintptr_t)(data + at), n,
                                                              grpc_stream_release_part, s));
    }
    while (s->held > 0)
        MF_TRY(grpc_stream_wait_some(s, deadline_ns, f));
    return s->dead && !small ? MF_FAIL(MF_UNAVAILABLE, "the connection is closed") : MF_OK;
}

mf_status stream_send(stream *s, const mf_frame *f, const void *data, int64_t deadline_ns)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->lock);
    while (st == MF_OK && s->framing && !s->dead)
        st = grpc_stream_wait_some(s, deadline_ns, f);
    if (st == MF_OK && s->dead)
        st = MF_FAIL(MF_UNAVAILABLE, "the connection is closed");
    if (st != MF_OK) {
        pthread_mutex_unlock(&s->lock);
        return st;
    }
    s->framing = true;
    st = grpc_stream_send_parts(s, f, data, deadline_ns);
    if (st != MF_OK) { /* the frame may be partially sent, and gRPC may still refer to the caller's
                          memory */
        pthread_mutex_unlock(&s->lock);
        mark_dead(s);
        stream_break(s);
        pthread_mutex_lock(&s->lock);
        while (s->held > 0)
            (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    s->framing = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void stream_send_first(stream *s, grpc_slice part)
{
    pthread_mutex_lock(&s->lock);
    grpc_stream_add_part(s, part);
    pthread_mutex_unlock(&s->lock);
}

/* ---- receiving ---- */

static void grpc_stream_receive(stream *s)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE,
                         .data.recv_message.recv_message = &s->incoming };

    pthread_mutex_lock(&s->lock);
    s->receiving = true;
    pthread_mutex_unlock(&s->lock);
    grpc_stream_start(s, &op, 1, &s->received);
}

/* A short message as text; NULL: it is not one. */
static char *grpc_stream_take_text(grpc_byte_buffer *message, size_t *size)
{
    grpc_byte_buffer_reader r;
    grpc_slice all;
    char *text = NULL;

    *size = grpc_byte_buffer_length(message);
    if (*size >= HELLO_MAX || !grpc_byte_buffer_reader_init(&r, message))
        return NULL;
    all = grpc_byte_buffer_reader_readall(&r);
    text = mf_strndup((const char *)GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&r);
    return text;
}

static mf_status grpc_stream_take_greeting(stream *s, grpc_byte_buffer *message)
{
    size_t size;
    char *text = grpc_stream_take_text(message, &size);
    mf_status st;

    if (!text || strlen(text) != size)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "not a greeting of Meshflow");
    else
        st = wire_greet(s, text);
    mf_free(text);
    return st;
}

/* Status, address, text. The connecting thread waits for it. */
static mf_status grpc_stream_take_answer(stream *s, grpc_byte_buffer *message)
{
    size_t size;
    char *all = grpc_stream_take_text(message, &size);
    const char *line = all && size > 1 ? memchr(all + 1, '\n', size - 1) : NULL;
    char *text = line ? mf_strdup(line + 1) : NULL;

    if (!text || (unsigned char)all[0] > MF_UNAUTHENTICATED) {
        mf_free(all);
        mf_free(text);
        return MF_FAIL(MF_FAILED_PRECONDITION, "the process that listens there is not Meshflow");
    }
    pthread_mutex_lock(&s->lock);
    s->answer = text;
    s->answer_status = (mf_status)all[0];
    (void)snprintf(s->seen_at, sizeof s->seen_at, "%.*s", (int)(line - all - 1), all + 1);
    s->state = HAVE_ANSWER;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    mf_free(all);
    return MF_OK;
}

static mf_status take_frames(stream *s, grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader r;
    grpc_slice *part;
    mf_status st = MF_OK;

    if (!grpc_byte_buffer_reader_init(&r, message))
        return MF_FAIL(MF_DATA_LOSS, "the peer sent an invalid message");
    while (st == MF_OK && grpc_byte_buffer_reader_peek(&r, &part))
        st = mf_reading_take(&s->reading, s->t->inbox, s->peer, GRPC_SLICE_START_PTR(*part),
                             GRPC_SLICE_LENGTH(*part));
    grpc_byte_buffer_reader_destroy(&r);
    return st;
}

/* No more messages: the inbox is notified when the call has ended, too. */
static void grpc_stream_maybe_gone(stream *s)
{
    bool tell;

    pthread_mutex_lock(&s->lock);
    tell = !s->receiving && s->is_ended && !s->told && s->peer >= 0;
    s->told |= tell;
    pthread_mutex_unlock(&s->lock);
    if (tell)
        s->t->inbox->kind->gone(s->t->inbox, s->peer, s->why);
}

static void set_failure_reason(stream *s, const char *why)
{
    if (s->why[0] == '\0')
        (void)snprintf(s->why, sizeof s->why, "%s", why);
}

static stream_state grpc_stream_state_of(stream *s)
{
    stream_state state;

    pthread_mutex_lock(&s->lock);
    state = s->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

/* After an answer the connecting thread owns the stream and may already have requested the next
 * message. */
static void grpc_stream_take_message(stream *s)
{
    const stream_state state = grpc_stream_state_of(s);
    grpc_byte_buffer *message = s->incoming;
    mf_status st;

    s->incoming = NULL;
    st = state == FRAMES           ? take_frames(s, message)
         : state == AWAIT_GREETING ? grpc_stream_take_greeting(s, message)
                                   : grpc_stream_take_answer(s, message);
    grpc_byte_buffer_destroy(message);
    if (st == MF_OK && state != AWAIT_ANSWER)
        grpc_stream_receive(s);
    if (st == MF_OK)
        return;
    set_failure_reason(s, mf_error_message());
    mark_dead(s);
    if (state == FRAMES)
        stream_break(s);
    else
        stream_finish(s); /* after the answer with the reason */
    grpc_stream_maybe_gone(s);
}

static void grpc_stream_on_received(stream *s, bool ok)
{
    pthread_mutex_lock(&s->lock);
    s->receiving = false;
    pthread_mutex_unlock(&s->lock);
    if (ok && s->incoming) {
        grpc_stream_take_message(s);
        return;
    }
    mark_dead(s); /* the peer has closed its direction */
    stream_finish(s);
    grpc_stream_maybe_gone(s);
}

/* ---- start and end ---- */

static void on_opened(stream *s, bool ok)
{
    (void)s;
    (void)ok; /* on failure the end of the call has the reason */
}

static void on_ended(stream *s, bool ok)
{
    char text[200] = "";

    (void)ok;
    if (s->channel) {
        const size_t n = GRPC_SLICE_LENGTH(s->details);

        (void)snprintf(text, sizeof text, "%.*s", (int)n, GRPC_SLICE_START_PTR(s->details));
    }
    if (s->channel ? s->status == GRPC_STATUS_OK : !s->cancelled)
        set_failure_reason(s, "its connection was closed");
    else if (text[0])
        set_failure_reason(s, text);
    else
        set_failure_reason(s, "its connection broke");
    mark_dead(s);
    pthread_mutex_lock(&s->lock);
    s->is_ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->t->lock);
    pthread_cond_broadcast(&s->t->changed);
    pthread_mutex_unlock(&s->t->lock);
    grpc_stream_maybe_gone(s);
}

static void grpc_stream_on_closed(stream *s, bool ok)
{
    (void)s;
    (void)ok;
}

stream *stream_new(grpc_wire *t, grpc_call *call, grpc_channel *channel)
{
    stream *s = mf_calloc(1, sizeof *s);

    if (!s) {
        grpc_call_unref(call);
        if (channel)
            grpc_channel_destroy(channel);
        return NULL;
    }
    s->t = t;
    s->call = call;
    s->channel = channel;
    s->peer = s->fd = -1;
    s->refs = s->uses = 1;
    s->details = grpc_empty_slice();
    s->opened = (tag){ on_opened, s };
    s->sent = (tag){ grpc_stream_on_sent, s };
    s->received = (tag){ grpc_stream_on_received, s };
    s->ended = (tag){ on_ended, s };
    s->closed = (tag){ grpc_stream_on_closed, s };
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    pthread_mutex_init(&s->lock, NULL);
    mf_cond_init(&s->changed);
    pthread_mutex_lock(&t->lock);
    s->next = t->all;
    t->all = s;
    pthread_mutex_unlock(&t->lock);
    return s;
}

void stream_start_client(stream *s)
{
    const grpc_op open[] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },
        { .op = GRPC_OP_RECV_INITIAL_METADATA,
          .data.recv_initial_metadata.recv_initial_metadata = &s->initial },
    };
    const grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                          .data.recv_status_on_client = { .trailing_metadata = &s->trailing,
                                                          .status = &s->status,
                                                          .status_details = &s->details } };

    s->state = AWAIT_ANSWER;
    grpc_stream_start(s, open, 2, &s->opened);
    grpc_stream_start(s, &end, 1, &s->ended);
    stream_send_first(s, grpc_slice_from_copied_string(s->t->hello));
    grpc_stream_receive(s);
}

void stream_start_server(stream *s)
{
    const grpc_op open = { .op = GRPC_OP_SEND_INITIAL_METADATA };
    const grpc_op end = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                          .data.recv_close_on_server.cancelled = &s->cancelled };

    s->state = AWAIT_GREETING;
    grpc_stream_start(s, &open, 1, &s->opened);
    grpc_stream_start(s, &end, 1, &s->ended);
    grpc_stream_receive(s);
}

void stream_start_frames(stream *s, int peer)
{
    pthread_mutex_lock(&s->lock);
    s->peer = peer;
    s->state = FRAMES;
    s->receiving = true; /* makes gone() wait if the call ends concurrently */
    pthread_mutex_unlock(&s->lock);
    if (s->channel)
        grpc_stream_receive(s); /* for an incoming call, grpc_stream_on_received() continues */
}

void stream_break(stream *s)
{
    grpc_call *call = use(s);

    if (!call)
        return;
    if (s->fd >= 0)
        (void)shutdown(s->fd, SHUT_RDWR);
    (void)grpc_call_cancel(call, NULL);
    stream_unuse(s);
}

void stream_flush(stream *s, int64_t deadline_ns)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->lock);
    while (st == MF_OK && !s->dead && (s->outgoing || s->n_pending > 0))
        st = grpc_stream_wait_some(s, deadline_ns, NULL);
    pthread_mutex_unlock(&s->lock);
}

void stream_finish(stream *s)
{
    grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    bool already;

    pthread_mutex_lock(&s->lock);
    already = s->is_closing;
    s->is_closing = true;
    pthread_mutex_unlock(&s->lock);
    if (already)
        return;
    if (!s->channel) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
    }
    grpc_stream_start(s, &op, 1, &s->closed);
}
