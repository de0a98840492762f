/* SPDX-License-Identifier: Apache-2.0 */
/* region.c - groups nodes into regions.
 *
 * Nodes of one context are alive together, so they may run as one unit, unless a node outside lies
 * between them. Every node gets a level: an edge that leaves a group (other context, waiting op,
 * control flow) increases it by one, other edges keep it. A region is a context and a level. Edges
 * between regions then always increase the level, so regions cannot form a cycle. A node after a
 * loop has a higher level than its body: a later iteration may have needed any of it. */
#include "compiler/region.h"

#include <stdlib.h>
#include <string.h>

static bool can_plan(const mf_node *n)
{
    return n->op && mf_node_kernel(n)->run && !mf_node_kernel(n)->start &&
           n->op->control == MF_CONTROL_NONE && !(mf_node_kernel(n)->flags & MF_OP_UNPLANNED) &&
           !mf_node_is_constant(n);
}

typedef struct levels {
    const mf_contexts *contexts;
    int *level; /* by node id */
    int *limit; /* by node id: maximum level; INT32_MAX: no consumer */
    int *turn; /* by frame: the highest level of a NextIteration */
} levels;

static bool region_joins(const levels *l, const mf_node *from, const mf_node *to)
{
    return can_plan(from) && can_plan(to) &&
           mf_context_of_node(l->contexts, from) == mf_context_of_node(l->contexts, to);
}

static mf_node *region_input_at(const mf_node *n, int i)
{
    return i < n->n_inputs ? n->inputs[i].node : n->controls[i - n->n_inputs];
}

static bool region_is_back_edge(const mf_node *from, const mf_node *to)
{
    return from->op && to->op && from->op->control == MF_CONTROL_NEXT &&
           to->op->control == MF_CONTROL_MERGE;
}

static bool is_control(const mf_node *n, mf_control_op control)
{
    return n->op && n->op->control == control;
}

/* Of the frame that an Exit or NextIteration ends. */
static int *iteration_of(const levels *l, const mf_node *n)
{
    return &l->turn[mf_context_frame(l->contexts, mf_context_of(l->contexts, n->inputs[0]))];
}

/* false: an Exit must be raised above a NextIteration that comes after it in the order. */
static bool raise_once(levels *l, mf_node *const *order, int64_t n)
{
    bool done = true;

    for (int64_t i = 0; i < n; i++) {
        const mf_node *to = order[i];
        int level = is_control(to, MF_CONTROL_EXIT) ? *iteration_of(l, to) + 1 : 0;

        for (int k = 0; k < to->n_inputs + to->n_controls; k++) {
            const mf_node *from = region_input_at(to, k);
            int at;

            if (mf_node_is_constant(from) || region_is_back_edge(from, to))
                continue;
            at = l->level[from->id] + (region_joins(l, from, to) ? 0 : 1);
            level = at > level ? at : level;
        }
        l->level[to->id] = level;
        if (is_control(to, MF_CONTROL_NEXT) && level > *iteration_of(l, to)) {
            *iteration_of(l, to) = level;
            done = false;
        }
    }
    return done;
}

/* As many rounds as loops in sequence. A graph in which a loop waits for itself has no valid
 * levels; it cannot run either. */
static void raise_levels(levels *l, mf_node *const *order, int64_t n, int n_frames)
{
    for (int round = 0; round <= n_frames + 1 && !raise_once(l, order, n); round++)
        continue;
}

/* Raise nodes to the level of their users, so that reading weights and using them is one region. */
static void sink(levels *l, mf_node *const *order, int64_t n, int top)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        const mf_node *node = order[i];
        const int limit = l->limit[node->id] == INT32_MAX ? top : l->limit[node->id];

        if (can_plan(node) && limit > l->level[node->id] &&
            (l->limit[node->id] != INT32_MAX ||
             mf_context_of_node(l->contexts, node) == MF_CONTEXT_ROOT))
            l->level[node->id] = limit;
        for (int k = 0; k < node->n_inputs + node->n_controls; k++) {
            const mf_node *from = region_input_at(node, k);
            int at;

            if (region_is_back_edge(from, node)) {
                l->limit[from->id] = l->level[from->id];
                continue;
            }
            at = l->level[node->id] - (region_joins(l, from, node) ? 0 : 1);
            if (at < l->limit[from->id])
                l->limit[from->id] = at;
        }
    }
}

static int region_number_of(const levels *l, const mf_node *n, int64_t *keys, int *count)
{
    const int64_t key = (int64_t)mf_context_of_node(l->contexts, n) << 32 | l->level[n->id];

    for (int i = *count - 1; i >= 0; i--) {
        if (keys[i] == key)
            return i;
    }
    keys[*count] = key;
    return (*count)++;
}

mf_status mf_regions_find(const mf_compile *c, const mf_contexts *contexts, mf_node *const *order,
                          int64_t n, int *region, int *n_regions)
{
    const int64_t n_nodes = c->graph->n_nodes;
    int n_frames;
    levels l = { .contexts = contexts,
                 .level = mf_calloc(n_nodes, sizeof(int)),
                 .limit = mf_calloc(n_nodes, sizeof(int)) };
    int64_t *keys = mf_calloc(n_nodes, sizeof *keys);
    mf_status st = MF_OK;
    int top = 0;

    *n_regions = 0;
    (void)mf_contexts_frames(contexts, &n_frames);
    l.turn = mf_calloc(n_frames, sizeof(int));
    if (!l.level || !l.limit || !l.turn || !keys)
        st = MF_NOMEM("compiling");
    if (st == MF_OK) {
        raise_levels(&l, order, n, n_frames);
        for (int64_t i = 0; i < n_nodes; i++) {
            l.limit[i] = INT32_MAX;
            region[i] = -1;
        }
        for (int64_t i = 0; i < n; i++) {
            if (can_plan(order[i]) && l.level[order[i]->id] > top)
                top = l.level[order[i]->id];
        }
        sink(&l, order, n, top);
        for (int64_t i = 0; i < n; i++) {
            if (can_plan(order[i]))
                region[order[i]->id] = region_number_of(&l, order[i], keys, n_regions);
        }
    }
    mf_free(l.level);
    mf_free(l.limit);
    mf_free(l.turn);
    mf_free(keys);
    return st;
}
