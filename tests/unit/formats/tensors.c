/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c - named tensors in four formats: round trips and refusals. */
#include "formats/tensors.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/mf-tensors-XXXXXX";

static void begin(void)
{
    T_TRUE(mkdtemp(dir) != NULL);
}

static void end(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    T_EQ(system(command), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* The bit patterns of the bytes 3, 4, 5 ...; booleans are 0 and 1. */
static mf_tensor some(mf_dtype dtype, mf_shape shape)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, dtype, &shape));
    if (dtype == MF_DTYPE_STRING) {
        for (int64_t i = 0; i < t.count; i++)
            T_OK(mf_string_set((mf_string *)t.data + i, "böx", 4));
        return t;
    }
    for (size_t i = 0; i < (size_t)t.count * mf_dtype_size(dtype); i++)
        ((uint8_t *)t.data)[i] = (uint8_t)(dtype == MF_DTYPE_BOOL ? i % 2 : i + 3);
    return t;
}

static bool same(const mf_tensor *a, const mf_tensor *b)
{
    if (a->dtype != b->dtype || !mf_shape_equal(&a->shape, &b->shape))
        return false;
    for (int64_t i = 0; a->dtype == MF_DTYPE_STRING && i < a->count; i++) {
        const mf_string *x = (const mf_string *)a->data + i, *y = (const mf_string *)b->data + i;

        if (x->len != y->len || memcmp(x->data, y->data, x->len) != 0)
            return false;
    }
    return a->dtype == MF_DTYPE_STRING || a->count == 0 ||
           memcmp(a->data, b->data, (size_t)a->count * mf_dtype_size(a->dtype)) == 0;
}

static const mf_dtype everywhere[] = {
    MF_DTYPE_F32, MF_DTYPE_F64, MF_DTYPE_F16, MF_DTYPE_BF16, MF_DTYPE_I8,
    MF_DTYPE_I16, MF_DTYPE_I32, MF_DTYPE_I64, MF_DTYPE_U8,   MF_DTYPE_U16,
    MF_DTYPE_U32, MF_DTYPE_U64, MF_DTYPE_C64, MF_DTYPE_BOOL, MF_DTYPE_STRING,
};
enum { N_TYPES = MF_COUNT(everywhere), N = 2 * N_TYPES };

/* A scalar and a matrix of odd size of every type; two scalars where strings must be scalars. */
static void fill(const char *ending, mf_tensor *t, char (*text)[32], const char **names,
                 const mf_tensor **tensors)
{
    for (int i = 0; i < N; i++) {
        const mf_dtype dtype = everywhere[i % N_TYPES];
        const bool scalar =
            i < N_TYPES || (dtype == MF_DTYPE_STRING && strcmp(ending, "x.safetensors") == 0);

        t[i] = some(dtype, scalar ? MF_SCALAR : MF_SHAPE(3, 1, 5));
        (void)snprintf(text[i], sizeof text[i], "%s/%c\xc3\xa9", mf_dtype_name(dtype),
                       (int)'a' + i / N_TYPES);
        names[i] = text[i];
        tensors[i] = &t[i];
    }
}

MF_TEST(tensors_of_all_types_round_trip_in_all_formats)
{
    static const char *const files[] = { "x", "x.npz", "x.safetensors", "x.mfz" };

    begin();
    for (int f = 0; f < MF_COUNT(files); f++) {
        char text[N][32];
        const char *names[N];
        const mf_tensor *tensors[N];
        mf_tensor t[N] = { { 0 } };
        mf_tensors *back;

        fill(files[f], t, text, names, tensors);
        T_OK(mf_tensors_write(path_of(files[f]), names, tensors, N));
        T_OK(mf_tensors_open(path_of(files[f]), &back));
        T_EQ(mf_tensors_count(back), N);
        for (int i = 0; i < N; i++) {
            const int64_t at = mf_tensors_find(back, names[i]);
            mf_tensor got = { 0 };

            T_TRUE(at >= 0);
            T_STREQ(mf_tensors_name(back, at), names[i]);
            T_OK(mf_tensors_read(back, at, &got));
            if (!same(&got, &t[i]))
                T_FAIL("%s: '%s' came back changed", files[f], names[i]);
            mf_tensor_clear(&got);
            mf_tensor_clear(&t[i]);
        }
        T_EQ(mf_tensors_find(back, "nothing"), -1);
        mf_tensors_close(back);
    }
    end();
}

MF_TEST(tensors_files_may_have_no_or_empty_tensors)
{
    static const char *const files[] = { "x", "x.npz", "x.safetensors", "x.mfz" };
    mf_tensor empty = some(MF_DTYPE_F32, MF_SHAPE(0, 7)), got = { 0 };
    mf_tensors *back;

    begin();
    for (int f = 0; f < MF_COUNT(files); f++) {
        T_OK(mf_tensors_write(path_of(files[f]), NULL, NULL, 0));
        T_OK(mf_tensors_open(path_of(files[f]), &back));
        T_EQ(mf_tensors_count(back), 0);
        T_EQ(mf_tensors_find(back, "e"), -1);
        mf_tensors_close(back);
        T_OK(mf_tensors_write(path_of(files[f]), (const char *[]){ "e" },
                              (const mf_tensor *[]){ &empty }, 1));
        T_OK(mf_tensors_open(path_of(files[f]), &back));
        T_OK(mf_tensors_read(back, 0, &got));
        T_TRUE(same(&got, &empty));
        mf_tensor_clear(&got);
        mf_tensors_close(back);
    }
    mf_tensor_clear(&empty);
    end();
}

MF_TEST(tensors_of_a_bundle_are_found_by_either_of_its_files)
{
    mf_tensor t = some(MF_DTYPE_F32, MF_SHAPE(3));
    mf_tensors *back;

    begin();
    T_OK(mf_tensors_write(path_of("m-3"), (const char *[]){ "a" }, (const mf_tensor *[]){ &t }, 1));
    T_OK(mf_tensors_open(path_of("m-3.index"), &back));
    T_STREQ(mf_tensors_format(back), "bundle");
    mf_tensors_close(back);
    T_OK(mf_tensors_open(path_of("m-3.data-00000-of-00001"), &back));
    mf_tensors_close(back);
    T_FAILS(MF_NOT_FOUND, "m-4.index", mf_tensors_open(path_of("m-4"), &back));
    mf_tensor_clear(&t);
    end();
}

/* ---- safetensors ---- */

static mf_status decode(const char *json, int64_t data_bytes)
{
    mf_arena *arena = mf_arena_new();
    mf_safetensor *all;
    int64_t n;
    const mf_status st = mf_safetensors_decode(json, strlen(json), data_bytes, arena, &all, &n);

    mf_arena_free(arena);
    return st;
}

#define ENTRY(type, shape, from, to)                                                               \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

MF_TEST(safetensors_headers_are_checked)
{
    static const struct {
        const char *part, *json;
        mf_status code;
    } bad[] = {
        { "does not begin", "", MF_DATA_LOSS },
        { "does not begin", " {}", MF_DATA_LOSS },
        { "not valid JSON", "{", MF_DATA_LOSS },
        { "not valid JSON", "{\"a\":\"\\u0000\"}", MF_DATA_LOSS },
        { "not valid JSON", "{\"a\":" ENTRY("U8", "[8]", "0", "8") ",\"a\":{}}", MF_DATA_LOSS },
        { "has no type", "{\"a\":3}", MF_DATA_LOSS },
        { "has no type", "{\"a\":{\"dtype\":1}}", MF_DATA_LOSS },
        { "'F8_E4M3'", "{\"a\":" ENTRY("F8_E4M3", "[8]", "0", "8") "}", MF_UNIMPLEMENTED },
        { "not a list", "{\"a\":" ENTRY("U8", "8", "0", "8") "}", MF_DATA_LOSS },
        { "dimension 0", "{\"a\":" ENTRY("U8", "[-8]", "0", "8") "}", MF_DATA_LOSS },
        { "dimension 0", "{\"a\":" ENTRY("U8", "[8.0]", "0", "8") "}", MF_DATA_LOSS },
        { "9 dim", "{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,8]", "0", "8") "}", MF_UNIMPLEMENTED },
        { "8 bytes for 4", "{\"a\":" ENTRY("U8", "[4]", "0", "8") "}", MF_DATA_LOSS },
        { "outside the data", "{\"a\":" ENTRY("U8", "[9]", "0", "9") "}", MF_DATA_LOSS },
        { "outside the data", "{\"a\":" ENTRY("U8", "[1]", "-1", "0") "}", MF_DATA_LOSS },
        { "outside the data", "{\"a\":" ENTRY("U8", "[1]", "8", "7") "}", MF_DATA_LOSS },
        { "more than 2^63", "{\"a\":" ENTRY("F64", "[4611686018427387904,4]", "0", "8") "}",
          MF_INVALID_ARGUMENT },
        { "have 4 bytes", "{\"a\":" ENTRY("U8", "[4]", "0", "4") "}", MF_DATA_LOSS },
        { "'b' begins at 4",
          "{\"a\":" ENTRY("U8", "[5]", "0", "5") ",\"b\":" ENTRY("U8", "[4]", "4", "8") "}",
          MF_DATA_LOSS },
        { "'b' begins at 5",
          "{\"a\":" ENTRY("U8", "[4]", "0", "4") ",\"b\":" ENTRY("U8", "[3]", "5", "8") "}",
          MF_DATA_LOSS },
        { "'a' occurs twice",
          "{\"a\":" ENTRY("U8", "[8]", "0", "8") ",\"__metadata__\":{\"a\":\"\"}}", MF_DATA_LOSS },
        { "not text", "{\"__metadata__\":{\"a\":1}}", MF_DATA_LOSS },
        { "not an object", "{\"__metadata__\":[]}", MF_DATA_LOSS },
        { "not valid JSON", "{\"a\":" ENTRY("U8", "[99999999999999999999]", "0", "8") "}",
          MF_DATA_LOSS },
    };

    T_OK(decode("{\"a\":" ENTRY("BF16", "[2,2]", "0", "8") "}   ", 8));
    T_OK(decode("{\"b\":" ENTRY("U8", "[4]", "4", "8") ",\"a\":" ENTRY("I16", "[2]", "0", "4") "}",
                8));
    T_OK(decode("{\"__metadata__\":{\"format\":\"pt\"}}", 0));
    for (int i = 0; i < MF_COUNT(bad); i++)
        T_FAILS(bad[i].code, bad[i].part, decode(bad[i].json, 8));
}

MF_TEST(safetensors_refuses_unsupported_tensors)
{
    mf_tensor strings = some(MF_DTYPE_STRING, MF_SHAPE(2)), c = some(MF_DTYPE_C128, MF_SCALAR),
              f = some(MF_DTYPE_F32, MF_SCALAR);
    const mf_tensor *two[] = { &f, &f };

    begin();
    T_FAILS(MF_UNIMPLEMENTED, "'s' is a tensor of strings",
            mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "s" },
                             (const mf_tensor *[]){ &strings }, 1));
    T_FAILS(MF_UNIMPLEMENTED, "'c' is of type complex128",
            mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "c" },
                             (const mf_tensor *[]){ &c }, 1));
    T_FAILS(MF_INVALID_ARGUMENT, "'f' occurs twice",
            mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "f", "f" }, two, 2));
    T_FAILS(MF_INVALID_ARGUMENT, "reserved",
            mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "f", "__metadata__" }, two,
                             2));
    T_FAILS(MF_INVALID_ARGUMENT, "not UTF-8",
            mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "f", "\xff" }, two, 2));
    mf_tensor_clear(&strings);
    mf_tensor_clear(&c);
    mf_tensor_clear(&f);
    end();
}

/* Without checksums a flipped element is another value. Nothing else may change. */
MF_TEST(safetensors_truncated_or_flipped_are_harmless)
{
    mf_tensor t = some(MF_DTYPE_F32, MF_SHAPE(2, 3)), s = some(MF_DTYPE_STRING, MF_SCALAR);
    mf_tensors *back;
    char *data;
    size_t len;

    begin();
    T_OK(mf_tensors_write(path_of("x.safetensors"), (const char *[]){ "t", "s" },
                          (const mf_tensor *[]){ &t, &s }, 2));
    T_OK(mf_file_read(path_of("x.safetensors"), 1 << 20, &data, &len));
    for (size_t i = 0; i < len; i++) {
        T_OK(mf_file_write(path_of("y.safetensors"), data, i));
        T_FAILS(MF_DATA_LOSS, "", mf_tensors_open(path_of("y.safetensors"), &back));
    }
    for (size_t i = 0; i < 8 * len; i++) {
        data[i / 8] ^= (char)(1 << i % 8);
        T_OK(mf_file_write(path_of("y.safetensors"), data, len));
        if (mf_tensors_open(path_of("y.safetensors"), &back) == MF_OK) {
            for (int64_t k = 0; k < mf_tensors_count(back); k++) {
                mf_tensor got = { 0 };

                T_OK(mf_tensors_read(back, k, &got));
                mf_tensor_clear(&got);
            }
            mf_tensors_close(back);
        }
        data[i / 8] ^= (char)(1 << i % 8);
    }
    mf_free(data);
    mf_tensor_clear(&t);
    mf_tensor_clear(&s);
    end();
}
