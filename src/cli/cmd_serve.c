/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_serve.c - `meshflow serve`: serves a trained model under TensorFlow Serving's REST paths. */
#include "base/log.h"
#include "base/machine_limits.h"
#include "cli/mesh_options.h"
#include "cli/model_note.h"
#include "models/zoo.h"
#include "serving/model_versions.h"
#include "serving/serve.h"

#include <string.h>

/* The served model and its source. All pointers are into `arena` or owned here. */
typedef struct serving {
    mf_arena *arena;
    mf_dataset *data; /* of --data; NULL: not given */
    mf_strategy_settings mesh; /* kind NULL: one device */
    mf_serve_model what;
    mf_serve_options o;
} serving;

/* model.json is beside the checkpoints; with versions, beside those of the newest. */
static mf_status cmd_serve_read_note(const serving *s, mf_model_note *out)
{
    mf_serve_version newest = { 0 };
    mf_status st = mf_model_note_read(s->o.where, s->arena, out);

    if (st == MF_NOT_FOUND && mf_serve_newest(s->o.where, &newest) == MF_OK)
        st = mf_model_note_read(newest.checkpoint, s->arena, out);
    mf_free(newest.checkpoint);
    return st;
}

static mf_status use_note(serving *s, mf_args *args)
{
    mf_model_note note;
    mf_column *columns;
    const mf_schema_column *label;
    const mf_status st = cmd_serve_read_note(s, &note);

    if (st == MF_NOT_FOUND)
        mf_args_hint(args, "a training with --out writes " MF_NOTE_NAME " and " MF_SCHEMA_NAME
                           "; otherwise give --model, and --data or --columns "
                           "'image=uint8[28,28,1] label=int32[] classes=10'");
    MF_TRY(st);
    columns = MF_ARENA_ARRAY(s->arena, mf_column, note.schema.n);
    if (!columns)
        return MF_NOMEM("a server");
    for (int i = 0; i < note.schema.n; i++)
        columns[i] = note.schema.columns[i].is;
    label = mf_schema_label(&note.schema);
    s->what.model = s->what.model ? s->what.model : note.model;
    s->what.columns = columns;
    s->what.n_columns = note.schema.n;
    s->what.classes = label ? label->classes : 0;
    s->what.class_names = label ? label->class_names : NULL;
    return MF_OK;
}

/* As given by --data, --columns or model.json; --model overrides that of model.json. */
static mf_status read_model(serving *s, mf_args *args)
{
    const char *model = mf_args_value(args, "model"), *data = mf_args_value(args, "data");
    const char *columns = mf_args_value(args, "columns");
    mf_column *list;

    s->what.model = model;
    if (data) {
        MF_TRY(mf_dataset_open(data, mf_args_value(args, "set"), &s->data));
        s->what.n_columns = mf_dataset_columns(s->data, &s->what.columns);
        s->what.classes = mf_dataset_classes(s->data, &s->what.class_names);
    } else if (columns) {
        MF_TRY(mf_zoo_columns(columns, s->arena, &list, &s->what.n_columns, &s->what.classes));
        s->what.columns = list;
    } else {
        MF_TRY(use_note(s, args));
    }
    return s->what.model ? MF_OK
                         : mf_args_wrong(args, "--model is missing: `meshflow models` "
                                               "lists the models");
}

static mf_status cmd_serve_read_numbers(serving *s, mf_args *args)
{
    int64_t port = 8501, replicas = 2, batch = 32, wait_ms = 0, body = 16, queue = 1000;
    int64_t poll_ms = 1000, timeout = 60, threads = 0;

    MF_TRY(mf_args_int(args, "port", 0, 65535, &port));
    MF_TRY(mf_args_int(args, "replicas", 1, 256, &replicas));
    MF_TRY(mf_args_int(args, "batch", 1, 4096, &batch));
    MF_TRY(mf_args_int(args, "wait-ms", 0, 60000, &wait_ms));
    MF_TRY(mf_args_int(args, "max-body", 1, 1024, &body));
    MF_TRY(mf_args_int(args, "queue", 1, 1000000, &queue));
    MF_TRY(mf_args_int(args, "poll-ms", 0, 86400000, &poll_ms));
    MF_TRY(mf_args_int(args, "timeout", 1, 86400, &timeout));
    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    s->o.port = (int)port;
    s->o.replicas = (int)replicas;
    s->o.batch = (int)batch;
    s->o.wait_ms = wait_ms;
    s->o.max_body = body << 20;
    s->o.queue = queue;
    s->o.poll_ms = poll_ms;
    s->o.timeout_ms = timeout * 1000;
    if (threads == 0) /* an equal share of the cores */
        threads = mf_default_threads(NULL) > replicas ? mf_default_threads(NULL) / replicas : 1;
    s->what.compile.threads = (int)threads;
    s->what.compile.precision = mf_args_value(args, "precision");
    return MF_OK;
}

static void cmd_serve_say_ready(void *ctx, const char *host, int port, int64_t version)
{
    const serving *s = ctx;
    mf_buf out = { 0 };

    mf_buf_printf(&out, "serving %s version %lld at http://%s:%d/v1/models/%s with %d replica%s\n",
                  s->o.name, (long long)version, host, port, s->o.name, s->o.replicas,
                  s->o.replicas == 1 ? "" : "s");
    if (mf_cli_print(&out) != MF_OK)
        MF_WARN("%s", mf_error_message());
}

static mf_status cmd_serve(serving *s, mf_args *args)
{
    const char *name = mf_args_value(args, "name"), *host = mf_args_value(args, "host");

    s->o = (mf_serve_options){ .what = &s->what,
                               .name = name ? name : "model",
                               .where = args->words[0],
                               .host = host ? host : "127.0.0.1",
                               .ready = cmd_serve_say_ready,
                               .ctx = s };
    if (strpbrk(s->o.name, "/:?#% ") || !s->o.name[0])
        return mf_args_wrong(args, "--name is part of a path: use letters and digits, not '%s'",
                             s->o.name);
    MF_TRY(cmd_serve_read_numbers(s, args));
    MF_TRY(read_model(s, args));
    MF_TRY(mf_mesh_options_read(args, NULL, s->arena, &s->mesh));
    s->what.mesh = s->mesh.kind ? &s->mesh : NULL;
    return mf_serve(&s->o);
}

static mf_status serve_run(mf_args *args)
{
    serving s = { .arena = mf_arena_new() };
    mf_status st = s.arena ? cmd_serve(&s, args) : MF_NOMEM("a server");

    mf_dataset_unref(s.data);
    mf_arena_free(s.arena);
    return st;
}

static const mf_option options[] = {
    { .name = "name", .value = "NAME", .help = "name of the model in the paths (default: model)" },
    { .name = "host",
      .value = "ADDRESS",
      .help = "address to listen at; 0.0.0.0 accepts requests from everywhere (default: "
              "127.0.0.1)" },
    { .name = "port", .value = "N", .help = "port to listen at; 0: a free one (default: 8501)" },
    { .name = "replicas", .value = "N", .help = "processes that hold the model (default: 2)" },
    { .name = "threads",
      .value = "N",
      .help = "threads of each replica (default: the cores divided by the replicas)" },
    { .name = "batch", .value = "N", .help = "requests in one batch, at most (default: 32)" },
    { .name = "wait-ms",
      .value = "N",
      .help = "time that a request waits for others to join its batch while a replica is idle "
              "(default: 0)" },
    { .name = "max-body", .value = "MIB", .help = "larger requests are rejected (default: 16)" },
    { .name = "queue",
      .value = "N",
      .help = "requests that wait, at most; further requests get 503 (default: 1000)" },
    { .name = "poll-ms",
      .value = "N",
      .help = "interval at which newer checkpoints are looked for; 0: never (default: 1000)" },
    { .name = "timeout",
      .value = "S",
      .help = "a replica whose run takes longer is replaced (default: 60)" },
    { .name = "model",
      .value = "MODEL",
      .help = "model and its settings, e.g. 'mlp units=64' (default: that of the training)" },
    { .name = "data",
      .value = "DATA",
      .help = "data whose columns the model reads (default: that of the training)" },
    { .name = "set", .value = "SETTINGS", .help = "settings of the data, e.g. 'label=y'" },
    { .name = "columns",
      .value = "TEXT",
      .help = "columns, instead of data: 'image=uint8[28,28,1] label=int32[] classes=10'" },
    { .name = "precision", .value = "P", .help = "fp32, bf16 or fp16 (default: fp32)" },
    MF_MESH_OPTIONS,
    { 0 },
};

const mf_command mf_command_serve = {
    .name = "serve",
    .arguments = "CKPT",
    .summary = "serve predictions of a trained model over HTTP",
    .about =
        "Answers TensorFlow Serving's REST requests: POST /v1/models/NAME:predict (:classify, "
        ":regress), GET /v1/models/NAME and /v1/models/NAME/metadata, and /healthz and /metrics. "
        "CKPT is a checkpoint, the output directory of a training, or a folder of versions (1/, "
        "2/ ...); newer checkpoints in folders are loaded when they appear. Requests are "
        "combined into batches. A replica that dies is replaced, and its requests are sent to "
        "another one. Runs until SIGINT or SIGTERM. See docs/guides/serving.md.",
    .options = options,
    .examples = (const char *const[]){ "meshflow serve run",
                                       "meshflow serve run --replicas 4 --name clothes",
                                       "meshflow serve weights.npz --model mlp --columns "
                                       "'image=uint8[28,28,1] label=int32[] classes=10'",
                                       NULL },
    .min_args = 1,
    .max_args = 1,
    .run = serve_run,
};
