/* SPDX-License-Identifier: Apache-2.0 */
/* image_jpeg_write.c - encodes JPEG. As in the decoder, errors exit by longjmp. */
#include "base/mem.h"
#include "formats/image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h needs FILE declared before it. */
/* clang-format off */
#include <stdio.h>
#include <jpeglib.h>
/* clang-format on */

typedef struct image_jpeg_write_jpeg_job {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jmp_buf leave;
    unsigned char *file; /* allocated by the library with malloc() */
    unsigned long len;
    bool failed;
} image_jpeg_write_jpeg_job;

static void image_jpeg_write_on_error(j_common_ptr c)
{
    image_jpeg_write_jpeg_job *j = c->client_data;

    longjmp(j->leave, 1);
}

static void image_jpeg_write_on_message(j_common_ptr c, int level)
{
    (void)c, (void)level;
}

static void image_jpeg_write_set_options(image_jpeg_write_jpeg_job *j, const mf_image *image,
                                         const mf_jpeg_how *how)
{
    j->c.image_width = (JDIMENSION)image->width;
    j->c.image_height = (JDIMENSION)image->height;
    j->c.input_components = (int)image->channels;
    j->c.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&j->c);
    jpeg_set_quality(&j->c, how->quality, TRUE);
    if (how->progressive)
        jpeg_simple_progression(&j->c);
    j->c.optimize_coding = how->optimize;
    if (how->full_chroma) {
        for (int i = 0; i < j->c.num_components; i++)
            j->c.comp_info[i].h_samp_factor = j->c.comp_info[i].v_samp_factor = 1;
    }
    j->c.density_unit = (UINT8)how->density_unit;
    j->c.X_density = (UINT16)how->x_density;
    j->c.Y_density = (UINT16)how->y_density;
}

/* Metadata goes into the marker that Adobe's specification defines. */
static void write_xmp(image_jpeg_write_jpeg_job *j, const mf_jpeg_how *how)
{
    static const char name[] = "http://ns.adobe.com/xap/1.0/";
    const size_t len = sizeof name + how->xmp_len;
    unsigned char *text;

    if (!how->xmp_len)
        return;
    text = j->c.mem->alloc_large((j_common_ptr)&j->c, JPOOL_IMAGE, len);
    memcpy(text, name, sizeof name);
    memcpy(text + sizeof name, how->xmp, how->xmp_len);
    jpeg_write_marker(&j->c, JPEG_APP0 + 1, text, (unsigned)len);
}

/* The code that may jump; no local is used after the jump. */
static void image_jpeg_write_run(image_jpeg_write_jpeg_job *j, const unsigned char *pixels,
                                 const mf_image *image, const mf_jpeg_how *how)
{
    if (setjmp(j->leave)) {
        j->failed = true;
        return;
    }
    jpeg_create_compress(&j->c);
    j->c.client_data = j;
    jpeg_mem_dest(&j->c, &j->file, &j->len);
    image_jpeg_write_set_options(j, image, how);
    jpeg_start_compress(&j->c, TRUE);
    write_xmp(j, how);
    while (j->c.next_scanline < j->c.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (int64_t)j->c.next_scanline * image->width *
                                                          image->channels);

        (void)jpeg_write_scanlines(&j->c, &row, 1);
    }
    jpeg_finish_compress(&j->c);
}

mf_status mf_jpeg_encode(const unsigned char *pixels, const mf_image *image, const mf_jpeg_how *how,
                         mf_buf *out)
{
    image_jpeg_write_jpeg_job j = { .failed = false };

    MF_TRY(mf_image_check(image));
    if ((image->channels != 1 && image->channels != 3) || image->width > JPEG_MAX_DIMENSION ||
        image->height > JPEG_MAX_DIMENSION)
        return MF_FAIL(
            MF_INVALID_ARGUMENT, "cannot write an image of %lld x %lld with %lld channels as JPEG",
            (long long)image->height, (long long)image->width, (long long)image->channels);
    j.c.err = jpeg_std_error(&j.errors);
    j.c.client_data = &j; /* creation can already fail */
    j.errors.error_exit = image_jpeg_write_on_error;
    j.errors.emit_message = image_jpeg_write_on_message;
    image_jpeg_write_run(&j, pixels, image, how);
    if (!j.failed)
        mf_buf_bytes(out, j.file, j.len);
    jpeg_destroy_compress(&j.c);
    free(j.file); /* not counted by mem.h */
    if (j.failed)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot write an image as JPEG");
    return mf_buf_finish(out);
}
