/* SPDX-License-Identifier: Apache-2.0 */
/* plot_svg.c - a learning curve as an SVG file: one panel for each quantity, readable on light and
 * dark backgrounds. The file is self-contained: no fonts, no scripts. */
#include "report/learning_curve.h"
#include "report/svg.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, LEFT = 76, RIGHT = 24, TOP = 56, PANEL = 220, GAP = 56, BOTTOM = 16 };

/* Colours that colour-blind readers can distinguish, and a grey that suits both backgrounds. */
static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark}\n"
    "svg{font:13px system-ui,sans-serif}\n"
    ".paper{fill:#fff}\n"
    "text{fill:#333}\n"
    ".title{font-size:15px;font-weight:600}\n"
    ".grid{stroke:#8884;stroke-width:1}\n"
    ".axis{stroke:#888;stroke-width:1}\n"
    ".training{fill:none;stroke:#0072b2;stroke-width:1.6;stroke-linejoin:round}\n"
    ".validation{fill:#d55e00;stroke:#d55e00}\n"
    ".test{fill:#009e73;stroke:#009e73}\n"
    "@media (prefers-color-scheme:dark){.paper{fill:#1b1b1b}text{fill:#ddd}"
    ".training{stroke:#56b4e9}.validation{fill:#e69f00;stroke:#e69f00}}\n"
    "</style>\n";

typedef struct panel {
    const mf_curve *curve;
    int value;
    double top; /* of the drawing */
    mf_axis y;
    int64_t last_step;
    mf_buf *out;
} panel;

static double plot_svg_x_of(const panel *p, double step)
{
    return LEFT + step / (double)p->last_step * (WIDTH - LEFT - RIGHT);
}

static double plot_svg_y_of(const panel *p, double v)
{
    return p->top + (p->y.hi - v) / (p->y.hi - p->y.lo) * PANEL;
}

void mf_svg_text(mf_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            mf_buf_printf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            mf_buf_bytes(out, text, 1);
    }
}

static void plot_svg_put_axes(const panel *p)
{
    const int64_t every = mf_axis_steps(p->last_step, 8);
    const int n = (int)lround((p->y.hi - p->y.lo) / p->y.step);

    for (int i = 0; i <= n; i++) {
        const double v = p->y.lo + i * p->y.step;

        mf_buf_printf(p->out,
                      "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                      LEFT, WIDTH - RIGHT, plot_svg_y_of(p, v), plot_svg_y_of(p, v), LEFT - 8,
                      plot_svg_y_of(p, v) + 4, fabs(v) < p->y.step * 1e-6 ? 0 : v);
    }
    for (int64_t i = 0; i <= p->last_step; i += every) {
        const double at = plot_svg_x_of(p, (double)i), foot = p->top + PANEL;

        mf_buf_printf(p->out,
                      "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%lld</text>\n",
                      at, at, foot, foot + 5, at, foot + 19, (long long)i);
    }
    mf_buf_printf(p->out,
                  "<path class=\"axis\" fill=\"none\" d=\"M%d %.1fV%.1fH%d\"/>"
                  "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">step</text>\n",
                  LEFT, p->top, p->top + PANEL, WIDTH - RIGHT, WIDTH - RIGHT, p->top + PANEL + 35);
    mf_buf_printf(p->out,
                  "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                  p->top + PANEL / 2.0);
    mf_svg_text(p->out, p->curve->names[p->value]);
    mf_buf_str(p->out, "</text>\n");
}

/* NaN and Inf interrupt the line. */
static void put_training(const panel *p)
{
    const mf_curve_line *line = &p->curve->lines[MF_CURVE_TRAIN];
    bool down = false;

    mf_buf_str(p->out, "<path class=\"training\" d=\"");
    for (int i = 0; i < line->n; i++) {
        const double v = line->points[i].values[p->value];

        if (isfinite(v))
            mf_buf_printf(p->out, "%s%.1f %.1f", down ? "L" : "M",
                          plot_svg_x_of(p, (double)line->points[i].step), plot_svg_y_of(p, v));
        down = isfinite(v);
    }
    mf_buf_str(p->out, "\"/>\n");
}

static void put_mark(mf_buf *out, int line, double x, double y)
{
    if (line == MF_CURVE_TRAIN)
        mf_buf_printf(out, "<path class=\"training\" d=\"M%.1f %.1fh18\"/>", x - 9, y);
    else if (line == MF_CURVE_VALIDATION)
        mf_buf_printf(out, "<circle class=\"validation\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>", x,
                      y);
    else
        mf_buf_printf(out, "<path class=\"test\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"/>", x, y - 5);
}

/* Marks, connected by a thin line of the same colour. */
static void plot_svg_put_points(const panel *p, int which)
{
    const mf_curve_line *line = &p->curve->lines[which];
    bool down = false;

    if (line->n == 0)
        return;
    mf_buf_printf(p->out, "<path class=\"%s\" style=\"fill:none\" d=\"",
                  mf_curve_line_names[which]);
    for (int i = 0; i < line->n; i++) {
        const double v = line->points[i].values[p->value];

        if (isfinite(v))
            mf_buf_printf(p->out, "%s%.1f %.1f", down ? "L" : "M",
                          plot_svg_x_of(p, (double)line->points[i].step), plot_svg_y_of(p, v));
        down = isfinite(v);
    }
    mf_buf_str(p->out, "\"/>\n");
    for (int i = 0; i < line->n; i++) {
        const double v = line->points[i].values[p->value];

        if (isfinite(v))
            put_mark(p->out, which, plot_svg_x_of(p, (double)line->points[i].step),
                     plot_svg_y_of(p, v));
    }
    mf_buf_str(p->out, "\n");
}

void mf_svg_begin(mf_buf *out, int width, int height, int left, const char *title)
{
    mf_buf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
                  width, height, width, height);
    mf_svg_text(out, title);
    mf_buf_printf(out,
                  "</title>\n%s<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n<text "
                  "class=\"title\" x=\"%d\" y=\"22\">",
                  style, left);
    mf_svg_text(out, title);
    mf_buf_str(out, "</text>\n");
}

static void plot_svg_put_head(const mf_curve *c, const char *title, int height, mf_buf *out)
{
    double x = LEFT + 10;

    mf_svg_begin(out, WIDTH, height, LEFT, title);
    for (int l = 0; l < MF_CURVE_LINES; l++) {
        if (c->lines[l].n == 0)
            continue;
        put_mark(out, l, x, 38);
        mf_buf_printf(out, "<text x=\"%.1f\" y=\"42\">%s</text>\n", x + 14, mf_curve_line_names[l]);
        x += 110;
    }
}

void mf_plot_svg(const mf_curve *c, const char *title, mf_buf *out)
{
    panel p = { .curve = c, .top = TOP, .last_step = mf_curve_last_step(c), .out = out };
    int panels = 0;
    double lo, hi;

    for (int i = 0; i < c->n_names; i++)
        panels += mf_curve_range(c, i, &lo, &hi);
    plot_svg_put_head(c, title, TOP + panels * (PANEL + GAP) + BOTTOM, out);
    for (p.value = 0; p.last_step > 0 && p.value < c->n_names; p.value++) {
        if (!mf_curve_range(c, p.value, &lo, &hi))
            continue;
        p.y = mf_axis_of(lo, hi, 5);
        plot_svg_put_axes(&p);
        put_training(&p);
        plot_svg_put_points(&p, MF_CURVE_VALIDATION);
        plot_svg_put_points(&p, MF_CURVE_TEST);
        p.top += PANEL + GAP;
    }
    mf_buf_str(out, "</svg>\n");
}
