/* SPDX-License-Identifier: Apache-2.0 */
/* image_grid.h - many small pictures as one PNG file. */
#ifndef MF_REPORT_IMAGE_GRID_H
#define MF_REPORT_IMAGE_GRID_H

#include "base/status.h"

#include <stdint.h>

/* n pictures of floats from 0 to 1, [height,width,channels] each, 1 or 3 channels; what lies beyond
 * is cut off. In rows of about as many as there are rows, each pixel twice as wide and high. */
MF_MUST mf_status mf_image_grid_write(const float *pictures, int64_t n, const int64_t dims[3],
                                      const char *path);

#endif
