/* SPDX-License-Identifier: Apache-2.0 */
/* small.h - a trained model while it becomes smaller: the text that it is built from, and its
 * weights. Each way of compressing changes both; what is built from them is an ordinary model. */
#ifndef MF_COMPRESS_SMALL_H
#define MF_COMPRESS_SMALL_H

#include "models/model.h"
#include "train/trainer.h"

#include <meshflow/train.h>

typedef struct mf_small_weight {
    const char *name;
    mf_tensor value;
} mf_small_weight;

typedef struct mf_small {
    mf_arena *arena;
    const mf_dataset *data; /* whose columns it is for */
    const char *head; /* "mlp units=64", without changes of layers */
    const char *changes; /* "dense rank=8; ..." */
    const char *quantize; /* "* quantize=int8", and so on; "": not */
    mf_small_weight *weights;
    int64_t n, cap;
} mf_small;

/* The model of this text, and the weights of a checkpoint. The data must outlive it. Owns:
 * mf_small_deinit(), also after a failure. Fails as building and reading do. */
MF_MUST mf_status mf_small_init(mf_small *s, const char *text, const mf_dataset *data,
                                const char *checkpoint);
void mf_small_deinit(mf_small *s);
/* The same again, by itself. */
MF_MUST mf_status mf_small_copy(mf_small *to, const mf_small *from);

/* "mlp units=64 changes='dense rank=8'", in the arena; NULL: no memory. */
const char *mf_small_text(const mf_small *s);
/* Change a layer: "rank=8". */
MF_MUST mf_status mf_small_change(mf_small *s, const char *layer, const char *settings);
/* Owns: mf_model_free(). */
MF_MUST mf_status mf_small_model(const mf_small *s, mf_model **out);

/* A trainer with these weights (those that are not there yet have their first values). Owns:
 * mf_small_trainer_free(), also after a failure. */
typedef struct mf_small_trainer {
    mf_model *model;
    mf_trainer *trainer;
} mf_small_trainer;
MF_MUST mf_status mf_small_train(const mf_small *s, const mf_compile_options *options,
                                 mf_small_trainer *out);
void mf_small_trainer_free(mf_small_trainer *t);
/* Take its weights over. */
MF_MUST mf_status mf_small_take(mf_small *s, const mf_small_trainer *t);

/* NULL: there is none of this name. */
mf_tensor *mf_small_find(const mf_small *s, const char *name);
/* The value is moved; it replaces one of this name. */
MF_MUST mf_status mf_small_set(mf_small *s, const char *name, mf_tensor *value);
void mf_small_remove(mf_small *s, const char *name);

/* Bytes of the weights as floats; and as a packed file (formats/packed.h). */
int64_t mf_small_bytes(const mf_small *s);
MF_MUST mf_status mf_small_encode(const mf_small *s, mf_buf *out);

#endif
