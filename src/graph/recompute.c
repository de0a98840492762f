/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.c - rematerialisation (gradient checkpointing) of a segment of the graph. For one
 * segment after the other:
 *
 *   the gradients of later layers that enter it           the gate: copies wait for these
 *   nodes that gradients use, back to the entry           copied, in the order of the graph
 *   values that enter the segment                         an Identity that waits for the gate
 *
 * Only these Identities have control edges, so passes treat the copies like the copied nodes. Their
 * inputs differ from those of the first computation, so common subexpression elimination does not
 * merge the two. */
#include "graph/recompute.h"

#include "graph/op.h"

#include <string.h>

typedef struct rewriter {
    mf_graph *g;
    mf_node **order;
    int64_t n_nodes, n_order; /* before the rewrite */
    int64_t *segment; /* by node id, as the fields below */
    bool *varies; /* depends on feeds, not on variables alone */
    bool **leaves; /* by port: used by another segment, the loss, or a report */
    /* for the current segment */
    bool *needed; /* copied */
    mf_node **copy;
    mf_output **recalled; /* by port: the Identity; NULL: none yet */
    /* the same for all existing nodes, including copies of other segments */
    mf_node **all;
    int64_t n_all;
    bool *after; /* depends on a gradient of the segment */
    mf_node **gate;
    int64_t n_gate;
} rewriter;

/* ---- classification ---- */

static bool recompute_is_handle(mf_dtype t)
{
    return mf_type_is_ref(t) || t == MF_DTYPE_RESOURCE;
}

/* Equal inputs always give equal outputs. */
static bool is_repeatable(const mf_node *n)
{
    if (n->def->is_stateful ||
        (n->op && n->op->control != MF_CONTROL_NONE && n->op->control != MF_CONTROL_CALL))
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        if (recompute_is_handle(n->in_types[i]))
            return false;
    }
    for (int i = 0; i < n->n_outputs; i++) {
        if (recompute_is_handle(n->out_types[i]))
            return false;
    }
    return n->n_inputs > 0;
}

/* Values that depend on variables alone do not grow with the batch, and are kept. */
static bool can_copy(const rewriter *r, const mf_node *n)
{
    return r->segment[n->id] && !mf_node_is_gradient(n) && r->varies[n->id] && is_repeatable(n);
}

static bool recompute_is_inside(const rewriter *r, mf_output o, int64_t segment)
{
    return o.node->id < r->n_nodes && r->segment[o.node->id] == segment && can_copy(r, o.node) &&
           !(r->leaves[o.node->id] && r->leaves[o.node->id][o.port]);
}

/* A feed or a random value. */
static bool is_source(const mf_node *n)
{
    return (n->n_inputs == 0 || n->def->is_stateful) && strcmp(n->op_name, "Const") != 0 &&
           strcmp(n->op_name, "VarHandleOp") != 0 && strcmp(n->op_name, "ReadVariableOp") != 0;
}

static mf_status note_leaving(rewriter *r, mf_output o)
{
    bool **ports = &r->leaves[o.node->id];

    if (!*ports && !(*ports = MF_ARENA_ARRAY(r->g->arena, bool, o.node->n_outputs)))
        return MF_NOMEM("recomputation");
    (*ports)[o.port] = true;
    return MF_OK;
}

static mf_status recompute_mark_segments(rewriter *r, const int64_t *segment, int64_t n_layers)
{
    for (int64_t i = 0; i < r->n_order; i++) {
        const mf_node *n = r->order[i];
        const int64_t layer = mf_node_layer(n);

        r->segment[n->id] = layer > 0 && layer <= n_layers ? segment[layer] : 0;
        r->varies[n->id] = is_source(n);
        for (int k = 0; k < n->n_inputs; k++)
            r->varies[n->id] |= r->varies[n->inputs[k].node->id];
    }
    for (int64_t i = 0; i < r->n_order; i++) {
        const mf_node *n = r->order[i];

        for (int k = 0; k < n->n_inputs && !mf_node_is_gradient(n); k++) {
            if (r->segment[n->id] != r->segment[n->inputs[k].node->id])
                MF_TRY(note_leaving(r, n->inputs[k]));
        }
    }
    return MF_OK;
}

/* ---- one segment ---- */

static bool is_gradient_of(const rewriter *r, const mf_node *n, int64_t segment)
{
    return n->id < r->n_nodes && r->segment[n->id] == segment && mf_node_is_gradient(n);
}

static void forget_all(rewriter *r)
{
    mf_free(r->all);
    mf_free(r->after);
    mf_free(r->gate);
    r->all = r->gate = NULL;
    r->after = NULL;
}

static mf_status recompute_mark_all(rewriter *r, int64_t segment)
{
    const int64_t n_nodes = r->g->n_nodes;

    forget_all(r);
    r->all = mf_calloc(n_nodes, sizeof *r->all);
    r->after = mf_calloc(n_nodes, sizeof *r->after);
    r->gate = mf_calloc(n_nodes, sizeof *r->gate);
    if (!r->all || !r->after || !r->gate)
        return MF_NOMEM("recomputation");
    MF_TRY(mf_graph_order(r->g, r->all, &r->n_all));
    for (int64_t i = 0; i < r->n_all; i++) {
        const mf_node *n = r->all[i];

        r->after[n->id] = is_gradient_of(r, n, segment);
        for (int k = 0; k < n->n_inputs; k++)
            r->after[n->id] |= r->after[n->inputs[k].node->id];
        for (int k = 0; k < n->n_controls; k++)
            r->after[n->id] |= r->after[n->controls[k]->id];
    }
    return MF_OK;
}

/* Gradients that enter the segment from outside and do not depend on it: copies that waited for
 * others would form a cycle. */
static mf_status find_gate(rewriter *r, int64_t segment)
{
    MF_TRY(recompute_mark_all(r, segment));
    r->n_gate = 0;
    for (int64_t i = 0; i < r->n_order; i++) {
        const mf_node *n = r->order[i];

        for (int k = 0; is_gradient_of(r, n, segment) && k < n->n_inputs; k++) {
            mf_node *from = n->inputs[k].node;

            if (!mf_node_is_gradient(from) || r->after[from->id])
                continue;
            r->after[from->id] = true; /* each once */
            r->gate[r->n_gate++] = from;
        }
    }
    return MF_OK;
}

static void recompute_find_needed(const rewriter *r, int64_t segment)
{
    memset(r->needed, 0, (size_t)r->n_nodes * sizeof *r->needed);
    for (int64_t i = r->n_order - 1; i >= 0; i--) {
        const mf_node *n = r->order[i];

        for (int k = 0; (mf_node_is_gradient(n) || r->needed[n->id]) && k < n->n_inputs; k++) {
            if (recompute_is_inside(r, n->inputs[k], segment))
                r->needed[n->inputs[k].node->id] = true;
        }
    }
}

static mf_status recompute_recall(rewriter *r, mf_output o, mf_output *out)
{
    mf_output **ports = &r->recalled[o.node->id];
    const mf_node_spec spec = { .name =
                                    mf_arena_printf(r->g->arena, "recompute/from/%s", o.node->name),
                                .op = "Identity",
                                .inputs = &o,
                                .n_inputs = 1,
                                .controls = r->gate,
                                .n_controls = (int)r->n_gate };
    mf_node_spec named = spec;
    mf_node *node;

    if (!*ports && !(*ports = MF_ARENA_ARRAY(r->g->arena, mf_output, o.node->n_outputs)))
        return MF_NOMEM("recomputation");
    if (!(*ports)[o.port].node) {
        named.name = spec.name ? mf_graph_unique_name(r->g, spec.name) : NULL;
        if (!named.name)
            return MF_NOMEM("recomputation");
        MF_TRY(mf_graph_add(r->g, &named, &node));
        (*ports)[o.port] = (mf_output){ node, 0 };
    }
    *out = (*ports)[o.port];
    return MF_OK;
}

static mf_status recompute_copy_node(rewriter *r, mf_node *n)
{
    const char *name = mf_arena_printf(r->g->arena, "recompute/%s", n->name);
    mf_output *in = MF_ARENA_ARRAY(r->g->arena, mf_output, n->n_inputs);
    mf_node_spec spec = { .name = name ? mf_graph_unique_name(r->g, name) : NULL,
                          .op = n->op_name,
                          .device = n->device,
                          .inputs = in,
                          .n_inputs = n->n_inputs,
                          .controls = n->controls,
                          .n_controls = n->n_controls,
                          .attrs = n->attrs,
                          .n_attrs = n->n_attrs };

    if (!in || !spec.name)
        return MF_NOMEM("recomputation");
    r->g->mark = (mf_node_mark){ .layer = mf_node_layer(n), .gradient = true };
    for (int k = 0; k < n->n_inputs; k++) {
        in[k] = n->inputs[k];
        if (recompute_is_inside(r, in[k], r->segment[n->id]))
            in[k].node = r->copy[in[k].node->id];
        else if (r->varies[in[k].node->id])
            MF_TRY(recompute_recall(r, n->inputs[k], &in[k]));
    }
    return mf_graph_add(r->g, &spec, &r->copy[n->id]);
}

static mf_status recompute_rewrite(rewriter *r, int64_t segment)
{
    MF_TRY(find_gate(r, segment));
    if (r->n_gate == 0) /* no gradient to wait for: recomputation would not save memory */
        return MF_OK;
    recompute_find_needed(r, segment);
    memset(r->recalled, 0, (size_t)r->n_nodes * sizeof *r->recalled);
    for (int64_t i = 0; i < r->n_order; i++) {
        if (r->needed[r->order[i]->id])
            MF_TRY(recompute_copy_node(r, r->order[i]));
    }
    for (int64_t i = 0; i < r->n_order; i++) {
        const mf_node *n = r->order[i];

        for (int k = 0; mf_node_is_gradient(n) && k < n->n_inputs; k++) {
            if (recompute_is_inside(r, n->inputs[k], segment))
                n->inputs[k].node = r->copy[n->inputs[k].node->id];
        }
    }
    return MF_OK;
}

/* ---- all segments ---- */

static mf_status recompute_begin(rewriter *r)
{
    r->order = mf_calloc(r->n_nodes, sizeof *r->order);
    r->segment = mf_calloc(r->n_nodes, sizeof *r->segment);
    r->varies = mf_calloc(r->n_nodes, sizeof *r->varies);
    r->leaves = mf_calloc(r->n_nodes, sizeof *r->leaves);
    r->needed = mf_calloc(r->n_nodes, sizeof *r->needed);
    r->copy = mf_calloc(r->n_nodes, sizeof *r->copy);
    r->recalled = mf_calloc(r->n_nodes, sizeof *r->recalled);
    if (!r->order || !r->segment || !r->varies || !r->leaves || !r->needed || !r->copy ||
        !r->recalled)
        return MF_NOMEM("recomputation");
    return mf_graph_order(r->g, r->order, &r->n_order);
}

static void recompute_end(rewriter *r)
{
    mf_free(r->order);
    mf_free(r->segment);
    mf_free(r->varies);
    mf_free(r->leaves);
    mf_free(r->needed);
    mf_free(r->copy);
    mf_free(r->recalled);
    forget_all(r);
}

mf_status mf_recompute(mf_graph *graph, const int64_t *segment, int64_t n_layers)
{
    rewriter r = { .g = graph, .n_nodes = graph->n_nodes };
    const mf_node_mark mark = graph->mark;
    int64_t last = 0;
    mf_status st = recompute_begin(&r);

    if (st == MF_OK)
        st = recompute_mark_segments(&r, segment, n_layers);
    for (int64_t i = 1; i <= n_layers; i++)
        last = segment[i] > last ? segment[i] : last;
    for (int64_t s = 1; st == MF_OK && s <= last; s++)
        st = recompute_rewrite(&r, s);
    graph->mark = mark;
    recompute_end(&r);
    return st;
}
