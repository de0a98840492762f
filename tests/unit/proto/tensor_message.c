/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_message.c - RecvTensorResponse, decoded from any split without copying large contents. */
#include "proto/tensor_message.h"

#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

static void fill(mf_tensor *t, mf_dtype dtype, int64_t n)
{
    const mf_shape shape = { .rank = 2, .dims = { n, 1 } };

    T_OK(mf_tensor_alloc(t, dtype, &shape));
    for (size_t i = 0; i < (size_t)n * mf_dtype_size(dtype); i++)
        ((uint8_t *)t->data)[i] = (uint8_t)(i * 7 % 2);
}

/* The message in one piece. Owns: out. */
static void make(const mf_tensor *t, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    mf_iovec content;

    T_OK(mf_tensor_message_make(t, arena, out, &content));
    if (content.size > 0)
        mf_buf_bytes(out, content.data, content.size);
    mf_iovec_release(&content, 1);
    mf_arena_free(arena);
}

static void check_same(const mf_tensor *a, const mf_tensor *b)
{
    T_EQ(a->dtype, b->dtype);
    T_TRUE(mf_shape_equal(&a->shape, &b->shape));
    T_EQ(memcmp(a->data, b->data, (size_t)a->count * mf_dtype_size(a->dtype)), 0);
}

MF_TEST(tensor_message_is_decoded_from_any_split)
{
    static const mf_dtype types[] = { MF_DTYPE_F32, MF_DTYPE_BOOL, MF_DTYPE_C128, MF_DTYPE_I8 };
    static const int64_t counts[] = { 0, 1, 100, 5000 };

    for (int i = 0; i < 16; i++) {
        mf_tensor t = { 0 };
        mf_buf bytes = { 0 };

        fill(&t, types[i % 4], counts[i / 4]);
        make(&t, &bytes);
        for (size_t at = 0; at <= bytes.len; at += at < 40 ? 1 : 997) {
            mf_iovec parts[2] = { { bytes.data, at, NULL, NULL },
                                  { bytes.data + at, bytes.len - at, NULL, NULL } };
            mf_tensor back = { 0 };
            bool dead;

            T_OK(mf_tensor_message_read(parts, 2, 0, &back, &dead));
            T_TRUE(!dead);
            check_same(&back, &t);
            mf_tensor_clear(&back);
        }
        mf_buf_deinit(&bytes);
        mf_tensor_clear(&t);
    }
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

MF_TEST(tensor_message_does_not_copy_large_contents)
{
    mf_arena *arena = mf_arena_new();
    mf_tensor t = { 0 }, back = { 0 };
    mf_iovec parts[2];
    mf_buf head = { 0 };
    int released = 0;
    bool dead;

    fill(&t, MF_DTYPE_F32, 5000);
    T_OK(mf_tensor_message_make(&t, arena, &head, &parts[1]));
    T_TRUE(parts[1].data == t.data);
    mf_iovec_release(&parts[1], 1);
    parts[0] = (mf_iovec){ head.data, head.len, count, &released };
    parts[1] = (mf_iovec){ t.data, 20000, count, &released };
    T_OK(mf_tensor_message_read(parts, 2, 0, &back, &dead));
    T_TRUE(back.data == t.data && back.buffer->read_only);
    T_EQ(released, 1);
    mf_tensor_clear(&back);
    T_EQ(released, 2);
    parts[0].release = parts[1].release = count;
    head.data[1] ^= 1; /* the length of the tensor */
    T_FAILS(MF_INVALID_ARGUMENT, "", mf_tensor_message_read(parts, 2, 0, &back, &dead));
    T_EQ(released, 4);
    mf_buf_deinit(&head);
    mf_tensor_clear(&t);
    mf_arena_free(arena);
}

MF_TEST(tensor_message_of_a_dead_value_has_no_tensor)
{
    mf_tensor back = { 0 };
    mf_buf bytes = { 0 };
    bool dead = false;

    make(NULL, &bytes);
    T_OK(mf_tensor_message_read(&(mf_iovec){ bytes.data, bytes.len, NULL, NULL }, 1, 0, &back,
                                &dead));
    T_TRUE(dead && !back.buffer);
    mf_buf_deinit(&bytes);
}
