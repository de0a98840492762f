/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - .npy files: all types, byte and memory orders, and invalid headers. */
#include "formats/npy.h"

#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

/* A version 1 file with this header text and data. */
static void make(const char *header, const void *data, size_t len, mf_buf *out)
{
    const size_t n = strlen(header);
    const char head[] = { 1, 0, (char)n, (char)(n >> 8) };

    mf_buf_bytes(out, "\x93NUMPY", 6);
    mf_buf_bytes(out, head, 4);
    mf_buf_bytes(out, header, n);
    mf_buf_bytes(out, data, len);
    T_OK(mf_buf_finish(out));
}

/* Decodes from memory of exactly that size. */
static mf_status decode(const char *header, const void *data, size_t len, mf_tensor *t)
{
    mf_buf file = { 0 };
    char *exact;
    mf_status st;

    make(header, data, len, &file);
    exact = malloc(file.len);
    T_TRUE(exact != NULL);
    memcpy(exact, file.data, file.len);
    *t = (mf_tensor){ 0 };
    st = mf_npy_decode(exact, file.len, t);
    free(exact);
    mf_buf_deinit(&file);
    return st;
}

#define HEADER(descr, order, shape)                                                                \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }  \n"

MF_TEST(npy_every_plain_type_round_trips)
{
    for (int dtype = 1; dtype < MF_DTYPE_COUNT; dtype++) {
        mf_tensor t = { 0 }, back = { 0 };
        mf_buf file = { 0 };

        if (!mf_dtype_is_plain((mf_dtype)dtype))
            continue;
        T_OK(mf_tensor_alloc(&t, (mf_dtype)dtype, &MF_SHAPE(2, 3)));
        memset(t.data, 1, 6 * mf_dtype_size((mf_dtype)dtype));
        T_OK(mf_npy_encode(&t, &file));
        T_EQ(file.len % 64, 6 * mf_dtype_size((mf_dtype)dtype) % 64);
        T_OK(mf_npy_decode(file.data, file.len, &back));
        T_EQ(mf_dtype_size(back.dtype), mf_dtype_size(t.dtype));
        T_TRUE(mf_shape_equal(&t.shape, &back.shape));
        T_TRUE(memcmp(t.data, back.data, 6 * mf_dtype_size((mf_dtype)dtype)) == 0);
        mf_tensor_clear(&t);
        mf_tensor_clear(&back);
        mf_buf_deinit(&file);
    }
}

MF_TEST(npy_header_equals_that_of_numpy)
{
    mf_tensor t = { 0 };
    mf_buf file = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(3)));
    memset(t.data, 0, 12);
    T_OK(mf_npy_encode(&t, &file));
    T_EQ(file.len, 128 + 12);
    T_TRUE(
        memcmp(file.data,
               "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
               "    ",
               70) == 0);
    T_EQ(file.data[127], '\n');
    mf_tensor_clear(&t);
    mf_buf_deinit(&file);
}

MF_TEST(npy_big_endian_numbers_are_converted)
{
    mf_tensor t;

    T_OK(decode(HEADER(">i2", "False", "(2,)"), "\x01\x02\xff\xfe", 4, &t));
    T_EQ(mf_tensor_int_at(&t, 0), 258);
    T_EQ(mf_tensor_int_at(&t, 1), -2);
    mf_tensor_clear(&t);
    T_OK(decode(HEADER(">c8", "False", "()"), "\x3f\x80\0\0\x40\0\0\0", 8, &t));
    T_EQ_F(((float *)t.data)[0], 1.0);
    T_EQ_F(((float *)t.data)[1], 2.0);
    mf_tensor_clear(&t);
}

MF_TEST(npy_fortran_order_is_converted_to_row_major)
{
    mf_tensor t;

    T_OK(decode(HEADER("|u1", "True", "(2, 3)"), "\x00\x03\x01\x04\x02\x05", 6, &t));
    for (int64_t i = 0; i < 6; i++)
        T_EQ(mf_tensor_int_at(&t, i), i);
    mf_tensor_clear(&t);
    T_OK(decode(HEADER("|S2", "True", "(2, 2)"), "a\0cdb\0d\0", 8, &t));
    T_TRUE(memcmp(((mf_string *)t.data)[1].data, "b", 1) == 0);
    T_EQ(((mf_string *)t.data)[2].len, 2);
    mf_tensor_clear(&t);
}

MF_TEST(npy_bfloat16_is_v2_and_bools_are_normalised)
{
    mf_tensor t;

    T_OK(decode(HEADER("<V2", "False", "(1,)"), "\x80\x3f", 2, &t));
    T_EQ(t.dtype, MF_DTYPE_BF16);
    T_EQ_F(mf_tensor_float_at(&t, 0), 1.0);
    mf_tensor_clear(&t);
    T_OK(decode(HEADER("|b1", "False", "(2,)"), "\x05\x00", 2, &t));
    T_TRUE(memcmp(t.data, "\x01\x00", 2) == 0);
    mf_tensor_clear(&t);
}

MF_TEST(npy_strings_are_bytes_or_utf32)
{
    mf_tensor t;

    T_OK(decode(HEADER("<U2", "False", "(1,)"), "\xe9\0\0\0\0\xf6\x01\0", 8, &t));
    T_EQ(((mf_string *)t.data)[0].len, 6);
    T_TRUE(memcmp(((mf_string *)t.data)[0].data, "\xc3\xa9\xf0\x9f\x98\x80", 6) == 0);
    mf_tensor_clear(&t);
    T_OK(decode(HEADER(">U1", "False", "()"), "\0\0\0A", 4, &t));
    T_TRUE(memcmp(((mf_string *)t.data)[0].data, "A", 1) == 0);
    mf_tensor_clear(&t);
    T_FAILS(MF_INVALID_ARGUMENT, "0x110000, which is not a character",
            decode(HEADER("<U1", "False", "()"), "\0\0\x11\0", 4, &t));
    T_TRUE(t.buffer == NULL);
    T_OK(decode(HEADER("|S3", "False", "(2,)"), "a\0b\0\0\0", 6, &t));
    T_EQ(((mf_string *)t.data)[0].len, 3);
    T_EQ(((mf_string *)t.data)[1].len, 0);
    mf_tensor_clear(&t);
}

MF_TEST(npy_strings_are_written_as_wide_as_the_longest)
{
    mf_tensor t = { 0 }, back = { 0 };
    mf_buf file = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_STRING, &MF_SHAPE(2)));
    T_OK(mf_string_set((mf_string *)t.data + 1, "a\0b", 3));
    T_OK(mf_npy_encode(&t, &file));
    T_TRUE(strstr(file.data + 10, "'|S3'") != NULL);
    T_OK(mf_npy_decode(file.data, file.len, &back));
    T_EQ(((mf_string *)back.data)[1].len, 3);
    T_OK(mf_string_set((mf_string *)t.data, "x\0", 2));
    T_FAILS(MF_INVALID_ARGUMENT, "string 0 ends in a NUL byte", mf_npy_encode(&t, &file));
    mf_tensor_clear(&t);
    mf_tensor_clear(&back);
    mf_buf_deinit(&file);
}

MF_TEST(npy_unsupported_types_are_named)
{
    mf_tensor t;

    T_FAILS(MF_UNIMPLEMENTED, "Python objects", decode(HEADER("|O", "False", "()"), "", 0, &t));
    T_FAILS(MF_UNIMPLEMENTED, "'<f16'", decode(HEADER("<f16", "False", "()"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "not a type", decode(HEADER("<M8[s]", "False", "()"), "", 0, &t));
    T_FAILS(MF_UNIMPLEMENTED, "'|S0'", decode(HEADER("|S0", "False", "(99,)"), "", 0, &t));
    T_FAILS(MF_UNIMPLEMENTED, "records",
            decode("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': ()}", "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "not a type", decode(HEADER("", "False", "()"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "not a type", decode(HEADER("<", "False", "()"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "dimension", decode(HEADER("<f", "False", "()"), "", 0, &t));
}

MF_TEST(npy_hostile_shapes_are_refused)
{
    mf_tensor t;

    T_FAILS(MF_INVALID_ARGUMENT, "2147483648 elements",
            decode(HEADER("<f4", "False", "(2147483648,)"), "abcd", 4, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "elements",
            decode(HEADER("<f8", "False", "(4611686018427387904,)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "more than 2^63",
            decode(HEADER("<f8", "False", "(0, 4611686018427387904, 4)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "above 2^63",
            decode(HEADER("<f8", "False", "(9223372036854775808,)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "expected a dimension",
            decode(HEADER("<f8", "False", "(-1,)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "rank above",
            decode(HEADER("<f8", "False", "(1,1,1,1,1,1,1,1,1)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "expected a tuple",
            decode(HEADER("<f8", "False", "(1)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "',' is missing",
            decode(HEADER("<f8", "False", "(1 2)"), "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "5 bytes of data for 1 elements",
            decode(HEADER("<f4", "False", "(1,)"), "abcde", 5, &t));
}

MF_TEST(npy_the_header_is_read_strictly)
{
    mf_tensor t;

    T_FAILS(MF_INVALID_ARGUMENT, "missing", decode("{'descr': '<f4'}", "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "unknown key 'x'", decode("{'x': 1}", "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "given twice", decode("{'shape': (), 'shape': ()}", "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "after '}'",
            decode(HEADER("<f4", "False", "()") "x", "abcd", 4, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "not a bool", decode(HEADER("<f4", "0", "()"), "abcd", 4, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "is not closed", decode("{'descr", "", 0, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "'{' is missing", decode("", "", 0, &t));
    T_FAILS(MF_UNIMPLEMENTED, "version 4.0",
            mf_npy_decode("\x93NUMPY\x04\x00\x00\x00\x00\x00", 12, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "cut off or too long",
            mf_npy_decode("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, &t));
}

MF_TEST(npy_a_truncated_file_is_refused)
{
    mf_tensor t = { 0 }, back = { 0 };
    mf_buf file = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_I32, &MF_SHAPE(2, 2)));
    memset(t.data, 0, 16);
    T_OK(mf_npy_encode(&t, &file));
    for (size_t len = 0; len < file.len; len++) {
        char *exact = malloc(len > 0 ? len : 1);

        T_TRUE(exact != NULL);
        memcpy(exact, file.data, len);
        T_FAILS(MF_INVALID_ARGUMENT, "", mf_npy_decode(exact, len, &back));
        free(exact);
    }
    mf_tensor_clear(&t);
    mf_buf_deinit(&file);
}
