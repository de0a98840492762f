/* SPDX-License-Identifier: Apache-2.0 */
/* conv_section.c - parts of images, with their padding. */
#include "ops/nn/conv_section.h"

#include <string.h>

enum { CELL_BYTES = 4 };

static bool reads_beyond(const mf_correlation *c, int d)
{
    return c->lo[d] > 0 || c->extent[d] - c->lo[d] > c->in[d];
}

void mf_conv_section_init(const mf_correlation *c, int64_t pixel_bytes, mf_conv_section *out)
{
    int64_t step = c->channels;

    *out = (mf_conv_section){ .c = c,
                              .pixel_bytes = pixel_bytes,
                              .copies = pixel_bytes != c->channels * CELL_BYTES,
                              .image_bytes = pixel_bytes };
    for (int d = 0; d < c->nd; d++)
        out->copies = out->copies || reads_beyond(c, d);
    for (int d = c->nd - 1; d >= 0; d--) {
        out->step[d] = step;
        step *= out->copies ? c->extent[d] : c->in[d];
        out->image_bytes *= c->in[d];
    }
    out->reach = c->line[0].n > 0 ? c->line[0].at[c->line[0].n - 1] + 1 : 0;
}

/* Rows of dimension 0 of the image that `rows` rows of positions read. */
static int64_t rows_read(const mf_conv_section *s, int64_t rows)
{
    return (rows - 1) * s->c->stride[0] + s->reach;
}

int64_t mf_conv_section_cells(const mf_conv_section *s, int64_t rows)
{
    return s->copies ? rows_read(s, rows) * s->step[0] : 0;
}

/* Copies n pixels, each with zeros up to a whole cell. */
static void section_copy_pixels(const mf_conv_section *s, const char *from, int64_t n, float *to)
{
    const int64_t cells = s->c->channels, last = cells - 1;

    if (s->pixel_bytes == cells * CELL_BYTES) {
        memcpy(to, from, (size_t)(n * s->pixel_bytes));
        return;
    }
    for (int64_t i = 0; i < n; i++, to += cells, from += s->pixel_bytes) {
        to[last] = 0;
        memcpy(to, from, (size_t)s->pixel_bytes);
    }
}

/* Copies a line of the last dimension, with its padding. */
static void section_copy_line(const mf_conv_section *s, const char *image, float *to)
{
    const mf_correlation *c = s->c;
    const int last = c->nd - 1;
    const int64_t extent = c->extent[last], lo = c->lo[last];
    const int64_t first = lo > 0 ? (lo < extent ? lo : extent) : 0;
    int64_t n = c->in[last] - (first - lo);

    n = n < extent - first ? n : extent - first;
    n = n > 0 ? n : 0;
    memset(to, 0, (size_t)(first * c->channels) * sizeof(float));
    if (n > 0)
        section_copy_pixels(s, image + (first - lo) * s->pixel_bytes, n, to + first * c->channels);
    memset(to + (first + n) * c->channels, 0,
           (size_t)((extent - first - n) * c->channels) * sizeof(float));
}

/* Copies `rows` lines of a plane of the image (NULL: zeros), from line `at` on. */
static void section_copy_lines(const mf_conv_section *s, const char *image, int64_t at,
                               int64_t rows, float *to)
{
    const mf_correlation *c = s->c;
    const int d = c->nd - 2;
    const int64_t line = c->in[d + 1] * s->pixel_bytes;

    for (int64_t i = 0; i < rows; i++, to += s->step[d]) {
        if (!image || at + i < 0 || at + i >= c->in[d])
            memset(to, 0, (size_t)s->step[d] * sizeof(float));
        else
            section_copy_line(s, image + (at + i) * line, to);
    }
}

/* What `rows` rows of dimension 0 read, from position `at` on. */
static void copy_section(const mf_conv_section *s, const char *image, int64_t at, int64_t rows,
                         float *to)
{
    const mf_correlation *c = s->c;

    if (c->nd == 2) {
        section_copy_lines(s, image, at, rows, to);
        return;
    }
    for (int64_t i = 0; i < rows; i++, to += s->step[0]) {
        const bool inside = at + i >= 0 && at + i < c->in[0];

        section_copy_lines(s,
                           inside ? image + (at + i) * c->in[1] * c->in[2] * s->pixel_bytes : NULL,
                           -c->lo[1], c->extent[1], to);
    }
}

const float *mf_conv_section_read(const mf_conv_section *s, const void *image, int64_t from,
                                  int64_t rows, float *buffer)
{
    const mf_correlation *c = s->c;
    int64_t first = (from * c->stride[0] - c->lo[0]) * s->step[0];

    if (s->copies) {
        copy_section(s, image, from * c->stride[0] - c->lo[0], rows_read(s, rows), buffer);
        return buffer;
    }
    for (int d = 1; d < c->nd; d++)
        first -= c->lo[d] * s->step[d];
    return (const float *)image + first;
}
