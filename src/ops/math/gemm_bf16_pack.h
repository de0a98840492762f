/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_bf16_pack.h - packs bfloat16 for instructions that multiply two adjacent steps of k: they
 * are one word of four bytes. A last step without a partner is paired with zero. Part of gemm.c. */

typedef float bf16_word __attribute__((may_alias));

typedef uint16_t row16 __attribute__((vector_size(16)));
typedef uint16_t row64 __attribute__((vector_size(64)));
typedef uint32_t words4 __attribute__((vector_size(16)));

static inline void store_word(bf16_word *to, mf_bf16 first, mf_bf16 second)
{
    const uint32_t word = first.bits | (uint32_t)second.bits << 16;

    memcpy(to, &word, sizeof word);
}

/* Words of `count` adjacent lines. */
static inline void weave_rows(const mf_bf16 *first, const mf_bf16 *second, int64_t count,
                              bf16_word *to)
{
    int64_t i = 0;

    for (; i + 32 <= count; i += 32) {
        row64 x, y, low, high;

        memcpy(&x, first + i, sizeof x);
        memcpy(&y, second + i, sizeof y);
        low = __builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
        high = __builtin_shufflevector(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54,
                                       23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30,
                                       62, 31, 63);
        memcpy(to + i, &low, sizeof low);
        memcpy(to + i + 16, &high, sizeof high);
    }
    for (; i + 8 <= count; i += 8) {
        row16 x, y, low, high;

        memcpy(&x, first + i, sizeof x);
        memcpy(&y, second + i, sizeof y);
        low = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
        high = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(to + i, &low, sizeof low);
        memcpy(to + i + 4, &high, sizeof high);
    }
    for (; i < count; i++)
        store_word(to + i, first[i], second[i]);
}

/* One line with its steps `step` apart, as a column of `to`. */
static void pack_one_line(const mf_bf16 *from, int64_t step, int64_t kc, int64_t width,
                          bf16_word *to)
{
    for (int64_t p = 0; p < kc; p += 2, to += width)
        store_word(to, from[p * step], p + 1 < kc ? from[(p + 1) * step] : (mf_bf16){ 0 });
}

/* Four lines with adjacent steps: transposes words. */
static void pack_four_lines(const mf_bf16 *from, int64_t line, int64_t kc, int64_t width,
                            bf16_word *to)
{
    int64_t p = 0;

    for (; p + 8 <= kc; p += 8, to += 4 * width) {
        words4 r[4], low[2], high[2], c;

        UNROLL
        for (int l = 0; l < 4; l++)
            memcpy(&r[l], from + l * line + p, sizeof *r);
        UNROLL
        for (int l = 0; l < 2; l++) {
            low[l] = __builtin_shufflevector(r[2 * l], r[2 * l + 1], 0, 4, 1, 5);
            high[l] = __builtin_shufflevector(r[2 * l], r[2 * l + 1], 2, 6, 3, 7);
        }
        c = __builtin_shufflevector(low[0], low[1], 0, 1, 4, 5);
        memcpy(to, &c, sizeof c);
        c = __builtin_shufflevector(low[0], low[1], 2, 3, 6, 7);
        memcpy(to + width, &c, sizeof c);
        c = __builtin_shufflevector(high[0], high[1], 0, 1, 4, 5);
        memcpy(to + 2 * width, &c, sizeof c);
        c = __builtin_shufflevector(high[0], high[1], 2, 3, 6, 7);
        memcpy(to + 3 * width, &c, sizeof c);
    }
    for (int l = 0; l < 4; l++)
        pack_one_line(from + l * line + p, 1, kc - p, width, to + l);
}

/* kc steps of `count` lines (rows of A, columns of B), at most `width`, as words[kc / 2][width]. */
static void pack_strip(const mf_bf16 *from, int64_t line, int64_t step, int64_t count, int64_t kc,
                       int64_t width, bf16_word *to)
{
    static const mf_bf16 zeros[64];

    if (count < width)
        memset(to, 0, (size_t)((kc + 1) / 2 * width) * sizeof *to);
    if (line == 1) {
        for (int64_t p = 0; p < kc; p += 2, from += 2 * step, to += width)
            weave_rows(from, p + 1 < kc ? from + step : zeros, count, to);
    } else if (step == 1 && count >= 4) {
        for (int64_t l = 0; l < count; l += 4) { /* the last lines may be packed twice */
            const int64_t at = l + 4 <= count ? l : count - 4;

            pack_four_lines(from + at * line, line, kc, width, to + at);
        }
    } else {
        for (int64_t l = 0; l < count; l++)
            pack_one_line(from + l * line, step, kc, width, to + l);
    }
}
