/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tile.h - one tile of a matrix product. A template: included by gemm.c once per type of the
 * computation, with
 *
 *   T, V, LANES        the type, a 32-byte vector of it and its number of elements
 *   fn(x)            x with the type's suffix
 *   SPLAT(s)           a vector of equal elements
 *   MULADD(c, a, b)    c + a * b
 *   PACK_TYPES(X)      X(dtype, storage type, load expression of p) for each type that packs into T
 *
 * The usual loop nest: slices of MF_GEMM_K steps of k; B packed into panels of NR columns that stay
 * in the first-level cache, A into strips of MR rows in the second-level cache; a register block of
 * MR x NR innermost. Packing is skipped if it does not pay off. */

enum { fn(nr) = 2 * LANES };

/* A matrix operand of the tile. */
typedef struct fn(view)
{
    const void *data;
    mf_dtype type;
    int64_t row, col;
    bool negate;
}
fn(view);

/* n elements, `stride` apart, as T, `out_stride` apart. */
static void fn(gather)(const fn(view) * v, int64_t at, int64_t stride, int64_t n, T *out,
                       int64_t out_stride)
{
    switch (v->type) {
#define PACK_CASE(DTYPE, S, LOAD)                                                                  \
    case DTYPE: {                                                                                  \
        const S *p = (const S *)v->data + at;                                                      \
        for (int64_t i = 0; i < n; i++, p += stride)                                               \
            out[i * out_stride] = LOAD;                                                            \
        break;                                                                                     \
    }
        PACK_TYPES(PACK_CASE)
#undef PACK_CASE
    default:
        break;
    }
    if (v->negate) {
        for (int64_t i = 0; i < n; i++)
            out[i * out_stride] = -out[i * out_stride];
    }
}

/* Transposes four lines of `from`, n elements each, to four columns of `to`; both T. */
static inline void fn(weave)(const T *from, int64_t line, int64_t n, T *to, int64_t width)
{
    typedef T quad __attribute__((vector_size(4 * sizeof(T))));
    int64_t i = 0;

    for (; i + 4 <= n; i += 4, to += 4 * width) {
        quad r[4], low[2], high[2], c;

        for (int l = 0; l < 4; l++)
            memcpy(&r[l], from + l * line + i, sizeof c);
        for (int l = 0; l < 2; l++) {
            low[l] = __builtin_shufflevector(r[2 * l], r[2 * l + 1], 0, 4, 1, 5);
            high[l] = __builtin_shufflevector(r[2 * l], r[2 * l + 1], 2, 6, 3, 7);
        }
        c = __builtin_shufflevector(low[0], low[1], 0, 1, 4, 5);
        memcpy(to, &c, sizeof c);
        c = __builtin_shufflevector(low[0], low[1], 2, 3, 6, 7);
        memcpy(to + width, &c, sizeof c);
        c = __builtin_shufflevector(high[0], high[1], 0, 1, 4, 5);
        memcpy(to + 2 * width, &c, sizeof c);
        c = __builtin_shufflevector(high[0], high[1], 2, 3, 6, 7);
        memcpy(to + 3 * width, &c, sizeof c);
    }
    for (; i < n; i++, to += width)
        for (int l = 0; l < 4; l++)
            to[l] = from[l * line + i];
}

/* Packs `count` lines (rows of A, columns of B) of kc elements into packed[kc][width], padded with
 * zeros. line and step: strides between lines and along a line. */
static void fn(pack)(const fn(view) * v, int64_t at, int64_t line, int64_t step, int64_t count,
                     int64_t kc, int64_t width, T *packed)
{
    const bool plain = !v->negate && mf_dtype_cell(v->type) == sizeof(T);

    if (count < width)
        memset(packed, 0, (size_t)(kc * width) * sizeof(T));
    if (plain && step == 1 && count >= 4) {
        for (int64_t j = 0; j < count; j += 4) {
            const int64_t from =
                j + 4 <= count ? j : count - 4; /* the last group may overlap the previous one */

            fn(weave)((const T *)v->data + at + from * line, line, kc, packed + from, width);
        }
        return;
    }
    for (int64_t j = 0; j < count; j++)
        fn(gather)(v, at + j * line, step, kc, packed + j, width);
}

/* c[mr][nv vectors] (+)= a[mr][kc] * b[kc][nv vectors]. mr, nv and most strides are constants in
 * each call. */
static inline __attribute__((always_inline)) void
fn(block)(const int mr, const int nv, int64_t kc, const T *a, int64_t a_row, int64_t a_col,
          const T *b, int64_t b_row, T *c, int64_t c_row, bool add)
{
    V sum[MR * 2];

#pragma GCC unroll 12
    for (int i = 0; i < mr * nv; i++)
        sum[i] = (V){ 0 };
    for (int64_t p = 0; p < kc; p++, a += a_col, b += b_row) {
        V y[WIDE];

#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            memcpy(&y[j], b + j * LANES, sizeof(V));
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
            const V x = SPLAT(a[r * a_row]);

#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                sum[r * nv + j] = MULADD(sum[r * nv + j], x, y[j]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++, c += c_row) {
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++) {
            V old;

            if (add) {
                memcpy(&old, c + j * LANES, sizeof old);
                sum[r * nv + j] = old + sum[r * nv + j];
            }
            memcpy(c + j * LANES, &sum[r * nv + j], sizeof old);
        }
    }
}

/* One row by WIDE vectors of columns: for products with few rows, which are bound by loading B. */
static void fn(block_row)(int64_t kc, const T *a, int64_t a_col, const T *b, int64_t b_row, T *c,
                          bool add)
{
    fn(block)(1, WIDE, kc, a, 0, a_col, b, b_row, c, 0, add);
}

#define BLOCK_CASE(n, ROW, COL)                                                                    \
    case n:                                                                                        \
        fn(block)(n, 2, kc, a, ROW, COL, b, b_row, c, c_row, add);                                 \
        break;
#define BLOCK_CASES(ROW, COL)                                                                      \
    BLOCK_CASE(1, ROW, COL)                                                                        \
    BLOCK_CASE(2, ROW, COL)                                                                        \
    BLOCK_CASE(3, ROW, COL)                                                                        \
    BLOCK_CASE(4, ROW, COL)                                                                        \
    BLOCK_CASE(5, ROW, COL)                                                                        \
    BLOCK_CASE(6, ROW, COL)

/* The same for a strip packed by pack(). */
static void fn(block_packed)(int mr, int64_t kc, const T *a, const T *b, int64_t b_row, T *c,
                             int64_t c_row, bool add)
{
    switch (mr) {
        BLOCK_CASES(1, MR)
    }
}

static void fn(block_direct)(int mr, int64_t kc, const T *a, int64_t a_row, int64_t a_col,
                             const T *b, int64_t b_row, T *c, int64_t c_row, bool add)
{
    switch (mr) {
        BLOCK_CASES(a_row, a_col)
    }
}
#undef BLOCK_CASES
#undef BLOCK_CASE

/* One slice of k over one panel of columns. */
typedef struct fn(panel)
{
    int64_t m, n, kc; /* n: columns that exist, at most NR */
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
    const bool whole = p->n == fn(nr);

    for (int64_t i = 0; i < p->m; i += MR) {
        const int mr = (int)(p->m - i < MR ? p->m - i : MR);
        T *out = whole ? c + i * c_row : edge;
        const int64_t out_row = whole ? c_row : fn(nr);
        const bool add = whole && p->add;

        if (p->a_packed)
            fn(block_packed)(mr, p->kc, p->a + i * p->kc, p->b, p->b_row, out, out_row, add);
        else
            fn(block_direct)(mr, p->kc, p->a + i * p->a_row, p->a_row, p->a_col, p->b, p->b_row,
                             out, out_row, add);
        if (whole)
            continue;
        for (int r = 0; r < mr; r++) {
            T *to = c + (i + r) * c_row;

            for (int64_t j = 0; j < p->n; j++)
                to[j] = p->add ? to[j] + edge[r * fn(nr) + j] : edge[r * fn(nr) + j];
        }
    }
}

/* kc lines of n elements each, `step` apart, divided into strips of `width` (a constant): a few
 * lines at a time through all strips, because lines and strips may be in different pages. */
static inline __attribute__((always_inline)) void
fn(pack_lines)(const T *from, int64_t step, int64_t n, int64_t kc, const int64_t width, T *packed)
{
    for (int64_t i = 0, lines; i < kc; i += lines, from += lines * step) {
        int64_t j = 0;

        lines = kc - i < LINES ? kc - i : LINES;
        for (; j + width <= n; j += width) {
            T *to = packed + j * kc + i * width;

            for (int64_t l = 0; l < lines; l++, to += width) {
                if (i + l + LINES < kc)
                    __builtin_prefetch(from + (l + LINES) * step + j);
                memcpy(to, from + l * step + j, (size_t)width * sizeof(T));
            }
        }
        for (int64_t l = 0; j < n && l < lines; l++) {
            T *to = packed + j * kc + (i + l) * width;

            memset(to, 0, (size_t)width * sizeof(T));
            memcpy(to, from + l * step + j, (size_t)(n - j) * sizeof(T));
        }
    }
}

/* kc steps of k for n lines (rows of A, columns of B), as strips of `width`. */
static inline __attribute__((always_inline)) void fn(pack_all)(const fn(view) * v, int64_t at,
                                                               int64_t line, int64_t step,
                                                               int64_t n, int64_t kc,
                                                               const int64_t width, T *packed)
{
    if (line == 1 && !v->negate && mf_dtype_cell(v->type) == sizeof(T)) {
        fn(pack_lines)((const T *)v->data + at, step, n, kc, width, packed);
        return;
    }
    for (int64_t j = 0; j < n; j += width)
        fn(pack)(v, at + j * line, line, step, n - j < width ? n - j : width, kc, width,
                 packed + j * kc);
}

/* c[m][n] (+)= a[m][kc] * b[kc][n], one slice of k. */
static void fn(slice)(const gemm_tile *t, fn(panel) * p, const fn(view) * b, int64_t k0,
                      bool pack_b, T *b_pack, T *c, int64_t c_row)
{
    const T *direct = b->data;
    const int64_t at = k0 * b->row + t->j0 * b->col;
    int64_t j = 0;

    for (; t->m <= WIDE_ROWS && !p->a_packed && !pack_b && j + WIDE * LANES <= t->n;
         j += WIDE * LANES)
        for (int64_t i = 0; i < t->m; i++)
            fn(block_row)(p->kc, p->a + i * p->a_row, p->a_col, direct + at + j, b->row,
                          c + i * c_row + j, p->add);
    for (int64_t width; j < t->n; j += width) {
        const bool packed = pack_b || t->n - j < fn(nr);

        width = packed ? PANELS * fn(nr) : fn(nr);
        width = t->n - j < width ? t->n - j : width;
        if (packed)
            fn(pack_all)(b, at + j * b->col, b->col, b->row, width, p->kc, fn(nr), b_pack);
        for (int64_t q = 0; q < width; q += fn(nr)) {
            p->b = packed ? b_pack + q * p->kc : direct + at + j;
            p->b_row = packed ? fn(nr) : b->row;
            p->n = width - q < fn(nr) ? width - q : fn(nr);
            fn(run_panel)(p, c + j + q, c_row);
        }
    }
}

/* c[m][n] = a * b, or c += a * b. */
static void fn(tile)(const gemm_tile *t, const fn(view) * a, const fn(view) * b, T *c,
                     int64_t c_row, bool add, T *scratch)
{
    const bool a_plain = !a->negate && mf_dtype_cell(a->type) == sizeof(T);
    const bool b_plain = !b->negate && mf_dtype_cell(b->type) == sizeof(T);
    const bool pack_a = !a_plain || (t->m > WIDE_ROWS && t->n > (a->col == 1 ? 8 : 2) * fn(nr));
    const bool pack_b = !b_plain || b->col != 1 || t->m > 3 * MR;
    const int64_t step = slice_of_k(t->k);
    fn(panel) p = { .m = t->m, .a_packed = pack_a, .a_row = a->row, .a_col = a->col };

    for (int64_t i = 0; t->k == 0 && !add && i < t->m; i++)
        memset(c + i * c_row, 0, (size_t)t->n * sizeof(T));
    for (int64_t k0 = 0; k0 < t->k; k0 += step) {
        const int64_t a_at = t->i0 * a->row + k0 * a->col;
        T *b_pack = scratch;

        p.kc = t->k - k0 < step ? t->k - k0 : step;
        p.add = add || k0 > 0;
        p.a = pack_a ? scratch : (const T *)a->data + a_at;
        if (pack_a) {
            fn(pack_all)(a, a_at, a->row, a->col, t->m, p.kc, MR, scratch);
            b_pack = scratch + round_up(t->m, MR) * p.kc;
        }
        fn(slice)(t, &p, b, k0, pack_b, b_pack, c, c_row);
    }
}

#undef T
#undef V
#undef LANES
#undef fn
#undef SPLAT
#undef MULADD
#undef PACK_TYPES
