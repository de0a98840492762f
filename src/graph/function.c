/* SPDX-License-Identifier: Apache-2.0 */
/* function.c - FunctionDefs: their signatures, and bodies as graphs.
 *
 * Inside a FunctionDef an input is "argument", "argument:index" or "node:output_name:index". */
#include "graph/function.h"

#include "graph/graphdef_codec.h"
#include "graph/op.h"
#include "proto/same.h"

#include <stdlib.h>
#include <string.h>

/* ---- signature ---- */

static mf_status decode_arg(const Tensorflow__OpDef__ArgDef *p, const char *f, mf_argdef *out)
{
    *out = (mf_argdef){ .name = p->name, .is_ref = p->is_ref != 0 };
    if (p->type_list_attr[0])
        out->list_attr = p->type_list_attr;
    else if (p->type_attr[0])
        out->type_attr = p->type_attr;
    else if (mf_dtype_is_valid(p->type))
        out->type = (mf_dtype)p->type;
    else
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: argument '%s' has type %d", f, p->name,
                       p->type);
    if (p->number_attr[0])
        out->number_attr = p->number_attr;
    return MF_OK;
}

static mf_status decode_attrdef(const Tensorflow__OpDef__AttrDef *p, const char *f, mf_attrdef *out)
{
    *out = (mf_attrdef){ .name = p->name };
    if (!mf_attr_kind_find(p->type, strlen(p->type), &out->kind, &out->is_list))
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: attribute '%s' has the unknown type '%s'",
                       f, p->name, p->type);
    return MF_OK;
}

static mf_status decode_signature(mf_graph *g, const Tensorflow__OpDef *p, mf_opdef *out)
{
    *out = (mf_opdef){ .name = p->name,
                       .n_in = (int)p->n_input_arg,
                       .n_out = (int)p->n_output_arg,
                       .n_attrs = (int)p->n_attr,
                       .is_stateful = p->is_stateful != 0 };
    out->in = MF_ARENA_ARRAY(g->arena, mf_argdef, out->n_in);
    out->out = MF_ARENA_ARRAY(g->arena, mf_argdef, out->n_out);
    out->attrs = MF_ARENA_ARRAY(g->arena, mf_attrdef, out->n_attrs);
    if (!out->in || !out->out || !out->attrs)
        return MF_NOMEM("a function");
    for (int i = 0; i < out->n_in; i++)
        MF_TRY(decode_arg(p->input_arg[i], p->name, &out->in[i]));
    for (int i = 0; i < out->n_out; i++)
        MF_TRY(decode_arg(p->output_arg[i], p->name, &out->out[i]));
    for (int i = 0; i < out->n_attrs; i++)
        MF_TRY(decode_attrdef(p->attr[i], p->name, &out->attrs[i]));
    return MF_OK;
}

mf_function *mf_graph_function(const mf_graph *graph, const char *name)
{
    return mf_map_find(&graph->library->functions, name);
}

/* Clients may write the attributes of a function in another order each time. */
static mf_status function_is_same(const mf_function *known, const void *data, size_t len,
                                  bool *same)
{
    const ProtobufCMessageDescriptor *d = &tensorflow__function_def__descriptor;
    ProtobufCMessage *a, *b;
    mf_arena *arena;
    mf_status st;

    *same = known->bytes.len == len && memcmp(known->bytes.data, data, len) == 0;
    if (*same)
        return MF_OK;
    arena = mf_arena_new();
    st = arena ? mf_wire_decode(d, known->bytes.data, known->bytes.len, NULL, arena, &a)
               : MF_NOMEM("a function");
    if (st == MF_OK)
        st = mf_wire_decode(d, data, len, NULL, arena, &b);
    if (st == MF_OK)
        st = mf_wire_same(a, b, same);
    mf_arena_free(arena);
    return st;
}

mf_status mf_graph_add_function(mf_graph *graph, const void *data, size_t len)
{
    const mf_function *known;
    const Tensorflow__FunctionDef *def;
    ProtobufCMessage *message;
    mf_function *f;
    mf_opdef *sig;

    graph = graph->library;
    MF_TRY(mf_wire_decode(&tensorflow__function_def__descriptor, data, len, NULL, graph->arena,
                          &message));
    def = (const Tensorflow__FunctionDef *)message;
    if (!def->signature || !def->signature->name[0])
        return MF_FAIL(MF_INVALID_ARGUMENT, "a function of the library has no name");
    known = mf_map_find(&graph->functions, def->signature->name);
    if (known) {
        bool same;

        MF_TRY(function_is_same(known, data, len, &same));
        if (same)
            return MF_OK;
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Cannot add function '%s' because a different function with the same name "
                       "already exists.",
                       def->signature->name);
    }
    if (mf_op_find(def->signature->name))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Cannot add function '%s' because an op with the same name already exists.",
                       def->signature->name);
    f = MF_ARENA_NEW(graph->arena, mf_function);
    sig = MF_ARENA_NEW(graph->arena, mf_opdef);
    if (!f || !sig)
        return MF_NOMEM("a function");
    MF_TRY(decode_signature(graph, def->signature, sig));
    *f = (mf_function){ .name = def->signature->name, .def = sig, .proto = def };
    f->bytes = (mf_bytes){ mf_arena_strndup(graph->arena, data, len), len };
    if (!f->bytes.data)
        return MF_NOMEM("a function");
    return mf_map_set(&graph->functions, f->name, f);
}

/* ---- body ---- */

typedef struct body {
    mf_graph *g;
    const mf_function *f;
    const Tensorflow__FunctionDef *def;
    const mf_named_attr *attrs; /* attributes of the call */
    int n_attrs;
    mf_map args; /* argument name -> mf_node of its first _Arg */
    mf_node **nodes; /* by position in node_def */
} body;

static const mf_attr *call_attr(const body *b, const char *name)
{
    for (int i = 0; i < b->n_attrs; i++) {
        if (strcmp(b->attrs[i].name, name) == 0)
            return &b->attrs[i].value;
    }
    return NULL;
}

/* The number of tensors that an argument of the signature stands for, and the type of each, with
 * these attributes. */
static mf_status arg_types(const body *b, const mf_argdef *a, mf_dtype *types, int max, int *n)
{
    const mf_attr *list = a->list_attr ? call_attr(b, a->list_attr) : NULL;
    const mf_attr *number = a->number_attr ? call_attr(b, a->number_attr) : NULL;
    const mf_attr *type = a->type_attr ? call_attr(b, a->type_attr) : NULL;
    int64_t count = 1;

    if ((a->list_attr && (!list || !list->is_list || list->kind != MF_ATTR_TYPE)) ||
        (a->number_attr && (!number || number->kind != MF_ATTR_INT)) ||
        (a->type_attr && (!type || type->kind != MF_ATTR_TYPE)))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "function %s: the call does not specify the type of argument '%s'",
                       b->f->name, a->name);
    if (list)
        count = list->n;
    else if (number)
        count = number->i;
    if (count < 0 || count > max)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: argument '%s' stands for %lld tensors",
                       b->f->name, a->name, (long long)count);
    for (int64_t i = 0; i < count; i++)
        types[i] = list ? (mf_dtype)list->ints[i] : type ? type->type : a->type;
    *n = (int)count;
    return MF_OK;
}

enum { MAX_ARG = 4096 };

static mf_status add_arg_node(body *b, const char *op, int index, mf_dtype type, const char *name,
                              const mf_output *in, mf_node **out)
{
    const mf_named_attr attrs[] = {
        { "T", { .kind = MF_ATTR_TYPE, .n = 1, .type = type } },
        { "index", { .kind = MF_ATTR_INT, .n = 1, .i = index } },
    };
    const mf_node_spec spec = { .name = mf_graph_unique_name(b->g, name),
                                .op = op,
                                .inputs = in,
                                .n_inputs = in ? 1 : 0,
                                .attrs = attrs,
                                .n_attrs = 2 };

    return mf_graph_add(b->g, &spec, out);
}

static mf_status add_args(body *b)
{
    mf_dtype *types = MF_ARENA_ARRAY(b->g->arena, mf_dtype, MAX_ARG);
    int index = 0;

    if (!types)
        return MF_NOMEM("a function body");
    for (int i = 0; i < b->f->def->n_in; i++) {
        const mf_argdef *a = &b->f->def->in[i];
        int n;

        MF_TRY(arg_types(b, a, types, MAX_ARG, &n));
        for (int k = 0; k < n; k++) {
            mf_node *node;

            MF_TRY(add_arg_node(b, "_Arg", index++, types[k], a->name, NULL, &node));
            if (k == 0)
                MF_TRY(mf_map_set(&b->args, a->name, node));
        }
    }
    return MF_OK;
}

/* Replace "$T" by the call's attribute, in place (lists of the message belong to this body alone).
 */
static mf_status substitute(const body *b, mf_named_attr *attrs, int n)
{
    for (int i = 0; i < n; i++) {
        mf_attr *a = &attrs[i].value;

        if (a->kind == MF_ATTR_PLACEHOLDER) {
            const mf_attr *value = call_attr(b, a->s.data);

            if (!value)
                return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: no value for the attribute '$%s'",
                               b->f->name, a->s.data);
            *a = *value;
        } else if (a->kind == MF_ATTR_FUNC && !a->is_list) {
            MF_TRY(substitute(b, a->func->attrs, a->func->n_attrs));
        }
    }
    return MF_OK;
}

static mf_status add_body_node(body *b, const Tensorflow__NodeDef *def, mf_node **out)
{
    mf_node_spec spec = { .name = def->name, .op = def->op, .device = def->device };
    mf_named_attr *attrs;

    while (spec.n_inputs < (int)def->n_input && def->input[spec.n_inputs][0] != '^')
        spec.n_inputs++;
    MF_TRY(mf_attrs_decode(b->g, def->attr, (int)def->n_attr, &attrs, &spec.n_attrs));
    MF_TRY(substitute(b, attrs, spec.n_attrs));
    spec.attrs = attrs;
    return mf_graph_add(b->g, &spec, out);
}

/* "arg", "arg:1", "node:out:2" */
static mf_status function_resolve(const body *b, const char *ref, mf_output *out)
{
    const char *first = strchr(ref, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    const size_t name_len = first ? (size_t)(first - ref) : strlen(ref);
    char name[512];
    mf_node *arg;

    if (name_len >= sizeof name)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: a name is too long", b->f->name);
    memcpy(name, ref, name_len);
    name[name_len] = '\0';
    arg = mf_map_find(&b->args, name);
    if (arg && !second) {
        const long k = first ? strtol(first + 1, NULL, 10) : 0;

        if (k < 0 || arg->id + k >= b->g->n_nodes || !b->g->nodes[arg->id + k]->op ||
            b->g->nodes[arg->id + k]->op->control != MF_CONTROL_ARG)
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: no such input '%.200s'", b->f->name,
                           ref);
        *out = (mf_output){ b->g->nodes[arg->id + k], 0 };
        return MF_OK;
    }
    out->node = mf_graph_find(b->g, name);
    if (out->node && second) {
        const size_t len = (size_t)(second - first - 1);

        for (int i = 0; i < out->node->def->n_out; i++) {
            const char *o = out->node->def->out[i].name;

            if (strlen(o) == len && memcmp(o, first + 1, len) == 0) {
                const long k = strtol(second + 1, NULL, 10);
                int at, count;

                mf_node_arg_range(out->node, true, i, &at, &count);
                out->port = at + (int)k;
                if (k >= 0 && k < count)
                    return MF_OK;
            }
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: no such input '%.200s'", b->f->name, ref);
}

static mf_status function_connect(body *b, mf_node *node, const Tensorflow__NodeDef *def)
{
    mf_output *in = MF_ARENA_ARRAY(b->g->arena, mf_output, (int64_t)def->n_input);
    mf_node **controls = MF_ARENA_ARRAY(b->g->arena, mf_node *, (int64_t)def->n_input);
    int n_in = 0, n_controls = 0;

    if (!in || !controls)
        return MF_NOMEM("a function body");
    for (size_t i = 0; i < def->n_input; i++) {
        if (def->input[i][0] != '^') {
            MF_TRY(function_resolve(b, def->input[i], &in[n_in++]));
            continue;
        }
        controls[n_controls] = mf_graph_find(b->g, def->input[i] + 1);
        if (!controls[n_controls])
            controls[n_controls] = mf_map_find(&b->args, def->input[i] + 1);
        if (!controls[n_controls++])
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: no such input '%.200s'", b->f->name,
                           def->input[i]);
    }
    return mf_node_set_inputs(b->g, node, in, n_in, controls, n_controls);
}

static const char *ret_of(const body *b, const char *name)
{
    for (size_t i = 0; i < b->def->n_ret; i++) {
        if (strcmp(b->def->ret[i]->key, name) == 0)
            return b->def->ret[i]->value;
    }
    return NULL;
}

static mf_status function_add_results(body *b)
{
    int index = 0;

    for (int i = 0; i < b->f->def->n_out; i++) {
        const char *name = b->f->def->out[i].name, *ref = ret_of(b, name);
        mf_dtype types[64];
        mf_output from;
        int n;

        if (!ref)
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: result '%s' is not in ret",
                           b->f->name, name);
        MF_TRY(arg_types(b, &b->f->def->out[i], types, MF_COUNT(types), &n));
        MF_TRY(function_resolve(b, ref, &from));
        for (int k = 0; k < n; k++) {
            const mf_output in = { from.node, from.port + k };
            mf_node *node;

            MF_TRY(add_arg_node(b, "_Retval", index++, types[k], name, &in, &node));
        }
    }
    for (size_t i = 0; i < b->def->n_control_ret; i++) {
        mf_node *n = mf_graph_find(b->g, b->def->control_ret[i]->value);
        const mf_attr yes = { .kind = MF_ATTR_BOOL, .n = 1, .b = true };

        if (!n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: control result '%s' does not exist",
                           b->f->name, b->def->control_ret[i]->value);
        MF_TRY(mf_node_set_attr(b->g, n, "_control_ret", &yes));
    }
    return MF_OK;
}

static mf_status build_body(body *b, const mf_graph *caller)
{
    b->g->library = caller->library;
    b->g->outer = caller;
    b->g->body_of = b->f;
    MF_TRY(add_args(b));
    b->nodes = MF_ARENA_ARRAY(b->g->arena, mf_node *, (int64_t)b->def->n_node_def);
    if (!b->nodes)
        return MF_NOMEM("a function body");
    for (size_t i = 0; i < b->def->n_node_def; i++)
        MF_TRY(add_body_node(b, b->def->node_def[i], &b->nodes[i]));
    for (size_t i = 0; i < b->def->n_node_def; i++)
        MF_TRY(function_connect(b, b->nodes[i], b->def->node_def[i]));
    MF_TRY(function_add_results(b));
    return mf_graph_verify(b->g);
}

mf_status mf_function_body(const mf_graph *caller, const mf_function *function,
                           const mf_named_attr *attrs, int n_attrs, mf_graph **out)
{
    body b = { .f = function, .def = function->proto, .attrs = attrs, .n_attrs = n_attrs };
    mf_status st;

    *out = NULL;
    MF_TRY(mf_graph_new(&b.g));
    st = build_body(&b, caller);
    mf_map_deinit(&b.args);
    if (st != MF_OK) {
        mf_graph_free(b.g);
        return st;
    }
    *out = b.g;
    return MF_OK;
}
