/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - what pictures as SVG have in common (plot_svg.c): readable on white and on black. Classes
 * of the style: grid, axis, title; training, validation, test for lines and marks. */
#ifndef MF_REPORT_SVG_H
#define MF_REPORT_SVG_H

#include "base/buf.h"

/* Up to the title, which begins at `left`; "</svg>" is left to the caller. */
void mf_svg_begin(mf_buf *out, int width, int height, int left, const char *title);
/* Text that comes from data and command lines. */
void mf_svg_text(mf_buf *out, const char *text);

#endif
