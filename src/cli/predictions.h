/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.h - what a model answers, as text or as JSON. */
#ifndef MF_CLI_PREDICTIONS_H
#define MF_CLI_PREDICTIONS_H

#include "cli/job.h"

/* One line for each sample of job->test: its highest class, or its numbers. json: one object:
 * {"predictions": [{"sample": 0, "class": 1, "name": "yes", "scores": [...]}, ...]}, with "values"
 * instead where there are no classes; of images, with the "file". Fails: UNIMPLEMENTED. */
MF_MUST mf_status mf_predictions_print(const mf_job *job, const mf_tensor *answers, bool json);

#endif
