/* SPDX-License-Identifier: Apache-2.0 */
/* build_program.c - builds items, edges and frames from the rewritten graph. */
#include "compiler/compiler.h"
#include "compiler/flow_context.h"
#include "compiler/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct build_program_builder {
    mf_compile *c;
    mf_program *program;
    mf_contexts *contexts;
    mf_node **order;
    int64_t n_order;
    int *region; /* by node id; -1: separate item */
    int n_regions;
    int *item_of; /* by node id; -1: constant, or removed */
    mf_prepared *kernels; /* by node id */
    bool **leaves; /* by node id: outputs used outside their region */
    mf_plan_ends *ends; /* by region */
    int *region_item;
    int **port_of; /* by node id: for region outputs, the item's port of each output, or -1 */
    int *edge_count; /* by item: edges collected per port */
} build_program_builder;

static mf_status prepare_node(build_program_builder *b, mf_node *n)
{
    mf_prepare p = {
        .node = n, .graph = b->c->graph, .arena = b->program->arena, .session = b->c->session
    };
    const mf_kernel_def *def = mf_node_kernel(n);
    mf_shape *shapes;
    mf_status st;

    b->kernels[n->id].def = def;
    if (!def || !def->prepare)
        return MF_OK;
    shapes = MF_ARENA_ARRAY(b->program->arena, mf_shape, n->n_inputs);
    if (!shapes)
        return MF_NOMEM("a program");
    for (int i = 0; i < n->n_inputs; i++)
        shapes[i] = mf_compile_facts(b->c, n->inputs[i].node)->shapes[n->inputs[i].port];
    p.in = shapes;
    st = def->prepare(&p);
    if (st != MF_OK) {
        char after[300];

        (void)snprintf(after, sizeof after, "\n\t [[{{node %.200s}}]]", n->name);
        return mf_error_wrap(st, "", after);
    }
    b->kernels[n->id].state = p.state;
    return MF_OK;
}

static mf_item_kind build_program_kind_of(const mf_node *n)
{
    switch (n->op->control) {
    case MF_CONTROL_SWITCH:
        return MF_ITEM_SWITCH;
    case MF_CONTROL_MERGE:
        return MF_ITEM_MERGE;
    case MF_CONTROL_ENTER:
        return MF_ITEM_ENTER;
    case MF_CONTROL_EXIT:
        return MF_ITEM_EXIT;
    case MF_CONTROL_NEXT:
        return MF_ITEM_NEXT;
    case MF_CONTROL_TRIGGER:
        return MF_ITEM_TRIGGER;
    case MF_CONTROL_ARG:
        return n->n_inputs == 0 ? MF_ITEM_FEED : MF_ITEM_FETCH;
    default:
        return mf_node_kernel(n)->start ? MF_ITEM_ASYNC : MF_ITEM_OP;
    }
}

/* The frame in which an item runs: Enter runs outside the frame it enters. */
static int build_program_frame_of(const build_program_builder *b, const mf_node *n)
{
    int n_frames;
    const mf_frame_info *frames = mf_contexts_frames(b->contexts, &n_frames);
    int frame = mf_context_frame(b->contexts, mf_context_of_node(b->contexts, n));

    if (n->op->control == MF_CONTROL_ENTER)
        return frames[frame].parent;
    if (n->op->control == MF_CONTROL_EXIT)
        return mf_context_frame(b->contexts, mf_context_of(b->contexts, n->inputs[0]));
    return frame;
}

static mf_item *add_item(build_program_builder *b, mf_item_kind kind, const mf_node *n, int n_in,
                         int n_out)
{
    mf_item *item = &b->program->items[b->program->n_items];

    *item = (mf_item){ .kind = kind,
                       .node = n,
                       .n_in = n_in,
                       .n_out = n_out,
                       .child = -1,
                       .frame = build_program_frame_of(b, n) };
    item->in = MF_ARENA_ARRAY(b->program->arena, mf_item_input, n_in);
    item->edges_end = MF_ARENA_ARRAY(b->program->arena, int32_t, n_out + 1);
    if (!item->in || !item->edges_end)
        return NULL;
    item->local = b->program->frames[item->frame].n_items++;
    b->program->n_items++;
    if (n_in > b->program->max_in)
        b->program->max_in = n_in;
    if (n_out > b->program->max_out)
        b->program->max_out = n_out;
    return item;
}

static mf_status bind_input(build_program_builder *b, mf_item *item, int i, mf_output from,
                            bool deref)
{
    if (mf_node_is_constant(from.node)) {
        item->in[i].constant = mf_node_attr(from.node, "value")->tensor;
        return MF_OK;
    }
    item->in[i].slot = b->program->frames[item->frame].n_slots++;
    item->in[i].deref = deref;
    item->pending++;
    return MF_OK;
}

static bool needs_read(const mf_node *n, int i)
{
    const mf_output in = n->inputs[i];

    /* Control flow forwards references; any other plain input reads them. */
    return mf_type_is_ref(in.node->out_types[in.port]) && !mf_type_is_ref(n->in_types[i]) &&
           !(mf_node_kernel(n)->flags & MF_OP_TAKES_REFS);
}

static mf_status add_node_item(build_program_builder *b, mf_node *n)
{
    const mf_item_kind kind = build_program_kind_of(n);
    mf_item *item = add_item(b, kind, n, n->n_inputs, n->n_outputs);
    int n_frames;
    const mf_frame_info *frames = mf_contexts_frames(b->contexts, &n_frames);

    if (!item)
        return MF_NOMEM("a program");
    if ((kind == MF_ITEM_OP && !mf_node_kernel(n)->run))
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel ({{node %s}})", n->op_name, n->name);
    b->item_of[n->id] = b->program->n_items - 1;
    item->kernel = b->kernels[n->id];
    for (int i = 0; i < n->n_inputs; i++)
        MF_TRY(bind_input(b, item, i, n->inputs[i], needs_read(n, i)));
    for (int i = 0; i < n->n_controls; i++)
        item->controls += !mf_node_is_constant(n->controls[i]);
    item->pending += item->controls;
    if (kind == MF_ITEM_FEED || kind == MF_ITEM_FETCH)
        item->index = (int)mf_node_int(n, "index");
    if (kind == MF_ITEM_ENTER) {
        item->child =
            mf_context_frame(b->contexts, mf_context_of(b->contexts, (mf_output){ n, 0 }));
        item->constant_enter = mf_node_bool(n, "is_constant");
        b->program->frames[item->child].enters++;
        b->program->frames[item->child].parent = frames[item->child].parent;
    }
    return MF_OK;
}

/* ---- regions ---- */

static mf_status find_leaves(build_program_builder *b)
{
    for (int64_t i = 0; i < b->n_order; i++) {
        const mf_node *n = b->order[i];

        for (int k = 0; k < n->n_inputs; k++) {
            const mf_output in = n->inputs[k];
            const int from = b->region[in.node->id];

            if (from < 0 || from == b->region[n->id])
                continue;
            if (!b->leaves[in.node->id]) {
                b->leaves[in.node->id] =
                    MF_ARENA_ARRAY(b->program->arena, bool, in.node->n_outputs);
                if (!b->leaves[in.node->id])
                    return MF_NOMEM("a program");
            }
            b->leaves[in.node->id][in.port] = true;
        }
    }
    return MF_OK;
}

/* Control inputs from outside, without duplicates. */
static mf_status region_controls(build_program_builder *b, mf_item *item, mf_node *const *nodes,
                                 int64_t n, int r, char *seen)
{
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < nodes[i]->n_controls; k++) {
            const mf_node *from = nodes[i]->controls[k];
            const int at = b->region[from->id];

            if (mf_node_is_constant(from) || at == r)
                continue;
            /* All controls out of another region are one: it ends as a unit. */
            if (at >= 0 ? seen[b->c->graph->n_nodes + at]++ : seen[from->id]++)
                continue;
            item->controls++;
            item->pending++;
        }
    }
    return MF_OK;
}

/* All nodes of a region that belong to a micro-batch belong to the same one. */
static void note_turn(mf_item *item, mf_node *const *nodes, int64_t n)
{
    for (int64_t i = 0; i < n && item->micro_batch == 0; i++) {
        item->micro_batch = mf_node_micro_batch(nodes[i]);
        item->is_back = mf_node_is_gradient(nodes[i]);
        item->is_late = mf_node_is_late(nodes[i]);
    }
}

static mf_status add_region_item(build_program_builder *b, int r, mf_node **nodes, int64_t n)
{
    mf_plan_ends *ends = &b->ends[r];
    mf_plan *plan = NULL;
    mf_item *item;
    char *seen;
    mf_status st;

    if (mf_pass_is_on(b->c, "schedule"))
        MF_TRY(mf_region_schedule(b->c, nodes, n, b->leaves));
    MF_TRY(mf_plan_build(b->c, nodes, n, b->leaves, b->kernels, b->program->arena, &plan, ends));
    item = add_item(b, MF_ITEM_REGION, nodes[0], ends->n_inputs, ends->n_outputs);
    if (!item)
        return MF_NOMEM("a program");
    item->plan = plan;
    note_turn(item, nodes, n);
    b->region_item[r] = b->program->n_items - 1;
    b->program->n_planned += n;
    for (int i = 0; i < ends->n_inputs; i++)
        MF_TRY(bind_input(b, item, i, ends->inputs[i], false));
    for (int64_t i = 0; i < n; i++)
        b->item_of[nodes[i]->id] = b->program->n_items - 1;
    for (int i = 0; i < ends->n_outputs; i++) {
        const mf_node *from = ends->outputs[i].node;

        if (!b->port_of[from->id]) {
            b->port_of[from->id] = MF_ARENA_ARRAY(b->program->arena, int, from->n_outputs);
            if (!b->port_of[from->id])
                return MF_NOMEM("a program");
        }
        b->port_of[from->id][ends->outputs[i].port] = i;
    }
    seen = mf_calloc(b->c->graph->n_nodes + b->n_regions, 1);
    st = seen ? region_controls(b, item, nodes, n, r, seen) : MF_NOMEM("a program");
    mf_free(seen);
    return st;
}

static mf_status add_regions(build_program_builder *b)
{
    mf_node **nodes = mf_calloc(b->n_order, sizeof *nodes);
    int64_t *start = mf_calloc(b->n_regions + 2, sizeof *start);
    mf_status st = nodes && start ? MF_OK : MF_NOMEM("a program");

    for (int64_t i = 0; st == MF_OK && i < b->n_order; i++) {
        if (b->region[b->order[i]->id] >= 0)
            start[b->region[b->order[i]->id] + 2]++;
    }
    for (int r = 0; st == MF_OK && r < b->n_regions; r++)
        start[r + 2] += start[r + 1];
    for (int64_t i = 0; st == MF_OK && i < b->n_order; i++) {
        if (b->region[b->order[i]->id] >= 0)
            nodes[start[b->region[b->order[i]->id] + 1]++] = b->order[i];
    }
    for (int r = 0; st == MF_OK && r < b->n_regions; r++)
        st = add_region_item(b, r, nodes + start[r], start[r + 1] - start[r]);
    mf_free(nodes);
    mf_free(start);
    return st;
}

/* ---- edges ---- */

typedef struct raw_edge {
    int from, port; /* port -1: control */
    mf_edge to;
} raw_edge;

typedef struct edge_list {
    raw_edge *edges;
    int64_t n, cap;
} edge_list;

static mf_status add_edge(edge_list *l, int from, int port, int to, int input)
{
    MF_TRY(mf_grow(&l->edges, &l->cap, l->n + 1, sizeof *l->edges));
    l->edges[l->n++] = (raw_edge){ from, port, { to, input } };
    return MF_OK;
}

static int item_port(const build_program_builder *b, mf_output o)
{
    return b->region[o.node->id] >= 0 ? b->port_of[o.node->id][o.port] : o.port;
}

static mf_status edges_of_item(build_program_builder *b, int at, edge_list *l)
{
    const mf_item *item = &b->program->items[at];
    const mf_node *n = item->node;
    const int r = item->kind == MF_ITEM_REGION ? b->region[n->id] : -1;

    for (int i = 0; i < item->n_in; i++) {
        const mf_output in = r >= 0 ? b->ends[r].inputs[i] : n->inputs[i];

        if (!item->in[i].constant)
            MF_TRY(add_edge(l, b->item_of[in.node->id], item_port(b, in), at, i));
    }
    for (int k = 0; r < 0 && k < n->n_controls; k++) {
        if (!mf_node_is_constant(n->controls[k]))
            MF_TRY(add_edge(l, b->item_of[n->controls[k]->id], -1, at, -1));
    }
    return MF_OK;
}

/* As region_controls(): without duplicates. */
static mf_status control_edges_of_regions(build_program_builder *b, edge_list *l)
{
    const int64_t width = b->c->graph->n_nodes + b->n_regions;
    int *last = mf_calloc(width, sizeof *last); /* region + 1 for which the source was last
                                                   recorded */
    mf_status st = last ? MF_OK : MF_NOMEM("a program");

    for (int r = 0; st == MF_OK && r < b->n_regions; r++) {
        const mf_plan *plan = b->program->items[b->region_item[r]].plan;

        for (int e = 0; st == MF_OK && e < plan->n_entries; e++) {
            const mf_node *n = plan->entries[e].node;

            for (int k = 0; st == MF_OK && k < n->n_controls; k++) {
                const mf_node *from = n->controls[k];
                const int at = b->region[from->id];
                const int64_t key = at >= 0 ? b->c->graph->n_nodes + at : from->id;

                if (mf_node_is_constant(from) || at == r || last[key] == r + 1)
                    continue;
                last[key] = r + 1;
                st = add_edge(l, b->item_of[from->id], -1, b->region_item[r], -1);
            }
        }
    }
    mf_free(last);
    return st;
}

static int by_source(const void *a, const void *b)
{
    const raw_edge *x = a, *y = b;
    const int px = x->port < 0 ? INT32_MAX : x->port, py = y->port < 0 ? INT32_MAX : y->port;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (px != py)
        return px < py ? -1 : 1;
    if (x->to.item != y->to.item)
        return x->to.item < y->to.item ? -1 : 1;
    return (x->to.input > y->to.input) - (x->to.input < y->to.input);
}

static mf_status store_edges(build_program_builder *b, edge_list *l)
{
    mf_edge *all = MF_ARENA_ARRAY(b->program->arena, mf_edge, l->n);
    int64_t at = 0;

    if (!all)
        return MF_NOMEM("a program");
    if (l->n > 0)
        qsort(l->edges, (size_t)l->n, sizeof *l->edges, by_source);
    for (int64_t i = 0; i < l->n; i++)
        all[i] = l->edges[i].to;
    for (int i = 0; i < b->program->n_items; i++) {
        mf_item *item = &b->program->items[i];
        const int64_t first = at;

        item->edges = all + at;
        for (int p = 0; p <= item->n_out; p++) {
            while (at < l->n && l->edges[at].from == i &&
                   (p == item->n_out || l->edges[at].port == p))
                at++;
            item->edges_end[p] = (int32_t)(at - first);
        }
    }
    MF_ASSERT(at == l->n);
    return MF_OK;
}

static mf_status add_edges(build_program_builder *b)
{
    edge_list l = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < b->program->n_items; i++)
        st = edges_of_item(b, i, &l);
    if (st == MF_OK)
        st = control_edges_of_regions(b, &l);
    if (st == MF_OK)
        st = store_edges(b, &l);
    mf_free(l.edges);
    return st;
}

/* ---- the program ---- */

static mf_status add_frames(build_program_builder *b)
{
    int n;
    const mf_frame_info *frames = mf_contexts_frames(b->contexts, &n);

    b->program->frames = MF_ARENA_ARRAY(b->program->arena, mf_frame_def, n);
    if (!b->program->frames)
        return MF_NOMEM("a program");
    b->program->n_frames = n;
    for (int i = 0; i < n; i++)
        b->program->frames[i] =
            (mf_frame_def){ .name = mf_arena_strdup(b->program->arena, frames[i].name),
                            .parent = frames[i].parent,
                            .parallel_iterations = frames[i].parallel_iterations };
    return MF_OK;
}

static mf_status add_roots(build_program_builder *b)
{
    mf_program *p = b->program;

    p->roots = MF_ARENA_ARRAY(p->arena, int32_t, p->n_items);
    if (!p->roots)
        return MF_NOMEM("a program");
    for (int i = 0; i < p->n_items; i++) {
        if (p->items[i].pending > 0)
            continue;
        if (p->items[i].frame != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "{{node %s}} is in a loop, but no node of the loop leads to it",
                           p->items[i].node->name);
        p->roots[p->n_roots++] = i;
    }
    return MF_OK;
}

static mf_status build_program_build(build_program_builder *b)
{
    const int64_t n_nodes = b->c->graph->n_nodes;

    MF_TRY(mf_infer_graph(b->c));
    MF_TRY(mf_compile_order(b->c, &b->order, &b->n_order));
    MF_TRY(mf_contexts_new(b->c, b->order, b->n_order, &b->contexts));
    MF_TRY(add_frames(b));
    for (int64_t i = 0; i < n_nodes; i++)
        b->region[i] = -1;
    if (mf_pass_is_on(b->c, "region"))
        MF_TRY(mf_regions_find(b->c, b->contexts, b->order, b->n_order, b->region, &b->n_regions));
    b->ends = mf_calloc(b->n_regions, sizeof *b->ends);
    b->region_item = mf_calloc(b->n_regions, sizeof *b->region_item);
    b->program->items = MF_ARENA_ARRAY(b->program->arena, mf_item, n_nodes);
    if (!b->ends || !b->region_item || !b->program->items)
        return MF_NOMEM("a program");
    MF_TRY(find_leaves(b));
    for (int64_t i = 0; i < b->n_order; i++)
        MF_TRY(prepare_node(b, b->order[i]));
    for (int64_t i = 0; i < b->n_order; i++) {
        mf_node *n = b->order[i];

        b->item_of[n->id] = -1;
        if (b->region[n->id] < 0 && !mf_node_is_constant(n)) {
            if (!n->op)
                return MF_FAIL(MF_INTERNAL, "the call {{node %s}} was not inlined", n->name);
            MF_TRY(add_node_item(b, n));
        }
    }
    MF_TRY(add_regions(b));
    MF_TRY(add_edges(b));
    MF_TRY(add_roots(b));
    b->program->n_regions = b->n_regions;
    b->program->n_feeds = b->c->n_feeds;
    b->program->n_fetches = b->c->n_fetches;
    return mf_program_peak(b->c, b->program, NULL, NULL, &b->program->peak_bytes);
}

static void build_program_deinit(build_program_builder *b)
{
    for (int r = 0; b->ends && r < b->n_regions; r++) {
        mf_free(b->ends[r].inputs);
        mf_free(b->ends[r].outputs);
    }
    mf_free(b->ends);
    mf_free(b->region_item);
    mf_contexts_free(b->contexts);
    mf_free(b->order);
    mf_free(b->region);
    mf_free(b->item_of);
    mf_free(b->leaves);
    mf_free(b->port_of);
}

mf_status mf_program_build(mf_compile *c, mf_program **out)
{
    const int64_t n = c->graph->n_nodes;
    build_program_builder b = { .c = c };
    mf_status st = MF_OK;

    *out = NULL;
    b.program = mf_calloc(1, sizeof *b.program);
    b.region = mf_calloc(n, sizeof *b.region);
    b.item_of = mf_calloc(n, sizeof *b.item_of);
    b.leaves = mf_calloc(n, sizeof *b.leaves);
    b.port_of = mf_calloc(n, sizeof *b.port_of);
    if (b.program)
        b.program->arena = mf_arena_new();
    if (!b.program || !b.program->arena || !b.region || !b.item_of || !b.leaves || !b.port_of)
        st = MF_NOMEM("a program");
    if (st == MF_OK) {
        pthread_mutex_init(&b.program->lock, NULL);
        b.kernels = MF_ARENA_ARRAY(b.program->arena, mf_prepared, n);
        b.program->kernels = b.kernels;
        if (!b.kernels)
            st = MF_NOMEM("a program");
    }
    if (st == MF_OK) {
        b.program->graph = c->graph; /* the program now owns the nodes */
        c->graph = NULL;
        b.c->graph = b.program->graph;
        st = build_program_build(&b);
        c->graph = NULL;
    }
    build_program_deinit(&b);
    if (st != MF_OK) {
        mf_program_free(b.program);
        return st;
    }
    *out = b.program;
    return MF_OK;
}

void mf_program_free(mf_program *program)
{
    if (!program)
        return;
    while (program->idle) {
        struct mf_run_state *state = program->idle;

        program->idle = NULL;
        program->free_state(state); /* frees the whole list */
    }
    for (int64_t i = 0; program->graph && program->kernels && i < program->graph->n_nodes; i++) {
        const mf_prepared *p = &program->kernels[i];

        if (p->state && p->def->release)
            p->def->release(p->state);
    }
    for (int i = 0; i < program->n_items; i++) {
        if (program->items[i].plan)
            mf_plan_free_instances(program->items[i].plan);
    }
    mf_graph_free(program->graph);
    if (program->arena)
        pthread_mutex_destroy(&program->lock);
    mf_arena_free(program->arena);
    mf_free(program);
}
