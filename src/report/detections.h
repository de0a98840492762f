/* SPDX-License-Identifier: Apache-2.0 */
/* detections.h - what a detector has found, for people: as lines, and drawn on the images. */
#ifndef MF_REPORT_DETECTIONS_H
#define MF_REPORT_DETECTIONS_H

#include "base/buf.h"
#include "models/model.h"

#include <meshflow/data.h>

/* Does the model answer with detections [n,most,6] (models/detector.c)? */
bool mf_detections_are(const mf_model *model, const mf_tensor *found);
/* A line for each that is more likely than not: sample, class, score, box. */
void mf_detections_print(const mf_dataset *set, const mf_tensor *found, bool json, mf_buf *out);
/* The first samples of the set as SVG, with what was found and, dashed, what there is. Fails:
 * INVALID_ARGUMENT (the data has no images), as reading and writing do. */
MF_MUST mf_status mf_detections_draw(const mf_dataset *set, const mf_tensor *found,
                                     const char *path);

#endif
