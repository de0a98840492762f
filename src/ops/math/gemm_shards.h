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

/* A strip of A over all of k, and a panel of B. */
typedef struct shard_strip {
    const float *a, *b;
    int64_t a_row, a_col, b_row;
    int mr, nv; /* rows, vectors of columns */
} shard_strip;

/* Where a sum goes, and the sums on the stack that are added to it. */
typedef struct shard_sum {
    float *to;
    int64_t row;
    f32_olds olds;
} shard_sum;

/* The strip's product over one shard. Same slices as without shards; all but the last one are added
 * in `block`, which is the place after the sums on the stack. */
static void shard_block(const shard_strip *p, int64_t k0, int64_t k, float *block,
                        const shard_sum *sum)
{
    const int64_t step = slice_of_k(k), row = p->nv * (f32_nr / 2), end = k0 + k;
    f32_olds olds = { block, 0, row, -BLOCK_SIZE };

    for (; k0 + step < end; k0 += step, olds.count = 1)
        f32_block_of(p->mr, p->nv, step, p->a + k0 * p->a_col, p->a_row, p->a_col,
                     p->b + k0 * p->b_row, p->b_row, block, row, &olds);
    olds.at -= olds.count > 0 ? 0 : BLOCK_SIZE;
    olds.count += sum->olds.count;
    f32_block_of(p->mr, p->nv, end - k0, p->a + k0 * p->a_col, p->a_row, p->a_col,
                 p->b + k0 * p->b_row, p->b_row, sum->to, sum->row, &olds);
}

/* Maximum k of a shard in quads: from 16 on, the larger register block is faster. */
enum { QUAD_K = 8, QUAD_ROWS = VECTOR / 16, QUAD = 2 * QUAD_ROWS };

/* In what follows, rows is a constant in each call. */
static inline __attribute__((always_inline)) void quad_shard(const int rows, int64_t k,
                                                             const float *a, int64_t a_row,
                                                             int64_t a_col, const float *b,
                                                             int64_t b_row, vec_f32 *sum)
{
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        sum[i] = (vec_f32){ 0 };
    for (; k > 0; k--, a += a_col, b += b_row) {
        vec_f32 y, z;

        memcpy(&y, b, sizeof y);
        memcpy(&z, b + f32_nr / 2, sizeof z);
        UNROLL
        for (int r = 0; r < rows; r++) {
            sum[2 * r] = f32_muladd(sum[2 * r], a[r * a_row], y);
            sum[2 * r + 1] = f32_muladd(sum[2 * r + 1], a[r * a_row], z);
        }
    }
}

static inline __attribute__((always_inline)) void quad_add(const int rows, vec_f32 *to,
                                                           const vec_f32 *x)
{
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        to[i] = to[i] + x[i];
}

/* A few rows of a block over four shards, (0 + 1) + (2 + 3), in registers. k: start of each shard
 * and end of the last one. each: steps of every shard, a constant; 0: they differ. */
static inline __attribute__((always_inline)) void quad_rows(const int rows, const int64_t each,
                                                            const shard_strip *p, const int64_t *k,
                                                            int64_t row, const shard_sum *sum)
{
    vec_f32 part[3][QUAD];

    UNROLL
    for (int s = 0; s < 4; s++) {
        const int at = s == 0 ? 0 : s == 2 ? 1 : 2;

        quad_shard(rows, each > 0 ? each : k[s + 1] - k[s], p->a + k[s] * p->a_col + row * p->a_row,
                   p->a_row, p->a_col, p->b + k[s] * p->b_row, p->b_row, part[at]);
        if (s % 2 == 1)
            quad_add(rows, part[s / 2], part[2]);
    }
    quad_add(rows, part[0], part[1]);
    for (int64_t i = 0; i < sum->olds.count; i++) {
        const float *from = sum->olds.at + i * sum->olds.step + row * sum->olds.row;

        UNROLL
        for (int v = 0; v < 2 * rows; v++) {
            vec_f32 old;

            memcpy(&old, from + v * (f32_nr / 2), sizeof old); /* rows are contiguous */
            part[0][v] = old + part[0][v];
        }
    }
    UNROLL
    for (int v = 0; v < 2 * rows; v++)
        memcpy(sum->to + (row + v / 2) * sum->row + v % 2 * (f32_nr / 2), &part[0][v],
               sizeof(vec_f32));
}

static inline __attribute__((always_inline)) void
quad_rows_all(const int64_t each, const shard_strip *p, const int64_t *k, const shard_sum *sum)
{
    int64_t i = 0;

    for (; i + QUAD_ROWS <= p->mr; i += QUAD_ROWS)
        quad_rows(QUAD_ROWS, each, p, k, i, sum);
    for (; i < p->mr; i += 2)
        quad_rows(2, each, p, k, i, sum);
}

static void quad_block(const shard_strip *p, const int64_t *k, const shard_sum *sum)
{
    const int64_t each = k[4] - k[3] == k[1] - k[0] ? k[1] - k[0] : 0;

    if (each == 1)
        quad_rows_all(1, p, k, sum);
    else if (each == 4)
        quad_rows_all(4, p, k, sum);
    else
        quad_rows_all(0, p, k, sum);
}

/* The first shard is the largest. */
static bool quad_fits(const shard_strip *p, const int64_t *k, int64_t s, int64_t shards)
{
    return s % 4 == 0 && s + 4 <= shards && k[s + 1] - k[s] <= QUAD_K && p->nv == 2 &&
           p->mr % 2 == 0;
}

/* Sums are on the stack for every set bit of the number of shards processed. The last shard is
 * added to all of them. */
static void tree_block(const mf_gemm *g, const shard_strip *p, float *out, int64_t out_row)
{
    float stack[DEPTH][BLOCK_SIZE];
    const int64_t shards = shard_count(g), row = p->nv * (f32_nr / 2);
    int depth = 0;

    for (int64_t s = 0, step; s < shards; s += step) {
        const int64_t *k = g->shard_k + s;
        const bool quad = quad_fits(p, g->shard_k, s, shards);
        bool last;
        int adds = 0;

        step = quad ? 4 : 1;
        last = s + step == shards;
        for (int64_t n = (s + step) / step; n % 2 == 0; n /= 2)
            adds++;
        adds = last ? depth : adds;
        {
            const shard_sum sum = { last ? out : stack[depth - adds],
                                    last ? out_row : row,
                                    { adds > 0 ? stack[depth - 1] : NULL, adds, row,
                                      -BLOCK_SIZE } };

            if (quad)
                quad_block(p, k, &sum);
            else
                shard_block(p, k[0], k[1] - k[0], stack[depth], &sum);
        }
        depth += 1 - adds;
    }
}

static void store_block(const float *block, int64_t rows, int64_t cols, float *c, int64_t c_row)
{
    for (int64_t i = 0; i < rows; i++, c += c_row, block += f32_nr)
        memcpy(c, block, (size_t)cols * sizeof(float));
}

/* Packed operands: k for every row and column, rounded up to strips and panels. */
static int64_t short_scratch(const mf_gemm *g, const gemm_tile *t)
{
    return g->k * (round_up(t->m, strip_rows(t->m)) + round_up(t->n, f32_nr));
}

static void short_tile(const mf_gemm *g, const gemm_tile *t, const f32_view *a, const f32_view *b,
                       float *c, float *scratch)
{
    const int64_t strip = strip_rows(t->m);
    float *b_pack = scratch + g->k * round_up(t->m, strip);
    float block[BLOCK_SIZE];

    f32_pack_all(a, t->i0 * a->row, a->row, a->col, t->m, g->k, strip, scratch);
    f32_pack_all(b, t->j0 * b->col, b->col, b->row, t->n, g->k, f32_nr, b_pack);
    for (int64_t j = 0; j < t->n; j += f32_nr) {
        const int64_t cols = t->n - j < f32_nr ? t->n - j : f32_nr;
        const int nv = cols <= f32_nr / 2 ? 1 : 2;
        const bool whole = cols == nv * (f32_nr / 2);

        for (int64_t i = 0; i < t->m; i += strip) {
            const int mr = (int)(t->m - i < strip ? t->m - i : strip);
            const shard_strip p = {
                scratch + i * g->k, b_pack + j * g->k, 1, strip, f32_nr, mr, nv
            };
            float *to = c + i * g->c_row + j;

            tree_block(g, &p, whole ? to : block, whole ? g->c_row : f32_nr);
            if (!whole)
                store_block(block, mr, cols, to, g->c_row);
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

enum { SHORT_K = 1024, SHARD_ROWS = VECTOR == 64 ? 56 : 48, SHARD_COLS = 128 };

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
