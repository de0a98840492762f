/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - the user's file of measured and predicted step times, and corrections from it. A line
 * of the file: RATIO tab NAME tab LAYOUT. */
#include "planner/history.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20, MAX_RUNS = 1000 };

static const char HEAD[] = "# meshflow planner: measured / predicted, what, layout\n";
static const double FARTHEST = 4;

static mf_past_run *history_find(const mf_history *h, const char *name, const char *layout)
{
    for (int64_t i = 0; i < h->n; i++) {
        if (strcmp(h->runs[i].name, name) == 0 && strcmp(h->runs[i].layout, layout) == 0)
            return &h->runs[i];
    }
    return NULL;
}

static double bounded(double ratio)
{
    return ratio > FARTHEST ? FARTHEST : ratio < 1 / FARTHEST ? 1 / FARTHEST : ratio;
}

static void forget_first(mf_history *h)
{
    mf_free(h->runs[0].name);
    mf_free(h->runs[0].layout);
    memmove(h->runs, h->runs + 1, (size_t)--h->n * sizeof *h->runs);
}

mf_status mf_history_add(mf_history *h, const char *name, const char *layout, double ratio)
{
    mf_past_run *known = history_find(h, name, layout), run = { 0 };

    if (!(ratio > 0) || strpbrk(name, "\t\n") || strpbrk(layout, "\t\n"))
        return MF_OK; /* nothing to record */
    ratio = bounded(ratio);
    if (known) {
        known->ratio = sqrt(known->ratio * ratio);
        return MF_OK;
    }
    if (h->n == MAX_RUNS)
        forget_first(h);
    run = (mf_past_run){ mf_strdup(name), mf_strdup(layout), ratio };
    if (!run.name || !run.layout || mf_grow(&h->runs, &h->cap, h->n + 1, sizeof run) != MF_OK) {
        mf_free(run.name);
        mf_free(run.layout);
        return MF_NOMEM("past trainings");
    }
    h->runs[h->n++] = run;
    return MF_OK;
}

double mf_history_factor(const mf_history *h, const char *name, const char *layout)
{
    const mf_past_run *known = history_find(h, name, layout);
    double sum = 0;
    int64_t n = 0;

    if (known)
        return known->ratio;
    for (int64_t i = 0; i < h->n; i++) {
        if (strcmp(h->runs[i].name, name) == 0) {
            sum += log(h->runs[i].ratio);
            n++;
        }
    }
    return n > 0 ? exp(sum / (double)n / 2) : 1;
}

/* ---- the file ---- */

void mf_history_path(mf_buf *out)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && cache[0] == '/')
        mf_buf_printf(out, "%s/meshflow/planner", cache);
    else if (home && home[0] == '/')
        mf_buf_printf(out, "%s/.cache/meshflow/planner", home);
}

/* Invalid lines are skipped. */
static mf_status history_read_line(mf_history *h, char *line)
{
    char *name = strchr(line, '\t'), *layout = name ? strchr(name + 1, '\t') : NULL, *end;
    double ratio;

    if (!layout)
        return MF_OK;
    ratio = strtod(line, &end);
    if (end != name)
        return MF_OK;
    *layout = 0;
    return mf_history_add(h, name + 1, layout + 1, ratio);
}

mf_status mf_history_read(const char *path, mf_history *out)
{
    char *data = NULL, *at;
    size_t len;
    mf_status st = MF_OK;

    *out = (mf_history){ 0 };
    if (mf_file_read(path, MAX_BYTES, &data, &len) != MF_OK)
        return MF_OK;
    for (at = data; st == MF_OK && at < data + len;) {
        char *end = at + strcspn(at, "\n");

        *end = 0;
        st = history_read_line(out, at);
        at = end + 1;
    }
    mf_free(data);
    return st;
}

mf_status mf_history_write(const mf_history *h, const char *path)
{
    const char *name = strrchr(path, '/');
    mf_buf text = { 0 }, folder = { 0 };
    mf_status st;

    mf_buf_str(&text, HEAD);
    for (int64_t i = 0; i < h->n; i++)
        mf_buf_printf(&text, "%.4f\t%s\t%s\n", h->runs[i].ratio, h->runs[i].name,
                      h->runs[i].layout);
    mf_buf_printf(&folder, "%.*s", (int)(name ? name - path : 0), path);
    st = mf_buf_finish(&text);
    if (st == MF_OK)
        st = mf_buf_finish(&folder);
    if (st == MF_OK)
        st = mf_dir_make_own(folder.data);
    if (st == MF_OK)
        st = mf_file_write(path, text.data, text.len);
    mf_buf_deinit(&text);
    mf_buf_deinit(&folder);
    return st;
}

void mf_history_deinit(mf_history *h)
{
    for (int64_t i = 0; i < h->n; i++) {
        mf_free(h->runs[i].name);
        mf_free(h->runs[i].layout);
    }
    mf_free(h->runs);
    *h = (mf_history){ 0 };
}
