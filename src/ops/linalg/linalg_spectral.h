/* SPDX-License-Identifier: Apache-2.0 */
/* linalg_spectral.h - eigenvalues and singular values of one matrix. A template like
 * linalg_kernels.h, with the same names and conventions. Columns of orthogonal matrices are stored
 * as rows, which are contiguous in memory. */

/* Rotates rows x and y: x becomes c x + s y, y becomes c y - s x. */
static void fn(turn)(int64_t n, double c, double s, T *x, T *y)
{
    for (int64_t i = 0; i < n; i++) {
        const T t = x[i];

        x[i] = c * t + s * y[i];
        y[i] = c * y[i] - s * t;
    }
}

static void fn(swap)(int64_t n, T *x, T *y)
{
    for (int64_t i = 0; i < n; i++) {
        const T t = x[i];

        x[i] = y[i];
        y[i] = t;
    }
}

/* Sorts values (sign 1: ascending, -1: descending), and rows of x and z with them (NULL: none). */
static void fn(sort)(int64_t n, double *values, int sign, int64_t x_width, T *x, int64_t z_width,
                     T *z)
{
    for (int64_t i = 0; i < n; i++) {
        const double t = values[i];
        int64_t first = i;

        for (int64_t j = i + 1; j < n; j++)
            first = sign * values[j] < sign * values[first] ? j : first;
        if (first == i)
            continue;
        values[i] = values[first];
        values[first] = t;
        if (x)
            fn(swap)(x_width, x + i * x_width, x + first * x_width);
        if (z)
            fn(swap)(z_width, z + i * z_width, z + first * z_width);
    }
}

static double fn(scale_down)(int64_t n, T *x)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, sqrt(ABS2(x[i])));
    for (int64_t i = 0; i < n && most > 0; i++)
        x[i] /= most;
    return most;
}

/* ---- eigenvalues of a Hermitian matrix ---- */

/* Reduces a to a real tridiagonal matrix, d and e, by reflections H a H*, which are stored below.
 */
static void fn(tridiagonal)(int64_t n, T *a, double *d, double *e, T *tau, T *w)
{
    for (int64_t k = 0; k + 1 < n; k++) {
        const int64_t m = n - k - 1;
        T *v = a + (k + 1) * n + k; /* a column */
        T inner = 0;

        if (mf_stopped_after(2 * m * m))
            return;
        d[k] = RE(a[k * n + k]);
        e[k] = fn(reflection)(m, n, v, &tau[k]);
        v[0] = 1;
        for (int64_t i = 0; i < m; i++) {
            w[i] = 0;
            for (int64_t j = 0; j < m; j++)
                w[i] += v[i * n + 1 + j] * v[j * n];
            inner += CONJ(v[i * n]) * w[i];
        }
        for (int64_t i = 0; i < m; i++)
            w[i] = CONJ(tau[k]) * w[i] - 0.5 * ABS2(tau[k]) * RE(inner) * v[i * n];
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++)
                v[i * n + 1 + j] -= v[i * n] * CONJ(w[j]) + w[i] * CONJ(v[j * n]);
    }
    d[n - 1] = RE(a[n * n - 1]);
}

/* A step of the implicit QR algorithm on rows lo..hi, with Wilkinson's shift; rotates rows of z,
 * too (NULL: none). */
static void fn(qr_step)(int64_t lo, int64_t hi, double *d, double *e, int64_t n, T *z)
{
    const double half = (d[hi - 1] - d[hi]) / 2, last = e[hi - 1];
    const double shift = d[hi] - last * (last / (half + copysign(hypot(half, last), half)));
    double x = d[lo] - shift, bulge = e[lo];

    for (int64_t k = lo; k < hi; k++) {
        const double r = hypot(x, bulge), c = r > 0 ? x / r : 1, s = r > 0 ? bulge / r : 0;
        const double dk = d[k], ek = e[k], next = d[k + 1];

        if (k > lo)
            e[k - 1] = r;
        d[k] = c * c * dk + 2 * c * s * ek + s * s * next;
        d[k + 1] = s * s * dk - 2 * c * s * ek + c * c * next;
        e[k] = c * s * (next - dk) + (c * c - s * s) * ek;
        if (k + 1 < hi) {
            x = e[k];
            bulge = s * e[k + 1];
            e[k + 1] *= c;
        }
        if (z)
            fn(turn)(n, c, s, z + k * n, z + (k + 1) * n);
    }
}

/* For a matrix whose largest element is 1. */
static bool fn(qr_algorithm)(int64_t n, double *d, double *e, T *z)
{
    int64_t hi = n - 1;

    for (int64_t steps = 0; hi > 0; steps++) {
        int64_t lo;

        for (int64_t i = 0; i < hi; i++)
            if (fabs(e[i]) <= DBL_EPSILON * sqrt(fabs(d[i]) + fabs(d[i + 1])))
                e[i] = 0;
        while (hi > 0 && e[hi - 1] == 0)
            hi--;
        for (lo = hi; lo > 0 && e[lo - 1] != 0;)
            lo--;
        if (steps > 40 * n || !isfinite(d[hi]) || mf_stopped_after(z ? (hi - lo) * n : hi))
            return false;
        if (lo < hi)
            fn(qr_step)(lo, hi, d, e, n, z);
    }
    return isfinite(d[0]);
}

static bool fn(eigen)(int64_t n, void *matrix, double *values, void *vectors, void *room)
{
    T *a = matrix, *v = vectors, *tau = room, *w = tau + n, *z = v ? w + 2 * n : NULL;
    double *e = (double *)(w + n), scale;

    for (int64_t i = 0; i < n; i++) {
        /* cppcheck-suppress selfAssignment ; of real numbers */
        a[i * n + i] = RE(a[i * n + i]);
        for (int64_t j = i + 1; j < n; j++)
            a[i * n + j] = CONJ(a[j * n + i]);
    }
    scale = fn(scale_down)(n * n, a);
    fn(tridiagonal)(n, a, values, e, tau, w);
    if (v) {
        fn(gather_reflections)(n, n, a, n - 1, 1, tau, n, v, w);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                z[j * n + i] = v[i * n + j];
    }
    if (!fn(qr_algorithm)(n, values, e, z))
        return false;
    fn(sort)(n, values, 1, n, z, 0, NULL);
    for (int64_t i = 0; i < n; i++)
        values[i] *= scale;
    for (int64_t i = 0; i < n && v; i++)
        for (int64_t j = 0; j < n; j++)
            v[i * n + j] = z[j * n + i];
    return true;
}

/* ---- singular values ---- */

/* Makes rows p and q of w orthogonal, and applies the same rotation to those of v; false: they
 * already were. */
static bool fn(separate)(int64_t m, T *p, T *q, int64_t n, T *vp, T *vq)
{
    const double pp = fn(norm2)(m, p), qq = fn(norm2)(m, q);
    const T pq = fn(dot)(m, p, q);
    const double size = sqrt(ABS2(pq)), zeta = (qq - pp) / (2 * size);
    const double t = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta)), c = 1 / hypot(1, t);

    /* If columns consist of rounding errors only, the square of pq may underflow: then pq / size
     * would not be 1, and q would change its length. */
    if (!(size > DBL_EPSILON * sqrt((double)m) * sqrt(pp) * sqrt(qq)) || ABS2(pq) < DBL_MIN)
        return false;
    for (int64_t i = 0; i < m; i++)
        q[i] *= CONJ(pq) / size;
    for (int64_t i = 0; i < n; i++)
        vq[i] *= CONJ(pq) / size;
    fn(turn)(m, c, -c * t, p, q);
    fn(turn)(n, c, -c * t, vp, vq);
    return true;
}

/* One-sided Jacobi: w [n, m] holds the columns of a matrix with n <= m; v [n, n] those of the
 * rotations. Accurate for small singular values, too. */
static bool fn(jacobi)(int64_t m, int64_t n, T *w, double *s, T *v)
{
    bool turned = true;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            v[i * n + j] = i == j;
    for (int sweep = 0; turned; sweep++) {
        if (sweep == 60)
            return false;
        turned = false;
        for (int64_t p = 0; p < n; p++) {
            if (mf_stopped_after((n - p) * (m + n)))
                return false;
            for (int64_t q = p + 1; q < n; q++)
                turned |= fn(separate)(m, w + p * m, w + q * m, n, v + p * n, v + q * n);
        }
    }
    for (int64_t i = 0; i < n; i++)
        s[i] = sqrt(fn(norm2)(m, w + i * m));
    fn(sort)(n, s, -1, m, w, n, v);
    return true;
}

/* Rows `from`..`count` of u become unit vectors orthogonal to all earlier ones: each is made from
 * the axis that is farthest from their span. */
static void fn(complete)(int64_t from, int64_t count, int64_t m, T *u)
{
    for (int64_t r = from; r < count; r++) {
        T *row = u + r * m;
        double least = INFINITY;
        int64_t axis = 0;

        if (mf_stopped_after(5 * r * m))
            return;
        for (int64_t i = 0; i < m; i++) {
            double covered = 0;

            for (int64_t j = 0; j < r; j++)
                covered += ABS2(u[j * m + i]);
            if (covered < least - 1e-9) {
                least = covered;
                axis = i;
            }
        }
        for (int64_t i = 0; i < m; i++)
            row[i] = i == axis;
        for (int again = 0; again < 2; again++) {
            double size;

            for (int64_t j = 0; j < r; j++)
                fn(axpy)(m, -fn(dot)(m, u + j * m, row), u + j * m, row);
            size = sqrt(fn(norm2)(m, row));
            for (int64_t i = 0; i < m; i++)
                row[i] /= size;
        }
    }
}

/* A wide matrix is replaced by its adjoint. */
static bool fn(svd)(int64_t m, int64_t n, const void *matrix, double *s, int64_t u_cols, void *u,
                    int64_t v_cols, void *v, void *room)
{
    const bool wide = m < n;
    const int64_t length = wide ? n : m, count = wide ? m : n, cols = wide ? v_cols : u_cols;
    const T *a = matrix;
    T *w = room, *turns = w + length * cols, *left = wide ? v : u, *right = wide ? u : v;
    int64_t rank = 0;
    double scale;

    for (int64_t j = 0; j < count; j++)
        for (int64_t i = 0; i < length; i++)
            w[j * length + i] = wide ? CONJ(a[j * n + i]) : a[i * n + j];
    scale = fn(scale_down)(count * length, w);
    if (!fn(jacobi)(length, count, w, s, turns))
        return false;
    for (; rank < count && s[rank] > DBL_MIN; rank++)
        for (int64_t i = 0; i < length && u; i++)
            w[rank * length + i] /= s[rank];
    for (int64_t i = 0; i < count; i++)
        s[i] *= scale;
    if (!u)
        return true;
    fn(complete)(rank, cols, length, w);
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < cols; j++)
            left[i * cols + j] = w[j * length + i];
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            right[i * count + j] = turns[j * count + i];
    return true;
}
