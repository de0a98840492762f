/* SPDX-License-Identifier: Apache-2.0 */
/* history.h - measured against predicted step times of past trainings, in a file of the user, and
 * the corrections of predictions that follow from them. */
#ifndef MF_PLANNER_HISTORY_H
#define MF_PLANNER_HISTORY_H

#include "base/buf.h"
#include "base/status.h"

/* One training, or several equal ones. */
typedef struct mf_past_run {
    char *name; /* model, optimizer, batch, number of devices: without tab and newline */
    char *layout; /* mesh, layout and micro-batches: without tab and newline */
    double ratio; /* measured step / uncorrected prediction; 1/4 to 4 */
} mf_past_run;

typedef struct mf_history {
    mf_past_run *runs;
    int64_t n, cap;
} mf_history;

/* A missing file, or one of another format, is an empty history. Owns: mf_history_deinit(). */
MF_MUST mf_status mf_history_read(const char *path, mf_history *out);
MF_MUST mf_status mf_history_write(const mf_history *h, const char *path);
void mf_history_deinit(mf_history *h);
/* The path of the file: $XDG_CACHE_HOME/meshflow/planner, else in ~/.cache. Empty: neither exists.
 */
void mf_history_path(mf_buf *out);

/* Records a training. A known run gets the geometric mean of its ratio and this one. */
MF_MUST mf_status mf_history_add(mf_history *h, const char *name, const char *layout, double ratio);
/* The correction factor of a prediction: the ratio of this layout; for an unknown layout the square
 * root of the geometric mean over the layouts of this name: the rest is assumed to be specific to
 * them. */
double mf_history_factor(const mf_history *h, const char *name, const char *layout);

#endif
