/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - what a training shows on the way: a bar on a terminal, lines elsewhere; at the end a
 * table and the learning curve. */
#ifndef MF_CLI_PROGRESS_H
#define MF_CLI_PROGRESS_H

#include "cli/job.h"

typedef struct mf_progress {
    bool quiet, terminal;
    const mf_job *job;
    int64_t per_epoch, total; /* steps */
    int64_t begin_ns, shown_ns, first_step;
    int64_t samples;
} mf_progress;

void mf_progress_init(mf_progress *p, const mf_job *job, const mf_fit_options *fit);
void mf_progress_deinit(mf_progress *p);
mf_hook mf_progress_hook(mf_progress *p);
MF_MUST mf_status mf_progress_end(mf_progress *p, const mf_result *test, int n_test);

#endif
