/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench_step.c - `meshflow bench step`: measures a training step on synthetic data. */
#include "base/clock.h"
#include "cli/job.h"
#include "models/zoo.h"
#include "planner/planner.h"
#include "planner/step_flops.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5 };

typedef struct cmd_bench_step_bench {
    mf_arena *arena;
    const char *model_text;
    int64_t batch, steps;
    mf_compile_options compile;
    mf_dataset *data;
    mf_model *model;
    mf_trainer *trainer;
    int64_t first_step_ns;
    double flops; /* of a step */
    double rate[ROUNDS]; /* samples per second */
} cmd_bench_step_bench;

/* ---- data ---- */

/* Integers below `limit`, floats below 1; the values do not matter. */
static void cmd_bench_step_fill(mf_tensor *t, int64_t limit)
{
    for (int64_t i = 0; i < t->count; i++)
        mf_tensor_put(t, i,
                      mf_dtype_is_int(t->dtype) ? (double)(i * 7919 % limit)
                                                : (double)(i * 7919 % 1000) * 0.001);
}

static mf_status make_data(cmd_bench_step_bench *b, const mf_column *columns, int n,
                           int64_t classes)
{
    const char **names = MF_ARENA_ARRAY(b->arena, const char *, n);
    mf_tensor **values = MF_ARENA_ARRAY(b->arena, mf_tensor *, n);
    mf_status st = names && values ? MF_OK : MF_NOMEM("data");

    for (int i = 0; st == MF_OK && i < n; i++) {
        int64_t dims[MF_MAX_RANK] = { b->batch };

        memcpy(dims + 1, columns[i].dims, (size_t)columns[i].rank * sizeof *dims);
        names[i] = columns[i].name;
        st = mf_tensor_new(columns[i].dtype, dims, columns[i].rank + 1, &values[i]);
        if (st == MF_OK)
            cmd_bench_step_fill(values[i],
                                strcmp(names[i], "label") == 0 && classes > 0 ? classes : 100);
    }
    if (st == MF_OK)
        st = mf_dataset_of(names, (const mf_tensor *const *)values, n, &b->data);
    for (int i = 0; values && i < n; i++)
        mf_tensor_free(values[i]);
    return st;
}

static mf_status make_model(cmd_bench_step_bench *b)
{
    const char *head, *rest;
    const mf_zoo_kind *kind;
    mf_column *columns;
    int64_t classes;
    int n;

    MF_TRY(mf_options_head(b->model_text, b->arena, &head, &rest));
    kind = mf_zoo_find(head);
    if (!kind)
        return mf_zoo_build(b->model_text, NULL, 0, 0, &b->model);
    MF_TRY(mf_zoo_columns(kind->example, b->arena, &columns, &n, &classes));
    MF_TRY(make_data(b, columns, n, classes));
    MF_TRY(mf_zoo_build(b->model_text, columns, n, classes, &b->model));
    b->compile.loss = kind->loss;
    b->compile.metrics = kind->metrics;
    return mf_model_compile(b->model, &b->compile, &b->trainer);
}

/* ---- measurement ---- */

static mf_status cmd_bench_step_run_steps(cmd_bench_step_bench *b, int64_t steps)
{
    return mf_fit(b->trainer, b->data, NULL,
                  &(mf_fit_options){ .batch = b->batch,
                                     .in_order = true,
                                     .steps = mf_trainer_step(b->trainer) + steps });
}

static mf_status cmd_bench_step_count(cmd_bench_step_bench *b)
{
    mf_planned_step step;

    MF_TRY(mf_planned_step_of(b->trainer, b->batch, b->arena, &step));
    return mf_step_flops(&step, &b->flops);
}

static int cmd_bench_step_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static mf_status cmd_bench_step_measure(cmd_bench_step_bench *b)
{
    int64_t begin = mf_clock_ns();

    MF_TRY(cmd_bench_step_run_steps(b, 1));
    b->first_step_ns = mf_clock_ns() - begin;
    MF_TRY(cmd_bench_step_run_steps(b, 2));
    begin = mf_clock_ns();
    MF_TRY(cmd_bench_step_run_steps(b, 1));
    if (b->steps == 0) /* a fifth of a second for each round */
        b->steps = 1 + 200000000 / (mf_clock_ns() - begin + 1);
    for (int i = 0; i < ROUNDS; i++) {
        begin = mf_clock_ns();
        MF_TRY(cmd_bench_step_run_steps(b, b->steps));
        b->rate[i] = (double)(b->batch * b->steps) / ((double)(mf_clock_ns() - begin) * 1e-9);
    }
    qsort(b->rate, ROUNDS, sizeof b->rate[0], cmd_bench_step_ascending);
    return MF_OK;
}

static mf_status cmd_bench_step_print(const cmd_bench_step_bench *b, bool json)
{
    const double median = b->rate[ROUNDS / 2];
    mf_buf out = { 0 };

    if (json) {
        mf_buf_str(&out, "{\"model\":");
        mf_buf_json(&out, b->model_text, strlen(b->model_text));
        mf_buf_printf(&out,
                      ",\"batch\":%lld,\"shards\":%d,\"precision\":\"%s\","
                      "\"samples_per_second\":%.6g,\"samples_per_second_min\":%.6g,"
                      "\"samples_per_second_max\":%.6g,\"step_seconds\":%.6g,"
                      "\"first_step_seconds\":%.6g,\"flops_per_sample\":%.6g}\n",
                      (long long)b->batch, b->compile.shards,
                      b->compile.precision ? b->compile.precision : "fp32", median, b->rate[0],
                      b->rate[ROUNDS - 1], (double)b->batch / median,
                      (double)b->first_step_ns * 1e-9, b->flops / (double)b->batch);
    } else {
        mf_buf_printf(&out,
                      "%.0f samples/s (%.0f to %.0f), %.3f ms per step of %lld samples, first "
                      "step %.1f ms; products and convolutions %.3g GFLOP/s\n",
                      median, b->rate[0], b->rate[ROUNDS - 1], 1e3 * (double)b->batch / median,
                      (long long)b->batch, (double)b->first_step_ns * 1e-6,
                      b->flops / (double)b->batch * median * 1e-9);
    }
    return mf_cli_print(&out);
}

static mf_status cmd_bench_step_read_args(cmd_bench_step_bench *b, mf_args *args)
{
    int64_t shards = 8, threads = 0;

    b->model_text = mf_args_value(args, "model");
    if (!b->model_text)
        return mf_args_wrong(args, "--model is missing: `meshflow models` lists them");
    b->batch = 128;
    MF_TRY(mf_args_int(args, "batch", 1, 1 << 20, &b->batch));
    MF_TRY(mf_args_int(args, "steps", 1, INT64_MAX, &b->steps));
    MF_TRY(mf_args_int(args, "shards", 1, 4096, &shards));
    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    b->compile.shards = (int)shards;
    b->compile.threads = (int)threads;
    b->compile.precision = mf_args_value(args, "precision");
    b->compile.disable = mf_args_value(args, "disable");
    b->compile.guard = mf_args_value(args, "guard");
    b->compile.optimizer = mf_args_value(args, "optimizer");
    if (!b->compile.optimizer)
        b->compile.optimizer = "momentum";
    return MF_OK;
}

static mf_status bench_step_run(mf_args *args)
{
    cmd_bench_step_bench b = { .arena = mf_arena_new() };
    mf_status st = b.arena ? cmd_bench_step_read_args(&b, args) : MF_NOMEM("a measurement");

    if (st == MF_OK)
        st = make_model(&b);
    if (st == MF_OK)
        st = cmd_bench_step_count(&b);
    if (st == MF_OK)
        st = cmd_bench_step_measure(&b);
    if (st == MF_OK)
        st = cmd_bench_step_print(&b, mf_args_has(args, "json"));
    mf_trainer_free(b.trainer);
    mf_model_free(b.model);
    mf_dataset_unref(b.data);
    mf_arena_free(b.arena);
    return st;
}

static const mf_option options[] = {
    { .name = "model", .value = "MODEL", .help = "model and its settings" },
    { .name = "batch", .value = "N", .help = "samples of one step (default: 128)" },
    { .name = "steps",
      .value = "N",
      .help = "steps of one round (default: as many as take 0.2 s)" },
    { .name = "shards", .value = "N", .help = "shards of each batch (default: 8)" },
    { .name = "threads",
      .value = "N",
      .help = "threads that compute (default: one for each core)" },
    { .name = "precision", .value = "P", .help = "fp32, bf16 or fp16 (default: fp32)" },
    { .name = "optimizer",
      .value = "OPT",
      .help = "optimizer and its settings (default: "
              "momentum)" },
    { .name = "guard", .value = "HOW", .help = "stop, skip or off, as for `meshflow train`" },
    { .name = "disable",
      .value = "PASSES",
      .help = "compiler passes to switch off, separated by "
              "commas" },
    { .name = "json", .help = "print one JSON object" },
    { 0 },
};

const mf_command mf_command_bench_step = {
    .name = "bench step",
    .arguments = "",
    .summary = "measure a training step",
    .about = "Runs five rounds of steps on synthetic data of the model's shape and prints the "
             "median, lowest and highest rate. The first step, which includes compilation, is "
             "reported separately.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow bench step --model fashion-cnn --batch 128", NULL },
    .run = bench_step_run,
};
