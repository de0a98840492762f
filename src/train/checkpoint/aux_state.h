/* SPDX-License-Identifier: Apache-2.0 */
/* aux_state.h - named tensors that are neither weights nor slots, but affect later steps: between a
 * strategy and a checkpoint. */
#ifndef MF_TRAIN_CHECKPOINT_AUX_STATE_H
#define MF_TRAIN_CHECKPOINT_AUX_STATE_H

#include "tensor/tensor.h"

#define MF_AUX_STATE_PREFIX "_meshflow/codec/" /* of their names in a checkpoint */

typedef struct mf_aux_state {
    char *name;
    mf_tensor value;
} mf_aux_state;

typedef struct mf_aux_state_list {
    mf_aux_state *at;
    int64_t n, cap;
} mf_aux_state_list;

/* The value is moved in. */
MF_MUST mf_status mf_aux_state_add(mf_aux_state_list *list, const char *name, mf_tensor *value);
mf_aux_state *mf_aux_state_find(const mf_aux_state_list *list, const char *name); /* NULL: none */
void mf_aux_state_clear(mf_aux_state_list *list);

#endif
