/* SPDX-License-Identifier: Apache-2.0 */
/* plan_run.c - runs a plan: a flat array of kernel calls whose inputs and outputs are bound once,
 * when an instance is created. In steady state a step allocates nothing here. */
#include "base/clock.h"
#include "compiler/program.h"
#include "observe/status_page.h"
#include "observe/trace.h"

#include <string.h>

struct mf_plan_instance {
    mf_plan_instance *next; /* idle list; guarded by the plan's lock */
    mf_plan *plan;
    mf_tensor *values;
    mf_kernel *kernels; /* one per entry */
    mf_arena *arena;
    mf_buffer *block; /* while it runs */
    const char *bound; /* previous address of the block, to which values point */
    mf_step step; /* kernels point here; set for each run */
};

static mf_status bind_values(mf_plan_instance *x)
{
    const mf_plan *plan = x->plan;

    for (int i = 0; i < plan->n_values; i++) {
        const mf_plan_value *v = &plan->values[i];
        mf_tensor *t = &x->values[i];

        if (v->kind == MF_VALUE_CONST) {
            mf_tensor_set(t, v->constant);
        } else if (v->kind == MF_VALUE_ARENA) {
            *t = (mf_tensor){ .dtype = v->dtype, .shape = v->shape };
            MF_TRY(mf_shape_count(&v->shape, &t->count));
        }
    }
    return MF_OK;
}

/* The block is released between runs; usually the same one is allocated again. */
static mf_status take_block(mf_plan_instance *x)
{
    const mf_plan *plan = x->plan;

    if (plan->block_bytes == 0)
        return MF_OK;
    MF_TRY(mf_buffer_new(MF_DTYPE_U8, plan->block_bytes, &x->block));
    if (x->block->data == x->bound)
        return MF_OK;
    x->bound = x->block->data;
    for (int i = 0; i < plan->n_values; i++) {
        if (plan->values[i].kind == MF_VALUE_ARENA)
            x->values[i].data = (char *)x->block->data + plan->values[i].offset;
    }
    return MF_OK;
}

static void give_block(mf_plan_instance *x)
{
    mf_buffer_unref(x->block);
    x->block = NULL;
}

static mf_status bind_kernels(mf_plan_instance *x)
{
    const mf_plan *plan = x->plan;

    for (int e = 0; e < plan->n_entries; e++) {
        const mf_plan_entry *entry = &plan->entries[e];
        const mf_tensor **in = MF_ARENA_ARRAY(x->arena, const mf_tensor *, entry->n_in);
        mf_tensor **out = MF_ARENA_ARRAY(x->arena, mf_tensor *, entry->n_out);

        if (!in || !out)
            return MF_NOMEM("a plan");
        for (int i = 0; i < entry->n_in; i++)
            in[i] = &x->values[entry->in[i]];
        for (int i = 0; i < entry->n_out; i++)
            out[i] = &x->values[entry->out[i]];
        x->kernels[e] = (mf_kernel){ .node = entry->node,
                                     .def = entry->kernel.def,
                                     .state = entry->kernel.state,
                                     .step = &x->step,
                                     .in = in,
                                     .out = out,
                                     .n_in = entry->n_in,
                                     .n_out = entry->n_out,
                                     .reuse = entry->reuse };
    }
    return MF_OK;
}

static void instance_free(mf_plan_instance *x)
{
    if (!x)
        return;
    for (int i = 0; x->values && i < x->plan->n_values; i++)
        mf_buffer_unref(x->values[i].buffer);
    mf_arena_free(x->arena);
    mf_free(x);
}

static mf_status instance_new(mf_plan *plan, mf_plan_instance **out)
{
    mf_plan_instance *x = mf_calloc(1, sizeof *x);
    mf_status st = MF_OK;

    if (!x)
        return MF_NOMEM("a plan");
    x->plan = plan;
    x->arena = mf_arena_new();
    if (x->arena) {
        x->values = MF_ARENA_ARRAY(x->arena, mf_tensor, plan->n_values);
        x->kernels = MF_ARENA_ARRAY(x->arena, mf_kernel, plan->n_entries);
    }
    if (!x->values || !x->kernels)
        st = MF_NOMEM("a plan");
    if (st == MF_OK)
        st = bind_values(x);
    if (st == MF_OK)
        st = bind_kernels(x);
    if (st != MF_OK) {
        instance_free(x);
        return st;
    }
    *out = x;
    return MF_OK;
}

mf_status mf_plan_take(mf_plan *plan, mf_plan_instance **out)
{
    pthread_mutex_lock(&plan->lock);
    *out = plan->idle;
    if (*out)
        plan->idle = (*out)->next;
    pthread_mutex_unlock(&plan->lock);
    return *out ? MF_OK : instance_new(plan, out);
}

void mf_plan_give(mf_plan *plan, mf_plan_instance *instance)
{
    pthread_mutex_lock(&plan->lock);
    instance->next = plan->idle;
    plan->idle = instance;
    pthread_mutex_unlock(&plan->lock);
}

void mf_plan_free_instances(mf_plan *plan)
{
    while (plan->idle) {
        mf_plan_instance *next = plan->idle->next;

        instance_free(plan->idle);
        plan->idle = next;
    }
    pthread_mutex_destroy(&plan->lock);
}

/* Variables behind references are read when the op runs, not before. */
static mf_status read_variables(mf_plan_instance *x, const mf_plan_entry *entry)
{
    for (int i = 0; i < entry->n_reads; i++) {
        const mf_tensor *handle = &x->values[entry->reads[i].handle];
        mf_object *o = *(mf_object **)handle->data;

        if (!o || o->type != &mf_variable_type)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a reference to a %s is used as a tensor",
                           o ? o->type->name : "nothing");
        MF_TRY(mf_variable_read((mf_variable *)o, &x->values[entry->reads[i].value]));
    }
    return MF_OK;
}

static mf_status plan_run_entry(mf_plan_instance *x, int e, mf_trace *trace)
{
    const mf_plan_entry *entry = &x->plan->entries[e];
    const int64_t start = trace ? mf_trace_now() : 0;
    mf_status st = entry->n_reads > 0 ? read_variables(x, entry) : MF_OK;

    mf_status_page_runs(entry->node->name);
    if (st == MF_OK)
        st = entry->kernel.def->run(&x->kernels[e]);
    if (trace)
        mf_trace_add(trace, entry->node->name, entry->node->op_name, start);
    for (int i = 0; i < entry->n_drops; i++)
        mf_tensor_clear(&x->values[entry->drops[i]]);
    return st;
}

/* After a failure: release all remaining references. */
static void drop_all(mf_plan_instance *x)
{
    for (int i = 0; i < x->plan->n_values; i++) {
        const mf_value_kind kind = x->plan->values[i].kind;

        if (kind == MF_VALUE_HEAP || kind == MF_VALUE_INPUT)
            mf_tensor_clear(&x->values[i]);
    }
}

mf_status mf_plan_run(mf_plan_instance *instance, const mf_step *step, mf_tensor *const *in,
                      mf_tensor *out, mf_trace *trace, const mf_node **failed)
{
    mf_plan_instance *x = instance;
    const mf_plan *plan = x->plan;
    mf_status st = MF_OK;

    MF_TRY(take_block(x));
    x->step = *step;
    for (int i = 0; i < plan->n_inputs; i++)
        mf_tensor_move(&x->values[plan->inputs[i]], in[i]);
    for (int e = 0; e < plan->n_entries && st == MF_OK; e++) {
        if (mf_cancel_is_raised(step->cancel))
            st = MF_FAIL(MF_CANCELLED, "the step was cancelled");
        else if (step->deadline_ns > 0 && mf_clock_ns() > step->deadline_ns)
            st = MF_FAIL(MF_DEADLINE_EXCEEDED, "the step exceeded its deadline");
        else
            st = plan_run_entry(x, e, trace);
        if (st != MF_OK)
            *failed = plan->entries[e].node;
    }
    give_block(x);
    if (st != MF_OK) {
        drop_all(x);
        return st;
    }
    for (int i = 0; i < plan->n_outputs; i++)
        mf_tensor_move(&out[i], &x->values[plan->outputs[i]]);
    return MF_OK;
}
