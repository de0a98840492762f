/* SPDX-License-Identifier: Apache-2.0 */
/* precision.c - mixed precision: rewrites a model to compute in float16 or bfloat16 with float32
 * weights. The original nodes stay in the graph, unused. */
#include "train/step/precision.h"

#include "graph/op.h"

#include <fnmatch.h>
#include <string.h>

/* These gain from the low type. */
static const char *const starts[] = { "BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative", "Einsum",
                                      "MatMul" };
/* These ops use the low type if their inputs do. Long sums, exponentials and losses do not. */
static const char *const follows[] = {
    "AddV2",   "AvgPool", "BiasAdd",      "ConcatV2", "ExpandDims", "Identity",  "MaxPool",
    "Maximum", "Minimum", "Mul",          "Pad",      "Relu",       "Relu6",     "Reshape",
    "Sigmoid", "Squeeze", "StridedSlice", "Sub",      "Tanh",       "Transpose", "_ByMode",
};

typedef struct precision_lowering {
    mf_model *model;
    mf_graph *graph;
    const mf_precision *p;
    int64_t n; /* nodes there were */
    mf_output **low; /* by node id: NULL, or by port: the same in the low type */
    mf_output **back; /* by node id: NULL, or by port: the cast back to float */
} precision_lowering;

static bool precision_is_among(const char *op, const char *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(op, list[i]) == 0)
            return true;
    }
    return false;
}

static mf_output *slot(const precision_lowering *w, mf_output **table, mf_output o)
{
    if (!table[o.node->id])
        table[o.node->id] = MF_ARENA_ARRAY(w->graph->arena, mf_output, o.node->n_outputs);
    return table[o.node->id] ? &table[o.node->id][o.port] : NULL;
}

static bool has_low(const precision_lowering *w, mf_output o)
{
    return o.node->id < w->n && w->low[o.node->id] && w->low[o.node->id][o.port].node;
}

static bool is_plain(const mf_node *n)
{
    return strcmp(n->op_name, "Const") == 0;
}

/* It belongs to the layer that the value is from. */
static mf_output precision_cast(const precision_lowering *w, mf_output o, mf_dtype type)
{
    mf_output out;

    w->graph->mark.layer = mf_node_layer(o.node);
    out = mf_applyf(w->graph, "Cast", MF_IN(o), "DstT=%s", mf_dtype_name(type));
    w->graph->mark.layer = 0;
    return out;
}

/* Which argument of the signature input i belongs to, and does its type change? */
static bool changes(const mf_node *n, int i)
{
    for (int a = 0; a < n->def->n_in; a++) {
        int first, count;

        mf_node_arg_range(n, false, a, &first, &count);
        if (i >= first && i < first + count)
            return n->def->in[a].type_attr && strcmp(n->def->in[a].type_attr, "T") == 0;
    }
    return false;
}

static bool goes_low(const precision_lowering *w, const mf_node *n)
{
    bool any = false;

    if (!n->op || mf_node_type(n, "T") != MF_DTYPE_F32)
        return false;
    if (precision_is_among(n->op_name, starts, MF_COUNT(starts)))
        return w->p->keep[0] == '\0' || fnmatch(w->p->keep, n->name, 0) != 0;
    if (!precision_is_among(n->op_name, follows, MF_COUNT(follows)))
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_node *from = n->inputs[i].node;

        if (!changes(n, i))
            continue;
        if (has_low(w, n->inputs[i]))
            any = true;
        else if (!is_plain(from) && strcmp(from->op_name, "ReadVariableOp") != 0)
            return false;
    }
    return any;
}

/* The output in the low type. */
static mf_status lowered(precision_lowering *w, mf_output o, mf_output *out)
{
    mf_output *known = o.node->id < w->n ? slot(w, w->low, o) : NULL;

    if (!known)
        return MF_NOMEM("a rewrite");
    if (!known->node)
        *known = precision_cast(w, o, w->p->compute);
    *out = *known;
    return mf_graph_status(w->graph);
}

static mf_status precision_lower_node(precision_lowering *w, mf_node *n)
{
    mf_output *in = MF_ARENA_ARRAY(w->graph->arena, mf_output, n->n_inputs);
    mf_named_attr *attrs = MF_ARENA_ARRAY(w->graph->arena, mf_named_attr, n->n_attrs);
    mf_node_spec spec = { .op = n->op_name,
                          .device = n->device,
                          .inputs = in,
                          .n_inputs = n->n_inputs,
                          .controls = n->controls,
                          .n_controls = n->n_controls,
                          .attrs = attrs,
                          .n_attrs = n->n_attrs };
    mf_node *twin;

    if (!in || !attrs)
        return MF_NOMEM("a rewrite");
    for (int i = 0; i < n->n_inputs; i++) {
        in[i] = n->inputs[i];
        if (changes(n, i))
            MF_TRY(lowered(w, n->inputs[i], &in[i]));
    }
    for (int i = 0; i < n->n_attrs; i++) {
        attrs[i] = n->attrs[i];
        if (strcmp(attrs[i].name, "T") == 0)
            attrs[i].value.type = w->p->compute;
    }
    spec.name = mf_arena_printf(w->graph->arena, "%s/%s", n->name, mf_dtype_name(w->p->compute));
    spec.name = spec.name ? mf_graph_unique_name(w->graph, spec.name) : NULL;
    if (!spec.name)
        return MF_NOMEM("a rewrite");
    MF_TRY(mf_graph_add(w->graph, &spec, &twin));
    for (int i = 0; i < n->n_outputs; i++) {
        mf_output *to = slot(w, w->low, (mf_output){ n, i });

        if (!to)
            return MF_NOMEM("a rewrite");
        if (n->out_types[i] != twin->out_types[i])
            *to = (mf_output){ twin, i };
    }
    return MF_OK;
}

/* The output's value as float. */
static mf_status precision_as_float(precision_lowering *w, mf_output *o)
{
    mf_output *known;

    /* Weights and constants have low twins too, but are floats themselves. */
    if (!o->node || !has_low(w, *o) ||
        strcmp(w->low[o->node->id][o->port].node->op_name, "Cast") == 0)
        return MF_OK;
    known = slot(w, w->back, *o);
    if (!known)
        return MF_NOMEM("a rewrite");
    if (!known->node)
        *known = precision_cast(w, w->low[o->node->id][o->port], MF_DTYPE_F32);
    *o = *known;
    return mf_graph_status(w->graph);
}

static mf_status precision_rewrite(precision_lowering *w)
{
    mf_model *m = w->model;

    for (int64_t id = 0; id < w->n; id++) {
        mf_node *n = w->graph->nodes[id];

        if (goes_low(w, n)) {
            MF_TRY(precision_lower_node(w, n));
            continue;
        }
        for (int i = 0; i < n->n_inputs; i++)
            MF_TRY(precision_as_float(w, &n->inputs[i]));
    }
    MF_TRY(precision_as_float(w, &m->output));
    for (int64_t i = 0; i < m->n_moving; i++)
        MF_TRY(precision_as_float(w, &m->moving[i].batch));
    for (int64_t i = 0; i < m->n_losses; i++)
        MF_TRY(precision_as_float(w, &m->losses[i]));
    for (int64_t i = 0; i < m->n_left; i++)
        MF_TRY(precision_as_float(w, &m->left[i].output));
    return mf_graph_status(w->graph);
}

mf_status mf_precision_apply(mf_model *model, const mf_precision *precision)
{
    precision_lowering w = { .model = model, .graph = model->graph, .p = precision };

    if (precision->compute == MF_DTYPE_F32)
        return MF_OK;
    MF_TRY(mf_infer_more(&model->shapes)); /* from here on nodes may precede their inputs */
    w.n = model->graph->n_nodes;
    w.low = MF_ARENA_ARRAY(model->graph->arena, mf_output *, w.n);
    w.back = MF_ARENA_ARRAY(model->graph->arena, mf_output *, w.n);
    if (!w.low || !w.back)
        return MF_NOMEM("a rewrite");
    return precision_rewrite(&w);
}

static mf_status precision_parse_type(const char *text, mf_dtype *out)
{
    static const struct {
        const char *name;
        mf_dtype type;
    } known[] = { { "fp32", MF_DTYPE_F32 }, { "bf16", MF_DTYPE_BF16 }, { "fp16", MF_DTYPE_F16 } };

    for (int i = 0; i < MF_COUNT(known); i++) {
        if (strcmp(known[i].name, text) == 0) {
            *out = known[i].type;
            return MF_OK;
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "weights cannot be stored as '%.60s'; stored= is fp32, bf16 or fp16", text);
}

mf_status mf_precision_parse(const char *text, mf_arena *arena, mf_precision *out)
{
    static const struct {
        const char *name;
        mf_dtype type;
        const char *settings;
    } known[] = {
        { "fp32", MF_DTYPE_F32, "{stored: string = 'fp32'}" },
        { "bf16", MF_DTYPE_BF16, "{keep: string = '', stored: string = 'fp32'}" },
        { "fp16", MF_DTYPE_F16,
          "{keep: string = '', stored: string = 'fp32', loss_scale: float = 32768.0, growth: int "
          ">= 1 = 2000}" },
    };
    const char *head, *rest;
    mf_options o;

    *out = (mf_precision){ .compute = MF_DTYPE_F32, .stored = MF_DTYPE_F32, .keep = "" };
    MF_TRY(mf_options_head(text ? text : "fp32", arena, &head, &rest));
    for (int i = 0; i < MF_COUNT(known); i++) {
        if (strcmp(known[i].name, head) != 0)
            continue;
        MF_TRY(mf_options_parse(head, known[i].settings, rest, arena, &o));
        out->compute = known[i].type;
        MF_TRY(precision_parse_type(mf_options_string(&o, "stored"), &out->stored));
        if (out->compute != MF_DTYPE_F32)
            out->keep = mf_options_string(&o, "keep");
        if (out->compute == MF_DTYPE_F16) {
            out->loss_scale = mf_options_float(&o, "loss_scale");
            out->growth = mf_options_int(&o, "growth");
        }
        return MF_OK;
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "there is no precision '%.60s'; it is fp32, bf16 or fp16",
                   head);
}
