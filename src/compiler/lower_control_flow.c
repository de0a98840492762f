/* SPDX-License-Identifier: Apache-2.0 */
/* lower_control_flow.c - lowers functional control flow: If and Case become Switch and Merge, While
 * becomes a frame. The executor therefore needs only one mechanism for control flow. */
#include "compiler/inline.h"

#include <stdio.h>
#include <string.h>

static mf_named_attr type_attr(const char *name, mf_dtype t)
{
    return (mf_named_attr){ name, { .kind = MF_ATTR_TYPE, .n = 1, .type = t } };
}

static mf_status add1(mf_compile *c, const mf_node *n, const char *op, mf_output in, mf_output *out)
{
    mf_node *node;

    MF_TRY(mf_inline_node(c, n->name, op, &in, 1, NULL, 0, &node));
    *out = (mf_output){ node, 0 };
    return MF_OK;
}

static mf_status add2(mf_compile *c, const mf_node *n, const char *op, mf_output a, mf_output b,
                      mf_output *out)
{
    const mf_output in[] = { a, b };
    mf_node *node;

    MF_TRY(mf_inline_node(c, n->name, op, in, 2, NULL, 0, &node));
    *out = (mf_output){ node, 0 };
    return MF_OK;
}

static mf_output port(mf_output o, int k)
{
    return (mf_output){ o.node, k };
}

/* A constant belongs to no frame and no branch. An op with only constant inputs waits for another
 * input of the node, or for the node's control inputs. */
static void add_trigger(mf_compile *c, const mf_node *n, mf_node *to)
{
    for (int i = 0; i < n->n_controls; i++)
        mf_control(c->graph, to, n->controls[i]);
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_node *from = n->inputs[i].node;

        if (strcmp(from->op_name, "Const") != 0 || from->n_controls > 0) {
            mf_control(c->graph, to, n->inputs[i].node);
            return;
        }
    }
}

static mf_status call_branch(mf_compile *c, mf_node *n, const mf_func_ref *ref,
                             const mf_output *args, int n_args, mf_node *pivot, bool waits,
                             mf_inline_result *out)
{
    mf_inline_call call = { .attrs = ref->attrs,
                            .n_attrs = ref->n_attrs,
                            .args = args,
                            .n_args = n_args,
                            .pivot = pivot,
                            .waits = waits,
                            .name = n->name,
                            .device = n->device };

    MF_TRY(mf_inline_find(c, n, ref, &call.function));
    MF_TRY(mf_inline_body(c, &call, out));
    return mf_graph_status(c->graph);
}

static mf_status count_results(const mf_node *n, const mf_inline_result *r, int want)
{
    if (r->n_outs == want)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}}: a branch has %d results, not %d", n->name,
                   r->n_outs, want);
}

/* A node that runs after the complete branch. */
static mf_status branch_end(mf_compile *c, const mf_node *n, mf_node *pivot,
                            const mf_inline_result *r, mf_output *out)
{
    MF_TRY(add1(c, n, "Identity", (mf_output){ pivot, 0 }, out));
    for (int i = 0; i < r->n_effects; i++)
        mf_control(c->graph, out->node, r->effects[i]);
    for (int i = 0; i < r->n_outs; i++)
        mf_control(c->graph, out->node, r->outs[i].node);
    return mf_graph_status(c->graph);
}

/* Two alternatives; `then` and `other` set their results for the given inputs. */
typedef struct fork {
    mf_output pred;
    mf_output *yes, *no; /* the inputs of either side */
    mf_node *pivot_yes, *pivot_no;
} fork_sides;

static mf_status fork_inputs(mf_compile *c, mf_node *n, mf_output pred, const mf_output *in,
                             int n_in, fork_sides *f)
{
    mf_output sw = { 0 }, p = { 0 };

    f->pred = pred;
    f->yes = MF_ARENA_ARRAY(c->graph->arena, mf_output, n_in + 1);
    f->no = MF_ARENA_ARRAY(c->graph->arena, mf_output, n_in + 1);
    if (!f->yes || !f->no)
        return MF_NOMEM("lowering");
    for (int i = 0; i < n_in; i++) {
        MF_TRY(add2(c, n, "Switch", in[i], pred, &sw));
        for (int k = 0; k < n->n_controls; k++)
            mf_control(c->graph, sw.node, n->controls[k]);
        f->no[i] = port(sw, 0);
        f->yes[i] = port(sw, 1);
    }
    MF_TRY(add2(c, n, "Switch", pred, pred, &sw));
    add_trigger(c, n, sw.node);
    MF_TRY(add1(c, n, "Identity", port(sw, 1), &p));
    f->pivot_yes = p.node;
    MF_TRY(add1(c, n, "Identity", port(sw, 0), &p));
    f->pivot_no = p.node;
    return mf_graph_status(c->graph);
}

static mf_status lower_control_flow_join(mf_compile *c, const mf_node *n, const fork_sides *f,
                                         const mf_inline_result *yes, const mf_inline_result *no,
                                         mf_output *outs, int n_outs, mf_node **done)
{
    mf_output end_yes = { 0 }, end_no = { 0 }, end = { 0 };

    for (int i = 0; i < n_outs; i++)
        MF_TRY(add2(c, n, "Merge", no->outs[i], yes->outs[i], &outs[i]));
    MF_TRY(branch_end(c, n, f->pivot_yes, yes, &end_yes));
    MF_TRY(branch_end(c, n, f->pivot_no, no, &end_no));
    MF_TRY(add2(c, n, "Merge", end_no, end_yes, &end));
    *done = end.node;
    return MF_OK;
}

/* The condition of If may be any scalar: a number is true unless zero. */
static mf_status as_bool(mf_compile *c, mf_node *n, mf_output cond, mf_output *out)
{
    const mf_dtype t = mf_type_base(cond.node->out_types[cond.port]);
    mf_output zero;

    *out = cond;
    if (t == MF_DTYPE_BOOL)
        return MF_OK;
    if (!mf_dtype_is_plain(t))
        return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: a condition of type %s", n->name,
                       mf_dtype_name(t));
    zero = mf_scalar(c->graph, t, 0);
    MF_TRY(mf_graph_status(c->graph));
    return add2(c, n, "NotEqual", cond, zero, out);
}

mf_status mf_lower_if(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    const mf_attr *then = mf_node_attr(n, "then_branch"), *other = mf_node_attr(n, "else_branch");
    mf_inline_result yes, no;
    mf_output pred = { 0 };
    fork_sides f;

    MF_TRY(as_bool(c, n, n->inputs[0], &pred));
    MF_TRY(fork_inputs(c, n, pred, n->inputs + 1, n->n_inputs - 1, &f));
    MF_TRY(call_branch(c, n, then->func, f.yes, n->n_inputs - 1, f.pivot_yes, false, &yes));
    MF_TRY(call_branch(c, n, other->func, f.no, n->n_inputs - 1, f.pivot_no, false, &no));
    MF_TRY(count_results(n, &yes, n->n_outputs));
    MF_TRY(count_results(n, &no, n->n_outputs));
    return lower_control_flow_join(c, n, &f, &yes, &no, outs, n->n_outputs, done);
}

/* Case is a chain of ifs: branch 0 if the index is 0, else the rest. An index out of range selects
 * the last branch. */
static mf_status lower_branches(mf_compile *c, mf_node *n, const mf_attr *branches, int64_t k,
                                const mf_output *in, int n_in, mf_node *pivot, mf_output *outs,
                                mf_node **done)
{
    mf_inline_result yes, no = { 0 };
    mf_output pred = { 0 }, which, end = { 0 };
    fork_sides f;

    if (k + 1 == branches->n) {
        mf_inline_result r;

        MF_TRY(
            call_branch(c, n, &branches->funcs[k], in + 1, n_in - 1, pivot, n->n_controls > 0, &r));
        MF_TRY(count_results(n, &r, n->n_outputs));
        for (int i = 0; i < r.n_outs; i++)
            outs[i] = r.outs[i];
        MF_TRY(branch_end(c, n, pivot, &r, &end));
        *done = end.node;
        return MF_OK;
    }
    which = mf_scalar(c->graph, MF_DTYPE_I32, (double)k);
    MF_TRY(mf_graph_status(c->graph));
    MF_TRY(add2(c, n, "Equal", in[0], which, &pred));
    MF_TRY(fork_inputs(c, n, pred, in, n_in, &f));
    MF_TRY(call_branch(c, n, &branches->funcs[k], f.yes + 1, n_in - 1, f.pivot_yes, false, &yes));
    MF_TRY(count_results(n, &yes, n->n_outputs));
    no.n_outs = n->n_outputs;
    no.outs = MF_ARENA_ARRAY(c->graph->arena, mf_output, n->n_outputs);
    no.effects = MF_ARENA_ARRAY(c->graph->arena, mf_node *, 1);
    if (!no.outs || !no.effects)
        return MF_NOMEM("lowering");
    MF_TRY(lower_branches(c, n, branches, k + 1, f.no, n_in, f.pivot_no, no.outs,
                          &no.effects[no.n_effects]));
    no.n_effects = 1;
    return lower_control_flow_join(c, n, &f, &yes, &no, outs, n->n_outputs, done);
}

mf_status mf_lower_case(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    const mf_attr *branches = mf_node_attr(n, "branches");
    mf_output pivot = { 0 };

    if (branches->n > 256)
        return MF_FAIL(MF_INVALID_ARGUMENT, "{{node %s}} has %lld branches; the maximum is 256",
                       n->name, (long long)branches->n);
    MF_TRY(add1(c, n, "Identity", n->inputs[0], &pivot));
    add_trigger(c, n, pivot.node);
    return lower_branches(c, n, branches, 0, n->inputs, n->n_inputs, pivot.node, outs, done);
}

/* ---- While ---- */

typedef struct lower_control_flow_loop {
    mf_output *enter, *merge, *body_in;
    int n;
} lower_control_flow_loop;

static mf_status loop_entries(mf_compile *c, mf_node *n, lower_control_flow_loop *l)
{
    const mf_attr *parallel = mf_node_attr(n, "parallel_iterations");
    const char *frame = mf_arena_printf(c->graph->arena, "%s/frame", n->name);
    mf_named_attr attrs[] = {
        type_attr("T", MF_DTYPE_INVALID),
        { "frame_name", { .kind = MF_ATTR_STRING, .n = 1 } },
        { "parallel_iterations", { .kind = MF_ATTR_INT, .n = 1, .i = 10 } },
    };

    if (!frame)
        return MF_NOMEM("lowering");
    attrs[1].value.s = (mf_bytes){ frame, strlen(frame) };
    if (parallel && parallel->i > 0)
        attrs[2].value.i = parallel->i;
    for (int i = 0; i < l->n; i++) {
        const mf_output in = n->inputs[i];
        mf_node *enter;

        attrs[0].value.type = mf_type_base(in.node->out_types[in.port]);
        MF_TRY(mf_inline_node(c, n->name, "Enter", &in, 1, attrs, 3, &enter));
        add_trigger(c, n, enter);
        l->enter[i] = (mf_output){ enter, 0 };
        /* The second input comes from the next iteration; it is connected later. */
        MF_TRY(add2(c, n, "Merge", l->enter[i], l->enter[i], &l->merge[i]));
    }
    return mf_graph_status(c->graph);
}

static mf_status loop_condition(mf_compile *c, mf_node *n, const lower_control_flow_loop *l,
                                mf_output *out)
{
    mf_inline_result r;
    mf_output as = { 0 };

    MF_TRY(call_branch(c, n, mf_node_attr(n, "cond")->func, l->merge, l->n, l->merge[0].node, false,
                       &r));
    MF_TRY(count_results(n, &r, 1));
    MF_TRY(as_bool(c, n, r.outs[0], &as));
    MF_TRY(add1(c, n, "LoopCond", as, out));
    for (int i = 0; i < r.n_effects; i++)
        mf_control(c->graph, out->node, r.effects[i]);
    return mf_graph_status(c->graph);
}

static mf_status loop_body(mf_compile *c, mf_node *n, lower_control_flow_loop *l, mf_output cond,
                           mf_output *outs)
{
    mf_inline_result r;

    for (int i = 0; i < l->n; i++) {
        mf_output sw = { 0 };

        MF_TRY(add2(c, n, "Switch", l->merge[i], cond, &sw));
        MF_TRY(add1(c, n, "Exit", port(sw, 0), &outs[i]));
        MF_TRY(add1(c, n, "Identity", port(sw, 1), &l->body_in[i]));
    }
    MF_TRY(call_branch(c, n, mf_node_attr(n, "body")->func, l->body_in, l->n, l->body_in[0].node,
                       false, &r));
    MF_TRY(count_results(n, &r, l->n));
    for (int i = 0; i < l->n; i++) {
        mf_output next = { 0 };

        MF_TRY(add1(c, n, "NextIteration", r.outs[i], &next));
        for (int k = 0; k < r.n_effects; k++)
            mf_control(c->graph, next.node, r.effects[k]);
        l->merge[i].node->inputs[1] = next;
    }
    return mf_graph_status(c->graph);
}

mf_status mf_lower_while(mf_compile *c, mf_node *n, mf_output *outs, mf_node **done)
{
    lower_control_flow_loop l = { .n = n->n_inputs };
    mf_output cond = { 0 };

    if (l.n == 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "{{node %s}}: a loop without variables", n->name);
    l.enter = MF_ARENA_ARRAY(c->graph->arena, mf_output, l.n);
    l.merge = MF_ARENA_ARRAY(c->graph->arena, mf_output, l.n);
    l.body_in = MF_ARENA_ARRAY(c->graph->arena, mf_output, l.n);
    if (!l.enter || !l.merge || !l.body_in)
        return MF_NOMEM("lowering");
    MF_TRY(loop_entries(c, n, &l));
    MF_TRY(loop_condition(c, n, &l, &cond));
    MF_TRY(loop_body(c, n, &l, cond, outs));
    MF_TRY(mf_inline_node(c, n->name, "NoOp", NULL, 0, NULL, 0, done));
    for (int i = 0; i < l.n; i++)
        mf_control(c->graph, *done, outs[i].node);
    return mf_graph_status(c->graph);
}
