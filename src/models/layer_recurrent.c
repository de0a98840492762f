/* SPDX-License-Identifier: Apache-2.0 */
/* layer_recurrent.c - recurrent layers over sequences [n,t,c]. The recurrence is unrolled: the ops
 * of a step are in the graph once for every t, with known shapes, and are planned and fused like
 * all others, which the body of a loop is not. So sequences should have at most a few hundred
 * steps. The inputs of all steps are multiplied by the kernel in one product before the first step.
 */
#include "models/layer.h"

enum { LONGEST = 1024 };

typedef struct cell {
    mf_layer_call *l;
    int64_t units;
    const char *activation, *recurrent_activation;
    mf_output recurrent; /* kernel */
    mf_output recurrent_bias; /* GRU's; may be empty */
    mf_output h, c; /* state; empty (zero) before the first step */
} cell;

/* One step: from x, the input times the kernel plus bias, to the next state. */
typedef void step_fn(cell *k, mf_output x);

static mf_output layer_recurrent_two(const cell *k, const char *op, mf_output a, mf_output b)
{
    return mf_apply(k->l->graph, op, MF_IN(a, b));
}

/* ---- cells ---- */

/* x + h R, if there is a state. */
static mf_output with_state(const cell *k, mf_output x)
{
    return k->h.node ? layer_recurrent_two(k, "AddV2", x,
                                           layer_recurrent_two(k, "MatMul", k->h, k->recurrent))
                     : x;
}

static void gates(const cell *k, mf_output x, int n, mf_output *out)
{
    const mf_output split = mf_applyf(
        k->l->graph, "Split", MF_IN(mf_scalar(k->l->graph, MF_DTYPE_I32, 1), x), "num_split=%d", n);

    for (int i = 0; i < n; i++)
        out[i] = (mf_output){ split.node, split.node ? i : 0 };
}

static mf_output active(const cell *k, mf_output x)
{
    return mf_layer_activation(k->l, k->activation, x);
}

static mf_output gate(const cell *k, mf_output x)
{
    return mf_layer_activation(k->l, k->recurrent_activation, x);
}

static void simple_step(cell *k, mf_output x)
{
    k->h = active(k, with_state(k, x));
}

/* Input, forget, candidate and output gate, in this order. */
static void lstm_step(cell *k, mf_output x)
{
    mf_output z[4], in;

    gates(k, with_state(k, x), 4, z);
    in = layer_recurrent_two(k, "Mul", gate(k, z[0]), active(k, z[2]));
    k->c = k->c.node ? layer_recurrent_two(k, "AddV2",
                                           layer_recurrent_two(k, "Mul", gate(k, z[1]), k->c), in)
                     : in;
    k->h = layer_recurrent_two(k, "Mul", gate(k, z[3]), active(k, k->c));
}

/* Update, reset and candidate gate; reset is applied after the product (Keras's reset_after). */
static void gru_step(cell *k, mf_output x)
{
    mf_output a[3], b[3], z, candidate, state = { 0 };

    gates(k, x, 3, a);
    if (k->h.node)
        state = layer_recurrent_two(k, "MatMul", k->h, k->recurrent);
    if (k->recurrent_bias.node)
        state = state.node ? layer_recurrent_two(k, "AddV2", state, k->recurrent_bias)
                           : k->recurrent_bias;
    if (!state.node) { /* first step without bias: the term is zero */
        z = gate(k, a[0]);
        candidate = active(k, a[2]);
    } else {
        gates(k, state, 3, b);
        z = gate(k, layer_recurrent_two(k, "AddV2", a[0], b[0]));
        candidate = layer_recurrent_two(k, "Mul",
                                        gate(k, layer_recurrent_two(k, "AddV2", a[1], b[1])), b[2]);
        candidate = active(k, layer_recurrent_two(k, "AddV2", a[2], candidate));
    }
    if (k->h.node) /* candidate + z (h - candidate) */
        k->h = layer_recurrent_two(
            k, "AddV2", candidate,
            layer_recurrent_two(k, "Mul", z, layer_recurrent_two(k, "Sub", k->h, candidate)));
    else
        k->h = layer_recurrent_two(
            k, "Mul", layer_recurrent_two(k, "Sub", mf_layer_number(k->l, 1.0), z), candidate);
}

/* ---- unrolling ---- */

static mf_output layer_recurrent_unpack(mf_layer_call *l, mf_output x, int64_t n, int axis)
{
    return mf_applyf(l->graph, "Unpack", MF_IN(x), "num=%lld axis=%d", (long long)n, axis);
}

static mf_output pack_steps(mf_layer_call *l, const mf_output *steps)
{
    return mf_applyf(l->graph, "Pack", steps, "axis=1");
}

static mf_output layer_recurrent_walk(cell *k, mf_output x, step_fn *step)
{
    mf_layer_call *l = k->l;
    const int64_t n = l->shape.dims[1];
    const bool all = mf_options_bool(&l->o, "return_sequences");
    const bool backwards = mf_options_bool(&l->o, "go_backwards");
    mf_output *steps = MF_ARENA_ARRAY(l->graph->arena, mf_output, n + 1);

    x = layer_recurrent_unpack(l, x, n, 1);
    if (!steps || !x.node)
        return steps ? x : mf_layer_fail(l, "out of memory");
    for (int64_t t = 0; t < n; t++) {
        step(k, (mf_output){ x.node, (int)(backwards ? n - 1 - t : t) });
        steps[t] = k->h;
    }
    steps[n] = (mf_output)MF_END;
    return all ? pack_steps(l, steps) : k->h;
}

/* kernel [c,g*u], recurrent_kernel [u,g*u] and bias, under the name of the cell. */
static mf_output layer_recurrent_build(mf_layer_call *l, const char *name, int64_t n_gates,
                                       const char *bias, const mf_shape *bias_shape, step_fn *step)
{
    const int64_t units = mf_options_int(&l->o, "units"), wide = n_gates * units;
    mf_arena *arena = l->graph->arena;
    cell k = { .l = l,
               .units = units,
               .activation = mf_options_string(&l->o, "activation"),
               .recurrent_activation =
                   n_gates > 1 ? mf_options_string(&l->o, "recurrent_activation") : "" };
    mf_output x, b;

    if (l->shape.dims[1] < 1 || l->shape.dims[1] > LONGEST)
        return mf_layer_fail(l,
                             "sequences must have 1 to %d steps, but have %lld; cut them, or "
                             "shorten them by Conv1D with strides",
                             LONGEST, (long long)l->shape.dims[1]);
    x = mf_layer_kernel(l, mf_arena_printf(arena, "%s/kernel", name),
                        &MF_SHAPE(l->shape.dims[2], wide));
    x = mf_layer_matmul(l, l->in[0], x, wide);
    k.recurrent =
        mf_layer_weight(l, mf_arena_printf(arena, "%s/recurrent_kernel", name),
                        &MF_SHAPE(units, wide), mf_options_string(&l->o, "recurrent_initializer"));
    if (mf_options_bool(&l->o, "use_bias")) {
        b = mf_layer_weight(l, mf_arena_printf(arena, "%s/bias", name), bias_shape, bias);
        if (bias_shape->rank == 2) { /* GRU: one of the input, one of the state */
            k.recurrent_bias = mf_apply(l->graph, "Slice",
                                        MF_IN(b, mf_ints(l->graph, (int64_t[]){ 1, 0 }, 2),
                                              mf_ints(l->graph, (int64_t[]){ 1, wide }, 2)));
            b = layer_recurrent_unpack(l, b, 2, 0);
        }
        x = mf_apply(l->graph, "BiasAdd", MF_IN(x, b));
    }
    return layer_recurrent_walk(&k, x, step);
}

static mf_output simple_build(mf_layer_call *l)
{
    return layer_recurrent_build(l, "simple_rnn_cell", 1,
                                 mf_options_string(&l->o, "bias_initializer"),
                                 &MF_SHAPE(mf_options_int(&l->o, "units")), simple_step);
}

static mf_output layer_recurrent_lstm_build(mf_layer_call *l)
{
    const bool forget = mf_options_bool(&l->o, "unit_forget_bias");

    return layer_recurrent_build(l, "lstm_cell", 4,
                                 forget ? "unit_forget_bias"
                                        : mf_options_string(&l->o, "bias_initializer"),
                                 &MF_SHAPE(4 * mf_options_int(&l->o, "units")), lstm_step);
}

static mf_output gru_build(mf_layer_call *l)
{
    return layer_recurrent_build(l, "gru_cell", 3, mf_options_string(&l->o, "bias_initializer"),
                                 &MF_SHAPE(2, 3 * mf_options_int(&l->o, "units")), gru_step);
}

/* ---- the table ---- */

#define WALK                                                                                       \
    "units: int >= 1, return_sequences: bool = false, go_backwards: bool = false, "                \
    "use_bias: bool = true, activation: string = 'tanh', "                                         \
    "recurrent_initializer: string = 'orthogonal', " MF_KERNEL_SETTINGS
#define GATES ", recurrent_activation: string = 'sigmoid'"

const mf_layer_kind mf_layers_recurrent[] = {
    { "SimpleRNN", "{" WALK "}", 1, 1, 3, "state = activation(input and state)", simple_build },
    { "LSTM", "{" WALK GATES ", unit_forget_bias: bool = true}", 1, 1, 3, "long short-term memory",
      layer_recurrent_lstm_build },
    { "GRU", "{" WALK GATES "}", 1, 1, 3, "gated recurrent unit (reset_after)", gru_build },
    { 0 },
};
