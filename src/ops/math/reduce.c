/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - Sum, Mean, Prod, Max, Min, EuclideanNorm, All and Any over chosen axes. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/math/reduce_engine.h"
#include "ops/math/reduce_grad.h"

#include <complex.h>
#include <string.h>

typedef struct reduce_args {
    mf_reduce_engine_op op;
    bool keep_dims;
} reduce_args;

static mf_reduce_engine_op reduce_op_of(const mf_node *node)
{
    static const struct {
        const char *name;
        mf_reduce_engine_op op;
    } ops[] = { { "Sum", MF_REDUCE_ENGINE_SUM },   { "Mean", MF_REDUCE_ENGINE_MEAN },
                { "Prod", MF_REDUCE_ENGINE_PROD }, { "Max", MF_REDUCE_ENGINE_MAX },
                { "Min", MF_REDUCE_ENGINE_MIN },   { "EuclideanNorm", MF_REDUCE_ENGINE_NORM },
                { "All", MF_REDUCE_ENGINE_MIN },   { "Any", MF_REDUCE_ENGINE_MAX } };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(ops[i].name, node->op_name) == 0)
            return ops[i].op;
    }
    return MF_REDUCE_ENGINE_SUM;
}

/* The dimensions of a tensor of this rank that `axes` names. */
static mf_status reduce_read_axes(const mf_tensor *axes, int rank, bool *reduced)
{
    memset(reduced, 0, sizeof(bool) * (MF_MAX_RANK + 1));
    for (int64_t i = 0; i < axes->count; i++) {
        const int64_t axis = mf_tensor_int_at(axes, i);
        int d;

        if (!mf_axis_fix(axis, rank, &d))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid reduction dimension (%lld for input with %d dimension(s))",
                           (long long)axis, rank);
        if (reduced[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid reduction arguments: Axes contains duplicate dimension: %d", d);
        reduced[d] = true;
    }
    return MF_OK;
}

static void reduce_output_shape(const mf_shape *in, const bool *reduced, bool keep_dims,
                                mf_shape *out)
{
    *out = MF_SCALAR;
    for (int d = 0; d < in->rank; d++) {
        if (!reduced[d])
            out->dims[out->rank++] = in->dims[d];
        else if (keep_dims)
            out->dims[out->rank++] = 1;
    }
}

/* The norm of complex numbers is that of their parts, with imaginary part 0. */
static mf_status complex_norm(const mf_reduce_engine *fold, mf_pool *pool, const mf_shape *shape,
                              const bool *reduced, const mf_tensor *in, mf_tensor *out)
{
    const bool is_double = in->dtype == MF_DTYPE_C128;
    mf_tensor real = { 0 };

    MF_TRY(mf_tensor_alloc(&real, is_double ? MF_DTYPE_F64 : MF_DTYPE_F32, &out->shape));
    const mf_status st =
        mf_reduce_engine_run(fold, pool, shape, reduced, is_double ? 8 : 4, in->data, real.data);

    for (int64_t i = 0; st == MF_OK && i < out->count; i++)
        mf_tensor_put(out, i, mf_tensor_float_at(&real, i));
    mf_tensor_clear(&real);
    return st;
}

static mf_status reduce_reduce(mf_reduce_engine_op op, mf_pool *pool, const mf_tensor *in,
                               bool *reduced, mf_tensor *out)
{
    const bool parts = mf_dtype_is_complex(in->dtype) && op != MF_REDUCE_ENGINE_PROD;
    const mf_dtype part = in->dtype == MF_DTYPE_C128 ? MF_DTYPE_F64 : MF_DTYPE_F32;
    const mf_dtype type = parts ? part : in->dtype;
    const mf_reduce_engine *fold = mf_reduce_engine_find(op, type);
    mf_shape shape = in->shape;

    if (!fold)
        return MF_FAIL(MF_UNIMPLEMENTED, "reductions of type %s are not supported",
                       mf_dtype_name(in->dtype));
    if (parts) {
        if (shape.rank == MF_MAX_RANK)
            return MF_FAIL(MF_UNIMPLEMENTED, "complex tensors of rank %d cannot be reduced",
                           shape.rank);
        if (in->count == 0) /* also for Mean, unlike for floats */
            fold = mf_reduce_engine_find(MF_REDUCE_ENGINE_SUM, type);
        reduced[shape.rank] = op == MF_REDUCE_ENGINE_NORM;
        shape.dims[shape.rank++] = 2;
        if (op == MF_REDUCE_ENGINE_NORM)
            return complex_norm(fold, pool, &shape, reduced, in, out);
    }
    return mf_reduce_engine_run(fold, pool, &shape, reduced, mf_dtype_cell(type), in->data,
                                out->data);
}

static mf_status reduce_reduce_prepare(mf_prepare *p)
{
    reduce_args *args = MF_ARENA_NEW(p->arena, reduce_args);

    if (!args)
        return MF_NOMEM("a reduction");
    *args = (reduce_args){ .op = reduce_op_of(p->node),
                           .keep_dims = mf_node_bool(p->node, "keep_dims") };
    p->state = args;
    return MF_OK;
}

static mf_status reduce_reduce_run(mf_kernel *k)
{
    const reduce_args *args = k->state;
    const mf_tensor *in = k->in[0];
    bool reduced[MF_MAX_RANK + 1];
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(reduce_read_axes(k->in[1], in->shape.rank, reduced));
    reduce_output_shape(&in->shape, reduced, args->keep_dims, &shape);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return reduce_reduce(args->op, k->step->pool, in, reduced, out);
}

/* Reductions of shapes (mostly Prod) are used as shapes: a known input gives a known output. */
static mf_status infer_value(mf_infer *in, bool *reduced)
{
    const mf_tensor *x = in->in_value[0];
    mf_tensor out = { 0 };
    mf_status st;

    if (!mf_dtype_is_int(x->dtype))
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&out, x->dtype, &in->out[0]));
    st = reduce_reduce(reduce_op_of(in->node), NULL, x, reduced, &out);
    if (st == MF_OK)
        mf_infer_value(in, 0, &out);
    mf_tensor_clear(&out);
    return st;
}

static mf_status reduce_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0];
    const bool keep_dims = mf_node_bool(in->node, "keep_dims");
    bool reduced[MF_MAX_RANK + 1];

    if (x->rank < 0)
        return MF_OK;
    if (in->in_value[1]) {
        MF_TRY(reduce_read_axes(in->in_value[1], x->rank, reduced));
        reduce_output_shape(x, reduced, keep_dims, &in->out[0]);
        return in->in_value[0] ? infer_value(in, reduced) : MF_OK;
    }
    if (keep_dims) {
        in->out[0].rank = x->rank;
        for (int d = 0; d < x->rank; d++)
            in->out[0].dims[d] = x->dims[d] == 1 ? 1 : MF_UNKNOWN_DIM;
    } else if (in->in[1].rank == 1 && in->in[1].dims[0] >= 0 && in->in[1].dims[0] <= x->rank) {
        in->out[0].rank = x->rank - (int)in->in[1].dims[0]; /* axes are distinct */
        for (int d = 0; d < in->out[0].rank; d++)
            in->out[0].dims[d] = MF_UNKNOWN_DIM;
    }
    return MF_OK;
}

/* ---- gradients ---- */

static mf_output broadcast_like(mf_grad *g, mf_output dy, mf_output x)
{
    return MF_G2("BroadcastTo", mf_grad_keep_dims(g, dy), MF_G1("Shape", x));
}

static mf_status reduce_sum_grad(mf_grad *g)
{
    g->dx[0] = broadcast_like(g, g->dy[0], g->x[0]);
    return MF_OK;
}

static mf_output reduce_size_of(mf_grad *g, mf_output x)
{
    return MF_G2("Prod", MF_G1("Shape", x), mf_ints(g->graph, (const int64_t[]){ 0 }, 1));
}

static mf_status reduce_mean_grad(mf_grad *g)
{
    const mf_output dx = broadcast_like(g, g->dy[0], g->x[0]);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output outputs = MF_G2("Maximum", reduce_size_of(g, g->y[0]), one);
    const mf_output factor = MF_G2("FloorDiv", reduce_size_of(g, g->x[0]), outputs);
    const mf_output count =
        mf_applyf(g->graph, "Cast", MF_IN(factor), "DstT=%s", mf_dtype_name(mf_grad_type(dx)));

    g->dx[0] = MF_G2("RealDiv", dx, count);
    return MF_OK;
}

/* The gradient is divided equally among the elements that equal the result. */
static mf_status reduce_extreme_grad(mf_grad *g)
{
    const mf_output y = mf_grad_keep_dims(g, g->y[0]), dy = mf_grad_keep_dims(g, g->dy[0]);
    const mf_output equal = MF_G2("Equal", y, g->x[0]);
    const mf_output chosen =
        mf_applyf(g->graph, "Cast", MF_IN(equal), "DstT=%s", mf_dtype_name(mf_grad_type(dy)));
    const mf_output n = mf_applyf(g->graph, "Sum", MF_IN(chosen, g->x[1]), "keep_dims=true");

    g->dx[0] = MF_G2("Mul", MF_G2("RealDiv", chosen, n), dy);
    return MF_OK;
}

static mf_status reduce_norm_grad(mf_grad *g)
{
    const mf_output y = mf_grad_keep_dims(g, g->y[0]), dy = mf_grad_keep_dims(g, g->dy[0]);

    g->dx[0] = MF_G2("RealDiv", g->x[0], MF_G2("RealDiv", y, dy));
    return MF_OK;
}

static mf_cut reduce_cut(const mf_node *n)
{
    if (strcmp(n->op_name, "Max") == 0)
        return MF_CUT_MAX;
    if (strcmp(n->op_name, "Min") == 0)
        return MF_CUT_MIN;
    if (strcmp(n->op_name, "Sum") == 0 ||
        (strcmp(n->op_name, "Mean") == 0 && mf_dtype_is_float(n->in_types[0])))
        return MF_CUT_SUM;
    return MF_CUT_FREE; /* axes are not split */
}

/* A mean over shards is the sum, divided by the total count. */
static void reduce_split(mf_split *s)
{
    bool axes[MF_MAX_RANK] = { false };
    const mf_cut cut = reduce_cut(s->node);
    int64_t n = 1;

    if (!s->in_value[1])
        return;
    for (int64_t i = 0; i < s->in_value[1]->count; i++) {
        int d;

        if (!mf_axis_fix(mf_tensor_int_at(s->in_value[1], i), s->in[0].rank, &d))
            return;
        axes[d] = true;
        n *= s->in[0].dims[d];
    }
    mf_split_reduce(s, axes, mf_node_bool(s->node, "keep_dims"), cut);
    if (cut == MF_CUT_SUM)
        s->additive = 1;
    if (strcmp(s->node->op_name, "Mean") == 0) {
        s->op_if_cut = "Sum";
        s->divide_if_cut = n;
    }
}

#define REDUCE_OP(ROWS, NAME, DEF, GRAD, ...)                                                      \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF, .infer = reduce_infer, .grad = GRAD,               \
        .prepare = reduce_reduce_prepare, .run = reduce_reduce_run, .split = reduce_split,         \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define NUMBERS                                                                                    \
    "(input:T, reduction_indices:Tidx) -> (output:T) {keep_dims:bool=false, T:type in numbers, "   \
    "Tidx:type=int32 in index}"
#define ORDERED                                                                                    \
    "(input:T, reduction_indices:Tidx) -> (output:T) {keep_dims:bool=false, T:type in "            \
    "[float,double,int32,uint8,int16,int8,int64,bfloat16,uint16,half,uint32,uint64,qint8,quint8,"  \
    "qint32,qint16,quint16], Tidx:type=int32 in index}"
#define BOOLEANS                                                                                   \
    "(input:bool, reduction_indices:Tidx) -> (output:bool) {keep_dims:bool=false, "                \
    "Tidx:type=int32 in index}"
#define ODD_SHAPES(t)                                                                              \
    t "[3,5] i32[1]{0}", t "[3,5] i32[1]{1}", t "[2,3,4] i32[2]{0,2}", t "[2,3,4] i64[1]{-2}",     \
        t "[2,3,4] i32[3]{2,0,1}", t "[7] i32[]{0} ; keep_dims=true", t "[] i32[0]",               \
        t "[2,3,2] i32[2]{-1,0} ; keep_dims=true", t "[2,3] i32[0]", t "[1,3,1] i32[2]{0,2}",      \
        t "[2,3] i32[1]{2} !fails", t "[2,3] i32[2]{0,-2} !fails"

const mf_op mf_ops_reduce[] = {
    REDUCE_OP(mf_rows_axes, "Sum", NUMBERS, reduce_sum_grad, ODD_SHAPES("f32"),
              "f64[2,3,2,3,2] i32[2]{1,3}", "f32[40,3,70] i32[2]{0,2}",
              "f32[1000,7] i32[1]{0} !nograd", "f32[3,700] i32[1]{1} !nograd",
              "f32[90000] i32[1]{0} !nograd", "f32[200,600] i32[1]{0} !nograd",
              "f32[2,40000,2] i32[1]{1} !nograd", "f32[0,3] i32[1]{0}", "f32[3,0] i32[1]{0}",
              "i8[300]@-128:128 i32[1]{0}", "u64[2,3] i32[1]{0}", "i64[4,4] i32[1]{1}",
              "f16[30,4] i32[1]{0} !nograd", "bf16[3,40] i32[1]{1} !nograd !tol:1e-2",
              "c64[3,4] i32[1]{0} !nograd", "c128[3,4] i32[1]{1} !nograd"),
    REDUCE_OP(mf_rows_axes, "Mean", NUMBERS, reduce_mean_grad, ODD_SHAPES("f32"),
              "f32[500,33] i32[1]{0} !nograd", "f32[0,3] i32[1]{0}", "f64[3,4] i32[1]{1}",
              "i8[100,2]@-128:128 i32[1]{0}", "u8[300]@0:256 i32[1]{0}", "i64[5] i32[1]{0}",
              "f16[5,2] i32[1]{1} !nograd", "c64[0,2] i32[1]{0} !nograd",
              "c64[3,2] i32[1]{0} !nograd"),
    REDUCE_OP(mf_rows_axes, "Prod", NUMBERS, mf_grad_prod, ODD_SHAPES("f32"), "f64[3,2] i32[1]{0}",
              "f32[0,3] i32[1]{0}", "i32[2,9] i32[1]{1}", "i16[40]@-9:9 i32[1]{0}",
              "c64[2,3] i32[1]{1} !nograd", "f32[2,3,4] i32[2]{-1,1}"),
    REDUCE_OP(mf_rows_axes, "Max", ORDERED, reduce_extreme_grad, ODD_SHAPES("f32"),
              "f32[0,3] i32[1]{0} !nograd", "f64[30,70] i32[1]{0}", "i32[4,9] i32[1]{1}",
              "i8[0] i32[1]{0}", "u16[3,4]@0:99 i32[1]{0}", "bf16[4,3] i32[1]{0} !nograd"),
    REDUCE_OP(mf_rows_axes, "Min", ORDERED, reduce_extreme_grad, ODD_SHAPES("f32"),
              "f32[0,3] i32[1]{0} !nograd", "f64[3,70] i32[1]{1}", "i64[4,9] i32[1]{1}",
              "u8[0] i32[1]{0}", "f16[4,3] i32[1]{0} !nograd"),
    REDUCE_OP(NULL, "EuclideanNorm", NUMBERS, reduce_norm_grad, ODD_SHAPES("f32"),
              "f64[3,4] i32[1]{0}", "f32[0,3] i32[1]{0} !nograd", "c64[2,3] i32[1]{1} !nograd",
              "i32[2,3] i32[1]{1}", "i8[9] i32[1]{0}"),
    REDUCE_OP(NULL, "All", BOOLEANS, mf_grad_none, "bool[2,3] i32[1]{1}", "bool[3] i32[0]",
              "bool[0,2] i32[1]{0}", "bool[2,3,2] i32[2]{0,2} ; keep_dims=true"),
    REDUCE_OP(NULL, "Any", BOOLEANS, mf_grad_none, "bool[2,3] i32[1]{1}", "bool[] i32[0]",
              "bool[0,2] i32[1]{0}", "bool[2,3,2] i64[1]{-1}"),
    { 0 },
};
