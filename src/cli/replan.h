/* SPDX-License-Identifier: Apache-2.0 */
/* replan.h - monitors a training whose layout the planner has chosen. It records the measured step
 * time, and where that is much longer than predicted, it plans again and changes the layout. */
#ifndef MF_CLI_REPLAN_H
#define MF_CLI_REPLAN_H

#include "cli/planning.h"

typedef struct mf_replan {
    mf_planning_call call;
    mf_chosen *chosen; /* replaced by a better one */
    int times; /* that it has planned again */
    int64_t seen, window; /* steps in the current window; its length */
    int64_t begin_ns; /* of the window */
    mf_links links; /* between several workers */
} mf_replan;

/* For several workers with an open strategy: they measure their links, and the chief chooses the
 * layout that all use after the first step. Collective. */
MF_MUST mf_status mf_replan_together(mf_replan *r);
/* call and chosen must be set; *r must outlive the training. */
mf_hook mf_replan_hook(mf_replan *r);

#endif
