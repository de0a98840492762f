/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tile.h - one tile of a matrix product. A template, as gemm_block.h, with
 *
 *   PACK_TYPES(X)      X(dtype, storage type, load expression of p) for each type that packs into T
 *
 * The usual loop nest: slices of MF_GEMM_K steps of k; B packed into panels of NR columns that stay
 * in the first-level cache, A into strips of at most MR rows in the second-level cache; a register
 * block innermost. Packing is skipped if it does not pay off. */

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

/* Few rows are bound by loading B: wide blocks read it in order. */
static void fn(block_wide)(int mr, int64_t kc, const T *a, int64_t a_row, int64_t a_col, const T *b,
                           int64_t b_row, T *c, int64_t c_row, const fn(olds) * olds)
{
#if defined(MF_SANITIZED)
    fn(block)(mr, (int)wide_vectors(mr), kc, a, a_row, a_col, b, b_row, c, c_row, olds);
#else
    switch (mr) {
#define WIDE_CASE(MROWS, VECTORS)                                                                  \
    case MROWS:                                                                                    \
        fn(block)(MROWS, VECTORS, kc, a, a_row, a_col, b, b_row, c, c_row, olds);                  \
        break;
        WIDE_CASES(WIDE_CASE)
#undef WIDE_CASE
    }
#endif
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
