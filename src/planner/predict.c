/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - predicts time, traffic and memory of a step under a layout. */
#include "planner/predict.h"

#include "base/mem.h"
#include "planner/device_memory.h"
#include "planner/predict_device.h"
#include "spmd/lower/spmd_lower.h"

typedef struct prediction {
    const mf_mesh_setup *setup;
    mf_stages stages;
    mf_predicted_device of;
    int n; /* devices that are predicted: */
    bool samples; /* the first one of each stage; else those of the setup */
    int *which; /* by predicted device: its number */
    mf_mesh_device_prediction *all;
    mf_predicted_device_part *parts; /* mf_stage_items() of each device */
} prediction;

/* ---- devices ---- */

/* A step, lowered for a layout. */
typedef struct predict_lowered {
    mf_mesh_variables variables;
    mf_mesh_costs costs;
    mf_graph **graphs; /* by device of the setup */
    int64_t *receives; /* by device of the setup */
} predict_lowered;

static void lowered_deinit(predict_lowered *l, int n)
{
    for (int i = 0; l->graphs && i < n; i++)
        mf_graph_free(l->graphs[i]);
    mf_free(l->graphs);
    mf_free(l->receives);
    if (l->costs.arena)
        mf_mesh_costs_deinit(&l->costs);
    if (l->variables.arena)
        mf_mesh_variables_deinit(&l->variables);
}

static mf_status predict_lower(const prediction *p, const mf_mesh_setup *setup, predict_lowered *l)
{
    mf_signature sig;

    l->graphs = mf_calloc(setup->n, sizeof *l->graphs);
    l->receives = mf_calloc(setup->n, sizeof *l->receives);
    if (!l->graphs || !l->receives)
        return MF_NOMEM("a prediction");
    MF_TRY(mf_mesh_variables_init(&l->variables));
    MF_TRY(mf_mesh_costs_init(&l->costs));
    MF_TRY(mf_mesh_variables_add(&l->variables, setup, p->of.step->graph));
    MF_TRY(mf_signature_find(p->of.step->graph, &p->of.step->names, p->of.arena, &sig));
    sig.feed_shapes = p->of.step->feed_shapes;
    return mf_mesh_compile(p->of.step->graph, &sig, setup, &l->variables, l->graphs, l->receives,
                           &l->costs);
}

/* Devices of one compilation have consecutive numbers. i: index of the first of them in p->which.
 */
static mf_status predict_device(prediction *p, const mf_mesh_setup *setup, int i)
{
    predict_lowered l = { 0 };
    mf_status st = predict_lower(p, setup, &l);

    for (int k = 0; st == MF_OK && k < setup->n; k++) {
        p->of.out = &p->all[i + k];
        p->of.parts = &p->parts[(int64_t)(i + k) * mf_stage_items(p->stages.micro_batches)];
        p->which[i + k] = setup->first + k;
        p->of.stage = mf_meshes_of(&setup->meshes, setup->first + k);
        *p->of.out = (mf_mesh_device_prediction){ .variable_bytes = mf_memory_of_variables(
                                                      p->of.step->graph, &l.variables,
                                                      &setup->meshes, setup->first + k) };
        st = mf_predicted_device_predict(&p->of, l.graphs[k]);
    }
    lowered_deinit(&l, setup->n);
    return st;
}

/* Of a stage that is not predicted completely, the first device, which has the largest shards. */
static mf_status predict_all_devices(prediction *p)
{
    mf_mesh_setup one = *p->setup;

    if (!p->samples)
        return predict_device(p, p->setup, 0);
    one.n = 1;
    for (int k = 0; k < p->n; k++) {
        one.first = p->setup->meshes.at[k].first;
        MF_TRY(predict_device(p, &one, k));
    }
    return MF_OK;
}

/* ---- totals ---- */

static void predict_max(int64_t *a, int64_t b)
{
    *a = b > *a ? b : *a;
}

static void add_maximums(const prediction *p, mf_prediction *out)
{
    for (int i = 0; i < p->n; i++) {
        const mf_mesh_device_prediction *is = &p->all[i];

        predict_max(&out->sent_bytes, is->sent_bytes);
        predict_max(&out->received_bytes, is->received_bytes);
        predict_max(&out->link_bytes, is->link_bytes);
        predict_max(&out->variable_bytes, is->variable_bytes);
        predict_max(&out->activation_bytes, is->activation_bytes);
        predict_max(&out->memory_bytes, is->variable_bytes + is->activation_bytes);
        predict_max(&out->collectives, is->collectives);
        predict_max(&out->rounds, is->rounds);
    }
}

static bool predict_is_of(const prediction *p, int i, int stage)
{
    return mf_mesh_has(&p->setup->meshes.at[stage], p->which[i]);
}

/* One item of a stage, over all of its devices: a device that was not predicted is like a device
 * that was. Bytes share one memory bus, or each device has its own link. */
static mf_stage_item predict_item_of(const prediction *p, int stage, int k)
{
    const mf_planned_machine *m = p->of.machine;
    const mf_links *l = &m->links;
    mf_predicted_device_part longest = { 0 };
    mf_stage_item item;
    double work = 0, bytes = 0, seen = 0, like;

    for (int i = 0; i < p->n; i++) {
        const mf_predicted_device_part *part =
            &p->parts[i * mf_stage_items(p->stages.micro_batches) + k];

        if (!predict_is_of(p, i, stage))
            continue;
        seen++;
        work += part->compute_ns;
        bytes += (double)part->received_bytes;
        if (part->compute_ns > longest.compute_ns)
            longest.compute_ns = part->compute_ns;
        predict_max(&longest.received_bytes, part->received_bytes);
        predict_max(&longest.collectives, part->collectives);
        predict_max(&longest.rounds, part->rounds);
    }
    like = seen > 0 ? p->setup->meshes.at[stage].n / seen : 0;
    item.talk_ns = (double)longest.rounds * l->round_ns +
                   (double)(longest.collectives - longest.rounds) * l->collective_ns +
                   (m->cores > 0 ? bytes * like : (double)longest.received_bytes) * l->byte_ns;
    item.compute_ns = longest.compute_ns * (m->slowdown > 0 ? m->slowdown : 1);
    item.cores = longest.compute_ns > 0 ? m->threads * like * work / longest.compute_ns : 0;
    return item;
}

/* The time of the busiest stage without waiting. Shared cores are free for others while a device
 * waits; no stage is faster than its own work. */
static void add_busiest(const prediction *p, const mf_stage_item *items, mf_prediction *out)
{
    const int n = mf_stage_items(p->stages.micro_batches);
    double work = 0;

    for (int s = 0; s < p->stages.n; s++) {
        double compute = 0, talk = 0;

        for (int k = 0; k < n; k++) {
            const mf_stage_item *i = &items[s * n + k];

            compute += i->compute_ns;
            talk += i->talk_ns;
            work += i->compute_ns * i->cores;
        }
        out->compute_ns = compute > out->compute_ns ? compute : out->compute_ns;
        out->talk_ns = talk > out->talk_ns ? talk : out->talk_ns;
    }
    if (p->stages.cores > 0 && work / p->stages.cores > out->compute_ns)
        out->compute_ns = work / p->stages.cores;
}

static mf_status predict_add_times(prediction *p, mf_prediction *out)
{
    const int n = mf_stage_items(p->stages.micro_batches);
    mf_stage_item *items = MF_ARENA_ARRAY(p->of.arena, mf_stage_item, p->stages.n * n);
    double ns;

    if (!items)
        return MF_NOMEM("a prediction");
    for (int i = 0; i < p->stages.n * n; i++)
        items[i] = predict_item_of(p, i / n, i % n);
    p->stages.items = items;
    p->stages.cores = p->of.machine->cores;
    add_busiest(p, items, out);
    MF_TRY(mf_stages_time(&p->stages, &ns));
    out->wait_ns = ns - out->compute_ns - out->talk_ns;
    out->wait_ns = p->stages.micro_batches > 0 && out->wait_ns > 0 ? out->wait_ns : 0;
    out->step_ns = p->of.machine->links.step_ns + ns;
    return MF_OK;
}

/* ---- prediction ---- */

/* A batch has at most as many micro-batches as samples. */
static int micro_batches_of(const mf_planned_step *step, const mf_mesh_setup *setup)
{
    const int wanted = setup->micro_batches > 1 ? setup->micro_batches : 1;
    const mf_shape *fed = &step->feed_shapes[0];

    if (setup->meshes.n == 1)
        return 0;
    return step->names.n_feeds > 0 && fed->rank > 0 && fed->dims[0] < wanted ? (int)fed->dims[0]
                                                                             : wanted;
}

static mf_status predict_predict(prediction *p, mf_mesh_device_prediction *all, mf_prediction *out)
{
    const mf_mesh_setup *setup = p->setup;
    mf_arena *arena = p->of.arena;

    p->samples = !all && setup->meshes.n > 1 && setup->n < setup->meshes.devices;
    p->n = p->samples ? setup->meshes.n : setup->n;
    p->which = MF_ARENA_ARRAY(arena, int, p->n);
    p->all = all ? all : MF_ARENA_ARRAY(arena, mf_mesh_device_prediction, p->n);
    p->parts = MF_ARENA_ARRAY(arena, mf_predicted_device_part,
                              p->n * mf_stage_items(p->stages.micro_batches));
    if (!p->which || !p->all || !p->parts)
        return MF_NOMEM("a prediction");
    MF_TRY(predict_all_devices(p));
    add_maximums(p, out);
    return predict_add_times(p, out);
}

mf_status mf_predict_step(const mf_planned_step *step, const mf_planned_machine *machine,
                          const mf_mesh_setup *setup, mf_prediction *out,
                          mf_mesh_device_prediction *all)
{
    prediction p = { .setup = setup,
                     .stages = { .n = setup->meshes.n,
                                 .micro_batches = micro_batches_of(step, setup),
                                 .how = setup->pipeline },
                     .of = { .step = step,
                             .machine = machine,
                             .n_devices = setup->meshes.devices,
                             .arena = mf_arena_new() } };
    mf_status st = p.of.arena ? mf_resources_new(&p.of.state) : MF_NOMEM("a prediction");

    *out = (mf_prediction){ 0 };
    p.of.stages = &p.stages;
    if (st == MF_OK)
        st = predict_predict(&p, all, out);
    if (p.of.state)
        mf_resources_free(p.of.state);
    mf_arena_free(p.of.arena);
    return st;
}
