/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_net.c - sends shards between the processes of a mesh. A shard is one message: its frame
 * holds the run, the key, sender and receiver, and its flags the dtype.
 *
 * Sends are queued for a thread of their own: the sender may be the thread that reads from the
 * peers (after it received the last part of a sum), and two such threads that wait for each other
 * to read would deadlock. */
#include "spmd/session/mesh_net.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

typedef struct send_request {
    struct send_request *next;
    int to; /* task */
    mf_frame frame;
    mf_tensor piece;
} send_request;

typedef struct mesh_net_wire {
    mf_mesh_wire base; /* first */
    mf_net *net;
    int *first; /* by task */
    int n_tasks;
    int64_t timeout_ns;
    mf_rendezvous_tables *tables;
    mf_net_watch watch;
    void (*trouble)(void *ctx);
    void *ctx;
    atomic_llong bytes;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    send_request *first_request, *last_request;
    bool closing;
} mesh_net_wire;

static int mesh_net_task_of(const mesh_net_wire *w, int device)
{
    int t = 0;

    while (t < w->n_tasks - 1 && device >= w->first[t + 1])
        t++;
    return t;
}

/* ---- sending ---- */

static void mesh_net_enqueue(mesh_net_wire *w, send_request *l)
{
    pthread_mutex_lock(&w->lock);
    *(w->last_request ? &w->last_request->next : &w->first_request) = l;
    w->last_request = l;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* The next one; NULL: the queue is closed. */
static send_request *take_letter(mesh_net_wire *w)
{
    send_request *l;

    pthread_mutex_lock(&w->lock);
    while (!w->first_request && !w->closing)
        pthread_cond_wait(&w->changed, &w->lock);
    l = w->first_request;
    if (l)
        w->first_request = l->next;
    if (!w->first_request)
        w->last_request = NULL;
    pthread_mutex_unlock(&w->lock);
    return l;
}

/* A failed send aborts the job: the peers would wait for it. */
static void *mesh_net_send_all(void *arg)
{
    mesh_net_wire *w = arg;
    send_request *l;
    bool failed = false;

    while ((l = take_letter(w)) != NULL) {
        const mf_status st = failed ? MF_OK
                                    : mf_net_send(w->net, l->to, &l->frame, l->piece.data,
                                                  mf_clock_ns() + w->timeout_ns);

        atomic_fetch_add(&w->bytes, (long long)l->frame.size);
        if (st != MF_OK) {
            failed = true;
            mf_net_abort(w->net, st);
        }
        mf_tensor_clear(&l->piece);
        mf_free(l);
    }
    return NULL;
}

static mf_status wire_send(mf_mesh_wire *base, int from, int to, int64_t run, int64_t key,
                           const mf_tensor *piece)
{
    mesh_net_wire *w = (mesh_net_wire *)base;
    const uint64_t size = (uint64_t)piece->count * mf_dtype_cell(piece->dtype);
    const mf_frame f = { .kind = MF_MESSAGE_REQUEST,
                         .flags = (uint16_t)piece->dtype,
                         .epoch = mf_net_epoch(w->net),
                         .group = (uint32_t)from << 16 | (uint32_t)to,
                         .seq = (uint32_t)key,
                         .step = run,
                         .size = size };

    send_request *l;

    if (size > MF_FRAME_MAX)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "a message of %llu bytes is too large for another "
                       "process",
                       (unsigned long long)size);
    l = mf_calloc(1, sizeof *l);
    if (!l)
        return MF_NOMEM("a message to send");
    l->to = mesh_net_task_of(w, to);
    l->frame = f;
    mf_tensor_set(&l->piece, piece);
    mesh_net_enqueue(w, l);
    return MF_OK;
}

/* ---- receiving ---- */

static void mesh_net_release(void *data, void *ctx)
{
    (void)ctx;
    mf_free(data);
}

/* True if the message is from a device of that task to a local device, within a run. */
static bool is_for_us(const mesh_net_wire *w, int task, const mf_frame *f)
{
    const int from = (int)(f->group >> 16), to = (int)(f->group & 0xffff);
    const int self = mf_net_self(w->net);

    return task >= 0 && task < w->n_tasks && from >= w->first[task] && from < w->first[task + 1] &&
           to >= w->first[self] && to < w->first[self + 1] && f->step > 0;
}

static mf_status mesh_net_take(const mesh_net_wire *w, int from, const mf_frame *f, void *data)
{
    const mf_dtype dtype = (mf_dtype)f->flags;
    const size_t cell = f->flags < MF_DTYPE_COUNT ? mf_dtype_size(dtype) : 0;
    const int64_t n = cell ? (int64_t)(f->size / cell) : 0;
    mf_tensor *piece;
    mf_status st;

    if (!cell || f->size % cell != 0 || !is_for_us(w, from, f)) {
        mf_free(data);
        return MF_FAIL(MF_INVALID_ARGUMENT, "the message is not a shard for a device of this task");
    }
    st = mf_tensor_wrap(dtype, &n, 1, data, (size_t)f->size, mesh_net_release, NULL, &piece);
    if (st != MF_OK) {
        mf_free(data);
        return st;
    }
    st = mf_mesh_put(w->tables, (int)(f->group >> 16), (int)(f->group & 0xffff), f->step,
                     (int64_t)f->seq, piece);
    mf_tensor_free(piece);
    return st;
}

/* A message of a run that has failed here is dropped. */
static void mesh_net_serve(void *ctx, int from, const mf_frame *f, void *data)
{
    const mf_status st = mesh_net_take(ctx, from, f, data);

    if (st != MF_OK && st != MF_CANCELLED)
        MF_WARN("a message from task %d is lost: %s", from, mf_error_message());
}

static void watched(void *ctx)
{
    const mesh_net_wire *w = ctx;

    w->trouble(w->ctx);
}

static void wire_open(mf_mesh_wire *base, mf_rendezvous_tables *tables, void (*trouble)(void *ctx),
                      void *ctx)
{
    mesh_net_wire *w = (mesh_net_wire *)base;

    w->tables = tables;
    w->trouble = trouble;
    w->ctx = ctx;
    w->watch = (mf_net_watch){ .fn = watched, .ctx = w };
    mf_net_watch_add(w->net, &w->watch);
    mf_net_serve(w->net, mesh_net_serve, w);
}

static void wire_close(mf_mesh_wire *base)
{
    mesh_net_wire *w = (mesh_net_wire *)base;

    mf_net_serve(w->net, NULL, NULL);
    mf_net_watch_remove(w->net, &w->watch);
}

static void wire_give_up(mf_mesh_wire *base, mf_status why)
{
    mf_net_abort(((mesh_net_wire *)base)->net, why);
}

static mf_status wire_check(mf_mesh_wire *base)
{
    return mf_net_check(((mesh_net_wire *)base)->net);
}

static const mf_mesh_wire_kind KIND = { .send = wire_send,
                                        .open = wire_open,
                                        .close = wire_close,
                                        .give_up = wire_give_up,
                                        .check = wire_check };

static void wire_free(mesh_net_wire *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    mf_free(w->first);
    mf_free(w);
}

mf_status mf_mesh_wire_net_new(mf_net *net, const int *first, int n_tasks, int64_t timeout_ns,
                               mf_mesh_wire **out)
{
    mesh_net_wire *w = mf_calloc(1, sizeof *w);

    *out = NULL;
    if (w)
        w->first = mf_calloc(n_tasks + 1, sizeof *w->first);
    if (!w || !w->first) {
        mf_free(w);
        return MF_NOMEM("a mesh");
    }
    w->base.kind = &KIND;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->net = net;
    w->n_tasks = n_tasks;
    w->timeout_ns = timeout_ns;
    for (int i = 0; i <= n_tasks; i++)
        w->first[i] = first[i];
    if (mf_thread_start(&w->thread, mesh_net_send_all, w) != 0) {
        wire_free(w);
        return MF_NOMEM("a thread that sends");
    }
    *out = &w->base;
    return MF_OK;
}

void mf_mesh_wire_net_free(mf_mesh_wire *base)
{
    mesh_net_wire *w = (mesh_net_wire *)base;

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    wire_free(w);
}

int64_t mf_mesh_wire_net_bytes(const mf_mesh_wire *base)
{
    return atomic_load(&((const mesh_net_wire *)base)->bytes);
}
