/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_bf16.h - the tile of a product of bfloat16 by the instruction vdpbf16ps, which adds the
 * products of two adjacent steps of k to a float: the blocks of gemm_block.h work on words of
 * gemm_bf16_pack.h instead of floats. Part of gemm.c.
 *
 * For a word, the instruction adds the product of the second step, then that of the first one, each
 * like a fused multiply-add, but rounds to nearest whatever the mode is, takes denormal inputs for
 * zero and makes denormal results zero. tests/unit/ops/math/gemm_bf16.c has it as a model. */

#define T bf16_word
#define V vec_f32
#define LANES (VECTOR / 4)
#define fn(x) bf16_##x
#define SPLAT(s) ((vec_f32)_mm512_set1_ps(s))
#define MULADD(c, a, b) ((vec_f32)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#include "ops/math/gemm_block.h"
#include "ops/math/gemm_end.h"

static void pack_strips(const mf_bf16 *from, int64_t line, int64_t step, int64_t n, int64_t kc,
                        int64_t width, bf16_word *to)
{
    for (int64_t j = 0; j < n; j += width)
        pack_strip(from + j * line, line, step, n - j < width ? n - j : width, kc, width,
                   to + j * ((kc + 1) / 2));
}

/* Whole words in A itself. */
static bool has_words(const f32_view *a, const mf_bf16 *at, int64_t kc)
{
    return a->col == 1 && a->row % 2 == 0 && kc % 2 == 0 && (uintptr_t)at % sizeof(bf16_word) == 0;
}

static void bf16_slice(const gemm_tile *t, bf16_panel *p, const mf_bf16 *b, const f32_view *v,
                       int64_t kc, bf16_word *b_pack, float *c, int64_t c_row)
{
    const int64_t most = PANELS * bf16_nr;

    for (int64_t j = 0; j < t->n; j += most) {
        const int64_t width = t->n - j < most ? t->n - j : most;

        pack_strips(b + j * v->col, v->col, v->row, width, kc, bf16_nr, b_pack);
        for (int64_t q = 0; q < width; q += bf16_nr) {
            p->b = b_pack + q * p->kc;
            p->n = width - q < bf16_nr ? width - q : bf16_nr;
            bf16_run_panel(p, (bf16_word *)c + j + q, c_row);
        }
    }
}

/* c[m][n] = a * b. */
static void bf16_tile(const gemm_tile *t, const f32_view *a, const f32_view *b, float *c,
                      int64_t c_row, float *scratch)
{
    const int64_t step = slice_of_k(t->k);
    bf16_panel p = { .m = t->m, .strip = strip_rows(t->m), .b_row = bf16_nr };
    const mf_bf16 *from = (const mf_bf16 *)a->data + t->i0 * a->row;
    const mf_bf16 *columns = (const mf_bf16 *)b->data + t->j0 * b->col;

    for (int64_t i = 0; t->k == 0 && i < t->m; i++)
        memset(c + i * c_row, 0, (size_t)t->n * sizeof *c);
    for (int64_t k0 = 0; k0 < t->k; k0 += step) {
        const int64_t kc = t->k - k0 < step ? t->k - k0 : step;
        const mf_bf16 *at = from + k0 * a->col;
        bf16_word *words = (bf16_word *)scratch;

        p.kc = (kc + 1) / 2;
        p.add = k0 > 0;
        p.a_packed = !has_words(a, at, kc);
        p.a = p.a_packed ? words : (const bf16_word *)(const void *)at;
        p.a_row = a->row / 2;
        p.a_col = 1;
        if (p.a_packed)
            pack_strips(at, a->row, a->col, t->m, kc, p.strip, words);
        bf16_slice(t, &p, columns + k0 * b->row, b, kc, words + round_up(t->m, p.strip) * p.kc, c,
                   c_row);
    }
}
