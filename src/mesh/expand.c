/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c - see expand.h. */
#include "mesh/expand.h"

#include <string.h>

typedef struct expansion {
    mf_graph *g;
    const mf_node *n;
    mf_dtype type;
    int64_t classes;
    mf_output out[2]; /* by output of the node */
} expansion;

static mf_output two(const expansion *e, const char *op, mf_output a, mf_output b)
{
    return mf_apply(e->g, op, MF_IN(a, b));
}

static mf_output one(const expansion *e, const char *op, mf_output a)
{
    return mf_apply(e->g, op, MF_IN(a));
}

/* Over the last dimension. */
static mf_output over_classes(const expansion *e, const char *op, mf_output x, bool keep)
{
    return mf_applyf(e->g, op, MF_IN(x, mf_ints(e->g, (int64_t[]){ -1 }, 1)), "keep_dims=%s",
                     keep ? "true" : "false");
}

/* x less the largest of its row. */
static mf_output shifted(const expansion *e)
{
    const mf_output x = e->n->inputs[0];

    return two(e, "Sub", x, over_classes(e, "Max", x, true));
}

static void softmax(expansion *e)
{
    const mf_output power = one(e, "Exp", shifted(e));

    e->out[0] = two(e, "RealDiv", power, over_classes(e, "Sum", power, true));
}

static void log_softmax(expansion *e)
{
    const mf_output x = shifted(e);
    const mf_output sum = over_classes(e, "Sum", one(e, "Exp", x), true);

    e->out[0] = two(e, "Sub", x, one(e, "Log", sum));
}

/* loss = sum of labels * (log of the sum - x), backprop = softmax - labels. */
static void cross_entropy(expansion *e, mf_output labels)
{
    const mf_output x = shifted(e), power = one(e, "Exp", x);
    const mf_output sum = over_classes(e, "Sum", power, true);

    e->out[0] =
        over_classes(e, "Sum", two(e, "Mul", labels, two(e, "Sub", one(e, "Log", sum), x)), false);
    e->out[1] = two(e, "Sub", two(e, "RealDiv", power, sum), labels);
}

static void sparse_cross_entropy(expansion *e)
{
    const mf_output labels =
        mf_applyf(e->g, "OneHot",
                  MF_IN(e->n->inputs[1], mf_scalar(e->g, MF_DTYPE_I32, (double)e->classes),
                        mf_scalar(e->g, e->type, 1), mf_scalar(e->g, e->type, 0)),
                  "axis=-1");

    cross_entropy(e, labels);
}

static void dense_cross_entropy(expansion *e)
{
    cross_entropy(e, e->n->inputs[1]);
}

static const struct {
    const char *op;
    void (*make)(expansion *e);
} rows[] = {
    { "Softmax", softmax },
    { "LogSoftmax", log_softmax },
    { "SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy },
    { "SoftmaxCrossEntropyWithLogits", dense_cross_entropy },
};

static void (*find(const char *op))(expansion *e)
{
    for (int i = 0; i < MF_COUNT(rows); i++) {
        if (strcmp(rows[i].op, op) == 0)
            return rows[i].make;
    }
    return NULL;
}

static bool classes_are_cut(const mf_mesh_sheet *s, const mf_node *n)
{
    const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[0]);
    const mf_mesh_value *label = n->n_inputs > 1 ? mf_mesh_value_of(s, n->inputs[1]) : NULL;

    return mf_shape_is_static(&v->shape) && v->shape.rank > 0 &&
           v->layout.dims[v->shape.rank - 1].axes &&
           (!label || label->shape.rank == v->shape.rank - 1 ||
            mf_shape_equal(&label->shape, &v->shape));
}

static mf_status expand_node(const mf_mesh_sheet *s, mf_node *n, mf_subst *subst, bool *changed)
{
    void (*make)(expansion * e) = find(n->op_name);
    const mf_mesh_value *v;
    expansion e = { .g = s->c->graph, .n = n };

    if (!make || !classes_are_cut(s, n))
        return MF_OK;
    v = mf_mesh_value_of(s, n->inputs[0]);
    e.type = mf_type_base(n->in_types[0]);
    e.classes = v->shape.dims[v->shape.rank - 1];
    make(&e);
    MF_TRY(mf_graph_status(e.g));
    for (int i = 0; i < n->n_outputs; i++)
        MF_TRY(mf_subst_add(subst, s->c, (mf_output){ n, i }, e.out[i]));
    *changed = true;
    return MF_OK;
}

mf_status mf_mesh_expand(const mf_mesh_sheet *s, bool *changed)
{
    mf_subst subst;
    mf_status st = MF_OK;

    *changed = false;
    MF_TRY(mf_subst_init(&subst, s->c));
    for (int64_t i = 0; st == MF_OK && i < s->n; i++)
        st = expand_node(s, s->order[i], &subst, changed);
    if (st == MF_OK && *changed)
        st = mf_subst_apply(&subst, s->c);
    mf_subst_deinit(&subst);
    return st;
}
