/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.c - the loops behind ScatterNd, TensorScatter*, ScatterAdd, ResourceScatter*. */
#include "ops/array/scatter.h"

#include "ops/array/array_util.h"
#include "ops/math/elementwise.h"

/* ---- one row: x = x op y, y being a row or one element ---- */

typedef void row_fn(void *x, const void *y, int64_t n, bool scalar);

#define ROW(NAME, kind, EXPR)                                                                      \
    static void NAME##_##kind(void *px, const void *py, int64_t n, bool scalar)                    \
    {                                                                                              \
        MF_S_##kind *a = px;                                                                       \
        const MF_S_##kind *b = py;                                                                 \
        if (scalar) {                                                                              \
            const MF_C_##kind y = MF_LD_##kind(b, 0);                                              \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const MF_C_##kind x = MF_LD_##kind(a, i);                                          \
                a[i] = MF_ST_##kind(EXPR(x, y));                                                   \
            }                                                                                      \
        } else {                                                                                   \
            MF_IVDEP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const MF_C_##kind x = MF_LD_##kind(a, i), y = MF_LD_##kind(b, i);                  \
                a[i] = MF_ST_##kind(EXPR(x, y));                                                   \
            }                                                                                      \
        }                                                                                          \
    }

#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
#define DIV(x, y) ((x) / (y))
#define MIN(x, y) ((y) < (x) ? (y) : (x))
#define MAX(x, y) ((x) < (y) ? (y) : (x))
#define OR(x, y) ((x) | (y))
#define AND(x, y) ((x) & (y))
/* Integers wrap around, so they are computed as unsigned. */
#define ADD_INT(x, y) ((uint64_t)(x) + (uint64_t)(y))
#define SUB_INT(x, y) ((uint64_t)(x) - (uint64_t)(y))
#define MUL_INT(x, y) ((uint64_t)(x) * (uint64_t)(y))
/* The smallest integer divided by -1 overflows; unsigned negation wraps. */
#define DIV_SIGNED(x, y) ((y) == -1 ? 0 - (uint64_t)(x) : (uint64_t)((x) / (y)))

MF_EACH_FLOAT(ROW, add, ADD)
MF_EACH_COMPLEX(ROW, add, ADD)
MF_EACH_INT(ROW, add, ADD_INT)
MF_EACH_FLOAT(ROW, sub, SUB)
MF_EACH_COMPLEX(ROW, sub, SUB)
MF_EACH_INT(ROW, sub, SUB_INT)
MF_EACH_FLOAT(ROW, mul, MUL)
MF_EACH_COMPLEX(ROW, mul, MUL)
MF_EACH_INT(ROW, mul, MUL_INT)
MF_EACH_FLOAT(ROW, div, DIV)
MF_EACH_COMPLEX(ROW, div, DIV)
MF_EACH_SIGNED(ROW, div, DIV_SIGNED)
MF_EACH_UNSIGNED(ROW, div, DIV)
MF_EACH_FLOAT(ROW, min, MIN)
MF_EACH_INT(ROW, min, MIN)
MF_EACH_FLOAT(ROW, max, MAX)
MF_EACH_INT(ROW, max, MAX)
ROW(add, b8, OR)
ROW(mul, b8, AND)
ROW(min, b8, AND)
ROW(max, b8, OR)

#define NUMBERS(NAME) MF_FN_FLOATS(NAME), MF_FN_INTS(NAME), MF_FN_COMPLEX(NAME)
#define REALS(NAME) MF_FN_FLOATS(NAME), MF_FN_INTS(NAME)
#define BOOL(NAME) [MF_DTYPE_BOOL] = NAME##_b8

static row_fn *const row_fns[MF_SCATTER_COUNT][MF_DTYPE_COUNT] = {
    [MF_SCATTER_ADD] = { NUMBERS(add), BOOL(add) }, [MF_SCATTER_SUB] = { NUMBERS(sub) },
    [MF_SCATTER_MUL] = { NUMBERS(mul), BOOL(mul) }, [MF_SCATTER_DIV] = { NUMBERS(div) },
    [MF_SCATTER_MIN] = { REALS(min), BOOL(min) },   [MF_SCATTER_MAX] = { REALS(max), BOOL(max) },
};

/* ---- checks ---- */

/* "[1,2]": the position of element i in a tensor of this shape. */
static void position_text(const mf_shape *shape, int64_t i, char text[MF_SHAPE_TEXT])
{
    mf_shape at = { .rank = shape->rank };

    for (int d = shape->rank - 1; d >= 0; d--) {
        at.dims[d] = i % shape->dims[d];
        i /= shape->dims[d];
    }
    (void)mf_shape_text(&at, text);
}

mf_status mf_indices_check(const mf_tensor *indices, int64_t limit)
{
    char at[MF_SHAPE_TEXT];

    for (int64_t i = 0; i < indices->count; i++) {
        const int64_t v = mf_index_at(indices, i);

        if (v < 0 || v >= limit) {
            position_text(&indices->shape, i, at);
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "indices%s = %" PRId64 " is not in [0, %" PRId64 ")",
                           indices->shape.rank == 0 ? "" : at, v, limit);
        }
    }
    return MF_OK;
}

static mf_status check_divisors(const mf_scatter *s, int64_t n)
{
    const mf_tensor t = { .dtype = s->dtype, .data = (void *)(uintptr_t)s->updates };

    if (s->op != MF_SCATTER_DIV || !mf_dtype_is_int(s->dtype))
        return MF_OK;
    for (int64_t i = 0; i < n; i++) {
        if (mf_tensor_int_at(&t, i) == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Integer division by zero");
    }
    return MF_OK;
}

/* ---- all rows ---- */

/* Each piece owns a range of rows of x and applies the updates to these rows. */
typedef struct scatter_job {
    const mf_scatter *s;
    row_fn *fn;
    size_t cell;
    int64_t rows_per_piece;
} scatter_job;

static void scatter_piece(void *ctx, int64_t piece)
{
    const scatter_job *job = ctx;
    const mf_scatter *s = job->s;
    const int64_t low = piece * job->rows_per_piece, end = low + job->rows_per_piece;
    const int64_t high = end < s->rows ? end : s->rows;
    const size_t row = (size_t)s->row * job->cell;

    for (int64_t i = 0; i < s->indices->count; i++) {
        const int64_t to = mf_index_at(s->indices, i);
        const char *from = (const char *)s->updates + (s->scalar ? 0 : (size_t)i * row);

        if (to < low || to >= high)
            continue;
        if (job->fn)
            job->fn((char *)s->x + (size_t)to * row, from, s->row, s->scalar);
        else if (!s->scalar)
            memcpy((char *)s->x + (size_t)to * row, from, row);
        else
            for (int64_t j = 0; j < s->row; j++)
                memcpy((char *)s->x + (size_t)to * row + (size_t)j * job->cell, from, job->cell);
    }
}

static mf_status assign_objects(const mf_scatter *s)
{
    for (int64_t i = 0; i < s->indices->count; i++) {
        const int64_t index = mf_index_at(s->indices, i);

        if (index < 0 || index >= s->rows)
            continue;
        if (s->scalar)
            MF_TRY(mf_cells_fill(s->dtype, s->x, index * s->row, s->row, s->updates));
        else
            MF_TRY(mf_cells_copy(s->dtype, s->x, index * s->row, s->updates, i * s->row, s->row));
    }
    return MF_OK;
}

mf_status mf_scatter_run(mf_pool *pool, const mf_scatter *s)
{
    const int64_t n = s->indices->count;
    scatter_job job = { .s = s, .cell = mf_dtype_cell(s->dtype) };
    int64_t pieces = 1;

    job.fn = row_fns[s->op][s->dtype];
    if (!job.fn && s->op != MF_SCATTER_ASSIGN)
        return MF_FAIL(MF_UNIMPLEMENTED, "scatter has no kernel for type %s",
                       mf_dtype_name(s->dtype));
    if (!s->ignore_bad)
        MF_TRY(mf_indices_check(s->indices, s->rows));
    if (n == 0 || s->row == 0)
        return MF_OK;
    MF_TRY(check_divisors(s, s->scalar ? 1 : n * s->row));
    if (!mf_dtype_is_plain(s->dtype))
        return assign_objects(s);
    if (s->row >= 16 && n * s->row >= 65536) { /* otherwise reading the indices once per piece costs
                                                  more */
        pieces = n * s->row / 32768;
        pieces = pieces > 32 ? 32 : pieces;
    }
    job.rows_per_piece = (s->rows + pieces - 1) / pieces;
    mf_pool_complete(pool, pieces, scatter_piece, &job); /* x may be a variable */
    return MF_OK;
}

/* ---- rows addressed by tuples ---- */

mf_status mf_bad_indices_read(const mf_node *node, mf_bad_indices *out)
{
    const char *policy = mf_node_string(node, "bad_indices_policy");

    *out = MF_BAD_INDICES_ERROR;
    if (strcmp(policy, "IGNORE") == 0)
        *out = MF_BAD_INDICES_IGNORE;
    else if (*policy && strcmp(policy, "DEFAULT") != 0 && strcmp(policy, "ERROR") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Unknown bad_indices_policy: '%s'", policy);
    return MF_OK;
}

static mf_status bad_tuple(const mf_tensor *indices, const mf_shape *x, int64_t i, int64_t depth)
{
    mf_shape outer = indices->shape;
    char at[MF_SHAPE_TEXT], into[MF_SHAPE_TEXT];
    mf_buf tuple = { 0 };
    mf_status st;

    if (outer.rank > 0)
        outer.rank--;
    position_text(&outer, i, at);
    for (int64_t d = 0; d < depth; d++)
        mf_buf_printf(&tuple, "%s%" PRId64, d ? ", " : "", mf_index_at(indices, i * depth + d));
    st = MF_FAIL(MF_INVALID_ARGUMENT, "indices%s = [%s] does not index into shape %s",
                 outer.rank ? at : "", tuple.data ? tuple.data : "", mf_shape_text(x, into));
    mf_buf_deinit(&tuple);
    return st;
}

mf_status mf_nd_rows(const mf_tensor *indices, const mf_shape *x, mf_bad_indices bad,
                     mf_tensor *out)
{
    const mf_shape *s = &indices->shape;
    const int64_t depth = s->rank > 0 ? s->dims[s->rank - 1] : 1;
    const int64_t n = mf_shape_span(s, 0, s->rank > 0 ? s->rank - 1 : 0);
    char text[MF_SHAPE_TEXT], of[MF_SHAPE_TEXT];
    int64_t *rows;

    if (depth > x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "index innermost dimension length must be <= params rank; saw: %" PRId64
                       " vs. %d",
                       depth, x->rank);
    if (n > 0 && mf_shape_span(x, 0, x->rank) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Indices specified for an empty tensor. indices shape: %s, its shape: %s",
                       mf_shape_text(s, text), mf_shape_text(x, of));
    MF_TRY(mf_tensor_alloc(out, MF_DTYPE_I64, &MF_SHAPE(n)));
    rows = out->data;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = 0;

        for (int64_t d = 0; d < depth; d++) {
            const int64_t v = mf_index_at(indices, i * depth + d);

            if (v < 0 || v >= x->dims[d]) {
                if (bad == MF_BAD_INDICES_ERROR) {
                    mf_tensor_clear(out);
                    return bad_tuple(indices, x, i, depth);
                }
                row = -1;
                break;
            }
            row = row * x->dims[d] + v;
        }
        rows[i] = row;
    }
    return MF_OK;
}
