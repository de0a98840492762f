/* SPDX-License-Identifier: Apache-2.0 */
/* image_jpeg.c - decodes JPEG with libjpeg-turbo and its exact integer transform. As with PNG,
 * errors exit by longjmp. */
#include "base/mem.h"
#include "base/quota.h"
#include "base/stop.h"
#include "formats/image.h"

#include <setjmp.h>

/* jpeglib.h needs FILE declared before it. */
/* clang-format off */
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>
/* clang-format on */

/* A progressive file of a few bytes can request thousands of passes over the image. */
enum { MAX_SCANS = 100 };

typedef struct image_jpeg_jpeg_job {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    mf_status st; /* our own failure */
    bool cut; /* accept a damaged file */
    int64_t charged; /* quota charged for the memory of libjpeg */
    char why[JMSG_LENGTH_MAX];
} image_jpeg_jpeg_job;

static void image_jpeg_on_error(j_common_ptr c)
{
    image_jpeg_jpeg_job *j = c->client_data;

    c->err->format_message(c, j->why);
    longjmp(j->leave, 1);
}

/* Warnings report damage that the library would hide: a truncated file, invalid codes. */
static void image_jpeg_on_message(j_common_ptr c, int level)
{
    const image_jpeg_jpeg_job *j = c->client_data;

    if (level < 0 && !j->cut && c->err->msg_code != JWRN_EXTRANEOUS_DATA)
        image_jpeg_on_error(c);
}

static void on_progress(j_common_ptr c)
{
    const image_jpeg_jpeg_job *j = c->client_data;

    if (c->is_decompressor && j->d.input_scan_number > MAX_SCANS)
        ERREXIT(c, JERR_BAD_PROGRESSION);
}

static mf_status image_jpeg_set_options(image_jpeg_jpeg_job *j, const mf_image_how *how)
{
    const J_COLOR_SPACE s = j->d.jpeg_color_space;
    const int channels = how->channels;

    if (s == JCS_CMYK || s == JCS_YCCK)
        return MF_FAIL(MF_UNIMPLEMENTED, "JPEG files in CMYK are not supported");
    j->d.out_color_space = (channels             ? channels
                            : s == JCS_GRAYSCALE ? 1
                                                 : 3) == 1
                               ? JCS_GRAYSCALE
                               : JCS_RGB;
    j->d.dct_method = how->fast ? JDCT_IFAST : JDCT_ISLOW;
    j->d.do_fancy_upsampling = !how->plain;
    j->d.scale_num = 1;
    j->d.scale_denom = how->ratio > 1 ? (unsigned)how->ratio : 1;
    jpeg_calc_output_dimensions(&j->d);
    return MF_OK;
}

static mf_status image_jpeg_read_pixels(image_jpeg_jpeg_job *j, mf_buf *pixels,
                                        const mf_image *size)
{
    const size_t row = (size_t)(size->width * size->channels);
    unsigned char *to = mf_buf_room(pixels, row * (size_t)size->height);

    if (!to)
        return MF_NOMEM("a picture");
    if (jpeg_has_multiple_scans(&j->d)) { /* libjpeg then keeps all coefficients */
        const int64_t bytes = (int64_t)j->d.image_width * j->d.image_height * j->d.num_components *
                              (int64_t)sizeof(JCOEF);

        MF_TRY(mf_quota_take(bytes));
        j->charged = bytes;
    }
    (void)jpeg_start_decompress(&j->d);
    while (j->d.output_scanline < j->d.output_height) {
        JSAMPROW at = to + j->d.output_scanline * row;

        (void)jpeg_read_scanlines(&j->d, &at, 1);
    }
    (void)jpeg_finish_decompress(&j->d);
    return MF_OK;
}

/* The code that may jump; no local is used after the jump. */
static void image_jpeg_run(image_jpeg_jpeg_job *j, const void *data, size_t len,
                           const mf_image_how *how, mf_buf *pixels, mf_image *out)
{
    if (setjmp(j->leave)) {
        j->st = MF_FAIL(MF_DATA_LOSS, "damaged JPEG file: %s", j->why);
        return;
    }
    jpeg_create_decompress(&j->d);
    j->d.client_data = j;
    j->d.progress = &j->progress;
    jpeg_mem_src(&j->d, data, len);
    (void)jpeg_read_header(&j->d, TRUE);
    *out = (mf_image){ j->d.image_height, j->d.image_width, 0 };
    j->st = mf_image_check(out);
    if (j->st == MF_OK)
        j->st = image_jpeg_set_options(j, how);
    if (j->st == MF_OK)
        *out = (mf_image){ j->d.output_height, j->d.output_width, 0 };
    out->channels = j->d.out_color_space == JCS_GRAYSCALE ? 1 : 3;
    if (j->st == MF_OK && pixels)
        j->st = image_jpeg_read_pixels(j, pixels, out);
}

mf_status mf_jpeg_decode(const void *data, size_t len, const mf_image_how *how, mf_buf *pixels,
                         mf_image *out)
{
    image_jpeg_jpeg_job j = { .st = MF_OK, .cut = how->cut };

    j.d.err = jpeg_std_error(&j.errors);
    j.d.client_data = &j; /* creation can already fail */
    j.errors.error_exit = image_jpeg_on_error;
    j.errors.emit_message = image_jpeg_on_message;
    j.progress.progress_monitor = on_progress;
    image_jpeg_run(&j, data, len, how, pixels, out);
    jpeg_destroy_decompress(&j.d);
    mf_quota_give_back(j.charged);
    return j.st;
}
