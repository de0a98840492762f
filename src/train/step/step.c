/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - from a model to the graph of its training step.
 *
 *   loss, gradients     of a shard's samples: a function, "train_step"
 *   _ShardMap           maps it over the shards of a batch and sums in the reduction tree
 *   regularisation, clipping, updates          once, on the sums
 *
 * Every number that leaves a shard is a sum over its samples: the loss, the metrics, gradients of
 * the loss divided by the samples of the complete step, and statistics times the shard's samples.
 * Rows leave it unchanged: of tables, with their numbers; and rows that samples keep. A loss over
 * all samples is computed outside of shards, before (global_loss.h). */
#include "graph/gradients.h"
#include "models/losses.h"
#include "models/metrics.h"
#include "train/step/global_loss.h"
#include "train/step/loss_scale.h"
#include "train/step/precision.h"
#include "train/step/recompute_layers.h"
#include "train/step/step_buckets.h"
#include "train/step/step_builder.h"

#include <stdio.h>
#include <string.h>

/* ---- outputs of a shard ---- */

static mf_status add_result(mf_step_builder *b, mf_output o, const char *join)
{
    mf_step_results *r = &b->results;

    if (!o.node)
        return mf_graph_status(b->graph);
    mf_buf_printf(&r->join, "%s'%s'", r->list.n ? "," : "", join);
    mf_buf_printf(&r->types, "%s%s", r->list.n ? "," : "",
                  mf_dtype_name(mf_type_base(o.node->out_types[o.port])));
    return mf_outputs_add(b->arena, &r->list, o);
}

static mf_output step_placeholder(mf_step_builder *b, const char *name, mf_dtype dtype,
                                  const char *shape)
{
    return mf_applyf(b->graph, "Placeholder", MF_NO_IN, "dtype=%s shape=shape%s name='%s'",
                     mf_dtype_name(dtype), shape, name);
}

static mf_output sum_samples(const mf_step_builder *b, mf_output x)
{
    return mf_apply(b->graph, "Sum", MF_IN(x, mf_ints(b->graph, (int64_t[]){ 0 }, 1)));
}

/* Classes are integers, one for each row of the output; other labels are numbers of its shape. */
static mf_output new_label(mf_step_builder *b, const mf_loss_kind *loss)
{
    const bool classes = loss->flags & MF_LOSS_CLASSES;
    mf_shape shape = mf_model_shape(b->model, b->model->output);
    char text[MF_SHAPE_TEXT];
    mf_output label;

    if (shape.rank > 1 && (classes || shape.dims[shape.rank - 1] == 1))
        shape.rank--;
    label = step_placeholder(b, b->options->label ? b->options->label : "label",
                             classes ? MF_DTYPE_I32 : MF_DTYPE_F32,
                             loss->label ? loss->label : mf_shape_text(&shape, text));
    if (loss->label)
        shape = mf_model_shape(b->model, label);
    if (shape.rank > 0)
        mf_model_name_batch(b->graph, label, shape.rank);
    return label;
}

/* "accuracy,top_k k=3": metrics are separated by commas. */
static mf_status add_metrics(mf_step_builder *b, const char *text)
{
    mf_step_graph *s = b->s;

    while (*text) {
        const size_t n = strcspn(text, ",");
        const char *one = mf_arena_strndup(b->arena, text, n);
        mf_report r = { 0 };

        if (!one)
            return MF_NOMEM("metrics");
        if (s->n_reports == MF_MAX_RESULTS)
            return MF_FAIL(MF_INVALID_ARGUMENT, "at most %d metrics are possible",
                           MF_MAX_RESULTS - 1);
        r.of_batch = mf_metric(b->model, one, b->model->output, s->label, &r.metric);
        MF_TRY(mf_graph_status(b->graph));
        r.name = r.metric->name;
        s->reports[s->n_reports++] = r;
        text += n + (text[n] == ',');
    }
    return MF_OK;
}

static mf_status add_reports(mf_step_builder *b)
{
    mf_step_graph *s = b->s;
    const char *loss = b->options->loss ? b->options->loss : "sparse_categorical_crossentropy";
    const mf_loss_kind *kind;
    mf_output per_sample;

    MF_TRY(mf_loss_find(loss, b->arena, &kind));
    s->label = new_label(b, kind);
    s->label_shape = mf_model_shape(b->model, s->label);
    per_sample = mf_loss(b->model, loss, b->model->output, s->label);
    if (kind->flags & MF_LOSS_WHOLE) {
        MF_TRY(mf_step_whole(b->model, b->options, loss, s->label, b->dy, &s->whole));
        per_sample =
            mf_step_op2(b, "_ByMode", mf_step_own(b->model, s->label, s->whole.losses), per_sample);
    }
    for (int64_t i = 0; i < b->model->n_losses; i++)
        per_sample = mf_step_op2(b, "AddV2", per_sample, b->model->losses[i]);
    s->reports[s->n_reports++] =
        (mf_report){ .name = "loss", .of_batch = sum_samples(b, per_sample) };
    if (b->options->metrics)
        MF_TRY(add_metrics(b, b->options->metrics));
    for (int i = 0; i < s->n_reports; i++)
        MF_TRY(add_result(b, s->reports[i].of_batch, "sum"));
    return mf_graph_status(b->graph);
}

/* Statistics are means over the shard's samples. */
static mf_status add_moving(mf_step_builder *b)
{
    const mf_output shape = mf_apply(b->graph, "Shape", MF_IN(b->s->label));
    const mf_output first = mf_ints(b->graph, (int64_t[]){ 0 }, 1);
    const mf_output count = mf_applyf(b->graph, "StridedSlice",
                                      MF_IN(shape, first, mf_ints(b->graph, (int64_t[]){ 1 }, 1),
                                            mf_ints(b->graph, (int64_t[]){ 1 }, 1)),
                                      "shrink_axis_mask=1");
    const mf_output samples = mf_applyf(b->graph, "Cast", MF_IN(count), "DstT=float");

    for (int64_t i = 0; i < b->model->n_moving; i++)
        MF_TRY(add_result(b, mf_step_op2(b, "Mul", b->model->moving[i].batch, samples), "sum"));
    return MF_OK;
}

/* Rows that samples keep for the next step. */
static mf_status step_add_kept(mf_step_builder *b)
{
    b->s->first_kept = b->results.list.n;
    b->s->n_kept = (int)b->model->n_kept;
    for (int64_t i = 0; i < b->model->n_kept; i++)
        MF_TRY(add_result(b, b->model->carried[i].next, "concat"));
    return MF_OK;
}

/* ---- gradients ---- */

/* The tensors that need gradients: complete weights, and rows that were looked up. */
static mf_status list_sources(mf_step_builder *b, mf_outputs *xs)
{
    for (int64_t i = 0; i < b->model->n_weights; i++) {
        const mf_weight *w = b->model->weights[i];

        if (!w->trained)
            continue;
        if (!w->lookups)
            MF_TRY(mf_outputs_add(b->arena, xs, w->value));
        for (const mf_lookup *k = w->lookups; k; k = k->next)
            MF_TRY(mf_outputs_add(b->arena, xs, k->rows));
    }
    return MF_OK;
}

/* [..., row] -> [n, row]. */
static mf_output flat_rows(const mf_step_builder *b, const mf_weight *w, mf_output rows)
{
    int64_t dims[MF_MAX_RANK] = { -1 };

    for (int i = 1; i < w->shape.rank; i++)
        dims[i] = w->shape.dims[i];
    return mf_apply(b->graph, "Reshape", MF_IN(rows, mf_ints(b->graph, dims, w->shape.rank)));
}

static mf_output step_flat(const mf_step_builder *b, mf_output x)
{
    return mf_apply(b->graph, "Reshape", MF_IN(x, mf_ints(b->graph, (int64_t[]){ -1 }, 1)));
}

static mf_status step_add_gradient(mf_step_builder *b, mf_weight *w, const mf_lookup *lookup,
                                   mf_output dx)
{
    mf_gradient *p = &b->s->gradients[b->s->n_gradients];
    const mf_node_mark mark = b->graph->mark;
    mf_output rows, ids;

    if (!dx.node) /* the loss does not depend on it */
        return MF_OK;
    *p = (mf_gradient){ .weight = w, .at = b->results.list.n, .ids = -1 };
    b->s->n_gradients++;
    if (!lookup)
        return add_result(b, dx, "sum");
    b->graph->mark = (mf_node_mark){ .layer = mf_node_layer(lookup->rows.node), .gradient = true };
    rows = flat_rows(b, w, dx);
    ids = step_flat(b, lookup->ids);
    b->graph->mark = mark;
    MF_TRY(add_result(b, rows, "concat"));
    p->ids = b->results.list.n;
    return add_result(b, ids, "concat");
}

static mf_status add_gradients(mf_step_builder *b)
{
    const mf_whole *whole = &b->s->whole;
    const mf_output ys[] = { b->s->reports[0].of_batch, b->model->output };
    mf_output dys[] = { b->dy, { 0 } };
    mf_outputs xs = { 0 };
    mf_output *dxs;
    int at = 0;

    MF_TRY(list_sources(b, &xs));
    dxs = MF_ARENA_ARRAY(b->arena, mf_output, xs.n);
    b->s->gradients = MF_ARENA_ARRAY(b->arena, mf_gradient, xs.n);
    if (!dxs || !b->s->gradients)
        return MF_NOMEM("gradients");
    if (xs.n == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the model has no weights to train");
    if (whole->loss) /* of which no gradient goes through the sum of losses */
        dys[1] = mf_step_own(b->model, b->model->output, whole->gradients);
    MF_TRY(mf_gradients(b->graph, ys, whole->loss ? 2 : 1, xs.at, xs.n, dys, dxs));
    MF_TRY(mf_recompute_layers(b->model, b->options->recompute));
    for (int64_t i = 0; i < b->model->n_weights; i++) {
        mf_weight *w = b->model->weights[i];

        if (w->trained && !w->lookups)
            MF_TRY(step_add_gradient(b, w, NULL, dxs[at++]));
        for (const mf_lookup *k = w->trained ? w->lookups : NULL; k; k = k->next)
            MF_TRY(step_add_gradient(b, w, k, dxs[at++]));
    }
    return mf_graph_status(b->graph);
}

/* ---- the map over the shards ---- */

static mf_status step_list_arguments(mf_step_builder *b, mf_outputs *in, int *n_batched)
{
    for (int64_t i = 0; i < b->model->n_inputs; i++)
        MF_TRY(mf_outputs_add(b->arena, in, b->model->inputs[i]));
    MF_TRY(mf_outputs_add(b->arena, in, b->s->label));
    *n_batched = in->n;
    MF_TRY(mf_outputs_add(b->arena, in, b->model->clock));
    MF_TRY(mf_outputs_add(b->arena, in, b->dy));
    if (b->s->whole.loss) {
        MF_TRY(mf_outputs_add(b->arena, in, b->s->whole.losses));
        MF_TRY(mf_outputs_add(b->arena, in, b->s->whole.gradients));
    }
    for (int64_t i = 0; i < b->model->n_weights; i++) {
        if (b->model->weights[i]->value.node)
            MF_TRY(mf_outputs_add(b->arena, in, b->model->weights[i]->value));
    }
    return MF_OK;
}

static void list_types(const mf_outputs *list, int from, int to, mf_buf *out)
{
    for (int i = from; i < to; i++)
        mf_buf_printf(out, "%s%s", i > from ? "," : "",
                      mf_dtype_name(mf_type_base(list->at[i].node->out_types[list->at[i].port])));
    mf_buf_str(out, ""); /* a list without elements is text too */
}

static mf_status map_shards(mf_step_builder *b)
{
    mf_buf batched = { 0 }, shared = { 0 }, buckets = { 0 }, names = { 0 };
    mf_outputs in = { 0 };
    const mf_output end = MF_END;
    mf_output map;
    int n_batched;

    MF_TRY(step_list_arguments(b, &in, &n_batched));
    list_types(&in, 0, n_batched, &batched);
    list_types(&in, n_batched, in.n, &shared);
    MF_TRY(mf_outputs_add(b->arena, &in, end));
    MF_TRY(mf_outputs_add(b->arena, &b->results.list, end));
    b->results.list.n--;
    MF_TRY(mf_step_fill_buckets(b->s, &b->results.list, b->arena, &buckets, &names));
    mf_define(b->graph, "train_step", in.at, b->results.list.at);
    map =
        mf_applyf(b->graph, "_ShardMap", in.at,
                  "f=@train_step shards=%d turns=%d Tbatched=[%s] Tshared=[%s] Tout=[%s] join=[%s] "
                  "buckets=[%s] names=[%s] name='shards'",
                  b->options->shards, b->options->micro_batches > 1 ? b->options->micro_batches : 1,
                  batched.data, shared.data, b->results.types.data, b->results.join.data,
                  buckets.data, names.data);
    mf_buf_deinit(&names);
    mf_buf_deinit(&buckets);
    mf_buf_deinit(&batched);
    mf_buf_deinit(&shared);
    b->map = map.node;
    return mf_graph_status(b->graph);
}

/* ---- targets ---- */

static mf_node *target(mf_step_builder *b, const char *name, mf_node *const *nodes, int64_t n)
{
    mf_output all = mf_applyf(b->graph, "NoOp", MF_NO_IN, "name='%s'", name);

    for (int64_t i = 0; all.node && i < n; i++)
        mf_control(b->graph, all.node, nodes[i]);
    return all.node;
}

static void init_one(mf_step_builder *b, mf_node *init, mf_output handle, mf_output initial)
{
    mf_control(b->graph, init, mf_apply(b->graph, "AssignVariableOp", MF_IN(handle, initial)).node);
}

static void add_init(mf_step_builder *b)
{
    mf_step_graph *s = b->s;

    s->init = target(b, "init", NULL, 0);
    for (int64_t i = 0; i < b->model->n_weights; i++)
        init_one(b, s->init, b->model->weights[i]->handle, b->model->weights[i]->initial);
    for (int64_t i = 0; i < s->updates.n_states; i++)
        init_one(b, s->init, s->updates.states[i].handle, s->updates.states[i].initial);
    init_one(b, s->init, s->global_step, mf_scalar(b->graph, MF_DTYPE_I64, 0));
}

/* ---- building ---- */

static void find_gradients(mf_step_builder *b)
{
    for (int i = 0; i < b->s->n_gradients; i++) {
        mf_gradient *g = &b->s->gradients[i];

        g->value = mf_step_joined(b, g->at);
        if (g->ids >= 0)
            g->rows = mf_step_joined(b, g->ids);
    }
}

static mf_status step_check_role(const mf_step_builder *b)
{
    if (b->s->role == MF_STEP_PULLS && b->scale.factor.node)
        return MF_FAIL(MF_UNIMPLEMENTED, "fp16 needs workers that update by themselves, for the "
                                         "scale of the loss; use bf16, or another strategy");
    if (b->s->role == MF_STEP_PULLS && b->s->guard.kind == MF_GUARD_SKIP)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "guard skip needs workers that update by themselves: no parameter server "
                       "has all gradients; use guard stop, or another strategy");
    return MF_OK;
}

static mf_status step_build_model(mf_step_builder *b)
{
    mf_step_graph *s = b->s;
    mf_precision precision;

    if (!b->model->output.node)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the model has no output; call mf_model_output()");
    s->inverse = step_placeholder(b, "one_by_samples", MF_DTYPE_F32, "[]");
    MF_TRY(mf_precision_parse(b->options->precision, b->arena, &precision));
    MF_TRY(mf_precision_apply(b->model, &precision));
    mf_loss_scale_init(&b->scale, &s->updates, &precision);
    MF_TRY(step_check_role(b));
    b->dy = b->scale.factor.node ? mf_step_op2(b, "Mul", s->inverse, b->scale.factor) : s->inverse;
    MF_TRY(add_reports(b));
    MF_TRY(add_moving(b));
    MF_TRY(step_add_kept(b));
    MF_TRY(mf_step_check_together(s, s->role == MF_STEP_PULLS));
    MF_TRY(add_gradients(b));
    MF_TRY(map_shards(b));
    for (int i = 0; i < s->n_reports; i++)
        s->reports[i].of_step = mf_step_joined(b, i);
    find_gradients(b);
    return MF_OK;
}

/* Gradients are fed: one for each weight, or for each lookup of rows. */
static mf_status feed_gradient(mf_step_builder *b, mf_weight *w, bool rows)
{
    mf_step_graph *s = b->s;
    mf_gradient *g = &s->gradients[s->n_gradients];
    mf_shape shape = w->shape;
    char name[64], text[MF_SHAPE_TEXT];

    *g = (mf_gradient){ .weight = w, .at = -1, .ids = -1 };
    if (rows)
        shape.dims[0] = -1;
    (void)snprintf(name, sizeof name, "gradient/%d", s->n_gradients);
    g->value = step_placeholder(b, name, w->dtype, mf_shape_text(&shape, text));
    (void)snprintf(name, sizeof name, "rows/%d", s->n_gradients);
    if (rows)
        g->rows = step_placeholder(b, name, MF_DTYPE_I64, "[?]");
    s->n_gradients++;
    return mf_graph_status(b->graph);
}

static mf_status feed_gradients(mf_step_builder *b)
{
    int64_t n = b->model->n_weights;

    for (int64_t i = 0; i < b->model->n_weights; i++) {
        for (const mf_lookup *k = b->model->weights[i]->lookups; k; k = k->next)
            n++;
    }
    b->s->gradients = MF_ARENA_ARRAY(b->arena, mf_gradient, n);
    if (!b->s->gradients)
        return MF_NOMEM("gradients");
    for (int64_t i = 0; i < b->model->n_weights; i++) {
        mf_weight *w = b->model->weights[i];

        if (!w->lookups)
            MF_TRY(feed_gradient(b, w, false));
        for (const mf_lookup *k = w->lookups; k; k = k->next)
            MF_TRY(feed_gradient(b, w, true));
    }
    return MF_OK;
}

static mf_status step_build(mf_step_builder *b)
{
    mf_step_graph *s = b->s;

    MF_TRY(mf_updates_begin(&s->updates, b->model, b->options));
    MF_TRY(mf_guard_parse(b->options->guard, b->arena, &s->guard));
    s->learning_rate = step_placeholder(b, "learning_rate", MF_DTYPE_F32, "[]");
    s->updates.learning_rate = s->learning_rate;
    MF_TRY(s->role == MF_STEP_SERVES ? feed_gradients(b) : step_build_model(b));
    MF_TRY(mf_step_update_weights(b));
    if (s->role == MF_STEP_PULLS)
        mf_step_assign_weights(b);
    if (s->role != MF_STEP_SERVES) {
        mf_step_update_moving(b);
        mf_step_update_kept(b);
    }
    mf_step_count_steps(b);
    s->train = target(b, "train", s->updates.done, s->updates.n_done);
    add_init(b);
    return mf_graph_status(b->graph);
}

mf_status mf_step_graph_init(mf_step_graph *s, mf_model *model, const mf_compile_options *options,
                             mf_step_role role)
{
    mf_step_builder b = { .s = s,
                          .model = model,
                          .graph = model->graph,
                          .arena = model->graph->arena,
                          .options = options };
    mf_status st = mf_model_status(model);

    *s = (mf_step_graph){ .model = model, .role = role };
    if (st == MF_OK)
        st = step_build(&b);
    mf_buf_deinit(&b.results.join);
    mf_buf_deinit(&b.results.types);
    if (st != MF_OK)
        mf_step_graph_deinit(s);
    return st;
}

void mf_step_graph_deinit(mf_step_graph *s)
{
    mf_free(s->updates.states);
    mf_free(s->updates.done);
    s->updates.states = NULL;
    s->updates.done = NULL;
}
