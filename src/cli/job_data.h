/* SPDX-License-Identifier: Apache-2.0 */
/* job_data.h - which samples train, which validate and which test.
 *
 * The test is on --test, else on the test part of the data. Data without one gives up a tenth of
 * its samples, drawn by the seed from their ids: the same on every worker and in every run, and the
 * training does not see them. --no-test leaves all samples to the training. eval and predict take
 * the samples that the training has left for the test, unless --data or --test name other data. */
#ifndef MF_CLI_JOB_DATA_H
#define MF_CLI_JOB_DATA_H

#include "cli/job.h"

#define MF_TEST_SPLIT 0.1

/* Opens job->train, if asked for, and job->test. Fails as a wrong call, or as opening does. */
MF_MUST mf_status mf_job_open_data(mf_job *job, mf_args *args, bool with_training);
/* --validation: a part of job->train becomes job->validation. Fails as a wrong call. */
MF_MUST mf_status mf_job_split_validation(mf_job *job, mf_args *args);
/* The same path, or the same name of a known data set. NULL is no data. */
bool mf_job_is_same_data(const char *a, const char *b);
/* ",\"samples\":{\"train\":162,\"validation\":0,\"test\":18},\"test_data\":\"...\"" */
void mf_job_print_samples(const mf_job *job, mf_buf *out);

#endif
