/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - common parts of SVG files (plot_svg.c): readable on light and dark backgrounds. Classes
 * of the style: grid, axis, title; training, validation, test for lines and marks. */
#ifndef MF_REPORT_SVG_H
#define MF_REPORT_SVG_H

#include "base/buf.h"

/* The head of the file up to the title, which begins at `left`; the caller writes "</svg>". */
void mf_svg_begin(mf_buf *out, int width, int height, int left, const char *title);
/* Escapes text that comes from data or the command line. */
void mf_svg_text(mf_buf *out, const char *text);

#endif
