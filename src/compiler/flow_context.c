/* SPDX-License-Identifier: Apache-2.0 */
/* flow_context.c - computes the control-flow context of each node: its loop frame and the branches
 * taken.
 *
 * A context is a frame and a set of facts ("predicate p is true", "Merge m has fired", "op w has
 * completed its wait"). A node's context is the union over its inputs. Switch adds its predicate; a
 * Merge of both sides of one predicate removes it; other Merges become facts of their own. All
 * variables of a loop are alive together if all values that enter it have one context, which is the
 * usual form of loops.
 *
 * Ops that wait are facts because another task may not send the awaited value before it has
 * received a value computed after another wait: nodes behind different waits must not run as one. A
 * value that leaves a loop with such ops inside has waited, too. */
#include "compiler/flow_context.h"

#include <stdlib.h>
#include <string.h>

typedef struct context {
    int frame, n;
    uint64_t *facts; /* sorted */
} context;

typedef struct frame_entry {
    mf_frame_info info;
    int outside; /* context of the values that enter; -1: none yet */
    bool uniform; /* all values enter in one context */
    bool waits; /* an op in the loop waits */
} frame_entry;

struct mf_contexts {
    mf_arena *arena;
    context *list;
    int64_t n, cap;
    frame_entry *frames;
    int64_t n_frames, cap_frames;
    mf_frame_info *infos; /* copy for the interface */
    int **of; /* by node id and port; the last element is the node's own */
    int64_t n_of;
};

/* A fact in 64 bits: kind, node, port and side. */
static uint64_t predicate_fact(mf_output p, int side)
{
    return (uint64_t)1 << 62 | (uint64_t)(uint32_t)p.node->id << 16 |
           (uint64_t)(p.port & 0x7fff) << 1 | (uint64_t)(side & 1);
}

static uint64_t node_fact(const mf_node *n)
{
    return (uint64_t)2 << 62 | (uint64_t)(uint32_t)n->id;
}

static uint64_t frame_fact(int frame)
{
    return (uint64_t)3 << 62 | (uint64_t)(uint32_t)frame;
}

static int intern(mf_contexts *x, int frame, const uint64_t *facts, int n)
{
    context *c;

    for (int64_t i = x->n - 1; i >= 0; i--) {
        c = &x->list[i];
        if (c->frame == frame && c->n == n &&
            (n == 0 || memcmp(c->facts, facts, (size_t)n * sizeof *facts) == 0))
            return (int)i;
    }
    if (mf_grow(&x->list, &x->cap, x->n + 1, sizeof *x->list) != MF_OK)
        return -1;
    c = &x->list[x->n];
    *c = (context){ .frame = frame, .n = n };
    c->facts = MF_ARENA_ARRAY(x->arena, uint64_t, n + 1);
    if (!c->facts)
        return -1;
    if (n > 0)
        memcpy(c->facts, facts, (size_t)n * sizeof *facts);
    return (int)x->n++;
}

static int with_fact(mf_contexts *x, int ctx, uint64_t fact)
{
    const context c = x->list[ctx];
    uint64_t *facts = MF_ARENA_ARRAY(x->arena, uint64_t, c.n + 1);
    int at = 0, n = 0;

    if (!facts)
        return -1;
    while (at < c.n && c.facts[at] < fact)
        facts[n++] = c.facts[at++];
    facts[n++] = fact;
    if (at < c.n && c.facts[at] == fact)
        at++;
    while (at < c.n)
        facts[n++] = c.facts[at++];
    return intern(x, c.frame, facts, n);
}

static int without_fact(mf_contexts *x, int ctx, uint64_t fact)
{
    const context c = x->list[ctx];
    uint64_t *facts = MF_ARENA_ARRAY(x->arena, uint64_t, c.n + 1);
    int n = 0;

    if (!facts)
        return -1;
    for (int i = 0; i < c.n; i++) {
        if (c.facts[i] != fact)
            facts[n++] = c.facts[i];
    }
    return intern(x, c.frame, facts, n);
}

/* Returns -2 for different frames. */
static int unite(mf_contexts *x, int a, int b)
{
    int r = a;

    if (a == b)
        return a;
    if (x->list[a].frame != x->list[b].frame)
        return -2;
    for (int i = 0; i < x->list[b].n && r >= 0; i++)
        r = with_fact(x, r, x->list[b].facts[i]);
    return r;
}

bool mf_node_is_constant(const mf_node *n)
{
    return n->n_controls == 0 && n->op && n->n_inputs == 0 && strcmp(n->op->name, "Const") == 0;
}

static mf_status flow_context_fail(int code, const mf_node *n)
{
    if (code == -2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "{{node %s}} has inputs from different frames: a value must enter a loop "
                       "through Enter",
                       n->name);
    return MF_NOMEM("compiling");
}

/* The union of the contexts of all inputs, data and control. -1: no inputs. */
static mf_status inputs_context(mf_contexts *x, const mf_node *n, int *out)
{
    int ctx = -1;

    for (int i = 0; i < n->n_inputs + n->n_controls; i++) {
        const mf_node *from = i < n->n_inputs ? n->inputs[i].node : n->controls[i - n->n_inputs];
        int c;

        if (mf_node_is_constant(from) || !x->of[from->id])
            continue; /* constant; or a back edge, not visited yet */
        c = i < n->n_inputs ? x->of[from->id][n->inputs[i].port] : x->of[from->id][from->n_outputs];
        ctx = ctx < 0 ? c : unite(x, ctx, c);
        if (ctx < 0)
            return flow_context_fail(ctx, n);
    }
    *out = ctx;
    return MF_OK;
}

static int find_frame(mf_contexts *x, const mf_node *enter, int parent)
{
    const char *name = mf_node_string(enter, "frame_name");
    const int64_t parallel = mf_node_int(enter, "parallel_iterations");

    for (int64_t i = 1; i < x->n_frames; i++) {
        if (x->frames[i].info.parent == parent && strcmp(x->frames[i].info.name, name) == 0)
            return (int)i;
    }
    if (mf_grow(&x->frames, &x->cap_frames, x->n_frames + 1, sizeof *x->frames) != MF_OK)
        return -1;
    x->frames[x->n_frames] =
        (frame_entry){ .info = { .name = name,
                                 .parent = parent,
                                 .parallel_iterations =
                                     parallel > 0 && parallel < 1024 ? (int)parallel : 10 },
                       .outside = -1,
                       .uniform = true };
    return (int)x->n_frames++;
}

static mf_status enter_context(mf_contexts *x, const mf_node *n, int outside, int *out)
{
    const int frame = find_frame(x, n, x->list[outside].frame);
    frame_entry *f;
    uint64_t fact;

    if (frame < 0)
        return MF_NOMEM("compiling");
    f = &x->frames[frame];
    if (f->outside < 0)
        f->outside = outside;
    f->uniform = f->uniform && f->outside == outside;
    /* Loops that all values enter in one context need no facts inside. */
    fact = node_fact(n);
    *out = f->uniform ? intern(x, frame, NULL, 0) : intern(x, frame, &fact, 1);
    return *out < 0 ? MF_NOMEM("compiling") : MF_OK;
}

/* X with p true and X with p false are merged to X. */
static int merged(mf_contexts *x, const mf_node *n, int ctx)
{
    int sides[2], k = 0;
    uint64_t fact = node_fact(n);

    for (int i = 0; i < n->n_inputs; i++) {
        const mf_node *from = n->inputs[i].node;

        if (from->op && from->op->control == MF_CONTROL_NEXT)
            return ctx; /* loop variable: context of its Enter */
        if (k == 2 || mf_node_is_constant(from))
            return intern(x, x->list[ctx].frame, &fact, 1);
        sides[k++] = x->of[from->id][n->inputs[i].port];
    }
    for (int i = 0; k == 2 && i < x->list[sides[0]].n; i++) {
        const uint64_t f = x->list[sides[0]].facts[i];
        const int rest = without_fact(x, sides[0], f);

        if (f >> 62 == 1 && rest >= 0 && with_fact(x, rest, f ^ 1) == sides[1])
            return rest;
    }
    return intern(x, x->list[ctx].frame, &fact, 1);
}

/* The context of a value that leaves the loop. */
static int exit_context(mf_contexts *x, const mf_node *n, int inside)
{
    const int frame = x->list[inside].frame;
    const frame_entry *f = &x->frames[frame];
    const uint64_t fact = node_fact(n);

    if (f->outside < 0 || !f->uniform)
        return intern(x, f->info.parent < 0 ? 0 : f->info.parent, &fact, 1);
    return f->waits ? with_fact(x, f->outside, frame_fact(frame)) : f->outside;
}

static bool waits_separately(const mf_node *n)
{
    return n->op && mf_node_kernel(n)->start && !(mf_node_kernel(n)->flags & MF_OP_JOINT);
}

static int waited_context(mf_contexts *x, const mf_node *n, int ctx)
{
    for (int f = x->list[ctx].frame; f > 0; f = x->frames[f].info.parent)
        x->frames[f].waits = true;
    return with_fact(x, ctx, node_fact(n));
}

static mf_status node_contexts(mf_contexts *x, const mf_node *n)
{
    int ctx = -1;
    int *of = MF_ARENA_ARRAY(x->arena, int, n->n_outputs + 1);

    if (!of)
        return MF_NOMEM("compiling");
    if (n->op && n->op->control == MF_CONTROL_MERGE) {
        /* Its inputs are alternatives: one of them determines the frame. */
        for (int i = 0; i < n->n_inputs && ctx < 0; i++) {
            const mf_node *from = n->inputs[i].node;

            if (!mf_node_is_constant(from) && x->of[from->id])
                ctx = x->of[from->id][n->inputs[i].port];
        }
        ctx = merged(x, n, ctx < 0 ? MF_CONTEXT_ROOT : ctx);
    } else {
        MF_TRY(inputs_context(x, n, &ctx));
        ctx = ctx < 0 ? MF_CONTEXT_ROOT : ctx;
    }
    if (waits_separately(n))
        ctx = waited_context(x, n, ctx);
    for (int i = 0; i <= n->n_outputs; i++)
        of[i] = ctx;
    switch (n->op ? n->op->control : MF_CONTROL_NONE) {
    case MF_CONTROL_SWITCH:
        for (int i = 0; i < n->n_outputs; i++)
            of[i] = with_fact(x, ctx, predicate_fact(n->inputs[1], i));
        break;
    case MF_CONTROL_ENTER:
        MF_TRY(enter_context(x, n, ctx, &of[0]));
        of[1] = of[0]; /* control edges out of Enter are also inside the frame */
        break;
    case MF_CONTROL_EXIT:
        of[0] = of[1] = exit_context(x, n, ctx);
        break;
    case MF_CONTROL_TRIGGER: { /* always alive, whatever its inputs are */
        const uint64_t fact = node_fact(n);

        of[0] = intern(x, x->list[ctx].frame, &fact, 1);
        break;
    }
    default:
        break;
    }
    x->of[n->id] = of;
    return ctx < 0 ? MF_NOMEM("compiling") : MF_OK;
}

/* The amount of knowledge about loops; it only grows. */
static int64_t findings(const mf_contexts *x)
{
    int64_t n = 0;

    for (int64_t i = 1; i < x->n_frames; i++)
        n += !x->frames[i].uniform + x->frames[i].waits;
    return n;
}

/* That a loop is not uniform, or waits, may be discovered late: then repeat the analysis. */
static mf_status flow_context_compute(mf_contexts *x, mf_node *const *order, int64_t n)
{
    int64_t known;

    do {
        known = findings(x);
        memset(x->of, 0, (size_t)x->n_of * sizeof *x->of);
        for (int64_t i = 0; i < n; i++)
            MF_TRY(node_contexts(x, order[i]));
    } while (findings(x) > known);
    return MF_OK;
}

mf_status mf_contexts_new(const mf_compile *c, mf_node *const *order, int64_t n, mf_contexts **out)
{
    mf_contexts *x = mf_calloc(1, sizeof *x);
    mf_status st = MF_OK;

    *out = NULL;
    if (!x)
        return MF_NOMEM("compiling");
    x->arena = mf_arena_new();
    x->n_of = c->graph->n_nodes;
    x->of = mf_calloc(x->n_of, sizeof *x->of);
    if (!x->arena || !x->of || intern(x, 0, NULL, 0) < 0 ||
        mf_grow(&x->frames, &x->cap_frames, 1, sizeof *x->frames) != MF_OK)
        st = MF_NOMEM("compiling");
    if (st == MF_OK) {
        x->frames[0] = (frame_entry){ .info = { .name = "", .parent = -1 }, .uniform = true };
        x->n_frames = 1;
        st = flow_context_compute(x, order, n);
    }
    if (st == MF_OK) {
        x->infos = MF_ARENA_ARRAY(x->arena, mf_frame_info, x->n_frames);
        if (!x->infos)
            st = MF_NOMEM("compiling");
    }
    if (st != MF_OK) {
        mf_contexts_free(x);
        return st;
    }
    for (int64_t i = 0; i < x->n_frames; i++)
        x->infos[i] = x->frames[i].info;
    *out = x;
    return MF_OK;
}

void mf_contexts_free(mf_contexts *contexts)
{
    if (!contexts)
        return;
    mf_arena_free(contexts->arena);
    mf_free(contexts->list);
    mf_free(contexts->frames);
    mf_free(contexts->of);
    mf_free(contexts);
}

int mf_context_of(const mf_contexts *contexts, mf_output o)
{
    return o.node->id < contexts->n_of && contexts->of[o.node->id]
               ? contexts->of[o.node->id][o.port]
               : MF_CONTEXT_ROOT;
}

int mf_context_of_node(const mf_contexts *contexts, const mf_node *n)
{
    return n->id < contexts->n_of && contexts->of[n->id] ? contexts->of[n->id][n->n_outputs]
                                                         : MF_CONTEXT_ROOT;
}

int mf_context_frame(const mf_contexts *contexts, int ctx)
{
    return contexts->list[ctx].frame;
}

const mf_frame_info *mf_contexts_frames(const mf_contexts *contexts, int *n)
{
    *n = (int)contexts->n_frames;
    return contexts->infos;
}
