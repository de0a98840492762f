/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate_op.c - aggregates the gradients of shards in other ways than by their mean. */
#include "base/mem.h"
#include "collective/gradient_aggregation.h"
#include "graph/split.h"
#include "ops/math/math_util.h"

#include <string.h>

typedef struct aggregate_state {
    mf_aggregation how;
    double *factor; /* by input: factor from a share of the batch's mean to the shard's mean */
    int64_t n;
} aggregate_state;

static mf_status aggregate_prepare(mf_prepare *p)
{
    aggregate_state *s = MF_ARENA_NEW(p->arena, aggregate_state);
    int64_t total = 0;
    const int64_t *samples;

    if (!s)
        return MF_NOMEM("gradients");
    samples = mf_node_ints(p->node, "samples", &s->n);
    s->how.trim = (double)mf_node_float(p->node, "trim");
    s->factor = MF_ARENA_ARRAY(p->arena, double, s->n);
    if (!s->factor)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; i < s->n; i++) {
        if (samples[i] < 1 || !mf_add_i64(total, samples[i], &total))
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: shard %lld has %lld samples",
                           p->node->name, (long long)i, (long long)samples[i]);
    }
    for (int64_t i = 0; i < s->n; i++)
        s->factor[i] = (double)total / (double)samples[i];
    if (!mf_aggregate_find(mf_node_string(p->node, "how"), &s->how.how) ||
        !(s->how.trim >= 0.0 && s->how.trim < 0.5) || s->n != p->node->n_inputs)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: trim must be from 0 on and below 0.5, and samples have a "
                       "number for each input",
                       p->node->name);
    p->state = s;
    return MF_OK;
}

static mf_status aggregate_op_check_shapes(const mf_kernel *k)
{
    for (int i = 1; i < k->n_in; i++) {
        if (!mf_shape_equal(&k->in[0]->shape, &k->in[i]->shape))
            return MF_FAIL(MF_INVALID_ARGUMENT, "gradients of shards have different shapes");
    }
    return MF_OK;
}

/* Adasum works in place. */
static mf_status aggregate_op_adasum(const mf_kernel *k, const aggregate_state *s, float *out)
{
    const int64_t count = k->in[0]->count;
    int64_t room;
    float *copies = mf_mul_i64(s->n, count, &room) ? mf_calloc(room, sizeof *copies) : NULL;
    float **x = mf_calloc(s->n, sizeof *x);
    const mf_status st = copies && x ? MF_OK : MF_NOMEM("gradients");

    for (int64_t i = 0; st == MF_OK && i < s->n; i++) {
        x[i] = copies + i * count;
        memcpy(x[i], k->in[i]->data, (size_t)count * sizeof *copies);
    }
    if (st == MF_OK) {
        mf_aggregate_adasum(x, s->factor, s->n, count);
        memcpy(out, x[0], (size_t)count * sizeof *out);
    }
    mf_free(x);
    mf_free(copies);
    return st;
}

static mf_status aggregate_run(mf_kernel *k)
{
    const aggregate_state *s = k->state;
    const float **x;
    mf_tensor *out;
    mf_status st;

    MF_TRY(aggregate_op_check_shapes(k));
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    if (out->count == 0)
        return MF_OK;
    if (s->how.how == MF_AGGREGATE_ADASUM)
        return aggregate_op_adasum(k, s, out->data);
    x = mf_calloc(s->n, sizeof *x);
    if (!x)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; i < s->n; i++)
        x[i] = k->in[i]->data;
    st = mf_aggregate_robust(&s->how, x, s->factor, s->n, out->count, out->data);
    mf_free(x);
    return st;
}

/* Adasum needs whole gradients. */
static void aggregate_split(mf_split *s)
{
    if (strcmp(mf_node_string(s->node, "how"), "adasum") != 0)
        mf_split_elementwise(s);
}

const mf_op mf_ops_aggregate[] = {
    /* Each input is a shard's share of the mean gradient of a batch; `samples` has the size of each
     * shard. trim: see collective/gradient_aggregation.h. */
    { .name = "_AggregateShards",
      .def =
          "(inputs:N*T) -> (y:T) {N:int>=1, T:type in [float], "
          "how:string in ['trimmed_mean','median','adasum'], trim:float=0, samples:list(int)>=1}",
      .infer = mf_same_shape_infer,
      .grad = mf_grad_missing,
      .prepare = aggregate_prepare,
      .run = aggregate_run,
      .split = aggregate_split,
      .samples = MF_SAMPLES("f32[2,3] f32[2,3] f32[2,3] ; how='median' samples=[2,2,3]",
                            "f32[70] f32[70] ; how='trimmed_mean' trim=0.3 samples=[1,1]",
                            "f32[9] f32[9] f32[9] ; how='adasum' samples=[3,4,4]",
                            "f32[] ; how='median' samples=[1]",
                            "f32[0] f32[0] ; how='adasum' samples=[1,1]",
                            "f32[2] f32[3] ; how='median' samples=[1,1] !fails",
                            "f32[2] f32[2] ; how='median' samples=[1] !fails",
                            "f32[2] f32[2] ; how='median' samples=[1,0] !fails",
                            "f32[2] f32[2] ; how='trimmed_mean' trim=0.5 samples=[1,1] !fails") },
    { 0 },
};
