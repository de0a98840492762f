/* SPDX-License-Identifier: Apache-2.0 */
/* function_library.c - extracts a function with all functions reachable from it. */
#include "graph/function.h"
#include "graph/graphdef_codec.h"

#include <string.h>

typedef struct taker {
    const mf_graph *from;
    mf_graph *to;
    const mf_function **todo; /* copied, but not scanned yet */
    int64_t n, cap;
} taker;

static mf_status function_library_take(taker *t, const char *name)
{
    const mf_function *f = mf_graph_function(t->from, name);

    if (!f || mf_graph_function(t->to, name))
        return MF_OK;
    MF_TRY(mf_graph_add_function(t->to, f->bytes.data, f->bytes.len));
    MF_TRY(mf_grow(&t->todo, &t->cap, t->n + 1, sizeof *t->todo));
    t->todo[t->n++] = f;
    return MF_OK;
}

static mf_status take_named(taker *t, const Tensorflow__AttrValue *v)
{
    if (v && v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_FUNC)
        return function_library_take(t, v->func->name);
    if (!v || v->value_case != TENSORFLOW__ATTR_VALUE__VALUE_LIST)
        return MF_OK;
    for (size_t i = 0; i < v->list->n_func; i++)
        MF_TRY(function_library_take(t, v->list->func[i]->name));
    return MF_OK;
}

static mf_status collect_called(taker *t, const mf_function *f)
{
    const Tensorflow__FunctionDef *def = f->proto;

    for (size_t i = 0; i < def->n_node_def; i++) {
        const Tensorflow__NodeDef *n = def->node_def[i];

        MF_TRY(function_library_take(t, n->op));
        for (size_t k = 0; k < n->n_attr; k++)
            MF_TRY(take_named(t, n->attr[k]->value));
    }
    return MF_OK;
}

/* Functions that attributes of the call refer to. */
static mf_status function_library_take_attrs(taker *t, const mf_named_attr *attrs, int n)
{
    for (int i = 0; i < n; i++) {
        const mf_attr *a = &attrs[i].value;

        for (int64_t k = 0; a->kind == MF_ATTR_FUNC && k < a->n; k++)
            MF_TRY(function_library_take(t, a->is_list ? a->funcs[k].name : a->func->name));
    }
    return MF_OK;
}

mf_status mf_function_library(const mf_graph *graph, const mf_func_ref *root, mf_graph **out)
{
    taker t = { .from = graph };
    mf_status st;

    *out = NULL;
    if (!mf_graph_function(graph, root->name))
        return MF_FAIL(MF_NOT_FOUND, "Function '%.200s' is not defined", root->name);
    MF_TRY(mf_graph_new(&t.to));
    st = function_library_take(&t, root->name);
    if (st == MF_OK)
        st = function_library_take_attrs(&t, root->attrs, root->n_attrs);
    while (st == MF_OK && t.n > 0)
        st = collect_called(&t, t.todo[--t.n]);
    mf_free(t.todo);
    if (st != MF_OK)
        mf_graph_free(t.to);
    else
        *out = t.to;
    return st;
}
