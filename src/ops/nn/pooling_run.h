/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_run.h - the loops of poolings. They know one layout: images of [height][width][channels];
 * mf_pool_normalise() turns the others into it. */
#ifndef MF_OPS_NN_POOLING_RUN_H
#define MF_OPS_NN_POOLING_RUN_H

#include "ops/nn/window.h"

typedef enum mf_pool_kind {
    MF_POOL_MAX, /* y = max x */
    MF_POOL_ARGMAX, /* and arg = where, as an index into all of x or into the image */
    MF_POOL_MAX_GRAD, /* dx: dy at the first maximum of x */
    MF_POOL_MAX_GRAD2, /* y: what dx has at the first maximum of x */
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
} mf_pooling;

/* Channels first: every channel is an image of one channel. A window over channels: every position
 * is an image one high and as wide as there are channels. */
void mf_pool_normalise(const mf_window_attrs *a, mf_window *w);
/* Fails: UNIMPLEMENTED (type). */
MF_MUST mf_status mf_pooling_run(const mf_kernel *k, mf_pooling *p);

#endif
