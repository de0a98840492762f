/* SPDX-License-Identifier: Apache-2.0 */
/* learning_curve.h - how loss and metrics went during training: collected, thinned, kept in
 * DIR/curve.csv, drawn as text and as a picture. */
#ifndef MF_REPORT_LEARNING_CURVE_H
#define MF_REPORT_LEARNING_CURVE_H

#include "base/buf.h"

#include <meshflow/train.h>

enum { MF_CURVE_POINTS = 600, MF_CURVE_NAME = 48 };

typedef struct mf_curve_point {
    int64_t step; /* the last of those it stands for */
    int64_t steps; /* how many: values are means over them */
    double values[MF_MAX_RESULTS];
} mf_curve_point;

typedef struct mf_curve_line {
    mf_curve_point points[MF_CURVE_POINTS]; /* ascending steps */
    int n;
} mf_curve_line;

enum { MF_CURVE_TRAIN, MF_CURVE_VALIDATION, MF_CURVE_TEST, MF_CURVE_LINES };
extern const char *const mf_curve_line_names[MF_CURVE_LINES]; /* "training" ... */

/* Zeroed, it is empty. Some hundred KiB: keep it on the heap. */
typedef struct mf_curve {
    char names[MF_MAX_RESULTS][MF_CURVE_NAME]; /* of the values: "loss", "accuracy" */
    int n_names;
    mf_curve_line lines[MF_CURVE_LINES];
    mf_curve_point open; /* of training: gathers steps until it has `stride` of them */
    int64_t stride; /* 0: not known yet */
} mf_curve;

/* One step of training. When there are too many points, each two neighbours become one, so that the
 * whole training is always covered evenly. */
void mf_curve_add_step(mf_curve *c, int64_t step, const mf_result *results, int n);
/* The steps since the last point become one, too. */
void mf_curve_finish(mf_curve *c);
/* Validation or test after a step. */
void mf_curve_add(mf_curve *c, int line, int64_t step, const mf_result *results, int n);

/* The file: "part,step,steps,loss,...", a row for each point. */
void mf_curve_encode(const mf_curve *c, mf_buf *out);
/* The points up to this step, so that a resumed training goes on with them. INVALID_ARGUMENT: no
 * such file, and the curve is empty. */
MF_MUST mf_status mf_curve_decode(const char *text, int64_t last_step, mf_curve *c);

/* ---- drawing ---- */

/* Values that an axis shows, and round numbers for its marks. */
typedef struct mf_axis {
    double lo, hi, step; /* lo and hi are multiples of step */
} mf_axis;

mf_axis mf_axis_of(double lo, double hi, int marks);
/* A round number of steps such that from 0 to `last` there are about so many marks. */
int64_t mf_axis_steps(int64_t last, int marks);
/* The finite values of names[value] in all lines; false: there are none. */
bool mf_curve_range(const mf_curve *c, int value, double *lo, double *hi);
int64_t mf_curve_last_step(const mf_curve *c);

/* One quantity, in about so many columns and rows of text. */
void mf_plot_text(const mf_curve *c, int value, int columns, int rows, bool utf8, mf_buf *out);
/* All quantities below each other, as an SVG file by itself. */
void mf_plot_svg(const mf_curve *c, const char *title, mf_buf *out);

#endif
