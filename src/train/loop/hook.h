/* SPDX-License-Identifier: Apache-2.0 */
/* hook.h - shared by the built-in hooks. */
#ifndef MF_TRAIN_LOOP_HOOK_H
#define MF_TRAIN_LOOP_HOOK_H

#include "train/loop/loop.h"

/* Strings of a hook's own. */
typedef struct mf_hook_names {
    const char **at;
    int n;
} mf_hook_names;

MF_MUST mf_status mf_hook_names_init(mf_hook_names *names, const char *const *from, int n);
void mf_hook_names_deinit(mf_hook_names *names);
/* Fetch them in the current run. */
static inline void mf_hook_names_fetch(const mf_hook_names *names, mf_run_request *request)
{
    request->fetches = (const char *const *)names->at;
    request->n_fetches = names->n;
}
/* Run them by themselves; results: space for all, NULL or handles. */
MF_MUST mf_status mf_hook_names_run(const mf_hook_names *names, mf_hook_loop *loop,
                                    mf_tensor **results);

#endif
