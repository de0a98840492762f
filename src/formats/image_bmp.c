/* SPDX-License-Identifier: Apache-2.0 */
/* image_bmp.c - BMP without compression and palettes: 8, 24 or 32 bits per pixel.
 *
 *   10  4  offset of the pixels          18  4  width        28  2  bits per pixel
 *                                        22  4  height, negative: top row first
 *
 * Rows are padded to multiples of 4 bytes; colours are blue, green, red. */
#include "formats/image.h"

#include <string.h>

static int32_t image_bmp_number(const unsigned char *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

mf_status mf_bmp_decode(const void *data, size_t len, mf_buf *pixels, mf_image *out)
{
    const unsigned char *in = data;
    const int64_t begin = len >= 32 ? image_bmp_number(in + 10) : 0,
                  high = len >= 32 ? image_bmp_number(in + 22) : 0;
    const int64_t bits = len >= 32 ? in[28] | in[29] << 8 : 0, channels = bits / 8;
    int64_t row;
    unsigned char *to;

    if (len < 32 || memcmp(in, "BM", 2) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the image is not a BMP file, or truncated");
    if (bits != 8 && bits != 24 && bits != 32)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "BMP files of %lld bits per pixel are not supported: expected 8, 24 or 32",
                       (long long)bits);
    *out = (mf_image){ high < 0 ? -high : high, image_bmp_number(in + 18), channels };
    MF_TRY(mf_image_check(out));
    row = (channels * out->width + 3) / 4 * 4;
    if (begin < 0 || (uint64_t)begin + (uint64_t)(row * out->height) > len)
        return MF_FAIL(MF_DATA_LOSS, "a BMP file of %zu bytes cannot hold %lld x %lld pixels", len,
                       (long long)out->height, (long long)out->width);
    if (!pixels)
        return MF_OK;
    to = mf_buf_room(pixels, (size_t)(out->width * out->height * channels));
    if (!to)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "out of memory for an image");
    for (int64_t y = 0; y < out->height; y++) {
        const unsigned char *from = in + begin + (high < 0 ? y : out->height - 1 - y) * row;

        for (int64_t x = 0; x < out->width * channels; x++) {
            const int64_t c = x % channels; /* swap blue and red */

            *to++ = from[channels >= 3 && c < 3 ? x - c + 2 - c : x];
        }
    }
    return MF_OK;
}
