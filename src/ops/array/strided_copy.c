/* SPDX-License-Identifier: Apache-2.0 */
/* strided_copy.c - the copy engine of slices, transposes, concatenations, padding, tiling,
 * reversal. */
#include "ops/array/strided_copy.h"

/* Bytes per piece: enough to be worth a thread, few enough to fit its cache. */
enum { PIECE_BYTES = 128 * 1024, TILE = 16 };

/* Strides are in bytes from here on. A block is the two dimensions that a unit of work loops over;
 * the other dimensions are iterated outside. */
typedef struct strided_copy_block {
    int64_t n0, n1; /* n1 is the inner one */
    int64_t d0, d1, s0, s1; /* strides of destination and source */
} strided_copy_block;

typedef struct strided_copy_move_job {
    mf_dtype dtype;
    int64_t cell; /* bytes copied as one; a short contiguous run counts as a cell */
    char *dst;
    const char *src;
    int rank; /* of the dimensions outside the block */
    int64_t dims[MF_STRIDED_COPY_RANK], to[MF_STRIDED_COPY_RANK], from[MF_STRIDED_COPY_RANK];
    strided_copy_block b;
    void (*copy)(const struct strided_copy_move_job *job, char *dst, const char *src,
                 const strided_copy_block *b);
    bool cut_inner; /* strips divide n1 (then n0 is 1), not n0 */
    int64_t strip, strips; /* lines of the block per unit; units per block */
    int64_t units, units_per_piece;
} strided_copy_move_job;

/* ---- copying one block ---- */

static void copy_runs(const strided_copy_move_job *job, char *dst, const char *src,
                      const strided_copy_block *b)
{
    const size_t bytes = (size_t)(b->n1 * job->cell);

    for (int64_t i = 0; i < b->n0; i++)
        memcpy(dst + i * b->d0, src + i * b->s0, bytes);
}

/* Any strides. The longer loop is the inner one: NCHW with three channels has a short inner
 * dimension. */
#define COPY_CELLS(SIZE)                                                                           \
    static void copy_cells_##SIZE(const strided_copy_move_job *job, char *dst, const char *src,    \
                                  const strided_copy_block *b)                                     \
    {                                                                                              \
        (void)job;                                                                                 \
        if (b->s1 == 0 && b->d1 == (SIZE)) {                                                       \
            for (int64_t i = 0; i < b->n0; i++) {                                                  \
                char *to = dst + i * b->d0, value[SIZE];                                           \
                memcpy(value, src + i * b->s0, SIZE);                                              \
                for (int64_t j = 0; j < b->n1; j++)                                                \
                    memcpy(to + j * (SIZE), value, SIZE);                                          \
            }                                                                                      \
        } else if (b->n1 < 8 && b->n0 > b->n1) {                                                   \
            for (int64_t j = 0; j < b->n1; j++)                                                    \
                for (int64_t i = 0; i < b->n0; i++)                                                \
                    memcpy(dst + i * b->d0 + j * b->d1, src + i * b->s0 + j * b->s1, SIZE);        \
        } else {                                                                                   \
            for (int64_t i = 0; i < b->n0; i++)                                                    \
                for (int64_t j = 0; j < b->n1; j++)                                                \
                    memcpy(dst + i * b->d0 + j * b->d1, src + i * b->s0 + j * b->s1, SIZE);        \
        }                                                                                          \
    }
COPY_CELLS(1)
COPY_CELLS(2)
COPY_CELLS(4)
COPY_CELLS(8)
COPY_CELLS(16)

typedef uint32_t vec8 __attribute__((vector_size(32)));
typedef uint64_t vec4 __attribute__((vector_size(32)));

#define LOW32(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH32(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW64(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH64(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW128(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH128(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

/* Eight by eight cells of four bytes: rows of the source become columns of the destination. */
static inline void transpose_8x8(char *dst, int64_t d0, const char *src, int64_t s1)
{
    vec8 a[8], t[8];

    for (int i = 0; i < 8; i++)
        memcpy(&a[i], src + i * s1, sizeof a[i]);
    for (int i = 0; i < 8; i += 2) {
        t[i] = LOW32(a[i], a[i + 1]);
        t[i + 1] = HIGH32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = LOW64(t[i], t[i + 2]);
        a[i + 1] = HIGH64(t[i], t[i + 2]);
        a[i + 2] = LOW64(t[i + 1], t[i + 3]);
        a[i + 3] = HIGH64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = LOW128(a[i], a[i + 4]);
        t[i + 4] = HIGH128(a[i], a[i + 4]);
    }
    for (int i = 0; i < 8; i++)
        memcpy(dst + i * d0, &t[i], sizeof t[i]);
}

/* Four by four cells of eight bytes. */
static inline void transpose_4x4(char *dst, int64_t d0, const char *src, int64_t s1)
{
    vec4 a[4], t[4];

    for (int i = 0; i < 4; i++)
        memcpy(&a[i], src + i * s1, sizeof a[i]);
    for (int i = 0; i < 4; i += 2) {
        t[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 4, 2, 6);
        t[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        a[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 4, 5);
        a[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 6, 7);
    }
    for (int i = 0; i < 4; i++)
        memcpy(dst + i * d0, &a[i], sizeof a[i]);
}

/* Source cells are adjacent along dimension 0, destination cells along dimension 1. Tiles are small
 * enough that all their cache lines stay in the first-level cache. */
#define TRANSPOSE(SIZE, STEP, MICRO)                                                               \
    static void transpose_##SIZE(const strided_copy_move_job *job, char *dst, const char *src,     \
                                 const strided_copy_block *b)                                      \
    {                                                                                              \
        const int64_t n0 = b->n0 / TILE * TILE, n1 = b->n1 / TILE * TILE;                          \
        strided_copy_block rest = *b;                                                              \
        for (int64_t i = 0; i < n0; i += TILE)                                                     \
            for (int64_t j = 0; j < n1; j += TILE)                                                 \
                for (int64_t ii = i; ii < i + TILE; ii += (STEP))                                  \
                    for (int64_t jj = j; jj < j + TILE; jj += (STEP))                              \
                        MICRO(dst + ii * b->d0 + jj * (SIZE), b->d0,                               \
                              src + jj * b->s1 + ii * (SIZE), b->s1);                              \
        rest.n0 = n0;                                                                              \
        rest.n1 = b->n1 - n1;                                                                      \
        copy_cells_##SIZE(job, dst + n1 * b->d1, src + n1 * b->s1, &rest);                         \
        rest.n0 = b->n0 - n0;                                                                      \
        rest.n1 = b->n1;                                                                           \
        copy_cells_##SIZE(job, dst + n0 * b->d0, src + n0 * b->s0, &rest);                         \
    }
#define PLAIN_MICRO(SIZE)                                                                          \
    static inline void micro_##SIZE(char *dst, int64_t d0, const char *src, int64_t s1)            \
    {                                                                                              \
        for (int64_t i = 0; i < TILE; i++)                                                         \
            for (int64_t j = 0; j < TILE; j++)                                                     \
                memcpy(dst + i * d0 + j * (SIZE), src + j * s1 + i * (SIZE), SIZE);                \
    }
PLAIN_MICRO(1)
PLAIN_MICRO(2)
PLAIN_MICRO(16)
TRANSPOSE(1, TILE, micro_1)
TRANSPOSE(2, TILE, micro_2)
TRANSPOSE(4, 8, transpose_8x8)
TRANSPOSE(8, 4, transpose_4x4)
TRANSPOSE(16, TILE, micro_16)

/* ---- choosing ---- */

/* The copy without dimensions of size 1, and with adjacent dimensions merged if they are contiguous
 * on both sides. Always at least one dimension. */
static void simplify(const mf_strided_copy *m, strided_copy_move_job *job)
{
    int rank = 0;

    for (int d = 0; d < m->rank; d++) {
        const int64_t dim = m->dims[d], to = m->to[d] * job->cell, from = m->from[d] * job->cell;

        if (dim == 1)
            continue;
        if (rank > 0 && job->to[rank - 1] == to * dim && job->from[rank - 1] == from * dim) {
            job->dims[rank - 1] *= dim;
            job->to[rank - 1] = to;
            job->from[rank - 1] = from;
            continue;
        }
        job->dims[rank] = dim;
        job->to[rank] = to;
        job->from[rank++] = from;
    }
    job->rank = rank;
}

static bool is_cell(int64_t bytes)
{
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
}

static void take_dim(strided_copy_move_job *job, int d, int64_t *n, int64_t *to, int64_t *from)
{
    *n = job->dims[d];
    *to = job->to[d];
    *from = job->from[d];
    for (job->rank--; d < job->rank; d++) {
        job->dims[d] = job->dims[d + 1];
        job->to[d] = job->to[d + 1];
        job->from[d] = job->from[d + 1];
    }
}

/* A dimension other than the innermost along which source cells are adjacent; -1: none. */
static int source_inner(const strided_copy_move_job *job)
{
    for (int d = job->rank - 2; d >= 0; d--) {
        if (job->from[d] == job->cell && job->dims[d] >= TILE / 2)
            return d;
    }
    return -1;
}

static void choose_copy(strided_copy_move_job *job)
{
    const strided_copy_block *b = &job->b;
    const bool tiles = b->s0 == job->cell && b->d1 == job->cell && b->s1 != 0;

#define BY_SIZE(NAME)                                                                              \
    (job->cell == 1   ? NAME##_1                                                                   \
     : job->cell == 2 ? NAME##_2                                                                   \
     : job->cell == 4 ? NAME##_4                                                                   \
     : job->cell == 8 ? NAME##_8                                                                   \
                      : NAME##_16)
    if (b->d1 == job->cell && b->s1 == job->cell)
        job->copy = copy_runs;
    else
        job->copy = tiles ? BY_SIZE(transpose) : BY_SIZE(copy_cells);
}

/* Chooses the two dimensions of the block: the innermost, and the dimension that allows tiles or
 * else its neighbour. A long innermost dimension is a block of its own, divided into strips. */
static void choose_block(strided_copy_move_job *job)
{
    const int inner = job->rank - 1;
    strided_copy_block *b = &job->b;
    int second = -1;

    *b = (strided_copy_block){ .n0 = 1, .n1 = 1, .d1 = job->cell, .s1 = job->cell };
    if (inner < 0)
        return;
    if (job->to[inner] == job->cell && job->from[inner] != job->cell && job->from[inner] != 0)
        second = source_inner(job);
    take_dim(job, inner, &b->n1, &b->d1, &b->s1);
    job->cut_inner = b->n1 * job->cell > PIECE_BYTES && second < 0;
    if (!job->cut_inner && job->rank > 0)
        take_dim(job, second >= 0 ? second : job->rank - 1, &b->n0, &b->d0, &b->s0);
}

/* Divides the block into strips of about a piece, and groups small blocks into pieces. */
static void choose_pieces(strided_copy_move_job *job)
{
    const int64_t line = job->cut_inner ? job->cell : job->b.n1 * job->cell;
    const int64_t lines = job->cut_inner ? job->b.n1 : job->b.n0;
    int64_t bytes;

    MF_ASSERT(line > 0); /* empty copies have returned before */
    job->strip = line >= PIECE_BYTES / TILE ? TILE : PIECE_BYTES / line / TILE * TILE;
    job->strips = (lines + job->strip - 1) / job->strip;
    job->units = job->strips;
    for (int d = 0; d < job->rank; d++)
        job->units *= job->dims[d];
    bytes = line * (lines < job->strip ? lines : job->strip);
    job->units_per_piece = bytes >= PIECE_BYTES ? 1 : PIECE_BYTES / bytes;
}

static void strided_copy_plan(strided_copy_move_job *job)
{
    const int inner = job->rank - 1;

    if (inner >= 0 && job->to[inner] == job->cell && job->from[inner] == job->cell &&
        is_cell(job->cell * job->dims[inner]))
        job->cell *= job->dims[--job->rank]; /* a short run is one larger cell */
    choose_block(job);
    choose_copy(job);
    choose_pieces(job);
}

/* ---- running ---- */

/* Copies strip `strip` of the block whose first cells are at dst and src. */
static void run_unit(const strided_copy_move_job *job, char *dst, const char *src, int64_t strip)
{
    const int64_t at = strip * job->strip;
    strided_copy_block b = job->b;
    int64_t *n = job->cut_inner ? &b.n1 : &b.n0;

    *n = *n - at < job->strip ? *n - at : job->strip;
    job->copy(job, dst + at * (job->cut_inner ? b.d1 : b.d0),
              src + at * (job->cut_inner ? b.s1 : b.s0), &b);
}

static void strided_copy_run_piece(void *ctx, int64_t piece)
{
    const strided_copy_move_job *job = ctx;
    const int64_t first = piece * job->units_per_piece;
    const int64_t end = first + job->units_per_piece;
    int64_t strip = first % job->strips, rest = first / job->strips, index[MF_STRIDED_COPY_RANK];
    char *dst = job->dst;
    const char *src = job->src;

    for (int d = job->rank - 1; d >= 0; d--) {
        index[d] = rest % job->dims[d];
        rest /= job->dims[d];
        dst += index[d] * job->to[d];
        src += index[d] * job->from[d];
    }
    for (int64_t unit = first; unit < end && unit < job->units; unit++) {
        run_unit(job, dst, src, strip);
        if (++strip < job->strips)
            continue;
        strip = 0;
        for (int d = job->rank - 1; d >= 0; d--) { /* the next block */
            dst += job->to[d];
            src += job->from[d];
            if (++index[d] < job->dims[d])
                break;
            dst -= job->dims[d] * job->to[d];
            src -= job->dims[d] * job->from[d];
            index[d] = 0;
        }
    }
}

/* Strings and objects: one thread, which owns the error. */
static mf_status run_cells(const strided_copy_move_job *job, int d, char *dst, const char *src)
{
    if (d == job->rank)
        return mf_cells_copy(job->dtype, dst, 0, src, 0, 1);
    if (d == job->rank - 1 && job->to[d] == job->cell && job->from[d] == job->cell)
        return mf_cells_copy(job->dtype, dst, 0, src, 0, job->dims[d]);
    for (int64_t i = 0; i < job->dims[d]; i++)
        MF_TRY(run_cells(job, d + 1, dst + i * job->to[d], src + i * job->from[d]));
    return MF_OK;
}

mf_status mf_strided_copy_run(mf_pool *pool, const mf_strided_copy *m)
{
    strided_copy_move_job job = {
        .dtype = m->dtype, .cell = (int64_t)mf_dtype_cell(m->dtype), .dst = m->dst, .src = m->src
    };
    int64_t pieces;

    for (int d = 0; d < m->rank; d++) {
        if (m->dims[d] == 0)
            return MF_OK;
    }
    simplify(m, &job);
    if (!mf_dtype_is_plain(m->dtype))
        return run_cells(&job, 0, job.dst, job.src);
    strided_copy_plan(&job);
    pieces = (job.units + job.units_per_piece - 1) / job.units_per_piece;
    return mf_pool_parallel(pool, pieces, strided_copy_run_piece, &job);
}

void mf_strides_of(const mf_shape *shape, int64_t *stride)
{
    int64_t step = 1;

    for (int d = shape->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= shape->dims[d];
    }
}

mf_status mf_strided_copy_rows(mf_pool *pool, mf_dtype dtype, void *dst, int64_t dst_at,
                               int64_t dst_step, const void *src, int64_t src_at, int64_t src_step,
                               int64_t rows, int64_t run)
{
    mf_strided_copy m = { .dtype = dtype,
                          .dst = mf_cell_at(dtype, dst, dst_at),
                          .src = mf_cell_at(dtype, src, src_at) };

    mf_strided_copy_add(&m, rows, dst_step, src_step);
    mf_strided_copy_add(&m, run, 1, 1);
    return mf_strided_copy_run(pool, &m);
}
