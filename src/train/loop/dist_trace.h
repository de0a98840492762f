/* SPDX-License-Identifier: Apache-2.0 */
/* dist_trace.h - one trace of a step over all workers, in the chief's time. */
#ifndef MF_TRAIN_LOOP_DIST_TRACE_H
#define MF_TRAIN_LOOP_DIST_TRACE_H

#include "observe/trace.h"
#include "train/loop/dist.h"

typedef struct mf_dist_trace {
    mf_trace *trace; /* NULL: not begun */
    int64_t origin; /* the chief's time 0, by the local clock */
    int64_t error_ns; /* its error */
} mf_dist_trace;

/* Do the workers make one trace together? */
static inline bool mf_dist_traces_together(const mf_dist *dist)
{
    return dist && dist->group && (dist->size > 1 || MF_DIST_HAS(dist, trace, begin)) &&
           !mf_dist_leases_batches(dist);
}

/* Before the step: compare clocks, and start tracing. Collective. */
MF_MUST mf_status mf_dist_trace_begin(mf_dist_trace *x, mf_dist *dist, struct mf_trainer *t);
/* After it: the chief writes the events of all workers to `path`, which other workers ignore.
 * Collective. */
MF_MUST mf_status mf_dist_trace_end(mf_dist_trace *x, mf_dist *dist, struct mf_trainer *t,
                                    const char *path);
/* Also after a failure between the two. */
void mf_dist_trace_deinit(mf_dist_trace *x, struct mf_trainer *t);

#endif
