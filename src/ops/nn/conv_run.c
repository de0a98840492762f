/* SPDX-License-Identifier: Apache-2.0 */
/* conv_run.c - runs convolutions and their gradients in pieces, by oneDNN or by im2col and gemm.
 *
 * Pieces depend only on the shape. The filter's gradient is a sum over images: every piece computes
 * its own, and they are added in the order of the pieces. */
#include "ops/nn/conv_run.h"

#include "base/mem.h"
#include "graph/shard.h"
#include "ops/math/gemm.h"
#include "ops/nn/blocked_channels.h"

enum {
    MAX_PIECES = 16,
    SUM_GRAIN = 4096, /* elements of the filter's gradient per piece of the sum */
    FEW_CHANNELS = 4 /* with so few input channels, oneDNN's input gradient computes mostly padding
                      */
};
#define PIECE_WORK ((double)(2 << 20)) /* minimum multiply-adds per piece */

typedef struct conv_job {
    const mf_kernel *k;
    const mf_conv *conv;
    mf_dtype type;
    size_t cell;
    char *x, *w, *y;
    int64_t x_image, y_image, w_count; /* elements */
    int64_t shards; /* 0, or the pieces are shards */
    int64_t per_piece, pieces; /* maximum images per piece */
    mf_conv_plan *plan, *small_plan; /* for a full piece, and for smaller ones */
    mf_tensor packed; /* filter in oneDNN's layout */
    mf_tensor partial; /* the filter's gradient of each piece */
    size_t partial_bytes; /* of one */
    atomic_int status;
} conv_job;

/* ---- the matrix of windows ---- */

typedef struct conv_run_columns {
    const mf_window *w;
    int64_t channels, step_channel; /* of one group; stride of channels in x */
    int64_t step[MF_WINDOW_DIMS]; /* stride of x along each dimension */
    int64_t step_tap; /* stride of taps along the last dimension */
    bool runs; /* channels of adjacent taps are contiguous */
    int64_t pixels, length; /* rows (output positions) and columns (window x channels) */
} conv_run_columns;

static void columns_init(conv_run_columns *c, const mf_conv *conv)
{
    const mf_window *w = &conv->window;
    int64_t step = w->channels_first ? 1 : w->channels;

    *c = (conv_run_columns){ .w = w, .channels = w->channels / conv->groups, .pixels = 1 };
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

static void pixel_at(const conv_run_columns *c, int64_t pixel, int64_t *o)
{
    for (int d = c->w->nd - 1; d > 0; d--) {
        o[d] = pixel % c->w->out[d];
        pixel /= c->w->out[d];
    }
    o[0] = pixel;
}

/* Row `row` of the window at output position o. */
static tap_row row_at(const conv_run_columns *c, const int64_t *o, int64_t row)
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
    static void gather_##NAME(const conv_run_columns *c, const T *x, T *cols)                      \
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
    static void scatter_##NAME(const conv_run_columns *c, const T *cols, T *x)                     \
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
    }                                                                                              \
    static void add_##NAME(T *to, const T *from, int64_t n)                                        \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] += from[i];                                                                      \
    }
MOVE_COLUMNS(f32, float)
MOVE_COLUMNS(f64, double)
MOVE_COLUMNS(u32, uint32_t)

static void conv_run_gather(mf_dtype type, const conv_run_columns *c, const void *x, void *cols)
{
    if (type == MF_DTYPE_F32)
        gather_f32(c, x, cols);
    else if (type == MF_DTYPE_F64)
        gather_f64(c, x, cols);
    else
        gather_u32(c, x, cols);
}

static void conv_run_scatter(mf_dtype type, const conv_run_columns *c, const void *cols, void *x)
{
    if (type == MF_DTYPE_F32)
        scatter_f32(c, cols, x);
    else if (type == MF_DTYPE_F64)
        scatter_f64(c, cols, x);
    else
        scatter_u32(c, cols, x);
}

static void conv_run_add_to(mf_dtype type, void *to, const void *from, int64_t n)
{
    if (type == MF_DTYPE_F32)
        add_f32(to, from, n);
    else if (type == MF_DTYPE_F64)
        add_f64(to, from, n);
    else
        add_u32(to, from, n);
}

/* One image and group as a matrix product. w: the filter, or the accumulator of its gradient. */
static mf_status image_product(const conv_job *job, const conv_run_columns *c, const mf_kernel *k,
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
        conv_run_scatter(job->type, c, cols, x);
        return MF_OK;
    }
    conv_run_gather(job->type, c, x, cols);
    if (conv->kind == MF_CONV_FILTER) {
        g.m = c->length, g.n = out, g.k = c->pixels;
        g.a = (mf_gemm_side){ .data = cols, .type = job->type, .row = 1, .col = c->length };
        g.b = y_side;
        g.c = sum, g.c_row = out;
        MF_TRY(mf_gemm_run(k, &g));
        for (int64_t i = 0; i < c->length; i++)
            conv_run_add_to(job->type, w + (size_t)(i * all) * job->cell,
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
    conv_run_columns c;

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

static mf_status images_by_plan(const conv_job *job, int64_t from, int64_t n, char *w)
{
    mf_conv_plan *plan = n == job->per_piece ? job->plan : job->small_plan;
    const int64_t scratch_bytes = (int64_t)mf_conv_plan_scratch(plan);
    mf_tensor scratch = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_tensor_alloc(&scratch, MF_DTYPE_U8, &MF_SHAPE(scratch_bytes)));
    MF_TRY_TO(done,
              mf_conv_plan_run(plan, job->x + (size_t)(from * job->x_image) * job->cell, w,
                               job->y + (size_t)(from * job->y_image) * job->cell, scratch.data));
done:
    mf_tensor_clear(&scratch);
    return st;
}

static int64_t piece_begin(const conv_job *job, int64_t piece)
{
    const int64_t batch = job->conv->window.batch;

    if (job->shards > 0)
        return mf_shard_begin(batch, job->shards, piece);
    return piece * job->per_piece < batch ? piece * job->per_piece : batch;
}

static void conv_run_piece(void *ctx, int64_t piece)
{
    conv_job *job = ctx;
    const int64_t from = piece_begin(job, piece), to = piece_begin(job, piece + 1);
    char *w = job->packed.data ? job->packed.data : job->w;
    mf_status st;

    if (job->conv->kind == MF_CONV_FILTER) {
        w = (char *)job->partial.data + (size_t)piece * job->partial_bytes;
        if (!job->plan)
            memset(w, 0, job->partial_bytes);
    }
    st = job->plan ? images_by_plan(job, from, to - from, w) : images_by_product(job, from, to, w);
    if (st != MF_OK)
        atomic_store(&job->status, (int)st);
    else if (job->k->then)
        job->k->then->run(job->k->then, from * job->y_image, to * job->y_image);
}

/* Adds the gradients of all pieces to that of the first: shards by the reduction tree, others in
 * order. */
static void conv_run_sum_piece(void *ctx, int64_t piece)
{
    const conv_job *job = ctx;
    const int64_t count = (int64_t)(job->partial_bytes / job->cell);
    const int64_t at = piece * SUM_GRAIN, n = count - at < SUM_GRAIN ? count - at : SUM_GRAIN;
    char *to = (char *)job->partial.data + (size_t)at * job->cell;

    if (job->shards == 0) {
        for (int64_t p = 1; p < job->pieces; p++)
            conv_run_add_to(job->type, to, to + (size_t)p * job->partial_bytes, n);
        return;
    }
    for (int64_t stride = 1; stride < job->pieces; stride *= 2) {
        for (int64_t p = 0; p + stride < job->pieces; p += 2 * stride)
            conv_run_add_to(job->type, to + (size_t)p * job->partial_bytes,
                            to + (size_t)(p + stride) * job->partial_bytes, n);
    }
}

static mf_status filter_gradient(conv_job *job, void *scratch)
{
    const int64_t count = (int64_t)(job->partial_bytes / job->cell);

    if (job->pieces > 1)
        MF_TRY(mf_kernel_parallel(job->k, (count + SUM_GRAIN - 1) / SUM_GRAIN, conv_run_sum_piece,
                                  job));
    if (job->plan)
        return mf_conv_plan_pack(job->plan, job->partial.data, job->w, scratch);
    memcpy(job->w, job->partial.data, job->partial_bytes);
    return MF_OK;
}

static void conv_run_cut(conv_job *job, const mf_conv *conv)
{
    const double work = (double)job->y_image * ((double)job->w_count / (double)conv->out_channels);

    if (job->shards > 0) {
        job->pieces = job->shards < conv->window.batch ? job->shards : conv->window.batch;
        job->per_piece = (conv->window.batch + job->shards - 1) / job->shards;
        return;
    }
    job->per_piece = work < PIECE_WORK ? (int64_t)(PIECE_WORK / work) + 1 : 1;
    if (job->per_piece * MAX_PIECES < conv->window.batch)
        job->per_piece = (conv->window.batch + MAX_PIECES - 1) / MAX_PIECES;
    job->pieces = (conv->window.batch + job->per_piece - 1) / job->per_piece;
    if (job->pieces == 1)
        job->per_piece = conv->window.batch;
}

static mf_status find_plans(conv_job *job, mf_conv_plans *plans, const mf_conv *conv)
{
    mf_conv part = *conv;
    mf_status st;

    if (!plans || job->type != MF_DTYPE_F32 ||
        (conv->kind == MF_CONV_INPUT && conv->window.channels / conv->groups < FEW_CHANNELS))
        return MF_OK;
    part.window.batch = job->per_piece;
    st = mf_conv_plan_get(plans, &part, &job->plan);
    if (st == MF_OK) {
        part.window.batch = piece_begin(job, job->pieces) - piece_begin(job, job->pieces - 1);
        st = mf_conv_plan_get(plans, &part, &job->small_plan);
    }
    /* Pieces share one packed filter. */
    if (st == MF_OK && mf_conv_plan_packed(job->plan) != mf_conv_plan_packed(job->small_plan))
        st = MF_UNIMPLEMENTED;
    if (st == MF_UNIMPLEMENTED) {
        job->plan = NULL;
        return MF_OK;
    }
    return st;
}

/* ---- channels in blocks, where oneDNN has nothing for them ---- */

static mf_shape conv_run_image_shape(const mf_conv *c, bool output)
{
    const int64_t channels = output ? c->out_channels : c->window.channels;
    const int64_t *size = output ? c->window.out : c->window.in;

    return MF_SHAPE(c->window.batch, channels / c->block, size[0], size[1], c->block);
}

/* The same on unblocked copies of the images. */
static mf_status run_plain(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                           const mf_tensor *x, const mf_tensor *w, const mf_tensor *y)
{
    const mf_shape xs = conv_run_image_shape(conv, false), ys = conv_run_image_shape(conv, true);
    mf_tensor plain_x = { 0 }, plain_y = { 0 };
    mf_conv plain = *conv;
    mf_kernel inner = *k;
    mf_status st;

    plain.block = 0;
    inner.then = NULL;
    MF_TRY_TO(done, mf_tensor_alloc(&plain_x, MF_DTYPE_F32, &MF_SHAPE(x->count)));
    MF_TRY_TO(done, mf_tensor_alloc(&plain_y, MF_DTYPE_F32, &MF_SHAPE(y->count)));
    if (conv->kind != MF_CONV_INPUT)
        mf_layout_unblock(k, &xs, x->data, plain_x.data);
    if (conv->kind != MF_CONV_FORWARD)
        mf_layout_unblock(k, &ys, y->data, plain_y.data);
    MF_TRY_TO(done, mf_conv_run(&inner, NULL, &plain, shards, &plain_x, w, &plain_y));
    if (conv->kind == MF_CONV_INPUT)
        mf_layout_block(k, &xs, plain_x.data, x->data);
    if (conv->kind == MF_CONV_FORWARD)
        mf_layout_block(k, &ys, plain_y.data, y->data);
    if (k->then)
        k->then->run(k->then, 0, y->count);
done:
    mf_tensor_clear(&plain_x);
    mf_tensor_clear(&plain_y);
    return st;
}

mf_status mf_conv_run(const mf_kernel *k, mf_conv_plans *plans, const mf_conv *conv, int64_t shards,
                      const mf_tensor *x, const mf_tensor *w, const mf_tensor *y)
{
    conv_job job = { .k = k,
                     .conv = conv,
                     .type = x->dtype,
                     .cell = mf_dtype_cell(x->dtype),
                     .shards = conv->kind == MF_CONV_FILTER ? shards : 0,
                     .x = x->data,
                     .w = w->data,
                     .y = y->data };
    mf_tensor scratch = { 0 };
    mf_status st;

    if (x->count == 0 || y->count == 0 || w->count == 0) {
        const mf_tensor *result = conv->kind == MF_CONV_FORWARD ? y
                                  : conv->kind == MF_CONV_INPUT ? x
                                                                : w;
        memset(result->data, 0, (size_t)result->count * job.cell);
        if (k->then && result->count > 0)
            k->then->run(k->then, 0, result->count);
        return MF_OK;
    }
    job.x_image = x->count / conv->window.batch;
    job.y_image = y->count / conv->window.batch;
    job.w_count = w->count;
    job.partial_bytes = (size_t)w->count * job.cell;
    conv_run_cut(&job, conv);
    MF_TRY(find_plans(&job, plans, conv));
    if (conv->block > 0 && !job.plan)
        return run_plain(k, conv, shards, x, w, y);
    if (job.plan) {
        job.partial_bytes = mf_conv_plan_packed(job.plan);
        MF_TRY_TO(done, mf_tensor_alloc(&scratch, MF_DTYPE_U8,
                                        &MF_SHAPE((int64_t)mf_conv_plan_scratch(job.plan))));
    }
    if (conv->kind == MF_CONV_FILTER) {
        MF_TRY_TO(done, mf_tensor_alloc(&job.partial, MF_DTYPE_U8,
                                        &MF_SHAPE(job.pieces, (int64_t)job.partial_bytes)));
    } else if (job.plan) {
        MF_TRY_TO(done,
                  mf_tensor_alloc(&job.packed, MF_DTYPE_U8, &MF_SHAPE((int64_t)job.partial_bytes)));
        MF_TRY_TO(done, mf_conv_plan_pack(job.plan, w->data, job.packed.data, scratch.data));
    }
    MF_TRY_TO(done, mf_kernel_parallel(k, job.pieces, conv_run_piece, &job));
    st = (mf_status)atomic_load(&job.status);
    if (st != MF_OK)
        st = MF_FAIL(st, "a piece of the convolution failed");
    else if (conv->kind == MF_CONV_FILTER)
        st = filter_gradient(&job, scratch.data);
done:
    mf_tensor_clear(&scratch);
    mf_tensor_clear(&job.packed);
    mf_tensor_clear(&job.partial);
    return st;
}
