/* SPDX-License-Identifier: Apache-2.0 */
/* sample_uniform.c - the op _SampleUniform: random numbers of the samples of a batch (for dropout);
 * a sample's numbers do not depend on how the batch is split into shards. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/random/random_util.h"

typedef struct uniform_job {
    float *out;
    int64_t row; /* elements of a sample */
    uint64_t seed, step, stream, offset;
} uniform_job;

/* Key: the seed. Counter: block of the sample, index of the sample in the batch, step, and stream:
 * all 32 bits wide except the stream, which is mixed into the key. */
static void uniform_sample(void *ctx, int64_t i)
{
    const uniform_job *job = ctx;
    const uint64_t key = job->seed ^ job->stream;
    mf_philox gen = { .counter = { 0, (uint32_t)(job->offset + (uint64_t)i), (uint32_t)job->step,
                                   (uint32_t)(job->step >> 32) },
                      .key = { (uint32_t)key, (uint32_t)(key >> 32) } };
    mf_random_draw draw = { .gen = gen, .used = 4 };
    float *out = job->out + i * job->row;

    for (int64_t e = 0; e < job->row; e++)
        out[e] = (float)(mf_random_u32(&draw) >> 8) * 0x1p-24f;
}

static mf_status uniform_run(mf_kernel *k)
{
    const mf_shape *shape = &k->in[0]->shape;
    const int64_t *clock = k->in[1]->data;
    const uniform_job *fixed = k->state;
    uniform_job job = *fixed;
    mf_tensor *out;

    if (k->in[1]->count < 2 || k->in[1]->count > 3 || shape->rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "clock must be a vector of seed, step and (if not 0) the batch's first "
                       "sample, and samples the first dimension of `like`");
    MF_TRY(mf_kernel_out(k, 0, shape, &out));
    if (out->count == 0)
        return MF_OK;
    job.out = out->data;
    job.row = out->count / shape->dims[0];
    job.seed = (uint64_t)clock[0];
    job.step = (uint64_t)clock[1];
    if (k->in[1]->count == 3)
        job.offset += (uint64_t)clock[2];
    return mf_kernel_parallel(k, shape->dims[0], uniform_sample, &job);
}

static mf_status uniform_prepare(mf_prepare *p)
{
    uniform_job *job = MF_ARENA_NEW(p->arena, uniform_job);

    if (!job)
        return MF_NOMEM("random numbers");
    job->stream = (uint64_t)mf_node_int(p->node, "stream");
    job->offset = (uint64_t)mf_node_int(p->node, "offset");
    p->state = job;
    return MF_OK;
}

static mf_status uniform_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    in->out[0] = in->in[0];
    return MF_OK;
}

/* A sample's numbers depend on its index. */
static void uniform_split(mf_split *s)
{
    mf_split_through(s, 0, 0, 0);
    s->offset_attr = "offset";
    s->offset_letter = 0;
}

/* Uniform in [0,1): a function of seed, step, stream, the sample's index in the batch (its row plus
 * the offset of its shard plus clock[2], the number of samples of earlier workers) and the element.
 */
const mf_op mf_op_sample_uniform = {
    .name = "_SampleUniform",
    .rows = mf_rows_first,
    .def = "(like:T, clock:int64) -> (output:float) {T:type, stream:int, offset:int=0}",
    .infer = uniform_infer,
    .grad = mf_grad_none,
    .prepare = uniform_prepare,
    .run = uniform_run,
    .split = uniform_split,
    .samples =
        MF_SAMPLES("f32[3,5]~ i64[2]{7,9} ; stream=3", "f32[2]~ i64[2]{7,9} ; stream=3 offset=4",
                   "f32[3,5]~ i64[3]{7,9,100} ; stream=3", "f32[2]~ i64[1]{7} !fails"),
};
