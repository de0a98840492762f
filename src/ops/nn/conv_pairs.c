/* SPDX-License-Identifier: Apache-2.0 */
/* conv_pairs.c - pairs of positions of bfloat16 images. */
#include "ops/nn/conv_pairs.h"

#include <string.h>

/* to[i] = low[i], high[i]; NULL: zeros. */
static void pair_values(const uint16_t *low, const uint16_t *high, int64_t n, uint32_t *to)
{
    if (!low && !high) {
        memset(to, 0, (size_t)n * sizeof *to);
        return;
    }
    if (!high) {
        for (int64_t i = 0; i < n; i++)
            to[i] = low[i];
        return;
    }
    if (!low) {
        for (int64_t i = 0; i < n; i++)
            to[i] = (uint32_t)high[i] << 16;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = low[i] | (uint32_t)high[i] << 16;
}

/* The part of [0, extent) where w + shift is a pixel of a line. */
static void pixels_inside(const mf_correlation *c, int64_t shift, int64_t *from, int64_t *to)
{
    const int64_t extent = c->extent[1], end = c->in[1] - shift;

    *from = shift < 0 ? (-shift < extent ? -shift : extent) : 0;
    *to = end < extent ? end : extent;
    *to = *to > *from ? *to : *from;
}

/* Pixels that one position reads of a line, up to the last one. */
static int64_t reach_of_line(const mf_correlation *c)
{
    return c->line[1].at[c->line[1].n - 1] + 1;
}

int64_t mf_conv_pair_cells(const mf_correlation *c)
{
    const int64_t odd = c->out[1] % 2 ? reach_of_line(c) : 0;

    return (c->extent[1] + odd) * c->channels;
}

/* The pixels of the last position of a line, without a partner. */
static void last_position(const mf_correlation *c, const uint16_t *line, uint32_t *to)
{
    const int64_t first = (c->out[1] - 1) * c->stride[1] - c->lo[1], n = reach_of_line(c);

    for (int64_t w = first; w < first + n; w++, to += c->channels)
        pair_values(w >= 0 && w < c->in[1] ? line + w * c->channels : NULL, NULL, c->channels, to);
}

/* Cells of a line: pixels w - lo and w - lo + stride. Both are inside for most w; the others are
 * done one by one. */
static void pair_line(const mf_correlation *c, const uint16_t *line, uint32_t *to)
{
    const int64_t n = c->channels, lo = c->lo[1], stride = c->stride[1];
    int64_t a0, a1, b0, b1, from, end;

    pixels_inside(c, -lo, &a0, &a1);
    pixels_inside(c, stride - lo, &b0, &b1);
    from = a0 > b0 ? a0 : b0;
    end = a1 < b1 ? a1 : b1;
    for (int64_t w = 0; w < c->extent[1]; w++) {
        const uint16_t *low = w >= a0 && w < a1 ? line + (w - lo) * n : NULL;
        const uint16_t *high = w >= b0 && w < b1 ? line + (w - lo + stride) * n : NULL;
        const int64_t pixels = w == from && end > from ? end - from : 1;

        pair_values(low, high, pixels * n, to + w * n);
        w += pixels - 1;
    }
    if (c->out[1] % 2)
        last_position(c, line, to + c->extent[1] * n);
}

void mf_conv_pair_pixels(const mf_correlation *c, const uint16_t *image, int64_t from, int64_t rows,
                         uint32_t *to)
{
    const int64_t reach = c->line[0].at[c->line[0].n - 1] + 1;
    const int64_t lines = (rows - 1) * c->stride[0] + reach, cells = mf_conv_pair_cells(c);

    for (int64_t i = 0; i < lines; i++, to += cells) {
        const int64_t h = from * c->stride[0] - c->lo[0] + i;

        if (h < 0 || h >= c->in[0])
            memset(to, 0, (size_t)cells * sizeof *to);
        else
            pair_line(c, image + h * c->in[1] * c->channels, to);
    }
}

void mf_conv_pair_positions(const uint16_t *y, int64_t lines, int64_t n, int64_t channels,
                            int64_t width, uint32_t *to)
{
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t i = 0; i < n; i += 2, to += width) {
            const uint16_t *low = y + (l * n + i) * channels;

            pair_values(low, i + 1 < n ? low + channels : NULL, channels, to);
            memset(to + channels, 0, (size_t)(width - channels) * sizeof *to);
        }
    }
}
