/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - decodes and encodes PNG, JPEG and BMP images. Pixels are row by row, channels last. */
#ifndef MF_FORMATS_IMAGE_H
#define MF_FORMATS_IMAGE_H

#include "base/buf.h"

enum { MF_IMAGE_PIXELS = 1 << 26 }; /* pixels of the largest supported image */

typedef struct mf_image {
    int64_t height, width, channels; /* 1 grey, 3 red green blue; PNG also 2 and 4: with alpha */
} mf_image;

/* Does it begin with the signature of PNG or JPEG? */
bool mf_image_is(const void *data, size_t len);
/* The size; reads only the beginning. Fails like decoding. */
MF_MUST mf_status mf_image_info(const void *data, size_t len, mf_image *out);
/* channels: 0 keeps those of the file; 1 or 3 convert and drop alpha. 16 bits are reduced to 8,
 * palettes expanded. `pixels` is emptied first.
 * Fails: INVALID_ARGUMENT (neither format, or too large), DATA_LOSS (truncated or damaged, with the
 * library's message), UNIMPLEMENTED (CMYK, conversion), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_image_decode(const void *data, size_t len, int channels, mf_buf *pixels,
                                  mf_image *out);
/* The same with more options. */
typedef struct mf_image_how {
    int channels; /* 0: those of the file; PNG also 4 */
    bool wide; /* PNG: 16-bit values in the machine's order; 8 bits are extended */
    int ratio; /* JPEG: scale down by 1 (or 0), 2, 4 or 8 */
    bool plain; /* JPEG: no smooth upsampling of chroma */
    bool fast; /* JPEG: the faster, less exact transform */
    bool cut; /* JPEG: accept a damaged or truncated file */
    bool tensorflow; /* PNG: convert grey and alpha as TensorFlow does */
} mf_image_how;

/* Append the pixels as a PNG file. Fails: INVALID_ARGUMENT (no pixels, too many, or not 1 to 4
 * channels), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_png_encode(const unsigned char *pixels, const mf_image *image, mf_buf *out);
/* bits: per channel, 8 or 16 (in the machine's order). level: of compression, 0 to 9; -1: default.
 */
MF_MUST mf_status mf_png_encode_as(const void *pixels, const mf_image *image, int bits, int level,
                                   mf_buf *out);

typedef struct mf_jpeg_how {
    int quality; /* 0 to 100 */
    bool progressive, optimize, full_chroma;
    int density_unit, x_density, y_density; /* unit 1: per inch, 2: per centimetre */
    const void *xmp; /* NULL, or metadata to be stored in the file */
    size_t xmp_len;
} mf_jpeg_how;
/* Append the pixels, of 1 or 3 channels, as a JPEG file. Fails as mf_png_encode(). */
MF_MUST mf_status mf_jpeg_encode(const unsigned char *pixels, const mf_image *image,
                                 const mf_jpeg_how *how, mf_buf *out);
/* Bilinear, pixel centres aligned, as usual image tools do; without antialiasing.
 * Both images have `channels`; sizes are at least 1. */
void mf_image_resize(const unsigned char *from, const mf_image *from_size, unsigned char *to,
                     const mf_image *to_size);

/* ---- by format (image_png.c, image_jpeg.c, image_bmp.c); *pixels NULL: the size only ---- */

typedef enum mf_image_format {
    MF_IMAGE_NONE,
    MF_IMAGE_PNG,
    MF_IMAGE_JPEG,
    MF_IMAGE_BMP
} mf_image_format;
mf_image_format mf_image_format_of(const void *data, size_t len);

MF_MUST mf_status mf_png_decode(const void *data, size_t len, const mf_image_how *how,
                                mf_buf *pixels, mf_image *out);
MF_MUST mf_status mf_jpeg_decode(const void *data, size_t len, const mf_image_how *how,
                                 mf_buf *pixels, mf_image *out);
/* Keeps the channels of the file: 1, 3 or 4. */
MF_MUST mf_status mf_bmp_decode(const void *data, size_t len, mf_buf *pixels, mf_image *out);
/* Fails: INVALID_ARGUMENT naming the size (too large or zero). */
MF_MUST mf_status mf_image_check(const mf_image *image);

#endif
