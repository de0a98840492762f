/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_channels.h - images with their channels in blocks: [N,H,W,C] as [N,C/b,H,W,b], an
 * ordinary tensor of rank 5.
 *
 * The pass `layout` keeps images so from one convolution to the next. Ops that know of channels
 * carry the attribute `_blocked` then; for all others it is a tensor like any other. */
#ifndef MF_OPS_NN_BLOCKED_CHANNELS_H
#define MF_OPS_NN_BLOCKED_CHANNELS_H

#include "graph/op.h"

static inline bool mf_is_blocked(const mf_node *node)
{
    return mf_node_bool(node, "_blocked");
}
/* The [N,H,W,C] that a blocked shape stands for. INVALID_ARGUMENT unless it has rank 5. */
MF_MUST mf_status mf_unblocked_shape(const mf_shape *blocked, mf_shape *out);
/* And back, in blocks of b; b divides the channels where they are known. */
mf_shape mf_blocked_shape(const mf_shape *plain, int64_t b);

/* Copy between the two; `blocked` is the shape of that side. */
void mf_layout_block(const mf_kernel *k, const mf_shape *blocked, const float *plain, float *to);
void mf_layout_unblock(const mf_kernel *k, const mf_shape *blocked, const float *from,
                       float *plain);

#endif
