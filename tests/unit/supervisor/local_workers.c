/* SPDX-License-Identifier: Apache-2.0 */
/* local_workers.c - which workers are removed when their number decreases. */
#include "supervisor/local_workers.h"

#include "mf_test.h"

#include <stdio.h>

MF_TEST(workers_without_weights_are_removed_first)
{
    static const struct {
        const char *task;
        mf_phase phase;
        bool alive;
    } given[] = {
        { "worker 0", MF_PHASE_START, true }, /* started again */
        { "worker 1", MF_PHASE_STEP, true },  { "worker 2", MF_PHASE_INPUT, true },
        { "worker 3", MF_PHASE_STEP, false }, { "ps 4", MF_PHASE_SERVE, true },
        { "worker 5", MF_PHASE_LOAD, true },
    };
    mf_status_page_seen tasks[MF_COUNT(given)] = { 0 };
    const mf_job_view_job job = { tasks, MF_COUNT(given) };
    const mf_status_page_seen *t = NULL;

    for (int i = 0; i < MF_COUNT(given); i++) {
        (void)snprintf(tasks[i].page.task, sizeof tasks[i].page.task, "%s", given[i].task);
        tasks[i].page.phase = (int32_t)given[i].phase;
        tasks[i].alive = given[i].alive;
    }
    T_STREQ((t = mf_worker_to_leave(&job, t))->page.task, "worker 5");
    T_STREQ((t = mf_worker_to_leave(&job, t))->page.task, "worker 0");
    T_STREQ((t = mf_worker_to_leave(&job, t))->page.task, "worker 2");
    T_STREQ((t = mf_worker_to_leave(&job, t))->page.task, "worker 1");
    T_TRUE(!mf_worker_to_leave(&job, t));
}
