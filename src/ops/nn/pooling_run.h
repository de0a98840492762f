/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_run.h - the loops of poolings. They support one layout: images of
 * [height][width][channels]; mf_pool_normalise() maps the others to it. */
#ifndef MF_OPS_NN_POOLING_RUN_H
#define MF_OPS_NN_POOLING_RUN_H

#include "ops/nn/window.h"

typedef enum mf_pool_kind {
    MF_POOL_MAX, /* y = max x */
    MF_POOL_ARGMAX, /* and arg = its index, into all of x or into the image */
    MF_POOL_MAX_GRAD, /* dx: dy at the first maximum of x */
    MF_POOL_MAX_GRAD2, /* y: the value of dx at the first maximum of x */
    MF_POOL_AVG,
    MF_POOL_AVG_GRAD,
} mf_pool_kind;

typedef struct mf_pooling {
    mf_pool_kind kind;
    mf_window w; /* two dimensions, channels last */
    mf_dtype type, arg_type;
    const void *x, *dy;
    void *y, *dx, *arg;
    bool batch_in_index;
    const mf_epilogue *then; /* NULL, or called with each finished image of dx */
} mf_pooling;

/* Channels first: every channel is treated as an image of one channel. A window over channels:
 * every position is treated as an image of height 1 whose width is the number of channels. */
void mf_pool_normalise(const mf_window_attrs *a, mf_window *w);
/* Fails: UNIMPLEMENTED (type). */
MF_MUST mf_status mf_pooling_run(const mf_kernel *k, mf_pooling *p);

#endif
