/* SPDX-License-Identifier: Apache-2.0 */
/* image_write.c - encodes PNG. */
#include "formats/image.h"

#include <png.h>

static void image_write_on_error(png_structp png, png_const_charp text)
{
    (void)text;
    png_longjmp(png, 1);
}

static void image_write_on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_write(png_structp png, png_bytep data, size_t len)
{
    mf_buf_bytes(png_get_io_ptr(png), data, len);
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* libpng exits by longjmp: nothing here needs releasing, and no local is used after it. */
static bool image_write_all(png_structp png, png_infop info, const unsigned char *pixels,
                            const mf_image *image, int bits, int level, mf_buf *out)
{
    static const int types[] = { PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };

    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_write_fn(png, out, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, bits,
                 types[image->channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (level >= 0)
        png_set_compression_level(png, level);
    png_write_info(png, info);
    if (bits == 16)
        png_set_swap(png);
    for (int64_t y = 0; y < image->height; y++)
        png_write_row(png, pixels + y * image->width * image->channels * (bits / 8));
    png_write_end(png, NULL);
    return true;
}

mf_status mf_png_encode(const unsigned char *pixels, const mf_image *image, mf_buf *out)
{
    return mf_png_encode_as(pixels, image, 8, -1, out);
}

mf_status mf_png_encode_as(const void *pixels, const mf_image *image, int bits, int level,
                           mf_buf *out)
{
    png_structp png;
    png_infop info;
    bool written;

    MF_TRY(mf_image_check(image));
    if (image->channels < 1 || image->channels > 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "cannot write an image of %lld channels as PNG",
                       (long long)image->channels);
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, image_write_on_error,
                                  image_write_on_warning);
    info = png ? png_create_info_struct(png) : NULL;
    written = info && image_write_all(png, info, pixels, image, bits, level, out);
    if (png)
        png_destroy_write_struct(&png, &info);
    if (!written)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot write an image as PNG");
    return mf_buf_finish(out);
}
