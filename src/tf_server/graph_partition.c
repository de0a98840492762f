/* SPDX-License-Identifier: Apache-2.0 */
/* graph_partition.c - splits a graph into one graph per task, with _Send and _Recv on the edges
 * between tasks.
 *
 * An output that another task needs is sent there once, however many nodes consume it; a control
 * edge between tasks is an empty tensor. Constants are copied instead. A reference is read by the
 * op that uses it when this op is ready: each such edge has its own receive, which waits for all
 * other inputs of the op. The sender reads the variable when the value is requested
 * (ops/dist/send_recv.c).
 *
 * TensorFlow's tasks keep the kernels of stateful nodes, including _Send and _Recv, by name for the
 * lifetime of a session, so a name must not denote different edges in two runs of a session. Names
 * therefore contain a number that is unique in this process. */
#include "base/map.h"
#include "tf_server/graph_partition_private.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- nodes of a task ---- */

static bool graph_partition_is_end(const mf_node *n)
{
    return n->op && n->op->control == MF_CONTROL_ARG;
}

static mf_status graph_partition_find_tasks(mf_cutting *c, const mf_graph *graph)
{
    MF_TRY(mf_grow(&c->task, &c->cap_task, c->whole->n_nodes, sizeof *c->task));
    for (int64_t i = 0; i < c->whole->n_nodes; i++) {
        const mf_node *n = c->whole->nodes[i];
        const mf_node *source = graph_partition_is_end(n) ? NULL : mf_graph_find(graph, n->name);

        c->task[i] = source ? c->o->task[source->id] : c->o->self;
    }
    return MF_OK;
}

/* The nodes of a task, and the constants that they use. */
static bool keep_nodes(const mf_cutting *c, int task, bool *keep)
{
    bool any = false;

    for (int64_t i = 0; i < c->whole->n_nodes; i++) {
        const mf_node *n = c->whole->nodes[i];

        if (c->task[i] != task || n->removed)
            continue;
        any = true;
        keep[i] = keep[i] || !graph_partition_is_end(n);
        for (int k = 0; k < n->n_inputs; k++) {
            if (mf_node_is_constant(n->inputs[k].node))
                keep[n->inputs[k].node->id] = true;
        }
    }
    return any;
}

/* ---- edges between tasks ---- */

static mf_node *copy_in_part(const mf_cutting *c, const mf_node *n, int task)
{
    return mf_graph_find(c->out->parts[task], n->name);
}

static mf_attr text_attr(const char *text)
{
    mf_attr a = { .kind = MF_ATTR_STRING, .n = 1 };

    a.s = (mf_bytes){ text, strlen(text) };
    return a;
}

/* One end of an edge: its name, tasks and dtype. */
typedef struct edge {
    char name[300], base[256];
    const char *node; /* name of the node; NULL: generated */
    int from, to;
    mf_dtype type;
} edge;

static atomic_llong named; /* number of edges named so far in this process */

/* The sender has a value; the receiver may have a node to wait for. */
static mf_status add_end(mf_cutting *c, const edge *e, const mf_output *value, mf_node *after,
                         mf_node **out)
{
    const int at = value ? e->from : e->to;
    mf_graph *g = c->out->parts[at];
    const mf_named_attr attrs[] = {
        { value ? "T" : "tensor_type", { .kind = MF_ATTR_TYPE, .n = 1, .type = e->type } },
        { "tensor_name", text_attr(e->name) },
        { "send_device", text_attr(c->o->devices[e->from]) },
        { "send_device_incarnation",
          { .kind = MF_ATTR_INT, .n = 1, .i = (int64_t)c->o->incarnations[e->from] } },
        { "recv_device", text_attr(c->o->devices[e->to]) },
    };
    char name[300];

    (void)snprintf(name, sizeof name, "%s/_%lld", e->base, atomic_fetch_add(&named, 1));
    return mf_graph_add(g,
                        &(mf_node_spec){ .name = e->node ? e->node : mf_graph_unique_name(g, name),
                                         .op = value ? "_Send" : "_Recv",
                                         .device = c->o->devices[at],
                                         .inputs = value,
                                         .n_inputs = value ? 1 : 0,
                                         .controls = &after,
                                         .n_controls = after ? 1 : 0,
                                         .attrs = attrs,
                                         .n_attrs = MF_COUNT(attrs) },
                        out);
}

/* In a loop, each iteration receives a value of its own. */
static mf_status graph_partition_send(mf_cutting *c, mf_output value, const char *base, int frame,
                                      int from, int to, mf_node **received)
{
    const mf_node *driver = mf_loops_driver(&c->loops, frame, to);
    edge e = { .from = from, .to = to };
    mf_node *sent;

    c->edges++;
    e.type = mf_type_base(value.node->out_types[value.port]);
    (void)snprintf(e.base, sizeof e.base, "%.250s", base);
    (void)snprintf(e.name, sizeof e.name, "edge_%d_%s", c->edges, e.base);
    MF_TRY(add_end(c, &e, &value, NULL, &sent));
    return add_end(c, &e, NULL, driver ? copy_in_part(c, driver, to) : NULL, received);
}

/* An empty tensor that is ready after `after`. */
static mf_status add_signal(mf_cutting *c, int at, mf_node *after, mf_output *out)
{
    mf_graph *g = c->out->parts[at];
    mf_tensor empty = { 0 };
    mf_tensor *kept;
    mf_status st = mf_tensor_alloc(&empty, MF_DTYPE_F32, &MF_SHAPE(0));

    kept = st == MF_OK ? mf_graph_own_tensor(g, &empty) : NULL;
    mf_tensor_clear(&empty);
    if (!kept)
        return MF_NOMEM("a graph");
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = MF_DTYPE_F32 } },
        { "value", { .kind = MF_ATTR_TENSOR, .n = 1, .tensor = kept } },
    };

    out->port = 0;
    return mf_graph_add(g,
                        &(mf_node_spec){ .name = mf_graph_unique_name(g, after->name),
                                         .op = "Const",
                                         .device = c->o->devices[at],
                                         .controls = &after,
                                         .n_controls = 1,
                                         .attrs = attrs,
                                         .n_attrs = MF_COUNT(attrs) },
                        &out->node);
}

/* The key of a received value; *out: the node that receives it, or NULL. */
static mf_status graph_partition_look_up(mf_cutting *c, const char *name, int port, int to,
                                         char **key, mf_node **out)
{
    *key = port < 0 ? mf_arena_printf(c->out->arena, "^%s>%d", name, to)
                    : mf_arena_printf(c->out->arena, "%s:%d>%d", name, port, to);
    if (!*key)
        return MF_NOMEM("a graph");
    *out = mf_map_find(&c->received, *key);
    return MF_OK;
}

static bool graph_partition_is_ref(mf_output o)
{
    return mf_type_is_ref(o.node->out_types[o.port]);
}

/* The output on task `to`. */
static mf_status graph_partition_copy_input(mf_cutting *c, mf_output value, int to, mf_output *out)
{
    const int from = c->task[value.node->id];
    mf_node *there;
    char *key;

    if (from == to || mf_node_is_constant(value.node)) {
        *out = (mf_output){ copy_in_part(c, value.node, to), value.port };
        return MF_OK;
    }
    MF_TRY(graph_partition_look_up(c, value.node->name, value.port, to, &key, &there));
    if (!there || graph_partition_is_ref(value)) {
        const mf_output here = { copy_in_part(c, value.node, from), value.port };

        MF_TRY(graph_partition_send(c, here, value.node->name, mf_loops_frame(&c->loops, value),
                                    from, to, &there));
        MF_TRY(mf_map_set(&c->received, key, there));
    }
    *out = (mf_output){ there, 0 };
    return MF_OK;
}

/* A control input on task `to` for a node of any task. */
static mf_status copy_control_input(mf_cutting *c, const mf_node *first, int to, mf_node **out)
{
    const int from = c->task[first->id];
    mf_output signal;
    char *key;

    if (from == to) {
        *out = copy_in_part(c, first, to);
        return MF_OK;
    }
    MF_TRY(graph_partition_look_up(c, first->name, -1, to, &key, out));
    if (*out)
        return MF_OK;
    MF_TRY(add_signal(c, from, copy_in_part(c, first, from), &signal));
    MF_TRY(graph_partition_send(c, signal, first->name, mf_loops_frame_after(&c->loops, first),
                                from, to, out));
    return mf_map_set(&c->received, key, *out);
}

/* True if input k of a task's node is a received reference; its other inputs are known. */
static bool is_received_ref(const mf_cutting *c, const mf_node *n, int k)
{
    return graph_partition_is_ref(n->inputs[k]) && c->task[n->inputs[k].node->id] != c->task[n->id];
}

/* The inputs that the op waits for; a Merge waits for only one. */
static int waits_for(const mf_cutting *c, const mf_node *n, const mf_node *twin, mf_node **out)
{
    const bool merges = n->op && n->op->control == MF_CONTROL_MERGE;
    int count = 0;

    for (int k = 0; k < twin->n_controls; k++)
        out[count++] = twin->controls[k];
    for (int k = 0; k < n->n_inputs && !merges; k++) {
        if (!is_received_ref(c, n, k) && !mf_node_is_constant(twin->inputs[k].node))
            out[count++] = twin->inputs[k].node;
    }
    return count;
}

/* References are received after all other inputs. */
static mf_status delay_refs(mf_cutting *c, const mf_node *n, const mf_node *twin)
{
    mf_arena *arena = c->out->parts[c->task[n->id]]->arena;

    for (int k = 0; k < n->n_inputs; k++) {
        mf_node *recv = twin->inputs[k].node, **controls;

        if (!is_received_ref(c, n, k))
            continue;
        controls = MF_ARENA_ARRAY(arena, mf_node *, recv->n_controls + n->n_controls + n->n_inputs);
        if (!controls)
            return MF_NOMEM("a graph");
        if (recv->n_controls > 0)
            memcpy(controls, recv->controls, (size_t)recv->n_controls * sizeof(mf_node *));
        recv->n_controls += waits_for(c, n, twin, controls + recv->n_controls);
        recv->controls = controls;
    }
    return MF_OK;
}

static mf_status connect_node(mf_cutting *c, const mf_node *n)
{
    const int at = c->task[n->id];
    mf_node *twin = copy_in_part(c, n, at);
    mf_node **controls = MF_ARENA_ARRAY(c->out->parts[at]->arena, mf_node *, n->n_controls + 1);

    if (!controls)
        return MF_NOMEM("a graph");
    for (int k = 0; k < n->n_inputs; k++)
        MF_TRY(graph_partition_copy_input(c, n->inputs[k], at, &twin->inputs[k]));
    for (int k = 0; k < n->n_controls; k++)
        MF_TRY(copy_control_input(c, n->controls[k], at, &controls[k]));
    twin->controls = controls;
    twin->n_controls = n->n_controls;
    return delay_refs(c, n, twin);
}

/* ---- feeds and fetches ---- */

static mf_status graph_partition_name_of(mf_cutting *c, mf_output o, const char **out)
{
    *out = mf_arena_printf(c->out->arena, "%s:%d", o.node->name, o.port);
    return *out ? MF_OK : MF_NOMEM("a graph");
}

/* An edge of the local task whose other end is the master or client. */
static mf_status add_own_end(mf_cutting *c, const char *base, mf_dtype type, const mf_output *value,
                             const char **key)
{
    const int self = c->o->self;
    edge e = { .from = self, .to = self, .type = type, .node = value ? NULL : base };
    mf_node *end;

    c->edges++;
    (void)snprintf(e.base, sizeof e.base, "%.250s", base);
    (void)snprintf(e.name, sizeof e.name, "edge_%d_%s", c->edges, e.base);
    *key = mf_arena_printf(c->out->arena, "%s;%016" PRIx64 ";%s;%s;0:0", c->o->devices[self],
                           c->o->incarnations[self], c->o->devices[self], e.name);
    if (!*key)
        return MF_NOMEM("a graph");
    return add_end(c, &e, value, NULL, &end);
}

/* Replaces an _Arg by a placeholder of the same name. */
static mf_status add_placeholder(mf_cutting *c, const mf_node *arg, int i)
{
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = arg->out_types[0] } },
    };
    mf_output fed = { 0 };

    MF_TRY(mf_graph_add(
        c->out->parts[c->o->self],
        &(mf_node_spec){
            .name = arg->name, .op = "Placeholder", .attrs = attrs, .n_attrs = MF_COUNT(attrs) },
        &fed.node));
    return graph_partition_name_of(c, fed, &c->out->feeds[i]);
}

static mf_status graph_partition_add_feed(mf_cutting *c, const mf_node *arg, int i)
{
    const mf_dtype type = arg->out_types[0];

    return c->o->gradual ? add_own_end(c, arg->name, type, NULL, &c->out->feeds[i])
                         : add_placeholder(c, arg, i);
}

static mf_status find_fetch(mf_cutting *c, const mf_node *retval, int i)
{
    mf_output value;

    MF_TRY(graph_partition_copy_input(c, retval->inputs[0], c->o->self, &value));
    if (c->o->gradual)
        return add_own_end(c, retval->name, mf_type_base(value.node->out_types[value.port]), &value,
                           &c->out->fetches[i]);
    return graph_partition_name_of(c, value, &c->out->fetches[i]);
}

/* ---- all parts ---- */

/* TensorFlow's tasks require a device on every node. */
static mf_status name_device(mf_graph *g, const char *device)
{
    const char *copy = mf_arena_strdup(g->arena, device);

    for (int64_t i = 0; copy && i < g->n_nodes; i++)
        g->nodes[i]->device = copy;
    return copy ? MF_OK : MF_NOMEM("a graph");
}

static mf_status graph_partition_make_parts(mf_cutting *c)
{
    mf_graph_partition *p = c->out;

    for (int t = 0; t < p->n_tasks; t++) {
        bool *keep = mf_calloc(c->whole->n_nodes, sizeof *keep);
        mf_status st = keep ? MF_OK : MF_NOMEM("a graph");

        if (st == MF_OK && (keep_nodes(c, t, keep) || t == c->o->self))
            st = mf_graph_copy(c->whole, keep, &p->parts[t]);
        if (st == MF_OK && p->parts[t])
            st = name_device(p->parts[t], c->o->devices[t]);
        mf_free(keep);
        MF_TRY(st);
    }
    return MF_OK;
}

static mf_status graph_partition_cut(mf_cutting *c, const mf_compile *w)
{
    MF_TRY(graph_partition_make_parts(c));
    for (int i = 0; i < w->n_feeds; i++)
        MF_TRY(graph_partition_add_feed(c, w->feeds[i], i));
    for (int64_t i = 0; i < c->whole->n_nodes; i++) {
        if (!c->whole->nodes[i]->removed && !graph_partition_is_end(c->whole->nodes[i]))
            MF_TRY(connect_node(c, c->whole->nodes[i]));
    }
    for (int i = 0; i < w->n_fetches; i++)
        MF_TRY(find_fetch(c, w->fetches[i], i));
    for (int t = 0; t < c->out->n_tasks; t++) {
        if (c->out->parts[t])
            MF_TRY(mf_graph_verify(c->out->parts[t]));
    }
    return MF_OK;
}

static mf_status partition_init(mf_graph_partition *p, const mf_signature *sig, int n_tasks)
{
    *p = (mf_graph_partition){ .arena = mf_arena_new(),
                               .n_tasks = n_tasks,
                               .n_feeds = sig->n_feeds,
                               .n_fetches = sig->n_fetches };
    if (!p->arena)
        return MF_NOMEM("a graph");
    p->parts = MF_ARENA_ARRAY(p->arena, mf_graph *, n_tasks);
    p->feeds = MF_ARENA_ARRAY(p->arena, const char *, sig->n_feeds + 1);
    p->fetches = MF_ARENA_ARRAY(p->arena, const char *, sig->n_fetches + 1);
    return p->parts && p->feeds && p->fetches ? MF_OK : MF_NOMEM("a graph");
}

mf_status mf_graph_partition_make(const mf_graph *graph, const mf_signature *sig,
                                  const mf_graph_partition_options *o, mf_graph_partition *out)
{
    mf_cutting c = { .o = o, .out = out };
    mf_compile w = { 0 };
    mf_status st;

    MF_TRY(partition_init(out, sig, o->n_tasks));
    st = mf_compile_begin(&w, graph, sig);
    c.whole = w.graph;
    if (st == MF_OK)
        st = graph_partition_find_tasks(&c, graph);
    if (st == MF_OK)
        st = mf_loops_drive(&c, &w);
    if (st == MF_OK)
        st = graph_partition_cut(&c, &w);
    mf_loops_deinit(&c.loops);
    mf_map_deinit(&c.received);
    mf_free(c.task);
    mf_compile_end(&w);
    return st;
}

void mf_graph_partition_deinit(mf_graph_partition *p)
{
    for (int i = 0; p->parts && i < p->n_tasks; i++)
        mf_graph_free(p->parts[i]);
    mf_arena_free(p->arena);
    *p = (mf_graph_partition){ 0 };
}
