/* SPDX-License-Identifier: Apache-2.0 */
/* running.h - jobs on this host, for commands that inspect them. */
#ifndef MF_CLI_RUNNING_H
#define MF_CLI_RUNNING_H

#include "cli/command.h"
#include "observe/job_view.h"

/* job: only this job; NULL: all. Fails: NOT_FOUND, with a hint. Owns: mf_job_view_deinit(), also
 * after a failure. */
MF_MUST mf_status mf_cli_running(mf_args *args, const char *job, mf_job_view *out);
/* The health of the jobs as an exit code: DONE, STALLED or DEAD (base/exit_code.h). */
int mf_cli_health(const mf_job_view *r);
/* One sentence on the state of the job, also if it makes progress. */
void mf_cli_explain(const mf_job_view_job *job, int64_t now, mf_buf *out);

/* The user's `wanted` names this task. "worker:1" and "worker 1" are the same; NULL is any. */
bool mf_cli_is_meant(const char *wanted, const char *task);

#endif
