/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_shards.h - the tile of a weight's gradient, which is a sum over samples: k is cut into
 * shards, each is a product of its own, and these are added in the fixed tree. Part of gemm.c, for
 * floats.
 *
 * The tree is walked while shards come one after the other, with a stack of sums: after shard s
 * there is one sum on the stack for every bit of s + 1. For short k it all happens for one block of
 * registers at a time, so partial sums never leave the first cache; else for a whole tile. */

enum { DEPTH = 32 }; /* of the stack: more than the bits of any number of shards */

/* Where shard s begins along k. */
static int64_t shard_k(const mf_gemm *g, int64_t s)
{
    return g->k / g->samples * mf_shard_begin(g->samples, g->shards, s);
}

static void add_block(float *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* ---- a block of registers ---- */

enum { BLOCK_SIZE = MR * f32_nr };

/* The block's product over one shard into `to`, or (add) onto it. Slices as in the whole. */
static void shard_block(int mr, int64_t k, const float *a, const float *b, float *to, bool add)
{
    const int64_t step = slice_of_k(k);

    for (int64_t k0 = 0; k0 < k; k0 += step)
        f32_block_packed(mr, k - k0 < step ? k - k0 : step, a + k0 * MR, b + k0 * f32_nr, f32_nr,
                         to, f32_nr, add || k0 > 0);
}

/* a: a strip packed over all of k; b: a panel. */
static void tree_block(const mf_gemm *g, int mr, const float *a, const float *b, float *out)
{
    float stack[DEPTH][BLOCK_SIZE];
    const int64_t shards = g->shards < g->samples ? g->shards : g->samples;
    int depth = 0;

    for (int64_t s = 0; s < shards; s++) {
        const int64_t k0 = shard_k(g, s), k = shard_k(g, s + 1) - k0;
        const bool pair = s % 2 == 1 && k <= slice_of_k(k); /* added while still in registers */

        shard_block(mr, k, a + k0 * MR, b + k0 * f32_nr, stack[pair ? depth - 1 : depth], pair);
        depth += !pair;
        for (int64_t t = pair ? (s + 1) / 2 : s + 1; t % 2 == 0; t /= 2, depth--)
            add_block(stack[depth - 2], stack[depth - 1], BLOCK_SIZE);
    }
    for (; depth > 1; depth--)
        add_block(stack[depth - 2], stack[depth - 1], BLOCK_SIZE);
    memcpy(out, stack[0], sizeof stack[0]);
}

static void store_block(const float *block, int64_t rows, int64_t cols, float *c, int64_t c_row)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * c_row, block + i * f32_nr, (size_t)cols * sizeof(float));
}

/* Packed operands: k for every row and column, rounded up to strips and panels. */
static int64_t short_scratch(const mf_gemm *g, const gemm_tile *t)
{
    return g->k * (round_up(t->m, MR) + round_up(t->n, f32_nr));
}

static void short_tile(const mf_gemm *g, const gemm_tile *t, const f32_view *a, const f32_view *b,
                       float *c, float *scratch)
{
    float *b_pack = scratch + g->k * round_up(t->m, MR);
    float block[BLOCK_SIZE];

    f32_pack_all(a, t->i0 * a->row, a->row, a->col, t->m, g->k, MR, scratch);
    f32_pack_all(b, t->j0 * b->col, b->col, b->row, t->n, g->k, f32_nr, b_pack);
    for (int64_t j = 0; j < t->n; j += f32_nr) {
        const int64_t cols = t->n - j < f32_nr ? t->n - j : f32_nr;

        for (int64_t i = 0; i < t->m; i += MR) {
            const int mr = (int)(t->m - i < MR ? t->m - i : MR);

            tree_block(g, mr, scratch + i * g->k, b_pack + j * g->k, block);
            store_block(block, mr, cols, c + i * g->c_row + j, g->c_row);
        }
    }
}

/* ---- a whole tile ---- */

static int stack_depth(const mf_gemm *g)
{
    int depth = 1;

    for (int64_t s = g->shards; s > 1; s = (s + 1) / 2)
        depth++;
    return depth;
}

static int64_t long_scratch(const mf_gemm *g, const gemm_tile *t)
{
    return tile_scratch(g, t) + stack_depth(g) * t->m * t->n;
}

static void long_tile(const mf_gemm *g, const gemm_tile *t, const f32_view *a, const f32_view *b,
                      float *c, float *scratch)
{
    const int64_t shards = g->shards < g->samples ? g->shards : g->samples, size = t->m * t->n;
    float *stack = scratch + tile_scratch(g, t);
    int depth = 0;

    for (int64_t s = 0; s < shards; s++) {
        const int64_t k0 = shard_k(g, s);
        const gemm_tile part = { t->i0, t->j0, t->m, t->n, shard_k(g, s + 1) - k0 };
        f32_view pa = *a, pb = *b;

        pa.data = (const float *)a->data + k0 * a->col;
        pb.data = (const float *)b->data + k0 * b->row;
        f32_tile(&part, &pa, &pb, stack + depth++ * size, t->n, false, scratch);
        for (int64_t n = s + 1; n % 2 == 0; n /= 2, depth--)
            add_block(stack + (depth - 2) * size, stack + (depth - 1) * size, size);
    }
    for (; depth > 1; depth--)
        add_block(stack + (depth - 2) * size, stack + (depth - 1) * size, size);
    for (int64_t i = 0; i < t->m; i++)
        memcpy(c + i * g->c_row, stack + i * t->n, (size_t)t->n * sizeof(float));
}

/* ---- which ---- */

enum { SHORT_K = 1024, SHARD_ROWS = 48, SHARD_COLS = 128 };

static int64_t shards_scratch(const mf_gemm *g, const gemm_tile *t)
{
    return g->k <= SHORT_K ? short_scratch(g, t) : long_scratch(g, t);
}

static void shards_tile(const mf_gemm *g, const gemm_tile *t, const f32_view *a, const f32_view *b,
                        float *c, float *scratch)
{
    if (g->k <= SHORT_K)
        short_tile(g, t, a, b, c, scratch);
    else
        long_tile(g, t, a, b, c, scratch);
}
