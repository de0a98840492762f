/* SPDX-License-Identifier: Apache-2.0 */
/* zoo.h - models by name. A model is a row in a table of its file; it examines the columns of the
 * data and builds layers that fit them. */
#ifndef MF_MODELS_ZOO_H
#define MF_MODELS_ZOO_H

#include "models/model.h"

typedef struct mf_zoo_kind mf_zoo_kind;

typedef struct mf_zoo_call {
    mf_model *model;
    const mf_zoo_kind *kind;
    const mf_column *columns;
    int n_columns;
    int64_t classes; /* of the label; 0: a number to predict */
    mf_options o;
} mf_zoo_call;

struct mf_zoo_kind {
    const char *name; /* NULL ends a table */
    const char *settings;
    const char *about;
    const char *needs; /* description of the columns */
    const char *example; /* example data: "image=uint8[28,28,1] label=int32[] classes=10" */
    const char *loss, *metrics; /* defaults; several metrics are separated by ", " */
    mf_output (*build)(mf_zoo_call *z);
};

/* One table per family, terminated by NULL (zoo.c). */
extern const mf_zoo_kind *const mf_zoo_families[];

/* NULL: not found. */
const mf_zoo_kind *mf_zoo_find(const char *name);

/* Builds a model for such data, by name and settings ("mlp units=64"). Every model also takes
 * changes='...', overrides of its layers' settings (layer_overrides.h). Fails: NOT_FOUND naming the
 * known models, INVALID_ARGUMENT (settings; columns that do not fit). */
MF_MUST mf_status mf_zoo_build(const char *text, const mf_column *columns, int n_columns,
                               int64_t classes, mf_model **out);

/* Parses columns "image=uint8[28,28,1] label=int32[] classes=10" into the arena. */
MF_MUST mf_status mf_zoo_columns(const char *text, mf_arena *arena, mf_column **columns,
                                 int *n_columns, int64_t *classes);

/* ---- for the models ---- */

/* NULL: not found. */
const mf_column *mf_zoo_column(const mf_zoo_call *z, const char *name);
/* The column as an input of the model, with a rank in this range. If the data does not have it, the
 * failure is recorded and the output is empty. */
mf_output mf_zoo_input(mf_zoo_call *z, const char *name, int min_rank, int max_rank);
/* One score per class of the label; for a float label as many numbers as it has, with loss and
 * metrics of a regression. A failure is recorded if the number of classes is unknown, or if there
 * is no label (unless `alone` is set: then one number). */
mf_output mf_zoo_scores(mf_zoo_call *z, mf_output x, bool alone);
/* Records why the data does not fit; returns an empty output. */
mf_output mf_zoo_fail(mf_zoo_call *z, const char *fmt, ...) MF_PRINTF(2, 3);

#endif
