/* SPDX-License-Identifier: Apache-2.0 */
/* initializer.h - first values of weights, as ops: a function of the model's seed and the weight's
 * name. */
#ifndef MF_MODELS_INITIALIZER_H
#define MF_MODELS_INITIALIZER_H

#include "models/model.h"

/* `text`: Keras's name and settings ("glorot_uniform", "random_normal stddev=0.02"). Errors go to
 * the graph. */
mf_output mf_initializer(mf_model *model, const char *text, const mf_shape *shape,
                         const char *weight);

#endif
