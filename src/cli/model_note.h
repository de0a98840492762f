/* SPDX-License-Identifier: Apache-2.0 */
/* model_note.h - model.json, which a training leaves beside its checkpoints: what `meshflow serve`
 * must know to build the model again, without the data. */
#ifndef MF_CLI_MODEL_NOTE_H
#define MF_CLI_MODEL_NOTE_H

#include "cli/job.h"
#include "models/zoo.h"

typedef struct mf_model_note {
    const char *model; /* "mlp units=64" */
    const char *data; /* "fashion-mnist": what it has learned from; NULL: not noted */
    mf_column *columns;
    int n_columns;
    int64_t classes;
    const char **class_names; /* by class; NULL: they have none */
} mf_model_note;

/* {"model": "mlp", "data": "fashion-mnist", "columns": "image=uint8[28,28,1] label=int32[]
 * classes=10", "classes": ["T-shirt/top", ...]}. The folder is made if it is not there. */
MF_MUST mf_status mf_model_note_write(const char *dir, const mf_job *job);
/* Of the checkpoint or folder `where`. Owns: all is in the arena. Fails: NOT_FOUND (there is none),
 * DATA_LOSS. */
MF_MUST mf_status mf_model_note_read(const char *where, mf_arena *arena, mf_model_note *out);

#endif
