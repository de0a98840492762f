/* SPDX-License-Identifier: Apache-2.0 */
/* quantized.c - QuantizeV2 and Dequantize: converts floats to integers of few bits with a range,
 * and back. Computed in float, in TensorFlow's order of operations, so that values between two
 * integers round the same way. */
#include "base/mem.h"
#include "ops/array/array_util.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { GRAIN = 8192 };

typedef enum quantize_mode { MIN_COMBINED, MIN_FIRST, SCALED } quantize_mode;

typedef struct quantize_state {
    quantize_mode mode;
    bool to_even, narrow;
    int64_t axis;
    float least_range; /* relative to the largest bound */
    double low, high; /* range of the integer type */
    int bits;
} quantize_state;

/* Conversion with one range; the meaning depends on the mode. */
typedef struct quantize_range {
    float min, max, scale, offset;
} quantize_range;

typedef struct quantize_job {
    const quantize_state *s;
    const mf_tensor *in;
    mf_tensor *out;
    const quantize_range *ranges;
    int64_t depth, inner; /* element i has the range (i / inner) % depth */
} quantize_job;

static mf_status quantize_prepare(mf_prepare *p)
{
    const bool back = strcmp(p->node->op_name, "Dequantize") == 0;
    const mf_attr *type = mf_node_attr(p->node, "T");
    const char *mode = mf_node_string(p->node, "mode");
    quantize_state *s = MF_ARENA_NEW(p->arena, quantize_state);
    bool is_signed;

    if (!s)
        return MF_NOMEM("a quantization");
    s->mode = strcmp(mode, "SCALED") == 0      ? SCALED
              : strcmp(mode, "MIN_FIRST") == 0 ? MIN_FIRST
                                               : MIN_COMBINED;
    s->narrow = mf_node_bool(p->node, "narrow_range");
    s->axis = mf_node_int(p->node, "axis");
    s->bits = 8 * (int)mf_dtype_cell(type->type);
    is_signed = type->type != MF_DTYPE_QU8 && type->type != MF_DTYPE_QU16;
    s->low = is_signed ? -ldexp(1, s->bits - 1) : 0;
    s->high = ldexp(1, s->bits - is_signed) - 1;
    p->state = s;
    if (back)
        return MF_OK;
    s->to_even = strcmp(mf_node_string(p->node, "round_mode"), "HALF_TO_EVEN") == 0;
    s->least_range = mf_node_float(p->node, "ensure_minimum_range");
    if (s->to_even && s->mode != SCALED)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is "
                       "'%s'",
                       mode);
    return MF_OK;
}

static double half_range(const quantize_state *s)
{
    return s->low < 0 ? (s->high - s->low + 1) / 2 : 0;
}

/* ---- to integers ---- */

static void widen_range(const quantize_state *s, quantize_range *r)
{
    const float low = r->min, high = r->max;
    const float largest = fmaxf(1.0f, fmaxf(fabsf(low), fabsf(high)));

    r->min = fminf(0.0f, low);
    r->max = fmaxf(0.0f, fmaxf(high, r->min + largest * s->least_range));
}

static void set_forward(const quantize_state *s, quantize_range *r)
{
    widen_range(s, r);
    if (s->mode == SCALED) {
        const float low = (float)s->low + (float)s->narrow, high = (float)s->high;
        const float by_low = low * r->min > 0 ? low / r->min : FLT_MAX;
        const float by_high = high * r->max > 0 ? high / r->max : FLT_MAX;

        r->scale = fminf(by_low, by_high);
        r->min = low / r->scale;
        r->max = high / r->scale;
    } else if (s->mode == MIN_FIRST) {
        const double steps = ldexp(1, s->bits);
        const double range = ((double)r->max - (double)r->min) * (steps / (steps - 1));

        r->scale = (float)(steps / range);
        r->offset = roundf(r->min * r->scale);
    } else {
        r->scale = (float)((s->high - s->low) / (double)(r->max - r->min));
    }
}

static double quantized_forward(const quantize_state *s, const quantize_range *r, float x)
{
    const float inside = fmaxf(fminf(x, r->max), r->min);

    if (s->mode == SCALED)
        return (double)(s->to_even ? rintf(inside * r->scale) : roundf(inside * r->scale));
    if (s->mode == MIN_FIRST) {
        const double q = (double)(roundf(x * r->scale) - r->offset) + s->low;

        return fmax(s->low, fmin(s->high, q));
    }
    if (s->low < 0)
        return (double)roundf((inside - r->min) * r->scale - (float)half_range(s));
    return (double)((inside - r->min) * r->scale + 0.5f);
}

/* ---- and back ---- */

static void set_back(const quantize_state *s, quantize_range *r)
{
    if (s->mode == SCALED) {
        const float low = (float)s->low + (float)s->narrow;

        r->scale =
            s->low == 0 ? r->max / (float)s->high : fmaxf(r->min / low, r->max / (float)s->high);
    } else if (s->mode == MIN_FIRST) {
        r->scale = (float)((double)(r->max - r->min) / (ldexp(1, s->bits) - 1));
        r->offset = r->max == r->min ? r->min : roundf(r->min / r->scale) * r->scale;
    } else {
        r->scale = (float)((double)(r->max - r->min) / (s->high - s->low));
    }
}

static float back(const quantize_state *s, const quantize_range *r, double q)
{
    if (s->mode == SCALED)
        return (float)q * r->scale;
    if (s->mode == MIN_FIRST)
        return r->offset + (float)(q - s->low) * r->scale;
    return ((float)q + (float)half_range(s)) * r->scale + r->min;
}

/* ---- both ---- */

static void quantize_piece(void *ctx, int64_t piece)
{
    const quantize_job *job = ctx;
    const int64_t end = (piece + 1) * GRAIN < job->in->count ? (piece + 1) * GRAIN : job->in->count;

    for (int64_t i = piece * GRAIN; i < end; i++) {
        const quantize_range *r = &job->ranges[i / job->inner % job->depth];

        if (job->in->dtype == MF_DTYPE_F32)
            mf_tensor_put(job->out, i,
                          quantized_forward(job->s, r, ((const float *)job->in->data)[i]));
        else
            mf_tensor_put(job->out, i, (double)back(job->s, r, mf_tensor_float_at(job->in, i)));
    }
}

/* The ranges: one, or one per index along the axis. */
static mf_status read_ranges(const mf_kernel *k, quantize_job *job, quantize_range *ranges)
{
    const mf_tensor *low = k->in[1], *high = k->in[2];

    for (int64_t i = 0; i < job->depth; i++) {
        ranges[i].min = ((const float *)low->data)[i];
        ranges[i].max = ((const float *)high->data)[i];
        if (job->in->dtype != MF_DTYPE_F32) {
            set_back(job->s, &ranges[i]);
            continue;
        }
        if (!(ranges[i].min <= ranges[i].max))
            return MF_FAIL(MF_INVALID_ARGUMENT, "min_range (%g) must be at most max_range (%g)",
                           (double)ranges[i].min, (double)ranges[i].max);
        set_forward(job->s, &ranges[i]);
    }
    return MF_OK;
}

static mf_status check_ranges(const mf_kernel *k, quantize_job *job)
{
    const int64_t axis = job->s->axis;
    const mf_shape *shape = &k->in[0]->shape;

    if (axis < -1 || axis >= shape->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Axis %" PRId64 " must be -1 or less than rank %d",
                       axis, shape->rank);
    job->depth = axis < 0 ? 1 : shape->dims[axis];
    job->inner = axis < 0 ? 1 : mf_shape_span(shape, (int)axis + 1, shape->rank);
    for (int i = 1; i < 3; i++) {
        if (k->in[i]->count != job->depth || k->in[i]->shape.rank != (axis < 0 ? 0 : 1))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s must have one element for each of %" PRId64 " ranges, got %" PRId64,
                           i == 1 ? "min_range" : "max_range", job->depth, k->in[i]->count);
    }
    return MF_OK;
}

static mf_status quantize_infer(mf_infer *in)
{
    const bool one = mf_node_int(in->node, "axis") == -1;

    in->out[0] = in->in[0];
    for (int i = 1; i < 3; i++) {
        MF_TRY(mf_infer_rank(in, i, one ? 0 : 1));
        if (i < in->n_out)
            in->out[i] = one ? MF_SCALAR : MF_SHAPE(-1);
    }
    return MF_OK;
}

static mf_status quantize_run(mf_kernel *k)
{
    quantize_job job = { .s = k->state, .in = k->in[0] };
    mf_tensor *bound[2] = { NULL };
    quantize_range *ranges;
    mf_status st;

    MF_TRY(check_ranges(k, &job));
    ranges = mf_calloc(job.depth + 1, sizeof *ranges);
    if (!ranges)
        return MF_NOMEM("ranges");
    MF_TRY_TO(done, read_ranges(k, &job, ranges));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &k->in[0]->shape, &job.out));
    for (int i = 1; i < k->n_out; i++)
        MF_TRY_TO(done, mf_kernel_out(k, i, &k->in[i]->shape, &bound[i - 1]));
    for (int64_t i = 0; i < job.depth && bound[1]; i++) {
        ((float *)bound[0]->data)[i] = ranges[i].min;
        ((float *)bound[1]->data)[i] = ranges[i].max;
    }
    job.ranges = ranges;
    st = mf_kernel_parallel(k, (job.in->count + GRAIN - 1) / GRAIN, quantize_piece, &job);
done:
    mf_free(ranges);
    return st;
}

#define TYPES "T:type in [qint8,quint8,qint32,qint16,quint16]"
#define MODES "mode:string='MIN_COMBINED' in ['MIN_COMBINED','MIN_FIRST','SCALED']"
#define QUANTIZE_OP(NAME, DEF, ...)                                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = quantize_infer, .grad = mf_grad_missing,                \
        .prepare = quantize_prepare, .run = quantize_run, .samples = MF_SAMPLES(__VA_ARGS__)       \
    }

const mf_op mf_ops_quantized[] = {
    QUANTIZE_OP("QuantizeV2",
                "(input:float, min_range:float, max_range:float) -> (output:T, output_min:float, "
                "output_max:float) {" TYPES ", " MODES ", round_mode:string='HALF_AWAY_FROM_ZERO' "
                "in ['HALF_AWAY_FROM_ZERO','HALF_TO_EVEN'], narrow_range:bool=false, axis:int=-1, "
                "ensure_minimum_range:float=0.00999999978}",
                "f32[3,7] f32[]{-2} f32[]{2} ; T=quint8", "f32[3,7] f32[]{-2} f32[]{2} ; T=qint8",
                "f32[3,7] f32[]{-1} f32[]{1.5} ; T=qint8 mode='MIN_FIRST'",
                "f32[3,7] f32[]{-1} f32[]{1.5} ; T=quint8 mode='MIN_FIRST'",
                "f32[3,7] f32[]{-1} f32[]{2} ; T=qint8 mode='SCALED' round_mode='HALF_TO_EVEN'",
                "f32[3,2] f32[2]{-1,-2} f32[2]{2,1} ; T=qint8 mode='SCALED' narrow_range=true "
                "axis=1",
                "f32[2,3] f32[2]{-1,-2} f32[2]{2,1} ; T=quint8 axis=0",
                "f32[4] f32[]{0} f32[]{0} ; T=quint8", "f32[4] f32[]{-1} f32[]{1} ; T=quint16",
                "f32[4] f32[]{-1} f32[]{1} ; T=qint16", "f32[0] f32[]{-1} f32[]{1} ; T=quint8",
                "f32[4] f32[]{1} f32[]{-1} ; T=quint8 !fails",
                "f32[4] f32[2] f32[2] ; T=quint8 !fails",
                "f32[4] f32[]{-1} f32[]{1} ; T=quint8 round_mode='HALF_TO_EVEN' !fails"),
    QUANTIZE_OP("Dequantize",
                "(input:T, min_range:float, max_range:float) -> (output:dtype) {" TYPES ", " MODES
                ", narrow_range:bool=false, axis:int=-1, dtype:type=float in [bfloat16,float]}",
                "qu8[3,7]@0:256 f32[]{-2} f32[]{2}", "qi8[3,7]@-128:128 f32[]{-2} f32[]{2}",
                "qi8[3,7]@-128:128 f32[]{-1} f32[]{1.5} ; mode='MIN_FIRST'",
                "qu8[3,7]@0:256 f32[]{-1} f32[]{1.5} ; mode='MIN_FIRST'",
                "qi8[3,7]@-128:128 f32[]{-1} f32[]{2} ; mode='SCALED'",
                "qi8[3,2]@-127:128 f32[2]{-1,-2} f32[2]{2,1} ; mode='SCALED' narrow_range=true "
                "axis=1",
                "qu8[3,7]@0:256 f32[]{0} f32[]{2} ; mode='SCALED'",
                "qi16[5]@-999:999 f32[]{-1} f32[]{1}", "qu16[5]@0:999 f32[]{-1} f32[]{1}",
                "qi32[5]@-999:999 f32[]{-1} f32[]{1} ; mode='SCALED'", "qu8[0] f32[]{-1} f32[]{1}",
                "qu8[3]@0:9 f32[2] f32[2] !fails"),
    { 0 },
};
