/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - pictures of what a restricted Boltzmann machine has learned. */
#ifndef MF_CLI_MACHINE_H
#define MF_CLI_MACHINE_H

#include "cli/job.h"

/* Does the model have a layer RBM? */
bool mf_has_machine(const mf_job *job);
/* Its filters, 100 at most, each from black (the most negative) to white, as a PNG file. */
MF_MUST mf_status mf_machine_filters(const mf_job *job, const char *path);
/* Where 64 chains are after so many steps, as a PNG file: the chances of the values. They begin
 * where persistent chains are, else at noise by the seed. */
MF_MUST mf_status mf_machine_samples(const mf_job *job, int64_t steps, const char *path);

#endif
