/* SPDX-License-Identifier: Apache-2.0 */
/* learning_curve.h - loss and metrics over the steps of a training: collected, thinned, stored in
 * DIR/curve.csv, and plotted as text and SVG. */
#ifndef MF_REPORT_LEARNING_CURVE_H
#define MF_REPORT_LEARNING_CURVE_H

#include "base/buf.h"

#include <meshflow/train.h>

enum { MF_CURVE_POINTS = 600, MF_CURVE_NAME = 48 };

typedef struct mf_curve_point {
    int64_t step; /* the last step of the point */
    int64_t steps; /* number of steps: values are means over them */
    double values[MF_MAX_RESULTS];
} mf_curve_point;

typedef struct mf_curve_line {
    mf_curve_point points[MF_CURVE_POINTS]; /* ascending steps */
    int n;
} mf_curve_line;

enum { MF_CURVE_TRAIN, MF_CURVE_VALIDATION, MF_CURVE_TEST, MF_CURVE_LINES };
extern const char *const mf_curve_line_names[MF_CURVE_LINES]; /* "training" ... */

/* Zero-initialized: empty. Several hundred KiB: allocate it on the heap. */
typedef struct mf_curve {
    char names[MF_MAX_RESULTS][MF_CURVE_NAME]; /* of the values: "loss", "accuracy" */
    int n_names;
    mf_curve_line lines[MF_CURVE_LINES];
    mf_curve_point open; /* of training: collects steps until it has `stride` of them */
    int64_t stride; /* 0: not known yet */
} mf_curve;

/* One step of training. When the points are used up, neighbouring points are merged in pairs, so
 * the points always cover the whole training evenly. */
void mf_curve_add_step(mf_curve *c, int64_t step, const mf_result *results, int n);
/* The steps since the last point become a point, too. */
void mf_curve_finish(mf_curve *c);
/* A validation or a test after this step. */
void mf_curve_add(mf_curve *c, int line, int64_t step, const mf_result *results, int n);

/* The file: "part,step,steps,loss,...", a row for each point. */
void mf_curve_encode(const mf_curve *c, mf_buf *out);
/* Reads the points up to this step; a resumed training appends to them. INVALID_ARGUMENT: not such
 * a file; the curve is empty then. */
MF_MUST mf_status mf_curve_decode(const char *text, int64_t last_step, mf_curve *c);

/* ---- plotting ---- */

/* The range of an axis, and the distance of its marks, a round number. */
typedef struct mf_axis {
    double lo, hi, step; /* lo and hi are multiples of step */
} mf_axis;

mf_axis mf_axis_of(double lo, double hi, int marks);
/* A round number of steps that puts about `marks` marks between 0 and `last`. */
int64_t mf_axis_steps(int64_t last, int marks);
/* The range of the finite values of names[value] in all lines; false: there are none. */
bool mf_curve_range(const mf_curve *c, int value, double *lo, double *hi);
int64_t mf_curve_last_step(const mf_curve *c);

/* One quantity as text, about `columns` wide and `rows` high. */
void mf_plot_text(const mf_curve *c, int value, int columns, int rows, bool utf8, mf_buf *out);
/* All quantities, one panel below the other, as a self-contained SVG file. */
void mf_plot_svg(const mf_curve *c, const char *title, mf_buf *out);

#endif
