/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - pass: an op whose inputs are all constants becomes a constant.
 *
 * Exact: the same kernel computes the value, now instead of in every step. Large results are left
 * alone (a Fill of a gigabyte is better made than kept), and so are ops that fail: their error
 * belongs to the run. */
#include "compile/compile.h"
#include "compile/context.h"

#include <string.h>

#define FOLD_MAX_BYTES ((int64_t)8 << 20)

static bool is_const(const mf_node *n)
{
    return n->op && n->op->name[0] == 'C' && strcmp(n->op->name, "Const") == 0;
}

static const mf_tensor *constant_of(const mf_compile *c, mf_output o)
{
    if (is_const(o.node))
        return mf_node_attr(o.node, "value")->tensor;
    return o.node->id < c->n_facts && c->facts[o.node->id].values
               ? c->facts[o.node->id].values[o.port]
               : NULL;
}

static bool small_outputs(const mf_compile *c, const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++) {
        int64_t count, bytes;
        const mf_shape *s = &c->facts[n->id].shapes[i];

        if (!mf_shape_is_static(s) || mf_shape_count(s, &count) != MF_OK ||
            !mf_mul_i64(count, (int64_t)mf_dtype_cell(mf_type_base(n->out_types[i])), &bytes) ||
            bytes > FOLD_MAX_BYTES)
            return false;
    }
    return true;
}

/* Values of all outputs into facts; false when the node cannot be folded. */
static bool compute(mf_compile *c, const mf_node *n)
{
    const mf_tensor *in[16];
    mf_tensor out[16] = { { 0 } };
    bool done = true;

    if (!mf_node_is_pure(n) || n->n_inputs == 0 || n->n_inputs > 16 || n->n_outputs > 16 ||
        !small_outputs(c, n))
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        in[i] = constant_of(c, n->inputs[i]);
        if (!in[i])
            return false;
    }
    if (mf_node_evaluate(n, in, out, c->pool) != MF_OK)
        return false;
    for (int i = 0; i < n->n_outputs; i++) {
        c->facts[n->id].values[i] = mf_graph_own_tensor(c->graph, &out[i]);
        done = done && c->facts[n->id].values[i];
        mf_tensor_clear(&out[i]);
    }
    return done;
}

static bool all_known(const mf_compile *c, const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++) {
        if (!c->facts[n->id].values[i])
            return false;
    }
    return n->n_outputs > 0;
}

static mf_status replace(mf_compile *c, mf_node *n, mf_subst *s)
{
    for (int i = 0; i < n->n_outputs; i++) {
        const mf_output k = mf_constant(c->graph, c->facts[n->id].values[i], n->name);

        if (!k.node)
            return mf_graph_status(c->graph);
        MF_TRY(mf_subst_add(s, c, (mf_output){ n, i }, k));
    }
    return MF_OK;
}

/* A constant is always alive and in no loop. An op with effects that got its cue (run now, run in
 * each iteration, do not run) only from this node must keep it. */
static void cue_inputs(const mf_contexts *contexts, const mf_node *n, bool *cue)
{
    for (int k = 0; k < n->n_inputs; k++) {
        if (mf_context_of(contexts, n->inputs[k]) != MF_CONTEXT_ROOT)
            cue[n->inputs[k].node->id] = true;
    }
}

/* A node that gives a cue has one itself: from an input that stays, or else from the first. */
static void cue_one_input(const mf_contexts *contexts, const mf_node *n, bool *cue)
{
    const mf_node *first = NULL;

    for (int k = 0; k < n->n_inputs; k++) {
        const mf_node *from = n->inputs[k].node;

        if (mf_context_of(contexts, n->inputs[k]) == MF_CONTEXT_ROOT)
            continue;
        if (cue[from->id] || !mf_node_is_pure(from) || from->n_controls > 0)
            return;
        if (!first)
            first = from;
    }
    if (first)
        cue[first->id] = true;
}

static void find_cues(const mf_contexts *contexts, mf_node *const *order, int64_t n, bool *cue)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        if (!mf_node_is_pure(order[i]))
            cue_inputs(contexts, order[i], cue);
        else if (cue[order[i]->id] && order[i]->n_controls == 0)
            cue_one_input(contexts, order[i], cue);
    }
}

/* Reading has no effect on others, and control flow is the contexts' matter. */
static bool has_effect(const mf_node *n)
{
    return n->op && n->op->control == MF_CONTROL_NONE && n->def->is_stateful &&
           strcmp(n->op_name, "VarHandleOp") != 0 && strcmp(n->op_name, "ReadVariableOp") != 0 &&
           strcmp(n->op_name, "ResourceGather") != 0;
}

/* What waits for an effect, by a control edge of its own or of something it is made of, must go on
 * waiting. after: an effect comes before the node in some way. */
static void find_waiting(mf_node *const *order, int64_t n, bool *after, bool *waits)
{
    for (int64_t i = 0; i < n; i++) {
        const mf_node *node = order[i];
        const int id = node->id;

        after[id] = has_effect(node);
        for (int k = 0; k < node->n_inputs; k++) {
            after[id] |= after[node->inputs[k].node->id];
            waits[id] |= waits[node->inputs[k].node->id];
        }
        for (int k = 0; k < node->n_controls; k++) {
            after[id] |= after[node->controls[k]->id];
            waits[id] |= after[node->controls[k]->id];
        }
    }
}

mf_status mf_pass_fold(mf_compile *c)
{
    mf_node **order = NULL;
    mf_subst s = { 0 };
    mf_contexts *contexts = NULL;
    bool *cue = mf_calloc(c->graph->n_nodes, sizeof *cue);
    bool *after = mf_calloc(c->graph->n_nodes, sizeof *after);
    bool *waits = mf_calloc(c->graph->n_nodes, sizeof *waits);
    int64_t n = 0;
    mf_status st = cue && after && waits ? mf_infer_graph(c) : MF_NOMEM("compiling");

    if (st == MF_OK)
        st = mf_compile_order(c, &order, &n);
    if (st == MF_OK)
        st = mf_contexts_new(c, order, n, &contexts);
    if (st == MF_OK) {
        find_cues(contexts, order, n, cue);
        find_waiting(order, n, after, waits);
    }
    if (st == MF_OK)
        st = mf_subst_init(&s, c);
    for (int64_t i = 0; st == MF_OK && i < n; i++) {
        mf_node *node = order[i];

        /* Something this node waits for may have an effect; leave it in its place. */
        if (is_const(node) || node->n_controls > 0 || cue[node->id] || waits[node->id] ||
            !mf_node_is_pure(node))
            continue;
        if (all_known(c, node) || compute(c, node))
            st = replace(c, node, &s);
    }
    if (st == MF_OK)
        st = mf_subst_apply(&s, c);
    mf_subst_deinit(&s);
    mf_contexts_free(contexts);
    mf_free(cue);
    mf_free(after);
    mf_free(waits);
    mf_free(order);
    return st;
}
