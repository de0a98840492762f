/* SPDX-License-Identifier: Apache-2.0 */
/* fft.c - discrete Fourier transforms over the last one, two or three dimensions, complex and real.
 *
 * Powers of two are transformed in place by radix-2 steps; any other length becomes a convolution
 * (Bluestein) of a power of two. Everything is computed in double. A line is a piece of work. */
#include "base/mem.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

#include <complex.h>
#include <math.h>
#include <sleef.h>
#include <stdatomic.h>
#include <string.h>

typedef double _Complex cell;

/* e^(pi i numerator / denominator), with the numerator reduced to one turn. */
static cell fft_turn(int64_t numerator, int64_t denominator)
{
    const Sleef_double2 r =
        Sleef_sincospi_u05((double)(numerator % (2 * denominator)) / (double)denominator);

    return r.y + I * r.x;
}

/* ---- one line ---- */

/* The plan for all lines of one length. */
typedef struct line_plan {
    int64_t n, padded; /* padded: a power of two; equal to n if n is one */
    bool inverse;
    cell *half; /* [padded / 2] twiddle factors for `padded` */
    cell *chirp, *filter; /* of Bluestein: [n], [padded] */
} line_plan;

/* In place; `turns` are the forward twiddle factors of n. */
static void power_of_two(int64_t n, const cell *turns, bool inverse, cell *x)
{
    for (int64_t i = 1, j = 0; i < n; i++) { /* bit-reversal permutation */
        int64_t bit = n >> 1;

        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        if (i < j) {
            const cell t = x[i];

            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t len = 2; len <= n; len *= 2) {
        for (int64_t from = 0; from < n; from += len) {
            for (int64_t k = 0; k < len / 2; k++) {
                const cell w = inverse ? conj(turns[k * (n / len)]) : turns[k * (n / len)];
                cell *a = x + from + k, *b = a + len / 2;
                const double re = creal(w) * creal(*b) - cimag(w) * cimag(*b);
                const double im = creal(w) * cimag(*b) + cimag(w) * creal(*b);
                const cell odd = re + I * im;

                *b = *a - odd;
                *a += odd;
            }
        }
    }
}

static mf_status fft_plan_init(line_plan *p, int64_t n, bool inverse)
{
    *p = (line_plan){ .n = n, .padded = 1, .inverse = inverse };
    while (p->padded < n)
        p->padded *= 2;
    if (p->padded != n) { /* padding for a linear convolution */
        p->padded *= p->padded < 2 * n - 1 ? 2 : 1;
        p->chirp = mf_calloc(n, sizeof *p->chirp);
        p->filter = mf_calloc(p->padded, sizeof *p->filter);
        if (!p->chirp || !p->filter)
            return MF_NOMEM("a Fourier transform");
    }
    p->half = mf_calloc(p->padded / 2 + 1, sizeof *p->half);
    if (!p->half)
        return MF_NOMEM("a Fourier transform");
    for (int64_t k = 0; k < p->padded / 2; k++)
        p->half[k] = fft_turn(-2 * k, p->padded);
    if (!p->chirp)
        return MF_OK;
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        p->chirp[k] = fft_turn(inverse ? square : -square, n);
        p->filter[k] = conj(p->chirp[k]);
        if (k > 0)
            p->filter[p->padded - k] = p->filter[k];
    }
    power_of_two(p->padded, p->half, false, p->filter);
    return MF_OK;
}

static void fft_plan_deinit(line_plan *p)
{
    mf_free(p->half);
    mf_free(p->chirp);
    mf_free(p->filter);
}

/* x [n] in place; `room` has p->padded cells. An inverse transform is divided by n. */
static void transform_line(const line_plan *p, cell *x, cell *room)
{
    const double scale = p->inverse ? 1.0 / (double)p->n : 1;

    if (!p->chirp) {
        power_of_two(p->n, p->half, p->inverse, x);
    } else {
        for (int64_t k = 0; k < p->padded; k++)
            room[k] = k < p->n ? x[k] * p->chirp[k] : 0;
        power_of_two(p->padded, p->half, false, room);
        for (int64_t k = 0; k < p->padded; k++)
            room[k] *= p->filter[k];
        power_of_two(p->padded, p->half, true, room);
        for (int64_t k = 0; k < p->n; k++)
            x[k] = room[k] * p->chirp[k] / (double)p->padded;
    }
    for (int64_t k = 0; k < p->n && p->inverse; k++)
        x[k] *= scale;
}

/* ---- lines of an array along one dimension ---- */

typedef struct axis_job {
    const line_plan *plan;
    cell *data;
    int64_t length, stride; /* of a line in `data`: `length` cells, of which the plan uses n */
    atomic_bool no_memory;
} axis_job;

static void axis_piece(void *ctx, int64_t line)
{
    axis_job *job = ctx;
    cell *x = job->data + line / job->stride * job->stride * job->length + line % job->stride;
    cell *buffer = mf_calloc(job->plan->n + job->plan->padded, sizeof *buffer);

    if (!buffer) {
        atomic_store(&job->no_memory, true);
        return;
    }
    for (int64_t k = 0; k < job->plan->n; k++)
        buffer[k] = x[k * job->stride];
    transform_line(job->plan, buffer, buffer + job->plan->n);
    for (int64_t k = 0; k < job->plan->n; k++)
        x[k * job->stride] = buffer[k];
    mf_free(buffer);
}

/* Transforms dimension d of data with this shape. */
static mf_status transform_axis(const mf_kernel *k, cell *data, const mf_shape *shape, int d,
                                bool inverse)
{
    const int64_t n = shape->dims[d], stride = mf_shape_span(shape, d + 1, shape->rank);
    axis_job job = { .data = data, .length = n, .stride = stride };
    line_plan plan = { 0 };
    mf_status st;

    MF_TRY_TO(done, fft_plan_init(&plan, n, inverse));
    job.plan = &plan;
    MF_TRY_TO(done, mf_kernel_parallel(k, mf_shape_span(shape, 0, d) * stride, axis_piece, &job));
    if (atomic_load(&job.no_memory))
        st = MF_NOMEM("a Fourier transform");
done:
    fft_plan_deinit(&plan);
    return st;
}

/* ---- shapes ---- */

typedef struct fft_kind {
    int dims;
    bool inverse, real;
} fft_kind;

static fft_kind fft_kind_of(const mf_node *node)
{
    const char *name = node->op_name;
    fft_kind kind = { .dims = 1 };

    if (name[0] == 'I') {
        kind.inverse = true;
        name++;
    }
    if (name[0] == 'R') {
        kind.real = true;
        name++;
    }
    if (name[3])
        kind.dims = name[3] - '0';
    return kind;
}

static mf_status read_lengths(const mf_tensor *t, fft_kind kind, mf_ivec *out)
{
    MF_TRY(mf_ivec_read(t, MF_MAX_RANK, "fft_length", out));
    if (t->shape.rank != 1 || out->n != kind.dims)
        return MF_FAIL(MF_INVALID_ARGUMENT, "fft_length must have shape [%d]", kind.dims);
    for (int i = 0; i < out->n; i++) {
        if (out->v[i] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "fft_length[%d] must be >= 0, but got: %" PRId64, i,
                           out->v[i]);
    }
    return MF_OK;
}

static mf_status fft_infer(mf_infer *in)
{
    const fft_kind kind = fft_kind_of(in->node);
    mf_ivec lengths = { .n = 0 };
    mf_shape *out = &in->out[0];

    MF_TRY(mf_infer_rank_at_least(in, 0, kind.dims));
    *out = in->in[0];
    if (!kind.real || out->rank < 0)
        return MF_OK;
    if (in->in_value[1])
        MF_TRY(read_lengths(in->in_value[1], kind, &lengths));
    for (int i = 0; i < kind.dims; i++) {
        const int64_t n = lengths.n ? lengths.v[i] : -1;
        const bool last = i == kind.dims - 1;

        out->dims[out->rank - kind.dims + i] = last && !kind.inverse && n > 0 ? n / 2 + 1 : n;
    }
    return MF_OK;
}

/* ---- kernels ---- */

/* Loads the part of `t` that is transformed. `shape` has at most the size of t in each dimension.
 */
static void fft_load(const mf_tensor *t, const mf_shape *shape, cell *to)
{
    const int64_t count = mf_shape_span(shape, 0, shape->rank);

    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, step = 1;

        for (int d = shape->rank - 1; d >= 0; d--) {
            at += rest % shape->dims[d] * step;
            rest /= shape->dims[d];
            step *= t->shape.dims[d];
        }
        to[i] = t->dtype == MF_DTYPE_C64    ? (cell)((const float _Complex *)t->data)[at]
                : t->dtype == MF_DTYPE_C128 ? ((const cell *)t->data)[at]
                                            : (cell)mf_tensor_float_at(t, at);
    }
}

static void fft_store(const cell *from, mf_tensor *t, int64_t i)
{
    if (t->dtype == MF_DTYPE_C64)
        ((float _Complex *)t->data)[i] = (float _Complex) * from;
    else if (t->dtype == MF_DTYPE_C128)
        ((cell *)t->data)[i] = *from;
    else
        mf_tensor_put(t, i, creal(*from));
}

static mf_status complex_run(mf_kernel *k)
{
    const fft_kind kind = fft_kind_of(k->node);
    const mf_tensor *x = k->in[0];
    mf_tensor cells = { 0 }, *out;
    mf_status st;

    if (x->shape.rank < kind.dims)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must have rank of at least %d but got: %d",
                       kind.dims, x->shape.rank);
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    if (x->count == 0)
        return MF_OK;
    MF_TRY_TO(done, mf_tensor_alloc(&cells, MF_DTYPE_C128, &x->shape));
    fft_load(x, &x->shape, cells.data);
    for (int d = x->shape.rank - kind.dims; d < x->shape.rank; d++)
        MF_TRY_TO(done, transform_axis(k, cells.data, &x->shape, d, kind.inverse));
    for (int64_t i = 0; i < out->count; i++)
        fft_store((const cell *)cells.data + i, out, i);
done:
    mf_tensor_clear(&cells);
    return st;
}

/* The part of the input that is read (`in`) and the result's shape (`out`), for these lengths. */
static mf_status real_shapes(const mf_kernel *k, fft_kind kind, mf_shape *in, mf_shape *out)
{
    const mf_shape *x = &k->in[0]->shape;
    mf_ivec lengths;

    if (x->rank < kind.dims)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must have rank of at least %d but got: %d",
                       kind.dims, x->rank);
    if (mf_dtype_cell(k->in[0]->dtype) * (kind.inverse ? 1 : 2) !=
        mf_dtype_cell(mf_out_type(k->node, 0)) * (kind.inverse ? 2 : 1))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Wrong types for a real FFT: from %s to %s",
                       mf_dtype_name(k->in[0]->dtype), mf_dtype_name(mf_out_type(k->node, 0)));
    MF_TRY(read_lengths(k->in[1], kind, &lengths));
    *in = *out = *x;
    for (int i = 0; i < kind.dims; i++) {
        const int d = x->rank - kind.dims + i;
        const int64_t n = lengths.v[i];
        const int64_t half = i == kind.dims - 1 && n > 0 ? n / 2 + 1 : n;

        in->dims[d] = kind.inverse ? half : n;
        out->dims[d] = kind.inverse ? n : half;
        if (x->dims[d] != 0 && x->dims[d] < in->dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Input dimension %d must have length of at least %" PRId64
                           " but got: %" PRId64,
                           d, in->dims[d], x->dims[d]);
    }
    return MF_OK;
}

/* Restores the second half of a spectrum in the last dimension, which mirrors the first. */
static void fft_mirror(const cell *half, int64_t lines, int64_t n, cell *full)
{
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t k = 0; k < n; k++)
            full[l * n + k] =
                k <= n / 2 ? half[l * (n / 2 + 1) + k] : conj(half[l * (n / 2 + 1) + n - k]);
    }
}

static mf_status inverse_real(const mf_kernel *k, int dims, const mf_shape *in, const mf_shape *out,
                              mf_tensor *half, mf_tensor *full)
{
    const int64_t n = out->dims[out->rank - 1];

    for (int d = in->rank - dims; d + 1 < in->rank; d++)
        MF_TRY(transform_axis(k, half->data, in, d, true));
    MF_TRY(mf_tensor_alloc(full, MF_DTYPE_C128, out));
    fft_mirror(half->data, full->count / n, n, full->data);
    return transform_axis(k, full->data, out, out->rank - 1, true);
}

static mf_status real_run(mf_kernel *k)
{
    const fft_kind kind = fft_kind_of(k->node);
    mf_tensor cells = { 0 }, full = { 0 }, *out;
    mf_shape in, shape;
    mf_status st;

    MF_TRY(real_shapes(k, kind, &in, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_cells_zero(out->dtype, out->data, 0, out->count);
    if (k->in[0]->count == 0 || out->count == 0)
        return MF_OK;
    MF_TRY_TO(done, mf_tensor_alloc(&cells, MF_DTYPE_C128, &in));
    fft_load(k->in[0], &in, cells.data);
    if (kind.inverse) {
        MF_TRY_TO(done, inverse_real(k, kind.dims, &in, &shape, &cells, &full));
        for (int64_t i = 0; i < out->count; i++)
            fft_store((const cell *)full.data + i, out, i);
    } else {
        const int64_t n = in.dims[in.rank - 1], half = n / 2 + 1;

        for (int d = in.rank - kind.dims; d < in.rank; d++)
            MF_TRY_TO(done, transform_axis(k, cells.data, &in, d, false));
        for (int64_t i = 0; i < out->count; i++)
            fft_store((const cell *)cells.data + i / half * n + i % half, out, i);
    }
done:
    mf_tensor_clear(&full);
    mf_tensor_clear(&cells);
    return st;
}

/* ---- gradients ---- */

/* Number of summands of a transform, in this type. */
static mf_output size_as(mf_grad *g, mf_output sizes, mf_dtype type)
{
    const mf_output n = MF_G2("Prod", sizes, mf_ints(g->graph, (const int64_t[]){ 0 }, 1));

    return mf_applyf(g->graph, "Cast", MF_IN(n), "DstT=%s", mf_dtype_name(type));
}

/* Sizes of the last dimensions of x. */
static mf_output last_sizes(mf_grad *g, mf_output x, int dims)
{
    return mf_applyf(g->graph, "StridedSlice",
                     MF_IN(MF_G1("Shape", x), mf_ints(g->graph, (const int64_t[]){ -dims }, 1),
                           mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                           mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                     "end_mask=1");
}

static const char *const forwards[] = { "", "FFT", "FFT2D", "FFT3D" };
static const char *const backwards[] = { "", "IFFT", "IFFT2D", "IFFT3D" };
static const char *const real_forwards[] = { "", "RFFT", "RFFT2D", "RFFT3D" };

static mf_status fft_complex_grad(mf_grad *g)
{
    const fft_kind kind = fft_kind_of(g->node);
    const mf_output n = size_as(g, last_sizes(g, g->x[0], kind.dims), mf_grad_type(g->x[0]));

    if (kind.inverse)
        g->dx[0] = MF_G2("RealDiv", MF_G1(forwards[kind.dims], g->dy[0]), n);
    else
        g->dx[0] = MF_G2("Mul", MF_G1(backwards[kind.dims], g->dy[0]), n);
    return MF_OK;
}

/* x padded with zeros so that its last dimensions have these sizes. */
static mf_output pad_to(mf_grad *g, mf_output x, mf_output sizes, int dims)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output more = MF_G2("Sub", sizes, last_sizes(g, x, dims));
    const mf_output outer = MF_G2("Sub", MF_G1("Rank", x), mf_scalar(g->graph, MF_DTYPE_I32, dims));
    const mf_output none = MF_G2("Fill", mf_apply(g->graph, "Pack", MF_IN(outer)), zero);
    const mf_output behind = mf_apply(g->graph, "ConcatV2", MF_IN(none, more, zero));
    const mf_output pairs =
        mf_applyf(g->graph, "Pack", MF_IN(MF_G1("ZerosLike", behind), behind), "axis=1");

    return MF_G2("Pad", x, pairs);
}

/* The real part of the full inverse transform of a spectrum without its second half. */
static mf_status rfft_grad(mf_grad *g)
{
    const fft_kind kind = fft_kind_of(g->node);
    const mf_dtype type = mf_grad_type(g->x[0]);
    const mf_output lengths = g->x[1];
    const mf_output whole = pad_to(g, g->dy[0], lengths, kind.dims);
    const mf_output back = mf_applyf(g->graph, "Real", MF_IN(MF_G1(backwards[kind.dims], whole)),
                                     "Tout=%s", mf_dtype_name(type));
    const mf_output dx = MF_G2("Mul", back, size_as(g, lengths, type));

    g->dx[0] = pad_to(g, dx, last_sizes(g, g->x[0], kind.dims), kind.dims);
    return MF_OK;
}

/* All numbers of the half spectrum count twice, except the first and, for even lengths, the last.
 */
static mf_status irfft_grad(mf_grad *g)
{
    const fft_kind kind = fft_kind_of(g->node);
    const mf_dtype type = mf_grad_type(g->dy[0]), complex_ = mf_grad_type(g->x[0]);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1),
                    two = mf_scalar(g->graph, MF_DTYPE_I32, 2);
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0), lengths = g->x[1];
    const mf_output n = mf_applyf(g->graph, "StridedSlice",
                                  MF_IN(lengths, mf_ints(g->graph, (const int64_t[]){ -1 }, 1),
                                        mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                                        mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                                  "end_mask=1 shrink_axis_mask=1");
    const mf_output k = MF_G3("Range", zero, MF_G2("AddV2", MF_G2("FloorDiv", n, two), one), one);
    const mf_output twice = MF_G2("Mul", k, two);
    const mf_output inside =
        MF_G2("LogicalAnd", MF_G2("Greater", k, zero), MF_G2("Less", twice, n));
    const mf_output weight = mf_applyf(g->graph, "Cast", MF_IN(MF_G3("SelectV2", inside, two, one)),
                                       "DstT=%s", mf_dtype_name(complex_));
    const mf_output half =
        mf_applyf(g->graph, real_forwards[kind.dims], MF_IN(g->dy[0], lengths),
                  "Treal=%s Tcomplex=%s", mf_dtype_name(type), mf_dtype_name(complex_));
    const mf_output dx =
        MF_G2("RealDiv", MF_G2("Mul", half, weight), size_as(g, lengths, complex_));

    g->dx[0] = pad_to(g, dx, last_sizes(g, g->x[0], kind.dims), kind.dims);
    return MF_OK;
}

/* Signals of a batch are independent. */
static void fft_split(mf_split *s)
{
    mf_split_leading(s, s->in[0].rank - fft_kind_of(s->node).dims);
}

#define COMPLEX_OP(NAME, ...)                                                                      \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(input:Tcomplex) -> (output:Tcomplex) {Tcomplex:type=complex64 in "                \
               "[complex64,complex128]}",                                                          \
        .infer = fft_infer, .grad = fft_complex_grad, .run = complex_run, .split = fft_split,      \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define REAL_TYPES                                                                                 \
    " {Treal:type=float in [float,double], Tcomplex:type=complex64 in [complex64,complex128]}"
#define REAL_OP(NAME, GRAD, ...)                                                                   \
    {                                                                                              \
        .name = NAME, .def = "(input:Treal, fft_length:int32) -> (output:Tcomplex)" REAL_TYPES,    \
        .infer = fft_infer, .grad = GRAD, .run = real_run, .split = fft_split,                     \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define INVERSE_OP(NAME, GRAD, ...)                                                                \
    {                                                                                              \
        .name = NAME, .def = "(input:Tcomplex, fft_length:int32) -> (output:Treal)" REAL_TYPES,    \
        .infer = fft_infer, .grad = GRAD, .run = real_run, .split = fft_split,                     \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define SAMPLES_1                                                                                  \
    "c64[8] !nograd", "c128[3,7] !nograd", "c64[2,12] !nograd", "c128[1] !nograd",                 \
        "c64[2,0] !nograd", "c64[] !fails"
#define SAMPLES_2 "c64[4,6] !nograd", "c128[2,3,5] !nograd", "c64[3] !fails"
#define SAMPLES_3 "c64[2,4,6] !nograd", "c128[2,3,5,2] !nograd", "c64[3,2] !fails"

const mf_op mf_ops_fft[] = {
    COMPLEX_OP("FFT", SAMPLES_1),
    COMPLEX_OP("IFFT", SAMPLES_1),
    COMPLEX_OP("FFT2D", SAMPLES_2),
    COMPLEX_OP("IFFT2D", SAMPLES_2),
    COMPLEX_OP("FFT3D", SAMPLES_3),
    COMPLEX_OP("IFFT3D", SAMPLES_3),
    REAL_OP("RFFT", rfft_grad, "f32[8] i32[1]{8} !nograd",
            "f64[2,7] i32[1]{7} ; Treal=double Tcomplex=complex128 !nograd",
            "f32[2,9] i32[1]{6} !nograd", "f32[1] i32[1]{1} !nograd", "f32[2,0] i32[1]{0} !nograd",
            "f32[7] i32[1]{8} !fails", "f32[7] i32[2]{3,3} !fails", "f32[7] i32[1]{-1} !fails"),
    INVERSE_OP("IRFFT", irfft_grad, "c64[5] i32[1]{8} !nograd",
               "c128[2,4] i32[1]{7} ; Treal=double Tcomplex=complex128 !nograd",
               "c64[2,9] i32[1]{6} !nograd", "c64[1] i32[1]{1} !nograd", "c64[4] i32[1]{8} !fails"),
    REAL_OP("RFFT2D", rfft_grad, "f32[4,6] i32[2]{4,6} !nograd",
            "f64[2,3,5] i32[2]{3,5} ; Treal=double Tcomplex=complex128 !nograd",
            "f32[5,9] i32[2]{4,6} !nograd", "f32[7] i32[2]{1,7} !fails"),
    INVERSE_OP("IRFFT2D", irfft_grad, "c64[4,4] i32[2]{4,6} !nograd",
               "c128[2,3,3] i32[2]{3,5} ; Treal=double Tcomplex=complex128 !nograd",
               "c64[5,9] i32[2]{4,6} !nograd", "c64[7] i32[2]{1,7} !fails"),
    REAL_OP("RFFT3D", mf_grad_missing, "f32[2,4,6] i32[3]{2,4,6} !nograd",
            "f64[2,3,5,4] i32[3]{3,5,4} ; Treal=double Tcomplex=complex128 !nograd"),
    INVERSE_OP("IRFFT3D", mf_grad_missing, "c64[2,4,4] i32[3]{2,4,6} !nograd",
               "c128[2,3,5,3] i32[3]{3,5,4} ; Treal=double Tcomplex=complex128 !nograd"),
    { 0 },
};
