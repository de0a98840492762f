/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c - convolutions of floats against one chain of multiply-adds per element: equal bits for
 * random shapes, strides, dilations, paddings, groups, layouts, shards and threads. Those of
 * bfloat16 against the same chains in double. */
#include "../kernel_sets.h"
#include "base/mem.h"
#include "base/pool.h"
#include "mf_test.h"
#include "ops/nn/conv_partial.h"
#include "ops/nn/conv_run.h"

#include <math.h>
#include <string.h>

enum { CASES = 400 };

/* ---- random convolutions ---- */

typedef struct dice {
    uint64_t state;
} dice;

static int64_t dice_between(dice *d, int64_t lo, int64_t hi)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((d->state >> 33) % (uint64_t)(hi - lo + 1));
}

static mf_conv random_conv(dice *d)
{
    mf_conv c;
    mf_window *w = &c.window;

    memset(&c, 0, sizeof c);
    c.kind = (mf_conv_kind)dice_between(d, 0, 2);
    c.groups = dice_between(d, 0, 3) == 0 ? dice_between(d, 2, 3) : 1;
    w->nd = dice_between(d, 0, 3) == 0 ? 3 : 2;
    w->batch = dice_between(d, 1, 5);
    w->channels = c.groups * dice_between(d, 1, dice_between(d, 1, 40));
    c.out_channels = c.groups * dice_between(d, 1, dice_between(d, 1, 150));
    w->channels_first = dice_between(d, 0, 4) == 0;
    for (int i = 0; i < w->nd; i++) {
        int64_t reach;

        w->size[i] = dice_between(d, 1, 4);
        w->stride[i] = dice_between(d, 1, 3);
        w->dilation[i] = dice_between(d, 0, 3) == 0 ? 2 : 1;
        reach = (w->size[i] - 1) * w->dilation[i] + 1;
        w->pad_lo[i] = dice_between(d, 0, 2);
        w->pad_hi[i] = dice_between(d, 0, 2);
        w->in[i] = dice_between(d, reach > w->pad_lo[i] + w->pad_hi[i] ? reach : 1, reach + 14);
        w->out[i] = (w->in[i] + w->pad_lo[i] + w->pad_hi[i] - reach) / w->stride[i] + 1;
        if (w->in[i] + w->pad_lo[i] + w->pad_hi[i] < reach)
            w->in[i] = reach,
            w->out[i] = (reach + w->pad_lo[i] + w->pad_hi[i] - reach) / w->stride[i] + 1;
    }
    return c;
}

/* ---- the chains ---- */

typedef struct place {
    int64_t at[MF_WINDOW_DIMS];
} place;

static int64_t spatial(const mf_conv *c, const int64_t *size)
{
    int64_t n = 1;

    for (int d = 0; d < c->window.nd; d++)
        n *= size[d];
    return n;
}

static place place_of(const mf_conv *c, const int64_t *size, int64_t i)
{
    place p = { { 0 } };

    for (int d = c->window.nd - 1; d >= 0; d--) {
        p.at[d] = i % size[d];
        i /= size[d];
    }
    return p;
}

/* Index of an element of an image tensor. */
static int64_t element(const mf_conv *c, int64_t channels, const int64_t *size, int64_t n,
                       int64_t pixel, int64_t channel)
{
    const int64_t pixels = spatial(c, size);

    return c->window.channels_first ? (n * channels + channel) * pixels + pixel
                                    : (n * pixels + pixel) * channels + channel;
}

/* The input pixel that tap t of output pixel o reads; -1: padding. */
static int64_t pixel_read(const mf_conv *c, int64_t o, int64_t t)
{
    const mf_window *w = &c->window;
    const place op = place_of(c, w->out, o), tp = place_of(c, w->size, t);
    int64_t pixel = 0;

    for (int d = 0; d < w->nd; d++) {
        const int64_t at = op.at[d] * w->stride[d] + tp.at[d] * w->dilation[d] - w->pad_lo[d];

        if (at < 0 || at >= w->in[d])
            return -1;
        pixel = pixel * w->in[d] + at;
    }
    return pixel;
}

typedef struct operands {
    float *x, *w, *y;
} operands;

static int64_t tap_at(const mf_conv *c, int64_t t, int64_t i, int64_t o)
{
    return (t * (c->window.channels / c->groups) + i) * c->out_channels + o;
}

static void chain_forward(const mf_conv *c, const operands *m, float *y)
{
    const mf_window *w = &c->window;
    const int64_t in = w->channels / c->groups, out = c->out_channels / c->groups;

    for (int64_t n = 0; n < w->batch; n++) {
        for (int64_t p = 0; p < spatial(c, w->out); p++) {
            for (int64_t o = 0; o < c->out_channels; o++) {
                float sum = 0;

                for (int64_t t = 0; t < spatial(c, w->size); t++) {
                    const int64_t from = pixel_read(c, p, t);

                    for (int64_t i = 0; from >= 0 && i < in; i++)
                        sum = fmaf(m->x[element(c, w->channels, w->in, n, from, o / out * in + i)],
                                   m->w[tap_at(c, t, i, o)], sum);
                }
                y[element(c, c->out_channels, w->out, n, p, o)] = sum;
            }
        }
    }
}

/* Taps from the last to the first: they read ascending positions of the output's gradient. */
static void chain_input(const mf_conv *c, const operands *m, float *x)
{
    const mf_window *w = &c->window;
    const int64_t in = w->channels / c->groups, out = c->out_channels / c->groups;
    const int64_t count = w->batch * spatial(c, w->in) * w->channels;

    memset(x, 0, (size_t)count * sizeof *x);
    for (int64_t t = spatial(c, w->size) - 1; t >= 0; t--) {
        for (int64_t n = 0; n < w->batch; n++) {
            for (int64_t p = 0; p < spatial(c, w->out); p++) {
                const int64_t to = pixel_read(c, p, t);

                for (int64_t i = 0; to >= 0 && i < w->channels; i++) {
                    float *sum = &x[element(c, w->channels, w->in, n, to, i)];

                    for (int64_t o = i / in * out; o < (i / in + 1) * out; o++)
                        *sum = fmaf(m->y[element(c, c->out_channels, w->out, n, p, o)],
                                    m->w[tap_at(c, t, i % in, o)], *sum);
                }
            }
        }
    }
}

static void chain_filter(const mf_conv *c, int64_t from, int64_t to, const operands *m, float *dw)
{
    const mf_window *w = &c->window;
    const int64_t in = w->channels / c->groups, out = c->out_channels / c->groups;

    for (int64_t t = 0; t < spatial(c, w->size); t++) {
        for (int64_t i = 0; i < in; i++) {
            for (int64_t o = 0; o < c->out_channels; o++) {
                float sum = 0;

                for (int64_t n = from; n < to; n++) {
                    for (int64_t p = 0; p < spatial(c, w->out); p++) {
                        const int64_t at = pixel_read(c, p, t);

                        if (at >= 0)
                            sum =
                                fmaf(m->x[element(c, w->channels, w->in, n, at, o / out * in + i)],
                                     m->y[element(c, c->out_channels, w->out, n, p, o)], sum);
                    }
                }
                dw[tap_at(c, t, i, o)] = sum;
            }
        }
    }
}

/* Products of all parts, added as conv_partial.h says. */
static void chains_filter(const mf_conv *c, int64_t shards, const operands *m, float *dw)
{
    mf_conv_parts parts;

    T_OK(mf_conv_parts_init(c, shards, MF_DTYPE_F32, dw, &parts));
    for (int64_t i = 0; i < parts.n; i++)
        chain_filter(c, mf_conv_part_begin(&parts, i), mf_conv_part_begin(&parts, i + 1), m,
                     mf_conv_partial(&parts, i));
    for (int64_t stride = 1; shards > 0 && stride < parts.n; stride *= 2) {
        for (int64_t i = 0; i + stride < parts.n; i += 2 * stride) {
            for (int64_t k = 0; k < parts.count; k++)
                ((float *)mf_conv_partial(&parts, i))[k] +=
                    ((float *)mf_conv_partial(&parts, i + stride))[k];
        }
    }
    for (int64_t i = 1; shards == 0 && i < parts.n; i++) {
        for (int64_t k = 0; k < parts.count; k++)
            dw[k] += ((float *)mf_conv_partial(&parts, i))[k];
    }
    mf_conv_parts_deinit(&parts);
}

/* ---- comparison, in every instruction set (kernel_sets.h) ---- */

typedef mf_status conv_fn(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                          const mf_tensor *x, const mf_tensor *w, const mf_tensor *y);
typedef bool reads_fn(const mf_conv *conv);
KERNEL_SETS(mf_conv_run, run_sets)
KERNEL_SETS(mf_conv_reads_bf16, reads_sets)

static mf_tensor filled(dice *d, int64_t n)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(n)));
    for (int64_t i = 0; i < n; i++)
        ((float *)t.data)[i] = (float)dice_between(d, -1000, 1000) * 1e-3f;
    return t;
}

static void compare_case(dice *d, mf_pool *pool, conv_fn *run)
{
    const mf_conv c = random_conv(d);
    const int64_t shards = dice_between(d, 0, 4);
    mf_step step = { .pool = pool };
    const mf_kernel k = { .step = &step };
    mf_tensor t[3] = { filled(d, c.window.batch * spatial(&c, c.window.in) * c.window.channels),
                       filled(d, spatial(&c, c.window.size) * (c.window.channels / c.groups) *
                                     c.out_channels),
                       filled(d, c.window.batch * spatial(&c, c.window.out) * c.out_channels) };
    const int result = c.kind == MF_CONV_FORWARD ? 2 : c.kind == MF_CONV_INPUT ? 0 : 1;
    const operands m = { t[0].data, t[1].data, t[2].data };
    mf_tensor want = filled(d, t[result].count);

    if (c.kind == MF_CONV_FORWARD)
        chain_forward(&c, &m, want.data);
    else if (c.kind == MF_CONV_INPUT)
        chain_input(&c, &m, want.data);
    else
        chains_filter(&c, shards, &m, want.data);
    T_OK(run(&k, &c, shards, &t[0], &t[1], &t[2]));
    for (int64_t i = 0; i < want.count; i++) {
        const float got = ((float *)t[result].data)[i], expected = ((float *)want.data)[i];

        if (got != expected)
            T_FAIL("kind %d, nd %d, channels %lld -> %lld, groups %lld, first %d, shards %lld: "
                   "element %lld is %.9g, not %.9g",
                   (int)c.kind, c.window.nd, (long long)c.window.channels,
                   (long long)c.out_channels, (long long)c.groups, c.window.channels_first,
                   (long long)shards, (long long)i, (double)got, (double)expected);
    }
    for (int i = 0; i < 3; i++)
        mf_tensor_clear(&t[i]);
    mf_tensor_clear(&want);
}

/* ---- bfloat16 ---- */

static mf_tensor filled_bf16(dice *d, int64_t n, mf_tensor *wide)
{
    mf_tensor t = { 0 };

    *wide = filled(d, n);
    T_OK(mf_tensor_alloc(&t, MF_DTYPE_BF16, &MF_SHAPE(n)));
    for (int64_t i = 0; i < n; i++) {
        ((mf_bf16 *)t.data)[i] = mf_bf16_from_f32(((float *)wide->data)[i]);
        ((float *)wide->data)[i] = mf_bf16_to_f32(((mf_bf16 *)t.data)[i]);
    }
    return t;
}

/* Results are sums of at most a few thousand products below 1: the order of additions changes less
 * than the rounding to bfloat16. */
static void compare_halves(dice *d, mf_pool *pool, conv_fn *run, reads_fn *reads)
{
    mf_conv c = random_conv(d);
    mf_step step = { .pool = pool };
    const mf_kernel k = { .step = &step };
    const int result = c.kind == MF_CONV_FORWARD ? 2 : c.kind == MF_CONV_INPUT ? 0 : 1;
    mf_tensor wide[3], t[3], want;

    if (!reads(&c))
        return;
    t[0] = filled_bf16(d, c.window.batch * spatial(&c, c.window.in) * c.window.channels, &wide[0]);
    t[1] =
        filled_bf16(d, spatial(&c, c.window.size) * c.window.channels * c.out_channels, &wide[1]);
    t[2] = filled_bf16(d, c.window.batch * spatial(&c, c.window.out) * c.out_channels, &wide[2]);
    want = filled(d, t[result].count);
    const operands m = { wide[0].data, wide[1].data, wide[2].data };

    if (c.kind == MF_CONV_FORWARD)
        chain_forward(&c, &m, want.data);
    else if (c.kind == MF_CONV_INPUT)
        chain_input(&c, &m, want.data);
    else
        chain_filter(&c, 0, c.window.batch, &m, want.data);
    T_OK(run(&k, &c, 1, &t[0], c.kind == MF_CONV_FILTER ? &wide[1] : &t[1], &t[2]));
    for (int64_t i = 0; i < want.count; i++) {
        const double expected = (double)((float *)want.data)[i];
        const double got = c.kind == MF_CONV_FILTER
                               ? (double)((float *)wide[1].data)[i]
                               : (double)mf_bf16_to_f32(((mf_bf16 *)t[result].data)[i]);
        const double rounding = c.kind == MF_CONV_FILTER ? 0 : fabs(expected) / 128;

        if (!(fabs(got - expected) <= rounding + 1e-3))
            T_FAIL("kind %d, channels %lld -> %lld: element %lld is %.9g, not %.9g", (int)c.kind,
                   (long long)c.window.channels, (long long)c.out_channels, (long long)i, got,
                   expected);
    }
    for (int i = 0; i < 3; i++) {
        mf_tensor_clear(&t[i]);
        mf_tensor_clear(&wide[i]);
    }
    mf_tensor_clear(&want);
}

MF_TEST(conv_every_element_is_one_chain_of_multiply_adds)
{
    mf_pool *pool;

    T_OK(mf_pool_new(3, &pool));
    for (int set = 0; set < MF_ISA_COUNT; set++) {
        dice d = { 7 };

        for (int i = 0; run_sets[set] && mf_isa_is_available((mf_isa)set) && i < CASES; i++)
            compare_case(&d, i % 2 ? pool : NULL, run_sets[set]);
    }
    mf_pool_free(pool);
}

MF_TEST(conv_of_bfloat16_differs_by_rounding_only)
{
    const mf_conv plain = { .window = { .nd = 2,
                                        .batch = 1,
                                        .channels = 2,
                                        .in = { 1, 1 },
                                        .out = { 1, 1 },
                                        .size = { 1, 1 },
                                        .stride = { 1, 1 },
                                        .dilation = { 1, 1 } },
                            .out_channels = 1,
                            .groups = 1 };
    mf_pool *pool;
    int sets = 0;

    T_OK(mf_pool_new(3, &pool));
    for (int set = 0; set < MF_ISA_COUNT; set++) {
        dice d = { 11 };

        if (!run_sets[set] || !mf_isa_is_available((mf_isa)set) || !reads_sets[set](&plain))
            continue;
        sets++;
        for (int i = 0; i < CASES; i++)
            compare_halves(&d, i % 2 ? pool : NULL, run_sets[set], reads_sets[set]);
    }
    mf_pool_free(pool);
    if (sets == 0)
        T_SKIP("the processor has no instructions for bfloat16");
}

/* An infinite pixel that no window reads does not reach the gradient. */
MF_TEST(conv_of_bfloat16_ignores_pixels_outside_of_windows)
{
    const mf_conv c = { .kind = MF_CONV_FILTER,
                        .window = { .nd = 2,
                                    .batch = 1,
                                    .channels = 1,
                                    .in = { 1, 4 },
                                    .out = { 1, 1 },
                                    .size = { 1, 2 },
                                    .stride = { 3, 3 },
                                    .dilation = { 1, 1 } },
                        .out_channels = 1,
                        .groups = 1 };
    mf_step step = { 0 };
    const mf_kernel k = { .step = &step };

    for (int set = 0; set < MF_ISA_COUNT; set++) {
        mf_tensor x = { 0 }, w = { 0 }, y = { 0 };

        if (!run_sets[set] || !mf_isa_is_available((mf_isa)set) || !reads_sets[set](&c))
            continue;
        T_OK(mf_tensor_alloc(&x, MF_DTYPE_BF16, &MF_SHAPE(4)));
        T_OK(mf_tensor_alloc(&w, MF_DTYPE_F32, &MF_SHAPE(2)));
        T_OK(mf_tensor_alloc(&y, MF_DTYPE_BF16, &MF_SHAPE(1)));
        for (int i = 0; i < 4; i++)
            ((mf_bf16 *)x.data)[i] = mf_bf16_from_f32(i < 3 ? 1.0f : INFINITY);
        ((mf_bf16 *)y.data)[0] = mf_bf16_from_f32(1.0f);
        T_OK(run_sets[set](&k, &c, 1, &x, &w, &y));
        T_EQ_F(((float *)w.data)[0], 1.0f);
        T_EQ_F(((float *)w.data)[1], 1.0f);
        mf_tensor_clear(&x);
        mf_tensor_clear(&w);
        mf_tensor_clear(&y);
    }
}
