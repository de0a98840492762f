/* SPDX-License-Identifier: Apache-2.0 */
/* shape_inference.c - infers the shape of every output, and its value if it is small and follows
 * from constants and shapes.
 *
 * Loops: a loop variable is first assumed to keep its initial shape; if an iteration changes it,
 * the shape is marked unknown and inference is repeated.
 *
 * Errors: incompatible shapes fail the compilation, but only at a node that every run reaches. A
 * branch may not be taken, a loop may have no iteration, an Assert may end the step first. A node
 * behind one of these is marked as refused: its outputs are unknown, and its kernel reports the
 * error if it runs. */
#include "compiler/compiler.h"

#include <stdio.h>
#include <string.h>

enum {
    VALUE_MAX = 256
}; /* maximum number of elements of values: shapes, axes, paddings, indices */

typedef struct inferrer {
    mf_compile *c;
    bool *changes; /* by node id: loop Merges whose shape changes */
    bool *optional; /* by node id: a run may end without it; NULL: every node runs */
    /* Buffers for the current node. */
    mf_shape *in_shapes;
    const mf_tensor **in_values;
    mf_tensor *out_values;
    int64_t cap_in, cap_in_values, cap_out;
} inferrer;

const mf_facts *mf_compile_facts(const mf_compile *c, const mf_node *node)
{
    MF_ASSERT(node->id < c->n_facts && c->facts[node->id].shapes);
    return &c->facts[node->id];
}

double mf_compile_bytes(const mf_compile *c, const mf_node *node, int port)
{
    const mf_shape *s = &mf_compile_facts(c, node)->shapes[port];
    double bytes = (double)mf_dtype_cell(mf_type_base(node->out_types[port]));

    if (!mf_shape_is_static(s))
        return -1;
    for (int d = 0; d < s->rank; d++)
        bytes *= (double)s->dims[d];
    return bytes;
}

static const mf_facts *known(const mf_compile *c, const mf_node *n)
{
    return n->id < c->n_facts && c->facts[n->id].shapes ? &c->facts[n->id] : NULL;
}

static bool is_loop_merge(const mf_node *n)
{
    if (!n->op || n->op->control != MF_CONTROL_MERGE)
        return false;
    for (int i = 0; i < n->n_inputs; i++) {
        if (n->inputs[i].node->op && n->inputs[i].node->op->control == MF_CONTROL_NEXT)
            return true;
    }
    return false;
}

static mf_status shape_inference_gather_inputs(inferrer *f, const mf_node *n)
{
    MF_TRY(mf_grow(&f->in_shapes, &f->cap_in, n->n_inputs, sizeof(mf_shape)));
    MF_TRY(mf_grow(&f->in_values, &f->cap_in_values, n->n_inputs, sizeof(mf_tensor *)));
    MF_TRY(mf_grow(&f->out_values, &f->cap_out, n->n_outputs, sizeof(mf_tensor)));
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_output in = n->inputs[i];
        const mf_facts *from = known(f->c, in.node);

        f->in_shapes[i] = from ? from->shapes[in.port] : MF_SHAPE_UNKNOWN;
        f->in_values[i] = from ? from->values[in.port] : NULL;
    }
    for (int i = 0; i < n->n_outputs; i++)
        f->out_values[i] = (mf_tensor){ 0 };
    return MF_OK;
}

static bool small(const mf_shape *s)
{
    int64_t count;

    return mf_shape_is_static(s) && mf_shape_count(s, &count) == MF_OK && count <= VALUE_MAX;
}

/* Compute the values of a pure op on known small inputs. Errors are left to the run. */
static void try_values(inferrer *f, const mf_node *n, const mf_facts *facts)
{
    if (!mf_node_is_pure(n) || n->n_inputs == 0 || n->n_inputs > 16 || n->n_outputs > 16)
        return;
    for (int i = 0; i < n->n_inputs; i++) {
        if (!f->in_values[i])
            return;
    }
    for (int i = 0; i < n->n_outputs; i++) {
        if (!small(&facts->shapes[i]) || f->out_values[i].data)
            return;
    }
    if (mf_node_evaluate(n, f->in_values, f->out_values, NULL) != MF_OK)
        return;
}

static mf_status keep_values(inferrer *f, const mf_node *n, mf_facts *facts)
{
    for (int i = 0; i < n->n_outputs; i++) {
        if (!f->out_values[i].data)
            continue;
        facts->values[i] = mf_graph_own_tensor(f->c->graph, &f->out_values[i]);
        mf_tensor_clear(&f->out_values[i]);
        if (!facts->values[i])
            return MF_NOMEM("compiling");
        facts->shapes[i] = facts->values[i]->shape;
    }
    return MF_OK;
}

static mf_status name_node(mf_status st, const mf_node *n)
{
    char after[300];

    (void)snprintf(after, sizeof after, "\n\t [[{{node %.200s}}]]", n->name);
    return mf_error_wrap(st, "", after);
}

/* A run may end before the nodes after this one. */
static bool may_end(const inferrer *f, const mf_node *n)
{
    return f->optional[n->id] || !n->op || mf_node_has_effect(n) ||
           (n->op->control != MF_CONTROL_NONE && n->op->control != MF_CONTROL_ARG);
}

/* A run may end without this node. Its inputs precede it. */
static bool is_optional(const inferrer *f, const mf_node *n)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (may_end(f, n->inputs[i].node))
            return true;
    }
    for (int i = 0; i < n->n_controls; i++) {
        if (may_end(f, n->controls[i]))
            return true;
    }
    return false;
}

/* The op would be valid with other inputs. An error that does not depend on inputs (their number,
 * attributes) is an error of the graph: kernels need not check it again. */
static bool shape_inference_could_run(inferrer *f, const mf_node *n, mf_infer *in)
{
    for (int i = 0; i < n->n_inputs; i++) {
        f->in_shapes[i] = MF_SHAPE_UNKNOWN;
        f->in_values[i] = NULL;
    }
    for (int i = 0; i < n->n_outputs; i++)
        in->out[i] = MF_SHAPE_UNKNOWN;
    return n->op->infer(in) == MF_OK;
}

/* The node will fail if it runs. */
static void shape_inference_refuse(mf_facts *facts, const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++) {
        facts->shapes[i] = MF_SHAPE_UNKNOWN;
        facts->values[i] = NULL;
    }
    facts->refused = true;
}

static mf_status infer_node(inferrer *f, const mf_node *n)
{
    mf_arena *arena = f->c->graph->arena;
    mf_facts *facts = &f->c->facts[n->id];
    mf_infer in = { .node = n, .n_in = n->n_inputs, .n_out = n->n_outputs };
    mf_status st = MF_OK;

    MF_TRY(shape_inference_gather_inputs(f, n));
    facts->shapes = MF_ARENA_ARRAY(arena, mf_shape, n->n_outputs);
    facts->values = MF_ARENA_ARRAY(arena, mf_tensor *, n->n_outputs);
    if (!facts->shapes || !facts->values)
        return MF_NOMEM("compiling");
    for (int i = 0; i < n->n_outputs; i++)
        facts->shapes[i] = MF_SHAPE_UNKNOWN;
    in.in = f->in_shapes;
    in.in_value = f->in_values;
    in.out = facts->shapes;
    in.out_value = f->out_values;
    if (!n->op)
        return MF_OK; /* a call that was not inlined: nothing is known */
    if (n->op->control == MF_CONTROL_ARG && n->n_inputs == 0) {
        facts->shapes[0] = *mf_node_shape(n, "_shape");
        return MF_OK;
    }
    if (is_loop_merge(n)) {
        facts->shapes[0] = f->changes[n->id] ? MF_SHAPE_UNKNOWN : f->in_shapes[0];
        facts->shapes[1] = MF_SCALAR;
        return MF_OK;
    }
    st = n->op->infer(&in);
    if (st == MF_OK)
        try_values(f, n, facts);
    if (st == MF_OK)
        st = keep_values(f, n, facts);
    for (int i = 0; st != MF_OK && i < n->n_outputs; i++)
        mf_tensor_clear(&f->out_values[i]);
    if (st != MF_OK && f->optional && f->optional[n->id] && shape_inference_could_run(f, n, &in)) {
        for (int i = 0; i < n->n_outputs; i++)
            mf_tensor_clear(&f->out_values[i]);
        shape_inference_refuse(facts, n);
        return MF_OK;
    }
    return st == MF_OK ? MF_OK : name_node(st, n);
}

/* True if the shape of every loop variable is the same at the end of an iteration. */
static bool loops_agree(inferrer *f, mf_node *const *order, int64_t n)
{
    bool agree = true;

    for (int64_t i = 0; i < n; i++) {
        mf_node *m = order[i];

        if (!is_loop_merge(m) || f->changes[m->id])
            continue;
        for (int k = 0; k < m->n_inputs; k++) {
            const mf_output in = m->inputs[k];

            if (!mf_shape_equal(&f->c->facts[in.node->id].shapes[in.port],
                                &f->c->facts[m->id].shapes[0])) {
                f->changes[m->id] = true;
                agree = false;
            }
        }
    }
    return agree;
}

static mf_status infer_all(inferrer *f, mf_node *const *order, int64_t n)
{
    do {
        memset(f->c->facts, 0, (size_t)f->c->n_facts * sizeof *f->c->facts);
        for (int64_t i = 0; i < n; i++) {
            f->optional[order[i]->id] = is_optional(f, order[i]);
            MF_TRY(infer_node(f, order[i]));
        }
    } while (!loops_agree(f, order, n));
    return MF_OK;
}

static void inferrer_deinit(inferrer *f)
{
    mf_free(f->changes);
    mf_free(f->optional);
    mf_free(f->in_shapes);
    mf_free(f->in_values);
    mf_free(f->out_values);
}

mf_status mf_infer_graph(mf_compile *c)
{
    inferrer f = { .c = c };
    mf_node **order = NULL;
    int64_t n = 0;
    mf_status st;

    c->n_facts = c->cap_facts = c->graph->n_nodes;
    c->facts = MF_ARENA_ARRAY(c->graph->arena, mf_facts, c->n_facts);
    f.changes = mf_calloc(c->n_facts, sizeof *f.changes);
    f.optional = mf_calloc(c->n_facts, sizeof *f.optional);
    st = c->facts && f.changes && f.optional ? mf_compile_order(c, &order, &n)
                                             : MF_NOMEM("compiling");
    if (st == MF_OK)
        st = infer_all(&f, order, n);
    mf_free(order);
    inferrer_deinit(&f);
    return st;
}

static mf_status grow_facts(mf_compile *c)
{
    const int64_t cap = 2 * c->graph->n_nodes;
    mf_facts *facts;

    if (c->graph->n_nodes <= c->cap_facts)
        return MF_OK;
    facts = MF_ARENA_ARRAY(c->graph->arena, mf_facts, cap);
    if (!facts)
        return MF_NOMEM("shapes");
    if (c->n_facts > 0)
        memcpy(facts, c->facts, (size_t)c->n_facts * sizeof *facts);
    c->facts = facts;
    c->cap_facts = cap;
    return MF_OK;
}

mf_status mf_infer_more(mf_compile *c)
{
    inferrer f = { .c = c };
    mf_status st = grow_facts(c);
    const int64_t from = c->n_facts;

    f.changes = mf_calloc(c->graph->n_nodes, sizeof *f.changes);
    if (st == MF_OK && !f.changes)
        st = MF_NOMEM("shapes");
    if (st == MF_OK)
        c->n_facts = c->graph->n_nodes;
    for (int64_t i = from; st == MF_OK && i < c->n_facts; i++)
        st = infer_node(&f, c->graph->nodes[i]);
    inferrer_deinit(&f);
    return st;
}
