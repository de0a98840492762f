/* SPDX-License-Identifier: Apache-2.0 */
/* simplify.c - pass: removes ops without effect on their value, and shortens chains of them.
 * Exact: only rules whose result has the same bits. (x + 0 is not one of them: -0 + 0 is 0.)
 * Gradient graphs contain many such ops: a sum over no axes and a reshape to the same shape for
 * every operand that might have been broadcast. */
#include "compiler/compiler.h"

#include <string.h>

typedef struct simplifier {
    mf_compile *c;
    mf_subst s;
} simplifier;

static mf_output simplify_none(void)
{
    return (mf_output){ 0 };
}

static const mf_shape *simplify_shape_of(const simplifier *x, mf_output o)
{
    static const mf_shape unknown = { .rank = MF_UNKNOWN_RANK };

    return o.node->id < x->c->n_facts ? &x->c->facts[o.node->id].shapes[o.port] : &unknown;
}

static const mf_tensor *simplify_value_of(const simplifier *x, mf_output o)
{
    return o.node->id < x->c->n_facts ? x->c->facts[o.node->id].values[o.port] : NULL;
}

/* The op fails if it runs; its replacement would not. */
static bool is_refused(const simplifier *x, const mf_node *n)
{
    return n->id < x->c->n_facts && x->c->facts[n->id].refused;
}

static bool simplify_is_op(const mf_node *n, const char *name)
{
    return n->op && strcmp(n->op->name, name) == 0;
}

static bool same_shape(const simplifier *x, mf_output a, mf_output b)
{
    const mf_shape *s = simplify_shape_of(x, a), *t = simplify_shape_of(x, b);

    return mf_shape_is_static(s) && mf_shape_equal(s, t);
}

/* The input itself, if it is a value: a reference must still be read at this point. */
static mf_output plain_input(const mf_node *n, int i)
{
    const mf_output in = n->inputs[i];

    return mf_type_is_ref(in.node->out_types[in.port]) ? simplify_none() : in;
}

/* ---- rules: the output that can replace the node, or none ---- */

static mf_output identity_rule(simplifier *x, mf_node *n)
{
    (void)x;
    return plain_input(n, 0);
}

/* Reshape, Squeeze, ExpandDims, BroadcastTo, Tile, EnsureShape, reductions over nothing. */
static mf_output same_shape_rule(simplifier *x, mf_node *n)
{
    return same_shape(x, (mf_output){ n, 0 }, n->inputs[0]) ? plain_input(n, 0) : simplify_none();
}

/* As above; or only dimensions of size one are removed, which is a reshape. Unknown axes may be
 * invalid. */
static mf_output reduction_rule(simplifier *x, mf_node *n)
{
    const mf_output out = { n, 0 };
    const mf_shape *from = simplify_shape_of(x, n->inputs[0]), *to = simplify_shape_of(x, out);
    int64_t dims[MF_MAX_RANK], a, b;
    mf_output shape;

    if (!simplify_value_of(x, n->inputs[1]))
        return simplify_none();
    if (same_shape(x, out, n->inputs[0]))
        return plain_input(n, 0);
    if (!mf_shape_is_static(from) || !mf_shape_is_static(to) || !plain_input(n, 0).node ||
        mf_shape_count(from, &a) != MF_OK || mf_shape_count(to, &b) != MF_OK || a != b || a == 0)
        return simplify_none();
    for (int i = 0; i < to->rank; i++) {
        if (to->dims[i] > INT32_MAX)
            return simplify_none();
        dims[i] = to->dims[i];
    }
    shape = mf_ints(x->c->graph, dims, to->rank);
    return mf_apply(x->c->graph, "Reshape", MF_IN(n->inputs[0], shape));
}

static bool same_count(const simplifier *x, mf_output a, mf_output b)
{
    const mf_shape *s = simplify_shape_of(x, a), *t = simplify_shape_of(x, b);
    int64_t n, m;

    return mf_shape_is_static(s) && mf_shape_is_static(t) && mf_shape_count(s, &n) == MF_OK &&
           mf_shape_count(t, &m) == MF_OK && n == m;
}

static mf_output reshape_rule(simplifier *x, mf_node *n)
{
    const mf_node *in = n->inputs[0].node;

    if (same_shape(x, (mf_output){ n, 0 }, n->inputs[0]))
        return plain_input(n, 0);
    /* A reshape of a reshape needs only the last shape. The inner one may fail; then the last must
     * fail as well, so both must have the same number of elements. */
    if (simplify_is_op(in, "Reshape") && in->n_controls == 0 && plain_input(in, 0).node &&
        same_count(x, (mf_output){ n, 0 }, n->inputs[0]))
        n->inputs[0] = in->inputs[0];
    return simplify_none();
}

static bool is_identity_permutation(const mf_tensor *perm)
{
    for (int64_t i = 0; perm && i < perm->count; i++) {
        if (mf_tensor_int_at(perm, i) != i)
            return false;
    }
    return perm != NULL;
}

static mf_output transpose_rule(simplifier *x, mf_node *n)
{
    const mf_tensor *perm = simplify_value_of(x, n->inputs[1]), *inner;
    const mf_node *in = n->inputs[0].node;

    if (is_identity_permutation(perm) &&
        simplify_shape_of(x, n->inputs[0])->rank == (int)perm->count)
        return plain_input(n, 0);
    if (!perm || !simplify_is_op(in, "Transpose") || in->n_controls > 0 || !plain_input(in, 0).node)
        return simplify_none();
    inner = simplify_value_of(x, in->inputs[1]);
    if (!inner || inner->count != perm->count ||
        simplify_shape_of(x, in->inputs[0])->rank !=
            (int)perm->count) /* or the inner one may fail */
        return simplify_none();
    for (int64_t i = 0; i < perm->count; i++) {
        const int64_t p = mf_tensor_int_at(perm, i);

        if (p < 0 || p >= inner->count || mf_tensor_int_at(inner, p) != i)
            return simplify_none();
    }
    return in->inputs[0];
}

static mf_output cast_rule(simplifier *x, mf_node *n)
{
    (void)x;
    return mf_node_type(n, "SrcT") == mf_node_type(n, "DstT") ? plain_input(n, 0) : simplify_none();
}

static bool is_all_ones(const mf_tensor *t)
{
    if (!t || t->count == 0 || !mf_dtype_is_plain(t->dtype) || mf_dtype_is_complex(t->dtype))
        return false;
    for (int64_t i = 0; i < t->count; i++) {
        if (mf_tensor_float_at(t, i) != 1.0)
            return false;
    }
    return true;
}

/* x * 1 and 1 * x; x / 1. */
static mf_output times_one_rule(simplifier *x, mf_node *n)
{
    const mf_output out = { n, 0 };

    if (is_all_ones(simplify_value_of(x, n->inputs[1])) && same_shape(x, out, n->inputs[0]))
        return plain_input(n, 0);
    if (simplify_is_op(n, "Mul") && is_all_ones(simplify_value_of(x, n->inputs[0])) &&
        same_shape(x, out, n->inputs[1]))
        return plain_input(n, 1);
    return simplify_none();
}

static mf_output add_n_rule(simplifier *x, mf_node *n)
{
    (void)x;
    return n->n_inputs == 1 ? plain_input(n, 0) : simplify_none();
}

/* Adding to the last dimension is adding with broadcasting, which can be fused. */
static mf_output bias_rule(simplifier *x, mf_node *n)
{
    const mf_attr *format = mf_node_attr(n, "data_format");

    if ((format && strcmp(mf_node_string(n, "data_format"), "NHWC") != 0) ||
        !mf_shape_is_static(simplify_shape_of(x, n->inputs[0])) ||
        !mf_shape_is_static(simplify_shape_of(x, n->inputs[1])) || !plain_input(n, 0).node ||
        !plain_input(n, 1).node)
        return simplify_none();
    return mf_applyf(x->c->graph, "AddV2", MF_IN(n->inputs[0], n->inputs[1]),
                     "name='%s' device='%s'", mf_graph_unique_name(x->c->graph, n->name),
                     n->device);
}

static const struct {
    const char *op;
    mf_output (*apply)(simplifier *x, mf_node *n);
} rules[] = {
    { "Identity", identity_rule },
    { "StopGradient", identity_rule },
    { "PreventGradient", identity_rule },
    { "Snapshot", identity_rule },
    { "EnsureShape", same_shape_rule },
    { "Reshape", reshape_rule },
    { "Squeeze", same_shape_rule },
    { "ExpandDims", same_shape_rule },
    { "BroadcastTo", same_shape_rule },
    { "Tile", same_shape_rule },
    { "_Rows", same_shape_rule },
    { "Sum", reduction_rule },
    { "Mean", reduction_rule },
    { "Max", reduction_rule },
    { "Min", reduction_rule },
    { "Prod", reduction_rule },
    { "Transpose", transpose_rule },
    { "Cast", cast_rule },
    { "Mul", times_one_rule },
    { "RealDiv", times_one_rule },
    { "AddN", add_n_rule },
    { "BiasAdd", bias_rule },
    { "BiasAddV1", bias_rule },
};

static mf_output simplified(simplifier *x, mf_node *n)
{
    for (int i = 0; i < MF_COUNT(rules); i++) {
        if (strcmp(rules[i].op, n->op->name) == 0)
            return rules[i].apply(x, n);
    }
    return simplify_none();
}

static mf_status simplify_all(simplifier *x, mf_node *const *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        mf_node *node = order[i];
        mf_output to;

        /* A node with control inputs must stay before its result. */
        if (!node->op || node->n_controls > 0 || node->n_outputs != 1 || node->n_inputs == 0 ||
            is_refused(x, node))
            continue;
        for (int k = 0; k < node->n_inputs; k++)
            node->inputs[k] = mf_subst_resolve(&x->s, node->inputs[k]);
        to = simplified(x, node);
        if (to.node)
            MF_TRY(mf_subst_add(&x->s, x->c, (mf_output){ node, 0 }, to));
    }
    return mf_graph_status(x->c->graph);
}

mf_status mf_pass_simplify(mf_compile *c)
{
    simplifier x = { .c = c };
    mf_node **order = NULL;
    int64_t n;
    mf_status st = mf_infer_graph(c);

    if (st == MF_OK)
        st = mf_compile_order(c, &order, &n);
    if (st == MF_OK)
        st = mf_subst_init(&x.s, c);
    if (st == MF_OK)
        st = simplify_all(&x, order, n);
    if (st == MF_OK)
        st = mf_subst_apply(&x.s, c);
    mf_subst_deinit(&x.s);
    mf_free(order);
    return st;
}
