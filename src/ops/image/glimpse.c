/* SPDX-License-Identifier: Apache-2.0 */
/* glimpse.c - ExtractGlimpse and its V2: a window of each image around a given point. Parts outside
 * the image are filled with noise in the range of the image's values, or zero. */
#include "base/rng.h"
#include "ops/array/array_util.h"

#include <math.h>
#include <string.h>

typedef enum noise_kind { UNIFORM, GAUSSIAN, ZERO } noise_kind;

typedef struct glimpse_job {
    const mf_tensor *in, *offsets;
    mf_tensor *out;
    int64_t in_size[2], size[2], channels;
    bool centered, normalized, first; /* first: V1 */
    noise_kind noise;
} glimpse_job;

/* Start of the window along one dimension. The versions differ in whether the point is the window's
 * centre. */
static int64_t begin_of(const glimpse_job *job, int64_t image, int d)
{
    const float in = (float)job->in_size[d], half = (float)job->size[d] / 2.0f;
    float at = ((const float *)job->offsets->data)[2 * image + d];

    if (job->normalized)
        at *= in;
    if (job->centered)
        at = (job->first || job->normalized ? at / 2.0f : at) + in / 2.0f;
    if (job->first || (job->centered && job->normalized))
        at -= half;
    if (!(fabsf(at) < 1e9f))
        return job->in_size[d]; /* entirely outside */
    return (int64_t)at;
}

/* Fills a whole window; random numbers depend on the element's position. */
static void fill_noise(const glimpse_job *job, int64_t image, float *to, int64_t n)
{
    const int64_t count = job->in_size[0] * job->in_size[1] * job->channels;
    const float *x = (const float *)job->in->data + image * count;
    double low = INFINITY, high = -INFINITY, sum = 0, squares = 0;
    mf_philox gen = mf_philox_init(0x676c696d, (uint64_t)image);

    for (int64_t i = 0; i < count; i++) {
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        double total = 0;

        mf_philox_next(&gen, r);
        for (int k = 0; k < 4; k++)
            total += (double)r[k] / 4294967296.0;
        if (job->noise == ZERO || count == 0)
            to[i] = 0;
        else if (job->noise == UNIFORM)
            to[i] = (float)(low + (high - low) * (double)r[0] / 4294967296.0);
        else /* the sum of four uniform numbers is nearly normal */
            to[i] = (float)(sum / (double)count +
                            sqrt(fmax(0, squares / (double)count -
                                             sum * sum / (double)count / (double)count)) *
                                (total - 2) * sqrt(3.0));
    }
}

static void glimpse_piece(void *ctx, int64_t image)
{
    const glimpse_job *job = ctx;
    const int64_t row = job->size[1] * job->channels;
    const int64_t y0 = begin_of(job, image, 0), x0 = begin_of(job, image, 1);
    float *to = (float *)job->out->data + image * job->size[0] * row;

    fill_noise(job, image, to, job->size[0] * row);
    for (int64_t y = 0; y < job->size[0]; y++) {
        for (int64_t x = 0; x < job->size[1]; x++) {
            const int64_t iy = y0 + y, ix = x0 + x;

            if (iy < 0 || iy >= job->in_size[0] || ix < 0 || ix >= job->in_size[1])
                continue;
            memcpy(to + y * row + x * job->channels,
                   (const float *)job->in->data +
                       ((image * job->in_size[0] + iy) * job->in_size[1] + ix) * job->channels,
                   (size_t)job->channels * sizeof *to);
        }
    }
}

static mf_status set_noise(const mf_node *node, noise_kind *out)
{
    const char *noise = mf_node_string(node, "noise");
    const bool uniform = mf_node_bool(node, "uniform_noise");

    *out = strcmp(noise, "zero") == 0                 ? ZERO
           : strcmp(noise, "gaussian") == 0           ? GAUSSIAN
           : strcmp(noise, "uniform") == 0 || uniform ? UNIFORM
                                                      : GAUSSIAN;
    if (uniform && *noise && *out != UNIFORM)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The uniform_noise and noise should not be specified at the same time");
    if (*noise && strcmp(noise, "uniform") != 0 && *out != ZERO && strcmp(noise, "gaussian") != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "noise should be 'uniform', 'gaussian', 'zero' or '', not '%s'", noise);
    return MF_OK;
}

static mf_status glimpse_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0];
    mf_ivec size = { .n = 2, .v = { -1, -1 } };

    MF_TRY(mf_infer_rank(in, 0, 4));
    MF_TRY(mf_infer_rank(in, 1, 1));
    MF_TRY(mf_infer_rank(in, 2, 2));
    if (in->in_value[1] && in->in_value[1]->count == 2)
        MF_TRY(mf_ivec_read(in->in_value[1], 2, "size", &size));
    in->out[0] = MF_SHAPE(x->rank == 4 ? x->dims[0] : -1, size.v[0] >= 0 ? size.v[0] : -1,
                          size.v[1] >= 0 ? size.v[1] : -1, x->rank == 4 ? x->dims[3] : -1);
    return MF_OK;
}

static mf_status glimpse_run(mf_kernel *k)
{
    const mf_shape *x = &k->in[0]->shape, *o = &k->in[2]->shape;
    glimpse_job job = { .in = k->in[0],
                        .offsets = k->in[2],
                        .centered = mf_node_bool(k->node, "centered"),
                        .normalized = mf_node_bool(k->node, "normalized"),
                        .first = strcmp(k->node->op_name, "ExtractGlimpse") == 0 };
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_ivec size;

    MF_TRY(set_noise(k->node, &job.noise));
    MF_TRY(mf_ivec_read(k->in[1], 2, "size", &size));
    if (x->rank != 4 || o->rank != 2 || o->dims[1] != 2 || o->dims[0] != x->dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "input must be 4-dimensional, and offsets [batch, 2]: got %s and %s",
                       mf_shape_text(x, a), mf_shape_text(o, b));
    if (k->in[1]->shape.rank != 1 || size.n != 2 || size.v[0] < 0 || size.v[1] < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "size must be two numbers that are not negative, got %d", size.n);
    for (int d = 0; d < 2; d++) {
        job.in_size[d] = x->dims[d + 1];
        job.size[d] = size.v[d];
    }
    job.channels = x->dims[3];
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(x->dims[0], size.v[0], size.v[1], x->dims[3]), &job.out));
    if (job.out->count == 0)
        return MF_OK;
    return mf_kernel_parallel(k, x->dims[0], glimpse_piece, &job);
}

#define NO_NOISE " ; uniform_noise=false noise='zero'"
#define GLIMPSE_OP(NAME)                                                                           \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(input:float, size:int32, offsets:float) -> (glimpse:float) "                      \
               "{centered:bool=true, normalized:bool=true, uniform_noise:bool=true, "              \
               "noise:string='uniform'}",                                                          \
        .infer = glimpse_infer, .grad = mf_grad_missing, .run = glimpse_run,                       \
        .samples = MF_SAMPLES(                                                                     \
            "f32[3,7,11,2] i32[2]{2,3} f32[3,2]{0,0,0.3,0.5,-0.9,0.2}" NO_NOISE,                   \
            "f32[3,7,11,2] i32[2]{2,3} f32[3,2]{0,0,1,2,3.4,5.6}" NO_NOISE " normalized=false",    \
            "f32[2,7,11,1] i32[2]{5,9} f32[2,2]{0,0.9,-1,1}" NO_NOISE " centered=false",           \
            "f32[2,4,4,1] i32[2]{2,2} f32[2,2]{0,0,9,9} !unordered",                               \
            "f32[2,4,4,1] i32[2]{2,2} f32[2,2]{0,0,9,9} ; uniform_noise=false noise='gaussian' "   \
            "!unordered",                                                                          \
            "f32[2,4,4,1] i32[2]{2,-1} f32[2,2] !fails", "f32[4,4,1] i32[2]{2,2} f32[2,2] !fails", \
            "f32[2,4,4,1] i32[2]{2,2} f32[1,2] !fails",                                            \
            "f32[1,4,4,1] i32[2]{2,2} f32[1,2] ; noise='zero' !fails")                             \
    }

const mf_op mf_ops_glimpse[] = {
    GLIMPSE_OP("ExtractGlimpse"),
    GLIMPSE_OP("ExtractGlimpseV2"),
    { 0 },
};
