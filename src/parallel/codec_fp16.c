/* SPDX-License-Identifier: Apache-2.0 */
/* codec_fp16.c - every number rounded to fp16, to the nearest, half to even. */
#include "parallel/codec.h"

static int64_t bytes(const mf_codec *c, const mf_codec_item *item)
{
    (void)c;
    return 2 * item->count;
}

static void encode(const mf_codec *c, const mf_codec_item *item, float *values, float *memory,
                   uint8_t *out)
{
    (void)c;
    (void)memory;
    for (int64_t i = 0; i < item->count; i++) {
        const mf_f16 x = mf_f16_from_f32(values[i]);

        memcpy(out + 2 * i, &x, 2);
    }
}

static mf_status decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                        float *values)
{
    (void)c;
    for (int64_t i = 0; i < item->count; i++) {
        mf_f16 x;

        memcpy(&x, in + 2 * i, 2);
        values[i] = mf_f16_to_f32(x);
    }
    return MF_OK; /* any bits are a number */
}

const mf_codec_kind mf_codec_fp16 = {
    .name = "fp16",
    .settings = "{}",
    .about =
        "16 bits of IEEE 754: 11 of precision, from 6e-8 to 65504; what is larger becomes infinite",
    .bytes = bytes,
    .encode = encode,
    .decode = decode,
};
