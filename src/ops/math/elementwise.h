/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.h - the loop generator of elementwise ops.
 *
 * An op provides a scalar expression per kind of type; the macros make one loop per type,
 * MF_LOOP_FLOATS and similar macros list them in a table, and mf_loop_run() is the kernel: it
 * broadcasts, divides the work into pieces that depend only on the shape, and calls the loop on
 * each. Fusion calls the same loops, so a fused chain has the same bits.
 *
 * 16-bit floats are computed in float. Integers wrap around. The result type may differ
 * (comparisons). */
#ifndef MF_OPS_MATH_ELEMENTWISE_H
#define MF_OPS_MATH_ELEMENTWISE_H

#include "graph/op.h"

#include <complex.h>

/* Output and input may be the same memory, but never overlap with an offset: iterations are
 * independent, which the compiler cannot prove. */
#if defined(__clang__)
#define MF_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define MF_IVDEP _Pragma("GCC ivdep")
#endif

/* Kinds: storage type, type of the computation, load and store. Booleans are b8: "bool" is a macro
 * of <stdbool.h> and would be expanded. */
#define MF_S_f32 float
#define MF_S_f64 double
#define MF_S_f16 mf_f16
#define MF_S_bf16 mf_bf16
#define MF_S_i8 int8_t
#define MF_S_i16 int16_t
#define MF_S_i32 int32_t
#define MF_S_i64 int64_t
#define MF_S_u8 uint8_t
#define MF_S_u16 uint16_t
#define MF_S_u32 uint32_t
#define MF_S_u64 uint64_t
#define MF_S_b8 uint8_t
#define MF_S_c64 float _Complex
#define MF_S_c128 double _Complex

#define MF_C_f32 float
#define MF_C_f64 double
#define MF_C_f16 float
#define MF_C_bf16 float
#define MF_C_i8 int8_t
#define MF_C_i16 int16_t
#define MF_C_i32 int32_t
#define MF_C_i64 int64_t
#define MF_C_u8 uint8_t
#define MF_C_u16 uint16_t
#define MF_C_u32 uint32_t
#define MF_C_u64 uint64_t
#define MF_C_b8 uint8_t
#define MF_C_c64 float _Complex
#define MF_C_c128 double _Complex

#define MF_LD_PLAIN(p, i) ((p)[i])
#define MF_LD_f32 MF_LD_PLAIN
#define MF_LD_f64 MF_LD_PLAIN
#define MF_LD_f16(p, i) mf_f16_to_f32((p)[i])
#define MF_LD_bf16(p, i) mf_bf16_to_f32((p)[i])
#define MF_LD_i8 MF_LD_PLAIN
#define MF_LD_i16 MF_LD_PLAIN
#define MF_LD_i32 MF_LD_PLAIN
#define MF_LD_i64 MF_LD_PLAIN
#define MF_LD_u8 MF_LD_PLAIN
#define MF_LD_u16 MF_LD_PLAIN
#define MF_LD_u32 MF_LD_PLAIN
#define MF_LD_u64 MF_LD_PLAIN
#define MF_LD_b8 MF_LD_PLAIN
#define MF_LD_c64 MF_LD_PLAIN
#define MF_LD_c128 MF_LD_PLAIN

#define MF_ST_PLAIN(kind, v) ((MF_S_##kind)(v))
#define MF_ST_f32(v) MF_ST_PLAIN(f32, v)
#define MF_ST_f64(v) MF_ST_PLAIN(f64, v)
#define MF_ST_f16(v) mf_f16_from_f32(v)
#define MF_ST_bf16(v) mf_bf16_from_f32(v)
#define MF_ST_i8(v) MF_ST_PLAIN(i8, v)
#define MF_ST_i16(v) MF_ST_PLAIN(i16, v)
#define MF_ST_i32(v) MF_ST_PLAIN(i32, v)
#define MF_ST_i64(v) MF_ST_PLAIN(i64, v)
#define MF_ST_u8(v) MF_ST_PLAIN(u8, v)
#define MF_ST_u16(v) MF_ST_PLAIN(u16, v)
#define MF_ST_u32(v) MF_ST_PLAIN(u32, v)
#define MF_ST_u64(v) MF_ST_PLAIN(u64, v)
#define MF_ST_b8(v) ((uint8_t)((v) != 0))
#define MF_ST_c64(v) MF_ST_PLAIN(c64, v)
#define MF_ST_c128(v) MF_ST_PLAIN(c128, v)

/* One loop `NAME_kind`: out = EXPR(x), where EXPR may also use `param` (double). */
#define MF_UNARY_TO(NAME, kind, okind, EXPR)                                                       \
    static void NAME##_##kind(const mf_span *s)                                                    \
    {                                                                                              \
        const MF_S_##kind *a = s->in[0];                                                           \
        MF_S_##okind *o = s->out;                                                                  \
        const int64_t n = s->n; /* a byte written to o might be part of *s, for all gcc knows */   \
        const double param = s->param;                                                             \
        (void)param;                                                                               \
        MF_IVDEP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const MF_C_##kind x = MF_LD_##kind(a, i);                                              \
            o[i] = MF_ST_##okind(EXPR(x));                                                         \
        }                                                                                          \
    }
#define MF_UNARY(NAME, kind, EXPR) MF_UNARY_TO(NAME, kind, kind, EXPR)

#define MF_BINARY_CASE(kind, okind, EXPR, XI, YI)                                                  \
    MF_IVDEP                                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const MF_C_##kind x = XI, y = YI;                                                          \
        o[i] = MF_ST_##okind(EXPR(x, y));                                                          \
    }

/* One loop `NAME_kind`: out = EXPR(x, y). */
#define MF_BINARY_TO(NAME, kind, okind, EXPR)                                                      \
    static void NAME##_##kind(const mf_span *s)                                                    \
    {                                                                                              \
        const MF_S_##kind *a = s->in[0], *b = s->in[1];                                            \
        MF_S_##okind *o = s->out;                                                                  \
        const int64_t n = s->n;                                                                    \
        const double param = s->param;                                                             \
        (void)param;                                                                               \
        if (s->scalar[1] && !s->scalar[0]) {                                                       \
            const MF_C_##kind c = MF_LD_##kind(b, 0);                                              \
            MF_BINARY_CASE(kind, okind, EXPR, MF_LD_##kind(a, i), c)                               \
        } else if (s->scalar[0]) {                                                                 \
            const MF_C_##kind c = MF_LD_##kind(a, 0);                                              \
            if (s->scalar[1]) {                                                                    \
                const MF_C_##kind d = MF_LD_##kind(b, 0);                                          \
                MF_BINARY_CASE(kind, okind, EXPR, c, d)                                            \
            } else {                                                                               \
                MF_BINARY_CASE(kind, okind, EXPR, c, MF_LD_##kind(b, i))                           \
            }                                                                                      \
        } else {                                                                                   \
            MF_BINARY_CASE(kind, okind, EXPR, MF_LD_##kind(a, i), MF_LD_##kind(b, i))              \
        }                                                                                          \
    }
#define MF_BINARY(NAME, kind, EXPR) MF_BINARY_TO(NAME, kind, kind, EXPR)

/* X-lists of kinds: M is MF_UNARY, MF_BINARY or similar. */
#define MF_EACH_FLOAT(M, NAME, EXPR)                                                               \
    M(NAME, f32, EXPR) M(NAME, f64, EXPR) M(NAME, f16, EXPR) M(NAME, bf16, EXPR)
#define MF_EACH_SIGNED(M, NAME, EXPR)                                                              \
    M(NAME, i8, EXPR) M(NAME, i16, EXPR) M(NAME, i32, EXPR) M(NAME, i64, EXPR)
#define MF_EACH_UNSIGNED(M, NAME, EXPR)                                                            \
    M(NAME, u8, EXPR) M(NAME, u16, EXPR) M(NAME, u32, EXPR) M(NAME, u64, EXPR)
#define MF_EACH_INT(M, NAME, EXPR) MF_EACH_SIGNED(M, NAME, EXPR) MF_EACH_UNSIGNED(M, NAME, EXPR)
#define MF_EACH_COMPLEX(M, NAME, EXPR) M(NAME, c64, EXPR) M(NAME, c128, EXPR)

/* Entries of mf_loop.fn for these loops. */
#define MF_FN_FLOATS(NAME)                                                                         \
    [MF_DTYPE_F32] = NAME##_f32, [MF_DTYPE_F64] = NAME##_f64, [MF_DTYPE_F16] = NAME##_f16,         \
    [MF_DTYPE_BF16] = NAME##_bf16
#define MF_FN_SIGNED(NAME)                                                                         \
    [MF_DTYPE_I8] = NAME##_i8, [MF_DTYPE_I16] = NAME##_i16, [MF_DTYPE_I32] = NAME##_i32,           \
    [MF_DTYPE_I64] = NAME##_i64
#define MF_FN_UNSIGNED(NAME)                                                                       \
    [MF_DTYPE_U8] = NAME##_u8, [MF_DTYPE_U16] = NAME##_u16, [MF_DTYPE_U32] = NAME##_u32,           \
    [MF_DTYPE_U64] = NAME##_u64
#define MF_FN_INTS(NAME) MF_FN_SIGNED(NAME), MF_FN_UNSIGNED(NAME)
#define MF_FN_COMPLEX(NAME) [MF_DTYPE_C64] = NAME##_c64, [MF_DTYPE_C128] = NAME##_c128

/* Kernel and shape inference of every op with an mf_loop; any arity, inputs broadcast. */
MF_MUST mf_status mf_loop_run(mf_kernel *k);
MF_MUST mf_status mf_loop_infer(mf_infer *in);

/* A row of a family's table: an elementwise op. SPLIT: an additional split rule (graph/split.h). */
#define MF_LOOP_OP_SPLIT(NAME, DEF, LOOP, GRAD, SPLIT, ...)                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_INPLACE, .infer = mf_loop_infer, .grad = GRAD,    \
        .run = mf_loop_run, .loop = &(LOOP), .split = SPLIT, .samples = MF_SAMPLES(__VA_ARGS__)    \
    }
#define MF_LOOP_OP(NAME, DEF, LOOP, GRAD, ...)                                                     \
    MF_LOOP_OP_SPLIT(NAME, DEF, LOOP, GRAD, NULL, __VA_ARGS__)

/* Elements per piece of an elementwise loop: about 32 KiB in and out, so pieces stay in cache and a
 * small tensor is one piece. */
enum { MF_LOOP_GRAIN = 8192 };

/* How `n_in` inputs broadcast to `out`: dimensions with the same pattern are merged. */
enum { MF_BROADCAST_INPUTS = 16 };
typedef struct mf_broadcast {
    int rank; /* of the merged dimensions, >= 1 */
    int64_t dims[MF_MAX_RANK]; /* outermost first */
    int64_t stride[MF_BROADCAST_INPUTS][MF_MAX_RANK]; /* in elements; 0 if the input is repeated */
} mf_broadcast;
void mf_broadcast_init(mf_broadcast *b, const mf_shape *out, const mf_shape *const *in, int n_in);

#endif
