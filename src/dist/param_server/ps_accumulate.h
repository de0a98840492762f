/* SPDX-License-Identifier: Apache-2.0 */
/* ps_accumulate.h - a worker that pushes every n steps accumulates its gradients in between. */
#ifndef MF_DIST_PARAM_SERVER_PS_ACCUMULATE_H
#define MF_DIST_PARAM_SERVER_PS_ACCUMULATE_H

#include "dist/param_server/push_pull.h"

typedef struct mf_ps_accumulate {
    mf_tensor *sum; /* by value of a round; empty: nothing accumulated */
    int n;
    int64_t steps; /* that are held */
} mf_ps_accumulate;

MF_MUST mf_status mf_ps_accumulate_init(mf_ps_accumulate *h, int n);
void mf_ps_accumulate_deinit(mf_ps_accumulate *h);
/* Add value v of this step: a sum, or rows (ids are rows as well). */
MF_MUST mf_status mf_ps_accumulate_add(mf_ps_accumulate *h, const mf_push_pull_round *r, int v);
/* Replace the value by the mean over the steps (ids: by all of them), and start again at zero. */
MF_MUST mf_status mf_ps_accumulate_give(mf_ps_accumulate *h, mf_push_pull_round *r, int v,
                                        bool ids);

#endif
