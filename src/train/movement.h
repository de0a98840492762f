/* SPDX-License-Identifier: Apache-2.0 */
/* movement.h - how large weights are, and by how much they have moved. */
#ifndef MF_TRAIN_MOVEMENT_H
#define MF_TRAIN_MOVEMENT_H

#include "tensor/tensor.h"

typedef struct mf_movement {
    double squares, moved; /* sums of squares: of weights, and of what they have moved by */
} mf_movement;

/* One weight, of floats. then: as it was before; without data: nobody knows. */
void mf_movement_add(mf_movement *m, const mf_tensor *now, const mf_tensor *then);
double mf_movement_norm(const mf_movement *m);
/* As a part of their size. */
double mf_movement_by_size(const mf_movement *m);

#endif
