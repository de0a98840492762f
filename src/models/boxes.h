/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.h - arithmetic of boxes in graphs. A box is (y0, x0, y1, x1), 0 to 1 of the image. Boxes
 * are [n,boxes,4], or [1,boxes,4] if they are the same for all samples. */
#ifndef MF_MODELS_BOXES_H
#define MF_MODELS_BOXES_H

#include "models/layer.h"

/* Last dimension of a label of boxes: a box and its class; a negative class means no object. */
enum { MF_BOX_LABEL = 5 };

/* Intersection over union: a [n or 1,boxes,4], b [n,others,4] -> [n,boxes,others]. Empty boxes
 * overlap nothing. */
mf_output mf_boxes_overlap(mf_layer_call *l, mf_output a, mf_output b);
/* Encodes boxes relative to references: (dy, dx) of the centres in sizes of the reference,
 * logarithms of (height, width) relative to the reference's, each divided by its typical size
 * (Girshick 2014, 2015), so that numbers are about 1. */
mf_output mf_boxes_code(mf_layer_call *l, mf_output boxes, mf_output references);
/* The inverse, clipped to the image. */
mf_output mf_boxes_decode(mf_layer_call *l, mf_output code, mf_output references);
/* 1 where a box is not empty, else 0: [n,boxes,1]. */
mf_output mf_boxes_present(mf_layer_call *l, mf_output boxes);

/* For every box, the object with the largest overlap. */
typedef struct mf_boxes_match {
    mf_output overlaps; /* [n,boxes,objects] */
    mf_output best; /* [n,boxes]: the largest overlap */
    mf_output object; /* [n,boxes,5]: the object's label */
} mf_boxes_match;

mf_boxes_match mf_boxes_match_objects(mf_layer_call *l, mf_output boxes, mf_output label);

/* Elements [from, to) of the last dimension, of rank 3. */
mf_output mf_boxes_columns(mf_layer_call *l, mf_output x, int64_t from, int64_t to);

#endif
