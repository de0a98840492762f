/* SPDX-License-Identifier: Apache-2.0 */
/* int8_product.c - dense layers and convolutions in int8, for inference: 255 steps between two
 * layers, 127 on each side of zero in kernels. Sums are exact, so results depend neither on threads
 * nor on the CPU. */
#include "base/mem.h"
#include "ops/math/elementwise.h"
#include "ops/nn/window.h"
#include "ops/quant/int8_gemm.h"
#include "tensor/int8.h"

#include <pthread.h>
#include <string.h>

enum {
    GRAIN = 32768,
    PIECE_BYTES = 1 << 18, /* windows and sums per piece: fits a core's cache */
    PIECE_ROWS = 128, /* of a matrix: kernels are large, and packed again for each piece */
    WORD = 4,
    MOST_TERMS = 1 << 16 /* more products of bytes might overflow 32 bits */
};

/* ---- values to bytes ---- */

typedef struct bytes_job {
    const float *x;
    uint8_t *y;
    int64_t n;
    float inverse, zero;
} bytes_job;

static void bytes_piece(void *ctx, int64_t piece)
{
    const bytes_job *job = ctx;
    const int64_t from = piece * GRAIN, n = job->n - from < GRAIN ? job->n - from : GRAIN;
    const float inverse = job->inverse, zero = job->zero, *restrict x = job->x + from;
    uint8_t *restrict y = job->y + from;

    for (int64_t i = 0; i < n; i++)
        y[i] = mf_uint8_of(x[i] * inverse + zero, 0);
}

static mf_status int8_product_read_range(const mf_kernel *k, int i, mf_uint8_range *out)
{
    if (k->in[i]->count != 1 || k->in[i + 1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "limits of a range must be numbers");
    *out = mf_uint8_range_of(((const float *)k->in[i]->data)[0],
                             ((const float *)k->in[i + 1]->data)[0]);
    return MF_OK;
}

static mf_status bytes_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_uint8_range r;
    mf_tensor *y;

    MF_TRY(int8_product_read_range(k, 1, &r));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &y));
    return mf_kernel_parallel(k, (x->count + GRAIN - 1) / GRAIN, bytes_piece,
                              &(bytes_job){ x->data, y->data, x->count, r.inverse, (float)r.zero });
}

/* ---- kernels to bytes ---- */

/* Computed again after the variable was written. */
typedef struct kernel_state {
    pthread_mutex_t lock;
    bool per_channel;
    const mf_variable *of; /* guarded by lock; NULL: not computed yet */
    uint64_t writes; /* guarded by lock */
    mf_tensor q, scale, sums; /* guarded by lock: int8, float [n], int32 [n] */
} kernel_state;

static mf_status kernel_prepare(mf_prepare *p)
{
    kernel_state *s = MF_ARENA_NEW(p->arena, kernel_state);

    if (!s)
        return MF_NOMEM("a kernel of bytes");
    pthread_mutex_init(&s->lock, NULL);
    s->per_channel = mf_node_bool(p->node, "per_channel");
    p->state = s;
    return MF_OK;
}

static void kernel_clear(kernel_state *s)
{
    mf_tensor_clear(&s->q);
    mf_tensor_clear(&s->scale);
    mf_tensor_clear(&s->sums);
    s->of = NULL;
}

static void kernel_release(void *state)
{
    kernel_state *s = state;

    if (!s)
        return;
    kernel_clear(s);
    pthread_mutex_destroy(&s->lock);
}

static mf_status kernel_infer(mf_infer *in)
{
    const mf_shape *shape = mf_node_shape(in->node, "shape");

    in->out[0] = *shape;
    in->out[1] = in->out[2] = MF_SHAPE(shape->rank > 0 ? shape->dims[shape->rank - 1] : -1);
    return MF_OK;
}

static void find_steps(const float *w, int64_t count, int64_t n, bool per_channel, float *step)
{
    float most = 0;

    memset(step, 0, (size_t)n * sizeof *step);
    for (int64_t i = 0; i < count; i += n) {
        for (int64_t c = 0; c < n; c++) {
            const float size = fabsf(w[i + c]);

            step[c] = size > step[c] ? size : step[c];
        }
    }
    for (int64_t c = 0; c < n; c++)
        most = step[c] > most ? step[c] : most;
    for (int64_t c = 0; c < n; c++)
        step[c] = mf_int8_step(per_channel ? step[c] : most);
}

static mf_status kernel_make(kernel_state *s, const mf_tensor *w)
{
    const int64_t n = w->shape.rank > 0 ? w->shape.dims[w->shape.rank - 1] : 0;
    const float *x = w->data;
    float *step;
    int8_t *q;
    int32_t *sums;

    kernel_clear(s);
    if (w->dtype != MF_DTYPE_F32 || n == 0 || w->count == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a kernel of floats is needed, with elements");
    MF_TRY(mf_tensor_alloc(&s->q, MF_DTYPE_I8, &w->shape));
    MF_TRY(mf_tensor_alloc(&s->scale, MF_DTYPE_F32, &MF_SHAPE(n)));
    MF_TRY(mf_tensor_alloc(&s->sums, MF_DTYPE_I32, &MF_SHAPE(n)));
    q = s->q.data;
    step = s->scale.data;
    sums = s->sums.data;
    memset(sums, 0, (size_t)n * sizeof *sums);
    find_steps(x, w->count, n, s->per_channel, step);
    for (int64_t i = 0; i < w->count; i += n) {
        for (int64_t c = 0; c < n; c++) {
            q[i + c] = mf_int8_of(x[i + c], step[c] > 0 ? 1 / step[c] : 0);
            sums[c] += q[i + c];
        }
    }
    return MF_OK;
}

static mf_status kernel_run(mf_kernel *k)
{
    kernel_state *s = k->state;
    mf_tensor w = { 0 };
    mf_variable *v;
    uint64_t writes;
    mf_status st = MF_OK;

    MF_TRY(mf_kernel_variable(k, 0, &v));
    pthread_mutex_lock(&s->lock);
    writes = mf_variable_writes(v);
    if (s->of != v || s->writes != writes) {
        st = mf_variable_read(v, &w);
        if (st == MF_OK)
            st = kernel_make(s, &w);
        mf_tensor_clear(&w);
        if (st == MF_OK) {
            s->of = v;
            s->writes = writes;
        }
    }
    if (st == MF_OK) {
        mf_kernel_set(k, 0, &s->q);
        mf_kernel_set(k, 1, &s->scale);
        mf_kernel_set(k, 2, &s->sums);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* ---- products ---- */

enum { X, LOW, HIGH, KERNEL, SCALE, SUMS, BIAS, OUT_LOW, OUT_HIGH };

typedef struct product_state {
    mf_window_attrs attrs;
    bool relu, to_bytes;
} product_state;

static mf_status product_prepare(mf_prepare *p)
{
    product_state *s = MF_ARENA_NEW(p->arena, product_state);

    if (!s)
        return MF_NOMEM("a product");
    MF_TRY(mf_window_read(p->node, 2, &s->attrs));
    s->relu = mf_node_bool(p->node, "relu");
    s->to_bytes = mf_node_type(p->node, "Tout") == MF_DTYPE_U8;
    p->state = s;
    return MF_OK;
}

/* For a matrix [rows,in] with a kernel [in,out], or images [n,h,w,in] with [h,w,in,out]. */
static mf_status int8_product_shape(const mf_window_attrs *a, const mf_shape *x, const mf_shape *w,
                                    mf_shape *out)
{
    char xs[MF_SHAPE_TEXT], ws[MF_SHAPE_TEXT];
    int64_t spatial[MF_WINDOW_DIMS], lo, hi;

    *out = MF_SHAPE_UNKNOWN;
    if (x->rank < 0 || w->rank < 0)
        return MF_OK;
    if (x->rank != w->rank || (x->rank != 2 && x->rank != 4) ||
        (x->dims[x->rank - 1] >= 0 && w->dims[w->rank - 2] >= 0 &&
         x->dims[x->rank - 1] != w->dims[w->rank - 2]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "no product of %s with the kernel %s",
                       mf_shape_text(x, xs), mf_shape_text(w, ws));
    if (x->rank == 2) {
        *out = MF_SHAPE(x->dims[0], w->dims[1]);
        return MF_OK;
    }
    for (int d = 0; d < 2; d++)
        MF_TRY(mf_window_length(a, d, x->dims[d + 1], w->dims[d], &spatial[d], &lo, &hi));
    *out = MF_SHAPE(x->dims[0], spatial[0], spatial[1], w->dims[3]);
    return MF_OK;
}

static mf_status int8_product_infer(mf_infer *in)
{
    mf_window_attrs a;

    MF_TRY(mf_window_read(in->node, 2, &a));
    return int8_product_shape(&a, &in->in[X], &in->in[KERNEL], &in->out[0]);
}

typedef struct int8_product_product_job {
    const product_state *s;
    const uint8_t *x;
    const int8_t *w;
    const int32_t *shift; /* by channel: added to the sum */
    const float *scale, *bias; /* then result = sum * scale + bias */
    float out_zero;
    void *y;
    mf_window window; /* of images */
    bool images, gathers; /* windows are gathered (im2col), or x is used directly */
    uint8_t pad;
    int64_t units, rows_each, k, n; /* units per piece, and in total; rows of the product per unit
                                     */
    int64_t per_piece;
    atomic_int status;
} int8_product_product_job;

/* A row of a window that reaches beyond the image, or with dilation. */
static void gather_edge(const int8_product_product_job *job, const uint8_t *row, int64_t first,
                        uint8_t *to)
{
    const mf_window *w = &job->window;
    const int64_t c = w->channels;

    for (int64_t k = 0; k < w->size[1]; k++, to += c) {
        const int64_t at = first + k * w->dilation[1];

        if (row && at >= 0 && at < w->in[1])
            memcpy(to, row + at * c, (size_t)c);
        else
            memset(to, job->pad, (size_t)c);
    }
}

/* Windows of n adjacent positions whose rows are shorter than WORD bytes: copied as words; the next
 * row overwrites the excess. There is room after the last one. at: offset of the first in `rows`.
 */
static void gather_words(const uint8_t *const *rows, int64_t high, int64_t run, int64_t at,
                         int64_t step, int64_t n, uint8_t *to)
{
    const uint8_t *a = rows[0] + at, *b = rows[high > 1] + at, *c = rows[high > 2 ? 2 : 0] + at;

    if (high == 3) { /* the most common kernel height */
        for (int64_t i = 0; i < n; i++, a += step, b += step, c += step, to += 3 * run) {
            memcpy(to, a, WORD);
            memcpy(to + run, b, WORD);
            memcpy(to + 2 * run, c, WORD);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++, at += step) {
        for (int64_t k = 0; k < high; k++, to += run)
            memcpy(to, rows[k] + at, WORD);
    }
}

/* Number of windows from this one on that are inside, with room for a word after each of their
 * rows. */
static int64_t count_inside(const int8_product_product_job *job, const uint8_t *const *rows,
                            int64_t first, int64_t left)
{
    const mf_window *w = &job->window;
    const int64_t c = w->channels, room = w->in[1] * c - WORD - first * c;
    int64_t n = room < 0 ? 0 : room / (w->stride[1] * c) + 1;

    for (int64_t k = 0; k < w->size[0]; k++)
        n = rows[k] ? n : 0;
    return n < left ? n : left;
}

/* Windows of one row of the output: one run of bytes for each row of a window, starting at `rows`
 * (NULL: outside the image). */
static void gather_row(const int8_product_product_job *job, const uint8_t *const *rows, uint8_t *to)
{
    const mf_window *w = &job->window;
    const int64_t c = w->channels, high = w->size[0], run = w->size[1] * c, wide = w->in[1] * c;
    const bool dense = w->dilation[1] == 1;

    for (int64_t ow = 0, first = -w->pad_lo[1]; ow < w->out[1]; ow++, first += w->stride[1]) {
        const bool inside = dense && first >= 0 && first * c + run <= wide;

        if (inside && run < WORD) {
            const int64_t n = count_inside(job, rows, first, w->out[1] - ow);

            if (n > 0) {
                gather_words(rows, high, run, first * c, w->stride[1] * c, n, to);
                to += n * high * run;
                ow += n - 1;
                first += (n - 1) * w->stride[1];
                continue;
            }
        }
        for (int64_t k = 0; k < high; k++, to += run) {
            if (inside && rows[k])
                memcpy(to, rows[k] + first * c, (size_t)run);
            else
                gather_edge(job, rows[k], first, to);
        }
    }
}

static void int8_product_gather(const int8_product_product_job *job, const uint8_t *x,
                                const uint8_t **rows, uint8_t *to)
{
    const mf_window *w = &job->window;
    const int64_t wide = w->in[1] * w->channels;

    for (int64_t oh = 0; oh < w->out[0]; oh++) {
        for (int64_t k = 0; k < w->size[0]; k++) {
            const int64_t ih = oh * w->stride[0] - w->pad_lo[0] + k * w->dilation[0];

            rows[k] = ih >= 0 && ih < w->in[0] ? x + ih * wide : NULL;
        }
        gather_row(job, rows, to + oh * w->out[1] * job->k);
    }
}

/* Overflow cannot occur with the values of a model, so any result is acceptable. */
static int32_t int8_product_plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* Converts sums to results. Pointers are declared distinct, so that loops vectorise. */
static void int8_product_floats_of(const int8_product_product_job *job, const int32_t *restrict sum,
                                   int64_t rows, float *restrict y)
{
    const int32_t *restrict shift = job->shift;
    const float *restrict scale = job->scale, *restrict bias = job->bias;
    const float least = job->s->relu ? 0 : -INFINITY;
    const int64_t n = job->n;

    for (int64_t r = 0; r < rows; r++, sum += n, y += n) {
        for (int64_t c = 0; c < n; c++) {
            const float v = (float)int8_product_plus(sum[c], shift[c]) * scale[c] + bias[c];

            y[c] = v > least ? v : least;
        }
    }
}

static void int8_product_bytes_of(const int8_product_product_job *job, const int32_t *restrict sum,
                                  int64_t rows, uint8_t *restrict y)
{
    const int32_t *restrict shift = job->shift;
    const float *restrict scale = job->scale, *restrict bias = job->bias;
    const float least = job->s->relu ? job->out_zero : 0;
    const int64_t n = job->n;

    for (int64_t r = 0; r < rows; r++, sum += n, y += n) {
        for (int64_t c = 0; c < n; c++)
            y[c] =
                mf_uint8_of((float)int8_product_plus(sum[c], shift[c]) * scale[c] + bias[c], least);
    }
}

static mf_status run_units(const int8_product_product_job *job, int64_t from, int64_t to)
{
    const int64_t rows = (to - from) * job->rows_each,
                  x_unit = job->images
                               ? job->window.in[0] * job->window.in[1] * job->window.channels
                               : job->k;
    const uint8_t *x = job->x + from * x_unit;
    mf_tensor windows = { 0 }, sums = { 0 }, rows_of = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_tensor_alloc(&sums, MF_DTYPE_I32, &MF_SHAPE(rows, job->n)));
    if (job->gathers) {
        MF_TRY_TO(done, mf_tensor_alloc(&windows, MF_DTYPE_U8, &MF_SHAPE(rows * job->k + WORD)));
        MF_TRY_TO(done, mf_tensor_alloc(&rows_of, MF_DTYPE_U8,
                                        &MF_SHAPE(job->window.size[0], (int64_t)sizeof(void *))));
        for (int64_t i = from; i < to; i++)
            int8_product_gather(job, job->x + i * x_unit, rows_of.data,
                                (uint8_t *)windows.data + (i - from) * job->rows_each * job->k);
        x = windows.data;
    }
    MF_TRY_TO(done, mf_int8_gemm(rows, job->n, job->k, x, job->w, sums.data));
    if (job->s->to_bytes)
        int8_product_bytes_of(job, sums.data, rows,
                              (uint8_t *)job->y + from * job->rows_each * job->n);
    else
        int8_product_floats_of(job, sums.data, rows,
                               (float *)job->y + from * job->rows_each * job->n);
done:
    mf_tensor_clear(&windows);
    mf_tensor_clear(&rows_of);
    mf_tensor_clear(&sums);
    return st;
}

static void product_piece(void *ctx, int64_t piece)
{
    int8_product_product_job *job = ctx;
    const int64_t from = piece * job->per_piece;
    const int64_t to = from + job->per_piece < job->units ? from + job->per_piece : job->units;
    const mf_status st = run_units(job, from, to);

    if (st != MF_OK)
        atomic_store(&job->status, (int)st);
}

static mf_status int8_product_check_channels(const mf_kernel *k, int64_t n)
{
    for (int i = SCALE; i <= BIAS; i++) {
        if (k->in[i]->shape.rank != 1 || k->in[i]->count != n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a number for each of %lld channels is needed",
                           (long long)n);
    }
    return MF_OK;
}

/* Scale, bias and shift of the sums, by channel: three rows of memory. */
static mf_status find_scales(const mf_kernel *k, int8_product_product_job *job, mf_tensor *memory)
{
    const float *scale = k->in[SCALE]->data, *bias = k->in[BIAS]->data;
    const int32_t *sums = k->in[SUMS]->data;
    mf_uint8_range in, out;
    float *to;

    MF_TRY(int8_product_check_channels(k, job->n));
    MF_TRY(int8_product_read_range(k, LOW, &in));
    MF_TRY(int8_product_read_range(k, OUT_LOW, &out));
    MF_TRY(mf_tensor_alloc(memory, MF_DTYPE_F32, &MF_SHAPE(3, job->n)));
    to = memory->data;
    for (int64_t c = 0; c < job->n; c++) {
        const float by = job->s->to_bytes ? out.inverse : 1;

        to[c] = in.step * scale[c] * by;
        to[job->n + c] = bias[c] * by + (job->s->to_bytes ? (float)out.zero : 0);
        ((int32_t *)memory->data)[2 * job->n + c] =
            (int32_t)(0u - (uint32_t)in.zero * (uint32_t)sums[c]);
    }
    job->scale = to;
    job->bias = to + job->n;
    job->shift = (const int32_t *)memory->data + 2 * job->n;
    job->pad = (uint8_t)in.zero;
    job->out_zero = (float)out.zero;
    return MF_OK;
}

/* A 1x1 window with stride 1: the image is already a matrix. */
static bool is_pointwise(const mf_window *w)
{
    return w->size[0] == 1 && w->size[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 &&
           w->pad_lo[0] == 0 && w->pad_hi[0] == 0 && w->pad_lo[1] == 0 && w->pad_hi[1] == 0;
}

static mf_status int8_product_cut(const mf_kernel *k, int8_product_product_job *job)
{
    const mf_shape *x = &k->in[X]->shape, *w = &k->in[KERNEL]->shape;

    job->images = x->rank == 4;
    job->n = w->dims[w->rank - 1];
    job->k = job->n > 0 ? k->in[KERNEL]->count / job->n : 0;
    job->units = x->dims[0];
    job->rows_each = 1;
    job->per_piece = PIECE_ROWS;
    if (job->k >= MOST_TERMS)
        return MF_FAIL(MF_UNIMPLEMENTED, "sums of %lld products of bytes may not fit",
                       (long long)job->k);
    if (!job->images)
        return MF_OK;
    MF_TRY(mf_window_init(&job->s->attrs, x, w->dims, &job->window));
    job->gathers = !is_pointwise(&job->window);
    job->rows_each = job->window.out[0] * job->window.out[1];
    job->per_piece =
        PIECE_BYTES / (job->rows_each * (job->k + (int64_t)sizeof(int32_t) * job->n) + 1) + 1;
    return MF_OK;
}

static mf_status int8_product_run(mf_kernel *k)
{
    int8_product_product_job job = { .s = k->state };
    mf_tensor memory = { 0 }, *y;
    mf_shape shape;
    mf_status st;

    MF_TRY(int8_product_shape(&job.s->attrs, &k->in[X]->shape, &k->in[KERNEL]->shape, &shape));
    MF_TRY(int8_product_cut(k, &job));
    MF_TRY(mf_kernel_out(k, 0, &shape, &y));
    if (y->count == 0)
        return MF_OK;
    MF_TRY_TO(done, find_scales(k, &job, &memory));
    job.x = k->in[X]->data;
    job.w = k->in[KERNEL]->data;
    job.y = y->data;
    MF_TRY_TO(done, mf_kernel_parallel(k, (job.units + job.per_piece - 1) / job.per_piece,
                                       product_piece, &job));
    st = (mf_status)atomic_load(&job.status);
    if (st != MF_OK)
        st = MF_FAIL(st, "a piece of the product failed");
done:
    mf_tensor_clear(&memory);
    return st;
}

#define PRODUCT_INPUTS                                                                             \
    "(input:uint8, low:float, high:float, kernel:int8, scale:float, sums:int32, bias:float, "      \
    "out_low:float, out_high:float)"

const mf_op mf_ops_int8[] = {
    { .name = "_ToUint8",
      .def = "(input:float, low:float, high:float) -> (output:uint8)",
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = bytes_run,
      .samples =
          MF_SAMPLES("f32[3,5]@-3:3 f32[]{-1} f32[]{2}", "f32[7] f32[]{0} f32[]{1.5}",
                     "f32[4] f32[]{0} f32[]{0}", "f32[0] f32[]{0} f32[]{1}",
                     "f32[40000]@-8:8 f32[]{-6} f32[]{6}", "f32[3] f32[2] f32[]{1} !fails") },
    /* A variable's value in int8: an element is `scale` of its channel, the last dimension, times
     * an integer from -127 to 127. sums: of these integers. */
    { .name = "_Int8Kernel",
      .def = "(resource:resource) -> (kernel:int8, scale:float, sums:int32) {shape:shape, "
             "per_channel:bool=true} is_stateful",
      .flags = MF_OP_HEAP,
      .infer = kernel_infer,
      .grad = mf_grad_none,
      .prepare = kernel_prepare,
      .release = kernel_release,
      .run = kernel_run,
      .samples = MF_SAMPLES("var:f32[3,5] ; shape=shape[3,5]",
                            "var:f32[2,3,4] ; shape=shape[2,3,4] per_channel=false",
                            "var:i32[2,3] ; shape=shape[2,3] !fails",
                            "var:f32[0,3] ; shape=shape[0,3] !fails") },
    /* bias plus the product of bytes of the range low ... high with the kernel; the result is
     * float, or bytes of the range out_low ... out_high. Conv2D's attributes are for images. */
    { .name = "_Int8Product",
      .def = PRODUCT_INPUTS " -> (output:Tout) {Tout:type in [float,uint8], relu:bool=false, "
                            "strides:list(int)=[1,1,1,1], dilations:list(int)=[1,1,1,1], "
                            "padding:string in ['SAME','VALID']='VALID'}",
      .infer = int8_product_infer,
      .grad = mf_grad_none,
      .prepare = product_prepare,
      .run = int8_product_run,
      .samples = MF_SAMPLES(
          "u8[3,5] f32[]{-1} f32[]{2} i8[5,4] f32[4]@0.1:1 i32[4] f32[4] f32[]{0} f32[]{1} ; "
          "Tout=float",
          "u8[200,7] f32[]{0} f32[]{2} i8[7,3] f32[3]@0.1:1 i32[3] f32[3] f32[]{0} f32[]{9} ; "
          "Tout=uint8 relu=true",
          "u8[2,5,6,3] f32[]{-1} f32[]{2} i8[3,3,3,4] f32[4]@0.1:1 i32[4] f32[4] f32[]{0} f32[]{1} "
          "; Tout=float relu=true padding='SAME'",
          "u8[2,5,6,1] f32[]{0} f32[]{1} i8[3,3,1,4] f32[4]@0.1:1 i32[4] f32[4] f32[]{0} f32[]{7} "
          "; Tout=uint8 padding='SAME' strides=[1,2,2,1]",
          "u8[2,9,9,2] f32[]{0} f32[]{1} i8[3,2,2,4] f32[4]@0.1:1 i32[4] f32[4] f32[]{-3} f32[]{7} "
          "; Tout=uint8 dilations=[1,2,2,1]",
          "u8[2,3,4,6] f32[]{-2} f32[]{1} i8[1,1,6,4] f32[4]@0.1:1 i32[4] f32[4] f32[]{0} f32[]{1} "
          "; Tout=float",
          "u8[0,5] f32[]{0} f32[]{1} i8[5,4] f32[4] i32[4] f32[4] f32[]{0} f32[]{1} ; Tout=float",
          "u8[3,5] f32[]{0} f32[]{1} i8[4,4] f32[4] i32[4] f32[4] f32[]{0} f32[]{1} ; Tout=float "
          "!fails",
          "u8[3,5] f32[]{0} f32[]{1} i8[5,4] f32[3] i32[4] f32[4] f32[]{0} f32[]{1} ; Tout=float "
          "!fails") },
    { 0 },
};
