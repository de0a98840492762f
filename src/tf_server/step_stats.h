/* SPDX-License-Identifier: Apache-2.0 */
/* step_stats.h - the timeline of a task's step, as TensorFlow's StepStats. */
#ifndef MF_TF_SERVER_STEP_STATS_H
#define MF_TF_SERVER_STEP_STATS_H

#include "observe/trace.h"

/* Appends an encoded StepStats with this one device. The concatenation of several is the StepStats
 * of all. */
MF_MUST mf_status mf_stats_encode(mf_trace *trace, const char *device, mf_buf *out);

#endif
