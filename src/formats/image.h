/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - PNG and JPEG files become bytes, row by row, channels last. */
#ifndef MF_FORMATS_IMAGE_H
#define MF_FORMATS_IMAGE_H

#include "base/buf.h"

enum { MF_IMAGE_PIXELS = 1 << 26 }; /* of the largest picture we read */

typedef struct mf_image {
    int64_t height, width, channels; /* 1 grey, 3 red green blue; PNG also 2 and 4: with opacity */
} mf_image;

/* Does it begin as one of the two does? */
bool mf_image_is(const void *data, size_t len);
/* The size, without reading more than the beginning. Fails as decoding. */
MF_MUST mf_status mf_image_info(const void *data, size_t len, mf_image *out);
/* channels: 0 as the file has them; 1 or 3 convert, and leave opacity out. 16 bits become 8,
 * palettes colours. `pixels` is emptied first.
 * Fails: INVALID_ARGUMENT (neither format, or too large), DATA_LOSS (cut or damaged, with the
 * library's words), UNIMPLEMENTED (CMYK, conversion), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_image_decode(const void *data, size_t len, int channels, mf_buf *pixels,
                                  mf_image *out);
/* Append the pixels as a PNG file. Fails: INVALID_ARGUMENT (no pixels, too many, or not 1 to 4
 * channels), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_png_encode(const unsigned char *pixels, const mf_image *image, mf_buf *out);
/* Bilinear, pixel centres aligned, as the usual image tools do; without smoothing beforehand.
 * Both have `channels`; sizes are at least 1. */
void mf_image_resize(const unsigned char *from, const mf_image *from_size, unsigned char *to,
                     const mf_image *to_size);

/* ---- the two libraries (image_png.c, image_jpeg.c); *pixels NULL: the size only ---- */

MF_MUST mf_status mf_png_decode(const void *data, size_t len, int channels, mf_buf *pixels,
                                mf_image *out);
MF_MUST mf_status mf_jpeg_decode(const void *data, size_t len, int channels, mf_buf *pixels,
                                 mf_image *out);
/* INVALID_ARGUMENT naming the size when it is too large or nothing. */
MF_MUST mf_status mf_image_check(const mf_image *image);

#endif
