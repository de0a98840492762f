/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_ring.c - ring all-reduce. The way of slice j around the ring starts at member j + 1 and
 * ends at member j, which keeps the slice. A node of the reduction tree is added by the last member
 * on that way that owns leaves of it. So each partial sum is sent once, past the members that could
 * not add it, and a member that has one partial sum sends no more bytes than in a ring without a
 * fixed order of addition. Then the sums circulate between neighbours. */
#include "collective/group_net.h"

#include <stdlib.h>
#include <string.h>

static int around(int i, int n)
{
    return (i % n + n) % n;
}

/* ---- the tree above the partial sums of all members ---- */

typedef struct ring_part {
    mf_reduction_tree_node node;
    int owner, index; /* the member's partial sum with this index */
} ring_part;

/* A partial sum, the sum of two nodes, or the top: the sum in the hands of the slice's owner. */
typedef struct ring_node {
    mf_reduction_tree_node node;
    int left, right; /* -1: none */
    int stage; /* 0: a partial sum; otherwise one more than those of the children */
    const ring_part *part; /* NULL: a sum */
} ring_node;

typedef struct ring_plan {
    mf_net_group *g;
    const mf_reduce *r;
    ring_part *parts; /* from left to right */
    ring_node *nodes; /* children first; the last one is the top */
    int n_parts, n_nodes;
    int *place; /* by slice and node: the member that computes it */
    const void **data; /* by slice and node: those in the hands of this member */
    mf_message_flow *flows;
} ring_plan;

static int by_first_leaf(const void *a, const void *b)
{
    const int64_t x = ((const ring_part *)a)->node.lo, y = ((const ring_part *)b)->node.lo;

    return x < y ? -1 : x > y;
}

static void list_parts(ring_plan *x)
{
    for (int m = 0; m < x->g->head.size; m++) {
        for (int i = 0; i < x->r->n_parts[m]; i++)
            x->parts[x->n_parts++] = (ring_part){ x->r->parts[m][i], m, i };
    }
    qsort(x->parts, (size_t)x->n_parts, sizeof *x->parts, by_first_leaf);
}

static int put_node(ring_plan *x, ring_node node)
{
    const int left = node.left < 0 ? 0 : x->nodes[node.left].stage + 1;
    const int right = node.right < 0 ? 0 : x->nodes[node.right].stage + 1;

    node.stage = left > right ? left : right;
    x->nodes[x->n_nodes] = node;
    return x->n_nodes++;
}

/* The node of `size` leaves at lo, which the parts [from, to) cover. */
static int add_nodes(ring_plan *x, int64_t lo, int64_t size, int from, int to)
{
    const int64_t middle = lo + size / 2, end = lo + size;
    const int64_t hi = end < x->r->leaves ? end : x->r->leaves;
    int split = from;
    ring_node sum = { .node = { lo, hi } };

    MF_ASSERT(from < to);
    if (to - from == 1 && x->parts[from].node.lo == lo && x->parts[from].node.hi == hi)
        return put_node(x, (ring_node){ { lo, hi }, -1, -1, 0, &x->parts[from] });
    if (middle >= x->r->leaves)
        return add_nodes(x, lo, size / 2, from, to);
    while (split < to && x->parts[split].node.lo < middle)
        split++;
    sum.left = add_nodes(x, lo, size / 2, from, split);
    sum.right = add_nodes(x, middle, size / 2, split, to);
    return put_node(x, sum);
}

static void add_tree(ring_plan *x)
{
    const mf_reduction_tree_node all = { 0, x->r->leaves };
    int64_t size = 1;

    while (size < x->r->leaves)
        size *= 2;
    (void)put_node(x, (ring_node){ all, add_nodes(x, 0, size, 0, x->n_parts), -1, 0, NULL });
}

/* ---- slices ---- */

static int64_t slice_at(const ring_plan *x, int slice)
{
    return mf_group_cut(&x->g->head, x->r->count, slice);
}

static int64_t slice_count(const ring_plan *x, int slice)
{
    return slice_at(x, slice + 1) - slice_at(x, slice);
}

static char *slice_out(const ring_plan *x, int slice)
{
    return mf_at(x->r, x->r->out, slice_at(x, slice));
}

static size_t index_of(const ring_plan *x, int slice, int node)
{
    return (size_t)slice * (size_t)x->n_nodes + (size_t)node;
}

/* The later of two members on the way of a slice. */
static int ring_later(int a, int b, int slice, int n)
{
    return around(a - slice - 1, n) > around(b - slice - 1, n) ? a : b;
}

static int place_of(const ring_plan *x, int slice, int v)
{
    const ring_node *node = &x->nodes[v];

    if (v == x->n_nodes - 1)
        return slice;
    if (node->part)
        return node->part->owner;
    return ring_later(x->place[index_of(x, slice, node->left)],
                      x->place[index_of(x, slice, node->right)], slice, x->g->head.size);
}

static void place_slice(ring_plan *x, int slice)
{
    for (int v = 0; v < x->n_nodes; v++) {
        const ring_part *part = x->nodes[v].part;

        x->place[index_of(x, slice, v)] = place_of(x, slice, v);
        if (part && part->owner == x->g->head.rank)
            x->data[index_of(x, slice, v)] =
                mf_at(x->r, x->r->data[part->index], slice_at(x, slice));
    }
}

static mf_status make_plan(ring_plan *x)
{
    const int n = x->g->head.size;
    int64_t parts = 0, all;

    for (int m = 0; m < n; m++)
        parts += x->r->n_parts[m];
    all = 2 * parts * n; /* slices by nodes */
    x->parts = mf_net_group_alloc(x->g, parts, sizeof *x->parts);
    x->nodes = mf_net_group_alloc(x->g, 2 * parts, sizeof *x->nodes);
    x->place = mf_net_group_alloc(x->g, all, sizeof *x->place);
    x->data = mf_net_group_alloc(x->g, all, sizeof *x->data);
    x->flows = mf_net_group_alloc(x->g, 2 * all, sizeof *x->flows);
    if (!x->parts || !x->nodes || !x->place || !x->data || !x->flows)
        return MF_RESOURCE_EXHAUSTED;
    list_parts(x);
    add_tree(x);
    for (int j = 0; j < n; j++)
        place_slice(x, j);
    return MF_OK;
}

/* ---- reduce-scatter ---- */

/* The flow of a child to the member that adds it; *k counts flows. */
static mf_status pass_child(ring_plan *x, int slice, int v, int child, int *k)
{
    const int self = x->g->head.rank, to = x->place[index_of(x, slice, v)];
    const int from = x->place[index_of(x, slice, child)];
    const int64_t count = slice_count(x, slice);
    const int64_t bytes = count * (int64_t)mf_dtype_size(x->r->dtype);
    const void **data = &x->data[index_of(x, slice, child)];
    void *room;

    if (from == to || bytes == 0 || (from != self && to != self))
        return MF_OK;
    if (from == self) {
        x->flows[(*k)++] = mf_message_flow_to(to, *data, bytes);
        return MF_OK;
    }
    room = v == x->n_nodes - 1 ? slice_out(x, slice)
                               : mf_net_group_alloc(x->g, count, mf_dtype_size(x->r->dtype));
    if (!room)
        return MF_RESOURCE_EXHAUSTED;
    *data = room;
    x->flows[(*k)++] = mf_message_flow_from(from, room, bytes);
    return MF_OK;
}

/* The sum goes to its final place, over the left one, or, if that is the caller's, to new memory.
 */
static void *ring_sum_room(ring_plan *x, int slice, int v)
{
    const ring_node *node = &x->nodes[v], *left = &x->nodes[node->left];

    if (v == x->n_nodes - 2 && slice == x->g->head.rank)
        return slice_out(x, slice);
    if (left->part && left->part->owner == x->g->head.rank)
        return mf_net_group_alloc(x->g, slice_count(x, slice), mf_dtype_size(x->r->dtype));
    return (void *)(uintptr_t)x->data[index_of(x, slice, node->left)];
}

static mf_status add_children(ring_plan *x, int slice, int v)
{
    const ring_node *node = &x->nodes[v];
    const void *left = x->data[index_of(x, slice, node->left)];
    const int64_t count = slice_count(x, slice);
    mf_reduction_tree_part two[2] = { { x->nodes[node->left].node, left } };
    void *sum;

    if (x->place[index_of(x, slice, v)] != x->g->head.rank || count == 0)
        return MF_OK;
    if (v == x->n_nodes - 1) {
        if (left != slice_out(x, slice))
            memcpy(slice_out(x, slice), left, (size_t)count * mf_dtype_size(x->r->dtype));
        return MF_OK;
    }
    two[1] = (mf_reduction_tree_part){ x->nodes[node->right].node,
                                       x->data[index_of(x, slice, node->right)] };
    sum = ring_sum_room(x, slice, v);
    if (!sum)
        return MF_RESOURCE_EXHAUSTED;
    x->data[index_of(x, slice, v)] = sum;
    return mf_reduction_tree_sum(x->r->leaves, node->node, two, MF_COUNT(two), x->r->dtype, count,
                                 sum);
}

/* All sums of a stage, of all slices. */
static mf_status run_stage(ring_plan *x, int stage)
{
    int k = 0;

    for (int j = 0; j < x->g->head.size; j++) {
        for (int v = 0; v < x->n_nodes; v++) {
            if (x->nodes[v].stage != stage)
                continue;
            MF_TRY(pass_child(x, j, v, x->nodes[v].left, &k));
            if (x->nodes[v].right >= 0)
                MF_TRY(pass_child(x, j, v, x->nodes[v].right, &k));
        }
    }
    MF_TRY(mf_net_flow(x->g, &x->r->call, x->flows, k));
    for (int j = 0; j < x->g->head.size; j++) {
        for (int v = 0; v < x->n_nodes; v++) {
            if (x->nodes[v].stage == stage)
                MF_TRY(add_children(x, j, v));
        }
    }
    return MF_OK;
}

/* ---- all-gather ---- */

/* The sums circulate: this member sends slice self - s. */
static mf_status pass_sum(mf_net_group *g, const mf_reduce *r, int s)
{
    const int n = g->head.size, self = g->head.rank;
    const int out = around(self - s, n), in = around(self - 1 - s, n);
    const int64_t a = mf_group_cut(&g->head, r->count, out);
    const int64_t b = mf_group_cut(&g->head, r->count, in);
    const int64_t cell = (int64_t)mf_dtype_size(r->dtype);
    const int64_t na = mf_group_cut(&g->head, r->count, out + 1) - a;
    const int64_t nb = mf_group_cut(&g->head, r->count, in + 1) - b;
    mf_message_flow flows[2];
    int k = 0;

    if (na > 0)
        flows[k++] = mf_message_flow_to(around(self + 1, n), mf_at(r, r->out, a), na * cell);
    if (nb > 0)
        flows[k++] = mf_message_flow_from(around(self - 1, n), mf_at(r, r->out, b), nb * cell);
    return mf_net_flow(g, &r->call, flows, k);
}

static mf_status ring(mf_group *group, const mf_reduce *r)
{
    mf_net_group *g = (mf_net_group *)group;
    ring_plan x = { .g = g, .r = r };

    MF_TRY(make_plan(&x));
    for (int stage = 1; stage <= x.nodes[x.n_nodes - 1].stage; stage++)
        MF_TRY(run_stage(&x, stage));
    for (int s = 0; s < group->size - 1; s++)
        MF_TRY(pass_sum(g, r, s));
    return MF_OK;
}

const mf_algorithm mf_algorithm_ring = {
    .name = "ring",
    .about = "ring: partial sums go to the member that adds them, sums circulate",
    .all_reduce = ring,
};
