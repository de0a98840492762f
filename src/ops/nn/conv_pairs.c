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

/* Pixel w of a line, or NULL outside. */
static const uint16_t *pixel_of(const mf_correlation *c, const uint16_t *line, int64_t w)
{
    return w < 0 || w >= c->in[1] ? NULL : line + w * c->channels;
}

void mf_conv_pair_pixels(const mf_correlation *c, const uint16_t *image, int64_t from, int64_t rows,
                         uint32_t *to)
{
    const int64_t reach = c->line[0].at[c->line[0].n - 1] + 1;
    const int64_t lines = (rows - 1) * c->stride[0] + reach, cells = c->extent[1] * c->channels;

    for (int64_t i = 0; i < lines; i++, to += cells) {
        const int64_t h = from * c->stride[0] - c->lo[0] + i;
        const uint16_t *line = image + h * c->in[1] * c->channels;

        if (h < 0 || h >= c->in[0]) {
            memset(to, 0, (size_t)cells * sizeof *to);
            continue;
        }
        for (int64_t w = 0; w < c->extent[1]; w++)
            pair_values(pixel_of(c, line, w - c->lo[1]),
                        pixel_of(c, line, w - c->lo[1] + c->stride[1]), c->channels,
                        to + w * c->channels);
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
