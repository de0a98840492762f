/* SPDX-License-Identifier: Apache-2.0 */
/* terminal_image.h - images in a terminal. */
#ifndef MF_REPORT_TERMINAL_IMAGE_H
#define MF_REPORT_TERMINAL_IMAGE_H

#include "base/buf.h"

/* Bytes [height,width,channels], 1 or 3 channels, in five shades of block characters, two
 * characters for each pixel; larger images are scaled down to 40 x 40. */
void mf_terminal_image_draw(const unsigned char *pixels, int64_t height, int64_t width,
                            int64_t channels, mf_buf *out);

#endif
