/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_engine_types.c - the innermost loops of reductions, one set per op and type. */
#include "ops/math/elementwise.h"
#include "ops/math/reduce_engine.h"

#include <math.h>

/* LANES partial sums are kept so that the loop vectorises without reordering; after BLOCK elements
 * (or ROW_BLOCK rows) they are added to the wide accumulator. */
enum { LANES = 32, BLOCK = 4096, ROW_BLOCK = 64 };

#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
/* A NaN wins on either side. */
#define FMAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define FMIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define IMAX(a, b) ((b) > (a) ? (b) : (a))
#define IMIN(a, b) ((b) < (a) ? (b) : (a))
#define SAME(x) (x)
#define SQUARE(x) ((x) * (x))

/* NAME_run_kind and so on: elements of `kind` are converted to LANE, mapped by MAP, combined by OP
 * and accumulated in ACC. */
#define FOLD(NAME, kind, LANE, ACC, NEUTRAL, MAP, OP)                                              \
    static void NAME##_init_##kind(void *acc, int64_t n)                                           \
    {                                                                                              \
        ACC *a = acc;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            a[i] = (ACC)(NEUTRAL);                                                                 \
    }                                                                                              \
    static LANE NAME##_block_##kind(const MF_S_##kind *x, int64_t n)                               \
    {                                                                                              \
        LANE lane[LANES];                                                                          \
        int64_t i = 0;                                                                             \
        for (int j = 0; j < LANES; j++)                                                            \
            lane[j] = (LANE)(NEUTRAL);                                                             \
        for (; i + LANES <= n; i += LANES) {                                                       \
            for (int j = 0; j < LANES; j++) {                                                      \
                const LANE v = (LANE)MF_LD_##kind(x, i + j);                                       \
                lane[j] = (LANE)OP(lane[j], (LANE)MAP(v));                                         \
            }                                                                                      \
        }                                                                                          \
        for (int j = 0; i < n; i++, j++) {                                                         \
            const LANE v = (LANE)MF_LD_##kind(x, i);                                               \
            lane[j] = (LANE)OP(lane[j], (LANE)MAP(v));                                             \
        }                                                                                          \
        for (int w = LANES / 2; w > 0; w /= 2) {                                                   \
            for (int j = 0; j < w; j++)                                                            \
                lane[j] = (LANE)OP(lane[j], lane[j + w]);                                          \
        }                                                                                          \
        return lane[0];                                                                            \
    }                                                                                              \
    static void NAME##_run_##kind(void *acc, const void *in, int64_t n)                            \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        ACC total = *(ACC *)acc;                                                                   \
        if (n <= MF_REDUCE_ENGINE_SHORT) {                                                         \
            LANE part = (LANE)(NEUTRAL);                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const LANE v = (LANE)MF_LD_##kind(x, i);                                           \
                part = (LANE)OP(part, (LANE)MAP(v));                                               \
            }                                                                                      \
            total = (ACC)OP(total, (ACC)part);                                                     \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i += BLOCK) {                                               \
                const ACC part = (ACC)NAME##_block_##kind(x + i, n - i < BLOCK ? n - i : BLOCK);   \
                total = (ACC)OP(total, part);                                                      \
            }                                                                                      \
        }                                                                                          \
        *(ACC *)acc = total;                                                                       \
    }                                                                                              \
    static void NAME##_runs_##kind(void *acc, const void *in, int64_t n, int64_t groups)           \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        ACC *a = acc;                                                                              \
        for (int64_t g = 0; g < groups; g++, x += n) {                                             \
            LANE part = (LANE)(NEUTRAL);                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const LANE v = (LANE)MF_LD_##kind(x, i);                                           \
                part = (LANE)OP(part, (LANE)MAP(v));                                               \
            }                                                                                      \
            a[g] = (ACC)part;                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_rows_##kind(void *acc, const void *in, int64_t cols, int64_t rows,          \
                                   int64_t stride)                                                 \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        ACC *a = acc;                                                                              \
        LANE part[MF_REDUCE_ENGINE_TILE];                                                          \
        for (int64_t from = 0; from < rows; from += ROW_BLOCK) {                                   \
            const int64_t to = rows - from < ROW_BLOCK ? rows : from + ROW_BLOCK;                  \
            int64_t r = from;                                                                      \
            for (int64_t j = 0; j < cols; j++)                                                     \
                part[j] = (LANE)(NEUTRAL);                                                         \
            for (; r + 4 <= to; r += 4) { /* four rows at once: a quarter of the memory traffic */ \
                const MF_S_##kind *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride,      \
                                  *x3 = x2 + stride;                                               \
                MF_IVDEP                                                                           \
                for (int64_t j = 0; j < cols; j++) {                                               \
                    const LANE v0 = (LANE)MF_LD_##kind(x0, j), v1 = (LANE)MF_LD_##kind(x1, j);     \
                    const LANE v2 = (LANE)MF_LD_##kind(x2, j), v3 = (LANE)MF_LD_##kind(x3, j);     \
                    const LANE s = (LANE)OP((LANE)MAP(v0), (LANE)MAP(v1));                         \
                    const LANE t = (LANE)OP((LANE)MAP(v2), (LANE)MAP(v3));                         \
                    const LANE u = (LANE)OP(s, t);                                                 \
                    part[j] = (LANE)OP(part[j], u);                                                \
                }                                                                                  \
            }                                                                                      \
            for (; r < to; r++) {                                                                  \
                const MF_S_##kind *x0 = x + r * stride;                                            \
                MF_IVDEP                                                                           \
                for (int64_t j = 0; j < cols; j++) {                                               \
                    const LANE v = (LANE)MF_LD_##kind(x0, j);                                      \
                    part[j] = (LANE)OP(part[j], (LANE)MAP(v));                                     \
                }                                                                                  \
            }                                                                                      \
            for (int64_t j = 0; j < cols; j++)                                                     \
                a[j] = (ACC)OP(a[j], (ACC)part[j]);                                                \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_merge_##kind(void *acc, const void *from, int64_t n)                        \
    {                                                                                              \
        ACC *a = acc;                                                                              \
        const ACC *b = from;                                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            a[i] = (ACC)OP(a[i], b[i]);                                                            \
    }

/* NAME_store_kind: out = FINISH(accumulator, count). */
#define STORE(NAME, kind, ACC, FINISH)                                                             \
    static void NAME##_store_##kind(void *out, const void *acc, int64_t n, int64_t count)          \
    {                                                                                              \
        MF_S_##kind *o = out;                                                                      \
        const ACC *a = acc;                                                                        \
        (void)count;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            o[i] = MF_ST_##kind((MF_C_##kind)FINISH(a[i], count));                                 \
    }

#define FOLD_AND_STORE(NAME, kind, LANE, ACC, NEUTRAL, MAP, OP, FINISH)                            \
    FOLD(NAME, kind, LANE, ACC, NEUTRAL, MAP, OP)                                                  \
    STORE(NAME, kind, ACC, FINISH)

#define KEEP(a, count) (a)
#define FLOAT_MEAN(a, count) ((a) / (double)(count))
#define INT_MEAN(a, count) ((count) ? (int64_t)(a) / (count) : 0)
#define UINT_MEAN(a, count) ((count) ? (a) / (uint64_t)(count) : 0)
#define FLOAT_ROOT(a, count) __builtin_sqrt(a)

/* ---- floats ---- */

#define FLOAT_FOLDS(kind, LANE)                                                                    \
    FOLD_AND_STORE(sum, kind, LANE, double, 0, SAME, SUM, KEEP)                                    \
    STORE(mean, kind, double, FLOAT_MEAN)                                                          \
    FOLD_AND_STORE(prod, kind, LANE, double, 1, SAME, PROD, KEEP)                                  \
    FOLD_AND_STORE(max, kind, LANE, LANE, -INFINITY, SAME, FMAX, KEEP)                             \
    FOLD_AND_STORE(min, kind, LANE, LANE, INFINITY, SAME, FMIN, KEEP)                              \
    FOLD_AND_STORE(norm, kind, LANE, double, 0, SQUARE, SUM, FLOAT_ROOT)
FLOAT_FOLDS(f32, float)
FLOAT_FOLDS(f64, double)
FLOAT_FOLDS(f16, float)
FLOAT_FOLDS(bf16, float)

/* ---- integers: sums wrap, and are computed as unsigned, where that is defined ---- */

/* Square root of a sum of squares in the integer type; a sum that wrapped below zero has none. */
static int64_t int_root(int64_t a, int64_t if_negative)
{
    return a < 0 ? if_negative : (int64_t)__builtin_sqrt((double)a);
}
#define ROOT_i8(a, count) int_root((int8_t)(a), 0)
#define ROOT_i16(a, count) int_root((int16_t)(a), 0)
#define ROOT_i32(a, count) int_root((int32_t)(a), INT32_MIN)
#define ROOT_i64(a, count) int_root((int64_t)(a), INT64_MIN)
#define UINT_ROOT(a, count) __builtin_sqrt((double)(a))
/* Squares of 16-bit numbers overflow int, to which short operands are promoted. */
#define WIDE_SQUARE(x) ((uint64_t)(x) * (uint64_t)(x))
#define WIDE_PROD(a, b) ((uint64_t)(a) * (uint64_t)(b))

#define UINT_FOLDS(kind, LEAST, MOST)                                                              \
    FOLD_AND_STORE(sum, kind, MF_C_##kind, MF_C_##kind, 0, SAME, SUM, KEEP)                        \
    FOLD_AND_STORE(mean, kind, uint64_t, uint64_t, 0, SAME, SUM, UINT_MEAN)                        \
    FOLD_AND_STORE(prod, kind, MF_C_##kind, MF_C_##kind, 1, SAME, WIDE_PROD, KEEP)                 \
    FOLD_AND_STORE(max, kind, MF_C_##kind, MF_C_##kind, LEAST, SAME, IMAX, KEEP)                   \
    FOLD_AND_STORE(min, kind, MF_C_##kind, MF_C_##kind, MOST, SAME, IMIN, KEEP)                    \
    FOLD_AND_STORE(norm, kind, MF_C_##kind, MF_C_##kind, 0, WIDE_SQUARE, SUM, UINT_ROOT)
UINT_FOLDS(u8, 0, UINT8_MAX)
UINT_FOLDS(u16, 0, UINT16_MAX)
UINT_FOLDS(u32, 0, UINT32_MAX)
UINT_FOLDS(u64, 0, UINT64_MAX)

/* Sums, products and norms of signed numbers have the bits of unsigned ones. */
#define INT_FOLDS(kind, LEAST, MOST)                                                               \
    FOLD_AND_STORE(mean, kind, uint64_t, uint64_t, 0, SAME, SUM, INT_MEAN)                         \
    FOLD_AND_STORE(max, kind, MF_C_##kind, MF_C_##kind, LEAST, SAME, IMAX, KEEP)                   \
    FOLD_AND_STORE(min, kind, MF_C_##kind, MF_C_##kind, MOST, SAME, IMIN, KEEP)                    \
    STORE(norm, kind, MF_U_##kind, ROOT_##kind)
#define MF_U_i8 uint8_t
#define MF_U_i16 uint16_t
#define MF_U_i32 uint32_t
#define MF_U_i64 uint64_t
INT_FOLDS(i8, INT8_MIN, INT8_MAX)
INT_FOLDS(i16, INT16_MIN, INT16_MAX)
INT_FOLDS(i32, INT32_MIN, INT32_MAX)
INT_FOLDS(i64, INT64_MIN, INT64_MAX)

STORE(max, b8, uint8_t, KEEP)
STORE(min, b8, uint8_t, KEEP)

FOLD_AND_STORE(prod, c64, float _Complex, float _Complex, 1, SAME, PROD, KEEP)
FOLD_AND_STORE(prod, c128, double _Complex, double _Complex, 1, SAME, PROD, KEEP)

/* ---- tables ---- */

#define ROW(NAME, kind, ACC, STORE_NAME, store_kind)                                               \
    {                                                                                              \
        .acc_size = sizeof(ACC), .init = NAME##_init_##kind, .run = NAME##_run_##kind,             \
        .runs = NAME##_runs_##kind, .rows = NAME##_rows_##kind, .merge = NAME##_merge_##kind,      \
        .store = STORE_NAME##_store_##store_kind                                                   \
    }
#define FLOAT_ROWS(NAME, ACC_OF, STORE_NAME)                                                       \
    [MF_DTYPE_F32] = ROW(NAME, f32, ACC_OF(f32), STORE_NAME, f32),                                 \
    [MF_DTYPE_F64] = ROW(NAME, f64, ACC_OF(f64), STORE_NAME, f64),                                 \
    [MF_DTYPE_F16] = ROW(NAME, f16, ACC_OF(f16), STORE_NAME, f16),                                 \
    [MF_DTYPE_BF16] = ROW(NAME, bf16, ACC_OF(bf16), STORE_NAME, bf16)
#define UINT_ROWS(NAME, ACC_OF)                                                                    \
    [MF_DTYPE_U8] = ROW(NAME, u8, ACC_OF(u8), NAME, u8),                                           \
    [MF_DTYPE_U16] = ROW(NAME, u16, ACC_OF(u16), NAME, u16),                                       \
    [MF_DTYPE_U32] = ROW(NAME, u32, ACC_OF(u32), NAME, u32),                                       \
    [MF_DTYPE_U64] = ROW(NAME, u64, ACC_OF(u64), NAME, u64)
#define INT_ROWS(NAME, ACC_OF)                                                                     \
    [MF_DTYPE_I8] = ROW(NAME, i8, ACC_OF(i8), NAME, i8),                                           \
    [MF_DTYPE_I16] = ROW(NAME, i16, ACC_OF(i16), NAME, i16),                                       \
    [MF_DTYPE_I32] = ROW(NAME, i32, ACC_OF(i32), NAME, i32),                                       \
    [MF_DTYPE_I64] = ROW(NAME, i64, ACC_OF(i64), NAME, i64)
#define INT_ROWS_AS_UINT(NAME)                                                                     \
    [MF_DTYPE_I8] = ROW(NAME, u8, uint8_t, NAME, u8),                                              \
    [MF_DTYPE_I16] = ROW(NAME, u16, uint16_t, NAME, u16),                                          \
    [MF_DTYPE_I32] = ROW(NAME, u32, uint32_t, NAME, u32),                                          \
    [MF_DTYPE_I64] = ROW(NAME, u64, uint64_t, NAME, u64)
#define ACC_DOUBLE(kind) double
#define ACC_SAME(kind) MF_C_##kind
#define ACC_U64(kind) uint64_t

static const mf_reduce_engine folds[MF_REDUCE_ENGINE_OPS][MF_DTYPE_COUNT] = {
    [MF_REDUCE_ENGINE_SUM] = { FLOAT_ROWS(sum, ACC_DOUBLE, sum), UINT_ROWS(sum, ACC_SAME),
                               INT_ROWS_AS_UINT(sum) },
    [MF_REDUCE_ENGINE_MEAN] = { FLOAT_ROWS(sum, ACC_DOUBLE, mean), UINT_ROWS(mean, ACC_U64),
                                INT_ROWS(mean, ACC_U64) },
    [MF_REDUCE_ENGINE_PROD] = { FLOAT_ROWS(prod, ACC_DOUBLE, prod), UINT_ROWS(prod, ACC_SAME),
                                INT_ROWS_AS_UINT(prod),
                                [MF_DTYPE_C64] = ROW(prod, c64, float _Complex, prod, c64),
                                [MF_DTYPE_C128] = ROW(prod, c128, double _Complex, prod, c128) },
    [MF_REDUCE_ENGINE_MAX] = { FLOAT_ROWS(max, ACC_SAME, max), UINT_ROWS(max, ACC_SAME),
                               INT_ROWS(max, ACC_SAME),
                               [MF_DTYPE_BOOL] = ROW(max, u8, uint8_t, max, b8) },
    [MF_REDUCE_ENGINE_MIN] = { FLOAT_ROWS(min, ACC_SAME, min), UINT_ROWS(min, ACC_SAME),
                               INT_ROWS(min, ACC_SAME),
                               [MF_DTYPE_BOOL] = ROW(min, u8, uint8_t, min, b8) },
    [MF_REDUCE_ENGINE_NORM] = { FLOAT_ROWS(norm, ACC_DOUBLE, norm), UINT_ROWS(norm, ACC_SAME),
                                [MF_DTYPE_I8] = ROW(norm, u8, uint8_t, norm, i8),
                                [MF_DTYPE_I16] = ROW(norm, u16, uint16_t, norm, i16),
                                [MF_DTYPE_I32] = ROW(norm, u32, uint32_t, norm, i32),
                                [MF_DTYPE_I64] = ROW(norm, u64, uint64_t, norm, i64) },
};

const mf_reduce_engine *mf_reduce_engine_find(mf_reduce_engine_op op, mf_dtype dtype)
{
    const mf_reduce_engine *fold = mf_dtype_is_valid((int)dtype) ? &folds[op][dtype] : NULL;

    return fold && fold->run ? fold : NULL;
}
