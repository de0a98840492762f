/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - matrix products of all number types, split into blocks that run in parallel. The
 * register-blocked loops are in gemm_tile.h, for float, double, and unsigned integers of 32 and 64
 * bits. All other types are computed in one of these: 16-bit floats and narrow integers are widened
 * during packing, and a complex product is four real ones.
 *
 * Work is divided into tiles of C (or groups of small matrices of a batch) by shape alone. */
#include "ops/math/gemm.h"

#include "base/mem.h"
#include "graph/shard.h"
#include "ops/math/register_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* How many vectors wide a block of few rows is: X(rows, vectors). */
#if defined(__AVX512F__)
enum { WIDE_ROWS = 6 };
#define WIDE_CASES(X) X(1, 8) X(2, 8) X(3, 8) X(4, 4) X(5, 4) X(6, 4)
#else
enum { WIDE_ROWS = 3 };
#define WIDE_CASES(X) X(1, 8) X(2, 4) X(3, 4)
#endif

enum {
    ACCUMULATORS = 2 * MR,
    WIDE = 8, /* maximum vectors of a wide block */
    PACK_A_FROM = 8, /* panels */
    PACK_B_FROM = 3 * MR, /* rows, if B is larger than the second-level cache: */
    PACK_B_BYTES = 1 << 20,
    MAX_ROWS = 17 * 14, /* of a tile: A's slice takes half of the second-level cache */
    MAX_COLS = 512, /* of a tile */
    PANELS = 8, /* of B packed at a time: they stay in the second-level cache, too */
    LINES = 8, /* rows of B packed at a time, while the next ones are prefetched */
    PIECES = 16, /* desired number of pieces, if there is enough work */
    SMALL_SCRATCH = 48 * 1024 /* maximum bytes of scratch on the stack */
};
/* Minimum multiply-adds per piece, and per tile once there are several tiles: larger tiles pack
 * less. */
#define PIECE_WORK ((int64_t)1 << 20)
#define TILE_WORK ((int64_t)1 << 22)

/* A tile of C: rows from i0, columns from j0. */
typedef struct gemm_tile {
    int64_t i0, j0, m, n, k;
} gemm_tile;

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Rows of a strip of A: equal strips rather than full ones and a remainder. */
static int64_t strip_rows(int64_t m)
{
    const int64_t strips = (m + MR - 1) / MR;

    return round_up((m + strips - 1) / strips, 2);
}

static int64_t wide_vectors(int rows)
{
    static const int8_t vectors[] = {
#define WIDE_VECTORS(ROWS, VECTORS) [ROWS] = (VECTORS),
        WIDE_CASES(WIDE_VECTORS)
#undef WIDE_VECTORS
    };

    return vectors[rows];
}

/* Equal slices rather than full ones and a remainder. */
static int64_t slice_of_k(int64_t k)
{
    const int64_t slices = k > 0 ? (k + MF_GEMM_K - 1) / MF_GEMM_K : 1;

    return round_up((k + slices - 1) / slices, 4);
}

typedef float vec_f32 __attribute__((vector_size(VECTOR)));
typedef double vec_f64 __attribute__((vector_size(VECTOR)));
typedef uint32_t vec_u32 __attribute__((vector_size(VECTOR)));
typedef uint64_t vec_u64 __attribute__((vector_size(VECTOR)));

static inline float gemm_half_to_float(mf_f16 h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h.bits);
#else
    return mf_f16_to_f32(h);
#endif
}

#define T float
#define V vec_f32
#define LANES (VECTOR / 4)
#define fn(x) f32_##x
#if defined(__AVX512F__)
#define SPLAT(s) ((vec_f32)_mm512_set1_ps(s))
#define MULADD(c, a, b) ((vec_f32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(__FMA__)
#define SPLAT(s) ((vec_f32)_mm256_set1_ps(s))
#define MULADD(c, a, b) ((vec_f32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define SPLAT(s) ((s) - (vec_f32){ 0 })
#define MULADD(c, a, b) ((c) + (a) * (b))
#endif
#include "ops/math/gemm_block.h"
#define PACK_TYPES(X)                                                                              \
    X(MF_DTYPE_F32, float, *p)                                                                     \
    X(MF_DTYPE_F16, mf_f16, gemm_half_to_float(*p))                                                \
    X(MF_DTYPE_BF16, mf_bf16, mf_bf16_to_f32(*p))
#include "ops/math/gemm_tile.h"
#undef PACK_TYPES
#include "ops/math/gemm_end.h"

#define T double
#define V vec_f64
#define LANES (VECTOR / 8)
#define fn(x) f64_##x
#if defined(__AVX512F__)
#define SPLAT(s) ((vec_f64)_mm512_set1_pd(s))
#define MULADD(c, a, b) ((vec_f64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined(__FMA__)
#define SPLAT(s) ((vec_f64)_mm256_set1_pd(s))
#define MULADD(c, a, b) ((vec_f64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define SPLAT(s) ((s) - (vec_f64){ 0 })
#define MULADD(c, a, b) ((c) + (a) * (b))
#endif
#include "ops/math/gemm_block.h"
#define PACK_TYPES(X) X(MF_DTYPE_F64, double, *p)
#include "ops/math/gemm_tile.h"
#undef PACK_TYPES
#include "ops/math/gemm_end.h"

#define T uint32_t
#define V vec_u32
#define LANES (VECTOR / 4)
#define fn(x) u32_##x
#define SPLAT(s) ((s) + (vec_u32){ 0 })
#define MULADD(c, a, b) ((c) + (a) * (b))
#include "ops/math/gemm_block.h"
#define PACK_TYPES(X)                                                                              \
    X(MF_DTYPE_U32, uint32_t, *p)                                                                  \
    X(MF_DTYPE_I32, uint32_t, *p)                                                                  \
    X(MF_DTYPE_I16, int16_t, (uint32_t)*p)                                                         \
    X(MF_DTYPE_U16, uint16_t, *p)                                                                  \
    X(MF_DTYPE_I8, int8_t, (uint32_t)*p)                                                           \
    X(MF_DTYPE_U8, uint8_t, *p)
#include "ops/math/gemm_tile.h"
#undef PACK_TYPES
#include "ops/math/gemm_end.h"

#define T uint64_t
#define V vec_u64
#define LANES (VECTOR / 8)
#define fn(x) u64_##x
#define SPLAT(s) ((s) + (vec_u64){ 0 })
#define MULADD(c, a, b) ((c) + (a) * (b))
#include "ops/math/gemm_block.h"
#define PACK_TYPES(X)                                                                              \
    X(MF_DTYPE_U64, uint64_t, *p)                                                                  \
    X(MF_DTYPE_I64, uint64_t, *p)
#include "ops/math/gemm_tile.h"
#undef PACK_TYPES
#include "ops/math/gemm_end.h"

/* ---- from computed values to C's type ---- */

static void store_row(mf_dtype type, const void *from, void *c, int64_t n)
{
    switch (type) {
    case MF_DTYPE_F16:
        for (int64_t j = 0; j < n; j++)
            ((mf_f16 *)c)[j] = mf_f16_from_f32(((const float *)from)[j]);
        break;
    case MF_DTYPE_BF16:
        for (int64_t j = 0; j < n; j++)
            ((mf_bf16 *)c)[j] = mf_bf16_from_f32(((const float *)from)[j]);
        break;
    case MF_DTYPE_I16:
    case MF_DTYPE_U16:
        for (int64_t j = 0; j < n; j++)
            ((uint16_t *)c)[j] = (uint16_t)((const uint32_t *)from)[j];
        break;
    default: /* 8-bit integers */
        for (int64_t j = 0; j < n; j++)
            ((uint8_t *)c)[j] = (uint8_t)((const uint32_t *)from)[j];
        break;
    }
}

/* ---- tiles by type ---- */

/* The type of the computation; MF_DTYPE_INVALID: unsupported. */
static mf_dtype compute_type(mf_dtype type)
{
    switch (type) {
    case MF_DTYPE_F32:
    case MF_DTYPE_F16:
    case MF_DTYPE_BF16:
    case MF_DTYPE_C64:
        return MF_DTYPE_F32;
    case MF_DTYPE_F64:
    case MF_DTYPE_C128:
        return MF_DTYPE_F64;
    case MF_DTYPE_I8:
    case MF_DTYPE_I16:
    case MF_DTYPE_I32:
    case MF_DTYPE_U8:
    case MF_DTYPE_U16:
    case MF_DTYPE_U32:
        return MF_DTYPE_U32;
    case MF_DTYPE_I64:
    case MF_DTYPE_U64:
        return MF_DTYPE_U64;
    default:
        return MF_DTYPE_INVALID;
    }
}

static bool both_bf16(const mf_gemm *g)
{
    return g->a.type == MF_DTYPE_BF16 && g->b.type == MF_DTYPE_BF16;
}

/* Scratch elements of a tile, in the type of the computation: packed operands, and C if it has
 * another type. */
static int64_t tile_scratch(const mf_gemm *g, const gemm_tile *t)
{
    const int64_t cols = round_up(t->n, f32_nr), most = PANELS * f32_nr;
    const int64_t packed =
        slice_of_k(t->k) * (round_up(t->m, strip_rows(t->m)) + (cols < most ? cols : most));
    const int64_t parts = mf_dtype_is_complex(g->c_type) ? 2 : mf_dtype_cell(g->c_type) < 4 ? 1 : 0;

    return packed + parts * t->m * t->n;
}

#include "ops/math/gemm_shards.h"

#if defined(__AVX512BF16__)
#include "ops/math/gemm_bf16_pack.h"
#endif
#if defined(__AMX_BF16__) && defined(__AVX512BF16__)
#define BF16_BY_AMX 1
#include "ops/math/gemm_amx.h"
#elif defined(__AVX512BF16__)
#include "ops/math/gemm_bf16.h"
#endif

/* Scratch of a tile of two operands of bfloat16, in floats; 0: as others. */
static int64_t bf16_scratch(const gemm_tile *t)
{
#if defined(BF16_BY_AMX)
    return amx_scratch(t) + t->m * t->n;
#else
    (void)t;
    return 0;
#endif
}

/* Tiles of C have a multiple of this many rows. */
static int64_t rows_together(const mf_gemm *g)
{
#if defined(BF16_BY_AMX)
    if (both_bf16(g))
        return AMX_BLOCK;
#endif
    (void)g;
    return MR;
}

static int64_t plain_scratch(const mf_gemm *g, const gemm_tile *t)
{
    const int64_t usual = tile_scratch(g, t), bf16 = both_bf16(g) ? bf16_scratch(t) : 0;

    return bf16 > usual ? bf16 : usual;
}

typedef struct tile_job {
    const mf_gemm *g;
    gemm_tile t;
    const char *a, *b;
    char *c; /* start of this batch */
    char *scratch;
} tile_job;

#define REAL_TILE(ENGINE, CT)                                                                      \
    do {                                                                                           \
        const ENGINE##_view a = { j->a, g->a.type, g->a.row, g->a.col, false };                    \
        const ENGINE##_view b = { j->b, g->b.type, g->b.row, g->b.col, false };                    \
                                                                                                   \
        ENGINE##_tile(&j->t, &a, &b, (CT *)to, to_row, false, (CT *)(void *)scratch);              \
    } while (0)

/* By an instruction for bfloat16 if there is one; otherwise both operands are widened. */
static void two_bf16_tile(const tile_job *j, void *to, int64_t to_row, char *scratch)
{
    const mf_gemm *g = j->g;
#if defined(BF16_BY_AMX)
    const f32_view a = { j->a, g->a.type, g->a.row, g->a.col, false };
    const f32_view b = { j->b, g->b.type, g->b.row, g->b.col, false };

    amx_tile(&j->t, &a, &b, to, to_row, (float *)(void *)scratch);
#elif defined(__AVX512BF16__)
    const f32_view a = { j->a, g->a.type, g->a.row, g->a.col, false };
    const f32_view b = { j->b, g->b.type, g->b.row, g->b.col, false };

    bf16_tile(&j->t, &a, &b, to, to_row, (float *)(void *)scratch);
#else
    REAL_TILE(f32, float);
#endif
}

static void real_tile(const tile_job *j)
{
    const mf_gemm *g = j->g;
    const mf_dtype type = compute_type(g->c_type);
    const size_t cell = mf_dtype_cell(g->c_type);
    const bool narrow = cell < 4;
    char *c = j->c + (size_t)(j->t.i0 * g->c_row + j->t.j0) * cell;
    char *scratch = j->scratch + (narrow ? (size_t)(j->t.m * j->t.n) * 4 : 0);
    void *to = narrow ? j->scratch : c;
    const int64_t to_row = narrow ? j->t.n : g->c_row;

    if (both_bf16(g))
        two_bf16_tile(j, to, to_row, scratch);
    else if (type == MF_DTYPE_F32)
        REAL_TILE(f32, float);
    else if (type == MF_DTYPE_F64)
        REAL_TILE(f64, double);
    else if (type == MF_DTYPE_U32)
        REAL_TILE(u32, uint32_t);
    else
        REAL_TILE(u64, uint64_t);
    for (int64_t i = 0; narrow && i < j->t.m; i++)
        store_row(g->c_type, j->scratch + (size_t)(i * j->t.n) * 4,
                  c + (size_t)(i * g->c_row) * cell, j->t.n);
}

/* (ar + i ai)(br + i bi): the real part is ar br - ai bi, the imaginary one ar bi + ai br. */
#define COMPLEX_TILE(ENGINE, CT, DTYPE)                                                            \
    static void ENGINE##_complex_tile(const tile_job *j)                                           \
    {                                                                                              \
        const mf_gemm *g = j->g;                                                                   \
        const int64_t n = j->t.n, part = j->t.m * n;                                               \
        CT *re = (CT *)(void *)j->scratch, *im = re + part, *scratch = im + part;                  \
        const CT *ap = (const CT *)(const void *)j->a, *bp = (const CT *)(const void *)j->b;       \
        CT *c = (CT *)(void *)j->c + 2 * (j->t.i0 * g->c_row + j->t.j0);                           \
        const ENGINE##_view ar = { ap, DTYPE, 2 * g->a.row, 2 * g->a.col, false };                 \
        const ENGINE##_view br = { bp, DTYPE, 2 * g->b.row, 2 * g->b.col, false };                 \
        ENGINE##_view ai = ar, bi = br;                                                            \
                                                                                                   \
        ai.data = ap + 1;                                                                          \
        bi.data = bp + 1;                                                                          \
        bi.negate = g->b.conj;                                                                     \
        ai.negate = !g->a.conj;                                                                    \
        ENGINE##_tile(&j->t, &ar, &br, re, n, false, scratch);                                     \
        ENGINE##_tile(&j->t, &ai, &bi, re, n, true, scratch);                                      \
        ai.negate = g->a.conj;                                                                     \
        ENGINE##_tile(&j->t, &ar, &bi, im, n, false, scratch);                                     \
        ENGINE##_tile(&j->t, &ai, &br, im, n, true, scratch);                                      \
        for (int64_t i = 0; i < part; i++) {                                                       \
            CT *to = c + 2 * (i / n * g->c_row + i % n);                                           \
                                                                                                   \
            to[0] = re[i];                                                                         \
            to[1] = im[i];                                                                         \
        }                                                                                          \
    }
COMPLEX_TILE(f32, float, MF_DTYPE_F32)
COMPLEX_TILE(f64, double, MF_DTYPE_F64)

static void shards_of_tile(const tile_job *j)
{
    const mf_gemm *g = j->g;
    const f32_view a = { j->a, g->a.type, g->a.row, g->a.col, false };
    const f32_view b = { j->b, g->b.type, g->b.row, g->b.col, false };

    shards_tile(g, &j->t, &a, &b, (float *)(void *)j->c + j->t.i0 * g->c_row + j->t.j0,
                (float *)(void *)j->scratch);
}

static void any_tile(const tile_job *j)
{
    if (j->g->shards > 0)
        shards_of_tile(j);
    else if (j->g->c_type == MF_DTYPE_C64)
        f32_complex_tile(j);
    else if (j->g->c_type == MF_DTYPE_C128)
        f64_complex_tile(j);
    else
        real_tile(j);
}

/* ---- pieces ---- */

typedef struct gemm_job {
    const mf_gemm *g;
    int64_t batch; /* number of matrices */
    int64_t tile_m, tile_n; /* size of a tile */
    int64_t tiles_m, tiles_n; /* tiles in one matrix */
    int64_t batch_per_piece; /* more than one: a tile is a whole matrix */
    int64_t scratch; /* scratch bytes of a tile */
    atomic_int status;
} gemm_job;

/* c_at: offset of the batch. */
static void finish_tile(const mf_gemm *g, int64_t c_at, const gemm_tile *t)
{
    const int64_t at = c_at + t->i0 * g->c_row + t->j0;

    if (t->n == g->c_row) {
        g->then->run(g->then, at, at + t->m * t->n);
        return;
    }
    for (int64_t i = 0; i < t->m; i++)
        g->then->run(g->then, at + i * g->c_row, at + i * g->c_row + t->n);
}

static void run_tile(const gemm_job *job, int64_t batch, int64_t tile, char *scratch)
{
    const mf_gemm *g = job->g;
    const int64_t i0 = tile / job->tiles_n * job->tile_m, j0 = tile % job->tiles_n * job->tile_n;
    tile_job j = { .g = g, .scratch = scratch };
    int64_t rest = batch, a_at = 0, b_at = 0, c_at = 0;

    for (int d = g->batch_rank - 1; d >= 0; d--) {
        const int64_t i = rest % g->batch_dims[d];

        rest /= g->batch_dims[d];
        a_at += i * g->a.batch_stride[d];
        b_at += i * g->b.batch_stride[d];
        c_at += i * g->c_batch_stride[d];
    }
    j.a = (const char *)g->a.data + (size_t)a_at * mf_dtype_cell(g->a.type);
    j.b = (const char *)g->b.data + (size_t)b_at * mf_dtype_cell(g->b.type);
    j.c = (char *)g->c + (size_t)c_at * mf_dtype_cell(g->c_type);
    j.t = (gemm_tile){ i0, j0, g->m - i0 < job->tile_m ? g->m - i0 : job->tile_m,
                       g->n - j0 < job->tile_n ? g->n - j0 : job->tile_n, g->k };
    any_tile(&j);
    if (g->then)
        finish_tile(g, c_at, &j.t);
}

static void run_tiles(const gemm_job *job, int64_t piece, char *scratch)
{
    const int64_t tiles = job->tiles_m * job->tiles_n;

    if (job->batch_per_piece == 1) {
        run_tile(job, piece / tiles, piece % tiles, scratch);
        return;
    }
    for (int64_t b = piece * job->batch_per_piece, n = 0;
         n < job->batch_per_piece && b < job->batch; b++, n++)
        run_tile(job, b, 0, scratch);
}

static void gemm_run_piece(void *ctx, int64_t piece)
{
    gemm_job *job = ctx;
    mf_tensor scratch = { 0 };
    mf_status st;

    if (job->scratch <= SMALL_SCRATCH) {
        _Alignas(64) char small[SMALL_SCRATCH];

        run_tiles(job, piece, small);
        return;
    }
    st = mf_tensor_alloc(&scratch, MF_DTYPE_U8, &MF_SHAPE(job->scratch));
    if (st == MF_OK)
        run_tiles(job, piece, scratch.data);
    else
        atomic_store(&job->status, (int)st);
    mf_tensor_clear(&scratch);
}

/* Halves a side until there are enough tiles, or until tiles would be too small. */
static void cut_tiles(gemm_job *job)
{
    const mf_gemm *g = job->g;
    const int64_t rows = g->shards > 0 ? SHARD_ROWS : MAX_ROWS;
    const int64_t cols = g->shards > 0 ? SHARD_COLS : MAX_COLS;
    int64_t m = g->m < rows ? g->m : rows, n = g->n < cols ? g->n : cols;
    /* A product of bfloat16 takes half the time, and packing takes as long. */
    const int64_t together = rows_together(g);
    const int64_t tile_work = both_bf16(g) ? 2 * TILE_WORK : TILE_WORK;
    int64_t pieces;

    for (;;) {
        job->tiles_m = (g->m + m - 1) / m;
        job->tiles_n = (g->n + n - 1) / n;
        /* Equal tiles rather than full ones and a remainder. */
        m = round_up((g->m + job->tiles_m - 1) / job->tiles_m, together);
        n = round_up((g->n + job->tiles_n - 1) / job->tiles_n, f32_nr);
        pieces = job->batch * job->tiles_m * job->tiles_n;
        if (pieces >= PIECES || m * n / 2 * g->k < (pieces < 4 ? PIECE_WORK : tile_work))
            break;
        if ((n >= m / 2 && n > 64) ||
            m <= together) /* with few rows, B would be repacked too often */
            n /= 2;
        else
            m /= 2;
        if (n < f32_nr)
            break;
    }
    job->tile_m = m;
    job->tile_n = n;
    job->tiles_m = (g->m + m - 1) / m;
    job->tiles_n = (g->n + n - 1) / n;
}

static mf_status gemm_run(const mf_kernel *k, const mf_gemm *g)
{
    const mf_dtype type = compute_type(g->c_type);
    gemm_job job = { .g = g, .batch = 1, .batch_per_piece = 1 };
    gemm_tile tile;
    int64_t work, pieces;

    if (type == MF_DTYPE_INVALID || compute_type(g->a.type) != type ||
        compute_type(g->b.type) != type)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s cannot multiply %s by %s into %s", k->node->op_name,
                       mf_dtype_name(g->a.type), mf_dtype_name(g->b.type),
                       mf_dtype_name(g->c_type));
    for (int d = 0; d < g->batch_rank; d++)
        job.batch *= g->batch_dims[d];
    if (job.batch == 0 || g->m == 0 || g->n == 0)
        return MF_OK;
    cut_tiles(&job);
    work = job.tile_m * job.tile_n * (g->k > 0 ? g->k : 1);
    if (job.tiles_m * job.tiles_n == 1 && work < PIECE_WORK)
        job.batch_per_piece = PIECE_WORK / work;
    tile = (gemm_tile){ 0, 0, job.tile_m, job.tile_n, g->k };
    job.scratch = (int64_t)mf_dtype_cell(type) *
                  (g->shards > 0 ? shards_scratch(g, &tile) : plain_scratch(g, &tile));
    pieces = job.batch_per_piece > 1 ? (job.batch + job.batch_per_piece - 1) / job.batch_per_piece
                                     : job.batch * job.tiles_m * job.tiles_n;
    MF_TRY(mf_kernel_parallel(k, pieces, gemm_run_piece, &job));
    if (atomic_load(&job.status) != MF_OK)
        return MF_FAIL((mf_status)atomic_load(&job.status),
                       "no memory to multiply matrices (%lld bytes per tile)",
                       (long long)job.scratch);
    return MF_OK;
}

/* Types that the same loops compute: PACK_TYPES. */
static uint32_t engine_types(mf_dtype type)
{
    static const uint32_t engines[] = {
        MF_T(MF_DTYPE_F32) | MF_T(MF_DTYPE_F16) | MF_T(MF_DTYPE_BF16),
        MF_T(MF_DTYPE_U32) | MF_T(MF_DTYPE_I32) | MF_T(MF_DTYPE_I16) | MF_T(MF_DTYPE_U16) |
            MF_T(MF_DTYPE_I8) | MF_T(MF_DTYPE_U8),
        MF_T(MF_DTYPE_U64) | MF_T(MF_DTYPE_I64),
    };

    for (int i = 0; i < MF_COUNT(engines); i++) {
        if (engines[i] & MF_T(type))
            return engines[i];
    }
    return MF_T(type);
}

/* Rejects types of other loops: they would be read out of bounds, or not at all. */
static mf_status gemm_check_types(const mf_gemm *g)
{
    const uint32_t types = engine_types(g->c_type);

    if (types & MF_T(g->a.type) && types & MF_T(g->b.type))
        return MF_OK;
    return MF_FAIL(MF_UNIMPLEMENTED, "a product of %s and %s as %s is not supported",
                   mf_dtype_name(g->a.type), mf_dtype_name(g->b.type), mf_dtype_name(g->c_type));
}

mf_status mf_gemm_run(const mf_kernel *k, const mf_gemm *g)
{
    mf_gemm with_shards = *g;
    mf_tensor table = { 0 };
    mf_status st;

    MF_TRY(gemm_check_types(g));
    if (g->shards == 0)
        return gemm_run(k, g);
    st = find_shards(&with_shards, &table);
    if (st == MF_OK)
        st = gemm_run(k, &with_shards);
    mf_tensor_clear(&table);
    return st;
}
