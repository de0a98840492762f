/* SPDX-License-Identifier: Apache-2.0 */
/* aux_state.c - a list of named tensors beside weights and slots, for checkpoints. */
#include "train/checkpoint/aux_state.h"

#include "base/mem.h"

#include <string.h>

mf_status mf_aux_state_add(mf_aux_state_list *list, const char *name, mf_tensor *value)
{
    char *own = mf_strdup(name);

    if (!own)
        return MF_NOMEM("auxiliary state");
    if (mf_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at) != MF_OK) {
        mf_free(own);
        return MF_RESOURCE_EXHAUSTED;
    }
    list->at[list->n] = (mf_aux_state){ .name = own };
    mf_tensor_move(&list->at[list->n++].value, value);
    return MF_OK;
}

mf_aux_state *mf_aux_state_find(const mf_aux_state_list *list, const char *name)
{
    for (int64_t i = 0; i < list->n; i++) {
        if (strcmp(list->at[i].name, name) == 0)
            return &list->at[i];
    }
    return NULL;
}

void mf_aux_state_clear(mf_aux_state_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        mf_free(list->at[i].name);
        mf_tensor_clear(&list->at[i].value);
    }
    mf_free(list->at);
    *list = (mf_aux_state_list){ 0 };
}
