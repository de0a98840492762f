/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_schedule.c - the schedule of the micro-batches on a pipeline stage: GPipe, 1F1B, zero
 * bubble, interleaved. A stage has one forward (F) and one backward (B) item per micro-batch, in
 * this order:
 *
 *     GPipe        F1 F2 F3 F4 B1 B2 B3 B4
 *     1F1B         F1 F2 B1 F3 B2 F4 B3 B4      (the first of two stages; the second: F1 B1 F2 B2)
 *     zero bubble  F1 F2 B1 W1 F3 B2 W2 F4 B3 W3 B4 W4      (the second: F1 B1 F2 B2 W1 F3 B3 W2)
 *
 * With 1F1B, a stage keeps the activations of as many micro-batches as there are stages after it,
 * not of all. With zero bubble (ZB-H1), the backward pass is split: B is the part that earlier
 * stages wait for, W computes the gradients of weights, for which no stage waits; later stages
 * postpone W until they would be idle. Interleaved, a stage has several chunks of layers and as
 * many items of each kind: F of the first chunk for as many micro-batches as there are stages, then
 * F of the next chunk for the same micro-batches, and so on; the backward pass starts with the last
 * chunk. The first nodes of an item wait for all last nodes of the previous item. Sends and
 * receives belong to no item: they run as soon as possible. */
#include "spmd/pipeline/pipeline_schedule.h"

#include "spmd/pipeline/virtual_stages.h"

#include <limits.h>
#include <string.h>

/* ---- orders ---- */

int mf_pipeline_ahead(mf_pipeline how, int stages, int stage, int64_t micro_batches)
{
    return (int)(how != MF_PIPELINE_GPIPE && stages - stage < micro_batches ? stages - stage
                                                                            : micro_batches);
}

int mf_pipeline_place(int64_t micro_batch, bool back, int64_t micro_batches, int64_t ahead)
{
    if (!back)
        return (int)(micro_batch < ahead ? micro_batch : ahead + 2 * (micro_batch - ahead) + 1);
    return (int)(micro_batch < micro_batches - ahead ? ahead + 2 * micro_batch
                                                     : micro_batches + micro_batch);
}

/* Number of micro-batches if the last round of an interleaved pipeline were full. Items of missing
 * micro-batches are skipped. */
static int64_t padded_micro_batches(const mf_pipeline_plan *p)
{
    if (p->how != MF_PIPELINE_INTERLEAVED)
        return p->micro_batches;
    return (p->micro_batches + p->stages - 1) / p->stages * p->stages;
}

/* The k-th item in one direction. A round has as many micro-batches as there are stages. */
static mf_pipeline_item nth(const mf_pipeline_plan *p, int64_t k, bool back)
{
    const int64_t round = (int64_t)p->stages * p->chunks;
    const int chunk = (int)(k % round / p->stages);

    if (p->how != MF_PIPELINE_INTERLEAVED)
        return (mf_pipeline_item){ back ? MF_PIPELINE_BACKWARDS : MF_PIPELINE_FORWARDS, 0, k };
    return (mf_pipeline_item){ back ? MF_PIPELINE_BACKWARDS : MF_PIPELINE_FORWARDS,
                               back ? p->chunks - 1 - chunk : chunk,
                               k / round * p->stages + k % p->stages };
}

static int64_t ahead_of(const mf_pipeline_plan *p, int stage, int64_t n)
{
    int64_t ahead = mf_pipeline_ahead(p->how, p->stages, stage, p->micro_batches);

    if (p->how == MF_PIPELINE_INTERLEAVED)
        ahead = (int64_t)(p->stages - 1 - stage) * 2 + (int64_t)(p->chunks - 1) * p->stages + 1;
    return ahead < n ? ahead : n;
}

int64_t mf_pipeline_items(const mf_pipeline_plan *p)
{
    return p->micro_batches * p->chunks * (p->how == MF_PIPELINE_ZERO_BUBBLE ? 3 : 2);
}

void mf_pipeline_order(const mf_pipeline_plan *p, int stage, mf_pipeline_item *out)
{
    const int64_t n = padded_micro_batches(p) * p->chunks, ahead = ahead_of(p, stage, n);
    const bool apart = p->how == MF_PIPELINE_ZERO_BUBBLE;
    int64_t n_out = 0;

    for (int64_t there = 0, back = 0; back < n;) {
        const bool is_back = there == n || there - back == ahead;
        const mf_pipeline_item item = nth(p, is_back ? back : there, is_back);

        *(is_back ? &back : &there) += 1;
        if (item.micro_batch < p->micro_batches)
            out[n_out++] = item;
        if (apart && is_back && item.micro_batch >= stage)
            out[n_out++] = (mf_pipeline_item){ MF_PIPELINE_WEIGHTS, 0, item.micro_batch - stage };
    }
    for (int64_t micro_batch = n > stage ? n - stage : 0; apart && micro_batch < n; micro_batch++)
        out[n_out++] = (mf_pipeline_item){ MF_PIPELINE_WEIGHTS, 0, micro_batch };
}

double mf_pipeline_idle(const mf_pipeline_plan *p)
{
    const double stages = p->stages, micro_batches = (double)p->micro_batches;
    double work = 3 * micro_batches * p->chunks, all = work + 3 * (stages - 1);

    if (p->how == MF_PIPELINE_ZERO_BUBBLE) /* the latter: too few micro-batches to fill the pipeline
                                            */
        all = p->micro_batches >= p->stages ? work + stages - 1 : 2 * (stages + micro_batches) - 1;
    return 1 - work / all;
}

/* ---- graphs ---- */

typedef struct items {
    mf_graph *graph;
    mf_pipeline_plan plan;
    int *places; /* by direction, chunk and micro-batch: position in the order */
    int *at; /* by node's id: position of its item, from 0; INT_MAX: any time */
    int64_t *reach; /* by node's id: the first layer that its gradients reach */
    bool *marked, *leads; /* by node's id: belongs to an item; another node of its item uses it */
    mf_node **order;
    int64_t n; /* nodes before scheduling */
} items;

static mf_status read_micro_batches(items *s)
{
    mf_graph *g = s->graph;

    s->n = g->n_nodes;
    s->at = MF_ARENA_ARRAY(g->arena, int, s->n + 1);
    s->marked = MF_ARENA_ARRAY(g->arena, bool, s->n + 1);
    s->leads = MF_ARENA_ARRAY(g->arena, bool, s->n + 1);
    s->reach = MF_ARENA_ARRAY(g->arena, int64_t, s->n + 1);
    s->order = MF_ARENA_ARRAY(g->arena, mf_node *, s->n + 1);
    if (!s->at || !s->marked || !s->leads || !s->reach || !s->order)
        return MF_NOMEM("a pipeline");
    for (int64_t i = 0; i < s->n; i++) {
        const mf_node *n = g->nodes[i];
        const int64_t micro_batch = mf_node_micro_batch(n);

        s->marked[n->id] = micro_batch > 0 && strcmp(n->op_name, "Const") != 0;
        s->plan.micro_batches =
            micro_batch > s->plan.micro_batches ? micro_batch : s->plan.micro_batches;
    }
    return MF_OK;
}

static void need_by(const items *s, const mf_node *n, int at)
{
    if (at < s->at[n->id])
        s->at[n->id] = at;
}

static int *pipeline_schedule_place_of(const items *s, mf_pipeline_item i)
{
    return &s->places[((int)i.way * s->plan.chunks + i.chunk) * s->plan.micro_batches +
                      i.micro_batch];
}

static mf_status pipeline_schedule_find_places(items *s, int stage)
{
    const int64_t n = mf_pipeline_items(&s->plan);
    mf_pipeline_item *order = MF_ARENA_ARRAY(s->graph->arena, mf_pipeline_item, n + 1);

    s->places =
        MF_ARENA_ARRAY(s->graph->arena, int,
                       (int64_t)MF_PIPELINE_WAYS * s->plan.chunks * s->plan.micro_batches + 1);
    if (!order || !s->places)
        return MF_NOMEM("a pipeline");
    mf_pipeline_order(&s->plan, stage, order);
    for (int64_t i = 0; i < n; i++)
        *pipeline_schedule_place_of(s, order[i]) = (int)i;
    return MF_OK;
}

static bool pipeline_schedule_is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

/* A backward node that leads neither to another stage nor to gradients of an earlier layer computes
 * gradients of weights. Reductions and moves between devices of the stage lie on such paths, too.
 */
static void find_reach(const items *s, int64_t n_order)
{
    for (int64_t i = 0; i < s->n; i++)
        s->reach[i] = INT64_MAX;
    for (int64_t i = n_order - 1; i >= 0; i--) {
        const mf_node *n = s->order[i];
        const bool on_the_way =
            pipeline_schedule_is_op(n, "_MeshReduce") || pipeline_schedule_is_op(n, "_MeshMove");
        int64_t to = s->reach[n->id];

        if (pipeline_schedule_is_op(n, "_MeshSend"))
            to = 0;
        else if (s->marked[n->id] && mf_node_is_gradient(n) && mf_node_layer(n) > 0)
            to = mf_node_layer(n) < to ? mf_node_layer(n) : to;
        else if (!on_the_way && !(s->marked[n->id] && mf_node_is_gradient(n)))
            continue;
        for (int k = 0; k < n->n_inputs; k++) {
            int64_t *from = &s->reach[n->inputs[k].node->id];

            *from = to < *from ? to : *from;
        }
    }
}

static mf_pipeline_way way_of(const items *s, const mf_node *n)
{
    const int64_t layer = mf_node_layer(n);

    if (!mf_node_is_gradient(n))
        return MF_PIPELINE_FORWARDS;
    if (s->plan.how != MF_PIPELINE_ZERO_BUBBLE || s->reach[n->id] < (layer ? layer : INT64_MAX))
        return MF_PIPELINE_BACKWARDS;
    return MF_PIPELINE_WEIGHTS;
}

/* Position by the node's own attributes; INT_MAX: it has none. */
static mf_status pipeline_schedule_said(const items *s, mf_node *n, int *at)
{
    static const mf_attr yes = { .kind = MF_ATTR_BOOL, .n = 1, .b = true };
    const int64_t chunk = s->plan.chunks > 1 ? mf_node_mark_of(n, MF_CHUNK_ATTR) : 1;
    mf_pipeline_item item;

    *at = INT_MAX;
    if (!s->marked[n->id] || chunk == 0)
        return MF_OK;
    item = (mf_pipeline_item){ way_of(s, n), (int)((chunk - 1) / s->plan.stages),
                               mf_node_micro_batch(n) - 1 };
    *at = *pipeline_schedule_place_of(s, item);
    return item.way == MF_PIPELINE_WEIGHTS ? mf_node_set_attr(s->graph, n, "_late", &yes) : MF_OK;
}

/* A value that several micro-batches use belongs to the first item that needs it. */
static mf_status find_items(items *s)
{
    int64_t n_order = 0;

    MF_TRY(mf_graph_order(s->graph, s->order, &n_order));
    if (s->plan.how == MF_PIPELINE_ZERO_BUBBLE)
        find_reach(s, n_order);
    for (int64_t i = 0; i < s->n; i++)
        MF_TRY(pipeline_schedule_said(s, s->graph->nodes[i], &s->at[s->graph->nodes[i]->id]));
    for (int64_t i = n_order - 1; i >= 0; i--) {
        const mf_node *n = s->order[i];

        for (int k = 0; k < n->n_inputs; k++)
            need_by(s, n->inputs[k].node, s->at[n->id]);
        for (int k = 0; k < n->n_controls; k++)
            need_by(s, n->controls[k], s->at[n->id]);
    }
    return MF_OK;
}

/* A node that no item needs, such as a count of fed labels, runs at any time: it is not part of its
 * micro-batch's item, and the meter does not record it as such. */
static mf_status unmark_free(items *s)
{
    static const mf_attr none = { .kind = MF_ATTR_INT, .n = 1 };

    for (int64_t i = 0; i < s->n; i++) {
        mf_node *n = s->graph->nodes[i];

        if (!s->marked[n->id] || s->at[n->id] != INT_MAX)
            continue;
        s->marked[n->id] = false;
        MF_TRY(mf_node_set_attr(s->graph, n, "_micro_batch", &none));
    }
    return MF_OK;
}

static bool are_together(const items *s, const mf_node *a, const mf_node *b)
{
    return s->marked[a->id] && s->marked[b->id] && s->at[a->id] == s->at[b->id];
}

static bool pipeline_schedule_begins(const items *s, const mf_node *n)
{
    for (int k = 0; k < n->n_inputs; k++) {
        if (are_together(s, n->inputs[k].node, n))
            return false;
    }
    return true;
}

static void find_leads(const items *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const mf_node *n = s->graph->nodes[i];

        for (int k = 0; k < n->n_inputs; k++) {
            if (are_together(s, n->inputs[k].node, n))
                s->leads[n->inputs[k].node->id] = true;
        }
    }
}

/* The first nodes of an item wait for the last nodes of the previous item, and for what those
 * waited for. */
static mf_status order_after(const items *s, int before, mf_node **micro_batch)
{
    const mf_node_spec spec = { .name = mf_graph_unique_name(s->graph, "_micro_batch"),
                                .op = "_MeshOrder" };
    mf_node *node;

    if (!spec.name)
        return MF_NOMEM("a pipeline");
    MF_TRY(mf_graph_add(s->graph, &spec, &node));
    if (*micro_batch)
        mf_control(s->graph, node, *micro_batch);
    for (int64_t i = 0; i < s->n; i++) {
        mf_node *n = s->graph->nodes[i];

        if (s->marked[n->id] && s->at[n->id] == before && !s->leads[n->id])
            mf_control(s->graph, node, n);
        if (s->marked[n->id] && s->at[n->id] == before + 1 && pipeline_schedule_begins(s, n))
            mf_control(s->graph, n, node);
    }
    *micro_batch = node;
    return mf_graph_status(s->graph);
}

mf_status mf_mesh_schedule(mf_graph *graph, const mf_pipeline_plan *plan, int stage)
{
    items s = { .graph = graph, .plan = *plan };
    mf_node *micro_batch = NULL;

    s.plan.micro_batches = 0;
    MF_TRY(read_micro_batches(&s));
    MF_TRY(pipeline_schedule_find_places(&s, stage));
    MF_TRY(find_items(&s));
    MF_TRY(unmark_free(&s));
    find_leads(&s);
    for (int i = 0; i + 1 < mf_pipeline_items(&s.plan); i++)
        MF_TRY(order_after(&s, i, &micro_batch));
    return MF_OK;
}
