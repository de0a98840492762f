/* SPDX-License-Identifier: Apache-2.0 */
/* random_util.c - fills tensors from Philox streams. */
#include "ops/random/random_util.h"

#include "base/clock.h"
#include "ops/math/elementwise.h"

#include <math.h>
#include <sleef.h>

enum {
    LANES = 8, /* blocks computed in parallel */
    PIECE_BLOCKS = 2048, /* blocks in a piece of parallel work */
    REDRAW_SAMPLES = 256, /* 32-bit numbers reserved per truncated result */
};

/* LANES blocks of the stream, starting at `first`, `step` apart; four numbers each. */
static void draw_blocks(const mf_philox *base, uint64_t first, uint64_t step,
                        uint32_t out[4 * LANES])
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = base->key[0], k1 = base->key[1];

    for (int l = 0; l < LANES; l++) {
        mf_philox p = *base;

        mf_philox_skip(&p, first + (uint64_t)l * step);
        c0[l] = p.counter[0];
        c1[l] = p.counter[1];
        c2[l] = p.counter[2];
        c3[l] = p.counter[3];
    }
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < LANES; l++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0[l], b = (uint64_t)0xCD9E8D57u * c2[l];

            c0[l] = (uint32_t)(b >> 32) ^ c1[l] ^ k0;
            c1[l] = (uint32_t)b;
            c2[l] = (uint32_t)(a >> 32) ^ c3[l] ^ k1;
            c3[l] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int l = 0; l < LANES; l++) {
        out[4 * l] = c0[l];
        out[4 * l + 1] = c1[l];
        out[4 * l + 2] = c2[l];
        out[4 * l + 3] = c3[l];
    }
}

/* ---- from bits to numbers ---- */

/* 23 bits as [0, 1). */
static inline float to_float(uint32_t x)
{
    const uint32_t bits = 127u << 23 | (x & 0x7fffff);
    float f;

    memcpy(&f, &bits, sizeof f);
    return f - 1.0f;
}

/* Natural logarithm of a positive normal number, to about one ulp: the polynomial of Cephes' logf,
 * without branches so that it vectorises. */
static inline float log_of(float x)
{
    uint32_t bits;
    float m, e;

    memcpy(&bits, &x, sizeof bits);
    /* x = 2^e * m with m in [sqrt(1/2), sqrt(2)) */
    const uint32_t shifted = bits - 0x3f3504f3u;
    const int32_t exponent = (int32_t)shifted >> 23;
    const uint32_t mantissa = (shifted & 0x7fffff) + 0x3f3504f3u;

    memcpy(&m, &mantissa, sizeof m);
    m -= 1.0f;
    e = (float)exponent;
    const float z = m * m;
    float p = 7.0376836292e-2f;

    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z + e * -2.12194440e-4f - 0.5f * z;
    return m + p + e * 0.693359375f;
}

/* Sine and cosine of x in [0, 7]. */
static inline void sin_cos(float x, float *s, float *c)
{
    const float k = __builtin_rintf(x * 0.636619772f);
    const int32_t quarter = (int32_t)k;
    const float r = ((x - k * 1.5703125f) - k * 4.837512969970703e-4f) - k * 7.54978995489188e-8f;
    const float z = r * r;
    const float sine =
        r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
    const float cosine =
        1.0f - 0.5f * z + z * z * (4.166664568e-2f + z * (-1.388731625e-3f + z * 2.443315711e-5f));
    const float a = quarter & 1 ? cosine : sine, b = quarter & 1 ? sine : cosine;

    *s = quarter & 2 ? -a : a;
    *c = (quarter + 1) & 2 ? -b : b;
}

/* Box-Muller: two uniform numbers give two normal ones. */
static inline void normal_pair(uint32_t x0, uint32_t x1, float *n0, float *n1)
{
    const float u = to_float(x0);
    const float radius = __builtin_sqrtf(-2.0f * log_of(u < 1.0e-7f ? 1.0e-7f : u));
    float s, c;

    sin_cos((float)(6.283185307179586 * (double)to_float(x1)), &s, &c);
    *n0 = s * radius;
    *n1 = c * radius;
}

static void normal_pair_double(const uint32_t x[4], double *n0, double *n1)
{
    const double u = mf_random_to_double(x[0], x[1]);
    const double radius = __builtin_sqrt(-2.0 * Sleef_log_u10(u < 1.0e-7 ? 1.0e-7 : u));
    const Sleef_double2 turn =
        Sleef_sincos_u10(6.283185307179586 * mf_random_to_double(x[2], x[3]));

    *n0 = turn.x * radius;
    *n1 = turn.y * radius;
}

/* ---- groups ---- */

/* Results of LANES blocks in the output's type: 4 or 2 per block. */
static void uniform_floats(mf_dtype type, const uint32_t *x, void *out)
{
    for (int i = 0; type == MF_DTYPE_F32 && i < 4 * LANES; i++)
        ((float *)out)[i] = to_float(x[i]);
    for (int i = 0; type == MF_DTYPE_F64 && i < 2 * LANES; i++)
        ((double *)out)[i] = mf_random_to_double(x[2 * i], x[2 * i + 1]);
    for (int i = 0; type == MF_DTYPE_F16 && i < 4 * LANES; i++) /* 10 bits */
        ((mf_f16 *)out)[i] = mf_f16_from_f32((float)(x[i] & 0x3ff) * 0x1p-10f);
    for (int i = 0; type == MF_DTYPE_BF16 && i < 4 * LANES; i++) /* 7 bits */
        ((mf_bf16 *)out)[i] = mf_bf16_from_f32((float)(x[i] & 0x7f) * 0x1p-7f);
}

static void store_floats(mf_dtype type, const float *x, int n, void *out)
{
    if (type == MF_DTYPE_F32)
        memcpy(out, x, (size_t)n * sizeof *x);
    for (int i = 0; type == MF_DTYPE_F16 && i < n; i++)
        ((mf_f16 *)out)[i] = mf_f16_from_f32(x[i]);
    for (int i = 0; type == MF_DTYPE_BF16 && i < n; i++)
        ((mf_bf16 *)out)[i] = mf_bf16_from_f32(x[i]);
}

static void normals(mf_dtype type, const uint32_t *x, void *out)
{
    float pair[4 * LANES];

    if (type == MF_DTYPE_F64) {
        for (int l = 0; l < LANES; l++)
            normal_pair_double(x + 4 * l, (double *)out + 2 * l, (double *)out + 2 * l + 1);
        return;
    }
    for (int i = 0; i < 2 * LANES; i++)
        normal_pair(x[2 * i], x[2 * i + 1], &pair[2 * i], &pair[2 * i + 1]);
    store_floats(type, pair, 4 * LANES, out);
}

static void integers(mf_dtype type, mf_random_kind kind, const uint32_t *x, uint64_t low,
                     uint64_t range, void *out)
{
    const bool bits = kind == MF_RANDOM_BITS;

    if (mf_dtype_cell(type) == 4) {
        for (int i = 0; i < 4 * LANES; i++)
            ((uint32_t *)out)[i] = bits ? x[i] : (uint32_t)low + x[i] % (uint32_t)range;
    } else {
        for (int i = 0; i < 2 * LANES; i++) {
            const uint64_t wide = (uint64_t)x[2 * i + 1] << 32 | x[2 * i];

            ((uint64_t *)out)[i] = bits ? wide : low + wide % range;
        }
    }
}

/* One group of truncated normals. Each group has its own reserve of numbers, which practically
 * never overflows into the next group's. */
static void truncated_group(const mf_philox *base, uint64_t group, mf_dtype type, void *out)
{
    const int size = type == MF_DTYPE_F64 ? 2 : 4;
    mf_random_draw d = { .gen = *base, .used = 4 };
    double wide[4];
    float pair[4];
    int n = 0;

    mf_philox_skip(&d.gen, group * (uint64_t)(size * REDRAW_SAMPLES / 4));
    while (n < size) {
        double r[2];

        if (type == MF_DTYPE_F64) {
            uint32_t x[4];

            for (int i = 0; i < 4; i++)
                x[i] = mf_random_u32(&d);
            normal_pair_double(x, &r[0], &r[1]);
        } else {
            const uint32_t x0 = mf_random_u32(&d), x1 = mf_random_u32(&d);
            float n0, n1;

            normal_pair(x0, x1, &n0, &n1);
            r[0] = (double)n0;
            r[1] = (double)n1;
        }
        for (int i = 0; i < 2 && n < size; i++) {
            if (__builtin_fabs(r[i]) < 2.0)
                wide[n++] = r[i];
        }
    }
    if (type == MF_DTYPE_F64) {
        memcpy(out, wide, 2 * sizeof *wide);
        return;
    }
    for (int i = 0; i < 4; i++)
        pair[i] = (float)wide[i];
    store_floats(type, pair, 4, out);
}

static bool all_inside(const float pair[4])
{
    bool inside = true;

    for (int i = 0; i < 4; i++)
        inside &= __builtin_fabsf(pair[i]) < 2.0f;
    return inside;
}

/* LANES groups from `first` on. Most need no redraw: all are first computed in parallel without
 * redraws, then the others individually. */
static void truncated_groups(const mf_philox *base, uint64_t first, mf_dtype type, char *out)
{
    const size_t bytes = type == MF_DTYPE_F64 ? 16 : 4 * mf_dtype_cell(type);
    uint32_t x[4 * LANES];
    float pair[4 * LANES];

    if (type != MF_DTYPE_F64) {
        draw_blocks(base, first * REDRAW_SAMPLES, REDRAW_SAMPLES, x);
        for (int i = 0; i < 2 * LANES; i++)
            normal_pair(x[2 * i], x[2 * i + 1], &pair[2 * i], &pair[2 * i + 1]);
        store_floats(type, pair, 4 * LANES, out);
    }
    for (int l = 0; l < LANES; l++) {
        if (type == MF_DTYPE_F64 || !all_inside(pair + 4 * l))
            truncated_group(base, first + (uint64_t)l, type, out + (size_t)l * bytes);
    }
}

typedef struct fill {
    mf_philox gen;
    mf_random_kind kind;
    mf_tensor *out;
    uint64_t low, range;
    int64_t blocks;
    int64_t group; /* elements per block */
    size_t item;
} fill;

/* The results of LANES blocks from `first` on. */
static void fill_groups(const fill *f, int64_t first, void *out)
{
    uint32_t x[4 * LANES];

    if (f->kind == MF_RANDOM_TRUNCATED) {
        truncated_groups(&f->gen, (uint64_t)first, f->out->dtype, out);
        return;
    }
    draw_blocks(&f->gen, (uint64_t)first, 1, x);
    if (f->kind == MF_RANDOM_UNIFORM)
        uniform_floats(f->out->dtype, x, out);
    else if (f->kind == MF_RANDOM_NORMAL)
        normals(f->out->dtype, x, out);
    else
        integers(f->out->dtype, f->kind, x, f->low, f->range, out);
}

static void random_util_fill_piece(void *ctx, int64_t piece)
{
    const fill *f = ctx;
    const int64_t end = (piece + 1) * PIECE_BLOCKS;

    for (int64_t b = piece * PIECE_BLOCKS; b < end && b < f->blocks; b += LANES) {
        char *out = (char *)f->out->data + (size_t)(b * f->group) * f->item;
        const int64_t left = f->out->count - b * f->group;
        uint64_t last[4 * LANES];

        if (left >= f->group * LANES) {
            fill_groups(f, b, out);
        } else { /* the last groups may be incomplete */
            fill_groups(f, b, last);
            memcpy(out, last, (size_t)left * f->item);
        }
    }
}

mf_status mf_random_fill(const mf_kernel *k, mf_philox gen, mf_random_kind kind, uint64_t low,
                         uint64_t range, mf_tensor *out)
{
    const size_t item = mf_dtype_cell(out->dtype);
    fill f = { .gen = gen, .kind = kind, .out = out, .low = low, .range = range, .item = item };
    int64_t pieces;

    f.group = item == 8 ? 2 : 4;
    f.blocks = (out->count + f.group - 1) / f.group;
    pieces = (f.blocks + PIECE_BLOCKS - 1) / PIECE_BLOCKS;
    return mf_kernel_parallel(k, pieces, random_util_fill_piece, &f);
}

/* ---- arguments ---- */

mf_status mf_random_range(const mf_tensor *low, const mf_tensor *high, bool empty, uint64_t *first,
                          uint64_t *range)
{
    const bool is_unsigned = low->dtype == MF_DTYPE_U64 || low->dtype == MF_DTYPE_U32;
    char text[MF_SHAPE_TEXT];
    int64_t a, b;

    for (int i = 0; i < 2; i++) {
        const mf_tensor *t = i ? high : low;

        if (t->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be 0-D, got shape %s",
                           i ? "maxval" : "minval", mf_shape_text(&t->shape, text));
    }
    a = mf_tensor_int_at(low, 0);
    b = mf_tensor_int_at(high, 0);
    *first = (uint64_t)a;
    *range = (uint64_t)b - (uint64_t)a;
    if (empty) {
        *range = 1;
        return MF_OK;
    }
    if (is_unsigned ? (uint64_t)a >= (uint64_t)b : a >= b)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Need minval < maxval, got %lld >= %lld", (long long)a,
                       (long long)b);
    return MF_OK;
}

mf_status mf_random_shape(const mf_tensor *t, mf_shape *out)
{
    int64_t dims[MF_MAX_RANK];
    char text[MF_SHAPE_TEXT];

    if (t->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "shape must be a vector of {int32,int64}, got shape %s",
                       mf_shape_text(&t->shape, text));
    if (t->count > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "shape has %lld dimensions; at most %d are supported",
                       (long long)t->count, MF_MAX_RANK);
    for (int64_t i = 0; i < t->count; i++) {
        dims[i] = mf_tensor_int_at(t, i);
        if (dims[i] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Dimension %lld must be >= 0", (long long)dims[i]);
    }
    return mf_shape_from_dims(dims, t->count, out);
}

mf_status mf_random_infer(mf_infer *in)
{
    return mf_infer_shape_input(in, 0, &in->out[0]);
}

mf_status mf_random_from_seed(const mf_tensor *seed, mf_philox *out)
{
    mf_philox mix = { .key = { 0x3ec8f720, 0x02461e29 } };
    uint32_t block[4];
    char text[MF_SHAPE_TEXT];

    if (seed->shape.rank != 1 || seed->count != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "seed must have shape [2], not %s",
                       mf_shape_text(&seed->shape, text));
    if (seed->dtype != MF_DTYPE_I32 && seed->dtype != MF_DTYPE_I64) /* signatures may allow other
                                                                       types */
        return MF_FAIL(MF_INVALID_ARGUMENT, "Invalid seed type: %s", mf_dtype_name(seed->dtype));
    for (int i = 0; i < 2; i++) {
        const uint64_t s = (uint64_t)mf_tensor_int_at(seed, i);

        mix.counter[2 * i] = (uint32_t)s;
        mix.counter[2 * i + 1] = (uint32_t)(s >> 32);
    }
    mf_philox_next(&mix, block);
    *out = (mf_philox){ .counter = { 0, 0, block[2], block[3] }, .key = { block[0], block[1] } };
    return MF_OK;
}

/* ---- streams that last ---- */

typedef struct random_util_stream {
    mf_object object;
    pthread_mutex_t lock;
    mf_philox gen; /* guarded by lock */
} random_util_stream;

static void stream_destroy(mf_object *object)
{
    random_util_stream *s = (random_util_stream *)object;

    pthread_mutex_destroy(&s->lock);
    mf_free(s);
}

static const mf_object_type stream_type = { .name = "random stream", .destroy = stream_destroy };

static mf_status stream_make(void *ctx, mf_object **out)
{
    const mf_node *node = ctx;
    uint64_t seed = (uint64_t)mf_node_int(node, "seed"),
             seed2 = (uint64_t)mf_node_int(node, "seed2");
    random_util_stream *s = mf_calloc(1, sizeof *s);

    *out = (mf_object *)s;
    if (!s)
        return MF_NOMEM("a random stream");
    if (seed == 0 && seed2 == 0) { /* no seed: differs between processes */
        seed = mf_random_seed();
        seed2 = mf_random_seed();
    }
    s->object.type = &stream_type;
    atomic_init(&s->object.refs, 1);
    pthread_mutex_init(&s->lock, NULL);
    s->gen = mf_philox_init(seed, seed2);
    return MF_OK;
}

mf_status mf_random_prepare(mf_prepare *p)
{
    mf_object *object;

    MF_TRY(mf_resources_get(p->session, "_random", p->node->name, &stream_type, stream_make,
                            (void *)(uintptr_t)p->node, &object));
    p->state = object;
    return MF_OK;
}

void mf_random_release(void *state)
{
    mf_object_unref(state);
}

mf_philox mf_random_reserve(const mf_kernel *k, uint64_t blocks)
{
    random_util_stream *s = k->state;
    mf_philox at;

    pthread_mutex_lock(&s->lock);
    at = s->gen;
    mf_philox_skip(&s->gen, blocks);
    pthread_mutex_unlock(&s->lock);
    return at;
}
