/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_taps.c - maximum pooling that stores which tap of its window is the maximum, and its
 * gradient, for windows that do not overlap (compiler/pooling_maxima.c). NHWC.
 *
 * A tap is numbered by its place in the whole window, row by row; of equal maxima the first one
 * counts, as in MaxPoolGrad. */
#include "ops/math/elementwise.h"
#include "ops/nn/window.h"

#include <math.h>
#include <string.h>

enum { MOST_TAPS = 255, NO_TAP = 255, GRAIN = 32768 };

typedef struct taps_state {
    mf_window_attrs attrs;
    mf_shape image; /* of the gradient */
    bool relu;
} taps_state;

static mf_status taps_prepare(mf_prepare *p)
{
    taps_state *s = MF_ARENA_NEW(p->arena, taps_state);
    int64_t taps = 1, n;

    if (!s)
        return MF_NOMEM("a pooling");
    MF_TRY(mf_window_read(p->node, 2, &s->attrs));
    for (int d = 0; d < 2; d++) {
        if (s->attrs.size[d] > s->attrs.stride[d] || s->attrs.size[d] > MOST_TAPS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "op %s: windows of %lld overlap or are too large",
                           p->node->op_name, (long long)s->attrs.size[d]);
        taps *= s->attrs.size[d];
    }
    if (taps > MOST_TAPS || s->attrs.channel_size != 1 || s->attrs.channels_first)
        return MF_FAIL(MF_INVALID_ARGUMENT, "op %s supports windows of at most %d pixels, NHWC",
                       p->node->op_name, MOST_TAPS);
    if (mf_node_attr(p->node, "image")) {
        const int64_t *dims = mf_node_ints(p->node, "image", &n);

        MF_TRY(mf_shape_from_dims(dims, n, &s->image));
        s->relu = mf_node_bool(p->node, "relu");
    }
    p->state = s;
    return MF_OK;
}

/* The pooled shape of an image. */
static mf_status taps_pooled(const mf_window_attrs *a, const mf_shape *x, mf_shape *out)
{
    int64_t spatial[MF_WINDOW_DIMS], lo, hi;
    char text[MF_SHAPE_TEXT];

    *out = MF_SHAPE(-1, -1, -1, -1);
    if (x->rank < 0)
        return MF_OK;
    if (x->rank != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "tensor_in must be 4-dimensional: %s",
                       mf_shape_text(x, text));
    for (int d = 0; d < 2; d++)
        MF_TRY(mf_window_length(a, d, x->dims[d + 1], a->size[d], &spatial[d], &lo, &hi));
    *out = mf_window_shape(a, x->dims[0], spatial, x->dims[3]);
    return MF_OK;
}

static mf_status taps_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    MF_TRY(taps_pooled(&a, &in->in[0], &in->out[0]));
    in->out[1] = in->out[0];
    return MF_OK;
}

static mf_status taps_grad_infer(mf_infer *in)
{
    int64_t n;
    const int64_t *dims = mf_node_ints(in->node, "image", &n);

    return mf_shape_from_dims(dims, n, &in->out[0]);
}

/* ---- windows ---- */

typedef struct taps_job {
    const taps_state *s;
    mf_window w;
    const void *x, *dy, *y;
    void *out; /* the results or the gradient */
    uint8_t *taps;
    int64_t rows_per_piece, row_work;
    bool covered; /* no window of a row crosses the side of the image */
    void (*row)(const struct taps_job *j, int64_t n, int64_t oh);
} taps_job;

/* The pixels of a window that are inside the image. */
typedef struct taps_window {
    int n;
    int64_t at[MOST_TAPS]; /* pixel */
    uint8_t tap[MOST_TAPS];
} taps_window;

static void clip_window(const mf_window *w, int64_t n, int64_t oh, int64_t ow, taps_window *out)
{
    const int64_t h0 = oh * w->stride[0] - w->pad_lo[0], w0 = ow * w->stride[1] - w->pad_lo[1];

    out->n = 0;
    for (int64_t h = 0; h < w->size[0]; h++) {
        for (int64_t v = 0; v < w->size[1]; v++) {
            if (h0 + h < 0 || h0 + h >= w->in[0] || w0 + v < 0 || w0 + v >= w->in[1])
                continue;
            out->at[out->n] = ((n * w->in[0] + h0 + h) * w->in[1] + w0 + v) * w->channels;
            out->tap[out->n++] = (uint8_t)(h * w->size[1] + v);
        }
    }
}

/* The window at ow; `out` has the one before it. */
static inline void find_window(const taps_job *j, int64_t n, int64_t oh, int64_t ow,
                               taps_window *out)
{
    const int64_t step = j->w.stride[1] * j->w.channels;

    if (ow == 0 || !j->covered) {
        clip_window(&j->w, n, oh, ow, out);
        return;
    }
    for (int i = 0; i < out->n; i++)
        out->at[i] += step;
}

/* ---- blocks of channels ---- */

enum { BLOCK = 16, QUAD = 4 /* windows of 2x2, the usual ones */ };
typedef float floats __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));
typedef uint8_t bytes __attribute__((vector_size(16)));

#define TAPS_INLINE static inline __attribute__((always_inline))

/* Loads and stores of n <= BLOCK elements; a whole block costs no copy when inlined. */
TAPS_INLINE void load_f32(const float *from, int64_t n, floats *to)
{
    *to = (floats){ 0 };
    memcpy(to, from, (size_t)n * sizeof *from);
}

TAPS_INLINE void store_f32(const floats *from, int64_t n, float *to)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

TAPS_INLINE void load_bf16(const mf_bf16 *from, int64_t n, floats *to)
{
    halves h = { 0 };

    memcpy(&h, from, (size_t)n * sizeof *from);
    *to = (floats)(__builtin_convertvector(h, words) << 16);
}

/* The values have at most 8 bits of mantissa. */
TAPS_INLINE void store_bf16(const floats *from, int64_t n, mf_bf16 *to)
{
    const halves h = __builtin_convertvector((words)*from >> 16, halves);

    memcpy(to, &h, (size_t)n * sizeof *to);
}

TAPS_INLINE void load_taps(const uint8_t *from, int64_t n, words *to)
{
    bytes b = { 0 };

    memcpy(&b, from, (size_t)n);
    *to = __builtin_convertvector(b, words);
}

TAPS_INLINE void store_taps(const words *from, int64_t n, uint8_t *to)
{
    const bytes b = __builtin_convertvector(*from, bytes);

    memcpy(to, &b, (size_t)n);
}

/* KIND: f32 or bf16. The maxima of a window, and the gradient of its pixels: -0 becomes 0, as it
 * does where it is added to 0. */
#define TAPS_BLOCKS(KIND)                                                                          \
    TAPS_INLINE void max_block_##KIND(const MF_S_##KIND *x, const taps_window *w, const int most,  \
                                      int64_t n, MF_S_##KIND *y, uint8_t *taps)                    \
    {                                                                                              \
        floats best = (floats){ 0 } - INFINITY, v;                                                 \
        words which = (words){ 0 } + NO_TAP;                                                       \
                                                                                                   \
        if (most > 0) {                                                                            \
            load_##KIND(x + w->at[0], n, &best);                                                   \
            which = (words){ 0 } + w->tap[0];                                                      \
        }                                                                                          \
        for (int i = 1; i < most; i++) {                                                           \
            words more;                                                                            \
                                                                                                   \
            load_##KIND(x + w->at[i], n, &v);                                                      \
            more = (words)(v > best);                                                              \
            best = (floats)(((words)v & more) | ((words)best & ~more));                            \
            which = (((words){ 0 } + w->tap[i]) & more) | (which & ~more);                         \
        }                                                                                          \
        store_##KIND(&best, n, y);                                                                 \
        store_taps(&which, n, taps);                                                               \
    }                                                                                              \
    TAPS_INLINE void grad_block_##KIND(const MF_S_##KIND *dy, const MF_S_##KIND *y, bool relu,     \
                                       const uint8_t *taps, const taps_window *w, const int most,  \
                                       int64_t n, MF_S_##KIND *dx)                                 \
    {                                                                                              \
        const floats one = (floats){ 0 } + 1.0f;                                                   \
        floats v, f;                                                                               \
        words which;                                                                               \
                                                                                                   \
        load_##KIND(dy, n, &v);                                                                    \
        v += (floats){ 0 };                                                                        \
        if (relu) {                                                                                \
            load_##KIND(y, n, &f);                                                                 \
            v *= (floats)((words)one & (words)(f > (floats){ 0 }));                                \
        }                                                                                          \
        load_taps(taps, n, &which);                                                                \
        for (int i = 0; i < most; i++) {                                                           \
            f = (floats)((words)v & (words)(which == (words){ 0 } + w->tap[i]));                   \
            store_##KIND(&f, n, dx + w->at[i]);                                                    \
        }                                                                                          \
    }                                                                                              \
    static void max_row_##KIND(const taps_job *j, int64_t n, int64_t oh)                           \
    {                                                                                              \
        const int64_t ch = j->w.channels, out = (n * j->w.out[0] + oh) * j->w.out[1] * ch;         \
        taps_window w;                                                                             \
                                                                                                   \
        for (int64_t ow = 0; ow < j->w.out[1]; ow++) {                                             \
            MF_S_##KIND *y = (MF_S_##KIND *)j->out + out + ow * ch;                                \
            uint8_t *taps = j->taps + out + ow * ch;                                               \
            int64_t c = 0;                                                                         \
                                                                                                   \
            find_window(j, n, oh, ow, &w);                                                         \
            for (; w.n == QUAD && c + BLOCK <= ch; c += BLOCK)                                     \
                max_block_##KIND((const MF_S_##KIND *)j->x + c, &w, QUAD, BLOCK, y + c, taps + c); \
            for (; c < ch; c += BLOCK)                                                             \
                max_block_##KIND((const MF_S_##KIND *)j->x + c, &w, w.n,                           \
                                 ch - c < BLOCK ? ch - c : BLOCK, y + c, taps + c);                \
        }                                                                                          \
    }                                                                                              \
    static void max_grad_row_##KIND(const taps_job *j, int64_t n, int64_t oh)                      \
    {                                                                                              \
        const int64_t ch = j->w.channels, out = (n * j->w.out[0] + oh) * j->w.out[1] * ch;         \
        taps_window w;                                                                             \
                                                                                                   \
        for (int64_t ow = 0; ow < j->w.out[1]; ow++) {                                             \
            const int64_t at = out + ow * ch;                                                      \
            const MF_S_##KIND *dy = (const MF_S_##KIND *)j->dy + at;                               \
            const MF_S_##KIND *y = (const MF_S_##KIND *)j->y + at;                                 \
            int64_t c = 0;                                                                         \
                                                                                                   \
            find_window(j, n, oh, ow, &w);                                                         \
            for (; w.n == QUAD && c + BLOCK <= ch; c += BLOCK)                                     \
                grad_block_##KIND(dy + c, y + c, j->s->relu, j->taps + at + c, &w, QUAD, BLOCK,    \
                                  (MF_S_##KIND *)j->out + c);                                      \
            for (; c < ch; c += BLOCK)                                                             \
                grad_block_##KIND(dy + c, y + c, j->s->relu, j->taps + at + c, &w, w.n,            \
                                  ch - c < BLOCK ? ch - c : BLOCK, (MF_S_##KIND *)j->out + c);     \
        }                                                                                          \
    }
TAPS_BLOCKS(f32)
TAPS_BLOCKS(bf16)

/* ---- kernels ---- */

static void taps_piece(void *ctx, int64_t piece)
{
    const taps_job *j = ctx;
    const int64_t rows = j->w.batch * j->w.out[0], from = piece * j->rows_per_piece;
    const int64_t to = from + j->rows_per_piece < rows ? from + j->rows_per_piece : rows;

    for (int64_t row = from; row < to && !mf_stopped_after(j->row_work); row++)
        j->row(j, row / j->w.out[0], row % j->w.out[0]);
}

static mf_status taps_run(mf_kernel *k, taps_job *j, const mf_shape *image)
{
    const mf_window *w = &j->w;
    int64_t rows, row;

    MF_TRY(mf_window_init(&j->s->attrs, image, j->s->attrs.size, &j->w));
    rows = w->batch * w->out[0];
    if (rows == 0 || w->out[1] == 0 || w->channels == 0)
        return MF_OK;
    row = w->out[1] * w->channels * w->size[0] * w->size[1];
    j->row_work = row;
    j->covered = w->pad_lo[1] == 0 && w->in[1] >= w->out[1] * w->stride[1];
    j->rows_per_piece = row < GRAIN ? GRAIN / row + 1 : 1;
    return mf_kernel_parallel(k, (rows + j->rows_per_piece - 1) / j->rows_per_piece, taps_piece, j);
}

static mf_status pool_taps_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    taps_job j = { .s = k->state, .x = x->data };
    mf_tensor *y, *taps;
    mf_shape shape;

    MF_TRY(taps_pooled(&j.s->attrs, &x->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &y));
    MF_TRY(mf_kernel_out(k, 1, &shape, &taps));
    j.out = y->data;
    j.taps = taps->data;
    j.row = x->dtype == MF_DTYPE_F32 ? max_row_f32 : max_row_bf16;
    return taps_run(k, &j, &x->shape);
}

static bool covers_image(const mf_window *w)
{
    for (int d = 0; d < 2; d++) {
        if (w->size[d] != w->stride[d] || w->pad_lo[d] != 0 || w->in[d] != w->out[d] * w->size[d])
            return false;
    }
    return true;
}

static mf_status pool_grad_taps_run(mf_kernel *k)
{
    taps_job j = {
        .s = k->state, .taps = k->in[0]->data, .y = k->in[1]->data, .dy = k->in[2]->data
    };
    const bool is_float = k->in[2]->dtype == MF_DTYPE_F32;
    mf_tensor *dx;
    mf_shape shape;

    MF_TRY(taps_pooled(&j.s->attrs, &j.s->image, &shape));
    for (int i = 0; i < 3; i++) {
        if (!mf_shape_equal(&k->in[i]->shape, &shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "op %s: input %d has another shape than the result",
                           k->node->op_name, i);
    }
    MF_TRY(mf_kernel_out(k, 0, &j.s->image, &dx));
    j.out = dx->data;
    j.row = is_float ? max_grad_row_f32 : max_grad_row_bf16;
    MF_TRY(mf_window_init(&j.s->attrs, &j.s->image, j.s->attrs.size, &j.w));
    if (!covers_image(&j.w))
        memset(dx->data, 0, (size_t)dx->count * mf_dtype_cell(dx->dtype));
    return taps_run(k, &j, &j.s->image);
}

#define WINDOW                                                                                     \
    "T:type=float in [float,bfloat16], ksize:list(int)>=4, strides:list(int)>=4, padding:string "  \
    "in ['SAME','VALID','EXPLICIT'], explicit_paddings:list(int)=[], data_format:string='NHWC' "   \
    "in ['NHWC']"

const mf_op mf_ops_pooling_taps[] = {
    { .name = "_MaxPoolTaps",
      .def = "(input:T) -> (output:T, taps:uint8) {" WINDOW "}",
      .infer = taps_infer,
      .grad = mf_grad_missing,
      .prepare = taps_prepare,
      .run = pool_taps_run,
      .samples =
          MF_SAMPLES("f32[2,4,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
                     "f32[2,5,7,70] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'",
                     "f32[1,7,8,5] ; ksize=[1,2,1,1] strides=[1,3,2,1] padding='VALID'",
                     "bf16[2,4,6,33] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
                     "bf16[1,6,6,4] ; ksize=[1,3,3,1] strides=[1,3,3,1] padding='VALID'",
                     "f32[0,4,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'",
                     "f32[2,4,6,3] ; ksize=[1,3,3,1] strides=[1,2,2,1] padding='VALID' !fails",
                     "f32[4,6,3] ; ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID' !fails") },
    { .name = "_MaxPoolGradTaps",
      .def = "(taps:uint8, orig_output:T, grad:T) -> (output:T) {image:list(int)>=4, "
             "relu:bool=false, " WINDOW "}",
      .infer = taps_grad_infer,
      .grad = mf_grad_missing,
      .prepare = taps_prepare,
      .run = pool_grad_taps_run,
      .samples = MF_SAMPLES(
          "u8[2,2,3,3]@0:4 f32[2,2,3,3] f32[2,2,3,3] ; image=[2,4,6,3] ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='VALID'",
          "u8[2,3,4,70]@0:4 f32[2,3,4,70] f32[2,3,4,70] ; image=[2,5,7,70] relu=true "
          "ksize=[1,2,2,1] strides=[1,2,2,1] padding='SAME'",
          "u8[1,2,2,4]@0:9 bf16[1,2,2,4] bf16[1,2,2,4] ; image=[1,6,6,4] relu=true "
          "ksize=[1,3,3,1] strides=[1,3,3,1] padding='VALID'",
          "u8[2,2,3,33]@0:6 bf16[2,2,3,33] bf16[2,2,3,33] ; image=[2,4,6,33] ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='VALID'",
          "u8[1,2,4,5]@0:2 f32[1,2,4,5] f32[1,2,4,5] ; image=[1,7,8,5] ksize=[1,2,1,1] "
          "strides=[1,3,2,1] padding='VALID'",
          "u8[1,2,2,3]@0:4 f32[1,2,2,3] f32[1,2,2,3] ; image=[1,4,4,3] ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='EXPLICIT' explicit_paddings=[0,0,1,0,1,0,0,0]",
          "u8[0,2,3,3]@0:4 f32[0,2,3,3] f32[0,2,3,3] ; image=[0,4,6,3] ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='VALID'",
          "u8[2,2,3,3]@0:4 f32[2,2,3,3] f32[2,2,2,3] ; image=[2,4,6,3] ksize=[1,2,2,1] "
          "strides=[1,2,2,1] padding='VALID' !fails") },
    { 0 },
};
