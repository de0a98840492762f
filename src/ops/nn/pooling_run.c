/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_run.c - the loops of max and average pooling, forward and backward. Inner loops run over
 * channels, so they vectorise. Windows are clipped at the padding. Gradients of the input are
 * accumulated image by image, in the order of the outputs. */
#include "ops/nn/pooling_run.h"

#include "ops/math/elementwise.h"

#include <math.h>

enum { GRAIN = 32768, CHUNK = 64 /* channels whose maxima are kept at a time */ };

void mf_pool_normalise(const mf_window_attrs *a, mf_window *w)
{
    if (a->channel_size > 1) {
        w->batch *= w->in[0] * w->in[1];
        w->in[0] = w->out[0] = 1;
        w->in[1] = w->channels;
        w->out[1] = w->channels / a->channel_size;
        w->size[0] = w->stride[0] = 1;
        w->size[1] = w->stride[1] = a->channel_size;
        w->channels = 1;
        w->pad_lo[0] = w->pad_lo[1] = w->pad_hi[0] = w->pad_hi[1] = 0;
    } else if (w->channels_first) {
        w->batch *= w->channels;
        w->channels = 1;
    }
}

/* The part of the window at output position o that is inside the image. */
typedef struct pooling_run_range {
    int64_t from, to;
} pooling_run_range;
static inline pooling_run_range clip(const mf_window *w, int d, int64_t o)
{
    const int64_t from = o * w->stride[d] - w->pad_lo[d], to = from + w->size[d];

    return (pooling_run_range){ from < 0 ? 0 : from, to > w->in[d] ? w->in[d] : to };
}

/* Calls BODY with `at` (element of the tap's first channel) and `tap` for each tap inside. */
#define EACH_TAP(BODY)                                                                             \
    do {                                                                                           \
        int32_t tap = 0;                                                                           \
        for (int64_t ih = rh.from; ih < rh.to; ih++) {                                             \
            for (int64_t iw = rw.from; iw < rw.to; iw++, tap++) {                                  \
                const int64_t at = ((n * w->in[0] + ih) * w->in[1] + iw) * ch;                     \
                                                                                                   \
                BODY                                                                               \
            }                                                                                      \
        }                                                                                          \
        (void)tap;                                                                                 \
    } while (0)

#define WINDOW_LOCALS                                                                              \
    const mf_window *w = &p->w;                                                                    \
    const int64_t ch = w->channels;                                                                \
    const pooling_run_range rh = clip(w, 0, oh), rw = clip(w, 1, ow);                              \
    const int64_t out = ((n * w->out[0] + oh) * w->out[1] + ow) * ch

/* ---- one output position ---- */

#define MAX_POSITION(NAME, KIND, LOWEST)                                                           \
    static void NAME##_##KIND(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow)              \
    {                                                                                              \
        WINDOW_LOCALS;                                                                             \
        const MF_S_##KIND *x = p->x;                                                               \
        MF_S_##KIND *y = (MF_S_##KIND *)p->y + out;                                                \
                                                                                                   \
        if (rh.from >= rh.to || rw.from >= rw.to) {                                                \
            for (int64_t c = 0; c < ch; c++)                                                       \
                y[c] = MF_ST_##KIND(LOWEST);                                                       \
            return;                                                                                \
        }                                                                                          \
        EACH_TAP({                                                                                 \
            const MF_S_##KIND *v = x + at;                                                         \
                                                                                                   \
            if (tap == 0) {                                                                        \
                memcpy(y, v, (size_t)ch * sizeof *y);                                              \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t c = 0; c < ch; c++)                                                       \
                y[c] = MF_LD_##KIND(v, c) > MF_LD_##KIND(y, c) ? v[c] : y[c];                      \
        });                                                                                        \
    }

/* The tap with the first maximum, for channels c0 .. c0 + cn. */
#define FIRST_MAX(KIND)                                                                            \
    static inline void first_max_##KIND(const mf_pooling *p, int64_t n, pooling_run_range rh,      \
                                        pooling_run_range rw, int64_t c0, int64_t cn,              \
                                        int32_t *which)                                            \
    {                                                                                              \
        const mf_window *w = &p->w;                                                                \
        const int64_t ch = w->channels;                                                            \
        const MF_S_##KIND *x = p->x;                                                               \
        MF_C_##KIND best[CHUNK];                                                                   \
                                                                                                   \
        for (int64_t c = 0; c < cn; c++)                                                           \
            which[c] = 0;                                                                          \
        EACH_TAP({                                                                                 \
            const MF_S_##KIND *v = x + at + c0;                                                    \
                                                                                                   \
            for (int64_t c = 0; c < cn; c++) {                                                     \
                const MF_C_##KIND now = MF_LD_##KIND(v, c);                                        \
                const bool more = tap == 0 || now > best[c];                                       \
                                                                                                   \
                best[c] = more ? now : best[c];                                                    \
                which[c] = more ? tap : which[c];                                                  \
            }                                                                                      \
        });                                                                                        \
    }

#define ADD_FLOAT(S, a, b) ((a) + (b))
#define ADD_INT(S, a, b) ((S)((uint64_t)(a) + (uint64_t)(b)))

#define MAX_GRAD_POSITION(NAME, KIND, ADD)                                                         \
    FIRST_MAX(KIND)                                                                                \
    static void NAME##_##KIND(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow)              \
    {                                                                                              \
        WINDOW_LOCALS;                                                                             \
        int32_t which[CHUNK];                                                                      \
                                                                                                   \
        for (int64_t c0 = 0; c0 < ch; c0 += CHUNK) {                                               \
            const int64_t cn = ch - c0 < CHUNK ? ch - c0 : CHUNK;                                  \
                                                                                                   \
            first_max_##KIND(p, n, rh, rw, c0, cn, which);                                         \
            if (p->kind == MF_POOL_MAX_GRAD) {                                                     \
                const MF_S_##KIND *dy = (const MF_S_##KIND *)p->dy + out + c0;                     \
                                                                                                   \
                EACH_TAP({                                                                         \
                    MF_S_##KIND *dx = (MF_S_##KIND *)p->dx + at + c0;                              \
                                                                                                   \
                    for (int64_t c = 0; c < cn; c++)                                               \
                        dx[c] = which[c] == tap ? ADD(MF_S_##KIND, dx[c], dy[c]) : dx[c];          \
                });                                                                                \
            } else {                                                                               \
                MF_S_##KIND *y = (MF_S_##KIND *)p->y + out + c0;                                   \
                                                                                                   \
                EACH_TAP({                                                                         \
                    const MF_S_##KIND *dx = (const MF_S_##KIND *)p->dx + at + c0;                  \
                                                                                                   \
                    for (int64_t c = 0; c < cn; c++)                                               \
                        y[c] = which[c] == tap ? dx[c] : y[c];                                     \
                });                                                                                \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void arg##NAME##_##KIND(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow)         \
    {                                                                                              \
        WINDOW_LOCALS;                                                                             \
        const int64_t image = p->batch_in_index ? 0 : n * w->in[0] * w->in[1] * ch;                \
        int32_t which[CHUNK];                                                                      \
                                                                                                   \
        for (int64_t c0 = 0; c0 < ch; c0 += CHUNK) {                                               \
            const int64_t cn = ch - c0 < CHUNK ? ch - c0 : CHUNK;                                  \
            MF_S_##KIND *y = (MF_S_##KIND *)p->y + out + c0;                                       \
                                                                                                   \
            first_max_##KIND(p, n, rh, rw, c0, cn, which);                                         \
            for (int64_t c = 0; c < cn; c++) {                                                     \
                const int64_t wide = rw.to - rw.from, at = out + c0 + c;                           \
                const int64_t ih = rh.from + which[c] / wide, iw = rw.from + which[c] % wide;      \
                const int64_t from = ((n * w->in[0] + ih) * w->in[1] + iw) * ch + c0 + c;          \
                                                                                                   \
                y[c] = ((const MF_S_##KIND *)p->x)[from];                                          \
                if (p->arg_type == MF_DTYPE_I32)                                                   \
                    ((int32_t *)p->arg)[at] = (int32_t)(from - image);                             \
                else                                                                               \
                    ((int64_t *)p->arg)[at] = from - image;                                        \
            }                                                                                      \
        }                                                                                          \
    }

#define AVG_POSITION(NAME, KIND, UNUSED)                                                           \
    static void NAME##_##KIND(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow)              \
    {                                                                                              \
        WINDOW_LOCALS;                                                                             \
        const MF_S_##KIND count = (MF_S_##KIND)((rh.to - rh.from) * (rw.to - rw.from));            \
        MF_S_##KIND *y = (MF_S_##KIND *)p->y + out;                                                \
                                                                                                   \
        memset(y, 0, (size_t)ch * sizeof *y);                                                      \
        EACH_TAP({                                                                                 \
            const MF_S_##KIND *x = (const MF_S_##KIND *)p->x + at;                                 \
                                                                                                   \
            for (int64_t c = 0; c < ch; c++)                                                       \
                y[c] += x[c];                                                                      \
        });                                                                                        \
        for (int64_t c = 0; c < ch; c++)                                                           \
            y[c] /= count;                                                                         \
    }                                                                                              \
    static void NAME##_grad_##KIND(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow)         \
    {                                                                                              \
        WINDOW_LOCALS;                                                                             \
        const MF_S_##KIND share = 1 / (MF_S_##KIND)((rh.to - rh.from) * (rw.to - rw.from));        \
        const MF_S_##KIND *dy = (const MF_S_##KIND *)p->dy + out;                                  \
                                                                                                   \
        EACH_TAP({                                                                                 \
            MF_S_##KIND *dx = (MF_S_##KIND *)p->dx + at;                                           \
                                                                                                   \
            for (int64_t c = 0; c < ch; c++)                                                       \
                dx[c] += dy[c] * share;                                                            \
        });                                                                                        \
    }

MF_EACH_FLOAT(MAX_POSITION, max, -INFINITY)
MF_EACH_UNSIGNED(MAX_POSITION, max, 0)
MAX_POSITION(max, i8, INT8_MIN)
MAX_POSITION(max, i16, INT16_MIN)
MAX_POSITION(max, i32, INT32_MIN)
MAX_POSITION(max, i64, INT64_MIN)
MAX_GRAD_POSITION(max_grad, f32, ADD_FLOAT)
MAX_GRAD_POSITION(max_grad, f64, ADD_FLOAT)
MF_EACH_INT(MAX_GRAD_POSITION, max_grad, ADD_INT)
AVG_POSITION(avg, f32, _)
AVG_POSITION(avg, f64, _)

/* ---- 2x2 windows of floats or bytes, two apart: half of all poolings ---- */

typedef float v8f __attribute__((vector_size(32), aligned(4)));
typedef int32_t v8i __attribute__((vector_size(32)));

static inline v8f picked(v8f value, v8i where)
{
    return (v8f)((v8i)value & where);
}

/* The taps of a window: two at x, two `below` them. */
static void max_grad_2x2(const float *x, const float *dy, float *dx, int64_t ch, int64_t below)
{
    const v8f zero = { 0 };
    int64_t c = 0;

    for (; c + 8 <= ch; c += 8) {
        v8f v[4], best, d = *(const v8f *)(dy + c) + zero;
        v8i more[4];

        for (int i = 0; i < 4; i++)
            v[i] = *(const v8f *)(x + (i & 1) * ch + (i >> 1) * below + c);
        best = v[0];
        for (int i = 1; i < 4; i++) {
            more[i] = v[i] > best;
            best = (v8f)(((v8i)v[i] & more[i]) | ((v8i)best & ~more[i]));
        }
        for (int i = 3; i >= 0; i--) { /* the last tap that improves is the first maximum */
            v8f *to = (v8f *)(dx + (i & 1) * ch + (i >> 1) * below + c);
            const v8f here = i ? picked(d, more[i]) : d;

            d = i ? picked(d, ~more[i]) : d;
            *to = here;
        }
    }
    for (; c < ch; c++) {
        int which = 0;

        for (int i = 1; i < 4; i++) {
            if (x[(i & 1) * ch + (i >> 1) * below + c] >
                x[(which & 1) * ch + (which >> 1) * below + c])
                which = i;
        }
        for (int i = 0; i < 4; i++)
            dx[(i & 1) * ch + (i >> 1) * below + c] = i == which ? dy[c] + 0.0f : 0.0f;
    }
}

static void max_2x2(const float *x, float *y, int64_t ch, int64_t below)
{
    int64_t c = 0;

    for (; c + 8 <= ch; c += 8) {
        v8f best = *(const v8f *)(x + c);

        for (int i = 1; i < 4; i++) {
            const v8f v = *(const v8f *)(x + (i & 1) * ch + (i >> 1) * below + c);
            const v8i more = v > best;

            best = (v8f)(((v8i)v & more) | ((v8i)best & ~more));
        }
        *(v8f *)(y + c) = best;
    }
    for (; c < ch; c++) {
        y[c] = x[c];
        for (int i = 1; i < 4; i++) {
            const float v = x[(i & 1) * ch + (i >> 1) * below + c];

            y[c] = v > y[c] ? v : y[c];
        }
    }
}

static void max_of_bytes(const uint8_t *restrict a, const uint8_t *restrict b, uint8_t *restrict y,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] =
            a[i] > b[i] ? a[i] : b[i]; /* NOLINT(clang-analyzer-core.*): rows are filled before */
}

/* A row of windows: vertical maxima first, while they are long enough. */
static void max_row_of_bytes(const uint8_t *x, uint8_t *y, int64_t windows, int64_t ch)
{
    uint8_t above[4096];
    const int64_t below = 2 * windows * ch, some = (int64_t)sizeof above / (2 * ch);

    for (int64_t w = 0; w < windows; w += some) {
        const int64_t n = windows - w < some ? windows - w : some;

        max_of_bytes(x + 2 * w * ch, x + below + 2 * w * ch, above, 2 * n * ch);
        for (int64_t i = 0; i < n; i++)
            max_of_bytes(above + 2 * i * ch, above + (2 * i + 1) * ch, y + (w + i) * ch, ch);
    }
}

static bool is_2x2(const mf_pooling *p)
{
    const mf_window *w = &p->w;

    if (!(p->type == MF_DTYPE_F32 && (p->kind == MF_POOL_MAX || p->kind == MF_POOL_MAX_GRAD)) &&
        !(p->type == MF_DTYPE_U8 && p->kind == MF_POOL_MAX && w->channels <= 1024))
        return false;
    for (int d = 0; d < 2; d++) {
        if (w->size[d] != 2 || w->stride[d] != 2 || w->in[d] != 2 * w->out[d] || w->pad_lo[d] != 0)
            return false;
    }
    return true;
}

static void row_2x2(const mf_pooling *p, int64_t n, int64_t oh)
{
    const mf_window *w = &p->w;
    const int64_t ch = w->channels, below = w->in[1] * ch;
    const int64_t in = (n * w->in[0] + 2 * oh) * below, out = (n * w->out[0] + oh) * w->out[1] * ch;

    if (p->type == MF_DTYPE_U8) {
        max_row_of_bytes((const uint8_t *)p->x + in, (uint8_t *)p->y + out, w->out[1], ch);
        return;
    }
    for (int64_t ow = 0; ow < w->out[1]; ow++) {
        const float *x = (const float *)p->x + in + 2 * ow * ch;

        if (p->kind == MF_POOL_MAX)
            max_2x2(x, (float *)p->y + out + ow * ch, ch, below);
        else
            max_grad_2x2(x, (const float *)p->dy + out + ow * ch, (float *)p->dx + in + 2 * ow * ch,
                         ch, below);
    }
}

typedef void position_fn(const mf_pooling *p, int64_t n, int64_t oh, int64_t ow);

#define GRAD_TYPES(NAME) [MF_DTYPE_F32] = NAME##_f32, [MF_DTYPE_F64] = NAME##_f64, MF_FN_INTS(NAME)
static position_fn *const fns[][MF_DTYPE_COUNT] = {
    [MF_POOL_MAX] = { MF_FN_FLOATS(max), MF_FN_INTS(max) },
    [MF_POOL_ARGMAX] = { GRAD_TYPES(argmax_grad) },
    [MF_POOL_MAX_GRAD] = { GRAD_TYPES(max_grad) },
    [MF_POOL_MAX_GRAD2] = { GRAD_TYPES(max_grad) },
    [MF_POOL_AVG] = { [MF_DTYPE_F32] = avg_f32, [MF_DTYPE_F64] = avg_f64 },
    [MF_POOL_AVG_GRAD] = { [MF_DTYPE_F32] = avg_grad_f32, [MF_DTYPE_F64] = avg_grad_f64 },
};

/* ---- all of them ---- */

typedef struct pooling_run_pool_job {
    const mf_pooling *p;
    position_fn *fn;
    int64_t rows, rows_per_piece; /* rows of the output */
    bool in_pairs; /* windows of 2x2, see above */
    size_t image_bytes; /* of dx, to be cleared; 0: not written */
    int64_t taps; /* maximum per window, over all channels */
} pooling_run_pool_job;

static void pool_piece(void *ctx, int64_t piece)
{
    const pooling_run_pool_job *job = ctx;
    const mf_window *w = &job->p->w;
    const int64_t end = (piece + 1) * job->rows_per_piece,
                  image = w->in[0] * w->in[1] * w->channels;

    for (int64_t row = piece * job->rows_per_piece; row < end && row < job->rows; row++) {
        const int64_t n = row / w->out[0], oh = row % w->out[0];

        if (job->in_pairs) {
            row_2x2(job->p, n, oh);
        } else {
            if (job->image_bytes && oh == 0)
                memset((char *)job->p->dx + (size_t)n * job->image_bytes, 0, job->image_bytes);
            for (int64_t ow = 0; ow < w->out[1] && !mf_stopped_after(job->taps); ow++)
                job->fn(job->p, n, oh, ow);
        }
        if (job->p->then && oh == w->out[0] - 1)
            job->p->then->run(job->p->then, n * image, (n + 1) * image);
    }
}

mf_status mf_pooling_run(const mf_kernel *k, mf_pooling *p)
{
    const mf_window *w = &p->w;
    const bool scatters = p->kind == MF_POOL_MAX_GRAD || p->kind == MF_POOL_AVG_GRAD;
    const size_t cell = mf_dtype_cell(p->type);
    pooling_run_pool_job job = { .p = p,
                                 .fn = fns[p->kind][p->type],
                                 .rows = w->batch * w->out[0] };
    const int64_t high = w->size[0] < w->in[0] ? w->size[0] : w->in[0];
    const int64_t wide = w->size[1] < w->in[1] ? w->size[1] : w->in[1];
    const double work = (double)(w->out[1] * w->channels) * (double)high * (double)wide;
    int64_t pieces;

    if (!job.fn)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(p->type));
    job.in_pairs = is_2x2(p);
    job.taps = high * wide * w->channels;
    if (scatters)
        job.image_bytes = (size_t)(w->in[0] * w->in[1] * w->channels) * cell;
    if (job.rows == 0 || w->out[1] == 0 || w->channels == 0) {
        if (scatters)
            memset(p->dx, 0, (size_t)w->batch * job.image_bytes);
        if (p->then && job.image_bytes > 0 && w->batch > 0)
            p->then->run(p->then, 0, w->batch * w->in[0] * w->in[1] * w->channels);
        return MF_OK;
    }
    job.rows_per_piece = work < GRAIN ? 1 + (int64_t)(GRAIN / (work + 1)) : 1;
    if (scatters) /* whole images, because windows may overlap */
        job.rows_per_piece = (job.rows_per_piece + w->out[0] - 1) / w->out[0] * w->out[0];
    pieces = (job.rows + job.rows_per_piece - 1) / job.rows_per_piece;
    return mf_kernel_parallel(k, pieces, pool_piece, &job);
}
