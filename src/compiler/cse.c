/* SPDX-License-Identifier: Apache-2.0 */
/* cse.c - pass: common subexpression elimination of pure ops with equal attributes and inputs.
 * Exact. */
#include "compiler/compiler.h"

#include <string.h>

static uint64_t cse_mix(uint64_t h, uint64_t v)
{
    return mf_hash(&v, sizeof v, h);
}

static uint64_t attr_hash(const mf_attr *a)
{
    uint64_t h = (uint64_t)a->kind * 31 + (uint64_t)a->n;

    if (a->is_list)
        return h; /* the comparison decides */
    switch (a->kind) {
    case MF_ATTR_STRING:
        return mf_hash(a->s.data, a->s.len, h);
    case MF_ATTR_INT:
        return cse_mix(h, (uint64_t)a->i);
    case MF_ATTR_BOOL:
        return cse_mix(h, a->b);
    case MF_ATTR_TYPE:
        return cse_mix(h, (uint64_t)a->type);
    case MF_ATTR_TENSOR: {
        const mf_tensor *t = a->tensor;
        const size_t bytes = (size_t)t->count * mf_dtype_size(t->dtype);

        h = cse_mix(h, (uint64_t)t->count);
        return mf_dtype_is_plain(t->dtype) ? mf_hash(t->data, bytes < 256 ? bytes : 256, h) : h;
    }
    default:
        return h;
    }
}

static uint64_t node_hash(const mf_node *n)
{
    uint64_t h = mf_hash(n->op_name, strlen(n->op_name), 7);

    for (int i = 0; i < n->n_inputs; i++)
        h = cse_mix(cse_mix(h, (uint64_t)n->inputs[i].node->id), (uint64_t)n->inputs[i].port);
    for (int i = 0; i < n->n_attrs; i++) {
        if (n->attrs[i].name[0] != '_')
            h = cse_mix(h, attr_hash(&n->attrs[i].value));
    }
    return h;
}

/* Attributes that begin with '_' are hints, and ignored. */
static int next_attr(const mf_node *n, int i)
{
    while (i < n->n_attrs && n->attrs[i].name[0] == '_')
        i++;
    return i;
}

static bool cse_same_attrs(const mf_node *a, const mf_node *b)
{
    int i = next_attr(a, 0), k = next_attr(b, 0);

    while (i < a->n_attrs && k < b->n_attrs) {
        if (strcmp(a->attrs[i].name, b->attrs[k].name) != 0 ||
            !mf_attr_equal(&a->attrs[i].value, &b->attrs[k].value))
            return false;
        i = next_attr(a, i + 1);
        k = next_attr(b, k + 1);
    }
    return i >= a->n_attrs && k >= b->n_attrs;
}

static bool cse_same(const mf_node *a, const mf_node *b)
{
    if (a->op != b->op || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs ||
        strcmp(a->device, b->device) != 0)
        return false;
    for (int i = 0; i < a->n_inputs; i++) {
        if (a->inputs[i].node != b->inputs[i].node || a->inputs[i].port != b->inputs[i].port)
            return false;
    }
    return cse_same_attrs(a, b);
}

typedef struct cse_bucket {
    mf_node *node;
    uint64_t hash;
} cse_bucket;

static mf_status find_same(mf_compile *c, mf_node *const *order, int64_t n, cse_bucket *table,
                           int64_t cap, mf_subst *s)
{
    for (int64_t i = 0; i < n; i++) {
        mf_node *node = order[i];
        uint64_t h;
        int64_t at;

        /* Inputs may have been merged already. */
        for (int k = 0; k < node->n_inputs; k++) {
            const mf_output in = node->inputs[k];

            if (in.node->id < s->n && s->to[in.node->id] && s->to[in.node->id][in.port].node)
                node->inputs[k] = s->to[in.node->id][in.port];
        }
        if (!mf_node_is_pure(node) || node->n_controls > 0)
            continue;
        h = node_hash(node);
        at = (int64_t)(h & (uint64_t)(cap - 1));
        while (table[at].node && !(table[at].hash == h && cse_same(table[at].node, node)))
            at = (at + 1) & (cap - 1);
        if (!table[at].node) {
            table[at] = (cse_bucket){ node, h };
            continue;
        }
        for (int k = 0; k < node->n_outputs; k++)
            MF_TRY(mf_subst_add(s, c, (mf_output){ node, k }, (mf_output){ table[at].node, k }));
    }
    return MF_OK;
}

mf_status mf_pass_cse(mf_compile *c)
{
    mf_node **order = NULL;
    mf_subst s = { 0 };
    cse_bucket *table = NULL;
    int64_t n, cap = 16;
    mf_status st = mf_compile_order(c, &order, &n);

    while (cap < c->graph->n_nodes * 2)
        cap *= 2;
    if (st == MF_OK)
        st = mf_subst_init(&s, c);
    if (st == MF_OK && !(table = mf_calloc(cap, sizeof *table)))
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = find_same(c, order, n, table, cap, &s);
    if (st == MF_OK)
        st = mf_subst_apply(&s, c);
    mf_subst_deinit(&s);
    mf_free(table);
    mf_free(order);
    return st;
}
