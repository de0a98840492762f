/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - printing and parsing of tensors as text and JSON. */
#include "cli/show.h"

#include "mf_test.h"

#include <math.h>
#include <string.h>

static void expect(mf_dtype dtype, const char *values, const char *text, const char *json)
{
    mf_tensor t = { 0 };
    mf_buf a = { 0 }, b = { 0 };

    T_OK(mf_show_parse(values, dtype, &t));
    mf_show_text(&t, &a);
    mf_show_json(&t, 1000, &b);
    T_STREQ(a.data, text);
    T_STREQ(b.data, json);
    mf_buf_deinit(&a);
    mf_buf_deinit(&b);
    mf_tensor_clear(&t);
}

MF_TEST(show_prints_tensors_as_numpy_does)
{
    expect(MF_DTYPE_F32, "3", "3.", "3");
    expect(MF_DTYPE_I32, "[1,-20,3]", "[  1 -20   3]", "[1,-20,3]");
    expect(MF_DTYPE_F32, "[[1,2.5],[30,4]]", "[[ 1.   2.5]\n [30.   4. ]]", "[[1,2.5],[30,4]]");
    expect(MF_DTYPE_BOOL, "[true, false]", "[ True False]", "[true,false]");
    expect(MF_DTYPE_I8, "[[[1],[2]],[[3],[4]]]", "[[[1]\n  [2]]\n\n [[3]\n  [4]]]",
           "[[[1],[2]],[[3],[4]]]");
    expect(MF_DTYPE_F64, "[]", "[]", "[]");
}

MF_TEST(show_finds_the_shortest_number_that_reads_back)
{
    expect(MF_DTYPE_F32, "0.1", "0.1", "0.1");
    expect(MF_DTYPE_F64, "0.1", "0.1", "0.1");
    expect(MF_DTYPE_F64, "0.30000000000000004", "0.3", "0.30000000000000004");
    expect(MF_DTYPE_F32, "16777216", "16777216.", "16777216");
}

MF_TEST(show_writes_json_without_bare_nan)
{
    expect(MF_DTYPE_F32, "[nan,inf,-inf]", "[ nan  inf -inf]", "[\"nan\",\"inf\",\"-inf\"]");
    expect(MF_DTYPE_C64, "[1]", "[1.+0.j]", "[[1,0]]");
}

MF_TEST(show_omits_the_middle_of_long_dimensions)
{
    mf_tensor t = { 0 };
    mf_buf text = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_I32, &MF_SHAPE(2000)));
    for (int64_t i = 0; i < 2000; i++)
        mf_tensor_put(&t, i, (double)i);
    mf_show_text(&t, &text);
    T_STREQ(text.data, "[   0    1    2 ... 1997 1998 1999]");
    text.len = 0;
    mf_show_json(&t, 1000, &text);
    T_STREQ(text.data, "null");
    mf_buf_deinit(&text);
    mf_tensor_clear(&t);
}

MF_TEST(show_parse_refuses_invalid_tensors)
{
    mf_tensor t = { 0 };

    T_FAILS(MF_INVALID_ARGUMENT, "different lengths",
            mf_show_parse("[[1],[1,2]]", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "same depth", mf_show_parse("[1,[2]]", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "same depth", mf_show_parse("[[1],2]", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "expected a number", mf_show_parse("[1,]", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "expected ','", mf_show_parse("[1", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "unexpected text", mf_show_parse("[1] 2", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "too many",
            mf_show_parse("[[[[[[[[[1]]]]]]]]]", MF_DTYPE_F32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "300 is not a value of type uint8",
            mf_show_parse("[300]", MF_DTYPE_U8, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "1.5 is not a value", mf_show_parse("1.5", MF_DTYPE_I32, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "is not a value",
            mf_show_parse("9007199254740993", MF_DTYPE_I64, &t));
    T_FAILS(MF_UNIMPLEMENTED, "use a file", mf_show_parse("[1]", MF_DTYPE_STRING, &t));
    T_EQ(t.dtype, MF_DTYPE_INVALID);
}
