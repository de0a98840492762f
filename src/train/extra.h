/* SPDX-License-Identifier: Apache-2.0 */
/* extra.h - named tensors that are neither weights nor slots, and yet decide the rest of a
 * training: on their way between a team and a checkpoint. */
#ifndef MF_TRAIN_EXTRA_H
#define MF_TRAIN_EXTRA_H

#include "tensor/tensor.h"

#define MF_EXTRA_PREFIX "_meshflow/codec/" /* of their names in a checkpoint */

typedef struct mf_extra {
    char *name;
    mf_tensor value;
} mf_extra;

typedef struct mf_extra_list {
    mf_extra *at;
    int64_t n, cap;
} mf_extra_list;

/* The value is moved in. */
MF_MUST mf_status mf_extra_add(mf_extra_list *list, const char *name, mf_tensor *value);
mf_extra *mf_extra_find(const mf_extra_list *list, const char *name); /* NULL: there is none */
void mf_extra_clear(mf_extra_list *list);

#endif
