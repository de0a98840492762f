/* SPDX-License-Identifier: Apache-2.0 */
/* layer_experts.c - a mixture of experts as in Mesh TensorFlow: each position of a sequence is
 * routed to the one or two experts with the largest gates, as long as they have capacity.
 *
 * Dimensions, named as in the einsums: n samples, t positions, w width, e experts, c positions per
 * expert and sample (capacity), h hidden units. Positions compete only within their sample, so
 * samples are independent: results do not depend on shards or batches.
 *
 * All ops can be split on a mesh. If samples and experts are split along one axis, the change of
 * [e,n,c,w] from a split of n to a split of e is an all-to-all. If two letters could be split along
 * an axis, propagation takes the first in the alphabet: samples are called b instead of n in
 * dispatch and combine, so that these are split by samples. */
#include "models/layer.h"

#include <math.h>

typedef struct gating {
    mf_layer_call *l;
    int64_t experts, capacity;
    mf_output dispatch; /* [n,t,e,c]: 1 where position t has slot c of expert e */
    mf_output combine; /* the same, times the gate */
} gating;

static mf_output layer_experts_two(const gating *g, const char *op, mf_output a, mf_output b)
{
    return mf_apply(g->l->graph, op, MF_IN(a, b));
}

static mf_output layer_experts_over(const gating *g, const char *op, mf_output x, int64_t axis,
                                    bool keep)
{
    return mf_layer_reduce(g->l, op, x, &axis, 1, keep);
}

static mf_output layer_experts_expand(const gating *g, mf_output x, int axis)
{
    return layer_experts_two(g, "ExpandDims", x, mf_scalar(g->l->graph, MF_DTYPE_I32, axis));
}

static mf_output layer_experts_one_hot(const gating *g, mf_output index, int64_t n)
{
    return mf_apply(g->l->graph, "OneHot",
                    MF_IN(index, mf_scalar(g->l->graph, MF_DTYPE_I32, (double)n),
                          mf_layer_number(g->l, 1), mf_layer_number(g->l, 0)));
}

/* 1 for the expert with the largest score. */
static mf_output top_expert(const gating *g, mf_output scores)
{
    const mf_output last = mf_scalar(g->l->graph, MF_DTYPE_I32, 2);

    return layer_experts_one_hot(
        g, mf_applyf(g->l->graph, "ArgMax", MF_IN(scores, last), "output_type=int32"), g->experts);
}

/* For each expert, the number of earlier positions that chose it. */
static mf_output queue(const gating *g, mf_output choice)
{
    return mf_applyf(g->l->graph, "Cumsum", MF_IN(choice, mf_scalar(g->l->graph, MF_DTYPE_I32, 1)),
                     "exclusive=true");
}

/* The choices within the capacity. */
static mf_output with_room(const gating *g, mf_output choice, mf_output ahead)
{
    const mf_output room =
        layer_experts_two(g, "Less", ahead, mf_layer_number(g->l, (double)g->capacity));

    return layer_experts_two(g, "Mul", choice,
                             mf_applyf(g->l->graph, "Cast", MF_IN(room), "DstT=float"));
}

static mf_output layer_experts_sum_of(const gating *g, mf_output a, mf_output b)
{
    return a.node ? layer_experts_two(g, "AddV2", a, b) : b;
}

/* choice [n,t,e] within the capacity, gate [n,t]. */
static void add_choice(gating *g, mf_output choice, mf_output ahead, mf_output gate)
{
    const mf_output at =
        layer_experts_over(g, "Sum", layer_experts_two(g, "Mul", ahead, choice), 2, false);
    const mf_output place = layer_experts_expand(
        g,
        layer_experts_one_hot(g, mf_applyf(g->l->graph, "Cast", MF_IN(at), "DstT=int32"),
                              g->capacity),
        2);
    const mf_output weighed = layer_experts_two(g, "Mul", choice, layer_experts_expand(g, gate, 2));

    g->dispatch = layer_experts_sum_of(
        g, g->dispatch, layer_experts_two(g, "Mul", layer_experts_expand(g, choice, 3), place));
    g->combine = layer_experts_sum_of(
        g, g->combine, layer_experts_two(g, "Mul", layer_experts_expand(g, weighed, 3), place));
}

/* The load balancing loss: large if the experts that are chosen often also have large gates; 1 if
 * the load is uniform. */
static void add_balance(const gating *g, mf_output gates, mf_output choice)
{
    const double weight = mf_options_float(&g->l->o, "balance") * (double)g->experts;
    const mf_output both =
        layer_experts_two(g, "Mul", layer_experts_over(g, "Mean", gates, 1, false),
                          layer_experts_over(g, "Mean", choice, 1, false));

    if (weight > 0)
        mf_layer_add_loss(g->l,
                          layer_experts_two(g, "Mul", layer_experts_over(g, "Sum", both, 1, false),
                                            mf_layer_number(g->l, weight)));
}

/* Second choices are placed after all first choices, and both gates add up to one. */
static void add_choices(gating *g, mf_output gates, int64_t top)
{
    const mf_output first = top_expert(g, gates), ahead = queue(g, first);
    const mf_output carried = with_room(g, first, ahead);
    mf_output gate =
        layer_experts_over(g, "Sum", layer_experts_two(g, "Mul", gates, first), 2, false);

    add_balance(g, gates, first);
    if (top == 2) {
        const mf_output rest = layer_experts_two(
            g, "Mul", gates, layer_experts_two(g, "Sub", mf_layer_number(g->l, 1), first));
        const mf_output second = top_expert(g, rest);
        const mf_output behind = layer_experts_two(g, "AddV2", queue(g, second),
                                                   layer_experts_over(g, "Sum", carried, 1, true));
        const mf_output gate2 =
            layer_experts_over(g, "Sum", layer_experts_two(g, "Mul", rest, second), 2, false);
        const mf_output both = layer_experts_two(
            g, "AddV2", layer_experts_two(g, "AddV2", gate, gate2), mf_layer_number(g->l, 1e-9));

        gate = layer_experts_two(g, "RealDiv", gate, both);
        add_choice(g, with_room(g, second, behind), behind,
                   layer_experts_two(g, "RealDiv", gate2, both));
    }
    add_choice(g, carried, ahead, gate);
}

static mf_output einsum(const gating *g, const char *equation, mf_output a, mf_output b)
{
    return mf_applyf(g->l->graph, "Einsum", MF_IN(a, b), "equation='%s'", equation);
}

/* One matrix per expert; default: Glorot uniform for each of them. */
static mf_output expert_kernel(mf_layer_call *l, const char *what, const mf_shape *shape,
                               const char *dims)
{
    const char *given = mf_options_string(&l->o, "kernel_initializer");
    const double limit = sqrt(6.0 / (double)(shape->dims[1] + shape->dims[2]));
    mf_output kernel;

    if (given[0] == '\0')
        given = mf_arena_printf(l->graph->arena, "random_uniform minval=%.9g maxval=%.9g", -limit,
                                limit);
    kernel = mf_layer_weight(l, what, shape, given ? given : "zeros");
    mf_layer_name_dims(l, dims);
    return kernel;
}

static mf_output experts_build(mf_layer_call *l)
{
    const int64_t top = mf_options_int(&l->o, "top"), places = l->shape.dims[1],
                  width = l->shape.dims[2], units = mf_options_int(&l->o, "units");
    gating g = { .l = l, .experts = mf_options_int(&l->o, "experts") };
    const double room = ceil(mf_options_float(&l->o, "capacity_factor") * (double)(top * places) /
                             (double)g.experts);
    mf_output kernel, x;

    if (l->shape.rank != 3)
        return mf_layer_fail(l, "the input must be sequences [n,t,c]");
    if (top > 2 || top > g.experts)
        return mf_layer_fail(l, "top=%lld: a position is routed to 1 or 2 of %lld experts",
                             (long long)top, (long long)g.experts);
    if (!(room >= 1))
        return mf_layer_fail(l, "capacity_factor must be positive");
    g.capacity = room < (double)places ? (int64_t)room : places;
    kernel = mf_layer_weight(l, "gate/kernel", &MF_SHAPE(width, g.experts), "glorot_uniform");
    mf_layer_name_dims(l, ",gates"); /* the gate is replicated: every device routes to all experts
                                      */
    add_choices(
        &g, mf_apply(l->graph, "Softmax", MF_IN(mf_layer_matmul(l, l->in[0], kernel, g.experts))),
        top);
    x = einsum(&g, "btw,btec->ebcw", l->in[0], g.dispatch);
    kernel = expert_kernel(l, "experts/kernel1", &MF_SHAPE(g.experts, width, units), "experts,,ff");
    x = mf_layer_activation(l, mf_options_string(&l->o, "activation"),
                            einsum(&g, "encw,ewh->ench", x, kernel));
    kernel = expert_kernel(l, "experts/kernel2", &MF_SHAPE(g.experts, units, width), "experts,ff,");
    x = einsum(&g, "ench,ehw->encw", x, kernel);
    return einsum(&g, "ebcw,btec->btw", x, g.combine);
}

const mf_layer_kind mf_layers_experts[] = {
    { "MixtureOfExperts",
      "{experts: int >= 1, units: int >= 1, top: int >= 1 = 2, capacity_factor: float = 1.25, "
      "balance: float = 0.01, activation: string = 'relu', kernel_initializer: string = ''}",
      1, 1, 3,
      "routes each position of a sequence to the one or two experts that its gate "
      "chooses",
      experts_build },
    { 0 },
};
