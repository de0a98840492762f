/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - data, model and trainer as described by a command line. */
#include "cli/job.h"

#include "base/mem.h"
#include "cli/job_data.h"
#include "models/zoo.h"
#include "observe/status_page.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

mf_status mf_args_double(mf_args *args, const char *option, double min, double max, double *out)
{
    const char *text = mf_args_value(args, option);
    char *end;
    double value;

    if (!text)
        return MF_OK;
    errno = 0;
    value = strtod(text, &end);
    if (errno || end == text || *end || !(value >= min && value <= max))
        return mf_args_wrong(args, "--%s expects a number from %.9g to %.9g, not '%.100s'", option,
                             min, max, text);
    *out = value;
    return MF_OK;
}

/* ---- name ---- */

void mf_job_name(const mf_job *job, const mf_args *args, mf_buf *out)
{
    const char *name = mf_args_value(args, "name"), *launcher = getenv("MESHFLOW_LAUNCHER");
    const size_t word = strcspn(job->model_text, " ");

    if (name)
        mf_buf_str(out, name);
    else
        mf_buf_printf(out, "%.*s-%lld", word < 40 ? (int)word : 40, job->model_text,
                      launcher ? strtoll(launcher, NULL, 10) : (long long)getpid());
}

mf_status mf_job_cache(mf_job *job, mf_args *args)
{
    const char *when = mf_args_value(args, "cache");
    mf_dataset *kept;

    if (when && strcmp(when, "off") == 0)
        return MF_OK;
    if (when && strcmp(when, "on") == 0)
        MF_TRY(mf_dataset_cache(job->train, 0, &kept));
    else if (!when || strcmp(when, "auto") == 0)
        MF_TRY(mf_dataset_cache_if_it_fits(job->train, &kept));
    else
        return mf_args_wrong(args, "--cache is auto, on or off, not '%s'", when);
    mf_dataset_unref(job->train);
    job->train = kept;
    return MF_OK;
}

/* ---- numbers ---- */

static mf_status job_read_numbers(mf_job *job, mf_args *args)
{
    int64_t shards = 8, threads = 0, seed = 0;

    MF_TRY(mf_args_int(args, "shards", 1, 4096, &shards));
    MF_TRY(mf_args_int(args, "threads", 0, 1024, &threads));
    MF_TRY(mf_args_int(args, "seed", 0, INT64_MAX, &seed));
    job->compile.shards = (int)shards;
    job->compile.threads = (int)threads;
    job->compile.seed = (uint64_t)seed;
    job->compile.precision = mf_args_value(args, "precision");
    job->compile.disable = mf_args_value(args, "disable");
    return MF_OK;
}

/* Options that are not given have the values of the note beside the checkpoint, if there is one. */
static mf_status job_read_note(mf_job *job, const char *from)
{
    const mf_status st = mf_model_note_read(from, job->arena, &job->note);

    job->model_text = job->model_text ? job->model_text : job->note.model;
    job->data_text = job->data_text ? job->data_text : job->note.data;
    return st == MF_NOT_FOUND ? MF_OK : st;
}

mf_status mf_job_open(mf_job *job, mf_args *args, const char *from)
{
    *job = (mf_job){ .model_text = mf_args_value(args, "model"),
                     .data_text = mf_args_value(args, "data"),
                     .arena = mf_arena_new() };
    if (!job->arena)
        return MF_NOMEM("a job");
    if (from)
        MF_TRY(job_read_note(job, from));
    if (!job->model_text && from && !mf_args_has(args, "resume"))
        return mf_args_wrong(args,
                             "there is no trained model at '%s': name the output directory of a "
                             "training, which has a " MF_NOTE_NAME ", or give --model",
                             from);
    if (!job->model_text)
        return mf_args_wrong(args, "--model is missing: `meshflow models` lists the models");
    return job_read_numbers(job, args);
}

/* For the test data and, if they are open, the training data. */
static mf_status make_pairs(mf_job *job, const mf_args *args)
{
    const char *settings = mf_args_value(args, "pairs");
    mf_dataset **const sets[] = { &job->train, &job->test };

    for (int i = 0; settings && i < MF_COUNT(sets); i++) {
        mf_dataset *pairs;

        if (!*sets[i])
            continue;
        MF_TRY(mf_dataset_pairs(*sets[i], settings, job->compile.seed, &pairs));
        mf_dataset_unref(*sets[i]);
        *sets[i] = pairs;
    }
    return MF_OK;
}

/* With the columns of the training where they are known. */
static mf_status job_build_model(mf_job *job)
{
    const mf_schema *schema = &job->note.schema;
    const mf_schema_column *label = mf_schema_label(schema);
    mf_column *columns;

    if (schema->n == 0)
        return mf_model_zoo(job->model_text, job->train ? job->train : job->test, &job->model);
    columns = MF_ARENA_ARRAY(job->arena, mf_column, schema->n);
    if (!columns)
        return MF_NOMEM("a model");
    for (int i = 0; i < schema->n; i++)
        columns[i] = schema->columns[i].is;
    return mf_zoo_build(job->model_text, columns, schema->n, label ? label->classes : 0,
                        &job->model);
}

mf_status mf_job_load(mf_job *job, mf_args *args, bool with_training)
{
    MF_TRY(mf_job_open_data(job, args, with_training));
    MF_TRY(make_pairs(job, args));
    if (job->train)
        MF_TRY(mf_schema_of(job->train, job->arena, &job->schema));
    return job_build_model(job);
}

/* In this order: the command line, the note of the training, the defaults of the model. */
void mf_job_losses(const mf_job *job, const mf_args *args, const mf_model *model,
                   mf_compile_options *out)
{
    const char *loss = mf_args_value(args, "loss"), *metrics = mf_args_value(args, "metrics");

    mf_model_defaults(model, &out->loss, &out->metrics);
    if (job->note.loss && !loss) {
        out->loss = job->note.loss;
        out->metrics = job->note.metrics;
    }
    if (loss)
        out->loss = loss;
    if (metrics)
        out->metrics = metrics;
}

void mf_job_note(const mf_job *job, const mf_args *args, mf_model_note *out)
{
    const char *settings = mf_args_value(args, "set"), *test = mf_args_value(args, "test");

    *out = (mf_model_note){ .model = job->model_text,
                            .data = job->data_text,
                            .format = job->format,
                            .settings = settings ? settings : job->note.settings,
                            .loss = job->compile.loss,
                            .metrics = job->compile.metrics,
                            .test = test ? test : job->note.test,
                            .split = job->split,
                            .seed = job->split > 0.0 && job->note.split > 0.0
                                        ? job->note.seed
                                        : (int64_t)job->compile.seed,
                            .samples = job->samples,
                            .schema = job->schema };
}

mf_status mf_job_freeze(const mf_args *args, mf_model *model)
{
    const char *pattern;
    int64_t at = 0;

    while ((pattern = mf_args_next(args, "freeze", &at)) != NULL)
        MF_TRY(mf_model_freeze(model, pattern, true));
    return MF_OK;
}

static bool has_store(mf_args *args)
{
    const char *given = mf_args_value(args, "store");
    const char *store = given ? given : getenv("MESHFLOW_STORE");

    return store && store[0] != '\0';
}

/* Workers may have different values of it. Tasks that join a job with a store are not in the
 * description of the cluster that the first tasks were given. */
static bool may_differ(const mf_option *o, mf_args *args)
{
    return o->scope == MF_OPTION_TASK || (o->scope == MF_OPTION_TASK_WITH_STORE && has_store(args));
}

mf_status mf_job_in_common(const char *command, mf_args *args, int64_t samples, mf_buf *out)
{
    for (const mf_option *o = mf_command_find(command)->options; o->name; o++) {
        const char *value, *between = "";
        int64_t at = 0;

        if (!mf_args_has(args, o->name) || may_differ(o, args))
            continue;
        mf_buf_printf(out, "--%s=%s", o->name, o->value ? "" : "yes");
        /* One line for all values: a difference is found by the name at its beginning. */
        for (; o->value && (value = mf_args_next(args, o->name, &at)) != NULL; between = " ")
            mf_buf_printf(out, "%s%s", between, value);
        mf_buf_str(out, "\n");
    }
    mf_buf_printf(out, "samples=%lld\n", (long long)samples);
    return mf_buf_finish(out);
}

mf_status mf_job_compile(mf_job *job, mf_args *args)
{
    mf_job_losses(job, args, job->model, &job->compile);
    return mf_model_compile(job->model, &job->compile, &job->trainer);
}

void mf_job_deinit(mf_job *job)
{
    mf_trainer_free(job->trainer);
    mf_strategy_close(job->strategy);
    if (job->shown)
        mf_status_page_close();
    mf_model_free(job->model);
    mf_dataset_unref(job->train);
    mf_dataset_unref(job->validation);
    mf_dataset_unref(job->test);
    mf_arena_free(job->arena);
}
