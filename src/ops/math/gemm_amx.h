/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_amx.h - the tile of a product of bfloat16 by AMX, whose registers are matrices of 16 rows of
 * 64 bytes. Part of gemm.c, with B packed by gemm_bf16_pack.h. A block is 32 x 32: four
 * registers of C, two of A, two of B; operands are padded with zeros to whole registers.
 *
 * tdpbf16ps adds the products of 32 steps of k to C: the even steps in one chain, the odd ones in
 * another, then the sum of both to C. Rounding and denormals are as in gemm_bf16.h. The process
 * must have asked the kernel for AMX. */

enum {
    AMX_ROWS = 16, /* of a register */
    AMX_BLOCK = 2 * AMX_ROWS,
    AMX_STEPS = 32, /* of k in a register */
    AMX_SLICE = MF_GEMM_K, /* steps of k packed at a time */
    AMX_WORDS = AMX_SLICE / 2,
};

_Static_assert((int)f32_nr == (int)AMX_BLOCK, "a panel of B is as wide as a block");

static void amx_configure(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };

    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = AMX_ROWS;
    }
    _tile_loadconfig(&config);
}

/* c[32][32] (+)= a[32][words] * b[words][32]; words is a multiple of 16. */
static void amx_block(int64_t words, const bf16_word *a, const bf16_word *b, float *c,
                      int64_t c_row, bool add)
{
    const size_t c_bytes = (size_t)c_row * sizeof *c, a_bytes = AMX_WORDS * sizeof *a;
    const size_t b_bytes = AMX_BLOCK * sizeof *b;
    float *low = c + AMX_ROWS * c_row;

    if (add) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        _tile_loadd(2, low, c_bytes);
        _tile_loadd(3, low + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t p = 0; p < words; p += 16) {
        _tile_loadd(4, a + p, a_bytes);
        _tile_loadd(5, a + AMX_ROWS * AMX_WORDS + p, a_bytes);
        _tile_loadd(6, b + p * AMX_BLOCK, b_bytes);
        _tile_loadd(7, b + p * AMX_BLOCK + 16, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, low, c_bytes);
    _tile_stored(3, low + 16, c_bytes);
}

/* A block of which only some rows and columns exist. */
static void amx_edge(int64_t words, const bf16_word *a, const bf16_word *b, int64_t rows,
                     int64_t cols, float *c, int64_t c_row, bool add)
{
    float edge[AMX_BLOCK * AMX_BLOCK] = { 0 };

    for (int64_t i = 0; add && i < rows; i++)
        memcpy(edge + i * AMX_BLOCK, c + i * c_row, (size_t)cols * sizeof *c);
    amx_block(words, a, b, edge, AMX_BLOCK, add);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * c_row, edge + i * AMX_BLOCK, (size_t)cols * sizeof *c);
}

/* Rows of AMX_WORDS words; rows and steps that do not exist are zero. */
static void amx_pack_rows(const mf_bf16 *from, int64_t row, int64_t col, int64_t m, int64_t kc,
                          bf16_word *to)
{
    mf_bf16 *out = (mf_bf16 *)(void *)to;

    memset(to, 0, (size_t)(round_up(m, AMX_BLOCK) * AMX_WORDS) * sizeof *to);
    for (int64_t i = 0; i < m; i++, from += row, out += AMX_SLICE) {
        if (col == 1) {
            memcpy(out, from, (size_t)kc * sizeof *out);
            continue;
        }
        for (int64_t p = 0; p < kc; p++)
            out[p] = from[p * col];
    }
}

/* In floats. */
static int64_t amx_scratch(const gemm_tile *t)
{
    return AMX_WORDS * (round_up(t->m, AMX_BLOCK) + AMX_BLOCK);
}

/* c[m][n] = a * b. */
static void amx_tile(const gemm_tile *t, const f32_view *a, const f32_view *b, float *c,
                     int64_t c_row, float *scratch)
{
    const mf_bf16 *rows = (const mf_bf16 *)a->data + t->i0 * a->row;
    const mf_bf16 *columns = (const mf_bf16 *)b->data + t->j0 * b->col;
    bf16_word *a_pack = (bf16_word *)scratch;
    bf16_word *b_pack = a_pack + AMX_WORDS * round_up(t->m, AMX_BLOCK);

    for (int64_t i = 0; t->k == 0 && i < t->m; i++)
        memset(c + i * c_row, 0, (size_t)t->n * sizeof *c);
    amx_configure();
    for (int64_t k0 = 0; k0 < t->k; k0 += AMX_SLICE) {
        const int64_t kc = t->k - k0 < AMX_SLICE ? t->k - k0 : AMX_SLICE;
        const int64_t words = round_up(kc, AMX_STEPS) / 2;

        amx_pack_rows(rows + k0 * a->col, a->row, a->col, t->m, kc, a_pack);
        for (int64_t j = 0; j < t->n; j += AMX_BLOCK) {
            const int64_t cols = t->n - j < AMX_BLOCK ? t->n - j : AMX_BLOCK;

            memset(b_pack, 0, (size_t)(words * AMX_BLOCK) * sizeof *b_pack);
            pack_strip(columns + k0 * b->row + j * b->col, b->col, b->row, cols, kc, AMX_BLOCK,
                       b_pack);
            for (int64_t i = 0; i < t->m; i += AMX_BLOCK) {
                const int64_t here = t->m - i < AMX_BLOCK ? t->m - i : AMX_BLOCK;
                float *to = c + i * c_row + j;

                if (here == AMX_BLOCK && cols == AMX_BLOCK)
                    amx_block(words, a_pack + i * AMX_WORDS, b_pack, to, c_row, k0 > 0);
                else
                    amx_edge(words, a_pack + i * AMX_WORDS, b_pack, here, cols, to, c_row, k0 > 0);
            }
        }
    }
    _tile_release();
}
