/* SPDX-License-Identifier: Apache-2.0 */
/* memory_peak.c - the peak memory of a program, as far as shapes are known: the program is
 * simulated item by item, in the order they become ready, with reference-counted storage in place
 * of tensors. Excluded: variables, feeds, and workspaces of kernels, unless a function provides
 * their sizes. The body of a loop counts once. */
#include "compiler/region.h"

#include <string.h>

typedef struct storage {
    double bytes;
    int refs;
} storage;

enum {
    NONE = -1, /* foreign storage, or in a plan's block */
    REUSED_INPUTS = 64, /* number of bits in mf_plan_entry.reuse */
};

typedef struct memory_peak_walker {
    const mf_compile *c;
    const mf_program *program;
    mf_scratch_fn *scratch; /* NULL: none */
    void *ctx;
    storage *all;
    int64_t n_all, cap_all;
    int **token; /* by item and input: the storage that has arrived */
    int *pending; /* by item */
    int *queue; /* ready items; grows at both ends */
    int64_t head, tail;
    double held, most;
} memory_peak_walker;

/* ---- storage ---- */

static mf_status memory_peak_make(memory_peak_walker *w, double bytes, int *out)
{
    bytes = bytes < (double)MF_BUFFER_MOST ? (double)mf_buffer_room((int64_t)bytes) : bytes;
    MF_TRY(mf_grow(&w->all, &w->cap_all, w->n_all + 1, sizeof *w->all));
    w->all[w->n_all] = (storage){ bytes, 1 };
    *out = (int)w->n_all++;
    w->held += bytes;
    w->most = w->held > w->most ? w->held : w->most;
    return MF_OK;
}

static storage *memory_peak_at(const memory_peak_walker *w, int s)
{
    return s != NONE && w->all ? &w->all[s] : NULL;
}

static int memory_peak_share(const memory_peak_walker *w, int s)
{
    storage *shared = memory_peak_at(w, s);

    if (shared)
        shared->refs++;
    return s;
}

static void memory_peak_drop(memory_peak_walker *w, int *s)
{
    storage *dropped = memory_peak_at(w, *s);

    if (dropped && --dropped->refs == 0)
        w->held -= dropped->bytes;
    *s = NONE;
}

static double memory_peak_bytes_of(const memory_peak_walker *w, const mf_node *n, int port)
{
    const double bytes = mf_compile_bytes(w->c, n, port);

    return bytes > 0 ? bytes : 0;
}

/* As mf_kernel_alloc(): the storage of an input without other users. */
static int reused(const memory_peak_walker *w, const mf_node *n, const int *in, uint64_t reuse,
                  double bytes)
{
    for (int i = 0;
         mf_node_kernel(n)->flags & MF_OP_INPLACE && i < n->n_inputs && i < REUSED_INPUTS; i++) {
        const storage *s = memory_peak_at(w, in[i]);

        if (reuse >> i & 1 && s && s->refs == 1 &&
            memory_peak_bytes_of(w, n->inputs[i].node, n->inputs[i].port) == bytes)
            return in[i];
    }
    return NONE;
}

static mf_status make_output(memory_peak_walker *w, const mf_node *n, int port, const int *in,
                             uint64_t reuse, int *out)
{
    const double bytes = memory_peak_bytes_of(w, n, port);
    int other;

    *out = NONE;
    if (mf_node_kernel(n)->flags & MF_OP_VIEW && port == 0 && n->n_inputs > 0) {
        *out = memory_peak_share(w, in[0]);
        return MF_OK;
    }
    if (mf_node_kernel(n)->flags & MF_OP_HEAP || mf_type_is_ref(n->out_types[port]))
        return MF_OK;
    other = reused(w, n, in, reuse, bytes);
    if (other == NONE)
        return memory_peak_make(w, bytes, out);
    *out = memory_peak_share(w, other);
    return MF_OK;
}

static mf_status use_scratch(memory_peak_walker *w, const mf_node *n, void *state)
{
    const int64_t bytes = w->scratch ? w->scratch(w->ctx, n, state) : 0;
    int s = NONE;

    if (bytes > 0)
        MF_TRY(memory_peak_make(w, (double)bytes, &s));
    memory_peak_drop(w, &s);
    return MF_OK;
}

/* ---- items ---- */

static mf_status memory_peak_run_entry(memory_peak_walker *w, const mf_plan *plan,
                                       const mf_plan_entry *e, int *value)
{
    int in[REUSED_INPUTS]; /* further inputs are never reused */

    for (int i = 0; i < e->n_in && i < REUSED_INPUTS; i++)
        in[i] = value[e->in[i]];
    for (int i = 0; i < e->n_out; i++) {
        if (plan->values[e->out[i]].kind == MF_VALUE_HEAP)
            MF_TRY(make_output(w, e->node, i, in, e->reuse, &value[e->out[i]]));
    }
    MF_TRY(use_scratch(w, e->node, e->kernel.state));
    for (int i = 0; i < e->n_drops; i++)
        memory_peak_drop(w, &value[e->drops[i]]);
    return MF_OK;
}

static mf_status run_plan(memory_peak_walker *w, const mf_item *item, int *tokens, int *out)
{
    const mf_plan *plan = item->plan;
    int *value = mf_calloc(plan->n_values + 1, sizeof *value);
    int block = NONE;
    mf_status st = value ? MF_OK : MF_NOMEM("a program");

    if (st == MF_OK && plan->block_bytes > 0)
        st = memory_peak_make(w, (double)plan->block_bytes, &block);
    for (int i = 0; st == MF_OK && i < plan->n_values; i++)
        value[i] = NONE;
    for (int i = 0; st == MF_OK && i < plan->n_inputs; i++) {
        value[plan->inputs[i]] = tokens[i];
        tokens[i] = NONE;
    }
    for (int e = 0; st == MF_OK && e < plan->n_entries; e++)
        st = memory_peak_run_entry(w, plan, &plan->entries[e], value);
    for (int i = 0; st == MF_OK && i < plan->n_outputs; i++)
        out[i] = value[plan->outputs[i]];
    memory_peak_drop(w, &block);
    mf_free(value);
    return st;
}

static mf_status run_item(memory_peak_walker *w, const mf_item *item, int *tokens, int *out)
{
    for (int i = 0; i < item->n_out; i++)
        out[i] = NONE;
    switch (item->kind) {
    case MF_ITEM_REGION:
        return run_plan(w, item, tokens, out);
    case MF_ITEM_OP:
    case MF_ITEM_ASYNC:
        for (int i = 0; i < item->n_out; i++)
            MF_TRY(make_output(w, item->node, i, tokens, UINT64_MAX, &out[i]));
        return use_scratch(w, item->node, item->kernel.state);
    case MF_ITEM_SWITCH: /* one side is alive; which one is unknown */
    case MF_ITEM_MERGE:
    case MF_ITEM_ENTER:
    case MF_ITEM_EXIT:
    case MF_ITEM_NEXT:
        for (int i = 0; i < item->n_out && i < 2 && item->n_in > 0; i++)
            out[i] = memory_peak_share(w, tokens[0]);
        return MF_OK;
    case MF_ITEM_FEED:
    case MF_ITEM_FETCH:
    case MF_ITEM_TRIGGER:
        break;
    }
    return MF_OK;
}

/* As in the executor: asynchronous items start first. */
static void memory_peak_push(memory_peak_walker *w, int item)
{
    if (w->program->items[item].kind == MF_ITEM_ASYNC)
        w->queue[--w->head] = item;
    else
        w->queue[w->tail++] = item;
}

static void memory_peak_arrive(memory_peak_walker *w, const mf_edge *e, int value)
{
    if (e->input >= 0 && w->token[e->item][e->input] == NONE)
        w->token[e->item][e->input] = memory_peak_share(w, value);
    if (--w->pending[e->item] == 0)
        memory_peak_push(w, e->item);
}

/* Edges of a port, then those of the next, then control edges. */
static void visit_consumers(memory_peak_walker *w, const mf_item *item, int *out)
{
    int at = 0;

    for (int port = 0; port <= item->n_out; port++) {
        for (; at < item->edges_end[port]; at++)
            memory_peak_arrive(w, &item->edges[at], port < item->n_out ? out[port] : NONE);
        if (port < item->n_out)
            memory_peak_drop(w, &out[port]);
    }
}

/* ---- the simulation ---- */

static mf_status memory_peak_walk(memory_peak_walker *w, int *out)
{
    const mf_program *p = w->program;

    for (int i = 0; i < p->n_roots; i++)
        memory_peak_push(w, p->roots[i]);
    while (w->head < w->tail) {
        const int at = w->queue[w->head++];
        const mf_item *item = &p->items[at];

        MF_TRY(run_item(w, item, w->token[at], out));
        for (int i = 0; i < item->n_in; i++)
            memory_peak_drop(w, &w->token[at][i]);
        visit_consumers(w, item, out);
    }
    return MF_OK;
}

static mf_status memory_peak_begin(memory_peak_walker *w, mf_arena *arena)
{
    const mf_program *p = w->program;

    w->token = MF_ARENA_ARRAY(arena, int *, p->n_items + 1);
    w->pending = MF_ARENA_ARRAY(arena, int, p->n_items + 1);
    w->queue = MF_ARENA_ARRAY(arena, int, 2 * p->n_items + 1);
    w->head = w->tail = p->n_items;
    for (int i = 0; w->token && w->pending && w->queue && i < p->n_items; i++) {
        /* a Merge is ready with its first input */
        w->pending[i] = p->items[i].kind == MF_ITEM_MERGE ? 1 : p->items[i].pending;
        w->token[i] = MF_ARENA_ARRAY(arena, int, p->items[i].n_in + 1);
        for (int k = 0; w->token[i] && k < p->items[i].n_in; k++)
            w->token[i][k] = NONE;
        if (!w->token[i])
            return MF_NOMEM("a program");
    }
    return w->token && w->pending && w->queue ? MF_OK : MF_NOMEM("a program");
}

mf_status mf_program_peak(const mf_compile *c, const mf_program *program, mf_scratch_fn *scratch,
                          void *ctx, int64_t *out)
{
    memory_peak_walker w = { .c = c, .program = program, .scratch = scratch, .ctx = ctx };
    mf_arena *arena = mf_arena_new();
    int *ports = mf_calloc(program->max_out + 1, sizeof *ports);
    mf_status st = arena && ports ? memory_peak_begin(&w, arena) : MF_NOMEM("a program");

    if (st == MF_OK)
        st = memory_peak_walk(&w, ports);
    *out = w.most < (double)INT64_MAX ? (int64_t)w.most : INT64_MAX;
    mf_free(w.all);
    mf_free(ports);
    mf_arena_free(arena);
    return st;
}
