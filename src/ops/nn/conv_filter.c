/* SPDX-License-Identifier: Apache-2.0 */
/* conv_filter.c - the filter's gradient by blocks of registers (conv_tiles.h).
 *
 * The batch is divided into parts (shards, or a few images each) whose products are added. A piece
 * computes some cells of the window for one part. */
#include "ops/nn/conv_filter.h"

#include "base/mem.h"
#include "ops/nn/conv_pairs.h"
#include "ops/nn/conv_partial.h"
#include "ops/nn/conv_section.h"
#include "ops/nn/conv_tiles.h"

#include <string.h>

enum {
    FILTER_SECTION =
        32 * 1024, /* elements of the output's gradient at a time: they stay in cache */
    FILTER_PIECES = 16 /* desired number */
};
#define FILTER_WORK ((double)(1 << 20)) /* minimum multiply-adds per piece */

typedef struct filter_job {
    const mf_conv *conv;
    const mf_conv_tiles *tiles;
    const mf_conv_parts *parts;
    bool halves; /* bfloat16: cells are pairs of positions (conv_pairs.h) */
    mf_correlation c;
    mf_conv_section section;
    mf_tap_run *runs;
    int n_runs;
    int64_t cells; /* of a window of one group: rows of the filter */
    int64_t in_group, out_group; /* channels of a group */
    int64_t ranges; /* of cells, each in a piece of its own */
    const char *x, *y;
    int64_t bytes; /* of an element of x and y */
    int64_t x_step, line; /* from one cell of positions to the next; cells of positions of a line */
    int64_t odd; /* 1: the last cell of a line has one position */
    int64_t y_row; /* elements of a row of dimension 0 */
    bool y_copies; /* rows of y are copied, with channels up to a whole vector */
    int64_t y_channels; /* of the copy or of y */
    int64_t section_rows;
    atomic_int status;
} filter_job;

/* ---- one section of one image ---- */

typedef struct filter_section {
    const filter_job *job;
    const float *x, *y; /* first cell of the window of position 0; gradient of position 0 */
    int64_t rows;
    float *w; /* the group's product */
} filter_section;

static void run_filter_tile(const filter_section *s, const mf_conv_filter_tile *t, int rows,
                            int64_t vectors, int64_t channels)
{
    const mf_conv_tiles *tiles = s->job->tiles;
    float edge[MF_CONV_ROWS * MF_CONV_VECTORS * 16];
    mf_conv_filter_tile e = *t;

    if (channels == vectors * tiles->lanes) {
        tiles->filter[vectors - 1][rows - 1](t);
        return;
    }
    e.dw = edge;
    e.dw_step = vectors * tiles->lanes;
    memset(edge, 0, (size_t)(rows * e.dw_step) * sizeof(float));
    for (int r = 0; r < rows; r++)
        memcpy(edge + r * e.dw_step, t->dw + r * t->dw_step, (size_t)channels * sizeof(float));
    tiles->filter[vectors - 1][rows - 1](&e);
    for (int r = 0; r < rows; r++)
        memcpy(t->dw + r * t->dw_step, edge + r * e.dw_step, (size_t)channels * sizeof(float));
}

/* `rows` cells of the window, all channels of the result. */
static void filter_cells(const filter_section *s, const float *x, float *w, int rows,
                         int64_t most_vectors)
{
    const filter_job *j = s->job;
    const mf_correlation *c = &j->c;
    const int64_t lanes = j->tiles->lanes, all = (j->out_group + lanes - 1) / lanes;
    const int64_t blocks = (all + most_vectors - 1) / most_vectors;
    const int last = c->nd - 1;
    const int64_t planes = c->nd > 2 ? s->rows : 1;
    mf_conv_filter_tile t = { .x_step = j->x_step,
                              .x_row = c->stride[last - 1] * j->section.step[last - 1],
                              .dy_step = j->y_channels,
                              .dy_row = j->line * j->y_channels,
                              .n = j->line,
                              .rows = c->nd > 2 ? c->out[1] : s->rows,
                              .dw_step = j->conv->out_channels };

    for (int64_t b = 0; b < blocks; b++) {
        const int64_t v = all * b / blocks, vectors = all * (b + 1) / blocks - v;
        const int64_t left = j->out_group - v * lanes;
        const int64_t channels = left < vectors * lanes ? left : vectors * lanes;

        t.dw = w + v * lanes;
        for (int64_t p = 0; p < planes; p++) {
            t.x = x + p * c->stride[0] * j->section.step[0];
            t.dy = s->y + v * lanes + p * t.rows * t.dy_row;
            t.n = j->line - j->odd;
            run_filter_tile(s, &t, rows, vectors, channels);
        }
        if (j->odd) { /* the last position of each line has no partner */
            t.x = x + c->extent[last] * c->channels;
            t.dy = s->y + v * lanes + (j->line - 1) * j->y_channels;
            t.n = 1;
            run_filter_tile(s, &t, rows, vectors, channels);
        }
    }
}

/* Cells [from, to) of the window. */
static void run_range(const filter_section *s, int64_t from, int64_t to)
{
    const filter_job *j = s->job;
    const int64_t lanes = j->tiles->lanes, all = (j->out_group + lanes - 1) / lanes;
    const int64_t vectors = all < MF_CONV_VECTORS ? all : MF_CONV_VECTORS;
    const int64_t most = j->tiles->rows[vectors - 1];

    for (int64_t i = 0, at = 0; i < j->n_runs; at += j->runs[i++].length) {
        const int64_t first = from > at ? from - at : 0;
        const int64_t end = to - at < j->runs[i].length ? to - at : j->runs[i].length;
        const int64_t n = end - first, tiles = (n + most - 1) / most;

        for (int64_t k = 0; n > 0 && k < tiles && !mf_stopped_after(s->rows * j->y_row); k++) {
            const int64_t cell = first + n * k / tiles;

            filter_cells(s, s->x + j->runs[i].at + cell, s->w + (at + cell) * j->conv->out_channels,
                         (int)(first + n * (k + 1) / tiles - cell), vectors);
        }
    }
}

/* ---- pieces ---- */

/* y's rows of one group with channels up to a whole vector. */
static const float *copy_channels(const filter_job *j, const float *y, int64_t rows, float *to)
{
    const int64_t n = rows * j->y_row / j->conv->out_channels;

    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * j->y_channels, y + i * j->conv->out_channels,
               (size_t)j->out_group * sizeof(float));
        memset(to + i * j->y_channels + j->out_group, 0,
               (size_t)(j->y_channels - j->out_group) * sizeof(float));
    }
    return to;
}

typedef struct filter_range {
    int64_t from, to; /* cells */
    float *w; /* the part's product */
} filter_range;

/* Cells of the buffer for what `rows` rows read of x, and for their copy of y. */
static int64_t x_cells(const filter_job *j, int64_t rows)
{
    if (j->halves)
        return ((rows - 1) * j->c.stride[0] + j->section.reach) * j->section.step[0];
    return mf_conv_section_cells(&j->section, rows);
}

static int64_t y_cells(const filter_job *j, int64_t rows)
{
    const int64_t lines = j->y_row / j->conv->out_channels / j->c.out[j->c.nd - 1];

    return j->y_copies ? rows * lines * j->line * j->y_channels : 0;
}

static void run_filter_rows(const filter_job *j, const filter_range *r, int64_t image, int64_t from,
                            int64_t rows, float *buffer)
{
    const char *x = j->x + image * j->section.image_bytes;
    const char *y = j->y + (image * j->c.out[0] + from) * j->y_row * j->bytes;
    float *y_copy = buffer + x_cells(j, rows);
    filter_section s = { .job = j, .rows = rows };

    if (j->halves) { /* no groups */
        mf_conv_pair_pixels(&j->c, (const uint16_t *)(const void *)x, from, rows,
                            (uint32_t *)(void *)buffer);
        mf_conv_pair_positions((const uint16_t *)(const void *)y, rows, j->c.out[1], j->out_group,
                               j->y_channels, (uint32_t *)(void *)y_copy);
        s.x = buffer, s.y = y_copy, s.w = r->w;
        run_range(&s, r->from, r->to);
        return;
    }
    s.x = mf_conv_section_read(&j->section, x, from, rows, buffer);
    for (int64_t g = 0; g < j->conv->groups; g++, s.x += j->in_group) {
        const float *own = (const float *)(const void *)y + g * j->out_group;

        s.y = j->y_copies ? copy_channels(j, own, rows, y_copy) : own;
        s.w = r->w + g * j->out_group;
        run_range(&s, r->from, r->to);
    }
}

static void filter_piece(void *ctx, int64_t piece)
{
    filter_job *j = ctx;
    const int64_t part = piece / j->ranges, range = piece % j->ranges, n = j->conv->out_channels;
    const filter_range r = { j->cells * range / j->ranges, j->cells * (range + 1) / j->ranges,
                             mf_conv_partial(j->parts, part) };
    const int64_t cells = x_cells(j, j->section_rows) + y_cells(j, j->section_rows);
    mf_tensor buffer = { 0 };

    memset(r.w + r.from * n, 0, (size_t)((r.to - r.from) * n) * sizeof(float));
    if (mf_tensor_alloc(&buffer, MF_DTYPE_F32, &MF_SHAPE(cells)) != MF_OK) {
        atomic_store(&j->status, (int)MF_RESOURCE_EXHAUSTED);
        return;
    }
    for (int64_t i = mf_conv_part_begin(j->parts, part); i < mf_conv_part_begin(j->parts, part + 1);
         i++) {
        for (int64_t from = 0, rows; from < j->c.out[0]; from += rows) {
            rows = j->c.out[0] - from < j->section_rows ? j->c.out[0] - from : j->section_rows;
            run_filter_rows(j, &r, i, from, rows, buffer.data);
        }
    }
    mf_tensor_clear(&buffer);
}

/* Ranges of cells: more pieces than parts, if there are few parts with much work. */
static int64_t cut_cells(const filter_job *j)
{
    const double images = (double)j->conv->window.batch / (double)j->parts->n;
    const double work = images * (double)j->c.out[0] * (double)j->y_row * (double)j->cells;
    int64_t ranges = FILTER_PIECES / j->parts->n;

    if ((double)ranges > work / FILTER_WORK)
        ranges = (int64_t)(work / FILTER_WORK);
    ranges = ranges < j->cells / MF_CONV_ROWS ? ranges : j->cells / MF_CONV_ROWS;
    return ranges > 1 ? ranges : 1;
}

/* Strides of images of pairs, which are always copied with their padding. */
static void pairs_init(filter_job *j)
{
    j->section.step[1] = j->c.channels;
    j->section.step[0] = mf_conv_pair_cells(&j->c);
    j->x_step *= 2;
    j->odd = j->line % 2;
    j->line = (j->line + 1) / 2;
    j->y_copies = true;
}

static void filter_job_init(filter_job *j)
{
    const int64_t lanes = j->tiles->lanes;
    int64_t rows;

    mf_conv_section_init(&j->c, j->c.channels * (j->halves ? 4 : j->bytes), &j->section);
    j->section.image_bytes = j->section.image_bytes / (j->halves ? 2 : 1);
    j->in_group = j->c.channels / j->conv->groups;
    j->out_group = j->conv->out_channels / j->conv->groups;
    j->cells = mf_correlation_taps(&j->c) * j->in_group;
    j->x_step = j->c.stride[j->c.nd - 1] * j->c.channels;
    j->line = j->c.out[j->c.nd - 1];
    j->y_row = j->conv->out_channels;
    for (int d = 1; d < j->c.nd; d++)
        j->y_row *= j->c.out[d];
    j->y_copies = j->out_group % lanes != 0;
    if (j->halves)
        pairs_init(j);
    j->y_channels =
        j->y_copies ? (j->out_group + lanes - 1) / lanes * lanes : j->conv->out_channels;
    rows = FILTER_SECTION / j->y_row > 2 * j->section.reach ? FILTER_SECTION / j->y_row
                                                            : 2 * j->section.reach;
    j->section_rows = rows < j->c.out[0] ? rows : j->c.out[0];
}

mf_status mf_conv_filter(const mf_kernel *k, const mf_conv *conv, mf_dtype type, int64_t shards,
                         const void *x, float *w, const void *y)
{
    int64_t *storage = mf_calloc(mf_correlation_storage(conv), sizeof *storage);
    mf_conv forward = *conv;
    mf_conv_parts parts = { 0 };
    filter_job j = { .conv = conv,
                     .halves = type == MF_DTYPE_BF16,
                     .bytes = (int64_t)mf_dtype_cell(type),
                     .parts = &parts,
                     .x = x,
                     .y = y };
    mf_status st = storage ? MF_OK : MF_NOMEM("the taps of a convolution");

    MF_TRY_TO(done, st);
    j.tiles = j.halves ? mf_conv_tiles_bf16() : mf_conv_tiles_float();
    forward.kind = MF_CONV_FORWARD;
    mf_correlation_init(&forward, 0, storage, &j.c);
    filter_job_init(&j);
    j.runs = mf_calloc(mf_correlation_taps(&j.c), sizeof *j.runs);
    MF_TRY_TO(done, j.runs ? MF_OK : MF_NOMEM("the taps of a convolution"));
    j.n_runs = mf_correlation_runs(&j.c, j.section.step, j.in_group, conv->groups == 1, j.runs);
    MF_TRY_TO(done, mf_conv_parts_init(conv, shards, MF_DTYPE_F32, w, &parts));
    j.ranges = cut_cells(&j);
    MF_TRY_TO(done, mf_kernel_parallel(k, parts.n * j.ranges, filter_piece, &j));
    st = (mf_status)atomic_load(&j.status);
    MF_TRY_TO(done, st == MF_OK ? st : MF_FAIL(st, "a piece of the convolution found no memory"));
    st = mf_conv_parts_sum(k, &parts);
done:
    mf_conv_parts_deinit(&parts);
    mf_free(j.runs);
    mf_free(storage);
    return st;
}
