/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - the linear part of dense layers and convolutions, with bias and activation.
 *
 * rank > 0: the kernel is the product of two smaller ones. quantize: in training, inputs and kernel
 * are rounded like bytes (FakeQuant*) and gradients pass unchanged; inference computes with bytes
 * (_Int8Product). The range of the inputs is a moving statistic. */
#include "models/layer.h"

#include <stdio.h>
#include <string.h>

#define RANGE_MOMENTUM 0.99

/* One product of a layer: the whole kernel, or one of its two factors. */
typedef struct factor {
    const mf_product *p;
    const char *kernel; /* name of the weight */
    const char *range; /* weight with the range of its inputs: "input" */
    mf_output kernel_value, bias; /* bias: empty if there is none */
    const char *activation;
} factor;

static bool is_quantised(const mf_layer_call *l)
{
    return strncmp(mf_options_string(&l->o, "quantize"), "int8", 4) == 0;
}

static bool is_observed(const mf_layer_call *l)
{
    return strcmp(mf_options_string(&l->o, "quantize"), "none") != 0;
}

static int64_t units_of(const mf_product *p)
{
    return p->kernel.dims[p->kernel.rank - 1];
}

static mf_output linear_plain(mf_layer_call *l, const mf_product *p, mf_output x, mf_output kernel)
{
    if (!p->window)
        return mf_layer_matmul(l, x, kernel, units_of(p));
    return mf_applyf(l->graph, "Conv2D", MF_IN(x, kernel), "%s", p->window);
}

static mf_output finished(mf_layer_call *l, const factor *f, mf_output y)
{
    if (f->bias.node)
        y = mf_apply(l->graph, "BiasAdd", MF_IN(y, f->bias));
    return mf_layer_activation(l, f->activation, y);
}

/* ---- ranges ---- */

typedef struct linear_range {
    mf_output low, high; /* scalars */
} linear_range;

static mf_output extreme(mf_layer_call *l, const char *reduce, const char *join, mf_output x)
{
    const int rank = mf_model_shape(l->model, x).rank;
    int64_t axes[MF_MAX_RANK];

    for (int i = 0; i < rank; i++)
        axes[i] = i;
    return mf_apply(l->graph, join,
                    MF_IN(mf_layer_reduce(l, reduce, x, axes, rank > 0 ? rank : 0, false),
                          mf_layer_number(l, 0.0)));
}

/* The range always includes zero: padding must not be rounded. */
static linear_range observe(mf_layer_call *l, const factor *f, mf_output x)
{
    char low[32], high[32];

    (void)snprintf(low, sizeof low, "%s_low", f->range);
    (void)snprintf(high, sizeof high, "%s_high", f->range);
    return (linear_range){ mf_layer_moving(l, low, &MF_SCALAR, "zeros",
                                           extreme(l, "Min", "Minimum", x), RANGE_MOMENTUM),
                           mf_layer_moving(l, high, &MF_SCALAR, "constant value=6",
                                           extreme(l, "Max", "Maximum", x), RANGE_MOMENTUM) };
}

/* ---- training ---- */

/* The kernel, rounded to 127 steps on each side of zero. */
static mf_output rounded_kernel(mf_layer_call *l, const factor *f)
{
    const bool per_channel = strcmp(mf_options_string(&l->o, "quantize"), "int8") == 0;
    const mf_output w = f->kernel_value;
    const int64_t axes[] = { 0, 1, 2, 3 };
    mf_output most = mf_layer_reduce(l, "Max", mf_apply(l->graph, "Abs", MF_IN(w)), axes,
                                     f->p->kernel.rank - per_channel, false);

    most = mf_apply(l->graph, "StopGradient", MF_IN(most));
    return mf_applyf(
        l->graph, per_channel ? "FakeQuantWithMinMaxVarsPerChannel" : "FakeQuantWithMinMaxVars",
        MF_IN(w, mf_apply(l->graph, "Neg", MF_IN(most)), most), "num_bits=8 narrow_range=true");
}

static mf_output rounded(mf_layer_call *l, const factor *f, mf_output x, const linear_range *r)
{
    x = mf_applyf(l->graph, "FakeQuantWithMinMaxVars", MF_IN(x, r->low, r->high), "num_bits=8");
    return finished(l, f, linear_plain(l, f->p, x, rounded_kernel(l, f)));
}

/* ---- inference ---- */

/* A copy of the node with other inputs and another dtype. */
static mf_output linear_twin(mf_layer_call *l, const mf_node *n, mf_output *in,
                             const char *type_attr)
{
    mf_named_attr *attrs = MF_ARENA_ARRAY(l->graph->arena, mf_named_attr, n->n_attrs);
    const char *name = mf_arena_printf(l->graph->arena, "%s/bytes", n->name);
    mf_node_spec spec = { .op = n->op_name,
                          .inputs = in,
                          .n_inputs = n->n_inputs,
                          .attrs = attrs,
                          .n_attrs = n->n_attrs };
    mf_node *made = NULL;
    mf_status st = MF_OK;

    spec.name = name ? mf_graph_unique_name(l->graph, name) : NULL;
    if (!attrs || !spec.name)
        st = MF_NOMEM("a layer");
    for (int i = 0; st == MF_OK && i < n->n_attrs; i++) {
        attrs[i] = n->attrs[i];
        if (strcmp(attrs[i].name, type_attr) == 0)
            attrs[i].value.type = MF_DTYPE_U8;
    }
    if (st == MF_OK)
        st = mf_graph_add(l->graph, &spec, &made);
    if (st != MF_OK)
        mf_graph_fail(l->graph, st);
    return (mf_output){ made, 0 };
}

enum { OUT_LOW = 7, OUT_HIGH = 8, N_INPUTS = 9 }; /* outputs and inputs of _Int8Product */

/* x as bytes of this range. If x is the result of a byte product and ops that only move values, the
 * whole chain uses bytes: rounding is monotonic, so the maximum of rounded values is the rounded
 * maximum. */
static mf_output linear_to_bytes(mf_layer_call *l, mf_output x, const linear_range *r)
{
    const mf_node *n = x.node;
    mf_output in[N_INPUTS] = { 0 };

    if (!n)
        return x;
    if (strcmp(n->op_name, "_ByMode") == 0)
        return linear_to_bytes(l, n->inputs[1], r);
    for (int i = 0; i < n->n_inputs && i < N_INPUTS; i++)
        in[i] = n->inputs[i];
    if (strcmp(n->op_name, "MaxPool") == 0 || strcmp(n->op_name, "Reshape") == 0) {
        in[0] = linear_to_bytes(l, in[0], r);
        return linear_twin(l, n, in, "T");
    }
    if (strcmp(n->op_name, "_Int8Product") == 0) {
        in[OUT_LOW] = r->low;
        in[OUT_HIGH] = r->high;
        return linear_twin(l, n, in, "Tout");
    }
    return mf_apply(l->graph, "_ToUint8", MF_IN(x, r->low, r->high));
}

static mf_output no_bias(mf_layer_call *l, const mf_product *p)
{
    const int64_t units = units_of(p);

    return mf_apply(l->graph, "Fill", MF_IN(mf_ints(l->graph, &units, 1), mf_layer_number(l, 0.0)));
}

static mf_output linear_by_bytes(mf_layer_call *l, const factor *f, mf_output x,
                                 const linear_range *r)
{
    const bool relu = strcmp(f->activation, "relu") == 0;
    const mf_shape s = mf_model_shape(l->model, x), *ks = &f->p->kernel;
    const mf_weight *w = NULL;
    char shape[MF_SHAPE_TEXT];
    mf_shape out = s;
    mf_output q, y;

    for (int64_t i = 0; i < l->model->n_weights; i++) {
        if (l->model->weights[i]->value.node == f->kernel_value.node)
            w = l->model->weights[i];
    }
    if (!w)
        return (mf_output){ 0 };
    q = mf_applyf(l->graph, "_Int8Kernel", MF_IN(w->handle), "shape=shape%s per_channel=%s",
                  mf_shape_text(ks, shape),
                  strcmp(mf_options_string(&l->o, "quantize"), "int8") == 0 ? "true" : "false");
    x = linear_to_bytes(l, x, r);
    if (!f->p->window && s.rank > 2)
        x = mf_layer_reshape(l, x, (int64_t[]){ -1, s.dims[s.rank - 1] }, 2);
    y = mf_applyf(
        l->graph, "_Int8Product",
        MF_IN(x, r->low, r->high, q, ((mf_output){ q.node, 1 }), ((mf_output){ q.node, 2 }),
              f->bias.node ? f->bias : no_bias(l, f->p), r->low, r->high),
        "Tout=float relu=%s %s", relu ? "true" : "false", f->p->window ? f->p->window : "");
    if (!f->p->window && s.rank > 2) {
        out.dims[0] = -1;
        out.dims[s.rank - 1] = units_of(f->p);
        y = mf_layer_reshape(l, y, out.dims, out.rank);
    }
    return relu ? y : mf_layer_activation(l, f->activation, y);
}

/* ---- layer ---- */

static mf_output linear_one(mf_layer_call *l, factor *f, mf_output x)
{
    linear_range r;

    f->kernel_value = mf_layer_kernel(l, f->kernel, &f->p->kernel);
    if (f->activation && mf_options_bool(&l->o, "use_bias"))
        f->bias = mf_layer_bias(l, units_of(f->p));
    if (!f->activation) /* input of the next factor */
        f->activation = "linear";
    if (!is_observed(l) || !x.node)
        return finished(l, f, linear_plain(l, f->p, x, f->kernel_value));
    r = observe(l, f, x);
    if (!is_quantised(l) || l->graph->failed)
        return finished(l, f, linear_plain(l, f->p, x, f->kernel_value));
    return mf_layer_by_mode(l, rounded(l, f, x, &r), linear_by_bytes(l, f, x, &r));
}

mf_output mf_layer_product(mf_layer_call *l, mf_output x, const mf_product *p)
{
    const int64_t rank = mf_options_int(&l->o, "rank"), units = units_of(p);
    const char *activation = mf_options_string(&l->o, "activation");
    factor whole = { .p = p, .kernel = "kernel", .range = "input", .activation = activation };
    mf_product a = *p, b = { MF_SHAPE(1, 1, rank, units), p->window ? "strides=[1,1,1,1] "
                                                                      "padding='VALID'"
                                                                    : NULL };
    factor first = { .p = &a, .kernel = "kernel_a", .range = "input" };
    factor second = { .p = &b, .kernel = "kernel_b", .range = "middle", .activation = activation };

    if (rank == 0)
        return linear_one(l, &whole, x);
    if (!p->window)
        b.kernel = MF_SHAPE(rank, units);
    a.kernel.dims[a.kernel.rank - 1] = rank;
    return linear_one(l, &second, linear_one(l, &first, x));
}
