/* SPDX-License-Identifier: Apache-2.0 */
/* linalg.c - factors multiplied give the matrix again, also where TensorFlow's are others. */
#include "ops/linalg/linalg.h"

#include "mf_test.h"

#include <complex.h>
#include <math.h>

enum { N = 40 };

typedef double _Complex scalar;

static scalar a[N * N], u[N * N], v[N * N], room[8 * N * N];
static double s[N];

static void fill(int64_t n, int rank)
{
    static scalar left[N * N], right[N * N];
    uint64_t x = 88172645463325252u;

    for (int64_t i = 0; i < N * N; i++) {
        double part[4];

        for (int k = 0; k < 4; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            part[k] = (double)(x >> 11) / 9007199254740992.0 - 0.5;
        }
        left[i] = part[0] + I * part[1];
        right[i] = part[2] + I * part[3];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = 0;
            for (int64_t k = 0; k < rank; k++)
                a[i * n + j] += left[i * N + k] * right[k * N + j];
        }
    }
}

/* How far the first m columns of x [rows, cols] are from orthonormal ones. */
static double skew(int64_t rows, int64_t cols, const scalar *x)
{
    double worst = 0;

    for (int64_t p = 0; p < cols; p++) {
        for (int64_t q = 0; q < cols; q++) {
            scalar sum = p == q ? -1 : 0;

            for (int64_t i = 0; i < rows; i++)
                sum += conj(x[i * cols + p]) * x[i * cols + q];
            worst = fmax(worst, cabs(sum));
        }
    }
    return worst;
}

/* The largest element of u diag(s) v* - a. */
static double distance(int64_t m, int64_t n, int64_t u_cols, int64_t v_cols)
{
    double worst = 0;

    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            scalar sum = -a[i * n + j];

            for (int64_t k = 0; k < (m < n ? m : n); k++)
                sum += u[i * u_cols + k] * s[k] * conj(v[j * v_cols + k]);
            worst = fmax(worst, cabs(sum));
        }
    }
    return worst;
}

static void check_svd(int64_t m, int64_t n, int rank, bool full)
{
    const int64_t p = m < n ? m : n, left = full ? m : p, right = full ? n : p;

    fill(N, rank);
    T_TRUE(mf_linalg_of(MF_DTYPE_C128)->svd(m, n, a, s, left, u, right, v, room));
    T_TRUE(skew(m, left, u) < 1e-13);
    T_TRUE(skew(n, right, v) < 1e-13);
    T_TRUE(distance(m, n, left, right) < 1e-12);
    for (int64_t i = 1; i < p; i++)
        T_TRUE(s[i] >= 0 && s[i] <= s[i - 1]);
}

MF_TEST(linalg_singular_vectors_are_orthonormal_without_full_rank)
{
    const int64_t sizes[][2] = { { 1, 1 }, { 5, 3 }, { 3, 7 }, { 17, 17 }, { N, 9 }, { 9, N } };

    for (int i = 0; i < 6; i++) {
        for (int rank = 0; rank <= 4; rank += 2) {
            check_svd(sizes[i][0], sizes[i][1], rank, false);
            check_svd(sizes[i][0], sizes[i][1], rank, true);
        }
    }
}

/* Two equal blocks: every eigenvalue is there twice. */
MF_TEST(linalg_eigenvectors_of_equal_eigenvalues_are_orthonormal)
{
    static scalar b[N * N];
    const int64_t half = 7, n = 2 * half;

    fill(half, 6);
    for (int64_t i = 0; i < half; i++) {
        for (int64_t j = 0; j < half; j++) {
            b[i * n + j] = a[i * half + j] + conj(a[j * half + i]);
            b[(i + half) * n + half + j] = b[i * n + j];
        }
    }
    memcpy(a, b, sizeof a);
    T_TRUE(mf_linalg_of(MF_DTYPE_C128)->eigen(n, b, s, u, room));
    memcpy(v, u, sizeof v);
    T_TRUE(skew(n, n, u) < 1e-13);
    T_TRUE(distance(n, n, n, n) < 1e-13);
    for (int64_t i = 1; i < n; i++)
        T_TRUE(s[i] >= s[i - 1]);
}

MF_TEST(linalg_nan_inputs_fail_or_give_nan)
{
    double x[9] = { 1, 2, NAN, 2, INFINITY, 3, NAN, 3, 1 }, values[3], vectors[9], space[60];
    const mf_linalg *math = mf_linalg_of(MF_DTYPE_F64);
    double y[9];

    memcpy(y, x, sizeof y);
    T_TRUE(!math->eigen(3, y, values, vectors, space));
    if (math->svd(3, 3, x, values, 3, vectors, 3, vectors, space))
        T_TRUE(!isfinite(values[0]));
}
