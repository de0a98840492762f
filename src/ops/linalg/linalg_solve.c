/* SPDX-License-Identifier: Apache-2.0 */
/* linalg_solve.c - triangular factorizations of square matrices and their uses: Cholesky, Lu,
 * determinants, inverses, linear systems. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/linalg/linalg.h"
#include "ops/math/vmath.h"

#include <math.h>

#define NOT_INVERTIBLE "Input is not invertible."
#define TYPES "T:type in [double,float,half,complex64,complex128]"

typedef struct solve_job {
    bool adjoint, lower;
    int64_t cols; /* of the right-hand side */
    int64_t of_a[MF_MAX_RANK], of_b[MF_MAX_RANK]; /* strides over the batch, in matrices */
    mf_shape batch; /* of the result */
} solve_job;

static void *linalg_solve_after(const mf_linalg_job *job, void *room, int64_t elements)
{
    return (char *)room + (size_t)elements * job->math->size;
}

/* ---- shapes ---- */

/* The last two dimensions of input i must be equal; unknown ones match. */
static mf_status infer_square(const mf_infer *in, int i)
{
    const mf_shape *s = &in->in[i];
    char text[MF_SHAPE_TEXT];

    MF_TRY(mf_infer_rank_at_least(in, i, 2));
    if (s->rank < 2) /* unknown */
        return MF_OK;
    if (s->dims[s->rank - 1] < 0 || s->dims[s->rank - 2] < 0 ||
        s->dims[s->rank - 1] == s->dims[s->rank - 2])
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Dimensions must be equal, but shape %s is not square",
                   mf_shape_text(s, text));
}

static mf_status square_infer(mf_infer *in)
{
    MF_TRY(infer_square(in, 0));
    return mf_infer_same(in);
}

static mf_status det_infer(mf_infer *in)
{
    MF_TRY(infer_square(in, 0));
    for (int i = 0; i < in->n_out; i++) {
        in->out[i] = in->in[0];
        in->out[i].rank -= in->in[0].rank < 0 ? 0 : 2;
    }
    return MF_OK;
}

static mf_status lu_infer(mf_infer *in)
{
    MF_TRY(infer_square(in, 0));
    in->out[0] = in->out[1] = in->in[0];
    in->out[1].rank -= in->in[0].rank < 0 ? 0 : 1;
    return MF_OK;
}

/* ---- Cholesky, Lu ---- */

static bool cholesky_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const int64_t n = job->n;

    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    if (job->math->cholesky(n, room)) {
        mf_linalg_store(room, n * n, job->k->out[0], i * n * n);
        return true;
    }
    for (int64_t r = 0; r < n; r++) /* as in TensorFlow: NaN instead of an error */
        for (int64_t c = 0; c < n; c++)
            mf_tensor_put(job->k->out[0], (i * n + r) * n + c, c <= r ? NAN : 0);
    return true;
}

static mf_status cholesky_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = cholesky_one };
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, true));
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    job.room = job.n * job.n;
    return mf_linalg_run(&job);
}

static mf_output eye_like(mf_grad *g, mf_output x)
{
    const mf_output ones = MF_G1("OnesLike", x);
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I64, 0);

    return MF_G3("MatrixBandPart", ones, zero, zero);
}

/* L^-* (half of L* dL) L^-1, and the same for the other triangle. */
static mf_status cholesky_grad(mf_grad *g)
{
    const mf_output l = g->y[0];
    const mf_output inverse = MF_G2("MatrixTriangularSolve", l, eye_like(g, l));
    const mf_output middle = mf_grad_lower_half(g, mf_grad_matmul(g, l, true, g->dy[0], false));
    const mf_output dx =
        mf_grad_matmul(g, mf_grad_matmul(g, inverse, true, middle, false), false, inverse, false);

    g->dx[0] = MF_G2("Mul", MF_G2("AddV2", dx, mf_grad_adjoint(g, dx)), mf_grad_scalar(g, dx, 0.5));
    return MF_OK;
}

static bool lu_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const int64_t n = job->n;
    int64_t *order = linalg_solve_after(job, room, n * n);

    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    (void)job->math->lu(n, room, order);
    if (job->math->has_zero_pivot(n, room))
        return false;
    mf_linalg_store(room, n * n, job->k->out[0], i * n * n);
    for (int64_t r = 0; r < n; r++)
        mf_index_put(job->k->out[1], i * n + r, order[r]);
    return true;
}

static mf_status lu_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = lu_one, .failure = NOT_INVERTIBLE };
    mf_shape rows = k->in[0]->shape;
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, true));
    rows.rank--;
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    MF_TRY(mf_kernel_out(k, 1, &rows, &out));
    job.room = job.n * (job.n + 1);
    return mf_linalg_run(&job);
}

/* ---- determinants ---- */

static bool det_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const int64_t n = job->n;
    double _Complex sign_room = 0;
    double *sign = (double *)&sign_room, size;
    int swaps;

    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    swaps = job->math->lu(n, room, linalg_solve_after(job, room, n * n));
    job->math->log_det(n, room, swaps, sign, &size);
    if (job->k->n_out == 2) {
        mf_linalg_store(sign, 1, job->k->out[0], i);
        mf_tensor_put(job->k->out[1], i, size);
        return true;
    }
    sign[0] *= mf_exp(size);
    sign[1] *= mf_exp(size);
    mf_linalg_store(sign, 1, job->k->out[0], i);
    return true;
}

static mf_status det_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = det_one };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, true));
    shape = mf_linalg_shape(&k->in[0]->shape, -1, -1);
    for (int i = 0; i < k->n_out; i++)
        MF_TRY(mf_kernel_out(k, i, &shape, &out));
    job.room = job.n * (job.n + 1);
    return mf_linalg_run(&job);
}

/* dx = dy * scale * x^-*, one number per matrix. */
static mf_output times_inverse(mf_grad *g, mf_output factor)
{
    const mf_output inverse = mf_applyf(g->graph, "MatrixInverse", MF_IN(g->x[0]), "adjoint=true");
    const mf_output column = MF_G2("ExpandDims", factor, mf_scalar(g->graph, MF_DTYPE_I32, -1));

    return MF_G2("Mul", MF_G2("ExpandDims", column, mf_scalar(g->graph, MF_DTYPE_I32, -1)),
                 inverse);
}

static mf_status det_grad(mf_grad *g)
{
    g->dx[0] = times_inverse(g, MF_G2("Mul", g->dy[0], g->y[0]));
    return MF_OK;
}

/* The gradient of the logarithm only, as in TensorFlow. */
static mf_status log_det_grad(mf_grad *g)
{
    g->dx[0] = times_inverse(g, mf_grad_dy_or_zeros(g, 1));
    return MF_OK;
}

/* ---- inverses ---- */

/* Permutes rows of b [n, cols] by the order of lu(). */
static void reorder(const mf_linalg_job *job, const int64_t *order, int64_t cols, const void *from,
                    void *to)
{
    const size_t row = (size_t)cols * job->math->size;

    for (int64_t i = 0; i < job->n && row > 0; i++)
        memcpy((char *)to + (size_t)i * row, (const char *)from + (size_t)order[i] * row, row);
}

/* Solves a x = b by LU; `room` holds a, then b, x and the order. False: a is singular. */
static bool solve_by_lu(const mf_linalg_job *job, bool adjoint, int64_t cols, void *room, void **x)
{
    const int64_t n = job->n;
    void *b = linalg_solve_after(job, room, n * n), *spare;
    int64_t *order;

    *x = linalg_solve_after(job, b, n * cols);
    spare = linalg_solve_after(job, *x, n * cols);
    order = linalg_solve_after(job, spare, n * n);
    if (adjoint) {
        job->math->adjoint(n, n, room, spare);
        memcpy(room, spare, (size_t)(n * n) * job->math->size);
    }
    (void)job->math->lu(n, room, order);
    if (job->math->has_zero_pivot(n, room))
        return false;
    reorder(job, order, cols, b, *x);
    job->math->solve(n, cols, room, true, true, *x);
    job->math->solve(n, cols, room, false, false, *x);
    return true;
}

static int64_t lu_room(int64_t n, int64_t cols)
{
    return 2 * n * n + 2 * n * cols + n;
}

static bool inverse_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const solve_job *op = job->op;
    const int64_t n = job->n;
    char *b = linalg_solve_after(job, room, n * n);
    const double one = 1;
    void *x;

    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    for (int64_t d = 0; d < n; d++) /* the identity; allocated memory is zero */
        memcpy(b + (size_t)(d * n + d) * job->math->size, &one, sizeof one);
    if (!solve_by_lu(job, op->adjoint, n, room, &x))
        return false;
    mf_linalg_store(x, n * n, job->k->out[0], i * n * n);
    return true;
}

static mf_status inverse_run(mf_kernel *k)
{
    const solve_job op = { .adjoint = mf_node_bool(k->node, "adjoint") };
    mf_linalg_job job = { .one = inverse_one, .op = &op, .failure = NOT_INVERTIBLE };
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, true));
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    job.room = lu_room(job.n, job.n);
    return mf_linalg_run(&job);
}

static mf_status inverse_grad(mf_grad *g)
{
    const bool adjoint = mf_node_bool(g->node, "adjoint");
    const mf_output right = mf_grad_matmul(g, g->dy[0], adjoint, g->y[0], !adjoint);

    g->dx[0] = MF_G1("Neg", mf_grad_matmul(g, g->y[0], !adjoint, right, false));
    return MF_OK;
}

/* ---- systems of equations ---- */

/* Both sides must have the same number of rows, and the same or broadcastable batches. */
static mf_status system_shape(const mf_shape *a, const mf_shape *b, bool broadcast, mf_shape *batch,
                              mf_shape *out)
{
    mf_shape batch_a = *a, batch_b = *b;
    char at[MF_SHAPE_TEXT], bt[MF_SHAPE_TEXT];

    if (b->rank < 2 || a->rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "In[0] and In[1] must be matrices, got %s and %s",
                       mf_shape_text(a, at), mf_shape_text(b, bt));
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    if (a->dims[a->rank - 2] >= 0 && b->dims[b->rank - 2] >= 0 &&
        a->dims[a->rank - 2] != b->dims[b->rank - 2])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input matrix and right hand side must have the same number of rows: %s vs. "
                       "%s",
                       mf_shape_text(a, at), mf_shape_text(b, bt));
    if (broadcast)
        MF_TRY(mf_shape_broadcast(&batch_a, &batch_b, batch));
    else
        MF_TRY(mf_shape_merge(&batch_a, &batch_b, batch));
    *out = *batch;
    out->dims[out->rank++] = a->dims[a->rank - 1];
    out->dims[out->rank++] = b->dims[b->rank - 1];
    return MF_OK;
}

static mf_status system_infer(mf_infer *in, bool broadcast)
{
    mf_shape batch;

    MF_TRY(infer_square(in, 0));
    MF_TRY(mf_infer_rank_at_least(in, 1, 2));
    if (in->in[0].rank < 0 || in->in[1].rank < 0)
        return MF_OK;
    return system_shape(&in->in[0], &in->in[1], broadcast, &batch, &in->out[0]);
}

static mf_status solve_infer(mf_infer *in)
{
    return system_infer(in, false);
}

static mf_status triangular_infer(mf_infer *in)
{
    return system_infer(in, true);
}

/* Indices of the matrices of both sides for matrix i of the result. */
static void find_sides(const solve_job *op, int64_t i, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int d = op->batch.rank - 1; d >= 0; d--) {
        *a += i % op->batch.dims[d] * op->of_a[d];
        *b += i % op->batch.dims[d] * op->of_b[d];
        i /= op->batch.dims[d];
    }
}

static void batch_strides(const mf_shape *side, const mf_shape *batch, int64_t *stride)
{
    int64_t step = 1;

    for (int d = batch->rank - 1, s = side->rank - 3; d >= 0; d--, s--) {
        const int64_t dim = s >= 0 ? side->dims[s] : 1;

        stride[d] = dim == 1 ? 0 : step;
        step *= dim;
    }
}

static bool solve_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const solve_job *op = job->op;
    const int64_t n = job->n, cols = op->cols;
    void *x;

    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    mf_linalg_load(job->k->in[1], i * n * cols, n * cols, linalg_solve_after(job, room, n * n));
    if (!solve_by_lu(job, op->adjoint, cols, room, &x))
        return false;
    mf_linalg_store(x, n * cols, job->k->out[0], i * n * cols);
    return true;
}

static bool triangular_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const solve_job *op = job->op;
    const int64_t n = job->n, cols = op->cols;
    void *x = linalg_solve_after(job, room, n * n), *spare = linalg_solve_after(job, x, n * cols);
    int64_t a, b;

    find_sides(op, i, &a, &b);
    mf_linalg_load(job->k->in[0], a * n * n, n * n, room);
    mf_linalg_load(job->k->in[1], b * n * cols, n * cols, x);
    if (op->adjoint)
        job->math->adjoint(n, n, room, spare);
    job->math->solve(n, cols, op->adjoint ? spare : room, op->lower != op->adjoint, false, x);
    mf_linalg_store(x, n * cols, job->k->out[0], i * n * cols);
    return true;
}

static mf_status run_system(mf_kernel *k, mf_linalg_job *job, solve_job *op, bool broadcast)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(job, k, true));
    MF_TRY(system_shape(&k->in[0]->shape, &k->in[1]->shape, broadcast, &op->batch, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    op->adjoint = mf_node_bool(k->node, "adjoint");
    op->cols = shape.dims[shape.rank - 1];
    batch_strides(&k->in[0]->shape, &op->batch, op->of_a);
    batch_strides(&k->in[1]->shape, &op->batch, op->of_b);
    job->op = op;
    job->batch = mf_shape_span(&op->batch, 0, op->batch.rank);
    job->room = lu_room(job->n, op->cols);
    return out->count > 0 ? mf_linalg_run(job) : MF_OK;
}

static mf_status solve_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = solve_one, .failure = "Input matrix is not invertible." };
    solve_job op = { 0 };

    return run_system(k, &job, &op, false);
}

static mf_status triangular_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = triangular_one };
    solve_job op = { .lower = mf_node_bool(k->node, "lower") };

    return run_system(k, &job, &op, true);
}

/* -b x* or its adjoint: the gradient of the matrix from the gradient of the solution. */
static mf_output matrix_grad(mf_grad *g, mf_output db)
{
    const bool adjoint = mf_node_bool(g->node, "adjoint");

    return MF_G1("Neg", adjoint ? mf_grad_matmul(g, g->y[0], false, db, true)
                                : mf_grad_matmul(g, db, false, g->y[0], true));
}

static mf_status solve_grad(mf_grad *g)
{
    const bool adjoint = mf_node_bool(g->node, "adjoint");

    g->dx[1] = mf_applyf(g->graph, "MatrixSolve", MF_IN(g->x[0], g->dy[0]), "adjoint=%s",
                         adjoint ? "false" : "true");
    g->dx[0] = matrix_grad(g, g->dx[1]);
    return MF_OK;
}

static mf_status triangular_grad(mf_grad *g)
{
    const bool adjoint = mf_node_bool(g->node, "adjoint"), lower = mf_node_bool(g->node, "lower");
    const mf_output all = mf_scalar(g->graph, MF_DTYPE_I64, -1);
    const mf_output none = mf_scalar(g->graph, MF_DTYPE_I64, 0);
    const mf_output sa = MF_G1("Shape", g->x[0]), sb = MF_G1("Shape", g->x[1]);
    const mf_output axes =
        MF_G2("BroadcastGradientArgs", mf_grad_batch_dims(g, sa), mf_grad_batch_dims(g, sb));
    const mf_output db =
        mf_applyf(g->graph, "MatrixTriangularSolve", MF_IN(g->x[0], g->dy[0]),
                  "lower=%s adjoint=%s", lower ? "true" : "false", adjoint ? "false" : "true");
    const mf_output da =
        MF_G3("MatrixBandPart", matrix_grad(g, db), lower ? all : none, lower ? none : all);

    g->dx[0] = MF_G2("Reshape", MF_G2("Sum", da, axes), sa);
    g->dx[1] = MF_G2("Reshape", MF_G2("Sum", db, ((mf_output){ axes.node, 1 })), sb);
    return MF_OK;
}

#define LINALG_OP(NAME, DEF, INFER, GRAD, RUN, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .split = mf_linalg_split, .samples = MF_SAMPLES(__VA_ARGS__)                               \
    }
/* Symmetric, positive definite, well conditioned. */
#define POSITIVE3 "{4,1,-1,1,3,0.5,-1,0.5,5}"
#define MATRIX3 "{3,1,-0.5,0.7,-4,1.2,-1.5,0.3,2}"
#define TRIANGLE3 "{2,9,9,0.5,-3,9,-1,0.3,1.5}"

const mf_op mf_ops_linalg_solve[] = {
    LINALG_OP("Cholesky", "(input:T) -> (output:T) {" TYPES "}", square_infer, cholesky_grad,
              cholesky_run, "f32[3,3]" POSITIVE3 " !nograd", "f64[2,1,1]@1:4",
              "c64[1,1]{4} !nograd", "f64[2,2,2]{4,9,1,3,2,9,0.5,6} !nograd", "f32[0,0] !nograd",
              "f64[3,2,2]@-9:-8 !nograd", "f32[2,3] !fails", "f32[4] !fails"),
    LINALG_OP("Lu",
              "(input:T) -> (lu:T, p:output_idx_type) {" TYPES
              ", output_idx_type:type=int32 in index}",
              lu_infer, mf_grad_missing, lu_run, "f32[3,3]" MATRIX3, "f64[2,4,4]", "c64[3,3]",
              "f64[3,3] ; output_idx_type=int64", "f32[2,2]{1,2,2,4} !fails", "f32[2,3] !fails"),
    LINALG_OP("MatrixDeterminant",
              "(input:T) -> (output:T) {T:type in [half,float,double,complex64,complex128]}",
              det_infer, det_grad, det_run, "f32[3,3]" MATRIX3, "f64[2,2,4,4]",
              "c64[2,3,3] !nograd", "f32[1,1]", "f32[0,0] !nograd", "f32[2,2]{1,2,2,4} !nograd",
              "f32[2,3] !fails"),
    LINALG_OP("LogMatrixDeterminant",
              "(input:T) -> (sign:T, log_abs_determinant:T) {T:type in "
              "[half,float,double,complex64,complex128]}",
              det_infer, log_det_grad, det_run, "f32[3,3]" MATRIX3, "f64[2,2,4,4]",
              "c64[2,3,3] !nograd", "f32[0,0] !nograd", "f32[2,3] !fails"),
    LINALG_OP("MatrixInverse", "(input:T) -> (output:T) {adjoint:bool=false, " TYPES "}",
              square_infer, inverse_grad, inverse_run, "f32[3,3]" MATRIX3,
              "f64[3,3]" MATRIX3 " ; adjoint=true", "c128[2,2,2] !tol:1e-10 !nograd",
              "c128[2,2] ; adjoint=true !nograd !tol:1e-10", "f32[0,0] !nograd",
              "f32[2,2]{1,2,2,4} !fails", "f32[2,3] !fails", "f32[3] !fails"),
    LINALG_OP("MatrixSolve", "(matrix:T, rhs:T) -> (output:T) {adjoint:bool=false, " TYPES "}",
              solve_infer, solve_grad, solve_run, "f32[3,3]" MATRIX3 " f32[3,2]",
              "f64[3,3]" MATRIX3 " f64[3,1] ; adjoint=true",
              "f64[2,2,2]{3,1,1,2,4,0,1,5} f64[2,2,3]", "f64[3,2,4,4] f64[3,2,4,1] !nograd",
              "c128[2,2]{2,1,0,3} c128[2,2] ; adjoint=true !nograd", "f32[0,0] f32[0,2] !nograd",
              "f32[2,2]{1,2,2,4} f32[2,1] !fails", "f32[2,2] f32[3,1] !fails",
              "f32[2,2] f32[2] !fails", "f32[2,2,2] f32[1,2,2] !fails"),
    LINALG_OP("MatrixTriangularSolve",
              "(matrix:T, rhs:T) -> (output:T) {lower:bool=true, adjoint:bool=false, T:type in "
              "[bfloat16,double,float,half,complex64,complex128]}",
              triangular_infer, triangular_grad, triangular_run, "f32[3,3]" TRIANGLE3 " f32[3,2]",
              "f64[3,3]" TRIANGLE3 " f64[3,2] ; lower=false",
              "f64[3,3]" TRIANGLE3 " f64[2,3,2] ; adjoint=true",
              "f64[2,1,2,2]{3,1,1,2,4,0,1,5} f64[3,2,2]",
              "c128[3,3]" TRIANGLE3 " c128[3,2] ; lower=false adjoint=true !nograd",
              "f32[0,0] f32[0,2] !nograd", "f32[2,2]{1,2,2,0} f32[2,1]{1,2} !nograd",
              "f32[2,2]{1,2,2,3} f32[3,1] !fails"),
    { 0 },
};
