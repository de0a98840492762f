/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - `train --resume` continues the run of the output directory with its settings.
 *
 * Model, data and loss that are not given, and the columns and classes of the data, are those of
 * the run. Another model is refused. Other changed settings are refused, each with its old and its
 * new value, unless --allow-changes is given. Nothing on the disk changes before that. */
#ifndef MF_CLI_RESUME_H
#define MF_CLI_RESUME_H

#include "cli/job.h"

/* mf_job_open(), with the run of --out if --resume is given or if this process was restarted and
 * continues the run of its own job. Fails as invalid usage. */
MF_MUST mf_status mf_resume_open(mf_job *job, mf_args *args);
/* Call after mf_job_load(): compares the settings with those of the run. Fails as invalid usage. */
MF_MUST mf_status mf_resume_check(const mf_job *job, mf_args *args);
/* The settings that a later mf_resume_check() compares. Owns: strings are in the job's arena or
 * borrowed from the command line. */
MF_MUST mf_status mf_resume_note(const mf_job *job, const mf_args *args, mf_model_note *out);

#endif
