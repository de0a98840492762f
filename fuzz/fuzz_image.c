/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_image.c - a PNG, JPEG or BMP file with every number of channels, and as graphs decode it.
 * Large
 * images are limited by the library: they would only make this slow. */
#include "formats/image.h"

#include <stdint.h>

/* As TensorFlow's ops do: any file as any of the formats, with their options. */
static void decode_as_ops(const uint8_t *data, size_t size, mf_buf *pixels)
{
    const mf_image_how hows[] = { { .tensorflow = true, .wide = true, .cut = true, .fast = true },
                                  { .tensorflow = true, .channels = 4, .plain = true },
                                  { .tensorflow = true, .channels = 1, .ratio = 8 } };
    mf_image i;

    mf_buf_clear(pixels);
    if (mf_bmp_decode(data, size, pixels, &i) == MF_OK)
        MF_ASSERT(pixels->len == (size_t)(i.height * i.width * i.channels));
    for (int k = 0; k < 3; k++) {
        mf_buf_clear(pixels);
        if (mf_png_decode(data, size, &hows[k], pixels, &i) == MF_OK)
            MF_ASSERT(pixels->len == (size_t)(i.height * i.width * i.channels * (k ? 1 : 2)));
        mf_buf_clear(pixels);
        if (mf_jpeg_decode(data, size, &hows[k], pixels, &i) == MF_OK)
            MF_ASSERT(pixels->len == (size_t)(i.height * i.width * i.channels));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_buf pixels = { 0 };
    mf_image info, i;

    if (mf_image_info(data, size, &info) == MF_OK && info.height * info.width <= 1 << 16) {
        for (int channels = 0; channels <= 3; channels++) {
            unsigned char small[7 * 5 * 4];

            if (mf_image_decode(data, size, channels, &pixels, &i) != MF_OK)
                continue;
            MF_ASSERT(i.height == info.height && i.width == info.width);
            MF_ASSERT(channels == 0 || i.channels == channels);
            MF_ASSERT(pixels.len == (size_t)(i.height * i.width * i.channels));
            mf_image_resize((const unsigned char *)pixels.data, &i, small,
                            &(mf_image){ 7, 5, i.channels });
        }
        decode_as_ops(data, size, &pixels);
    } else if (mf_image_format_of(data, size) == MF_IMAGE_BMP) {
        decode_as_ops(data, size, &pixels);
    }
    mf_buf_deinit(&pixels);
    return 0;
}
