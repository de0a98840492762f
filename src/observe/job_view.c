/* SPDX-License-Identifier: Apache-2.0 */
/* job_view.c - reads the status pages of all tasks of this host, and finds which task each one
 * waits for. */
#include "observe/job_view.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

static mf_status group(mf_job_view *r, const char *job)
{
    r->jobs = mf_calloc(r->n_pages + 1, sizeof *r->jobs);
    if (!r->jobs)
        return MF_NOMEM("jobs");
    for (int i = 0; i < r->n_pages; i++) {
        const mf_status_page *p = &r->pages[i].page;
        mf_job_view_job *last = r->n_jobs > 0 ? &r->jobs[r->n_jobs - 1] : NULL;

        if (job && strcmp(p->job, job) != 0)
            continue;
        if (!last || strcmp(last->tasks[0].page.job, p->job) != 0)
            r->jobs[r->n_jobs++] = (mf_job_view_job){ .tasks = &r->pages[i], .n = 1 };
        else
            last->n++;
    }
    return MF_OK;
}

mf_status mf_job_view_read(const char *job, mf_job_view *out)
{
    *out = (mf_job_view){ 0 };
    MF_TRY(mf_status_pages_read(&out->pages, &out->n_pages));
    out->now = mf_clock_ns();
    return group(out, job);
}

void mf_job_view_deinit(mf_job_view *r)
{
    mf_status_pages_free(r->pages, r->n_pages);
    mf_free(r->jobs);
}

mf_job_view_sum mf_job_view_sum_up(const mf_job_view_job *job)
{
    mf_job_view_sum s = { 0 };
    int n = 0;

    for (int i = 0; i < job->n; i++) {
        const mf_status_page *p = &job->tasks[i].page;

        if (mf_job_view_is_master(&job->tasks[i])) {
            s.masters += job->tasks[i].alive;
            continue;
        }
        n++;
        s.step = p->step > s.step ? p->step : s.step;
        s.steps = p->steps > s.steps ? p->steps : s.steps;
        s.rate = p->rate > s.rate ? p->rate : s.rate;
        s.alive += job->tasks[i].alive;
        s.dead += !job->tasks[i].alive;
        s.stopped += mf_job_view_is_stopped(&job->tasks[i]);
    }
    s.elsewhere = job->tasks[0].page.tasks - n;
    s.elsewhere = s.elsewhere > 0 ? s.elsewhere : 0;
    return s;
}

int mf_job_view_find(const mf_job_view_job *job, const char *task)
{
    for (int i = 0; i < job->n; i++) {
        if (strcmp(job->tasks[i].page.task, task) == 0)
            return i;
    }
    return -1;
}
