/* SPDX-License-Identifier: Apache-2.0 */
/* queue_rows.c - the container of a queue: a ring of rows, sampled at random or kept as a heap
 * depending on its kind; and batches of rows. */
#include "ops/state/queue.h"

#include <string.h>

static mf_queue_row **queue_rows_place(mf_queue *q, int64_t i)
{
    MF_ASSERT(q->ring_cap > 0);
    return &q->ring[(q->head + i) % q->ring_cap];
}

mf_status mf_queue_reserve(mf_queue *q, int64_t rows)
{
    mf_queue_row **ring;
    int64_t cap = q->ring_cap ? q->ring_cap : 16;

    while (cap < q->count + rows)
        cap *= 2;
    if (cap == q->ring_cap)
        return MF_OK;
    ring = mf_calloc(cap, sizeof *ring);
    if (!ring)
        return MF_NOMEM("a queue");
    for (int64_t i = 0; i < q->count; i++)
        ring[i] = *queue_rows_place(q, i);
    mf_free(q->ring);
    q->ring = ring;
    q->ring_cap = cap;
    q->head = 0;
    return MF_OK;
}

mf_queue_row *mf_queue_row_new(mf_queue *q)
{
    mf_queue_row *row = q->spare;

    if (row)
        q->spare = row->next;
    else
        row = mf_calloc(1, sizeof *row + (size_t)q->n_parts * sizeof(mf_tensor));
    if (row)
        row->next = NULL;
    return row;
}

void mf_queue_row_drop(mf_queue *q, mf_queue_row *row)
{
    for (int i = 0; i < q->n_parts; i++)
        mf_tensor_clear(&row->parts[i]);
    row->next = q->spare;
    q->spare = row;
}

/* ---- the heap ---- */

static bool queue_rows_before(const mf_queue_row *a, const mf_queue_row *b)
{
    const int64_t x = *(const int64_t *)a->parts[0].data, y = *(const int64_t *)b->parts[0].data;

    return x != y ? x < y : a->order < b->order;
}

static void queue_rows_swap(mf_queue *q, int64_t i, int64_t j)
{
    mf_queue_row *row = *queue_rows_place(q, i);

    *queue_rows_place(q, i) = *queue_rows_place(q, j);
    *queue_rows_place(q, j) = row;
}

static void sift_up(mf_queue *q, int64_t i)
{
    while (i > 0 && queue_rows_before(*queue_rows_place(q, i), *queue_rows_place(q, (i - 1) / 2))) {
        queue_rows_swap(q, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void sift_down(mf_queue *q, int64_t i)
{
    for (;;) {
        int64_t least = i;

        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->count; child++) {
            if (queue_rows_before(*queue_rows_place(q, child), *queue_rows_place(q, least)))
                least = child;
        }
        if (least == i)
            return;
        queue_rows_swap(q, i, least);
        i = least;
    }
}

/* ---- in and out ---- */

void mf_queue_push(mf_queue *q, mf_queue_row *row)
{
    row->next = NULL;
    row->order = q->arrivals++;
    *queue_rows_place(q, q->count++) = row;
    if (q->kind == MF_QUEUE_PRIORITY)
        sift_up(q, q->count - 1);
}

void mf_queue_push_front(mf_queue *q, mf_queue_row *row)
{
    if (q->kind == MF_QUEUE_PRIORITY || q->kind == MF_QUEUE_SHUFFLE) {
        const int64_t order = row->order;

        mf_queue_push(q, row);
        row->order = order;
        return;
    }
    row->next = NULL;
    q->head = (q->head + q->ring_cap - 1) % q->ring_cap;
    q->count++;
    *queue_rows_place(q, 0) = row;
}

static uint32_t queue_rows_draw(mf_queue *q)
{
    if (q->n_drawn == 4) {
        mf_philox_next(&q->random, q->drawn);
        q->n_drawn = 0;
    }
    return q->drawn[q->n_drawn++];
}

mf_queue_row *mf_queue_pop(mf_queue *q)
{
    mf_queue_row *row;

    if (q->kind == MF_QUEUE_FIFO || q->kind == MF_QUEUE_PADDING || q->kind == MF_QUEUE_STAGE) {
        row = *queue_rows_place(q, 0);
        q->head = (q->head + 1) % q->ring_cap;
        q->count--;
        return row;
    }
    const int64_t i =
        q->kind == MF_QUEUE_SHUFFLE ? (int64_t)(queue_rows_draw(q) % (uint64_t)q->count) : 0;

    row = *queue_rows_place(q, i);
    q->count--;
    *queue_rows_place(q, i) = *queue_rows_place(q, q->count);
    if (q->kind == MF_QUEUE_PRIORITY && q->count > 0)
        sift_down(q, 0);
    return row;
}

/* ---- batches ---- */

/* The shape of one row in a batch: as declared; undeclared dimensions are those of the largest row.
 */
static mf_shape queue_rows_row_shape(const mf_queue *q, int c, const mf_queue_row *rows)
{
    mf_shape s = q->shapes[c];

    for (int d = 0; d < s.rank; d++) {
        if (s.dims[d] != MF_UNKNOWN_DIM)
            continue;
        s.dims[d] = 0;
        for (const mf_queue_row *r = rows; r; r = r->next) {
            if (r->parts[c].shape.dims[d] > s.dims[d])
                s.dims[d] = r->parts[c].shape.dims[d];
        }
    }
    return s;
}

/* Copies `src` to the corner of the block of shape `to` that begins at element `at`. */
static mf_status copy_corner(mf_tensor *dst, int64_t at, const mf_shape *to, const mf_tensor *src)
{
    const int rank = src->shape.rank;
    const int64_t run = rank ? src->shape.dims[rank - 1] : 1;

    if (src->count == 0)
        return MF_OK;
    for (int64_t i = 0; i < src->count / run; i++) {
        int64_t rest = i, step = rank ? to->dims[rank - 1] : 1, offset = 0;

        for (int d = rank - 2; d >= 0; d--) {
            offset += rest % src->shape.dims[d] * step;
            rest /= src->shape.dims[d];
            step *= to->dims[d];
        }
        MF_TRY(mf_cells_copy(src->dtype, dst->data, at + offset, src->data, i * run, run));
    }
    return MF_OK;
}

mf_status mf_queue_batch(const mf_queue *q, mf_kernel *k, int c, mf_queue_row *rows, int64_t n)
{
    const mf_shape one = queue_rows_row_shape(q, c, rows);
    mf_shape shape = { .rank = one.rank + 1, .dims = { n } };
    int64_t size, at = 0;
    mf_tensor *out;

    if (one.rank >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a batch of rank %d is not supported", shape.rank);
    memcpy(shape.dims + 1, one.dims, (size_t)one.rank * sizeof(int64_t));
    MF_TRY(mf_shape_count(&one, &size));
    MF_TRY(mf_kernel_out(k, c, &shape, &out));
    if (q->kind == MF_QUEUE_PADDING && mf_dtype_is_plain(out->dtype) && out->count > 0)
        memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
    for (const mf_queue_row *r = rows; r; r = r->next, at += size)
        MF_TRY(copy_corner(out, at, &one, &r->parts[c]));
    return MF_OK;
}
