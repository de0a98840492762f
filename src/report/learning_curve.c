/* SPDX-License-Identifier: Apache-2.0 */
/* learning_curve.c - collects the points of a learning curve, and encodes and decodes its file. */
#include "report/learning_curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mf_curve_line_names[MF_CURVE_LINES] = { "training", "validation", "test" };

/* ---- collecting ---- */

static void set_names(mf_curve *c, const mf_result *results, int n)
{
    for (int i = c->n_names; i < n && i < MF_MAX_RESULTS; i++)
        (void)snprintf(c->names[c->n_names++], MF_CURVE_NAME, "%s", results[i].name);
}

/* Merge the second point into the first. */
static void learning_curve_join(mf_curve_point *a, const mf_curve_point *b)
{
    const double part = (double)b->steps / (double)(a->steps + b->steps);

    for (int i = 0; i < MF_MAX_RESULTS; i++)
        a->values[i] += (b->values[i] - a->values[i]) * part;
    a->steps += b->steps;
    a->step = b->step;
}

static void join_neighbours(mf_curve_line *line)
{
    int kept = 0;

    for (int i = 0; i < line->n; i += 2) {
        line->points[kept] = line->points[i];
        if (i + 1 < line->n)
            learning_curve_join(&line->points[kept], &line->points[i + 1]);
        kept++;
    }
    line->n = kept;
}

void mf_curve_add_step(mf_curve *c, int64_t step, const mf_result *results, int n)
{
    mf_curve_line *line = &c->lines[MF_CURVE_TRAIN];
    mf_curve_point p = { .step = step, .steps = 1 };

    set_names(c, results, n);
    for (int i = 0; i < n && i < MF_MAX_RESULTS; i++)
        p.values[i] = results[i].value;
    if (c->open.steps == 0)
        c->open = p;
    else
        learning_curve_join(&c->open, &p);
    if (c->stride == 0)
        c->stride = 1;
    if (c->open.steps < c->stride)
        return;
    if (line->n == MF_CURVE_POINTS) {
        join_neighbours(line);
        c->stride *= 2;
        return; /* the open point now collects twice as many steps */
    }
    line->points[line->n++] = c->open;
    c->open = (mf_curve_point){ 0 };
}

void mf_curve_finish(mf_curve *c)
{
    mf_curve_line *line = &c->lines[MF_CURVE_TRAIN];

    if (c->open.steps == 0)
        return;
    if (line->n == MF_CURVE_POINTS) {
        join_neighbours(line);
        c->stride *= 2;
    }
    line->points[line->n++] = c->open;
    c->open = (mf_curve_point){ 0 };
}

void mf_curve_add(mf_curve *c, int which, int64_t step, const mf_result *results, int n)
{
    mf_curve_line *line = &c->lines[which];
    mf_curve_point *p;

    set_names(c, results, n);
    if (line->n == MF_CURVE_POINTS) { /* drop every second point: a mean of validations would be
                                         misleading */
        for (int i = 1; i < line->n; i += 2)
            line->points[i / 2] = line->points[i];
        line->n /= 2;
    }
    p = &line->points[line->n++];
    *p = (mf_curve_point){ .step = step, .steps = 1 };
    for (int i = 0; i < n && i < MF_MAX_RESULTS; i++)
        p->values[i] = results[i].value;
}

/* ---- the file ---- */

static void encode_point(const mf_curve *c, int line, const mf_curve_point *p, mf_buf *out)
{
    mf_buf_printf(out, "%s,%lld,%lld", mf_curve_line_names[line], (long long)p->step,
                  (long long)p->steps);
    for (int i = 0; i < c->n_names; i++)
        mf_buf_printf(out, ",%.9g", p->values[i]);
    mf_buf_str(out, "\n");
}

void mf_curve_encode(const mf_curve *c, mf_buf *out)
{
    mf_buf_str(out, "part,step,steps");
    for (int i = 0; i < c->n_names; i++)
        mf_buf_printf(out, ",%s", c->names[i]);
    mf_buf_str(out, "\n");
    for (int l = 0; l < MF_CURVE_LINES; l++) {
        for (int i = 0; i < c->lines[l].n; i++)
            encode_point(c, l, &c->lines[l].points[i], out);
        if (l == MF_CURVE_TRAIN && c->open.steps > 0)
            encode_point(c, l, &c->open, out);
    }
}

/* The next cell of a row; false at its end. *at is moved past the cell. */
static bool take_cell(const char **at, const char **cell, size_t *len)
{
    if (**at == '\n' || **at == '\0')
        return false;
    *cell = *at;
    *len = strcspn(*at, ",\n");
    *at += *len;
    *at += **at == ',';
    return true;
}

static bool learning_curve_decode_names(const char **at, mf_curve *c)
{
    static const char *const fixed[] = { "part", "step", "steps" };
    const char *cell;
    size_t len;

    for (int i = 0; i < MF_COUNT(fixed); i++) {
        if (!take_cell(at, &cell, &len) || len != strlen(fixed[i]) ||
            memcmp(cell, fixed[i], len) != 0)
            return false;
    }
    while (take_cell(at, &cell, &len)) {
        if (c->n_names == MF_MAX_RESULTS || len >= MF_CURVE_NAME || len == 0)
            return false;
        memcpy(c->names[c->n_names++], cell, len);
    }
    return true;
}

static bool decode_point(const char **at, const mf_curve *c, int *line, mf_curve_point *p)
{
    const char *cell;
    char *end;
    size_t len;

    *p = (mf_curve_point){ 0 };
    if (!take_cell(at, &cell, &len))
        return false;
    for (*line = 0; *line < MF_CURVE_LINES; (*line)++) {
        if (len == strlen(mf_curve_line_names[*line]) &&
            memcmp(cell, mf_curve_line_names[*line], len) == 0)
            break;
    }
    for (int i = -2; i < c->n_names; i++) {
        if (!take_cell(at, &cell, &len))
            return false;
        if (i < 0)
            *(i == -2 ? &p->step : &p->steps) = strtoll(cell, &end, 10);
        else
            p->values[i] = strtod(cell, &end);
        if (end != cell + len)
            return false;
    }
    return *line < MF_CURVE_LINES && p->step > 0 && p->steps > 0;
}

static bool decode_rows(const char *text, int64_t last_step, mf_curve *c)
{
    if (!learning_curve_decode_names(&text, c))
        return false;
    while (*text == '\n' && *++text) {
        mf_curve_point p;
        mf_curve_line *l;
        int line;

        if (!decode_point(&text, c, &line, &p))
            return false;
        l = &c->lines[line];
        if (p.step > last_step || line == MF_CURVE_TEST)
            continue; /* the resumed training does this step again */
        if (l->n == MF_CURVE_POINTS || (l->n > 0 && p.step <= l->points[l->n - 1].step))
            return false;
        l->points[l->n++] = p;
        if (line == MF_CURVE_TRAIN && p.steps > c->stride)
            c->stride = p.steps;
    }
    return *text == '\0';
}

mf_status mf_curve_decode(const char *text, int64_t last_step, mf_curve *c)
{
    *c = (mf_curve){ 0 };
    if (decode_rows(text, last_step, c))
        return MF_OK;
    *c = (mf_curve){ 0 };
    return MF_FAIL(MF_INVALID_ARGUMENT, "the file is not a learning curve");
}

/* ---- axes ---- */

mf_axis mf_axis_of(double lo, double hi, int marks)
{
    static const double round[] = { 1, 2, 2.5, 5, 10 };
    double size, unit;
    mf_axis a;

    if (!(hi - lo > 1e-9 * fmax(fabs(lo), fabs(hi)))) { /* a single value */
        const double around = fmax(fabs(lo) * 0.1, 1e-9);

        lo -= around;
        hi += around;
    }
    size = (hi - lo) / marks;
    unit = pow(10, floor(log10(size)));
    a.step = unit;
    for (int i = 0; i < MF_COUNT(round) && a.step < size * 0.999; i++)
        a.step = unit * round[i];
    a.lo = floor(lo / a.step + 1e-9) * a.step;
    a.hi = ceil(hi / a.step - 1e-9) * a.step;
    return a;
}

int64_t mf_axis_steps(int64_t last, int marks)
{
    static const int64_t round[] = { 1, 2, 5, 10 };
    const int64_t size = last / marks + (last % marks != 0);
    int64_t unit = 1;
    int i = 0;

    while (unit <= size / 10)
        unit *= 10;
    while (i < MF_COUNT(round) - 1 && unit * round[i] < size)
        i++;
    return unit * round[i];
}

bool mf_curve_range(const mf_curve *c, int value, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int l = 0; l < MF_CURVE_LINES; l++) {
        for (int i = 0; i < c->lines[l].n; i++) {
            const double v = c->lines[l].points[i].values[value];

            if (isfinite(v)) {
                *lo = v < *lo ? v : *lo;
                *hi = v > *hi ? v : *hi;
            }
        }
    }
    return *lo <= *hi;
}

int64_t mf_curve_last_step(const mf_curve *c)
{
    int64_t last = c->open.step;

    for (int l = 0; l < MF_CURVE_LINES; l++) {
        const mf_curve_line *line = &c->lines[l];

        if (line->n > 0 && line->points[line->n - 1].step > last)
            last = line->points[line->n - 1].step;
    }
    return last;
}
