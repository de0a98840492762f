/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see sums.h. A bucket is packed into one vector for each part (begin), summed by the
 * thread, and handed out as views of the result (end). */
#include "parallel/sums.h"

#include "base/clock.h"
#include "base/mem.h"
#include "graph/shard.h"
#include "parallel/apart.h"

#include <pthread.h>
#include <string.h>

enum { ALIGN = MF_APART_ALIGN };

typedef struct bucket {
    const mf_exchange_bucket *about; /* of the step at hand */
    mf_tensor packed; /* our parts, one vector behind the other */
    mf_tensor result;
    int64_t count; /* elements of a vector */
    int64_t *rows; /* rows of each item; of concatenated ones */
    bool ready, done; /* ready: packed; done: result is there */
    mf_kernel *waiting; /* for done */
} bucket;

struct mf_sums {
    mf_exchange base; /* first */
    mf_sums_options o;
    int64_t *first;
    bucket *buckets;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, closing; /* closing: guarded by lock */
    mf_error error; /* the exchange has failed for good; guarded by lock */
    int next; /* bucket; the thread's */
    int64_t step, samples;
    bool wants_stop;
    bool stop; /* guarded by lock */
    int64_t busy_ns; /* guarded by lock */
    /* of the step at hand */
    int64_t leaves;
    mf_tree_node *nodes; /* of all ranks */
    const mf_tree_node **parts; /* by rank */
    int *n_parts;
    int64_t *n_samples; /* by rank */
    int64_t *slices; /* by rank: of a result that only the first one gets */
    float factor; /* of our gradients */
};

/* ---- who has what ---- */

static void share_out(mf_sums *x)
{
    const int64_t shards = x->o.shards;

    mf_tree_node *at = x->nodes;

    x->leaves = x->samples < shards ? x->samples : shards;
    for (int r = 0; r < x->o.group->size; r++) {
        const int64_t lo = x->first[r], hi = x->first[r + 1];

        x->n_samples[r] =
            mf_shard_begin(x->samples, shards, hi) - mf_shard_begin(x->samples, shards, lo);
        x->n_parts[r] = mf_tree_share(shards, lo, hi - lo, x->n_samples[r], x->base.grain, at);
        x->parts[r] = at;
        at += mf_tree_room(hi - lo, x->base.grain);
    }
    x->factor = 1.0f;
    if (x->o.aggregation.how == MF_AGGREGATE_WEIGHTED)
        x->factor = (float)mf_aggregate_factor(&x->o.aggregation, x->n_samples, x->o.group->size,
                                               x->o.group->rank);
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
    if (samples != x->samples) {
        x->samples = samples;
        share_out(x);
    }
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

int64_t mf_sums_busy_ns(mf_sums *x)
{
    int64_t ns;

    pthread_mutex_lock(&x->lock);
    ns = x->busy_ns;
    pthread_mutex_unlock(&x->lock);
    return ns;
}

/* ---- packing ---- */

static int64_t padded(int64_t n)
{
    return mf_apart_padded(n);
}

static bool has_vote(const mf_sums *x, const mf_exchange_bucket *b)
{
    return b->id == x->o.n_buckets - 1;
}

/* Elements of the vector, and where each item begins; -1: a shape is not known. */
static int64_t vector_length(const mf_sums *x, const mf_exchange_bucket *b)
{
    int64_t n = 0, one;

    for (int i = 0; i < b->n_items; i++) {
        if (mf_shape_count(&b->shapes[i], &one) != MF_OK)
            return -1;
        n += padded(one);
    }
    return n + (has_vote(x, b) ? ALIGN : 0);
}

static mf_status room_for(mf_tensor *t, mf_dtype dtype, int64_t count)
{
    if (t->buffer && t->dtype == dtype && t->count == count && mf_buffer_is_sole(t->buffer))
        return MF_OK;
    mf_tensor_clear(t);
    return mf_tensor_alloc(t, dtype, &MF_SHAPE(count));
}

static void scale(float *v, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++)
        v[i] *= by;
}

static void pack_part(const mf_sums *x, const mf_exchange_bucket *b, int part,
                      const mf_tensor *const *values, char *to)
{
    const size_t cell = mf_dtype_cell((mf_dtype)b->types[0]);

    for (int i = 0; i < b->n_items; i++) {
        const int64_t n = values[i]->count, room = padded(n);

        memcpy(to, values[i]->data, (size_t)n * cell);
        if (x->factor != 1.0f && mf_apart_is_gradient(&x->o.aggregation, b, i))
            scale((float *)(void *)to, n, x->factor);
        memset(to + (size_t)n * cell, 0, (size_t)(room - n) * cell);
        to += (size_t)room * cell;
    }
    if (has_vote(x, b)) {
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

    k->count = vector_length(x, b);
    if (k->count < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld has a sum of unknown shape",
                       (long long)b->id);
    for (int i = 0; i < b->n_parts * b->n_items; i++) {
        int64_t n;

        if (values[i]->dtype != dtype || mf_shape_count(&b->shapes[i % b->n_items], &n) != MF_OK ||
            values[i]->count != n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld: value %d is not what was announced",
                           (long long)b->id, i);
    }
    MF_TRY(room_for(&k->packed, dtype, k->count * (b->n_parts > 0 ? b->n_parts : 1)));
    for (int p = 0; p < b->n_parts; p++)
        pack_part(x, b, p, values + (size_t)p * (size_t)b->n_items,
                  (char *)k->packed.data + (size_t)(p * k->count) * cell);
    return MF_OK;
}

/* Rows: the bytes of all items, one behind the other. */
static mf_status pack_rows(mf_sums *x, bucket *k, const mf_tensor *const *values)
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
    MF_TRY(room_for(&k->packed, MF_DTYPE_U8, bytes > 0 ? bytes : 1));
    to = k->packed.data;
    for (int i = 0; i < b->n_items && b->n_parts > 0; i++) {
        memcpy(to, values[i]->data, mf_tensor_bytes(values[i]));
        if (x->factor != 1.0f && mf_apart_is_gradient(&x->o.aggregation, b, i))
            scale((float *)(void *)to, values[i]->count, x->factor);
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

static mf_collective call_of(const mf_sums *x, const char *what)
{
    return (mf_collective){ x->step, mf_clock_ns() + x->o.timeout_ns, what };
}

/* The others' results are never looked at. */
static mf_status reduce_to_first(mf_sums *x, const mf_reduce *r)
{
    for (int i = 1; i <= x->o.group->size; i++)
        x->slices[i] = r->count;
    return mf_reduce_scatter(x->o.group, r, x->slices);
}

static mf_status reduce(mf_sums *x, bucket *k)
{
    const mf_exchange_bucket *b = k->about;
    const size_t cell = mf_dtype_cell((mf_dtype)b->types[0]);
    const void *data[MF_TREE_PARTS];
    mf_reduce r = { .call = call_of(x, "the gradients"),
                    .leaves = x->leaves,
                    .parts = x->parts,
                    .n_parts = x->n_parts,
                    .data = data,
                    .dtype = (mf_dtype)b->types[0],
                    .count = k->count };

    if (b->n_parts != x->n_parts[x->o.group->rank])
        return MF_FAIL(MF_INTERNAL, "%d parts were computed, %d are expected", b->n_parts,
                       x->n_parts[x->o.group->rank]);
    for (int p = 0; p < b->n_parts; p++)
        data[p] = (const char *)k->packed.data + (size_t)(p * k->count) * cell;
    mf_tensor_clear(&k->result); /* whoever holds views of the last one keeps them */
    MF_TRY(mf_tensor_alloc(&k->result, r.dtype, &MF_SHAPE(k->count)));
    r.out = k->result.data;
    return x->o.to_first && !has_vote(x, b) ? reduce_to_first(x, &r)
                                            : mf_all_reduce(x->o.group, &r);
}

/* Of all shards one by one. */
static mf_status reduce_apart(mf_sums *x, bucket *k)
{
    const mf_dtype dtype = (mf_dtype)k->about->types[0];

    mf_tensor_clear(&k->result);
    MF_TRY(mf_tensor_alloc(&k->result, dtype, &MF_SHAPE(k->count)));
    return mf_apart_reduce(&(mf_apart){ .group = x->o.group,
                                        .call = call_of(x, "the gradients"),
                                        .aggregation = &x->o.aggregation,
                                        .samples = x->samples,
                                        .shards = x->o.shards,
                                        .leaves = x->leaves,
                                        .n_parts = x->n_parts,
                                        .bucket = k->about,
                                        .count = k->count,
                                        .data = k->packed.data,
                                        .out = k->result.data });
}

/* ---- rows ---- */

/* rows: of all ranks, item by item. */
static mf_status gather_rows(mf_sums *x, bucket *k, int64_t *rows, int64_t *sizes)
{
    const mf_exchange_bucket *b = k->about;
    mf_group *g = x->o.group;
    const mf_collective c = call_of(x, "the gradients of rows");
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
    return st;
}

/* ---- handing out ---- */

/* Output i is a view of the result. */
static char *set_output(mf_kernel *kernel, const bucket *k, int i, char *from)
{
    const mf_exchange_bucket *b = k->about;
    mf_tensor view = k->result;

    view.dtype = (mf_dtype)b->types[i];
    view.shape = b->shapes[i];
    if (b->concat)
        view.shape.dims[0] = k->rows[i];
    view.count = mf_shape_span(&view.shape, 0, view.shape.rank);
    view.data = from;
    mf_kernel_set(kernel, i, &view);
    return from + (size_t)(b->concat ? view.count : padded(view.count)) * mf_dtype_cell(view.dtype);
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

static void finish(mf_sums *x, bucket *k, mf_status st, int64_t ns)
{
    mf_kernel *waiting[64];
    int n = 0;

    if (st != MF_OK && x->o.failed)
        x->o.failed(x->o.ctx, st);
    pthread_mutex_lock(&x->lock);
    x->busy_ns += ns;
    if (st != MF_OK)
        mf_error_save(st, &x->error);
    k->done = true;
    if (st == MF_OK && has_vote(x, k->about) && !k->about->concat)
        x->stop = ((const float *)k->result.data)[k->count - ALIGN] > 0.0f;
    for (int i = 0; i < x->o.n_buckets && n < MF_COUNT(waiting); i++) {
        if ((&x->buckets[i] == k || st != MF_OK) && x->buckets[i].waiting) {
            waiting[n++] = x->buckets[i].waiting;
            x->buckets[i].waiting = NULL;
        }
    }
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; i < n; i++)
        hand_out(x, k, waiting[i]);
}

static void *exchange_all(void *arg)
{
    mf_sums *x = arg;

    for (;;) {
        bucket *k = &x->buckets[x->next];
        int64_t begin;
        mf_status st;

        if (!await_bucket(x, k))
            return NULL;
        begin = mf_clock_ns();
        if (k->about->concat)
            st = concat(x, k);
        else
            st = mf_aggregate_is_robust(x->o.aggregation.how) ? reduce_apart(x, k) : reduce(x, k);
        finish(x, k, st, mf_clock_ns() - begin);
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
        mf_free(x->buckets[i].rows);
    }
    mf_free(x->buckets);
    mf_free(x->first);
    mf_free(x->nodes);
    mf_free(x->parts);
    mf_free(x->n_parts);
    mf_free(x->n_samples);
    mf_free(x->slices);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    mf_free(x);
}

mf_status mf_sums_new(const mf_sums_options *o, mf_sums **out)
{
    mf_sums *x = mf_calloc(1, sizeof *x);
    const int n = o->group->size;
    int64_t room = 0;

    *out = NULL;
    if (!x)
        return MF_NOMEM("an exchange");
    x->base.kind = &SUMS;
    x->base.grain = mf_aggregate_is_robust(o->aggregation.how) ? 1 : 0;
    for (int r = 0; r < n; r++)
        room += mf_tree_room(o->first[r + 1] - o->first[r], x->base.grain);
    x->o = *o;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->buckets = mf_calloc(o->n_buckets, sizeof *x->buckets);
    x->first = mf_calloc(n + 1, sizeof *x->first);
    x->nodes = mf_calloc(room, sizeof *x->nodes);
    x->n_samples = mf_calloc(n, sizeof *x->n_samples);
    x->slices = mf_calloc(n + 1, sizeof *x->slices);
    x->parts = mf_calloc(n, sizeof *x->parts);
    x->n_parts = mf_calloc(n, sizeof *x->n_parts);
    if (!x->buckets || !x->first || !x->nodes || !x->parts || !x->n_parts || !x->n_samples ||
        !x->slices) {
        mf_sums_free(x);
        return MF_NOMEM("an exchange");
    }
    memcpy(x->first, o->first, (size_t)(n + 1) * sizeof *x->first);
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
