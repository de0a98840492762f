/* SPDX-License-Identifier: Apache-2.0 */
/* nms.h - of boxes that overlap too much, the one with the best score. */
#ifndef MF_OPS_IMAGE_NMS_H
#define MF_OPS_IMAGE_NMS_H

#include <stdint.h>

typedef struct mf_nms_box {
    float y0, x0, y1, x1, area;
} mf_nms_box;

typedef struct mf_nms_candidate {
    int32_t box, seen; /* the first `seen` chosen boxes have been held against it */
    float score;
} mf_nms_candidate;

/* The arrays are the caller's; a zeroed rest is a beginning. */
typedef struct mf_suppression {
    float overlap, least, sigma; /* thresholds of overlap and score */
    int64_t n, max;
    mf_nms_box *boxes; /* n */
    mf_nms_candidate *heap; /* n; the best first */
    int64_t n_heap, chosen;
    int32_t *index; /* of those chosen, with their scores: the smaller of max and n */
    float *score;
} mf_suppression;

/* Box i, of which any two opposite corners are given (y, x, y, x), is one to choose from, if its
 * score is high enough. */
void mf_nms_offer(mf_suppression *s, int32_t i, const float corners[4], float score);
/* Fills index, score and chosen; of equal scores the first box counts. */
void mf_nms_choose(mf_suppression *s);

#endif
