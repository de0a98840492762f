/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce.c - bucketed gradient all-reduce in a thread, overlapped with the backward
 * pass. A bucket is packed into one vector for each part (begin), summed by the thread, and
 * returned as views of the result (end). */
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "dist/data_parallel/gradient_allreduce_private.h"
#include "dist/data_parallel/robust_reduce.h"
#include "graph/shard.h"

#include <stdio.h>

mf_status mf_gradient_allreduce_begin_step(mf_gradient_allreduce *x, int64_t step, int64_t samples,
                                           int step_flags)
{
    mf_status st;

    pthread_mutex_lock(&x->lock);
    st = x->error.status == MF_OK ? MF_OK : mf_error_restore(&x->error);
    for (int i = 0; i < x->o.n_buckets; i++)
        x->buckets[i].ready = x->buckets[i].done = false;
    x->step = step;
    x->begun_ns = x->computed_ns = mf_clock_ns();
    x->step_flags = step_flags;
    mf_shard_owners_set(&x->shares, samples);
    if (st == MF_OK)
        st = mf_shard_owners_factor(&x->o.aggregation, x->shares.of, x->shares.ranks,
                                    x->o.group->rank, x->shares.shards, samples, &x->factor);
    pthread_mutex_unlock(&x->lock);
    return st;
}

int mf_gradient_allreduce_step_flags(mf_gradient_allreduce *x)
{
    int step_flags;

    pthread_mutex_lock(&x->lock);
    step_flags = x->joined_step_flags;
    pthread_mutex_unlock(&x->lock);
    return step_flags;
}

int64_t mf_gradient_allreduce_computed_ns(mf_gradient_allreduce *x)
{
    int64_t ns;

    pthread_mutex_lock(&x->lock);
    ns = x->computed_ns - x->begun_ns;
    pthread_mutex_unlock(&x->lock);
    return ns;
}

int64_t mf_gradient_allreduce_saved_bytes(mf_gradient_allreduce *x)
{
    const int n = x->o.group->size;
    int64_t bytes;

    pthread_mutex_lock(&x->lock);
    bytes = x->plain_bytes / n * 2 * (n - 1) - x->coded_bytes;
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

/* ---- codec state ---- */

static void forget_layout(mf_gradient_allreduce *x)
{
    for (int i = 0; i < x->o.n_buckets; i++) {
        mf_codec_bucket_deinit(&x->buckets[i].coded);
        x->buckets[i].coded = (mf_codec_bucket){ 0 };
        mf_free(x->buckets[i].at);
        x->buckets[i].at = NULL;
    }
}

void mf_gradient_allreduce_restore(mf_gradient_allreduce *x, mf_aux_state_list *before)
{
    mf_aux_state_clear(&x->before);
    x->before = *before;
    *before = (mf_aux_state_list){ 0 };
    forget_layout(x); /* the next step lays it out again, with the state */
}

mf_status mf_gradient_allreduce_collect(mf_gradient_allreduce *x, mf_group *group,
                                        const mf_collective *call, mf_aux_state_list *out)
{
    for (int i = 0; i < x->o.n_buckets; i++)
        MF_TRY(mf_codec_bucket_collect(&x->buckets[i].coded, &x->shares, group, call, out));
    return MF_OK;
}

static mf_status sums_begin(mf_exchange *exchange, const mf_exchange_bucket *b,
                            const mf_tensor *const *values)
{
    mf_gradient_allreduce *x = (mf_gradient_allreduce *)exchange;
    mf_gradient_allreduce_bucket *k;

    if (b->id < 0 || b->id >= x->o.n_buckets)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no bucket %lld", (long long)b->id);
    k = &x->buckets[b->id];
    k->about = b;
    MF_TRY(b->concat ? mf_gradient_allreduce_pack_rows(x, k, values)
                     : mf_gradient_allreduce_pack(x, k, values));
    pthread_mutex_lock(&x->lock);
    k->ready = true;
    x->computed_ns = mf_clock_ns();
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    return MF_OK;
}

/* ---- the collectives ---- */

mf_collective mf_gradient_allreduce_call(mf_gradient_allreduce *x,
                                         const mf_gradient_allreduce_bucket *k, const char *what)
{
    (void)snprintf(x->what, sizeof x->what, "%s, bucket %lld", what, (long long)k->about->id);
    return (mf_collective){ x->step, mf_clock_ns() + x->o.timeout_ns, x->what };
}

/* Gradients of all shards individually, everything else in the tree. */
static mf_status reduce_apart(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                              const mf_collective *c, void **parts)
{
    const mf_exchange_bucket *b = k->about;
    mf_robust_reduce_item *items = mf_calloc(b->n_items, sizeof *items);
    int n = 0;
    mf_status st;

    if (!items)
        return MF_NOMEM("gradients");
    for (int i = 0; i < b->n_items; i++) {
        if (mf_gradient_allreduce_is_gradient(b, i))
            items[n++] =
                (mf_robust_reduce_item){ k->at[i], mf_gradient_allreduce_describe(x, b, i).count };
    }
    st = mf_robust_reduce_reduce(&(mf_robust_reduce){ .group = x->o.group,
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

/* Count the bytes that codecs sent, and the bytes of the same items without codecs. */
static mf_status exchange_coded(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                                const mf_collective *c, void **parts)
{
    const int64_t before = x->o.group->bytes;
    mf_status st;

    if (k->count == k->exact)
        return MF_OK;
    st = mf_codec_bucket_exchange(&k->coded,
                                  &(mf_codec_bucket_call){ .group = x->o.group,
                                                           .call = *c,
                                                           .shares = &x->shares,
                                                           .grains = (float *const *)parts,
                                                           .result = k->result.data });
    pthread_mutex_lock(&x->lock);
    x->coded_bytes += x->o.group->bytes - before;
    x->plain_bytes += (k->count - k->exact) * (int64_t)mf_dtype_cell(k->result.dtype);
    pthread_mutex_unlock(&x->lock);
    return st;
}

/* parts: this worker's vectors, in which items with a codec are floats. */
static mf_status reduce_parts(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                              void **parts)
{
    const mf_dtype dtype = (mf_dtype)k->about->types[0];
    const mf_collective c = mf_gradient_allreduce_call(x, k, "the gradients");

    mf_tensor_clear(&k->result); /* holders of views of the last result keep a reference */
    MF_TRY(mf_tensor_alloc(&k->result, dtype, &MF_SHAPE(k->count)));
    if (mf_aggregate_is_apart(x->o.aggregation.how))
        return reduce_apart(x, k, &c, parts);
    MF_TRY(mf_shard_owners_sum(
        &x->shares, x->o.group, &c, (const void *const *)parts, dtype, k->exact, &k->scratch,
        x->o.to_first && !mf_gradient_allreduce_has_vote(x, k->about), k->result.data));
    return exchange_coded(x, k, &c, parts);
}

static mf_status gradient_allreduce_reduce(mf_gradient_allreduce *x,
                                           mf_gradient_allreduce_bucket *k)
{
    const mf_exchange_bucket *b = k->about;
    const size_t cell = mf_dtype_cell((mf_dtype)b->types[0]);
    const int expected = mf_shard_owners_grains(&x->shares, x->o.group->rank);
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
    return st;
}

/* ---- handing out ---- */

/* Output i is a view of the result; rows are concatenated, at `from`. */
static char *set_output(mf_kernel *kernel, const mf_gradient_allreduce_bucket *k, int i, char *from)
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

static void gradient_allreduce_hand_out(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                                        mf_kernel *kernel)
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
    mf_gradient_allreduce *x = (mf_gradient_allreduce *)exchange;
    mf_gradient_allreduce_bucket *k = &x->buckets[b->id];
    bool now;

    pthread_mutex_lock(&x->lock);
    now = k->done || x->error.status != MF_OK;
    if (!now)
        k->waiting = kernel;
    pthread_mutex_unlock(&x->lock);
    if (now)
        gradient_allreduce_hand_out(x, k, kernel);
}

/* ---- the thread ---- */

static bool await_bucket(mf_gradient_allreduce *x, const mf_gradient_allreduce_bucket *k)
{
    bool ready;

    pthread_mutex_lock(&x->lock);
    while (!(k->ready && !k->done) && !x->closing)
        pthread_cond_wait(&x->changed, &x->lock);
    ready = !x->closing;
    pthread_mutex_unlock(&x->lock);
    return ready;
}

/* A kernel that still waits, for any bucket. NULL: none. */
static mf_kernel *take_waiting(mf_gradient_allreduce *x)
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

static int read_step_flags(const mf_gradient_allreduce_bucket *k)
{
    const float *sums = (const float *)k->result.data + k->exact - MF_GRADIENT_ALLREDUCE_ALIGN;

    int step_flags = (int)sums[MF_STEP_FLAG_KINDS] * MF_STEP_FLAG_LEAVE;

    for (int v = 0; v < MF_STEP_FLAG_KINDS; v++)
        step_flags |= (sums[v] > 0.0f) << v;
    return step_flags;
}

static void gradient_allreduce_finish(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                                      mf_status st)
{
    mf_kernel *waiting;

    if (st != MF_OK && x->o.failed)
        x->o.failed(x->o.ctx, st);
    pthread_mutex_lock(&x->lock);
    if (st != MF_OK)
        mf_error_save(st, &x->error);
    k->done = true;
    if (st == MF_OK && mf_gradient_allreduce_has_vote(x, k->about) && !k->about->concat)
        x->joined_step_flags = read_step_flags(k);
    waiting = k->waiting; /* now: once the lock is free, it may be the next step's */
    k->waiting = NULL;
    pthread_mutex_unlock(&x->lock);
    if (waiting)
        gradient_allreduce_hand_out(x, k, waiting);
    while (st != MF_OK && (waiting = take_waiting(x)) != NULL)
        gradient_allreduce_hand_out(x, k, waiting);
}

static void *exchange_all(void *arg)
{
    mf_gradient_allreduce *x = arg;

    for (;;) {
        mf_gradient_allreduce_bucket *k = &x->buckets[x->next];
        mf_status st;

        if (!await_bucket(x, k))
            return NULL;
        st =
            k->about->concat ? mf_gradient_allreduce_concat(x, k) : gradient_allreduce_reduce(x, k);
        gradient_allreduce_finish(x, k, st);
        if (st != MF_OK)
            return NULL;
        x->next = (x->next + 1) % x->o.n_buckets;
    }
}

/* ---- making and freeing ---- */

static const mf_exchange_kind SUMS = { .begin = sums_begin, .end = sums_end };

static mf_status take_shares(mf_gradient_allreduce *x, const mf_share *of)
{
    const int rank = x->o.group->rank;

    x->base.first = of[rank].first;
    x->base.count = of[rank].n;
    return mf_shard_owners_init(&x->shares, x->o.group->size, x->o.shards, x->base.grain, of);
}

mf_status mf_gradient_allreduce_assign(mf_gradient_allreduce *x, const mf_share *of)
{
    mf_status st;

    pthread_mutex_lock(&x->lock);
    forget_layout(x);
    mf_shard_owners_deinit(&x->shares);
    st = take_shares(x, of);
    pthread_mutex_unlock(&x->lock);
    return st;
}

mf_exchange *mf_gradient_allreduce_exchange(mf_gradient_allreduce *x)
{
    return &x->base;
}

void mf_gradient_allreduce_free(mf_gradient_allreduce *x)
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
        mf_codec_bucket_deinit(&x->buckets[i].coded);
        mf_free(x->buckets[i].rows);
        mf_free(x->buckets[i].at);
    }
    mf_free(x->buckets);
    mf_aux_state_clear(&x->before);
    mf_shard_owners_deinit(&x->shares);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    mf_free(x);
}

mf_status mf_gradient_allreduce_new(const mf_gradient_allreduce_options *o,
                                    mf_gradient_allreduce **out)
{
    const int64_t grain = o->codecs                                   ? mf_codecs_grain(o->codecs)
                          : mf_aggregate_is_apart(o->aggregation.how) ? 1
                                                                      : 0;
    mf_gradient_allreduce *x = mf_calloc(1, sizeof *x);
    mf_status st;

    *out = NULL;
    if (!x)
        return MF_NOMEM("an exchange");
    x->base.kind = &SUMS;
    x->o = *o;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->buckets = mf_calloc(o->n_buckets, sizeof *x->buckets);
    x->base.grain = grain;
    st = x->buckets ? take_shares(x, o->of) : MF_NOMEM("an exchange");
    if (st != MF_OK) {
        mf_gradient_allreduce_free(x);
        return st;
    }
    if (mf_thread_start(&x->thread, exchange_all, x) != 0) {
        mf_gradient_allreduce_free(x);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    }
    x->started = true;
    *out = x;
    return MF_OK;
}
