/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - PNG, JPEG and BMP files become bytes, row by row, channels last, and the other way. */
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
/* The same for those who want more of it. */
typedef struct mf_image_how {
    int channels; /* 0: the file's; PNG also 4 */
    bool wide; /* PNG: numbers of 16 bits in the machine's order; 8 become 16 */
    int ratio; /* JPEG: smaller by 1 (or 0), 2, 4 or 8 */
    bool plain; /* JPEG: colours are not smoothed between their pixels */
    bool fast; /* JPEG: the less exact transform */
    bool cut; /* JPEG: of a damaged or cut file, what there is */
    bool tensorflow; /* PNG: grey and opacity as TensorFlow makes them */
} mf_image_how;

/* Append the pixels as a PNG file. Fails: INVALID_ARGUMENT (no pixels, too many, or not 1 to 4
 * channels), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_png_encode(const unsigned char *pixels, const mf_image *image, mf_buf *out);
/* bits: of a number, 8 or 16 (in the machine's order). level: of compression, 0 to 9; -1 the usual.
 */
MF_MUST mf_status mf_png_encode_as(const void *pixels, const mf_image *image, int bits, int level,
                                   mf_buf *out);

typedef struct mf_jpeg_how {
    int quality; /* 0 to 100 */
    bool progressive, optimize, full_chroma;
    int density_unit, x_density, y_density; /* unit 1: per inch, 2: per centimetre */
    const void *xmp; /* NULL, or metadata to be kept with the file */
    size_t xmp_len;
} mf_jpeg_how;
/* Append the pixels, of 1 or 3 channels, as a JPEG file. Fails as mf_png_encode(). */
MF_MUST mf_status mf_jpeg_encode(const unsigned char *pixels, const mf_image *image,
                                 const mf_jpeg_how *how, mf_buf *out);
/* Bilinear, pixel centres aligned, as the usual image tools do; without smoothing beforehand.
 * Both have `channels`; sizes are at least 1. */
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
/* As many channels as the file has: 1, 3 or 4. */
MF_MUST mf_status mf_bmp_decode(const void *data, size_t len, mf_buf *pixels, mf_image *out);
/* INVALID_ARGUMENT naming the size when it is too large or nothing. */
MF_MUST mf_status mf_image_check(const mf_image *image);

#endif
