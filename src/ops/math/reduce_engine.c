/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_engine.c - divides a reduction into pieces.
 *
 * Adjacent dimensions that are both kept or both reduced are merged. The remaining ones alternate;
 * the innermost is either reduced (each output element accumulates contiguous runs) or kept (a tile
 * of output columns accumulates rows). Few outputs with many inputs are divided along the reduced
 * dimensions, too: then every part produces partial accumulators, which are merged in the order of
 * the parts. The division depends only on the shape, and the division within one output does not
 * depend on the number of outputs: a sample's bits do not depend on its batch. */
#include "ops/math/reduce_engine.h"

#include <string.h>

enum {
    PART = 32768, /* approximate number of elements per partial accumulator */
    GRAIN = 16384, /* approximate minimum number of elements per piece */
    WIDE = 256, /* narrow rows are combined until they are this wide */
    ACC_MAX = 16, /* bytes of the largest accumulator */
};

/* A subset of the merged dimensions, outermost first. */
typedef struct axes {
    int rank;
    int64_t dim[MF_MAX_RANK + 1], stride[MF_MAX_RANK + 1];
    int64_t count;
} axes;

typedef struct reduce_engine_job {
    const mf_reduce_engine *fold;
    const char *in;
    char *out, *partial;
    size_t item;
    axes keep, reduce; /* without the innermost dimension */
    int64_t inner; /* its length; its stride is 1 */
    bool inner_reduced;
    int64_t count; /* inputs per output */
    /* Outputs (inner_reduced) or tiles of output columns. */
    int64_t groups, tiles, groups_per_piece;
    /* Units of one group: runs or parts of runs; rows. */
    int64_t units, cuts, units_per_part, parts;
} reduce_engine_job;

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void reduce_engine_push(axes *a, int64_t dim, int64_t stride)
{
    a->dim[a->rank] = dim;
    a->stride[a->rank++] = stride;
    a->count *= dim;
}

/* Offset of element `index` of these axes. */
static int64_t reduce_engine_offset_of(const axes *a, int64_t index)
{
    int64_t offset = 0;

    for (int d = a->rank - 1; d > 0; d--) {
        offset += index % a->dim[d] * a->stride[d];
        index /= a->dim[d];
    }
    return a->rank ? offset + index * a->stride[0] : 0;
}

/* Merges dimensions; no dimension of the shape is 0. */
static void plan_axes(reduce_engine_job *j, const mf_shape *shape, const bool *reduced)
{
    int64_t dim[MF_MAX_RANK + 1], stride = 1;
    bool is_reduced[MF_MAX_RANK + 1];
    int n = 0;

    for (int d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == 1)
            continue;
        if (n > 0 && is_reduced[n - 1] == reduced[d]) {
            dim[n - 1] *= shape->dims[d];
        } else {
            dim[n] = shape->dims[d];
            is_reduced[n++] = reduced[d];
        }
    }
    j->keep.count = j->reduce.count = 1;
    j->inner = n ? dim[n - 1] : 1;
    j->inner_reduced = n && is_reduced[n - 1];
    for (int d = n - 1; d >= 0; d--) { /* innermost first, reversed below */
        if (d < n - 1)
            reduce_engine_push(is_reduced[d] ? &j->reduce : &j->keep, dim[d], stride);
        stride *= dim[d];
    }
    for (int k = 0; k < 2; k++) {
        axes *a = k ? &j->keep : &j->reduce;

        for (int i = 0; i < a->rank / 2; i++) {
            const int o = a->rank - 1 - i;
            const int64_t t = a->dim[i], s = a->stride[i];

            a->dim[i] = a->dim[o];
            a->stride[i] = a->stride[o];
            a->dim[o] = t;
            a->stride[o] = s;
        }
    }
    j->count = j->reduce.count * (j->inner_reduced ? j->inner : 1);
}

static void plan_pieces(reduce_engine_job *j)
{
    const int64_t width = j->inner_reduced ? 1 : min_i64(j->inner, MF_REDUCE_ENGINE_TILE);

    j->tiles = j->inner_reduced ? 1 : div_up(j->inner, MF_REDUCE_ENGINE_TILE);
    j->groups = j->keep.count * j->tiles;
    j->cuts = j->inner_reduced ? div_up(j->inner, PART) : 1;
    j->units = j->reduce.count * j->cuts;
    j->units_per_part = j->inner_reduced ? max_i64(1, PART / j->inner) : max_i64(64, PART / width);
    j->parts = div_up(j->units, j->units_per_part);
    j->groups_per_piece = j->parts > 1 ? 1 : max_i64(1, GRAIN / max_i64(1, j->count * width));
}

/* Accumulates rows [from, to) of a tile, all within one run of the innermost reduced dimension.
 * Contiguous narrow rows are combined to fewer, wider ones whose columns are merged afterwards. */
static void reduce_engine_take_rows(const reduce_engine_job *j, void *acc, const char *x,
                                    int64_t cols, int64_t rows, int64_t stride)
{
    _Alignas(16) char wide[WIDE * ACC_MAX];
    const int64_t side = stride == cols ? WIDE / cols : 0;

    if (side > 3 && rows >= 4 * side) {
        const int64_t blocks = rows / side;

        j->fold->init(wide, cols * side);
        j->fold->rows(wide, x, cols * side, blocks, stride * side);
        for (int64_t s = 0; s < side; s++)
            j->fold->merge(acc, wide + (size_t)(s * cols) * j->fold->acc_size, cols);
        x += (size_t)(blocks * side * stride) * j->item;
        rows -= blocks * side;
    }
    if (rows > 0)
        j->fold->rows(acc, x, cols, rows, stride);
}

static void fold_tile(const reduce_engine_job *j, void *acc, const char *x, int64_t cols,
                      int64_t from, int64_t to)
{
    const axes *r = &j->reduce;
    const int64_t run = r->rank ? r->dim[r->rank - 1] : 1;
    const int64_t stride = r->rank ? r->stride[r->rank - 1] : j->inner;

    while (from < to) { /* up to the end of a run of the innermost reduced dimension */
        const int64_t rows = min_i64(run - from % run, to - from);

        reduce_engine_take_rows(j, acc, x + (size_t)reduce_engine_offset_of(r, from) * j->item,
                                cols, rows, stride);
        from += rows;
    }
}

static void fold_runs(const reduce_engine_job *j, void *acc, const char *x, int64_t from,
                      int64_t to)
{
    for (int64_t u = from; u < to; u++) {
        const int64_t run = u / j->cuts, at = u % j->cuts * PART;
        const int64_t n = j->cuts > 1 ? min_i64(PART, j->inner - at) : j->inner;

        j->fold->run(acc, x + (size_t)(reduce_engine_offset_of(&j->reduce, run) + at) * j->item, n);
    }
}

/* Accumulates one part of one group in `acc`. Returns the number of accumulators. */
static int64_t fold_part(const reduce_engine_job *j, int64_t group, int64_t part, void *acc)
{
    const int64_t keep = group / j->tiles, tile = group % j->tiles * MF_REDUCE_ENGINE_TILE;
    const int64_t from = part * j->units_per_part;
    const int64_t to = min_i64(from + j->units_per_part, j->units);
    const int64_t cols = j->inner_reduced ? 1 : min_i64(MF_REDUCE_ENGINE_TILE, j->inner - tile);
    const char *x = j->in + (size_t)(reduce_engine_offset_of(&j->keep, keep) + tile) * j->item;

    j->fold->init(acc, cols);
    if (j->inner_reduced)
        fold_runs(j, acc, x, from, to);
    else
        fold_tile(j, acc, x, cols, from, to);
    return cols;
}

static char *group_out(const reduce_engine_job *j, int64_t group)
{
    const int64_t row = j->inner_reduced ? 1 : j->inner;
    const int64_t at = group / j->tiles * row + group % j->tiles * MF_REDUCE_ENGINE_TILE;

    return j->out + (size_t)at * j->item;
}

static size_t part_bytes(const reduce_engine_job *j)
{
    const int64_t width = j->inner_reduced ? 1 : min_i64(j->inner, MF_REDUCE_ENGINE_TILE);

    return (size_t)width * j->fold->acc_size;
}

/* Many outputs with a short run each: several at once. */
static void run_short(const reduce_engine_job *j, int64_t from, int64_t to)
{
    _Alignas(16) char acc[MF_REDUCE_ENGINE_TILE * ACC_MAX];

    for (int64_t g = from; g < to; g += MF_REDUCE_ENGINE_TILE) {
        const int64_t n = min_i64(MF_REDUCE_ENGINE_TILE, to - g);

        j->fold->runs(acc, j->in + (size_t)(g * j->inner) * j->item, j->inner, n);
        j->fold->store(j->out + (size_t)g * j->item, acc, n, j->count);
    }
}

static void reduce_engine_run_whole(void *ctx, int64_t piece)
{
    const reduce_engine_job *j = ctx;
    const int64_t from = piece * j->groups_per_piece;
    const int64_t to = min_i64(from + j->groups_per_piece, j->groups);
    _Alignas(16) char acc[MF_REDUCE_ENGINE_TILE * ACC_MAX];

    if (j->inner_reduced && j->inner <= MF_REDUCE_ENGINE_SHORT && j->reduce.rank == 0) {
        run_short(j, from, to);
        return;
    }
    for (int64_t g = from; g < to; g++) {
        const int64_t n = fold_part(j, g, 0, acc);

        j->fold->store(group_out(j, g), acc, n, j->count);
    }
}

static void reduce_engine_run_part(void *ctx, int64_t piece)
{
    const reduce_engine_job *j = ctx;

    (void)fold_part(j, piece / j->parts, piece % j->parts,
                    j->partial + (size_t)piece * part_bytes(j));
}

static void reduce_engine_merge_parts(const reduce_engine_job *j)
{
    const size_t bytes = part_bytes(j);
    const int64_t width = (int64_t)(bytes / j->fold->acc_size);

    for (int64_t g = 0; g < j->groups; g++) {
        char *first = j->partial + (size_t)(g * j->parts) * bytes;
        const int64_t at = g % j->tiles * MF_REDUCE_ENGINE_TILE;
        const int64_t n = j->inner_reduced ? 1 : min_i64(width, j->inner - at);

        for (int64_t p = 1; p < j->parts; p++)
            j->fold->merge(first, first + (size_t)p * bytes, n);
        j->fold->store(group_out(j, g), first, n, j->count);
    }
}

/* True if a dimension that is not in `except` is 0. */
static bool has_zero(const mf_shape *shape, const bool *except)
{
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == 0 && !(except && except[d]))
            return true;
    }
    return false;
}

/* No inputs: every output is the result of an empty reduction. */
static void store_empty(const mf_reduce_engine *fold, char *out, const mf_shape *shape,
                        const bool *reduced, size_t item)
{
    _Alignas(16) char acc[MF_REDUCE_ENGINE_TILE * ACC_MAX];
    int64_t n = 1; /* cannot overflow: the output exists */

    for (int d = 0; d < shape->rank; d++)
        n *= reduced[d] ? 1 : shape->dims[d];
    fold->init(acc, MF_REDUCE_ENGINE_TILE);
    for (int64_t at = 0; at < n; at += MF_REDUCE_ENGINE_TILE)
        fold->store(out + (size_t)at * item, acc, min_i64(MF_REDUCE_ENGINE_TILE, n - at), 0);
}

mf_status mf_reduce_engine_run(const mf_reduce_engine *fold, mf_pool *pool, const mf_shape *shape,
                               const bool *reduced, size_t item, const void *in, void *out)
{
    reduce_engine_job j = { .fold = fold, .in = in, .out = out, .item = item };
    mf_tensor partial = { 0 };
    mf_shape bytes = MF_SHAPE(0);
    int64_t pieces;
    mf_status st;

    if (has_zero(shape, NULL)) {
        if (!has_zero(shape, reduced))
            store_empty(fold, out, shape, reduced, item);
        return MF_OK;
    }
    plan_axes(&j, shape, reduced);
    plan_pieces(&j);
    if (j.parts == 1) {
        pieces = div_up(j.groups, j.groups_per_piece);
        return mf_pool_parallel(pool, pieces, reduce_engine_run_whole, &j);
    }
    pieces = j.groups * j.parts;
    bytes.dims[0] = pieces * (int64_t)part_bytes(&j);
    MF_TRY(mf_tensor_alloc(&partial, MF_DTYPE_U8, &bytes));
    j.partial = partial.data;
    st = mf_pool_parallel(pool, pieces, reduce_engine_run_part, &j);
    if (st == MF_OK)
        reduce_engine_merge_parts(&j);
    mf_tensor_clear(&partial);
    return st;
}
