/* SPDX-License-Identifier: Apache-2.0 */
/* iterator.c - batches in order, prefetched by threads: the consumer's side. */
#include "base/clock.h"
#include "base/cond.h"
#include "base/host_state.h"
#include "base/thread.h"
#include "data/iterator_private.h"
#include "observe/stall_watchdog.h"

#include <string.h>

enum { DEFAULT_BATCH = 32, DEFAULT_PREFETCH = 2, MAX_THREADS = 256, MAX_PREFETCH = 1 << 16 };
enum { LOOK_NS = 250000000 }; /* interval at which a waiting consumer checks the reason */

/* ---- start and stop ---- */

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

/* Thread: the consumer, while no other threads run. */
static mf_status start_threads(mf_iterator *it)
{
    it->stop = it->over = false;
    it->taken = it->next_ticket = 0;
    it->next_epoch = it->epoch;
    it->next_first = it->first;
    for (int64_t i = 0; i < it->n_slots; i++)
        it->slots[i].state = SLOT_FREE;
    while (it->n_threads < it->o.threads) {
        if (mf_thread_start(&it->threads[it->n_threads], mf_iterator_work, it) != 0)
            break;
        it->n_threads++;
    }
    return it->n_threads > 0 ? MF_OK
                             : MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread for data");
}

static mf_status check_shards(int64_t shards, int64_t first, int64_t n)
{
    if (shards < 0 || first < 0 || n < 0 || shards > INT32_MAX || first > shards ||
        n > shards - first)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld shards from %lld on are out of range: there "
                       "are %lld",
                       (long long)n, (long long)first, (long long)shards);
    return MF_OK;
}

static mf_status iterator_check_options(const mf_dataset *set, mf_iterator_options *o)
{
    MF_TRY(mf_slicing_check(o->slice));
    o->batch = o->batch == 0 ? DEFAULT_BATCH : o->batch;
    o->prefetch = o->prefetch == 0 ? DEFAULT_PREFETCH : o->prefetch;
    o->threads = o->threads == 0 ? 1 : o->threads;
    if (o->shards == 0)
        o->shards = o->n_shards = 1;
    if (o->batch < 0 || o->epochs < 0 || o->prefetch < 0 || o->prefetch > MAX_PREFETCH ||
        o->threads < 0 || o->threads > MAX_THREADS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "invalid options: batch %lld, epochs %lld, prefetch %d, threads %d",
                       (long long)o->batch, (long long)o->epochs, o->prefetch, o->threads);
    if (o->slice != MF_SLICE_ELEMENT && o->in_order)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "slices by file are shuffled: in_order and slice exclude each other");
    MF_TRY(check_shards(o->shards, o->first_shard, o->n_shards));
    MF_TRY(check_shards(o->shards, o->part_first, o->part_n));
    if (set->count == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the data set has no samples");
    if (o->drop_partial && set->count < o->batch)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "%lld samples are less than one batch of %lld, and partial batches are "
                       "dropped",
                       (long long)set->count, (long long)o->batch);
    if (o->batch > set->count)
        o->batch = set->count; /* batches end with the epoch */
    return MF_OK;
}

static mf_status make_slot(mf_iterator *it, mf_slot *s)
{
    const int n = it->set->n_columns;

    s->indices = mf_calloc(3 * it->o.batch, sizeof *s->indices);
    s->columns = mf_calloc(n, sizeof *s->columns);
    if (!s->indices || !s->columns)
        return MF_NOMEM("batches");
    s->ids = s->indices + it->o.batch;
    s->own_ids = s->ids + it->o.batch;
    for (int i = 0; i < n; i++) {
        s->columns[i] = mf_calloc(1, sizeof *s->columns[i]);
        if (!s->columns[i])
            return MF_NOMEM("batches");
    }
    s->batch = (mf_batch){ .whole_ids = s->ids, .columns = s->columns, .n_columns = n };
    return MF_OK;
}

static void free_slot(const mf_iterator *it, mf_slot *s)
{
    for (int c = 0; s->columns && c < it->set->n_columns; c++)
        mf_tensor_free(s->columns[c]);
    mf_free(s->columns);
    mf_free(s->indices);
}

/* Grows the ring for this many threads. It never shrinks. */
static mf_status iterator_make_ring(mf_iterator *it, int threads)
{
    const int64_t ahead = it->o.prefetch > threads ? it->o.prefetch : threads;

    MF_TRY(mf_grow(&it->threads, &it->cap_threads, threads, sizeof *it->threads));
    MF_TRY(mf_grow(&it->slots, &it->cap_slots, ahead + 1, sizeof *it->slots));
    while (it->n_slots <= ahead) { /* one slot is lent to the consumer */
        mf_slot *s = &it->slots[it->n_slots];
        mf_status st;

        *s = (mf_slot){ 0 };
        st = make_slot(it, s);
        if (st != MF_OK) {
            free_slot(it, s);
            return st;
        }
        it->n_slots++;
    }
    return MF_OK;
}

static int64_t iterator_samples_of(const mf_iterator *it, int64_t whole)
{
    const mf_ranges *rows = mf_iterator_rows(it, whole);
    int64_t from;

    return rows ? mf_ranges_count(rows) : mf_iterator_part(&it->o, whole, &from);
}

/* Of a full batch, or of the last one of an epoch, which may need other rows. */
static int64_t most_samples(const mf_iterator *it)
{
    const int64_t full = iterator_samples_of(it, it->o.batch),
                  last = iterator_samples_of(it, it->set->count % it->o.batch);

    return full > last ? full : last;
}

static mf_status make_memory(mf_iterator *it)
{
    it->most = most_samples(it);
    if (it->o.slice != MF_SLICE_ELEMENT)
        MF_TRY(mf_slices_new(it->set, it->o.shards, &it->slices));
    if (!it->o.in_order)
        it->order = mf_calloc(it->set->count, sizeof *it->order);
    if (!it->o.in_order && !it->order)
        return MF_NOMEM("batches");
    it->order_epoch = -1;
    return iterator_make_ring(it, it->o.threads);
}

static mf_status check_needed(const mf_iterator *it, const mf_needed *needed, int n)
{
    if (n > MF_NEEDED || (n > 0 && (it->o.n_shards != it->o.shards || it->o.part_n > 0)))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "row ranges for %d batch sizes need all shards, but %lld of %lld are taken",
                       n, (long long)it->o.n_shards, (long long)it->o.shards);
    for (int i = 0; i < n; i++) {
        const mf_ranges *r = &needed[i].rows;

        if (r->n > 0 && (r->at[0].begin < 0 || r->at[r->n - 1].end > needed[i].whole))
            return MF_FAIL(MF_INVALID_ARGUMENT, "rows %lld to %lld of a batch of %lld",
                           (long long)r->at[0].begin, (long long)r->at[r->n - 1].end,
                           (long long)needed[i].whole);
    }
    return MF_OK;
}

/* Takes ownership of the ranges. */
static void take_needed(mf_iterator *it, mf_needed *needed, int n)
{
    for (int i = 0; i < n; i++) {
        it->needed[it->n_needed++] = needed[i];
        needed[i].rows = (mf_ranges){ 0 };
    }
}

mf_status mf_iterator_new_needed(mf_dataset *set, const mf_iterator_options *options,
                                 mf_needed *needed, int n, mf_iterator **out)
{
    mf_iterator *it = mf_calloc(1, sizeof *it);
    mf_status st;

    *out = NULL;
    if (!it)
        return MF_NOMEM("an iterator");
    pthread_mutex_init(&it->order_lock, NULL);
    pthread_mutex_init(&it->lock, NULL);
    mf_cond_init(&it->changed);
    it->set = mf_dataset_ref(set);
    if (options)
        it->o = *options;
    st = iterator_check_options(set, &it->o);
    if (st == MF_OK)
        st = check_needed(it, needed, n);
    if (st == MF_OK)
        take_needed(it, needed, n);
    for (int i = 0; i < n; i++) /* entries that were not moved */
        mf_ranges_deinit(&needed[i].rows);
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

mf_status mf_iterator_new(mf_dataset *set, const mf_iterator_options *options, mf_iterator **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    return mf_iterator_new_needed(set, options, NULL, 0, out);
}

static void forget_needed(mf_iterator *it)
{
    for (int i = 0; i < it->n_needed; i++)
        mf_ranges_deinit(&it->needed[i].rows);
    it->n_needed = 0;
}

void mf_iterator_free(mf_iterator *it)
{
    MF_ENTRY_OR();

    if (!it)
        return;
    stop_threads(it);
    for (int64_t i = 0; i < it->n_slots; i++)
        free_slot(it, &it->slots[i]);
    forget_needed(it);
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

/* The caller holds the lock. */
static void iterator_await(mf_iterator *it, const mf_slot *s)
{
    mf_stall stall = { 0 };

    mf_stall_begin(&stall);
    while (s->state != SLOT_READY && s->state != SLOT_END) {
        if (mf_cond_wait_until(&it->changed, &it->lock, mf_clock_ns() + LOOK_NS))
            continue;
        pthread_mutex_unlock(&it->lock);
        (void)mf_stall_check(&stall);
        pthread_mutex_lock(&it->lock);
    }
    mf_stall_end(&stall, true);
}

mf_status mf_iterator_next(mf_iterator *it, const mf_batch **batch)
{
    MF_ENTRY;
    MF_NEED(it, batch);

    mf_slot *s = &it->slots[it->taken % it->n_slots];
    mf_slot *before = &it->slots[(it->taken + it->n_slots - 1) % it->n_slots];

    *batch = NULL;
    pthread_mutex_lock(&it->lock);
    if (before->state == SLOT_LENT) {
        before->state = SLOT_FREE;
        pthread_cond_broadcast(&it->changed);
    }
    if (s->state != SLOT_READY && s->state != SLOT_END)
        iterator_await(it, s);
    if (s->state == SLOT_READY && s->error.status == MF_OK)
        s->state = SLOT_LENT;
    pthread_mutex_unlock(&it->lock);
    if (s->state == SLOT_END)
        return MF_FAIL(MF_OUT_OF_RANGE, "all %lld epochs are complete", (long long)it->o.epochs);
    if (s->state == SLOT_READY)
        return mf_error_restore(&s->error); /* repeated until the consumer seeks past it */
    it->taken++;
    it->epoch = s->next_epoch;
    it->first = s->next_first;
    *batch = &s->batch;
    return MF_OK;
}

void mf_iterator_position(const mf_iterator *it, int64_t *epoch, int64_t *first)
{
    MF_ENTRY_OR();
    if (!it || !epoch || !first)
        return;

    *epoch = it->epoch;
    *first = it->first;
}

mf_status mf_iterator_seek(mf_iterator *it, int64_t epoch, int64_t first)
{
    MF_ENTRY;
    MF_NEED(it);

    if (epoch < 0 || first < 0 || first > it->set->count)
        return MF_FAIL(MF_OUT_OF_RANGE, "there is no sample %lld in epoch %lld: it has %lld",
                       (long long)first, (long long)epoch, (long long)it->set->count);
    mf_iterator_normalise(it, &epoch, &first);
    if (epoch == it->epoch && first == it->first && it->taken == 0)
        return MF_OK; /* the prefetched batches are the right ones */
    stop_threads(it);
    it->epoch = epoch;
    it->first = first;
    return start_threads(it);
}

/* Changes the size of batches. Thread: the consumer, while no other threads run. */
static mf_status read_otherwise(mf_iterator *it)
{
    it->most = most_samples(it);
    for (int64_t i = 0; i < it->n_slots; i++) {
        for (int c = 0; c < it->set->n_columns; c++)
            mf_tensor_clear(it->slots[i].columns[c]);
    }
    return start_threads(it);
}

mf_status mf_iterator_share(mf_iterator *it, int64_t first_shard, int64_t n_shards)
{
    MF_ENTRY;
    MF_NEED(it);

    return mf_iterator_share_part(it, first_shard, n_shards, 0, 0);
}

mf_status mf_iterator_share_part(mf_iterator *it, int64_t first_shard, int64_t n_shards,
                                 int64_t part_first, int64_t part_n)
{
    MF_ENTRY;
    MF_NEED(it);

    MF_TRY(check_shards(it->o.shards, first_shard, n_shards));
    MF_TRY(check_shards(it->o.shards, part_first, part_n));
    if (first_shard == it->o.first_shard && n_shards == it->o.n_shards &&
        part_first == it->o.part_first && part_n == it->o.part_n)
        return MF_OK;
    stop_threads(it);
    it->o.first_shard = first_shard;
    it->o.n_shards = n_shards;
    it->o.part_first = part_first;
    it->o.part_n = part_n;
    return read_otherwise(it);
}

static bool are_needed(const mf_iterator *it, const mf_needed *needed, int n)
{
    for (int i = 0; i < n && n == it->n_needed; i++) {
        if (it->needed[i].whole != needed[i].whole ||
            !mf_ranges_equal(&it->needed[i].rows, &needed[i].rows))
            return false;
    }
    return n == it->n_needed;
}

mf_status mf_iterator_need(mf_iterator *it, mf_needed *needed, int n)
{
    const mf_status st = check_needed(it, needed, n);
    const bool same = st == MF_OK && are_needed(it, needed, n);

    if (st == MF_OK && !same) {
        stop_threads(it);
        forget_needed(it);
    }
    if (st == MF_OK && !same)
        take_needed(it, needed, n);
    for (int i = 0; i < n; i++) /* entries that were not moved */
        mf_ranges_deinit(&needed[i].rows);
    return st == MF_OK && !same ? read_otherwise(it) : st;
}

mf_status mf_iterator_set_threads(mf_iterator *it, int threads)
{
    MF_ENTRY;
    MF_NEED(it);

    if (threads < 1 || threads > MAX_THREADS)
        return MF_FAIL(MF_INVALID_ARGUMENT, "threads is %d, but must be 1 to %d", threads,
                       MAX_THREADS);
    if (threads == it->o.threads)
        return MF_OK;
    stop_threads(it);
    MF_TRY(iterator_make_ring(it, threads));
    it->o.threads = threads;
    return start_threads(it);
}
