/* SPDX-License-Identifier: Apache-2.0 */
/* codec_half.c - every number rounded to 16 bits, to the nearest, half to even: fp16 and bf16. */
#include "dist/codec/codec.h"

static int64_t codec_half_bytes(const mf_codec *c, const mf_codec_item *item)
{
    (void)c;
    return 2 * item->count;
}

/* The codec `id` of the type mf_TYPE. Any bits are a number, so decoding cannot fail. */
#define HALF(id, type, text)                                                                       \
    static void id##_encode(const mf_codec *c, const mf_codec_item *item, float *values,           \
                            float *memory, uint8_t *out)                                           \
    {                                                                                              \
        (void)c;                                                                                   \
        (void)memory;                                                                              \
        for (int64_t i = 0; i < item->count; i++) {                                                \
            const mf_##type x = mf_##type##_from_f32(values[i]);                                   \
                                                                                                   \
            memcpy(out + 2 * i, &x, 2);                                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static mf_status id##_decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,  \
                                 float *values)                                                    \
    {                                                                                              \
        (void)c;                                                                                   \
        for (int64_t i = 0; i < item->count; i++) {                                                \
            mf_##type x;                                                                           \
                                                                                                   \
            memcpy(&x, in + 2 * i, 2);                                                             \
            values[i] = mf_##type##_to_f32(x);                                                     \
        }                                                                                          \
        return MF_OK;                                                                              \
    }                                                                                              \
                                                                                                   \
    const mf_codec_kind mf_codec_##id = {                                                          \
        .name = #id,                                                                               \
        .settings = "{}",                                                                          \
        .about = text,                                                                             \
        .bytes = codec_half_bytes,                                                                 \
        .encode = id##_encode,                                                                     \
        .decode = id##_decode,                                                                     \
    }

HALF(fp16, f16,
     "16-bit IEEE 754: 11 bits of precision, range 6e-8 to 65504; larger values become infinite");
HALF(bf16, bf16, "the upper 16 bits of a float: the range of a float, 8 bits of precision");
