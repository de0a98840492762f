/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_block.h - the register blocks of a matrix product. A template: included by gemm.c once per
 * type of the computation, with
 *
 *   T, V, LANES        the type, a vector of VECTOR bytes of it and its number of elements
 *   fn(x)              x with the type's suffix
 *   SPLAT(s)           a vector of equal elements
 *   MULADD(c, a, b)    c + a * b
 *
 * gemm_end.h undefines them. */

enum { fn(nr) = 2 * LANES };

static inline V fn(muladd)(V sum, T x, V y)
{
    return MULADD(sum, SPLAT(x), y);
}

/* Blocks that are added to a product: the previous value of C, or products of earlier shards. */
typedef struct fn(olds)
{
    const T *at; /* `count` blocks, one every `step` elements */
    int64_t count, row, step;
}
fn(olds);

/* c[mr][nv vectors] = olds + a[mr][kc] * b[kc][nv vectors]. mr and nv are constants in each call.
 * Rows of A are addressed from every fifth one: x86 adds 1, 2 and 4 times a register, and the
 * compiler keeps three times the stride in another. */
static inline __attribute__((always_inline)) void
fn(block)(const int mr, const int nv, int64_t kc, const T *a, int64_t a_row, int64_t a_col,
          const T *b, int64_t b_row, T *c, int64_t c_row, const fn(olds) * olds)
{
    V sum[ACCUMULATORS];
    const T *rows[3] = { a, a + 5 * a_row, a + 10 * a_row };

    UNROLL
    for (int i = 0; i < mr * nv; i++)
        sum[i] = (V){ 0 };
    for (int64_t p = 0; p < kc; p++, b += b_row) {
        V x[WIDE], y[WIDE];

        if (nv > 2) { /* few rows: their elements stay in registers */
            UNROLL
            for (int r = 0; r < mr; r++)
                x[r] = SPLAT(rows[r / 5][r % 5 * a_row]);
            UNROLL
            for (int j = 0; j < nv; j++) {
                memcpy(&y[j], b + j * LANES, sizeof(V));
                UNROLL
                for (int r = 0; r < mr; r++)
                    sum[r * nv + j] = MULADD(sum[r * nv + j], x[r], y[j]);
            }
        } else {
            UNROLL
            for (int j = 0; j < nv; j++)
                memcpy(&y[j], b + j * LANES, sizeof(V));
            UNROLL
            for (int r = 0; r < mr; r++) {
                const T z = rows[r / 5][r % 5 * a_row];

                UNROLL
                for (int j = 0; j < nv; j++)
                    sum[r * nv + j] = fn(muladd)(sum[r * nv + j], z, y[j]);
            }
        }
        UNROLL
        for (int i = 0; i < 3; i++)
            rows[i] += a_col;
    }
    for (int64_t i = 0; i < olds->count; i++) {
        const T *from = olds->at + i * olds->step;

        UNROLL
        for (int r = 0; r < mr; r++) {
            UNROLL
            for (int j = 0; j < nv; j++) {
                V old;

                memcpy(&old, from + r * olds->row + j * LANES, sizeof old);
                sum[r * nv + j] = old + sum[r * nv + j];
            }
        }
    }
    UNROLL
    for (int r = 0; r < mr; r++, c += c_row) {
        UNROLL
        for (int j = 0; j < nv; j++)
            memcpy(c + j * LANES, &sum[r * nv + j], sizeof(V));
    }
}

/* The block of a product with mr rows, one or two vectors wide. */
static void fn(block_of)(int mr, int nv, int64_t kc, const T *a, int64_t a_row, int64_t a_col,
                         const T *b, int64_t b_row, T *c, int64_t c_row, const fn(olds) * olds)
{
#if defined(MF_SANITIZED)
    fn(block)(mr, nv, kc, a, a_row, a_col, b, b_row, c, c_row, olds);
#else
    switch (2 * mr + nv) {
#define BLOCK_CASE(MROWS)                                                                          \
    case 2 * (MROWS) + 1:                                                                          \
        fn(block)(MROWS, 1, kc, a, a_row, a_col, b, b_row, c, c_row, olds);                        \
        break;                                                                                     \
    case 2 * (MROWS) + 2:                                                                          \
        fn(block)(MROWS, 2, kc, a, a_row, a_col, b, b_row, c, c_row, olds);                        \
        break;
        BLOCK_CASES(BLOCK_CASE)
#undef BLOCK_CASE
    }
#endif
}

/* One slice of k over one panel of columns. */
typedef struct fn(panel)
{
    int64_t m, n, kc; /* n: columns that exist, at most NR */
    int64_t strip; /* rows of a strip */
    const T *a; /* packed strips, or A itself */
    bool a_packed;
    int64_t a_row, a_col;
    const T *b;
    int64_t b_row;
    bool add;
}
fn(panel);

static void fn(run_panel)(const fn(panel) * p, T *c, int64_t c_row)
{
    T edge[MR * fn(nr)];
    const int nv = p->n <= LANES ? 1 : 2;
    const bool whole = p->n == nv * LANES;

    for (int64_t i = 0; i < p->m; i += p->strip) {
        const int mr = (int)(p->m - i < p->strip ? p->m - i : p->strip);
        T *to = c + i * c_row, *out = whole ? to : edge;
        const int64_t out_row = whole ? c_row : fn(nr);
        const fn(olds) olds = { to, whole && p->add, c_row, 0 };

        if (p->a_packed)
            fn(block_of)(mr, nv, p->kc, p->a + i * p->kc, 1, p->strip, p->b, p->b_row, out, out_row,
                         &olds);
        else
            fn(block_of)(mr, nv, p->kc, p->a + i * p->a_row, p->a_row, p->a_col, p->b, p->b_row,
                         out, out_row, &olds);
        for (int r = 0; !whole && r < mr; r++, to += c_row) {
            for (int64_t j = 0; j < p->n; j++)
                to[j] = p->add ? to[j] + edge[r * fn(nr) + j] : edge[r * fn(nr) + j];
        }
    }
}
