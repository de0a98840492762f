/* SPDX-License-Identifier: Apache-2.0 */
/* function_call.c - calls graph functions from kernels, for map, filter and other dataset ops. */
#include "ops/dataset/function_call.h"

#include "compiler/compiler.h"
#include "graph/function.h"
#include "runtime/executor.h"

#include <string.h>

enum {
    DEPTH = 8
}; /* each may iterate MF_DATASET_OP_DEPTH datasets: together they must fit the stack */

struct mf_callee {
    atomic_int refs;
    mf_graph *library;
    mf_func_ref ref; /* in the library's arena */
};

/* A compiled callee. */
typedef struct mf_function_call {
    struct mf_function_call *next;
    mf_callee *callee;
    mf_program *program;
    mf_resources *state; /* state of its kernels */
    mf_dtype *types; /* of the arguments, then of the results */
    int n_args, n_results;
    const mf_tensor **feeds;
} call;

/* ---- the function ---- */

static mf_status copy_ref(const mf_func_ref *from, mf_arena *arena, mf_func_ref *to)
{
    const mf_attr attr = { .kind = MF_ATTR_FUNC, .n = 1, .func = (mf_func_ref *)(uintptr_t)from };
    mf_attr copy;

    MF_TRY(mf_attr_copy(&attr, arena, &copy));
    *to = *copy.func;
    return MF_OK;
}

mf_status mf_callee_new(const mf_prepare *p, const char *attr, mf_callee **out)
{
    const mf_attr *a = mf_node_attr(p->node, attr);
    mf_callee *f;
    mf_status st;

    *out = NULL;
    if (!a || a->kind != MF_ATTR_FUNC || a->is_list || !p->graph)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the attribute '%s' is not a function", attr);
    f = mf_calloc(1, sizeof *f);
    if (!f)
        return MF_NOMEM("a function");
    atomic_store(&f->refs, 1);
    st = mf_function_library(p->graph, a->func, &f->library);
    if (st == MF_OK)
        st = copy_ref(a->func, f->library->arena, &f->ref);
    if (st != MF_OK)
        mf_callee_unref(f);
    else
        *out = f;
    return st;
}

mf_callee *mf_callee_ref(mf_callee *f)
{
    if (f)
        atomic_fetch_add(&f->refs, 1);
    return f;
}

void mf_callee_unref(mf_callee *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    mf_graph_free(f->library);
    mf_free(f);
}

/* ---- compiling ---- */

static void call_free(call *c)
{
    if (!c)
        return;
    mf_program_free(c->program);
    mf_resources_free(c->state);
    mf_callee_unref(c->callee);
    mf_free(c->types);
    mf_free(c->feeds);
    mf_free(c);
}

void mf_function_calls_deinit(mf_function_calls *calls)
{
    while (calls->first) {
        call *c = calls->first;

        calls->first = c->next;
        call_free(c);
    }
}

/* The interface of a body: its arguments and results by index, and its side effects. */
typedef struct function_call_ends {
    mf_output *args, *results;
    mf_node **effects;
    int n_args, n_results, n_effects;
} function_call_ends;

static bool function_call_is_end(const mf_node *n, const char *op)
{
    return n->op && strcmp(n->op->name, op) == 0;
}

static mf_status function_call_find_ends(const mf_graph *body, function_call_ends *e)
{
    e->args = MF_ARENA_ARRAY(body->arena, mf_output, body->n_nodes);
    e->results = MF_ARENA_ARRAY(body->arena, mf_output, body->n_nodes);
    e->effects = MF_ARENA_ARRAY(body->arena, mf_node *, body->n_nodes);
    if (!e->args || !e->results || !e->effects)
        return MF_NOMEM("a function");
    for (int64_t i = 0; i < body->n_nodes; i++) { /* created in the order of their index */
        mf_node *n = body->nodes[i];

        if (function_call_is_end(n, "_Arg"))
            e->args[e->n_args++] = (mf_output){ n, 0 };
        else if (function_call_is_end(n, "_Retval"))
            e->results[e->n_results++] = n->inputs[0];
        else if (mf_node_attr(n, "_control_ret"))
            e->effects[e->n_effects++] = n;
    }
    return MF_OK;
}

static mf_status note_types(call *c, const function_call_ends *e)
{
    c->n_args = e->n_args;
    c->n_results = e->n_results;
    c->types = mf_calloc(e->n_args + e->n_results + 1, sizeof *c->types);
    c->feeds = mf_calloc(e->n_args + 1, sizeof *c->feeds);
    if (!c->types || !c->feeds)
        return MF_NOMEM("a function");
    for (int i = 0; i < e->n_args + e->n_results; i++) {
        const mf_output o = i < e->n_args ? e->args[i] : e->results[i - e->n_args];

        c->types[i] = mf_type_base(o.node->out_types[o.port]);
    }
    return MF_OK;
}

static mf_status function_call_compile(call *c, const mf_graph *body, mf_pool *pool)
{
    function_call_ends e = { 0 };
    mf_signature sig;

    MF_TRY(function_call_find_ends(body, &e));
    MF_TRY(note_types(c, &e));
    sig = (mf_signature){ .feeds = e.args,
                          .fetches = e.results,
                          .targets = e.effects,
                          .n_feeds = e.n_args,
                          .n_fetches = e.n_results,
                          .n_targets = e.n_effects };
    return mf_compile_program(body, &sig, &(mf_compile){ .session = c->state, .pool = pool },
                              &c->program);
}

static mf_status function_call_new(mf_callee *f, mf_pool *pool, call **out)
{
    call *c = mf_calloc(1, sizeof *c);
    mf_graph *body = NULL;
    mf_status st = c ? mf_resources_new(&c->state) : MF_NOMEM("a function");

    *out = NULL;
    if (!c)
        return st;
    c->callee = mf_callee_ref(f);
    if (st == MF_OK)
        st = mf_function_body(f->library, mf_graph_function(f->library, f->ref.name), f->ref.attrs,
                              f->ref.n_attrs, &body);
    if (st == MF_OK)
        st = function_call_compile(c, body, pool);
    mf_graph_free(body);
    if (st != MF_OK)
        call_free(c);
    else
        *out = c;
    return st;
}

static mf_status function_call_find_call(mf_function_calls *calls, mf_callee *f, mf_pool *pool,
                                         call **out)
{
    for (call *c = calls->first; c; c = c->next) {
        if (c->callee == f) {
            *out = c;
            return MF_OK;
        }
    }
    MF_TRY(function_call_new(f, pool, out));
    (*out)->next = calls->first;
    calls->first = *out;
    return MF_OK;
}

/* ---- running ---- */

static mf_status function_call_bind(call *c, const mf_call_args *args)
{
    if (args->n_element + args->n_captured != c->n_args)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s takes %d arguments, but is given %d",
                       c->callee->ref.name, c->n_args, args->n_element + args->n_captured);
    for (int i = 0; i < c->n_args; i++) {
        const int captured = i - args->n_element;

        c->feeds[i] = captured < 0 ? &args->element[i] : &args->captured[captured];
        if (c->feeds[i]->dtype != c->types[i])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "function %s: argument %d must be %s, but is given %s",
                           c->callee->ref.name, i, mf_dtype_name(c->types[i]),
                           mf_dtype_name(c->feeds[i]->dtype));
    }
    return MF_OK;
}

static mf_status function_call_check_results(const call *c, const mf_dtype *types, int n)
{
    if (n != c->n_results)
        return MF_FAIL(MF_INVALID_ARGUMENT, "function %s gives %d results, not %d",
                       c->callee->ref.name, c->n_results, n);
    for (int i = 0; i < n; i++) {
        if (types[i] != c->types[c->n_args + i])
            return MF_FAIL(MF_INVALID_ARGUMENT, "function %s: result %d is %s, not %s",
                           c->callee->ref.name, i, mf_dtype_name(c->types[c->n_args + i]),
                           mf_dtype_name(types[i]));
    }
    return MF_OK;
}

mf_status mf_function_calls_run(mf_function_calls *calls, mf_callee *f, const mf_step *step,
                                const mf_call_args *args, const mf_dtype *types, int n_results,
                                mf_tensor *results)
{
    call *c;
    mf_run_args run;

    if (step->depth >= DEPTH)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "function %s is nested in more than %d calls; recursive functions are not supported",
            f->ref.name, DEPTH);
    MF_TRY(function_call_find_call(calls, f, step->pool, &c));
    MF_TRY(function_call_bind(c, args));
    MF_TRY(function_call_check_results(c, types, n_results));
    run = (mf_run_args){ .pool = step->pool,
                         .resources = step->resources,
                         .allow_dirs = step->allow_dirs,
                         .n_allow_dirs = step->n_allow_dirs,
                         .step_id = step->id,
                         .depth = step->depth + 1,
                         .deadline_ns = step->deadline_ns,
                         .cancel = step->cancel,
                         .alone = true,
                         .feeds = c->feeds,
                         .results = results };
    return mf_program_run(c->program, &run);
}
