/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - what train, eval and predict share: data, a model, and a trainer, as the command line
 * says.
 */
#ifndef MF_CLI_JOB_H
#define MF_CLI_JOB_H

#include "base/mem.h"
#include "cli/command.h"
#include "cli/model_note.h"

#include <meshflow/meshflow.h>

typedef struct mf_job {
    const char *model_text; /* "mlp units=64" */
    const char *data_text; /* "fashion-mnist" */
    mf_dataset *train, *validation, *test; /* NULL where not asked for */
    mf_model *model;
    mf_trainer *trainer;
    mf_compile_options compile;
    mf_strategy *strategy; /* NULL: alone */
    bool shown; /* on a board */
    mf_arena *arena;
    mf_model_note note; /* of the training before, for --from; all zero: there is none */
    mf_schema schema; /* of the training data, as it was opened */
    const char *format; /* of the training data */
    int64_t samples; /* of it, before any split */
    double split; /* of it for the test; 0: not split */
    const char *test_from; /* what the test is on, in words; NULL: there is no test */
    bool label_optional; /* set before loading: the data is only predicted */
} mf_job;

/* Options that name model and data, for the tables of all three commands. */
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
          .help = "test data (default: the test part of the data, or a tenth of the samples)" },   \
        { .name = "shards",                                                                        \
          .value = "N",                                                                            \
          .group = MF_GROUP_DISTRIBUTION,                                                          \
          .scope = MF_OPTION_JOB,                                                                  \
          .help = "shards of each batch; weights depend on this number, not on the number of "     \
                  "workers (default: 8)" },                                                        \
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

/* What `meshflow job status` calls the job: --name, else MODEL-NUMBER, where the number is that of
 * the process that launched all tasks, or of this one. */
void mf_job_name(const mf_job *job, const mf_args *args, mf_buf *out);
/* What the command line says. from: a checkpoint (NULL: none), beside which model and data are
 * noted where --model and --data do not name them. Fails as a wrong call. Owns: mf_job_deinit(),
 * also after a failure. */
MF_MUST mf_status mf_job_open(mf_job *job, mf_args *args, const char *from);
/* Opens data, and makes the model for it. with_training: the training part too. Fails as a wrong
 * call, or as opening does, with a hint. */
MF_MUST mf_status mf_job_load(mf_job *job, mf_args *args, bool with_training);
/* As --cache says, training samples that were read and decoded once stay in memory: always, never,
 * or where that pays. Fails as a wrong call. */
MF_MUST mf_status mf_job_cache(mf_job *job, mf_args *args);
/* Loss and metrics: as the command line says, else the model's own. */
void mf_job_losses(const mf_job *job, const mf_args *args, const mf_model *model,
                   mf_compile_options *out);
/* Weights of --freeze are not trained. */
MF_MUST mf_status mf_job_freeze(const mf_args *args, mf_model *model);
/* What all workers must have in common: the options of the command, and how many samples there are.
 */
MF_MUST mf_status mf_job_in_common(const char *command, mf_args *args, int64_t samples,
                                   mf_buf *out);
/* What a training leaves beside its checkpoints. Call after mf_job_compile(). */
void mf_job_note(const mf_job *job, const mf_args *args, mf_model_note *out);
/* Makes the trainer; job->compile may be completed before. */
MF_MUST mf_status mf_job_compile(mf_job *job, mf_args *args);
void mf_job_deinit(mf_job *job);

/* A decimal number in [min, max]; *out keeps its value when the option is absent. Fails as a wrong
 * call. */
MF_MUST mf_status mf_args_double(mf_args *args, const char *option, double min, double max,
                                 double *out);

#endif
