/* SPDX-License-Identifier: Apache-2.0 */
/* update_norms.h - the norms of weights and of their changes. */
#ifndef MF_TRAIN_STEP_UPDATE_NORMS_H
#define MF_TRAIN_STEP_UPDATE_NORMS_H

#include "tensor/tensor.h"

typedef struct mf_update_norms {
    double squares, moved; /* sums of squares: of weights, and of their changes */
} mf_update_norms;

/* One weight, of floats. then: its earlier value; without data: unknown. */
void mf_update_norms_add(mf_update_norms *m, const mf_tensor *now, const mf_tensor *then);
double mf_update_norms_norm(const mf_update_norms *m);
/* As a part of their size. */
double mf_update_norms_by_size(const mf_update_norms *m);

#endif
