/* SPDX-License-Identifier: Apache-2.0 */
/* plot_sizes.c - plots quality against size of compressed models as SVG. */
#include "report/plot_sizes.h"

#include "report/learning_curve.h"
#include "report/svg.h"

#include <math.h>

enum { WIDTH = 760, HEIGHT = 380, LEFT = 76, RIGHT = 110, TOP = 46, FOOT = 330 };

typedef struct plot_sizes_plane {
    mf_axis y;
    double lo, hi; /* powers of two */
    mf_buf *out;
} plot_sizes_plane;

static double plot_sizes_x_of(const plot_sizes_plane *p, double bytes)
{
    return LEFT + (log2(bytes) - p->lo) / (p->hi - p->lo) * (WIDTH - LEFT - RIGHT);
}

static double plot_sizes_y_of(const plot_sizes_plane *p, double v)
{
    return TOP + (p->y.hi - v) / (p->y.hi - p->y.lo) * (FOOT - TOP);
}

static void plot_sizes_put_axes(const plot_sizes_plane *p, const char *metric)
{
    const int n = (int)lround((p->y.hi - p->y.lo) / p->y.step);

    for (int i = 0; i <= n; i++) {
        const double v = p->y.lo + i * p->y.step;

        mf_buf_printf(p->out,
                      "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                      LEFT, WIDTH - RIGHT, plot_sizes_y_of(p, v), plot_sizes_y_of(p, v), LEFT - 8,
                      plot_sizes_y_of(p, v) + 4, v);
    }
    for (int power = (int)p->lo; power <= (int)p->hi; power++) {
        const double bytes = exp2(power), x = plot_sizes_x_of(p, bytes);
        const bool large = bytes >= 1 << 20;

        mf_buf_printf(p->out,
                      "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g %s</text>\n",
                      x, x, FOOT, FOOT + 5, x, FOOT + 19, bytes / (large ? 1 << 20 : 1 << 10),
                      large ? "MiB" : "KiB");
    }
    mf_buf_printf(p->out,
                  "<path class=\"axis\" fill=\"none\" d=\"M%d %dV%dH%d\"/>"
                  "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">",
                  LEFT, TOP, FOOT, WIDTH - RIGHT, (TOP + FOOT) / 2);
    mf_svg_text(p->out, metric);
    mf_buf_printf(p->out, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">size</text>\n",
                  WIDTH - RIGHT, FOOT + 36);
}

void mf_plot_sizes(const mf_sized *points, int n, const char *metric, const char *title,
                   mf_buf *out)
{
    plot_sizes_plane p = { .lo = INFINITY, .hi = -INFINITY, .out = out };
    double lo = INFINITY, hi = -INFINITY;

    for (int i = 0; i < n; i++) {
        lo = fmin(lo, points[i].value);
        hi = fmax(hi, points[i].value);
        p.lo = fmin(p.lo, floor(log2((double)points[i].bytes)));
        p.hi = fmax(p.hi, ceil(log2((double)points[i].bytes)));
    }
    p.hi = p.hi > p.lo ? p.hi : p.lo + 1;
    p.y = mf_axis_of(lo, hi, 5);
    mf_svg_begin(out, WIDTH, HEIGHT, LEFT, title);
    plot_sizes_put_axes(&p, metric);
    mf_buf_str(out, "<path class=\"training\" d=\"");
    for (int i = 0; i < n; i++)
        mf_buf_printf(out, "%s%.1f %.1f", i > 0 ? "L" : "M",
                      plot_sizes_x_of(&p, (double)points[i].bytes),
                      plot_sizes_y_of(&p, points[i].value));
    mf_buf_str(out, "\"/>\n");
    for (int i = 0; i < n; i++) {
        const double x = plot_sizes_x_of(&p, (double)points[i].bytes),
                     y = plot_sizes_y_of(&p, points[i].value);

        mf_buf_printf(out,
                      "<circle class=\"validation\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\">",
                      x, y, x + 8, y + (i % 2 == 0 ? -7 : 15));
        mf_svg_text(out, points[i].name);
        mf_buf_str(out, "</text>\n");
    }
    mf_buf_str(out, "</svg>\n");
}
