/* SPDX-License-Identifier: Apache-2.0 */
/* step_stats.h - what a task did in a step and when, as TensorFlow's StepStats. */
#ifndef MF_TF_SERVER_STEP_STATS_H
#define MF_TF_SERVER_STEP_STATS_H

#include "observe/trace.h"

/* Appends the bytes of a StepStats with this one device: those of several tasks, one after the
 * other, are the StepStats of all. */
MF_MUST mf_status mf_stats_encode(mf_trace *trace, const char *device, mf_buf *out);

#endif
