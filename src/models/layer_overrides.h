/* SPDX-License-Identifier: Apache-2.0 */
/* layer_overrides.h - settings of a model's layers that differ from what the model itself says:
 *
 *     changes='conv2d_1 filters=40; dense units=64 rank=16; * quantize=int8'
 *
 * A pattern of names (as of file names), and settings; several are separated by semicolons, and
 * later ones win. A pattern with a star leaves out layers that do not have the setting. So a model
 * that was compressed is still one of the zoo: whoever builds it needs nothing but this text. */
#ifndef MF_MODELS_LAYER_OVERRIDES_H
#define MF_MODELS_LAYER_OVERRIDES_H

#include "models/model.h"

/* Settings `o` of the layer of this name become what model->changes say. Fails: INVALID_ARGUMENT.
 */
MF_MUST mf_status mf_layer_overrides_apply(mf_model *model, const char *layer,
                                           const char *signature, mf_options *o);
/* Every pattern is some layer's of the model, which is built. Fails: NOT_FOUND naming the closest.
 */
MF_MUST mf_status mf_layer_overrides_check(const mf_model *model);

#endif
