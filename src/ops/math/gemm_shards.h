/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_shards.h - the tile of a weight's gradient, which is a sum over samples: k is divided into
 * shards, each a product of its own, and the products are added by the reduction tree. Part of
 * gemm.c, for floats.
 *
 * The tree is evaluated while shards are processed in order, with a stack of sums: after shard s
 * there is one sum on the stack for every set bit of s + 1. For short k this happens per register
 * block, so partial sums never leave the first-level cache; otherwise per tile. */

enum { DEPTH = 32 }; /* of the stack: more than the bits of any number of shards */

/* Number of shards that are not empty. */
static int64_t shard_count(const mf_gemm *g)
{
    return g->shards < g->samples ? g->shards : g->samples;
}

/* Start of each shard along k, and the end of the last one: precomputed, because division is slow.
 */
static mf_status find_shards(mf_gemm *g, mf_tensor *table)
{
    const int64_t shards = shard_count(g), per_sample = g->k / g->samples;
    int64_t *k;

    MF_TRY(mf_tensor_alloc(table, MF_DTYPE_I64, &MF_SHAPE(shards + 1)));
    k = table->data;
    for (int64_t s = 0; s <= shards; s++)
        k[s] = per_sample * mf_shard_begin(g->samples, g->shards, s);
    g->shard_k = k;
    return MF_OK;
}

static void add_block(float *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* ---- a block of registers ---- */

enum { BLOCK_SIZE = MR * f32_nr };

/* The block's product over one shard, stored in `to` or (add) added to it. Same slices as without
 * shards. */
static void shard_block(int mr, int64_t k, const float *a, const float *b, float *to, bool add)
{
    const int64_t step = slice_of_k(k);

    for (int64_t k0 = 0; k0 < k; k0 += step)
        f32_block_packed(mr, k - k0 < step ? k - k0 : step, a + k0 * MR, b + k0 * f32_nr, f32_nr,
                         to, f32_nr, add || k0 > 0);
}

enum { QUAD_K = 8 }; /* maximum k of a shard: from 16 on, the larger register block is faster */

/* Two rows and two vectors of columns. */
typedef struct quad_sum {
    v8f r0c0, r0c1, r1c0, r1c1;
} quad_sum;

static inline __attribute__((always_inline)) quad_sum quad_shard(int64_t from, int64_t to,
                                                                 const float *a, const float *b)
{
    quad_sum s = { 0 };

    for (int64_t p = from; p < to; p++) {
        const float x0 = a[p * MR], x1 = a[p * MR + 1];
        v8f y0, y1;

        memcpy(&y0, b + p * f32_nr, sizeof y0);
        memcpy(&y1, b + p * f32_nr + 8, sizeof y1);
        s.r0c0 = f32_muladd(s.r0c0, x0, y0);
        s.r0c1 = f32_muladd(s.r0c1, x0, y1);
        s.r1c0 = f32_muladd(s.r1c0, x1, y0);
        s.r1c1 = f32_muladd(s.r1c1, x1, y1);
    }
    return s;
}

static inline __attribute__((always_inline)) quad_sum quad_add(quad_sum x, quad_sum y)
{
    return (quad_sum){ x.r0c0 + y.r0c0, x.r0c1 + y.r0c1, x.r1c0 + y.r1c0, x.r1c1 + y.r1c1 };
}

/* Two rows of a block over four shards, (0 + 1) + (2 + 3), in registers. k: start of each shard and
 * end of the last one. */
static void quad_rows(const int64_t *k, const float *a, const float *b, float *to)
{
    const quad_sum first = quad_add(quad_shard(k[0], k[1], a, b), quad_shard(k[1], k[2], a, b));
    const quad_sum second = quad_add(quad_shard(k[2], k[3], a, b), quad_shard(k[3], k[4], a, b));
    const quad_sum sum = quad_add(first, second);

    memcpy(to, &sum, sizeof sum); /* rows are contiguous */
}

enum { OCTET = 8 }; /* the default number of shards */

/* Eight shards of one sample each (a batch as large as the number of shards): the whole tree for
 * two rows, stored directly in the result. */
static void octet_rows(const float *a, const float *b, float *c, int64_t c_row)
{
    quad_sum q[2], sum;

    for (int h = 0; h < 2; h++) {
        const int64_t p = h * 4;

        q[h] = quad_add(quad_add(quad_shard(p, p + 1, a, b), quad_shard(p + 1, p + 2, a, b)),
                        quad_add(quad_shard(p + 2, p + 3, a, b), quad_shard(p + 3, p + 4, a, b)));
    }
    sum = quad_add(q[0], q[1]);
    memcpy(c, &sum.r0c0, 2 * sizeof(v8f));
    memcpy(c + c_row, &sum.r1c0, 2 * sizeof(v8f));
}

/* The first shard is the largest. */
static bool quad_fits(const int64_t *k, int64_t s, int64_t shards)
{
    return s % 4 == 0 && s + 4 <= shards && k[s + 1] - k[s] <= QUAD_K;
}

/* a: a strip packed over all of k; b: a panel. */
static void tree_block(const mf_gemm *g, int mr, const float *a, const float *b, float *out)
{
    float stack[DEPTH][BLOCK_SIZE];
    const int64_t shards = shard_count(g);
    int depth = 0;

    for (int64_t s = 0; s < shards; s++) {
        const int64_t k0 = g->shard_k[s], k = g->shard_k[s + 1] - k0;
        const bool pair = s % 2 == 1 && k <= MF_GEMM_K; /* added while still in registers */

        if (quad_fits(g->shard_k, s, shards)) { /* strips are padded to an even number of rows */
            for (int i = 0; i < mr; i += 2)
                quad_rows(g->shard_k + s, a + i, b, stack[depth] + i * f32_nr);
            depth++;
            s += 3;
            for (int64_t t = (s + 1) / 4; t % 2 == 0; t /= 2, depth--)
                add_block(stack[depth - 2], stack[depth - 1], BLOCK_SIZE);
            continue;
        }
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
    const bool octets = shard_count(g) == OCTET && g->k == OCTET;
    float block[BLOCK_SIZE];

    f32_pack_all(a, t->i0 * a->row, a->row, a->col, t->m, g->k, MR, scratch);
    f32_pack_all(b, t->j0 * b->col, b->col, b->row, t->n, g->k, f32_nr, b_pack);
    for (int64_t j = 0; j < t->n; j += f32_nr) {
        const int64_t cols = t->n - j < f32_nr ? t->n - j : f32_nr;

        for (int64_t i = 0; i < t->m; i += MR) {
            const int mr = (int)(t->m - i < MR ? t->m - i : MR);

            if (octets && cols == f32_nr && mr % 2 == 0) {
                for (int r = 0; r < mr; r += 2)
                    octet_rows(scratch + i * g->k + r, b_pack + j * g->k,
                               c + (i + r) * g->c_row + j, g->c_row);
                continue;
            }
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
    const int64_t shards = shard_count(g), size = t->m * t->n;
    float *stack = scratch + tile_scratch(g, t);
    int depth = 0;

    for (int64_t s = 0; s < shards; s++) {
        const int64_t k0 = g->shard_k[s];
        const gemm_tile part = { t->i0, t->j0, t->m, t->n, g->shard_k[s + 1] - k0 };
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
