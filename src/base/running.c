/* SPDX-License-Identifier: Apache-2.0 */
#include "base/running.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

static mf_status group(mf_running *r, const char *job)
{
    r->jobs = mf_calloc(r->n_boards + 1, sizeof *r->jobs);
    if (!r->jobs)
        return MF_NOMEM("jobs");
    for (int i = 0; i < r->n_boards; i++) {
        const mf_board_page *p = &r->boards[i].page;
        mf_running_job *last = r->n_jobs > 0 ? &r->jobs[r->n_jobs - 1] : NULL;

        if (job && strcmp(p->job, job) != 0)
            continue;
        if (!last || strcmp(last->tasks[0].page.job, p->job) != 0)
            r->jobs[r->n_jobs++] = (mf_running_job){ .tasks = &r->boards[i], .n = 1 };
        else
            last->n++;
    }
    return MF_OK;
}

mf_status mf_running_read(const char *job, mf_running *out)
{
    *out = (mf_running){ 0 };
    MF_TRY(mf_boards_read(&out->boards, &out->n_boards));
    out->now = mf_clock_ns();
    return group(out, job);
}

void mf_running_deinit(mf_running *r)
{
    mf_boards_free(r->boards, r->n_boards);
    mf_free(r->jobs);
}

mf_running_sum mf_running_sum_up(const mf_running_job *job)
{
    mf_running_sum s = { 0 };
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_board_page *p = &job->tasks[i].page;

        if (mf_running_is_master(&job->tasks[i])) {
            s.masters += job->tasks[i].alive;
            continue;
        }
        n++;
        s.step = p->step > s.step ? p->step : s.step;
        s.steps = p->steps > s.steps ? p->steps : s.steps;
        s.rate = p->rate > s.rate ? p->rate : s.rate;
        s.alive += job->tasks[i].alive;
        s.dead += !job->tasks[i].alive;
        s.stopped += mf_running_is_stopped(&job->tasks[i]);
    }
    s.elsewhere = job->tasks[0].page.tasks - n;
    s.elsewhere = s.elsewhere > 0 ? s.elsewhere : 0;
    return s;
}

int mf_running_find(const mf_running_job *job, const char *task)
{
    for (int i = 0; i < job->n; i++) {
        if (strcmp(job->tasks[i].page.task, task) == 0)
            return i;
    }
    return -1;
}
