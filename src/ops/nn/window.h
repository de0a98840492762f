/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - geometry of a window that slides over a feature map: shared by convolutions and
 * poolings. There are 2 or 3 spatial dimensions, in the order of the data (height, width or depth,
 * height, width). */
#ifndef MF_OPS_NN_WINDOW_H
#define MF_OPS_NN_WINDOW_H

#include "graph/op.h"

enum { MF_WINDOW_DIMS = 3 };

typedef enum mf_padding { MF_PAD_SAME, MF_PAD_VALID, MF_PAD_EXPLICIT } mf_padding;

/* The attributes. */
typedef struct mf_window_attrs {
    int nd; /* spatial dimensions */
    bool channels_first; /* NCHW, NCDHW */
    mf_padding padding;
    int64_t size[MF_WINDOW_DIMS]; /* of poolings */
    int64_t stride[MF_WINDOW_DIMS], dilation[MF_WINDOW_DIMS];
    int64_t pad_lo[MF_WINDOW_DIMS], pad_hi[MF_WINDOW_DIMS]; /* of MF_PAD_EXPLICIT */
    int64_t channel_size, channel_stride; /* of poolings over channels; else 1 */
    bool piece; /* of a split image: padding may be smaller than usual */
    int64_t crop_lo[MF_WINDOW_DIMS], crop_hi[MF_WINDOW_DIMS];
} mf_window_attrs;

/* A shard of a split image has two more attributes, lists of sizes before and after it, by spatial
 * dimension: padding, which replaces `padding`, and rows that are cropped from a gradient of a
 * pooling (its windows reach beyond its shard). */
#define MF_WINDOW_PAD "_pad"
#define MF_WINDOW_CROP "_crop"

/* The window over one input. */
typedef struct mf_window {
    int nd;
    bool channels_first;
    int64_t batch, channels; /* of the input */
    int64_t in[MF_WINDOW_DIMS], out[MF_WINDOW_DIMS];
    int64_t size[MF_WINDOW_DIMS], stride[MF_WINDOW_DIMS], dilation[MF_WINDOW_DIMS];
    int64_t pad_lo[MF_WINDOW_DIMS], pad_hi[MF_WINDOW_DIMS];
} mf_window;

/* Reads strides, padding, explicit_paddings, data_format, and dilations or ksize if the op has
 * them.
 * Fails: INVALID_ARGUMENT, UNIMPLEMENTED. */
MF_MUST mf_status mf_window_read(const mf_node *node, int nd, mf_window_attrs *out);
/* Sets ksize and strides: lists of nd + 2 values in the order of data_format. */
MF_MUST mf_status mf_window_set_pool(mf_window_attrs *a, const int64_t *ksize,
                                     const int64_t *strides);

/* Axis of dimension d (0: batch, 1..nd: spatial, nd + 1: channels) in a tensor's shape. */
static inline int mf_window_axis(const mf_window_attrs *a, int d)
{
    if (d == 0)
        return 0;
    if (d == a->nd + 1)
        return a->channels_first ? 1 : a->nd + 1;
    return a->channels_first ? d + 1 : d;
}
/* The shape with these sizes in the order of data_format. */
mf_shape mf_window_shape(const mf_window_attrs *a, int64_t batch, const int64_t *spatial,
                         int64_t channels);
/* Output length along spatial dimension d, and the padding. Unknown lengths (-1) stay unknown.
 * Fails: INVALID_ARGUMENT (negative length). */
MF_MUST mf_status mf_window_length(const mf_window_attrs *a, int d, int64_t in, int64_t size,
                                   int64_t *out, int64_t *pad_lo, int64_t *pad_hi);
/* Initializes everything for a static input shape of rank nd + 2 and window sizes. */
MF_MUST mf_status mf_window_init(const mf_window_attrs *a, const mf_shape *in, const int64_t *size,
                                 mf_window *out);

#endif
