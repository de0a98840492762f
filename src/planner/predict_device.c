/* SPDX-License-Identifier: Apache-2.0 */
/* predict_device.c - predicts time and memory of one device from its compiled graph. */
#include "planner/predict_device.h"

#include "base/mem.h"
#include "planner/traffic.h"
#include "spmd/lower/spmd_lower.h"

#include <stdio.h>
#include <string.h>

static mf_status end_names(mf_arena *arena, bool fetch, int n, const char ***out)
{
    *out = MF_ARENA_ARRAY(arena, const char *, n + 1);
    for (int i = 0; *out && i < n; i++) {
        char name[MF_MESH_END_NAME];

        (void)snprintf(name, sizeof name, fetch ? MF_MESH_FETCH : MF_MESH_FEED, i);
        if (!((*out)[i] = mf_arena_strdup(arena, name)))
            return MF_NOMEM("a prediction");
    }
    return *out ? MF_OK : MF_NOMEM("a prediction");
}

/* The nodes to run: targets of other meshes do not exist here, and sends to them must complete. */
static mf_status predict_device_find_targets(const mf_predicted_device *p, const mf_graph *g,
                                             mf_run_names *names)
{
    const char **targets = MF_ARENA_ARRAY(p->arena, const char *, names->n_targets + 1);
    int n = 0;

    if (!targets)
        return MF_NOMEM("a prediction");
    for (int i = 0; i < names->n_targets; i++) {
        if (mf_graph_find(g, names->targets[i]))
            targets[n++] = names->targets[i];
    }
    if (mf_graph_find(g, MF_MESH_SENT))
        targets[n++] = MF_MESH_SENT;
    names->targets = targets;
    names->n_targets = n;
    return MF_OK;
}

static mf_status find_signature(const mf_predicted_device *p, const mf_graph *g, mf_signature *sig)
{
    mf_run_names names = p->step->names;
    const char **feeds, **fetches;

    MF_TRY(end_names(p->arena, false, names.n_feeds, &feeds));
    MF_TRY(end_names(p->arena, true, names.n_fetches, &fetches));
    MF_TRY(predict_device_find_targets(p, g, &names));
    names.feeds = feeds;
    names.fetches = fetches;
    MF_TRY(mf_signature_find(g, &names, p->arena, sig));
    sig->feed_shapes = p->step->feed_shapes;
    return MF_OK;
}

/* ---- time ---- */

typedef struct predict_device_work {
    const mf_predicted_device *p;
    const mf_compile *c; /* inferred facts of the nodes */
    const int *part; /* by node id: index of its item in p->parts */
} predict_device_work;

static void add_kernel(const predict_device_work *w, const mf_node *n, void *state)
{
    const double ns = mf_op_time(w->p->machine->times, w->c, n, state);

    w->p->out->compute_ns += ns;
    w->p->parts[w->part[n->id]].compute_ns += ns;
}

static void add_kernels(const predict_device_work *w, const mf_program *program)
{
    for (int i = 0; i < program->n_items; i++) {
        const mf_item *item = &program->items[i];

        if (item->kind == MF_ITEM_OP)
            add_kernel(w, item->node, item->kernel.state);
        for (int e = 0; item->plan && e < item->plan->n_entries; e++)
            add_kernel(w, item->plan->entries[e].node, item->plan->entries[e].kernel.state);
    }
}

static void predict_device_add_part(const mf_predicted_device *p, int i, const mf_traffic_counts *t)
{
    p->parts[i].received_bytes = t->received;
    p->parts[i].collectives = t->collectives;
    p->parts[i].rounds = t->rounds;
    p->out->sent_bytes += t->sent;
    p->out->received_bytes += t->received;
    p->out->collectives += t->collectives;
    p->out->rounds += t->rounds;
}

static mf_status add_traffic(const predict_device_work *w, mf_node *const *order, int64_t n)
{
    const mf_predicted_device *p = w->p;
    const int n_parts = mf_stage_items(p->stages->micro_batches);
    int64_t *to = MF_ARENA_ARRAY(p->arena, int64_t, p->n_devices);
    mf_traffic_counts *t = MF_ARENA_ARRAY(p->arena, mf_traffic_counts, n_parts);

    if (!to || !t)
        return MF_NOMEM("a prediction");
    for (int i = 0; i < n_parts; i++)
        t[i].to = to;
    MF_TRY(mf_traffic_of(order, n, w->c->graph->n_nodes, w->part, t));
    for (int i = 0; i < n_parts; i++)
        predict_device_add_part(p, i, &t[i]);
    for (int i = 0; i < p->n_devices; i++)
        p->out->link_bytes = to[i] > p->out->link_bytes ? to[i] : p->out->link_bytes;
    return MF_OK;
}

/* ---- memory ---- */

typedef struct kernels {
    mf_op_times *times;
    const mf_compile *c;
    int64_t *to; /* by device; not used here */
} kernels;

/* Slices that are sent are packed first, unless they are contiguous. */
static int64_t predict_device_scratch_of(void *ctx, const mf_node *n, void *state)
{
    const kernels *k = ctx;
    mf_traffic_counts t = { .to = k->to };
    int64_t n_boxes;

    mf_traffic_add(n, &t);
    if (t.sent == 0)
        return mf_op_scratch(k->times, k->c, n, state);
    (void)mf_node_ints(n, "boxes", &n_boxes);
    return strcmp(n->op_name, "_MeshReduce") == 0 && n_boxes == 0 ? 0 : t.sent;
}

/* ---- prediction ---- */

static mf_status predict_device_examine(const mf_predicted_device *p, const mf_compile *c,
                                        const mf_program *program, mf_node *const *order, int64_t n)
{
    int *part = MF_ARENA_ARRAY(p->arena, int, program->graph->n_nodes + 1);
    const predict_device_work w = { p, c, part };
    kernels k = { p->machine->times, c, MF_ARENA_ARRAY(p->arena, int64_t, p->n_devices) };

    if (!part || !k.to)
        return MF_NOMEM("a prediction");
    mf_stage_parts(order, n, p->stages, p->stage, part);
    add_kernels(&w, program);
    MF_TRY(add_traffic(&w, order, n));
    return mf_program_peak(c, program, predict_device_scratch_of, &k, &p->out->activation_bytes);
}

/* c: the compilation, for its facts. */
static mf_status predict_device_examine_all(const mf_predicted_device *p, const mf_compile *c,
                                            const mf_program *program)
{
    const mf_compile whole = {
        .graph = program->graph, .facts = c->facts, .n_facts = c->n_facts, .cap_facts = c->cap_facts
    };
    mf_node **order;
    int64_t n;
    mf_status st;

    MF_TRY(mf_compile_order(&whole, &order, &n));
    st = predict_device_examine(p, &whole, program, order, n);
    mf_free(order);
    return st;
}

mf_status mf_predicted_device_predict(const mf_predicted_device *p, const mf_graph *g)
{
    mf_compile c = { .session = p->state };
    mf_program *program = NULL;
    mf_signature sig;
    mf_status st;

    MF_TRY(mf_passes_parse(p->step->disable, &c.disabled));
    MF_TRY(find_signature(p, g, &sig));
    MF_TRY_TO(done, mf_compile_begin(&c, g, &sig));
    MF_TRY_TO(done, mf_compile_late_reads(&c));
    MF_TRY_TO(done, mf_compile_passes(&c));
    MF_TRY_TO(done, mf_program_build(&c, &program));
    st = predict_device_examine_all(p, &c, program);
done:
    mf_compile_end(&c);
    mf_program_free(program);
    return st;
}
