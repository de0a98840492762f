/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_counters.c - counters, memory and step costs of the devices of a mesh. */
#include "base/host_state.h"
#include "spmd/session/mesh_session_private.h"

#include <string.h>

/* A new reference; NULL: no such variable. */
static mf_variable *mesh_session_counters_find_variable(const mf_mesh_device *p, const char *name)
{
    mf_object *o = mf_resources_find(p->resources, "localhost", name);

    if (o && o->type == &mf_variable_type && mf_variable_is_initialized((mf_variable *)o))
        return (mf_variable *)o;
    mf_object_unref(o);
    return NULL;
}

mf_variable *mf_mesh_session_slice(mf_session *base, const char *variable, int k)
{
    return mesh_session_counters_find_variable(&mf_mesh_session_of(base)->devices[k], variable);
}

static int64_t variable_bytes(const mf_mesh_session *s, const mf_mesh_device *p)
{
    int64_t bytes = 0, it = 0;
    mf_map_entry *e;

    while ((e = mf_map_next(&s->variables.layouts, &it)) != NULL) {
        mf_variable *v = mesh_session_counters_find_variable(p, e->key);
        mf_tensor value = { 0 };

        if (!v)
            continue;
        if (mf_variable_read(v, &value) == MF_OK)
            bytes += value.count * (int64_t)mf_dtype_cell(value.dtype);
        mf_tensor_clear(&value);
        mf_object_unref(&v->object);
    }
    return bytes;
}

void mf_mesh_session_forget_runs(mf_session *base)
{
    mf_mesh_session *s = mf_mesh_session_of(base);

    for (int i = 0; i < s->setup.n; i++)
        mf_mem_account_forget_runs(mf_resources_account(s->devices[i].resources));
}

mf_status mf_mesh_session_counts(mf_session *base, int i, mf_mesh_counts *out)
{
    MF_ENTRY;
    MF_NEED(base, out);

    mf_mesh_session *s = mf_mesh_session_of(base);
    mf_mem_account_run most;
    const mf_mesh_run *step;
    mf_mesh_device *p;

    if (base->kind != &mf_mesh_session_kind || i < s->setup.first ||
        i >= s->setup.first + s->setup.n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no device %d in this process", i);
    p = &s->devices[i - s->setup.first];
    most = mf_mem_account_largest(mf_resources_account(p->resources));
    *out = (mf_mesh_counts){ .variable_bytes = variable_bytes(s, p),
                             .sent_bytes = atomic_load(&p->link.sent),
                             .received_bytes = atomic_load(&p->link.received),
                             .planned_bytes = p->planned,
                             .collectives = atomic_load(&p->link.collectives),
                             .step_bytes = most.bytes,
                             .planned_step_bytes = most.planned,
                             .mesh = mf_meshes_of(&s->setup.meshes, i) };
    step = mf_mesh_largest_run(s);
    if (step) {
        const mf_mesh_meter *m = &step->meters[i - s->setup.first];

        out->run_ns = step->ns;
        out->busy_ns = m->busy_ns;
        out->n_intervals = m->n_intervals;
        memcpy(out->intervals, m->intervals, sizeof out->intervals);
    }
    return MF_OK;
}

mf_status mf_mesh_session_costs(mf_session *base, mf_mesh_cost_fn *each, void *ctx)
{
    MF_ENTRY;
    MF_NEED(base);
    MF_NEED_FUNCTION(each);

    mf_mesh_session *s = mf_mesh_session_of(base);
    const mf_mesh_run *most;

    if (base->kind != &mf_mesh_session_kind)
        return MF_FAIL(MF_INVALID_ARGUMENT, "this session does not run on a mesh");
    pthread_mutex_lock(&s->lock);
    most = mf_mesh_largest_run(s);
    for (int64_t i = 0; most && i < most->costs.n; i++)
        each(ctx, most->costs.list[i]);
    pthread_mutex_unlock(&s->lock);
    return MF_OK;
}

bool mf_mesh_session_holds(mf_session *base, const char *variable, int device, mf_box *box,
                           int *rank)
{
    mf_mesh_session *s = mf_mesh_session_of(base);
    const mf_mesh_variable *v;
    bool holds;

    pthread_mutex_lock(&s->lock);
    v = mf_map_find(&s->variables.layouts, variable);
    holds = v && mf_meshes_of(&s->setup.meshes, device) == v->mesh;
    if (holds) {
        *box = mf_layout_box(&s->setup.meshes.at[v->mesh], &v->layout, &v->shape, device);
        *rank = v->shape.rank;
    }
    pthread_mutex_unlock(&s->lock);
    return holds;
}
