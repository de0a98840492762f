/* SPDX-License-Identifier: Apache-2.0 */
/* codec_top_k.c - only the largest numbers travel; the rest is stored and added to the next step's
 * (error feedback). With momentum the stored sums are of velocities, not of gradients, as in "Deep
 * Gradient Compression" (Lin et al., ICLR 2018): the optimizer is then plain sgd, and numbers that
 * were sent start again at zero.
 *
 *     velocity = momentum * velocity + gradient;  error += velocity
 *     send the k largest of error;                error -= sent, velocity = 0 there
 *
 * A message: the positions (elias_fano.h), then the values, bf16 or float. Rounding a value loses
 * nothing, as the remainder is stored. */
#include "dist/codec/codec.h"
#include "dist/codec/elias_fano.h"

#include <math.h>
#include <string.h>

/* In the first steps more is sent: a quarter, a 16th, a 64th, a 256th, each a quarter of the time.
 */
static double ratio_at(const mf_codec *c, int64_t step)
{
    const double ratio = mf_options_float(&c->settings, "ratio");
    const int64_t warmup = mf_options_int(&c->settings, "warmup");
    double early = 1.0;

    if (step >= warmup)
        return ratio;
    for (int64_t stage = step * 4 / warmup; stage >= 0; stage--)
        early /= 4.0;
    return early > ratio ? early : ratio;
}

static int64_t sent(const mf_codec *c, const mf_codec_item *item)
{
    const int64_t k = (int64_t)ceil(ratio_at(c, item->step) * (double)item->count);

    return k < 1 ? 1 : k > item->count ? item->count : k;
}

static int64_t cell(const mf_codec *c)
{
    return strcmp(mf_options_string(&c->settings, "values"), "bf16") == 0 ? 2 : 4;
}

static bool has_velocity(const mf_codec *c)
{
    return mf_options_float(&c->settings, "momentum") > 0.0;
}

static mf_status codec_top_k_check(const mf_options *o)
{
    const double ratio = mf_options_float(o, "ratio"), momentum = mf_options_float(o, "momentum");

    if (!(ratio > 0.0 && ratio <= 1.0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "top_k: ratio is %g; it is above 0 and at most 1",
                       ratio);
    if (!(momentum >= 0.0 && momentum < 1.0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "top_k: momentum is %g; it is from 0 to below 1",
                       momentum);
    return MF_OK;
}

static int64_t codec_top_k_memory_size(const mf_codec *c, const mf_codec_item *item)
{
    return has_velocity(c) ? 2 * item->count : item->count;
}

static int64_t codec_top_k_bytes(const mf_codec *c, const mf_codec_item *item)
{
    const int64_t k = sent(c, item);

    return mf_elias_fano_layout(item->count, k).bytes + k * cell(c);
}

/* ---- which ones ---- */

static uint32_t size_bits(float x) /* ordered as magnitudes are */
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    return bits & 0x7fffffffu;
}

/* Of the numbers whose upper bits (above `shift` and `width`) are `prefix`: the digit of the k-th
 * largest. *k: how many numbers with that digit are selected. */
static uint32_t find_digit(const float *x, int64_t n, uint32_t prefix, int shift, int width,
                           int64_t *k)
{
    int64_t seen[1 << 11] = { 0 };
    uint32_t digit = (1u << width) - 1;

    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = size_bits(x[i]) >> shift;

        if (bits >> width == prefix)
            seen[bits & ((1u << width) - 1)]++;
    }
    while (seen[digit] < *k)
        *k -= seen[digit--];
    return prefix << width | digit;
}

/* The k-th largest magnitude. *equal: how many of exactly this magnitude are selected. */
static uint32_t find_threshold(const float *x, int64_t n, int64_t k, int64_t *equal)
{
    uint32_t bits = find_digit(x, n, 0, 20, 11, &k);

    bits = find_digit(x, n, bits, 10, 10, &k);
    bits = find_digit(x, n, bits, 0, 10, &k);
    *equal = k;
    return bits;
}

/* ---- encoding ---- */

static bool codec_top_k_all_finite(const float *x, int64_t n)
{
    bool finite = true;

    for (int64_t i = 0; i < n; i++)
        finite &= size_bits(x[i]) < 0x7f800000u;
    return finite;
}

/* As it is after decoding. */
static float codec_top_k_put_value(uint8_t *out, int64_t i, int64_t size, float x)
{
    mf_bf16 low = mf_bf16_from_f32(x);

    if (size == 4) {
        memcpy(out + 4 * i, &x, 4);
        return x;
    }
    if ((low.bits & 0x7fffu) == 0x7f80u && size_bits(x) < 0x7f800000u)
        low.bits--; /* it is finite, and remains finite */
    memcpy(out + 2 * i, &low, 2);
    return mf_bf16_to_f32(low);
}

static void put_nothing(const mf_elias_fano *a, int64_t size, uint8_t *out)
{
    for (int64_t i = 0; i < a->count; i++) {
        mf_elias_fano_put(a, out, i, i);
        (void)codec_top_k_put_value(out + a->bytes, i, size, NAN);
    }
}

static void codec_top_k_add_gradient(const mf_codec *c, int64_t n, const float *gradient,
                                     float *kept)
{
    const float momentum = (float)mf_options_float(&c->settings, "momentum");
    float *velocity = kept + n;

    if (!has_velocity(c)) {
        for (int64_t i = 0; i < n; i++)
            kept[i] += gradient[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        kept[i] += velocity[i];
    }
}

static void codec_top_k_encode(const mf_codec *c, const mf_codec_item *item, float *values,
                               float *kept, uint8_t *out)
{
    const int64_t n = item->count, size = cell(c);
    const mf_elias_fano a = mf_elias_fano_layout(n, sent(c, item));
    uint32_t threshold;
    int64_t equal, k = 0;

    memset(out, 0, (size_t)a.bytes);
    if (!codec_top_k_all_finite(values, n)) {
        put_nothing(&a, size, out);
        return;
    }
    codec_top_k_add_gradient(c, n, values, kept);
    threshold = find_threshold(kept, n, a.count, &equal);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = size_bits(kept[i]);

        if (bits < threshold || (bits == threshold && equal-- <= 0))
            continue;
        mf_elias_fano_put(&a, out, k, i);
        kept[i] -= codec_top_k_put_value(out + a.bytes, k++, size, kept[i]);
        if (has_velocity(c))
            kept[n + i] = 0.0f;
    }
}

static mf_status codec_top_k_decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                                    float *values)
{
    const int64_t size = cell(c);
    const mf_elias_fano a = mf_elias_fano_layout(item->count, sent(c, item));
    mf_elias_fano_reader r = { .in = in, .last = -1 };
    int64_t at;

    memset(values, 0, (size_t)item->count * sizeof *values);
    for (int64_t i = 0; i < a.count; i++) {
        mf_bf16 low;

        MF_TRY(mf_elias_fano_next(&a, &r, &at));
        if (size == 4) {
            memcpy(&values[at], in + a.bytes + 4 * i, 4);
        } else {
            memcpy(&low, in + a.bytes + 2 * i, 2);
            values[at] = mf_bf16_to_f32(low);
        }
    }
    return mf_elias_fano_end(&a, &r);
}

const mf_codec_kind mf_codec_top_k = {
    .name = "top_k",
    .settings = "{ratio:float=0.01, momentum:float=0.0, warmup:int>=0=0, "
                "values:string in ['bf16','fp32']='bf16'}",
    .about = "only the largest values; the others are added to later steps",
    .check = codec_top_k_check,
    .memory = codec_top_k_memory_size,
    .bytes = codec_top_k_bytes,
    .encode = codec_top_k_encode,
    .decode = codec_top_k_decode,
};
