/* SPDX-License-Identifier: Apache-2.0 */
/* arith.c - sums, differences, products and quotients of two broadcast tensors. */
#include "ops/grad_util.h"
#include "ops/loop.h"

#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))

#define ALL_NUMBERS(M, NAME, EXPR)                                                                 \
    MF_EACH_FLOAT(M, NAME, EXPR) MF_EACH_INT(M, NAME, EXPR) MF_EACH_COMPLEX(M, NAME, EXPR)
#define FN_NUMBERS(NAME) MF_FN_FLOATS(NAME), MF_FN_INTS(NAME), MF_FN_COMPLEX(NAME)

ALL_NUMBERS(MF_BINARY, add, ADD)
ALL_NUMBERS(MF_BINARY, sub, SUB)
ALL_NUMBERS(MF_BINARY, mul, MUL)

static const mf_loop add_loop = { .arity = 2, .fn = { FN_NUMBERS(add) } };
static const mf_loop sub_loop = { .arity = 2, .fn = { FN_NUMBERS(sub) } };
static const mf_loop mul_loop = { .arity = 2, .fn = { FN_NUMBERS(mul) } };

static mf_status add_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, g->dy[0], g->dy[0]);
    return MF_OK;
}

static mf_status sub_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, g->dy[0], MF_G1("Neg", g->dy[0]));
    return MF_OK;
}

static mf_status mul_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, MF_G2("Mul", g->dy[0], mf_grad_conj(g, g->x[1])),
                       MF_G2("Mul", mf_grad_conj(g, g->x[0]), g->dy[0]));
    return MF_OK;
}

const mf_op mf_ops_arith[] = {
    MF_LOOP_OP("AddV2",
               "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,uint16,uint32,"
               "uint64,int8,int16,int32,int64,complex64,complex128]} is_commutative is_aggregate",
               add_loop, add_grad, "f32[2,3] f32[2,3]", "f32[2,3] f32[3]", "f64[2,1] f64[1,3]",
               "i32[4] i32[]", "f32[0,3] f32[3]"),
    MF_LOOP_OP("Sub",
               "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,uint16,int16,"
               "int32,int64,complex64,complex128,uint32,uint64]}",
               sub_loop, sub_grad, "f32[2,3] f32[2,3]", "f32[3] f32[2,3]", "f64[] f64[4]",
               "i64[2,2] i64[2]"),
    MF_LOOP_OP("Mul",
               "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,uint16,int16,"
               "int32,uint32,uint64,int64,complex64,complex128]} is_commutative",
               mul_loop, mul_grad, "f32[2,3] f32[2,3]", "f32[2,3] f32[3]", "c64[2] c64[2]",
               "f64[2,1,3] f64[4,1]"),
    { 0 },
};
