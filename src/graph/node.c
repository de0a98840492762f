/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - checks one node against its signature: attributes, defaults, types, inputs. */
#include "graph/absent.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PORTS = 1 << 20
}; /* of a node; an attribute may claim any number of inputs or outputs */

/* ---- attributes ---- */

const mf_attr *mf_node_attr(const mf_node *node, const char *name)
{
    int lo = 0, hi = node->n_attrs;

    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        const int c = strcmp(node->attrs[mid].name, name);

        if (c == 0)
            return &node->attrs[mid].value;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static const mf_attr *attr_of(const mf_node *node, const char *name, mf_attr_kind kind, bool list)
{
    const mf_attr *a = mf_node_attr(node, name);

    return a && a->is_list == list && (a->kind == kind || (list && a->n == 0)) ? a : NULL;
}

const mf_attr *mf_node_list(const mf_node *node, const char *name, mf_attr_kind kind)
{
    return attr_of(node, name, kind, true);
}

int64_t mf_node_int(const mf_node *node, const char *name)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_INT, false);

    return a ? a->i : 0;
}

float mf_node_float(const mf_node *node, const char *name)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_FLOAT, false);

    return a ? a->f : 0.0f;
}

bool mf_node_bool(const mf_node *node, const char *name)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_BOOL, false);

    return a && a->b;
}

mf_dtype mf_node_type(const mf_node *node, const char *name)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_TYPE, false);

    return a ? a->type : MF_DTYPE_INVALID;
}

const char *mf_node_string(const mf_node *node, const char *name)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_STRING, false);

    return a ? a->s.data : "";
}

const mf_shape *mf_node_shape(const mf_node *node, const char *name)
{
    static const mf_shape unknown = { .rank = MF_UNKNOWN_RANK };
    const mf_attr *a = attr_of(node, name, MF_ATTR_SHAPE, false);

    return a ? a->shape : &unknown;
}

const int64_t *mf_node_ints(const mf_node *node, const char *name, int64_t *n)
{
    const mf_attr *a = attr_of(node, name, MF_ATTR_INT, true);

    *n = a ? a->n : 0;
    return a ? a->ints : NULL;
}

mf_status mf_node_set_attr(mf_graph *graph, mf_node *node, const char *name, const mf_attr *value)
{
    mf_named_attr *attrs;
    int at = 0;

    for (int i = 0; i < node->n_attrs; i++) {
        const int c = strcmp(node->attrs[i].name, name);

        if (c == 0) {
            node->attrs[i].value = *value;
            return MF_OK;
        }
        at += c < 0;
    }
    attrs = MF_ARENA_ARRAY(graph->arena, mf_named_attr, node->n_attrs + 1);
    name = mf_arena_strdup(graph->arena, name);
    if (!attrs || !name)
        return MF_NOMEM("an attribute");
    memcpy(attrs, node->attrs, (size_t)at * sizeof *attrs);
    attrs[at] = (mf_named_attr){ name, *value };
    memcpy(attrs + at + 1, node->attrs + at, (size_t)(node->n_attrs - at) * sizeof *attrs);
    node->attrs = attrs;
    node->n_attrs++;
    return MF_OK;
}

static int node_by_attr_name(const void *a, const void *b)
{
    return strcmp(((const mf_named_attr *)a)->name, ((const mf_named_attr *)b)->name);
}

static mf_status check_type_allowed(const mf_node *n, const mf_attrdef *d, int64_t type)
{
    if (type >= MF_DTYPE_REF)
        type -= MF_DTYPE_REF;
    if (!mf_dtype_is_valid((int)type))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: attr '%s' of %s: %" PRId64 " is not a supported type", n->name,
                       d->name, n->op_name, type);
    if (d->allowed_types && !(d->allowed_types >> type & 1))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Value for attr '%s' of %s is not in the list of allowed values "
                       "for {{node %s}} (op %s)",
                       d->name, mf_dtype_name((mf_dtype)type), n->name, n->op_name);
    return MF_OK;
}

static mf_status check_string_allowed(const mf_node *n, const mf_attrdef *d, const char *s)
{
    for (int i = 0; i < d->n_allowed_strings; i++) {
        if (strcmp(s, d->allowed_strings[i]) == 0)
            return MF_OK;
    }
    if (d->n_allowed_strings == 0)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Value for attr '%s' of \"%.60s\" is not in the list of allowed values "
                   "for {{node %s}} (op %s)",
                   d->name, s, n->name, n->op_name);
}

static mf_status check_attr(const mf_node *n, const mf_attrdef *d, const mf_attr *a)
{
    const bool empty_list = a->is_list && a->n == 0;

    if (a->kind == MF_ATTR_PLACEHOLDER)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: attr '%s' is the placeholder '$%s' outside a function",
                       n->name, d->name, a->s.data);
    if (a->is_list != d->is_list || (a->kind != d->kind && !empty_list))
        return MF_FAIL(
            MF_INVALID_ARGUMENT, "{{node %s}}: attr '%s' of op %s must be %s%s%s, but is %s%s",
            n->name, d->name, n->op_name, d->is_list ? "list(" : "", mf_attr_kind_name(d->kind),
            d->is_list ? ")" : "", a->is_list ? "a list of " : "", mf_attr_kind_name(a->kind));
    if (d->has_minimum) {
        const int64_t v = a->is_list ? a->n : a->i;

        if ((a->is_list || a->kind == MF_ATTR_INT) && v < d->minimum)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Value for attr '%s' of %" PRId64 " must be at least minimum %" PRId64
                           " for {{node %s}} (op %s)",
                           d->name, v, d->minimum, n->name, n->op_name);
    }
    if (d->kind == MF_ATTR_TYPE) {
        for (int64_t i = 0; i < a->n; i++)
            MF_TRY(check_type_allowed(n, d, a->is_list ? a->ints[i] : (int64_t)a->type));
    } else if (d->kind == MF_ATTR_STRING) {
        for (int64_t i = 0; i < a->n; i++)
            MF_TRY(check_string_allowed(n, d, a->is_list ? a->strings[i].data : a->s.data));
    }
    return MF_OK;
}

/* ---- inference from the inputs ---- */

static mf_status add_attr(mf_graph *g, mf_node *n, const char *name, mf_attr value)
{
    return mf_node_set_attr(g, n, name, &value);
}

static mf_dtype input_type(const mf_node_spec *spec, int i)
{
    const mf_output o = spec->inputs[i];

    return o.node && o.port >= 0 && o.port < o.node->n_outputs
               ? mf_type_base(o.node->out_types[o.port])
               : MF_DTYPE_INVALID;
}

/* Number of inputs of an argument, if attributes specify it. */
static int64_t stated_count(const mf_argdef *a, const mf_node *n)
{
    if (a->number_attr)
        return mf_node_int(n, a->number_attr);
    if (a->list_attr)
        return mf_node_attr(n, a->list_attr) ? mf_node_attr(n, a->list_attr)->n : 0;
    return 1;
}

/* Number of inputs of argument `arg`, if attributes do not specify it: the inputs that remain after
 * all others, divided between the arguments with the same number. -1: they do not divide evenly. */
static int leftover(const mf_opdef *def, int arg, const mf_node *n, int n_inputs)
{
    const char *number = def->in[arg].number_attr;
    int64_t others = 0, sharers = 1;

    for (int i = 0; i < def->n_in; i++) {
        const mf_argdef *a = &def->in[i];

        if (i == arg)
            continue;
        if (number && a->number_attr && strcmp(number, a->number_attr) == 0)
            sharers++;
        else if (!mf_add_i64(others, stated_count(a, n), &others) || others < 0 ||
                 others > n_inputs)
            return -1; /* checked here, before the sum or the remainder can overflow */
    }
    return (n_inputs - others) % sharers == 0 ? (int)((n_inputs - others) / sharers) : -1;
}

static mf_status infer_list_attr(mf_graph *g, mf_node *n, const mf_node_spec *spec,
                                 const char *attr, int at, int count)
{
    mf_attr list = { .kind = MF_ATTR_TYPE, .is_list = true, .n = count };

    list.ints = MF_ARENA_ARRAY(g->arena, int64_t, count);
    if (!list.ints)
        return MF_NOMEM("a node");
    for (int k = 0; k < count; k++)
        list.ints[k] = (int64_t)input_type(spec, at + k);
    return add_attr(g, n, attr, list);
}

/* Infer missing type and number attributes from the inputs. */
static mf_status infer_attrs(mf_graph *g, mf_node *n, const mf_node_spec *spec)
{
    const mf_opdef *def = n->def;
    int at = 0;

    for (int i = 0; i < def->n_in; i++) {
        const mf_argdef *a = &def->in[i];
        const char *counter = a->number_attr ? a->number_attr : a->list_attr;
        int count = 1;

        if (counter) {
            const mf_attr *given = mf_node_attr(n, counter);
            const int64_t stated = !given           ? leftover(def, i, n, spec->n_inputs)
                                   : given->is_list ? given->n
                                                    : given->i;

            if (stated < 0 || stated > spec->n_inputs - at)
                return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}} (op %s): %d inputs are too few",
                               n->name, n->op_name, spec->n_inputs);
            count = (int)stated;
            if (!given && a->list_attr)
                MF_TRY(infer_list_attr(g, n, spec, a->list_attr, at, count));
            else if (!given)
                MF_TRY(add_attr(g, n, a->number_attr,
                                (mf_attr){ .kind = MF_ATTR_INT, .n = 1, .i = count }));
        }
        if (a->type_attr && !mf_node_attr(n, a->type_attr) && count > 0 && at < spec->n_inputs &&
            input_type(spec, at) != MF_DTYPE_INVALID)
            MF_TRY(
                add_attr(g, n, a->type_attr,
                         (mf_attr){ .kind = MF_ATTR_TYPE, .n = 1, .type = input_type(spec, at) }));
        at += count;
    }
    return MF_OK;
}

static mf_status fill_defaults(mf_graph *g, mf_node *n)
{
    for (int i = 0; i < n->def->n_attrs; i++) {
        const mf_attrdef *d = &n->def->attrs[i];
        const mf_attr *a = mf_node_attr(n, d->name);

        if (a) {
            MF_TRY(check_attr(n, d, a));
        } else if (d->has_default) {
            mf_attr copy;

            MF_TRY(mf_attr_copy(&d->default_value, g->arena, &copy));
            MF_TRY(mf_node_set_attr(g, n, d->name, &copy));
        } else {
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "NodeDef missing attr '%s' from op %s for {{node %s}}", d->name,
                           n->op_name, n->name);
        }
    }
    return MF_OK;
}

/* ---- types of inputs and outputs ---- */

/* Number of tensors argument `a` stands for; -1 if an attribute is invalid. */
static int64_t arg_count(const mf_node *n, const mf_argdef *a)
{
    const mf_attr *list;

    if (a->number_attr)
        return mf_node_int(n, a->number_attr);
    if (!a->list_attr)
        return 1;
    list = mf_node_attr(n, a->list_attr);
    return list ? list->n : -1;
}

static mf_status expand_args(mf_graph *g, const mf_node *n, const mf_argdef *args, int n_args,
                             mf_dtype **types, int *count)
{
    int64_t total = 0;
    int at = 0;

    for (int i = 0; i < n_args; i++) {
        const int64_t c = arg_count(n, &args[i]);

        if (c < 0 || c > MAX_PORTS || (total += c) > MAX_PORTS)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "{{node %s}} (op %s): argument '%s' would stand for %" PRId64 " tensors",
                           n->name, n->op_name, args[i].name, c);
    }
    *types = MF_ARENA_ARRAY(g->arena, mf_dtype, total);
    if (!*types)
        return MF_NOMEM("a node");
    for (int i = 0; i < n_args; i++) {
        const mf_attr *list = args[i].list_attr ? mf_node_attr(n, args[i].list_attr) : NULL;
        const int64_t c = arg_count(n, &args[i]);

        for (int64_t k = 0; k < c; k++) {
            const mf_dtype t = list                ? (mf_dtype)list->ints[k]
                               : args[i].type_attr ? mf_node_type(n, args[i].type_attr)
                                                   : args[i].type;

            (*types)[at++] = args[i].is_ref ? (mf_dtype)((int)t + MF_DTYPE_REF) : t;
        }
    }
    *count = (int)total;
    return MF_OK;
}

void mf_node_arg_range(const mf_node *node, bool output, int arg, int *first, int *count)
{
    const mf_argdef *args = output ? node->def->out : node->def->in;

    *first = 0;
    for (int i = 0; i < arg; i++)
        *first += (int)arg_count(node, &args[i]);
    *count = (int)arg_count(node, &args[arg]);
}

static const char *type_text(mf_dtype t, char text[32])
{
    (void)snprintf(text, 32, "%s%s", mf_dtype_name(mf_type_base(t)),
                   mf_type_is_ref(t) ? "_ref" : "");
    return text;
}

static mf_status check_input(const mf_node *n, int i, mf_output in)
{
    char have[32], want[32];
    mf_dtype type;

    if (!in.node)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}} (op %s): input %d is empty", n->name,
                       n->op_name, i);
    if (in.port < 0 || in.port >= in.node->n_outputs)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}}: input %d is output %d of %s, which has only %d", n->name, i,
                       in.port, in.node->name, in.node->n_outputs);
    type = in.node->out_types[in.port];
    if (mf_type_base(type) != mf_type_base(n->in_types[i]) ||
        (mf_type_is_ref(n->in_types[i]) && !mf_type_is_ref(type)))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input %d of {{node %s}} was passed %s from %s:%d incompatible with "
                       "expected %s.",
                       i, n->name, type_text(type, have), in.node->name, in.port,
                       type_text(n->in_types[i], want));
    return MF_OK;
}

mf_status mf_node_set_inputs(mf_graph *graph, mf_node *node, const mf_output *inputs, int n_inputs,
                             mf_node *const *controls, int n_controls)
{
    if (n_inputs != node->n_inputs)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}} (op %s) takes %d inputs, not %d",
                       node->name, node->op_name, node->n_inputs, n_inputs);
    for (int i = 0; i < n_inputs; i++)
        MF_TRY(check_input(node, i, inputs[i]));
    node->inputs = MF_ARENA_ARRAY(graph->arena, mf_output, n_inputs);
    node->controls = MF_ARENA_ARRAY(graph->arena, mf_node *, n_controls);
    if (!node->inputs || !node->controls)
        return MF_NOMEM("a node");
    for (int i = 0; i < n_inputs; i++)
        node->inputs[i] = inputs[i];
    for (int i = 0; i < n_controls; i++)
        node->controls[i] = controls[i];
    node->n_controls = n_controls;
    return MF_OK;
}

/* ---- adding ---- */

static mf_status find_op(mf_graph *g, const char *op, mf_node *n)
{
    n->op = mf_op_find(op);
    if (n->op) {
        n->op_name = n->op->name;
        n->kernels = mf_op_kernels(n->op);
        return mf_op_def(n->op, &n->def);
    }
    n->function = mf_graph_function(g, op);
    if (!n->function && (n->op = mf_op_absent(op))) {
        n->op_name = n->op->name;
        return mf_op_def(n->op, &n->def);
    }
    if (!n->function)
        return MF_FAIL(MF_NOT_FOUND, "Op type not registered '%s' ({{node %s}})", op, n->name);
    n->op_name = n->function->name;
    n->def = n->function->def;
    return MF_OK;
}

static mf_status node_take_attrs(mf_graph *g, mf_node *n, const mf_node_spec *spec)
{
    /* Reserving room for what infer_attrs and fill_defaults may add is only an optimisation. */
    n->attrs = MF_ARENA_ARRAY(g->arena, mf_named_attr, spec->n_attrs);
    if (!n->attrs)
        return MF_NOMEM("a node");
    for (int i = 0; i < spec->n_attrs; i++) {
        const char *name = spec->attrs[i].name;

        if (name[0] != '_' && n->op && !mf_opdef_find_attr(n->def, name))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "NodeDef mentions attr '%s' not in op %s for {{node %s}}", name,
                           n->op_name, n->name);
        n->attrs[i].name = mf_arena_strdup(g->arena, name);
        if (!n->attrs[i].name)
            return MF_NOMEM("a node");
        MF_TRY(mf_attr_copy(&spec->attrs[i].value, g->arena, &n->attrs[i].value));
    }
    n->n_attrs = spec->n_attrs;
    qsort(n->attrs, (size_t)n->n_attrs, sizeof n->attrs[0], node_by_attr_name);
    for (int i = 1; i < n->n_attrs; i++) {
        if (strcmp(n->attrs[i - 1].name, n->attrs[i].name) == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: attr '%s' is given twice", n->name,
                           n->attrs[i].name);
    }
    return MF_OK;
}

/* Everything except name and id. */
static mf_status init_node(mf_graph *graph, mf_node *n, const mf_node_spec *spec)
{
    n->device = mf_arena_strdup(graph->arena, spec->device ? spec->device : "");
    if (!n->device)
        return MF_NOMEM("a node");
    n->unknown = spec->unknown;
    MF_TRY(find_op(graph, spec->op, n));
    MF_TRY(node_take_attrs(graph, n, spec));
    if (spec->inputs)
        MF_TRY(infer_attrs(graph, n, spec));
    MF_TRY(fill_defaults(graph, n));
    MF_TRY(expand_args(graph, n, n->def->in, n->def->n_in, &n->in_types, &n->n_inputs));
    MF_TRY(expand_args(graph, n, n->def->out, n->def->n_out, &n->out_types, &n->n_outputs));
    if (spec->n_inputs != n->n_inputs || spec->inputs || spec->n_inputs == 0)
        MF_TRY(mf_node_set_inputs(graph, n, spec->inputs, spec->n_inputs, spec->controls,
                                  spec->n_controls));
    return MF_OK;
}

/* An existing mark of the node is kept. */
static mf_status mark_node(mf_graph *graph, mf_node *n)
{
    const mf_attr layer = { .kind = MF_ATTR_INT, .n = 1, .i = graph->mark.layer };
    const mf_attr micro_batch = { .kind = MF_ATTR_INT, .n = 1, .i = graph->mark.micro_batch };
    const mf_attr gradient = { .kind = MF_ATTR_BOOL, .n = 1, .b = true };

    if (graph->mark.layer && !mf_node_attr(n, "_layer"))
        MF_TRY(mf_node_set_attr(graph, n, "_layer", &layer));
    if (graph->mark.gradient && !mf_node_attr(n, "_gradient"))
        MF_TRY(mf_node_set_attr(graph, n, "_gradient", &gradient));
    if (graph->mark.micro_batch && !mf_node_attr(n, "_micro_batch"))
        MF_TRY(mf_node_set_attr(graph, n, "_micro_batch", &micro_batch));
    return MF_OK;
}

mf_status mf_graph_add(mf_graph *graph, const mf_node_spec *spec, mf_node **out)
{
    mf_node *n = MF_ARENA_NEW(graph->arena, mf_node);

    *out = NULL;
    if (!n)
        return MF_NOMEM("a node");
    n->name = spec->name ? mf_arena_strdup(graph->arena, spec->name)
                         : mf_graph_unique_name(graph, spec->op);
    if (!n->name)
        return MF_NOMEM("a node");
    if (mf_graph_find(graph, n->name))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Duplicate node name in graph: '%s'", n->name);
    MF_TRY(init_node(graph, n, spec));
    MF_TRY(mark_node(graph, n));
    n->id = (int)graph->n_nodes;
    MF_TRY(mf_grow(&graph->nodes, &graph->cap_nodes, graph->n_nodes + 1, sizeof(mf_node *)));
    MF_TRY(mf_map_set(&graph->names, n->name, n));
    graph->nodes[graph->n_nodes++] = n;
    *out = n;
    return MF_OK;
}

mf_status mf_node_become(mf_graph *graph, mf_node *node, const mf_node_spec *spec)
{
    mf_node other = { .id = node->id, .name = node->name };

    MF_TRY(init_node(graph, &other, spec));
    for (int i = 0; i < node->n_outputs; i++) {
        if (i >= other.n_outputs || other.out_types[i] != node->out_types[i])
            return MF_FAIL(MF_INTERNAL, "{{node %s}} would lose output %d", node->name, i);
    }
    *node = other;
    return MF_OK;
}
