/* SPDX-License-Identifier: Apache-2.0 */
/* job_numerics.h - the tasks of a job compute with the same bits.
 *
 * In float32 all instruction sets do. Matrix products of bfloat16 have the class of the lowest
 * task: each task tells the others its set when they connect (mf_net_options.note), and then uses
 * its best set of that class. The class stays that of the first tasks: a task that joins later must
 * have it. */
#ifndef MF_DIST_JOB_NUMERICS_H
#define MF_DIST_JOB_NUMERICS_H

#include "base/instruction_set.h"
#include "net/net.h"

/* What this task tells the others. */
const char *mf_job_numerics_note(void);
/* The lowest class of the connected tasks, as a set (mf_isa_bits()). */
mf_isa mf_job_numerics_common(const mf_net *net);
/* Use this class from now on; reports it if tasks differ. */
void mf_job_numerics_agree(const mf_net *net, mf_isa common);
/* Join a job of class `job` (a name): INVALID_ARGUMENT naming both classes if this task's is lower,
 * unless the job computes in float32. */
MF_MUST mf_status mf_job_numerics_join(const char *name, const char *job, bool bf16);

#endif
