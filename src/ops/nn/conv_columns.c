/* SPDX-License-Identifier: Apache-2.0 */
/* conv_columns.c - im2col: the windows of an image become the rows of a matrix, whose product with
 * the filter is the result. */
#include "ops/nn/conv_columns.h"

#include "ops/math/gemm.h"
#include "ops/nn/conv_partial.h"

#include <string.h>

enum { MAX_PIECES = 16 };
#define PIECE_WORK ((double)(2 << 20)) /* minimum multiply-adds per piece */

typedef struct conv_job {
    const mf_kernel *k;
    const mf_conv *conv;
    mf_dtype type;
    size_t cell;
    char *x, *w, *y;
    int64_t x_image, y_image, out_image; /* elements; of input, output and result */
    int64_t per_piece; /* images */
    const mf_conv_parts *parts; /* of the filter's gradient */
    atomic_int status;
} conv_job;

/* ---- the matrix of windows ---- */

typedef struct window_columns {
    const mf_window *w;
    int64_t channels, step_channel; /* of one group; stride of channels in x */
    int64_t step[MF_WINDOW_DIMS]; /* stride of x along each dimension */
    int64_t step_tap; /* stride of taps along the last dimension */
    bool runs; /* channels of adjacent taps are contiguous */
    int64_t pixels, length; /* rows (output positions) and columns (window x channels) */
} window_columns;

static void columns_init(window_columns *c, const mf_conv *conv)
{
    const mf_window *w = &conv->window;
    int64_t step = w->channels_first ? 1 : w->channels;

    *c = (window_columns){ .w = w, .channels = w->channels / conv->groups, .pixels = 1 };
    c->length = c->channels;
    for (int d = w->nd - 1; d >= 0; d--) {
        c->step[d] = step;
        step *= w->in[d];
        c->pixels *= w->out[d];
        c->length *= w->size[d];
    }
    c->step_channel = w->channels_first ? step : 1;
    c->step_tap = c->step[w->nd - 1] * w->dilation[w->nd - 1];
    c->runs = c->step_channel == 1 && c->step_tap == c->channels;
}

/* Taps along the last dimension: those in [lo, hi) are inside x; tap 0 is at `at`. */
typedef struct tap_row {
    int64_t at, lo, hi;
} tap_row;

static void pixel_at(const window_columns *c, int64_t pixel, int64_t *o)
{
    for (int d = c->w->nd - 1; d > 0; d--) {
        o[d] = pixel % c->w->out[d];
        pixel /= c->w->out[d];
    }
    o[0] = pixel;
}

/* Row `row` of the window at output position o. */
static tap_row row_at(const window_columns *c, const int64_t *o, int64_t row)
{
    const mf_window *w = c->w;
    const int last = w->nd - 1;
    const int64_t i = o[last] * w->stride[last] - w->pad_lo[last], dil = w->dilation[last];
    tap_row r = { .at = i * c->step[last], .hi = w->size[last] };

    MF_ASSERT(last >= 0);
    for (int d = last - 1; d >= 0; d--) {
        const int64_t s = d > 0 ? row % w->size[d] : row;
        const int64_t at = o[d] * w->stride[d] - w->pad_lo[d] + s * w->dilation[d];

        if (at < 0 || at >= w->in[d])
            return (tap_row){ 0 };
        r.at += at * c->step[d];
        row = d > 0 ? row / w->size[d] : 0;
    }
    if (i < 0)
        r.lo = (-i + dil - 1) / dil < r.hi ? (-i + dil - 1) / dil : r.hi;
    while (r.hi > r.lo && i + (r.hi - 1) * dil >= w->in[last])
        r.hi--;
    return r;
}

/* im2col and col2im: cols[pixels][taps][channels] = windows of x, or (scatter) x += cols. A row of
 * taps is often contiguous in x. */
#define MOVE_COLUMNS(NAME, T)                                                                      \
    static void gather_##NAME(const window_columns *c, const T *x, T *cols)                        \
    {                                                                                              \
        const int64_t wide = c->w->size[c->w->nd - 1], rows = c->length / (c->channels * wide);    \
        const int64_t n = c->channels, step = c->step_tap;                                         \
        int64_t o[MF_WINDOW_DIMS];                                                                 \
                                                                                                   \
        for (int64_t p = 0; p < c->pixels; p++) {                                                  \
            pixel_at(c, p, o);                                                                     \
            for (int64_t r = 0; r < rows; r++, cols += wide * n) {                                 \
                const tap_row t = row_at(c, o, r);                                                 \
                                                                                                   \
                memset(cols, 0, (size_t)(wide * n) * sizeof(T));                                   \
                if (c->runs && t.hi > t.lo) {                                                      \
                    memcpy(cols + t.lo * n, x + t.at + t.lo * step,                                \
                           (size_t)((t.hi - t.lo) * n) * sizeof(T));                               \
                    continue;                                                                      \
                }                                                                                  \
                for (int64_t k = t.lo; k < t.hi; k++)                                              \
                    for (int64_t i = 0; i < n; i++)                                                \
                        cols[k * n + i] = x[t.at + k * step + i * c->step_channel];                \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void scatter_##NAME(const window_columns *c, const T *cols, T *x)                       \
    {                                                                                              \
        const int64_t wide = c->w->size[c->w->nd - 1], rows = c->length / (c->channels * wide);    \
        const int64_t n = c->channels, step = c->step_tap;                                         \
        int64_t o[MF_WINDOW_DIMS];                                                                 \
                                                                                                   \
        for (int64_t p = 0; p < c->pixels; p++) {                                                  \
            pixel_at(c, p, o);                                                                     \
            for (int64_t r = 0; r < rows; r++, cols += wide * n) {                                 \
                const tap_row t = row_at(c, o, r);                                                 \
                T *to = x + t.at + t.lo * step;                                                    \
                                                                                                   \
                if (c->runs) {                                                                     \
                    for (int64_t i = 0; i < (t.hi - t.lo) * n; i++)                                \
                        to[i] += cols[t.lo * n + i];                                               \
                    continue;                                                                      \
                }                                                                                  \
                for (int64_t k = t.lo; k < t.hi; k++)                                              \
                    for (int64_t i = 0; i < n; i++)                                                \
                        x[t.at + k * step + i * c->step_channel] += cols[k * n + i];               \
            }                                                                                      \
        }                                                                                          \
    }
MOVE_COLUMNS(f32, float)
MOVE_COLUMNS(f64, double)
MOVE_COLUMNS(u32, uint32_t)

static void gather_columns(mf_dtype type, const window_columns *c, const void *x, void *cols)
{
    if (type == MF_DTYPE_F32)
        gather_f32(c, x, cols);
    else if (type == MF_DTYPE_F64)
        gather_f64(c, x, cols);
    else
        gather_u32(c, x, cols);
}

static void scatter_columns(mf_dtype type, const window_columns *c, const void *cols, void *x)
{
    if (type == MF_DTYPE_F32)
        scatter_f32(c, cols, x);
    else if (type == MF_DTYPE_F64)
        scatter_f64(c, cols, x);
    else
        scatter_u32(c, cols, x);
}

static void add_columns(mf_dtype type, void *to, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (type == MF_DTYPE_F32)
            ((float *)to)[i] += ((const float *)from)[i];
        else if (type == MF_DTYPE_F64)
            ((double *)to)[i] += ((const double *)from)[i];
        else
            ((uint32_t *)to)[i] += ((const uint32_t *)from)[i];
    }
}

/* One image and group as a matrix product. w: the filter, or the accumulator of its gradient. */
static mf_status image_product(const conv_job *job, const window_columns *c, const mf_kernel *k,
                               char *x, char *w, char *y, char *cols, char *sum)
{
    const mf_conv *conv = job->conv;
    const int64_t out = conv->out_channels / conv->groups, all = conv->out_channels;
    const bool first = conv->window.channels_first;
    mf_gemm_side y_side = {
        .data = y, .type = job->type, .row = first ? 1 : all, .col = first ? c->pixels : 1
    };
    mf_gemm g = { .c_type = job->type };

    if (conv->kind == MF_CONV_INPUT) {
        g.m = c->pixels, g.n = c->length, g.k = out;
        g.a = y_side;
        g.b = (mf_gemm_side){ .data = w, .type = job->type, .row = 1, .col = all };
        g.c = cols, g.c_row = c->length;
        MF_TRY(mf_gemm_run(k, &g));
        scatter_columns(job->type, c, cols, x);
        return MF_OK;
    }
    gather_columns(job->type, c, x, cols);
    if (conv->kind == MF_CONV_FILTER) {
        g.m = c->length, g.n = out, g.k = c->pixels;
        g.a = (mf_gemm_side){ .data = cols, .type = job->type, .row = 1, .col = c->length };
        g.b = y_side;
        g.c = sum, g.c_row = out;
        MF_TRY(mf_gemm_run(k, &g));
        for (int64_t i = 0; i < c->length; i++)
            add_columns(job->type, w + (size_t)(i * all) * job->cell,
                        sum + (size_t)(i * out) * job->cell, out);
        return MF_OK;
    }
    g.a = (mf_gemm_side){ .data = cols, .type = job->type, .row = c->length, .col = 1 };
    g.b = (mf_gemm_side){ .data = w, .type = job->type, .row = all, .col = 1 };
    g.m = c->pixels, g.n = out, g.k = c->length;
    g.c = y, g.c_row = all;
    if (first) { /* the transposed product */
        const mf_gemm_side a = g.a;

        g.a = (mf_gemm_side){ .data = w, .type = job->type, .row = 1, .col = all };
        g.b = (mf_gemm_side){ .data = cols, .type = job->type, .row = a.col, .col = a.row };
        g.m = out, g.n = c->pixels;
        g.c_row = c->pixels;
    }
    return mf_gemm_run(k, &g);
}

static mf_status images_by_product(const conv_job *job, int64_t from, int64_t to, char *w)
{
    const mf_conv *conv = job->conv;
    mf_step step = *job->k->step;
    mf_kernel k = *job->k;
    mf_tensor cols = { 0 }, sum = { 0 };
    mf_status st;
    window_columns c;

    step.pool = NULL; /* already runs inside a piece */
    k.step = &step;
    k.then = NULL;
    columns_init(&c, conv);
    MF_TRY_TO(done, mf_tensor_alloc(&cols, job->type, &MF_SHAPE(c.pixels, c.length)));
    if (conv->kind == MF_CONV_FILTER)
        MF_TRY_TO(done, mf_tensor_alloc(&sum, job->type,
                                        &MF_SHAPE(c.length, conv->out_channels / conv->groups)));
    for (int64_t n = from; n < to; n++) {
        char *x = job->x + (size_t)(n * job->x_image) * job->cell;
        char *y = job->y + (size_t)(n * job->y_image) * job->cell;

        if (conv->kind == MF_CONV_INPUT)
            memset(x, 0, (size_t)job->x_image * job->cell);
        for (int64_t g = 0; g < conv->groups; g++) {
            const int64_t out = conv->out_channels / conv->groups;
            const int64_t y_at = g * out * (conv->window.channels_first ? c.pixels : 1);

            MF_TRY_TO(done, image_product(job, &c, &k,
                                          x + (size_t)(g * c.channels * c.step_channel) * job->cell,
                                          w + (size_t)(g * out) * job->cell,
                                          y + (size_t)y_at * job->cell, cols.data, sum.data));
        }
    }
done:
    mf_tensor_clear(&cols);
    mf_tensor_clear(&sum);
    return st;
}

/* ---- pieces ---- */

static void columns_piece(void *ctx, int64_t piece)
{
    conv_job *job = ctx;
    const int64_t batch = job->conv->window.batch;
    int64_t from = piece * job->per_piece, to = from + job->per_piece;
    char *w = job->w;
    mf_status st;

    if (job->conv->kind == MF_CONV_FILTER) {
        from = mf_conv_part_begin(job->parts, piece);
        to = mf_conv_part_begin(job->parts, piece + 1);
        w = mf_conv_partial(job->parts, piece);
        memset(w, 0, (size_t)job->parts->count * job->cell);
    }
    to = to < batch ? to : batch;
    st = images_by_product(job, from, to, w);
    if (st != MF_OK)
        atomic_store(&job->status, (int)st);
    else if (job->k->then)
        job->k->then->run(job->k->then, from * job->out_image, to * job->out_image);
}

static int64_t cut_images(conv_job *job, int64_t w_count)
{
    const int64_t batch = job->conv->window.batch;
    const double work = (double)job->y_image * ((double)w_count / (double)job->conv->out_channels);

    job->per_piece = work < PIECE_WORK ? (int64_t)(PIECE_WORK / work) + 1 : 1;
    if (job->per_piece * MAX_PIECES < batch)
        job->per_piece = (batch + MAX_PIECES - 1) / MAX_PIECES;
    return (batch + job->per_piece - 1) / job->per_piece;
}

mf_status mf_conv_columns(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                          const mf_tensor *x, const mf_tensor *w, const mf_tensor *y)
{
    const bool filter = conv->kind == MF_CONV_FILTER;
    mf_conv_parts parts = { 0 };
    conv_job job = { .k = k,
                     .conv = conv,
                     .type = x->dtype,
                     .cell = mf_dtype_cell(x->dtype),
                     .parts = &parts,
                     .x = x->data,
                     .w = w->data,
                     .y = y->data,
                     .x_image = x->count / conv->window.batch,
                     .y_image = y->count / conv->window.batch };
    int64_t pieces = cut_images(&job, w->count);
    mf_status st;

    job.out_image = conv->kind == MF_CONV_INPUT ? job.x_image : job.y_image;
    if (filter) {
        MF_TRY_TO(done, mf_conv_parts_init(conv, shards, x->dtype, w->data, &parts));
        pieces = parts.n;
    }
    MF_TRY_TO(done, mf_kernel_parallel(k, pieces, columns_piece, &job));
    st = (mf_status)atomic_load(&job.status);
    if (st != MF_OK)
        st = MF_FAIL(st, "a piece of the convolution failed");
    else if (filter)
        st = mf_conv_parts_sum(k, &parts);
done:
    mf_conv_parts_deinit(&parts);
    return st;
}
