/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - `train --resume` continues the run of the output directory as it was begun.
 *
 * What the command line does not give (model, data, loss) and the columns and classes of the data
 * are those of the run. Another model is refused. Other settings are refused, each with its old and
 * its new value, unless --allow-changes permits them. Nothing on the disk changes before that. */
#ifndef MF_CLI_RESUME_H
#define MF_CLI_RESUME_H

#include "cli/job.h"

/* mf_job_open(), with the run of --out where --resume is given, or where this process was started
 * again and continues the run of its own job. Fails as a wrong call. */
MF_MUST mf_status mf_resume_open(mf_job *job, mf_args *args);
/* After mf_job_load(): do the settings fit the run? Fails as a wrong call. */
MF_MUST mf_status mf_resume_check(const mf_job *job, mf_args *args);
/* What a later mf_resume_check() compares. Owns: the texts are in the job's arena or those of the
 * command line. */
MF_MUST mf_status mf_resume_note(const mf_job *job, const mf_args *args, mf_model_note *out);

#endif
