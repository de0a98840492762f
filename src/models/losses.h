/* SPDX-License-Identifier: Apache-2.0 */
/* losses.h - losses: one number per sample, by Keras names. */
#ifndef MF_MODELS_LOSSES_H
#define MF_MODELS_LOSSES_H

#include "models/layer.h"

enum mf_loss_flag {
    MF_LOSS_CLASSES = 1 << 0, /* the label is a class number per row of the output */
    MF_LOSS_WHOLE = 1 << 1, /* a sample's loss depends on all samples of the step: l->in are those
                               of all shards */
};

typedef struct mf_loss_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    /* l->in: the model's output and the label; l->shape: the output's. Returns [n] or [n,...],
     * which is averaged over all dimensions except n. */
    mf_output (*build)(mf_layer_call *l);
    unsigned flags;
    const char *label; /* the shape of a float label; NULL: the output's */
} mf_loss_kind;

extern const mf_loss_kind mf_losses[];

/* Looks up the loss that `text` names. Fails: NOT_FOUND. */
MF_MUST mf_status mf_loss_find(const char *text, mf_arena *arena, const mf_loss_kind **out);

/* ---- shared with metrics.c ---- */

/* The label as floats with the output's shape; empty if it does not fit. */
mf_output mf_label_like_output(mf_layer_call *l);
/* The label as one class per row of the output, [n] or [n,t]; empty if it does not fit. */
mf_output mf_label_classes(mf_layer_call *l);
/* Mean over all dimensions except the first. */
mf_output mf_mean_of_samples(mf_layer_call *l, mf_output x);
/* Sets up scope and settings; `kind` is used in messages. */
MF_MUST mf_status mf_scores_begin(mf_model *model, const char *kind, const char *name,
                                  const char *signature, const char *settings, const mf_output *in,
                                  mf_layer_call *l);

#endif
