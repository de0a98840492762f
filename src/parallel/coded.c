/* SPDX-License-Identifier: Apache-2.0 */
/* coded.c - see coded.h. */
#include "parallel/coded.h"

#include "base/mem.h"

#include <string.h>

/* Of our grains, `i` is the one that begins at this shard. */
static float *memory_of(const mf_coded_item *t, const mf_shares *s, int rank, int i)
{
    const int64_t lo = s->grains[s->first_grain[rank] + i].lo;

    return t->memory ? t->memory + (lo - s->of[rank].first) / s->grain * t->kept : NULL;
}

static mf_codec_item about_grain(const mf_coded_item *t, const mf_shares *s, int64_t step, int i)
{
    mf_codec_item a = t->about;

    a.step = step;
    a.grain = s->grains[i].lo / s->grain;
    return a;
}

/* ---- messages ---- */

/* What all items of one grain take. */
static int64_t message_bytes(const mf_coded *c, int64_t step)
{
    int64_t all = 0;

    for (int64_t i = 0; i < c->n; i++) {
        mf_codec_item a = c->items[i].about;

        a.step = step;
        all += c->items[i].codec->kind->rounds ? 0 : mf_codec_bytes(c->items[i].codec, &a);
    }
    return all;
}

static void encode_ours(const mf_coded *c, const mf_coded_call *x)
{
    const mf_shares *s = x->shares;
    const int rank = x->group->rank;
    uint8_t *out = c->sent.data;

    for (int g = 0; g < mf_shares_grains(s, rank); g++) {
        for (int64_t i = 0; i < c->n; i++) {
            const mf_coded_item *t = &c->items[i];
            const mf_codec_item a = about_grain(t, s, x->call.step, s->first_grain[rank] + g);

            if (t->codec->kind->rounds)
                continue;
            mf_codec_encode(t->codec, &a, x->grains[g] + t->at, memory_of(t, s, rank, g), out);
            out += mf_codec_bytes(t->codec, &a);
        }
    }
}

static mf_status send_all(mf_coded *c, const mf_coded_call *x, int64_t each)
{
    const mf_shares *s = x->shares;
    const int n = mf_shares_grains(s, x->group->rank);
    int64_t *sizes = mf_calloc(s->ranks, sizeof *sizes);
    mf_status st = sizes ? MF_OK : MF_NOMEM("gradients");

    for (int r = 0; sizes && r < s->ranks; r++)
        sizes[r] = each * mf_shares_grains(s, r);
    if (st == MF_OK)
        st = mf_room_for(&c->sent, MF_DTYPE_U8, each * (n > 0 ? n : 1));
    if (st == MF_OK)
        st = mf_room_for(&c->got, MF_DTYPE_U8, each * mf_shares_all_grains(s));
    if (st == MF_OK) {
        encode_ours(c, x);
        st = mf_all_gather(x->group, &(mf_gather){ x->call, c->sent.data, sizes, c->got.data });
    }
    mf_free(sizes);
    return st;
}

/* One item of all grains, decoded and added up. offset: of its messages. */
static mf_status add_up(mf_coded *c, const mf_coded_call *x, const mf_coded_item *t, int64_t each,
                        int64_t offset, mf_tree_part *parts)
{
    const mf_shares *s = x->shares;
    const int n = mf_shares_all_grains(s);

    MF_TRY(mf_room_for(&c->scratch, MF_DTYPE_F32, t->about.count * n));
    for (int g = 0; g < n; g++) {
        const mf_codec_item a = about_grain(t, s, x->call.step, g);
        float *to = (float *)c->scratch.data + t->about.count * g;

        MF_TRY(mf_codec_decode(t->codec, &a, (const uint8_t *)c->got.data + each * g + offset,
                               mf_codec_bytes(t->codec, &a), to));
        parts[g] = (mf_tree_part){ s->grains[g], to };
    }
    return mf_tree_sum(s->leaves, (mf_tree_node){ 0, s->leaves }, parts, n, MF_DTYPE_F32,
                       t->about.count, x->result + t->at);
}

static mf_status exchange_messages(mf_coded *c, const mf_coded_call *x)
{
    const int64_t each = message_bytes(c, x->call.step);
    mf_tree_part *parts;
    mf_status st = MF_OK;
    int64_t offset = 0;

    if (each == 0)
        return MF_OK;
    MF_TRY(send_all(c, x, each));
    parts = mf_calloc(mf_shares_all_grains(x->shares), sizeof *parts);
    if (!parts)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; st == MF_OK && i < c->n; i++) {
        const mf_coded_item *t = &c->items[i];
        const mf_codec_item a = about_grain(t, x->shares, x->call.step, 0);

        if (t->codec->kind->rounds)
            continue;
        st = add_up(c, x, t, each, offset, parts);
        offset += mf_codec_bytes(t->codec, &a);
    }
    mf_free(parts);
    return st;
}

/* ---- rounds ---- */

static int64_t round_length(const mf_coded_item *t, int round)
{
    const mf_codec_rounds *k = t->codec->kind->rounds;

    return k && round < k->n ? k->length(t->codec, &t->about, round) : 0;
}

/* to: the numbers of all items of one grain. */
static void give(const mf_coded *c, const mf_coded_call *x, int round, int g, float *to)
{
    const int rank = x->group->rank;

    for (int64_t i = 0; i < c->n; i++) {
        const mf_coded_item *t = &c->items[i];
        const mf_codec_item a =
            about_grain(t, x->shares, x->call.step, x->shares->first_grain[rank] + g);
        const int64_t n = round_length(t, round);

        if (n > 0)
            t->codec->kind->rounds->give(t->codec, &a, round, x->grains[g] + t->at,
                                         memory_of(t, x->shares, rank, g), t->shared, to);
        to += n;
    }
}

static void take(const mf_coded *c, const mf_coded_call *x, int round, const float *sum)
{
    for (int64_t i = 0; i < c->n; i++) {
        const mf_coded_item *t = &c->items[i];
        const int64_t n = round_length(t, round);

        if (n > 0)
            t->codec->kind->rounds->take(t->codec, &t->about, round, sum, t->shared,
                                         x->result + t->at);
        sum += n;
    }
}

static mf_status exchange_round(mf_coded *c, const mf_coded_call *x, int round, int64_t length)
{
    const int n = mf_shares_grains(x->shares, x->group->rank);
    const void **grains = mf_calloc(n + 1, sizeof *grains);
    mf_status st = grains ? MF_OK : MF_NOMEM("gradients");

    if (st == MF_OK)
        st = mf_room_for(&c->sent, MF_DTYPE_F32, length * (n > 0 ? n : 1));
    if (st == MF_OK)
        st = mf_room_for(&c->sums, MF_DTYPE_F32, length);
    for (int g = 0; st == MF_OK && g < n; g++) {
        float *to = (float *)c->sent.data + length * g;

        give(c, x, round, g, to);
        grains[g] = to;
    }
    if (st == MF_OK)
        st = mf_shares_sum(x->shares, x->group, &x->call, grains, MF_DTYPE_F32, length, &c->scratch,
                           false, c->sums.data);
    if (st == MF_OK)
        take(c, x, round, c->sums.data);
    mf_free(grains);
    return st;
}

mf_status mf_coded_exchange(mf_coded *c, const mf_coded_call *x)
{
    if (c->n == 0)
        return MF_OK;
    MF_TRY(exchange_messages(c, x));
    for (int round = 0;; round++) {
        int64_t length = 0;

        for (int64_t i = 0; i < c->n; i++)
            length += round_length(&c->items[i], round);
        if (length == 0)
            return MF_OK;
        MF_TRY(exchange_round(c, x, round, length));
    }
}

void mf_coded_deinit(mf_coded *c)
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
