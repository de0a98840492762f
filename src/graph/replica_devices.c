/* SPDX-License-Identifier: Apache-2.0 */
/* replica_devices.c - assigns nodes to parameter servers and to the worker by the rule of
 * TensorFlow's replica_device_setter: the result of importing the graph in its scope. */
#include "base/host_state.h"
#include "graph/device_name.h"
#include "graph/graph.h"

#include <string.h>

/* The state of the assignment. */
typedef struct setter {
    const mf_replica_devices *o;
    mf_device_name ps, worker;
    int64_t *bytes; /* of each server's variables */
    int next; /* next server, round-robin */
} setter;

static bool is_state(const char *op)
{
    static const char *const ops[] = {
        "Variable",
        "VariableV2",
        "AutoReloadVariable",
        "MutableHashTable",
        "MutableHashTableV2",
        "MutableHashTableOfTensors",
        "MutableHashTableOfTensorsV2",
        "MutableDenseHashTable",
        "MutableDenseHashTableV2",
        "VarHandleOp",
        "BoostedTreesEnsembleResourceHandleOp",
        "BoostedTreesQuantileStreamResourceHandleOp",
        "ResourceConditionalAccumulator",
        "DecisionTreeResource",
    };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(ops[i], op) == 0)
            return true;
    }
    return false;
}

/* ---- which server ---- */

/* A state object without a shape, such as a table, grows later. */
static mf_status replica_devices_size_of(const mf_node *node, int64_t *out)
{
    *out = 0;
    if (!mf_node_attr(node, "shape"))
        return MF_OK;
    if (mf_shape_count(mf_node_shape(node, "shape"), out) != MF_OK ||
        !mf_mul_i64(*out, (int64_t)mf_dtype_size(mf_node_type(node, "dtype")), out))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "cannot place variable '%s' by its bytes: its shape is unknown", node->name);
    return MF_OK;
}

static mf_status replica_devices_choose(setter *s, const mf_node *node, int *task)
{
    int64_t size;

    *task = s->next;
    s->next = (s->next + 1) % s->o->ps_tasks;
    if (!s->o->by_bytes)
        return MF_OK;
    MF_TRY(replica_devices_size_of(node, &size));
    *task = 0;
    for (int i = 1; i < s->o->ps_tasks; i++) {
        if (s->bytes[i] < s->bytes[*task])
            *task = i;
    }
    s->bytes[*task] += size;
    return MF_OK;
}

/* ---- nodes ---- */

static mf_status set_device(mf_graph *g, mf_node *node, const mf_device_name *d)
{
    char text[MF_DEVICE_NAME_MAX];

    node->device = mf_arena_strdup(g->arena, mf_device_name_print(d, text));
    return node->device ? MF_OK : MF_NOMEM("names of devices");
}

/* State already placed elsewhere does not advance the round-robin. */
static mf_status place_state(setter *s, const mf_node *node, mf_device_name *d)
{
    mf_device_name there = s->ps;

    if (there.job[0] && (!d->job[0] || strcmp(d->job, there.job) == 0))
        MF_TRY(replica_devices_choose(s, node, &there.task));
    mf_device_name_fill(d, &there);
    return MF_OK;
}

static mf_status replica_devices_place(setter *s, mf_graph *g, mf_node *node)
{
    mf_device_name d;

    if (s->o->keep && node->device[0])
        return MF_OK;
    if (mf_device_name_parse(node->device, &d) != MF_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "node '%s': %s", node->name, mf_error_message());
    if (s->o->ps_tasks > 0 && is_state(node->op_name))
        MF_TRY(place_state(s, node, &d));
    else
        mf_device_name_fill(&d, &s->worker);
    return set_device(g, node, &d);
}

/* The name of the first other node that it is colocated with; NULL: none. */
static const char *companion(const mf_node *node)
{
    static const char prefix[] = "loc:@";
    const mf_attr *with = mf_node_list(node, "_class", MF_ATTR_STRING);

    for (int64_t i = 0; with && i < with->n; i++) {
        const char *name = with->strings[i].data;

        if (strncmp(name, prefix, strlen(prefix)) == 0 &&
            strcmp(name + strlen(prefix), node->name) != 0)
            return name + strlen(prefix);
    }
    return NULL;
}

static mf_status replica_devices_place_all(setter *s, mf_graph *g)
{
    for (int64_t i = 0; i < g->n_nodes; i++) {
        if (companion(g->nodes[i]))
            g->nodes[i]->device = "";
        else
            MF_TRY(replica_devices_place(s, g, g->nodes[i]));
    }
    for (int64_t i = 0; i < g->n_nodes; i++) {
        const char *name = companion(g->nodes[i]);
        const mf_node *with = name ? mf_graph_find(g, name) : NULL;

        if (with)
            g->nodes[i]->device = with->device;
        else if (name)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "node '%s' is colocated with '%s', which does "
                           "not exist",
                           g->nodes[i]->name, name);
    }
    return MF_OK;
}

mf_status mf_graph_set_devices(mf_graph *graph, const mf_replica_devices *devices)
{
    MF_ENTRY;
    MF_NEED(graph, devices);

    setter s = { .o = devices };
    mf_status st;

    MF_TRY(mf_graph_status(graph));
    MF_TRY(mf_device_name_parse(devices->ps_device ? devices->ps_device : "/job:ps", &s.ps));
    MF_TRY(mf_device_name_parse(devices->worker_device ? devices->worker_device : "/job:worker",
                                &s.worker));
    s.bytes = mf_calloc(devices->ps_tasks + 1, sizeof *s.bytes);
    if (!s.bytes)
        return MF_NOMEM("names of devices");
    st = replica_devices_place_all(&s, graph);
    mf_free(s.bytes);
    return st;
}
