/* SPDX-License-Identifier: Apache-2.0 */
/* packed.c - packed tensors: their size for few distinct values, and exact round trips. */
#include "formats/packed.h"

#include "formats/huffman.h"
#include "mf_test.h"

#include <math.h>
#include <string.h>

static uint32_t noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* The size of the file, after a check that it round-trips exactly. */
static size_t packed_size(const mf_tensor *t)
{
    mf_arena *arena = mf_arena_new();
    mf_packed_entry *entries;
    mf_tensor back = { 0 };
    mf_buf file = { 0 };
    size_t len;
    int64_t n;

    T_OK(mf_packed_encode((const char *[]){ "t" }, (const mf_tensor *[]){ t }, 1, &file));
    T_OK(mf_packed_decode(file.data, file.len, arena, &entries, &n));
    T_EQ(n, 1);
    T_STREQ(entries[0].name, "t");
    T_OK(mf_packed_unpack(&entries[0], &back));
    T_EQ(back.dtype, t->dtype);
    T_TRUE(mf_shape_equal(&back.shape, &t->shape));
    T_EQ(memcmp(back.data, t->data, (size_t)t->count * mf_dtype_size(t->dtype)), 0);
    len = file.len;
    mf_tensor_clear(&back);
    mf_buf_deinit(&file);
    mf_arena_free(arena);
    return len;
}

enum { ROWS = 200, COLUMNS = 32, N = ROWS * COLUMNS };

static mf_tensor matrix(void)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(ROWS, COLUMNS)));
    return t;
}

MF_TEST(packed_weights_of_many_values_take_four_bytes_each)
{
    mf_tensor t = matrix();
    uint32_t seed = 1;

    for (int i = 0; i < N; i++)
        ((float *)t.data)[i] = (float)noise(&seed) / 3.0f;
    T_TRUE(packed_size(&t) < 4 * N + 64);
    mf_tensor_clear(&t);
}

MF_TEST(packed_weights_that_share_values_take_their_entropy)
{
    mf_tensor t = matrix();
    uint32_t seed = 1;

    for (int i = 0; i < N; i++) /* 16 equally frequent values: 4 bits */
        ((float *)t.data)[i] = (float)(noise(&seed) % 16) - 7.3f;
    T_TRUE(packed_size(&t) < N / 2 + 200);
    for (int i = 0; i < N;
         i++) /* one in sixteen is not zero: 0.34 bits for the position, 4 for the value */
        ((float *)t.data)[i] = noise(&seed) % 16 == 0 ? (float)(noise(&seed) % 16) + 0.5f : 0.0f;
    T_TRUE(packed_size(&t) < (size_t)(N * (0.34 + 4.0 / 16) / 8 * 1.05) + 300);
    mf_tensor_clear(&t);
}

MF_TEST(packed_zeros_are_cheap_even_if_all_other_values_differ)
{
    mf_tensor t = { 0 };
    uint32_t seed = 4;
    int others = 0;

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(400, 200)));
    for (int64_t i = 0; i < t.count; i++) {
        const bool other = noise(&seed) % 10 == 0;

        ((float *)t.data)[i] = other ? (float)noise(&seed) + 0.1f : 0.0f;
        others += other;
    }
    T_TRUE(others > 4096); /* more than a list holds */
    T_TRUE(packed_size(&t) < (size_t)(4 * others) + (size_t)(80000 * 0.47 / 8 * 1.05) + 300);
    mf_tensor_clear(&t);
}

MF_TEST(packed_weights_on_a_grid_by_channel_take_a_byte_at_most)
{
    mf_tensor t = matrix();
    float *x = t.data;
    uint32_t seed = 1;

    for (int i = 0; i < N; i++) {
        const int q = i < COLUMNS ? 127 : (int)(noise(&seed) % 255) - 127;

        x[i] = (float)q * (0.25f + (float)(i % COLUMNS) / 256.0f);
    }
    T_TRUE(packed_size(&t) < N + 128 + 4 * COLUMNS + 64);
    x[COLUMNS + 3] = -0.0f; /* not on the grid; it must survive */
    (void)packed_size(&t);
    T_TRUE(signbit(x[COLUMNS + 3]));
    mf_tensor_clear(&t);
}

MF_TEST(packed_tensors_of_odd_values_and_shapes_survive)
{
    const mf_shape shapes[] = { MF_SCALAR, MF_SHAPE(0), MF_SHAPE(1), MF_SHAPE(3, 0, 2),
                                MF_SHAPE(700) };
    const mf_dtype types[] = { MF_DTYPE_F32, MF_DTYPE_F64, MF_DTYPE_U8,  MF_DTYPE_BF16,
                               MF_DTYPE_I64, MF_DTYPE_C64, MF_DTYPE_C128 };

    for (int s = 0; s < MF_COUNT(shapes); s++) {
        for (int k = 0; k < MF_COUNT(types); k++) {
            mf_tensor t = { 0 };
            size_t bytes;

            T_OK(mf_tensor_alloc(&t, types[k], &shapes[s]));
            bytes = (size_t)t.count * mf_dtype_size(t.dtype);
            memset(t.data, 0, bytes);
            (void)packed_size(&t);
            for (size_t i = 0; i < bytes; i++) /* no zeros, then zeros at the end */
                ((uint8_t *)t.data)[i] = (uint8_t)(i < bytes / 3 ? 255 : 0);
            (void)packed_size(&t);
            mf_tensor_clear(&t);
        }
    }
}

MF_TEST(packed_truncated_or_flipped_files_are_refused)
{
    mf_tensor t = matrix();
    mf_arena *arena = mf_arena_new();
    mf_packed_entry *entries;
    mf_buf file = { 0 };
    uint32_t seed = 7;
    int64_t n;

    for (int i = 0; i < N; i++)
        ((float *)t.data)[i] = noise(&seed) % 4 == 0 ? (float)(noise(&seed) % 9) : 0.0f;
    T_OK(mf_packed_encode((const char *[]){ "t" }, (const mf_tensor *[]){ &t }, 1, &file));
    for (size_t i = 0; i < file.len; i++) {
        T_FAILS(MF_DATA_LOSS, "", mf_packed_decode(file.data, i, arena, &entries, &n));
        file.data[i] ^= 1;
        T_FAILS(MF_DATA_LOSS, "", mf_packed_decode(file.data, file.len, arena, &entries, &n));
        file.data[i] ^= 1;
    }
    mf_buf_deinit(&file);
    mf_tensor_clear(&t);
    mf_arena_free(arena);
}

MF_TEST(packed_damaged_symbols_are_harmless)
{
    mf_tensor t = matrix();
    mf_arena *arena = mf_arena_new();
    mf_packed_entry *entries;
    mf_buf file = { 0 };
    uint32_t seed = 9;
    int refused = 0;
    int64_t n;

    for (int i = 0; i < N; i++)
        ((float *)t.data)[i] = noise(&seed) % 4 == 0 ? (float)(noise(&seed) % 9) : 0.0f;
    T_OK(mf_packed_encode((const char *[]){ "t" }, (const mf_tensor *[]){ &t }, 1, &file));
    T_OK(mf_packed_decode(file.data, file.len, arena, &entries, &n));
    for (size_t i = 0; i < 8 * entries[0].len; i++) {
        uint8_t *data = (uint8_t *)(uintptr_t)entries[0].data;
        mf_tensor back = { 0 };

        data[i / 8] ^= (uint8_t)(1 << i % 8);
        refused += mf_packed_unpack(&entries[0], &back) != MF_OK;
        mf_tensor_clear(&back);
        data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    T_TRUE(refused > 0);
    mf_buf_deinit(&file);
    mf_tensor_clear(&t);
    mf_arena_free(arena);
}

MF_TEST(packed_claims_of_many_elements_in_few_bytes_are_refused)
{
    const mf_packed_entry e = { .name = "t",
                                .dtype = MF_DTYPE_F32,
                                .shape = MF_SHAPE((int64_t)1 << 40),
                                .count = (int64_t)1 << 40,
                                .method = MF_PACKED_SYMBOLS,
                                .data = (const uint8_t *)"\2",
                                .len = 1 };
    mf_tensor back = { 0 };

    T_FAILS(MF_DATA_LOSS, "1099511627776 elements in 1 bytes", mf_packed_unpack(&e, &back));
}

MF_TEST(huffman_codes_are_short_for_frequent_symbols_and_at_most_15_bits)
{
    int64_t counts[64];
    uint8_t lengths[64];
    mf_huffman h = { .n = 64 };

    for (int i = 0; i < 64; i++) /* without a limit the longest would have 62 bits */
        counts[i] = (int64_t)1 << (i < 62 ? i : 62);
    T_OK(mf_huffman_lengths(counts, 64, lengths));
    T_EQ(lengths[63] <= 2, 1);
    memcpy(h.lengths, lengths, sizeof lengths);
    for (int i = 0; i < 64; i++)
        T_TRUE(lengths[i] >= 1 && lengths[i] <= MF_HUFFMAN_BITS);
    T_OK(mf_huffman_make(&h));
    memset(h.lengths, 1, 3);
    h.n = 3;
    T_FAILS(MF_DATA_LOSS, "more codes of 1 bits", mf_huffman_make(&h));
}
