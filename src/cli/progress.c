/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - progress of a training. */
#include "cli/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { SHOW_EVERY_MS = 100, LINES_EVERY_MS = 5000 };

void mf_progress_init(mf_progress *p, const mf_job *job, const mf_fit_options *fit)
{
    const int64_t batch = fit->batch > 0 ? fit->batch : 32;

    p->job = job;
    p->terminal = isatty(STDERR_FILENO) != 0;
    p->per_epoch = (mf_dataset_count(job->train) + batch - 1) / batch;
    p->total = fit->steps > 0 ? fit->steps : p->per_epoch * (fit->epochs > 0 ? fit->epochs : 1);
}

void mf_progress_deinit(mf_progress *p)
{
    (void)p;
}

static void show(const mf_progress *p, const mf_step_report *r, bool last)
{
    const double time = (double)(p->shown_ns - p->begin_ns) * 1e-9;
    const double rate = time > 0 ? (double)p->samples / time : 0.0;

    fprintf(stderr, "%sstep %lld/%lld  epoch %lld", p->terminal ? "\r\033[K" : "",
            (long long)r->step, (long long)p->total, (long long)r->epoch + 1);
    for (int i = 0; i < r->n_results; i++)
        fprintf(stderr, "  %s %.4f", r->results[i].name, r->results[i].value);
    fprintf(stderr, "  %.0f samples/s%s", rate, p->terminal && !last ? "" : "\n");
}

static mf_status after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    mf_progress *p = ctx;
    const int64_t now = mf_clock_ns();
    const int64_t every = p->terminal ? SHOW_EVERY_MS : LINES_EVERY_MS;

    (void)t;
    if (p->begin_ns == 0)
        p->begin_ns = p->shown_ns = now;
    else
        p->samples += r->samples;
    if (p->quiet || (now - p->shown_ns < every * 1000000 && r->step != p->total))
        return MF_OK;
    p->shown_ns = now;
    show(p, r, r->step == p->total);
    return MF_OK;
}

static mf_status after_epoch(void *ctx, mf_trainer *t, const mf_step_report *r,
                             const mf_result *validation, int n)
{
    const mf_progress *p = ctx;

    (void)t;
    if (p->quiet || n == 0)
        return MF_OK;
    fprintf(stderr, "%sepoch %lld:", p->terminal ? "\n" : "", (long long)r->epoch + 1);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "  validation %s %.4f", validation[i].name, validation[i].value);
    fprintf(stderr, "\n");
    return MF_OK;
}

mf_hook mf_progress_hook(mf_progress *p)
{
    return (mf_hook){ .ctx = p, .after_step = after_step, .after_epoch = after_epoch };
}

mf_status mf_progress_end(mf_progress *p, const mf_result *test, int n_test)
{
    mf_buf out = { 0 };

    if (p->quiet || n_test == 0)
        return MF_OK;
    for (int i = 0; i < n_test; i++)
        mf_buf_printf(&out, "test %s %.4f\n", test[i].name, test[i].value);
    return mf_cli_print(&out);
}
