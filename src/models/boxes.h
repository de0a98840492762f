/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - arithmetic of boxes in graphs. A box is (y0, x0, y1, x1), 0 to 1 of the image; many are
 * [n,boxes,4], those of all samples alike [1,boxes,4]. */
#ifndef MF_MODELS_BOXES_H
#define MF_MODELS_BOXES_H

#include "models/layer.h"

/* The last dimension of a label of boxes: a box and its class, which is negative where there is no
 * object. */
enum { MF_BOX_LABEL = 5 };

/* What two share, of what they cover: a [n or 1,boxes,4], b [n,others,4] -> [n,boxes,others]. Empty
 * boxes overlap nothing. */
mf_output mf_boxes_overlap(mf_layer_call *l, mf_output a, mf_output b);
/* Where boxes lie as seen from references: (dy, dx) of the middles in sizes of the reference,
 * logarithms of (height, width) by the reference's, each by what it usually is (Girshick 2014,
 * 2015), so that numbers are about 1. */
mf_output mf_boxes_code(mf_layer_call *l, mf_output boxes, mf_output references);
/* The other way, cut at the borders of the image. */
mf_output mf_boxes_decode(mf_layer_call *l, mf_output code, mf_output references);
/* 1 where a box is not empty, else 0: [n,boxes,1]. */
mf_output mf_boxes_present(mf_layer_call *l, mf_output boxes);

/* For every box the object it overlaps most. */
typedef struct mf_boxes_match {
    mf_output overlaps; /* [n,boxes,objects] */
    mf_output best; /* [n,boxes]: the largest of them */
    mf_output object; /* [n,boxes,5]: whose label it is */
} mf_boxes_match;

mf_boxes_match mf_boxes_match_objects(mf_layer_call *l, mf_output boxes, mf_output label);

/* Elements [from, to) of the last dimension, of rank 3. */
mf_output mf_boxes_columns(mf_layer_call *l, mf_output x, int64_t from, int64_t to);

#endif
