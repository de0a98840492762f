/* SPDX-License-Identifier: Apache-2.0 */
/* fake_quant.c - quantizes to a few bits and back: FakeQuantWithMinMax*. The limits are attributes,
 * two scalars, or a pair per channel (the last dimension). */
#include "base/mem.h"
#include "graph/rows.h"
#include "ops/control/grad_util.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 16384 };

typedef struct quant_state {
    float low, high; /* the attributes */
    float steps_low, steps_high; /* the first and last step */
    bool given, per_channel; /* limits are inputs; one pair per channel */
} quant_state;

/* One channel: limits adjusted so that zero is a step. */
typedef struct quant {
    float low, high, scale, inverse, zero;
    bool off; /* both limits are 0: everything becomes 0, gradients pass */
} quant;

static mf_status quant_prepare(mf_prepare *p)
{
    quant_state *s = MF_ARENA_NEW(p->arena, quant_state);
    const int64_t bits = mf_node_int(p->node, "num_bits");

    if (!s)
        return MF_NOMEM("a quantization");
    if (bits < 2 || bits > 16)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "num_bits must be between 2 and 16, inclusive, got %lld", (long long)bits);
    *s = (quant_state){ .low = mf_node_float(p->node, "min"),
                        .high = mf_node_float(p->node, "max"),
                        .steps_low = mf_node_bool(p->node, "narrow_range") ? 1.0f : 0.0f,
                        .steps_high = (float)((1 << bits) - 1),
                        .given = !mf_node_attr(p->node, "min"),
                        .per_channel = strstr(p->node->op_name, "PerChannel") != NULL };
    if (!s->given && !(s->low < s->high))
        return MF_FAIL(MF_INVALID_ARGUMENT, "min has to be smaller than max, was: %g >= %g",
                       (double)s->low, (double)s->high);
    p->state = s;
    return MF_OK;
}

static quant quant_of(const quant_state *s, float low, float high)
{
    const float range = s->steps_high - s->steps_low;
    quant q = { .scale = (high - low) / range, .inverse = range / (high - low) };
    float zero;

    q.off = s->given && low == 0 && high == 0;
    zero = s->steps_low - low / q.scale;
    zero = zero < s->steps_low ? s->steps_low : zero > s->steps_high ? s->steps_high : roundf(zero);
    q.low = (s->steps_low - zero) * q.scale;
    q.high = (s->steps_high - zero) * q.scale;
    q.zero = floorf(-q.low * q.inverse + 0.5f);
    return q;
}

static float quantized(const quant *q, float x)
{
    float v = x > q->high ? q->high : x; /* NaN stays NaN */

    if (q->off)
        return 0;
    v = v < q->low ? q->low : v;
    return floorf((v - q->low) * q->inverse - q->zero + 0.5f) * q->scale;
}

/* ---- shapes ---- */

/* The limits of a node's input x, which are its last two inputs. */
static mf_status check_limits(const mf_node *node, const mf_shape *x, const mf_shape *low,
                              const mf_shape *high)
{
    const bool per_channel = strstr(node->op_name, "PerChannel") != NULL;
    const mf_shape *const limits[2] = { low, high };
    char text[MF_SHAPE_TEXT];

    if (per_channel && x->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "inputs must have channels, got shape []");
    for (int i = 0; i < 2; i++) {
        const mf_shape *s = limits[i];

        if (s->rank >= 0 && s->rank != (per_channel ? 1 : 0))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be rank %d but is rank %d for %s",
                           per_channel ? 1 : 0, s->rank, i ? "max" : "min");
        if (per_channel && s->rank == 1 && x->rank > 0 && s->dims[0] >= 0 &&
            x->dims[x->rank - 1] >= 0 && s->dims[0] != x->dims[x->rank - 1])
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s has incorrect size, expected %lld was %s",
                           i ? "max" : "min", (long long)x->dims[x->rank - 1],
                           mf_shape_text(s, text));
    }
    return MF_OK;
}

static mf_status quant_infer(mf_infer *in)
{
    const int x = in->n_in == 1 || in->n_in == 3 ? 0 : 1;

    if (x == 1) /* the gradient has the shape of the input */
        MF_TRY(mf_shape_merge(&in->in[0], &in->in[1], &in->out[0]));
    else
        in->out[0] = in->in[0];
    if (in->n_in < 3)
        return MF_OK;
    MF_TRY(check_limits(in->node, &in->in[x], &in->in[x + 1], &in->in[x + 2]));
    for (int i = 1; i < in->n_out; i++)
        in->out[i] = in->in[x + i];
    return MF_OK;
}

/* ---- kernels ---- */

typedef struct quant_job {
    const quant *q;
    const float *x;
    float *out;
    int64_t channels, n;
} quant_job;

/* All elements with one range: the common case. */
static void quant_span(const quant *range, const float *x, float *out, int64_t n)
{
    const quant q = *range;

    for (int64_t i = 0; i < n; i++)
        out[i] = quantized(&q, x[i]);
}

static void quant_piece(void *ctx, int64_t piece)
{
    const quant_job *job = ctx;
    const int64_t from = piece * GRAIN, end = job->n - from < GRAIN ? job->n : from + GRAIN;
    int64_t c = from % job->channels;

    if (job->channels == 1) {
        quant_span(job->q, job->x + from, job->out + from, end - from);
        return;
    }
    for (int64_t i = from; i < end; i++, c = c + 1 < job->channels ? c + 1 : 0)
        job->out[i] = quantized(&job->q[c], job->x[i]);
}

/* One quant per channel, in *memory. `x`: index of the quantized input. */
static mf_status read_quants(const mf_kernel *k, int x, mf_tensor *memory, int64_t *channels)
{
    const quant_state *s = k->state;
    const mf_shape *shape = &k->in[x]->shape;
    quant *q;

    *channels = 1;
    if (s->given) {
        MF_TRY(check_limits(k->node, shape, &k->in[x + 1]->shape, &k->in[x + 2]->shape));
        *channels = k->in[x + 1]->count;
    }
    MF_TRY(mf_tensor_alloc(memory, MF_DTYPE_U8, &MF_SHAPE(*channels, (int64_t)sizeof(quant))));
    q = memory->data;
    for (int64_t c = 0; c < *channels; c++)
        q[c] = s->given ? quant_of(s, ((const float *)k->in[x + 1]->data)[c],
                                   ((const float *)k->in[x + 2]->data)[c])
                        : quant_of(s, s->low, s->high);
    return MF_OK;
}

static mf_status quant_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_tensor memory = { 0 }, *out;
    quant_job job = { .x = x->data, .n = x->count };
    mf_status st;

    MF_TRY_TO(done, read_quants(k, 0, &memory, &job.channels));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &x->shape, &out));
    job.q = memory.data;
    job.out = out->data;
    st = mf_kernel_parallel(k, (x->count + GRAIN - 1) / GRAIN, quant_piece, &job);
done:
    mf_tensor_clear(&memory);
    return st;
}

/* Gradients pass inside the limits; outside they are added to the limit's gradient. As in
 * TensorFlow, 0 times an infinite gradient is NaN, unless both limits are 0. */
static void split_gradient(const quant *q, int64_t channels, const mf_tensor *dy, const float *x,
                           float *dx, double *below, double *above)
{
    const float *g = dy->data;
    int64_t c = 0;

    for (int64_t i = 0; i < dy->count; i++, c = c + 1 < channels ? c + 1 : 0) {
        if (q[c].off) {
            dx[i] = g[i];
            continue;
        }
        dx[i] = x[i] >= q[c].low && x[i] <= q[c].high ? g[i] : 0 * g[i];
        below[c] += (double)(x[i] < q[c].low ? g[i] : 0 * g[i]);
        above[c] += (double)(x[i] > q[c].high ? g[i] : 0 * g[i]);
    }
}

static mf_status quant_grad_run(mf_kernel *k)
{
    const mf_tensor *dy = k->in[0], *x = k->in[1];
    mf_tensor memory = { 0 }, sums = { 0 }, *out;
    int64_t channels = 0;
    double *sum;
    mf_status st;

    if (!mf_shape_equal(&dy->shape, &x->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT, "gradient and input must be the same size");
    MF_TRY_TO(done, read_quants(k, 1, &memory, &channels));
    MF_TRY_TO(done, mf_tensor_alloc(&sums, MF_DTYPE_F64, &MF_SHAPE(2, channels)));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &x->shape, &out));
    sum = sums.data;
    for (int64_t i = 0; i < sums.count; i++)
        sum[i] = 0;
    split_gradient(memory.data, channels, dy, x->data, out->data, sum, sum + channels);
    for (int i = 1; i < k->n_out; i++) {
        MF_TRY_TO(done, mf_kernel_out(k, i, &k->in[i + 1]->shape, &out));
        for (int64_t c = 0; c < channels; c++)
            ((float *)out->data)[c] = (float)sum[(i - 1) * channels + c];
    }
done:
    mf_tensor_clear(&memory);
    mf_tensor_clear(&sums);
    return st;
}

/* ---- gradients ---- */

static mf_status args_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(
        g->graph, "FakeQuantWithMinMaxArgsGradient", MF_IN(g->dy[0], g->x[0]),
        "min=%.9g max=%.9g num_bits=%lld narrow_range=%s", (double)mf_node_float(g->node, "min"),
        (double)mf_node_float(g->node, "max"), (long long)mf_node_int(g->node, "num_bits"),
        mf_node_bool(g->node, "narrow_range") ? "true" : "false");
    return MF_OK;
}

static mf_status vars_grad(mf_grad *g)
{
    const char *op = strstr(g->node->op_name, "PerChannel")
                         ? "FakeQuantWithMinMaxVarsPerChannelGradient"
                         : "FakeQuantWithMinMaxVarsGradient";
    const mf_output d =
        mf_applyf(g->graph, op, MF_IN(g->dy[0], g->x[0], g->x[1], g->x[2]),
                  "num_bits=%lld narrow_range=%s", (long long)mf_node_int(g->node, "num_bits"),
                  mf_node_bool(g->node, "narrow_range") ? "true" : "false");

    for (int i = 0; d.node && i < 3; i++)
        g->dx[i] = (mf_output){ d.node, i };
    return MF_OK;
}

#define BITS "num_bits:int=8, narrow_range:bool=false}"
#define ARGS "{min:float=-6, max:float=6, " BITS
#define BACK "backprops_wrt_input:float, backprop_wrt_min:float, backprop_wrt_max:float"
#define QUANT_OP(ROWS, NAME, DEF, GRAD, RUN, ...)                                                  \
    {                                                                                              \
        .name = NAME, .rows = ROWS, .def = DEF, .infer = quant_infer, .grad = GRAD,                \
        .prepare = quant_prepare, .run = RUN, .samples = MF_SAMPLES(__VA_ARGS__)                   \
    }

const mf_op mf_ops_fake_quant[] = {
    QUANT_OP(NULL, "FakeQuantWithMinMaxArgs", "(inputs:float) -> (outputs:float) " ARGS, args_grad,
             quant_run, "f32[3,5]@-8:8 !nograd", "f32[7]@-2:2 ; min=-0.3 max=1.2 !nograd",
             "f32[4] ; num_bits=2 narrow_range=true !nograd", "f32[0]",
             "f32[20000]@-8:8 !nograd !notf", "f32[3] ; num_bits=1 !fails",
             "f32[3] ; min=1 max=1 !fails"),
    QUANT_OP(NULL, "FakeQuantWithMinMaxArgsGradient",
             "(gradients:float, inputs:float) -> (backprops:float) " ARGS, mf_grad_missing,
             quant_grad_run, "f32[3,5] f32[3,5]@-8:8 !nograd",
             "f32[7] f32[7] ; min=-0.3 max=1.2 !nograd", "f32[7] f32[6] !fails"),
    QUANT_OP(mf_rows_first, "FakeQuantWithMinMaxVars",
             "(inputs:float, min:float, max:float) -> (outputs:float) {" BITS, vars_grad, quant_run,
             "f32[3,5]@-3:3 f32[]{-1} f32[]{2} !nograd", "f32[4] f32[]{0} f32[]{0} !nograd",
             "f32[7]@-3:3 f32[]{0.5} f32[]{2} ; num_bits=4 narrow_range=true !nograd",
             "f32[3] f32[1]{0} f32[1]{1} !fails"),
    QUANT_OP(NULL, "FakeQuantWithMinMaxVarsGradient",
             "(gradients:float, inputs:float, min:float, max:float) -> (" BACK ") {" BITS,
             mf_grad_missing, quant_grad_run, "f32[3,5] f32[3,5]@-3:3 f32[]{-1} f32[]{2} !nograd",
             "f32[4] f32[4] f32[]{0} f32[]{0} !nograd"),
    QUANT_OP(NULL, "FakeQuantWithMinMaxVarsPerChannel",
             "(inputs:float, min:float, max:float) -> (outputs:float) {" BITS, vars_grad, quant_run,
             "f32[3,2]@-3:3 f32[2]{-1,0} f32[2]{2,1} !nograd",
             "f32[2] f32[2]{-1,0} f32[2]{2,0} !nograd",
             "f32[2,2,3] f32[3]{-1,-1,-1} f32[3]{1,1,1} ; num_bits=3 !nograd",
             "f32[3,2] f32[3]@-2:-1 f32[3]@1:2 !fails"),
    QUANT_OP(NULL, "FakeQuantWithMinMaxVarsPerChannelGradient",
             "(gradients:float, inputs:float, min:float, max:float) -> (" BACK ") {" BITS,
             mf_grad_missing, quant_grad_run,
             "f32[3,2] f32[3,2]@-3:3 f32[2]{-1,0} f32[2]{2,1} !nograd"),
    { 0 },
};
