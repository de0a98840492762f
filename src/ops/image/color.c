/* SPDX-License-Identifier: Apache-2.0 */
/* color.c - colours of images, channels last: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation,
 * AdjustContrastv2. 16-bit floats are computed as floats. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/quant/widen.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 4096 };

/* Hue, saturation and value in [0, 1]. */
typedef struct color {
    double a, b, c;
} color;

typedef color color_fn(color x, double how);

typedef struct color_job {
    const mf_tensor *in;
    mf_tensor *out;
    color_fn *fn;
    double how;
} color_job;

/* ---- one pixel ---- */

static color to_hsv(color rgb, double unused)
{
    const double r = rgb.a, g = rgb.b, b = rgb.c;
    const double v = fmax(r, fmax(g, b)), range = v - fmin(r, fmin(g, b));
    double h = 0;

    (void)unused;
    if (range > 0)
        h = r == v   ? (g - b) / (6 * range)
            : g == v ? (b - r) / (6 * range) + 2.0 / 6
                     : (r - g) / (6 * range) + 4.0 / 6;
    return (color){ h < 0 ? h + 1 : h, v > 0 ? range / v : 0, v };
}

static double color_clamp(double x)
{
    return fmin(fmax(x, 0), 1);
}

static color to_rgb(color hsv, double unused)
{
    const double h = hsv.a * 6, s = hsv.b, v = hsv.c;

    (void)unused;
    return (color){ (1 - s + s * color_clamp(fabs(h - 3) - 1)) * v,
                    (1 - s + s * color_clamp(2 - fabs(h - 2))) * v,
                    (1 - s + s * color_clamp(2 - fabs(h - 4))) * v };
}

static color turn_hue(color rgb, double delta)
{
    color hsv = to_hsv(rgb, 0);

    hsv.a = fmod(hsv.a + delta, 1);
    hsv.a += hsv.a < 0;
    return to_rgb(hsv, 0);
}

static color scale_saturation(color rgb, double scale)
{
    color hsv = to_hsv(rgb, 0);

    hsv.b = color_clamp(hsv.b * scale);
    return to_rgb(hsv, 0);
}

/* ---- all of them ---- */

static void color_piece(void *ctx, int64_t piece)
{
    const color_job *job = ctx;
    const int64_t pixels = job->in->count / 3;
    const int64_t end = (piece + 1) * GRAIN < pixels ? (piece + 1) * GRAIN : pixels;

    for (int64_t i = piece * GRAIN; i < end; i++) {
        const color x = { mf_tensor_float_at(job->in, 3 * i),
                          mf_tensor_float_at(job->in, 3 * i + 1),
                          mf_tensor_float_at(job->in, 3 * i + 2) };
        const double undefined = x.a + x.b + x.c;
        const color y =
            isnan(undefined) ? (color){ undefined, undefined, undefined } : job->fn(x, job->how);

        mf_tensor_put(job->out, 3 * i, y.a);
        mf_tensor_put(job->out, 3 * i + 1, y.b);
        mf_tensor_put(job->out, 3 * i + 2, y.c);
    }
}

static mf_status color_check_channels(const mf_shape *s, int rank)
{
    char text[MF_SHAPE_TEXT];

    if (s->rank >= rank && s->dims[s->rank - 1] == 3)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "input must be at least %d-D and have 3 channels in its last dimension, got "
                   "shape %s",
                   rank, mf_shape_text(s, text));
}

static mf_status run_pixels(mf_kernel *k, color_fn *fn, int rank, double how)
{
    color_job job = { .in = k->in[0], .fn = fn, .how = how };

    MF_TRY(color_check_channels(&k->in[0]->shape, rank));
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &job.out));
    return mf_kernel_parallel(k, (job.in->count / 3 + GRAIN - 1) / GRAIN, color_piece, &job);
}

static mf_status to_hsv_run(mf_kernel *k)
{
    return run_pixels(k, to_hsv, 1, 0);
}

static mf_status to_rgb_run(mf_kernel *k)
{
    return run_pixels(k, to_rgb, 1, 0);
}

static mf_status read_scalar(const mf_tensor *t, const char *what, double *out)
{
    char text[MF_SHAPE_TEXT];

    if (t->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be scalar: %s", what,
                       mf_shape_text(&t->shape, text));
    *out = mf_tensor_float_at(t, 0);
    return MF_OK;
}

static mf_status hue_run(mf_kernel *k)
{
    double delta = 0;

    MF_TRY(read_scalar(k->in[1], "delta", &delta));
    return run_pixels(k, turn_hue, 3, delta);
}

static mf_status saturation_run(mf_kernel *k)
{
    double scale = 1;

    MF_TRY(read_scalar(k->in[1], "scale", &scale));
    return run_pixels(k, scale_saturation, 3, scale);
}

/* ---- contrast ---- */

typedef struct contrast_job {
    const mf_tensor *in;
    mf_tensor *out;
    int64_t pixels, channels; /* of an image */
    double factor;
} contrast_job;

/* One channel of one image: scales the distance to its mean. */
static void contrast_piece(void *ctx, int64_t piece)
{
    const contrast_job *job = ctx;
    const int64_t from =
        piece / job->channels * job->pixels * job->channels + piece % job->channels;
    double mean = 0;

    for (int64_t i = 0; i < job->pixels; i++)
        mean += mf_tensor_float_at(job->in, from + i * job->channels);
    mean /= (double)job->pixels;
    for (int64_t i = 0; i < job->pixels; i++) {
        const int64_t at = from + i * job->channels;

        mf_tensor_put(job->out, at, (mf_tensor_float_at(job->in, at) - mean) * job->factor + mean);
    }
}

static mf_status color_contrast_run(mf_kernel *k)
{
    const mf_shape *s = &k->in[0]->shape;
    contrast_job job = { .in = k->in[0] };
    char text[MF_SHAPE_TEXT];

    if (s->rank < 3)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be at least 3-D, got shape %s",
                       mf_shape_text(s, text));
    MF_TRY(read_scalar(k->in[1], "contrast_factor", &job.factor));
    MF_TRY(mf_kernel_out(k, 0, s, &job.out));
    job.pixels = s->dims[s->rank - 3] * s->dims[s->rank - 2];
    job.channels = s->dims[s->rank - 1];
    if (job.in->count == 0)
        return MF_OK;
    return mf_kernel_parallel(k, job.in->count / job.pixels, contrast_piece, &job);
}

/* ---- shapes ---- */

static mf_status infer_channels(mf_infer *in, int rank)
{
    const mf_shape *s = &in->in[0];

    MF_TRY(mf_infer_rank_at_least(in, 0, rank));
    if (s->rank > 0 && s->dims[s->rank - 1] >= 0)
        MF_TRY(color_check_channels(s, rank));
    return mf_infer_same(in);
}

static mf_status color_infer(mf_infer *in)
{
    return infer_channels(in, 1);
}

static mf_status adjust_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 1, 0));
    return infer_channels(in, 3);
}

static mf_status contrast_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 3));
    MF_TRY(mf_infer_rank(in, 1, 0));
    return mf_infer_same(in);
}

/* ---- the gradient of RGBToHSV ---- */

/* 1 if both comparisons hold, as a number. */
static mf_output where_both(mf_grad *g, const char *op1, mf_output a1, mf_output b1,
                            const char *op2, mf_output a2, mf_output b2)
{
    const mf_output both = MF_G2("LogicalAnd", MF_G2(op1, a1, b1), MF_G2(op2, a2, b2));

    return mf_applyf(g->graph, "Cast", MF_IN(both), "DstT=%s",
                     mf_dtype_name(mf_grad_type(g->x[0])));
}

static mf_output color_divide(mf_grad *g, mf_output a, mf_output b)
{
    return MF_G2("DivNoNan", a, b);
}

/* The hue is (x - y) / (6 range) plus a constant, where x and y are the two channels that are not
 * the maximum; the saturation is range / value. Channel c changes the value if it is the maximum,
 * and the range if it is the maximum or the minimum. */
static mf_status to_hsv_grad(mf_grad *g)
{
    const mf_output last = mf_scalar(g->graph, MF_DTYPE_I32, -1);
    const mf_output split = mf_applyf(g->graph, "Unpack", MF_IN(g->x[0]), "num=3 axis=-1");
    const mf_output dsplit = mf_applyf(g->graph, "Unpack", MF_IN(g->dy[0]), "num=3 axis=-1");
    const mf_output x[3] = { split, { split.node, 1 }, { split.node, 2 } };
    const mf_output dh = dsplit, ds = { dsplit.node, 1 }, dv = { dsplit.node, 2 };
    const mf_output most[3] = { where_both(g, "GreaterEqual", x[0], x[1], "GreaterEqual", x[0],
                                           x[2]),
                                where_both(g, "Greater", x[1], x[0], "GreaterEqual", x[1], x[2]),
                                where_both(g, "Greater", x[2], x[0], "Greater", x[2], x[1]) };
    const mf_output least[3] = { where_both(g, "Less", x[0], x[1], "Less", x[0], x[2]),
                                 where_both(g, "LessEqual", x[1], x[0], "Less", x[1], x[2]),
                                 where_both(g, "LessEqual", x[2], x[0], "LessEqual", x[2], x[1]) };
    const mf_output value = mf_applyf(g->graph, "Max", MF_IN(g->x[0], last), "keep_dims=false");
    const mf_output range =
        MF_G2("Sub", value, mf_applyf(g->graph, "Min", MF_IN(g->x[0], last), "keep_dims=false"));
    const mf_output six = MF_G2("Mul", range, mf_grad_scalar(g, range, 6));
    mf_output slope = { 0 }, dx[3];

    for (int c = 0; c < 3; c++) { /* numerator of the hue if c is the maximum */
        const mf_output part = MF_G2("Mul", most[c], MF_G2("Sub", x[(c + 1) % 3], x[(c + 2) % 3]));

        slope = slope.node ? MF_G2("AddV2", slope, part) : part;
    }
    slope = color_divide(g, slope, range);
    for (int c = 0; c < 3; c++) {
        const mf_output widens = MF_G2("Sub", most[c], least[c]);
        const mf_output turns = MF_G2("Sub", MF_G2("Sub", most[(c + 2) % 3], most[(c + 1) % 3]),
                                      MF_G2("Mul", slope, widens));
        const mf_output fills =
            MF_G2("Sub", widens, MF_G2("Mul", most[c], color_divide(g, range, value)));

        dx[c] = MF_G2("AddV2", MF_G2("Mul", dv, most[c]),
                      MF_G2("AddV2", MF_G2("Mul", dh, color_divide(g, turns, six)),
                            MF_G2("Mul", ds, color_divide(g, fills, value))));
    }
    g->dx[0] = mf_applyf(g->graph, "Pack", MF_IN(dx[0], dx[1], dx[2]), "axis=-1");
    return MF_OK;
}

#define COLOR_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                 \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_color[] = {
    COLOR_OP("RGBToHSV", "(images:T) -> (output:T) {T:type=float in floats}", color_infer,
             to_hsv_run, to_hsv_grad, "f32[2,4,3]@0:1", "f64[7,3]@0:1", "f16[5,3]@0:1 !nograd",
             "f32[4,3]{0,0,0,1,1,1,0.5,0.5,0.2,0.2,0.5,0.5} !nograd", "f32[0,3]", "f32[3]@0:1",
             "f32[2,4] !fails", "f32[] !fails"),
    COLOR_OP("HSVToRGB", "(images:T) -> (output:T) {T:type=float in floats}", color_infer,
             to_rgb_run, mf_grad_missing, "f32[2,4,3]@0:1", "f64[7,3]@0:1", "bf16[5,3]@0:1",
             "f32[4,3]{0,0,0,1,1,1,0.5,0.5,0.2,0.2,0.5,0.5}", "f32[0,3]", "f32[2,4] !fails"),
    COLOR_OP("AdjustHue", "(images:T, delta:float) -> (output:T) {T:type=float in [half,float]}",
             adjust_infer, hue_run, mf_grad_missing, "f32[2,4,5,3]@0:1 f32[]{0.2}",
             "f32[2,4,3]@0:1 f32[]{-0.7}", "f32[1,2,3]{0,0,0,1,0.5,0.5} f32[]{1}",
             "f32[2,0,3] f32[]{0.2}", "f32[4,3] f32[]{0.2} !fails", "f32[2,4,2] f32[]{0.2} !fails",
             "f32[2,4,3] f32[1]{0.2} !fails"),
    COLOR_OP("AdjustSaturation",
             "(images:T, scale:float) -> (output:T) {T:type=float in [half,float]}", adjust_infer,
             saturation_run, mf_grad_missing, "f32[2,4,5,3]@0:1 f32[]{0.5}",
             "f32[2,4,3]@0:1 f32[]{3}", "f32[1,2,3]{0,0,0,1,0.5,0.5} f32[]{0}",
             "f32[2,0,3] f32[]{0.2}", "f32[4,3] f32[]{0.2} !fails", "f32[2,4,2] f32[]{0.2} !fails"),
    COLOR_OP("AdjustContrastv2",
             "(images:T, contrast_factor:float) -> (output:T) {T:type=float in [half,float]}",
             contrast_infer, color_contrast_run, mf_grad_missing, "f32[2,4,5,3] f32[]{0.5}",
             "f32[4,3,7] f32[]{2}", "f32[2,0,3] f32[]{0.2}", "f32[4,3] f32[]{0.2} !fails"),
    { 0 },
};
