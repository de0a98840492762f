/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_dense.c - ops on a sparse and a dense tensor: SparseDenseCwise*, SparseTensorDenseMatMul,
 * SparseTensorDenseAdd. */
#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/linalg/linalg.h"
#include "ops/sparse/sparse_util.h"

#include <string.h>

/* ---- element by element, for present elements ---- */

/* Strides of the dense tensor, broadcast to the sparse one's dimensions. */
static mf_status dense_strides(const mf_sparse *s, const mf_shape *dense, int64_t *stride)
{
    int64_t step = 1;
    char text[MF_SHAPE_TEXT];
    bool fits = dense->rank <= s->rank;

    memset(stride, 0, MF_MAX_RANK * sizeof *stride);
    for (int d = dense->rank - 1, to = s->rank - 1; fits && d >= 0; d--, to--) {
        fits = dense->dims[d] == s->size[to] || dense->dims[d] == 1;
        stride[to] = dense->dims[d] == 1 ? 0 : step;
        step *= dense->dims[d];
    }
    if (fits)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible "
                   "shapes: a sparse one of rank %d and %s",
                   s->rank, mf_shape_text(dense, text));
}

static mf_number sparse_dense_divide(mf_number a, mf_number b)
{
    if (mf_dtype_is_int(a.type)) {
        const bool is_signed = a.type != MF_DTYPE_U8 && a.type != MF_DTYPE_U16 &&
                               a.type != MF_DTYPE_U32 && a.type != MF_DTYPE_U64;
        const int64_t x = (int64_t)a.i, y = (int64_t)b.i;

        a.i = is_signed ? (y == -1 ? (uint64_t)0 - a.i : (uint64_t)(x / y)) : a.i / b.i;
        return a;
    }
    a.z = mf_dtype_is_complex(a.type) ? a.z / b.z : creal(a.z) / creal(b.z);
    return a;
}

static mf_status cwise_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = in->in[1];
    return MF_OK;
}

static mf_status cwise_run(mf_kernel *k)
{
    const char kind = k->node->op_name[strlen("SparseDenseCwise")];
    int64_t stride[MF_MAX_RANK];
    mf_tensor *out;
    mf_sparse s;

    MF_TRY(mf_sparse_read(k, 0, &s));
    MF_TRY(mf_sparse_check_bounds(&s));
    MF_TRY(dense_strides(&s, &k->in[3]->shape, stride));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s.n), &out));
    for (int64_t i = 0; i < s.n; i++) {
        const mf_number x = mf_number_at(s.values, i);
        mf_number y;
        int64_t at = 0;

        for (int d = 0; d < s.rank; d++)
            at += mf_sparse_at(&s, i, d) * stride[d];
        y = mf_number_at(k->in[3], at);
        if (kind == 'D' && mf_dtype_is_int(y.type) && y.i == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Integer division by zero at element %" PRId64, i);
        mf_number_put(out, i,
                      kind == 'A'   ? mf_number_add(x, y)
                      : kind == 'M' ? mf_number_mul(x, y)
                                    : sparse_dense_divide(x, y));
    }
    return MF_OK;
}

/* Index of the dense element for each value: [n, rank of dense]. */
static mf_output meeting_points(mf_grad *g)
{
    const mf_output y = g->x[3], one = mf_ints(g->graph, (const int64_t[]){ 1 }, 1);
    const mf_output sizes = mf_applyf(g->graph, "Shape", MF_IN(y), "out_type=int64");
    const mf_output skip = MF_G2("Sub", MF_G1("Size", g->x[2]), MF_G1("Rank", y));
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output columns =
        mf_applyf(g->graph, "StridedSlice",
                  MF_IN(g->x[0], mf_apply(g->graph, "Pack", MF_IN(zero, skip)),
                        mf_ints(g->graph, (const int64_t[]){ 0, 0 }, 2),
                        mf_ints(g->graph, (const int64_t[]){ 1, 1 }, 2)),
                  "begin_mask=1 end_mask=3");
    const mf_output of_sparse = mf_applyf(g->graph, "StridedSlice",
                                          MF_IN(g->x[2], MF_G2("ExpandDims", skip, zero),
                                                mf_ints(g->graph, (const int64_t[]){ 0 }, 1), one),
                                          "end_mask=1");
    const mf_output least = mf_scalar(g->graph, MF_DTYPE_I64, 1);

    return MF_G2(
        "FloorDiv", columns,
        MF_G2("FloorDiv", MF_G2("Maximum", of_sparse, least), MF_G2("Maximum", sizes, least)));
}

static mf_status cwise_grad(mf_grad *g, bool divides)
{
    const mf_output at = meeting_points(g), y = MF_G2("GatherNd", g->x[3], at);
    const mf_output sizes = mf_applyf(g->graph, "Shape", MF_IN(g->x[3]), "out_type=int64");
    mf_output dy;

    if (divides) {
        g->dx[1] = MF_G2("RealDiv", g->dy[0], y);
        dy = MF_G2("Mul", g->dy[0], MF_G1("Neg", MF_G2("RealDiv", g->x[1], MF_G1("Square", y))));
    } else {
        g->dx[1] = MF_G2("Mul", g->dy[0], y);
        dy = MF_G2("Mul", g->dy[0], g->x[1]);
    }
    g->dx[3] = MF_G3("ScatterNd", at, dy, sizes);
    return MF_OK;
}

static mf_status sparse_dense_mul_grad(mf_grad *g)
{
    return cwise_grad(g, false);
}

static mf_status div_grad(mf_grad *g)
{
    return cwise_grad(g, true);
}

/* ---- SparseTensorDenseAdd ---- */

static mf_status add_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = in->in[3];
    return MF_OK;
}

static mf_status sparse_dense_add_run(mf_kernel *k)
{
    const mf_tensor *b = k->in[3];
    mf_tensor *out;
    mf_sparse s;

    MF_TRY(mf_sparse_read(k, 0, &s));
    if (b->shape.rank != s.rank ||
        memcmp(b->shape.dims, s.size, (size_t)s.rank * sizeof *s.size) != 0)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Two operands have different ranks or sizes: the sparse one has rank %d, the "
            "dense one %d",
            s.rank, b->shape.rank);
    MF_TRY(mf_sparse_check_bounds(&s));
    MF_TRY(mf_kernel_out(k, 0, &b->shape, &out));
    MF_TRY(mf_cells_copy(b->dtype, out->data, 0, b->data, 0, b->count));
    for (int64_t i = 0; i < s.n; i++) {
        int64_t at = 0;

        for (int d = 0; d < s.rank; d++)
            at = at * s.size[d] + mf_sparse_at(&s, i, d);
        mf_number_put(out, at, mf_number_add(mf_number_at(out, at), mf_number_at(s.values, i)));
    }
    return MF_OK;
}

static mf_status sparse_dense_add_grad(mf_grad *g)
{
    g->dx[1] = MF_G2("GatherNd", g->dy[0], g->x[0]);
    g->dx[3] = g->dy[0];
    return MF_OK;
}

/* ---- SparseTensorDenseMatMul ---- */

typedef struct sparse_dense_product_job {
    mf_sparse a;
    const mf_tensor *b;
    bool adjoint_a, adjoint_b;
    int64_t rows, inner, cols; /* sizes of the product: rows, contracted, columns */
    mf_tensor *sums; /* double, double _Complex or the type itself */
} sparse_dense_product_job;

static mf_status sparse_dense_product_infer(mf_infer *in)
{
    const bool adjoint = mf_node_bool(in->node, "adjoint_b");
    const mf_shape *b = &in->in[3];
    mf_ivec size;
    int64_t rows = -1;

    MF_TRY(mf_sparse_infer(in, 0));
    MF_TRY(mf_infer_rank(in, 3, 2));
    if (in->in_value[2] && in->in_value[2]->count == 2) {
        MF_TRY(mf_ivec_read(in->in_value[2], 2, "a_shape", &size));
        rows = size.v[mf_node_bool(in->node, "adjoint_a") ? 1 : 0];
    }
    in->out[0] = MF_SHAPE(rows >= 0 ? rows : -1, b->rank == 2 ? b->dims[adjoint ? 0 : 1] : -1);
    return MF_OK;
}

static mf_status product_init(const mf_kernel *k, sparse_dense_product_job *job)
{
    const mf_shape *b = &k->in[3]->shape;
    char text[MF_SHAPE_TEXT];

    MF_TRY(mf_sparse_read(k, 0, &job->a));
    job->b = k->in[3];
    job->adjoint_a = mf_node_bool(k->node, "adjoint_a");
    job->adjoint_b = mf_node_bool(k->node, "adjoint_b");
    if (job->a.rank != 2 || b->rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Tensors a and b must be matrices: a has rank %d, b is %s", job->a.rank,
                       mf_shape_text(b, text));
    job->rows = job->a.size[job->adjoint_a ? 1 : 0];
    job->inner = job->a.size[job->adjoint_a ? 0 : 1];
    job->cols = b->dims[job->adjoint_b ? 0 : 1];
    if (job->inner != b->dims[job->adjoint_b ? 1 : 0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Cannot multiply A and B because inner dimension does not match: %" PRId64
                       " vs. %" PRId64,
                       job->inner, b->dims[job->adjoint_b ? 1 : 0]);
    return mf_sparse_check_bounds(&job->a);
}

/* row += x * b's row, for the common types. */
#define ADD_ROW(T)                                                                                 \
    do {                                                                                           \
        const T x_ = ((const T *)job->a.values->data)[i];                                          \
        const T *b_ = (const T *)job->b->data + from * step;                                       \
        T *o_ = (T *)job->sums->data + to * job->cols;                                             \
                                                                                                   \
        for (int64_t c = 0; c < job->cols; c++)                                                    \
            o_[c] += x_ * b_[c * across];                                                          \
    } while (0)

static void sparse_dense_add_row(const sparse_dense_product_job *job, int64_t i)
{
    const int64_t to = mf_sparse_at(&job->a, i, job->adjoint_a ? 1 : 0);
    const int64_t from = mf_sparse_at(&job->a, i, job->adjoint_a ? 0 : 1);
    const int64_t step = job->adjoint_b ? 1 : job->cols, across = job->adjoint_b ? job->inner : 1;
    mf_number x;

    if (job->b->dtype == MF_DTYPE_F32 && job->sums->dtype == MF_DTYPE_F32) {
        ADD_ROW(float);
        return;
    }
    if (job->b->dtype == MF_DTYPE_F64) {
        ADD_ROW(double);
        return;
    }
    x = mf_number_at(job->a.values, i);
    x = job->adjoint_a ? mf_number_conj(x) : x;
    for (int64_t c = 0; c < job->cols; c++) {
        mf_number y = mf_number_at(job->b, from * step + c * across), sum;

        y = mf_number_mul(x, job->adjoint_b ? mf_number_conj(y) : y);
        sum = mf_number_at(job->sums, to * job->cols + c);
        mf_number_put(job->sums, to * job->cols + c, mf_number_add(sum, y));
    }
}

/* 16-bit floats are accumulated in float. */
static mf_status sparse_dense_product_run(mf_kernel *k)
{
    mf_tensor wide = { 0 }, *out;
    sparse_dense_product_job job = { .rows = 0 };
    mf_status st;

    MF_TRY(product_init(k, &job));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(job.rows, job.cols), &out));
    if (mf_dtype_is_float(out->dtype) && mf_dtype_cell(out->dtype) == 2)
        MF_TRY_TO(done, mf_tensor_alloc(&wide, MF_DTYPE_F32, &out->shape));
    else
        mf_tensor_set(&wide, out);
    mf_cells_zero(wide.dtype, wide.data, 0, wide.count);
    job.sums = &wide;
    for (int64_t i = 0; i < job.a.n; i++) {
        MF_TRY_TO(done, mf_stop_after(job.cols));
        sparse_dense_add_row(&job, i);
    }
    for (int64_t i = 0; i < out->count && wide.dtype != out->dtype; i++)
        mf_tensor_put(out, i, (double)((const float *)wide.data)[i]);
    st = MF_OK;
done:
    mf_tensor_clear(&wide);
    return st;
}

/* The gradient of a value is the product of the row of dy and the row of b that it connects. */
static mf_status product_grad(mf_grad *g)
{
    const bool adjoint_a = mf_node_bool(g->node, "adjoint_a");
    const bool adjoint_b = mf_node_bool(g->node, "adjoint_b");
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1),
                    zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output index = mf_applyf(g->graph, "Unpack", MF_IN(g->x[0]), "num=2 axis=1");
    const mf_output rows = adjoint_a ? (mf_output){ index.node, 1 } : index;
    const mf_output cols = adjoint_a ? index : (mf_output){ index.node, 1 };
    const mf_output b = adjoint_b ? mf_grad_adjoint(g, g->x[3]) : g->x[3];
    const mf_output db =
        mf_applyf(g->graph, "SparseTensorDenseMatMul", MF_IN(g->x[0], g->x[1], g->x[2], g->dy[0]),
                  "adjoint_a=%s", adjoint_a ? "false" : "true");
    const mf_output products = MF_G2("Mul", MF_G3("GatherV2", g->dy[0], rows, zero),
                                     mf_grad_conj(g, MF_G3("GatherV2", b, cols, zero)));
    const mf_output sums = MF_G2("Sum", products, one);

    g->dx[1] = adjoint_a ? mf_grad_conj(g, sums) : sums;
    g->dx[3] = adjoint_b ? mf_grad_adjoint(g, db) : db;
    return MF_OK;
}

#define SPARSE_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define CWISE                                                                                      \
    "(sp_indices:int64, sp_values:T, sp_shape:int64, dense:T) -> (output:T) {T:type in numbers}"
#define A "i64[4,2]{0,1,0,3,2,0,2,3} "
#define SHAPE " i64[2]{3,4} "
#define CWISE_SAMPLES                                                                              \
    A "f32[4]" SHAPE "f32[3,4]@1:3", A "f64[4]" SHAPE "f64[4]@1:3",                                \
        A "f64[4]" SHAPE "f64[3,1]@1:3", A "f64[4]" SHAPE "f64[]@1:3",                             \
        A "i32[4]" SHAPE "i32[3,4]@1:9", "i64[0,2] f32[0]" SHAPE "f32[3,4]",                       \
        A "f32[4]" SHAPE "f32[2,3,4] !fails", A "f32[4]" SHAPE "f32[3] !fails",                    \
        A "f32[4] i64[2]{3,2} f32[3,2] !fails"
#define PRODUCT                                                                                    \
    "(a_indices:Tindices, a_values:T, a_shape:int64, b:T) -> (product:T) {T:type, "                \
    "Tindices:type=int64 in index, adjoint_a:bool=false, adjoint_b:bool=false}"

const mf_op mf_ops_sparse_dense[] = {
    SPARSE_OP("SparseDenseCwiseMul", CWISE, cwise_infer, cwise_run, sparse_dense_mul_grad,
              CWISE_SAMPLES),
    SPARSE_OP("SparseDenseCwiseDiv", CWISE, cwise_infer, cwise_run, div_grad, CWISE_SAMPLES),
    SPARSE_OP("SparseDenseCwiseAdd", CWISE, cwise_infer, cwise_run, mf_grad_missing, CWISE_SAMPLES),
    SPARSE_OP("SparseTensorDenseAdd",
              "(a_indices:Tindices, a_values:T, a_shape:Tindices, b:T) -> (output:T) {T:type in "
              "numbers, Tindices:type in index}",
              add_infer, sparse_dense_add_run, sparse_dense_add_grad, A "f32[4]" SHAPE "f32[3,4]",
              "i32[2,1]{1,1} f64[2] i32[1]{3} f64[3]", "i64[0,2] i32[0]" SHAPE "i32[3,4]",
              A "f32[4]" SHAPE "f32[3,3] !fails", A "f32[4] i64[2]{3,2} f32[3,2] !fails"),
    SPARSE_OP(
        "SparseTensorDenseMatMul", PRODUCT, sparse_dense_product_infer, sparse_dense_product_run,
        product_grad, A "f32[4]" SHAPE "f32[4,5]", A "f64[4]" SHAPE "f64[3,2] ; adjoint_a=true",
        A "f64[4]" SHAPE "f64[2,4] ; adjoint_b=true",
        A "f64[4]" SHAPE "f64[2,3] ; adjoint_a=true adjoint_b=true",
        A "c64[4]" SHAPE "c64[2,3] ; adjoint_a=true adjoint_b=true !nograd",
        A "c128[4]" SHAPE "c128[4,2] !nograd", "i32[2,2]{0,1,0,1} f32[2] i64[2]{2,2} f32[2,3]",
        A "i32[4]" SHAPE "i32[4,5]", "i64[0,2] f32[0]" SHAPE "f32[4,5]",
        A "f32[4]" SHAPE "f32[3,5] !fails", A "f32[4] i64[2]{2,4} f32[4,5] !fails"),
    { 0 },
};
