/* SPDX-License-Identifier: Apache-2.0 */
/* terminal_image.c - draws images as text in a terminal. */
#include "report/terminal_image.h"

#include "formats/image.h"

enum { MOST = 40, CHANNELS = 3 };

static void draw_row(const unsigned char *row, int64_t width, int64_t channels, mf_buf *out)
{
    static const char *const shades[] = { "  ", "░░", "▒▒", "▓▓", "██" };

    for (int64_t x = 0; x < width; x++, row += channels) {
        const int grey = channels == 1 ? row[0] : (row[0] * 77 + row[1] * 150 + row[2] * 29) >> 8;

        mf_buf_str(out, shades[grey * MF_COUNT(shades) / 256]);
    }
    mf_buf_str(out, "\n");
}

void mf_terminal_image_draw(const unsigned char *pixels, int64_t height, int64_t width,
                            int64_t channels, mf_buf *out)
{
    unsigned char small[MOST * MOST * CHANNELS];
    mf_image from = { height, width, channels }, to = from;

    if (height > MOST || width > MOST) {
        const int64_t longer = height > width ? height : width;

        to.height = height * MOST / longer > 0 ? height * MOST / longer : 1;
        to.width = width * MOST / longer > 0 ? width * MOST / longer : 1;
        mf_image_resize(pixels, &from, small, &to);
        pixels = small;
    }
    for (int64_t y = 0; y < to.height; y++)
        draw_row(pixels + y * to.width * channels, to.width, channels, out);
}
