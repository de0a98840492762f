/* SPDX-License-Identifier: Apache-2.0 */
/* sampler.c - candidate samplers, with TensorFlow's random streams. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/random/random_util.h"

#include <math.h>
#include <sleef.h>
#include <string.h>

/* TensorFlow reserves this many 32-bit numbers per sample. */
enum { NUMBERS_PER_SAMPLE = 2048 };

typedef struct sampling {
    int64_t range, n;
    bool unique, log;
    mf_random_draw draw;
} sampling;

static bool is_log(const mf_node *node)
{
    return strncmp(node->op_name, "Log", 3) == 0;
}

static uint64_t u64(mf_random_draw *d)
{
    const uint64_t low = mf_random_u32(d);

    return low | (uint64_t)mf_random_u32(d) << 32;
}

/* Uniform in [0, range): draws below the remainder are rejected. */
static int64_t draw_uniform(sampling *s)
{
    const uint64_t n = (uint64_t)s->range, rest = UINT64_MAX % n + 1;
    uint64_t x;

    if ((n & (n - 1)) == 0)
        return (int64_t)(u64(&s->draw) & (n - 1));
    do {
        x = u64(&s->draw);
    } while (x < rest);
    return (int64_t)(x % n);
}

static int64_t draw_one(sampling *s)
{
    uint32_t high;
    double x;

    if (!s->log)
        return draw_uniform(s);
    high = mf_random_u32(&s->draw);
    x = mf_random_to_double(high, mf_random_u32(&s->draw));
    return ((int64_t)Sleef_exp_u10(x * Sleef_log1p_u10((double)s->range)) - 1) % s->range;
}

/* The expected number of draws of a class; if duplicates were rejected, the probability of at least
 * one. */
static double sampler_expected(const sampling *s, int64_t id, int64_t tries)
{
    const double p = s->log ? Sleef_log_u10((double)(id + 2) / (double)(id + 1)) /
                                  Sleef_log1p_u10((double)s->range)
                            : 1.0 / (double)s->range;
    const float chance = (float)p;

    return tries == s->n ? (double)(chance * (float)s->n)
                         : -Sleef_expm1_u10((double)tries * Sleef_log1p_u10(-(double)chance));
}

static bool seen(const int64_t *ids, int64_t n, int64_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Fills `ids`; *tries: the number of draws. */
static mf_status draw_all(sampling *s, int64_t *ids, int64_t *tries)
{
    *tries = 0;
    for (int64_t n = 0; n < s->n; ++*tries) {
        const int64_t id = draw_one(s);

        MF_TRY(mf_stop_after(20 + (s->unique ? n : 0)));
        if (!s->unique || !seen(ids, n, id))
            ids[n++] = id;
    }
    return MF_OK;
}

static mf_status sampler_infer(mf_infer *in)
{
    const int64_t n = mf_node_int(in->node, "num_sampled");

    MF_TRY(mf_infer_rank(in, 0, 2));
    in->out[0] = in->out[2] = MF_SHAPE(n);
    in->out[1] =
        MF_SHAPE(in->in[0].rank == 2 ? in->in[0].dims[0] : -1, mf_node_int(in->node, "num_true"));
    return MF_OK;
}

static mf_status sampler_check(const mf_kernel *k, const sampling *s)
{
    const mf_shape *truth = &k->in[0]->shape;
    const int64_t per_row = mf_node_int(k->node, "num_true");
    char text[MF_SHAPE_TEXT];

    if (truth->rank != 2 || truth->dims[1] != per_row)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "true_classes must have num_true = %" PRId64 " columns, got shape %s",
                       per_row, mf_shape_text(truth, text));
    if (s->unique && s->n > s->range)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Sampler's range is too small: %" PRId64 " different of %" PRId64 " classes",
                       s->n, s->range);
    for (int64_t i = 0; i < k->in[0]->count; i++) {
        const int64_t id = ((const int64_t *)k->in[0]->data)[i];

        if (id < 0 || id >= s->range)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "`true_candidate` out of range [0, %" PRId64 "), got %" PRId64, s->range,
                           id);
    }
    return MF_OK;
}

static mf_status sampler_run(mf_kernel *k)
{
    sampling s = { .range = mf_node_int(k->node, "range_max"),
                   .n = mf_node_int(k->node, "num_sampled"),
                   .unique = mf_node_bool(k->node, "unique"),
                   .log = is_log(k->node),
                   .draw.used = 4 };
    mf_tensor *ids, *of_true, *of_sampled;
    int64_t tries;

    MF_TRY(sampler_check(k, &s));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s.n), &ids));
    MF_TRY(mf_kernel_out(k, 1, &k->in[0]->shape, &of_true));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(s.n), &of_sampled));
    s.draw.gen = mf_random_reserve(k, (uint64_t)s.n * NUMBERS_PER_SAMPLE / 4);
    MF_TRY(draw_all(&s, ids->data, &tries));
    for (int64_t i = 0; i < of_true->count; i++)
        mf_tensor_put(of_true, i, sampler_expected(&s, mf_index_at(k->in[0], i), tries));
    for (int64_t i = 0; i < s.n; i++)
        mf_tensor_put(of_sampled, i, sampler_expected(&s, mf_index_at(ids, i), tries));
    return MF_OK;
}

#define SAMPLER_OP(NAME)                                                                           \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(true_classes:int64) -> (sampled_candidates:int64, true_expected_count:float, "    \
               "sampled_expected_count:float) {num_true:int>=1, num_sampled:int>=1, unique:bool, " \
               "range_max:int>=1, seed:int=0, seed2:int=0} is_stateful",                           \
        .infer = sampler_infer, .grad = mf_grad_none, .prepare = mf_random_prepare,                \
        .release = mf_random_release, .run = sampler_run,                                          \
        .samples = MF_SAMPLES(                                                                     \
            "i64[2,2]{1,2,5,0} ; num_true=2 num_sampled=6 unique=true range_max=20 seed=3 "        \
            "seed2=7",                                                                             \
            "i64[1,1]{7} ; num_true=1 num_sampled=9 unique=false range_max=8 seed=1 seed2=1",      \
            "i64[3,1]{900,0,5} ; num_true=1 num_sampled=40 unique=false range_max=1000 seed=5 "    \
            "seed2=9",                                                                             \
            "i64[0,1] ; num_true=1 num_sampled=5 unique=true range_max=5 seed=2 seed2=2",          \
            "i64[1,1]{7} ; num_true=1 num_sampled=9 unique=true range_max=8 seed=1 seed2=1 "       \
            "!fails",                                                                              \
            "i64[1,2] ; num_true=1 num_sampled=2 unique=true range_max=8 seed=1 seed2=1 !fails")   \
    }

const mf_op mf_ops_sampler[] = {
    SAMPLER_OP("LogUniformCandidateSampler"),
    SAMPLER_OP("UniformCandidateSampler"),
    { 0 },
};
