/* SPDX-License-Identifier: Apache-2.0 */
/* graph_partition_loops.c - control loops for partitions of a While loop that spans tasks
 * (mf_loops_drive()).
 *
 *     start -> Enter -> Merge -> Switch -> NextIteration
 *                         ^        |  condition         |
 *                         +-----------------------------+
 *
 * Merge runs once per iteration: receives inside the loop wait for it. A nested loop is entered
 * from the outer loop's Switch. Frames with the same name have the same number on all tasks, so
 * keys match. */
#include "tf_server/graph_partition_private.h"

#include <stdio.h>
#include <string.h>

/* ---- frames ---- */

static int graph_partition_loops_frame_of(const mf_loops *l, int context)
{
    return mf_context_frame(l->contexts, context);
}

int mf_loops_frame(const mf_loops *l, mf_output o)
{
    return graph_partition_loops_frame_of(l, mf_context_of(l->contexts, o));
}

int mf_loops_frame_after(const mf_loops *l, const mf_node *n)
{
    return graph_partition_loops_frame_of(l, mf_context_of_node(l->contexts, n));
}

const mf_node *mf_loops_driver(const mf_loops *l, int frame, int task)
{
    return l->drivers[frame * l->n_tasks + task].merge;
}

static mf_status loops_init(mf_cutting *c, const mf_compile *w)
{
    mf_loops *l = &c->loops;
    mf_node **order;
    int64_t n;
    mf_status st;

    MF_TRY(mf_compile_order(w, &order, &n));
    st = mf_contexts_new(w, order, n, &l->contexts);
    mf_free(order);
    MF_TRY(st);
    (void)mf_contexts_frames(l->contexts, &l->n_frames);
    l->n_tasks = c->o->n_tasks;
    l->conds = mf_calloc(l->n_frames, sizeof *l->conds);
    l->drivers = mf_calloc((int64_t)l->n_frames * l->n_tasks, sizeof *l->drivers);
    if (!l->conds || !l->drivers)
        return MF_NOMEM("a graph");
    for (int64_t i = 0; i < c->whole->n_nodes; i++) {
        mf_node *node = c->whole->nodes[i];

        if (strcmp(node->op_name, "LoopCond") == 0)
            l->conds[mf_loops_frame(l, (mf_output){ node, 0 })] = node;
    }
    return MF_OK;
}

void mf_loops_deinit(mf_loops *l)
{
    mf_contexts_free(l->contexts);
    mf_free(l->conds);
    mf_free(l->drivers);
}

/* ---- control loops ---- */

typedef struct driving {
    mf_cutting *c;
    const mf_frame_info *frame;
    int task;
} driving;

static mf_status graph_partition_loops_add(const driving *d, const char *op,
                                           const mf_output *inputs, int n_inputs,
                                           const mf_named_attr *attrs, int n_attrs, mf_node **out)
{
    mf_cutting *c = d->c;
    char name[300];

    (void)snprintf(name, sizeof name, "_cloop%.250s/%s", d->frame->name, op);
    MF_TRY(mf_graph_add(c->whole,
                        &(mf_node_spec){ .name = mf_graph_unique_name(c->whole, name),
                                         .op = op,
                                         .inputs = inputs,
                                         .n_inputs = n_inputs,
                                         .attrs = attrs,
                                         .n_attrs = n_attrs },
                        out));
    MF_TRY(mf_grow(&c->task, &c->cap_task, c->whole->n_nodes, sizeof *c->task));
    c->task[(*out)->id] = d->task;
    return MF_OK;
}

static mf_status add_start(const driving *d, mf_output *out)
{
    mf_tensor no = { 0 };
    mf_tensor *kept;

    MF_TRY(mf_tensor_alloc(&no, MF_DTYPE_BOOL, &MF_SCALAR));
    *(uint8_t *)no.data = 0;
    kept = mf_graph_own_tensor(d->c->whole, &no);
    mf_tensor_clear(&no);
    if (!kept)
        return MF_NOMEM("a graph");
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = MF_DTYPE_BOOL } },
        { "value", { .kind = MF_ATTR_TENSOR, .n = 1, .tensor = kept } },
    };

    out->port = 0;
    return graph_partition_loops_add(d, "Const", NULL, 0, attrs, MF_COUNT(attrs), &out->node);
}

static mf_status add_enter(const driving *d, mf_output start, mf_node **out)
{
    const mf_named_attr attrs[] = {
        { "frame_name",
          { .kind = MF_ATTR_STRING, .n = 1, .s = { d->frame->name, strlen(d->frame->name) } } },
        { "parallel_iterations",
          { .kind = MF_ATTR_INT, .n = 1, .i = d->frame->parallel_iterations } },
    };

    return graph_partition_loops_add(d, "Enter", &start, 1, attrs, MF_COUNT(attrs), out);
}

static mf_status add_loop(const driving *d, mf_output start, mf_node *cond, mf_driver *out)
{
    mf_node *enter, *next, **merge = &out->merge;

    MF_TRY(add_enter(d, start, &enter));
    MF_TRY(graph_partition_loops_add(d, "Merge", (mf_output[]){ { enter, 0 }, { enter, 0 } }, 2,
                                     NULL, 0, merge));
    MF_TRY(graph_partition_loops_add(d, "Switch", (mf_output[]){ { *merge, 0 }, { cond, 0 } }, 2,
                                     NULL, 0, &out->turn));
    MF_TRY(graph_partition_loops_add(d, "NextIteration", &(mf_output){ out->turn, 1 }, 1, NULL, 0,
                                     &next));
    (*merge)->inputs[1] = (mf_output){ next, 0 };
    return MF_OK;
}

static mf_status drive(mf_cutting *c, int frame, int task)
{
    mf_loops *l = &c->loops;
    int n;
    const driving d = { c, &mf_contexts_frames(l->contexts, &n)[frame], task };
    mf_driver *driver = &l->drivers[frame * l->n_tasks + task];
    const int parent = d.frame->parent;
    mf_output start;

    if (frame == 0 || driver->merge)
        return MF_OK;
    if (!l->conds[frame])
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "the loop '%s' is spread over several tasks and has no LoopCond: place it "
                       "on one task",
                       d.frame->name);
    if (parent > 0) {
        MF_TRY(drive(c, parent, task));
        start = (mf_output){ l->drivers[parent * l->n_tasks + task].turn, 1 };
    } else {
        MF_TRY(add_start(&d, &start));
    }
    return add_loop(&d, start, l->conds[frame], driver);
}

/* ---- where a control loop is needed ---- */

static mf_status drive_inputs(mf_cutting *c, const mf_node *n)
{
    const int to = c->task[n->id];

    for (int k = 0; k < n->n_inputs; k++) {
        const mf_output in = n->inputs[k];

        if (c->task[in.node->id] != to && !mf_node_is_constant(in.node))
            MF_TRY(drive(c, mf_loops_frame(&c->loops, in), to));
    }
    for (int k = 0; k < n->n_controls; k++) {
        if (c->task[n->controls[k]->id] != to)
            MF_TRY(drive(c, mf_loops_frame_after(&c->loops, n->controls[k]), to));
    }
    return MF_OK;
}

mf_status mf_loops_drive(mf_cutting *c, const mf_compile *w)
{
    const int64_t n = c->whole->n_nodes;

    MF_TRY(loops_init(c, w));
    for (int64_t i = 0; i < n; i++) {
        if (!c->whole->nodes[i]->removed)
            MF_TRY(drive_inputs(c, c->whole->nodes[i]));
    }
    return MF_OK;
}
