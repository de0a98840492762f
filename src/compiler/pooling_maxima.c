/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_maxima.c - pass: a maximum pooling with a gradient also stores, as one byte per result,
 * which element of its window is the maximum. The gradient then reads these bytes instead of the
 * image, and includes a ReluGrad of the same image, which only matters at the maxima.
 * Exact. Only for windows that do not overlap: each element then has at most one gradient. */
#include "compiler/compiler.h"

#include <string.h>

enum { MOST_TAPS = 255 };

typedef struct taps_use {
    int n; /* uses of a node, also by control edges and targets */
    mf_node *by; /* one user */
} taps_use;

typedef struct taps_pass {
    mf_compile *c;
    mf_subst s;
    int64_t n; /* nodes when the pass began */
    taps_use *uses; /* by node id */
    mf_node **becomes; /* by node id: the pooling that replaces this one; or NULL */
} taps_pass;

static bool taps_is_op(const mf_node *n, const char *name)
{
    return n->op && strcmp(n->op->name, name) == 0 && n->n_controls == 0;
}

static bool taps_same(mf_output a, mf_output b)
{
    return a.node == b.node && a.port == b.port;
}

/* Windows of at most MOST_TAPS elements that do not overlap, over images of a known shape. */
static bool taps_fit(const taps_pass *t, const mf_node *pool)
{
    const mf_dtype type = pool->out_types[0];
    int64_t n, m, taps = 1;
    const int64_t *size = mf_node_ints(pool, "ksize", &n);
    const int64_t *stride = mf_node_ints(pool, "strides", &m);
    const mf_output x = pool->inputs[0];

    if ((type != MF_DTYPE_F32 && type != MF_DTYPE_BF16) || n != 4 || m != 4 ||
        strcmp(mf_node_string(pool, "data_format"), "NHWC") != 0 || mf_node_attr(pool, "_pad") ||
        x.node->id >= t->c->n_facts)
        return false;
    for (int d = 0; d < 4; d++) {
        if (size[d] > stride[d] || (size[d] > 1 && (d == 0 || d == 3)) || size[d] > MOST_TAPS)
            return false;
        taps *= size[d];
    }
    return taps <= MOST_TAPS && mf_shape_is_static(&mf_compile_facts(t->c, x.node)->shapes[x.port]);
}

static bool taps_same_ints(const mf_node *a, const mf_node *b, const char *name)
{
    int64_t n, m;
    const int64_t *x = mf_node_ints(a, name, &n), *y = mf_node_ints(b, name, &m);

    return n == m && (n == 0 || memcmp(x, y, (size_t)n * sizeof *x) == 0);
}

/* The pooling of a gradient, if both have the same image and windows; or NULL. */
static mf_node *pooling_of(const taps_pass *t, const mf_node *grad)
{
    mf_node *pool;

    if (!taps_is_op(grad, "MaxPoolGrad") || mf_node_attr(grad, "_crop") ||
        mf_node_attr(grad, "_pad"))
        return NULL;
    pool = grad->inputs[1].node;
    if (pool->id >= t->n || !taps_is_op(pool, "MaxPool") || grad->inputs[1].port != 0 ||
        !taps_same(grad->inputs[0], pool->inputs[0]) || !taps_same_ints(grad, pool, "ksize") ||
        !taps_same_ints(grad, pool, "strides") ||
        !taps_same_ints(grad, pool, "explicit_paddings") ||
        strcmp(mf_node_string(grad, "padding"), mf_node_string(pool, "padding")) != 0 ||
        strcmp(mf_node_string(grad, "data_format"), mf_node_string(pool, "data_format")) != 0)
        return NULL;
    return taps_fit(t, pool) ? pool : NULL;
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

/* The only user of the gradient, if it is a ReluGrad of the image; or NULL. */
static mf_node *relu_of(const taps_pass *t, const mf_node *grad)
{
    const taps_use *u = &t->uses[grad->id];

    if (u->n != 1 || !u->by || !taps_is_op(u->by, "ReluGrad") ||
        !taps_same(u->by->inputs[0], (mf_output){ (mf_node *)(uintptr_t)grad, 0 }) ||
        !taps_same(u->by->inputs[1], grad->inputs[0]))
        return NULL;
    return u->by;
}

/* The replacement of a pooling, made once. */
static mf_status replace_pooling(taps_pass *t, mf_node *pool, mf_node **out)
{
    if (!t->becomes[pool->id]) {
        MF_TRY(taps_node(t, pool, "_MaxPoolTaps", pool->inputs, 1, NULL, 0, &t->becomes[pool->id]));
        MF_TRY(mf_subst_add(&t->s, t->c, (mf_output){ pool, 0 },
                            (mf_output){ t->becomes[pool->id], 0 }));
    }
    *out = t->becomes[pool->id];
    return MF_OK;
}

static mf_status replace_gradient(taps_pass *t, mf_node *grad, mf_node *pool)
{
    const mf_output x = grad->inputs[0];
    const mf_shape *shape = &mf_compile_facts(t->c, x.node)->shapes[x.port];
    mf_node *relu = relu_of(t, grad), *to;
    mf_attr sizes = { .kind = MF_ATTR_INT, .is_list = true, .n = shape->rank };
    const mf_attr with_relu = { .kind = MF_ATTR_BOOL, .n = 1, .b = relu != NULL };

    sizes.ints = MF_ARENA_ARRAY(t->c->graph->arena, int64_t, shape->rank);
    if (!sizes.ints)
        return MF_NOMEM("compiling");
    memcpy(sizes.ints, shape->dims, (size_t)shape->rank * sizeof *sizes.ints);
    MF_TRY(replace_pooling(t, pool, &pool));
    MF_TRY(taps_node(t, grad, "_MaxPoolGradTaps",
                     (const mf_output[]){ { pool, 1 }, { pool, 0 }, grad->inputs[2] }, 3,
                     (const mf_named_attr[]){ { "image", sizes }, { "relu", with_relu } }, 2, &to));
    return mf_subst_add(&t->s, t->c, (mf_output){ relu ? relu : grad, 0 }, (mf_output){ to, 0 });
}

static void taps_count_uses(taps_pass *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        mf_node *n = t->c->graph->nodes[i];

        for (int k = 0; k < n->n_inputs && !n->removed; k++) {
            t->uses[n->inputs[k].node->id].n++;
            t->uses[n->inputs[k].node->id].by = n;
        }
        for (int k = 0; k < n->n_controls && !n->removed; k++)
            t->uses[n->controls[k]->id].n += 2;
    }
    for (int i = 0; i < t->c->n_targets; i++)
        t->uses[t->c->targets[i]->id].n += 2;
}

static mf_status replace_all(taps_pass *t)
{
    taps_count_uses(t);
    for (int64_t i = 0; i < t->n; i++) {
        mf_node *grad = t->c->graph->nodes[i], *pool = grad->removed ? NULL : pooling_of(t, grad);

        if (pool)
            MF_TRY(replace_gradient(t, grad, pool));
    }
    return mf_subst_apply(&t->s, t->c);
}

mf_status mf_pass_pooling(mf_compile *c)
{
    taps_pass t = { .c = c };
    mf_status st = mf_infer_graph(c);

    t.n = c->graph->n_nodes;
    t.uses = mf_calloc(t.n, sizeof *t.uses);
    t.becomes = mf_calloc(t.n, sizeof *t.becomes);
    if (st == MF_OK && (!t.uses || !t.becomes))
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = mf_subst_init(&t.s, c);
    if (st == MF_OK)
        st = replace_all(&t);
    mf_subst_deinit(&t.s);
    mf_free(t.uses);
    mf_free(t.becomes);
    return st;
}
