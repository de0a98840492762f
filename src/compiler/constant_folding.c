/* SPDX-License-Identifier: Apache-2.0 */
/* constant_folding.c - pass: an op whose inputs are all constants becomes a constant.
 * Exact: the same kernel computes the value, once instead of in every step. Ops with large results
 * are not folded (computing a Fill of a gigabyte is cheaper than keeping it), nor are ops that
 * fail: their error must occur in the run. */
#include "compiler/compiler.h"
#include "compiler/flow_context.h"

#include <string.h>

#define FOLD_MAX_BYTES ((int64_t)8 << 20)

static bool is_const(const mf_node *n)
{
    return n->op && n->op->name[0] == 'C' && strcmp(n->op->name, "Const") == 0;
}

static const mf_tensor *constant_folding_constant_of(const mf_compile *c, mf_output o)
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

/* Compute the values of all outputs into facts; false if the node cannot be folded. */
static bool constant_folding_compute(mf_compile *c, const mf_node *n)
{
    const mf_tensor *in[16];
    mf_tensor out[16] = { { 0 } };
    bool done = true;

    if (!mf_node_is_pure(n) || n->n_inputs == 0 || n->n_inputs > 16 || n->n_outputs > 16 ||
        !small_outputs(c, n))
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        in[i] = constant_folding_constant_of(c, n->inputs[i]);
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

static mf_status constant_folding_replace(mf_compile *c, mf_node *n, mf_subst *s)
{
    for (int i = 0; i < n->n_outputs; i++) {
        const mf_output k = mf_constant(c->graph, c->facts[n->id].values[i], n->name);

        if (!k.node)
            return mf_graph_status(c->graph);
        MF_TRY(mf_subst_add(s, c, (mf_output){ n, i }, k));
    }
    return MF_OK;
}

/* A constant is always alive and in no loop. A node that is not folded (it has an effect, or its
 * value is unknown, perhaps because it fails) must run in the same context as before. So for each
 * context of its inputs, one input of this context must not be folded either. */
typedef struct folder {
    mf_compile *c;
    mf_contexts *contexts;
    mf_node **order;
    int64_t n;
    bool *folds; /* by node id: its values are known */
    bool *trigger; /* by node id: not folded, because it provides the context */
    bool *after, *waits; /* by node id, see find_waiting() */
} folder;

static bool constant_folding_stays(const folder *f, const mf_node *n)
{
    return !f->folds[n->id] || f->trigger[n->id];
}

/* Does an input that is not folded, or a control input, have this context? */
static bool has_trigger(const folder *f, const mf_node *n, int context)
{
    for (int k = 0; k < n->n_controls; k++) {
        if (mf_context_of_node(f->contexts, n->controls[k]) == context)
            return true;
    }
    for (int k = 0; k < n->n_inputs; k++) {
        if (constant_folding_stays(f, n->inputs[k].node) &&
            mf_context_of(f->contexts, n->inputs[k]) == context)
            return true;
    }
    return false;
}

static void trigger_inputs(folder *f, const mf_node *n)
{
    for (int k = 0; k < n->n_inputs; k++) {
        const int context = mf_context_of(f->contexts, n->inputs[k]);

        if (context == MF_CONTEXT_ROOT)
            continue;
        /* A Merge needs each of its inputs. */
        if (!mf_node_is_pure(n) || !has_trigger(f, n, context))
            f->trigger[n->inputs[k].node->id] = true;
    }
}

static void find_triggers(folder *f)
{
    for (int64_t i = f->n - 1; i >= 0; i--) {
        if (constant_folding_stays(f, f->order[i]))
            trigger_inputs(f, f->order[i]);
    }
}

/* A node that waits for an effect, by a control edge of its own or of an ancestor, must still wait.
 * after: some ancestor has an effect. */
static void find_waiting(folder *f)
{
    for (int64_t i = 0; i < f->n; i++) {
        const mf_node *node = f->order[i];
        const int id = node->id;

        f->after[id] = mf_node_has_effect(node);
        for (int k = 0; k < node->n_inputs; k++) {
            f->after[id] |= f->after[node->inputs[k].node->id];
            f->waits[id] |= f->waits[node->inputs[k].node->id];
        }
        for (int k = 0; k < node->n_controls; k++) {
            f->after[id] |= f->after[node->controls[k]->id];
            f->waits[id] |= f->after[node->controls[k]->id];
        }
    }
}

static void find_values(folder *f)
{
    for (int64_t i = 0; i < f->n; i++) {
        const mf_node *node = f->order[i];

        /* A control input may have an effect: keep the node in place. */
        f->folds[node->id] = !is_const(node) && node->n_controls == 0 && !f->waits[node->id] &&
                             mf_node_is_pure(node) &&
                             (all_known(f->c, node) || constant_folding_compute(f->c, node));
    }
}

static mf_status constant_folding_replace_all(folder *f)
{
    mf_subst s = { 0 };
    mf_status st = mf_subst_init(&s, f->c);

    for (int64_t i = 0; st == MF_OK && i < f->n; i++) {
        if (!constant_folding_stays(f, f->order[i]))
            st = constant_folding_replace(f->c, f->order[i], &s);
    }
    if (st == MF_OK)
        st = mf_subst_apply(&s, f->c);
    mf_subst_deinit(&s);
    return st;
}

static mf_status folder_init(folder *f)
{
    const int64_t n = f->c->graph->n_nodes;

    f->folds = mf_calloc(n, sizeof *f->folds);
    f->trigger = mf_calloc(n, sizeof *f->trigger);
    f->after = mf_calloc(n, sizeof *f->after);
    f->waits = mf_calloc(n, sizeof *f->waits);
    if (!f->folds || !f->trigger || !f->after || !f->waits)
        return MF_NOMEM("compiling");
    MF_TRY(mf_infer_graph(f->c));
    MF_TRY(mf_compile_order(f->c, &f->order, &f->n));
    return mf_contexts_new(f->c, f->order, f->n, &f->contexts);
}

static void folder_deinit(folder *f)
{
    mf_contexts_free(f->contexts);
    mf_free(f->order);
    mf_free(f->folds);
    mf_free(f->trigger);
    mf_free(f->after);
    mf_free(f->waits);
}

mf_status mf_pass_fold(mf_compile *c)
{
    folder f = { .c = c };
    mf_status st = folder_init(&f);

    if (st == MF_OK) {
        find_waiting(&f);
        find_values(&f);
        find_triggers(&f);
        st = constant_folding_replace_all(&f);
    }
    folder_deinit(&f);
    return st;
}
