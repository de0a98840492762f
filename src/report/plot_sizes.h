/* SPDX-License-Identifier: Apache-2.0 */
/* plot_sizes.h - how good a model is against how many bytes it has, as an SVG file. */
#ifndef MF_REPORT_PLOT_SIZES_H
#define MF_REPORT_PLOT_SIZES_H

#include "base/buf.h"

typedef struct mf_sized {
    const char *name; /* "pruned" */
    int64_t bytes;
    double value;
} mf_sized;

/* Points in the order in which they came about; sizes on a scale of powers. */
void mf_plot_sizes(const mf_sized *points, int n, const char *metric, const char *title,
                   mf_buf *out);

#endif
