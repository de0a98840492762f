/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_codec.c - TensorProto: all types, short and repeated values, hostile shapes. */
#include "proto/tensor_codec.h"

#include "mf_test.h"

#include <string.h>

/* A TensorProto with room for a shape. */
typedef struct message {
    Tensorflow__TensorProto proto;
    Tensorflow__TensorShapeProto shape;
    Tensorflow__TensorShapeProto__Dim dims[12];
    Tensorflow__TensorShapeProto__Dim *dim_pointers[12];
} message;

static Tensorflow__TensorProto *fill(message *m, int dtype, int rank, const int64_t *dims)
{
    tensorflow__tensor_proto__init(&m->proto);
    tensorflow__tensor_shape_proto__init(&m->shape);
    for (int i = 0; i < rank; i++) {
        tensorflow__tensor_shape_proto__dim__init(&m->dims[i]);
        m->dims[i].size = dims[i];
        m->dim_pointers[i] = &m->dims[i];
    }
    m->shape.n_dim = (size_t)rank;
    m->shape.dim = m->dim_pointers;
    m->proto.dtype = dtype;
    m->proto.tensor_shape = &m->shape;
    return &m->proto;
}

#define FILL(m, dtype, ...)                                                                        \
    fill(&(m), (dtype), (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),               \
         (const int64_t[]){ __VA_ARGS__ })

static void set_content(message *m, const void *data, size_t len)
{
    m->proto.tensor_content.data = (uint8_t *)(uintptr_t)data;
    m->proto.tensor_content.len = len;
}

MF_TEST(tensor_without_shape_is_a_scalar)
{
    Tensorflow__TensorProto proto = TENSORFLOW__TENSOR_PROTO__INIT;
    float value = 2.5f;
    mf_tensor t = { 0 };

    proto.dtype = MF_DTYPE_F32;
    proto.n_float_val = 1;
    proto.float_val = &value;
    T_OK(mf_tensor_decode(&proto, 0, &t));
    T_EQ(t.shape.rank, 0);
    T_EQ_F(mf_tensor_float_at(&t, 0), 2.5);
    mf_tensor_clear(&t);
}

MF_TEST(tensor_fewer_values_repeat_the_last_and_none_are_zeros)
{
    message m;
    int32_t values[] = { 7, -2 };
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_I32, 2, 3);
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ(mf_tensor_int_at(&t, 5), 0);
    mf_tensor_clear(&t);
    m.proto.n_int_val = 2;
    m.proto.int_val = values;
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ(mf_tensor_int_at(&t, 0), 7);
    for (int64_t i = 1; i < 6; i++)
        T_EQ(mf_tensor_int_at(&t, i), -2);
    mf_tensor_clear(&t);
    FILL(m, MF_DTYPE_I32, 1);
    m.proto.n_int_val = 2;
    m.proto.int_val = values;
    T_FAILS(MF_INVALID_ARGUMENT, "2 values for a tensor of 1 elements",
            mf_tensor_decode(&m.proto, 0, &t));
}

MF_TEST(tensor_narrow_types_are_encoded_in_wider_fields)
{
    static const struct {
        mf_dtype dtype;
        int32_t in;
        int64_t out;
    } cases[] = {
        { MF_DTYPE_U8, 200, 200 },
        { MF_DTYPE_I8, -3, -3 },
        { MF_DTYPE_I16, -300, -300 },
        { MF_DTYPE_U16, 65535, 65535 },
    };
    message m;
    mf_tensor t = { 0 };

    for (int i = 0; i < MF_COUNT(cases); i++) {
        int32_t in = cases[i].in;

        FILL(m, (int)cases[i].dtype, 2);
        m.proto.n_int_val = 1;
        m.proto.int_val = &in;
        T_OK(mf_tensor_decode(&m.proto, 0, &t));
        T_EQ(mf_tensor_int_at(&t, 1), cases[i].out);
        mf_tensor_clear(&t);
    }
}

MF_TEST(tensor_halves_are_bits_and_complex_are_pairs)
{
    message m;
    int32_t half = 0x3c00, bfloat = 0x3f80;
    double pair[] = { 1.5, -2.5 };
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_F16, 2);
    m.proto.n_half_val = 1;
    m.proto.half_val = &half;
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ_F(mf_tensor_float_at(&t, 1), 1.0);
    mf_tensor_clear(&t);
    FILL(m, MF_DTYPE_BF16, 2);
    m.proto.n_half_val = 1;
    m.proto.half_val = &bfloat;
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ_F(mf_tensor_float_at(&t, 1), 1.0);
    mf_tensor_clear(&t);
    FILL(m, MF_DTYPE_C128, 3);
    m.proto.n_dcomplex_val = 2;
    m.proto.dcomplex_val = pair;
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ_F(((double *)t.data)[4], 1.5);
    T_EQ_F(((double *)t.data)[5], -2.5);
    mf_tensor_clear(&t);
    m.proto.n_dcomplex_val = 1;
    T_FAILS(MF_INVALID_ARGUMENT, "pairs", mf_tensor_decode(&m.proto, 0, &t));
}

MF_TEST(tensor_content_has_exactly_the_length_of_the_shape)
{
    message m;
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_I16, 2);
    set_content(&m, "\x01\x00\xff\xff", 4);
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_EQ(mf_tensor_int_at(&t, 1), -1);
    mf_tensor_clear(&t);
    for (size_t len = 1; len < 8; len++) {
        set_content(&m, "\x01\x00\xff\xff\0\0\0", len);
        if (len != 4)
            T_FAILS(MF_INVALID_ARGUMENT, "bytes of content for 2 elements of type int16",
                    mf_tensor_decode(&m.proto, 0, &t));
    }
    T_TRUE(t.buffer == NULL);
}

MF_TEST(tensor_bools_are_zero_or_one)
{
    message m;
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_BOOL, 3);
    set_content(&m, "\x00\x01\xfe", 3);
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    T_TRUE(memcmp(t.data, "\x00\x01\x01", 3) == 0);
    mf_tensor_clear(&t);
}

MF_TEST(tensor_string_content_is_lengths_then_bytes)
{
    static const char content[] = "\x0b\x0e"
                                  "hello world  foo bar baz ";
    message m;
    mf_tensor t = { 0 };
    const mf_string *s;

    FILL(m, MF_DTYPE_STRING, 2);
    set_content(&m, content, sizeof content - 1);
    T_OK(mf_tensor_decode(&m.proto, 0, &t));
    s = t.data;
    T_EQ(s[0].len, 11);
    T_TRUE(memcmp(s[1].data, "  foo bar baz ", 14) == 0);
    mf_tensor_clear(&t);
    for (size_t len = 1; len < sizeof content - 1; len++) {
        set_content(&m, content, len);
        T_FAILS(MF_INVALID_ARGUMENT, "", mf_tensor_decode(&m.proto, 0, &t));
    }
    set_content(&m, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 11);
    T_FAILS(MF_INVALID_ARGUMENT, "string 0 runs past", mf_tensor_decode(&m.proto, 0, &t));
    set_content(&m, "\x00\x80\x80", 3);
    T_FAILS(MF_INVALID_ARGUMENT, "length of string 1", mf_tensor_decode(&m.proto, 0, &t));
}

MF_TEST(tensor_string_values_repeat_within_the_budget)
{
    ProtobufCBinaryData value = { .len = 3, .data = (uint8_t[]){ 'a', 0, 'b' } };
    message m;
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_STRING, 4);
    m.proto.n_string_val = 1;
    m.proto.string_val = &value;
    T_OK(mf_tensor_decode(&m.proto, 1000, &t));
    T_EQ(((mf_string *)t.data)[3].len, 3);
    mf_tensor_clear(&t);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "4 elements would need more than 66 bytes",
            mf_tensor_decode(&m.proto, 66, &t));
}

MF_TEST(tensor_hostile_shapes_are_refused_before_allocation)
{
    const int64_t big = (int64_t)1 << 62;
    const int64_t live = mf_buffer_live_bytes();
    message m;
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_F32, (int64_t)1 << 31);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "2147483648 elements", mf_tensor_decode(&m.proto, 1 << 20, &t));
    FILL(m, MF_DTYPE_F32, big);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "elements", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_STRING, big);
    T_FAILS(MF_RESOURCE_EXHAUSTED, "elements", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, big, big);
    T_FAILS(MF_INVALID_ARGUMENT, "more than 2^63", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, 0, big, big);
    T_FAILS(MF_INVALID_ARGUMENT, "more than 2^63", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, -1);
    T_FAILS(MF_INVALID_ARGUMENT, "not fully known", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, -2);
    T_FAILS(MF_INVALID_ARGUMENT, "dimension 0 of a shape is -2", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, INT64_MIN);
    T_FAILS(MF_INVALID_ARGUMENT, "dimension 0", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_U8, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    T_FAILS(MF_INVALID_ARGUMENT, "rank 9 is above the limit of 8",
            mf_tensor_decode(&m.proto, 0, &t));
    T_EQ(mf_buffer_live_bytes(), live);
}

MF_TEST(tensor_types_without_value_encoding_are_named)
{
    message m;
    mf_tensor t = { 0 };

    FILL(m, MF_DTYPE_RESOURCE, 1);
    T_FAILS(MF_UNIMPLEMENTED, "type resource", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_VARIANT, 1);
    T_FAILS(MF_UNIMPLEMENTED, "type variant", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, MF_DTYPE_F32 + MF_DTYPE_REF, 1);
    T_FAILS(MF_INVALID_ARGUMENT, "float_ref", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, 25, 1);
    T_FAILS(MF_UNIMPLEMENTED, "element type 25", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, -5, 1);
    T_FAILS(MF_UNIMPLEMENTED, "element type -5", mf_tensor_decode(&m.proto, 0, &t));
    FILL(m, 0, 1);
    T_FAILS(MF_INVALID_ARGUMENT, "without element type", mf_tensor_decode(&m.proto, 0, &t));
}

MF_TEST(tensor_encode_and_decode_give_the_same_tensor)
{
    mf_arena *arena = mf_arena_new();
    Tensorflow__TensorProto *proto;

    for (int dtype = 1; dtype < MF_DTYPE_COUNT; dtype++) {
        mf_tensor t = { 0 }, back = { 0 };

        if (!mf_dtype_is_plain((mf_dtype)dtype))
            continue;
        T_OK(mf_tensor_alloc(&t, (mf_dtype)dtype, &MF_SHAPE(2, 3)));
        memset(t.data, 1, 6 * mf_dtype_size((mf_dtype)dtype));
        T_OK(mf_tensor_encode(&t, arena, &proto));
        T_OK(mf_tensor_decode(proto, 1 << 10, &back));
        T_EQ(back.dtype, dtype);
        T_TRUE(mf_shape_equal(&back.shape, &t.shape));
        T_TRUE(memcmp(back.data, t.data, 6 * mf_dtype_size((mf_dtype)dtype)) == 0);
        mf_tensor_clear(&t);
        mf_tensor_clear(&back);
    }
    mf_arena_free(arena);
}

MF_TEST(tensor_strings_are_encoded_as_values)
{
    mf_arena *arena = mf_arena_new();
    Tensorflow__TensorProto *proto;
    mf_tensor t = { 0 }, back = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_STRING, &MF_SHAPE(2)));
    T_OK(mf_string_set((mf_string *)t.data + 1, "x\0y", 3));
    T_OK(mf_tensor_encode(&t, arena, &proto));
    T_EQ(proto->n_string_val, 2);
    T_OK(mf_tensor_decode(proto, 0, &back));
    T_EQ(((mf_string *)back.data)[0].len, 0);
    T_TRUE(memcmp(((mf_string *)back.data)[1].data, "x\0y", 3) == 0);
    mf_tensor_clear(&t);
    mf_tensor_clear(&back);
    mf_arena_free(arena);
}

MF_TEST(shape_messages_keep_unknown_dimensions)
{
    mf_arena *arena = mf_arena_new();
    const mf_shape shapes[] = { MF_SCALAR, MF_SHAPE_UNKNOWN, MF_SHAPE(2, MF_UNKNOWN_DIM, 0) };
    Tensorflow__TensorShapeProto *proto;
    mf_shape back;

    for (int i = 0; i < MF_COUNT(shapes); i++) {
        T_OK(mf_shape_encode(&shapes[i], arena, &proto));
        T_OK(mf_shape_decode(proto, &back));
        T_TRUE(mf_shape_equal(&shapes[i], &back));
    }
    proto->unknown_rank = 1;
    T_FAILS(MF_INVALID_ARGUMENT, "unknown rank has 3 dimensions", mf_shape_decode(proto, &back));
    T_OK(mf_shape_decode(NULL, &back));
    T_EQ(back.rank, 0);
    mf_arena_free(arena);
}
