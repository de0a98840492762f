/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.h - outputs of a model as text or JSON. */
#ifndef MF_CLI_PREDICTIONS_H
#define MF_CLI_PREDICTIONS_H

#include "cli/job.h"

/* One line for each sample of job->test: the class with the highest score, or the outputs. json:
 * one object, {"predictions": [{"sample": 0, "class": 1, "name": "yes", "scores": [...]}, ...]},
 * with "values" instead if there are no classes, and with "file" for images. Fails: UNIMPLEMENTED.
 */
MF_MUST mf_status mf_predictions_print(const mf_job *job, const mf_tensor *answers, bool json);

#endif
