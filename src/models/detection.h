/* SPDX-License-Identifier: Apache-2.0 */
/* detection.h - loss and metric of detectors; rows of the tables in losses.c and metrics.c. */
#ifndef MF_MODELS_DETECTION_H
#define MF_MODELS_DETECTION_H

#include "models/boxes.h"

/* Checks that the model has the layers of a detector and that the label is boxes; otherwise records
 * the failure. */
bool mf_detection_fits(mf_layer_call *l);
mf_output mf_detection_loss(mf_layer_call *l);
/* 1 for every anchor that is matched with an object of the label, otherwise 0: [n,anchors]. */
mf_output mf_detection_matches(mf_layer_call *l, mf_output label);

/* Mean number of matched anchors per sample. */
mf_output mf_matched_anchors_build(mf_layer_call *l);
/* Mean average precision, from histograms of scores (detection_metric.c). */
mf_output mf_average_precision_build(mf_layer_call *l);
double mf_average_precision_value(const float *sums, int64_t n_sums, int64_t samples);

#endif
