/* SPDX-License-Identifier: Apache-2.0 */
/* channel_sum.c - sums over all positions of a feature map, per channel. */
#include "ops/nn/channel_sum.h"

#include "ops/math/row_math.h"

#include <string.h>

enum { CHUNK = 64, BLOCK = 64, MAX_PIECES = 64, GRAIN = 32768 };

mf_channels mf_channels_last(const mf_shape *x)
{
    return (mf_channels){ 1, 1, mf_shape_span(x, 0, x->rank - 1), x->dims[x->rank - 1] };
}

mf_channels mf_channels_first(const mf_shape *x)
{
    return (mf_channels){ x->dims[0], x->dims[1], mf_shape_span(x, 2, x->rank), 1 };
}

static bool by_planes(const mf_channels *at)
{
    return at->run == 1 && at->groups > 1;
}

mf_status mf_channel_sums_init(mf_channel_sums *s, const mf_channels *at)
{
    int64_t row;

    s->at = *at;
    s->channels = at->groups * at->run;
    s->rows = by_planes(at) ? at->images : at->images * at->pixels;
    row = by_planes(at) ? s->channels * at->pixels : s->channels;
    s->rows_per_piece = row < GRAIN ? GRAIN / row : 1;
    if (s->rows_per_piece * MAX_PIECES < s->rows)
        s->rows_per_piece = (s->rows + MAX_PIECES - 1) / MAX_PIECES;
    s->pieces = (s->rows + s->rows_per_piece - 1) / s->rows_per_piece;
    return mf_tensor_alloc(&s->partial, MF_DTYPE_F64, &MF_SHAPE(s->pieces, 2, s->channels));
}

void mf_channel_rows(const mf_channel_sums *s, int64_t piece, int64_t *from, int64_t *to)
{
    *from = piece * s->rows_per_piece;
    *to = *from + s->rows_per_piece < s->rows ? *from + s->rows_per_piece : s->rows;
}

int64_t mf_channel_run(const mf_channels *at, int64_t group, int64_t from, int64_t to,
                       int64_t *rows)
{
    const int64_t image = from / at->pixels, pixel = from % at->pixels;

    *rows = at->pixels - pixel < to - from ? at->pixels - pixel : to - from;
    return ((image * at->groups + group) * at->pixels + pixel) * at->run;
}

/* ---- channels last or in blocks ---- */

/* n channels at `at` of `rows` rows, `step` apart. */
static inline void add_x(const float *x, int64_t step, int64_t rows, const int64_t n, float *sum)
{
    for (int64_t r = 0; r < rows; r++, x += step)
        for (int64_t c = 0; c < n; c++)
            sum[c] += x[c];
}

static inline void add_squares(const float *x, const float *mean, int64_t step, int64_t rows,
                               const int64_t n, float *sum)
{
    for (int64_t r = 0; r < rows; r++, x += step)
        for (int64_t c = 0; c < n; c++)
            sum[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
}

static inline void channel_sum_add_grad(const float *x, const float *dy, const float *mean,
                                        int64_t step, int64_t rows, const int64_t n, float *s0,
                                        float *s1)
{
    for (int64_t r = 0; r < rows; r++, x += step, dy += step)
        for (int64_t c = 0; c < n; c++) {
            s0[c] += dy[c];
            s1[c] += dy[c] * (x[c] - mean[c]);
        }
}

/* ch: the first channel. */
static inline void channel_sum_add_channels(const mf_channel_sums *s, int64_t at, int64_t ch,
                                            int64_t rows, const int64_t n, float *s0, float *s1)
{
    if (s->term == MF_TERM_X)
        add_x(s->x + at, s->at.run, rows, n, s0);
    else if (s->term == MF_TERM_SQUARE)
        add_squares(s->x + at, s->mean + ch, s->at.run, rows, n, s0);
    else
        channel_sum_add_grad(s->x + at, s->dy + at, s->mean + ch, s->at.run, rows, n, s0, s1);
}

/* n channels of a group from its channel c0 on, rows from..to. */
static void add_rows(const mf_channel_sums *s, int64_t group, int64_t c0, int64_t n, int64_t from,
                     int64_t to, double *sum0, double *sum1)
{
    const int64_t ch = group * s->at.run + c0;

    for (int64_t r0 = from; r0 < to; r0 += BLOCK) {
        const int64_t r1 = r0 + BLOCK < to ? r0 + BLOCK : to;
        float s0[CHUNK] = { 0 }, s1[CHUNK] = { 0 };

        for (int64_t r = r0, rows; r < r1; r += rows) {
            const int64_t at = mf_channel_run(&s->at, group, r, r1, &rows) + c0;

            if (n == 8)
                channel_sum_add_channels(s, at, ch, rows, 8, s0, s1);
            else
                channel_sum_add_channels(s, at, ch, rows, n, s0, s1);
        }
        for (int64_t c = 0; c < n; c++) {
            sum0[c] += (double)s0[c];
            sum1[c] += (double)s1[c];
        }
    }
}

/* ---- channels first ---- */

/* The plane of one channel. */
static void add_plane(const mf_channel_sums *s, int64_t image, int64_t ch, double *sum0,
                      double *sum1)
{
    const int64_t n = s->at.pixels, at = (image * s->channels + ch) * n;
    const float *x = s->x + at;
    double s0, s1 = 0;

#define X_TERM(i) x[i]
#define SQUARE_TERM(i) ((x[i] - mean) * (x[i] - mean))
#define DY_TERM(i) dy[i]
#define DY_X_TERM(i) (dy[i] * (x[i] - mean))
    if (s->term == MF_TERM_X) {
        MF_ROW_SUM(float, s0, n, X_TERM);
    } else if (s->term == MF_TERM_SQUARE) {
        const float mean = s->mean[ch];

        MF_ROW_SUM(float, s0, n, SQUARE_TERM);
    } else {
        const float *dy = s->dy + at, mean = s->mean[ch];

        MF_ROW_SUM(float, s0, n, DY_TERM);
        MF_ROW_SUM(float, s1, n, DY_X_TERM);
    }
    *sum0 += s0;
    *sum1 += s1;
}

/* ---- pieces ---- */

static void channel_sum_piece(void *ctx, int64_t piece)
{
    const mf_channel_sums *s = ctx;
    double *sum0 = (double *)s->partial.data + piece * 2 * s->channels, *sum1 = sum0 + s->channels;
    int64_t from, to;

    mf_channel_rows(s, piece, &from, &to);
    memset(sum0, 0, (size_t)(2 * s->channels) * sizeof *sum0);
    if (by_planes(&s->at)) {
        for (int64_t image = from; image < to; image++)
            for (int64_t ch = 0; ch < s->channels; ch++)
                add_plane(s, image, ch, sum0 + ch, sum1 + ch);
        return;
    }
    for (int64_t g = 0; g < s->at.groups; g++) {
        for (int64_t c0 = 0; c0 < s->at.run; c0 += CHUNK) {
            const int64_t n = s->at.run - c0 < CHUNK ? s->at.run - c0 : CHUNK;
            const int64_t ch = g * s->at.run + c0;

            add_rows(s, g, c0, n, from, to, sum0 + ch, sum1 + ch);
        }
    }
}

void mf_channel_pieces(const mf_kernel *k, const mf_channel_sums *s, void (*fn)(void *, int64_t),
                       void *ctx)
{
    mf_kernel_complete(k, s->pieces, fn, ctx);
}

const double *mf_channel_sums_run(const mf_kernel *k, mf_channel_sums *s, mf_channel_term term)
{
    double *sums = s->partial.data;

    s->term = term;
    mf_channel_pieces(k, s, channel_sum_piece, s);
    for (int64_t p = 1; p < s->pieces; p++)
        for (int64_t i = 0; i < 2 * s->channels; i++)
            sums[i] += sums[p * 2 * s->channels + i];
    return sums;
}
