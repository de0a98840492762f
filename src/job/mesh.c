/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - a training whose steps run on a mesh of processors (strategy mesh): each holds its
 * slices of variables and computes its pieces. Processors are threads of this process, or of all
 * workers, which have an equal part of them each.
 *
 * The trainer's own variables are where weights come from and go to: what was written here is
 * handed to the processors before the next step, and all is brought together when somebody is going
 * to look. */
#include "base/log.h"
#include "job/strategies.h"
#include "mesh/wire_net.h"
#include "train/loop.h"

#include <stddef.h>
#include <string.h>

typedef struct mesh {
    mf_strategy strategy; /* first */
    mf_team team;
    mf_mesh_setup setup;
    mf_net *net; /* NULL: there is nobody else */
    mf_mesh_wire *wire;
    mf_trainer *trainer; /* NULL: none has joined */
    bool joined; /* one has been here */
    bool wants_stop, stop;
    mf_graph *graph; /* the model's, and what writes and reads each variable */
    mf_session *session;
    uint64_t *handed; /* by variable: mf_variable_writes() of what processors have */
    const char **value, **set, **get; /* by variable: names of nodes; NULL: no step has it */
    mf_mesh_counts *counts; /* by processor; NULL: nobody has asked */
} mesh;

static mesh *of_team(mf_team *team)
{
    return (mesh *)(void *)((char *)team - offsetof(mesh, team));
}

/* Processors are dealt out evenly, neighbours to one worker: the first of this rank. */
static int first_of(const mesh *m, int rank)
{
    return m->setup.mesh.n * rank / m->team.size;
}

/* ---- variables ---- */

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

static mf_status add_variable(mesh *m, int64_t i)
{
    const mf_trained *v = &m->trainer->trained[i];
    const char *type = mf_dtype_name(v->variable->dtype);
    mf_graph *g = m->graph;
    const mf_output handle = { find_handle(g, v->name), 0 };
    mf_output value;

    m->handed[i] = mf_variable_writes(v->variable) - 1; /* nothing was */
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

static mf_status make_graph(mesh *m)
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
        MF_TRY(add_variable(m, i));
    return MF_OK;
}

/* Everybody cuts its slices out of its own copy: nothing travels. */
static mf_status hand_over(mesh *m, int64_t i)
{
    mf_variable *v = m->trainer->trained[i].variable;
    const uint64_t writes = mf_variable_writes(v);
    mf_tensor value = { 0 };
    const mf_tensor *feed = &value;
    mf_status st;

    if (writes == m->handed[i] || !m->set[i])
        return MF_OK;
    MF_TRY(mf_variable_read(v, &value));
    st = mf_session_run(m->session, NULL, &m->value[i], &feed, 1, NULL, 0, &m->set[i], 1, NULL);
    mf_tensor_clear(&value);
    if (st == MF_OK)
        m->handed[i] = writes;
    return st;
}

static mf_run_options patience(const mesh *m)
{
    return (mf_run_options){ .timeout_ms = m->team.timeout_ns / 1000000 };
}

static mf_status bring_together(mesh *m, int64_t i)
{
    mf_variable *v = m->trainer->trained[i].variable;
    const mf_run_options o = patience(m);
    mf_tensor *value = NULL;
    mf_status st;

    if (!m->get[i])
        return MF_OK;
    st = mf_session_run(m->session, &o, NULL, NULL, 0, &m->get[i], 1, NULL, 0, &value);
    if (st == MF_OK)
        st = mf_variable_assign(v, value, true);
    if (st == MF_OK)
        m->handed[i] = mf_variable_writes(v);
    mf_tensor_free(value);
    return st;
}

/* ---- the team ---- */

static mf_status mesh_join(mf_team *team, mf_trainer *t)
{
    mesh *m = of_team(team);

    if (m->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    m->trainer = t;
    m->joined = true;
    team->shards = team->n_shards = t->options.shards; /* everybody has the whole batch */
    MF_TRY(make_graph(m));
    m->setup.pool = t->pool;
    m->setup.session.disable = t->options.disable;
    return mf_mesh_session_make(m->graph, &m->setup, &m->session);
}

static void mesh_leave(mf_team *team, mf_trainer *t)
{
    mesh *m = of_team(team);

    if (m->trainer != t)
        return; /* one that came while another was there */
    mf_session_free(m->session);
    mf_graph_free(m->graph);
    m->session = NULL;
    m->graph = NULL;
    m->trainer = NULL;
}

static mf_status mesh_begin_step(mf_team *team, int64_t step, int64_t samples, bool wants_stop)
{
    mesh *m = of_team(team);

    (void)step;
    (void)samples;
    m->wants_stop = wants_stop;
    for (int64_t i = 0; i < m->trainer->n_trained; i++)
        MF_TRY(hand_over(m, i));
    return MF_OK;
}

/* Steps run on the mesh, all else (evaluations) here. */
static mf_status mesh_run(mf_team *team, mf_trainer *t, const mf_run_options *options,
                          const mf_call *call)
{
    return mf_trainer_call_at(t, of_team(team)->session, patience(of_team(team)).timeout_ms,
                              options, call);
}

/* One that wants to stop is enough. */
static mf_status vote(mesh *m, int64_t step, bool *stop)
{
    const mf_collective c = mf_team_call(&m->team, step, "the votes");
    const char mine = m->wants_stop;
    int64_t *sizes = mf_calloc(m->team.size, sizeof *sizes);
    char *all = mf_calloc(m->team.size, 1);
    mf_status st = sizes && all ? MF_OK : MF_NOMEM("votes");

    for (int i = 0; st == MF_OK && i < m->team.size; i++)
        sizes[i] = 1;
    if (st == MF_OK)
        st = mf_all_gather(m->team.group,
                           &(mf_gather){ .call = c, .data = &mine, .sizes = sizes, .out = all });
    for (int i = 0; st == MF_OK && i < m->team.size; i++)
        *stop = *stop || all[i];
    mf_free(sizes);
    mf_free(all);
    return st;
}

static mf_status mesh_end_step(mf_team *team, int64_t step, bool *stop)
{
    mesh *m = of_team(team);

    *stop = m->wants_stop;
    return m->net ? vote(m, step, stop) : MF_OK;
}

/* What everybody's processors have done: neighbours are one worker's, in the order of the ranks. */
static mf_status count(mesh *m)
{
    const int64_t each = (int64_t)sizeof *m->counts;
    const mf_collective c = mf_team_call(&m->team, 0, "the counters");
    mf_mesh_counts *mine = mf_calloc(m->setup.n, sizeof *mine);
    int64_t *sizes = mf_calloc(m->team.size, sizeof *sizes);
    mf_status st = MF_OK;

    if (!m->counts)
        m->counts = mf_calloc(m->setup.mesh.n, sizeof *m->counts);
    if (!mine || !sizes || !m->counts)
        st = MF_NOMEM("counters");
    for (int i = 0; st == MF_OK && i < m->setup.n; i++)
        st = mf_mesh_session_counts(m->session, m->setup.first + i, &mine[i]);
    for (int i = 0; st == MF_OK && i < m->team.size; i++)
        sizes[i] = each * (first_of(m, i + 1) - first_of(m, i));
    if (st == MF_OK && m->net)
        st = mf_all_gather(
            m->team.group,
            &(mf_gather){ .call = c, .data = mine, .sizes = sizes, .out = m->counts });
    else if (st == MF_OK)
        memcpy(m->counts, mine, (size_t)(each * m->setup.n));
    mf_free(mine);
    mf_free(sizes);
    return st;
}

static mf_status mesh_settle(mf_team *team, bool *stop)
{
    mesh *m = of_team(team);

    (void)stop;
    MF_TRY(count(m));
    for (int64_t i = 0; i < m->trainer->n_trained; i++)
        MF_TRY(bring_together(m, i));
    return MF_OK;
}

static void mesh_failed(mf_team *team, mf_status why)
{
    mesh *m = of_team(team);

    if (m->net)
        mf_net_abort(m->net, why);
}

static void mesh_traffic(const mf_team *team, mf_traffic *out)
{
    const mesh *m = of_team((mf_team *)(uintptr_t)team);

    if (m->wire)
        out->bytes = out->plain_bytes = mf_mesh_wire_net_bytes(m->wire);
}

static const mf_team_kind TEAM = { .join = mesh_join,
                                   .leave = mesh_leave,
                                   .begin_step = mesh_begin_step,
                                   .run = mesh_run,
                                   .end_step = mesh_end_step,
                                   .settle = mesh_settle,
                                   .failed = mesh_failed,
                                   .traffic = mesh_traffic };

/* ---- opening and closing ---- */

static void mesh_close(mf_strategy *s)
{
    mesh *m = (mesh *)s;

    if (m->joined && m->net && mf_net_check(m->net) == MF_OK &&
        mf_team_meet(&m->team, 0, "the end") != MF_OK) /* nobody leaves while others still send */
        MF_WARN("%s", mf_error_message());
    mf_mesh_wire_net_free(m->wire);
    mf_free(m->counts);
    mf_group_free(m->team.group);
    if (m->net)
        mf_net_close(m->net);
    mf_free(m);
}

static mf_status connect(mesh *m, const mf_strategy_call *call)
{
    const int workers = call->cluster->size, n = m->setup.mesh.n;
    int *first = MF_ARENA_ARRAY(call->arena, int, workers + 1);

    if (!first)
        return MF_NOMEM("a mesh");
    if (n < workers)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the mesh has %d processors and the job %d workers: some would have nothing "
                       "to do",
                       n, workers);
    for (int i = 0; i <= workers; i++)
        first[i] = first_of(m, i);
    m->setup.first = first[m->team.rank];
    m->setup.n = first[m->team.rank + 1] - m->setup.first;
    MF_TRY(mf_job_connect(call, &m->net));
    MF_TRY(mf_job_group(call, m->net, 1, &m->team.group));
    MF_TRY(mf_mesh_wire_net_new(m->net, first, workers, call->timeout_ns, &m->wire));
    m->setup.wire = m->wire;
    return MF_OK;
}

static mf_status open_mesh(mesh *m, const mf_strategy_call *call)
{
    MF_TRY(mf_mesh_parse(mf_options_string(call->settings, "axes"), &m->setup.mesh));
    MF_TRY(mf_layout_rules_parse(&m->setup.mesh, mf_options_string(call->settings, "layout"),
                                 &m->setup.rules));
    m->setup.exact = mf_options_bool(call->settings, "exact");
    m->setup.n = m->setup.mesh.n;
    return call->cluster->size > 1 ? connect(m, call) : MF_OK;
}

mf_status mf_mesh_open(const mf_strategy_call *call, mf_strategy **out)
{
    mesh *m = mf_calloc(1, sizeof *m);
    mf_error why;
    mf_status st;

    if (!m)
        return MF_NOMEM("a mesh");
    m->strategy = (mf_strategy){ .team = &m->team, .close = mesh_close };
    m->team = (mf_team){ .kind = &TEAM,
                         .lockstep = call->cluster->size > 1,
                         .rank = call->cluster->size > 1 ? call->cluster->rank : 0,
                         .size = call->cluster->size > 1 ? call->cluster->size : 1,
                         .timeout_ns = call->timeout_ns };
    st = open_mesh(m, call);
    if (st == MF_OK) {
        *out = &m->strategy;
        return MF_OK;
    }
    mf_error_save(st, &why);
    mesh_close(&m->strategy);
    return mf_error_restore(&why);
}

int mf_strategy_mesh_counts(const mf_strategy *strategy, mf_mesh_counts *out, int max)
{
    const mesh *m = strategy && strategy->close == mesh_close ? (const mesh *)strategy : NULL;

    if (!m || !m->counts)
        return 0;
    for (int i = 0; i < max && i < m->setup.mesh.n; i++)
        out[i] = m->counts[i];
    return m->setup.mesh.n;
}

mf_status mf_strategy_mesh_costs(const mf_strategy *strategy, mf_mesh_cost_fn *each, void *ctx)
{
    const mesh *m = strategy && strategy->close == mesh_close ? (const mesh *)strategy : NULL;

    if (!m || !m->session)
        return MF_FAIL(MF_FAILED_PRECONDITION, "no step has run on a mesh");
    return mf_mesh_session_costs(m->session, each, ctx);
}
