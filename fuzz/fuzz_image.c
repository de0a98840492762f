/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_image.c - a PNG or JPEG file in every number of channels. Large pictures are left to the
 * limit of the library: they would only make this slow. */
#include "formats/image.h"

#include <stdint.h>

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
    }
    mf_buf_deinit(&pixels);
    return 0;
}
