/* SPDX-License-Identifier: Apache-2.0 */
/* partial_sums.c - sets of partial sums of several members: their nodes, and merging. */
#include "collective/group_net.h"

#include <string.h>

/* ---- nodes ---- */

/* Does b follow a under the same parent? */
static bool are_siblings(int64_t leaves, mf_reduction_tree_node a, mf_reduction_tree_node b)
{
    const int64_t size = a.hi - a.lo, end = a.lo + 2 * size;

    return a.hi == b.lo && (size & (size - 1)) == 0 && a.lo % (2 * size) == 0 &&
           b.hi == (end < leaves ? end : leaves);
}

/* Appends a node on the right; complete parents replace their children. */
static int push_node(int64_t leaves, mf_reduction_tree_node *nodes, int n,
                     mf_reduction_tree_node node)
{
    while (n > 0 && are_siblings(leaves, nodes[n - 1], node)) {
        node.lo = nodes[n - 1].lo;
        n--;
    }
    nodes[n] = node;
    return n + 1;
}

/* Members own adjacent leaves, but not necessarily in rank order. */
static void sort_nodes(mf_reduction_tree_node *nodes, int n)
{
    for (int i = 1; i < n; i++) {
        const mf_reduction_tree_node x = nodes[i];
        int at = i;

        for (; at > 0 && nodes[at - 1].lo > x.lo; at--)
            nodes[at] = nodes[at - 1];
        nodes[at] = x;
    }
}

static int merge_nodes(int64_t leaves, mf_reduction_tree_node *nodes, int n)
{
    int merged = 0;

    sort_nodes(nodes, n);
    for (int i = 0; i < n; i++)
        merged = push_node(leaves, nodes, merged, nodes[i]);
    return merged;
}

int mf_partial_sums_nodes(const mf_reduce *r, const int *ranks, int n,
                          mf_reduction_tree_node *nodes)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        memcpy(nodes + count, r->parts[ranks[i]], (size_t)r->n_parts[ranks[i]] * sizeof *nodes);
        count += r->n_parts[ranks[i]];
    }
    return merge_nodes(r->leaves, nodes, count);
}

/* ---- sets ---- */

static bool holds(mf_reduction_tree_node outer, mf_reduction_tree_node inner)
{
    return outer.lo <= inner.lo && inner.hi <= outer.hi;
}

/* The sum of the parts inside `node`. */
static mf_status partial_sums_add_node(mf_net_group *g, const mf_reduce *r,
                                       mf_reduction_tree_node node,
                                       const mf_reduction_tree_part *parts, int n, int64_t count,
                                       const void **out)
{
    mf_reduction_tree_part *within = mf_net_group_alloc(g, n, sizeof *within);
    void *sum;
    int m = 0;

    if (!within)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i < n; i++) {
        if (holds(node, parts[i].node))
            within[m++] = parts[i];
    }
    *out = within[0].data;
    if (m == 1)
        return MF_OK;
    sum = mf_net_group_alloc(g, count, mf_dtype_size(r->dtype));
    if (!sum)
        return MF_RESOURCE_EXHAUSTED;
    *out = sum;
    return mf_reduction_tree_sum(r->leaves, node, within, m, r->dtype, count, sum);
}

/* The set of sums that can be computed from these parts. */
static mf_status make_partial_sums(mf_net_group *g, const mf_reduce *r,
                                   const mf_reduction_tree_part *parts, int n, int64_t from,
                                   int64_t count, mf_partial_sums *out)
{
    mf_reduction_tree_node *nodes = mf_net_group_alloc(g, n, sizeof *nodes);

    *out = (mf_partial_sums){ .from = from, .count = count };
    out->parts = mf_net_group_alloc(g, n, sizeof *out->parts);
    if (!nodes || !out->parts)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i < n; i++)
        nodes[i] = parts[i].node;
    out->n = merge_nodes(r->leaves, nodes, n);
    for (int i = 0; i < out->n; i++) {
        out->parts[i].node = nodes[i];
        MF_TRY(partial_sums_add_node(g, r, nodes[i], parts, n, count, &out->parts[i].data));
    }
    return MF_OK;
}

mf_status mf_partial_sums_own(mf_net_group *g, const mf_reduce *r, int64_t from, int64_t count,
                              mf_partial_sums *out)
{
    const int self = g->head.rank, n = r->n_parts[self];
    mf_reduction_tree_part *parts = mf_net_group_alloc(g, n, sizeof *parts);

    if (!parts)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i < n; i++)
        parts[i] = (mf_reduction_tree_part){ r->parts[self][i], mf_at(r, r->data[i], from) };
    return make_partial_sums(g, r, parts, n, from, count, out);
}

mf_status mf_partial_sums_room(mf_net_group *g, const mf_reduce *r, const int *ranks, int n,
                               int64_t from, int64_t count, mf_partial_sums *out)
{
    mf_reduction_tree_node *nodes;
    int most = 0;

    for (int i = 0; i < n; i++)
        most += r->n_parts[ranks[i]];
    *out = (mf_partial_sums){ .from = from, .count = count };
    nodes = mf_net_group_alloc(g, most, sizeof *nodes);
    out->parts = mf_net_group_alloc(g, most, sizeof *out->parts);
    if (!nodes || !out->parts)
        return MF_RESOURCE_EXHAUSTED;
    out->n = mf_partial_sums_nodes(r, ranks, n, nodes);
    for (int i = 0; i < out->n; i++) {
        void *data = mf_net_group_alloc(g, count, mf_dtype_size(r->dtype));

        if (!data)
            return MF_RESOURCE_EXHAUSTED;
        out->parts[i] = (mf_reduction_tree_part){ nodes[i], data };
    }
    return MF_OK;
}

mf_status mf_partial_sums_merge(mf_net_group *g, const mf_reduce *r, mf_partial_sums *sums,
                                const mf_partial_sums *other)
{
    const int n = sums->n + other->n;
    mf_reduction_tree_part *parts = mf_net_group_alloc(g, n, sizeof *parts);

    if (!parts)
        return MF_RESOURCE_EXHAUSTED;
    memcpy(parts, sums->parts, (size_t)sums->n * sizeof *parts);
    memcpy(parts + sums->n, other->parts, (size_t)other->n * sizeof *parts);
    return make_partial_sums(g, r, parts, n, sums->from, sums->count, sums);
}

mf_status mf_partial_sums_slice(mf_net_group *g, const mf_reduce *r, const mf_partial_sums *sums,
                                int64_t from, int64_t count, mf_partial_sums *out)
{
    mf_reduction_tree_part *parts = mf_net_group_alloc(g, sums->n, sizeof *parts);

    if (!parts)
        return MF_RESOURCE_EXHAUSTED;
    for (int i = 0; i < sums->n; i++)
        parts[i] = (mf_reduction_tree_part){ sums->parts[i].node,
                                             mf_at(r, sums->parts[i].data, from - sums->from) };
    *out = (mf_partial_sums){ from, count, parts, sums->n };
    return MF_OK;
}

mf_status mf_partial_sums_total(const mf_reduce *r, const mf_partial_sums *bags, int n,
                                mf_net_group *g, void *out)
{
    mf_reduction_tree_part *parts;
    int count = 0;

    for (int i = 0; i < n; i++)
        count += bags[i].n;
    parts = mf_net_group_alloc(g, count, sizeof *parts);
    if (!parts)
        return MF_RESOURCE_EXHAUSTED;
    count = 0;
    for (int i = 0; i < n; i++) {
        memcpy(parts + count, bags[i].parts, (size_t)bags[i].n * sizeof *parts);
        count += bags[i].n;
    }
    return mf_reduction_tree_sum(r->leaves, (mf_reduction_tree_node){ 0, r->leaves }, parts, count,
                                 r->dtype, bags[0].count, out);
}

int mf_partial_sums_flows(const mf_reduce *r, const mf_partial_sums *sums, int rank, bool out,
                          mf_message_flow *flows)
{
    const int64_t bytes = sums->count * (int64_t)mf_dtype_size(r->dtype);
    int n = 0;

    for (int i = 0; i < sums->n && bytes > 0; i++)
        flows[n++] = (mf_message_flow){ rank, out, (void *)(uintptr_t)sums->parts[i].data, bytes };
    return n;
}
