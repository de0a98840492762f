/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - data, model and trainer of a command, as described by its options. Shared by train, eval,
 * predict and others. */
#ifndef MF_CLI_JOB_H
#define MF_CLI_JOB_H

#include "base/mem.h"
#include "cli/command.h"
#include "cli/model_note.h"

#include <meshflow/meshflow.h>

typedef struct mf_job {
    const char *model_text; /* "mlp units=64" */
    const char *data_text; /* "fashion-mnist" */
    mf_dataset *train, *validation, *test; /* NULL: not requested */
    mf_model *model;
    mf_trainer *trainer;
    mf_compile_options compile;
    mf_strategy *strategy; /* NULL: a single process */
    bool shown; /* it has a status page */
    mf_arena *arena;
    mf_model_note note; /* of the earlier training, for --from; zero: there is none */
    mf_schema schema; /* of the opened training data */
    const char *format; /* of the training data */
    int64_t samples; /* of the training data, before any split */
    double split; /* fraction of the samples kept for the test; 0: not split */
    const char *test_from; /* describes the test data; NULL: there is no test */
    bool label_optional; /* set before loading: the data is only used for predictions */
} mf_job;

/* Options that describe model and data, for option tables. */
#define MF_JOB_OPTIONS                                                                             \
    { .name = "model",                                                                             \
      .value = "MODEL",                                                                            \
      .group = MF_GROUP_MODEL,                                                                     \
      .scope = MF_OPTION_JOB,                                                                      \
      .help = "model and its settings, e.g. 'mlp units=64'; `meshflow models` lists them" },       \
        { .name = "data",                                                                          \
          .value = "DATA",                                                                         \
          .group = MF_GROUP_DATA,                                                                  \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "name of a known data set, a folder, or files" },                                \
        { .name = "set",                                                                           \
          .value = "SETTINGS",                                                                     \
          .group = MF_GROUP_DATA,                                                                  \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "settings of the data, e.g. 'label=y'" },                                        \
        { .name = "pairs",                                                                         \
          .value = "SETTINGS",                                                                     \
          .group = MF_GROUP_DATA,                                                                  \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "make pairs of views of each image, e.g. 'rotate=20 crop=3'" },                  \
        { .name = "test",                                                                          \
          .value = "DATA",                                                                         \
          .group = MF_GROUP_DATA,                                                                  \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "test data (default: the test set of --data; without one, 10 % of the "          \
                  "samples)" },                                                                    \
        { .name = "shards",                                                                        \
          .value = "N",                                                                            \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "number of shards of each batch; the weights depend on it, but not on "          \
                  "the number of workers (default: 8)" },                                          \
        { .name = "threads",                                                                       \
          .value = "N",                                                                            \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_TASK,                                                                 \
          .help = "threads that compute (default: one for each core)" },                           \
        { .name = "seed",                                                                          \
          .value = "N",                                                                            \
          .group = MF_GROUP_OPTIMISATION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "seed of initial weights, sample order and augmentation (default: 0)" },         \
        { .name = "precision",                                                                     \
          .value = "P",                                                                            \
          .group = MF_GROUP_OPTIMISATION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "fp32, bf16 or fp16; 'bf16 stored=bf16' also stores checkpoints in 16 bits "     \
                  "(default: fp32)" },                                                             \
        { .name = "loss",                                                                          \
          .value = "LOSS",                                                                         \
          .group = MF_GROUP_OPTIMISATION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "loss function (default: that of the model)" },                                  \
        { .name = "metrics",                                                                       \
          .value = "NAMES",                                                                        \
          .group = MF_GROUP_OPTIMISATION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help =                                                                                  \
              "metrics, separated by commas, e.g. 'accuracy,f1' (default: those of the model)" },  \
        { .name = "disable",                                                                       \
          .value = "PASSES",                                                                       \
          .group = MF_GROUP_DIAGNOSIS,                                                             \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "compiler passes to switch off, separated by commas" },                          \
    {                                                                                              \
        .name = "json", .group = MF_GROUP_OUTPUT, .scope = MF_OPTION_TASK,                         \
        .help = "print the result as one line of JSON"                                             \
    }

/* The name of the job for `meshflow job status`: --name, or MODEL-NUMBER, where the number is the
 * pid of the launcher of all tasks, or of this process. */
void mf_job_name(const mf_job *job, const mf_args *args, mf_buf *out);
/* Reads the options. from: a checkpoint (NULL: none) whose note names model and data where --model
 * and --data do not. Fails as invalid usage. Owns: mf_job_deinit(), also after a failure. */
MF_MUST mf_status mf_job_open(mf_job *job, mf_args *args, const char *from);
/* Opens the data and builds the model for it. with_training: the training data too. Fails as
 * invalid usage or as opening does, with a hint. */
MF_MUST mf_status mf_job_load(mf_job *job, mf_args *args, bool with_training);
/* Applies --cache: decoded training samples stay in memory always, never, or where it saves time.
 * Fails as invalid usage. */
MF_MUST mf_status mf_job_cache(mf_job *job, mf_args *args);
/* Loss and metrics of the command line, or those of the model. */
void mf_job_losses(const mf_job *job, const mf_args *args, const mf_model *model,
                   mf_compile_options *out);
/* Excludes the weights of --freeze from training. */
MF_MUST mf_status mf_job_freeze(const mf_args *args, mf_model *model);
/* Appends the settings that all workers must share: options of the command and the number of
 * samples. */
MF_MUST mf_status mf_job_in_common(const char *command, mf_args *args, int64_t samples,
                                   mf_buf *out);
/* The note that a training writes beside its checkpoints. Call after mf_job_compile(). */
void mf_job_note(const mf_job *job, const mf_args *args, mf_model_note *out);
/* Creates the trainer; job->compile may be completed before. */
MF_MUST mf_status mf_job_compile(mf_job *job, mf_args *args);
void mf_job_deinit(mf_job *job);

/* A number in [min, max]; *out keeps its value if the option is absent. Fails as invalid usage. */
MF_MUST mf_status mf_args_double(mf_args *args, const char *option, double min, double max,
                                 double *out);

#endif
