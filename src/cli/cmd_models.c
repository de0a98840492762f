/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_models.c - `meshflow models`: the available models, layers, losses, metrics and initializers,
 * and the structure of a model. */
#include "cli/command.h"
#include "cli/graph_file.h"
#include "dist/codec/codec.h"
#include "models/initializer.h"
#include "models/metrics.h"
#include "models/zoo.h"
#include "train/optim/lr_schedule.h"
#include "train/optim/optimizer.h"

#include <string.h>

/* ---- tables ---- */

typedef struct cmd_models_row {
    const char *name, *settings, *about;
} cmd_models_row;

typedef struct cmd_models_table {
    const char *kind; /* --kind KIND */
    const char *title;
    cmd_models_row (*at)(int i); /* .name NULL: end of the table */
} cmd_models_table;

static cmd_models_row layer_at(int i)
{
    for (const mf_layer_kind *const *f = mf_layer_families; *f; f++) {
        for (const mf_layer_kind *k = *f; k->name; k++) {
            if (i-- == 0)
                return (cmd_models_row){ k->name, k->settings, k->about };
        }
    }
    return (cmd_models_row){ 0 };
}

static cmd_models_row loss_at(int i)
{
    return (cmd_models_row){ mf_losses[i].name, mf_losses[i].settings, mf_losses[i].about };
}

static cmd_models_row metric_at(int i)
{
    return (cmd_models_row){ mf_metrics[i].name, mf_metrics[i].settings, mf_metrics[i].about };
}

static cmd_models_row initializer_at(int i)
{
    return (cmd_models_row){ mf_initializers[i].name, mf_initializers[i].settings,
                             mf_initializers[i].about };
}

static cmd_models_row optimizer_at(int i)
{
    return (cmd_models_row){ mf_optimizers[i].name, mf_optimizers[i].settings,
                             mf_optimizers[i].about };
}

static cmd_models_row schedule_at(int i)
{
    return (cmd_models_row){ mf_schedules[i].name, mf_schedules[i].settings,
                             mf_schedules[i].about };
}

static cmd_models_row codec_at(int i)
{
    const mf_codec_kind *k = mf_codec_kinds[i];

    return k ? (cmd_models_row){ k->name, k->settings, k->about } : (cmd_models_row){ 0 };
}

static const cmd_models_table tables[] = {
    { "layers", "layer", layer_at },
    { "losses", "loss", loss_at },
    { "metrics", "metric", metric_at },
    { "initializers", "initializer", initializer_at },
    { "optimizers", "optimizer", optimizer_at },
    { "schedules", "schedule", schedule_at },
    { "codecs", "codec", codec_at },
};

/* "units=... activation=linear": the settings of a signature, as the user writes them. */
static mf_status print_settings(const char *subject, const char *signature, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    const char *whole = arena ? mf_arena_printf(arena, "() -> () %s", signature) : NULL;
    mf_opdef def;
    mf_status st = whole ? mf_opdef_parse(subject, whole, arena, &def) : MF_NOMEM("settings");

    for (int i = 0; st == MF_OK && i < def.n_attrs; i++) {
        const mf_attrdef *d = &def.attrs[i];

        mf_buf_printf(out, "%s%s=", i ? " " : "", d->name);
        if (!d->has_default)
            mf_buf_str(out, "...");
        else if (d->kind == MF_ATTR_STRING && !d->is_list)
            mf_buf_str(out, d->default_value.s.data);
        else if (d->kind == MF_ATTR_FLOAT && !d->is_list)
            mf_buf_printf(out, "%.6g", (double)d->default_value.f);
        else
            mf_attr_print(&d->default_value, out);
    }
    mf_arena_free(arena);
    return st;
}

static mf_status cmd_models_print_table(const cmd_models_table *t, bool markdown, mf_buf *out)
{
    if (markdown)
        mf_buf_printf(out, "| %s | what | settings |\n|---|---|---|\n", t->title);
    for (int i = 0; t->at(i).name; i++) {
        const cmd_models_row r = t->at(i);
        mf_buf settings = { 0 };
        const mf_status st = print_settings(r.name, r.settings, &settings);

        if (markdown)
            mf_buf_printf(out, "| %s | %s | %s |\n", r.name, r.about,
                          settings.len ? settings.data : "");
        else
            mf_buf_printf(out, "%s  %s\n%s%s%s", r.name, r.about, settings.len ? "    " : "",
                          settings.len ? settings.data : "", settings.len ? "\n" : "");
        mf_buf_deinit(&settings);
        MF_TRY(st);
    }
    return MF_OK;
}

/* ---- the zoo ---- */

/* The model for columns given as text; NULL: for its example columns. */
static mf_status cmd_models_make(const char *text, const char *columns, mf_arena *arena,
                                 mf_model **out)
{
    const mf_zoo_kind *kind;
    const char *head, *rest;
    mf_column *list;
    int64_t classes;
    int n;

    MF_TRY(mf_options_head(text, arena, &head, &rest));
    kind = mf_zoo_find(head);
    MF_TRY(mf_zoo_columns(columns ? columns
                          : kind  ? kind->example
                                  : "",
                          arena, &list, &n, &classes));
    return mf_zoo_build(text, list, n, classes, out);
}

static void print_count(int64_t n, mf_buf *out)
{
    if (n >= 1000) {
        print_count(n / 1000, out);
        mf_buf_printf(out, ",%03lld", (long long)(n % 1000));
    } else {
        mf_buf_printf(out, "%lld", (long long)n);
    }
}

static mf_status print_zoo_row(const mf_zoo_kind *k, bool markdown, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    mf_buf count = { 0 }, settings = { 0 };
    mf_model *model = NULL;
    mf_status st = arena ? cmd_models_make(k->name, NULL, arena, &model) : MF_NOMEM("a model");

    if (st == MF_OK)
        st = print_settings(k->name, k->settings, &settings);
    if (st == MF_OK) {
        print_count(mf_model_parameters(model, NULL), &count);
        mf_buf_printf(out,
                      markdown ? "| %s | %s | %s | %s | %s | %s |\n"
                               : "%-12s %9s  %s\n    data: %s\n    counted for: %s\n"
                                 "    settings: %s\n",
                      k->name, count.data, k->about, k->needs, k->example,
                      settings.len ? settings.data : "none");
    }
    mf_buf_deinit(&count);
    mf_buf_deinit(&settings);
    mf_model_free(model);
    mf_arena_free(arena);
    return st;
}

static mf_status print_zoo(bool markdown, mf_buf *out)
{
    mf_buf_str(out, markdown ? "| model | parameters | what | data | counted for | settings |\n"
                               "|---|---|---|---|---|---|\n"
                             : "");
    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++)
            MF_TRY(print_zoo_row(k, markdown, out));
    }
    return MF_OK;
}

/* ---- one model ---- */

static int64_t weights_of(const mf_model *m, const mf_layer_made *made)
{
    int64_t all = 0;

    for (int64_t i = 0; i < made->n_weights; i++) {
        const mf_shape *s = &m->weights[made->first_weight + i]->shape;

        all += mf_shape_span(s, 0, s->rank);
    }
    return all;
}

/* "  residual_block/conv1 (Conv2D)" */
static void cmd_models_print_name(const mf_layer_made *made, mf_buf *out)
{
    mf_buf_printf(out, "%*s%s (%s)", 2 * made->depth, "", made->name, made->kind);
}

static int widest_name(const mf_model *m)
{
    size_t most = 0;

    for (int64_t i = 0; i < m->n_made; i++) {
        mf_buf name = { 0 };

        cmd_models_print_name(&m->made[i], &name);
        most = name.len > most ? name.len : most;
        mf_buf_deinit(&name);
    }
    return (int)most;
}

static void print_summary(const char *text, mf_model *m, mf_buf *out)
{
    const int width = widest_name(m);
    char shape[MF_SHAPE_TEXT];
    int64_t trained, all = mf_model_parameters(m, &trained);

    mf_buf_printf(out, "%s\n%-*s  %-16s %12s\n", text, width, "layer", "output", "parameters");
    for (int64_t i = 0; i < m->n_made; i++) {
        const mf_layer_made *made = &m->made[i];
        const mf_shape s = mf_model_shape(m, made->output);
        mf_buf name = { 0 }, count = { 0 };

        cmd_models_print_name(made, &name);
        print_count(weights_of(m, made), &count);
        mf_buf_printf(out, "%-*s  %-16s %12s\n", width, name.data ? name.data : "",
                      mf_shape_text(&s, shape), count.data ? count.data : "");
        mf_buf_deinit(&name);
        mf_buf_deinit(&count);
    }
    mf_buf_str(out, "parameters: ");
    print_count(all, out);
    mf_buf_str(out, ", trained: ");
    print_count(trained, out);
    mf_buf_str(out, "\n");
}

static mf_status show_model(mf_args *args, mf_arena *arena, mf_buf *out)
{
    const char *path = mf_args_value(args, "graph");
    const char *text = args->words[0];
    mf_model *model;
    mf_status st;

    for (int64_t i = 1; i < args->n_words; i++) {
        text = mf_arena_printf(arena, "%s %s", text, args->words[i]);
        if (!text)
            return MF_NOMEM("a model");
    }
    MF_TRY(cmd_models_make(text, mf_args_value(args, "columns"), arena, &model));
    print_summary(text, model, out);
    st = path ? mf_graph_save(model->graph, path) : MF_OK;
    mf_model_free(model);
    return st;
}

/* ---- the command ---- */

static const cmd_models_table *find_table(const char *kind)
{
    for (int i = 0; i < MF_COUNT(tables); i++) {
        if (strcmp(tables[i].kind, kind) == 0)
            return &tables[i];
    }
    return NULL;
}

static mf_status print_asked(mf_args *args, mf_arena *arena, mf_buf *out)
{
    const bool markdown = mf_args_has(args, "markdown");
    const char *kind;
    int64_t at = 0;
    bool any = false;

    while ((kind = mf_args_next(args, "kind", &at)) != NULL) {
        const cmd_models_table *t = find_table(kind);

        if (!t)
            return mf_args_wrong(args,
                                 "--kind takes layers, losses, metrics, initializers, "
                                 "optimizers, schedules or codecs, not '%s'",
                                 kind);
        mf_buf_str(out, any ? "\n" : "");
        any = true;
        MF_TRY(cmd_models_print_table(t, markdown, out));
    }
    if (args->n_words > 0)
        return show_model(args, arena, out);
    if (mf_args_has(args, "graph") || mf_args_has(args, "columns"))
        return mf_args_wrong(args, "--graph and --columns need the name of a model");
    return any ? MF_OK : print_zoo(markdown, out);
}

static mf_status models_run(mf_args *args)
{
    mf_arena *arena = mf_arena_new();
    mf_buf text = { 0 };
    const mf_status st = arena ? print_asked(args, arena, &text) : MF_NOMEM("models");

    mf_arena_free(arena);
    if (st == MF_OK)
        return mf_cli_print(&text);
    mf_buf_deinit(&text);
    return st;
}

static const mf_option options[] = {
    { .name = "columns",
      .value = "COLUMNS",
      .help = "columns of the data: \"image=uint8[28,28,1] label=int32[] classes=10\" (default: "
              "an example)" },
    { .name = "graph",
      .value = "FILE",
      .help = "write the graph of the model: as text (.pbtxt) or binary" },
    { .name = "kind",
      .value = "KIND",
      .help = "list layers, losses, metrics, initializers, optimizers, schedules or codecs instead",
      .many = true },
    { .name = "markdown", .help = "print Markdown tables" },
    { 0 },
};

const mf_command mf_command_models = {
    .name = "models",
    .arguments = "[NAME [SETTING=VALUE]...]",
    .summary = "list the models of the zoo, or show one",
    .about = "Without a name, lists all models. With a name, lists its layers, their output "
             "shapes and parameters. Settings are shown with their defaults; those with ... are "
             "required.",
    .options = options,
    .examples = (const char *const[]){ "meshflow models resnet20 width=32",
                                       "meshflow models --kind layers --kind losses",
                                       "meshflow models mlp --graph mlp.pbtxt", NULL },
    .max_args = -1,
    .run = models_run,
};
