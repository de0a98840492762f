/* SPDX-License-Identifier: Apache-2.0 */
/* conv_partial.c - products of the parts of a batch, and their sum. */
#include "ops/nn/conv_partial.h"

#include "graph/shard.h"

enum {
    MAX_PARTS = 16,
    SUM_GRAIN = 4096 /* elements per piece of the sum */
};
#define PART_WORK ((double)(2 << 20)) /* minimum multiply-adds per part */

static void cut_batch(const mf_conv *conv, mf_conv_parts *p)
{
    const mf_window *w = &conv->window;
    double work = (double)p->count; /* of an image */

    if (p->shards > 0) {
        p->n = p->shards < p->batch ? p->shards : p->batch;
        return;
    }
    for (int d = 0; d < w->nd; d++)
        work *= (double)w->out[d];
    p->images = work < PART_WORK ? (int64_t)(PART_WORK / work) + 1 : 1;
    if (p->images * MAX_PARTS < p->batch)
        p->images = (p->batch + MAX_PARTS - 1) / MAX_PARTS;
    p->n = (p->batch + p->images - 1) / p->images;
}

mf_status mf_conv_parts_init(const mf_conv *conv, int64_t shards, mf_dtype type, void *first,
                             mf_conv_parts *out)
{
    const mf_window *w = &conv->window;

    *out = (mf_conv_parts){ .batch = w->batch,
                            .shards = shards,
                            .type = type,
                            .count = w->channels / conv->groups * conv->out_channels,
                            .first = first };
    for (int d = 0; d < w->nd; d++)
        out->count *= w->size[d];
    cut_batch(conv, out);
    return out->n > 1 ? mf_tensor_alloc(&out->others, type, &MF_SHAPE(out->n - 1, out->count))
                      : MF_OK;
}

void mf_conv_parts_deinit(mf_conv_parts *parts)
{
    mf_tensor_clear(&parts->others);
}

int64_t mf_conv_part_begin(const mf_conv_parts *parts, int64_t part)
{
    if (parts->shards > 0)
        return mf_shard_begin(parts->batch, parts->n, part);
    return part * parts->images < parts->batch ? part * parts->images : parts->batch;
}

void *mf_conv_partial(const mf_conv_parts *p, int64_t part)
{
    const size_t bytes = (size_t)p->count * mf_dtype_cell(p->type);

    return part == 0 ? p->first : (char *)p->others.data + (size_t)(part - 1) * bytes;
}

#define ADD_PARTIAL(NAME, T)                                                                       \
    static void partial_add_##NAME(T *to, const T *from, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] += from[i];                                                                      \
    }
ADD_PARTIAL(f32, float)
ADD_PARTIAL(f64, double)
ADD_PARTIAL(u32, uint32_t)

/* Elements [at, at + n) of product `to` += product `from`. */
static void add_parts(const mf_conv_parts *p, int64_t to, int64_t from, int64_t at, int64_t n)
{
    const size_t offset = (size_t)at * mf_dtype_cell(p->type);
    char *a = (char *)mf_conv_partial(p, to) + offset;
    char *b = (char *)mf_conv_partial(p, from) + offset;

    if (p->type == MF_DTYPE_F32)
        partial_add_f32((float *)(void *)a, (const float *)(void *)b, n);
    else if (p->type == MF_DTYPE_F64)
        partial_add_f64((double *)(void *)a, (const double *)(void *)b, n);
    else
        partial_add_u32((uint32_t *)(void *)a, (const uint32_t *)(void *)b, n);
}

static void parts_sum_piece(void *ctx, int64_t piece)
{
    const mf_conv_parts *p = ctx;
    const int64_t at = piece * SUM_GRAIN, n = p->count - at < SUM_GRAIN ? p->count - at : SUM_GRAIN;

    if (p->shards == 0) {
        for (int64_t i = 1; i < p->n; i++)
            add_parts(p, 0, i, at, n);
        return;
    }
    for (int64_t stride = 1; stride < p->n; stride *= 2) {
        for (int64_t i = 0; i + stride < p->n; i += 2 * stride)
            add_parts(p, i, i + stride, at, n);
    }
}

mf_status mf_conv_parts_sum(const mf_kernel *k, mf_conv_parts *parts)
{
    if (parts->n == 1)
        return MF_OK;
    return mf_kernel_parallel(k, (parts->count + SUM_GRAIN - 1) / SUM_GRAIN, parts_sum_piece,
                              parts);
}
