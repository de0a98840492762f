/* SPDX-License-Identifier: Apache-2.0 */
/* compressed_model.h - a trained model during compression: its model text and its weights. Each
 * method changes both; the result builds an ordinary model. */
#ifndef MF_COMPRESS_COMPRESSED_MODEL_H
#define MF_COMPRESS_COMPRESSED_MODEL_H

#include "models/model.h"
#include "train/step/trainer.h"

#include <meshflow/train.h>

typedef struct mf_compressed_weight {
    const char *name;
    mf_tensor value;
} mf_compressed_weight;

typedef struct mf_compressed {
    mf_arena *arena;
    const mf_dataset *data; /* the model is built for its columns */
    const char *head; /* "mlp units=64", without layer overrides */
    const char *changes; /* "dense rank=8; ..." */
    const char *quantize; /* "* quantize=int8" and similar; "": not quantized */
    mf_compressed_weight *weights;
    int64_t n, cap;
} mf_compressed;

/* The model of this text with the weights of a checkpoint. The data must outlive it. Owns:
 * mf_compressed_deinit(), also after a failure. Fails as building and reading do. */
MF_MUST mf_status mf_compressed_init(mf_compressed *s, const char *text, const mf_dataset *data,
                                     const char *checkpoint);
void mf_compressed_deinit(mf_compressed *s);
/* A deep copy. */
MF_MUST mf_status mf_compressed_copy(mf_compressed *to, const mf_compressed *from);

/* "mlp units=64 changes='dense rank=8'", in the arena; NULL: no memory. */
const char *mf_compressed_text(const mf_compressed *s);
/* Overrides settings of a layer: "rank=8". */
MF_MUST mf_status mf_compressed_change(mf_compressed *s, const char *layer, const char *settings);
/* Owns: mf_model_free(). */
MF_MUST mf_status mf_compressed_model(const mf_compressed *s, mf_model **out);

/* A trainer with these weights; weights that are missing are initialized. Owns:
 * mf_compressed_trainer_free(), also after a failure. */
typedef struct mf_compressed_trainer {
    mf_model *model;
    mf_trainer *trainer;
} mf_compressed_trainer;
MF_MUST mf_status mf_compressed_train(const mf_compressed *s, const mf_compile_options *options,
                                      mf_compressed_trainer *out);
void mf_compressed_trainer_free(mf_compressed_trainer *t);
/* Replaces the weights by the trainer's. */
MF_MUST mf_status mf_compressed_take(mf_compressed *s, const mf_compressed_trainer *t);

/* NULL: no weight of this name. */
mf_tensor *mf_compressed_find(const mf_compressed *s, const char *name);
/* Moves the value; replaces a weight of this name. */
MF_MUST mf_status mf_compressed_set(mf_compressed *s, const char *name, mf_tensor *value);
void mf_compressed_remove(mf_compressed *s, const char *name);

/* Bytes of the weights as floats; the weights as a packed file (formats/packed.h). */
int64_t mf_compressed_bytes(const mf_compressed *s);
MF_MUST mf_status mf_compressed_encode(const mf_compressed *s, mf_buf *out);

#endif
