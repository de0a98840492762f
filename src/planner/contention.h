/* SPDX-License-Identifier: Apache-2.0 */
/* contention.h - how much slower kernels are in a step than alone, as other kernels use the caches
 * and other devices the memory bandwidth. Measured on the training itself: all devices run a small,
 * unsharded step each. */
#ifndef MF_PLANNER_CONTENTION_H
#define MF_PLANNER_CONTENTION_H

#include "planner/planner.h"

/* The factor, from 1 to 2; 1 also where measuring would take seconds. batch: samples of each
 * device. */
MF_MUST mf_status mf_contention_measure(const mf_trainer *t, const mf_planned_machine *machine,
                                        int devices, int64_t batch, double *out);

#endif
