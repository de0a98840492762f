/* SPDX-License-Identifier: Apache-2.0 */
/* losses.h - what training makes small: a number for each sample, by Keras's names. */
#ifndef MF_MODELS_LOSSES_H
#define MF_MODELS_LOSSES_H

#include "models/layer.h"

typedef struct mf_loss_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    /* l->in: the model's output and the label, l->shape the output's. Returns [n] or [n,...], of
     * which the mean over all but n is taken. */
    mf_output (*build)(mf_layer_call *l);
} mf_loss_kind;

extern const mf_loss_kind mf_losses[];

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
