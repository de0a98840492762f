/* SPDX-License-Identifier: Apache-2.0 */
/* planning.c - options of the layout planner and the table of its results, for `plan` and `train
 * --auto`. */
#include "cli/planning.h"

#include "base/log.h"

#include <string.h>
#include <unistd.h>

enum { ROWS = 8 };

static const double MIB = 1024.0 * 1024.0;

static mf_status planning_read_mesh(mf_args *args, mf_planning_options *out)
{
    const char *mesh = mf_args_value(args, "mesh"), *layout = mf_args_value(args, "layout");

    if (mesh) {
        MF_TRY(mf_mesh_parse(mesh, &out->mesh));
        out->opts.mesh = &out->mesh;
    }
    if (layout) {
        MF_TRY(mf_layout_rules_parse(layout, &out->layout));
        out->opts.layout = &out->layout;
    }
    return MF_OK;
}

mf_status mf_planning_read(mf_args *args, mf_planning_options *out)
{
    const bool mesh = mf_args_has(args, "mesh");
    mf_planner_options *w = &out->opts;
    int64_t devices = 0, simulated = 0, memory = 0, threads = 0, micro = 0;
    double latency = 0, bandwidth = 0;

    MF_TRY(mf_args_int(args, "devices", 1, MF_MESH_DEVICES, &devices));
    MF_TRY(mf_args_int(args, "simulate", 1, MF_MESH_DEVICES, &simulated));
    MF_TRY(mf_args_int(args, "memory", 1, INT64_MAX >> 20, &memory));
    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    MF_TRY(mf_args_int(args, "micro-batches", 1, 4096, &micro));
    MF_TRY(mf_args_double(args, "latency", 0.0, 1e9, &latency));
    MF_TRY(mf_args_double(args, "bandwidth", 1e-3, 1e9, &bandwidth));
    if (mesh && (devices > 0 || simulated > 0))
        return mf_args_wrong(args, "--mesh determines the number of devices: give it without "
                                   "--devices and --simulate, or give one of these alone");
    if (devices > 0 && simulated > 0)
        return mf_args_wrong(args, "--devices are threads of this process, --simulate are "
                                   "other machines: give one of them");
    if (mf_args_has(args, "layout") && !mesh)
        return mf_args_wrong(args, "--layout needs --mesh: \"rows:2;cols:2\"");
    if ((latency > 0 || bandwidth > 0) && simulated == 0)
        return mf_args_wrong(args, "--latency and --bandwidth describe simulated links: they "
                                   "need --simulate");
    *w = (mf_planner_options){ .devices = (int)(simulated > 0 ? simulated : devices),
                               .simulated = simulated > 0,
                               .latency_ns = latency * 1e3,
                               .byte_ns = bandwidth > 0 ? 1e9 / (bandwidth * MIB) : 0,
                               .threads = (int)threads,
                               .batch = 32,
                               .micro_batches = (int)micro,
                               .memory = memory << 20,
                               .exact = mf_args_has(args, "exact") };
    if (!mesh && w->devices == 0)
        w->devices = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return planning_read_mesh(args, out);
}

mf_status mf_planning_run(mf_model *model, const mf_compile_options *compile,
                          const mf_planner_options *opts, mf_planner_answer *out)
{
    mf_compile_options o = *compile;
    mf_trainer *t;
    mf_status st;

    *out = (mf_planner_answer){ 0 };
    o.strategy = NULL;
    MF_TRY(mf_model_compile(model, &o, &t));
    st = mf_planner_run(t, opts, out);
    mf_trainer_free(t);
    return st;
}

/* ---- for train --auto ---- */

void mf_chosen_deinit(mf_chosen *c)
{
    mf_buf_deinit(&c->mesh);
    mf_buf_deinit(&c->layout);
    mf_buf_deinit(&c->name);
}

/* Prints the chosen mesh and layout. */
static mf_status planning_show(mf_chosen *c)
{
    mf_mesh_spec_text(&c->spec, &c->mesh, &c->layout);
    MF_TRY(mf_buf_finish(&c->mesh));
    return mf_buf_finish(&c->layout);
}

static mf_status keep_best(const mf_planner_answer *a, const mf_planner_options *opts,
                           mf_chosen *out)
{
    const mf_candidate *best = &a->found.all[0];

    if (!a->found.fits)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "no layout fits %lld MiB for each device: `meshflow plan` shows what "
                       "they need",
                       (long long)(opts->memory >> 20));
    out->is = best->is;
    out->micro_batches = best->micro_batches;
    out->correction = best->correction;
    mf_candidate_name(&a->found.dims, best, &out->name);
    MF_TRY(mf_buf_finish(&out->name));
    MF_TRY(mf_candidate_spec(&a->found.dims, best, &out->spec));
    MF_TRY(planning_show(out));
    MF_INFO("mesh '%s', layout '%s': the best of %lld, chosen in %.1f s; a step should take %.3f "
            "ms",
            out->mesh.data, out->layout.data, (long long)a->found.n,
            a->links_seconds + a->search_seconds, out->is.step_ns * 1e-6);
    return MF_OK;
}

static mf_status planning_options_of(const mf_planning_call *call, mf_planning_options *out)
{
    mf_planner_options *w = &out->opts;

    MF_TRY(mf_planning_read(call->args, out));
    w->batch = call->batch;
    w->links = call->links;
    w->hosts = call->hosts;
    if (call->micro_batches > 0)
        w->micro_batches = call->micro_batches;
    if (call->workers > 1 && !mf_args_has(call->args, "devices"))
        w->devices = call->workers;
    return MF_OK;
}

/* The key of a training in the history. */
static void write_name(const mf_planning_call *call, const mf_planner_options *opts, mf_buf *out)
{
    const char *optimizer = mf_args_value(call->args, "optimizer");

    mf_buf_printf(out, "%s, %lld samples, %s, %d devices of %d workers on %d hosts%s",
                  call->job->model_text, (long long)call->batch, optimizer ? optimizer : "sgd",
                  opts->mesh ? opts->mesh->n : opts->devices, call->workers > 1 ? call->workers : 1,
                  call->hosts > 1 ? call->hosts : 1, opts->exact ? ", exact" : "");
}

static mf_status planning_choose(const mf_planning_call *call, const mf_planner_options *opts,
                                 mf_chosen *out)
{
    mf_compile_options compile = call->job->compile;
    mf_planner_answer answer = { 0 };
    mf_model *model;
    mf_status st;

    MF_TRY(mf_model_zoo(call->job->model_text, call->job->train, &model));
    mf_job_losses(call->job, call->args, model, &compile);
    st = mf_job_freeze(call->args, model);
    if (st == MF_OK)
        st = mf_planning_run(model, &compile, opts, &answer);
    if (st == MF_OK)
        st = keep_best(&answer, opts, out);
    mf_planner_answer_deinit(&answer);
    mf_model_free(model);
    return st;
}

typedef struct past {
    mf_history history;
    mf_buf path, name;
} past;

static mf_status past_open(past *p, const mf_planning_call *call, const mf_planner_options *opts)
{
    mf_history_path(&p->path);
    write_name(call, opts, &p->name);
    MF_TRY(mf_buf_finish(&p->name));
    MF_TRY(mf_buf_finish(&p->path));
    return p->path.len > 0 ? mf_history_read(p->path.data, &p->history) : MF_OK;
}

static void past_close(past *p)
{
    mf_history_deinit(&p->history);
    mf_buf_deinit(&p->path);
    mf_buf_deinit(&p->name);
}

mf_status mf_planning_choose(const mf_planning_call *call, mf_chosen *out)
{
    mf_planning_options w;
    past p = { 0 };
    mf_status st;

    MF_TRY(planning_options_of(call, &w));
    st = past_open(&p, call, &w.opts);
    w.opts.history = &p.history;
    w.opts.name = p.name.data;
    if (st == MF_OK)
        st = planning_choose(call, &w.opts, out);
    past_close(&p);
    return st;
}

mf_status mf_planning_start(const mf_planning_call *call, mf_chosen *out)
{
    mf_planning_options w;

    MF_TRY(planning_options_of(call, &w));
    if (!w.opts.mesh)
        (void)mf_plan_meshes(w.opts.devices, &w.mesh, 1);
    mf_mesh_spec_one(&w.mesh, &out->spec);
    return planning_show(out);
}

void mf_planning_remember(const mf_planning_call *call, const mf_chosen *chosen, double step_ns)
{
    mf_planning_options w;
    past p = { 0 };
    mf_status st = planning_options_of(call, &w);

    if (st == MF_OK)
        st = past_open(&p, call, &w.opts);
    if (st == MF_OK && p.path.len > 0)
        st = mf_history_add(&p.history, p.name.data, chosen->name.data,
                            step_ns * chosen->correction / chosen->is.step_ns);
    if (st == MF_OK && p.path.len > 0)
        st = mf_history_write(&p.history, p.path.data);
    if (st != MF_OK)
        MF_WARN("the step time is not recorded for later planning: %s", mf_error_message());
    past_close(&p);
}

/* ---- a table ---- */

static bool too_large(const mf_planner_options *w, const mf_candidate *c)
{
    return w->memory > 0 && mf_prediction_memory(&c->is) > w->memory;
}

/* What makes a layout worse than the best one. */
static void print_why(const mf_planner_options *w, const mf_candidate *best, const mf_candidate *c,
                      mf_buf *out)
{
    const double compute = c->is.compute_ns - best->is.compute_ns;
    const double talk = c->is.talk_ns - best->is.talk_ns;
    const double wait = c->is.wait_ns - best->is.wait_ns;

    if (too_large(w, c))
        mf_buf_printf(out, "memory: %.1f MiB over the limit",
                      (double)(mf_prediction_memory(&c->is) - w->memory) / MIB);
    else if (c == best)
        mf_buf_str(out, "the quickest");
    else if (compute <= 0 && talk <= 0 && wait <= 0)
        mf_buf_printf(out, "%s: %.2f ms more", c->tried ? "when tried" : "like others in trials",
                      (c->is.step_ns - best->is.step_ns) * 1e-6);
    else if (wait > compute && wait > talk)
        mf_buf_printf(out, "pipeline bubble: %.2f ms more", wait * 1e-6);
    else if (compute >= talk)
        mf_buf_printf(out, "compute: %.2f ms more", compute * 1e-6);
    else
        mf_buf_printf(out, "communication: %.2f ms more", talk * 1e-6);
}

static void planning_print_row(const mf_planner_answer *a, const mf_planner_options *w,
                               const mf_candidate *c, mf_buf *out)
{
    mf_buf layout = { 0 }, mesh = { 0 };

    mf_candidate_layout(&a->found.dims, c, &layout);
    mf_mesh_text(&c->mesh, &mesh);
    mf_buf_printf(out,
                  "%10.3f %-5s %10.3f %10.3f %10.3f %10.3f %6d %5d %6lld %10.3f %10.3f %9.2f %9.2f "
                  " %-16s %-44s ",
                  c->is.step_ns * 1e-6, c->tried ? "tried" : "", c->model_ns * 1e-6,
                  c->is.compute_ns * 1e-6, c->is.talk_ns * 1e-6, c->is.wait_ns * 1e-6,
                  mf_candidate_stages(c), c->micro_batches > 1 ? c->micro_batches : 1,
                  (long long)c->is.collectives, (double)c->is.sent_bytes / MIB,
                  (double)c->is.link_bytes / MIB, (double)c->is.variable_bytes / MIB,
                  (double)c->is.activation_bytes / MIB, mesh.data ? mesh.data : "",
                  layout.len > 0 ? layout.data : "(nothing is sharded)");
    print_why(w, &a->found.all[0], c, out);
    mf_buf_str(out, "\n");
    mf_buf_deinit(&layout);
    mf_buf_deinit(&mesh);
}

static void print_machine(const mf_planner_answer *a, const mf_planner_options *w, mf_buf *out)
{
    mf_buf_printf(
        out,
        "machine: a step starts in %.0f us, a round takes %.0f us, a further collective %.1f us, "
        "%.2f GB/s %s; %lld kernels measured alone, in a step they take %.2f times as long\n",
        a->links.step_ns * 1e-3, a->links.round_ns * 1e-3, a->links.collective_ns * 1e-3,
        a->links.byte_ns > 0 ? 1 / a->links.byte_ns : 0.0,
        w->simulated ? "into each device" : "in all", (long long)a->kernels, a->slowdown);
}

static void print_search(const mf_planner_answer *a, mf_buf *out)
{
    const int64_t layouts = a->found.n - a->found.pipelines;
    int64_t impossible = 0;

    for (int64_t i = 0; i < a->found.n; i++)
        impossible += a->found.all[i].status != MF_OK;
    if (a->found.exhaustive)
        mf_buf_printf(out, "search: exhaustive, all %lld layouts", (long long)layouts);
    else
        mf_buf_printf(out, "search: by beam, %lld layouts and not all", (long long)layouts);
    if (a->found.pipelines > 0)
        mf_buf_printf(out, ", and %lld pipelines%s", (long long)a->found.pipelines,
                      a->found.pipelines_left ? " of more" : "");
    if (a->found.trials > 0)
        mf_buf_printf(out, ", %d trials", a->found.trials);
    mf_buf_printf(out, " (%lld impossible), %.1f s, kernels %.1f s of it; links %.1f s\n",
                  (long long)impossible, a->search_seconds, a->kernel_seconds, a->links_seconds);
}

void mf_planning_print(const mf_planner_answer *a, const mf_planner_options *w, mf_buf *out)
{
    print_machine(a, w, out);
    print_search(a, out);
    mf_buf_str(out, "   step ms          model ms compute ms    talk ms    wait ms stages micro  "
                    "colls   sent MiB   "
                    "link MiB weights M  "
                    "values M  mesh             layout                                       "
                    "why\n");
    for (int64_t i = 0; i < a->found.n && i < ROWS; i++) {
        const mf_candidate *c = &a->found.all[i];

        if (c->status == MF_OK && (i == 0 || !mf_candidate_same(c, &c[-1])))
            planning_print_row(a, w, c, out);
    }
    if (!a->found.fits)
        mf_buf_printf(out, "no layout fits %.0f MiB: the minimum is %.1f MiB for each device\n",
                      (double)w->memory / MIB,
                      (double)mf_prediction_memory(&a->found.all[0].is) / MIB);
}

/* ---- JSON ---- */

static void print_json_row(const mf_planner_answer *a, const mf_planner_options *w,
                           const mf_candidate *c, mf_buf *out)
{
    mf_buf layout = { 0 }, mesh = { 0 }, why = { 0 };

    mf_candidate_layout(&a->found.dims, c, &layout);
    mf_mesh_text(&c->mesh, &mesh);
    print_why(w, &a->found.all[0], c, &why);
    mf_buf_printf(out,
                  "{\"mesh\":\"%s\",\"layout\":\"%s\",\"step_seconds\":%.6g,\"tried\":%s,"
                  "\"model_seconds\":%.6g,\"compute_seconds\":%.6g,"
                  "\"talk_seconds\":%.6g,\"wait_seconds\":%.6g,\"stages\":%d,\"micro_batches\":%d,"
                  "\"collectives\":%lld,\"rounds\":%lld,\"sent_bytes\":%lld,"
                  "\"received_bytes\":%lld,\"link_bytes\":%lld,\"variable_bytes\":%lld,"
                  "\"activation_bytes\":%lld,\"memory_bytes\":%lld,\"all_devices\":%s,\"fits\":%s,"
                  "\"why\":\"%s\"}",
                  mesh.data ? mesh.data : "", layout.data ? layout.data : "", c->is.step_ns * 1e-9,
                  c->tried ? "true" : "false", c->model_ns * 1e-9, c->is.compute_ns * 1e-9,
                  c->is.talk_ns * 1e-9, c->is.wait_ns * 1e-9, mf_candidate_stages(c),
                  c->micro_batches > 1 ? c->micro_batches : 1, (long long)c->is.collectives,
                  (long long)c->is.rounds, (long long)c->is.sent_bytes,
                  (long long)c->is.received_bytes, (long long)c->is.link_bytes,
                  (long long)c->is.variable_bytes, (long long)c->is.activation_bytes,
                  (long long)c->is.memory_bytes, c->all_devices ? "true" : "false",
                  too_large(w, c) ? "false" : "true", why.data ? why.data : "");
    mf_buf_deinit(&layout);
    mf_buf_deinit(&mesh);
    mf_buf_deinit(&why);
}

void mf_planning_print_json(const mf_planner_answer *a, const mf_planner_options *w, mf_buf *out)
{
    mf_buf_printf(
        out,
        "{\"fits\":%s,\"exhaustive\":%s,\"predicted\":%lld,\"pipelines\":%lld,\"search_seconds\":%."
        "3g,"
        "\"links_seconds\":%.3g,\"kernel_seconds\":%.3g,\"kernels\":%lld,\"company\":%.4g,"
        "\"layouts\":[",
        a->found.fits ? "true" : "false", a->found.exhaustive ? "true" : "false",
        (long long)a->found.n, (long long)a->found.pipelines, a->search_seconds, a->links_seconds,
        a->kernel_seconds, (long long)a->kernels, a->slowdown);
    for (int64_t i = 0; i < a->found.n && a->found.all[i].status == MF_OK; i++) {
        mf_buf_str(out, i ? "," : "");
        print_json_row(a, w, &a->found.all[i], out);
    }
    mf_buf_str(out, "]}\n");
}
