/* SPDX-License-Identifier: Apache-2.0 */
/* team_trace.h - one trace of one step of all workers, in the chief's time. */
#ifndef MF_TRAIN_LOOP_TEAM_TRACE_H
#define MF_TRAIN_LOOP_TEAM_TRACE_H

#include "observe/trace.h"
#include "train/loop/team.h"

typedef struct mf_dist_worker_trace {
    mf_trace *trace; /* NULL: not begun */
    int64_t origin; /* the chief's time 0, by our clock */
    int64_t error_ns; /* it is right to so much */
} mf_dist_worker_trace;

/* Can they make one together? */
static inline bool mf_dist_worker_traces(const mf_dist_worker *team)
{
    return team && team->group && (team->size > 1 || team->kind->trace_begin) && !team->kind->lease;
}

/* Before the step: compare clocks, and note what runs. Collective. */
MF_MUST mf_status mf_dist_worker_trace_begin(mf_dist_worker_trace *x, mf_dist_worker *team,
                                             struct mf_trainer *t);
/* After it: the chief writes all workers' events to `path`, which others do not need. Collective.
 */
MF_MUST mf_status mf_dist_worker_trace_end(mf_dist_worker_trace *x, mf_dist_worker *team,
                                           struct mf_trainer *t, const char *path);
/* Also after a failure between the two. */
void mf_dist_worker_trace_deinit(mf_dist_worker_trace *x, struct mf_trainer *t);

#endif
