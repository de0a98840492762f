/* SPDX-License-Identifier: Apache-2.0 */
/* linalg.c - the kernels of linalg.h for both types, and the loop over the batch. */
#include "ops/linalg/linalg.h"

#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/math/vmath.h"

#include <complex.h>
#include <float.h>
#include <math.h>

#define T double
#define fn(x) x##_f64
#define CONJ(x) (x)
#define RE(x) (x)
#define ABS2(x) ((x) * (x))
#include "ops/linalg/linalg_kernels.h"
#include "ops/linalg/linalg_spectral.h"
#undef T
#undef fn
#undef CONJ
#undef RE
#undef ABS2

#define T double _Complex
#define fn(x) x##_c128
#define CONJ(x) conj(x)
#define RE(x) creal(x)
#define ABS2(x) (creal(x) * creal(x) + cimag(x) * cimag(x))
#include "ops/linalg/linalg_kernels.h"
#include "ops/linalg/linalg_spectral.h"
#undef T
#undef fn
#undef CONJ
#undef RE
#undef ABS2

#include "ops/linalg/linalg_small.h"

static bool svd_real(int64_t m, int64_t n, const void *a, double *s, int64_t u_cols, void *u,
                     int64_t v_cols, void *v, void *room)
{
    if (n < SMALL_SVD)
        return svd_small(m, n, a, s, u_cols, u, v_cols, v, room);
    return svd_f64(m, n, a, s, u_cols, u, v_cols, v, room);
}

#define KERNELS(T, SUFFIX, SVD)                                                                    \
    {                                                                                              \
        .size = sizeof(T), .adjoint = adjoint_##SUFFIX, .cholesky = cholesky_##SUFFIX,             \
        .lu = lu_##SUFFIX, .log_det = log_det_##SUFFIX, .has_zero_pivot = has_zero_pivot_##SUFFIX, \
        .solve = solve_##SUFFIX, .qr = qr_##SUFFIX, .eigen = eigen_##SUFFIX, .svd = SVD            \
    }

const mf_linalg *mf_linalg_of(mf_dtype type)
{
    static const mf_linalg real = KERNELS(double, f64, svd_real),
                           complex_ = KERNELS(double _Complex, c128, svd_c128);

    return mf_dtype_is_complex(type) ? &complex_ : &real;
}

/* ---- elements ---- */

void mf_linalg_load(const mf_tensor *t, int64_t at, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == MF_DTYPE_C64)
            ((double _Complex *)to)[i] = ((const float _Complex *)t->data)[at + i];
        else if (t->dtype == MF_DTYPE_C128)
            ((double _Complex *)to)[i] = ((const double _Complex *)t->data)[at + i];
        else
            ((double *)to)[i] = mf_tensor_float_at(t, at + i);
    }
}

void mf_linalg_store(const void *from, int64_t n, mf_tensor *t, int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == MF_DTYPE_C64)
            ((float _Complex *)t->data)[at + i] =
                (float _Complex)((const double _Complex *)from)[i];
        else if (t->dtype == MF_DTYPE_C128)
            ((double _Complex *)t->data)[at + i] = ((const double _Complex *)from)[i];
        else
            mf_tensor_put(t, at + i, ((const double *)from)[i]);
    }
}

void mf_linalg_store_real(const double *from, int64_t n, mf_tensor *t, int64_t at)
{
    for (int64_t i = 0; i < n; i++)
        mf_tensor_put(t, at + i, from[i]);
}

/* ---- batches ---- */

mf_shape mf_linalg_shape(const mf_shape *in, int64_t rows, int64_t cols)
{
    mf_shape out = *in;

    out.rank -= 2;
    if (rows >= 0)
        out.dims[out.rank++] = rows;
    if (cols >= 0)
        out.dims[out.rank++] = cols;
    return out;
}

void mf_linalg_split(mf_split *s)
{
    const int batch = s->in[0].rank - 2;

    for (int i = 1; i < s->n_in; i++) { /* broadcast inputs are not supported here */
        if (s->in[i].rank != s->in[0].rank)
            return;
        for (int d = 0; d < batch; d++) {
            if (s->in[i].dims[d] != s->in[0].dims[d])
                return;
        }
    }
    for (int d = 0; d < batch; d++) {
        const int letter = mf_split_new(s, s->in[0].dims[d], MF_CUT_FREE);

        for (int i = 0; i < s->n_in; i++)
            mf_split_in(s, i, d, letter);
        for (int i = 0; i < s->n_out; i++) {
            if (s->out[i].rank > d && s->out[i].dims[d] == s->in[0].dims[d])
                mf_split_out(s, i, d, letter);
        }
    }
}

mf_status mf_linalg_begin(mf_linalg_job *job, const mf_kernel *k, bool square)
{
    const mf_shape *s = &k->in[0]->shape;
    char text[MF_SHAPE_TEXT];

    if (s->rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input tensor 0 must have rank >= 2, got shape %s",
                       mf_shape_text(s, text));
    job->k = k;
    job->math = mf_linalg_of(k->in[0]->dtype);
    job->m = s->dims[s->rank - 2];
    job->n = s->dims[s->rank - 1];
    job->batch = mf_shape_span(s, 0, s->rank - 2);
    if (square && job->m != job->n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input matrix must be square, got shape %s",
                       mf_shape_text(s, text));
    return MF_OK;
}

static void linalg_run_one(void *ctx, int64_t i)
{
    mf_linalg_job *job = ctx;
    void *room = mf_calloc(job->room + 1, job->math->size);

    if (!room)
        atomic_store(&job->failed, 2);
    else if (!job->one(job, i, room))
        atomic_store(&job->failed, 1);
    mf_free(room);
}

mf_status mf_linalg_run(mf_linalg_job *job)
{
    MF_TRY(mf_kernel_parallel(job->k, job->batch, linalg_run_one, job));
    switch (atomic_load(&job->failed)) {
    case 0:
        return MF_OK;
    case 1:
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s", job->failure);
    default:
        return MF_NOMEM("a matrix");
    }
}

/* ---- gradients ---- */

mf_output mf_grad_matmul(mf_grad *g, mf_output a, bool adjoint_a, mf_output b, bool adjoint_b)
{
    return mf_applyf(g->graph, "BatchMatMulV2", MF_IN(a, b), "adj_x=%s adj_y=%s",
                     adjoint_a ? "true" : "false", adjoint_b ? "true" : "false");
}

/* A product with the identity would round, so the last two dimensions are transposed. */
mf_output mf_grad_adjoint(mf_grad *g, mf_output x)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output two = mf_scalar(g->graph, MF_DTYPE_I32, 2);
    const mf_output rank = MF_G1("Rank", x);
    const mf_output axes = MF_G3("Range", zero, MF_G2("Sub", rank, two), one);
    const mf_output last = MF_G2("Sub", rank, one), before = MF_G2("Sub", rank, two);
    const mf_output pair = mf_apply(g->graph, "Pack", MF_IN(last, before));
    const mf_output order = mf_apply(g->graph, "ConcatV2", MF_IN(axes, pair, zero));
    const bool complex_ = mf_dtype_is_complex(mf_grad_type(x));

    return MF_G2(complex_ ? "ConjugateTranspose" : "Transpose", x, order);
}

mf_output mf_grad_lower_half(mf_grad *g, mf_output x)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I64, 0);
    const mf_output lower = MF_G3("MatrixBandPart", x, mf_scalar(g->graph, MF_DTYPE_I64, -1), zero);
    const mf_output diagonal = MF_G3("MatrixBandPart", x, zero, zero);

    return MF_G2("Sub", lower, MF_G2("Mul", diagonal, mf_grad_scalar(g, x, 0.5)));
}
