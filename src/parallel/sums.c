/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see sums.h. A bucket is packed into one vector for each part (begin), summed by the
 * thread, and handed out as views of the result (end). In a vector those items come first that
 * travel as they are; the rest of it travels by codecs (coded.h). */
#include "parallel/sums.h"

#include "base/clock.h"
#include "base/mem.h"
#include "graph/shard.h"
#include "parallel/apart.h"
#include "parallel/coded.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16 }; /* elements: where an item begins in the vector */

typedef struct bucket {
    const mf_exchange_bucket *about; /* of the step at hand */
    mf_tensor packed; /* our parts, one vector behind the other */
    mf_tensor result;
    int64_t count; /* elements of a vector */
    int64_t exact; /* of these, that travel as they are */
    int64_t *at; /* where each item begins in it; NULL: not laid out yet */
    mf_coded coded; /* the other items */
    mf_tensor scratch;
    int64_t *rows; /* rows of each item; of concatenated ones */
    bool ready, done; /* ready: packed; done: result is there */
    mf_kernel *waiting; /* for done */
} bucket;

struct mf_sums {
    mf_exchange base; /* first */
    mf_sums_options o;
    mf_shares shares;
    mf_extra_list before; /* what a checkpoint had of codecs */
    bucket *buckets;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, closing; /* closing: guarded by lock */
    mf_error error; /* the exchange has failed for good; guarded by lock */
    int next; /* bucket; the thread's */
    int64_t step;
    float factor; /* of our gradients, in this step */
    bool wants_stop;
    bool stop; /* guarded by lock */
    char what[48]; /* of the collective at hand; the thread's */
    int64_t plain, rows; /* bytes of sums, and of rows; guarded by lock */
};

/* By what our gradients are multiplied: members may have other weights than their samples. */
static mf_status find_factor(mf_sums *x)
{
    const mf_shares *s = &x->shares;
    int64_t *n;

    x->factor = 1.0f;
    if (x->o.aggregation.how != MF_AGGREGATE_WEIGHTED)
        return MF_OK;
    n = mf_calloc(s->ranks, sizeof *n);
    if (!n)
        return MF_NOMEM("weights");
    for (int r = 0; r < s->ranks; r++)
        n[r] = mf_shard_begin(s->samples, s->shards, s->first[r + 1]) -
               mf_shard_begin(s->samples, s->shards, s->first[r]);
    x->factor = (float)mf_aggregate_factor(&x->o.aggregation, n, s->ranks, x->o.group->rank);
    mf_free(n);
    return MF_OK;
}

mf_status mf_sums_begin_step(mf_sums *x, int64_t step, int64_t samples, bool wants_stop)
{
    mf_status st;

    pthread_mutex_lock(&x->lock);
    st = x->error.status == MF_OK ? MF_OK : mf_error_restore(&x->error);
    for (int i = 0; i < x->o.n_buckets; i++)
        x->buckets[i].ready = x->buckets[i].done = false;
    x->step = step;
    x->wants_stop = wants_stop;
    mf_shares_set(&x->shares, samples);
    if (st == MF_OK)
        st = find_factor(x);
    pthread_mutex_unlock(&x->lock);
    return st;
}

bool mf_sums_wants_stop(mf_sums *x)
{
    bool stop;

    pthread_mutex_lock(&x->lock);
    stop = x->stop;
    pthread_mutex_unlock(&x->lock);
    return stop;
}

int64_t mf_sums_plain_bytes(mf_sums *x)
{
    const int n = x->o.group->size;
    int64_t bytes;

    pthread_mutex_lock(&x->lock);
    bytes = x->plain / n * 2 * (n - 1) + x->rows;
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

/* ---- what codecs keep ---- */

void mf_sums_restore(mf_sums *x, mf_extra_list *before)
{
    mf_extra_clear(&x->before);
    x->before = *before;
    *before = (mf_extra_list){ 0 };
    for (int i = 0; i < x->o.n_buckets; i++) { /* it is laid out again, with what there was */
        mf_coded_deinit(&x->buckets[i].coded);
        x->buckets[i].coded = (mf_coded){ 0 };
        mf_free(x->buckets[i].at);
        x->buckets[i].at = NULL;
    }
}

mf_status mf_sums_collect(mf_sums *x, mf_group *group, const mf_collective *call,
                          mf_extra_list *out)
{
    for (int i = 0; i < x->o.n_buckets; i++)
        MF_TRY(mf_coded_collect(&x->buckets[i].coded, &x->shares, group, call, out));
    return MF_OK;
}

/* ---- packing ---- */

static int64_t padded(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool has_vote(const mf_sums *x, const mf_exchange_bucket *b)
{
    return b->id == x->o.n_buckets - 1;
}

/* The same for all workers and all trainings with this seed (FNV-1a). */
static uint64_t seed_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u ^ seed;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static mf_codec_item describe(const mf_sums *x, const mf_exchange_bucket *b, int i)
{
    const mf_shape *s = &b->shapes[i];
    const int64_t count = mf_shape_span(s, 0, s->rank);
    const int64_t columns = s->rank > 0 ? s->dims[s->rank - 1] : 1;

    return (mf_codec_item){ .count = count,
                            .rows = columns > 0 ? count / columns : 0,
                            .columns = columns,
                            .seed = seed_of(x->o.seed, b->names[i]) };
}

static const mf_codec *codec_of(const mf_sums *x, const mf_exchange_bucket *b, int i)
{
    const mf_codec_item item = describe(x, b, i);

    return x->o.codecs ? mf_codecs_find(x->o.codecs, b->names[i], (mf_dtype)b->types[i], &item)
                       : NULL;
}

/* Where items lie in a vector: first the exact ones, with the vote behind them, then the others. */
static mf_status lay_out(mf_sums *x, bucket *k)
{
    const mf_exchange_bucket *b = k->about;
    int64_t n = 0, one;

    k->at = mf_calloc(b->n_items, sizeof *k->at);
    if (!k->at)
        return MF_NOMEM("an exchange");
    for (int i = 0; i < b->n_items; i++) {
        if (mf_shape_count(&b->shapes[i], &one) != MF_OK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld has a sum of unknown shape",
                           (long long)b->id);
        k->at[i] = n;
        n += codec_of(x, b, i) ? 0 : padded(one);
    }
    n += has_vote(x, b) ? ALIGN : 0;
    k->exact = n;
    for (int i = 0; i < b->n_items; i++) {
        const mf_codec *codec = codec_of(x, b, i);
        const mf_codec_item item = describe(x, b, i);

        if (!codec)
            continue;
        k->at[i] = n;
        n += padded(item.count);
        MF_TRY(mf_coded_add(&k->coded, &x->shares, x->o.group->rank, b->names[i], codec, &item,
                            k->at[i], &x->before));
    }
    k->count = n;
    return MF_OK;
}

/* Else it is a loss, a metric, a statistic, or the numbers of rows. */
static bool is_gradient(const mf_exchange_bucket *b, int i)
{
    return (b->concat || b->names[i][0] != '\0') && b->types[i] == MF_DTYPE_F32;
}

static void weigh(const mf_sums *x, const mf_exchange_bucket *b, int i, void *data, int64_t n)
{
    float *v = data;

    if (x->factor == 1.0f || !is_gradient(b, i))
        return;
    for (int64_t k = 0; k < n; k++)
        v[k] *= x->factor;
}

static void pack_part(const mf_sums *x, const bucket *k, int part, const mf_tensor *const *values,
                      char *vector)
{
    const size_t cell = mf_dtype_cell((mf_dtype)k->about->types[0]);

    for (int i = 0; i < k->about->n_items; i++) {
        char *to = vector + (size_t)k->at[i] * cell;
        const int64_t n = values[i]->count, room = padded(n);

        memcpy(to, values[i]->data, (size_t)n * cell);
        weigh(x, k->about, i, to, n);
        memset(to + (size_t)n * cell, 0, (size_t)(room - n) * cell);
    }
    if (has_vote(x, k->about)) {
        char *to = vector + (size_t)(k->exact - ALIGN) * cell;

        memset(to, 0, ALIGN * cell);
        if (part == 0 && x->wants_stop)
            *(float *)(void *)to = 1.0f;
    }
}

static mf_status pack_sums(mf_sums *x, bucket *k, const mf_tensor *const *values)
{
    const mf_exchange_bucket *b = k->about;
    const mf_dtype dtype = (mf_dtype)b->types[0];
    const size_t cell = mf_dtype_cell(dtype);

    if (!k->at)
        MF_TRY(lay_out(x, k));
    for (int i = 0; i < b->n_parts * b->n_items; i++) {
        int64_t n;

        if (values[i]->dtype != dtype || mf_shape_count(&b->shapes[i % b->n_items], &n) != MF_OK ||
            values[i]->count != n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld: value %d is not what was announced",
                           (long long)b->id, i);
    }
    MF_TRY(mf_room_for(&k->packed, dtype, k->count * (b->n_parts > 0 ? b->n_parts : 1)));
    for (int p = 0; p < b->n_parts; p++)
        pack_part(x, k, p, values + (size_t)p * (size_t)b->n_items,
                  (char *)k->packed.data + (size_t)(p * k->count) * cell);
    return MF_OK;
}

/* Rows: the bytes of all items, one behind the other. */
static mf_status pack_rows(const mf_sums *x, bucket *k, const mf_tensor *const *values)
{
    const mf_exchange_bucket *b = k->about;
    int64_t bytes = 0;
    char *to;

    if (!k->rows)
        k->rows = mf_calloc(b->n_items, sizeof *k->rows);
    if (!k->rows)
        return MF_NOMEM("an exchange");
    for (int i = 0; i < b->n_items; i++) {
        k->rows[i] = b->n_parts > 0 ? values[i]->shape.dims[0] : 0;
        bytes += b->n_parts > 0 ? (int64_t)mf_tensor_bytes(values[i]) : 0;
    }
    k->count = bytes;
    MF_TRY(mf_room_for(&k->packed, MF_DTYPE_U8, bytes > 0 ? bytes : 1));
    to = k->packed.data;
    for (int i = 0; i < b->n_items && b->n_parts > 0; i++) {
        memcpy(to, values[i]->data, mf_tensor_bytes(values[i]));
        weigh(x, b, i, to, values[i]->count);
        to += mf_tensor_bytes(values[i]);
    }
    return MF_OK;
}

static mf_status sums_begin(mf_exchange *exchange, const mf_exchange_bucket *b,
                            const mf_tensor *const *values)
{
    mf_sums *x = (mf_sums *)exchange;
    bucket *k;

    if (b->id < 0 || b->id >= x->o.n_buckets)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no bucket %lld", (long long)b->id);
    k = &x->buckets[b->id];
    k->about = b;
    MF_TRY(b->concat ? pack_rows(x, k, values) : pack_sums(x, k, values));
    pthread_mutex_lock(&x->lock);
    k->ready = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    return MF_OK;
}

/* ---- the collectives ---- */

static mf_collective call_of(mf_sums *x, const bucket *k, const char *what)
{
    (void)snprintf(x->what, sizeof x->what, "%s, bucket %lld", what, (long long)k->about->id);
    return (mf_collective){ x->step, mf_clock_ns() + x->o.timeout_ns, x->what };
}

/* Gradients of all shards one by one, all else in the tree. */
static mf_status reduce_apart(mf_sums *x, bucket *k, const mf_collective *c, void **parts)
{
    const mf_exchange_bucket *b = k->about;
    mf_apart_item *items = mf_calloc(b->n_items, sizeof *items);
    int n = 0;
    mf_status st;

    if (!items)
        return MF_NOMEM("gradients");
    for (int i = 0; i < b->n_items; i++) {
        if (is_gradient(b, i))
            items[n++] = (mf_apart_item){ k->at[i], describe(x, b, i).count };
    }
    st = mf_apart_reduce(&(mf_apart){ .group = x->o.group,
                                      .call = *c,
                                      .aggregation = &x->o.aggregation,
                                      .shares = &x->shares,
                                      .dtype = (mf_dtype)b->types[0],
                                      .count = k->count,
                                      .gradients = items,
                                      .n_gradients = n,
                                      .shards = (const void *const *)parts,
                                      .out = k->result.data });
    mf_free(items);
    return st;
}

/* parts: our vectors, of which those items that codecs see are floats. */
static mf_status reduce_parts(mf_sums *x, bucket *k, void **parts)
{
    const mf_dtype dtype = (mf_dtype)k->about->types[0];
    const mf_collective c = call_of(x, k, "the gradients");

    mf_tensor_clear(&k->result); /* whoever holds views of the last one keeps them */
    MF_TRY(mf_tensor_alloc(&k->result, dtype, &MF_SHAPE(k->count)));
    if (mf_aggregate_is_robust(x->o.aggregation.how))
        return reduce_apart(x, k, &c, parts);
    MF_TRY(mf_shares_sum(&x->shares, x->o.group, &c, (const void *const *)parts, dtype, k->exact,
                         &k->scratch, x->o.to_first && !has_vote(x, k->about), k->result.data));
    return mf_coded_exchange(&k->coded, &(mf_coded_call){ .group = x->o.group,
                                                          .call = c,
                                                          .shares = &x->shares,
                                                          .grains = (float *const *)parts,
                                                          .result = k->result.data });
}

static mf_status reduce(mf_sums *x, bucket *k)
{
    const mf_exchange_bucket *b = k->about;
    const size_t cell = mf_dtype_cell((mf_dtype)b->types[0]);
    const int expected = mf_shares_grains(&x->shares, x->o.group->rank);
    void **parts;
    mf_status st;

    if (b->n_parts != expected)
        return MF_FAIL(MF_INTERNAL, "%d parts were computed, %d are expected", b->n_parts,
                       expected);
    parts = mf_calloc(b->n_parts + 1, sizeof *parts);
    if (!parts)
        return MF_NOMEM("an exchange");
    for (int p = 0; p < b->n_parts; p++)
        parts[p] = (char *)k->packed.data + (size_t)(p * k->count) * cell;
    st = reduce_parts(x, k, parts);
    mf_free(parts);
    pthread_mutex_lock(&x->lock);
    x->plain += k->count * (int64_t)cell;
    pthread_mutex_unlock(&x->lock);
    return st;
}

/* rows: of all ranks, item by item. */
static mf_status gather_rows(mf_sums *x, bucket *k, int64_t *rows, int64_t *sizes)
{
    const mf_exchange_bucket *b = k->about;
    mf_group *g = x->o.group;
    const mf_collective c = call_of(x, k, "the gradients of rows");
    int64_t total = 0;

    for (int r = 0; r < g->size; r++)
        sizes[r] = b->n_items * (int64_t)sizeof *rows;
    MF_TRY(mf_all_gather(g, &(mf_gather){ c, k->rows, sizes, rows }));
    MF_TRY(mf_group_sizes(g, &c, k->count, sizes));
    for (int r = 0; r < g->size; r++)
        total += sizes[r];
    mf_tensor_clear(&k->result);
    MF_TRY(mf_tensor_alloc(&k->result, MF_DTYPE_U8, &MF_SHAPE(total > 0 ? total : 1)));
    return mf_all_gather(g, &(mf_gather){ c, k->packed.data, sizes, k->result.data });
}

static mf_status concat(mf_sums *x, bucket *k)
{
    const mf_exchange_bucket *b = k->about;
    const int n = x->o.group->size;
    int64_t *rows = mf_calloc((int64_t)n * b->n_items, sizeof *rows);
    int64_t *sizes = mf_calloc(n, sizeof *sizes);
    mf_status st = rows && sizes ? gather_rows(x, k, rows, sizes) : MF_NOMEM("an exchange");
    mf_tensor sorted = { 0 };

    if (st == MF_OK)
        st = mf_tensor_alloc(&sorted, MF_DTYPE_U8, &MF_SHAPE(k->result.count));
    if (st == MF_OK) { /* from rank by rank to item by item */
        char *to = sorted.data;

        for (int i = 0; i < b->n_items; i++) {
            const size_t row = (size_t)mf_shape_span(&b->shapes[i], 1, b->shapes[i].rank) *
                               mf_dtype_cell((mf_dtype)b->types[i]);
            const char *from = k->result.data;

            k->rows[i] = 0;
            for (int r = 0; r < n; from += sizes[r++]) {
                const char *at = from;

                for (int j = 0; j < i; j++)
                    at += (size_t)rows[r * b->n_items + j] *
                          (size_t)mf_shape_span(&b->shapes[j], 1, b->shapes[j].rank) *
                          mf_dtype_cell((mf_dtype)b->types[j]);
                memcpy(to, at, (size_t)rows[r * b->n_items + i] * row);
                to += (size_t)rows[r * b->n_items + i] * row;
                k->rows[i] += rows[r * b->n_items + i];
            }
        }
        mf_tensor_clear(&k->result);
        k->result = sorted;
    }
    mf_free(rows);
    mf_free(sizes);
    pthread_mutex_lock(&x->lock);
    x->rows += k->count;
    pthread_mutex_unlock(&x->lock);
    return st;
}

/* ---- handing out ---- */

/* Output i is a view of the result; rows lie one behind the other, at `from`. */
static char *set_output(mf_kernel *kernel, const bucket *k, int i, char *from)
{
    const mf_exchange_bucket *b = k->about;
    mf_tensor view = k->result;

    view.dtype = (mf_dtype)b->types[i];
    view.shape = b->shapes[i];
    if (b->concat)
        view.shape.dims[0] = k->rows[i];
    view.count = mf_shape_span(&view.shape, 0, view.shape.rank);
    view.data =
        b->concat ? from : (char *)k->result.data + (size_t)k->at[i] * mf_dtype_cell(view.dtype);
    mf_kernel_set(kernel, i, &view);
    return from + (size_t)view.count * mf_dtype_cell(view.dtype);
}

static void hand_out(mf_sums *x, bucket *k, mf_kernel *kernel)
{
    char *from = k->result.data;
    mf_status st;

    pthread_mutex_lock(&x->lock);
    st = x->error.status == MF_OK ? MF_OK : mf_error_restore(&x->error);
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; st == MF_OK && i < k->about->n_items; i++)
        from = set_output(kernel, k, i, from);
    mf_kernel_done(kernel, st);
}

static void sums_end(mf_exchange *exchange, const mf_exchange_bucket *b, mf_kernel *kernel)
{
    mf_sums *x = (mf_sums *)exchange;
    bucket *k = &x->buckets[b->id];
    bool now;

    pthread_mutex_lock(&x->lock);
    now = k->done || x->error.status != MF_OK;
    if (!now)
        k->waiting = kernel;
    pthread_mutex_unlock(&x->lock);
    if (now)
        hand_out(x, k, kernel);
}

/* ---- the thread ---- */

static bool await_bucket(mf_sums *x, const bucket *k)
{
    bool ready;

    pthread_mutex_lock(&x->lock);
    while (!(k->ready && !k->done) && !x->closing)
        pthread_cond_wait(&x->changed, &x->lock);
    ready = !x->closing;
    pthread_mutex_unlock(&x->lock);
    return ready;
}

/* Somebody who still waits, for whatever. NULL: nobody. */
static mf_kernel *take_waiting(mf_sums *x)
{
    mf_kernel *found = NULL;

    pthread_mutex_lock(&x->lock);
    for (int i = 0; i < x->o.n_buckets && !found; i++) {
        found = x->buckets[i].waiting;
        x->buckets[i].waiting = NULL;
    }
    pthread_mutex_unlock(&x->lock);
    return found;
}

static void finish(mf_sums *x, bucket *k, mf_status st)
{
    mf_kernel *waiting;

    if (st != MF_OK && x->o.failed)
        x->o.failed(x->o.ctx, st);
    pthread_mutex_lock(&x->lock);
    if (st != MF_OK)
        mf_error_save(st, &x->error);
    k->done = true;
    if (st == MF_OK && has_vote(x, k->about) && !k->about->concat)
        x->stop = ((const float *)k->result.data)[k->exact - ALIGN] > 0.0f;
    waiting = k->waiting; /* now: once the lock is free, it may be the next step's */
    k->waiting = NULL;
    pthread_mutex_unlock(&x->lock);
    if (waiting)
        hand_out(x, k, waiting);
    while (st != MF_OK && (waiting = take_waiting(x)) != NULL)
        hand_out(x, k, waiting);
}

static void *exchange_all(void *arg)
{
    mf_sums *x = arg;

    for (;;) {
        bucket *k = &x->buckets[x->next];
        mf_status st;

        if (!await_bucket(x, k))
            return NULL;
        st = k->about->concat ? concat(x, k) : reduce(x, k);
        finish(x, k, st);
        if (st != MF_OK)
            return NULL;
        x->next = (x->next + 1) % x->o.n_buckets;
    }
}

/* ---- making and freeing ---- */

static const mf_exchange_kind SUMS = { .begin = sums_begin, .end = sums_end };

mf_exchange *mf_sums_exchange(mf_sums *x)
{
    return &x->base;
}

void mf_sums_free(mf_sums *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->closing = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    if (x->started)
        pthread_join(x->thread, NULL);
    for (int i = 0; x->buckets && i < x->o.n_buckets; i++) {
        mf_tensor_clear(&x->buckets[i].packed);
        mf_tensor_clear(&x->buckets[i].result);
        mf_tensor_clear(&x->buckets[i].scratch);
        mf_coded_deinit(&x->buckets[i].coded);
        mf_free(x->buckets[i].rows);
        mf_free(x->buckets[i].at);
    }
    mf_free(x->buckets);
    mf_extra_clear(&x->before);
    mf_shares_deinit(&x->shares);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    mf_free(x);
}

mf_status mf_sums_new(const mf_sums_options *o, mf_sums **out)
{
    const int64_t grain = o->codecs                                    ? mf_codecs_grain(o->codecs)
                          : mf_aggregate_is_robust(o->aggregation.how) ? 1
                                                                       : 0;
    mf_sums *x = mf_calloc(1, sizeof *x);
    mf_status st;

    *out = NULL;
    if (!x)
        return MF_NOMEM("an exchange");
    x->base.kind = &SUMS;
    x->o = *o;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->buckets = mf_calloc(o->n_buckets, sizeof *x->buckets);
    st = x->buckets ? mf_shares_init(&x->shares, o->group->size, o->shards, grain, o->first)
                    : MF_NOMEM("an exchange");
    if (st != MF_OK) {
        mf_sums_free(x);
        return st;
    }
    x->base.grain = grain;
    x->base.first = o->first[o->group->rank];
    x->base.count = o->first[o->group->rank + 1] - x->base.first;
    if (pthread_create(&x->thread, NULL, exchange_all, x) != 0) {
        mf_sums_free(x);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    }
    x->started = true;
    *out = x;
    return MF_OK;
}
