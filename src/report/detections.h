/* SPDX-License-Identifier: Apache-2.0 */
/* detections.h - the detections of a model as text lines and drawn on the images. */
#ifndef MF_REPORT_DETECTIONS_H
#define MF_REPORT_DETECTIONS_H

#include "base/buf.h"
#include "models/model.h"

#include <meshflow/data.h>

/* True if the model's output is detections [n,most,6] (models/detector.c). */
bool mf_detections_are(const mf_model *model, const mf_tensor *found);
/* One line for each detection with a score of at least 0.5: sample, class, score, box. */
void mf_detections_print(const mf_dataset *set, const mf_tensor *found, bool json, mf_buf *out);
/* The first samples of the set as SVG, with detections solid and labels dashed. Fails:
 * INVALID_ARGUMENT (the data has no images), and as reading and writing do. */
MF_MUST mf_status mf_detections_draw(const mf_dataset *set, const mf_tensor *found,
                                     const char *path);

#endif
