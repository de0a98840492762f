/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_channels.h - images with channels in blocks: [N,H,W,C] as [N,C/b,H,W,b], a tensor of rank
 * 5.
 *
 * The pass `layout` keeps images in this layout between convolutions. Ops that depend on the
 * channels then have the attribute `_blocked`; for all others it is a tensor like any other. */
#ifndef MF_OPS_NN_BLOCKED_CHANNELS_H
#define MF_OPS_NN_BLOCKED_CHANNELS_H

#include "graph/op.h"

static inline bool mf_is_blocked(const mf_node *node)
{
    return mf_node_bool(node, "_blocked");
}
/* The [N,H,W,C] shape of a blocked shape. Fails: INVALID_ARGUMENT (not rank 5). */
MF_MUST mf_status mf_unblocked_shape(const mf_shape *blocked, mf_shape *out);
/* The inverse, in blocks of b; b divides the number of channels if it is known. */
mf_shape mf_blocked_shape(const mf_shape *plain, int64_t b);

/* Copies between the layouts; `blocked` is the shape of the blocked tensor. */
void mf_layout_block(const mf_kernel *k, const mf_shape *blocked, const float *plain, float *to);
void mf_layout_unblock(const mf_kernel *k, const mf_shape *blocked, const float *from,
                       float *plain);

#endif
