/* SPDX-License-Identifier: Apache-2.0 */
/* linalg.h - factorizations of matrices, and how an op applies one to a batch.
 *
 * Everything is computed in double, or in double _Complex: float inputs are widened first, so that
 * results are accurate to the last bits. Matrices are row-major and contiguous. A matrix is one
 * piece of work, so bits do not depend on threads. */
#ifndef MF_OPS_LINALG_LINALG_H
#define MF_OPS_LINALG_LINALG_H

#include "graph/split.h"

#include <stdatomic.h>

/* Kernels of one type; void pointers point to elements of it. */
typedef struct mf_linalg {
    size_t size; /* of an element */
    /* to [n, m] = the conjugated transpose of from [m, n]. */
    void (*adjoint)(int64_t m, int64_t n, const void *from, void *to);
    /* Replaces a [n, n], of which only the lower triangle is read, by L with L L* = a; false: a is
     * not positive definite. */
    bool (*cholesky)(int64_t n, void *a);
    /* Replaces a by L (unit diagonal) and U; row i of L U is row order[i] of a. Returns the sign of
     * `order`. */
    int (*lu)(int64_t n, void *a, int64_t *order);
    /* From the result of lu(): the determinant is *sign * e^*log_abs. */
    void (*log_det)(int64_t n, const void *lu, int order_sign, void *sign, double *log_abs);
    bool (*has_zero_pivot)(int64_t n, const void *a);
    /* Replaces b [n, cols] by the solution x of `triangle` x = b. */
    void (*solve)(int64_t n, int64_t cols, const void *triangle, bool lower, bool unit, void *b);
    /* Replaces a [m, n] by R and sets q [m, q_cols]. room: min(m, n) + max(n, q_cols) elements. */
    void (*qr)(int64_t m, int64_t n, void *a, int64_t q_cols, void *q, void *room);
    /* Ascending eigenvalues of a [n, n] (lower triangle; destroyed), eigenvectors as columns (NULL:
     * not computed). room: n * (n + 3) elements. False: no convergence. */
    bool (*eigen)(int64_t n, void *a, double *values, void *vectors, void *room);
    /* a [m, n] = u diag(s) v*, s descending; u [m, u_cols], v [n, v_cols] (both NULL: not
     * computed); one of them has min(m, n) columns. room: mf_linalg_svd_room(). */
    bool (*svd)(int64_t m, int64_t n, const void *a, double *s, int64_t u_cols, void *u,
                int64_t v_cols, void *v, void *room);
} mf_linalg;

/* `columns`: of u or v, whichever has the longer columns. */
static inline int64_t mf_linalg_svd_room(int64_t m, int64_t n, int64_t columns)
{
    const int64_t length = m < n ? n : m, count = m < n ? m : n;

    return length * (count + 2 * columns + 4) + 2 * count * count;
}

/* The kernels for inputs of this type. */
const mf_linalg *mf_linalg_of(mf_dtype type);

/* Converts n elements of t from `at` to the type of the computation, and back. */
void mf_linalg_load(const mf_tensor *t, int64_t at, int64_t n, void *to);
void mf_linalg_store(const void *from, int64_t n, mf_tensor *t, int64_t at);
void mf_linalg_store_real(const double *from, int64_t n, mf_tensor *t, int64_t at);

typedef struct mf_linalg_job mf_linalg_job;
struct mf_linalg_job {
    const mf_kernel *k;
    const mf_linalg *math;
    int64_t m, n; /* size of a matrix of input 0 */
    int64_t batch;
    int64_t room; /* scratch elements of `one` */
    /* Processes matrix i; false: failure. */
    bool (*one)(const mf_linalg_job *job, int64_t i, void *room);
    const char *failure; /* message of a failure */
    const void *op; /* data of the op */
    atomic_int failed; /* 1: failure; 2: out of memory */
};

/* Sets k, math, m, n and batch from input 0. Fails: INVALID_ARGUMENT (not a matrix, or not square
 * if `square` is set). */
MF_MUST mf_status mf_linalg_begin(mf_linalg_job *job, const mf_kernel *k, bool square);
/* Calls job->one for every matrix. Fails: INVALID_ARGUMENT with job->failure, RESOURCE_EXHAUSTED.
 */
MF_MUST mf_status mf_linalg_run(mf_linalg_job *job);

/* The batch of input 0 followed by these dimensions (rows or cols < 0: omitted). */
mf_shape mf_linalg_shape(const mf_shape *in, int64_t rows, int64_t cols);

/* Matrices of a batch are independent. */
void mf_linalg_split(mf_split *s);

/* Gradients. */
mf_output mf_grad_matmul(mf_grad *g, mf_output a, bool adjoint_a, mf_output b, bool adjoint_b);
mf_output mf_grad_adjoint(mf_grad *g, mf_output x);
/* Half of the diagonal and all below it. */
mf_output mf_grad_lower_half(mf_grad *g, mf_output x);

#endif
