/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_maxima.c - pass: a maximum pooling with a gradient also stores, as one byte per result,
 * which element of its window is the maximum. The gradient then reads these bytes instead of the
 * image, and includes a ReluGrad of the same image, which only matters at the maxima.
 * Exact. Only for windows that do not overlap: each element then has at most one gradient. */
#include "compiler/compiler.h"

#include <string.h>

enum { MOST_TAPS = 255 };

typedef struct taps_pass {
    mf_compile *c;
    mf_subst s;
    int *uses; /* by node id */
} taps_pass;

static bool taps_is_op(const mf_node *n, const char *name)
{
    return n->op && strcmp(n->op->name, name) == 0 && n->n_controls == 0;
}

static bool taps_is_output(mf_output o, const mf_node *n, int port)
{
    return o.node == n && o.port == port;
}

/* Windows of at most MOST_TAPS elements that do not overlap, over images of a known shape. */
static bool taps_fit(const taps_pass *t, const mf_node *pool)
{
    const mf_dtype type = pool->out_types[0];
    const mf_shape *x;
    int64_t n, m, taps = 1;
    const int64_t *size = mf_node_ints(pool, "ksize", &n);
    const int64_t *stride = mf_node_ints(pool, "strides", &m);

    if ((type != MF_DTYPE_F32 && type != MF_DTYPE_BF16) || n != 4 || m != 4 ||
        strcmp(mf_node_string(pool, "data_format"), "NHWC") != 0 || mf_node_attr(pool, "_pad") ||
        pool->id >= t->c->n_facts || pool->inputs[0].node->id >= t->c->n_facts)
        return false;
    x = &mf_compile_facts(t->c, pool->inputs[0].node)->shapes[pool->inputs[0].port];
    for (int d = 0; d < 4; d++) {
        if (size[d] > stride[d] || (size[d] > 1 && (d == 0 || d == 3)) || size[d] > MOST_TAPS)
            return false;
        taps *= size[d];
    }
    return taps <= MOST_TAPS && mf_shape_is_static(x);
}

static bool taps_is_gradient(const mf_node *grad, const mf_node *pool)
{
    return taps_is_op(grad, "MaxPoolGrad") && !mf_node_attr(grad, "_crop") &&
           taps_is_output(grad->inputs[0], pool->inputs[0].node, pool->inputs[0].port) &&
           taps_is_output(grad->inputs[1], pool, 0);
}

/* A node with the attributes of the pooling's window. */
static mf_status taps_node(const taps_pass *t, const mf_node *like, const char *op,
                           const mf_output *inputs, int n_inputs, const mf_named_attr *more,
                           int n_more, mf_node **out)
{
    static const char *const shared[] = { "T",       "ksize",       "strides",
                                          "padding", "data_format", "explicit_paddings" };
    mf_named_attr attrs[MF_COUNT(shared) + 2];
    mf_node_spec spec = { .op = op,
                          .name = mf_graph_unique_name(t->c->graph, like->name),
                          .device = like->device,
                          .inputs = inputs,
                          .n_inputs = n_inputs,
                          .attrs = attrs };

    for (int i = 0; i < MF_COUNT(shared); i++) {
        const mf_attr *a = mf_node_attr(like, shared[i]);

        if (a)
            attrs[spec.n_attrs++] = (mf_named_attr){ shared[i], *a };
    }
    for (int i = 0; i < n_more; i++)
        attrs[spec.n_attrs++] = more[i];
    return mf_graph_add(t->c->graph, &spec, out);
}

/* The only user of the gradient, if it is a ReluGrad of the image. */
static mf_node *relu_of(const taps_pass *t, mf_node *const *order, int64_t n, const mf_node *grad)
{
    for (int64_t i = 0; t->uses[grad->id] == 1 && i < n; i++) {
        if (taps_is_op(order[i], "ReluGrad") && taps_is_output(order[i]->inputs[0], grad, 0) &&
            taps_is_output(order[i]->inputs[1], grad->inputs[0].node, grad->inputs[0].port))
            return order[i];
    }
    return NULL;
}

static mf_status replace_gradient(taps_pass *t, mf_node *const *order, int64_t n, mf_node *grad,
                                  mf_node *pool)
{
    const mf_output x = grad->inputs[0];
    const mf_shape *shape = &mf_compile_facts(t->c, x.node)->shapes[x.port];
    mf_node *relu = relu_of(t, order, n, grad), *to;
    mf_attr sizes = { .kind = MF_ATTR_INT, .is_list = true, .n = shape->rank };
    const mf_attr with_relu = { .kind = MF_ATTR_BOOL, .n = 1, .b = relu != NULL };

    sizes.ints = MF_ARENA_ARRAY(t->c->graph->arena, int64_t, shape->rank);
    if (!sizes.ints)
        return MF_NOMEM("compiling");
    memcpy(sizes.ints, shape->dims, (size_t)shape->rank * sizeof *sizes.ints);
    MF_TRY(taps_node(t, grad, "_MaxPoolGradTaps",
                     (const mf_output[]){ { pool, 1 }, { pool, 0 }, grad->inputs[2] }, 3,
                     (const mf_named_attr[]){ { "image", sizes }, { "relu", with_relu } }, 2, &to));
    return mf_subst_add(&t->s, t->c, (mf_output){ relu ? relu : grad, 0 }, (mf_output){ to, 0 });
}

static mf_status replace_pooling(taps_pass *t, mf_node *const *order, int64_t n, mf_node *pool)
{
    mf_node *to = NULL;

    for (int64_t i = 0; i < n; i++) {
        if (!taps_is_gradient(order[i], pool))
            continue;
        if (!to) {
            MF_TRY(taps_node(t, pool, "_MaxPoolTaps", pool->inputs, 1, NULL, 0, &to));
            MF_TRY(mf_subst_add(&t->s, t->c, (mf_output){ pool, 0 }, (mf_output){ to, 0 }));
        }
        MF_TRY(replace_gradient(t, order, n, order[i], to));
    }
    return MF_OK;
}

static void taps_count_uses(taps_pass *t)
{
    for (int64_t i = 0; i < t->c->graph->n_nodes; i++) {
        const mf_node *n = t->c->graph->nodes[i];

        for (int k = 0; k < n->n_inputs && !n->removed; k++)
            t->uses[n->inputs[k].node->id]++;
        for (int k = 0; k < n->n_controls && !n->removed; k++)
            t->uses[n->controls[k]->id] += 2;
    }
    for (int i = 0; i < t->c->n_targets; i++)
        t->uses[t->c->targets[i]->id] += 2;
}

mf_status mf_pass_pooling(mf_compile *c)
{
    taps_pass t = { .c = c };
    mf_node **order = NULL;
    int64_t n = 0;
    mf_status st = mf_infer_graph(c);

    t.uses = mf_calloc(c->graph->n_nodes, sizeof *t.uses);
    if (st == MF_OK && !t.uses)
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = mf_compile_order(c, &order, &n);
    if (st == MF_OK)
        st = mf_subst_init(&t.s, c);
    if (st == MF_OK)
        taps_count_uses(&t);
    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        if (taps_is_op(order[i], "MaxPool") && taps_fit(&t, order[i]))
            st = replace_pooling(&t, order, n, order[i]);
    }
    if (st == MF_OK)
        st = mf_subst_apply(&t.s, c);
    mf_subst_deinit(&t.s);
    mf_free(order);
    mf_free(t.uses);
    return st;
}
