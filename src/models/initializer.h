/* SPDX-License-Identifier: Apache-2.0 */
/* initializer.h - initial values of weights, as ops: a function of the model's seed and the
 * weight's name. */
#ifndef MF_MODELS_INITIALIZER_H
#define MF_MODELS_INITIALIZER_H

#include "models/model.h"

/* Arguments of an initializer. */
typedef struct mf_initializer_call {
    mf_graph *graph;
    const mf_shape *shape;
    mf_output dims; /* the shape as a constant */
    mf_output key; /* of the random stream */
    double fan_in, fan_out; /* number of inputs per output, and of outputs per input */
    mf_options o;
} mf_initializer_call;

typedef struct mf_initializer_kind {
    const char *name; /* Keras's; NULL ends the table */
    const char *settings;
    const char *about;
    mf_output (*build)(const mf_initializer_call *r);
} mf_initializer_kind;

extern const mf_initializer_kind mf_initializers[];

/* `text`: name and settings ("glorot_uniform", "random_normal stddev=0.02"). Failures are recorded
 * in the graph. */
mf_output mf_initializer(mf_model *model, const char *text, const mf_shape *shape,
                         const char *weight);

#endif
