/* SPDX-License-Identifier: Apache-2.0 */
/* step_flops.h - the arithmetic of a step: what a benchmark compares with the peak of a processor.
 */
#ifndef MF_PLANNER_STEP_FLOPS_H
#define MF_PLANNER_STEP_FLOPS_H

#include "planner/predict.h"

/* Floating-point operations of all matrix products and convolutions of the step, forward and
 * backward: two for each multiplication with its addition. Other ops and products of unknown shapes
 * do not count. Fails as the compilation of the step does. */
MF_MUST mf_status mf_step_flops(const mf_planned_step *step, double *out);

#endif
