/* SPDX-License-Identifier: Apache-2.0 */
/* conv_run.c - convolutions by type and layout: floats and bfloat16 with channels last are computed
 * directly; images of floats with channels first are transposed before and after. */
#include "ops/nn/conv_run.h"

#include "base/mem.h"
#include "ops/nn/conv_columns.h"
#include "ops/nn/conv_direct.h"
#include "ops/nn/conv_filter.h"
#include "ops/nn/conv_tiles.h"

#include <string.h>

enum { MOST_STRIDE = 16, MOST_TAPS = 1 << 20 };

static mf_status run_last(const mf_kernel *k, const mf_conv *conv, mf_dtype type, int64_t shards,
                          void *x, void *w, void *y)
{
    return conv->kind == MF_CONV_FILTER ? mf_conv_filter(k, conv, type, shards, x, w, y)
                                        : mf_conv_direct(k, conv, type, x, w, y);
}

/* Direct kernels copy rows with their padding, visit every tap, and compute an input gradient once
 * per remainder of the stride. That suits ordinary windows; others (padding, dilation or stride
 * much larger than the image, which a client can send) become matrix products. */
static bool is_ordinary(const mf_conv *conv)
{
    const mf_window *w = &conv->window;
    int64_t taps = 1, span, reach, read;

    for (int d = 0; d < w->nd; d++) {
        if (!mf_mul_i64(w->out[d] - 1, w->stride[d], &span) ||
            !mf_mul_i64(w->size[d] - 1, w->dilation[d], &reach) ||
            !mf_add_i64(span, reach, &read) || read > 4 * w->in[d] + 64 ||
            (conv->kind == MF_CONV_INPUT && w->stride[d] > MOST_STRIDE) ||
            !mf_mul_i64(taps, w->size[d], &taps) || taps > MOST_TAPS)
            return false;
    }
    return true;
}

bool mf_conv_reads_bf16(const mf_conv *conv)
{
    return mf_conv_tiles_bf16() && conv->groups == 1 && conv->window.nd == 2 &&
           !conv->window.channels_first && is_ordinary(conv);
}

/* ---- channels first ---- */

typedef struct swap_job {
    const float *from;
    float *to;
    int64_t rows, cols; /* of the matrix that an image is */
} swap_job;

static void swap_piece(void *ctx, int64_t image)
{
    enum { BLOCK = 16 }; /* lines of both sides stay in the first-level cache */
    const swap_job *j = ctx;
    const float *from = j->from + image * j->rows * j->cols;
    float *to = j->to + image * j->rows * j->cols;

    for (int64_t r0 = 0; r0 < j->rows; r0 += BLOCK) {
        const int64_t r1 = r0 + BLOCK < j->rows ? r0 + BLOCK : j->rows;

        for (int64_t c = 0; c < j->cols; c++) {
            for (int64_t r = r0; r < r1; r++)
                to[c * j->rows + r] = from[r * j->cols + c];
        }
    }
}

/* Transposes the images of a tensor: `rows` x (elements / rows). */
static mf_status swap_images(const mf_kernel *k, int64_t batch, int64_t rows, int64_t count,
                             const float *from, float *to)
{
    swap_job j = { from, to, rows, count / batch / rows };

    return mf_kernel_parallel(k, batch, swap_piece, &j);
}

static mf_status run_channels_first(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                                    const mf_tensor *x, const mf_tensor *w, const mf_tensor *y)
{
    const int64_t batch = conv->window.batch, in = conv->window.channels, out = conv->out_channels;
    mf_tensor last_x = { 0 }, last_y = { 0 };
    mf_conv last = *conv;
    mf_kernel inner = *k;
    mf_status st;

    last.window.channels_first = false;
    inner.then = NULL;
    MF_TRY_TO(done, mf_tensor_alloc(&last_x, MF_DTYPE_F32, &MF_SHAPE(x->count)));
    MF_TRY_TO(done, mf_tensor_alloc(&last_y, MF_DTYPE_F32, &MF_SHAPE(y->count)));
    if (conv->kind != MF_CONV_INPUT)
        MF_TRY_TO(done, swap_images(k, batch, in, x->count, x->data, last_x.data));
    if (conv->kind != MF_CONV_FORWARD)
        MF_TRY_TO(done, swap_images(k, batch, out, y->count, y->data, last_y.data));
    MF_TRY_TO(done,
              run_last(&inner, &last, MF_DTYPE_F32, shards, last_x.data, w->data, last_y.data));
    if (conv->kind == MF_CONV_INPUT)
        st = swap_images(k, batch, x->count / batch / in, x->count, last_x.data, x->data);
    if (conv->kind == MF_CONV_FORWARD)
        st = swap_images(k, batch, y->count / batch / out, y->count, last_y.data, y->data);
    if (st == MF_OK)
        st = mf_conv_then(k, conv->kind == MF_CONV_INPUT ? x->count : y->count);
done:
    mf_tensor_clear(&last_x);
    mf_tensor_clear(&last_y);
    return st;
}

/* ---- all ---- */

/* No element is multiplied. */
static mf_status run_empty(const mf_kernel *k, const mf_conv *conv, const mf_tensor *x,
                           const mf_tensor *w, const mf_tensor *y)
{
    const mf_tensor *result = conv->kind == MF_CONV_FORWARD ? y
                              : conv->kind == MF_CONV_INPUT ? x
                                                            : w;

    memset(result->data, 0, (size_t)result->count * mf_dtype_cell(result->dtype));
    if (k->then && result->count > 0)
        k->then->run(k->then, 0, result->count);
    return MF_OK;
}

mf_status mf_conv_run(const mf_kernel *k, const mf_conv *conv, int64_t shards, const mf_tensor *x,
                      const mf_tensor *w, const mf_tensor *y)
{
    if (x->count == 0 || y->count == 0 || w->count == 0)
        return run_empty(k, conv, x, w, y);
    if ((x->dtype != MF_DTYPE_F32 && x->dtype != MF_DTYPE_BF16) || !is_ordinary(conv))
        return mf_conv_columns(k, conv, shards, x, w, y);
    if (conv->window.channels_first)
        return run_channels_first(k, conv, shards, x, w, y);
    return run_last(k, conv, x->dtype, shards, x->data, w->data, y->data);
}
