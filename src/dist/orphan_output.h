/* SPDX-License-Identifier: Apache-2.0 */
/* orphan_output.h - what a task prints after its launcher was killed. */
#ifndef MF_DIST_ORPHAN_OUTPUT_H
#define MF_DIST_ORPHAN_OUTPUT_H

/* The launcher reads this task's standard output and error from pipes. If it is killed, the task
 * appends both to MESHFLOW_LOST_OUTPUT.out and MESHFLOW_LOST_OUTPUT.err from then on. Does nothing
 * without that variable. Call it once. */
void mf_job_keep_output(void);

#endif
