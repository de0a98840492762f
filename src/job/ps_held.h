/* SPDX-License-Identifier: Apache-2.0 */
/* ps_held.h - a worker that pushes only every so many steps holds its gradients until then. */
#ifndef MF_JOB_PS_HELD_H
#define MF_JOB_PS_HELD_H

#include "parallel/rounds.h"

typedef struct mf_ps_held {
    mf_tensor *sum; /* by value of a round; empty where nothing is held */
    int n;
    int64_t steps; /* that are held */
} mf_ps_held;

MF_MUST mf_status mf_ps_held_init(mf_ps_held *h, int n);
void mf_ps_held_deinit(mf_ps_held *h);
/* Take what value v of this step is, too: a sum, or rows (ids are rows as well). */
MF_MUST mf_status mf_ps_held_add(mf_ps_held *h, const mf_round *r, int v);
/* Put the mean over the steps in its place (of ids: all of them), and begin anew. */
MF_MUST mf_status mf_ps_held_give(mf_ps_held *h, mf_round *r, int v, bool ids);

#endif
