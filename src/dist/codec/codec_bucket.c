/* SPDX-License-Identifier: Apache-2.0 */
/* codec_bucket.c - encodes and decodes the gradients of a bucket with its codec, and keeps the
 * codecs' state (error feedback). */
#include "dist/codec/codec_bucket.h"

#include "base/mem.h"

#include <string.h>

/* This worker's grain `i` begins at this shard. */
static float *codec_bucket_memory_of(const mf_codec_bucket_item *t, const mf_shard_owners *s,
                                     int rank, int i)
{
    const int64_t lo = s->grains[s->first_grain[rank] + i].lo;

    return t->memory ? t->memory + (lo - s->of[rank].first) / s->grain * t->kept : NULL;
}

static mf_codec_item about_grain(const mf_codec_bucket_item *t, const mf_shard_owners *s,
                                 int64_t step, int i)
{
    mf_codec_item a = t->about;

    a.step = step;
    a.grain = s->grains[i].lo / s->grain;
    return a;
}

/* ---- messages ---- */

/* The bytes of all items of one grain. */
static int64_t message_bytes(const mf_codec_bucket *c, int64_t step)
{
    int64_t all = 0;

    for (int64_t i = 0; i < c->n; i++) {
        mf_codec_item a = c->items[i].about;

        a.step = step;
        all += c->items[i].codec->kind->rounds ? 0 : mf_codec_bytes(c->items[i].codec, &a);
    }
    return all;
}

/* Returns how many bytes they have. */
static int64_t encode_ours(const mf_codec_bucket *c, const mf_codec_bucket_call *x)
{
    const mf_shard_owners *s = x->shares;
    const int rank = x->group->rank;
    uint8_t *out = c->sent.data;

    for (int g = 0; g < mf_shard_owners_grains(s, rank); g++) {
        for (int64_t i = 0; i < c->n; i++) {
            const mf_codec_bucket_item *t = &c->items[i];
            const mf_codec_item a = about_grain(t, s, x->call.step, s->first_grain[rank] + g);

            if (t->codec->kind->rounds)
                continue;
            out += mf_codec_encode(t->codec, &a, x->grains[g] + t->at,
                                   codec_bucket_memory_of(t, s, rank, g), out);
        }
    }
    return out - (uint8_t *)c->sent.data;
}

static bool lengths_vary(const mf_codec_bucket *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (c->items[i].codec->kind->pack)
            return true;
    }
    return false;
}

/* How many bytes every member sends; if that is not known beforehand, by an all-gather. each: the
 * most bytes of a grain. */
static mf_status codec_bucket_find_sizes(const mf_codec_bucket *c, const mf_codec_bucket_call *x,
                                         int64_t each, int64_t mine, int64_t *sizes)
{
    const mf_shard_owners *s = x->shares;
    const bool ask = lengths_vary(c);

    if (ask)
        MF_TRY(mf_group_sizes(x->group, &x->call, mine, sizes));
    for (int r = 0; r < s->ranks; r++) {
        const int64_t most = each * mf_shard_owners_grains(s, r);

        if (!ask)
            sizes[r] = most;
        else if (sizes[r] < 0 || sizes[r] > most)
            return MF_FAIL(MF_DATA_LOSS, "member %d has gradients of %lld bytes, not %lld", r,
                           (long long)sizes[r], (long long)most);
    }
    return MF_OK;
}

static mf_status codec_bucket_send_all(mf_codec_bucket *c, const mf_codec_bucket_call *x,
                                       int64_t each, int64_t *sizes)
{
    const mf_shard_owners *s = x->shares;
    const int n = mf_shard_owners_grains(s, x->group->rank);

    MF_TRY(mf_shard_owners_reserve(&c->sent, MF_DTYPE_U8, each * (n > 0 ? n : 1)));
    MF_TRY(mf_shard_owners_reserve(&c->got, MF_DTYPE_U8, each * mf_shard_owners_all_grains(s)));
    MF_TRY(codec_bucket_find_sizes(c, x, each, encode_ours(c, x), sizes));
    return mf_all_gather(x->group, &(mf_gather){ x->call, c->sent.data, sizes, c->got.data });
}

/* The messages of all items of all grains in the received bytes. */
typedef struct codec_bucket_found {
    const uint8_t *at;
    int64_t size;
} codec_bucket_found;

static mf_status find_messages(const mf_codec_bucket *c, const mf_codec_bucket_call *x,
                               const int64_t *sizes, codec_bucket_found *all)
{
    const mf_shard_owners *s = x->shares;
    const uint8_t *at = c->got.data;

    for (int r = 0; r < s->ranks; r++) {
        const uint8_t *end = at + sizes[r];

        for (int g = 0; g < mf_shard_owners_grains(s, r); g++) {
            for (int64_t i = 0; i < c->n; i++) {
                const mf_codec_bucket_item *t = &c->items[i];
                const mf_codec_item a = about_grain(t, s, x->call.step, s->first_grain[r] + g);
                codec_bucket_found *f = &all[(s->first_grain[r] + g) * c->n + i];

                if (t->codec->kind->rounds)
                    continue;
                f->at = at;
                MF_TRY(mf_codec_size(t->codec, &a, at, end - at, &f->size));
                at += f->size;
            }
        }
        at = end;
    }
    return MF_OK;
}

/* One item of all grains, decoded and added up. f: its message of the first one. */
static mf_status codec_bucket_add_up(mf_codec_bucket *c, const mf_codec_bucket_call *x,
                                     const mf_codec_bucket_item *t, const codec_bucket_found *f,
                                     mf_reduction_tree_part *parts)
{
    const mf_shard_owners *s = x->shares;
    const int n = mf_shard_owners_all_grains(s);

    MF_TRY(mf_shard_owners_reserve(&c->scratch, MF_DTYPE_F32, t->about.count * n));
    for (int g = 0; g < n; g++, f += c->n) {
        const mf_codec_item a = about_grain(t, s, x->call.step, g);
        float *to = (float *)c->scratch.data + t->about.count * g;

        MF_TRY(mf_codec_decode(t->codec, &a, f->at, f->size, to));
        parts[g] = (mf_reduction_tree_part){ s->grains[g], to };
    }
    return mf_reduction_tree_sum(s->leaves, (mf_reduction_tree_node){ 0, s->leaves }, parts, n,
                                 MF_DTYPE_F32, t->about.count, x->result + t->at);
}

/* each: the most bytes of a grain. */
static mf_status exchange_messages(mf_codec_bucket *c, const mf_codec_bucket_call *x, int64_t each)
{
    const int64_t n = mf_shard_owners_all_grains(x->shares);
    int64_t *sizes = mf_calloc(x->shares->ranks, sizeof *sizes);
    mf_reduction_tree_part *parts = mf_calloc(n, sizeof *parts);
    codec_bucket_found *all = mf_calloc(n * c->n, sizeof *all);
    mf_status st = sizes && parts && all ? MF_OK : MF_NOMEM("gradients");

    if (st == MF_OK)
        st = codec_bucket_send_all(c, x, each, sizes);
    if (st == MF_OK)
        st = find_messages(c, x, sizes, all);
    for (int64_t i = 0; st == MF_OK && i < c->n; i++) {
        if (!c->items[i].codec->kind->rounds)
            st = codec_bucket_add_up(c, x, &c->items[i], &all[i], parts);
    }
    mf_free(all);
    mf_free(parts);
    mf_free(sizes);
    return st;
}

/* ---- rounds ---- */

static int64_t round_length(const mf_codec_bucket_item *t, int round)
{
    const mf_codec_rounds *k = t->codec->kind->rounds;

    return k && round < k->n ? k->length(t->codec, &t->about, round) : 0;
}

/* to: the numbers of all items of one grain. */
static void codec_bucket_give(const mf_codec_bucket *c, const mf_codec_bucket_call *x, int round,
                              int g, float *to)
{
    const int rank = x->group->rank;

    for (int64_t i = 0; i < c->n; i++) {
        const mf_codec_bucket_item *t = &c->items[i];
        const mf_codec_item a =
            about_grain(t, x->shares, x->call.step, x->shares->first_grain[rank] + g);
        const int64_t n = round_length(t, round);

        if (n > 0)
            t->codec->kind->rounds->give(t->codec, &a, round, x->grains[g] + t->at,
                                         codec_bucket_memory_of(t, x->shares, rank, g), t->shared,
                                         to);
        to += n;
    }
}

static void codec_bucket_take(const mf_codec_bucket *c, const mf_codec_bucket_call *x, int round,
                              const float *sum)
{
    for (int64_t i = 0; i < c->n; i++) {
        const mf_codec_bucket_item *t = &c->items[i];
        const int64_t n = round_length(t, round);

        if (n > 0)
            t->codec->kind->rounds->take(t->codec, &t->about, round, sum, t->shared,
                                         x->result + t->at);
        sum += n;
    }
}

static mf_status exchange_round(mf_codec_bucket *c, const mf_codec_bucket_call *x, int round,
                                int64_t length)
{
    const int n = mf_shard_owners_grains(x->shares, x->group->rank);
    const void **grains = mf_calloc(n + 1, sizeof *grains);
    mf_status st = grains ? MF_OK : MF_NOMEM("gradients");

    if (st == MF_OK)
        st = mf_shard_owners_reserve(&c->sent, MF_DTYPE_F32, length * (n > 0 ? n : 1));
    if (st == MF_OK)
        st = mf_shard_owners_reserve(&c->sums, MF_DTYPE_F32, length);
    for (int g = 0; st == MF_OK && g < n; g++) {
        float *to = (float *)c->sent.data + length * g;

        codec_bucket_give(c, x, round, g, to);
        grains[g] = to;
    }
    if (st == MF_OK)
        st = mf_shard_owners_sum(x->shares, x->group, &x->call, grains, MF_DTYPE_F32, length,
                                 &c->scratch, false, c->sums.data);
    if (st == MF_OK)
        codec_bucket_take(c, x, round, c->sums.data);
    mf_free(grains);
    return st;
}

mf_status mf_codec_bucket_exchange(mf_codec_bucket *c, const mf_codec_bucket_call *x)
{
    const int64_t each = message_bytes(c, x->call.step);

    if (each > 0)
        MF_TRY(exchange_messages(c, x, each));
    for (int round = 0;; round++) {
        int64_t length = 0;

        for (int64_t i = 0; i < c->n; i++)
            length += round_length(&c->items[i], round);
        if (length == 0)
            return MF_OK;
        MF_TRY(exchange_round(c, x, round, length));
    }
}

void mf_codec_bucket_deinit(mf_codec_bucket *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        mf_free(c->items[i].name);
        mf_free(c->items[i].memory);
        mf_free(c->items[i].shared);
    }
    mf_free(c->items);
    mf_tensor_clear(&c->sent);
    mf_tensor_clear(&c->got);
    mf_tensor_clear(&c->scratch);
    mf_tensor_clear(&c->sums);
}
