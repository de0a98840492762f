/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - types, shapes, storage, the public handle. */
#include "tensor/tensor.h"

#include "mf_test.h"

#include <string.h>

MF_TEST(tensor_half_conversion_rounds_to_even_and_keeps_every_half)
{
    for (int bits = 0; bits < 65536; bits++) {
        const mf_f16 h = { (uint16_t)bits };
        const float f = mf_f16_to_f32(h);

        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0)
            T_TRUE(f != f);
        else
            T_EQ(mf_f16_from_f32(f).bits, bits);
    }
    T_EQ(mf_f16_from_f32(65519.0f).bits, 0x7bff);
    T_EQ(mf_f16_from_f32(65520.0f).bits, 0x7c00);
    T_EQ(mf_f16_from_f32(1.00048828125f).bits, 0x3c00); /* a tie goes to even */
    T_EQ(mf_f16_from_f32(1.00146484375f).bits, 0x3c02);
    T_EQ(mf_bf16_from_f32(1.00390625f).bits, 0x3f80);
    T_EQ(mf_bf16_from_f32(1.01171875f).bits, 0x3f82);
}

MF_TEST(tensor_invalid_shapes_are_refused)
{
    const int64_t big[] = { (int64_t)1 << 62, 4 }, hidden[] = { 0, (int64_t)1 << 62, 4 };
    const int64_t minus[] = { 2, -1 }, many[9] = { 0 };
    mf_tensor *t;

    T_FAILS(MF_INVALID_ARGUMENT, "more than 2^63", mf_tensor_new(MF_DTYPE_F32, big, 2, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "more than 2^63", mf_tensor_new(MF_DTYPE_F32, hidden, 3, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "dimension 1 is -1", mf_tensor_new(MF_DTYPE_F32, minus, 2, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "rank 9", mf_tensor_new(MF_DTYPE_F32, many, 9, &t));
    T_FAILS(MF_INVALID_ARGUMENT, "not a supported", mf_tensor_new((mf_dtype)77, NULL, 0, &t));
    T_FAILS(MF_RESOURCE_EXHAUSTED, "OOM", mf_tensor_new(MF_DTYPE_F32, big, 1, &t));
}

MF_TEST(tensor_shape_broadcast_names_both_shapes)
{
    mf_shape out;

    T_OK(mf_shape_broadcast(&MF_SHAPE(4, 1, 3), &MF_SHAPE(2, 1), &out));
    T_TRUE(mf_shape_equal(&out, &MF_SHAPE(4, 2, 3)));
    T_OK(mf_shape_broadcast(&MF_SHAPE(0), &MF_SHAPE(1), &out));
    T_EQ(out.dims[0], 0);
    T_FAILS(MF_INVALID_ARGUMENT, "[4,2] vs. [4,3]",
            mf_shape_broadcast(&MF_SHAPE(4, 2), &MF_SHAPE(4, 3), &out));
}

static int released;

static void on_release(void *data, void *ctx)
{
    (void)data;
    T_TRUE(ctx == &released);
    released++;
}

MF_TEST(tensor_over_the_callers_memory_releases_it_once_after_the_last_reader)
{
    static float data[6];
    const int64_t dims[] = { 2, 3 };
    mf_tensor *t, *copy;

    T_FAILS(MF_INVALID_ARGUMENT, "20 bytes",
            mf_tensor_wrap(MF_DTYPE_F32, dims, 2, data, 20, on_release, &released, &t));
    T_OK(mf_tensor_wrap(MF_DTYPE_F32, dims, 2, data, sizeof data, on_release, &released, &t));
    T_OK(mf_tensor_copy(t, &copy));
    T_TRUE(mf_tensor_data(copy) == data);
    mf_tensor_free(t);
    T_EQ(released, 0);
    mf_tensor_free(copy);
    T_EQ(released, 1);
}

MF_TEST(tensor_strings_are_copied_and_may_hold_any_bytes)
{
    const int64_t dims[] = { 2 };
    const char *data;
    size_t len;
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_STRING, dims, 1, &t));
    T_OK(mf_tensor_set_string(t, 1, "a\0b", 3));
    T_OK(mf_tensor_get_string(t, 1, &data, &len));
    T_TRUE(len == 3 && memcmp(data, "a\0b", 3) == 0);
    T_OK(mf_tensor_get_string(t, 0, &data, &len));
    T_EQ(len, 0);
    T_FAILS(MF_OUT_OF_RANGE, "element 2", mf_tensor_set_string(t, 2, "x", 1));
    T_TRUE(mf_tensor_data(t) == NULL);
    mf_tensor_free(t);
}

MF_TEST(tensor_storage_is_reused)
{
    const int64_t before = mf_buffer_live_bytes();
    mf_tensor t = { 0 };
    void *first;

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(1000)));
    first = t.data;
    T_TRUE((uintptr_t)first % MF_BUFFER_ALIGN == 0);
    mf_tensor_clear(&t);
    T_OK(mf_tensor_alloc(&t, MF_DTYPE_I32, &MF_SHAPE(1000)));
    T_TRUE(t.data == first);
    mf_tensor_clear(&t);
    T_EQ(mf_buffer_live_bytes(), before);
    mf_buffer_trim();
}

/* The pool keeps as much memory as was in use at one time, until
 * mf_buffer_settle(). */
MF_TEST(tensor_storage_of_a_large_step_is_reused)
{
    const mf_shape large = MF_SHAPE((int64_t)600 << 20);
    int64_t calls = mf_buffer_heap_calls();
    mf_tensor t = { 0 };

    for (int i = 0; i < 3; i++) {
        T_OK(mf_tensor_alloc(&t, MF_DTYPE_U8, &large));
        mf_tensor_clear(&t);
    }
    T_EQ(mf_buffer_heap_calls(), calls + 1);
    mf_buffer_settle();
    T_OK(mf_tensor_alloc(&t, MF_DTYPE_U8, &large));
    mf_tensor_clear(&t);
    T_EQ(mf_buffer_heap_calls(), calls + 2);
    mf_buffer_settle();
}
