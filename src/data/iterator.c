/* SPDX-License-Identifier: Apache-2.0 */
/* iterator.c - batches in order, made ahead by threads of their own.
 *
 * Batches are numbered by tickets; ticket t is made in slot t % n_slots, so a ring of slots is all
 * the memory there is. Invariants:
 *  1. Tickets are given out one after the other under order_lock, each with its samples already
 *     chosen. Which thread makes a batch therefore changes nothing about it.
 *  2. order_lock is taken before lock, never after it.
 *  3. A slot belongs to whoever its state says: FREE to the ring, BUSY to one thread, READY and
 *     LENT to the consumer. Only the state itself is guarded by lock. */
#include "data/dataset.h"
#include "data/order.h"
#include "data/slices.h"
#include "graph/shard.h"

#include <pthread.h>
#include <string.h>

enum { DEFAULT_BATCH = 32, DEFAULT_PREFETCH = 2, MAX_THREADS = 256, MAX_PREFETCH = 1 << 16 };

typedef enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY, SLOT_LENT, SLOT_END } slot_state;

typedef struct slot {
    slot_state state;
    mf_batch batch;
    int64_t next_epoch, next_first; /* where the batch behind it begins */
    int64_t *indices, *ids; /* of the whole batch */
    mf_tensor **columns;
    mf_error error; /* why the batch could not be made; status MF_OK: it could */
} slot;

struct mf_iterator {
    mf_dataset *set;
    mf_iterator_options o; /* defaults filled in */
    int64_t most; /* samples of a batch, or of our part of it */
    int64_t epoch, first; /* of the next batch; the consumer's */
    int64_t taken; /* ticket that the consumer takes next; its own */
    slot *slots;
    int64_t n_slots;

    pthread_mutex_t order_lock;
    int64_t next_epoch, next_first, next_ticket; /* guarded by order_lock */
    int64_t *order; /* permutation of order_epoch; guarded by order_lock; NULL: in order */
    int64_t order_epoch; /* -1: none yet */
    mf_slices *slices; /* that make the order; NULL: it is by element */
    bool over; /* the last ticket is out; guarded by order_lock */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a slot's state, or stop */
    bool stop; /* guarded by lock */
    pthread_t *threads;
    int n_threads; /* running; the consumer's */
};

/* ---- positions ---- */

/* What follows a batch that ends at `first`. */
static void normalise(const mf_iterator *it, int64_t *epoch, int64_t *first)
{
    const int64_t left = it->set->count - *first;

    if (left == 0 || (it->o.drop_partial && left < it->o.batch)) {
        ++*epoch;
        *first = 0;
    }
}

static void make_order(mf_iterator *it)
{
    const uint64_t epoch = (uint64_t)it->next_epoch;

    if (it->slices)
        mf_slices_order(it->slices, it->o.seed, epoch, it->o.batch, it->order);
    else
        mf_order_shuffle(it->o.seed, epoch, it->order, it->set->count);
    it->order_epoch = it->next_epoch;
}

static void choose(mf_iterator *it, slot *s)
{
    const int64_t left = it->set->count - it->next_first;
    const int64_t whole = left < it->o.batch ? left : it->o.batch;
    const int64_t from = mf_shard_begin(whole, it->o.shards, it->o.first_shard);

    s->batch.n = mf_shard_begin(whole, it->o.shards, it->o.first_shard + it->o.n_shards) - from;
    s->batch.epoch = it->next_epoch;
    s->batch.first = it->next_first + from;
    s->batch.whole = whole;
    s->batch.place = from;
    s->batch.ids = s->ids + from;
    if (it->order && it->order_epoch != it->next_epoch)
        make_order(it);
    for (int64_t i = 0; i < whole; i++)
        s->indices[i] = it->order ? it->order[it->next_first + i] : it->next_first + i;
    it->next_first += whole;
    normalise(it, &it->next_epoch, &it->next_first);
    s->next_epoch = it->next_epoch;
    s->next_first = it->next_first;
}

/* ---- making batches ---- */

/* Storage that nobody else holds, of a full part, seen as n samples. */
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

static mf_status make(const mf_iterator *it, slot *s)
{
    void *to[MF_DATASET_COLUMNS] = { NULL };
    mf_status st = MF_OK;

    for (int64_t k = 0; k < s->batch.whole; k++)
        s->ids[k] = mf_dataset_sample_id(it->set, s->indices[k]);
    for (int i = 0; i < it->set->n_columns && st == MF_OK; i++)
        st = prepare_column(it, &it->set->columns[i], s->batch.n, s->columns[i]);
    for (int64_t k = 0; k < s->batch.n && st == MF_OK; k++) {
        for (int i = 0; i < it->set->n_columns; i++)
            to[i] = (char *)s->columns[i]->data + (size_t)k * it->set->bytes[i];
        st = it->set->ops->read(it->set, (uint64_t)s->batch.epoch, s->indices[s->batch.place + k],
                                to);
    }
    return st;
}

/* The next ticket's slot, once it is free; NULL: there is nothing more to do. */
static slot *take_ticket(mf_iterator *it)
{
    slot *s = &it->slots[it->next_ticket % it->n_slots];
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
    choose(it, s);
    it->next_ticket++;
    return s;
}

static void *work(void *arg)
{
    mf_iterator *it = arg;

    for (;;) {
        slot *s;

        pthread_mutex_lock(&it->order_lock);
        s = it->over ? NULL : take_ticket(it);
        pthread_mutex_unlock(&it->order_lock);
        if (!s)
            return NULL;
        s->error.status = MF_OK;
        const mf_status st = make(it, s);

        if (st != MF_OK)
            mf_error_save(st, &s->error);
        pthread_mutex_lock(&it->lock);
        s->state = SLOT_READY;
        pthread_cond_broadcast(&it->changed);
        pthread_mutex_unlock(&it->lock);
    }
}

/* ---- starting and stopping ---- */

static void stop_threads(mf_iterator *it)
{
    pthread_mutex_lock(&it->lock);
    it->stop = true;
    pthread_cond_broadcast(&it->changed);
    pthread_mutex_unlock(&it->lock);
    for (int i = 0; i < it->n_threads; i++)
        pthread_join(it->threads[i], NULL);
    it->n_threads = 0;
}

/* Thread: the consumer's, while no others run. */
static mf_status start_threads(mf_iterator *it)
{
    it->stop = it->over = false;
    it->taken = it->next_ticket = 0;
    it->next_epoch = it->epoch;
    it->next_first = it->first;
    for (int64_t i = 0; i < it->n_slots; i++)
        it->slots[i].state = SLOT_FREE;
    while (it->n_threads < it->o.threads) {
        if (pthread_create(&it->threads[it->n_threads], NULL, work, it) != 0)
            break;
        it->n_threads++;
    }
    return it->n_threads > 0 ? MF_OK
                             : MF_FAIL(MF_RESOURCE_EXHAUSTED, "no thread can be started for data");
}

static mf_status check_shards(int64_t shards, int64_t first, int64_t n)
{
    if (shards < 0 || first < 0 || n < 0 || shards > INT32_MAX || first > shards ||
        n > shards - first)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there are no %lld shards from %lld on: there are %lld",
                       (long long)n, (long long)first, (long long)shards);
    return MF_OK;
}

static mf_status check_options(const mf_dataset *set, mf_iterator_options *o)
{
    o->batch = o->batch == 0 ? DEFAULT_BATCH : o->batch;
    o->prefetch = o->prefetch == 0 ? DEFAULT_PREFETCH : o->prefetch;
    o->threads = o->threads == 0 ? 1 : o->threads;
    if (o->shards == 0)
        o->shards = o->n_shards = 1;
    if (o->batch < 0 || o->epochs < 0 || o->prefetch < 0 || o->prefetch > MAX_PREFETCH ||
        o->threads < 0 || o->threads > MAX_THREADS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "batch %lld, epochs %lld, prefetch %d, threads %d: that is no way to read",
                       (long long)o->batch, (long long)o->epochs, o->prefetch, o->threads);
    if (o->slice == MF_SLICE_FILE && o->in_order)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "slices by file are shuffled: leave out one of in_order and slice");
    MF_TRY(check_shards(o->shards, o->first_shard, o->n_shards));
    if (set->count == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set has no samples");
    if (o->drop_partial && set->count < o->batch)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld samples make no full batch of %lld, and others are dropped",
                       (long long)set->count, (long long)o->batch);
    if (o->batch > set->count)
        o->batch = set->count; /* an epoch ends a batch */
    return MF_OK;
}

static mf_status make_slot(mf_iterator *it, slot *s)
{
    const int n = it->set->n_columns;

    s->indices = mf_calloc(2 * it->o.batch, sizeof *s->indices);
    s->columns = mf_calloc(n, sizeof *s->columns);
    if (!s->indices || !s->columns)
        return MF_NOMEM("batches");
    s->ids = s->indices + it->o.batch;
    for (int i = 0; i < n; i++) {
        s->columns[i] = mf_calloc(1, sizeof *s->columns[i]);
        if (!s->columns[i])
            return MF_NOMEM("batches");
    }
    s->batch = (mf_batch){ .whole_ids = s->ids, .columns = s->columns, .n_columns = n };
    return MF_OK;
}

static int64_t most_samples(const mf_iterator_options *o)
{
    return mf_shard_begin(o->batch, o->shards, o->first_shard + o->n_shards) -
           mf_shard_begin(o->batch, o->shards, o->first_shard);
}

static mf_status make_memory(mf_iterator *it)
{
    const int ahead = it->o.prefetch > it->o.threads ? it->o.prefetch : it->o.threads;

    it->n_slots = ahead + 1; /* one is lent */
    it->most = most_samples(&it->o);
    it->slots = mf_calloc(it->n_slots, sizeof *it->slots);
    it->threads = mf_calloc(it->o.threads, sizeof *it->threads);
    if (!it->o.in_order)
        it->order = mf_calloc(it->set->count, sizeof *it->order);
    if (it->o.slice == MF_SLICE_FILE)
        MF_TRY(mf_slices_new(it->set, it->o.shards, &it->slices));
    it->order_epoch = -1;
    if (!it->slots || !it->threads || (!it->o.in_order && !it->order))
        return MF_NOMEM("batches");
    for (int64_t i = 0; i < it->n_slots; i++)
        MF_TRY(make_slot(it, &it->slots[i]));
    return MF_OK;
}

mf_status mf_iterator_new(mf_dataset *set, const mf_iterator_options *options, mf_iterator **out)
{
    mf_iterator *it = mf_calloc(1, sizeof *it);
    mf_status st;

    *out = NULL;
    if (!it)
        return MF_NOMEM("an iterator");
    pthread_mutex_init(&it->order_lock, NULL);
    pthread_mutex_init(&it->lock, NULL);
    pthread_cond_init(&it->changed, NULL);
    it->set = mf_dataset_ref(set);
    if (options)
        it->o = *options;
    st = check_options(set, &it->o);
    if (st == MF_OK)
        st = make_memory(it);
    if (st == MF_OK)
        st = start_threads(it);
    if (st != MF_OK) {
        mf_iterator_free(it);
        return st;
    }
    *out = it;
    return MF_OK;
}

void mf_iterator_free(mf_iterator *it)
{
    if (!it)
        return;
    stop_threads(it);
    for (int64_t i = 0; it->slots && i < it->n_slots; i++) {
        slot *s = &it->slots[i];

        for (int c = 0; s->columns && c < it->set->n_columns; c++)
            mf_tensor_free(s->columns[c]);
        mf_free(s->columns);
        mf_free(s->indices);
    }
    mf_free(it->slots);
    mf_free(it->threads);
    mf_free(it->order);
    mf_slices_free(it->slices);
    mf_dataset_unref(it->set);
    pthread_cond_destroy(&it->changed);
    pthread_mutex_destroy(&it->lock);
    pthread_mutex_destroy(&it->order_lock);
    mf_free(it);
}

/* ---- the consumer ---- */

mf_status mf_iterator_next(mf_iterator *it, const mf_batch **batch)
{
    slot *s = &it->slots[it->taken % it->n_slots];
    slot *before = &it->slots[(it->taken + it->n_slots - 1) % it->n_slots];

    *batch = NULL;
    pthread_mutex_lock(&it->lock);
    if (before->state == SLOT_LENT) {
        before->state = SLOT_FREE;
        pthread_cond_broadcast(&it->changed);
    }
    while (s->state != SLOT_READY && s->state != SLOT_END)
        pthread_cond_wait(&it->changed, &it->lock);
    if (s->state == SLOT_READY && s->error.status == MF_OK)
        s->state = SLOT_LENT;
    pthread_mutex_unlock(&it->lock);
    if (s->state == SLOT_END)
        return MF_FAIL(MF_OUT_OF_RANGE, "all %lld epochs are over", (long long)it->o.epochs);
    if (s->state == SLOT_READY)
        return mf_error_restore(&s->error); /* and again, until somebody seeks past it */
    it->taken++;
    it->epoch = s->next_epoch;
    it->first = s->next_first;
    *batch = &s->batch;
    return MF_OK;
}

void mf_iterator_position(const mf_iterator *it, int64_t *epoch, int64_t *first)
{
    *epoch = it->epoch;
    *first = it->first;
}

mf_status mf_iterator_seek(mf_iterator *it, int64_t epoch, int64_t first)
{
    if (epoch < 0 || first < 0 || first > it->set->count)
        return MF_FAIL(MF_OUT_OF_RANGE, "there is no sample %lld in epoch %lld: it has %lld",
                       (long long)first, (long long)epoch, (long long)it->set->count);
    normalise(it, &epoch, &first);
    if (epoch == it->epoch && first == it->first && it->taken == 0)
        return MF_OK; /* what is being made is what will be asked for */
    stop_threads(it);
    it->epoch = epoch;
    it->first = first;
    return start_threads(it);
}

mf_status mf_iterator_share(mf_iterator *it, int64_t first_shard, int64_t n_shards)
{
    MF_TRY(check_shards(it->o.shards, first_shard, n_shards));
    if (first_shard == it->o.first_shard && n_shards == it->o.n_shards)
        return MF_OK;
    stop_threads(it);
    it->o.first_shard = first_shard;
    it->o.n_shards = n_shards;
    it->most = most_samples(&it->o);
    for (int64_t i = 0; i < it->n_slots; i++) { /* batches have another size */
        for (int c = 0; c < it->set->n_columns; c++)
            mf_tensor_clear(it->slots[i].columns[c]);
    }
    return start_threads(it);
}
