/* SPDX-License-Identifier: Apache-2.0 */
/* linalg_factor.c - orthogonal factorizations: Qr, SelfAdjointEigV2, Svd. Signs of singular vectors
 * and eigenvectors are unspecified; those of Qr are LAPACK's and TensorFlow's. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/linalg/linalg.h"

#include <math.h>

#define TYPES "T:type in [double,float,half,complex64,complex128]"

typedef struct factor_job {
    int64_t left, right; /* columns of both orthogonal factors */
    bool vectors;
} factor_job;

static int64_t linalg_factor_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t linalg_factor_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void *linalg_factor_after(const mf_linalg_job *job, void *room, int64_t elements)
{
    return (char *)room + (size_t)elements * job->math->size;
}

/* ---- shapes ---- */

/* Sets output i: the batch of input 0 followed by these dimensions. */
static void set_out(mf_infer *in, int i, int n, int64_t a, int64_t b)
{
    mf_shape *out = &in->out[i];

    *out = in->in[0];
    out->rank -= 2;
    if (n >= 1)
        out->dims[out->rank++] = a;
    if (n >= 2)
        out->dims[out->rank++] = b;
}

static int64_t known_least(int64_t m, int64_t n)
{
    return m == 0 || n == 0 ? 0 : m < 0 || n < 0 ? -1 : linalg_factor_least(m, n);
}

/* Rows and columns of input 0's matrices; -1: not known. */
static mf_status linalg_factor_matrix_size(const mf_infer *in, bool *known, int64_t *m, int64_t *n)
{
    const mf_shape *a = &in->in[0];

    MF_TRY(mf_infer_rank_at_least(in, 0, 2));
    *known = a->rank >= 0;
    *m = *known ? a->dims[a->rank - 2] : -1;
    *n = *known ? a->dims[a->rank - 1] : -1;
    return MF_OK;
}

static mf_status qr_infer(mf_infer *in)
{
    const bool full = mf_node_bool(in->node, "full_matrices");
    int64_t m, n;
    bool known;

    MF_TRY(linalg_factor_matrix_size(in, &known, &m, &n));
    if (!known)
        return MF_OK;
    set_out(in, 0, 2, m, full ? m : known_least(m, n));
    set_out(in, 1, 2, full ? m : known_least(m, n), n);
    return MF_OK;
}

static mf_status svd_infer(mf_infer *in)
{
    const bool full = mf_node_bool(in->node, "full_matrices");
    const bool vectors = mf_node_bool(in->node, "compute_uv");
    int64_t m, n;
    bool known;

    MF_TRY(linalg_factor_matrix_size(in, &known, &m, &n));
    if (!known)
        return MF_OK;
    set_out(in, 0, 1, known_least(m, n), 0);
    set_out(in, 1, vectors ? 2 : 1, vectors ? m : 0, full ? m : known_least(m, n));
    set_out(in, 2, vectors ? 2 : 1, vectors ? n : 0, full ? n : known_least(m, n));
    return MF_OK;
}

static mf_status eigen_infer(mf_infer *in)
{
    const bool vectors = mf_node_bool(in->node, "compute_v");
    int64_t m, n;
    bool known;

    MF_TRY(linalg_factor_matrix_size(in, &known, &m, &n));
    if (!known)
        return MF_OK;
    if (m >= 0 && n >= 0 && m != n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input matrix must be square, got %" PRId64 " != %" PRId64, m, n);
    n = m >= 0 ? m : n;
    set_out(in, 0, 1, n, 0);
    set_out(in, 1, vectors ? 2 : 1, vectors ? n : 0, n);
    return MF_OK;
}

/* ---- kernels ---- */

static bool qr_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const factor_job *op = job->op;
    const int64_t m = job->m, n = job->n;
    void *q = linalg_factor_after(job, room, m * n);

    mf_linalg_load(job->k->in[0], i * m * n, m * n, room);
    job->math->qr(m, n, room, op->left, q, linalg_factor_after(job, q, m * op->left));
    mf_linalg_store(q, m * op->left, job->k->out[0], i * m * op->left);
    mf_linalg_store(room, op->left * n, job->k->out[1], i * op->left * n);
    return true;
}

static mf_status qr_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = qr_one };
    factor_job op;
    mf_shape q, r;
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, false));
    op.left = mf_node_bool(k->node, "full_matrices") ? job.m : linalg_factor_least(job.m, job.n);
    q = mf_linalg_shape(&k->in[0]->shape, job.m, op.left);
    r = mf_linalg_shape(&k->in[0]->shape, op.left, job.n);
    MF_TRY(mf_kernel_out(k, 0, &q, &out));
    MF_TRY(mf_kernel_out(k, 1, &r, &out));
    job.op = &op;
    job.room = job.m * job.n + job.m * op.left + linalg_factor_least(job.m, job.n) +
               linalg_factor_most(job.n, op.left);
    return mf_linalg_run(&job);
}

static bool linalg_factor_all_finite(const double *from, const double *to)
{
    while (from < to && isfinite(*from))
        from++;
    return from == to;
}

static bool svd_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const factor_job *op = job->op;
    const int64_t m = job->m, n = job->n, p = linalg_factor_least(m, n);
    void *u = linalg_factor_after(job, room, m * n), *v = linalg_factor_after(job, u, m * op->left);
    double *s = linalg_factor_after(job, v, n * op->right);

    mf_linalg_load(job->k->in[0], i * m * n, m * n, room);
    if (!linalg_factor_all_finite(room, u)) { /* as in TensorFlow, the whole result is NaN */
        for (double *x = u; x < s + p; x++)
            *x = NAN;
    } else if (!job->math->svd(m, n, room, s, op->left, op->vectors ? u : NULL, op->right,
                               op->vectors ? v : NULL, linalg_factor_after(job, s, p)))
        return false;
    mf_linalg_store_real(s, p, job->k->out[0], i * p);
    if (op->vectors) {
        mf_linalg_store(u, m * op->left, job->k->out[1], i * m * op->left);
        mf_linalg_store(v, n * op->right, job->k->out[2], i * n * op->right);
    }
    return true;
}

static mf_status svd_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = svd_one,
                          .failure = "The singular values did not converge. The input might not be "
                                     "valid." };
    const mf_shape *a = &k->in[0]->shape;
    factor_job op = { .vectors = mf_node_bool(k->node, "compute_uv") };
    mf_shape shape;
    mf_tensor *out;
    int64_t p;
    bool full;

    MF_TRY(mf_linalg_begin(&job, k, false));
    p = linalg_factor_least(job.m, job.n);
    full = mf_node_bool(k->node, "full_matrices");
    op.left = full ? job.m : p;
    op.right = full ? job.n : p;
    shape = mf_linalg_shape(a, p, -1);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    shape = op.vectors ? mf_linalg_shape(a, job.m, op.left) : mf_linalg_shape(a, 0, -1);
    MF_TRY(mf_kernel_out(k, 1, &shape, &out));
    shape = op.vectors ? mf_linalg_shape(a, job.n, op.right) : mf_linalg_shape(a, 0, -1);
    MF_TRY(mf_kernel_out(k, 2, &shape, &out));
    job.op = &op;
    job.room = job.m * (job.n + op.left) + job.n * op.right + p +
               mf_linalg_svd_room(job.m, job.n, job.m < job.n ? op.right : op.left);
    return mf_linalg_run(&job);
}

static bool eigen_one(const mf_linalg_job *job, int64_t i, void *room)
{
    const factor_job *op = job->op;
    const int64_t n = job->n;
    void *v = linalg_factor_after(job, room, n * n);
    double *e = linalg_factor_after(job, v, n * n);

    if (n == 0)
        return true;
    mf_linalg_load(job->k->in[0], i * n * n, n * n, room);
    if (!job->math->eigen(n, room, e, op->vectors ? v : NULL, linalg_factor_after(job, e, n)))
        return false;
    mf_linalg_store_real(e, n, job->k->out[0], i * n);
    if (op->vectors)
        mf_linalg_store(v, n * n, job->k->out[1], i * n * n);
    return true;
}

static mf_status eigen_run(mf_kernel *k)
{
    mf_linalg_job job = { .one = eigen_one,
                          .failure = "Self-adjoint eigen decomposition was not successful. The "
                                     "input might not be valid." };
    const factor_job op = { .vectors = mf_node_bool(k->node, "compute_v") };
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_linalg_begin(&job, k, true));
    shape = mf_linalg_shape(&k->in[0]->shape, job.n, -1);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    shape = mf_linalg_shape(&k->in[0]->shape, op.vectors ? job.n : 0, op.vectors ? job.n : -1);
    MF_TRY(mf_kernel_out(k, 1, &shape, &out));
    job.op = &op;
    job.room = 3 * job.n * job.n + 4 * job.n;
    return mf_linalg_run(&job);
}

/* ---- gradients ---- */

static mf_output linalg_factor_add(mf_grad *g, mf_output a, mf_output b)
{
    return MF_G2("AddV2", a, b);
}

static mf_output linalg_factor_times(mf_grad *g, mf_output a, mf_output b)
{
    return mf_grad_matmul(g, a, false, b, false);
}

/* x + x* */
static mf_output both(mf_grad *g, mf_output x)
{
    return linalg_factor_add(g, x, mf_grad_adjoint(g, x));
}

/* x[..., :at], or x[..., at:] */
static mf_output columns(mf_grad *g, mf_output x, mf_output at, bool from)
{
    const mf_output zeros = mf_ints(g->graph, (const int64_t[]){ 0, 0 }, 2);
    const mf_output ones = mf_ints(g->graph, (const int64_t[]){ 1, 1 }, 2);
    const mf_output pair =
        mf_apply(g->graph, "Pack", MF_IN(mf_scalar(g->graph, MF_DTYPE_I32, 0), at));

    return mf_applyf(g->graph, "StridedSlice",
                     MF_IN(x, from ? pair : zeros, from ? zeros : pair, ones),
                     "ellipsis_mask=1 end_mask=%d", from ? 2 : 0);
}

/* The size of x's last dimension. */
static mf_output last_dim(mf_grad *g, mf_output x)
{
    return mf_applyf(g->graph, "StridedSlice",
                     MF_IN(MF_G1("Shape", x), mf_ints(g->graph, (const int64_t[]){ -1 }, 1),
                           mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                           mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                     "end_mask=1 shrink_axis_mask=1");
}

/* x r^-*, r an upper triangle. */
static mf_output linalg_factor_over(mf_grad *g, mf_output x, mf_output r)
{
    return mf_grad_adjoint(g, mf_applyf(g->graph, "MatrixTriangularSolve",
                                        MF_IN(r, mf_grad_adjoint(g, x)), "lower=false"));
}

static mf_output minus_adjoint(mf_grad *g, mf_output x)
{
    return MF_G2("Sub", x, mf_grad_adjoint(g, x));
}

/* The imaginary part of the diagonal of x. */
static mf_output imaginary_diagonal(mf_grad *g, mf_output x)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I64, 0);

    return MF_G2("Mul", minus_adjoint(g, MF_G3("MatrixBandPart", x, zero, zero)),
                 mf_grad_scalar(g, x, 0.5));
}

/* For a square r (arXiv:2009.10071). */
static mf_output square_qr_grad(mf_grad *g, mf_output q, mf_output r, mf_output dq, mf_output dr)
{
    const mf_output qdq = mf_grad_matmul(g, q, true, dq, false);
    const mf_output rdr = mf_grad_matmul(g, r, false, dr, true);
    const mf_output lower =
        MF_G3("MatrixBandPart", linalg_factor_add(g, minus_adjoint(g, qdq), minus_adjoint(g, rdr)),
              mf_scalar(g->graph, MF_DTYPE_I64, -1), mf_scalar(g->graph, MF_DTYPE_I64, 0));
    const mf_output inside =
        linalg_factor_times(g, q, linalg_factor_add(g, dr, linalg_factor_over(g, lower, r)));
    const mf_output outside =
        linalg_factor_over(g, MF_G2("Sub", dq, linalg_factor_times(g, q, qdq)), r);
    const mf_output sum = linalg_factor_add(g, inside, outside);
    mf_output phase;

    if (!mf_dtype_is_complex(mf_grad_type(q)))
        return sum;
    phase = imaginary_diagonal(g, MF_G2("Sub", rdr, mf_grad_adjoint(g, qdq)));
    return linalg_factor_add(g, sum,
                             linalg_factor_over(g, mf_grad_matmul(g, q, false, phase, true), r));
}

/* a = [x, y] and r = [u, v], u square: y and v are empty unless a is wide. */
static mf_status qr_grad(mf_grad *g)
{
    const mf_output q = g->y[0], r = g->y[1], p = last_dim(g, q);
    const mf_output dq = mf_grad_dy_or_zeros(g, 0), dr = mf_grad_dy_or_zeros(g, 1);
    const mf_output y = columns(g, g->x[0], p, true), dv = columns(g, dr, p, true);
    const mf_output dx = square_qr_grad(
        g, q, columns(g, r, p, false),
        linalg_factor_add(g, dq, mf_grad_matmul(g, y, false, dv, true)), columns(g, dr, p, false));

    g->dx[0] =
        mf_apply(g->graph, "ConcatV2",
                 MF_IN(dx, linalg_factor_times(g, q, dv), mf_scalar(g->graph, MF_DTYPE_I32, -1)));
    return MF_OK;
}

/* 1 / x, and 0 for 0. */
static mf_output inverse(mf_grad *g, mf_output x)
{
    const mf_output square = MF_G2("Mul", x, x);

    return MF_G2("Mul", x,
                 MF_G1("Reciprocal", linalg_factor_add(g, square, mf_grad_scalar(g, x, 1e-20))));
}

/* 1 / (x[j] - x[i]), and 0 where i is j. */
static mf_output gaps(mf_grad *g, mf_output x)
{
    return inverse(g, MF_G2("Sub", MF_G2("ExpandDims", x, mf_scalar(g->graph, MF_DTYPE_I32, -2)),
                            MF_G2("ExpandDims", x, mf_scalar(g->graph, MF_DTYPE_I32, -1))));
}

static mf_status eigen_grad(mf_grad *g)
{
    const bool vectors = mf_node_bool(g->node, "compute_v");
    mf_output v = g->y[1], middle = MF_G1("MatrixDiag", mf_grad_dy_or_zeros(g, 0)), dx;

    if (!vectors) {
        v = MF_G1("SelfAdjointEigV2", g->x[0]);
        v.port = 1;
    } else if (g->dy[1].node) {
        const mf_output turn = mf_grad_matmul(g, v, true, g->dy[1], false);

        middle = linalg_factor_add(g, middle, MF_G2("Mul", gaps(g, g->y[0]), turn));
    }
    dx = mf_grad_matmul(g, linalg_factor_times(g, v, middle), false, v, true);
    g->dx[0] = mf_grad_lower_half(g, both(g, dx)); /* only the lower triangle is read */
    return MF_OK;
}

/* The part of x, a gradient of the orthonormal columns `u` (and `rest`, if u is not all of them),
 * outside their span: dx - u u* dx. */
static mf_output outside(mf_grad *g, mf_output u, mf_output dx, mf_output rest, mf_output d_rest)
{
    mf_output inside = linalg_factor_times(g, u, mf_grad_matmul(g, u, true, dx, false));

    if (rest.node) /* rotation of u into the rest */
        inside = linalg_factor_add(
            g, inside, linalg_factor_times(g, rest, mf_grad_matmul(g, d_rest, true, u, false)));
    return MF_G2("Sub", dx, inside);
}

typedef struct svd_side {
    mf_output x, dx, rest, d_rest; /* columns of singular values; all others */
} svd_side;

static svd_side side_of(mf_grad *g, int i)
{
    const bool full = mf_node_bool(g->node, "full_matrices");
    const mf_output x = g->y[i], dx = mf_grad_dy_or_zeros(g, i);
    mf_output p;

    if (!full)
        return (svd_side){ .x = x, .dx = dx };
    p = last_dim(g, g->y[0]);
    return (svd_side){ columns(g, x, p, false), columns(g, dx, p, false), columns(g, x, p, true),
                       columns(g, dx, p, true) };
}

/* https://j-towns.github.io/papers/svd-derivative.pdf */
static mf_status svd_grad(mf_grad *g)
{
    const mf_output ds = MF_G1("MatrixDiag", mf_grad_dy_or_zeros(g, 0)), s = g->y[0];
    mf_output f, middle, over_s, turn_u, turn_v, sum;
    svd_side u, v;

    if (!mf_node_bool(g->node, "compute_uv")) {
        const mf_output again = MF_G1("Svd", g->x[0]);

        sum = linalg_factor_times(g, (mf_output){ again.node, 1 }, ds);
        g->dx[0] = mf_grad_matmul(g, sum, false, (mf_output){ again.node, 2 }, true);
        return MF_OK;
    }
    u = side_of(g, 1);
    v = side_of(g, 2);
    f = gaps(g, MF_G2("Mul", s, s));
    over_s = MF_G1("MatrixDiag", inverse(g, s));
    turn_u = mf_grad_matmul(g, u.x, true, u.dx, false);
    turn_v = mf_grad_matmul(g, v.x, true, v.dx, false);
    middle = linalg_factor_add(
        g, ds, linalg_factor_times(g, both(g, MF_G2("Mul", f, turn_u)), MF_G1("MatrixDiag", s)));
    middle = linalg_factor_add(
        g, middle,
        linalg_factor_times(g, MF_G1("MatrixDiag", s), both(g, MF_G2("Mul", f, turn_v))));
    if (mf_dtype_is_complex(mf_grad_type(s)))
        middle =
            MF_G2("Sub", middle, linalg_factor_times(g, over_s, imaginary_diagonal(g, turn_v)));
    sum = mf_grad_matmul(g, linalg_factor_times(g, u.x, middle), false, v.x, true);
    sum = linalg_factor_add(
        g, sum,
        mf_grad_matmul(g, linalg_factor_times(g, outside(g, u.x, u.dx, u.rest, u.d_rest), over_s),
                       false, v.x, true));
    g->dx[0] = linalg_factor_add(g, sum,
                                 mf_grad_matmul(g, linalg_factor_times(g, u.x, over_s), false,
                                                outside(g, v.x, v.dx, v.rest, v.d_rest), true));
    return MF_OK;
}

#define LINALG_OP(NAME, DEF, INFER, GRAD, RUN, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .split = mf_linalg_split, .samples = MF_SAMPLES(__VA_ARGS__)                               \
    }
#define SYMMETRIC3 "{4,1,-1,1,3,0.5,-1,0.5,-5}"

const mf_op mf_ops_linalg_factor[] = {
    LINALG_OP("Qr", "(input:T) -> (q:T, r:T) {full_matrices:bool=false, " TYPES "}", qr_infer,
              qr_grad, qr_run, "f32[3,3]", "f64[5,3]", "f64[2,3,5]", "f32[5,4,3] !nograd",
              "f64[2,4] ; full_matrices=true", "f64[4,2] ; full_matrices=true !nograd",
              "c128[2,4,3] !nograd", "c64[2,2] !nograd", "f32[1,1]", "f32[0,3] !nograd",
              "f32[3] !fails"),
    LINALG_OP("SelfAdjointEigV2", "(input:T) -> (e:T, v:T) {compute_v:bool=true, " TYPES "}",
              eigen_infer, eigen_grad, eigen_run, "f32[3,3]" SYMMETRIC3, "f64[2,4,4]",
              "f64[5,5] ; compute_v=false", "c128[2,3,3] !nograd", "f32[1,1]", "f32[0,0] !nograd",
              "f32[2,3] !fails", "f32[3] !fails"),
    LINALG_OP("Svd",
              "(input:T) -> (s:T, u:T, v:T) {compute_uv:bool=true, full_matrices:bool=false, " TYPES
              "}",
              svd_infer, svd_grad, svd_run, "f32[3,3]", "f64[5,3]", "f64[2,3,5]",
              "f64[4,3] ; full_matrices=true", "f64[2,4] ; full_matrices=true !nograd",
              "f64[2,4,3] ; compute_uv=false", "c128[4,3] !nograd", "c64[2,3,5] !nograd",
              "f32[1,1]", "f32[0,3] !nograd", "f32[3] !fails"),
    { 0 },
};
