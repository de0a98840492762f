/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - values after encoding and decoding, and messages that decoding refuses. */
#include "dist/codec/codec.h"

#include "base/mem.h"
#include "base/rng.h"
#include "dist/codec/elias_fano.h"
#include "mf_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2500 }; /* not a multiple of a block */

typedef struct bench {
    mf_arena *arena;
    mf_codec codec;
    mf_codec_item item;
    float x[N], values[N], back[N], memory[2 * N];
    uint8_t bytes[8 * N];
    int64_t size;
} bench;

/* Values of many magnitudes: most are small, some are zero. */
static void draw(float *x, int64_t n, uint64_t seed)
{
    mf_philox gen = mf_philox_init(seed, 7);
    uint32_t r[4];

    for (int64_t i = 0; i < n; i++) {
        mf_philox_next(&gen, r);
        x[i] = r[2] % 16 == 0 ? 0.0f : ldexpf((float)r[0] * 0x1p-32f - 0.5f, -(int)(r[1] % 20));
    }
}

static bench *new_bench(const char *text, int64_t count)
{
    bench *b = calloc(1, sizeof *b);

    b->arena = mf_arena_new();
    T_OK(mf_codec_parse(text, b->arena, &b->codec));
    b->item = (mf_codec_item){ .count = count, .rows = count, .columns = 1, .seed = 5, .step = 3 };
    b->size = b->codec.kind->bytes ? mf_codec_bytes(&b->codec, &b->item) : 0;
    T_TRUE(b->size <= (int64_t)sizeof b->bytes);
    draw(b->x, count, 1);
    return b;
}

static void free_bench(bench *b)
{
    mf_arena_free(b->arena);
    free(b);
}

static void encode(bench *b)
{
    memcpy(b->values, b->x, sizeof b->values);
    mf_codec_encode(&b->codec, &b->item, b->values, b->memory, b->bytes);
}

static void round_trip(bench *b)
{
    encode(b);
    T_OK(mf_codec_decode(&b->codec, &b->item, b->bytes, b->size, b->back));
}

/* ---- all bits ---- */

MF_TEST(codec_lossless_keeps_every_bit_in_fewer_bytes)
{
    static const float special[] = { -0.0f, INFINITY, -INFINITY, 1e-45f, -3e38f, NAN };
    bench *b = new_bench("lossless", N);
    int64_t size, found;

    memcpy(b->x, special, sizeof special);
    memcpy(b->values, b->x, sizeof b->values);
    size = mf_codec_encode(&b->codec, &b->item, b->values, NULL, b->bytes);
    T_TRUE(size < 4 * N && size < b->size);
    T_OK(mf_codec_size(&b->codec, &b->item, b->bytes, sizeof b->bytes, &found));
    T_EQ(found, size);
    T_OK(mf_codec_decode(&b->codec, &b->item, b->bytes, size, b->back));
    T_EQ(memcmp(b->back, b->x, sizeof b->x), 0);
    memset(b->values, 0, sizeof b->values);
    T_TRUE(mf_codec_encode(&b->codec, &b->item, b->values, NULL, b->bytes) < 300);
    free_bench(b);
}

/* A forged message with a valid checksum causes no access beyond the end. */
MF_TEST(codec_lossless_refuses_what_it_cannot_unpack)
{
    bench *b = new_bench("lossless", 200);
    const mf_codec_kind *k = b->codec.kind;
    int64_t size;
    int refused = 0;

    size = k->pack(&b->codec, &b->item, b->x, b->bytes);
    for (int64_t n = 0; n < size; n++)
        T_FAILS(MF_DATA_LOSS, "lossless", k->unpack(&b->codec, &b->item, b->bytes, n, b->back));
    for (int64_t bit = 0; bit < 8 * size; bit++) {
        b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += k->unpack(&b->codec, &b->item, b->bytes, size, b->back) != MF_OK;
        b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    T_TRUE(refused > 0);
    for (int i = 200; i < N; i++)
        T_EQ_F(b->back[i], 0.0);
    T_FAILS(MF_DATA_LOSS, "bytes, not", mf_codec_decode(&b->codec, &b->item, b->bytes, 3, b->back));
    free_bench(b);
}

/* ---- 16 bits ---- */

MF_TEST(codec_fp16_and_bf16_round_as_casts_do)
{
    bench *half = new_bench("fp16", N), *brain = new_bench("bf16", N);
    static const float special[] = { 0.0f,     -0.0f,     65504.0f, 65520.0f, 1e-8f,  6e-8f,
                                     INFINITY, -INFINITY, 3e38f,    1e-40f,   0.333f, NAN };

    memcpy(half->x, special, sizeof special);
    memcpy(brain->x, special, sizeof special);
    round_trip(half);
    round_trip(brain);
    for (int64_t i = 0; i < N; i++) {
        T_EQ_F(half->back[i], mf_f16_to_f32(mf_f16_from_f32(half->x[i])));
        T_EQ_F(brain->back[i], mf_bf16_to_f32(mf_bf16_from_f32(brain->x[i])));
    }
    T_EQ(half->size, 2 * N + 4);
    free_bench(half);
    free_bench(brain);
}

/* ---- int8 ---- */

static float largest(const float *x, int64_t from, int64_t to)
{
    float most = 0.0f;

    for (int64_t i = from; i < to; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static void check_int8(const char *text, int64_t block, double bound)
{
    bench *b = new_bench(text, N);

    round_trip(b);
    for (int64_t at = 0; at < N; at += block) {
        const int64_t end = at + block < N ? at + block : N;
        const double step = (double)largest(b->x, at, end) / 127.0;

        for (int64_t i = at; i < end; i++)
            T_NEAR(b->back[i], b->x[i], bound * step * 1.00001);
    }
    free_bench(b);
}

MF_TEST(codec_int8_error_is_at_most_half_a_step_or_one_with_stochastic_rounding)
{
    check_int8("int8", 256, 0.5);
    check_int8("int8 block=16", 16, 0.5);
    check_int8("int8 rounding=stochastic block=100", 100, 1.0);
}

MF_TEST(codec_int8_with_stochastic_rounding_is_unbiased)
{
    bench *b = new_bench("int8 rounding=stochastic", 256);
    double sum[256] = { 0 };

    for (b->item.step = 0; b->item.step < 400; b->item.step++) {
        round_trip(b);
        for (int i = 0; i < 256; i++)
            sum[i] += (double)b->back[i] / 400.0;
    }
    for (int i = 0; i < 256; i++) /* five standard deviations */
        T_NEAR(sum[i], b->x[i], 5.0 * 0.5 / 20.0 * (double)largest(b->x, 0, 256) / 127.0);
    free_bench(b);
}

MF_TEST(codec_int8_passes_nan_and_inf_through)
{
    bench *b = new_bench("int8 block=10", N);

    b->x[15] = NAN;
    b->x[25] = -INFINITY;
    round_trip(b);
    T_TRUE(isfinite(b->back[9]) && isnan(b->back[15]) && isnan(b->back[25]) &&
           isfinite(b->back[30]));
    free_bench(b);
}

/* ---- top_k ---- */

MF_TEST(codec_top_k_sends_the_largest_and_keeps_the_rest_exactly)
{
    static const char *const texts[] = { "top_k ratio=0.03", "top_k ratio=0.03 values=fp32",
                                         "top_k ratio=1" };

    for (int t = 0; t < MF_COUNT(texts); t++) {
        bench *b = new_bench(texts[t], N);
        float least = INFINITY, most = 0.0f;
        int n = 0;

        round_trip(b);
        for (int64_t i = 0; i < N; i++) {
            T_EQ_F((double)b->back[i] + (double)b->memory[i], b->x[i]);
            if (b->back[i] != 0.0f) {
                n++;
                least = fabsf(b->x[i]) < least ? fabsf(b->x[i]) : least;
            } else if (t < 2) {
                most = fabsf(b->x[i]) > most ? fabsf(b->x[i]) : most;
            }
        }
        if (t < 2)
            T_EQ(n, 75); /* 3 % of 2500 */
        T_TRUE(least >= most);
        free_bench(b);
    }
}

MF_TEST(codec_top_k_sends_everything_eventually)
{
    bench *b = new_bench("top_k ratio=0.1 values=fp32", N);
    float all[N] = { 0 }, whole[N];

    memcpy(whole, b->x, sizeof whole);
    for (int turn = 0; turn < 10; turn++) {
        round_trip(b);
        for (int64_t i = 0; i < N; i++)
            all[i] += b->back[i];
        memset(b->x, 0, sizeof b->x); /* nothing is added any more */
    }
    for (int64_t i = 0; i < N; i++)
        T_EQ_F(all[i], whole[i]);
    free_bench(b);
}

/* One element is always the largest; another is sent only after its residual has grown. */
MF_TEST(codec_top_k_corrects_momentum_and_clears_it_where_values_were_sent)
{
    bench *b = new_bench("top_k ratio=0.0008 momentum=0.5 values=fp32", N); /* two of 2500 */

    memset(b->x, 0, sizeof b->x);
    b->x[7] = 8.0f;
    b->x[9] = 4.0f;
    b->x[11] = 1.0f;
    round_trip(b);
    T_TRUE(b->back[7] == 8.0f && b->back[9] == 4.0f && b->memory[11] == 1.0f);
    T_TRUE(b->memory[N + 7] == 0.0f && b->memory[N + 11] == 1.0f);
    b->x[7] = b->x[9] = 0.0f;
    round_trip(b); /* velocity 0.5 * 1 + 1, added to what was kept */
    T_EQ_F(b->back[11], 2.5f);
    T_EQ_F(b->memory[N + 11], 0.0f);
    free_bench(b);
}

MF_TEST(codec_top_k_sends_more_while_it_warms_up)
{
    bench *b = new_bench("top_k ratio=0.001 warmup=8", N);
    int64_t last = INT64_MAX;

    for (b->item.step = 0; b->item.step <= 8; b->item.step += 2) {
        const int64_t size = mf_codec_bytes(&b->codec, &b->item);

        T_TRUE(size < last);
        last = size;
    }
    free_bench(b);
}

MF_TEST(codec_top_k_keeps_its_residual_if_a_gradient_is_not_finite)
{
    bench *b = new_bench("top_k momentum=0.5", N);
    float before[2 * N];

    encode(b);
    memcpy(before, b->memory, sizeof before);
    b->x[100] = NAN;
    round_trip(b);
    T_TRUE(isnan(b->back[0]));
    T_EQ(memcmp(before, b->memory, sizeof before), 0);
    free_bench(b);
}

/* ---- power_sgd ---- */

MF_TEST(codec_power_sgd_reproduces_its_rank_and_keeps_the_residual)
{
    enum { ROWS = 50, COLUMNS = 40 };
    bench *b = new_bench("power_sgd rank=2", ROWS * COLUMNS);
    const mf_codec_rounds *k = b->codec.kind->rounds;
    float shared[2 * (ROWS + COLUMNS)] = { 0 }, sum[2 * ROWS], u[2][ROWS], v[2][COLUMNS];

    b->item.rows = ROWS;
    b->item.columns = COLUMNS;
    draw(u[0], ROWS, 3);
    draw(u[1], ROWS, 4);
    draw(v[0], COLUMNS, 5);
    draw(v[1], COLUMNS, 6);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        b->x[i] = u[0][i / COLUMNS] * v[0][i % COLUMNS] + u[1][i / COLUMNS] * v[1][i % COLUMNS];
    T_TRUE(b->codec.kind->suits(&b->codec, &b->item));
    k->start(&b->codec, &b->item, shared);
    memcpy(b->values, b->x, sizeof b->values);
    for (int round = 0; round < k->n; round++) {
        k->give(&b->codec, &b->item, round, b->values, b->memory, shared, sum);
        k->take(&b->codec, &b->item, round, sum, shared, b->back);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        T_NEAR(b->back[i], b->x[i], 1e-5);
        T_NEAR(b->back[i] + b->memory[i], b->x[i], 1e-7);
    }
    free_bench(b);
}

MF_TEST(codec_power_sgd_continues_after_a_zero_gradient)
{
    bench *b = new_bench("power_sgd", 1600);
    const mf_codec_rounds *k = b->codec.kind->rounds;
    float shared[2 * 80] = { 0 }, sum[2 * 40];

    b->item.rows = b->item.columns = 40;
    k->start(&b->codec, &b->item, shared);
    for (int step = 0; step < 2; step++) {
        memset(b->values, 0, sizeof b->values);
        if (step == 1)
            b->values[3] = 2.0f;
        for (int round = 0; round < k->n; round++) {
            k->give(&b->codec, &b->item, round, b->values, b->memory, shared, sum);
            k->take(&b->codec, &b->item, round, sum, shared, b->back);
        }
    }
    T_NEAR(b->back[3], 2.0, 1e-6);
    free_bench(b);
}

/* ---- damage ---- */

MF_TEST(codec_messages_with_a_wrong_length_or_bit_are_refused)
{
    static const char *const texts[] = { "fp16", "bf16", "int8 block=16", "top_k ratio=0.1",
                                         "top_k ratio=0.5 values=fp32" };

    for (int t = 0; t < MF_COUNT(texts); t++) {
        bench *b = new_bench(texts[t], 60);

        encode(b);
        for (int64_t size = 0; size < b->size + 10; size++) {
            if (size != b->size)
                T_FAILS(MF_DATA_LOSS, "bytes, not",
                        mf_codec_decode(&b->codec, &b->item, b->bytes, size, b->back));
        }
        for (int64_t bit = 0; bit < 8 * b->size; bit++) {
            b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            T_FAILS(MF_DATA_LOSS, "checksum",
                    mf_codec_decode(&b->codec, &b->item, b->bytes, b->size, b->back));
            b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        T_OK(mf_codec_decode(&b->codec, &b->item, b->bytes, b->size, b->back));
        free_bench(b);
    }
}

/* A forged message with a valid checksum cannot contain a position twice or beyond the end. */
MF_TEST(codec_top_k_checks_places)
{
    bench *b = new_bench("top_k ratio=0.1", 60);
    int refused = 0;

    encode(b);
    for (int64_t bit = 0; bit < 8 * (b->size - 4); bit++) {
        b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        memset(b->back, 0, sizeof b->back);
        refused += b->codec.kind->decode(&b->codec, &b->item, b->bytes, b->back) != MF_OK;
        for (int i = 60; i < N; i++)
            T_EQ_F(b->back[i], 0.0);
        b->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    T_TRUE(refused > 0);
    free_bench(b);
}

/* ---- ascending numbers ---- */

static void check_ascending(int64_t limit, int64_t count)
{
    const mf_elias_fano a = mf_elias_fano_layout(limit, count);
    uint8_t *bytes = calloc((size_t)a.bytes, 1);
    mf_elias_fano_reader r = { .in = bytes, .last = -1 };
    int64_t v;

    for (int64_t i = 0; i < count; i++)
        mf_elias_fano_put(&a, bytes, i, limit - 1 - (count - 1 - i) * (limit / count));
    for (int64_t i = 0; i < count; i++) {
        T_OK(mf_elias_fano_next(&a, &r, &v));
        T_EQ(v, limit - 1 - (count - 1 - i) * (limit / count));
    }
    T_OK(mf_elias_fano_end(&a, &r));
    T_FAILS(MF_DATA_LOSS, "numbers", mf_elias_fano_next(&a, &r, &v));
    free(bytes);
}

MF_TEST(ascending_numbers_round_trip_in_few_bits)
{
    for (int64_t limit = 1; limit < 70; limit++) {
        for (int64_t count = 1; count <= limit; count++)
            check_ascending(limit, count);
    }
    check_ascending(1000003, 10000);
    T_TRUE(mf_elias_fano_layout(1000003, 10000).bytes * 8 < 10000 * 9);
}

/* ---- rules ---- */

static const char *find(const mf_codecs *c, const char *name, int64_t count)
{
    const mf_codec_item item = { .count = count, .rows = count, .columns = 1 };
    const mf_codec *codec = mf_codecs_find(c, name, MF_DTYPE_F32, &item);

    return codec ? codec->kind->name : NULL;
}

MF_TEST(codec_rules_match_names_and_the_first_match_applies)
{
    const mf_codec_item item = { .count = 5000, .rows = 100, .columns = 50 };
    mf_codecs *c;

    T_OK(mf_codecs_parse(" grain=4 ; *bias*: none; dense*:int8 block=64; *emb*: power_sgd; fp16",
                         &c));
    T_EQ(mf_codecs_grain(c), 4);
    T_STREQ(find(c, "dense/kernel", 5000), "int8");
    T_STREQ(find(c, "conv2d/kernel", 5000), "fp16");
    T_STREQ(find(c, "dense/bias", 5000), NULL);
    T_STREQ(find(c, "dense/kernel", 1023), NULL);
    T_STREQ(find(c, "", 5000), NULL);
    T_STREQ(find(c, "emb", 5000), NULL); /* a column: compression would not help */
    T_TRUE(mf_codecs_find(c, "emb", MF_DTYPE_F32, &item) != NULL);
    T_TRUE(mf_codecs_find(c, "emb", MF_DTYPE_F64, &item) == NULL);
    T_STREQ(mf_codecs_with_memory(c)->kind->name, "power_sgd");
    mf_codecs_free(c);
    T_OK(mf_codecs_parse("a*: bf16", &c));
    T_EQ(mf_codecs_grain(c), 1);
    T_STREQ(find(c, "b", 5000), NULL);
    T_TRUE(mf_codecs_with_memory(c) == NULL);
    mf_codecs_free(c);
}

MF_TEST(codec_rules_survive_printing)
{
    static const char *const texts[][2] = {
        { "fp16", "fp16" },
        { "a*: bf16", "a*: bf16" },
        { " grain=4;*bias*:none; dense*:int8 block=64;top_k ratio=0.01",
          "grain=4; *bias*: none; dense*: int8 block=64; top_k ratio=0.00999999978" },
    };

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_buf text = { 0 }, again = { 0 };
        mf_codecs *c;

        T_OK(mf_codecs_parse(texts[i][0], &c));
        mf_codecs_text(c, &text);
        T_STREQ(text.data, texts[i][1]);
        mf_codecs_free(c);
        T_OK(mf_codecs_parse(text.data, &c));
        mf_codecs_text(c, &again);
        T_STREQ(again.data, text.data);
        mf_codecs_free(c);
        mf_buf_deinit(&text);
        mf_buf_deinit(&again);
    }
}

MF_TEST(codec_rules_that_are_invalid_are_refused)
{
    mf_codecs *c;

    T_FAILS(MF_NOT_FOUND, "no codec 'fp17'; did you mean 'fp16'?", mf_codecs_parse("fp17", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "names none", mf_codecs_parse("", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "names none", mf_codecs_parse("grain=2;", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "1, 2, 4, ... 4096", mf_codecs_parse("grain=3; fp16", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "is never used", mf_codecs_parse("fp16; a*: bf16", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "no pattern", mf_codecs_parse(": bf16", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "ratio is 0", mf_codecs_parse("top_k ratio=0.0", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "momentum is 1", mf_codecs_parse("top_k momentum=1.0", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "rank is 65", mf_codecs_parse("power_sgd rank=65", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "did you mean 'block'?", mf_codecs_parse("int8 blok=3", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "one of nearest, stochastic",
            mf_codecs_parse("int8 rounding=up", &c));
}
