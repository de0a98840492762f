/* SPDX-License-Identifier: Apache-2.0 */
/* conv_columns.h - convolutions as matrix products: those of doubles and integers, and those of
 * floats with unusual windows. */
#ifndef MF_OPS_NN_CONV_COLUMNS_H
#define MF_OPS_NN_CONV_COLUMNS_H

#include "ops/nn/conv.h"

/* See mf_conv_run(). Types: float, double, int32 and uint32. */
MF_MUST mf_status mf_conv_columns(const mf_kernel *k, const mf_conv *conv, int64_t shards,
                                  const mf_tensor *x, const mf_tensor *w, const mf_tensor *y);

#endif
