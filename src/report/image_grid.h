/* SPDX-License-Identifier: Apache-2.0 */
/* image_grid.h - many small pictures as one PNG file. */
#ifndef MF_REPORT_IMAGE_GRID_H
#define MF_REPORT_IMAGE_GRID_H

#include "base/status.h"

#include <stdint.h>

/* n pictures of floats from 0 to 1, [height,width,channels] each, 1 or 3 channels; values are
 * clamped. The grid is about square; each pixel is drawn as 2 x 2 pixels. */
MF_MUST mf_status mf_image_grid_write(const float *pictures, int64_t n, const int64_t dims[3],
                                      const char *path);

#endif
