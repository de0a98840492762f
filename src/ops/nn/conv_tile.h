/* SPDX-License-Identifier: Apache-2.0 */
/* conv_tile.h - register blocks of convolutions, for one type of cell. A cell is 32 bits: a float,
 * or a pair of 16-bit floats that one instruction multiplies and adds.
 *
 * Every result is one chain of multiply-adds in the order of the runs (of the positions, for the
 * filter's gradient), so its bits depend neither on the width of vectors nor on the block.
 *
 * CELL: the type; V, W: vectors of floats and of cells; LANES; ZERO: a V; LOAD(p), SPLAT(cell): a
 * W; MULADD(sum, a, b): a V; fn(name). */

typedef float fn(sums) __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* out[r][nv vectors] (+)= sum over the cells that position r reads. */
static inline __attribute__((always_inline)) void fn(tile)(const int mr, const int nv,
                                                           const mf_conv_tile *t)
{
    const CELL *w = t->w;
    V sum[MF_CONV_ROWS][MF_CONV_VECTORS];

    MF_UNROLL
    for (int r = 0; r < mr; r++) {
        MF_UNROLL
        for (int v = 0; v < nv; v++)
            sum[r][v] =
                t->add ? (V) * (const fn(sums) *)(t->out + r * t->out_step + v * LANES) : ZERO;
    }
    for (int i = 0; i < t->n_runs; i++) {
        const CELL *at = (const CELL *)t->in + t->runs[i].at;
        const CELL *const end = at + t->runs[i].length;

        for (; at < end; at++, w += t->w_step) {
            W b[MF_CONV_VECTORS];

            MF_UNROLL
            for (int v = 0; v < nv; v++)
                b[v] = LOAD(w + v * LANES);
            MF_UNROLL
            for (int r = 0; r < mr; r++) {
                const W a = SPLAT(at[r * t->in_step]);

                MF_UNROLL
                for (int v = 0; v < nv; v++)
                    sum[r][v] = MULADD(sum[r][v], a, b[v]);
            }
        }
    }
    MF_UNROLL
    for (int r = 0; r < mr; r++) {
        MF_UNROLL
        for (int v = 0; v < nv; v++)
            *(fn(sums) *)(t->out + r * t->out_step + v * LANES) = (fn(sums))sum[r][v];
    }
}

/* dw[r][nv vectors] += sum over positions of x[position][r] * dy[position]. */
static inline __attribute__((always_inline)) void fn(filter_tile)(const int mr, const int nv,
                                                                  const mf_conv_filter_tile *t)
{
    V sum[MF_CONV_ROWS][MF_CONV_VECTORS];

    MF_UNROLL
    for (int r = 0; r < mr; r++) {
        MF_UNROLL
        for (int v = 0; v < nv; v++)
            sum[r][v] = (V) * (const fn(sums) *)(t->dw + r * t->dw_step + v * LANES);
    }
    for (int64_t i = 0; i < t->rows; i++) {
        const CELL *x = (const CELL *)t->x + i * t->x_row,
                   *dy = (const CELL *)t->dy + i * t->dy_row;

        for (int64_t j = 0; j < t->n; j++, x += t->x_step, dy += t->dy_step) {
            W b[MF_CONV_VECTORS];

            MF_UNROLL
            for (int v = 0; v < nv; v++)
                b[v] = LOAD(dy + v * LANES);
            MF_UNROLL
            for (int r = 0; r < mr; r++) {
                const W a = SPLAT(x[r]);

                MF_UNROLL
                for (int v = 0; v < nv; v++)
                    sum[r][v] = MULADD(sum[r][v], a, b[v]);
            }
        }
    }
    MF_UNROLL
    for (int r = 0; r < mr; r++) {
        MF_UNROLL
        for (int v = 0; v < nv; v++)
            *(fn(sums) *)(t->dw + r * t->dw_step + v * LANES) = (fn(sums))sum[r][v];
    }
}

#define TILES(nv, mr)                                                                              \
    static void fn(tile_##nv##_##mr)(const mf_conv_tile *t)                                        \
    {                                                                                              \
        fn(tile)(mr, nv, t);                                                                       \
    }                                                                                              \
    static void fn(filter_##nv##_##mr)(const mf_conv_filter_tile *t)                               \
    {                                                                                              \
        fn(filter_tile)(mr, nv, t);                                                                \
    }
MF_CONV_EACH_TILE(TILES)
#undef TILES

#define TILE(nv, mr) [nv - 1][mr - 1] = fn(tile_##nv##_##mr),
#define FILTER(nv, mr) [nv - 1][mr - 1] = fn(filter_##nv##_##mr),
static const mf_conv_tiles fn(tiles) = {
    .lanes = LANES,
    .rows = MF_CONV_MOST_ROWS,
    .tile = { MF_CONV_EACH_TILE(TILE) },
    .filter = { MF_CONV_EACH_TILE(FILTER) },
};
#undef TILE
#undef FILTER

#undef CELL
#undef fn
#undef V
#undef W
#undef ZERO
#undef LOAD
#undef SPLAT
#undef MULADD
