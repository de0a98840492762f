/* SPDX-License-Identifier: Apache-2.0 */
/* recompute_layers.h - which layers of a model are recomputed in the backward pass. */
#ifndef MF_TRAIN_STEP_RECOMPUTE_LAYERS_H
#define MF_TRAIN_STEP_RECOMPUTE_LAYERS_H

#include "models/model.h"

/* After the gradients of the model's step are built. `text`: "layers", or the number of layers of a
 * segment; NULL: only layers with recompute=true, each by itself. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_recompute_layers(mf_model *model, const char *text);

#endif
