/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tile.h - one tile of a matrix product. A template: included by gemm.c once per type of the
 * computation, with
 *
 *   T, V, LANES        the type, a vector of VECTOR bytes of it and its number of elements
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

#pragma GCC unroll 28
    for (int i = 0; i < mr * nv; i++)
        sum[i] = (V){ 0 };
    for (int64_t p = 0; p < kc; p++, b += b_row) {
        V x[WIDE], y[WIDE];

        if (nv > 2) { /* few rows: their elements stay in registers */
#pragma GCC unroll 6
            for (int r = 0; r < mr; r++)
                x[r] = SPLAT(rows[r / 5][r % 5 * a_row]);
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++) {
                memcpy(&y[j], b + j * LANES, sizeof(V));
#pragma GCC unroll 6
                for (int r = 0; r < mr; r++)
                    sum[r * nv + j] = MULADD(sum[r * nv + j], x[r], y[j]);
            }
        } else {
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++)
                memcpy(&y[j], b + j * LANES, sizeof(V));
#pragma GCC unroll 14
            for (int r = 0; r < mr; r++) {
                const T z = rows[r / 5][r % 5 * a_row];

#pragma GCC unroll 2
                for (int j = 0; j < nv; j++)
                    sum[r * nv + j] = fn(muladd)(sum[r * nv + j], z, y[j]);
            }
        }
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++)
            rows[i] += a_col;
    }
    for (int64_t i = 0; i < olds->count; i++) {
        const T *from = olds->at + i * olds->step;

#pragma GCC unroll 14
        for (int r = 0; r < mr; r++) {
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++) {
                V old;

                memcpy(&old, from + r * olds->row + j * LANES, sizeof old);
                sum[r * nv + j] = old + sum[r * nv + j];
            }
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < mr; r++, c += c_row) {
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            memcpy(c + j * LANES, &sum[r * nv + j], sizeof(V));
    }
}

/* The block of a product with mr rows, one or two vectors wide. */
static void fn(block_of)(int mr, int nv, int64_t kc, const T *a, int64_t a_row, int64_t a_col,
                         const T *b, int64_t b_row, T *c, int64_t c_row, const fn(olds) * olds)
{
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
}

/* Few rows are bound by loading B: wide blocks read it in order. */
static void fn(block_wide)(int mr, int64_t kc, const T *a, int64_t a_row, int64_t a_col, const T *b,
                           int64_t b_row, T *c, int64_t c_row, const fn(olds) * olds)
{
    switch (mr) {
#define WIDE_CASE(MROWS, VECTORS)                                                                  \
    case MROWS:                                                                                    \
        fn(block)(MROWS, VECTORS, kc, a, a_row, a_col, b, b_row, c, c_row, olds);                  \
        break;
        WIDE_CASES(WIDE_CASE)
#undef WIDE_CASE
    }
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

/* Copies `width` elements, at most a line of a strip or a panel. */
static inline __attribute__((always_inline)) void fn(copy_line)(T *to, const T *from, int64_t width)
{
    if (width == fn(nr)) {
        memcpy(to, from, fn(nr) * sizeof(T));
    } else if (width >= MR / 2 + 1) { /* the two halves overlap */
        memcpy(to, from, (MR / 2 + 1) * sizeof(T));
        memcpy(to + width - (MR / 2 + 1), from + width - (MR / 2 + 1), (MR / 2 + 1) * sizeof(T));
    } else {
        for (int64_t i = 0; i < width; i++)
            to[i] = from[i];
    }
}

/* kc lines of n elements each, `step` apart, divided into strips of `width`: a few lines at a time
 * through all strips, because lines and strips may be in different pages. */
static inline __attribute__((always_inline)) void
fn(pack_lines)(const T *from, int64_t step, int64_t n, int64_t kc, const int64_t width, T *packed)
{
    for (int64_t i = 0, lines; i < kc; i += lines, from += lines * step) {
        int64_t j = 0;

        lines = kc - i < LINES ? kc - i : LINES;
        for (; j + width <= n; j += width) {
            T *to = packed + j * kc + i * width;

            for (int64_t l = 0; l < lines; l++, to += width) {
                if (i + l + LINES < kc) {
                    __builtin_prefetch(from + (l + LINES) * step + j);
                    if (width * (int64_t)sizeof(T) > 64)
                        __builtin_prefetch(from + (l + LINES) * step + j + 64 / sizeof(T));
                }
                fn(copy_line)(to, from + l * step + j, width);
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

/* Columns in wide blocks, of a product with few rows. Returns how many columns are done. */
static int64_t fn(slice_wide)(const gemm_tile *t, const fn(panel) * p, const T *b, int64_t b_row,
                              T *c, int64_t c_row)
{
    const int64_t width = wide_vectors((int)t->m) * LANES;
    int64_t j = 0;

    for (; j + width <= t->n; j += width)
        fn(block_wide)((int)t->m, p->kc, p->a, p->a_row, p->a_col, b + j, b_row, c + j, c_row,
                       &(fn(olds)){ c + j, p->add, c_row, 0 });
    return j;
}

/* c[m][n] (+)= a[m][kc] * b[kc][n], one slice of k. */
static void fn(slice)(const gemm_tile *t, fn(panel) * p, const fn(view) * b, int64_t k0,
                      bool pack_b, T *b_pack, T *c, int64_t c_row)
{
    const T *direct = b->data;
    const int64_t at = k0 * b->row + t->j0 * b->col;
    int64_t j = 0;

    if (t->m <= WIDE_ROWS && !p->a_packed && !pack_b)
        j = fn(slice_wide)(t, p, direct + at, b->row, c, c_row);
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
    const bool pack_a = !a_plain || (t->m > MR && t->n > PACK_A_FROM * fn(nr));
    const bool pack_b = !b_plain || b->col != 1 ||
                        (t->m > PACK_B_FROM && t->k * b->row * (int64_t)sizeof(T) > PACK_B_BYTES);
    const int64_t step = slice_of_k(t->k);
    fn(panel) p = {
        .m = t->m, .strip = strip_rows(t->m), .a_packed = pack_a, .a_row = a->row, .a_col = a->col
    };

    for (int64_t i = 0; t->k == 0 && !add && i < t->m; i++)
        memset(c + i * c_row, 0, (size_t)t->n * sizeof(T));
    for (int64_t k0 = 0; k0 < t->k; k0 += step) {
        const int64_t a_at = t->i0 * a->row + k0 * a->col;
        T *b_pack = scratch;

        p.kc = t->k - k0 < step ? t->k - k0 : step;
        p.add = add || k0 > 0;
        p.a = pack_a ? scratch : (const T *)a->data + a_at;
        if (pack_a) {
            fn(pack_all)(a, a_at, a->row, a->col, t->m, p.kc, p.strip, scratch);
            b_pack = scratch + round_up(t->m, p.strip) * p.kc;
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
