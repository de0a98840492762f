/* SPDX-License-Identifier: Apache-2.0 */
/* iterator_make.c - the threads of an iterator: choose samples, and read them. */
#include "data/iterator_private.h"
#include "data/order.h"

#include <string.h>

/* ---- the order ---- */

static void make_order(mf_iterator *it)
{
    const uint64_t epoch = (uint64_t)it->next_epoch;

    if (it->slices)
        mf_slices_order(it->slices, it->o.seed, epoch, it->o.batch,
                        it->o.slice == MF_SLICE_FILE_BATCH, it->order);
    else
        mf_order_shuffle(it->o.seed, epoch, it->order, it->set->count);
    it->order_epoch = it->next_epoch;
}

static void iterator_make_choose(mf_iterator *it, mf_slot *s)
{
    const int64_t left = it->set->count - it->next_first;
    const int64_t whole = left < it->o.batch ? left : it->o.batch;
    int64_t from;

    s->batch.n = mf_iterator_part(&it->o, whole, &from);
    s->batch.epoch = it->next_epoch;
    s->batch.first = it->next_first + from;
    s->batch.whole = whole;
    s->batch.place = from;
    s->batch.ids = s->ids + from;
    s->rows = mf_iterator_rows(it, whole);
    if (s->rows) {
        s->batch.n = mf_ranges_count(s->rows);
        s->batch.ids = s->own_ids;
    }
    if (it->order && it->order_epoch != it->next_epoch)
        make_order(it);
    for (int64_t i = 0; i < whole; i++)
        s->indices[i] = it->order ? it->order[it->next_first + i] : it->next_first + i;
    it->next_first += whole;
    mf_iterator_normalise(it, &it->next_epoch, &it->next_first);
    s->next_epoch = it->next_epoch;
    s->next_first = it->next_first;
}

/* ---- making batches ---- */

/* Storage that no other tensor shares, of a full part, viewed as n samples. */
static mf_status prepare_column(const mf_iterator *it, const mf_column *c, int64_t n, mf_tensor *t)
{
    if (t->buffer && !mf_buffer_is_sole(t->buffer))
        mf_tensor_clear(t);
    if (!t->buffer) {
        mf_shape shape = { .rank = c->rank + 1, .dims = { it->most } };

        memcpy(shape.dims + 1, c->dims, (size_t)c->rank * sizeof c->dims[0]);
        mf_tensor_clear(t);
        MF_TRY(mf_tensor_alloc(t, c->dtype, &shape));
    }
    t->shape.dims[0] = n;
    t->count = mf_shape_span(&t->shape, 0, t->shape.rank);
    return MF_OK;
}

/* Reads the k-th sample of the part, which is row `row` of the batch. */
static mf_status read_sample(const mf_iterator *it, mf_slot *s, int64_t k, int64_t row)
{
    void *to[MF_DATASET_COLUMNS] = { NULL };

    for (int i = 0; i < it->set->n_columns; i++)
        to[i] = (char *)s->columns[i]->data + (size_t)k * it->set->bytes[i];
    return it->set->ops->read(it->set, (uint64_t)s->batch.epoch, s->indices[row], to);
}

static mf_status iterator_make_read_rows(const mf_iterator *it, mf_slot *s)
{
    int64_t k = 0;

    for (int64_t i = 0; i < s->rows->n; i++) {
        for (int64_t row = s->rows->at[i].begin; row < s->rows->at[i].end; row++) {
            s->own_ids[k] = s->ids[row];
            MF_TRY(read_sample(it, s, k++, row));
        }
    }
    return MF_OK;
}

static mf_status iterator_make(const mf_iterator *it, mf_slot *s)
{
    mf_status st = MF_OK;

    for (int64_t k = 0; k < s->batch.whole; k++)
        s->ids[k] = mf_dataset_sample_id(it->set, s->indices[k]);
    for (int i = 0; i < it->set->n_columns && st == MF_OK; i++)
        st = prepare_column(it, &it->set->columns[i], s->batch.n, s->columns[i]);
    if (st == MF_OK && s->rows)
        return iterator_make_read_rows(it, s);
    for (int64_t k = 0; k < s->batch.n && st == MF_OK; k++)
        st = read_sample(it, s, k, s->batch.place + k);
    return st;
}

/* The next ticket's slot, once it is free; NULL: no more tickets. */
static mf_slot *take_ticket(mf_iterator *it)
{
    mf_slot *s = &it->slots[it->next_ticket % it->n_slots];
    bool stop;

    pthread_mutex_lock(&it->lock);
    while (s->state != SLOT_FREE && !it->stop)
        pthread_cond_wait(&it->changed, &it->lock);
    stop = it->stop;
    it->over = it->o.epochs > 0 && it->next_epoch >= it->o.epochs;
    if (!stop)
        s->state = it->over ? SLOT_END : SLOT_BUSY;
    if (it->over)
        pthread_cond_broadcast(&it->changed);
    pthread_mutex_unlock(&it->lock);
    if (stop || it->over)
        return NULL;
    iterator_make_choose(it, s);
    it->next_ticket++;
    return s;
}

void *mf_iterator_work(void *arg)
{
    mf_iterator *it = arg;

    for (;;) {
        mf_slot *s;

        pthread_mutex_lock(&it->order_lock);
        s = it->over ? NULL : take_ticket(it);
        pthread_mutex_unlock(&it->order_lock);
        if (!s)
            return NULL;
        s->error.status = MF_OK;
        const mf_status st = iterator_make(it, s);

        if (st != MF_OK)
            mf_error_save(st, &s->error);
        pthread_mutex_lock(&it->lock);
        s->state = SLOT_READY;
        pthread_cond_broadcast(&it->changed);
        pthread_mutex_unlock(&it->lock);
    }
}
