/* SPDX-License-Identifier: Apache-2.0 */
/* image_png.c - decodes PNG with libpng. libpng reports errors by longjmp, so resources that must
 * be released are in a struct that outlives the jump. */
#include "base/mem.h"
#include "formats/image.h"

#include <png.h>
#include <string.h>

enum { CHUNK_BYTES = 8 << 20 }; /* limit for an uncompressed ancillary chunk */

typedef struct png_job {
    const unsigned char *at, *end;
    size_t len;
    png_structp png;
    png_infop info;
    png_bytep *rows;
    bool to_grey; /* three channels are read and converted to one */
    mf_status st; /* our own failure */
    char why[200]; /* the library's message */
} png_job;

static void image_png_on_error(png_structp png, png_const_charp text)
{
    png_job *j = png_get_error_ptr(png);
    const size_t n = strnlen(text, sizeof j->why - 1);

    memcpy(j->why, text, n);
    j->why[n] = 0;
    png_longjmp(png, 1);
}

static void image_png_on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void image_png_read_bytes(png_structp png, png_bytep to, size_t n)
{
    png_job *j = png_get_io_ptr(png);

    if ((size_t)(j->end - j->at) < n)
        png_error(png, "the file is truncated");
    memcpy(to, j->at, n);
    j->at += n;
}

/* An even number of channels includes alpha; images without alpha become opaque. */
static void set_as_tensorflow(png_job *j, const mf_image_how *how)
{
    const int type = png_get_color_type(j->png, j->info);
    const bool has_some = png_get_valid(j->png, j->info, PNG_INFO_tRNS) != 0;
    const bool palette = type == PNG_COLOR_TYPE_PALETTE, color = (type & PNG_COLOR_MASK_COLOR) != 0;
    const int channels = how->channels ? how->channels
                         : palette     ? (has_some ? 4 : 3)
                                       : png_get_channels(j->png, j->info);

    if (palette)
        png_set_palette_to_rgb(j->png);
    if (type == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(j->png);
    if (channels % 2 == 0 && has_some)
        png_set_tRNS_to_alpha(j->png);
    else if (channels % 2 == 0 && !(type & PNG_COLOR_MASK_ALPHA))
        png_set_add_alpha(j->png, png_get_bit_depth(j->png, j->info) == 16 ? 65535 : 255,
                          PNG_FILLER_AFTER);
    else if (channels % 2 == 1)
        png_set_strip_alpha(j->png);
    if (channels > 2 && !color)
        png_set_gray_to_rgb(j->png);
    if (channels < 3 && color)
        png_set_rgb_to_gray(j->png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
}

static void set_usual(png_job *j, int channels)
{
    const int type = png_get_color_type(j->png, j->info);

    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(j->png);
    if (type == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(j->png);
    if (channels == 0 && png_get_valid(j->png, j->info, PNG_INFO_tRNS))
        png_set_tRNS_to_alpha(j->png);
    if (channels != 0)
        png_set_strip_alpha(j->png);
    if (channels == 3 && !(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(j->png);
    j->to_grey = channels == 1 && (type & PNG_COLOR_MASK_COLOR);
}

/* The weights of JPEG, PIL and Keras. libpng uses other weights, which also depend on the gamma of
 * the file: an image would differ between PNG and JPEG. */
static void turn_grey(mf_buf *pixels, mf_image *size)
{
    unsigned char *to = (unsigned char *)pixels->data;
    const unsigned char *from = to;
    const size_t n = pixels->len / 3;

    for (size_t i = 0; i < n; i++, from += 3)
        to[i] = (unsigned char)((299 * from[0] + 587 * from[1] + 114 * from[2] + 500) / 1000);
    pixels->len = n;
    size->channels = 1;
}

/* Convert to 8 (or 16) bits and to the requested channels. */
static void set_transforms(png_job *j, const mf_image_how *how)
{
    if (!how->wide)
        png_set_strip_16(j->png);
    if (how->tensorflow)
        set_as_tensorflow(j, how);
    else
        set_usual(j, how->channels);
    if (how->wide) {
        png_set_expand_16(j->png);
        png_set_swap(j->png);
    }
    png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
}

static mf_status image_png_take_size(const png_job *j, mf_image *out)
{
    out->height = png_get_image_height(j->png, j->info);
    out->width = png_get_image_width(j->png, j->info);
    out->channels = png_get_channels(j->png, j->info);
    return mf_image_check(out);
}

/* The size is validated before memory is allocated: deflate compresses at most 1032 to one. */
static mf_status image_png_read_pixels(png_job *j, const mf_image_how *how, mf_buf *pixels,
                                       mf_image *out)
{
    const size_t row = png_get_rowbytes(j->png, j->info);
    const int channels = how->channels;
    unsigned char *to;

    if ((channels && out->channels != (j->to_grey ? 3 : channels)) ||
        row != (size_t)(out->width * out->channels * (how->wide ? 2 : 1)))
        return MF_FAIL(MF_UNIMPLEMENTED, "cannot convert a PNG file with %lld channels to %d",
                       (long long)out->channels, channels);
    if (row * (size_t)out->height / 1032 > j->len * (how->wide ? 2 : 1))
        return MF_FAIL(MF_DATA_LOSS, "a PNG file of %zu bytes cannot hold %lld x %lld pixels",
                       j->len, (long long)out->height, (long long)out->width);
    to = mf_buf_room(pixels, row * (size_t)out->height);
    j->rows = mf_calloc(out->height, sizeof *j->rows);
    if (!to || !j->rows)
        return MF_NOMEM("a picture");
    for (int64_t y = 0; y < out->height; y++)
        j->rows[y] = to + (size_t)y * row;
    png_read_image(j->png, j->rows);
    return MF_OK;
}

/* The code that may jump; no local is used after the jump. */
static void image_png_run(png_job *j, const mf_image_how *how, mf_buf *pixels, mf_image *out)
{
    if (setjmp(png_jmpbuf(j->png))) {
        j->st = MF_FAIL(MF_DATA_LOSS, "damaged PNG file: %s", j->why);
        return;
    }
    png_set_read_fn(j->png, j, image_png_read_bytes);
    png_set_user_limits(j->png, MF_IMAGE_PIXELS, MF_IMAGE_PIXELS);
    png_set_chunk_malloc_max(j->png, CHUNK_BYTES);
    png_set_crc_action(j->png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
    png_read_info(j->png, j->info);
    j->st = image_png_take_size(j, out);
    if (j->st != MF_OK)
        return;
    set_transforms(j, how);
    j->st = image_png_take_size(j, out);
    if (j->st == MF_OK && pixels)
        j->st = image_png_read_pixels(j, how, pixels, out);
}

mf_status mf_png_decode(const void *data, size_t len, const mf_image_how *how, mf_buf *pixels,
                        mf_image *out)
{
    png_job j = { .at = data, .end = (const unsigned char *)data + len, .len = len };

    j.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, image_png_on_error, image_png_on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (j.info)
        image_png_run(&j, how, pixels, out);
    else
        j.st = MF_NOMEM("a picture");
    png_destroy_read_struct(&j.png, &j.info, NULL);
    mf_free(j.rows);
    if (j.st == MF_OK && j.to_grey && pixels)
        turn_grey(pixels, out);
    return j.st;
}
