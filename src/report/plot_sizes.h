/* SPDX-License-Identifier: Apache-2.0 */
/* plot_sizes.h - quality of a compressed model against its size in bytes, as an SVG file. */
#ifndef MF_REPORT_PLOT_SIZES_H
#define MF_REPORT_PLOT_SIZES_H

#include "base/buf.h"

typedef struct mf_sized {
    const char *name; /* "pruned" */
    int64_t bytes;
    double value;
} mf_sized;

/* Points in the order of the stages; the axis of sizes is logarithmic. */
void mf_plot_sizes(const mf_sized *points, int n, const char *metric, const char *title,
                   mf_buf *out);

#endif
