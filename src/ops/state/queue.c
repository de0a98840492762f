/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - queues: waiting, serving, closing. See queue.h.
 *
 * TensorFlow loses the elements that a cancelled dequeue of many has already taken; here they are
 * returned to the front. */
#include "ops/state/queue.h"

#include "ops/state/handle.h"

#include <string.h>

/* A waiting op. */
typedef struct queue_wait {
    mf_wait wait; /* first */
    mf_queue_action action;
    bool many, up_to;
    int64_t wanted, have; /* elements requested; taken or inserted so far */
    mf_queue_row *rows, *last; /* enqueue: not inserted yet; dequeue: taken */
    struct queue_wait *ended; /* list of waits to end after unlocking */
} queue_wait;

const char *mf_queue_kind_name(mf_queue_kind kind)
{
    static const char *const names[] = { "FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue",
                                         "PriorityQueue", "StagingArea" };

    return names[kind];
}

/* ---- the object ---- */

static void free_rows(mf_queue *q, mf_queue_row *row)
{
    while (row) {
        mf_queue_row *next = row->next;

        for (int i = 0; i < q->n_parts; i++)
            mf_tensor_clear(&row->parts[i]);
        mf_free(row);
        row = next;
    }
}

static void queue_destroy(mf_object *o)
{
    mf_queue *q = (mf_queue *)o;

    while (q->count > 0) {
        mf_queue_row *row = mf_queue_pop(q);

        row->next = NULL;
        free_rows(q, row);
    }
    free_rows(q, q->spare);
    mf_free(q->ring);
    mf_free(q->types);
    mf_free(q->shapes);
    mf_free(q->name);
    pthread_mutex_destroy(&q->lock);
    mf_free(q);
}

const mf_object_type mf_queue_type = { .name = "queue", .destroy = queue_destroy };

mf_status mf_queue_make(void *ctx, mf_object **out)
{
    const mf_queue_spec *spec = ctx;
    mf_queue *q = mf_calloc(1, sizeof *q);

    *out = NULL;
    if (!q)
        return MF_NOMEM("a queue");
    q->object.type = &mf_queue_type;
    atomic_store(&q->object.refs, 1);
    pthread_mutex_init(&q->lock, NULL);
    q->kind = spec->kind;
    q->capacity = spec->capacity < 0 ? INT64_MAX : spec->capacity;
    q->min_after = spec->min_after;
    q->random = mf_philox_init(spec->seed, spec->seed2);
    q->n_drawn = 4;
    q->n_parts = spec->n_parts;
    q->name = mf_strdup(spec->name);
    q->types = mf_calloc(spec->n_parts + 1, sizeof *q->types);
    q->shapes = spec->shapes ? mf_calloc(spec->n_parts + 1, sizeof *q->shapes) : NULL;
    if (!q->name || !q->types || (spec->shapes && !q->shapes)) {
        queue_destroy(&q->object);
        return MF_NOMEM("a queue");
    }
    memcpy(q->types, spec->types, (size_t)spec->n_parts * sizeof *q->types);
    if (q->shapes)
        memcpy(q->shapes, spec->shapes, (size_t)spec->n_parts * sizeof *q->shapes);
    *out = &q->object;
    return MF_OK;
}

mf_status mf_queue_matches(const mf_queue *q, const mf_queue_spec *spec)
{
    const int64_t capacity = spec->capacity < 0 ? INT64_MAX : spec->capacity;
    bool same = (q->shapes != NULL) == (spec->shapes != NULL);

    if (q->kind != spec->kind)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shared queue '%s': Expected %s, found %s", q->name,
                       mf_queue_kind_name(q->kind), mf_queue_kind_name(spec->kind));
    if (q->capacity != capacity)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shared queue '%s' has capacity %lld but requested capacity was %lld",
                       q->name, (long long)q->capacity, (long long)capacity);
    if (q->min_after != spec->min_after)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shared queue '%s' has min_after_dequeue %lld but requested "
                       "min_after_dequeue was %lld.",
                       q->name, (long long)q->min_after, (long long)spec->min_after);
    if (q->n_parts != spec->n_parts ||
        memcmp(q->types, spec->types, (size_t)q->n_parts * sizeof *q->types) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shared queue '%s' has other component types than requested", q->name);
    for (int i = 0; same && q->shapes && i < q->n_parts; i++)
        same = mf_shape_equal(&q->shapes[i], &spec->shapes[i]);
    if (!same)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shared queue '%s' has other component shapes than requested", q->name);
    return MF_OK;
}

/* ---- serving: under the lock; true when the op is through ---- */

static void append_row(queue_wait *w, mf_queue_row *row)
{
    row->next = NULL;
    if (w->rows)
        w->last->next = row;
    else
        w->rows = row;
    w->last = row;
}

static bool serve_enqueue(mf_queue *q, queue_wait *w)
{
    if (q->closed) {
        mf_wait_fail(&w->wait, MF_CANCELLED, "%s '%s' is closed.", mf_queue_kind_name(q->kind),
                     q->name);
        return true;
    }
    while (w->rows && q->count < q->capacity) {
        mf_queue_row *row = w->rows;

        if (mf_queue_reserve(q, 1) != MF_OK) {
            mf_wait_fail(&w->wait, MF_RESOURCE_EXHAUSTED, "out of memory for a queue");
            return true;
        }
        w->rows = row->next;
        mf_queue_push(q, row);
    }
    return w->rows == NULL;
}

/* Returns taken elements, last first, so that the order is restored. */
static void queue_give_back(mf_queue *q, queue_wait *w)
{
    mf_queue_row *reversed = NULL;

    while (w->rows) {
        mf_queue_row *row = w->rows;

        w->rows = row->next;
        row->next = reversed;
        reversed = row;
    }
    w->have = 0;
    while (reversed) {
        mf_queue_row *row = reversed;

        reversed = row->next;
        if (mf_queue_reserve(q, 1) == MF_OK)
            mf_queue_push_front(q, row);
        else
            mf_queue_row_drop(q, row);
    }
}

static int64_t available(const mf_queue *q)
{
    return q->closed ? q->count : q->count - q->min_after;
}

static bool serve_dequeue(mf_queue *q, queue_wait *w)
{
    if (q->closed && available(q) < w->wanted - w->have) {
        queue_give_back(q, w);
        if (!w->up_to || q->count == 0) {
            mf_wait_fail(&w->wait, MF_OUT_OF_RANGE,
                         "%s '%s' is closed and has insufficient elements (requested %lld, "
                         "current size %lld)",
                         mf_queue_kind_name(q->kind), q->name, (long long)w->wanted,
                         (long long)q->count);
            return true;
        }
        w->wanted = q->count;
    }
    while (w->have < w->wanted && available(q) > 0) {
        append_row(w, mf_queue_pop(q));
        w->have++;
    }
    return w->have == w->wanted;
}

static bool serve_close(mf_queue *q, queue_wait *w)
{
    if (q->closed)
        mf_wait_fail(&w->wait, MF_CANCELLED, "Queue '%s' is already closed.", q->name);
    q->closed = true;
    return true;
}

static bool queue_serve(mf_queue *q, queue_wait *w)
{
    switch (w->action) {
    case MF_ENQUEUE:
        return serve_enqueue(q, w);
    case MF_DEQUEUE:
        return serve_dequeue(q, w);
    default:
        return serve_close(q, w);
    }
}

/* Serves both lists until neither can proceed; completed waits are added to *ended. */
static void serve_lines(mf_queue *q, queue_wait **ended)
{
    mf_wait_line *const lines[] = { &q->enqueues, &q->dequeues };
    bool moved = true;

    while (moved) {
        moved = false;
        for (int i = 0; i < MF_COUNT(lines); i++) {
            queue_wait *w;
            int64_t before = q->count;

            while ((w = (queue_wait *)lines[i]->first) != NULL && queue_serve(q, w)) {
                mf_wait_unlink(&w->wait);
                w->ended = *ended;
                *ended = w;
                moved = true;
            }
            moved = moved || q->count != before;
        }
    }
}

/* ---- ending ---- */

static mf_status queue_put_out(const mf_queue *q, queue_wait *w)
{
    for (int c = 0; c < q->n_parts; c++) {
        if (w->many)
            MF_TRY(mf_queue_batch(q, w->wait.kernel, c, w->rows, w->have));
        else
            mf_kernel_set(w->wait.kernel, c, &w->rows->parts[c]);
    }
    return MF_OK;
}

/* The caller does not hold the lock. */
static void queue_end_one(mf_queue *q, queue_wait *w)
{
    mf_kernel *k = w->wait.kernel;
    mf_object *at = w->wait.at;
    mf_status st = mf_wait_status(&w->wait);

    if (st == MF_OK && w->action == MF_DEQUEUE)
        st = queue_put_out(q, w);
    pthread_mutex_lock(&q->lock);
    while (w->rows) {
        mf_queue_row *row = w->rows;

        w->rows = row->next;
        mf_queue_row_drop(q, row);
    }
    pthread_mutex_unlock(&q->lock);
    mf_free(w);
    mf_object_unref(at);
    mf_kernel_done(k, st);
}

static void queue_end_all(mf_queue *q, queue_wait *ended)
{
    while (ended) {
        queue_wait *w = ended;

        ended = w->ended;
        mf_wait_unhook(&w->wait);
        queue_end_one(q, w);
    }
}

static const char *cancelled_text(const queue_wait *w)
{
    return w->action == MF_DEQUEUE ? "Dequeue operation was cancelled"
                                   : "Enqueue operation was cancelled";
}

/* The step was cancelled. Other waits may proceed now. */
static void queue_cancelled(mf_cancel_hook *hook)
{
    queue_wait *w = (queue_wait *)hook, *ended = NULL; /* the hook is the first member of both
                                                          structs */
    mf_queue *q = (mf_queue *)w->wait.at, *alive;

    pthread_mutex_lock(&q->lock);
    if (!w->wait.line) { /* another thread is ending it, and waits for this function to return */
        pthread_mutex_unlock(&q->lock);
        return;
    }
    mf_wait_unlink(&w->wait);
    mf_wait_fail(&w->wait, MF_CANCELLED, "%s", cancelled_text(w));
    if (w->action == MF_DEQUEUE)
        queue_give_back(q, w);
    serve_lines(q, &ended);
    pthread_mutex_unlock(&q->lock);
    alive = (mf_queue *)mf_object_ref(&q->object);
    queue_end_one(q, w);
    queue_end_all(alive, ended);
    mf_object_unref(&alive->object);
}

/* Appends the wait and serves: it may complete at once, and so may others. */
static void stand(mf_queue *q, queue_wait *w)
{
    queue_wait *ended = NULL;

    (void)mf_object_ref(&q->object); /* held until the end of this function */
    pthread_mutex_lock(&q->lock);
    mf_wait_append(w->action == MF_DEQUEUE ? &q->dequeues : &q->enqueues, &w->wait);
    serve_lines(q, &ended);
    if (w->wait.line && !mf_wait_hook(&w->wait, queue_cancelled)) {
        mf_wait_unlink(&w->wait);
        mf_wait_fail(&w->wait, MF_CANCELLED, "%s", cancelled_text(w));
        if (w->action == MF_DEQUEUE)
            queue_give_back(q, w);
        w->ended = ended;
        ended = w;
        serve_lines(q, &ended);
    }
    pthread_mutex_unlock(&q->lock);
    queue_end_all(q, ended);
    mf_object_unref(&q->object);
}

static queue_wait *wait_new(mf_kernel *k, mf_queue *q, mf_queue_action action)
{
    queue_wait *w = mf_calloc(1, sizeof *w);

    if (!w) {
        mf_kernel_done(k, MF_NOMEM("a waiting op"));
        return NULL;
    }
    w->wait.kernel = k;
    w->wait.at = mf_object_ref(&q->object);
    w->action = action;
    return w;
}

/* ---- the three actions ---- */

/* Component i of one element: all of input `t`, or its slice `at`. */
static mf_status fill_part(mf_tensor *part, const mf_tensor *t, int64_t at, bool many)
{
    mf_shape one = t->shape;

    if (!many)
        return mf_tensor_keep(part, t);
    one.rank--;
    memmove(one.dims, one.dims + 1, (size_t)one.rank * sizeof(int64_t));
    mf_tensor_clear(part);
    MF_TRY(mf_tensor_alloc(part, t->dtype, &one));
    return mf_cells_copy(t->dtype, part->data, 0, t->data, at * part->count, part->count);
}

static mf_status fill_rows(mf_kernel *k, mf_queue *q, queue_wait *w, int first)
{
    for (int64_t r = 0; r < w->wanted; r++) {
        mf_queue_row *row;

        pthread_mutex_lock(&q->lock);
        row = mf_queue_row_new(q);
        pthread_mutex_unlock(&q->lock);
        if (!row)
            return MF_NOMEM("an element of a queue");
        append_row(w, row);
        for (int i = 0; i < q->n_parts; i++)
            MF_TRY(fill_part(&row->parts[i], k->in[first + i], r, w->many));
    }
    return MF_OK;
}

static mf_status check_part(const mf_queue *q, const mf_tensor *t, int i, bool many, int64_t batch)
{
    mf_shape want = q->shapes ? q->shapes[i] : MF_SHAPE_UNKNOWN;
    char expected[MF_SHAPE_TEXT], got[MF_SHAPE_TEXT];

    if (t->dtype != q->types[i])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Signature mismatch: component %d is of type %s, expected %s", i,
                       mf_dtype_name(t->dtype), mf_dtype_name(q->types[i]));
    if (many && t->shape.rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shape mismatch in tuple component %d. Expected a batch, got []", i);
    if (many && want.rank >= 0 && want.rank < MF_MAX_RANK) {
        memmove(want.dims + 1, want.dims, (size_t)want.rank * sizeof(int64_t));
        want.dims[0] = batch;
        want.rank++;
    }
    if (!mf_shape_compatible(&want, &t->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Shape mismatch in tuple component %d. Expected %s, got %s", i,
                       mf_shape_text(&want, expected), mf_shape_text(&t->shape, got));
    if (many && t->shape.dims[0] != batch)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "All input tensors must have the same size in the 0th dimension. Component "
                       "%d has %lld, and should have %lld",
                       i, (long long)t->shape.dims[0], (long long)batch);
    return MF_OK;
}

static mf_status check_tuple(const mf_kernel *k, const mf_queue *q, int first, bool many)
{
    const mf_tensor *t = k->n_in > first ? k->in[first] : NULL;
    const int64_t batch = many && t && t->shape.rank > 0 ? t->shape.dims[0] : 0;

    if (k->n_in - first != q->n_parts)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Signature mismatch: the tuple has %d components, expected %d",
                       k->n_in - first, q->n_parts);
    for (int i = 0; i < q->n_parts; i++)
        MF_TRY(check_part(q, k->in[first + i], i, many, batch));
    return MF_OK;
}

void mf_queue_enqueue(mf_kernel *k, mf_queue *q, int first, bool many)
{
    mf_status st = check_tuple(k, q, first, many);
    queue_wait *w;

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    w = wait_new(k, q, MF_ENQUEUE);
    if (!w)
        return;
    w->many = many;
    w->wanted = many ? k->in[first]->shape.dims[0] : 1;
    st = fill_rows(k, q, w, first);
    if (st != MF_OK) {
        mf_wait_fail(&w->wait, st, "%s", mf_error_message());
        queue_end_one(q, w);
    } else if (w->wanted == 0) {
        queue_end_one(q, w);
    } else {
        stand(q, w);
    }
}

static mf_status check_dequeue(const mf_kernel *k, const mf_queue *q, bool many)
{
    if (k->n_out != q->n_parts)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Signature mismatch: %d components are asked for, the queue has %d",
                       k->n_out, q->n_parts);
    for (int i = 0; i < q->n_parts; i++) {
        if (k->node->out_types[i] != q->types[i])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Signature mismatch: component %d is of type %s, asked for as %s", i,
                           mf_dtype_name(q->types[i]), mf_dtype_name(k->node->out_types[i]));
        if (many && (!q->shapes || q->shapes[i].rank < 0))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s's DequeueMany and DequeueUpTo require the components to have "
                           "specified shapes.",
                           mf_queue_kind_name(q->kind));
    }
    return MF_OK;
}

void mf_queue_dequeue(mf_kernel *k, mf_queue *q, int64_t n, bool up_to)
{
    const mf_status st = check_dequeue(k, q, n >= 0);
    queue_wait *w;

    if (st != MF_OK) {
        mf_kernel_done(k, st);
        return;
    }
    w = wait_new(k, q, MF_DEQUEUE);
    if (!w)
        return;
    w->many = n >= 0;
    w->up_to = up_to;
    w->wanted = n >= 0 ? n : 1;
    if (n == 0)
        queue_end_one(q, w);
    else
        stand(q, w);
}

void mf_queue_close(mf_kernel *k, mf_queue *q, bool cancel_pending)
{
    queue_wait *w, *ended = NULL;

    if (!cancel_pending) { /* waits for the enqueues before it */
        w = wait_new(k, q, MF_CLOSE);
        if (w)
            stand(q, w);
        return;
    }
    (void)mf_object_ref(&q->object);
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    while ((w = (queue_wait *)q->enqueues.first) != NULL) {
        mf_wait_unlink(&w->wait);
        mf_wait_fail(&w->wait, MF_CANCELLED, "%s", cancelled_text(w));
        w->ended = ended;
        ended = w;
    }
    serve_lines(q, &ended);
    pthread_mutex_unlock(&q->lock);
    queue_end_all(q, ended);
    mf_object_unref(&q->object);
    mf_kernel_done(k, MF_OK);
}

void mf_queue_clear(mf_queue *q)
{
    queue_wait *ended = NULL;

    pthread_mutex_lock(&q->lock);
    while (q->count > 0)
        mf_queue_row_drop(q, mf_queue_pop(q));
    serve_lines(q, &ended);
    pthread_mutex_unlock(&q->lock);
    queue_end_all(q, ended);
}

void mf_queue_shut(mf_queue *q)
{
    queue_wait *ended = NULL;

    pthread_mutex_lock(&q->lock);
    q->closed = true;
    serve_lines(q, &ended);
    pthread_mutex_unlock(&q->lock);
    queue_end_all(q, ended);
}

mf_status mf_queue_offer(mf_queue *q, mf_tensor *parts)
{
    queue_wait *ended = NULL;
    mf_queue_row *row;
    mf_status st;

    pthread_mutex_lock(&q->lock);
    row = mf_queue_row_new(q);
    st = row ? mf_queue_reserve(q, 1) : MF_NOMEM("an element of a queue");
    if (st == MF_OK) {
        for (int i = 0; i < q->n_parts; i++)
            mf_tensor_move(&row->parts[i], &parts[i]);
        mf_queue_push(q, row);
        serve_lines(q, &ended);
    } else if (row) {
        mf_queue_row_drop(q, row);
    }
    pthread_mutex_unlock(&q->lock);
    queue_end_all(q, ended);
    return st;
}
