/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_eval.c - `meshflow eval` and `meshflow predict`: run a trained model on data. */
#include "base/file.h"
#include "cli/cluster_options.h"
#include "cli/job_data.h"
#include "cli/mesh_options.h"
#include "cli/predictions.h"
#include "formats/npy.h"
#include "report/detections.h"

#include <string.h>

/* With --mesh, all workers of the job compute together. */
static mf_status cmd_eval_open_mesh(mf_job *job, const char *command, mf_args *args)
{
    mf_strategy_settings settings;
    mf_buf identity = { 0 };
    mf_strategy_options o;
    mf_status st = MF_OK;

    MF_TRY(mf_mesh_options_read(args, NULL, job->arena, &settings));
    if (!settings.kind)
        return MF_OK;
    MF_TRY_TO(done, mf_connect_options_read(args, &o));
    MF_TRY_TO(done, mf_job_in_common(command, args, mf_dataset_count(job->test), &identity));
    o.identity = identity.data;
    MF_TRY_TO(done, mf_strategy_open_with(&settings, &o, &job->strategy));
    job->compile.strategy = job->strategy;
done:
    mf_buf_deinit(&identity);
    return st;
}

/* The columns of the data must be those of the training. */
static mf_status check_schema(const mf_job *job, const mf_args *args)
{
    const char *test = mf_args_value(args, "test");

    if (job->note.schema.n == 0)
        return MF_OK;
    return mf_schema_check(&job->note.schema, job->test, test ? test : job->data_text);
}

static mf_status cmd_eval_open_trained(mf_job *job, const char *command, mf_args *args)
{
    const char *from = mf_args_value(args, "from");

    if (!from)
        return mf_args_wrong(args, "--from is missing: a checkpoint, or the output directory of "
                                   "a training");
    MF_TRY(mf_job_open(job, args, from));
    job->label_optional = strcmp(command, "predict") == 0;
    MF_TRY(mf_job_load(job, args, false));
    MF_TRY(check_schema(job, args));
    MF_TRY(cmd_eval_open_mesh(job, command, args));
    MF_TRY(mf_job_compile(job, args));
    return mf_trainer_use(job->trainer, from);
}

/* ---- eval ---- */

static mf_status print_results(const mf_job *job, const mf_args *args, const mf_result *results,
                               int n)
{
    const bool json = mf_args_has(args, "json");
    int width = 12;
    mf_buf out = { 0 };

    for (int i = 0; i < n; i++)
        width = (int)strlen(results[i].name) > width ? (int)strlen(results[i].name) : width;
    for (int i = 0; i < n; i++) {
        if (json)
            mf_buf_printf(&out, "%s\"%s\":%.9g", i ? "," : "{", results[i].name, results[i].value);
        else
            mf_buf_printf(&out, "%-*s %.4f\n", width, results[i].name, results[i].value);
    }
    if (json)
        mf_job_print_samples(job, &out);
    else
        mf_buf_printf(&out, "%-*s %lld of %s\n", width, "samples",
                      (long long)mf_dataset_count(job->test), job->test_from);
    mf_buf_str(&out, json ? "}\n" : "");
    return mf_cli_print(&out);
}

static mf_status eval_run(mf_args *args)
{
    mf_result results[MF_MAX_RESULTS];
    mf_job job = { 0 };
    mf_status st = cmd_eval_open_trained(&job, "eval", args);
    int n = 0;

    if (st == MF_OK)
        st = mf_evaluate(job.trainer, job.test, results, &n);
    if (st == MF_OK && mf_strategy_is_chief(job.strategy))
        st = print_results(&job, args, results, n);
    mf_job_deinit(&job);
    return st;
}

/* ---- predict ---- */

static mf_status write_npy(const mf_tensor *t, const char *path)
{
    mf_buf bytes = { 0 };
    mf_status st = mf_npy_encode(t, &bytes);

    if (st == MF_OK)
        st = mf_file_write(path, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    return st;
}

/* Writes to --draw, --output or standard output. */
static mf_status cmd_eval_write(const mf_job *job, const mf_args *args, const mf_tensor *out)
{
    const char *path = mf_args_value(args, "output"), *drawing = mf_args_value(args, "draw");

    if (drawing && !mf_detections_are(job->model, out))
        return MF_FAIL(MF_INVALID_ARGUMENT, "--draw needs a detector: the model must be "
                                            "faster-rcnn");
    if (drawing)
        MF_TRY(mf_detections_draw(job->test, out, drawing));
    if (path)
        return write_npy(out, path);
    return drawing ? MF_OK : mf_predictions_print(job, out, mf_args_has(args, "json"));
}

static mf_status predict_run(mf_args *args)
{
    mf_tensor *out = NULL;
    mf_job job = { 0 };
    mf_status st = cmd_eval_open_trained(&job, "predict", args);

    if (st == MF_OK)
        st = mf_predict(job.trainer, job.test, &out);
    if (st == MF_OK && mf_strategy_is_chief(job.strategy))
        st = cmd_eval_write(&job, args, out);
    mf_tensor_free(out);
    mf_job_deinit(&job);
    return st;
}

/* ---- commands ---- */

static const mf_option eval_options[] = {
    MF_JOB_OPTIONS,
    { .name = "from",
      .value = "CKPT",
      .group = MF_GROUP_MODEL,
      .scope = MF_OPTION_TASK,
      .help = "a checkpoint, or a folder, whose newest checkpoint is read" },
    MF_MESH_OPTIONS,
    MF_CONNECT_OPTIONS,
    { 0 },
};

const mf_command mf_command_eval = {
    .name = "eval",
    .arguments = "",
    .summary = "test a trained model",
    .about = "Prints loss and metrics over the test samples of the training. With --data or "
             "--test, uses other data: its test part, or all of its samples if it has none.",
    .options = eval_options,
    .examples =
        (const char *const[]){ "meshflow eval --model mlp --data fashion-mnist --from run", NULL },
    .run = eval_run,
};

static const mf_option predict_options[] = {
    MF_JOB_OPTIONS,
    { .name = "from",
      .value = "CKPT",
      .group = MF_GROUP_MODEL,
      .scope = MF_OPTION_TASK,
      .help = "a checkpoint, or a folder, whose newest checkpoint is read" },
    MF_MESH_OPTIONS,
    MF_CONNECT_OPTIONS,
    { .name = "output",
      .value = "FILE",
      .group = MF_GROUP_OUTPUT,
      .scope = MF_OPTION_TASK,
      .help = "write the outputs of the model to FILE, as .npy" },
    { .name = "draw",
      .value = "FILE",
      .group = MF_GROUP_OUTPUT,
      .scope = MF_OPTION_JOB,
      .help = "with a detector: draw the objects found in the first samples, as SVG" },
    { 0 },
};

const mf_command mf_command_predict = {
    .name = "predict",
    .arguments = "",
    .summary = "predict with a trained model",
    .about = "Prints one line for each sample that `meshflow eval` would use: its number and the "
             "class with the highest score or, without classes, the outputs. With a detector, "
             "one line for each detected object: sample, score, box, class. The data needs no "
             "label. --json prints one object with all predictions.",
    .options = predict_options,
    .examples = (const char *const[]){ "meshflow predict --model mlp --data fashion-mnist "
                                       "--from run --output scores.npy",
                                       "meshflow predict --model faster-rcnn --data scenes "
                                       "--from run --draw found.svg",
                                       NULL },
    .run = predict_run,
};
