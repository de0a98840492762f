/* SPDX-License-Identifier: Apache-2.0 */
/* image_grid.c - writes many small pictures as one PNG file. */
#include "report/image_grid.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "formats/image.h"

enum { ZOOM = 2, GAP = 2, GREY = 64 };

typedef struct grid {
    unsigned char *pixels;
    mf_image size;
    int64_t columns;
    const int64_t *dims;
} grid;

static void image_grid_place(const grid *g, int64_t i, const float *picture)
{
    const int64_t h = g->dims[0], w = g->dims[1], c = g->dims[2];
    const int64_t top = GAP + i / g->columns * (h * ZOOM + GAP),
                  left = GAP + i % g->columns * (w * ZOOM + GAP);

    for (int64_t y = 0; y < h * ZOOM; y++) {
        unsigned char *to = g->pixels + ((top + y) * g->size.width + left) * c;

        for (int64_t x = 0; x < w * ZOOM * c; x++) {
            const float v = picture[(y / ZOOM * w + x / c / ZOOM) * c + x % c];

            to[x] = (unsigned char)(v <= 0.0f ? 0 : v >= 1.0f ? 255 : v * 255.0f + 0.5f);
        }
    }
}

mf_status mf_image_grid_write(const float *pictures, int64_t n, const int64_t dims[3],
                              const char *path)
{
    const int64_t each = dims[0] * dims[1] * dims[2];
    grid g = { .columns = 1, .dims = dims };
    mf_buf png = { 0 };
    int64_t bytes;
    mf_status st;

    while (g.columns * g.columns < n)
        g.columns++;
    g.size = (mf_image){ .height = (n + g.columns - 1) / g.columns * (dims[0] * ZOOM + GAP) + GAP,
                         .width = g.columns * (dims[1] * ZOOM + GAP) + GAP,
                         .channels = dims[2] };
    MF_TRY(mf_image_check(&g.size));
    bytes = g.size.height * g.size.width * g.size.channels;
    g.pixels = mf_calloc(bytes, 1);
    if (!g.pixels)
        return MF_NOMEM("a picture");
    for (int64_t i = 0; i < bytes; i++)
        g.pixels[i] = GREY;
    for (int64_t i = 0; i < n; i++)
        image_grid_place(&g, i, pictures + i * each);
    st = mf_png_encode(g.pixels, &g.size, &png);
    if (st == MF_OK)
        st = mf_file_write(path, png.data, png.len);
    mf_buf_deinit(&png);
    mf_free(g.pixels);
    return st;
}
