/* SPDX-License-Identifier: Apache-2.0 */
/* job_data.h - the samples for training, validation and test.
 *
 * The test uses --test, or the test part of the data. If the data has no test part, a tenth of its
 * samples is kept for the test, selected by the seed from their ids: the same samples on every
 * worker and in every run, which the training does not use. --no-test leaves all samples to the
 * training. eval and predict use the samples that the training has kept for the test, unless --data
 * or --test name other data. */
#ifndef MF_CLI_JOB_DATA_H
#define MF_CLI_JOB_DATA_H

#include "cli/job.h"

#define MF_TEST_SPLIT 0.1

/* Opens job->train, if requested, and job->test. Fails as invalid usage, or as opening does. */
MF_MUST mf_status mf_job_open_data(mf_job *job, mf_args *args, bool with_training);
/* --validation: moves a part of job->train to job->validation. Fails as invalid usage. */
MF_MUST mf_status mf_job_split_validation(mf_job *job, mf_args *args);
/* The same path, or the same name of a known data set. NULL: no data. */
bool mf_job_is_same_data(const char *a, const char *b);
/* ",\"samples\":{\"train\":162,\"validation\":0,\"test\":18},\"test_data\":\"...\"" */
void mf_job_print_samples(const mf_job *job, mf_buf *out);

#endif
