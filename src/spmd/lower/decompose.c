/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c - decomposes ops that cannot be split (softmax, batch normalisation) into sums. */
#include "spmd/lower/decompose.h"

#include <string.h>

typedef struct expansion {
    mf_graph *g;
    const mf_node *n;
    mf_dtype type;
    int rank; /* of its first input */
    int64_t classes; /* the last dimension */
    int64_t samples; /* all others together */
    int64_t parts, chosen; /* TopK: shards of the classes, and results per shard */
    mf_output out[6]; /* by output of the node; empty: unused */
} expansion;

static mf_output decompose_two(const expansion *e, const char *op, mf_output a, mf_output b)
{
    return mf_apply(e->g, op, MF_IN(a, b));
}

static mf_output decompose_one(const expansion *e, const char *op, mf_output a)
{
    return mf_apply(e->g, op, MF_IN(a));
}

/* A reduction over the last dimension. */
static mf_output over_classes(const expansion *e, const char *op, mf_output x, bool keep)
{
    return mf_applyf(e->g, op, MF_IN(x, mf_ints(e->g, (int64_t[]){ -1 }, 1)), "keep_dims=%s",
                     keep ? "true" : "false");
}

/* x minus the maximum of its row. */
static mf_output shifted(const expansion *e)
{
    const mf_output x = e->n->inputs[0];

    return decompose_two(e, "Sub", x, over_classes(e, "Max", x, true));
}

static void softmax(expansion *e)
{
    const mf_output power = decompose_one(e, "Exp", shifted(e));

    e->out[0] = decompose_two(e, "RealDiv", power, over_classes(e, "Sum", power, true));
}

static void log_softmax(expansion *e)
{
    const mf_output x = shifted(e);
    const mf_output sum = over_classes(e, "Sum", decompose_one(e, "Exp", x), true);

    e->out[0] = decompose_two(e, "Sub", x, decompose_one(e, "Log", sum));
}

/* loss = sum of labels * (log(sum(exp(x))) - x), backprop = softmax - labels. `times`: the product
 * of two numbers. It must give the one-device result for a score of -inf whose label is 0. */
static void decompose_cross_entropy(expansion *e, mf_output labels, const char *times)
{
    const mf_output x = shifted(e), power = decompose_one(e, "Exp", x);
    const mf_output sum = over_classes(e, "Sum", power, true);

    e->out[0] = over_classes(
        e, "Sum",
        decompose_two(e, times, decompose_two(e, "Sub", decompose_one(e, "Log", sum), x), labels),
        false);
    e->out[1] = decompose_two(e, "Sub", decompose_two(e, "RealDiv", power, sum), labels);
}

static void sparse_cross_entropy(expansion *e)
{
    const mf_output valid = mf_applyf(
        e->g, "_MeshIndices", MF_IN(e->n->inputs[1]), "begin=0 size=%lld limit=%lld negative=false",
        (long long)e->classes, (long long)e->classes); /* labels out of range fail */
    const mf_output labels =
        mf_applyf(e->g, "OneHot",
                  MF_IN(valid, mf_scalar(e->g, MF_DTYPE_I32, (double)e->classes),
                        mf_scalar(e->g, e->type, 1), mf_scalar(e->g, e->type, 0)),
                  "axis=-1");

    decompose_cross_entropy(e, labels, "MulNoNan");
}

static void dense_cross_entropy(expansion *e)
{
    decompose_cross_entropy(e, e->n->inputs[1], "Mul");
}

/* ---- batch normalisation ---- */

/* A reduction over all dimensions except the channels, which are last. */
static mf_output over_samples(const expansion *e, const char *op, mf_output x)
{
    static const int64_t axes[] = { 0, 1, 2, 3, 4, 5, 6 };

    return mf_apply(e->g, op, MF_IN(x, mf_ints(e->g, axes, e->rank - 1)));
}

/* 1 / sqrt(variance + epsilon) */
static mf_output inverse_root(const expansion *e, mf_output variance)
{
    return decompose_one(
        e, "Rsqrt",
        decompose_two(e, "AddV2", variance,
                      mf_scalar(e->g, MF_DTYPE_F32, (double)mf_node_float(e->n, "epsilon"))));
}

static void decompose_normalise(expansion *e)
{
    const mf_output x = e->n->inputs[0], scale = e->n->inputs[1], offset = e->n->inputs[2];
    const mf_output mean = over_samples(e, "Mean", x), u = decompose_two(e, "Sub", x, mean);
    const mf_output variance = over_samples(e, "Mean", decompose_one(e, "Square", u));
    const double n = (double)e->samples;

    e->out[0] = decompose_two(
        e, "AddV2",
        decompose_two(e, "Mul", u, decompose_two(e, "Mul", inverse_root(e, variance), scale)),
        offset);
    e->out[1] = e->out[3] = mean;
    e->out[2] =
        decompose_two(e, "Mul", variance, mf_scalar(e->g, MF_DTYPE_F32, n > 1 ? n / (n - 1) : 1));
    e->out[4] = variance;
    e->out[5] = mf_scalar(e->g, MF_DTYPE_F32, 0);
}

/* With h = (x - mean) r: dx = scale r (dy - mean(dy) - h mean(dy h)). */
static void decompose_normalise_grad(expansion *e)
{
    const mf_output dy = e->n->inputs[0], scale = e->n->inputs[2];
    const mf_output r = inverse_root(e, e->n->inputs[4]);
    const mf_output h =
        decompose_two(e, "Mul", decompose_two(e, "Sub", e->n->inputs[1], e->n->inputs[3]), r);
    const mf_output sum = over_samples(e, "Sum", dy);
    const mf_output along = over_samples(e, "Sum", decompose_two(e, "Mul", dy, h));
    const mf_output n = mf_scalar(e->g, MF_DTYPE_F32, (double)e->samples);
    const mf_output rest =
        decompose_two(e, "Sub", decompose_two(e, "Sub", dy, decompose_two(e, "RealDiv", sum, n)),
                      decompose_two(e, "Mul", h, decompose_two(e, "RealDiv", along, n)));

    e->out[0] = decompose_two(e, "Mul", rest, decompose_two(e, "Mul", scale, r));
    e->out[1] = along;
    e->out[2] = sum;
}

/* ---- TopK ---- */

/* The top k of each shard, then the top k of these candidates. */
static void top_k(expansion *e)
{
    const mf_output part =
        mf_applyf(e->g, "_TopKPart", MF_IN(e->n->inputs[0]), "k=%lld width=%lld index_type=%s",
                  (long long)e->chosen, (long long)(e->classes / e->parts),
                  mf_dtype_name(e->n->out_types[1]));
    const mf_output top =
        decompose_two(e, "TopKV2", part, mf_scalar(e->g, MF_DTYPE_I32, (double)e->chosen));
    const mf_output axis = mf_scalar(e->g, MF_DTYPE_I32, e->rank - 1);

    e->out[0] = top;
    e->out[1] = mf_applyf(e->g, "GatherV2",
                          MF_IN(((mf_output){ part.node, 1 }), ((mf_output){ top.node, 1 }), axis),
                          "batch_dims=%d", e->rank - 1);
}

/* ---- what is decomposed ---- */

/* Marks a node that has been replaced, except for outputs without a replacement. */
#define DONE "_expanded"

typedef enum subject { CLASSES, SAMPLES, RANKING } subject;

typedef struct decompose_row {
    const char *op;
    void (*make)(expansion *e);
    subject whole; /* must not be split; TopK gives the same bits either way */
} decompose_row;

static const decompose_row rows[] = {
    { "Softmax", softmax, CLASSES },
    { "LogSoftmax", log_softmax, CLASSES },
    { "SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy, CLASSES },
    { "SoftmaxCrossEntropyWithLogits", dense_cross_entropy, CLASSES },
    { "FusedBatchNorm", decompose_normalise, SAMPLES },
    { "FusedBatchNormV2", decompose_normalise, SAMPLES },
    { "FusedBatchNormV3", decompose_normalise, SAMPLES },
    { "FusedBatchNormGrad", decompose_normalise_grad, SAMPLES },
    { "FusedBatchNormGradV2", decompose_normalise_grad, SAMPLES },
    { "FusedBatchNormGradV3", decompose_normalise_grad, SAMPLES },
    { "TopKV2", top_k, RANKING },
};

static const decompose_row *decompose_find(const char *op)
{
    for (int i = 0; i < MF_COUNT(rows); i++) {
        if (strcmp(rows[i].op, op) == 0)
            return &rows[i];
    }
    return NULL;
}

/* Training in float with channels last, whose samples are split. */
static bool samples_are_cut(const mf_sharding_table *s, const mf_node *n)
{
    const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[0]);
    const char *format = mf_node_string(n, "data_format");
    const bool grad = strstr(n->op_name, "Grad") != NULL;
    mf_axes cut = 0;

    for (int d = 0; d < v->shape.rank - 1; d++)
        cut |= v->layout.dims[d].axes;
    return cut && mf_shape_is_static(&v->shape) && v->shape.rank == (int)strlen(format) &&
           format[v->shape.rank - 1] == 'C' && n->in_types[0] == MF_DTYPE_F32 &&
           mf_node_bool(n, "is_training") &&
           (grad || mf_node_float(n, "exponential_avg_factor") == 1.0f);
}

static bool classes_are_cut(const mf_sharding_table *s, const mf_node *n)
{
    const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[0]);
    const mf_mesh_value *label = n->n_inputs > 1 ? mf_mesh_value_of(s, n->inputs[1]) : NULL;

    return mf_shape_is_static(&v->shape) && v->shape.rank > 0 &&
           v->layout.dims[v->shape.rank - 1].axes &&
           (!label || label->shape.rank == v->shape.rank - 1 ||
            mf_shape_equal(&label->shape, &v->shape));
}

/* TopK with equal shards and a k that is small enough to save traffic. */
static bool ranking_is_cut(const mf_sharding_table *s, const mf_node *n, expansion *e)
{
    const mf_mesh_value *v = mf_mesh_value_of(s, n->inputs[0]);
    const mf_tensor *k = s->splits[n->id] ? s->splits[n->id]->in_value[1] : NULL;
    mf_layout_dim cut;

    if (!k || !mf_shape_is_static(&v->shape) || v->shape.rank < 1)
        return false;
    cut = v->layout.dims[v->shape.rank - 1];
    e->parts = mf_mesh_count(&s->meshes->at[mf_mesh_home(s, n->inputs[0].node)], cut.axes);
    e->chosen = mf_tensor_int_at(k, 0);
    return cut.axes && v->shape.dims[v->shape.rank - 1] % (e->parts * cut.grain) == 0 &&
           e->chosen > 0 && e->chosen < v->shape.dims[v->shape.rank - 1] / e->parts;
}

static bool decompose_is_cut(const mf_sharding_table *s, const mf_node *n, subject whole,
                             expansion *e)
{
    if (whole == RANKING)
        return ranking_is_cut(s, n, e);
    return !s->exact && (whole == SAMPLES ? samples_are_cut(s, n) : classes_are_cut(s, n));
}

static mf_status expand_node(const mf_sharding_table *s, mf_node *n, mf_subst *subst, bool *changed)
{
    const mf_attr yes = { .kind = MF_ATTR_BOOL, .n = 1, .b = true };
    const decompose_row *r = decompose_find(n->op_name);
    const mf_mesh_value *v;
    expansion e = { .g = s->c->graph, .n = n };

    if (!r || mf_node_bool(n, DONE) || !decompose_is_cut(s, n, r->whole, &e))
        return MF_OK;
    MF_TRY(mf_node_set_attr(e.g, n, DONE, &yes));
    v = mf_mesh_value_of(s, n->inputs[0]);
    e.type = mf_type_base(n->in_types[0]);
    e.rank = v->shape.rank;
    e.classes = v->shape.dims[e.rank - 1];
    e.samples = mf_shape_span(&v->shape, 0, e.rank - 1);
    r->make(&e);
    MF_TRY(mf_graph_status(e.g));
    for (int i = 0; i < n->n_outputs; i++) {
        if (e.out[i].node)
            MF_TRY(mf_subst_add(subst, s->c, (mf_output){ n, i }, e.out[i]));
    }
    *changed = true;
    return MF_OK;
}

mf_status mf_mesh_expand(const mf_sharding_table *s, bool *changed)
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
