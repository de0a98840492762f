/* SPDX-License-Identifier: Apache-2.0 */
/* lower_grappler_ops.c - reverts rewrites of a TensorFlow master's optimizer: fused ops,
 * compositions, and switches with many outputs become the client's original ops. Our passes then
 * fuse them again where useful. */
#include "compiler/inline.h"

#include <string.h>

enum { INPUTS_MAX = 5, ATTRS_MAX = 10 };

typedef struct lower_grappler_ops_lowering {
    mf_compile *c;
    mf_node *n;
} lower_grappler_ops_lowering;

static bool is(mf_bytes s, const char *name)
{
    return s.len == strlen(name) && memcmp(s.data, name, s.len) == 0;
}

/* Every new node waits for the node's control inputs: its inputs may all be constants. */
static mf_status lower_grappler_ops_add(const lower_grappler_ops_lowering *l, const char *op,
                                        const mf_output *in, int n_in, const mf_named_attr *attrs,
                                        int n_attrs, mf_output *out)
{
    mf_node *node;

    MF_TRY(mf_inline_node(l->c, l->n->name, op, in, n_in, attrs, n_attrs, &node));
    for (int i = 0; i < l->n->n_controls; i++)
        mf_control(l->c->graph, node, l->n->controls[i]);
    *out = (mf_output){ node, 0 };
    return mf_graph_status(l->c->graph);
}

/* Selects the node's attributes that the op has, too; names: NULL-terminated. */
static int lower_grappler_ops_pick(const mf_node *n, const char *const *names, mf_named_attr *out)
{
    int count = 0;

    for (int i = 0; names[i]; i++) {
        const mf_attr *a = mf_node_attr(n, names[i]);

        if (a)
            out[count++] = (mf_named_attr){ names[i], *a };
    }
    return count;
}

/* The arguments not used by a fused op yet. */
typedef struct spare {
    const mf_output *args;
    int n;
} spare;

static mf_status lower_grappler_ops_take(const lower_grappler_ops_lowering *l, spare *s, int n,
                                         mf_output *out)
{
    if (s->n < n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: %s has too few arguments", l->n->name,
                       l->n->op_name);
    memcpy(out, s->args, (size_t)n * sizeof *out);
    s->args += n;
    s->n -= n;
    return MF_OK;
}

/* ---- fused ops ---- */

static mf_named_attr string_attr(const char *name, const char *value)
{
    return (mf_named_attr){
        name, { .kind = MF_ATTR_STRING, .n = 1, .s = { .data = value, .len = strlen(value) } }
    };
}

static mf_status add_bias(const lower_grappler_ops_lowering *l, spare *s, mf_output *x)
{
    const char *format = mf_node_string(l->n, "data_format");
    const mf_named_attr a =
        string_attr("data_format", format[0] == 'N' && format[1] == 'C' ? "NCHW" : "NHWC");
    mf_output in[2] = { *x };

    MF_TRY(lower_grappler_ops_take(l, s, 1, in + 1));
    return lower_grappler_ops_add(l, "BiasAdd", in, 2, &a, 1, x);
}

static mf_status normalize(const lower_grappler_ops_lowering *l, spare *s, mf_output *x)
{
    static const char *const same[] = { "epsilon", "data_format", NULL };
    mf_named_attr attrs[ATTRS_MAX];
    mf_output in[INPUTS_MAX] = { *x };
    int n = lower_grappler_ops_pick(l->n, same, attrs);

    attrs[n++] = (mf_named_attr){ "is_training", { .kind = MF_ATTR_BOOL, .n = 1, .b = false } };
    MF_TRY(lower_grappler_ops_take(l, s, INPUTS_MAX - 1, in + 1));
    return lower_grappler_ops_add(l, "FusedBatchNormV3", in, INPUTS_MAX, attrs, n, x);
}

/* ---- activations ---- */

/* A formula over one value; after the first error it adds no nodes. */
typedef struct formula {
    const lower_grappler_ops_lowering *l;
    mf_dtype type;
    mf_status st;
} formula;

static formula lower_grappler_ops_begin(const lower_grappler_ops_lowering *l, mf_output x)
{
    return (formula){ l, mf_type_base(x.node->out_types[x.port]), MF_OK };
}

static mf_output lower_grappler_ops_apply(formula *f, const char *op, mf_output a)
{
    mf_output out = { 0 };

    if (f->st == MF_OK)
        f->st = lower_grappler_ops_add(f->l, op, &a, 1, NULL, 0, &out);
    return out;
}

static mf_output lower_grappler_ops_combine(formula *f, const char *op, mf_output a, mf_output b)
{
    const mf_output in[] = { a, b };
    mf_output out = { 0 };

    if (f->st == MF_OK)
        f->st = lower_grappler_ops_add(f->l, op, in, 2, NULL, 0, &out);
    return out;
}

static mf_output lower_grappler_ops_scale(formula *f, mf_output x, double by)
{
    return lower_grappler_ops_combine(f, "Mul", x, mf_scalar(f->l->c->graph, f->type, by));
}

static mf_output lower_grappler_ops_plus(formula *f, mf_output x, double more)
{
    return lower_grappler_ops_combine(f, "AddV2", x, mf_scalar(f->l->c->graph, f->type, more));
}

static mf_output gelu_exact(formula *f, mf_output x)
{
    return lower_grappler_ops_combine(
        f, "Mul", lower_grappler_ops_scale(f, x, 0.5),
        lower_grappler_ops_plus(
            f,
            lower_grappler_ops_apply(f, "Erf", lower_grappler_ops_scale(f, x, 0.70710678118654752)),
            1));
}

static mf_output lower_grappler_ops_gelu_approximate(formula *f, mf_output x)
{
    const mf_output cube =
        lower_grappler_ops_combine(f, "Mul", lower_grappler_ops_apply(f, "Square", x), x);
    const mf_output inner = lower_grappler_ops_scale(
        f, lower_grappler_ops_combine(f, "AddV2", x, lower_grappler_ops_scale(f, cube, 0.044715)),
        0.79788456080286536);

    return lower_grappler_ops_combine(
        f, "Mul", lower_grappler_ops_scale(f, x, 0.5),
        lower_grappler_ops_plus(f, lower_grappler_ops_apply(f, "Tanh", inner), 1));
}

static mf_output hard_swish(formula *f, mf_output x)
{
    return lower_grappler_ops_scale(
        f,
        lower_grappler_ops_combine(
            f, "Mul", x, lower_grappler_ops_apply(f, "Relu6", lower_grappler_ops_plus(f, x, 3))),
        1.0 / 6);
}

static mf_output lower_grappler_ops_swish(formula *f, mf_output x)
{
    return lower_grappler_ops_combine(f, "Mul", x, lower_grappler_ops_apply(f, "Sigmoid", x));
}

static mf_output mish(formula *f, mf_output x)
{
    return lower_grappler_ops_combine(
        f, "Mul", x,
        lower_grappler_ops_apply(f, "Tanh", lower_grappler_ops_apply(f, "Softplus", x)));
}

typedef mf_output activation(formula *f, mf_output x);

static mf_status lower_grappler_ops_compute(const lower_grappler_ops_lowering *l, activation *fn,
                                            mf_output *x)
{
    formula f = lower_grappler_ops_begin(l, *x);

    *x = fn(&f, *x);
    return f.st;
}

static mf_status activate(const lower_grappler_ops_lowering *l, mf_bytes name, mf_output *x)
{
    static const char *const plain[] = { "Relu", "Relu6", "Elu", "Tanh", "Sigmoid" };
    static const struct {
        const char *name;
        activation *fn;
    } formulas[] = { { "GeluExact", gelu_exact },
                     { "GeluApproximate", lower_grappler_ops_gelu_approximate },
                     { "_FusedHardSwish", hard_swish },
                     { "_MklSwish", lower_grappler_ops_swish },
                     { "Mish", mish },
                     { "_MklFusedMish", mish } };

    if (is(name, "LeakyRelu")) {
        const mf_attr *alpha = mf_node_attr(l->n, "leakyrelu_alpha");
        const mf_named_attr a = { "alpha", alpha ? *alpha : (mf_attr){ 0 } };

        return lower_grappler_ops_add(l, "LeakyRelu", x, 1, &a, alpha != NULL, x);
    }
    for (int i = 0; i < MF_COUNT(plain); i++) {
        if (is(name, plain[i]))
            return lower_grappler_ops_add(l, plain[i], x, 1, NULL, 0, x);
    }
    for (int i = 0; i < MF_COUNT(formulas); i++) {
        if (is(name, formulas[i].name))
            return lower_grappler_ops_compute(l, formulas[i].fn, x);
    }
    return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: %s with '%.*s' is not supported", l->n->name,
                   l->n->op_name, (int)name.len, name.data);
}

/* ---- products and convolutions ---- */

/* "Add" or "Mul" with the next argument. */
static mf_status lower_grappler_ops_join(const lower_grappler_ops_lowering *l, spare *s,
                                         const char *op, mf_output *x)
{
    mf_output in[2] = { *x };

    MF_TRY(lower_grappler_ops_take(l, s, 1, in + 1));
    return lower_grappler_ops_add(l, op, in, 2, NULL, 0, x);
}

static mf_status apply_fused(const lower_grappler_ops_lowering *l, spare *s, mf_output *x)
{
    const mf_attr *ops = mf_node_list(l->n, "fused_ops", MF_ATTR_STRING);

    for (int64_t i = 0; ops && i < ops->n; i++) {
        const mf_bytes name = ops->strings[i];

        if (is(name, "BiasAdd"))
            MF_TRY(add_bias(l, s, x));
        else if (is(name, "FusedBatchNorm"))
            MF_TRY(normalize(l, s, x));
        else if (is(name, "Add"))
            MF_TRY(lower_grappler_ops_join(l, s, "AddV2", x));
        else if (is(name, "Mul"))
            MF_TRY(lower_grappler_ops_join(l, s, "Mul", x));
        else
            MF_TRY(activate(l, name, x));
    }
    return MF_OK;
}

/* A product or a convolution, and its fused epilogue. */
static mf_status lower_fused(const lower_grappler_ops_lowering *l, const char *op, mf_output *outs)
{
    static const char *const same[] = { "transpose_a", "transpose_b",       "adj_x",
                                        "adj_y",       "strides",           "padding",
                                        "dilations",   "explicit_paddings", "data_format",
                                        NULL };
    mf_named_attr attrs[ATTRS_MAX];
    spare s = { l->n->inputs + 2, l->n->n_inputs - 2 };

    MF_TRY(lower_grappler_ops_add(l, op, l->n->inputs, 2, attrs,
                                  lower_grappler_ops_pick(l->n, same, attrs), &outs[0]));
    return apply_fused(l, &s, &outs[0]);
}

/* ---- other ops ---- */

static mf_status lower_norm(const lower_grappler_ops_lowering *l, mf_output *outs)
{
    static const char *const same[] = { "epsilon", "exponential_avg_factor", "data_format",
                                        "is_training", NULL };
    const char *mode = mf_node_string(l->n, "activation_mode");
    mf_named_attr attrs[ATTRS_MAX];
    mf_output y;

    MF_TRY(lower_grappler_ops_add(l, "FusedBatchNormV3", l->n->inputs, INPUTS_MAX, attrs,
                                  lower_grappler_ops_pick(l->n, same, attrs), &y));
    for (int i = 0; i < l->n->n_outputs; i++)
        outs[i] = (mf_output){ y.node, i };
    if (l->n->n_inputs > INPUTS_MAX)
        MF_TRY(lower_grappler_ops_add(
            l, "AddV2", (mf_output[]){ outs[0], l->n->inputs[INPUTS_MAX] }, 2, NULL, 0, &outs[0]));
    if (strcmp(mode, "Identity") == 0)
        return MF_OK;
    return activate(l, (mf_bytes){ .data = mode, .len = strlen(mode) }, &outs[0]);
}

static mf_output lower_grappler_ops_mean(formula *f, mf_output x)
{
    const mf_named_attr keep = { "keep_dims", { .kind = MF_ATTR_BOOL, .n = 1, .b = true } };
    const mf_output in[] = { x, mf_scalar(f->l->c->graph, MF_DTYPE_I32, -1) };
    mf_output out = { 0 };

    if (f->st == MF_OK)
        f->st = lower_grappler_ops_add(f->l, "Mean", in, 2, &keep, 1, &out);
    return out;
}

static mf_status lower_layer_norm(const lower_grappler_ops_lowering *l, mf_output *outs)
{
    const mf_output *in = l->n->inputs;
    formula f = lower_grappler_ops_begin(l, in[0]);
    const mf_output far =
        lower_grappler_ops_combine(&f, "Sub", in[0], lower_grappler_ops_mean(&f, in[0]));
    const mf_output by = lower_grappler_ops_apply(
        &f, "Rsqrt",
        lower_grappler_ops_plus(
            &f, lower_grappler_ops_mean(&f, lower_grappler_ops_apply(&f, "Square", far)),
            (double)mf_node_float(l->n, "epsilon")));

    outs[0] = lower_grappler_ops_combine(
        &f, "AddV2",
        lower_grappler_ops_combine(&f, "Mul", lower_grappler_ops_combine(&f, "Mul", far, by),
                                   in[1]),
        in[2]);
    return f.st;
}

static mf_status lower_composition(const lower_grappler_ops_lowering *l, mf_output *outs)
{
    const mf_attr *ops = mf_node_list(l->n, "op_names", MF_ATTR_STRING);

    MF_TRY(lower_grappler_ops_add(l, "Identity", l->n->inputs, 1, NULL, 0, &outs[0]));
    for (int64_t i = 0; ops && i < ops->n; i++) {
        const char *op = mf_arena_printf(l->c->graph->arena, "%.*s", (int)ops->strings[i].len,
                                         ops->strings[i].data);

        if (!op)
            return MF_NOMEM("lowering");
        MF_TRY(lower_grappler_ops_add(l, op, &outs[0], 1, NULL, 0, &outs[0]));
    }
    return MF_OK;
}

static mf_status lower_hash(const lower_grappler_ops_lowering *l, mf_output *outs)
{
    static const char *const same[] = { "num_buckets", NULL };
    mf_named_attr attrs[ATTRS_MAX];
    mf_output text;

    MF_TRY(lower_grappler_ops_add(l, "AsString", l->n->inputs, 1, NULL, 0, &text));
    return lower_grappler_ops_add(l, "StringToHashBucketFast", &text, 1, attrs,
                                  lower_grappler_ops_pick(l->n, same, attrs), &outs[0]);
}

/* A chain: output k if the index is k, else the rest. An index out of range selects the last one.
 */
static mf_status lower_switch(const lower_grappler_ops_lowering *l, mf_output *outs, mf_node **done)
{
    const mf_output index = l->n->inputs[1];
    mf_output rest;

    MF_TRY(lower_grappler_ops_add(l, "Identity", l->n->inputs, 1, NULL, 0, &rest));
    *done = rest.node;
    for (int k = 0; k + 1 < l->n->n_outputs; k++) {
        const mf_output which = mf_scalar(l->c->graph, MF_DTYPE_I32, (double)k);
        mf_output here, sides;

        MF_TRY(mf_graph_status(l->c->graph));
        MF_TRY(
            lower_grappler_ops_add(l, "Equal", (mf_output[]){ index, which }, 2, NULL, 0, &here));
        MF_TRY(
            lower_grappler_ops_add(l, "Switch", (mf_output[]){ rest, here }, 2, NULL, 0, &sides));
        outs[k] = (mf_output){ sides.node, 1 };
        rest = sides;
    }
    outs[l->n->n_outputs - 1] = rest;
    return MF_OK;
}

static mf_status lower_computing(const lower_grappler_ops_lowering *l, mf_output *outs)
{
    static const struct {
        const char *fused, *op;
    } pairs[] = { { "_FusedMatMul", "MatMul" },
                  { "_FusedConv2D", "Conv2D" },
                  { "_FusedConv3D", "Conv3D" },
                  { "_FusedDepthwiseConv2dNative", "DepthwiseConv2dNative" },
                  { "_MklFusedBatchMatMulV2", "BatchMatMulV2" } };
    const char *op = l->n->op_name;

    for (int i = 0; i < MF_COUNT(pairs); i++) {
        if (strcmp(op, pairs[i].fused) == 0)
            return lower_fused(l, pairs[i].op, outs);
    }
    if (strcmp(op, "_FusedBatchNormEx") == 0)
        return lower_norm(l, outs);
    if (strcmp(op, "_UnaryOpsComposition") == 0)
        return lower_composition(l, outs);
    if (strcmp(op, "_TensorToHashBucketFast") == 0)
        return lower_hash(l, outs);
    if (strcmp(op, "_MklLayerNorm") == 0)
        return lower_layer_norm(l, outs);
    if (strncmp(op, "_Mkl", 4) == 0) {
        outs[0] = l->n->inputs[0];
        return activate(l, (mf_bytes){ .data = op, .len = strlen(op) }, &outs[0]);
    }
    return MF_FAIL(MF_UNIMPLEMENTED, "op %s cannot be inlined ({{node %s}})", op, l->n->name);
}

mf_status mf_lower_rewritten(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    const lower_grappler_ops_lowering l = { c, n };

    if (strcmp(n->op_name, "_SwitchN") == 0)
        return lower_switch(&l, outs, done);
    MF_TRY(lower_computing(&l, outs));
    *done = outs[0].node;
    return MF_OK;
}
