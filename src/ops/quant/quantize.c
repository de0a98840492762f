/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c - QuantizeAndDequantizeV2: rounds to integers of a number of bits, scaled to the
 * range, and back. Computed in float, or in double for doubles. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 8192 };

typedef struct round_state {
    double low, high; /* range of the integers */
    bool given, half_up;
    int64_t axis; /* one range per index along it, or -1 */
} round_state;

/* One range: values times scale are rounded, then multiplied by inverse. */
typedef struct rounding_range {
    double low, high, scale, inverse;
} rounding_range;

typedef struct round_job {
    const round_state *s;
    const mf_tensor *x;
    mf_tensor *out;
    const rounding_range *ranges;
    int64_t depth, inner; /* element i has the range (i / inner) % depth */
} round_job;

static mf_status round_prepare(mf_prepare *p)
{
    round_state *s = MF_ARENA_NEW(p->arena, round_state);
    const int64_t bits = mf_node_int(p->node, "num_bits");
    const bool is_signed = mf_node_bool(p->node, "signed_input");

    if (!s)
        return MF_NOMEM("a quantization");
    if (bits <= 0 || bits >= (is_signed ? 62 : 63))
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_bits is out of range: %lld with signed_input %d",
                       (long long)bits, is_signed);
    s->axis = mf_node_int(p->node, "axis");
    if (s->axis < -1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Axis must be at least -1. Found %lld",
                       (long long)s->axis);
    s->low = is_signed ? -ldexp(1, (int)bits - 1) + mf_node_bool(p->node, "narrow_range") : 0;
    s->high = ldexp(1, (int)bits - is_signed) - 1;
    s->given = mf_node_bool(p->node, "range_given");
    s->half_up = strcmp(mf_node_string(p->node, "round_mode"), "HALF_UP") == 0;
    p->state = s;
    return MF_OK;
}

static double in_type(const mf_tensor *t, double v)
{
    return t->dtype == MF_DTYPE_F64 ? v : (double)(float)v;
}

/* The largest scale that keeps the range within the integers, and zero at zero. */
static rounding_range quantize_range_of(const round_job *job, double low, double high)
{
    const round_state *s = job->s;
    const double most = job->x->dtype == MF_DTYPE_F64 ? (double)INFINITY : 3.4028234663852886e38;
    const double from_low = s->low * low > 0 ? in_type(job->x, s->low / low) : most;
    const double from_high = s->high * high > 0 ? in_type(job->x, s->high / high) : most;
    rounding_range r = { low, high, from_high, in_type(job->x, high / s->high) };

    if (from_low < from_high) {
        r.scale = from_low;
        r.inverse = in_type(job->x, low / s->low);
        r.high = in_type(job->x, s->high * r.inverse);
    } else {
        r.low = in_type(job->x, s->low * r.inverse);
    }
    return r;
}

static void round_piece(void *ctx, int64_t piece)
{
    const round_job *job = ctx;
    const int64_t end = (piece + 1) * GRAIN < job->x->count ? (piece + 1) * GRAIN : job->x->count;

    for (int64_t i = piece * GRAIN; i < end; i++) {
        const rounding_range *r = &job->ranges[i / job->inner % job->depth];
        double v = mf_tensor_float_at(job->x, i);

        if (job->s->given)
            v = v > r->high ? r->high : v < r->low ? r->low : v; /* NaN stays NaN */
        v = in_type(job->x, v * r->scale);
        v = job->s->half_up ? floor(in_type(job->x, v + 0.5)) : rint(v);
        mf_tensor_put(job->out, i, in_type(job->x, v * r->inverse));
    }
}

/* Minimum and maximum of the elements along the axis. */
static void find_limits(const round_job *job, double *low, double *high)
{
    for (int64_t d = 0; d < job->depth; d++) {
        low[d] = (double)INFINITY;
        high[d] = -(double)INFINITY;
    }
    for (int64_t i = 0; i < job->x->count; i++) {
        const int64_t d = i / job->inner % job->depth;
        const double v = mf_tensor_float_at(job->x, i);

        low[d] = fmin(low[d], v);
        high[d] = fmax(high[d], v);
    }
}

static mf_status read_limits(const mf_kernel *k, const round_job *job, double *low, double *high)
{
    const int rank = job->s->axis < 0 ? 0 : 1;
    char text[MF_SHAPE_TEXT];

    for (int i = 1; i < 3; i++) {
        const mf_tensor *t = k->in[i];

        if (t->shape.rank != rank || t->count != job->depth)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "input_%s must have rank %d and %lld elements, got shape %s",
                           i == 1 ? "min" : "max", rank, (long long)job->depth,
                           mf_shape_text(&t->shape, text));
        for (int64_t d = 0; d < job->depth; d++)
            (i == 1 ? low : high)[d] = mf_tensor_float_at(t, d);
    }
    for (int64_t d = 0; d < job->depth; d++) {
        if (!(low[d] <= high[d]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Invalid range: input_min %g > input_max %g",
                           low[d], high[d]);
    }
    return MF_OK;
}

static mf_status round_run(mf_kernel *k)
{
    const round_state *s = k->state;
    const mf_shape *shape = &k->in[0]->shape;
    round_job job = { .s = s, .x = k->in[0], .depth = 1, .inner = 1 };
    mf_arena *arena = NULL;
    double *low, *high;
    rounding_range *ranges;
    mf_status st;

    if (s->axis >= shape->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Axis should be less than the rank %d, got %lld",
                       shape->rank, (long long)s->axis);
    if (s->axis >= 0) {
        job.depth = shape->dims[s->axis];
        job.inner = mf_shape_span(shape, (int)s->axis + 1, shape->rank);
    }
    arena = mf_arena_new();
    low = arena ? MF_ARENA_ARRAY(arena, double, job.depth + 1) : NULL;
    high = low ? MF_ARENA_ARRAY(arena, double, job.depth + 1) : NULL;
    ranges = high ? MF_ARENA_ARRAY(arena, rounding_range, job.depth + 1) : NULL;
    st = ranges ? MF_OK : MF_NOMEM("ranges");
    if (st == MF_OK)
        st = mf_kernel_out(k, 0, shape, &job.out);
    if (st == MF_OK && s->given)
        st = read_limits(k, &job, low, high);
    if (st == MF_OK && job.x->count > 0) {
        if (!s->given)
            find_limits(&job, low, high);
        for (int64_t d = 0; d < job.depth; d++)
            ranges[d] = quantize_range_of(&job, low[d], high[d]);
        job.ranges = ranges;
        st = mf_kernel_parallel(k, (job.x->count + GRAIN - 1) / GRAIN, round_piece, &job);
    }
    mf_arena_free(arena);
    return st;
}

/* A straight-through gradient. */
static mf_status round_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    return MF_OK;
}

const mf_op mf_op_quantize_and_dequantize_v2 = {
    .name = "QuantizeAndDequantizeV2",
    .def = "(input:T, input_min:T, input_max:T) -> (output:T) {signed_input:bool=true, "
           "num_bits:int=8, range_given:bool=false, T:type in floats, "
           "round_mode:string='HALF_TO_EVEN' in ['HALF_TO_EVEN','HALF_UP'], "
           "narrow_range:bool=false, axis:int=-1}",
    .infer = mf_infer_same,
    .grad = round_grad,
    .prepare = round_prepare,
    .run = round_run,
    .samples = MF_SAMPLES(
        "f32[3,5] f32[] f32[] !nograd", "f64[7] f64[]{-1} f64[]{1.5} ; range_given=true !nograd",
        "f32[3,5] f32[]{-1} f32[]{1} ; range_given=true num_bits=4 narrow_range=true !nograd",
        "f32[9]@0:3 f32[] f32[] ; signed_input=false round_mode='HALF_UP' !nograd",
        "f32[2,3,4] f32[3]{-1,-2,0} f32[3]{1,1,2} ; axis=1 range_given=true !nograd !notf",
        "f32[2,3,4] f32[] f32[] ; axis=2 num_bits=3 !nograd",
        "f32[3] f32[]{1} f32[]{0} ; range_given=true !fails",
        "f32[3] f32[] f32[] ; num_bits=0 !fails", "f32[3] f32[] f32[] ; axis=1 !fails"),
};
