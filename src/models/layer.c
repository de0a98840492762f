/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c - looks up layers by name, names them as Keras does, and adds their weights. */
#include "models/layer.h"

#include "base/did_you_mean.h"
#include "base/host_state.h"
#include "models/initializer.h"
#include "models/layer_overrides.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

extern const mf_layer_kind mf_layers_dense[], mf_layers_conv[], mf_layers_pool[], mf_layers_norm[],
    mf_layers_dropout[], mf_layers_shape[], mf_layers_activation[], mf_layers_merge[],
    mf_layers_residual[], mf_layers_embedding[], mf_layers_recurrent[], mf_layers_attention[],
    mf_layers_transformer[], mf_layers_experts[], mf_layers_rbm[], mf_layers_detector[];

const mf_layer_kind *const mf_layer_families[] = {
    mf_layers_dense,
    mf_layers_conv,
    mf_layers_pool,
    mf_layers_norm,
    mf_layers_dropout,
    mf_layers_embedding,
    mf_layers_recurrent,
    mf_layers_attention,
    mf_layers_merge,
    mf_layers_shape,
    mf_layers_activation,
    mf_layers_residual,
    mf_layers_transformer,
    mf_layers_experts,
    mf_layers_rbm,
    mf_layers_detector,
    NULL,
};

static const mf_layer_kind *layer_find_kind(const char *name, mf_did_you_mean *close)
{
    for (const mf_layer_kind *const *f = mf_layer_families; *f; f++) {
        for (const mf_layer_kind *k = *f; k->name; k++) {
            if (strcmp(k->name, name) == 0)
                return k;
            mf_did_you_mean_try(close, k->name);
        }
    }
    return NULL;
}

/* ---- names ---- */

/* "Conv2D" -> "conv2d", "LayerNormalization" -> "layer_normalization". */
static char *snake(mf_arena *arena, const char *kind)
{
    char *name = mf_arena_alloc(arena, 2 * (int64_t)strlen(kind) + 1, 1), *to = name;

    for (const char *p = kind; name && *p; p++) {
        if (p > kind && isupper((unsigned char)*p) && islower((unsigned char)p[-1]))
            *to++ = '_';
        *to++ = (char)tolower((unsigned char)*p);
    }
    if (name)
        *to = '\0';
    return name;
}

/* The first is "dense", then "dense_1". */
static const char *automatic_name(mf_model *m, const char *kind)
{
    char *base = snake(m->graph->arena, kind);
    int64_t *count = base ? mf_map_find(&m->layers, base) : NULL;

    if (!base)
        return NULL;
    if (count)
        return mf_arena_printf(m->graph->arena, "%s_%lld", base, (long long)++*count);
    count = MF_ARENA_NEW(m->graph->arena, int64_t);
    return count && mf_map_set(&m->layers, base, count) == MF_OK ? base : NULL;
}

/* ---- build ---- */

static mf_status layer_check_inputs(const mf_layer_kind *kind, mf_layer_call *l)
{
    char text[MF_SHAPE_TEXT], who[80];

    if (l->n_in < kind->min_in || l->n_in > kind->max_in)
        return MF_FAIL(MF_INVALID_ARGUMENT, "layer %s takes %d%s inputs, but got %d", kind->name,
                       kind->min_in, kind->max_in > kind->min_in ? " or more" : "", l->n_in);
    (void)snprintf(who, sizeof who, "layer %s", kind->name);
    MF_TRY(mf_graph_owns_all(l->graph, l->in, l->n_in, who));
    l->shape = mf_model_shape(l->model, l->in[0]);
    if (l->shape.rank < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "layer %s: the rank of its input is unknown",
                       kind->name);
    for (int i = 1; i < l->shape.rank; i++) {
        if (l->shape.dims[i] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "layer %s: dimension %d of its input is unknown",
                           kind->name, i);
    }
    if (l->shape.rank < kind->min_rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "layer %s needs an input of at least %d dimensions (with the batch), but "
                       "got %s",
                       kind->name, kind->min_rank, mf_shape_text(&l->shape, text));
    return MF_OK;
}

static mf_status layer_prepare(mf_model *m, const char *kind_name, const char *settings,
                               const mf_layer_kind **kind, mf_layer_call *l)
{
    mf_did_you_mean close = mf_did_you_mean_to(kind_name);
    const char *signature;

    *kind = layer_find_kind(kind_name, &close);
    if (!*kind)
        return mf_model_unknown("layer", kind_name, close.best, " --kind layers");
    signature = mf_arena_printf(m->graph->arena,
                                "{name: string = '', trainable: bool = true, dim: string = '', "
                                "recompute: bool = false%s%s",
                                (*kind)->settings[1] == '}' ? "" : ", ", (*kind)->settings + 1);
    if (!signature)
        return MF_NOMEM("a layer");
    MF_TRY(mf_options_parse((*kind)->name, signature, settings, m->graph->arena, &l->o));
    MF_TRY(layer_check_inputs(*kind, l));
    l->name = mf_options_given(&l->o, "name") ? mf_options_string(&l->o, "name")
                                              : automatic_name(m, kind_name);
    return l->name ? mf_layer_overrides_apply(m, l->name, signature, &l->o) : MF_NOMEM("a layer");
}

static mf_output layer_build_kind(mf_model *m, const char *kind_name, const mf_output *inputs,
                                  const char *settings)
{
    mf_layer_call l = { .model = m, .graph = m->graph, .in = inputs };
    const char *scope = m->graph->scope;
    const mf_node_mark mark = m->graph->mark;
    const int64_t first_weight = m->n_weights;
    const bool frozen = m->frozen;
    const mf_layer_kind *kind;
    int64_t made;
    mf_output out;
    mf_status st;

    while (inputs && inputs[l.n_in].port >= 0)
        l.n_in++;
    st = layer_prepare(m, kind_name, settings, &kind, &l);
    if (st == MF_OK)
        st = mf_grow(&m->made, &m->cap_made, m->n_made + 1, sizeof(mf_layer_made));
    if (st != MF_OK) {
        mf_graph_fail(m->graph, st);
        return (mf_output){ 0 };
    }
    made = m->n_made++;
    l.trainable = !frozen && mf_options_bool(&l.o, "trainable");
    m->frozen = !l.trainable;
    mf_graph_scope(m->graph, l.name);
    if (m->depth == 0) /* nested layers belong to the outermost layer */
        m->graph->mark.layer = ++m->n_layers;
    m->depth++;
    out = kind->build(&l);
    m->depth--;
    m->graph->scope = scope;
    m->graph->mark = mark;
    m->frozen = frozen;
    for (int64_t i = first_weight; i < m->n_weights && !l.trainable; i++)
        m->weights[i]->trained = false;
    m->made[made] = (mf_layer_made){ .name = l.name,
                                     .kind = kind->name,
                                     .output = out,
                                     .first_weight = first_weight,
                                     .n_weights = m->n_weights - first_weight,
                                     .depth = m->depth,
                                     .recompute = mf_options_bool(&l.o, "recompute") };
    /* cppcheck-suppress returnDanglingLifetime ; an output points into the graph */
    return out;
}

mf_output mf_layer(mf_model *model, const char *kind, const mf_output *inputs, const char *settings,
                   ...)
{
    MF_ENTRY_OR((mf_output){ 0 });
    if (mf_model_refuses(model, MF_NEEDED(model, kind)))
        return (mf_output){ 0 };

    char text[1024];
    va_list args;
    int len;

    if (!settings)
        return layer_build_kind(model, kind, inputs, "");
    va_start(args, settings);
    len = vsnprintf(text, sizeof text, settings, args);
    va_end(args);
    if (len < (int)sizeof text)
        return layer_build_kind(model, kind, inputs, text);
    mf_graph_fail(model->graph,
                  MF_FAIL(MF_INVALID_ARGUMENT, "layer %s: settings exceed %d characters", kind,
                          (int)sizeof text - 1));
    return (mf_output){ 0 };
}

mf_output mf_layer_fail(mf_layer_call *l, const char *fmt, ...)
{
    char text[300];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!l->graph->failed)
        mf_graph_fail(l->graph, MF_FAIL(MF_INVALID_ARGUMENT, "layer '%s': %s", l->name, text));
    return (mf_output){ 0 };
}

/* ---- weights ---- */

static mf_weight *new_weight(mf_layer_call *l, const char *what, const mf_shape *shape,
                             const char *initializer)
{
    mf_model *m = l->model;
    mf_weight *w = MF_ARENA_NEW(m->graph->arena, mf_weight);
    char text[MF_SHAPE_TEXT];

    if (!w ||
        mf_grow(&m->weights, &m->cap_weights, m->n_weights + 1, sizeof(mf_weight *)) != MF_OK) {
        mf_graph_fail(m->graph, MF_NOMEM("a weight"));
        return NULL;
    }
    if (!mf_shape_is_static(shape)) {
        (void)mf_layer_fail(l, "the shape %s of %s is unknown", mf_shape_text(shape, text), what);
        return NULL;
    }
    *w = (mf_weight){ .dtype = MF_DTYPE_F32, .shape = *shape, .trained = true };
    w->name = mf_arena_printf(m->graph->arena, "%s%s", m->graph->scope, what);
    if (!w->name || mf_model_weight(m, w->name)) {
        (void)mf_layer_fail(l, "there is a weight '%s' already; give the layer another name", what);
        return NULL;
    }
    w->handle = mf_applyf(m->graph, "VarHandleOp", MF_NO_IN,
                          "dtype=float shape=shape%s shared_name='%s' "
                          "name='%s'",
                          mf_shape_text(shape, text), w->name, what);
    w->initial = mf_initializer(m, initializer, shape, w->name);
    m->weights[m->n_weights++] = w;
    return w;
}

static void read_weight(mf_layer_call *l, mf_weight *w, const char *what)
{
    w->value =
        mf_applyf(l->graph, "ReadVariableOp", MF_IN(w->handle), "dtype=float name='%s/Read'", what);
}

mf_output mf_layer_weight(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer)
{
    mf_weight *w = new_weight(l, what, shape, initializer);

    if (!w)
        return (mf_output){ 0 };
    read_weight(l, w, what);
    return w->value;
}

mf_output mf_layer_lookup(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output ids)
{
    mf_weight *w = new_weight(l, what, shape, initializer);
    mf_lookup *lookup = MF_ARENA_NEW(l->graph->arena, mf_lookup);

    if (!w || !lookup)
        return (mf_output){ 0 };
    lookup->ids = ids;
    lookup->rows = mf_applyf(l->graph, "ResourceGather", MF_IN(w->handle, ids), "dtype=float");
    w->lookups = lookup;
    return lookup->rows;
}

mf_output mf_layer_moving(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output batch, double momentum)
{
    mf_weight *w = new_weight(l, what, shape, initializer);
    mf_model *m = l->model;

    if (!w)
        return (mf_output){ 0 };
    w->trained = false;
    read_weight(l, w, what);
    if (mf_grow(&m->moving, &m->cap_moving, m->n_moving + 1, sizeof(mf_moving)) != MF_OK) {
        mf_graph_fail(m->graph, MF_NOMEM("a weight"));
        return (mf_output){ 0 };
    }
    m->moving[m->n_moving++] = (mf_moving){ w, batch, momentum };
    return w->value;
}

mf_output mf_layer_kept(mf_layer_call *l, const char *what, const mf_shape *shape,
                        const char *initializer, mf_output like)
{
    mf_weight *w = new_weight(l, what, shape, initializer);
    mf_model *m = l->model;

    if (!w)
        return (mf_output){ 0 };
    w->trained = false;
    read_weight(l, w, what);
    if (mf_grow(&m->carried, &m->cap_kept, m->n_kept + 1, sizeof(mf_carried_state)) != MF_OK) {
        mf_graph_fail(m->graph, MF_NOMEM("a weight"));
        return (mf_output){ 0 };
    }
    m->carried[m->n_kept++] = (mf_carried_state){ .weight = w };
    return mf_apply(l->graph, "_SampleRows", MF_IN(like, w->value, m->clock));
}

void mf_layer_keep(mf_layer_call *l, const char *what, mf_output rows)
{
    const mf_model *m = l->model;
    const char *name = mf_arena_printf(l->graph->arena, "%s%s", l->graph->scope, what);

    for (int64_t i = 0; name && i < m->n_kept; i++) {
        if (strcmp(m->carried[i].weight->name, name) == 0)
            m->carried[i].next = rows;
    }
}

void mf_layer_add_loss(mf_layer_call *l, mf_output per_sample)
{
    mf_model *m = l->model;

    if (!per_sample.node)
        return;
    if (mf_grow(&m->losses, &m->cap_losses, m->n_losses + 1, sizeof(mf_output)) != MF_OK)
        mf_graph_fail(m->graph, MF_NOMEM("a loss"));
    else
        m->losses[m->n_losses++] = per_sample;
}

/* ---- training and inference ---- */

mf_output mf_layer_by_mode(mf_layer_call *l, mf_output training, mf_output inference)
{
    return mf_apply(l->graph, "_ByMode", MF_IN(training, inference));
}

mf_output mf_layer_uniform(mf_layer_call *l, mf_output like)
{
    return mf_layer_uniforms(l, like, 0);
}

mf_output mf_layer_uniforms(mf_layer_call *l, mf_output like, int64_t draw)
{
    const uint64_t stream = mf_hash(l->name, strlen(l->name), (uint64_t)draw) >> 1;

    return mf_applyf(l->graph, "_SampleUniform", MF_IN(like, l->model->clock), "stream=%lld",
                     (long long)stream);
}
