/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.c - tensors as text of Assert and Print, as TensorFlow prints them. */
#include "ops/string/tensor_text.h"

#include "mf_test.h"

static mf_tensor numbers(mf_shape shape)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_I32, &shape));
    for (int64_t i = 0; i < t.count; i++)
        ((int32_t *)t.data)[i] = (int32_t)i;
    return t;
}

static void flat_is(mf_shape shape, int64_t limit, const char *want)
{
    mf_tensor t = numbers(shape);
    mf_buf buf = { 0 };

    mf_text_flat(&t, limit, &buf);
    mf_buf_str(&buf, "");
    T_STREQ(buf.data ? buf.data : "", want);
    mf_buf_deinit(&buf);
    mf_tensor_clear(&t);
}

static void grid_is(mf_shape shape, int64_t ends, const char *want)
{
    mf_tensor t = numbers(shape);
    mf_buf buf = { 0 };

    mf_text_grid(&t, ends, &buf);
    T_STREQ(buf.data, want);
    mf_buf_deinit(&buf);
    mf_tensor_clear(&t);
}

MF_TEST(text_of_asserted_tensors_is_tensorflows)
{
    flat_is(MF_SCALAR, 3, "0");
    flat_is(MF_SHAPE(2, 2), 10, "[0 1][2 3]");
    flat_is(MF_SHAPE(10), 3, "0 1 2...");
    flat_is(MF_SHAPE(10), 0, "...");
    flat_is(MF_SHAPE(2, 3, 4), 5, "[[0 1 2 3][4...]]...");
    flat_is(MF_SHAPE(2, 0), 3, "");
}

MF_TEST(text_of_printed_tensors_is_tensorflows)
{
    grid_is(MF_SCALAR, 3, "0");
    grid_is(MF_SHAPE(2, 2), 3, "[[0 1]\n [2 3]]");
    grid_is(MF_SHAPE(10), 3, "[0 1 2 ... 7 8 9]");
    grid_is(MF_SHAPE(10), -1, "[0 1 2 3 4 5 6 7 8 9]");
    grid_is(MF_SHAPE(2, 1, 2), 3, "[[[0 1]]\n\n [[2 3]]]");
    grid_is(MF_SHAPE(0), 3, "[]");
    grid_is(MF_SHAPE(3), 0, "[ ...]");
}
