/* SPDX-License-Identifier: Apache-2.0 */
/* model_note.h - files that a training writes beside its checkpoints, from which eval, predict and
 * serve know the model and its data:
 *
 * model.json   {"model": "mlp units=64", "data": "d.csv", "format": "csv", "set": "label=y",
 *               "loss": "mean_squared_error", "metrics": "mean_absolute_error", "seed": 0,
 *               "samples": 180, "test": "t.csv" or "split": 0.1,
 *               "options": {"batch": "32", "lr": "0.1"}}
 * schema.json  the columns of the data: {"version": 1, "columns": [
 *                {"name": "x", "role": "input", "type": "float", "shape": [2],
 *                 "fields": ["a", "b"]},
 *                {"name": "label", "role": "label", "type": "int32", "shape": [],
 *                 "kind": "class", "classes": ["no", "yes"]}]}
 *              "classes" is the number of classes if they have no names. A label of the kind
 *              "number" has none. Readers ignore unknown keys. */
#ifndef MF_CLI_MODEL_NOTE_H
#define MF_CLI_MODEL_NOTE_H

#include "base/mem.h"
#include "data/schema.h"

#define MF_NOTE_NAME "model.json"
#define MF_SCHEMA_NAME "schema.json"

/* An option of the training. */
typedef struct mf_note_option {
    const char *name, *value; /* value: NULL: not given */
} mf_note_option;

typedef struct mf_model_note {
    const char *model; /* "mlp units=64" */
    const char *data; /* the training data, e.g. "fashion-mnist"; NULL: not noted */
    const char *format, *settings; /* of the data; NULL: not noted */
    const char *loss, *metrics; /* NULL: not noted */
    const char *test; /* --test of the training; NULL: not given */
    double split; /* fraction of the data that was kept for the test; 0: none */
    int64_t seed, samples; /* seed of the split, and number of samples of the whole data */
    const mf_note_option *options; /* options that determine the weights: resume.h */
    int64_t n_options; /* 0: not noted */
    mf_schema schema;
} mf_model_note;

/* Creates the folder if it does not exist. */
MF_MUST mf_status mf_model_note_write(const char *dir, const mf_model_note *note);
/* Reads the note of the checkpoint or folder `where`. Owns: allocated in the arena. Fails:
 * NOT_FOUND (there is no model.json, or no `where`), DATA_LOSS, also if schema.json is missing. */
MF_MUST mf_status mf_model_note_read(const char *where, mf_arena *arena, mf_model_note *out);

#endif
