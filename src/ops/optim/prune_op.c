/* SPDX-License-Identifier: Apache-2.0 */
/* prune_op.c - magnitude pruning: pruned weights stay zero, and periodically more weights of the
 * smallest magnitude become zero, up to a fraction that grows over time, quickly at first (Zhu and
 * Gupta 2017). */
#include "base/mem.h"
#include "ops/math/elementwise.h"

#include <math.h>
#include <string.h>

enum { BUCKETS = 1 << 16 };

typedef struct prune_state {
    int64_t begin, end, every;
    double first, last; /* fraction of zeros at the begin and at the end */
} prune_state;

static mf_status prune_prepare(mf_prepare *p)
{
    prune_state *s = MF_ARENA_NEW(p->arena, prune_state);

    if (!s)
        return MF_NOMEM("pruning");
    *s = (prune_state){ .begin = mf_node_int(p->node, "begin"),
                        .end = mf_node_int(p->node, "end"),
                        .every = mf_node_int(p->node, "every"),
                        .first = (double)mf_node_float(p->node, "first"),
                        .last = (double)mf_node_float(p->node, "last") };
    if (!(s->first >= 0 && s->first <= 1 && s->last >= 0 && s->last <= 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a share of zeros is between 0 and 1");
    p->state = s;
    return MF_OK;
}

/* Target fraction of zeros after this step; negative: no change. */
static double share_at(const prune_state *s, int64_t step)
{
    double left;

    if (step < s->begin || step > s->end || (step != s->end && (step - s->begin) % s->every != 0))
        return -1;
    left = s->end > s->begin ? (double)(s->end - step) / (double)(s->end - s->begin) : 0;
    return s->last + (s->first - s->last) * left * left * left;
}

static mf_status prune_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++)
        MF_TRY(mf_shape_merge(&in->in[1 + i], &in->in[1 + in->n_out + i], &in->out[i]));
    return MF_OK;
}

/* The bits of magnitudes have the order of the magnitudes. */
static uint32_t prune_op_key_of(float x)
{
    uint32_t bits;

    x = fabsf(x);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Histogram of the keys of all outputs by their upper half, or (for those with the given upper
 * half) by their lower half. */
static void count_keys(const mf_kernel *k, int64_t upper, int64_t *counts)
{
    memset(counts, 0, BUCKETS * sizeof *counts);
    for (int i = 0; i < k->n_out; i++) {
        const float *x = k->out[i]->data;

        for (int64_t e = 0; e < k->out[i]->count; e++) {
            const uint32_t key = prune_op_key_of(x[e]);

            if (upper < 0)
                counts[key >> 16]++;
            else if (key >> 16 == (uint32_t)upper)
                counts[key & 0xffff]++;
        }
    }
}

/* The bucket of the n-th smallest; *n becomes its rank within the bucket. */
static int64_t prune_op_find_bucket(const int64_t *counts, int64_t *n)
{
    int64_t b = 0;

    while (b < BUCKETS - 1 && *n >= counts[b])
        *n -= counts[b++];
    return b;
}

/* Sets the `want` smallest of all outputs to zero; ties are broken by position. */
static mf_status prune_smallest(const mf_kernel *k, int64_t want)
{
    int64_t *counts = mf_calloc(BUCKETS, sizeof *counts);
    int64_t rest = want, upper;
    uint32_t limit;

    if (!counts)
        return MF_NOMEM("pruning");
    count_keys(k, -1, counts);
    upper = prune_op_find_bucket(counts, &rest);
    count_keys(k, upper, counts);
    limit = (uint32_t)upper << 16 | (uint32_t)prune_op_find_bucket(counts, &rest);
    mf_free(counts);
    for (int i = 0; i < k->n_out; i++) {
        float *x = k->out[i]->data;

        for (int64_t e = 0; e < k->out[i]->count; e++) {
            const uint32_t key = prune_op_key_of(x[e]);

            if (key < limit || (key == limit && rest-- > 0))
                x[e] = 0;
        }
    }
    return MF_OK;
}

static mf_status prune_run(mf_kernel *k)
{
    const prune_state *s = k->state;
    int64_t total = 0, want;
    double share;

    if (k->in[0]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the step is one number");
    for (int i = 0; i < k->n_out; i++) {
        const mf_tensor *before = k->in[1 + i], *after = k->in[1 + k->n_out + i];
        const float *b = before->data, *a = after->data;
        mf_tensor *out;
        float *y;

        if (!mf_shape_equal(&before->shape, &after->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "weight %d has another shape than before", i);
        MF_TRY(mf_kernel_out(k, i, &after->shape, &out));
        y = out->data;
        for (int64_t e = 0; e < after->count; e++)
            y[e] = b[e] == 0 ? 0 : a[e];
        total += after->count;
    }
    share = share_at(s, ((const int64_t *)k->in[0]->data)[0]);
    want = (int64_t)(share * (double)total + 0.5);
    return share > 0 && want > 0 ? prune_smallest(k, want < total ? want : total) : MF_OK;
}

const mf_op mf_op_prune = {
    .name = "_Prune",
    .def = "(step:int64, before:N*float, after:N*float) -> (output:N*float) {N:int>=1, "
           "begin:int>=0=0, end:int=0, every:int>=1=1, first:float=0.0, last:float=0.0}",
    .infer = prune_infer,
    .grad = mf_grad_none,
    .prepare = prune_prepare,
    .run = prune_run,
    .samples = MF_SAMPLES(
        "i64[]{0} f32[3,5] f32[3,5] ; last=0.5", "i64[]{4} f32[7] f32[7] ; N=1 end=9 last=0.5",
        "i64[]{4} f32[7] f32[3] f32[7] f32[3] ; begin=2 end=9 every=2 first=0.1 last=0.9",
        "i64[]{0} f32[0] f32[0] ; last=0.5", "i64[]{0} f32[3] f32[3] ; last=1.0",
        "i64[]{0} f32[3] f32[4] ; last=0.5 !fails", "i64[]{0} f32[3] f32[3] ; last=1.5 !fails"),
};
