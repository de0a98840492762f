/* SPDX-License-Identifier: Apache-2.0 */
/* collective_keys.c - finds the collectives of a run, and the members of their groups under other
 * masters. */
#include "tf_server/collective_keys.h"

#include "graph/graphdef_codec.h"

#include <stdlib.h>
#include <string.h>

typedef struct ids {
    int32_t group, size, instance;
} ids;

typedef struct keys {
    ids *all;
    int64_t n, cap;
} keys;

static mf_status add_ids(keys *k, ids new)
{
    MF_TRY(mf_grow(&k->all, &k->cap, k->n + 1, sizeof *k->all));
    k->all[k->n++] = new;
    return MF_OK;
}

static bool is_collective(const char *op)
{
    return strncmp(op, "Collective", 10) == 0;
}

static int32_t collective_keys_int_attr(const Tensorflow__NodeDef *n, const char *name)
{
    for (size_t i = 0; i < n->n_attr; i++) {
        if (strcmp(n->attr[i]->key, name) == 0 && n->attr[i]->value &&
            n->attr[i]->value->value_case == TENSORFLOW__ATTR_VALUE__VALUE_I)
            return (int32_t)n->attr[i]->value->i;
    }
    return 0;
}

static mf_status add_function(keys *k, const mf_function *f)
{
    const Tensorflow__FunctionDef *def = f ? f->proto : NULL;

    for (size_t i = 0; def && i < def->n_node_def; i++) {
        const Tensorflow__NodeDef *n = def->node_def[i];

        if (is_collective(n->op))
            MF_TRY(add_ids(k, (ids){ collective_keys_int_attr(n, "group_key"),
                                     collective_keys_int_attr(n, "group_size"),
                                     collective_keys_int_attr(n, "instance_key") }));
    }
    return MF_OK;
}

static mf_status collective_keys_add_node(keys *k, const mf_graph *g, const mf_node *n)
{
    if (n->op && is_collective(n->op_name))
        MF_TRY(add_ids(k, (ids){ (int32_t)mf_node_int(n, "group_key"),
                                 (int32_t)mf_node_int(n, "group_size"),
                                 (int32_t)mf_node_int(n, "instance_key") }));
    MF_TRY(add_function(k, n->function));
    for (int i = 0; i < n->n_attrs; i++) {
        const mf_attr *a = &n->attrs[i].value;

        for (int64_t f = 0; a->kind == MF_ATTR_FUNC && f < a->n; f++)
            MF_TRY(add_function(
                k, mf_graph_function(g, a->is_list ? a->funcs[f].name : a->func->name)));
    }
    return MF_OK;
}

static int collective_keys_order(int32_t x, int32_t y)
{
    return (x > y) - (x < y);
}

static int by_instance(const void *a, const void *b)
{
    const ids *x = a, *y = b;
    const int by = collective_keys_order(x->instance, y->instance);

    return by != 0 ? by : collective_keys_order(x->group, y->group);
}

/* The keys are sorted. TensorFlow's masters combine them the same way: each once, ascending. */
static int64_t collective_keys_mix(const keys *k)
{
    uint64_t hash = UINT64_C(0x8774aa605c729c72);

    for (int64_t i = 0; i < k->n; i++) {
        const uint64_t next = (uint64_t)k->all[i].instance;

        if (i == 0 || k->all[i].instance != k->all[i - 1].instance)
            hash = next ^ (hash + UINT64_C(0x9e3779b97f4a7800) + (next << 10) + (next >> 4));
    }
    return hash == 0 ? 1 : (int64_t)hash;
}

/* True if a group has fewer members here than its size. */
static bool has_others(const keys *k)
{
    int64_t first = 0;

    for (int64_t i = 1; i <= k->n; i++) {
        if (i < k->n && by_instance(&k->all[first], &k->all[i]) == 0)
            continue;
        if (i - first < k->all[first].size)
            return true;
        first = i;
    }
    return false;
}

mf_status mf_collectives_find(mf_graph *const *graphs, int n, mf_collectives *out)
{
    keys k = { 0 };
    mf_status st = MF_OK;

    *out = (mf_collectives){ 0 };
    for (int g = 0; g < n; g++) {
        for (int64_t i = 0; st == MF_OK && graphs[g] && i < graphs[g]->n_nodes; i++) {
            if (!graphs[g]->nodes[i]->removed)
                st = collective_keys_add_node(&k, graphs[g], graphs[g]->nodes[i]);
        }
    }
    if (st == MF_OK && k.n > 0) {
        qsort(k.all, (size_t)k.n, sizeof *k.all, by_instance);
        *out = (mf_collectives){ collective_keys_mix(&k), has_others(&k) };
    }
    mf_free(k.all);
    return st;
}
