/* SPDX-License-Identifier: Apache-2.0 */
/* arith.c - sums, differences and products of two broadcast tensors; Add joins strings too. */
#include "base/mem.h"
#include "graph/split.h"
#include "ops/math/math_util.h"

#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
/* 0 if y == 0, whatever x is. */
#define MUL_NO_NAN(x, y) ((y) == 0 ? 0 : (x) * (y))
#define SQUARED_DIFFERENCE(x, y) (((x) - (y)) * ((x) - (y)))
#define WRAP_SQUARED_DIFFERENCE(x, y) (MF_WRAP_SUB(x, y) * MF_WRAP_SUB(x, y))
/* conj(d) * d */
#define SQUARED_DISTANCE(x, y)                                                                     \
    ((__real__((x) - (y))) * (__real__((x) - (y))) + (__imag__((x) - (y))) * (__imag__((x) - (y))))

#define NUMBER_LOOPS(NAME, EXPR, WRAPPED)                                                          \
    MF_EACH_FLOAT_COMPLEX(MF_BINARY, NAME, EXPR)                                                   \
    MF_EACH_INT(MF_BINARY, NAME, WRAPPED)                                                          \
    MF_LOOP_TABLE(NAME, 2, MF_FN_FLOATS_COMPLEX(NAME), MF_FN_INTS(NAME))

NUMBER_LOOPS(add, ADD, MF_WRAP_ADD)
NUMBER_LOOPS(sub, SUB, MF_WRAP_SUB)
NUMBER_LOOPS(mul, MUL, MF_WRAP_MUL)
MF_LOOPS_FLOAT_COMPLEX(MF_BINARY, 2, mul_no_nan, MUL_NO_NAN)
MF_EACH_FLOAT(MF_BINARY, squared_difference, SQUARED_DIFFERENCE)
MF_EACH_COMPLEX(MF_BINARY, squared_difference, SQUARED_DISTANCE)
MF_BINARY(squared_difference, i32, WRAP_SQUARED_DIFFERENCE)
MF_BINARY(squared_difference, i64, WRAP_SQUARED_DIFFERENCE)
MF_LOOP_TABLE(squared_difference, 2, MF_FN_FLOATS_COMPLEX(squared_difference),
              [MF_DTYPE_I32] = squared_difference_i32, [MF_DTYPE_I64] = squared_difference_i64)

static mf_status arith_add_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, g->dy[0], g->dy[0]);
    return MF_OK;
}

static mf_status arith_sub_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, g->dy[0], MF_G1("Neg", g->dy[0]));
    return MF_OK;
}

static mf_status arith_mul_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, MF_GMUL(g->dy[0], mf_grad_conj(g, g->x[1])),
                       MF_GMUL(mf_grad_conj(g, g->x[0]), g->dy[0]));
    return MF_OK;
}

static mf_status mul_no_nan_grad(mf_grad *g)
{
    mf_grad_broadcast2(g, MF_G2("MulNoNan", g->dy[0], g->x[1]),
                       MF_G2("MulNoNan", g->x[0], g->dy[0]));
    return MF_OK;
}

static mf_status squared_difference_grad(mf_grad *g)
{
    const mf_output dx = MF_GMUL(MF_GSCALE(g->dy[0], 2), MF_G2("Sub", g->x[0], g->x[1]));

    mf_grad_broadcast2(g, dx, MF_G1("Neg", dx));
    return MF_OK;
}

/* ---- strings ---- */

static mf_status arith_join(mf_string *out, const mf_string *a, const mf_string *b)
{
    const size_t len = a->len + b->len;

    if (len == 0)
        return MF_OK;
    out->data = mf_calloc((int64_t)len, 1);
    if (!out->data)
        return MF_NOMEM("a joined string");
    if (a->len)
        memcpy(out->data, a->data, a->len);
    if (b->len)
        memcpy(out->data + a->len, b->data, b->len);
    out->len = len;
    return MF_OK;
}

static mf_status arith_join_run(mf_kernel *k)
{
    const mf_shape *shapes[2] = { &k->in[0]->shape, &k->in[1]->shape };
    const mf_string *a = k->in[0]->data, *b = k->in[1]->data;
    mf_shape shape;
    mf_broadcast bc;
    mf_tensor *out;

    MF_TRY(mf_shape_broadcast(shapes[0], shapes[1], &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_broadcast_init(&bc, &shape, shapes, 2);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i, at[2] = { 0 };

        for (int d = bc.rank - 1; d >= 0; d--) {
            at[0] += rest % bc.dims[d] * bc.stride[0][d];
            at[1] += rest % bc.dims[d] * bc.stride[1][d];
            rest /= bc.dims[d];
        }
        MF_TRY(arith_join((mf_string *)out->data + i, &a[at[0]], &b[at[1]]));
    }
    return MF_OK;
}

static mf_status arith_add_run(mf_kernel *k)
{
    return k->in[0]->dtype == MF_DTYPE_STRING ? arith_join_run(k) : mf_loop_run(k);
}

const mf_op mf_ops_arith[] = {
    MF_LOOP_OP_SPLIT(
        "AddV2",
        "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,uint16,uint32,"
        "uint64,int8,int16,int32,int64,complex64,complex128]} is_commutative is_aggregate",
        add_loop, arith_add_grad, mf_split_additive, "f32[2,3] f32[2,3]", "f32[2,3] f32[3]",
        "f64[2,1] f64[1,3]", "i32[4] i32[]", "i32[2]{2147483647,-5} i32[2]{1,7}",
        "i8[3]{127,-128,4} i8[3]{1,-1,3}", "u64[3] u64[3]", "bf16[5] bf16[5]", "f16[3] f16[]",
        "c128[2] c128[2]", "f32[0,3] f32[3]", "f32[] f32[]", "f32[2] f32[3] !fails"),
    { .name = "Add",
      .def = "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,int16,int32,"
             "int64,complex64,complex128,string]}",
      .flags = MF_OP_INPLACE,
      .infer = mf_loop_infer,
      .grad = arith_add_grad,
      .run = arith_add_run,
      .loop = &add_loop,
      .samples = MF_SAMPLES("f32[2,3] f32[3]", "i16[4] i16[]", "str[2]{ab,c} str[2]{d,efg}",
                            "str[2,1] str[3]", "str[0] str[]", "f32[2] f32[3] !fails",
                            "str[2] str[3] !fails") },
    MF_LOOP_OP_SPLIT(
        "Sub",
        "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,uint16,int16,"
        "int32,int64,complex64,complex128,uint32,uint64]}",
        sub_loop, arith_sub_grad, mf_split_additive, "f32[2,3] f32[2,3]", "f32[3] f32[2,3]",
        "f64[] f64[4]", "i64[2,2] i64[2]", "u8[3] u8[3]", "c64[3] c64[]", "f32[2] f32[3] !fails"),
    MF_LOOP_OP_SPLIT(
        "Mul",
        "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,uint8,int8,uint16,int16,"
        "int32,uint32,uint64,int64,complex64,complex128]} is_commutative",
        mul_loop, arith_mul_grad, mf_split_scaled, "f32[2,3] f32[2,3]", "f32[2,3] f32[3]",
        "c64[2] c64[2]", "f64[2,1,3] f64[4,1]", "i32[3]{65536,3,-7} i32[3]{65536,-4,-7}",
        "u16[2]{65535,3} u16[2]{65535,7}", "f32[2] f32[3] !fails"),
    MF_LOOP_OP("MulNoNan", "(x:T, y:T) -> (z:T) {T:type in " MF_DEF_FLOATS_COMPLEX "}",
               mul_no_nan_loop, mul_no_nan_grad, "f32[2,3] f32[3]",
               "f32[3]{inf,nan,2} f32[3]{0,0,3}", "f64[4] f64[]", "c64[2] c64[2] !nograd",
               "bf16[3] bf16[3]"),
    MF_LOOP_OP("SquaredDifference",
               "(x:T, y:T) -> (z:T) {T:type in [bfloat16,half,float,double,int32,int64,complex64,"
               "complex128]} is_commutative",
               squared_difference_loop, squared_difference_grad, "f32[2,3] f32[3]",
               "f64[3,1] f64[2]", "i32[3] i32[3]", "i64[2]{-9223372036854775807,4} i64[2]{7,9}",
               "c64[3] c64[] !nograd", "f32[0] f32[]"),
    { 0 },
};
