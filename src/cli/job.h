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
    { "model", "MODEL", "a model of the zoo, with settings: 'mlp units=64'", 0, false },           \
        { "data", "DATA", "a known data set, a folder, or files", 0, false },                      \
        { "set", "SETTINGS", "settings of the data: 'label=y'", 0, false },                        \
        { "pairs", "SETTINGS", "make pairs of views of the images: 'rotate=20 crop=3'", 0,         \
          false },                                                                                 \
        { "test", "DATA",                                                                          \
          "data to test on; default: the test part of the data, else a tenth of it", 0, false },   \
        { "shards", "N", "parts that every batch is cut into; 8 unless told", 0, false },          \
        { "threads", "N", "threads; as many as there are cores unless told", 0, false },           \
        { "seed", "N", "of weights, order and augmentation; 0 unless told", 0, false },            \
        { "precision", "P",                                                                        \
          "fp32, bf16 or fp16; 'bf16 stored=bf16': 16 bits of each weight in checkpoints, too", 0, \
          false },                                                                                 \
        { "loss", "LOSS", "what is made small; the model's own unless told", 0, false },           \
        { "metrics", "NAMES",                                                                      \
          "what is measured, with commas: 'accuracy,f1'; the model's own unless told", 0, false }, \
        { "disable", "PASSES", "passes to leave out", 0, false },                                  \
    {                                                                                              \
        "json", NULL, "one line of JSON at the end", 0, false                                      \
    }

/* What `meshflow status` calls the job: --name, else MODEL-NUMBER, where the number is that of the
 * process that launched all tasks, or of this one. */
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
