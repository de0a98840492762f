/* SPDX-License-Identifier: Apache-2.0 */
/* nms.h - non-maximum suppression. */
#ifndef MF_OPS_IMAGE_NMS_H
#define MF_OPS_IMAGE_NMS_H

#include <stdint.h>

typedef struct mf_nms_box {
    float y0, x0, y1, x1, area;
} mf_nms_box;

typedef struct mf_nms_candidate {
    int32_t box, seen; /* compared with the first `seen` selected boxes */
    float score;
} mf_nms_candidate;

/* The caller owns the arrays; all other members start as zero. */
typedef struct mf_suppression {
    float overlap, least, sigma; /* thresholds of overlap and score */
    int64_t n, max;
    mf_nms_box *boxes; /* n */
    mf_nms_candidate *heap; /* n; a max-heap by score */
    int64_t n_heap, chosen;
    int32_t *index; /* selected boxes with their scores; capacity min(max, n) */
    float *score;
} mf_suppression;

/* Adds box i, given by two opposite corners (y, x, y, x), as a candidate if its score is high
 * enough. */
void mf_nms_offer(mf_suppression *s, int32_t i, const float corners[4], float score);
/* Fills index, score and chosen; ties are won by the first box. */
void mf_nms_choose(mf_suppression *s);

#endif
