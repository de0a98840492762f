/* SPDX-License-Identifier: Apache-2.0 */
/* linalg_small.h - singular values of a small real matrix, part of linalg.c. Two-sided Jacobi
 * (after Kogbetliantz), with a pivoted QR first where the matrix is not square: what TensorFlow
 * does below SMALL_SVD columns, so that vectors have its signs. */

enum { SMALL_SVD = 16 };

/* a [m, n], m >= n: pivots on the largest remaining column norm; order[k] is the column at position
 * k. */
static void pivoted_qr(int64_t m, int64_t n, double *a, int64_t *order, double *tau, double *w)
{
    for (int64_t k = 0; k < n; k++)
        order[k] = k;
    for (int64_t k = 0; k < n; k++) {
        double *head = a + k * n + k, most = -1;
        int64_t best = k;

        for (int64_t j = k; j < n; j++) {
            double size = 0;

            for (int64_t i = k; i < m; i++)
                size += a[i * n + j] * a[i * n + j];
            best = size > most ? j : best;
            most = fmax(size, most);
        }
        for (int64_t i = 0; i < m && best != k; i++)
            swap_f64(1, a + i * n + k, a + i * n + best);
        const int64_t was = order[k];

        order[k] = order[best];
        order[best] = was;
        most = reflection_f64(m - k, n, head, &tau[k]);
        reflect_f64(m - k, head, n, tau[k], n - k - 1, n, head + 1, w);
        *head = most;
    }
}

typedef struct rotation {
    double c, s;
} rotation;

/* The rotation that makes [x y; y z] diagonal. */
static rotation symmetric_rotation(double x, double y, double z)
{
    const double two_y = 2 * fabs(y), tau = (x - z) / two_y;
    const double root = sqrt(tau * tau + 1), t = tau > 0 ? 1 / (tau + root) : 1 / (tau - root);
    const double n = 1 / sqrt(t * t + 1);

    if (two_y < DBL_MIN)
        return (rotation){ 1, 0 };
    return (rotation){ n, -copysign(1, t) * copysign(1, y) * fabs(t) * n };
}

/* Left and right rotations that make rows and columns p and q of w diagonal: a first rotation makes
 * them symmetric. */
static void two_rotations(int64_t n, const double *w, int64_t p, int64_t q, rotation *left,
                          rotation *right)
{
    const double a = w[p * n + p], b = w[p * n + q], c = w[q * n + p], d = w[q * n + q];
    const double sum = a + d, skew = c - b, root = sqrt(1 + sum / skew * (sum / skew));
    const rotation first =
        fabs(skew) < DBL_MIN ? (rotation){ 1, 0 } : (rotation){ sum / skew / root, 1 / root };

    *right = symmetric_rotation(first.c * a + first.s * c, first.c * b + first.s * d,
                                first.c * d - first.s * b);
    *left = (rotation){ first.c * right->c + first.s * right->s,
                        first.s * right->c - first.c * right->s };
}

/* Makes w [n, n] diagonal; applies the rotations to rows of u [.., u_width] and v (NULL: none). */
static bool two_sided_jacobi(int64_t n, double *w, int64_t u_width, double *u, int64_t v_width,
                             double *v)
{
    double largest = 0;
    bool turned = true;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(w[i * n + i]));
    for (int sweep = 0; turned; sweep++) {
        if (sweep == 100)
            return false;
        turned = false;
        for (int64_t p = 1; p < n; p++) {
            for (int64_t q = 0; q < p; q++) {
                const double least = fmax(DBL_MIN, 2 * DBL_EPSILON * largest);
                rotation left, right;

                if (!(fabs(w[p * n + q]) > least) && !(fabs(w[q * n + p]) > least))
                    continue;
                turned = true;
                two_rotations(n, w, p, q, &left, &right);
                turn_f64(n, left.c, left.s, w + p * n, w + q * n);
                for (int64_t i = 0; i < n; i++)
                    turn_f64(1, right.c, -right.s, w + i * n + p, w + i * n + q);
                if (u) {
                    turn_f64(u_width, left.c, left.s, u + p * u_width, u + q * u_width);
                    turn_f64(v_width, right.c, -right.s, v + p * v_width, v + q * v_width);
                }
                largest = fmax(largest, fmax(fabs(w[p * n + p]), fabs(w[q * n + q])));
            }
        }
    }
    return true;
}

/* `columns` of the orthogonal factor of the reflections in a [m, n], as rows. */
static void rows_of_q(int64_t m, int64_t n, const double *a, const double *tau, int64_t columns,
                      double *rows, double *q, double *w)
{
    gather_reflections_f64(m, n, a, n, 0, tau, columns, q, w);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < columns; j++)
            rows[j * m + i] = q[i * columns + j];
}

/* As mf_linalg.svd. A wide matrix is transposed first. */
static bool svd_small(int64_t m, int64_t n, const double *a, double *s, int64_t u_cols, double *u,
                      int64_t v_cols, double *v, double *room)
{
    const bool wide = m < n;
    const int64_t length = wide ? n : m, count = wide ? m : n, cols = wide ? v_cols : u_cols;
    double *x = room, *big = x + length * count, *small = big + length * cols;
    double *w = small + count * count, *q = w + count * count, *tau = q + length * cols;
    double *row = tau + count, scale;
    /* cppcheck-suppress invalidPointerCast ; memory for either */
    int64_t *order = (int64_t *)(row + length);

    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < count; j++)
            x[i * count + j] = wide ? a[j * n + i] : a[i * n + j];
    scale = scale_down_f64(length * count, x);
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    if (length != count)
        pivoted_qr(length, count, x, order, tau, row);
    for (int64_t i = 0; i < count; i++) /* R, or its transpose */
        for (int64_t j = 0; j < count; j++)
            w[wide ? j * count + i : i * count + j] =
                length != count && j < i ? 0 : x[i * count + j];
    if (u && length != count) {
        rows_of_q(length, count, x, tau, cols, big, q, row);
    } else if (u) {
        for (int64_t i = 0; i < length * length; i++)
            big[i] = i % (length + 1) == 0;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            small[i * count + j] = order[i] == j;
    if (wide ? !two_sided_jacobi(count, w, count, u ? small : NULL, length, big)
             : !two_sided_jacobi(count, w, length, u ? big : NULL, count, small))
        return false;
    for (int64_t i = 0; i < count; i++) {
        double *left = wide ? small + i * count : big + i * length;

        s[i] = fabs(w[i * count + i]) * scale;
        for (int64_t j = 0; j < (wide ? count : length) && u && w[i * count + i] < 0; j++)
            left[j] = -left[j];
    }
    sort_f64(count, s, -1, length, u ? big : NULL, count, u ? small : NULL);
    if (!u)
        return true;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < cols; j++)
            (wide ? v : u)[i * cols + j] = big[j * length + i];
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            (wide ? u : v)[i * count + j] = small[j * count + i];
    return true;
}
