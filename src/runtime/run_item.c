/* SPDX-License-Identifier: Apache-2.0 */
/* run_item.c - runs one item: its inputs come from an iteration's slots, its outputs go to the
 * runner. No lock is held here. */
#include "observe/status_page.h"
#include "runtime/run_state.h"

static mf_status bind_one(const mf_item *item, mf_iteration *it, int i, const mf_tensor **in)
{
    *in = item->in[i].constant;
    if (*in)
        return MF_OK;
    *in = &it->slots[item->in[i].slot];
    return item->in[i].deref ? mf_reference_read(&it->slots[item->in[i].slot]) : MF_OK;
}

mf_status mf_item_bind(const mf_item *item, mf_iteration *it, const mf_tensor **in)
{
    for (int i = 0; i < item->n_in; i++)
        MF_TRY(bind_one(item, it, i, &in[i]));
    return MF_OK;
}

bool mf_item_is_dead(const mf_item *item, const mf_iteration *it)
{
    const mf_cell *cell = &it->cells[item->local];

    if (item->kind == MF_ITEM_MERGE)
        return !cell->chosen;
    return cell->dead > 0 && item->kind != MF_ITEM_TRIGGER;
}

/* Constants are shared: their storage has other references, so "reuse all" is safe. */
mf_kernel mf_item_kernel(const mf_item *item, const mf_iteration *it, mf_step *step,
                         const mf_tensor **in, mf_tensor **out)
{
    return (mf_kernel){ .node = item->node,
                        .dead = mf_item_is_dead(item, it),
                        .frame = it->frame->id,
                        .iteration = it->number,
                        .def = item->kernel.def,
                        .state = item->kernel.state,
                        .step = step,
                        .in = in,
                        .out = out,
                        .n_in = item->n_in,
                        .n_out = item->n_out,
                        .reuse = UINT64_MAX };
}

static mf_status run_op(mf_runner *r, const mf_item *item, mf_iteration *it)
{
    mf_run_state *run = r->run;
    const int64_t start = run->args->trace ? mf_trace_now() : 0;
    mf_kernel k = mf_item_kernel(item, it, &run->step, r->in, r->out_ptrs);
    mf_status st;

    if (!k.dead)
        MF_TRY(mf_item_bind(item, it, r->in));
    mf_status_page_runs(item->node->name);
    st = k.def->run(&k);
    if (run->args->trace)
        mf_trace_add(run->args->trace, item->node->name, item->node->op_name, start);
    return st;
}

static mf_status run_region(mf_runner *r, const mf_item *item, mf_iteration *it,
                            const mf_node **failed)
{
    mf_run_state *run = r->run;
    mf_plan_instance *plan;
    mf_status st;

    for (int i = 0; i < item->n_in; i++)
        r->in_moved[i] = &it->slots[item->in[i].slot];
    MF_TRY(mf_plan_take(item->plan, &plan));
    st = mf_plan_run(plan, &run->step, r->in_moved, r->out, run->args->trace, failed);
    mf_plan_give(item->plan, plan);
    return st;
}

static mf_status run_switch(const mf_runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *value, *which;

    MF_TRY(bind_one(item, it, 0, &value));
    MF_TRY(bind_one(item, it, 1, &which));
    if (which->dtype != MF_DTYPE_BOOL || which->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The second input must be a scalar");
    mf_tensor_set(&r->out[*(const uint8_t *)which->data ? 1 : 0], value);
    return MF_OK;
}

static mf_status run_merge(const mf_runner *r, const mf_item *item, mf_iteration *it)
{
    const int chosen = it->cells[item->local].chosen - 1;

    if (item->in[chosen].deref)
        MF_TRY(mf_reference_read(&it->slots[item->in[chosen].slot]));
    mf_tensor_move(&r->out[0], &it->slots[item->in[chosen].slot]);
    MF_TRY(mf_tensor_alloc(&r->out[1], MF_DTYPE_I32, &MF_SCALAR));
    *(int32_t *)r->out[1].data = chosen;
    return MF_OK;
}

static mf_status run_fetch(const mf_runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *in;

    MF_TRY(bind_one(item, it, 0, &in));
    mf_tensor_set(&r->run->args->results[item->index], in);
    return MF_OK;
}

static mf_status run_item_pass_on(const mf_runner *r, const mf_item *item, mf_iteration *it)
{
    const mf_tensor *in;

    MF_TRY(bind_one(item, it, 0, &in));
    mf_tensor_set(&r->out[0], in);
    return MF_OK;
}

/* Runs the kernel or the plan. */
static mf_status run_item_compute(mf_runner *r, const mf_item *item, mf_iteration *it,
                                  const mf_node **failed)
{
    mf_status st;

    mf_status_page_computing(+1);
    st = item->kind == MF_ITEM_OP ? run_op(r, item, it) : run_region(r, item, it, failed);
    mf_status_page_computing(-1);
    return st;
}

mf_status mf_item_run(mf_runner *r, const mf_item *item, mf_iteration *it, const mf_node **failed)
{
    *failed = item->node;
    switch (item->kind) {
    case MF_ITEM_OP:
    case MF_ITEM_REGION:
        return run_item_compute(r, item, it, failed);
    case MF_ITEM_FEED:
        mf_tensor_set(&r->out[0], r->run->args->feeds[item->index]);
        return MF_OK;
    case MF_ITEM_FETCH:
        return run_fetch(r, item, it);
    case MF_ITEM_SWITCH:
        return run_switch(r, item, it);
    case MF_ITEM_MERGE:
        return run_merge(r, item, it);
    case MF_ITEM_ENTER:
    case MF_ITEM_EXIT:
    case MF_ITEM_NEXT:
        return run_item_pass_on(r, item, it);
    case MF_ITEM_TRIGGER:
    case MF_ITEM_ASYNC:
        break;
    }
    return MF_OK;
}
