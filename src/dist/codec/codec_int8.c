/* SPDX-License-Identifier: Apache-2.0 */
/* codec_int8.c - blocks of numbers as multiples, -127 to 127, of the block's step.
 *
 *     for each block: the step (float, 4 bytes), then a byte for each number
 *
 * The step is the largest magnitude of the block divided by 127. A block with NaN/Inf has NaN as
 * its step, and all of it decodes to NaN. */
#include "base/rng.h"
#include "dist/codec/codec.h"

#include <math.h>
#include <string.h>

enum { LEVELS = 127 };

static int64_t codec_int8_block_of(const mf_codec *c)
{
    return mf_options_int(&c->settings, "block");
}

static int64_t codec_int8_bytes(const mf_codec *c, const mf_codec_item *item)
{
    const int64_t block = codec_int8_block_of(c);

    return item->count + (item->count + block - 1) / block * 4;
}

/* NaN: the block has NaN/Inf. */
static float find_step(const float *x, int64_t n)
{
    float most = 0.0f;

    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);

        if (!(size <= 3.40282347e+38f))
            return NAN;
        most = size > most ? size : most;
    }
    return most / (float)LEVELS;
}

static int8_t codec_int8_clamp(float x)
{
    return (int8_t)(x > (float)LEVELS ? LEVELS : x < -(float)LEVELS ? -LEVELS : (int)x);
}

/* To the nearest, half away from zero. */
static void round_nearest(const float *x, int64_t n, float step, int8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        const float q = x[i] / step;

        out[i] = codec_int8_clamp(q + (q < 0.0f ? -0.5f : 0.5f));
    }
}

/* Up or down, so that the mean is exact: a function of seed, step, grain and element. */
static void round_by_chance(const mf_codec_item *item, int64_t at, const float *x, int64_t n,
                            float step, int8_t *out)
{
    uint32_t drawn[4];

    for (int64_t i = 0; i < n; i++) {
        const uint64_t e = (uint64_t)(at + i);

        if (i == 0 || e % 4 == 0) {
            mf_philox gen = { .counter = { (uint32_t)(e / 4), (uint32_t)(e / 4 >> 32),
                                           (uint32_t)item->grain, (uint32_t)item->step },
                              .key = { (uint32_t)item->seed,
                                       (uint32_t)(item->seed >> 32) ^
                                           (uint32_t)((uint64_t)item->step >> 32) } };

            mf_philox_next(&gen, drawn);
        }
        out[i] = codec_int8_clamp(floorf(x[i] / step + (float)(drawn[e % 4] >> 8) * 0x1p-24f));
    }
}

static void codec_int8_encode(const mf_codec *c, const mf_codec_item *item, float *values,
                              float *memory, uint8_t *out)
{
    const int64_t block = codec_int8_block_of(c);
    const bool by_chance = strcmp(mf_options_string(&c->settings, "rounding"), "stochastic") == 0;

    (void)memory;
    for (int64_t at = 0; at < item->count; at += block) {
        const int64_t n = item->count - at < block ? item->count - at : block;
        const float step = find_step(values + at, n);

        memcpy(out, &step, 4);
        if (!(step > 0.0f)) /* all zero, or NaN/Inf */
            memset(out + 4, 0, (size_t)n);
        else if (by_chance)
            round_by_chance(item, at, values + at, n, step, (int8_t *)out + 4);
        else
            round_nearest(values + at, n, step, (int8_t *)out + 4);
        out += 4 + n;
    }
}

static mf_status codec_int8_decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                                   float *values)
{
    const int64_t block = codec_int8_block_of(c);

    for (int64_t at = 0; at < item->count; at += block) {
        const int64_t n = item->count - at < block ? item->count - at : block;
        float step;

        memcpy(&step, in, 4);
        if (step < 0.0f || step > 3.40282347e+38f)
            return MF_FAIL(MF_DATA_LOSS, "a gradient by int8 has a step of %g", (double)step);
        for (int64_t i = 0; i < n; i++) {
            const int8_t q = (int8_t)in[4 + i];

            if (q < -LEVELS)
                return MF_FAIL(MF_DATA_LOSS, "a gradient by int8 has a multiple of %d", q);
            values[at + i] = (float)q * step;
        }
        in += 4 + n;
    }
    return MF_OK;
}

const mf_codec_kind mf_codec_int8 = {
    .name = "int8",
    .settings = "{block:int>=8=256, rounding:string in ['nearest','stochastic']='nearest'}",
    .about = "8 bits; each block of numbers has its own scale",
    .bytes = codec_int8_bytes,
    .encode = codec_int8_encode,
    .decode = codec_int8_decode,
};
