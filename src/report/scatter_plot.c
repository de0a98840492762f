/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_plot.c - the rows of a matrix as points on the plane of their two principal components,
 * found by power iteration on their covariance. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "report/embeddings.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { MOST = 2000, ROUNDS = 500, SIZE = 640, LEFT = 16, TOP = 40, LEGEND = 150, COLOURS = 10 };

/* Ten colours that are distinguishable on light and dark backgrounds. */
static const char *const colours[COLOURS] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
    "#56b4e9", "#8c564b", "#7f7f7f", "#b8a800", "#9467bd"
};

typedef struct scatter_plot_plane {
    const float *rows;
    int64_t n, width;
    double *mean, *covariance; /* [width], [width,width] */
    double *axis[2];
} scatter_plot_plane;

static void scatter_plot_measure(scatter_plot_plane *p)
{
    const int64_t w = p->width;

    for (int64_t i = 0; i < p->n * w; i++)
        p->mean[i % w] += (double)p->rows[i] / (double)p->n;
    for (int64_t i = 0; i < p->n; i++) {
        for (int64_t a = 0; a < w; a++) {
            const double x = (double)p->rows[i * w + a] - p->mean[a];

            for (int64_t b = 0; b < w; b++)
                p->covariance[a * w + b] += x * ((double)p->rows[i * w + b] - p->mean[b]);
        }
    }
}

static double scatter_plot_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Power iteration: the eigenvector of the largest eigenvalue, orthogonal to the previous one. */
static void scatter_plot_find_axis(scatter_plot_plane *p, int which, double *next)
{
    const int64_t w = p->width;
    double *axis = p->axis[which];

    for (int64_t i = 0; i < w; i++)
        axis[i] = 1.0 / (double)(1 + (i * 7 + which) % w);
    for (int round = 0; round < ROUNDS; round++) {
        double length;

        for (int64_t i = 0; i < w; i++)
            next[i] = scatter_plot_dot(p->covariance + i * w, axis, w);
        if (which == 1) {
            const double along = scatter_plot_dot(next, p->axis[0], w);

            for (int64_t i = 0; i < w; i++)
                next[i] -= along * p->axis[0][i];
        }
        length = sqrt(scatter_plot_dot(next, next, w));
        for (int64_t i = 0; i < w; i++)
            axis[i] = length > 0.0 ? next[i] / length : 0.0;
    }
}

static double scatter_plot_place(const scatter_plot_plane *p, int64_t row, int which)
{
    double at = 0.0;

    for (int64_t k = 0; k < p->width; k++)
        at += ((double)p->rows[row * p->width + k] - p->mean[k]) * p->axis[which][k];
    return at;
}

static void scatter_plot_put_text(mf_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            mf_buf_printf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            mf_buf_bytes(out, text, 1);
    }
}

static void scatter_plot_put_head(const char *title, mf_buf *out)
{
    mf_buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 "
        "0 %d %d\" role=\"img\">\n<title>",
        SIZE + LEGEND, SIZE + TOP, SIZE + LEGEND, SIZE + TOP);
    scatter_plot_put_text(out, title);
    mf_buf_printf(out,
                  "</title>\n<style>:root{color-scheme:light dark}svg{font:13px "
                  "system-ui,sans-serif}.paper{fill:#fff}text{fill:#333}.title{font-size:15px;"
                  "font-weight:600}circle{fill-opacity:.65}@media (prefers-color-scheme:dark)"
                  "{.paper{fill:#1b1b1b}text{fill:#ddd}}</style>\n<rect class=\"paper\" "
                  "width=\"100%%\" height=\"100%%\"/>\n<text class=\"title\" x=\"%d\" y=\"24\">",
                  LEFT);
    scatter_plot_put_text(out, title);
    mf_buf_str(out, "</text>\n");
}

static void scatter_plot_put_legend(const char *const *names, int64_t n, mf_buf *out)
{
    for (int64_t i = 0; i < n; i++) {
        const double y = TOP + 24.0 + 22.0 * (double)i;

        mf_buf_printf(out,
                      "<circle cx=\"%d\" cy=\"%.0f\" r=\"5\" fill=\"%s\"/><text x=\"%d\" "
                      "y=\"%.0f\">",
                      SIZE + 12, y, colours[i % COLOURS], SIZE + 24, y + 4);
        if (names)
            scatter_plot_put_text(out, names[i]);
        else
            mf_buf_printf(out, "%lld", (long long)i);
        mf_buf_str(out, "</text>\n");
    }
}

static void scatter_plot_put_points(const scatter_plot_plane *p, const int32_t *labels, mf_buf *out)
{
    const int64_t n = p->n < MOST ? p->n : MOST;
    double most = 1e-30;

    for (int64_t i = 0; i < n; i++)
        most =
            fmax(most, fmax(fabs(scatter_plot_place(p, i, 0)), fabs(scatter_plot_place(p, i, 1))));
    for (int64_t i = 0; i < n; i++) {
        const double scale = 0.5 * (SIZE - 2 * LEFT) / most;

        mf_buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                      0.5 * SIZE + scale * scatter_plot_place(p, i, 0),
                      TOP + 0.5 * SIZE - scale * scatter_plot_place(p, i, 1),
                      colours[(uint32_t)labels[i] % COLOURS]);
    }
}

mf_status mf_scatter_write(const mf_tensor *rows, const int32_t *labels, const char *const *names,
                           int64_t n_names, const char *title, const char *path)
{
    const int64_t w = rows->shape.dims[1];
    double *room = mf_calloc(w * w + 4 * w + 1, sizeof *room);
    scatter_plot_plane p = { .rows = rows->data, .n = rows->shape.dims[0], .width = w };
    mf_buf out = { 0 };
    mf_status st;

    if (!room)
        return MF_NOMEM("a picture");
    p.covariance = room;
    p.mean = room + w * w;
    p.axis[0] = p.mean + w;
    p.axis[1] = p.axis[0] + w;
    scatter_plot_measure(&p);
    for (int i = 0; i < 2; i++)
        scatter_plot_find_axis(&p, i, p.axis[1] + w);
    scatter_plot_put_head(title, &out);
    scatter_plot_put_points(&p, labels, &out);
    scatter_plot_put_legend(names, n_names, &out);
    mf_buf_str(&out, "</svg>\n");
    st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_file_write(path, out.data, out.len);
    mf_buf_deinit(&out);
    mf_free(room);
    return st;
}
