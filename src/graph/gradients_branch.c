/* SPDX-License-Identifier: Apache-2.0 */
/* gradients_branch.c - the gradient of If and Case is another If or Case of backward branches, with
 * the same index. Where one forward branch returns a value for its backward branch, the other
 * branches return an empty tensor, which is never read. */
#include "graph/gradients.h"

#include <string.h>

/* A value passed to the backward branches. */
typedef struct slot {
    int branch; /* index of the branch that owns it; -1: an argument, for all branches */
    mf_output at; /* in that branch */
    int from; /* index of the argument, or of the output of the forward node */
} slot;

typedef struct branches {
    mf_grad *g;
    mf_arena *arena;
    const mf_func_ref *refs; /* the functions of the original node */
    mf_func_ref *forward, *backward;
    int n;
    mf_diff *d; /* one per branch */
    const mf_output *x; /* inputs of the branches */
    int n_x;
    slot *slots;
    int n_slots, n_out; /* outputs of the forward node */
    int *dx; /* indices of arguments with a gradient from some branch */
    int n_dx;
} branches;

/* ---- differentiating ---- */

static mf_status gradients_branch_open_all(branches *b)
{
    bool *arrives = MF_ARENA_ARRAY(b->arena, bool, b->g->n_out);

    if (!arrives)
        return MF_NOMEM("gradients");
    for (int i = 0; i < b->g->n_out; i++)
        arrives[i] = b->g->dy[i].node && b->g->node->out_types[i] != MF_DTYPE_RESOURCE;
    for (int k = 0; k < b->n; k++) {
        mf_diff *d = &b->d[k];
        mf_status st = mf_diff_open(b->g->graph, b->g->node, &b->refs[k], b->n_x, b->g->n_out, d);

        if (st == MF_OK)
            st = mf_diff_run(d, arrives, b->g->wants + 1);
        MF_TRY(mf_diff_explain(st, d, b->g->node));
    }
    return MF_OK;
}

/* The type of the gradient of argument i, if some branch has one. */
static mf_dtype gradient_type(const branches *b, int i)
{
    for (int k = 0; k < b->n; k++) {
        const mf_output dx = b->d[k].dx[i];

        if (dx.node)
            return mf_type_base(dx.node->out_types[dx.port]);
    }
    return MF_DTYPE_INVALID;
}

/* All branches have the same results: zeros where one has no gradient. */
static mf_status gradients_branch_fill_missing(branches *b)
{
    b->dx = MF_ARENA_ARRAY(b->arena, int, b->n_x);
    if (!b->dx)
        return MF_NOMEM("gradients");
    for (int i = 0; i < b->n_x; i++) {
        const mf_dtype type = gradient_type(b, i);

        if (type == MF_DTYPE_INVALID)
            continue;
        b->dx[b->n_dx++] = i;
        for (int k = 0; k < b->n; k++) {
            if (!b->d[k].dx[i].node)
                b->d[k].dx[i] = mf_grad_zeros(b->d[k].body, b->d[k].args[i], type);
        }
    }
    for (int k = 0; k < b->n; k++)
        MF_TRY(mf_diff_cut(&b->d[k]));
    return MF_OK;
}

static mf_status find_slots(branches *b)
{
    bool *seen = MF_ARENA_ARRAY(b->arena, bool, b->n_x);
    int64_t most = 0;

    for (int k = 0; k < b->n; k++)
        most += b->d[k].n_taken;
    b->slots = MF_ARENA_ARRAY(b->arena, slot, most);
    if (!seen || !b->slots)
        return MF_NOMEM("gradients");
    b->n_out = b->g->n_out;
    for (int k = 0; k < b->n; k++) {
        for (int i = 0; i < b->d[k].n_taken; i++) {
            const mf_taken *t = &b->d[k].taken[i];

            if (t->arg < 0)
                b->slots[b->n_slots++] =
                    (slot){ k, t->at, t->result >= 0 ? t->result : b->n_out++ };
            else if (!seen[t->arg])
                b->slots[b->n_slots++] = (slot){ -1, t->at, t->arg };
            if (t->arg >= 0)
                seen[t->arg] = true;
        }
    }
    return MF_OK;
}

/* ---- forward ---- */

static mf_output empty_of(mf_graph *g, mf_dtype type)
{
    mf_tensor t = { 0 };
    mf_output out = { 0 };
    mf_status st;

    if (type == MF_DTYPE_VARIANT)
        return mf_applyf(g, "EmptyTensorList",
                         MF_IN(mf_scalar(g, MF_DTYPE_I32, -1), mf_scalar(g, MF_DTYPE_I32, 0)),
                         "element_dtype=float");
    st = type == MF_DTYPE_RESOURCE
             ? MF_FAIL(MF_UNIMPLEMENTED, "a branch returns a resource that it created")
             : mf_tensor_alloc(&t, type, &MF_SHAPE(0));
    if (st == MF_OK)
        out = mf_constant(g, &t, NULL);
    else
        mf_graph_fail(g, st);
    mf_tensor_clear(&t);
    return out;
}

static mf_dtype slot_type(const slot *s)
{
    return mf_type_base(s->at.node->out_types[s->at.port]);
}

static mf_status forward_branch(branches *b, int k, mf_outputs *out)
{
    mf_diff *d = &b->d[k];
    mf_function_cut cut = { .from = d->body,
                            .in = d->args,
                            .n_in = d->n_args,
                            .effects = d->effects,
                            .n_effects = d->n_effects };

    MF_TRY(mf_outputs_add_all(b->arena, out, d->results, d->n_results));
    for (int i = 0; i < b->n_slots; i++) {
        const slot *s = &b->slots[i];

        if (s->branch >= 0 && s->from == out->n) /* otherwise it is an original result */
            MF_TRY(mf_outputs_add(b->arena, out,
                                  s->branch == k ? s->at : empty_of(d->body, slot_type(s))));
    }
    MF_TRY(mf_graph_status(d->body));
    cut.out = out->at;
    cut.n_out = out->n;
    return mf_diff_define(d, "forward", &cut, &b->forward[k]);
}

/* then_branch and else_branch, or branches; followed by the types of the outputs. */
static mf_status attributes(branches *b, mf_func_ref *refs, const mf_outputs *out,
                            mf_named_attr attrs[3], int *n)
{
    *n = 0;
    if (mf_node_attr(b->g->node, "branches")) {
        attrs[(*n)++] =
            (mf_named_attr){ "branches",
                             { .kind = MF_ATTR_FUNC, .is_list = true, .n = b->n, .funcs = refs } };
    } else {
        attrs[(*n)++] = (mf_named_attr){ "then_branch", mf_attr_func(&refs[0]) };
        attrs[(*n)++] = (mf_named_attr){ "else_branch", mf_attr_func(&refs[1]) };
    }
    attrs[*n].name = "Tout";
    return mf_attr_types(b->g->graph, out->at, out->n, &attrs[(*n)++].value);
}

static mf_status gradients_branch_go_forward(branches *b)
{
    mf_outputs out = { 0 };
    mf_named_attr attrs[3];
    int n;

    for (int k = 0; k < b->n; k++) {
        out.n = 0;
        MF_TRY(forward_branch(b, k, &out));
    }
    MF_TRY(attributes(b, b->forward, &out, attrs, &n));
    return mf_call_become(b->g->graph, b->g->node, b->g->node->op_name, b->g->x, b->g->n_in,
                          b->n_out, attrs, n);
}

/* ---- backward ---- */

static mf_status backward_branch(branches *b, int k, mf_outputs *out)
{
    mf_diff *d = &b->d[k];
    mf_function_cut cut = { .from = d->body };
    mf_outputs in = { 0 };

    for (int i = 0; i < d->n_results; i++) {
        if (d->dy[i].node)
            MF_TRY(mf_outputs_add(b->arena, &in, d->dy[i]));
    }
    for (int i = 0; i < b->n_slots; i++) {
        const slot *s = &b->slots[i];
        mf_output at = s->at;

        if (s->branch < 0)
            at = d->args[s->from];
        else if (s->branch != k)
            at = mf_applyf(d->body, "Placeholder", MF_NO_IN, "dtype=%s",
                           mf_dtype_name(slot_type(s)));
        MF_TRY(mf_graph_status(d->body));
        MF_TRY(mf_outputs_add(b->arena, &in, at));
    }
    for (int i = 0; i < b->n_dx; i++)
        MF_TRY(mf_outputs_add(b->arena, out, d->dx[b->dx[i]]));
    cut.in = in.at;
    cut.n_in = in.n;
    cut.out = out->at;
    cut.n_out = out->n;
    return mf_diff_define(d, "backward", &cut, &b->backward[k]);
}

static mf_status backward_inputs(const branches *b, mf_outputs *in)
{
    const mf_grad *g = b->g;

    MF_TRY(mf_outputs_add(b->arena, in, g->x[0])); /* which branch */
    for (int i = 0; i < g->n_out; i++) {
        if (b->d[0].dy[i].node)
            MF_TRY(mf_outputs_add(b->arena, in, g->dy[i]));
    }
    for (int i = 0; i < b->n_slots; i++) {
        const slot *s = &b->slots[i];

        MF_TRY(mf_outputs_add(b->arena, in,
                              s->branch < 0 ? b->x[s->from] : (mf_output){ g->node, s->from }));
    }
    return MF_OK;
}

static mf_status gradients_branch_go_backward(branches *b)
{
    const bool is_case = mf_node_attr(b->g->node, "branches") != NULL;
    mf_outputs in = { 0 }, out = { 0 };
    mf_named_attr attrs[3];
    bool stateful;
    mf_node *node;
    int n;

    for (int k = 0; k < b->n; k++) {
        out.n = 0;
        MF_TRY(backward_branch(b, k, &out));
    }
    stateful = mf_call_is_stateful(b->g->graph, b->backward, b->n);
    MF_TRY(backward_inputs(b, &in));
    MF_TRY(attributes(b, b->backward, &out, attrs, &n));
    MF_TRY(mf_call_add(b->g->graph,
                       is_case    ? stateful ? "Case" : "StatelessCase"
                       : stateful ? "If"
                                  : "StatelessIf",
                       &in, attrs, n, &node));
    for (int i = 0; i < b->n_dx; i++)
        b->g->dx[1 + b->dx[i]] = (mf_output){ node, i };
    return MF_OK;
}

static mf_status gradients_branch_differentiate(branches *b)
{
    MF_TRY(gradients_branch_open_all(b));
    MF_TRY(gradients_branch_fill_missing(b));
    if (b->n_dx == 0)
        return MF_OK;
    MF_TRY(find_slots(b));
    MF_TRY(gradients_branch_go_forward(b));
    return gradients_branch_go_backward(b);
}

mf_status mf_grad_branches(mf_grad *g)
{
    const mf_attr *list = mf_node_attr(g->node, "branches");
    mf_func_ref two[2] = { { 0 } };
    branches b = { .g = g,
                   .arena = g->graph->arena,
                   .refs = list ? list->funcs : two,
                   .n = list ? (int)list->n : 2,
                   .x = g->x + 1,
                   .n_x = g->n_in - 1 };
    mf_status st;

    if (!list) {
        two[0] = *mf_node_attr(g->node, "then_branch")->func;
        two[1] = *mf_node_attr(g->node, "else_branch")->func;
    }
    b.d = MF_ARENA_ARRAY(b.arena, mf_diff, b.n);
    b.forward = MF_ARENA_ARRAY(b.arena, mf_func_ref, b.n);
    b.backward = MF_ARENA_ARRAY(b.arena, mf_func_ref, b.n);
    if (!b.d || !b.forward || !b.backward)
        return MF_NOMEM("gradients");
    st = gradients_branch_differentiate(&b);
    for (int k = 0; k < b.n; k++)
        mf_diff_close(&b.d[k]);
    return st;
}
