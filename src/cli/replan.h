/* SPDX-License-Identifier: Apache-2.0 */
/* replan.h - looks at a training whose layout the planner has chosen: what its steps take is kept
 * for plannings to come, and where that is much more than was predicted, it plans anew, and the
 * training goes on under what is better by then. */
#ifndef MF_CLI_REPLAN_H
#define MF_CLI_REPLAN_H

#include "cli/planning.h"

typedef struct mf_replan {
    mf_planning_call call;
    mf_chosen *chosen; /* replaced when there is a better one */
    int times; /* that it has planned anew */
    int64_t seen, window; /* steps since the last look, and that there are to be */
    int64_t begin_ns; /* of these */
    mf_links links; /* of several workers */
} mf_replan;

/* Several workers, whose strategy is open: they measure their links, and the chief chooses what all
 * go on with after the first step. Collective. */
MF_MUST mf_status mf_replan_together(mf_replan *r);
/* call and chosen are set; all stays until the training is over. */
mf_hook mf_replan_hook(mf_replan *r);

#endif
