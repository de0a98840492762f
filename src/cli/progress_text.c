/* SPDX-License-Identifier: Apache-2.0 */
/* progress_text.c - progress as text: the bar, the lines, the final table. */
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/shares.h"
#include "cli/text.h"
#include "train/checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 96, PIECES = MF_MAX_RESULTS + 4, MIN_BAR = 8, MAX_BAR = 40 };

/* ---- pieces ---- */

static void progress_text_put_value(const char *name, double v, char text[PIECE])
{
    char number[MF_TEXT];

    (void)snprintf(text, PIECE, "%.50s %s", name, mf_cli_number(v, number));
}

static void put_rate(const mf_progress *p, char text[PIECE])
{
    char number[MF_TEXT];

    (void)snprintf(text, PIECE, "%s samples/s",
                   mf_cli_count((int64_t)(mf_progress_rate(p) + 0.5), number));
}

/* Seconds that the remaining steps take at the speed so far. */
static void put_left(const mf_progress *p, int64_t step, char text[PIECE])
{
    const int64_t done = step - p->first_step - 1, left = p->total - step;
    char number[MF_TEXT];

    if (done > 0)
        (void)snprintf(text, PIECE, "%s left",
                       mf_cli_time(mf_progress_seconds(p) / (double)done * (double)left, number));
    else
        (void)snprintf(text, PIECE, "-:-- left");
}

/* Most important first: pieces that do not fit are dropped from the end. */
static int make_pieces(const mf_progress *p, const mf_step_report *r, char pieces[PIECES][PIECE])
{
    int n = 0;

    (void)snprintf(pieces[n++], PIECE, "%3.0f%%",
                   p->total > 0 ? 100.0 * (double)r->step / (double)p->total : 100.0);
    put_left(p, r->step, pieces[n++]);
    for (int i = 0; i < r->n_results && i < 2; i++)
        progress_text_put_value(r->results[i].name, p->recent[i], pieces[n++]);
    put_rate(p, pieces[n++]);
    for (int i = 2; i < r->n_results && i < MF_MAX_RESULTS; i++)
        progress_text_put_value(r->results[i].name, p->recent[i], pieces[n++]);
    if (p->skipped > 0)
        (void)snprintf(pieces[n++], PIECE, "%lld steps skipped", (long long)p->skipped);
    return n;
}

/* ---- the bar ---- */

/* `width` characters, filled up to `fraction`, in eighths if the locale allows. */
static void put_bar(double fraction, int width, bool utf8, mf_buf *out)
{
    static const char *const eighths[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
    const int filled = (int)((fraction < 0 ? 0 : fraction > 1 ? 1 : fraction) * width * 8);

    mf_buf_str(out, utf8 ? "▕" : "[");
    for (int i = 0; i < width; i++) {
        const int here = filled - 8 * i < 0 ? 0 : filled - 8 * i > 8 ? 8 : filled - 8 * i;

        mf_buf_str(out, utf8 ? eighths[here] : here == 8 ? "#" : here > 0 ? "-" : " ");
    }
    mf_buf_str(out, utf8 ? "▏" : "]");
}

void mf_progress_bar(const mf_progress *p, const mf_step_report *r, int columns, mf_buf *out)
{
    char pieces[PIECES][PIECE], epoch[PIECE];
    const int n = make_pieces(p, r, pieces);
    int shown = 0, width, bar;

    width = snprintf(epoch, sizeof epoch, "epoch %lld/%lld ", (long long)r->epoch + 1,
                     (long long)p->epochs) +
            2 + MIN_BAR;
    while (shown < n && width + 2 + (int)strlen(pieces[shown]) < columns)
        width += 2 + (int)strlen(pieces[shown++]);
    if (shown == 0) { /* no room for a bar */
        if (columns > 4)
            mf_buf_str(out, pieces[0]);
        return;
    }
    bar = MIN_BAR + columns - 1 - width;
    mf_buf_str(out, epoch);
    put_bar(p->total > 0 ? (double)r->step / (double)p->total : 1, bar < MAX_BAR ? bar : MAX_BAR,
            p->utf8, out);
    for (int i = 0; i < shown; i++)
        mf_buf_printf(out, "%s%s", i ? "  " : " ", pieces[i]);
}

/* ---- lines ---- */

void mf_progress_line(const mf_progress *p, const mf_step_report *r, mf_buf *out)
{
    char pieces[PIECES][PIECE], step[MF_TEXT], total[MF_TEXT], time[MF_TEXT];
    const int n = make_pieces(p, r, pieces);

    mf_buf_printf(out, "%s  step %s/%s  epoch %lld/%lld", mf_cli_time(mf_progress_seconds(p), time),
                  mf_cli_count(r->step, step), mf_cli_count(p->total, total),
                  (long long)r->epoch + 1, (long long)p->epochs);
    for (int i = 1; i < n; i++)
        mf_buf_printf(out, "  %s", pieces[i]);
    mf_buf_str(out, "\n");
}

void mf_progress_epoch(const mf_progress *p, const mf_step_report *r, const mf_result *validation,
                       int n_validation, mf_buf *out)
{
    char text[PIECE], time[MF_TEXT];

    mf_buf_printf(out, "epoch %lld/%lld  %s", (long long)r->epoch + 1, (long long)p->epochs,
                  mf_cli_time(mf_progress_seconds(p), time));
    for (int i = 0; i < r->n_results && i < MF_MAX_RESULTS; i++) {
        progress_text_put_value(r->results[i].name,
                                p->epoch_sum[i] / (double)(p->epoch_steps > 0 ? p->epoch_steps : 1),
                                text);
        mf_buf_printf(out, "  %s", text);
    }
    for (int i = 0; i < n_validation; i++) {
        progress_text_put_value(validation[i].name, validation[i].value, text);
        mf_buf_printf(out, "  %s%s", i ? "" : "| validation ", text);
    }
    put_rate(p, text);
    mf_buf_printf(out, "  %s\n", text);
}

/* ---- the table ---- */

static void progress_text_put_results(const char *title, const mf_result *results, int n,
                                      mf_buf *out)
{
    char text[PIECE];

    if (n > 0)
        mf_buf_printf(out, "%-12s", title);
    for (int i = 0; i < n; i++) {
        progress_text_put_value(results[i].name, results[i].value, text);
        mf_buf_printf(out, "%s%s", i ? ", " : "", text);
    }
    mf_buf_str(out, n > 0 ? "\n" : "");
}

/* The last point of a line of the curve, as results. */
static void put_last(const mf_progress *p, int which, mf_buf *out)
{
    const mf_curve_line *line = &p->curve->lines[which];
    mf_result results[MF_MAX_RESULTS];

    if (line->n == 0)
        return;
    for (int i = 0; i < p->curve->n_names; i++)
        results[i] = (mf_result){ p->curve->names[i], which == MF_CURVE_TRAIN && p->n_recent > 0
                                                          ? p->recent[i]
                                                          : line->points[line->n - 1].values[i] };
    progress_text_put_results(mf_curve_line_names[which], results, p->curve->n_names, out);
}

static void progress_text_put_steps(const mf_progress *p, mf_buf *out)
{
    char step[MF_TEXT], total[MF_TEXT], time[MF_TEXT], rate[PIECE];

    mf_buf_printf(out, "%-12s%s", "steps", mf_cli_count(p->step, step));
    if (p->step < p->total)
        mf_buf_printf(out, " of %s", mf_cli_count(p->total, total));
    mf_buf_printf(out, ", with %lld samples each, %.3g epochs", (long long)p->batch,
                  (double)p->step / (double)p->per_epoch);
    if (p->skipped > 0)
        mf_buf_printf(out, "; %s skipped because of NaN/Inf gradients",
                      mf_cli_count(p->skipped, step));
    mf_buf_str(out, "\n");
    if (p->planned)
        mf_buf_printf(out, "%-12s%s\n", "plan", p->planned);
    if (p->ended && p->ended[0])
        mf_buf_printf(out, "%-12s%s\n", "ended", p->ended);
    if (!p->begun)
        return;
    put_rate(p, rate);
    mf_buf_printf(out, "%-12s%s", "time", mf_cli_time(mf_progress_seconds(p), time));
    if (p->first_step > 0)
        mf_buf_printf(out, " since step %s", mf_cli_count(p->first_step, step));
    mf_buf_printf(out, ", %s\n", rate);
}

static void put_files(const mf_progress *p, mf_buf *out)
{
    char *prefix = NULL;

    if (!p->out)
        return;
    if (mf_checkpoints_find(p->out, &prefix) == MF_OK)
        mf_buf_printf(out, "%-12s%s\n", "checkpoint", prefix);
    mf_buf_printf(out, "%-12s%s/curve.svg, %s/curve.csv\n", "curve", p->out, p->out);
    mf_free(prefix);
}

/* Bytes that this worker has sent. */
static void put_traffic(const mf_job *job, mf_buf *out)
{
    char sent[MF_TEXT], plain[MF_TEXT];
    mf_traffic t;

    mf_strategy_traffic(job->strategy, &t);
    if (t.bytes > 0)
        mf_buf_printf(out, "%-12s%s bytes by each worker", "sent", mf_cli_count(t.bytes, sent));
    if (t.bytes > 0 && t.plain_bytes != t.bytes)
        mf_buf_printf(out, ", %s without a codec", mf_cli_count(t.plain_bytes, plain));
    mf_buf_str(out, t.bytes > 0 ? "\n" : "");
}

/* Shares of the time of this task. */
static void put_shares(mf_buf *out)
{
    int64_t used[MF_USES];

    if (!mf_status_page_used(used))
        return;
    mf_buf_printf(out, "%-12s", "its use");
    mf_time_shares_text(used, out);
    mf_buf_str(out, "\n");
}

/* The label: classes, or a number. */
static void progress_text_put_label(const mf_job *job, mf_buf *out)
{
    enum { SHOWN = 6 };
    const mf_schema_column *label = mf_schema_label(&job->schema);

    if (!label || label->is.rank > 1)
        return;
    mf_buf_printf(out, "%-12s", "label");
    if (label->classes == 0)
        mf_buf_str(out, "a number to predict\n");
    else
        mf_buf_printf(out, "%lld classes", (long long)label->classes);
    for (int64_t i = 0; label->class_names && i < label->classes && i < SHOWN; i++) {
        mf_buf_str(out, i > 0 ? ", " : ": ");
        mf_cli_put_name(out, label->class_names[i], 40);
    }
    if (label->classes > 0)
        mf_buf_str(out, label->class_names && label->classes > SHOWN ? " ...\n" : "\n");
}

static bool progress_text_is_used(const mf_model *model, const char *column)
{
    for (int64_t i = 0; i < model->n_inputs; i++) {
        if (strcmp(mf_node_name(model->inputs[i].node), column) == 0)
            return true;
    }
    return strcmp(column, "label") == 0;
}

/* Columns that the model does not read. */
static void put_unused(const mf_job *job, mf_buf *out)
{
    const mf_column *columns;
    const int n = mf_dataset_columns(job->train, &columns);
    bool any = false;

    for (int i = 0; i < n; i++) {
        if (progress_text_is_used(job->model, columns[i].name))
            continue;
        if (any)
            mf_buf_printf(out, ", %s", columns[i].name);
        else
            mf_buf_printf(out, "%-12s%s", "not used", columns[i].name);
        any = true;
    }
    if (any)
        mf_buf_str(out, "\n");
}

void mf_progress_table(const mf_progress *p, const mf_result *test, int n_test, mf_buf *out)
{
    const mf_job *job = p->job;
    int64_t trained;
    const int64_t parameters = mf_model_parameters(job->model, &trained);
    char a[MF_TEXT], b[MF_TEXT];

    mf_buf_printf(out, "%-12s%s: %s parameters", "model", job->model_text,
                  mf_cli_count(parameters, a));
    if (trained != parameters)
        mf_buf_printf(out, ", %s of them trained", mf_cli_count(trained, b));
    mf_buf_printf(out, "\n%-12s%s: %s samples", "data", job->data_text,
                  mf_cli_count(mf_dataset_count(job->train), a));
    if (job->validation)
        mf_buf_printf(out, ", %s for validation",
                      mf_cli_count(mf_dataset_count(job->validation), a));
    if (n_test > 0)
        mf_buf_printf(out, ", %s for the test", mf_cli_count(mf_dataset_count(job->test), b));
    mf_buf_str(out, "\n");
    put_unused(job, out);
    progress_text_put_label(job, out);
    if (n_test > 0 && job->test_from)
        mf_buf_printf(out, "%-12s%s\n", "tested on", job->test_from);
    progress_text_put_steps(p, out);
    put_last(p, MF_CURVE_TRAIN, out);
    put_last(p, MF_CURVE_VALIDATION, out);
    progress_text_put_results("test", test, n_test, out);
    put_traffic(job, out);
    put_shares(out);
    put_files(p, out);
}
