/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_remote.c - a training whose steps run on a cluster of servers, TensorFlow's or
 * Meshflow's (strategy servers). Parameter servers hold the variables, and every worker has some of
 * the shards of each batch. This process feeds them.
 *
 * The trainer's own variables are the source and destination of weights: a value written here is
 * sent before the next step, and all are fetched before they are read. */
#include "base/log.h"
#include "dist/strategies.h"
#include "graph/device_name.h"
#include "tf_client/portable_session.h"
#include "train/loop/loop.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 }; /* tasks */

typedef struct servers {
    mf_strategy strategy; /* first */
    mf_dist dist;
    char *target, *tls_dir;
    bool by_bytes; /* otherwise variables go to servers in turn */
    bool stop; /* is wanted */
    mf_session_options session;
    mf_trainer *trainer; /* NULL: no trainer has joined */
    char (*workers)[MF_DEVICE_NAME_MAX]; /* that compute: "/job:worker/replica:0/task:0" */
    int n_workers, n_ps;
    mf_graph *variables; /* each trained variable, with nodes that write and read it */
    mf_session *keeper; /* of these */
    mf_session *steps;
    uint64_t *sent; /* by variable: mf_variable_writes() of the servers' value */
    const char **value, **set, **get, **drop; /* by variable: names of nodes */
} servers;

static servers *strategy_remote_of_dist(mf_dist *dist)
{
    return (servers *)(void *)((char *)dist - offsetof(servers, dist));
}

/* ---- tasks ---- */

static int strategy_remote_by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* A task is identified by its first device. */
static void strategy_remote_note_device(void *ctx, const char *name, const char *type)
{
    servers *s = ctx;
    mf_device_name d;

    if (strcmp(type, "CPU") != 0 || mf_device_name_parse(name, &d) != MF_OK || d.index != 0)
        return;
    d.type[0] = '\0';
    d.index = -1;
    if (strcmp(d.job, "ps") == 0)
        s->n_ps++;
    else if (strcmp(d.job, "evaluator") != 0 && s->n_workers < MOST)
        (void)mf_device_name_print(&d, s->workers[s->n_workers++]);
}

static mf_status strategy_remote_find_tasks(servers *s)
{
    mf_graph *g = NULL;
    mf_session *session = NULL;
    mf_status st = mf_graph_new(&g);

    s->n_workers = s->n_ps = 0;
    s->workers = mf_calloc(MOST, sizeof *s->workers);
    if (st == MF_OK && !s->workers)
        st = MF_NOMEM("tasks");
    if (st == MF_OK)
        st = mf_session_new(g, &s->session, &session);
    if (st == MF_OK)
        st = mf_session_devices(session, strategy_remote_note_device, s);
    if (st == MF_OK && s->n_workers == 0)
        st = MF_FAIL(MF_FAILED_PRECONDITION, "the cluster of %s has no task but parameter servers",
                     s->target);
    mf_session_free(session);
    mf_graph_free(g);
    if (st == MF_OK)
        qsort(s->workers, (size_t)s->n_workers, sizeof *s->workers, strategy_remote_by_name);
    return st;
}

/* ---- devices ---- */

/* Nodes that read or write a variable are placed with it. */
static void follow_handles(mf_graph *g)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];

        for (int k = 0; k < n->n_inputs; k++) {
            if (strcmp(n->inputs[k].node->op_name, "VarHandleOp") == 0)
                n->device = n->inputs[k].node->device;
        }
    }
}

/* "shards/shard_3/...": 3; -1: of the complete step. */
static int shard_of(const mf_node *n)
{
    int shard;

    return sscanf(n->name, "shards/shard_%d/", &shard) == 1 ? shard : -1;
}

static mf_status strategy_remote_place(void *ctx, mf_graph *g)
{
    const servers *s = ctx;

    for (int64_t i = 0; i < g->n_nodes; i++) {
        mf_node *n = g->nodes[i];
        const int shard = shard_of(n);
        const mf_node *known = NULL;

        if (strcmp(n->op_name, "VarHandleOp") == 0)
            known = mf_graph_find(s->variables, mf_node_string(n, "shared_name"));
        if (known)
            n->device = mf_arena_strdup(g->arena, known->device);
        else if (shard >= 0)
            n->device = mf_arena_strdup(g->arena, s->workers[shard % s->n_workers]);
        if (!n->device)
            return MF_NOMEM("names of devices");
    }
    MF_TRY(mf_graph_set_devices(g, &(mf_replica_devices){ .worker_device = s->workers[0] }));
    follow_handles(g);
    return MF_OK;
}

/* ---- variables ---- */

/* The weight of a slot, "w" of "w/Adam_1"; NULL: not a slot. Update ops need both on one device. */
static const char *strategy_remote_weight_of(const mf_trainer *t, const mf_train_var *v)
{
    const char *best = NULL;

    for (int64_t i = 0; !v->is_weight && i < t->n_trained; i++) {
        const char *name = t->trained[i].name;
        const size_t n = strlen(name);

        if (t->trained[i].is_weight && strncmp(v->name, name, n) == 0 && v->name[n] == '/' &&
            (!best || n > strlen(best)))
            best = name;
    }
    return best;
}

static mf_status strategy_remote_add_variable(servers *s, const mf_train_var *v)
{
    char shape[MF_SHAPE_TEXT];
    const char *type = mf_dtype_name(v->variable->dtype),
               *weight = strategy_remote_weight_of(s->trainer, v);
    mf_graph *g = s->variables;
    mf_output handle, value;

    handle = mf_applyf(g, "VarHandleOp", MF_NO_IN,
                       "dtype=%s shape=shape%s shared_name='%s' name='%s' _class=['loc:@%s']", type,
                       mf_shape_text(&v->variable->declared, shape), v->name, v->name,
                       weight ? weight : v->name);
    value = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=%s name='%s/value'", type, v->name);
    (void)mf_applyf(g, "AssignVariableOp", MF_IN(handle, value), "name='%s/set'", v->name);
    (void)mf_applyf(g, "ReadVariableOp", MF_IN(handle), "dtype=%s name='%s/get'", type, v->name);
    (void)mf_applyf(g, "DestroyResourceOp", MF_IN(handle), "name='%s/drop'", v->name);
    return mf_graph_status(g);
}

static mf_status name_nodes(servers *s)
{
    const mf_trainer *t = s->trainer;
    mf_arena *arena = s->variables->arena;

    s->sent = MF_ARENA_ARRAY(arena, uint64_t, t->n_trained);
    s->value = MF_ARENA_ARRAY(arena, const char *, t->n_trained);
    s->set = MF_ARENA_ARRAY(arena, const char *, t->n_trained);
    s->get = MF_ARENA_ARRAY(arena, const char *, t->n_trained);
    s->drop = MF_ARENA_ARRAY(arena, const char *, t->n_trained);
    if (!s->sent || !s->value || !s->set || !s->get || !s->drop)
        return MF_NOMEM("variables");
    for (int64_t i = 0; i < t->n_trained; i++) {
        s->sent[i] = mf_variable_writes(t->trained[i].variable) - 1; /* nothing was sent yet */
        s->value[i] = mf_arena_printf(arena, "%s/value", t->trained[i].name);
        s->set[i] = mf_arena_printf(arena, "%s/set", t->trained[i].name);
        s->get[i] = mf_arena_printf(arena, "%s/get", t->trained[i].name);
        s->drop[i] = mf_arena_printf(arena, "%s/drop", t->trained[i].name);
        if (!s->value[i] || !s->set[i] || !s->get[i] || !s->drop[i])
            return MF_NOMEM("variables");
    }
    return MF_OK;
}

/* The timeout of all runs. */
static mf_run_options strategy_remote_patience(const servers *s)
{
    return (mf_run_options){ .timeout_ms = s->dist.timeout_ns / 1000000 };
}

/* Servers keep variables for ever; those of another model may have the same names. */
static mf_status drop_variables(servers *s)
{
    const mf_run_options o = strategy_remote_patience(s);

    return mf_session_run(s->keeper, &o, NULL, NULL, 0, NULL, 0, s->drop,
                          (int)s->trainer->n_trained, NULL);
}

static mf_status make_keeper(servers *s)
{
    const mf_trainer *t = s->trainer;

    MF_TRY(mf_graph_new(&s->variables));
    for (int64_t i = 0; i < t->n_trained; i++)
        MF_TRY(strategy_remote_add_variable(s, &t->trained[i]));
    MF_TRY(name_nodes(s));
    MF_TRY(mf_graph_set_devices(s->variables, &(mf_replica_devices){ .ps_tasks = s->n_ps,
                                                                     .worker_device = s->workers[0],
                                                                     .by_bytes = s->by_bytes }));
    follow_handles(s->variables);
    MF_TRY(mf_session_new(s->variables, &s->session, &s->keeper));
    return drop_variables(s);
}

static mf_status send_variable(servers *s, int64_t i)
{
    mf_variable *v = s->trainer->trained[i].variable;
    const uint64_t writes = mf_variable_writes(v);
    const mf_run_options o = strategy_remote_patience(s);
    mf_tensor value = { 0 };
    const mf_tensor *feed = &value;
    mf_status st;

    if (writes == s->sent[i])
        return MF_OK;
    MF_TRY(mf_variable_read(v, &value));
    st = mf_session_run(s->keeper, &o, &s->value[i], &feed, 1, NULL, 0, &s->set[i], 1, NULL);
    mf_tensor_clear(&value);
    if (st == MF_OK)
        s->sent[i] = writes;
    return st;
}

static mf_status fetch_variable(servers *s, int64_t i)
{
    mf_variable *v = s->trainer->trained[i].variable;
    const mf_run_options o = strategy_remote_patience(s);
    mf_tensor *value = NULL;
    mf_status st;

    st = mf_session_run(s->keeper, &o, NULL, NULL, 0, &s->get[i], 1, NULL, 0, &value);
    if (st == MF_OK)
        st = mf_variable_assign(v, value, true);
    if (st == MF_OK)
        s->sent[i] = mf_variable_writes(v);
    mf_tensor_free(value);
    return st;
}

/* ---- steps: one worker, whose steps run on servers ---- */

static mf_status servers_join(mf_dist *dist, mf_trainer *t)
{
    servers *s = strategy_remote_of_dist(dist);

    if (s->trainer)
        return MF_FAIL(MF_FAILED_PRECONDITION, "a strategy serves one trainer at a time");
    s->trainer = t;
    dist->shards.total = dist->shards.n = t->options.shards;
    MF_TRY(strategy_remote_find_tasks(s));
    MF_INFO("%s has %d workers and %d parameter servers", s->target, s->n_workers, s->n_ps);
    MF_TRY(make_keeper(s));
    return mf_portable_session_new(t->model->graph,
                                   &(mf_portable_session_options){ .session = &s->session,
                                                                   .place = strategy_remote_place,
                                                                   .ctx = s },
                                   &s->steps);
}

static void servers_leave(mf_dist *dist, mf_trainer *t)
{
    servers *s = strategy_remote_of_dist(dist);
    mf_error why;

    if (s->trainer != t)
        return; /* a second trainer, which was refused */
    mf_error_save(MF_OK, &why); /* the caller may be handling an error */
    if (s->keeper)
        (void)!drop_variables(s);
    (void)mf_error_restore(&why);
    mf_session_free(s->steps);
    mf_session_free(s->keeper);
    mf_graph_free(s->variables);
    mf_free(s->workers);
    s->steps = s->keeper = NULL;
    s->variables = NULL;
    s->workers = NULL;
    s->trainer = NULL;
}

/* Send variables that were written here since the last step: initial weights, a checkpoint's, those
 * of a roll-back. */
static mf_status servers_begin_step(mf_dist *dist, int64_t step, int64_t samples, bool wants_stop)
{
    servers *s = strategy_remote_of_dist(dist);

    (void)step;
    (void)samples;
    s->stop = wants_stop;
    for (int64_t i = 0; i < s->trainer->n_trained; i++)
        MF_TRY(send_variable(s, i));
    return MF_OK;
}

/* Steps run there, everything else (evaluations) here. */
static mf_status servers_run(mf_dist *dist, mf_trainer *t, const mf_run_options *options,
                             const mf_loop_call *call)
{
    return mf_trainer_call_at(t, strategy_remote_of_dist(dist)->steps,
                              strategy_remote_patience(strategy_remote_of_dist(dist)).timeout_ms,
                              options, call);
}

static mf_status servers_end_step(mf_dist *dist, int64_t step, bool *stop)
{
    (void)step;
    *stop = strategy_remote_of_dist(dist)->stop;
    return MF_OK;
}

static mf_status servers_settle(mf_dist *dist, bool *stop)
{
    servers *s = strategy_remote_of_dist(dist);

    (void)stop;
    for (int64_t i = 0; i < s->trainer->n_trained; i++)
        MF_TRY(fetch_variable(s, i));
    return MF_OK;
}

static void servers_failed(mf_dist *dist, mf_status why)
{
    (void)dist;
    (void)why; /* no peer waits for this process */
}

static const mf_dist_lifecycle_ops servers_lifecycle = { .join = servers_join,
                                                         .leave = servers_leave,
                                                         .failed = servers_failed };

static const mf_dist_step_ops servers_steps = { .begin_step = servers_begin_step,
                                                .run = servers_run,
                                                .end_step = servers_end_step,
                                                .settle = servers_settle };

/* ---- opening and closing ---- */

static void servers_close(mf_strategy *strategy)
{
    servers *s = (servers *)strategy;

    mf_free(s->target);
    mf_free(s->tls_dir);
    mf_free(s);
}

mf_status mf_servers_open(const mf_strategy_call *call, mf_strategy **out)
{
    const mf_remote_settings *settings = &call->settings->remote;
    servers *s;

    if (call->cluster->size > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the strategy %s has one process that trains and this job has %d: the "
                       "cluster is the servers'",
                       call->name, call->cluster->size);
    s = mf_calloc(1, sizeof *s);
    if (!s)
        return MF_NOMEM("a strategy");
    s->strategy = (mf_strategy){ .dist = &s->dist, .close = servers_close };
    s->dist = (mf_dist){ .ops = { .lifecycle = &servers_lifecycle, .step = &servers_steps },
                         .rank = 0,
                         .size = 1,
                         .timeout_ns = call->timeout_ns };
    s->by_bytes = settings->by_bytes;
    s->target = mf_strdup(settings->target);
    s->tls_dir = call->o->tls_dir ? mf_strdup(call->o->tls_dir) : NULL;
    if (!s->target || (call->o->tls_dir && !s->tls_dir)) {
        servers_close(&s->strategy);
        return MF_NOMEM("a strategy");
    }
    s->session = (mf_session_options){ .target = s->target,
                                       .connect_ms = call->timeout_ns / 1000000,
                                       .tls_dir = s->tls_dir,
                                       .insecure_any_peer = call->o->insecure_any_peer };
    *out = &s->strategy;
    return MF_OK;
}
