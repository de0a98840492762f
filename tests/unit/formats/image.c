/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - PNG and JPEG: round trips and damaged files. tests/tf compares with TensorFlow. */
#include "formats/image.h"

#include "mf_test.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* jpeglib.h needs FILE declared before it. */
/* clang-format off */
#include <stdio.h>
#include <jpeglib.h>
/* clang-format on */

enum { H = 11, W = 7 };

static void paint(unsigned char *p, int channels)
{
    for (int i = 0; i < H * W * channels; i++)
        p[i] = (unsigned char)(i * 37 + i / 5);
}

static size_t write_png(const unsigned char *pixels, uint32_t format, unsigned char *to, size_t cap)
{
    png_image i = { .version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = format };
    png_alloc_size_t n = cap;

    T_TRUE(png_image_write_to_memory(&i, to, &n, 0, pixels, 0, NULL) != 0);
    return n;
}

static unsigned char *write_jpeg(const unsigned char *pixels, int channels, bool progressive,
                                 unsigned long *len)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *to = NULL;

    *len = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &to, len);
    c.image_width = W;
    c.image_height = H;
    c.input_components = channels;
    c.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < H) {
        unsigned char row[W * 3];
        JSAMPROW at = row;

        memcpy(row, pixels + (size_t)c.next_scanline * W * (size_t)channels, W * (size_t)channels);
        (void)jpeg_write_scanlines(&c, &at, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return to;
}

MF_TEST(formats_png_round_trip_is_exact)
{
    static const uint32_t formats[] = { 0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                        PNG_FORMAT_RGBA };
    unsigned char pixels[H * W * 4], file[4096];

    for (int channels = 1; channels <= 4; channels++) {
        mf_buf got = { 0 };
        mf_image i;
        size_t n;

        paint(pixels, channels);
        n = write_png(pixels, formats[channels], file, sizeof file);
        T_OK(mf_image_info(file, n, &i));
        T_TRUE(i.height == H && i.width == W && i.channels == channels);
        T_OK(mf_image_decode(file, n, 0, &got, &i));
        T_EQ(got.len, H * W * channels);
        T_TRUE(memcmp(got.data, pixels, got.len) == 0);
        T_OK(mf_image_decode(file, n, channels > 2 ? 1 : 3, &got, &i));
        T_EQ(i.channels, channels > 2 ? 1 : 3);
        T_EQ(got.len, H * W * i.channels);
        if (channels == 1)
            T_EQ((unsigned char)got.data[3 * 5 + 2], pixels[5]);
        mf_buf_deinit(&got);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "neither PNG nor JPEG",
            mf_image_info("GIF89a..", 8, &(mf_image){ 0 }));
}

/* One colour everywhere, as a PNG and as a JPEG file, read as grey. */
static void expect_grey(const int *rgb)
{
    const int want = (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000;
    unsigned char pixels[H * W * 3], png[4096], *jpeg;
    unsigned long len;
    mf_buf got = { 0 };
    mf_image i;
    size_t n;

    for (int k = 0; k < H * W * 3; k++)
        pixels[k] = (unsigned char)rgb[k % 3];
    n = write_png(pixels, PNG_FORMAT_RGB, png, sizeof png);
    T_OK(mf_image_decode(png, n, 1, &got, &i));
    T_TRUE(abs((unsigned char)got.data[0] - want) <= 1);
    jpeg = write_jpeg(pixels, 3, false, &len);
    T_OK(mf_image_decode(jpeg, len, 1, &got, &i));
    T_TRUE(abs((unsigned char)got.data[0] - want) <= 2);
    free(jpeg);
    mf_buf_deinit(&got);
}

MF_TEST(formats_png_and_jpeg_convert_colours_to_the_same_grey)
{
    static const int colours[][3] = {
        { 255, 0, 0 }, { 0, 255, 0 }, { 0, 0, 255 }, { 200, 100, 50 }
    };

    for (int i = 0; i < MF_COUNT(colours); i++)
        expect_grey(colours[i]);
}

MF_TEST(formats_jpeg_round_trip_is_close)
{
    unsigned char pixels[H * W * 3];

    for (int kind = 0; kind < 3; kind++) { /* grey, colours, colours in passes */
        const int channels = kind == 0 ? 1 : 3;
        mf_buf got = { 0 };
        unsigned char *file;
        unsigned long n;
        mf_image i;

        for (int p = 0; p < H * W * channels; p++)
            pixels[p] = (unsigned char)(40 + p / channels * 2);
        file = write_jpeg(pixels, channels, kind == 2, &n);
        T_OK(mf_image_decode(file, n, 0, &got, &i));
        T_TRUE(i.height == H && i.width == W && i.channels == channels);
        for (size_t p = 0; p < got.len; p++)
            T_TRUE(abs((unsigned char)got.data[p] - pixels[p]) <= 6);
        T_OK(mf_image_decode(file, n, channels == 1 ? 3 : 1, &got, &i));
        T_EQ(got.len, H * W * (channels == 1 ? 3 : 1));
        T_FAILS(MF_DATA_LOSS, "damaged JPEG file", mf_image_decode(file, n - 20, 0, &got, &i));
        mf_buf_deinit(&got);
        free(file);
    }
}

/* Every byte changed, every truncation: an image or an error. */
static void damage(unsigned char *file, size_t n)
{
    mf_buf got = { 0 };
    mf_image i;

    for (size_t at = 0; at < n; at++) {
        mf_status st;

        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1 << bit);
            st = mf_image_decode(file, n, 3, &got, &i);
            T_TRUE(st != MF_OK || got.len == (size_t)(i.height * i.width * 3));
            file[at] ^= (unsigned char)(1 << bit);
        }
        st = mf_image_decode(file, at, 3, &got, &i);
        T_TRUE(st == MF_DATA_LOSS || st == MF_INVALID_ARGUMENT || at >= n - 12);
    }
    mf_buf_deinit(&got);
}

MF_TEST(formats_damaged_images_are_reported)
{
    unsigned char pixels[H * W * 3], file[4096], *jpeg;
    unsigned long n;

    paint(pixels, 3);
    damage(file, write_png(pixels, PNG_FORMAT_RGB, file, sizeof file));
    jpeg = write_jpeg(pixels, 3, true, &n);
    damage(jpeg, n);
    free(jpeg);
}

MF_TEST(formats_images_with_impossible_sizes_are_refused)
{
    unsigned char pixels[H * W * 3], file[4096];
    mf_buf got = { 0 };
    mf_image i;
    size_t n;

    paint(pixels, 3);
    n = write_png(pixels, PNG_FORMAT_RGB, file, sizeof file);
    memcpy(file + 16, "\x00\x00\x10\x00\x00\x00\x10\x00", 8); /* 4096 x 4096 in few bytes */
    png_save_uint_32(file + 29, (uint32_t)crc32(0, file + 12, 17));
    T_FAILS(MF_DATA_LOSS, "cannot hold 4096 x 4096", mf_image_decode(file, n, 0, &got, &i));
    file[16] = 0x7f;
    png_save_uint_32(file + 29, (uint32_t)crc32(0, file + 12, 17));
    T_TRUE(mf_image_decode(file, n, 0, &got, &i) != MF_OK);
    mf_buf_deinit(&got);
}

MF_TEST(formats_resize_keeps_corners_and_means)
{
    static const unsigned char two[] = { 0, 200, 100, 40 };
    static const unsigned char flat[] = { 9, 9, 9, 9, 9, 9 };
    unsigned char big[36], same[4];

    mf_image_resize(two, &(mf_image){ 2, 2, 1 }, same, &(mf_image){ 2, 2, 1 });
    T_TRUE(memcmp(same, two, 4) == 0);
    mf_image_resize(two, &(mf_image){ 2, 2, 1 }, big, &(mf_image){ 6, 6, 1 });
    T_TRUE(big[0] == 0 && big[5] == 200 && big[30] == 100 && big[35] == 40);
    mf_image_resize(two, &(mf_image){ 2, 2, 1 }, same, &(mf_image){ 1, 1, 1 });
    T_EQ(same[0], 85);
    mf_image_resize(flat, &(mf_image){ 1, 2, 3 }, big, &(mf_image){ 3, 4, 3 });
    for (int k = 0; k < 36; k++)
        T_EQ(big[k], 9);
}
