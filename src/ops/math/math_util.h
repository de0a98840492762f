/* SPDX-License-Identifier: Apache-2.0 */
/* math_util.h - shared by the elementwise families: selection of functions by type, sets of loops.
 */
#ifndef MF_OPS_MATH_MATH_UTIL_H
#define MF_OPS_MATH_MATH_UTIL_H

#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

/* The function for x's type. 16-bit floats have been converted to float. */
#define MF_PICK_REAL(x, f32, f64) _Generic((x), float : f32, double : f64)(x)
#define MF_PICK(x, f32, f64, c64, c128)                                                            \
    _Generic((x), float : f32, double : f64, float _Complex : c64, double _Complex : c128)(x)

#define MF_ABS(x) MF_PICK_REAL(x, __builtin_fabsf, __builtin_fabs)
#define MF_FLOOR(x) MF_PICK_REAL(x, __builtin_floorf, __builtin_floor)

/* Common sets of types in definitions. */
#define MF_DEF_FLOATS_COMPLEX "[bfloat16,half,float,double,complex64,complex128]"
#define MF_DEF_SIGNED_COMPLEX                                                                      \
    "[bfloat16,half,float,double,int8,int16,int32,int64,complex64,complex128]"

/* Loops and table entries for floats and complex numbers. */
#define MF_EACH_FLOAT_COMPLEX(M, NAME, EXPR)                                                       \
    MF_EACH_FLOAT(M, NAME, EXPR) MF_EACH_COMPLEX(M, NAME, EXPR)
#define MF_FN_FLOATS_COMPLEX(NAME) MF_FN_FLOATS(NAME), MF_FN_COMPLEX(NAME)

/* Quantized types are treated as integers of their size if only bits or order matter. */
#define MF_FN_QUANTIZED(NAME)                                                                      \
    [MF_DTYPE_QI8] = NAME##_i8, [MF_DTYPE_QU8] = NAME##_u8, [MF_DTYPE_QI16] = NAME##_i16,          \
    [MF_DTYPE_QU16] = NAME##_u16, [MF_DTYPE_QI32] = NAME##_i32

/* The table of a loop named NAME_loop. */
#define MF_LOOP_TABLE(NAME, ARITY, ...)                                                            \
    static const mf_loop NAME##_loop = { .arity = (ARITY), .fn = { __VA_ARGS__ } };
/* Loops of all floats and complex types, and their table. */
#define MF_LOOPS_FLOAT_COMPLEX(M, ARITY, NAME, EXPR)                                               \
    MF_EACH_FLOAT_COMPLEX(M, NAME, EXPR)                                                           \
    MF_LOOP_TABLE(NAME, ARITY, MF_FN_FLOATS_COMPLEX(NAME))
#define MF_LOOPS_FLOAT(M, ARITY, NAME, EXPR)                                                       \
    MF_EACH_FLOAT(M, NAME, EXPR)                                                                   \
    MF_LOOP_TABLE(NAME, ARITY, MF_FN_FLOATS(NAME))

/* Wrapping sums, differences and products: computed unsigned, where overflow is defined. */
#define MF_WRAP_ADD(x, y) ((uint64_t)(x) + (uint64_t)(y))
#define MF_WRAP_SUB(x, y) ((uint64_t)(x) - (uint64_t)(y))
#define MF_WRAP_MUL(x, y) ((uint64_t)(x) * (uint64_t)(y))

/* ---- gradients ---- */

#define MF_GMUL(a, b) MF_G2("Mul", a, b)
/* a * value, with the constant in a's type. */
#define MF_GSCALE(a, value) MF_G2("Mul", a, mf_grad_scalar(g, a, value))

/* mf_loop_run() with a loop that is not in the op's table. Fusion calls the loops of the table
 * without run(), so a loop whose inputs run() must check is hidden here. */
MF_MUST mf_status mf_loop_run_hidden(mf_kernel *k, const mf_loop *loop);

/* Inputs must have the same shape: they are not broadcast. For ops with elementwise loops. */
MF_MUST mf_status mf_same_shape_run(mf_kernel *k);
MF_MUST mf_status mf_same_shape_infer(mf_infer *in);
/* A row of a family's table whose inputs are not broadcast. */
#define MF_SAME_SHAPE_OP(NAME, DEF, LOOP, GRAD, ...)                                               \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_INPLACE, .infer = mf_same_shape_infer,            \
        .grad = GRAD, .run = mf_same_shape_run, .loop = &(LOOP),                                   \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

#endif
