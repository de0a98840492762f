/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_allreduce_pack.c - a bucket's values as one vector for each part. Items that travel
 * exactly come first; the rest travels by codecs (codec_bucket.h). */
#include "base/mem.h"
#include "dist/data_parallel/gradient_allreduce_private.h"

#include <string.h>

static int64_t gradient_allreduce_pack_padded(int64_t n)
{
    return (n + MF_GRADIENT_ALLREDUCE_ALIGN - 1) / MF_GRADIENT_ALLREDUCE_ALIGN *
           MF_GRADIENT_ALLREDUCE_ALIGN;
}

/* The same for all workers and all trainings with this seed (FNV-1a). */
static uint64_t gradient_allreduce_pack_seed_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u ^ seed;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

mf_codec_item mf_gradient_allreduce_describe(const mf_gradient_allreduce *x,
                                             const mf_exchange_bucket *b, int i)
{
    const mf_shape *s = &b->shapes[i];
    const int64_t count = mf_shape_span(s, 0, s->rank);
    const int64_t columns = s->rank > 0 ? s->dims[s->rank - 1] : 1;

    return (mf_codec_item){ .count = count,
                            .rows = columns > 0 ? count / columns : 0,
                            .columns = columns,
                            .seed = gradient_allreduce_pack_seed_of(x->o.seed, b->names[i]) };
}

static const mf_codec *codec_of(const mf_gradient_allreduce *x, const mf_exchange_bucket *b, int i)
{
    const mf_codec_item item = mf_gradient_allreduce_describe(x, b, i);

    return x->o.codecs ? mf_codecs_find(x->o.codecs, b->names[i], (mf_dtype)b->types[i], &item)
                       : NULL;
}

/* The positions of items in a vector: first the exact ones, followed by the step flags, then the
 * others. */
static mf_status gradient_allreduce_pack_lay_out(mf_gradient_allreduce *x,
                                                 mf_gradient_allreduce_bucket *k)
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
        n += codec_of(x, b, i) ? 0 : gradient_allreduce_pack_padded(one);
    }
    n += mf_gradient_allreduce_has_vote(x, b) ? MF_GRADIENT_ALLREDUCE_ALIGN : 0;
    k->exact = n;
    for (int i = 0; i < b->n_items; i++) {
        const mf_codec *codec = codec_of(x, b, i);
        const mf_codec_item item = mf_gradient_allreduce_describe(x, b, i);

        if (!codec)
            continue;
        k->at[i] = n;
        n += gradient_allreduce_pack_padded(item.count);
        MF_TRY(mf_codec_bucket_add(&k->coded, &x->shares, x->o.group->rank, b->names[i], codec,
                                   &item, k->at[i], &x->before));
    }
    k->count = n;
    return MF_OK;
}

bool mf_gradient_allreduce_is_gradient(const mf_exchange_bucket *b, int i)
{
    return b->names[i][0] != '\0' && b->types[i] == MF_DTYPE_F32;
}

void mf_gradient_allreduce_weigh(const mf_gradient_allreduce *x, const mf_exchange_bucket *b, int i,
                                 void *data, int64_t n)
{
    float *v = data;

    if (x->factor == 1.0f || !mf_gradient_allreduce_is_gradient(b, i))
        return;
    for (int64_t k = 0; k < n; k++)
        v[k] *= x->factor;
}

static void pack_part(const mf_gradient_allreduce *x, const mf_gradient_allreduce_bucket *k,
                      int part, const mf_tensor *const *values, char *vector)
{
    const size_t cell = mf_dtype_cell((mf_dtype)k->about->types[0]);

    for (int i = 0; i < k->about->n_items; i++) {
        char *to = vector + (size_t)k->at[i] * cell;
        const int64_t n = values[i]->count, room = gradient_allreduce_pack_padded(n);

        memcpy(to, values[i]->data, (size_t)n * cell);
        mf_gradient_allreduce_weigh(x, k->about, i, to, n);
        memset(to + (size_t)n * cell, 0, (size_t)(room - n) * cell);
    }
    if (mf_gradient_allreduce_has_vote(x, k->about)) {
        char *to = vector + (size_t)(k->exact - MF_GRADIENT_ALLREDUCE_ALIGN) * cell;

        memset(to, 0, MF_GRADIENT_ALLREDUCE_ALIGN * cell);
        for (int v = 0; part == 0 && v < MF_STEP_FLAG_KINDS; v++)
            ((float *)(void *)to)[v] = (float)(x->step_flags >> v & 1);
        if (part == 0)
            ((float *)(void *)to)[MF_STEP_FLAG_KINDS] = (float)mf_step_flags_leaving(x->step_flags);
    }
}

mf_status mf_gradient_allreduce_pack(mf_gradient_allreduce *x, mf_gradient_allreduce_bucket *k,
                                     const mf_tensor *const *values)
{
    const mf_exchange_bucket *b = k->about;
    const mf_dtype dtype = (mf_dtype)b->types[0];
    const size_t cell = mf_dtype_cell(dtype);

    if (!k->at)
        MF_TRY(gradient_allreduce_pack_lay_out(x, k));
    for (int i = 0; i < b->n_parts * b->n_items; i++) {
        int64_t n;

        if (values[i]->dtype != dtype || mf_shape_count(&b->shapes[i % b->n_items], &n) != MF_OK ||
            values[i]->count != n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "bucket %lld: value %d is not what was announced",
                           (long long)b->id, i);
    }
    MF_TRY(
        mf_shard_owners_reserve(&k->packed, dtype, k->count * (b->n_parts > 0 ? b->n_parts : 1)));
    for (int p = 0; p < b->n_parts; p++)
        pack_part(x, k, p, values + (size_t)p * (size_t)b->n_items,
                  (char *)k->packed.data + (size_t)(p * k->count) * cell);
    return MF_OK;
}
