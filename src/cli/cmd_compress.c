/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_compress.c - `meshflow compress`: makes a trained model smaller and faster. */
#include "base/file.h"
#include "cli/job.h"
#include "cli/model_note.h"
#include "compress/compress.h"
#include "formats/tensors.h"
#include "report/plot_sizes.h"
#include "train/step/prune_weights.h"

#include <math.h>
#include <string.h>

enum { MOST_STAGES = 16, MOST_TIMES = 32 };

typedef struct compressing {
    mf_args *args;
    mf_job job;
    mf_fit_options fit;
    mf_compressed before, after;
    mf_units_settings units[MOST_TIMES]; /* --prune units ... */
    mf_rank_settings ranks[MOST_TIMES];
    mf_share_settings shares[MOST_TIMES];
    int n_units, n_ranks, n_shares;
    mf_prune prune; /* --prune magnitude ..., as for train */
    mf_quantize_settings quantize;
    bool prunes, quantizes;
    const char *metric;
    mf_sized stages[MOST_STAGES];
    int n_stages;
    mf_measured was, is;
} compressing;

/* ---- options ---- */

static mf_status read_prune_units(compressing *c, const char *text)
{
    if (c->n_units == MOST_TIMES)
        return mf_args_wrong(c->args, "--prune units: at most %d times", MOST_TIMES);
    return mf_units_settings_parse(text, c->job.arena, &c->units[c->n_units++]);
}

static mf_status cmd_compress_read_prune(compressing *c)
{
    const char *text, *head, *rest, *weights = NULL;
    int64_t at = 0;

    while ((text = mf_args_next(c->args, "prune", &at)) != NULL) {
        MF_TRY(mf_options_head(text, c->job.arena, &head, &rest));
        if (strcmp(head, "units") == 0) {
            MF_TRY(read_prune_units(c, rest));
            continue;
        }
        if (weights)
            return mf_args_wrong(c->args, "--prune: weights are pruned in one way only: %s, or %s",
                                 weights, text);
        weights = text;
        c->prunes = true;
        MF_TRY(mf_prune_parse(text, c->job.arena, &c->prune));
    }
    return MF_OK;
}

static mf_status cmd_compress_read_ranks(compressing *c)
{
    const char *text;
    int64_t at = 0;

    while ((text = mf_args_next(c->args, "rank", &at)) != NULL) {
        if (c->n_ranks == MOST_TIMES)
            return mf_args_wrong(c->args, "--rank: at most %d times", MOST_TIMES);
        MF_TRY(mf_rank_settings_parse(text, c->job.arena, &c->ranks[c->n_ranks++]));
    }
    return MF_OK;
}

static mf_status cmd_compress_read_shares(compressing *c)
{
    const char *text;
    int64_t at = 0;

    while ((text = mf_args_next(c->args, "share", &at)) != NULL) {
        if (c->n_shares == MOST_TIMES)
            return mf_args_wrong(c->args, "--share: at most %d times", MOST_TIMES);
        MF_TRY(mf_share_settings_parse(text, c->job.arena, &c->shares[c->n_shares++]));
    }
    return MF_OK;
}

/* Parses the settings of each method. */
static mf_status read_methods(compressing *c)
{
    const char *quantize = mf_args_value(c->args, "quantize");

    MF_TRY(cmd_compress_read_prune(c));
    MF_TRY(cmd_compress_read_ranks(c));
    MF_TRY(cmd_compress_read_shares(c));
    c->quantizes = quantize != NULL;
    if (quantize)
        MF_TRY(mf_quantize_settings_parse(quantize, c->job.arena, &c->quantize));
    if (!c->n_units && !c->prunes && !c->n_ranks && !c->n_shares && !c->quantizes)
        return mf_args_wrong(c->args, "nothing to do: give --prune, --rank, --quantize or --share");
    return MF_OK;
}

static mf_status cmd_compress_read_args(compressing *c)
{
    mf_args *args = c->args;
    const char *optimizer, *schedule;
    mf_compile_options *o = &c->job.compile;

    c->fit = (mf_fit_options){ .batch = 128 };
    MF_TRY(read_methods(c));
    /* Default: train only if a method needs it. */
    c->fit.epochs = c->prunes || c->quantize.aware ? 1 : 0;
    MF_TRY(mf_args_int(args, "epochs", 0, 100000, &c->fit.epochs));
    MF_TRY(mf_args_int(args, "batch", 1, 1 << 20, &c->fit.batch));
    optimizer = mf_args_value(args, "optimizer");
    schedule = mf_args_value(args, "schedule");
    o->optimizer = optimizer ? optimizer : "momentum";
    o->schedule = schedule ? schedule : "cosine";
    o->learning_rate = 0.02;
    MF_TRY(mf_args_double(args, "lr", 1e-37, 1e38, &o->learning_rate));
    if (c->prunes && c->fit.epochs == 0)
        return mf_args_wrong(args, "--prune magnitude prunes during training; --epochs 0 leaves "
                                   "no time for it");
    return MF_OK;
}

/* ---- stages ---- */

/* Measures quality and size after a stage. */
static mf_status note_stage(compressing *c, const char *name)
{
    mf_compile_options quiet = c->job.compile;
    mf_sized *s = &c->stages[c->n_stages];
    mf_buf file = { 0 };
    mf_status st;

    if (c->n_stages == MOST_STAGES)
        return MF_OK;
    quiet.prune = NULL;
    MF_TRY(mf_measure_value(&c->after, &quiet, c->job.test, &c->metric, &s->value));
    st = mf_compressed_encode(&c->after, &file);
    s->name = name;
    s->bytes = c->n_stages == 0 ? mf_compressed_bytes(&c->after) : (int64_t)file.len;
    c->n_stages++;
    mf_buf_deinit(&file);
    return st;
}

/* Prints a heading, and a line for each layer. */
static mf_status cmd_compress_print_stage(compressing *c, const char *heading, mf_buf *report)
{
    const mf_sized *s = &c->stages[c->n_stages - 1];
    mf_buf out = { 0 };

    if (mf_args_has(c->args, "json")) {
        mf_buf_deinit(report);
        return MF_OK;
    }
    mf_buf_printf(&out, "%s: %s %.4f, %lld bytes\n", heading, c->metric, s->value,
                  (long long)s->bytes);
    for (const char *line = report->data; line && *line; line += strcspn(line, "\n") + 1)
        mf_buf_printf(&out, "  %.*s\n", (int)strcspn(line, "\n"), line);
    mf_buf_deinit(report);
    return mf_cli_print(&out);
}

static mf_status end_stage(compressing *c, mf_status st, const char *name, const char *heading,
                           mf_buf *report)
{
    if (st == MF_OK)
        st = note_stage(c, name);
    if (st == MF_OK)
        return cmd_compress_print_stage(c, heading, report);
    mf_buf_deinit(report);
    return st;
}

static mf_status cut_units(compressing *c)
{
    mf_buf report = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < c->n_units; i++)
        st = mf_compress_units(&c->after, &c->units[i], &report);
    return c->n_units > 0 ? end_stage(c, st, "units", "units removed", &report) : MF_OK;
}

static mf_status factorise(compressing *c)
{
    mf_buf report = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < c->n_ranks; i++)
        st = mf_compress_rank(&c->after, &c->ranks[i], &report);
    return c->n_ranks > 0 ? end_stage(c, st, "rank", "low-rank kernels", &report) : MF_OK;
}

static mf_status quantise(compressing *c)
{
    mf_compile_options o = c->job.compile;
    mf_buf report = { 0 };

    o.prune = NULL;
    return end_stage(c, mf_compress_quantize(&c->after, &c->quantize, c->job.train, &o, &report),
                     "int8", "quantized to int8", &report);
}

/* How the trainer prunes; by default, during the first two thirds of these steps. */
static void pruning_text(const compressing *c, int64_t steps, mf_buf *out)
{
    mf_prune p = c->prunes ? c->prune : (mf_prune){ .holds = true, .only = "*" };

    if (!p.holds && !p.end_given) {
        p.end = steps * 2 / 3;
        p.end_given = true;
        if (!p.every_given)
            p.every = p.end / 50 > 1 ? p.end / 50 : 1;
        p.every_given = true;
    }
    mf_prune_text(&p, out);
}

static mf_status print_epoch(void *ctx, mf_trainer *t, const mf_step_report *report,
                             const mf_result *validation, int n)
{
    const compressing *c = ctx;
    mf_buf out = { 0 };

    (void)t;
    (void)validation;
    (void)n;
    if (mf_args_has(c->args, "json"))
        return MF_OK;
    mf_buf_printf(&out, "epoch %lld of %lld: loss of the last step %.4f\n",
                  (long long)report->epoch + 1, (long long)c->fit.epochs, report->results[0].value);
    return mf_cli_print(&out);
}

static void cmd_compress_count_zeros(const mf_compressed *s, mf_buf *report)
{
    for (int64_t i = 0; i < s->n; i++) {
        const mf_tensor *w = &s->weights[i].value;
        int64_t zeros = 0;

        if (w->dtype != MF_DTYPE_F32 || w->shape.rank < 2)
            continue;
        for (int64_t e = 0; e < w->count; e++)
            zeros += ((const float *)w->data)[e] == 0;
        if (zeros > 0)
            mf_buf_printf(report, "%s: %lld of %lld are zero, %.1f %%\n", s->weights[i].name,
                          (long long)zeros, (long long)w->count,
                          100.0 * (double)zeros / (double)w->count);
    }
}

static mf_status fine_tune(compressing *c)
{
    const int64_t per_epoch = (mf_dataset_count(c->job.train) + c->fit.batch - 1) / c->fit.batch;
    mf_compile_options o = c->job.compile;
    mf_fit_options fit = c->fit;
    const mf_hook hook = { .ctx = c, .after_epoch = print_epoch };
    mf_compressed_trainer t = { 0 };
    mf_buf report = { 0 }, prune = { 0 };
    mf_status st;

    if (fit.epochs == 0)
        return MF_OK;
    pruning_text(c, per_epoch * fit.epochs, &prune);
    MF_TRY(mf_buf_finish(&prune));
    o.prune = prune.data;
    fit.hooks = &hook;
    fit.n_hooks = 1;
    st = mf_compressed_train(&c->after, &o, &t);
    if (st == MF_OK)
        st = mf_fit(t.trainer, c->job.train, NULL, &fit);
    if (st == MF_OK)
        st = mf_compressed_take(&c->after, &t);
    mf_compressed_trainer_free(&t);
    mf_buf_deinit(&prune);
    if (st == MF_OK)
        cmd_compress_count_zeros(&c->after, &report);
    return end_stage(c, st, c->prunes ? "pruned" : "tuned",
                     c->prunes ? "pruned and fine-tuned" : "fine-tuned", &report);
}

static mf_status cmd_compress_share(compressing *c)
{
    mf_buf report = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < c->n_shares; i++)
        st = mf_compress_share(&c->after, &c->shares[i], &report);
    return c->n_shares > 0 ? end_stage(c, st, "shared", "shared values", &report) : MF_OK;
}

static mf_status round_kernels(compressing *c)
{
    mf_buf report = { 0 };

    return end_stage(c, mf_compress_round(&c->after, &c->quantize), "rounded",
                     "kernels rounded to int8", &report);
}

static mf_status all_stages(compressing *c)
{
    MF_TRY(cut_units(c));
    MF_TRY(factorise(c));
    if (c->quantizes && c->quantize.aware)
        MF_TRY(quantise(c));
    MF_TRY(fine_tune(c));
    if (c->quantizes && !c->quantize.aware)
        MF_TRY(quantise(c));
    MF_TRY(cmd_compress_share(c));
    return c->quantizes && c->n_shares == 0 ? round_kernels(c) : MF_OK;
}

/* ---- results ---- */

static mf_status cmd_compress_write_file(const char *dir, const char *name, const mf_buf *bytes)
{
    mf_buf path = { 0 };
    mf_status st;

    mf_buf_printf(&path, "%s/%s", dir, name);
    st = mf_buf_finish(&path);
    if (st == MF_OK)
        st = mf_file_write(path.data, bytes->data, bytes->len);
    mf_buf_deinit(&path);
    return st;
}

static mf_status write_out(compressing *c, const char *dir)
{
    mf_buf file = { 0 }, picture = { 0 };
    mf_model_note note;
    mf_status st;

    mf_job_note(&c->job, c->args, &note);
    note.model = mf_compressed_text(&c->after);
    MF_TRY_TO(done, note.model ? MF_OK : MF_NOMEM("a model"));
    MF_TRY_TO(done, mf_model_note_write(dir, &note)); /* creates the folder */
    MF_TRY_TO(done, mf_compressed_encode(&c->after, &file));
    MF_TRY_TO(done, cmd_compress_write_file(dir, MF_PACKED_NAME, &file));
    mf_plot_sizes(c->stages, c->n_stages, c->metric, c->job.model_text, &picture);
    MF_TRY_TO(done, mf_buf_finish(&picture));
    MF_TRY_TO(done, cmd_compress_write_file(dir, "sizes.svg", &picture));
done:
    mf_buf_deinit(&file);
    mf_buf_deinit(&picture);
    return st;
}

static mf_status cmd_compress_measure(compressing *c)
{
    const mf_compressed *const both[2] = { &c->before, &c->after };
    mf_measured *const out[2] = { &c->was, &c->is };
    mf_compile_options o = c->job.compile;

    o.prune = NULL;
    c->was.bytes = c->stages[0].bytes;
    c->was.value = c->stages[0].value;
    c->is.bytes = c->stages[c->n_stages - 1].bytes;
    c->is.value = c->stages[c->n_stages - 1].value;
    return mf_args_has(c->args, "no-speed")
               ? MF_OK
               : mf_measure_speed(both, &o, c->job.train, c->fit.batch, out);
}

static mf_status cmd_compress_print_table(const compressing *c)
{
    const mf_measured *a = &c->was, *b = &c->is;
    const bool share = strcmp(c->metric, "accuracy") == 0;
    mf_buf out = { 0 };

    mf_buf_printf(&out, "\n%-22s %12s %12s\n", "", "before", "after");
    mf_buf_printf(&out, "%-22s %12lld %12lld   %.1fx smaller\n", "size, bytes", (long long)a->bytes,
                  (long long)b->bytes, (double)a->bytes / (double)b->bytes);
    mf_buf_printf(&out, "%-22s %12.4f %12.4f   %+.2f%s\n", c->metric, a->value, b->value,
                  (b->value - a->value) * (share ? 100 : 1), share ? " points" : "");
    if (a->step > 0) {
        mf_buf_printf(&out, "%-22s %12.0f %12.0f   %.2fx\n", "inference, samples/s", a->inferred,
                      b->inferred, b->inferred / a->inferred);
        mf_buf_printf(&out, "%-22s %12.3f %12.3f   %.2fx\n", "training step, ms", 1e3 * a->step,
                      1e3 * b->step, a->step / b->step);
    }
    return mf_cli_print(&out);
}

static void cmd_compress_print_one(mf_buf *out, const char *name, const compressing *c,
                                   const mf_measured *m)
{
    mf_buf_printf(out, "\"%s\":{\"bytes\":%lld,\"%s\":", name, (long long)m->bytes, c->metric);
    mf_buf_json_number(out, m->value);
    if (m->step > 0)
        mf_buf_printf(out, ",\"samples_per_second\":%.6g,\"step_seconds\":%.6g", m->inferred,
                      m->step);
    mf_buf_str(out, "}");
}

static mf_status cmd_compress_print_json(const compressing *c)
{
    const char *text = mf_compressed_text(&c->after);
    mf_buf out = { 0 };

    if (!text)
        return MF_NOMEM("a model");
    mf_buf_str(&out, "{\"model\":");
    mf_buf_json(&out, text, strlen(text));
    mf_buf_str(&out, ",");
    cmd_compress_print_one(&out, "before", c, &c->was);
    mf_buf_str(&out, ",");
    cmd_compress_print_one(&out, "after", c, &c->is);
    mf_buf_str(&out, ",\"stages\":[");
    for (int i = 0; i < c->n_stages; i++) {
        mf_buf_printf(&out, "%s{\"stage\":\"%s\",\"bytes\":%lld,\"%s\":", i > 0 ? "," : "",
                      c->stages[i].name, (long long)c->stages[i].bytes, c->metric);
        mf_buf_json_number(&out, c->stages[i].value);
        mf_buf_str(&out, "}");
    }
    mf_buf_str(&out, "]}\n");
    return mf_cli_print(&out);
}

/* ---- the command ---- */

static mf_status compress(compressing *c)
{
    const char *from = c->args->words[0], *dir = mf_args_value(c->args, "out");
    mf_buf report = { 0 };

    MF_TRY(mf_job_open(&c->job, c->args, from));
    MF_TRY(cmd_compress_read_args(c));
    MF_TRY(mf_job_load(&c->job, c->args, true));
    MF_TRY(mf_compressed_init(&c->before, c->job.model_text, c->job.train, from));
    MF_TRY(mf_compressed_copy(&c->after, &c->before));
    MF_TRY(end_stage(c, MF_OK, "before", c->job.model_text, &report));
    MF_TRY(all_stages(c));
    if (dir)
        MF_TRY(write_out(c, dir));
    MF_TRY(cmd_compress_measure(c));
    return mf_args_has(c->args, "json") ? cmd_compress_print_json(c) : cmd_compress_print_table(c);
}

static mf_status compress_run(mf_args *args)
{
    compressing *c = mf_calloc(1, sizeof *c);
    mf_status st;

    if (!c)
        return MF_NOMEM("a model");
    c->args = args;
    st = compress(c);
    mf_compressed_deinit(&c->before);
    mf_compressed_deinit(&c->after);
    mf_job_deinit(&c->job);
    mf_free(c);
    return st;
}

static const mf_option options[] = {
    { .name = "prune",
      .value = "HOW",
      .help = "'units share=0.5 layers=conv*' removes whole filters and units; 'magnitude "
              "sparsity=0.9' sets weights to zero during training",
      .many = true },
    { .name = "rank",
      .value = "HOW",
      .help = "replace kernels by products of two smaller ones: 'rank=16 layers=dense' or "
              "'energy=0.95'",
      .many = true },
    { .name = "quantize",
      .value = "HOW",
      .help = "compute in 8-bit integers: 'int8', 'int8 per=tensor', 'int8 aware=true' (train with "
              "rounded values)" },
    { .name = "share",
      .value = "HOW",
      .help = "the weights of a kernel share 2^bits values: 'bits=5 layers=dense*'",
      .many = true },
    { .name = "epochs",
      .value = "N",
      .help = "training epochs after pruning; default: 0, and 1 for 'magnitude' and 'aware=true'" },
    { .name = "batch", .value = "N", .help = "samples of a step; default: 128" },
    { .name = "optimizer", .value = "OPT", .help = "optimizer with settings; default: momentum" },
    { .name = "lr", .value = "RATE", .help = "learning rate; default: 0.02" },
    { .name = "schedule", .value = "S", .help = "schedule of the learning rate; default: cosine" },
    { .name = "out",
      .value = "DIR",
      .help = "directory for " MF_PACKED_NAME ", model.json and sizes.svg",
      .letter = 'o' },
    { .name = "no-speed", .help = "do not measure the speed" },
    MF_JOB_OPTIONS,
    { 0 },
};

const mf_command mf_command_compress = {
    .name = "compress",
    .arguments = "CKPT",
    .summary = "make a trained model smaller and faster",
    .about =
        "Applies the given methods in this order: remove units, factorize kernels, prune weights "
        "during training, quantize to 8-bit integers, share weights. Then prints size, accuracy, "
        "inference speed and the time of a training step, before and after. The commands eval, "
        "predict, serve, train --init and ckpt read the model in --out. CKPT is a checkpoint or "
        "the folder of a training. docs/guides/model-compression.md",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow compress run --quantize int8",
            "meshflow compress run --prune 'magnitude sparsity=0.9' --share bits=5 --out small",
            "meshflow eval --from small", NULL },
    .min_args = 1,
    .max_args = 1,
    .run = compress_run,
};
