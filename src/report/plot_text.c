/* SPDX-License-Identifier: Apache-2.0 */
/* plot_text.c - a learning curve in the terminal: braille characters of 2 x 4 dots, or ASCII
 * without UTF-8. */
#include "base/mem.h"
#include "report/learning_curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 9 }; /* columns left of the axis */

typedef struct canvas {
    int columns, rows; /* characters */
    int across, down; /* dots in a character */
    uint8_t *dots; /* [rows][columns]: braille's bits, or 1 */
    char *marks; /* [rows][columns]: line + 1 where a point of another line is */
    mf_axis y;
    int64_t last_step;
} canvas;

/* The bit of each dot in a braille character, added to U+2800. */
static const uint8_t braille[4][2] = {
    { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
};

static void set_dot(canvas *c, int x, int y)
{
    const int column = x / c->across, row = y / c->down;

    if (column < 0 || column >= c->columns || row < 0 || row >= c->rows)
        return;
    c->dots[row * c->columns + column] |= c->across == 1 ? 1 : braille[y % c->down][x % c->across];
}

static void draw_line(canvas *c, int x0, int y0, int x1, int y1)
{
    const int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);

    for (int i = 0; i <= n; i++) {
        const double part = n > 0 ? (double)i / n : 0;

        set_dot(c, x0 + (int)lround(part * (x1 - x0)), y0 + (int)lround(part * (y1 - y0)));
    }
}

static void plot_text_place(const canvas *c, int64_t step, double v, int *x, int *y)
{
    *x = (int)lround((double)step / (double)c->last_step * (c->columns * c->across - 1));
    *y = (int)lround((c->y.hi - v) / (c->y.hi - c->y.lo) * (c->rows * c->down));
    if (*y >= c->rows * c->down)
        *y = c->rows * c->down - 1;
}

/* Points in the same column of dots are averaged; else the line would be a broad band. */
static void draw_training(canvas *c, const mf_curve_line *line, int value)
{
    int x, y, x_before = 0, y_before = 0;
    bool begun = false;

    for (int i = 0; i < line->n;) {
        double sum = 0;
        int n = 0, column;

        plot_text_place(c, line->points[i].step, c->y.lo, &column, &y);
        for (; i < line->n; i++) {
            plot_text_place(c, line->points[i].step, c->y.lo, &x, &y);
            if (x != column)
                break;
            if (isfinite(line->points[i].values[value])) {
                sum += line->points[i].values[value];
                n++;
            }
        }
        if (n == 0)
            continue;
        plot_text_place(c, 0, sum / n, &x, &y);
        draw_line(c, begun ? x_before : column, begun ? y_before : y, column, y);
        begun = true;
        x_before = column;
        y_before = y;
    }
}

static void mark_points(canvas *c, const mf_curve *curve, int which, int value)
{
    const mf_curve_line *line = &curve->lines[which];

    for (int i = 0; i < line->n; i++) {
        const double v = line->points[i].values[value];
        int x, y;

        if (!isfinite(v))
            continue;
        plot_text_place(c, line->points[i].step, v, &x, &y);
        c->marks[y / c->down * c->columns + x / c->across] = (char)(which + 1);
    }
}

/* ---- characters ---- */

static const char *mark_of(int which, bool utf8)
{
    static const char *const plain[MF_CURVE_LINES] = { ".", "o", "x" };
    static const char *const good[MF_CURVE_LINES] = { "⠒", "●", "◆" };

    return (utf8 ? good : plain)[which];
}

static void put_cell(const canvas *c, int at, bool utf8, mf_buf *out)
{
    if (c->marks[at]) {
        mf_buf_str(out, mark_of(c->marks[at] - 1, utf8));
    } else if (c->dots[at] == 0) {
        mf_buf_str(out, " ");
    } else if (utf8) {
        const char cell[3] = { '\xe2', (char)(0xa0 | c->dots[at] >> 6),
                               (char)(0x80 | (c->dots[at] & 0x3f)) };

        mf_buf_bytes(out, cell, sizeof cell);
    } else {
        mf_buf_str(out, mark_of(MF_CURVE_TRAIN, false));
    }
}

/* Numbers are at the rows where a mark of the axis is; the distance of two marks is a whole number
 * of rows. The lowest mark has no row of its own: that row is the axis of steps. */
static void plot_text_put_label(const canvas *c, int row, bool utf8, mf_buf *out)
{
    const int n = (int)lround((c->y.hi - c->y.lo) / c->y.step), between = c->rows / n;
    const int mark = row / between;
    const double v = c->y.hi - mark * c->y.step;

    if (row % between == 0)
        mf_buf_printf(out, "%*.4g %s", LABEL - 1, fabs(v) < c->y.step * 1e-6 ? 0 : v,
                      utf8 ? "┤" : "|");
    else
        mf_buf_printf(out, "%*s%s", LABEL, "", utf8 ? "│" : "|");
}

static void plot_text_put_row(const canvas *c, int row, bool utf8, mf_buf *out)
{
    const int begin = row * c->columns;
    int used = c->columns;

    while (used > 0 && !c->dots[begin + used - 1] && !c->marks[begin + used - 1])
        used--;
    plot_text_put_label(c, row, utf8, out);
    for (int i = 0; i < used; i++)
        put_cell(c, begin + i, utf8, out);
    mf_buf_str(out, "\n");
}

/* The axis of steps, with numbers below it that do not overlap. */
static void plot_text_put_steps(const canvas *c, bool utf8, mf_buf *out)
{
    const int64_t every = mf_axis_steps(c->last_step, c->columns / 12 + 1);
    int at = 0;

    mf_buf_printf(out, "%*.4g %s", LABEL - 1, fabs(c->y.lo) < c->y.step * 1e-6 ? 0 : c->y.lo,
                  utf8 ? "└" : "+");
    for (int i = 0; i < c->columns; i++)
        mf_buf_str(out, utf8 ? "─" : "-");
    mf_buf_printf(out, "\n%*s", LABEL + 1, "");
    for (int64_t i = 0; i <= c->last_step; i += every) {
        const int column = (int)((double)i / (double)c->last_step * (c->columns - 1));
        char text[32];
        const int len = snprintf(text, sizeof text, "%lld", (long long)i);

        if (column < at || column + len > c->columns - 4)
            continue;
        mf_buf_printf(out, "%*s%s", column - at, "", text);
        at = column + len;
    }
    mf_buf_printf(out, "%*s\n", c->columns - at, "step");
}

static void plot_text_put_legend(const mf_curve *curve, int value, bool utf8, mf_buf *out)
{
    mf_buf_printf(out, "%*s%s ", LABEL + 1, "", curve->names[value]);
    for (int l = 0; l < MF_CURVE_LINES; l++) {
        if (curve->lines[l].n > 0)
            mf_buf_printf(out, "  %s %s", mark_of(l, utf8), mf_curve_line_names[l]);
    }
    mf_buf_str(out, "\n");
}

void mf_plot_text(const mf_curve *curve, int value, int columns, int rows, bool utf8, mf_buf *out)
{
    canvas c = { .columns = columns - LABEL - 1,
                 .rows = rows,
                 .across = utf8 ? 2 : 1,
                 .down = utf8 ? 4 : 1,
                 .last_step = mf_curve_last_step(curve) };
    double lo, hi;
    int n;

    if (c.columns < 10 || rows < 2 || c.last_step < 1 || !mf_curve_range(curve, value, &lo, &hi))
        return;
    c.y = mf_axis_of(lo, hi, rows / 3);
    n = (int)lround((c.y.hi - c.y.lo) / c.y.step);
    c.rows = rows / n > 1 ? rows / n * n : n;
    c.dots = mf_calloc((int64_t)c.columns * c.rows, 1);
    c.marks = mf_calloc((int64_t)c.columns * c.rows, 1);
    if (c.dots && c.marks) {
        draw_training(&c, &curve->lines[MF_CURVE_TRAIN], value);
        mark_points(&c, curve, MF_CURVE_VALIDATION, value);
        mark_points(&c, curve, MF_CURVE_TEST, value);
        plot_text_put_legend(curve, value, utf8, out);
        for (int row = 0; row < c.rows; row++)
            plot_text_put_row(&c, row, utf8, out);
        plot_text_put_steps(&c, utf8, out);
    }
    mf_free(c.dots);
    mf_free(c.marks);
}
