/* SPDX-License-Identifier: Apache-2.0 */
/* int8_gemm.c - products of bytes, with register blocks as in ops/math/gemm_tile.h. An instruction
 * multiplies and adds a word of adjacent steps of k: four bytes (VNNI), or two bytes widened to 16
 * bits, whose products are exact in 32 bits. (The older instruction for four bytes, vpmaddubsw,
 * saturates.) Sums of integers are exact in any order, so every instruction set gives the same
 * bits. */
#include "ops/quant/int8_gemm.h"

#include "ops/math/register_block.h"
#include "tensor/tensor.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    LANES = VECTOR / 4,
    NR = 2 * LANES, /* columns of a panel */
    PANEL_BYTES = 32 * 1024, /* of B, packed: fits the first-level cache */
};

typedef int32_t vec_i32 __attribute__((vector_size(VECTOR)));

/* sum + the products of the parts of a's words (unsigned) and b's (signed). */
#if defined(__AVX512VNNI__)
#define STEPS_IN_WORD 4
static inline vec_i32 dot_words(vec_i32 sum, vec_i32 a, vec_i32 b)
{
    return (vec_i32)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
#define STEPS_IN_WORD 4
static inline vec_i32 dot_words(vec_i32 sum, vec_i32 a, vec_i32 b)
{
    return (vec_i32)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
}
#elif defined(__AVX512F__)
#define STEPS_IN_WORD 2
static inline vec_i32 dot_words(vec_i32 sum, vec_i32 a, vec_i32 b)
{
    return sum + (vec_i32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
#define STEPS_IN_WORD 2
static inline vec_i32 dot_words(vec_i32 sum, vec_i32 a, vec_i32 b)
{
    return sum + (vec_i32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
#else
#define STEPS_IN_WORD 2
static inline vec_i32 dot_words(vec_i32 sum, vec_i32 a, vec_i32 b)
{
    return sum + (a & 0xffff) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
}
#endif

enum {
    STEPS = STEPS_IN_WORD, /* of k */
    WORDS = PANEL_BYTES / (4 * NR), /* of a column in a panel */
};

/* ---- packing ---- */

typedef int8_t bytes16 __attribute__((vector_size(16)));
typedef int16_t shorts8 __attribute__((vector_size(16)));

static inline bytes16 low_bytes(bytes16 x, bytes16 y)
{
    return __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline bytes16 high_bytes(bytes16 x, bytes16 y)
{
    return __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

static inline void store_words(int32_t *words, shorts8 x)
{
    memcpy(words, &x, sizeof x);
}

/* The words of 16 columns, from one row of bytes for each step. */
#if STEPS_IN_WORD == 4
static inline void weave_words(const bytes16 *row, int32_t *words)
{
    const shorts8 a = (shorts8)low_bytes(row[0], row[1]), b = (shorts8)low_bytes(row[2], row[3]);
    const shorts8 c = (shorts8)high_bytes(row[0], row[1]), d = (shorts8)high_bytes(row[2], row[3]);

    store_words(words, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
    store_words(words + 4, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
    store_words(words + 8, __builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11));
    store_words(words + 12, __builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15));
}
#else
static inline void weave_words(const bytes16 *row, int32_t *words)
{
    const bytes16 low = low_bytes(row[0], row[1]), high = high_bytes(row[0], row[1]), zero = { 0 };

    store_words(words, (shorts8)low_bytes(zero, low) >> 8); /* extends the sign */
    store_words(words + 4, (shorts8)high_bytes(zero, low) >> 8);
    store_words(words + 8, (shorts8)low_bytes(zero, high) >> 8);
    store_words(words + 12, (shorts8)high_bytes(zero, high) >> 8);
}
#endif

/* STEPS rows of NR bytes, `step` apart. */
static inline void pack_words(const int8_t *b, int64_t step, int32_t *words)
{
    for (int64_t j = 0; j < NR; j += 16) {
        bytes16 row[STEPS];

        UNROLL
        for (int s = 0; s < STEPS; s++)
            memcpy(&row[s], b + s * step + j, sizeof *row);
        weave_words(row, words + j);
    }
}

/* k steps for `cols` columns, at most NR, as words[k / STEPS][NR]. */
static void pack_panel(const int8_t *b, int64_t n, int64_t k, int64_t cols, int32_t *words)
{
    int8_t edge[STEPS * NR];

    for (int64_t p = 0; p < k; p += STEPS, b += STEPS * n, words += NR) {
        const int64_t steps = k - p < STEPS ? k - p : STEPS;

        if (cols == NR && steps == STEPS) {
            pack_words(b, n, words);
            continue;
        }
        memset(edge, 0, sizeof edge);
        for (int64_t s = 0; s < steps; s++)
            memcpy(edge + s * NR, b + s * n, (size_t)cols);
        pack_words(edge, NR, words);
    }
}

/* A with 16-bit elements, in rows of whole words. */
static void widen_rows(const uint8_t *a, int64_t m, int64_t k, uint16_t *wide)
{
    for (int64_t i = 0; i < m; i++, a += k) {
        for (int64_t p = 0; p < k; p++)
            *wide++ = a[p];
        if (k % STEPS != 0)
            *wide++ = 0;
    }
}

/* The last, incomplete word of a row that ends at `end` and has k bytes. */
static inline int32_t last_word(const uint8_t *end, int64_t k)
{
    const int64_t bytes = k % 4;
    uint32_t word = 0;

    if (k >= 4) {
        memcpy(&word, end - 4, sizeof word);
        return (int32_t)(word >> (8 * (4 - bytes)));
    }
    for (int64_t i = 0; i < bytes; i++)
        word |= (uint32_t)end[i - bytes] << (8 * i);
    return (int32_t)word;
}

/* ---- a block of registers ---- */

/* A slice of k: whole words, and bytes after them. */
typedef struct int8_slice {
    int64_t words;
    int64_t k; /* 0: no bytes after the words; or the length of a row */
    int64_t a_row; /* bytes */
    const int32_t *b; /* a panel */
    bool add; /* to C */
} int8_slice;

/* mr and nv are constants in each call. */
static inline __attribute__((always_inline)) void int8_block(const int mr, const int nv,
                                                             const int8_slice *s, const uint8_t *a,
                                                             int32_t *c, int64_t c_row)
{
    const uint8_t *rows[3] = { a, a + 5 * s->a_row, a + 10 * s->a_row };
    const int32_t *b = s->b;
    vec_i32 sum[2 * MR], y[2];

    UNROLL
    for (int i = 0; i < mr * nv; i++)
        sum[i] = (vec_i32){ 0 };
    for (int64_t p = 0; p < s->words; p++, b += NR) {
        UNROLL
        for (int j = 0; j < nv; j++)
            memcpy(&y[j], b + j * LANES, sizeof *y);
        UNROLL
        for (int r = 0; r < mr; r++) {
            int32_t word;

            memcpy(&word, rows[r / 5] + r % 5 * s->a_row, sizeof word);
            UNROLL
            for (int j = 0; j < nv; j++)
                sum[r * nv + j] = dot_words(sum[r * nv + j], (vec_i32){ 0 } + word, y[j]);
        }
        UNROLL
        for (int i = 0; i < 3; i++)
            rows[i] += 4;
    }
    if (s->k > 0) {
        UNROLL
        for (int j = 0; j < nv; j++)
            memcpy(&y[j], b + j * LANES, sizeof *y);
        UNROLL
        for (int r = 0; r < mr; r++) {
            const int32_t word = last_word(rows[r / 5] + r % 5 * s->a_row + s->k % 4, s->k);

            UNROLL
            for (int j = 0; j < nv; j++)
                sum[r * nv + j] = dot_words(sum[r * nv + j], (vec_i32){ 0 } + word, y[j]);
        }
    }
    UNROLL
    for (int r = 0; r < mr; r++, c += c_row) {
        UNROLL
        for (int j = 0; j < nv; j++) {
            vec_i32 old;

            if (s->add) {
                memcpy(&old, c + j * LANES, sizeof old);
                sum[r * nv + j] += old;
            }
            memcpy(c + j * LANES, &sum[r * nv + j], sizeof old);
        }
    }
}

static void int8_block_of(int mr, int nv, const int8_slice *s, const uint8_t *a, int32_t *c,
                          int64_t c_row)
{
#if defined(MF_SANITIZED)
    int8_block(mr, nv, s, a, c, c_row);
#else
    switch (2 * mr + nv) {
#define BLOCK_CASE(ROWS)                                                                           \
    case 2 * (ROWS) + 1:                                                                           \
        int8_block(ROWS, 1, s, a, c, c_row);                                                       \
        break;                                                                                     \
    case 2 * (ROWS) + 2:                                                                           \
        int8_block(ROWS, 2, s, a, c, c_row);                                                       \
        break;
        BLOCK_CASES(BLOCK_CASE)
#undef BLOCK_CASE
    }
#endif
}

/* All rows of one panel of columns. */
static void int8_rows(const int8_slice *s, int64_t m, int64_t cols, const uint8_t *a, int32_t *c,
                      int64_t c_row)
{
    const int64_t strips = (m + MR - 1) / MR, strip = (m + strips - 1) / strips;
    const int nv = cols <= LANES ? 1 : 2;
    int8_slice alone = *s; /* for columns that are not a whole number of vectors */
    int32_t edge[MR * NR];

    alone.add = false;
    for (int64_t i = 0; i < m; i += strip) {
        const int mr = (int)(m - i < strip ? m - i : strip);
        int32_t *to = c + i * c_row;

        if (cols == nv * LANES) {
            int8_block_of(mr, nv, s, a + i * s->a_row, to, c_row);
            continue;
        }
        int8_block_of(mr, nv, &alone, a + i * s->a_row, edge, NR);
        for (int r = 0; r < mr; r++, to += c_row) {
            for (int64_t j = 0; j < cols; j++)
                to[j] = s->add ? to[j] + edge[r * NR + j] : edge[r * NR + j];
        }
    }
}

/* a: rows of bytes, or (STEPS == 2) of 16-bit elements in whole words. */
static void int8_panels(int64_t m, int64_t n, int64_t k, const uint8_t *a, int64_t a_row,
                        const int8_t *b, int32_t *c)
{
    _Alignas(64) int32_t panel[PANEL_BYTES / 4];

    for (int64_t j = 0; j < n; j += NR) {
        const int64_t cols = n - j < NR ? n - j : NR;

        for (int64_t k0 = 0; k0 < k; k0 += WORDS * STEPS) {
            const int64_t kc = k - k0 < WORDS * STEPS ? k - k0 : WORDS * STEPS;
            const bool bytes = STEPS == 4 && kc % STEPS != 0;
            const int8_slice s = { bytes ? kc / STEPS : (kc + STEPS - 1) / STEPS, bytes ? k : 0,
                                   a_row, panel, k0 > 0 };

            pack_panel(b + k0 * n + j, n, kc, cols, panel);
            int8_rows(&s, m, cols, a + k0 / STEPS * 4, c + j, n);
        }
    }
}

mf_status mf_int8_gemm(int64_t m, int64_t n, int64_t k, const uint8_t *a, const int8_t *b,
                       int32_t *c)
{
    const int64_t row = (k + STEPS - 1) / STEPS * 4;
    mf_tensor wide = { 0 };

    if (k == 0 && m * n > 0)
        memset(c, 0, (size_t)(m * n) * sizeof *c);
    if (m == 0 || n == 0 || k == 0)
        return MF_OK;
    if (STEPS == 4) {
        int8_panels(m, n, k, a, k, b, c);
        return MF_OK;
    }
    MF_TRY(mf_tensor_alloc(&wide, MF_DTYPE_U8, &MF_SHAPE(m, row)));
    widen_rows(a, m, k, wide.data);
    int8_panels(m, n, k, wide.data, row, b, c);
    mf_tensor_clear(&wide);
    return MF_OK;
}
