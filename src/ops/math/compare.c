/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - comparisons and logic: results are booleans. */
#include "ops/math/math_util.h"

#define EQUAL(x, y) ((x) == (y))
#define NOT_EQUAL(x, y) ((x) != (y))
#define LESS(x, y) ((x) < (y))
#define LESS_EQUAL(x, y) ((x) <= (y))
#define GREATER(x, y) ((x) > (y))
#define GREATER_EQUAL(x, y) ((x) >= (y))
#define APPROXIMATE(x, y) (MF_ABS((x) - (y)) < (__typeof__((x) + (y)))param)
#define AND(x, y) ((x) != 0 && (y) != 0)
#define OR(x, y) ((x) != 0 || (y) != 0)
#define NOT(x) ((x) == 0)
#define IS_NAN(x) ((x) != (x))
#define INFINITE(x) _Generic((x), float : __builtin_inff(), default : __builtin_inf())
#define IS_INF(x) (MF_ABS(x) == INFINITE(x))
#define IS_FINITE(x) (MF_ABS(x) < INFINITE(x))

#define TO_BOOL(NAME, kind, EXPR) MF_BINARY_TO(NAME, kind, b8, EXPR)
#define TO_BOOL1(NAME, kind, EXPR) MF_UNARY_TO(NAME, kind, b8, EXPR)

#define ORDER_LOOPS(NAME, EXPR)                                                                    \
    MF_EACH_FLOAT(TO_BOOL, NAME, EXPR)                                                             \
    MF_EACH_INT(TO_BOOL, NAME, EXPR)                                                               \
    MF_LOOP_TABLE(NAME, 2, MF_FN_FLOATS(NAME), MF_FN_INTS(NAME))
ORDER_LOOPS(less, LESS)
ORDER_LOOPS(less_equal, LESS_EQUAL)
ORDER_LOOPS(greater, GREATER)
ORDER_LOOPS(greater_equal, GREATER_EQUAL)

static inline bool same_string(const mf_string *a, const mf_string *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* equal_str and not_equal_str */
#define STRING_LOOP(NAME, WANT)                                                                    \
    static void NAME##_str(const mf_span *s)                                                       \
    {                                                                                              \
        const mf_string *a = s->in[0], *b = s->in[1];                                              \
        const int64_t step_a = !s->scalar[0], step_b = !s->scalar[1];                              \
        uint8_t *o = s->out;                                                                       \
        for (int64_t i = 0; i < s->n; i++)                                                         \
            o[i] = same_string(&a[i * step_a], &b[i * step_b]) == (WANT);                          \
    }
#define EQUAL_LOOPS(NAME, EXPR, WANT)                                                              \
    MF_EACH_FLOAT_COMPLEX(TO_BOOL, NAME, EXPR)                                                     \
    MF_EACH_INT(TO_BOOL, NAME, EXPR)                                                               \
    TO_BOOL(NAME, b8, EXPR)                                                                        \
    STRING_LOOP(NAME, WANT)                                                                        \
    MF_LOOP_TABLE(                                                                                 \
        NAME, 2, MF_FN_FLOATS_COMPLEX(NAME), MF_FN_INTS(NAME),                                     \
        MF_FN_QUANTIZED(NAME), [MF_DTYPE_BOOL] = NAME##_b8, [MF_DTYPE_STRING] = NAME##_str)
EQUAL_LOOPS(equal, EQUAL, true)
EQUAL_LOOPS(not_equal, NOT_EQUAL, false)

TO_BOOL(logical_and, b8, AND)
TO_BOOL(logical_or, b8, OR)
TO_BOOL1(logical_not, b8, NOT)
MF_LOOP_TABLE(logical_and, 2, [MF_DTYPE_BOOL] = logical_and_b8)
MF_LOOP_TABLE(logical_or, 2, [MF_DTYPE_BOOL] = logical_or_b8)
MF_LOOP_TABLE(logical_not, 1, [MF_DTYPE_BOOL] = logical_not_b8)

MF_LOOPS_FLOAT(TO_BOOL1, 1, is_nan, IS_NAN)
MF_LOOPS_FLOAT(TO_BOOL1, 1, is_inf, IS_INF)
MF_LOOPS_FLOAT(TO_BOOL1, 1, is_finite, IS_FINITE)
MF_EACH_FLOAT(TO_BOOL, approximate, APPROXIMATE)
static const mf_loop approximate_loop = { .arity = 2,
                                          .fn = { MF_FN_FLOATS(approximate) },
                                          .param = "tolerance" };

/* ---- Equal and NotEqual may be asked to answer for shapes that do not fit ---- */

static mf_status equal_infer(mf_infer *in)
{
    if (mf_node_bool(in->node, "incompatible_shape_error"))
        return mf_loop_infer(in);
    /* A scalar or the broadcast shape, which is known only if the inputs' shapes are. */
    if (!mf_shape_is_static(&in->in[0]) || !mf_shape_is_static(&in->in[1]))
        return MF_OK;
    if (mf_shape_broadcast(&in->in[0], &in->in[1], &in->out[0]) != MF_OK)
        in->out[0] = MF_SCALAR;
    return MF_OK;
}

static mf_status equal_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    if (mf_node_bool(k->node, "incompatible_shape_error") ||
        mf_shape_broadcast(&k->in[0]->shape, &k->in[1]->shape, &shape) == MF_OK)
        return mf_loop_run(k);
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(uint8_t *)out->data = k->def->loop == &not_equal_loop;
    return MF_OK;
}

#define ORDER_DEF "(x:T, y:T) -> (z:bool) {T:type in reals}"
#define EQUAL_DEF                                                                                  \
    "(x:T, y:T) -> (z:bool) {T:type, incompatible_shape_error:bool=true} is_commutative"
#define IS_DEF "(x:T) -> (y:bool) {T:type in floats}"
#define ORDER_SAMPLES                                                                              \
    "f32[2,3] f32[3]", "f32[4]{nan,1,0,-inf} f32[4]{1,1,-0,inf}", "f64[3] f64[]", "i32[5] i32[5]", \
        "i8[3] i8[3]", "u64[3]{1,18446744073709551615,3} u64[3]{2,1,3}", "bf16[3] bf16[3]",        \
        "f16[2] f16[2]", "f32[0] f32[]", "i32[] i32[]", "f32[2] f32[3] !fails"
#define EQUAL_OP(NAME, LOOP)                                                                       \
    {                                                                                              \
        .name = NAME, .def = EQUAL_DEF, .infer = equal_infer, .grad = mf_grad_none,                \
        .run = equal_run, .loop = &(LOOP),                                                         \
        .samples =                                                                                 \
            MF_SAMPLES(ORDER_SAMPLES, "bool[4] bool[4]", "c64[2] c64[]",                           \
                       "str[3]{a,b,dd} str[3]{a,c,dd}", "str[2]{a,bc} str[]{bc}",                  \
                       "i32[7]@0:2 i32[7]@0:2", "f32[2] f32[3] ; incompatible_shape_error=false",  \
                       "f32[2,1] f32[3] ; incompatible_shape_error=false")                         \
    }
#define TO_BOOL_OP(NAME, DEF, LOOP, GRAD, ...)                                                     \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_loop_infer, .grad = GRAD, .run = mf_loop_run,        \
        .loop = &(LOOP), .samples = MF_SAMPLES(__VA_ARGS__)                                        \
    }
#define LOGIC_DEF "(x:bool, y:bool) -> (z:bool) {} is_commutative"
#define LOGIC_SAMPLES                                                                              \
    "bool[4]{true,true,false,false} bool[4]{true,false,true,false}", "bool[2,3] bool[3]",          \
        "bool[] bool[3]", "bool[0] bool[]", "bool[2] bool[3] !fails"
#define IS_SAMPLES                                                                                 \
    "f32[7]{nan,inf,-inf,0,1,-3e38,1e-45}", "f64[3]{nan,inf,1}", "f16[3]{nan,-inf,1}",             \
        "bf16[3]{nan,-inf,1}", "f32[0]", "f32[]"

const mf_op mf_ops_compare[] = {
    EQUAL_OP("Equal", equal_loop),
    EQUAL_OP("NotEqual", not_equal_loop),
    TO_BOOL_OP("Less", ORDER_DEF, less_loop, mf_grad_none, ORDER_SAMPLES),
    TO_BOOL_OP("LessEqual", ORDER_DEF, less_equal_loop, mf_grad_none, ORDER_SAMPLES),
    TO_BOOL_OP("Greater", ORDER_DEF, greater_loop, mf_grad_none, ORDER_SAMPLES),
    TO_BOOL_OP("GreaterEqual", ORDER_DEF, greater_equal_loop, mf_grad_none, ORDER_SAMPLES),
    { .name = "ApproximateEqual",
      .def = "(x:T, y:T) -> (z:bool) {T:type in numbers, tolerance:float=9.99999975e-06} "
             "is_commutative",
      .infer = mf_same_shape_infer,
      .grad = mf_grad_none,
      .run = mf_same_shape_run,
      .loop = &approximate_loop,
      .samples =
          MF_SAMPLES("f32[3]{1,nan,2} f32[3]{1.000001,nan,2.1}", "f64[4] f64[4] ; tolerance=0.5",
                     "f32[0] f32[0]", "f32[] f32[]", "f32[2] f32[1] !fails") },
    TO_BOOL_OP("LogicalAnd", LOGIC_DEF, logical_and_loop, mf_grad_none, LOGIC_SAMPLES),
    TO_BOOL_OP("LogicalOr", LOGIC_DEF, logical_or_loop, mf_grad_none, LOGIC_SAMPLES),
    TO_BOOL_OP("LogicalNot", "(x:bool) -> (y:bool) {}", logical_not_loop, mf_grad_none,
               "bool[2]{true,false}", "bool[2,3]", "bool[]", "bool[0]"),
    TO_BOOL_OP("IsNan", IS_DEF, is_nan_loop, mf_grad_missing, IS_SAMPLES),
    TO_BOOL_OP("IsInf", IS_DEF, is_inf_loop, mf_grad_missing, IS_SAMPLES),
    TO_BOOL_OP("IsFinite", IS_DEF, is_finite_loop, mf_grad_missing, IS_SAMPLES),
    { 0 },
};
