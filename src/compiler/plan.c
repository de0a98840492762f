/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - builds a plan from the ordered nodes of a region: values, entries, and memory.
 *
 * A value is one output of a node (or an input of the region). Values of known shape that stay
 * inside are placed in one block (memory_plan.h); lifetimes are intervals of entries. An in-place
 * op reuses the memory of an input that dies with it. All other values are allocated by their
 * kernels from the buffer pool and released after their last use. */
#include "compiler/memory_plan.h"
#include "compiler/region.h"

#include <stdlib.h>
#include <string.h>

typedef struct value_info {
    int root; /* value whose storage this is a view of; itself if none */
    int live_from, live_to; /* entries; dies includes views */
    bool leaves; /* it is an output of the plan */
    bool escapes; /* it or a view of it is an output: its storage must outlive the plan's block */
} value_info;

typedef struct planner {
    const mf_compile *c;
    mf_node *const *nodes;
    int64_t n_nodes;
    mf_arena *arena;
    mf_plan *plan;
    mf_plan_ends *ends;
    int **value_of; /* by node id: value + 1 of each port; 0: none yet */
    mf_plan_value *values;
    value_info *info;
    int64_t n_values, cap_values, cap_info;
    int64_t cap_inputs, cap_outputs;
} planner;

static mf_status value_add(planner *p, const mf_plan_value *v, int live_from, int *out)
{
    MF_TRY(mf_grow(&p->values, &p->cap_values, p->n_values + 1, sizeof *p->values));
    MF_TRY(mf_grow(&p->info, &p->cap_info, p->n_values + 1, sizeof *p->info));
    *out = (int)p->n_values++;
    p->values[*out] = *v;
    p->info[*out] = (value_info){ .root = *out, .live_from = live_from, .live_to = live_from };
    return MF_OK;
}

static mf_status ports_of(planner *p, const mf_node *n, int **out)
{
    if (!p->value_of[n->id]) {
        p->value_of[n->id] = MF_ARENA_ARRAY(p->arena, int, n->n_outputs);
        if (!p->value_of[n->id])
            return MF_NOMEM("a plan");
    }
    *out = p->value_of[n->id];
    return MF_OK;
}

/* The value of an input, created on first use if it comes from outside. */
static mf_status value_of_input(planner *p, mf_output o, int *out)
{
    int *ports;

    MF_TRY(ports_of(p, o.node, &ports));
    if (ports[o.port] == 0) {
        mf_plan_value v = { .kind = MF_VALUE_INPUT };
        int value = 0;

        if (mf_node_is_constant(o.node)) {
            v.kind = MF_VALUE_CONST;
            v.constant = mf_node_attr(o.node, "value")->tensor;
        } else {
            MF_TRY(mf_grow(&p->ends->inputs, &p->cap_inputs, p->ends->n_inputs + 1,
                           sizeof(mf_output)));
            p->ends->inputs[p->ends->n_inputs++] = o;
        }
        MF_TRY(value_add(p, &v, -1, &value));
        ports[o.port] = value + 1;
    }
    *out = ports[o.port] - 1;
    return MF_OK;
}

static void used_at(planner *p, int value, int entry)
{
    value_info *root = &p->info[p->info[value].root];

    if (entry > root->live_to)
        root->live_to = entry;
    if (entry > p->info[value].live_to)
        p->info[value].live_to = entry;
}

static mf_status add_read(planner *p, mf_plan_entry *e, int at, int handle, int *value)
{
    const mf_plan_value v = { .kind = MF_VALUE_HEAP };

    MF_TRY(value_add(p, &v, at, value));
    if (!e->reads)
        e->reads = MF_ARENA_ARRAY(p->arena, mf_plan_read, e->n_in);
    if (!e->reads)
        return MF_NOMEM("a plan");
    e->reads[e->n_reads++] = (mf_plan_read){ handle, *value };
    return MF_OK;
}

static mf_status add_inputs(planner *p, const mf_node *n, mf_plan_entry *e, int at)
{
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_output in = n->inputs[i];
        int value = 0;

        MF_TRY(value_of_input(p, in, &value));
        used_at(p, value, at);
        if (mf_type_is_ref(in.node->out_types[in.port]) && !mf_type_is_ref(n->in_types[i]))
            MF_TRY(add_read(p, e, at, value, &value));
        e->in[i] = value;
    }
    return MF_OK;
}

static bool placeable(const planner *p, const mf_node *n, int port)
{
    const mf_shape *s = &p->c->facts[n->id].shapes[port];
    int64_t count;

    return mf_pass_is_on(p->c, "place") &&
           !(mf_node_kernel(n)->flags & (MF_OP_HEAP | MF_OP_VIEW)) &&
           !mf_type_is_ref(n->out_types[port]) && mf_dtype_is_plain(n->out_types[port]) &&
           mf_shape_is_static(s) && mf_shape_count(s, &count) == MF_OK;
}

static mf_status add_outputs(planner *p, const mf_node *n, mf_plan_entry *e, int at,
                             const bool *leaves)
{
    int *ports;

    MF_TRY(ports_of(p, n, &ports));
    for (int i = 0; i < n->n_outputs; i++) {
        mf_plan_value v = { .kind = placeable(p, n, i) ? MF_VALUE_ARENA : MF_VALUE_HEAP,
                            .dtype = mf_type_base(n->out_types[i]),
                            .shape = p->c->facts[n->id].shapes[i] };
        int value = 0;

        MF_TRY(value_add(p, &v, at, &value));
        ports[i] = value + 1;
        e->out[i] = value;
        if (mf_node_kernel(n)->flags & MF_OP_VIEW && i == 0)
            p->info[value].root = p->info[e->in[0]].root;
        if (leaves && leaves[i]) {
            MF_TRY(mf_grow(&p->ends->outputs, &p->cap_outputs, p->ends->n_outputs + 1,
                           sizeof(mf_output)));
            p->ends->outputs[p->ends->n_outputs++] = (mf_output){ (mf_node *)(uintptr_t)n, i };
            p->info[value].leaves = true;
            p->info[p->info[value].root].escapes = true;
        }
    }
    return MF_OK;
}

static mf_status add_entries(planner *p, bool *const *leaves, const mf_prepared *kernels)
{
    p->plan->entries = MF_ARENA_ARRAY(p->arena, mf_plan_entry, p->n_nodes);
    if (!p->plan->entries)
        return MF_NOMEM("a plan");
    for (int64_t i = 0; i < p->n_nodes; i++) {
        const mf_node *n = p->nodes[i];
        mf_plan_entry *e = &p->plan->entries[i];

        *e = (mf_plan_entry){
            .node = n, .kernel = kernels[n->id], .n_in = n->n_inputs, .n_out = n->n_outputs
        };
        e->in = MF_ARENA_ARRAY(p->arena, int32_t, n->n_inputs);
        e->out = MF_ARENA_ARRAY(p->arena, int32_t, n->n_outputs);
        if (!e->in || !e->out)
            return MF_NOMEM("a plan");
        MF_TRY(add_inputs(p, n, e, (int)i));
        MF_TRY(add_outputs(p, n, e, (int)i, leaves[n->id]));
    }
    p->plan->n_entries = (int)p->n_nodes;
    return MF_OK;
}

/* ---- memory ---- */

enum { ALIGN = 64 };

static mf_status plan_bytes_of(const mf_node *n, int port, const mf_plan_value *v, int64_t *out)
{
    char text[MF_SHAPE_TEXT];
    int64_t count;

    MF_TRY(mf_shape_count(&v->shape, &count));
    if (!mf_mul_i64(count, (int64_t)mf_dtype_size(v->dtype), out) || *out > MF_MEMORY_PLAN_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "{{node %s}}: output %d, %s of shape %s, is larger than any memory", n->name,
                       port, mf_dtype_name(v->dtype), mf_shape_text(&v->shape, text));
    *out = (*out + ALIGN - 1) / ALIGN * ALIGN;
    if (*out == 0)
        *out = ALIGN; /* a unique address distinguishes a placed value from an empty slot */
    return MF_OK;
}

/* An input of an in-place entry whose storage dies here and has the exact size. */
static int replaceable_input(const planner *p, const mf_plan_entry *e, int at, int out)
{
    const mf_plan_value *o = &p->values[out];

    for (int i = 0; e->kernel.def->flags & MF_OP_INPLACE && i < e->n_in; i++) {
        const int v = e->in[i];
        const mf_plan_value *in = &p->values[v];
        int64_t a, b;

        if (in->kind == MF_VALUE_ARENA && p->info[v].root == v && p->info[v].live_to == at &&
            mf_dtype_size(in->dtype) == mf_dtype_size(o->dtype) &&
            mf_shape_count(&in->shape, &a) == MF_OK && mf_shape_count(&o->shape, &b) == MF_OK &&
            a == b)
            return v;
    }
    return -1;
}

/* Values that reuse each other's memory are one item. */
typedef struct placement {
    mf_memory_plan_item *items;
    int64_t n;
    int *of; /* by value: its item + 1 */
    bool *taken; /* by value: its memory is reused by another value */
} placement;

static mf_status place_outputs(const planner *p, placement *l, const mf_plan_entry *e, int at)
{
    for (int i = 0; i < e->n_out; i++) {
        const mf_plan_value *v = &p->values[e->out[i]];
        const int in =
            v->kind == MF_VALUE_ARENA && i == 0 ? replaceable_input(p, e, at, e->out[i]) : -1;
        mf_memory_plan_item *to;

        if (v->kind != MF_VALUE_ARENA)
            continue;
        if (in >= 0 && !l->taken[in]) {
            l->taken[in] = true;
            l->of[e->out[i]] = l->of[in];
        } else {
            l->of[e->out[i]] = (int)++l->n;
            l->items[l->n - 1] = (mf_memory_plan_item){ .live_from = at };
            MF_TRY(plan_bytes_of(e->node, i, v, &l->items[l->n - 1].bytes));
        }
        to = &l->items[l->of[e->out[i]] - 1];
        to->live_to = p->info[e->out[i]].live_to;
    }
    return MF_OK;
}

static mf_status plan_place_all(planner *p, placement *l)
{
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].kind == MF_VALUE_ARENA && p->info[v].escapes)
            p->values[v].kind = MF_VALUE_HEAP;
    }
    for (int e = 0; e < p->plan->n_entries; e++)
        MF_TRY(place_outputs(p, l, &p->plan->entries[e], e));
    MF_TRY(mf_memory_plan_place(l->items, l->n, p->plan->n_entries, &p->plan->block_bytes));
    for (int v = 0; v < p->n_values; v++) {
        if (l->of[v] > 0)
            p->values[v].offset = l->items[l->of[v] - 1].offset;
    }
    return MF_OK;
}

static mf_status plan_place(planner *p)
{
    placement l = { .items = mf_calloc(p->n_values, sizeof *l.items),
                    .of = mf_calloc(p->n_values, sizeof *l.of),
                    .taken = mf_calloc(p->n_values, sizeof *l.taken) };
    const mf_status st = l.items && l.of && l.taken ? plan_place_all(p, &l) : MF_NOMEM("a plan");

    mf_free(l.items);
    mf_free(l.of);
    mf_free(l.taken);
    return st;
}

/* ---- drops and reuse ---- */

/* Each value with a reference is dropped after its last use. */
static mf_status add_drops(planner *p)
{
    int *count = mf_calloc(p->plan->n_entries, sizeof *count);

    if (!count)
        return MF_NOMEM("a plan");
    for (int round = 0; round < 2; round++) {
        for (int v = 0; v < p->n_values; v++) {
            const int e = p->info[v].live_to;

            if (e < 0 || p->info[v].leaves ||
                (p->values[v].kind != MF_VALUE_HEAP && p->values[v].kind != MF_VALUE_INPUT))
                continue;
            if (round == 0)
                count[e]++;
            else
                p->plan->entries[e].drops[p->plan->entries[e].n_drops++] = v;
        }
        for (int e = 0; round == 0 && e < p->plan->n_entries; e++) {
            p->plan->entries[e].drops = MF_ARENA_ARRAY(p->arena, int32_t, count[e]);
            if (!p->plan->entries[e].drops) {
                mf_free(count);
                return MF_NOMEM("a plan");
            }
        }
    }
    mf_free(count);
    return MF_OK;
}

static void mark_reuse(planner *p)
{
    for (int e = 0; p->info && e < p->plan->n_entries; e++) {
        mf_plan_entry *entry = &p->plan->entries[e];

        for (int i = 0; i < entry->n_in && i < 64; i++) {
            const int v = entry->in[i];

            if (p->info[v].live_to == e && !p->info[v].leaves &&
                (p->values[v].kind == MF_VALUE_HEAP || p->values[v].kind == MF_VALUE_INPUT))
                entry->reuse |= (uint64_t)1 << i;
        }
    }
}

/* ---- the plan ---- */

static mf_status copy_ends(planner *p)
{
    mf_plan *plan = p->plan;

    plan->n_inputs = p->ends->n_inputs;
    plan->n_outputs = p->ends->n_outputs;
    plan->inputs = MF_ARENA_ARRAY(p->arena, int32_t, plan->n_inputs);
    plan->outputs = MF_ARENA_ARRAY(p->arena, int32_t, plan->n_outputs);
    plan->values = MF_ARENA_ARRAY(p->arena, mf_plan_value, p->n_values);
    if (!plan->inputs || !plan->outputs || !plan->values)
        return MF_NOMEM("a plan");
    for (int i = 0; i < plan->n_inputs; i++)
        plan->inputs[i] = p->value_of[p->ends->inputs[i].node->id][p->ends->inputs[i].port] - 1;
    for (int i = 0; i < plan->n_outputs; i++)
        plan->outputs[i] = p->value_of[p->ends->outputs[i].node->id][p->ends->outputs[i].port] - 1;
    if (p->n_values > 0) /* a NoOp alone has none */
        memcpy(plan->values, p->values, (size_t)p->n_values * sizeof *p->values);
    plan->n_values = (int)p->n_values;
    return MF_OK;
}

static mf_status plan_build(planner *p, bool *const *leaves, const mf_prepared *kernels)
{
    MF_TRY(add_entries(p, leaves, kernels));
    MF_TRY(plan_place(p));
    MF_TRY(add_drops(p));
    mark_reuse(p);
    return copy_ends(p);
}

mf_status mf_plan_build(const mf_compile *c, mf_node *const *nodes, int64_t n, bool *const *leaves,
                        const mf_prepared *kernels, mf_arena *arena, mf_plan **out,
                        mf_plan_ends *ends)
{
    planner p = { .c = c, .nodes = nodes, .n_nodes = n, .arena = arena, .ends = ends };
    mf_status st = MF_OK;

    *ends = (mf_plan_ends){ 0 };
    p.plan = MF_ARENA_NEW(arena, mf_plan);
    p.value_of = mf_calloc(c->graph->n_nodes, sizeof *p.value_of);
    if (!p.plan || !p.value_of)
        st = MF_NOMEM("a plan");
    if (st == MF_OK)
        st = plan_build(&p, leaves, kernels);
    if (st == MF_OK) {
        pthread_mutex_init(&p.plan->lock, NULL);
        *out = p.plan;
    }
    mf_free(p.value_of);
    mf_free(p.values);
    mf_free(p.info);
    return st;
}
