/* SPDX-License-Identifier: Apache-2.0 */
/* losses.h - what training makes small: a number for each sample, by Keras's names. */
#ifndef MF_MODELS_LOSSES_H
#define MF_MODELS_LOSSES_H

#include "models/layer.h"

enum mf_loss_flag {
    MF_LOSS_CLASSES = 1 << 0, /* the label is a class number for each row of the output */
    MF_LOSS_WHOLE = 1 << 1, /* a sample's number depends on all others of the step: l->in are those
                               of all shards, not of one */
};

typedef struct mf_loss_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    /* l->in: the model's output and the label, l->shape the output's. Returns [n] or [n,...], of
     * which the mean over all but n is taken. */
    mf_output (*build)(mf_layer_call *l);
    unsigned flags;
    const char *label; /* the shape of its label of floats; NULL: it goes with the output */
} mf_loss_kind;

extern const mf_loss_kind mf_losses[];

/* The loss that `text` names. Fails: NOT_FOUND. */
MF_MUST mf_status mf_loss_find(const char *text, mf_arena *arena, const mf_loss_kind **out);

/* ---- shared with metrics.c ---- */

/* The label as floats, with the output's shape; empty when it does not fit. */
mf_output mf_label_like_output(mf_layer_call *l);
/* The label as one class for each row of the output, [n] or [n,t]; empty when it does not fit. */
mf_output mf_label_classes(mf_layer_call *l);
/* Mean over all but the first dimension. */
mf_output mf_mean_of_samples(mf_layer_call *l, mf_output x);
/* Sets scope and settings up; `kind` says what it is for messages. */
MF_MUST mf_status mf_scores_begin(mf_model *model, const char *kind, const char *name,
                                  const char *signature, const char *settings, const mf_output *in,
                                  mf_layer_call *l);

#endif
