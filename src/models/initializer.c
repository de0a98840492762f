/* SPDX-License-Identifier: Apache-2.0 */
/* initializer.c - first values of weights. */
#include "models/initializer.h"

#include <math.h>
#include <string.h>

typedef struct request {
    mf_graph *graph;
    const mf_shape *shape;
    mf_output dims; /* the shape as a constant */
    mf_output key; /* of the random stream */
    double fan_in, fan_out;
    mf_options o;
} request;

typedef struct initializer {
    const char *name; /* Keras's */
    const char *settings;
    mf_output (*build)(const request *r);
} initializer;

/* ---- random numbers ---- */

enum { PHILOX = 1 }; /* TensorFlow's number of the algorithm */

static mf_output draw(const request *r, const char *op)
{
    static const int64_t zeros[2];
    const mf_output counter =
        mf_applyf(r->graph, "Cast", MF_IN(mf_ints(r->graph, zeros, 2)), "DstT=uint64");

    return mf_applyf(r->graph, op,
                     MF_IN(r->dims, r->key, counter, mf_scalar(r->graph, MF_DTYPE_I32, PHILOX)),
                     "dtype=float");
}

static mf_output scaled(const request *r, mf_output x, double scale, double shift)
{
    x = mf_apply(r->graph, "Mul", MF_IN(x, mf_scalar(r->graph, MF_DTYPE_F32, scale)));
    return shift == 0.0
               ? x
               : mf_apply(r->graph, "AddV2", MF_IN(x, mf_scalar(r->graph, MF_DTYPE_F32, shift)));
}

static mf_output uniform(const request *r, double low, double high)
{
    return scaled(r, draw(r, "StatelessRandomUniformV2"), high - low, low);
}

/* ---- the table ---- */

static mf_output fill(const request *r, double value)
{
    return mf_apply(r->graph, "Fill", MF_IN(r->dims, mf_scalar(r->graph, MF_DTYPE_F32, value)));
}

static mf_output zeros_build(const request *r)
{
    return fill(r, 0.0);
}

static mf_output ones_build(const request *r)
{
    return fill(r, 1.0);
}

static mf_output glorot_uniform_build(const request *r)
{
    const double limit = sqrt(6.0 / (r->fan_in + r->fan_out));

    return uniform(r, -limit, limit);
}

static const initializer initializers[] = {
    { "zeros", "{}", zeros_build },
    { "ones", "{}", ones_build },
    { "glorot_uniform", "{}", glorot_uniform_build },
};

/* Of a kernel: the numbers that meet in one output, and that one input goes into. */
static void find_fans(request *r)
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

mf_output mf_initializer(mf_model *model, const char *text, const mf_shape *shape,
                         const char *weight)
{
    request r = { .graph = model->graph, .shape = shape };
    const char *head, *rest;
    mf_status st = mf_options_head(text, model->graph->arena, &head, &rest);

    if (st != MF_OK) {
        mf_graph_fail(model->graph, st);
        return (mf_output){ 0 };
    }
    for (int i = 0; i < MF_COUNT(initializers); i++) {
        if (strcmp(initializers[i].name, head) != 0)
            continue;
        st = mf_options_parse(head, initializers[i].settings, rest, model->graph->arena, &r.o);
        if (st != MF_OK)
            break;
        find_fans(&r);
        r.dims = mf_ints(model->graph, shape->dims, shape->rank);
        r.key = stream_key(model, weight);
        return initializers[i].build(&r);
    }
    if (st == MF_OK)
        st = MF_FAIL(MF_NOT_FOUND, "there is no initializer '%.60s'", head);
    mf_graph_fail(model->graph, st);
    return (mf_output){ 0 };
}
