/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - decodes and resizes PNG, JPEG and BMP images. */
#include "formats/image.h"

#include <string.h>

static bool is_png(const void *data, size_t len)
{
    return len >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static bool is_jpeg(const void *data, size_t len)
{
    return len >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

bool mf_image_is(const void *data, size_t len)
{
    return is_png(data, len) || is_jpeg(data, len);
}

mf_image_format mf_image_format_of(const void *data, size_t len)
{
    return is_png(data, len)                        ? MF_IMAGE_PNG
           : is_jpeg(data, len)                     ? MF_IMAGE_JPEG
           : len >= 2 && memcmp(data, "BM", 2) == 0 ? MF_IMAGE_BMP
                                                    : MF_IMAGE_NONE;
}

mf_status mf_image_check(const mf_image *i)
{
    if (i->height < 1 || i->width < 1 || i->height > MF_IMAGE_PIXELS / i->width)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "invalid image size %lld x %lld: expected 1 to %d "
                       "pixels",
                       (long long)i->height, (long long)i->width, MF_IMAGE_PIXELS);
    return MF_OK;
}

static mf_status image_decode(const void *data, size_t len, int channels, mf_buf *pixels,
                              mf_image *out)
{
    const mf_image_how how = { .channels = channels };

    *out = (mf_image){ 0 };
    if (channels != 0 && channels != 1 && channels != 3)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "invalid number of channels %d: expected 1, 3, or 0 for the channels of "
                       "the file",
                       channels);
    if (is_png(data, len))
        return mf_png_decode(data, len, &how, pixels, out);
    if (is_jpeg(data, len))
        return mf_jpeg_decode(data, len, &how, pixels, out);
    return MF_FAIL(MF_INVALID_ARGUMENT, "the image is neither PNG nor JPEG");
}

mf_status mf_image_info(const void *data, size_t len, mf_image *out)
{
    return image_decode(data, len, 0, NULL, out);
}

mf_status mf_image_decode(const void *data, size_t len, int channels, mf_buf *pixels, mf_image *out)
{
    mf_buf_clear(pixels);
    return image_decode(data, len, channels, pixels, out);
}

/* The position of output pixel i between input pixels *low and *low + 1 (at most last), in 1/256.
 */
static int64_t image_place(int64_t i, int64_t from, int64_t to, int64_t *low)
{
    int64_t at = ((2 * i + 1) * from * 128) / to - 128; /* (i + 0.5) * from / to - 0.5 */

    at = at < 0 ? 0 : at;
    *low = at >> 8;
    if (*low >= from - 1) {
        *low = from - 1;
        return 0;
    }
    return at & 255;
}

void mf_image_resize(const unsigned char *from, const mf_image *f, unsigned char *to,
                     const mf_image *t)
{
    const int64_t c = t->channels, row = f->width * c;

    for (int64_t y = 0; y < t->height; y++) {
        int64_t y0;
        const int64_t fy = image_place(y, f->height, t->height, &y0);
        const unsigned char *top = from + y0 * row, *below = fy > 0 ? top + row : top;

        for (int64_t x = 0; x < t->width; x++) {
            int64_t x0;
            const int64_t fx = image_place(x, f->width, t->width, &x0), right = fx > 0 ? c : 0;

            for (int64_t k = x0 * c; k < x0 * c + c; k++) {
                const int64_t a = top[k] * (256 - fx) + top[k + right] * fx;
                const int64_t b = below[k] * (256 - fx) + below[k + right] * fx;

                *to++ = (unsigned char)((a * (256 - fy) + b * fy + (1 << 15)) >> 16);
            }
        }
    }
}
