/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - TFRecord and IDX files: plain, compressed, truncated, damaged; tf.train.Example. */
#include "formats/record.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/example.h"
#include "formats/idx.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 50, MAX = 1 << 20 };

static size_t fill(int i, char *data)
{
    const size_t n = (size_t)(i * i * 7 % 4001);

    for (size_t k = 0; k < n; k++)
        data[k] = (char)(k * 31 + (size_t)i);
    return n;
}

static void temp_path(char *path)
{
    int fd;

    (void)snprintf(path, 32, "/tmp/mf_record_XXXXXX");
    fd = mkstemp(path);
    T_TRUE(fd >= 0);
    close(fd);
}

static void write_records(const char *path, mf_compression c)
{
    mf_writer *w;
    char data[4096];

    T_OK(mf_writer_open(path, c, false, &w));
    for (int i = 0; i < RECORDS; i++)
        T_OK(mf_record_write(w, data, fill(i, data)));
    T_OK(mf_writer_close(w));
}

MF_TEST(formats_records_round_trip)
{
    char path[32], data[4096];

    temp_path(path);
    for (mf_compression c = MF_PLAIN; c <= MF_ZLIB; c++) {
        mf_reader *r;
        mf_buf got = { 0 };
        int64_t tenth = 0;

        write_records(path, c);
        T_OK(mf_reader_open(path, c, &r));
        for (int i = 0; i < RECORDS; i++) {
            const size_t n = fill(i, data);

            if (i == 10)
                tenth = mf_reader_offset(r);
            T_OK(mf_record_read(r, MAX, &got));
            T_EQ(got.len, n);
            T_TRUE(n == 0 || memcmp(got.data, data, n) == 0);
        }
        T_FAILS(MF_OUT_OF_RANGE, "no more records", mf_record_read(r, MAX, &got));
        T_OK(mf_reader_seek(r, tenth));
        T_OK(mf_record_read(r, MAX, &got));
        T_EQ(got.len, fill(10, data));
        T_FAILS(MF_OUT_OF_RANGE, "has no byte", mf_reader_seek(r, 1 << 30));
        mf_buf_deinit(&got);
        mf_reader_close(r);
    }
    unlink(path);
}

/* Every record before the damage is returned, then an error, and nothing else. */
static void expect_prefix(const char *path, mf_compression c)
{
    char data[4096];
    mf_buf got = { 0 };
    mf_status st = MF_OK;
    mf_reader *r;

    T_OK(mf_reader_open(path, c, &r));
    for (int i = 0; i < RECORDS && st == MF_OK; i++) {
        st = mf_record_read(r, MAX, &got);
        if (st == MF_OK)
            T_TRUE(got.len == fill(i, data) && (got.len == 0 || !memcmp(got.data, data, got.len)));
        else
            T_TRUE(st == MF_DATA_LOSS || st == MF_OUT_OF_RANGE);
    }
    mf_buf_deinit(&got);
    mf_reader_close(r);
}

MF_TEST(formats_truncated_or_damaged_records_are_reported)
{
    char path[32], *whole;
    size_t len;

    temp_path(path);
    for (mf_compression c = MF_PLAIN; c <= MF_ZLIB; c++) {
        write_records(path, c);
        T_OK(mf_file_read(path, 1 << 24, &whole, &len));
        for (size_t cut = 0; cut < len; cut += 1 + cut / 16) {
            T_OK(mf_file_write(path, whole, cut));
            expect_prefix(path, c);
        }
        for (size_t at = 0; at < len; at += 1 + at / 16) {
            whole[at] ^= 0x10;
            T_OK(mf_file_write(path, whole, len));
            whole[at] ^= 0x10;
            expect_prefix(path, c);
        }
        mf_free(whole);
    }
    unlink(path);
}

MF_TEST(formats_idx_files_are_read)
{
    static const unsigned char bytes[] = { 0, 0, 11, 2, 0, 0, 0,   2,   0,   0,
                                           0, 2, 0,  1, 1, 0, 255, 255, 128, 0 };
    static const int16_t expected[] = { 1, 256, -1, -32768 };
    char path[32];

    temp_path(path);
    for (mf_compression c = MF_PLAIN; c <= MF_GZIP; c++) {
        mf_writer *w;
        mf_tensor t = { 0 };

        T_OK(mf_writer_open(path, c, false, &w));
        T_OK(mf_writer_write(w, bytes, sizeof bytes));
        T_OK(mf_writer_close(w));
        T_OK(mf_idx_read(path, &t));
        T_EQ(t.dtype, MF_DTYPE_I16);
        T_TRUE(mf_shape_equal(&t.shape, &MF_SHAPE(2, 2)));
        T_TRUE(memcmp(t.data, expected, sizeof expected) == 0);
        mf_tensor_clear(&t);
    }
    T_OK(mf_file_write(path, bytes, sizeof bytes - 1));
    T_FAILS(MF_DATA_LOSS, "ends too soon", mf_idx_read(path, &(mf_tensor){ 0 }));
    T_OK(mf_file_write(path, "PNG?", 4));
    T_FAILS(MF_INVALID_ARGUMENT, "is not an IDX file", mf_idx_read(path, &(mf_tensor){ 0 }));
    unlink(path);
}

MF_TEST(formats_examples_round_trip)
{
    static const float floats[] = { 0.5f, -2 };
    static const int64_t ints[] = { 7, -1, 1LL << 40 };
    static const mf_string strings[] = { { (char *)"a\0b", 3 }, { (char *)"", 0 } };
    mf_feature features[] = {
        { .name = "pixels", .type = MF_DTYPE_F32, .n = 2, .floats = floats },
        { .name = "label", .type = MF_DTYPE_I64, .n = 3, .ints = ints },
        { .name = "text", .type = MF_DTYPE_STRING, .n = 2, .strings = strings },
        { .name = "nothing" },
        { .name = "label", .type = MF_DTYPE_I64, .n = 1, .ints = ints },
    };
    const mf_example e = { features, MF_COUNT(features) };
    mf_arena *arena = mf_arena_new();
    mf_buf bytes = { 0 };
    const mf_feature *f;
    mf_example back;

    T_OK(mf_example_encode(&e, &bytes));
    T_OK(mf_example_decode(bytes.data, bytes.len, arena, &back));
    T_EQ(back.n, 4);
    f = mf_example_find(&back, "pixels");
    T_TRUE(f && f->n == 2 && f->floats[0] == floats[0] && f->floats[1] == floats[1]);
    f = mf_example_find(&back, "label"); /* the last one */
    T_TRUE(f && f->n == 1 && f->ints[0] == 7);
    f = mf_example_find(&back, "text");
    T_TRUE(f && f->n == 2 && f->strings[0].len == 3 && memcmp(f->strings[0].data, "a\0b", 3) == 0);
    f = mf_example_find(&back, "nothing");
    T_TRUE(f && f->type == MF_DTYPE_INVALID && f->n == 0);
    T_TRUE(mf_example_find(&back, "colour") == NULL);
    T_FAILS(MF_INVALID_ARGUMENT, "", mf_example_decode(bytes.data, bytes.len - 1, arena, &back));
    mf_buf_deinit(&bytes);
    mf_arena_free(arena);
}

/* Concatenated streams, read in pieces of every size. */
MF_TEST(formats_gzip_files_may_hold_several_streams)
{
    char path[32], *parts[2], to[4096], expected[6000];
    size_t len[2], n = 0;
    mf_buf both = { 0 };

    temp_path(path);
    for (size_t i = 0; i < sizeof expected; i++)
        expected[i] = (char)(i * i >> 7);
    for (int i = 0; i < 2; i++) {
        mf_writer *w;

        T_OK(mf_writer_open(path, MF_GZIP, false, &w));
        T_OK(mf_writer_write(w, expected + i * 3000, 3000));
        T_OK(mf_writer_close(w));
        T_OK(mf_file_read(path, 1 << 20, &parts[i], &len[i]));
        mf_buf_bytes(&both, parts[i], len[i]);
    }
    T_OK(mf_file_write(path, both.data, both.len));
    for (size_t step = 1; step < sizeof to; step = step * 3 + 1) {
        mf_reader *r;
        size_t got = step;

        T_OK(mf_reader_open(path, MF_DETECT, &r));
        for (n = 0; got == step; n += got) {
            T_OK(mf_reader_read(r, to, step, &got));
            T_TRUE(n + got <= sizeof expected && memcmp(to, expected + n, got) == 0);
        }
        T_EQ(n, sizeof expected);
        mf_reader_close(r);
    }
    mf_buf_deinit(&both);
    T_OK(mf_file_unpack(path, MF_DETECT, sizeof expected, &both));
    T_EQ(both.len, sizeof expected);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "more than 5999", mf_file_unpack(path, MF_DETECT, 5999, &both));
    mf_buf_deinit(&both);
    mf_free(parts[0]);
    mf_free(parts[1]);
    unlink(path);
}
