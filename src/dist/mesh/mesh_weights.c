/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_weights.c - variables of a training on a mesh: the trainer's own, and the slices that
 * devices hold. */
#include "base/mem.h"
#include "dist/mesh/mesh_private.h"

#include <string.h>

static mf_node *find_handle(const mf_graph *g, const char *name)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];

        if (strcmp(n->op_name, "VarHandleOp") == 0 &&
            strcmp(mf_node_string(n, "shared_name"), name) == 0)
            return n;
    }
    return NULL;
}

static mf_status mesh_weights_add_variable(mf_job_mesh *m, int64_t i)
{
    const mf_train_var *v = &m->trainer->trained[i];
    const char *type = mf_dtype_name(v->variable->dtype);
    mf_graph *g = m->graph;
    const mf_output handle = { find_handle(g, v->name), 0 };
    mf_output value;

    m->handed[i] = mf_variable_writes(v->variable) - 1; /* nothing was sent yet */
    if (!handle.node)
        return MF_OK;
    m->value[i] = mf_arena_printf(g->arena, "_mesh_value/%s", v->name);
    m->set[i] = mf_arena_printf(g->arena, "_mesh_set/%s", v->name);
    m->get[i] = mf_arena_printf(g->arena, "_mesh_get/%s", v->name);
    if (!m->value[i] || !m->set[i] || !m->get[i])
        return MF_NOMEM("variables");
    value = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='%s'", type, m->value[i]);
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(handle, value), "name='%s'", m->set[i]);
    (void)mf_applyf(g, "ReadVariableOp", MF_IN(handle), "dtype=%s name='%s'", type, m->get[i]);
    return mf_graph_status(g);
}

mf_status mf_job_mesh_make_graph(mf_job_mesh *m)
{
    const mf_trainer *t = m->trainer;

    MF_TRY(mf_graph_copy(t->model->graph, NULL, &m->graph));
    m->handed = MF_ARENA_ARRAY(m->graph->arena, uint64_t, t->n_trained);
    m->value = MF_ARENA_ARRAY(m->graph->arena, const char *, t->n_trained);
    m->set = MF_ARENA_ARRAY(m->graph->arena, const char *, t->n_trained);
    m->get = MF_ARENA_ARRAY(m->graph->arena, const char *, t->n_trained);
    if (!m->handed || !m->value || !m->set || !m->get)
        return MF_NOMEM("variables");
    for (int64_t i = 0; i < t->n_trained; i++)
        MF_TRY(mesh_weights_add_variable(m, i));
    return MF_OK;
}

/* Every worker cuts its slices out of its own copy: nothing is sent. */
static mf_status hand_over_one(mf_job_mesh *m, int64_t i)
{
    mf_variable *v = m->trainer->trained[i].variable;
    const uint64_t writes = mf_variable_writes(v);
    mf_tensor value = { 0 };
    const mf_tensor *feed = &value;
    mf_status st;

    if (writes == m->handed[i] || !m->set[i] || !mf_variable_is_initialized(v))
        return MF_OK; /* its copy was freed */
    MF_TRY(mf_variable_read(v, &value));
    st = mf_session_run(m->session, NULL, &m->value[i], &feed, 1, NULL, 0, &m->set[i], 1, NULL);
    mf_tensor_clear(&value);
    if (st == MF_OK)
        m->handed[i] = writes;
    return st;
}

mf_status mf_job_mesh_send_written(mf_job_mesh *m)
{
    for (int64_t i = 0; i < m->trainer->n_trained; i++)
        MF_TRY(hand_over_one(m, i));
    return MF_OK;
}

/* The complete value of a variable of the devices; NULL: no step uses it. */
static mf_status mesh_weights_bring(mf_job_mesh *m, int64_t i, mf_tensor **out)
{
    const mf_run_options o = mf_job_mesh_timeout(m);

    *out = NULL;
    if (!m->get[i])
        return MF_OK;
    return mf_session_run(m->session, &o, NULL, NULL, 0, &m->get[i], 1, NULL, 0, out);
}

static mf_status mesh_weights_take(mf_job_mesh *m, int64_t i, const mf_tensor *value)
{
    mf_variable *v = m->trainer->trained[i].variable;

    MF_TRY(mf_variable_assign(v, value, true));
    m->handed[i] = mf_variable_writes(v);
    return MF_OK;
}

static mf_status bring_all(mf_job_mesh *m)
{
    const int64_t n = m->trainer->n_trained;
    mf_tensor **values = mf_calloc(n, sizeof *values);
    mf_status st = values ? MF_OK : MF_NOMEM("variables");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = mesh_weights_bring(m, i, &values[i]);
    for (int64_t i = 0; st == MF_OK && i < n; i++) { /* all of them, or none: no mixture of steps */
        if (values[i])
            st = mesh_weights_take(m, i, values[i]);
    }
    for (int64_t i = 0; values && i < n; i++)
        mf_tensor_free(values[i]);
    mf_free(values);
    return st;
}

/* Values that were written here since then take precedence. */
mf_status mf_job_mesh_gather(mf_job_mesh *m)
{
    MF_TRY(mf_job_mesh_send_written(m));
    if (m->kept.steps != m->trainer->step || !mf_trainer_has_variables(m->trainer))
        MF_TRY(bring_all(m));
    m->kept = mf_trainer_progress(m->trainer);
    return MF_OK;
}

mf_status mf_job_mesh_take_counts(mf_job_mesh *m)
{
    for (int64_t i = 0; i < m->trainer->n_trained; i++) {
        mf_tensor *value = NULL;
        mf_status st;

        if (!mf_guard_is_count(m->trainer->trained[i].name) &&
            strcmp(m->trainer->trained[i].name, "global_step") != 0)
            continue;
        MF_TRY(mesh_weights_bring(m, i, &value));
        st = value ? mesh_weights_take(m, i, value) : MF_OK;
        mf_tensor_free(value);
        MF_TRY(st);
    }
    return MF_OK;
}

/* ---- without complete variables ---- */

void mf_job_mesh_free_copies(mf_job_mesh *m)
{
    m->kept.steps = -1;
    for (int64_t i = 0; i < m->trainer->n_trained; i++) {
        mf_variable *v = m->trainer->trained[i].variable;

        if (!m->set[i] || v->declared.rank == 0)
            continue;
        mf_variable_reset(v);
        m->handed[i] = mf_variable_writes(v);
    }
}

int64_t mf_job_mesh_whole_bytes(const mf_job_mesh *m)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < m->trainer->n_trained; i++) {
        mf_variable *v = m->trainer->trained[i].variable;

        if (mf_variable_is_initialized(v))
            bytes +=
                mf_shape_span(&v->declared, 0, v->declared.rank) * (int64_t)mf_dtype_cell(v->dtype);
    }
    return bytes;
}

mf_status mf_job_mesh_each_slice(mf_dist *dist, const mf_trainer *t, int64_t i,
                                 mf_status (*fn)(void *ctx, mf_variable *slice), void *ctx)
{
    const mf_job_mesh *m = mf_job_mesh_of(dist);
    mf_status st = MF_OK;

    for (int k = 0; st == MF_OK && m->session && k < m->setup.n; k++) {
        mf_variable *v = mf_mesh_session_slice(m->session, t->trained[i].name, k);

        st = v ? fn(ctx, v) : MF_OK;
        if (v)
            mf_object_unref(&v->object);
    }
    return st;
}
