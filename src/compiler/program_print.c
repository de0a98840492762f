/* SPDX-License-Identifier: Apache-2.0 */
/* program_print.c - prints a program: its items, each with the items it sends tokens to (":port->"
 * and "^->" for control), and for a region its plan: the calls in order, v for values, @ for
 * offsets in the region's block of memory. */
#include "compiler/program.h"

#include <inttypes.h>

static const char *const kind_names[] = {
    [MF_ITEM_OP] = "op",       [MF_ITEM_ASYNC] = "async",     [MF_ITEM_REGION] = "region",
    [MF_ITEM_FEED] = "feed",   [MF_ITEM_FETCH] = "fetch",     [MF_ITEM_SWITCH] = "switch",
    [MF_ITEM_MERGE] = "merge", [MF_ITEM_ENTER] = "enter",     [MF_ITEM_EXIT] = "exit",
    [MF_ITEM_NEXT] = "next",   [MF_ITEM_TRIGGER] = "trigger",
};

static void print_tensor_type(mf_dtype dtype, const mf_shape *shape, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_printf(out, "%s%s", mf_dtype_name(mf_type_base(dtype)), mf_shape_text(shape, text));
}

static void program_print_value(const mf_plan *plan, int32_t at, mf_buf *out)
{
    const mf_plan_value *v = &plan->values[at];

    switch (v->kind) {
    case MF_VALUE_CONST:
        mf_buf_str(out, "const ");
        print_tensor_type(v->constant->dtype, &v->constant->shape, out);
        break;
    case MF_VALUE_INPUT:
        mf_buf_printf(out, "v%d", (int)at);
        break;
    case MF_VALUE_ARENA:
        mf_buf_printf(out, "v%d ", (int)at);
        print_tensor_type(v->dtype, &v->shape, out);
        mf_buf_printf(out, " @%" PRId64, v->offset);
        break;
    case MF_VALUE_HEAP:
        mf_buf_printf(out, "v%d %s heap", (int)at, mf_dtype_name(mf_type_base(v->dtype)));
        break;
    }
}

static void print_values(const mf_plan *plan, const int32_t *at, int n, mf_buf *out)
{
    mf_buf_str(out, "(");
    for (int i = 0; i < n; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        program_print_value(plan, at[i], out);
    }
    mf_buf_str(out, ")");
}

static void print_entry(const mf_plan *plan, const mf_plan_entry *e, mf_buf *out)
{
    mf_buf_printf(out, "        %s = %s", e->node->name, e->node->op_name);
    print_values(plan, e->in, e->n_in, out);
    mf_buf_str(out, " -> ");
    print_values(plan, e->out, e->n_out, out);
    for (int i = 0; i < e->n_reads; i++)
        mf_buf_printf(out, " reads v%d", (int)e->reads[i].handle);
    for (int i = 0; i < e->n_drops; i++)
        mf_buf_printf(out, "%sv%d", i > 0 ? " " : " drops ", (int)e->drops[i]);
    mf_buf_str(out, "\n");
}

/* Bytes of arena values without sharing. */
static int64_t unshared_bytes(const mf_plan *plan)
{
    int64_t sum = 0, count;

    for (int i = 0; i < plan->n_values; i++) {
        const mf_plan_value *v = &plan->values[i];

        if (v->kind == MF_VALUE_ARENA && mf_shape_count(&v->shape, &count) == MF_OK)
            sum += count * (int64_t)mf_dtype_cell(v->dtype);
    }
    return sum;
}

static void print_plan(const mf_plan *plan, mf_buf *out)
{
    mf_buf_str(out, "      in ");
    print_values(plan, plan->inputs, plan->n_inputs, out);
    mf_buf_str(out, " out ");
    print_values(plan, plan->outputs, plan->n_outputs, out);
    mf_buf_printf(out, "; block of %" PRId64 " bytes for %" PRId64 "\n", plan->block_bytes,
                  unshared_bytes(plan));
    for (int i = 0; i < plan->n_entries; i++)
        print_entry(plan, &plan->entries[i], out);
}

static void print_edges(const mf_item *item, mf_buf *out)
{
    int32_t at = 0;

    for (int p = 0; p <= item->n_out; p++) {
        if (at == item->edges_end[p])
            continue;
        if (p < item->n_out)
            mf_buf_printf(out, " :%d->", p);
        else
            mf_buf_str(out, " ^->");
        for (bool first = true; at < item->edges_end[p]; at++, first = false)
            mf_buf_printf(out, "%s%d", first ? "" : ",", (int)item->edges[at].item);
    }
}

static void print_item(const mf_program *p, int i, mf_buf *out)
{
    const mf_item *item = &p->items[i];

    mf_buf_printf(out, "  %d %s", i, kind_names[item->kind]);
    if (item->kind == MF_ITEM_FEED || item->kind == MF_ITEM_FETCH)
        mf_buf_printf(out, " %d", item->index);
    if (item->kind == MF_ITEM_REGION)
        mf_buf_printf(out, " of %d", item->plan->n_entries);
    else
        mf_buf_printf(out, " %s = %s", item->node->name, item->node->op_name);
    if (p->n_frames > 1)
        mf_buf_printf(out, " in frame %d", item->frame);
    if (item->child >= 0)
        mf_buf_printf(out, " of frame %d", item->child);
    if (item->pending > 0)
        mf_buf_printf(out, " waits for %d", item->pending);
    print_edges(item, out);
    mf_buf_str(out, "\n");
    if (item->plan)
        print_plan(item->plan, out);
}

void mf_program_print(const mf_program *program, mf_buf *out)
{
    mf_buf_printf(out, "program: %d items, %d regions with %" PRId64 " ops, %d feeds, %d fetches\n",
                  program->n_items, program->n_regions, program->n_planned, program->n_feeds,
                  program->n_fetches);
    for (int i = 1; i < program->n_frames; i++)
        mf_buf_printf(out, "  frame %d '%s' in frame %d, %d iterations at once\n", i,
                      program->frames[i].name, program->frames[i].parent,
                      program->frames[i].parallel_iterations);
    for (int i = 0; i < program->n_items; i++)
        print_item(program, i, out);
}
