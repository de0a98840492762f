/* SPDX-License-Identifier: Apache-2.0 */
/* layer_overrides.h - overrides of the settings of a model's layers:
 *
 *     changes='conv2d_1 filters=40; dense units=64 rank=16; * quantize=int8'
 *
 * Each has a pattern of layer names (as for file names) and settings; they are separated by
 * semicolons, and later ones win. A pattern with a star skips layers that do not have the setting.
 * So a compressed model is still a model of the zoo: this text is all that is needed to build it.
 */
#ifndef MF_MODELS_LAYER_OVERRIDES_H
#define MF_MODELS_LAYER_OVERRIDES_H

#include "models/model.h"

/* Applies model->changes to the settings `o` of the layer of this name. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_layer_overrides_apply(mf_model *model, const char *layer,
                                           const char *signature, mf_options *o);
/* Checks that every pattern matches a layer of the built model. Fails: NOT_FOUND naming the
 * closest. */
MF_MUST mf_status mf_layer_overrides_check(const mf_model *model);

#endif
