/* SPDX-License-Identifier: Apache-2.0 */
/* linalg_kernels.h - factorizations of one matrix. A template: included by linalg.c once per type
 * of the computation, with
 *
 *   T                  double or double _Complex
 *   fn(x)              x with the type's suffix
 *   CONJ, RE, ABS2     conjugate, real part, squared magnitude
 *
 * Matrices are row-major and contiguous, and every inner loop runs along rows. Orders of operations
 * depend on sizes only. */

static const T *fn(row)(const T *a, int64_t cols, int64_t i)
{
    return a + i * cols;
}

/* y += s * x */
static void fn(axpy)(int64_t n, T s, const T *x, T *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += s * x[i];
}

/* sum of conj(x) * y, in lanes that the compiler can vectorize. */
static T fn(dot)(int64_t n, const T *x, const T *y)
{
    T lane[4] = { 0 };
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            lane[l] += CONJ(x[i + l]) * y[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += CONJ(x[i]) * y[i];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static double fn(norm2)(int64_t n, const T *x)
{
    double lane[4] = { 0 };
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            lane[l] += ABS2(x[i + l]);
    for (int l = 0; i < n; i++, l++)
        lane[l] += ABS2(x[i]);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static void fn(adjoint)(int64_t m, int64_t n, const void *from, void *to)
{
    const T *a = from;
    T *b = to;

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            b[j * m + i] = CONJ(a[i * n + j]);
}

/* ---- triangles ---- */

/* Works on the upper triangle, whose rows are the lower one's columns, and transposes back. */
static bool fn(cholesky)(int64_t n, void *matrix)
{
    T *a = matrix;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            a[i * n + j] = CONJ(a[j * n + i]);
    for (int64_t k = 0; k < n; k++) {
        T *row = a + k * n;
        const double pivot = RE(row[k]);

        if (!(pivot > 0) || mf_stopped_after((n - k) * (n - k)))
            return false;
        for (int64_t j = k + 1; j < n; j++)
            row[j] /= sqrt(pivot);
        row[k] = sqrt(pivot);
        for (int64_t i = k + 1; i < n; i++)
            fn(axpy)(n - i, -CONJ(row[i]), row + i, a + i * n + i);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) {
            a[j * n + i] = CONJ(a[i * n + j]);
            a[i * n + j] = 0;
        }
    }
    return true;
}

static int fn(lu)(int64_t n, void *matrix, int64_t *order)
{
    T *a = matrix;
    int sign = 1;

    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k, was = order[k];

        if (mf_stopped_after((n - k) * (n - k)))
            break;
        for (int64_t i = k + 1; i < n; i++)
            best = ABS2(a[i * n + k]) > ABS2(a[best * n + k]) ? i : best;
        for (int64_t j = 0; j < n && best != k; j++) {
            const T t = a[k * n + j];

            a[k * n + j] = a[best * n + j];
            a[best * n + j] = t;
        }
        order[k] = order[best];
        order[best] = was;
        sign = best != k ? -sign : sign;
        for (int64_t i = k + 1; i < n && ABS2(a[k * n + k]) > 0; i++) {
            a[i * n + k] /= a[k * n + k];
            fn(axpy)(n - k - 1, -a[i * n + k], a + k * n + k + 1, a + i * n + k + 1);
        }
    }
    return sign;
}

static void fn(log_det)(int64_t n, const void *lu, int swaps, void *sign, double *log_abs)
{
    T s = swaps;

    *log_abs = 0;
    for (int64_t i = 0; i < n; i++) {
        const T x = ((const T *)lu)[i * n + i];
        const double size = sqrt(ABS2(x));

        *log_abs += mf_log(size);
        s *= x / size;
    }
    if (*log_abs == -INFINITY)
        s = 0;
    *(T *)sign = s;
}

static bool fn(has_zero_pivot)(int64_t n, const void *a)
{
    for (int64_t i = 0; i < n; i++)
        if (ABS2(((const T *)a)[i * n + i]) == 0)
            return true;
    return false;
}

static void fn(solve)(int64_t n, int64_t cols, const void *triangle, bool lower, bool unit, void *b)
{
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = lower ? step : n - 1 - step;
        const T *a = fn(row)(triangle, n, i);
        T *x = (T *)b + i * cols;

        if (mf_stopped_after(step * cols))
            return;
        for (int64_t j = lower ? 0 : i + 1; j < (lower ? i : n); j++)
            fn(axpy)(cols, -a[j], fn(row)(b, cols, j), x);
        for (int64_t c = 0; c < cols && !unit; c++)
            x[c] /= a[i];
    }
}

/* ---- reflections ---- */

/* The Householder reflection I - tau v v* that maps n numbers, `step` apart, to (beta, 0, ...). It
 * overwrites them with v, whose first element, 1, is not stored. As in LAPACK and Eigen, beta is
 * real and has the opposite sign of the first number. */
static double fn(reflection)(int64_t n, int64_t step, T *x, T *tau)
{
    const T first = x[0];
    const double imaginary = ABS2(first) - RE(first) * RE(first);
    double tail = 0, beta;

    for (int64_t i = 1; i < n; i++)
        tail += ABS2(x[i * step]);
    *tau = 0;
    if (tail <= DBL_MIN && imaginary <= DBL_MIN) {
        for (int64_t i = 1; i < n; i++)
            x[i * step] = 0;
        return RE(first);
    }
    beta = RE(first) >= 0 ? -sqrt(ABS2(first) + tail) : sqrt(ABS2(first) + tail);
    for (int64_t i = 1; i < n; i++)
        x[i * step] /= first - beta;
    *tau = CONJ((beta - first) / beta);
    return beta;
}

/* (I - tau v v*) b, where v is 1 followed by n - 1 numbers `step` apart, and b has n rows of `cols`
 * numbers, `width` apart. `w` has room for a row. */
static void fn(reflect)(int64_t n, const T *v, int64_t step, T tau, int64_t cols, int64_t width,
                        T *b, T *w)
{
    for (int64_t j = 0; j < cols; j++)
        w[j] = b[j];
    for (int64_t i = 1; i < n; i++)
        fn(axpy)(cols, CONJ(v[i * step]), b + i * width, w);
    fn(axpy)(cols, -tau, w, b);
    for (int64_t i = 1; i < n; i++)
        fn(axpy)(cols, -tau * v[i * step], w, b + i * width);
}

/* q [m, cols] = the product of the adjoints of `count` reflections, which are stored below row
 * `shift` + k of column k of a [m, n]. */
static void fn(gather_reflections)(int64_t m, int64_t n, const T *a, int64_t count, int64_t shift,
                                   const T *tau, int64_t cols, T *q, T *w)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < cols; j++)
            q[i * cols + j] = i == j;
    for (int64_t k = count - 1; k >= 0 && !mf_stopped_after(2 * (m - k) * cols); k--)
        fn(reflect)(m - k - shift, a + (k + shift) * n + k, n, CONJ(tau[k]), cols, cols,
                    q + (k + shift) * cols, w);
}

static void fn(qr)(int64_t m, int64_t n, void *matrix, int64_t q_cols, void *q, void *room)
{
    const int64_t count = m < n ? m : n;
    T *a = matrix, *tau = room, *w = tau + count;

    for (int64_t k = 0; k < count && !mf_stopped_after(2 * (m - k) * (n - k)); k++) {
        T *head = a + k * n + k;
        const double beta = fn(reflection)(m - k, n, head, &tau[k]);

        fn(reflect)(m - k, head, n, tau[k], n - k - 1, n, head + 1, w);
        *head = beta;
    }
    fn(gather_reflections)(m, n, a, count, 0, tau, q_cols, q, w);
    for (int64_t i = 1; i < m; i++)
        for (int64_t j = 0; j < i && j < n; j++)
            a[i * n + j] = 0;
}
