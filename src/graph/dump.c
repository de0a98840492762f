/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c - graphs as text, one line per node, in the order of the graph:
 *
 *     name = Op(input:0, ^control) {attr=value} @device : type, type
 *
 * with attributes that differ from their default, followed by the functions by name. And as
 * Graphviz. */
#include "graph/graphdef_codec.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static bool is_default(const mf_opdef *def, const mf_named_attr *a)
{
    const mf_attrdef *d = mf_opdef_find_attr(def, a->name);

    return d && d->has_default && mf_attr_equal(&d->default_value, &a->value);
}

static void print_attrs(const mf_opdef *def, const mf_named_attr *attrs, int n, mf_buf *out)
{
    bool any = false;

    for (int i = 0; i < n; i++) {
        if (def && is_default(def, &attrs[i]))
            continue;
        mf_buf_printf(out, "%s%s=", any ? ", " : " {", attrs[i].name);
        mf_attr_print(&attrs[i].value, out);
        any = true;
    }
    if (any)
        mf_buf_str(out, "}");
}

static void dump_print_types(const mf_node *n, mf_buf *out)
{
    for (int i = 0; i < n->n_outputs; i++)
        mf_buf_printf(out, "%s%s%s", i > 0 ? ", " : " : ",
                      mf_type_is_ref(n->out_types[i]) ? "ref " : "",
                      mf_dtype_name(mf_type_base(n->out_types[i])));
}

static void print_node(const mf_node *n, mf_buf *out)
{
    mf_buf_printf(out, "%s = %s(", n->name, n->op_name);
    for (int i = 0; i < n->n_inputs; i++)
        mf_buf_printf(out, "%s%s:%d", i > 0 ? ", " : "",
                      n->inputs[i].node ? n->inputs[i].node->name : "?", n->inputs[i].port);
    for (int i = 0; i < n->n_controls; i++)
        mf_buf_printf(out, "%s^%s", i + n->n_inputs > 0 ? ", " : "", n->controls[i]->name);
    mf_buf_str(out, ")");
    print_attrs(n->def, n->attrs, n->n_attrs, out);
    if (n->device[0])
        mf_buf_printf(out, " @%s", n->device);
    dump_print_types(n, out);
    mf_buf_str(out, "\n");
}

static int dump_by_attr_name(const void *a, const void *b)
{
    return strcmp(((const mf_named_attr *)a)->name, ((const mf_named_attr *)b)->name);
}

/* A node of a function body, where inputs are named "node:output:index". */
static void print_body_node(const Tensorflow__NodeDef *n, mf_graph *scratch, mf_buf *out)
{
    mf_named_attr *attrs;
    int n_attrs;

    mf_buf_printf(out, "    %s = %s(", n->name, n->op);
    for (size_t i = 0; i < n->n_input; i++)
        mf_buf_printf(out, "%s%s", i > 0 ? ", " : "", n->input[i]);
    mf_buf_str(out, ")");
    if (mf_attrs_decode(scratch, n->attr, (int)n->n_attr, &attrs, &n_attrs) == MF_OK) {
        if (n_attrs > 0)
            qsort(attrs, (size_t)n_attrs, sizeof *attrs, dump_by_attr_name);
        print_attrs(NULL, attrs, n_attrs, out);
    }
    mf_buf_str(out, "\n");
}

static void print_function(const mf_function *f, mf_buf *out)
{
    const Tensorflow__FunctionDef *proto = f->proto;
    mf_graph *scratch;

    mf_buf_printf(out, "\nfunction %s", f->name);
    mf_opdef_print(f->def, out);
    mf_buf_str(out, "\n");
    if (mf_graph_new(&scratch) != MF_OK) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < proto->n_node_def; i++)
        print_body_node(proto->node_def[i], scratch, out);
    for (size_t i = 0; i < proto->n_ret; i++)
        mf_buf_printf(out, "    return %s = %s\n", proto->ret[i]->key, proto->ret[i]->value);
    mf_graph_free(scratch);
}

static int dump_by_function_name(const void *a, const void *b)
{
    const mf_function *x = *(const mf_function *const *)a, *y = *(const mf_function *const *)b;

    return strcmp(x->name, y->name);
}

static void print_functions(const mf_graph *graph, mf_buf *out)
{
    const mf_function **all = mf_calloc(graph->functions.count, sizeof(const mf_function *));
    int64_t it = 0, n = 0;

    if (!all) {
        out->failed = true;
        return;
    }
    for (const mf_map_entry *e; (e = mf_map_next(&graph->functions, &it)) != NULL;)
        all[n++] = e->value;
    if (n > 0)
        qsort(all, (size_t)n, sizeof(const mf_function *), dump_by_function_name);
    for (int64_t i = 0; i < n; i++)
        print_function(all[i], out);
    mf_free(all);
}

void mf_graph_print(const mf_graph *graph, mf_buf *out)
{
    for (int64_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i]->removed)
            print_node(graph->nodes[i], out);
    }
    print_functions(graph, out);
}

/* ---- Graphviz ---- */

static void dot_text(const char *s, mf_buf *out)
{
    for (; *s; s++)
        mf_buf_printf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
}

static const char *dot_style(const mf_node *n)
{
    if (strcmp(n->op_name, "Const") == 0)
        return "shape=box,style=\"rounded,filled\",fillcolor=gray90";
    if (n->n_inputs == 0 && n->n_outputs > 0)
        return "shape=box,style=filled,fillcolor=lightblue";
    if (n->def && n->def->is_stateful)
        return "shape=box,style=filled,fillcolor=lightyellow";
    return "shape=box";
}

static void dot_node(const mf_node *n, mf_buf *out)
{
    mf_buf_printf(out, "    n%d [%s,label=\"", n->id, dot_style(n));
    dot_text(n->name, out);
    mf_buf_str(out, "\\n");
    dot_text(n->op_name, out);
    mf_buf_str(out, "\"];\n");
    for (int i = 0; i < n->n_inputs; i++) {
        if (!n->inputs[i].node)
            continue;
        mf_buf_printf(out, "    n%d -> n%d", n->inputs[i].node->id, n->id);
        if (n->inputs[i].port > 0)
            mf_buf_printf(out, " [taillabel=\"%d\"]", n->inputs[i].port);
        mf_buf_str(out, ";\n");
    }
    for (int i = 0; i < n->n_controls; i++)
        mf_buf_printf(out, "    n%d -> n%d [style=dashed];\n", n->controls[i]->id, n->id);
}

void mf_graph_dot(const mf_graph *graph, mf_buf *out)
{
    mf_buf_str(out, "digraph graph_def {\n    node [fontname=\"sans-serif\"];\n");
    for (int64_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i]->removed)
            dot_node(graph->nodes[i], out);
    }
    mf_buf_str(out, "}\n");
}
