/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - follows a training: counts, collects the learning curve, decides when to print. */
#include "cli/progress.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/text.h"
#include "train/loop/nan_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_EVERY_MS = 100, LINES_EVERY_MS = 5000, EPOCHS_EVERY_MS = 500, PLOT_ROWS = 12 };

static bool is_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) != 0 && term && strcmp(term, "dumb") != 0;
}

/* The current chief prints and writes for all workers. */
static bool is_quiet(const mf_progress *p)
{
    return p->quiet || !mf_strategy_is_chief(p->job->strategy);
}

static bool writes(const mf_progress *p)
{
    return p->out && mf_strategy_is_chief(p->job->strategy);
}

mf_status mf_progress_init(mf_progress *p, const mf_job *job, const mf_fit_options *fit)
{
    p->job = job;
    p->out = fit->out;
    p->terminal = is_terminal();
    p->utf8 = mf_cli_is_utf8();
    p->batch = fit->batch > 0 ? fit->batch : 32;
    p->per_epoch = (mf_dataset_count(job->train) + p->batch - 1) / p->batch;
    p->per_epoch = p->per_epoch > 0 ? p->per_epoch : 1;
    p->total = fit->steps > 0 ? fit->steps : p->per_epoch * (fit->epochs > 0 ? fit->epochs : 1);
    p->epochs = (p->total + p->per_epoch - 1) / p->per_epoch;
    p->curve = mf_calloc(1, sizeof *p->curve);
    return p->curve ? MF_OK : MF_NOMEM("the learning curve");
}

void mf_progress_deinit(mf_progress *p)
{
    mf_free(p->curve);
}

double mf_progress_seconds(const mf_progress *p)
{
    return (double)(p->step_ns - p->begin_ns) * 1e-9;
}

double mf_progress_rate(const mf_progress *p)
{
    const double time = (double)(p->step_ns - p->begin_ns - p->paused_ns) * 1e-9;

    return time > 0 ? (double)p->samples / time : 0.0;
}

/* One write, to avoid flicker. */
static void progress_print(mf_buf *text)
{
    if (!text->failed && text->len > 0)
        (void)fwrite(text->data, 1, text->len, stderr);
    (void)fflush(stderr);
    mf_buf_deinit(text);
}

/* ---- files ---- */

static void progress_write_file(mf_progress *p, const char *name, mf_buf *text)
{
    mf_buf path = { 0 };
    mf_status st;

    mf_buf_printf(&path, "%s/%s", p->out, name);
    st = text->failed || path.failed || !path.data
             ? MF_NOMEM("a curve")
             : mf_file_write(path.data, text->data, text->len);
    if (st != MF_OK && !p->unwritten) /* reported once, not for every epoch */
        MF_WARN("the learning curve could not be written: %s", mf_error_message());
    p->unwritten = st != MF_OK;
    mf_buf_deinit(&path);
    mf_buf_deinit(text);
}

static void write_csv(mf_progress *p)
{
    mf_buf text = { 0 };

    mf_curve_encode(p->curve, &text);
    progress_write_file(p, "curve.csv", &text);
}

static void write_svg(mf_progress *p)
{
    mf_buf text = { 0 }, title = { 0 };

    mf_buf_printf(&title, "%s on %s", p->job->model_text, p->job->data_text);
    mf_plot_svg(p->curve, title.data ? title.data : "", &text);
    progress_write_file(p, "curve.svg", &text);
    mf_buf_deinit(&title);
}

/* A resumed training continues its curve; without one it starts a new curve. */
static void read_csv(const mf_progress *p, int64_t step)
{
    mf_buf path = { 0 };
    char *text = NULL;
    size_t len;

    mf_buf_printf(&path, "%s/curve.csv", p->out);
    if (path.data && mf_file_read(path.data, (size_t)16 << 20, &text, &len) == MF_OK &&
        mf_curve_decode(text, step, p->curve) != MF_OK)
        MF_WARN("%s is damaged; the learning curve begins at step %lld", path.data,
                (long long)step);
    mf_free(text);
    mf_buf_deinit(&path);
}

/* ---- during training ---- */

static mf_status progress_begin(void *ctx, mf_trainer *t)
{
    mf_progress *p = ctx;

    p->first_step = p->step = mf_trainer_step(t);
    p->skipped = mf_guard_skipped(t);
    if (writes(p) && p->first_step > 0)
        read_csv(p, p->first_step);
    return MF_OK;
}

static void progress_count(mf_progress *p, const mf_step_report *r, int64_t now)
{
    const double forget = p->n_recent < 50 ? 1.0 / (double)(p->n_recent + 1) : 0.02;

    if (!p->begun) {
        p->begun = true;
        p->begin_ns = p->shown_ns = p->epoch_shown_ns = now;
    } else {
        p->samples += r->samples;
    }
    p->step_ns = now;
    p->step = r->step;
    if (r->skipped_steps > p->skipped) { /* its results are NaN/Inf */
        p->skipped = r->skipped_steps;
        return;
    }
    p->n_recent++;
    p->epoch_steps++;
    for (int i = 0; i < r->n_results && i < MF_MAX_RESULTS; i++) {
        p->recent[i] += (r->results[i].value - p->recent[i]) * forget;
        p->epoch_sum[i] += r->results[i].value;
    }
    mf_curve_add_step(p->curve, r->step, r->results, r->n_results);
}

/* The cursor stays at the beginning of the line, so that the next output replaces it. */
static void show_bar(const mf_progress *p, const mf_step_report *r)
{
    mf_buf text = { 0 };

    mf_progress_bar(p, r, mf_cli_columns(STDERR_FILENO, 80), &text);
    mf_buf_str(&text, "\033[K\r");
    progress_print(&text);
}

static void clear_bar(const mf_progress *p, mf_buf *text)
{
    if (p->terminal)
        mf_buf_str(text, "\r\033[K");
}

static mf_status progress_after_step(void *ctx, mf_trainer *t, const mf_step_report *r)
{
    mf_progress *p = ctx;
    const int64_t now = mf_clock_ns();
    const int64_t every = p->terminal ? BAR_EVERY_MS : LINES_EVERY_MS;
    mf_buf text = { 0 };

    (void)t;
    progress_count(p, r, now);
    if (is_quiet(p) || now - p->shown_ns < every * 1000000)
        return MF_OK;
    p->shown_ns = now;
    if (p->terminal) {
        show_bar(p, r);
    } else {
        mf_progress_line(p, r, &text);
        progress_print(&text);
    }
    return MF_OK;
}

/* Of very short epochs only some get a line. */
static bool is_epoch_shown(mf_progress *p, const mf_step_report *r, int64_t now)
{
    const bool shown = r->step == p->total || r->step - p->first_step <= p->per_epoch ||
                       now - p->epoch_shown_ns >= (int64_t)EPOCHS_EVERY_MS * 1000000;

    if (shown)
        p->epoch_shown_ns = now;
    return shown && !is_quiet(p);
}

static mf_status progress_after_epoch(void *ctx, mf_trainer *t, const mf_step_report *r,
                                      const mf_result *validation, int n)
{
    mf_progress *p = ctx;
    const int64_t now = mf_clock_ns();
    mf_buf text = { 0 };

    (void)t;
    p->paused_ns += now - p->step_ns;
    p->step_ns = now;
    if (n > 0)
        mf_curve_add(p->curve, MF_CURVE_VALIDATION, r->step, validation, n);
    if (is_epoch_shown(p, r, now)) {
        clear_bar(p, &text);
        mf_progress_epoch(p, r, validation, n, &text);
        progress_print(&text);
        if (p->terminal && r->step != p->total)
            show_bar(p, r);
        p->shown_ns = now;
    }
    memset(p->epoch_sum, 0, sizeof p->epoch_sum);
    p->epoch_steps = 0;
    if (writes(p))
        write_csv(p);
    return MF_OK;
}

static mf_status progress_end(void *ctx, mf_trainer *t)
{
    mf_progress *p = ctx;
    mf_buf text = { 0 };

    (void)t;
    if (!is_quiet(p) && p->begun) {
        clear_bar(p, &text);
        progress_print(&text);
    }
    return MF_OK;
}

mf_hook mf_progress_hook(mf_progress *p)
{
    return (mf_hook){ .ctx = p,
                      .begin = progress_begin,
                      .after_step = progress_after_step,
                      .after_epoch = progress_after_epoch,
                      .end = progress_end };
}

/* ---- at the end ---- */

static void progress_draw(const mf_progress *p, mf_buf *out)
{
    const int columns = mf_cli_columns(p->json ? STDERR_FILENO : STDOUT_FILENO, 80);

    for (int i = 0; i < p->curve->n_names && i < 2; i++) {
        mf_buf_str(out, "\n");
        mf_plot_text(p->curve, i, columns < 100 ? columns : 100, PLOT_ROWS, p->utf8, out);
    }
}

void mf_progress_validated(mf_progress *p, const mf_result *validation, int n)
{
    const mf_curve_line *line = &p->curve->lines[MF_CURVE_VALIDATION];

    if (p->step > 0 && (line->n == 0 || line->points[line->n - 1].step < p->step))
        mf_curve_add(p->curve, MF_CURVE_VALIDATION, p->step, validation, n);
}

mf_status mf_progress_end(mf_progress *p, const mf_result *test, int n_test)
{
    mf_buf out = { 0 };

    mf_curve_finish(p->curve);
    if (n_test > 0 && p->step > 0)
        mf_curve_add(p->curve, MF_CURVE_TEST, p->step, test, n_test);
    if (writes(p)) {
        write_csv(p);
        write_svg(p);
    }
    if (is_quiet(p))
        return MF_OK;
    if (p->curve->lines[MF_CURVE_TRAIN].n > 1)
        progress_draw(p, &out);
    mf_buf_str(&out, "\n");
    mf_progress_table(p, test, n_test, &out);
    if (!p->json)
        return mf_cli_print(&out);
    progress_print(&out);
    return MF_OK;
}
