/* SPDX-License-Identifier: Apache-2.0 */
/* history.h - what past trainings took against what was predicted, in a file of this user, and what
 * that says of predictions to come. */
#ifndef MF_PLANNER_HISTORY_H
#define MF_PLANNER_HISTORY_H

#include "base/buf.h"
#include "base/status.h"

/* One training, or several of the same. */
typedef struct mf_past_run {
    char *name; /* of what was trained, how, and on how many processors: no tab, no line's end */
    char *layout; /* mesh, layout and micro-batches, the same */
    double ratio; /* measured step / predicted step, without any correction; 1/4 to 4 */
} mf_past_run;

typedef struct mf_history {
    mf_past_run *runs;
    int64_t n, cap;
} mf_history;

/* A file that is not there, or not ours, is an empty history. Owns: mf_history_deinit(). */
MF_MUST mf_status mf_history_read(const char *path, mf_history *out);
MF_MUST mf_status mf_history_write(const mf_history *h, const char *path);
void mf_history_deinit(mf_history *h);
/* Where it is: $XDG_CACHE_HOME/meshflow/planner, or in ~/.cache. Empty: there is no such place. */
void mf_history_path(mf_buf *out);

/* It was so. Of what is known already the middle (in proportion) counts. */
MF_MUST mf_status mf_history_add(mf_history *h, const char *name, const char *layout, double ratio);
/* By what to multiply a prediction: what this layout took more; of one that nobody has trained
 * half, in proportion, of what others of this name did: the rest is taken to be their own. */
double mf_history_factor(const mf_history *h, const char *name, const char *layout);

#endif
