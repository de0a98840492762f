/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - CSV, libsvm and numbers as text. */
#include "formats/csv.h"
#include "formats/libsvm.h"
#include "formats/number.h"
#include "mf_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_row(mf_csv *c, const char *const *cells, int n)
{
    T_OK(mf_csv_next(c));
    T_EQ(c->n_cells, n);
    for (int i = 0; i < n; i++)
        T_STREQ(c->cells[i].data, cells[i]);
}

MF_TEST(formats_csv_ignores_spaces_around_cells)
{
    static const char text[] = "a, b ,\tc\n 1 ,\" x \" , y z\t\r\n";
    mf_csv c;

    mf_csv_init(&c, "t.csv", text, sizeof text - 1, ',');
    expect_row(&c, (const char *const[]){ "a", "b", "c" }, 3);
    expect_row(&c, (const char *const[]){ "1", " x ", "y z" }, 3);
    mf_csv_deinit(&c);
    mf_csv_init(&c, "t.tsv", "a\t\tb \n", 6, '\t');
    expect_row(&c, (const char *const[]){ "a", "", "b" }, 3);
    mf_csv_deinit(&c);
}

MF_TEST(formats_csv_rows_and_quotes)
{
    static const char text[] = "\xef\xbb\xbf"
                               "a,b,\r\n\n\"x, \"\"y\"\"\",\"two\nlines\",3\nlast";
    mf_csv c;

    mf_csv_init(&c, "t.csv", text, sizeof text - 1, ',');
    expect_row(&c, (const char *const[]){ "a", "b", "" }, 3);
    expect_row(&c, (const char *const[]){ "x, \"y\"", "two\nlines", "3" }, 3);
    expect_row(&c, (const char *const[]){ "last" }, 1);
    T_EQ(c.line, 6);
    T_FAILS(MF_OUT_OF_RANGE, "'t.csv' has no more rows", mf_csv_next(&c));
    mf_csv_deinit(&c);
    mf_csv_init(&c, "t.csv", "a\n\"b", 4, ',');
    T_OK(mf_csv_next(&c));
    T_FAILS(MF_DATA_LOSS, "'t.csv', line 2: unterminated quote", mf_csv_next(&c));
    mf_csv_deinit(&c);
    mf_csv_init(&c, "t.csv", "\"a\"b;c", 6, ';');
    T_FAILS(MF_DATA_LOSS, "line 1: text after", mf_csv_next(&c));
    mf_csv_deinit(&c);
}

MF_TEST(formats_libsvm_rows)
{
    static const char text[] = "+1 1:0.5 7:-2e3 # comment\r\n# only\n\n-1\n2.5\t3:1 ";
    mf_libsvm s = { 0 };

    T_OK(mf_libsvm_decode("t", text, sizeof text - 1, &s));
    T_EQ(s.rows, 3);
    T_EQ(s.pairs, 3);
    T_EQ(s.most, 2);
    T_TRUE(s.starts[0] == 0 && s.starts[1] == 2 && s.starts[2] == 2 && s.starts[3] == 3);
    T_EQ_F(s.labels[1], -1);
    T_EQ(s.ids[1], 7);
    T_EQ_F(s.values[1], -2000);
    mf_libsvm_deinit(&s);
    T_FAILS(MF_DATA_LOSS, "'t', line 2: indices are not ascending at \"2:1\"",
            mf_libsvm_decode("t", "1\n1 2:1 2:1", 11, &s));
    mf_libsvm_deinit(&s);
    T_FAILS(MF_DATA_LOSS, "no label", mf_libsvm_decode("t", "x", 1, &s));
    T_FAILS(MF_DATA_LOSS, "no index:value", mf_libsvm_decode("t", "1 5", 3, &s));
    T_FAILS(MF_DATA_LOSS, "no value", mf_libsvm_decode("t", "1 5:", 4, &s));
    T_FAILS(MF_DATA_LOSS, "no index", mf_libsvm_decode("t", "1 -5:1", 6, &s));
    mf_libsvm_deinit(&s);
}

/* One byte of a text takes every possible value: rows or an error, never a crash. */
MF_TEST(formats_damaged_text_is_reported)
{
    static const char text[] = "1,\"a\",2.5\r\n1 3:4 5:6.5\n";
    char copy[sizeof text];

    for (size_t at = 0; at < sizeof text - 1; at++) {
        for (int byte = 0; byte < 256; byte++) {
            mf_libsvm s = { 0 };
            mf_csv c;
            mf_status st;

            memcpy(copy, text, sizeof copy);
            copy[at] = (char)byte;
            mf_csv_init(&c, "t", copy, sizeof text - 1, ',');
            while ((st = mf_csv_next(&c)) == MF_OK)
                T_TRUE(c.n_cells > 0);
            T_TRUE(st == MF_OUT_OF_RANGE || st == MF_DATA_LOSS);
            mf_csv_deinit(&c);
            st = mf_libsvm_decode("t", copy + 11, sizeof text - 12, &s);
            T_TRUE(st == MF_OK || st == MF_DATA_LOSS);
            mf_libsvm_deinit(&s);
        }
    }
}

MF_TEST(formats_numbers_with_trailing_characters_are_refused)
{
    static const char *const good[] = {
        "0",    "-0",  "1.",    ".5",           "-12.375",
        "1e10", "0.1", "1e-50", "3.4028236e38", "123456789012345678",
        "nan",  "inf", "-inf",  "+4",           "0.30000001192092896"
    };
    static const char *const bad[] = { "", " 1", "1 ", "1,5", "0x10", "one", "--1", "nan(1)", "." };
    float f;
    int64_t i;

    for (int k = 0; k < (int)(sizeof good / sizeof *good); k++) {
        const float expected = (float)strtod(good[k], NULL);

        T_TRUE(mf_number_float(good[k], strlen(good[k]), &f));
        T_EQ_F(f, expected);
        T_TRUE(signbit(f) == signbit(expected));
    }
    for (int k = 0; k < (int)(sizeof bad / sizeof *bad); k++)
        T_TRUE(!mf_number_float(bad[k], strlen(bad[k]), &f));
    T_TRUE(mf_number_int("-9223372036854775808", 20, &i) && i == INT64_MIN);
    T_TRUE(mf_number_int("9223372036854775807", 19, &i) && i == INT64_MAX);
    T_TRUE(!mf_number_int("9223372036854775808", 19, &i) && !mf_number_int("-", 1, &i));
    T_TRUE(!mf_number_int("1.0", 3, &i) && !mf_number_int("", 0, &i));
}
