/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - assigns each node of a client's graph to a task, by device names and colocation.
 *
 * Nodes that must be on the same task form a group (union-find). Within a group, nodes that own
 * state which others use (variables, queues, tables) decide first. */
#include "tf_server/placement.h"

#include "base/buf.h"
#include "graph/device_name.h"
#include "graph/op.h"

#include <string.h>

typedef struct placement_group {
    int parent; /* another node of the group; itself: the representative */
    int task; /* -1: not decided */
    mf_device_name wanted; /* the combined device request of its nodes */
} placement_group;

typedef struct placement_placing {
    const mf_graph *graph;
    const mf_place_options *o;
    placement_group *groups; /* by node id */
} placement_placing;

/* ---- groups ---- */

static int placement_root_of(placement_placing *p, int id)
{
    while (p->groups[id].parent != id) {
        p->groups[id].parent = p->groups[p->groups[id].parent].parent;
        id = p->groups[id].parent;
    }
    return id;
}

static void placement_join(placement_placing *p, const mf_node *a, const mf_node *b)
{
    const int x = placement_root_of(p, a->id), y = placement_root_of(p, b->id);

    if (x == y)
        return;
    if (p->groups[x].task < 0) /* a placed node remains the representative */
        p->groups[x].parent = y;
    else
        p->groups[y].parent = x;
}

static bool stays_with_its_source(mf_dtype type)
{
    return mf_type_is_ref(type) || type == MF_DTYPE_RESOURCE || type == MF_DTYPE_VARIANT;
}

static mf_status join_class(placement_placing *p, const mf_node *n)
{
    const mf_attr *classes = mf_node_list(n, "_class", MF_ATTR_STRING);

    for (int64_t i = 0; classes && i < classes->n; i++) {
        const char *text = classes->strings[i].data;
        const mf_node *with =
            strncmp(text, "loc:@", 5) == 0 ? mf_graph_find(p->graph, text + 5) : NULL;

        if (with)
            placement_join(p, n, with);
        else if (strncmp(text, "loc:@", 5) == 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Node '%s' expects to be colocated with unknown node '%s'", n->name,
                           text + 5);
    }
    return MF_OK;
}

/* The back edge of a loop. */
static bool is_next(const mf_node *n)
{
    return n->op && n->op->control == MF_CONTROL_NEXT;
}

static mf_status placement_make_groups(placement_placing *p)
{
    for (int64_t i = 0; i < p->graph->n_nodes; i++) {
        const mf_node *n = p->graph->nodes[i];

        for (int k = 0; k < n->n_inputs; k++) {
            if (stays_with_its_source(n->in_types[k]) || is_next(n->inputs[k].node))
                placement_join(p, n, n->inputs[k].node);
        }
        MF_TRY(join_class(p, n));
    }
    return MF_OK;
}

/* ---- device requests ---- */

/* A node without inputs whose state others use: a variable, a queue. */
static bool is_owner(const mf_node *n)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (stays_with_its_source(n->in_types[i]))
            return false;
    }
    for (int i = 0; i < n->n_outputs; i++) {
        if (stays_with_its_source(n->out_types[i]))
            return true;
    }
    return false;
}

/* Adds the parts of the request that are still unset; existing parts win. */
static mf_status placement_hear(placement_placing *p, const mf_node *n)
{
    placement_group *g = &p->groups[placement_root_of(p, n->id)];
    mf_device_name wanted;

    if (g->task >= 0 || n->device[0] == '\0')
        return MF_OK;
    if (mf_device_name_parse(n->device, &wanted) != MF_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Malformed device specification '%s' in node: {{node %s}}", n->device,
                       n->name);
    mf_device_name_fill(&g->wanted, &wanted);
    return MF_OK;
}

static mf_status hear_all(placement_placing *p)
{
    for (int owners = 1; owners >= 0; owners--) {
        for (int64_t i = 0; i < p->graph->n_nodes; i++) {
            if (is_owner(p->graph->nodes[i]) == (owners == 1))
                MF_TRY(placement_hear(p, p->graph->nodes[i]));
        }
    }
    return MF_OK;
}

/* ---- choice ---- */

static bool placement_fits(const placement_placing *p, int task, mf_device_name wanted)
{
    const mf_device_name d = mf_server_task_device(&p->o->tasks->all[task]);

    if (p->o->soft) {
        wanted.type[0] = '\0';
        wanted.index = -1;
    }
    return p->o->available[task] && mf_device_name_is(&d, &wanted);
}

/* Prefers the local task. */
static int placement_choose(const placement_placing *p, const mf_device_name *wanted)
{
    const mf_server_tasks *t = p->o->tasks;

    if (placement_fits(p, t->self, *wanted))
        return t->self;
    for (int i = 0; i < t->n; i++) {
        if (placement_fits(p, i, *wanted))
            return i;
    }
    return -1;
}

static mf_status placement_refuse(const placement_placing *p, const mf_node *n)
{
    mf_buf there = { 0 };
    mf_status st;

    for (int i = 0; i < p->o->tasks->n; i++) {
        if (p->o->available[i])
            mf_buf_printf(&there, "%s%s", there.len > 0 ? ", " : "", p->o->tasks->all[i].device);
    }
    MF_TRY(mf_buf_finish(&there));
    st = MF_FAIL(MF_INVALID_ARGUMENT,
                 "Cannot assign a device for operation %s: {{node %s}} was explicitly assigned to "
                 "%s but available devices are [ %.600s ]. Make sure the device specification "
                 "refers to a valid device.",
                 n->name, n->name, n->device, there.data);
    mf_buf_deinit(&there);
    return st;
}

/* Shape ops run where their input is: this saves sending it. */
static const mf_node *metadata_of(const mf_node *n)
{
    static const char *const ops[] = { "Shape", "Size", "Rank" };

    for (int i = 0; i < MF_COUNT(ops); i++) {
        if (strcmp(n->op_name, ops[i]) == 0 && n->device[0] == '\0')
            return n->inputs[0].node;
    }
    return NULL;
}

static mf_status placement_decide(placement_placing *p, int *task, int64_t n_placed)
{
    for (int64_t i = n_placed; i < p->graph->n_nodes; i++) {
        const mf_node *n = p->graph->nodes[i];
        placement_group *g = &p->groups[placement_root_of(p, n->id)];

        if (g->task < 0)
            g->task = placement_choose(p, &g->wanted);
        if (g->task < 0)
            return placement_refuse(p, n);
        task[i] = g->task;
    }
    for (int64_t i = n_placed; i < p->graph->n_nodes; i++) {
        const mf_node *from = metadata_of(p->graph->nodes[i]);

        if (from && p->groups[i].parent == (int)i)
            task[i] = task[from->id];
    }
    return MF_OK;
}

mf_status mf_place(const mf_graph *graph, const mf_place_options *o, int *task, int64_t n_placed)
{
    placement_placing p = { .graph = graph,
                            .o = o,
                            .groups = mf_calloc(graph->n_nodes, sizeof(placement_group)) };
    mf_status st;

    if (!p.groups)
        return MF_NOMEM("placing nodes");
    for (int64_t i = 0; i < graph->n_nodes; i++)
        p.groups[i] = (placement_group){ .parent = (int)i,
                                         .task = i < n_placed ? task[i] : -1,
                                         .wanted = MF_DEVICE_ANY };
    st = placement_make_groups(&p);
    if (st == MF_OK)
        st = hear_all(&p);
    if (st == MF_OK)
        st = placement_decide(&p, task, n_placed);
    mf_free(p.groups);
    return st;
}
