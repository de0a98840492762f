/* SPDX-License-Identifier: Apache-2.0 */
/* running.c - finds the tasks of jobs that run on this host, and describes their health, for
 * `meshflow job` commands. */
#include "cli/running.h"

#include "base/exit_code.h"
#include "cli/text.h"

#include <string.h>

mf_status mf_cli_running(mf_args *args, const char *job, mf_job_view *out)
{
    MF_TRY(mf_job_view_read(job, out));
    if (!job || out->n_jobs > 0)
        return MF_OK;
    mf_args_hint(args, "`meshflow job list` lists the jobs of this user on this host");
    return MF_FAIL(MF_NOT_FOUND, "there is no job '%s' here", job);
}

int mf_cli_health(const mf_job_view *r)
{
    int health = MF_EXIT_DONE;

    for (int i = 0; i < r->n_jobs; i++) {
        mf_buf why = { 0 };
        const bool stalled = mf_job_view_explain(&r->jobs[i], r->now, &why);

        mf_buf_deinit(&why);
        if (mf_job_view_sum_up(&r->jobs[i]).dead > 0)
            return MF_EXIT_DEAD;
        if (stalled)
            health = MF_EXIT_STALLED;
    }
    return health;
}

/* The phase of the first task that is not a master, or of a master if there are no others. */
static mf_phase phase_of(const mf_job_view_job *job)
{
    int i = 0;

    while (i + 1 < job->n && mf_job_view_is_master(&job->tasks[i]))
        i++;
    return (mf_phase)job->tasks[i].page.phase;
}

void mf_cli_explain(const mf_job_view_job *job, int64_t now, mf_buf *out)
{
    const mf_job_view_sum s = mf_job_view_sum_up(job);
    char step[MF_TEXT], steps[MF_TEXT], rate[MF_TEXT];

    if (mf_job_view_explain(job, now, out))
        return;
    if (s.steps == 0) {
        mf_buf_printf(out, "it %s", mf_phase_text(phase_of(job)));
        return;
    }
    mf_buf_printf(out,
                  "it makes progress: step %s of %s, %s samples/s, and no task waits for "
                  "long",
                  mf_cli_count(s.step, step), mf_cli_count(s.steps, steps),
                  mf_cli_count((int64_t)(s.rate + 0.5), rate));
}

bool mf_cli_is_meant(const char *wanted, const char *task)
{
    const size_t role = wanted ? strcspn(wanted, ": ") : 0;

    if (!wanted)
        return true;
    return wanted[role] != '\0' && strncmp(task, wanted, role) == 0 && task[role] == ' ' &&
           strcmp(task + role + 1, wanted + role + 1) == 0;
}
