/* SPDX-License-Identifier: Apache-2.0 */
/* initializer.c - initial values of weights. */
#include "models/initializer.h"

#include <math.h>
#include <string.h>

/* ---- random numbers ---- */

enum { PHILOX = 1 }; /* TensorFlow's id of the algorithm */

static mf_output initializer_draw(const mf_initializer_call *r, const char *op)
{
    static const int64_t zeros[2];
    const mf_output counter =
        mf_applyf(r->graph, "Cast", MF_IN(mf_ints(r->graph, zeros, 2)), "DstT=uint64");

    return mf_applyf(r->graph, op,
                     MF_IN(r->dims, r->key, counter, mf_scalar(r->graph, MF_DTYPE_I32, PHILOX)),
                     "dtype=float");
}

static mf_output initializer_scaled(const mf_initializer_call *r, mf_output x, double scale,
                                    double shift)
{
    x = mf_apply(r->graph, "Mul", MF_IN(x, mf_scalar(r->graph, MF_DTYPE_F32, scale)));
    return shift == 0.0
               ? x
               : mf_apply(r->graph, "AddV2", MF_IN(x, mf_scalar(r->graph, MF_DTYPE_F32, shift)));
}

static mf_output uniform(const mf_initializer_call *r, double low, double high)
{
    return initializer_scaled(r, initializer_draw(r, "StatelessRandomUniformV2"), high - low, low);
}

static double setting(const mf_initializer_call *r, const char *name)
{
    return mf_options_float(&r->o, name);
}

static mf_output random_uniform(const mf_initializer_call *r)
{
    return uniform(r, setting(r, "minval"), setting(r, "maxval"));
}

static mf_output random_normal(const mf_initializer_call *r)
{
    return initializer_scaled(r, initializer_draw(r, "StatelessRandomNormalV2"),
                              setting(r, "stddev"), setting(r, "mean"));
}

static mf_output truncated_normal(const mf_initializer_call *r)
{
    return initializer_scaled(r, initializer_draw(r, "StatelessTruncatedNormalV2"),
                              setting(r, "stddev"), setting(r, "mean"));
}

/* ---- variance by shape ---- */

static mf_output variance_uniform(const mf_initializer_call *r, double variance)
{
    const double limit = sqrt(3.0 * variance);

    return uniform(r, -limit, limit);
}

/* Standard deviation of a normal distribution truncated at two standard deviations. */
static mf_output variance_normal(const mf_initializer_call *r, double variance)
{
    return initializer_scaled(r, initializer_draw(r, "StatelessTruncatedNormalV2"),
                              sqrt(variance) / 0.87962566103423978, 0.0);
}

static mf_output glorot_uniform(const mf_initializer_call *r)
{
    return variance_uniform(r, 2.0 / (r->fan_in + r->fan_out));
}

static mf_output glorot_normal(const mf_initializer_call *r)
{
    return variance_normal(r, 2.0 / (r->fan_in + r->fan_out));
}

static mf_output he_uniform(const mf_initializer_call *r)
{
    return variance_uniform(r, 2.0 / r->fan_in);
}

static mf_output he_normal(const mf_initializer_call *r)
{
    return variance_normal(r, 2.0 / r->fan_in);
}

static mf_output lecun_uniform(const mf_initializer_call *r)
{
    return variance_uniform(r, 1.0 / r->fan_in);
}

static mf_output lecun_normal(const mf_initializer_call *r)
{
    return variance_normal(r, 1.0 / r->fan_in);
}

/* ---- matrices ---- */

/* Enough for a condition number of a million: 1.5^35 of growth, then a few quadratically convergent
 * steps. */
enum { ORTHOGONAL_STEPS = 40 };

/* X <- 3/2 X - 1/2 X X' X moves all singular values below sqrt 3 towards 1 (Newton-Schulz) and
 * keeps the singular vectors. So a random normal matrix becomes the nearest orthogonal matrix, and
 * the distribution of directions remains uniform. */
static mf_output orthogonal(const mf_initializer_call *r)
{
    const int last = r->shape->rank - 1;
    const int64_t rows = mf_shape_span(r->shape, 0, last), cols = r->shape->dims[last];
    mf_output x = mf_apply(r->graph, "Reshape",
                           MF_IN(initializer_draw(r, "StatelessRandomNormalV2"),
                                 mf_ints(r->graph, (int64_t[]){ rows, cols }, 2)));

    x = initializer_scaled(r, x, 1.0 / (sqrt((double)rows) + sqrt((double)cols)), 0.0);
    for (int i = 0; i < ORTHOGONAL_STEPS; i++) {
        const mf_output square = mf_applyf(r->graph, "MatMul", MF_IN(x, x), "transpose_%s=true",
                                           rows <= cols ? "b" : "a");
        const mf_output cubic =
            mf_apply(r->graph, "MatMul", rows <= cols ? MF_IN(square, x) : MF_IN(x, square));

        x = mf_apply(
            r->graph, "Sub",
            MF_IN(initializer_scaled(r, x, 1.5, 0.0), initializer_scaled(r, cubic, 0.5, 0.0)));
    }
    return initializer_scaled(r, mf_apply(r->graph, "Reshape", MF_IN(x, r->dims)),
                              setting(r, "gain"), 0.0);
}

static mf_output initializer_fill(const mf_initializer_call *r, double value)
{
    return mf_apply(r->graph, "Fill", MF_IN(r->dims, mf_scalar(r->graph, MF_DTYPE_F32, value)));
}

static mf_output identity(const mf_initializer_call *r)
{
    mf_output ones = initializer_fill(r, setting(r, "gain"));
    const mf_output none = mf_scalar(r->graph, MF_DTYPE_I32, 0);

    return mf_apply(r->graph, "MatrixBandPart", MF_IN(ones, none, none));
}

static mf_output zeros(const mf_initializer_call *r)
{
    return initializer_fill(r, 0.0);
}

static mf_output ones(const mf_initializer_call *r)
{
    return initializer_fill(r, 1.0);
}

static mf_output initializer_constant(const mf_initializer_call *r)
{
    return initializer_fill(r, setting(r, "value"));
}

/* The bias of an LSTM: four gates; the second is the forget gate, whose bias starts at 1. */
static mf_output unit_forget_bias(const mf_initializer_call *r)
{
    mf_initializer_call part = *r;
    mf_output zeros_1, ones_1;
    int64_t units = r->shape->dims[0] / 4;

    part.dims = mf_ints(r->graph, &units, 1);
    zeros_1 = initializer_fill(&part, 0.0);
    ones_1 = initializer_fill(&part, 1.0);
    return mf_apply(r->graph, "ConcatV2",
                    MF_IN(zeros_1, ones_1, zeros_1, zeros_1, mf_scalar(r->graph, MF_DTYPE_I32, 0)));
}

/* ---- the table ---- */

const mf_initializer_kind mf_initializers[] = {
    { "zeros", "{}", "0", zeros },
    { "ones", "{}", "1", ones },
    { "constant", "{value: float = 0.0}", "this value", initializer_constant },
    { "random_uniform", "{minval: float = -0.05, maxval: float = 0.05}", "between two numbers",
      random_uniform },
    { "uniform", "{minval: float = -0.05, maxval: float = 0.05}", "the same", random_uniform },
    { "random_normal", "{mean: float = 0.0, stddev: float = 0.05}", "normally distributed",
      random_normal },
    { "normal", "{mean: float = 0.0, stddev: float = 0.05}", "the same", random_normal },
    { "truncated_normal", "{mean: float = 0.0, stddev: float = 0.05}",
      "normal, truncated at two standard deviations", truncated_normal },
    { "glorot_uniform", "{}", "uniform, variance 2 / (fan_in + fan_out)", glorot_uniform },
    { "glorot_normal", "{}", "truncated normal, variance 2 / (fan_in + fan_out)", glorot_normal },
    { "he_uniform", "{}", "uniform, variance 2 / fan_in", he_uniform },
    { "he_normal", "{}", "truncated normal, variance 2 / fan_in", he_normal },
    { "lecun_uniform", "{}", "uniform, variance 1 / fan_in", lecun_uniform },
    { "lecun_normal", "{}", "truncated normal, variance 1 / fan_in", lecun_normal },
    { "orthogonal", "{gain: float = 1.0}", "a random matrix of orthogonal rows or columns",
      orthogonal },
    { "unit_forget_bias", "{}", "0, and 1 for the second of four parts", unit_forget_bias },
    { "identity", "{gain: float = 1.0}", "the identity matrix", identity },
    { 0 },
};

static void find_fans(mf_initializer_call *r)
{
    double area = 1.0;
    const mf_shape *s = r->shape;

    if (s->rank < 2) {
        r->fan_in = r->fan_out = s->rank == 1 ? (double)s->dims[0] : 1.0;
        return;
    }
    for (int i = 0; i < s->rank - 2; i++)
        area *= (double)s->dims[i];
    r->fan_in = area * (double)s->dims[s->rank - 2];
    r->fan_out = area * (double)s->dims[s->rank - 1];
}

static mf_output stream_key(mf_model *m, const char *weight)
{
    const uint64_t stream = mf_hash(weight, strlen(weight), 0);
    mf_tensor t = { 0 };
    mf_output id = { 0 };

    if (mf_tensor_alloc(&t, MF_DTYPE_U64, &MF_SHAPE(1)) == MF_OK) {
        ((uint64_t *)t.data)[0] = stream;
        id = mf_constant(m->graph, &t, NULL);
    }
    mf_tensor_clear(&t);
    return mf_apply(m->graph, "BitwiseXor",
                    MF_IN(mf_applyf(m->graph, "Cast", MF_IN(m->seed), "DstT=uint64"), id));
}

static const mf_kinds kinds = { "initializer", mf_initializers, sizeof *mf_initializers };

static mf_status initializer_find(mf_model *m, const char *text, const mf_initializer_kind **out,
                                  mf_initializer_call *r)
{
    const void *row;
    const char *rest;

    MF_TRY(mf_kinds_find(&kinds, text, m->graph->arena, &row, &rest));
    *out = row;
    return mf_options_parse((*out)->name, (*out)->settings, rest, m->graph->arena, &r->o);
}

mf_output mf_initializer(mf_model *model, const char *text, const mf_shape *shape,
                         const char *weight)
{
    mf_initializer_call r = { .graph = model->graph, .shape = shape };
    const mf_initializer_kind *kind;
    mf_status st = initializer_find(model, text, &kind, &r);

    if (st == MF_OK && shape->rank < 2 && (kind->build == orthogonal || kind->build == identity))
        st = MF_FAIL(MF_INVALID_ARGUMENT, "weight '%s' is not a matrix, as %s requires", weight,
                     kind->name);
    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return (mf_output){ 0 };
    }
    find_fans(&r);
    r.dims = mf_ints(model->graph, shape->dims, shape->rank);
    r.key = stream_key(model, weight);
    /* cppcheck-suppress returnDanglingLifetime ; an output points into the graph */
    return kind->build(&r);
}
