/* SPDX-License-Identifier: Apache-2.0 */
/* contention.h - kernels take longer in a step than alone: others have had the caches, and other
 * processors want the memory at the same time. By how much is measured on the training itself: all
 * processors do a small step each, of which nothing is cut. */
#ifndef MF_PLANNER_CONTENTION_H
#define MF_PLANNER_CONTENTION_H

#include "planner/planner.h"

/* How many times as long, 1 to 2; 1, too, if that would take seconds. batch: of each processor. */
MF_MUST mf_status mf_contention_measure(const mf_trainer *t, const mf_planned_machine *machine,
                                        int processors, int64_t batch, double *out);

#endif
