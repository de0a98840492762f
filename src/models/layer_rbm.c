/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rbm.c - a restricted Boltzmann machine, trained by contrastive divergence (Hinton 2002) or
 * with persistent chains (Tieleman 2008).
 *
 * Values v and hidden units h have the energy -(v b + h c + v W h), so the free energy of v is
 *
 *     F(v) = -v b - sum over hidden units of log(1 + exp(c + v W))
 *
 * The gradient of F(data) - F(end of the chain), with the end of the chain held constant, is that
 * of contrastive divergence. So the difference is a loss, and training needs no special code. */
#include "models/layer.h"

typedef struct layer_rbm_machine {
    mf_layer_call *l;
    mf_output kernel, visible, hidden; /* [v,h], [v], [h] */
    int64_t draws; /* number of random draws so far */
} layer_rbm_machine;

static mf_output layer_rbm_two(const layer_rbm_machine *m, const char *op, mf_output a, mf_output b)
{
    return mf_apply(m->l->graph, op, MF_IN(a, b));
}

static mf_output layer_rbm_over_last(const layer_rbm_machine *m, const char *op, mf_output x)
{
    const int64_t last = 1;

    return mf_layer_reduce(m->l, op, x, &last, 1, false);
}

/* Input of the hidden units, or of the visible units. */
static mf_output to_hidden(const layer_rbm_machine *m, mf_output v)
{
    return layer_rbm_two(m, "BiasAdd", layer_rbm_two(m, "MatMul", v, m->kernel), m->hidden);
}

static mf_output to_visible(const layer_rbm_machine *m, mf_output h)
{
    const mf_output x = mf_applyf(m->l->graph, "MatMul", MF_IN(h, m->kernel), "transpose_b=true");

    return layer_rbm_two(m, "BiasAdd", x, m->visible);
}

static mf_output unit_probability(const layer_rbm_machine *m, mf_output x)
{
    return mf_apply(m->l->graph, "Sigmoid", MF_IN(x));
}

/* 1 with probability sigmoid(x), otherwise 0. */
static mf_output drawn(layer_rbm_machine *m, mf_output x)
{
    const mf_output p = unit_probability(m, x), u = mf_layer_uniforms(m->l, p, ++m->draws);

    return mf_applyf(m->l->graph, "Cast", MF_IN(layer_rbm_two(m, "Less", u, p)), "DstT=float");
}

static mf_output free_energy(const layer_rbm_machine *m, mf_output v)
{
    const mf_output soft = mf_apply(m->l->graph, "Softplus", MF_IN(to_hidden(m, v)));
    const mf_output sum = layer_rbm_two(
        m, "AddV2", layer_rbm_over_last(m, "Sum", layer_rbm_two(m, "Mul", v, m->visible)),
        layer_rbm_over_last(m, "Sum", soft));

    return mf_apply(m->l->graph, "Neg", MF_IN(sum));
}

static mf_output layer_rbm_walk(layer_rbm_machine *m, mf_output v, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        v = drawn(m, to_visible(m, drawn(m, to_hidden(m, v))));
    return mf_apply(m->l->graph, "StopGradient", MF_IN(v));
}

static mf_output layer_rbm_build(mf_layer_call *l)
{
    const int64_t width = l->shape.dims[l->shape.rank - 1], units = mf_options_int(&l->o, "units"),
                  chains = mf_options_int(&l->o, "chains"), steps = mf_options_int(&l->o, "k");
    const mf_output v = l->in[0];
    mf_output start = v, end, again, loss;
    layer_rbm_machine m = { .l = l };

    if (l->shape.rank != 2)
        return mf_layer_fail(l, "its input must be rows of numbers, [n,width]; add Flatten "
                                "before it");
    m.kernel = mf_layer_kernel(l, "kernel", &MF_SHAPE(width, units));
    m.visible = mf_layer_weight(l, "visible_bias", &MF_SHAPE(width), "zeros");
    m.hidden = mf_layer_weight(l, "hidden_bias", &MF_SHAPE(units), "zeros");
    if (chains > 0)
        start = mf_layer_kept(l, "chains", &MF_SHAPE(chains, width),
                              "random_uniform minval=0.0 maxval=1.0", v);
    end = layer_rbm_walk(&m, start, steps);
    if (chains > 0)
        mf_layer_keep(l, "chains", end);
    again = unit_probability(&m, to_visible(&m, unit_probability(&m, to_hidden(&m, v))));
    loss = mf_layer_by_mode(l, free_energy(&m, end), free_energy(&m, again));
    mf_layer_add_loss(l, layer_rbm_two(&m, "Sub", free_energy(&m, v), loss));
    return layer_rbm_over_last(&m, "Mean", layer_rbm_two(&m, "SquaredDifference", v, again));
}

const mf_layer_kind mf_layers_rbm[] = {
    { "RBM",
      "{units: int >= 1, k: int >= 1 = 1, chains: int >= 0 = 0, "
      "kernel_initializer: string = 'random_normal stddev=0.01', l1: float = 0.0, l2: float = 0.0}",
      1, 1, 2,
      "restricted Boltzmann machine: outputs the reconstruction error of each sample, adds the "
      "loss of contrastive divergence with k steps; chains: number of persistent chains",
      layer_rbm_build },
    { 0 },
};
