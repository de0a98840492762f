/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c - `meshflow plan`: finds the best layout of a model on a mesh. */
#include "cli/planning.h"
#include "cli/train_options_read.h"
#include "models/zoo.h"

/* Without data: the model for the example data of `meshflow models`. */
static mf_status example_model(mf_job *job, mf_arena *arena)
{
    const char *head, *rest;
    const mf_zoo_kind *kind;
    mf_column *columns;
    int64_t classes;
    int n;

    MF_TRY(mf_options_head(job->model_text, arena, &head, &rest));
    kind = mf_zoo_find(head);
    if (!kind) /* fails, and lists the known models */
        return mf_zoo_build(job->model_text, NULL, 0, 0, &job->model);
    MF_TRY(mf_zoo_columns(kind->example, arena, &columns, &n, &classes));
    return mf_zoo_build(job->model_text, columns, n, classes, &job->model);
}

static mf_status cmd_plan_load(mf_job *job, mf_args *args, mf_arena *arena)
{
    MF_TRY(mf_args_value(args, "data") ? mf_job_load(job, args, true) : example_model(job, arena));
    mf_job_losses(job, args, job->model, &job->compile);
    return mf_job_freeze(args, job->model);
}

static mf_status cmd_plan_print(mf_args *args, const mf_planner_answer *a,
                                const mf_planner_options *opts)
{
    mf_buf out = { 0 };

    if (mf_args_has(args, "json"))
        mf_planning_print_json(a, opts, &out);
    else
        mf_planning_print(a, opts, &out);
    MF_TRY(mf_cli_print(&out));
    if (a->found.fits)
        return MF_OK;
    mf_args_hint(args, "use more devices, smaller batches, or shard weights along more axes");
    return MF_FAIL(MF_RESOURCE_EXHAUSTED, "no layout fits %lld MiB for each device",
                   (long long)(opts->memory >> 20));
}

static mf_status cmd_plan(mf_job *job, mf_args *args, mf_arena *arena)
{
    mf_fit_options fit = { 0 };
    mf_planning_options w;
    mf_planner_answer answer;
    mf_status st;

    MF_TRY(mf_train_options_read(args, &job->compile, &fit));
    MF_TRY(mf_planning_read(args, &w));
    w.opts.batch = fit.batch;
    MF_TRY(cmd_plan_load(job, args, arena));
    st = mf_planning_run(job->model, &job->compile, &w.opts, &answer);
    if (st == MF_OK)
        st = cmd_plan_print(args, &answer, &w.opts);
    mf_planner_answer_deinit(&answer);
    return st;
}

static mf_status plan_run(mf_args *args)
{
    mf_arena *arena = mf_arena_new();
    mf_job job = { 0 };
    mf_status st = arena ? mf_job_open(&job, args, NULL) : MF_NOMEM("a plan");

    if (st == MF_OK)
        st = cmd_plan(&job, args, arena);
    mf_job_deinit(&job);
    mf_arena_free(arena);
    return st;
}

static const mf_option options[] = {
    MF_JOB_OPTIONS,
    { .name = "batch", .value = "N", .help = "samples of a step; default: 32" },
    { .name = "micro-batches",
      .value = "N",
      .help = "micro-batches of a batch; default: the best number for pipelines, else 1" },
    { .name = "optimizer",
      .value = "OPT",
      .help = "with settings: 'momentum momentum=0.9'; default: sgd" },
    { .name = "clip", .value = "HOW", .help = "clip gradients: value=1, norm=1 or global_norm=1" },
    { .name = "ema", .value = "DECAY", .help = "keep a moving average of the weights" },
    { .name = "freeze",
      .value = "PATTERN",
      .help = "do not train weights whose names match",
      .many = true },
    { .name = "mesh",
      .value = "AXES",
      .help = "the mesh: 'rows:2;cols:2'; its devices are threads of this process" },
    { .name = "layout",
      .value = "RULES",
      .help = "predict this layout only: 'batch:rows;hidden:cols'" },
    { .name = "devices",
      .old = "processors",
      .value = "N",
      .help = "devices, threads of this process, as a mesh of any shape; default: the number of "
              "cores" },
    { .name = "simulate",
      .value = "N",
      .help = "predict for N machines like this one, as a mesh of any shape" },
    { .name = "latency",
      .value = "US",
      .help = "with --simulate: microseconds of latency in addition to that between threads" },
    { .name = "bandwidth", .value = "MIBS", .help = "with --simulate: MiB/s into each device" },
    { .name = "memory",
      .value = "MIB",
      .help = "memory of each device for weights and values; default: unlimited" },
    { .name = "exact",
      .help = "do not shard dimensions that an op sums over: bit-identical to one device" },
    { 0 },
};

const mf_command mf_command_plan = {
    .name = "plan",
    .arguments = "",
    .summary = "find the best layout of a model on a mesh",
    .about = "Measures kernels and links on this machine, predicts step time, bytes and memory "
             "of layouts. Prints the best ones and why the others are worse. Without "
             "--data, the model is built for the example data of `meshflow models`. See "
             "docs/guides/planner.md.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow plan --model transformer --batch 32 --mesh 'rows:2;cols:2'",
            "meshflow plan --model mlp --data fashion-mnist --devices 4 "
            "--memory 64",
            "meshflow plan --model transformer --batch 4096 --simulate 256 "
            "--latency 20 --bandwidth 1000",
            NULL },
    .run = plan_run,
};
