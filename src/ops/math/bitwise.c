/* SPDX-License-Identifier: Apache-2.0 */
/* bitwise.c - bit operations on integers. Negative shifts are 0; shifts beyond the width are the
 * width minus one. */
#include "ops/math/math_util.h"

#define AND(x, y) ((x) & (y))
#define OR(x, y) ((x) | (y))
#define XOR(x, y) ((x) ^ (y))
#define INVERT(x) (~(x))
#define TOP_BIT(x) ((int)sizeof(x) * 8 - 1)
#define SHIFT_SIGNED(y) ((y) < 0 ? 0 : (y) > TOP_BIT(y) ? TOP_BIT(y) : (int)(y))
#define SHIFT_UNSIGNED(y) ((y) > (unsigned)TOP_BIT(y) ? TOP_BIT(y) : (int)(y))
#define LEFT_SIGNED(x, y) ((uint64_t)(x) << SHIFT_SIGNED(y))
#define LEFT_UNSIGNED(x, y) ((uint64_t)(x) << SHIFT_UNSIGNED(y))
#define RIGHT_SIGNED(x, y) ((x) >> SHIFT_SIGNED(y))
#define RIGHT_UNSIGNED(x, y) ((x) >> SHIFT_UNSIGNED(y))
/* Only the bits of the type are counted, not the sign extension. */
#define POPULATION8(x) __builtin_popcountll((uint8_t)(x))
#define POPULATION16(x) __builtin_popcountll((uint16_t)(x))
#define POPULATION32(x) __builtin_popcountll((uint32_t)(x))
#define POPULATION64(x) __builtin_popcountll((uint64_t)(x))

#define INT_LOOPS(M, ARITY, NAME, SIGNED_EXPR, UNSIGNED_EXPR)                                      \
    MF_EACH_SIGNED(M, NAME, SIGNED_EXPR)                                                           \
    MF_EACH_UNSIGNED(M, NAME, UNSIGNED_EXPR)                                                       \
    MF_LOOP_TABLE(NAME, ARITY, MF_FN_INTS(NAME))
INT_LOOPS(MF_BINARY, 2, bitwise_and, AND, AND)
INT_LOOPS(MF_BINARY, 2, bitwise_or, OR, OR)
INT_LOOPS(MF_BINARY, 2, bitwise_xor, XOR, XOR)
INT_LOOPS(MF_UNARY, 1, invert, INVERT, INVERT)
INT_LOOPS(MF_BINARY, 2, left_shift, LEFT_SIGNED, LEFT_UNSIGNED)
INT_LOOPS(MF_BINARY, 2, right_shift, RIGHT_SIGNED, RIGHT_UNSIGNED)
MF_UNARY_TO(population, i8, u8, POPULATION8)
MF_UNARY_TO(population, u8, u8, POPULATION8)
MF_UNARY_TO(population, i16, u8, POPULATION16)
MF_UNARY_TO(population, u16, u8, POPULATION16)
MF_UNARY_TO(population, i32, u8, POPULATION32)
MF_UNARY_TO(population, u32, u8, POPULATION32)
MF_UNARY_TO(population, i64, u8, POPULATION64)
MF_UNARY_TO(population, u64, u8, POPULATION64)
MF_LOOP_TABLE(population, 1, MF_FN_INTS(population))

#define COMMUTATIVE_DEF "(x:T, y:T) -> (z:T) {T:type in ints} is_commutative"
#define SHIFT_DEF "(x:T, y:T) -> (z:T) {T:type in ints}"
#define BIT_SAMPLES                                                                                \
    "i32[2,3] i32[3]", "u8[3] u8[]", "i64[4] i64[4]", "i8[3] i8[3]", "u16[3] u16[3]",              \
        "u64[2] u64[2]", "i32[0] i32[]", "i32[2] i32[3] !fails"
#define SHIFT_SAMPLES                                                                              \
    "i32[4]{1,-8,5,-1} i32[4]{3,1,0,31}", "i8[4]{1,-128,100,-1} i8[4]{9,70,-1,7}",                 \
        "u8[3]{1,200,255} u8[3]{9,70,3}", "i64[2]{1,-100} i64[2]{62,70}",                          \
        "u64[2]{1,100} u64[2]{63,70}", "u16[3]@0:99 u16[]{2}", "i16[3] i16[]{2}",                  \
        "u32[2] u32[2]@0:9"

const mf_op mf_ops_bitwise[] = {
    MF_LOOP_OP("BitwiseAnd", COMMUTATIVE_DEF, bitwise_and_loop, mf_grad_none, BIT_SAMPLES),
    MF_LOOP_OP("BitwiseOr", COMMUTATIVE_DEF, bitwise_or_loop, mf_grad_none, BIT_SAMPLES),
    MF_LOOP_OP("BitwiseXor", COMMUTATIVE_DEF, bitwise_xor_loop, mf_grad_none, BIT_SAMPLES),
    MF_LOOP_OP("Invert", "(x:T) -> (y:T) {T:type in ints}", invert_loop, mf_grad_none, "i32[2,3]",
               "u8[3]", "i64[]", "u16[0]"),
    MF_LOOP_OP("LeftShift", SHIFT_DEF, left_shift_loop, mf_grad_none, SHIFT_SAMPLES),
    MF_LOOP_OP("RightShift", SHIFT_DEF, right_shift_loop, mf_grad_none, SHIFT_SAMPLES),
    MF_LOOP_OP("PopulationCount", "(x:T) -> (y:uint8) {T:type in ints}", population_loop,
               mf_grad_none, "i8[3]{-1,7,0}", "i32[2]{-1,6}", "i64[2]{-1,9}", "u16[3]", "u64[]",
               "u8[0]"),
    { 0 },
};
