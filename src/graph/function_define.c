/* SPDX-License-Identifier: Apache-2.0 */
/* function_define.c - turns a subgraph into a FunctionDef of a library; the inverse of function.c.
 */
#include "graph/function.h"
#include "graph/graphdef_codec.h"
#include "graph/op.h"
#include "proto/wire.h"

#include <string.h>

typedef struct cutter {
    const char *name;
    const mf_function_cut *cut;
    mf_arena *arena;
    mf_node **order;
    int64_t n;
    bool *needed; /* by node id */
    int **arg; /* by node id and port: index of the argument, from 1 */
    char **arg_names;
    Tensorflow__FunctionDef *def;
} cutter;

#define NEW(c, type, init_fn, p)                                                                   \
    do {                                                                                           \
        (p) = MF_ARENA_NEW((c)->arena, type);                                                      \
        if (!(p))                                                                                  \
            return MF_NOMEM("a function");                                                         \
        init_fn(p);                                                                                \
    } while (0)

#define ARRAY(c, type, n, p)                                                                       \
    do {                                                                                           \
        (p) = MF_ARENA_ARRAY((c)->arena, type, (int64_t)(n));                                      \
        if (!(p))                                                                                  \
            return MF_NOMEM("a function");                                                         \
    } while (0)

static int arg_of(const cutter *c, mf_output o)
{
    return c->arg[o.node->id] ? c->arg[o.node->id][o.port] : 0;
}

/* ---- nodes of the subgraph ---- */

static void function_define_need(cutter *c, mf_output o)
{
    if (!arg_of(c, o))
        c->needed[o.node->id] = true;
}

/* A control edge from the producer of an argument becomes one from the argument. */
static void need_first(cutter *c, mf_node *control)
{
    if (control->n_outputs == 0 || !arg_of(c, (mf_output){ control, 0 }))
        c->needed[control->id] = true;
}

static mf_status need_inputs(cutter *c, const mf_node *n)
{
    if (strcmp(n->op_name, "_Arg") == 0 || strcmp(n->op_name, "Placeholder") == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "function %s needs {{node %s}}, which is not among its inputs", c->name,
                       n->name);
    for (int k = 0; k < n->n_inputs; k++)
        function_define_need(c, n->inputs[k]);
    for (int k = 0; k < n->n_controls; k++)
        need_first(c, n->controls[k]);
    return MF_OK;
}

static mf_status function_define_find_needed(cutter *c)
{
    int64_t known = -1, now = 0;

    for (int i = 0; i < c->cut->n_out; i++)
        function_define_need(c, c->cut->out[i]);
    for (int i = 0; i < c->cut->n_effects; i++)
        c->needed[c->cut->effects[i]->id] = true;
    while (now != known) { /* repeats only for loops: the order excludes the edge that closes a
                              loop */
        known = now;
        now = 0;
        for (int64_t i = c->n - 1; i >= 0; i--) {
            if (c->needed[c->order[i]->id]) {
                MF_TRY(need_inputs(c, c->order[i]));
                now++;
            }
        }
    }
    return MF_OK;
}

/* ---- names ---- */

/* Nodes and arguments share a namespace. */
static char *arg_name(const cutter *c, int i)
{
    char *name = mf_arena_printf(c->arena, "input_%d", i);

    while (name && mf_graph_find(c->cut->from, name))
        name = mf_arena_printf(c->arena, "%s_", name);
    return name;
}

/* "input_3" or "node:output_name:index". */
static char *reference(const cutter *c, mf_output o)
{
    const int arg = arg_of(c, o);
    int first = 0, count = 0, k = 0;

    if (arg)
        return c->arg_names[arg - 1];
    for (; k < o.node->def->n_out; k++) {
        mf_node_arg_range(o.node, true, k, &first, &count);
        if (o.port < first + count)
            break;
    }
    return mf_arena_printf(c->arena, "%s:%s:%d", o.node->name, o.node->def->out[k].name,
                           o.port - first);
}

/* ---- the message ---- */

static mf_status function_define_add_node(cutter *c, const mf_node *n)
{
    Tensorflow__FunctionDef *f = c->def;
    Tensorflow__NodeDef *d;

    MF_TRY(mf_node_encode(n, c->arena, &d));
    for (int i = 0; i < n->n_inputs; i++) {
        d->input[i] = reference(c, n->inputs[i]);
        if (!d->input[i])
            return MF_NOMEM("a function");
    }
    for (int i = 0; i < n->n_controls; i++) {
        const int arg =
            n->controls[i]->n_outputs > 0 ? arg_of(c, (mf_output){ n->controls[i], 0 }) : 0;

        if (arg)
            d->input[n->n_inputs + i] = mf_arena_printf(c->arena, "^%s", c->arg_names[arg - 1]);
        if (!d->input[n->n_inputs + i])
            return MF_NOMEM("a function");
    }
    f->node_def[f->n_node_def++] = d;
    f->signature->is_stateful |= n->def->is_stateful;
    return MF_OK;
}

static mf_status arg_def(const cutter *c, char *name, mf_output o, Tensorflow__OpDef__ArgDef **out)
{
    NEW(c, Tensorflow__OpDef__ArgDef, tensorflow__op_def__arg_def__init, *out);
    (*out)->name = name;
    (*out)->type = (int32_t)mf_type_base(o.node->out_types[o.port]);
    return name ? MF_OK : MF_NOMEM("a function");
}

static mf_status string_entry(const cutter *c, char *key, char *value,
                              Tensorflow__StringEntry **out)
{
    NEW(c, Tensorflow__StringEntry, tensorflow__string_entry__init, *out);
    (*out)->key = key;
    (*out)->value = value;
    return key && value ? MF_OK : MF_NOMEM("a function");
}

static mf_status add_signature(cutter *c)
{
    Tensorflow__OpDef *s;

    NEW(c, Tensorflow__OpDef, tensorflow__op_def__init, s);
    c->def->signature = s;
    s->name = mf_arena_strdup(c->arena, c->name);
    ARRAY(c, Tensorflow__OpDef__ArgDef *, c->cut->n_in, s->input_arg);
    ARRAY(c, Tensorflow__OpDef__ArgDef *, c->cut->n_out, s->output_arg);
    for (int i = 0; i < c->cut->n_in; i++)
        MF_TRY(arg_def(c, c->arg_names[i], c->cut->in[i], &s->input_arg[s->n_input_arg++]));
    for (int i = 0; i < c->cut->n_out; i++)
        MF_TRY(arg_def(c, mf_arena_printf(c->arena, "output_%d", i), c->cut->out[i],
                       &s->output_arg[s->n_output_arg++]));
    return s->name ? MF_OK : MF_NOMEM("a function");
}

static mf_status function_define_add_results(cutter *c)
{
    Tensorflow__FunctionDef *f = c->def;

    ARRAY(c, Tensorflow__StringEntry *, c->cut->n_out, f->ret);
    ARRAY(c, Tensorflow__StringEntry *, c->cut->n_effects, f->control_ret);
    ARRAY(c, char *, c->cut->n_effects, f->signature->control_output);
    for (int i = 0; i < c->cut->n_out; i++)
        MF_TRY(string_entry(c, f->signature->output_arg[i]->name, reference(c, c->cut->out[i]),
                            &f->ret[f->n_ret++]));
    for (int i = 0; i < c->cut->n_effects; i++) {
        char *name = mf_arena_strdup(c->arena, c->cut->effects[i]->name);

        MF_TRY(string_entry(c, name, name, &f->control_ret[f->n_control_ret++]));
        f->signature->control_output[f->signature->n_control_output++] = name;
    }
    return MF_OK;
}

static mf_status build_def(cutter *c)
{
    NEW(c, Tensorflow__FunctionDef, tensorflow__function_def__init, c->def);
    ARRAY(c, Tensorflow__NodeDef *, c->n, c->def->node_def);
    MF_TRY(add_signature(c));
    for (int64_t i = 0; i < c->n; i++) {
        if (c->needed[c->order[i]->id])
            MF_TRY(function_define_add_node(c, c->order[i]));
    }
    return function_define_add_results(c);
}

static mf_status function_define_prepare(cutter *c)
{
    const int64_t n = c->cut->from->n_nodes;

    ARRAY(c, mf_node *, n, c->order);
    ARRAY(c, bool, n, c->needed);
    ARRAY(c, int *, n, c->arg);
    ARRAY(c, char *, c->cut->n_in, c->arg_names);
    for (int i = 0; i < c->cut->n_in; i++) {
        int *number = mf_output_number(c->arena, c->arg, c->cut->in[i]);

        c->arg_names[i] = arg_name(c, i);
        if (!number || !c->arg_names[i])
            return MF_NOMEM("a function");
        *number = i + 1;
    }
    return mf_graph_order(c->cut->from, c->order, &c->n);
}

mf_status mf_function_define(const char *name, const mf_function_cut *cut)
{
    cutter c = { .name = name, .cut = cut, .arena = mf_arena_new() };
    mf_buf bytes = { 0 };
    mf_status st = c.arena ? function_define_prepare(&c) : MF_NOMEM("a function");

    if (st == MF_OK)
        st = function_define_find_needed(&c);
    if (st == MF_OK)
        st = build_def(&c);
    if (st == MF_OK)
        st = mf_wire_encode(&c.def->base, &bytes);
    if (st == MF_OK)
        st = mf_graph_add_function(cut->from, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    mf_arena_free(c.arena);
    return st;
}

const char *mf_function_name(mf_graph *graph, const char *base, const char *what)
{
    mf_graph *lib = graph->library;
    const char *first = mf_arena_printf(lib->arena, "%s_%s", base, what), *name = first;
    const char *key = mf_arena_printf(lib->arena, "function %s", first); /* no node has this name */
    int64_t *counter = key ? mf_map_find(&lib->unique, key) : NULL;

    if (!first || !key)
        return NULL;
    if (!counter) {
        counter = MF_ARENA_NEW(lib->arena, int64_t);
        if (!counter || mf_map_set(&lib->unique, key, counter) != MF_OK)
            return NULL;
    }
    while (name && (mf_graph_function(lib, name) || mf_op_find(name)))
        name = mf_arena_printf(lib->arena, "%s_%lld", first, (long long)++*counter);
    return name;
}
