/* SPDX-License-Identifier: Apache-2.0 */
/* push_pull.c - collects the gradients of a step, and runs one push/pull round in a thread. */
#include "dist/param_server/push_pull.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <string.h>

enum { MAX_WAITING = 256 };

struct mf_push_pull {
    mf_exchange base; /* first */
    mf_push_pull_options o;
    int64_t *bucket;
    int *first_value; /* by bucket */
    mf_push_pull_round round;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    /* guarded by lock */
    bool closing;
    int begun; /* buckets of this step that are here */
    int64_t begun_ns, computed_ns; /* when the step began, and when its last value arrived */
    bool done; /* the round is over */
    mf_error error; /* permanent */
    struct {
        mf_kernel *kernel;
        const mf_exchange_bucket *bucket;
    } waiting[MAX_WAITING];
    int n_waiting;
};

/* ---- collecting ---- */

mf_status mf_push_pull_begin_step(mf_push_pull *x, int64_t step, int64_t samples, int step_flags)
{
    mf_status st;

    pthread_mutex_lock(&x->lock);
    st = x->error.status == MF_OK ? MF_OK : mf_error_restore(&x->error);
    x->round.step = step;
    x->round.samples = samples;
    x->round.step_flags = step_flags;
    x->begun = 0;
    x->done = false;
    x->begun_ns = x->computed_ns = mf_clock_ns();
    pthread_mutex_unlock(&x->lock);
    return st;
}

int64_t mf_push_pull_computed_ns(mf_push_pull *x)
{
    int64_t ns;

    pthread_mutex_lock(&x->lock);
    ns = x->computed_ns - x->begun_ns;
    pthread_mutex_unlock(&x->lock);
    return ns;
}

void mf_push_pull_assign(mf_push_pull *x, int64_t first, int64_t count)
{
    x->base.first = first;
    x->base.count = count;
}

static mf_status copy_value(mf_tensor *to, const mf_tensor *from)
{
    if (!to->buffer || to->dtype != from->dtype || !mf_shape_equal(&to->shape, &from->shape) ||
        !mf_buffer_is_sole(to->buffer)) {
        mf_tensor_clear(to);
        MF_TRY(mf_tensor_alloc(to, from->dtype, &from->shape));
    }
    memcpy(to->data, from->data, mf_tensor_bytes(from));
    return MF_OK;
}

static mf_status push_pull_take_value(mf_push_pull *x, const mf_exchange_bucket *b, int value,
                                      int part, const mf_tensor *from)
{
    mf_tensor *to = &x->round.values[value].part[part];

    if (b->concat || !x->o.take || !x->o.take(x->o.ctx, value, part, b->n_parts, from))
        return copy_value(to, from);
    mf_tensor_clear(to);
    return MF_OK;
}

static mf_status rounds_begin(mf_exchange *exchange, const mf_exchange_bucket *b,
                              const mf_tensor *const *values)
{
    mf_push_pull *x = (mf_push_pull *)exchange;
    mf_push_pull_round *r = &x->round;

    if (b->id < 0 || b->id >= x->o.n_buckets || b->n_parts > r->room ||
        x->first_value[b->id] + b->n_items > x->first_value[b->id + 1])
        return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld is not what was announced",
                       (long long)b->id);
    for (int i = 0; i < b->n_items; i++) {
        mf_push_pull_round_value *v = &r->values[x->first_value[b->id] + i];

        v->concat = b->concat;
        v->dtype = (mf_dtype)b->types[i];
        v->shape = b->shapes[i];
        for (int p = 0; p < b->n_parts; p++)
            MF_TRY(push_pull_take_value(x, b, x->first_value[b->id] + i, p,
                                        values[p * b->n_items + i]));
    }
    pthread_mutex_lock(&x->lock);
    if (!b->concat) {
        r->n_parts = b->n_parts;
        for (int p = 0; p < b->n_parts; p++)
            r->parts[p] = (mf_reduction_tree_node){ b->parts[2 * p], b->parts[2 * p + 1] };
    }
    x->begun++;
    x->computed_ns = mf_clock_ns();
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    return MF_OK;
}

/* ---- handing out ---- */

static void push_pull_hand_out(mf_push_pull *x, const mf_exchange_bucket *b, mf_kernel *k)
{
    mf_status st;

    pthread_mutex_lock(&x->lock);
    st = x->error.status == MF_OK ? MF_OK : mf_error_restore(&x->error);
    pthread_mutex_unlock(&x->lock);
    for (int i = 0; st == MF_OK && i < b->n_items; i++)
        mf_kernel_set(k, i, &x->round.values[x->first_value[b->id] + i].result);
    mf_kernel_done(k, st);
}

static void rounds_end(mf_exchange *exchange, const mf_exchange_bucket *b, mf_kernel *k)
{
    mf_push_pull *x = (mf_push_pull *)exchange;
    bool now;

    pthread_mutex_lock(&x->lock);
    now = x->done || x->error.status != MF_OK;
    if (!now && x->n_waiting == MAX_WAITING) {
        mf_error_save(MF_FAIL(MF_INTERNAL, "more than %d buckets", MAX_WAITING), &x->error);
        now = true;
    }
    if (!now) {
        x->waiting[x->n_waiting].kernel = k;
        x->waiting[x->n_waiting++].bucket = b;
    }
    pthread_mutex_unlock(&x->lock);
    if (now)
        push_pull_hand_out(x, b, k);
}

/* ---- the thread ---- */

static void *do_rounds(void *arg)
{
    mf_push_pull *x = arg;

    for (;;) {
        mf_status st;
        int n;

        pthread_mutex_lock(&x->lock);
        while (!x->closing && (x->done || x->begun < x->o.n_buckets))
            pthread_cond_wait(&x->changed, &x->lock);
        if (x->closing) {
            pthread_mutex_unlock(&x->lock);
            return NULL;
        }
        pthread_mutex_unlock(&x->lock);
        st = x->o.round(x->o.ctx, &x->round);
        pthread_mutex_lock(&x->lock);
        if (st != MF_OK)
            mf_error_save(st, &x->error);
        x->done = true;
        n = x->n_waiting;
        x->n_waiting = 0; /* no kernel joins the round any more in this step */
        pthread_mutex_unlock(&x->lock);
        for (int i = 0; i < n; i++)
            push_pull_hand_out(x, x->waiting[i].bucket, x->waiting[i].kernel);
    }
}

/* ---- making and freeing ---- */

mf_status mf_push_pull_round_init(mf_push_pull_round *r, int n_values, int64_t room)
{
    r->n_values = n_values;
    r->room = room;
    r->parts = mf_calloc(room, sizeof *r->parts);
    r->values = mf_calloc(n_values, sizeof *r->values);
    if (!r->parts || !r->values)
        return MF_NOMEM("an exchange");
    for (int v = 0; v < n_values; v++) {
        r->values[v].part = mf_calloc(room, sizeof *r->values[v].part);
        if (!r->values[v].part)
            return MF_NOMEM("an exchange");
    }
    return MF_OK;
}

void mf_push_pull_round_deinit(mf_push_pull_round *r)
{
    for (int v = 0; r->values && v < r->n_values; v++) {
        for (int64_t p = 0; r->values[v].part && p < r->room; p++)
            mf_tensor_clear(&r->values[v].part[p]);
        mf_free(r->values[v].part);
        mf_tensor_clear(&r->values[v].result);
    }
    mf_free(r->values);
    mf_free(r->parts);
    r->values = NULL;
    r->parts = NULL;
}

static const mf_exchange_kind ROUNDS = { .begin = rounds_begin, .end = rounds_end };

mf_exchange *mf_push_pull_exchange(mf_push_pull *x)
{
    return &x->base;
}

int mf_push_pull_value(const mf_push_pull *x, int result)
{
    int item = 0;

    for (int i = 0; i < result; i++)
        item += x->bucket[i] == x->bucket[result];
    return x->first_value[x->bucket[result]] + item;
}

mf_push_pull_round *mf_push_pull_last(mf_push_pull *x)
{
    mf_push_pull_round *last;

    pthread_mutex_lock(&x->lock);
    last = x->done && x->error.status == MF_OK ? &x->round : NULL;
    pthread_mutex_unlock(&x->lock);
    return last;
}

void mf_push_pull_free(mf_push_pull *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->closing = true;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
    if (x->started)
        pthread_join(x->thread, NULL);
    mf_push_pull_round_deinit(&x->round);
    mf_free(x->bucket);
    mf_free(x->first_value);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    mf_free(x);
}

static void push_pull_count_values(mf_push_pull *x)
{
    for (int b = 0; b < x->o.n_buckets; b++) {
        x->first_value[b + 1] = x->first_value[b];
        for (int i = 0; i < x->o.n_results; i++)
            x->first_value[b + 1] += x->bucket[i] == b;
    }
}

mf_status mf_push_pull_new(const mf_push_pull_options *o, mf_push_pull **out)
{
    mf_push_pull *x = mf_calloc(1, sizeof *x);

    *out = NULL;
    if (!x)
        return MF_NOMEM("an exchange");
    x->base =
        (mf_exchange){ .kind = &ROUNDS, .first = o->first, .count = o->count, .grain = o->grain };
    x->o = *o;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->bucket = mf_calloc(o->n_results, sizeof *x->bucket);
    x->first_value = mf_calloc(o->n_buckets + 1, sizeof *x->first_value);
    if (mf_push_pull_round_init(&x->round, o->n_results,
                                mf_reduction_tree_room(o->shards, o->grain)) != MF_OK ||
        !x->bucket || !x->first_value) {
        mf_push_pull_free(x);
        return MF_NOMEM("an exchange");
    }
    memcpy(x->bucket, o->bucket, (size_t)o->n_results * sizeof *x->bucket);
    push_pull_count_values(x);
    if (mf_thread_start(&x->thread, do_rounds, x) != 0) {
        mf_push_pull_free(x);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no more threads");
    }
    x->started = true;
    *out = x;
    return MF_OK;
}
