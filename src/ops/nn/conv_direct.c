/* SPDX-License-Identifier: Apache-2.0 */
/* conv_direct.c - convolutions and input gradients by blocks of registers (conv_tiles.h).
 * A cell of the image is one float, or two channels of bfloat16.
 *
 * The filter is packed first: for each block of result channels one row of vectors per cell of the
 * window, in the order in which positions read their cells. Pieces are rows of positions. */
#include "ops/nn/conv_direct.h"

#include "base/mem.h"
#include "ops/nn/conv_section.h"
#include "ops/nn/conv_tiles.h"

#include <string.h>

enum {
    MAX_RUN = 512, /* cells; longer runs are divided */
    CHUNK = 1024, /* cells of the window for which the filter stays in the second-level cache */
    SECTION = 32 * 1024, /* results at a time: they and what they read stay there, too */
    MAX_DIRECT_PIECES = 64
};
#define DIRECT_WORK ((double)(1 << 20)) /* minimum multiply-adds per piece */

typedef struct direct_job {
    const mf_kernel *k;
    const mf_conv *conv;
    const mf_conv_tiles *tiles;
    bool halves; /* bfloat16 */
    mf_correlation c; /* its channels are cells */
    mf_conv_section section;
    mf_tap_run *runs;
    int n_runs;
    int64_t cells; /* of all runs: what a position reads */
    int64_t in_channels, in_group, out_group; /* of a group: channels and cells that are read,
                                                 channels that are written */
    int64_t blocks, vectors; /* blocks of result channels in a group; vectors in all of them */
    const mf_epilogue *then; /* for rows of the result, if one correlation computes them */
    const char *in;
    const void *filter;
    const float *w; /* the packed filter: cells */
    char *out;
    int64_t out_bytes; /* of an element */
    int64_t out_image; /* elements of a result image */
    int64_t rows, per_piece; /* of positions, in all images */
    atomic_int status;
} direct_job;

/* ---- blocks of result channels ---- */

static int64_t first_vector(const direct_job *j, int64_t block)
{
    return j->vectors * block / j->blocks;
}

static void cut_channels(direct_job *j)
{
    const int lanes = j->tiles->lanes;

    j->vectors = (j->out_group + lanes - 1) / lanes;
    j->blocks = (j->vectors + MF_CONV_VECTORS - 1) / MF_CONV_VECTORS;
}

/* ---- the packed filter ---- */

/* The filter's tap that tap i of the correlation is. */
static int64_t filter_tap(const direct_job *j, int64_t i)
{
    int64_t tap = 0, scale = 1;

    for (int d = j->c.nd - 1; d >= 0; d--) {
        tap += j->c.line[d].tap[i % j->c.line[d].n] * scale;
        scale *= j->conv->window.size[d];
        i /= j->c.line[d].n;
    }
    return tap;
}

/* Channels `at` to at + n of the result, as rows of `width` for each channel that is read. */
static void direct_pack_channels(const direct_job *j, const float *tap, int64_t group, int64_t at,
                                 int64_t n, int64_t width, float *to)
{
    const int64_t all = j->conv->out_channels;

    if (!j->c.transposed) {
        tap += group * j->out_group + at;
        for (int64_t i = 0; i < j->in_group; i++, to += width, tap += all) {
            memcpy(to, tap, (size_t)n * sizeof(float));
            memset(to + n, 0, (size_t)(width - n) * sizeof(float));
        }
        return;
    }
    tap += at * all + group * j->in_group;
    for (int64_t i = 0; i < j->in_group; i++)
        memset(to + i * width + n, 0, (size_t)(width - n) * sizeof(float));
    for (int64_t v = 0; v < n; v++, tap += all) {
        for (int64_t i = 0; i < j->in_group; i++)
            to[i * width + v] = tap[i];
    }
}

/* The same for pairs of bfloat16 channels; without groups. */
static void pack_pairs(const direct_job *j, const uint16_t *tap, int64_t at, int64_t n,
                       int64_t width, float *to)
{
    const int64_t all = j->conv->out_channels;
    const int64_t read = j->c.transposed ? 1 : all, write = j->c.transposed ? all : 1;

    for (int64_t i = 0; i < j->in_group; i++, to += width) {
        const uint16_t *low = tap + 2 * i * read + at * write;
        const bool pair = 2 * i + 1 < j->in_channels;

        memset(to, 0, (size_t)width * sizeof(float));
        for (int64_t v = 0; v < n; v++) {
            const uint32_t cell =
                low[v * write] | (pair ? (uint32_t)low[v * write + read] << 16 : 0);

            memcpy(to + v, &cell, sizeof cell);
        }
    }
}

static void pack_tap(void *ctx, int64_t i)
{
    const direct_job *j = ctx;
    const int64_t lanes = j->tiles->lanes;
    const int64_t tap =
        filter_tap(j, i) * (j->conv->window.channels / j->conv->groups) * j->conv->out_channels;
    float *group_at = (float *)(uintptr_t)j->w;

    for (int64_t g = 0; g < j->conv->groups; g++, group_at += j->cells * j->vectors * lanes) {
        for (int64_t b = 0; b < j->blocks; b++) {
            const int64_t v = first_vector(j, b), width = (first_vector(j, b + 1) - v) * lanes;
            const int64_t at = v * lanes, n = j->out_group - at < width ? j->out_group - at : width;

            float *to = group_at + j->cells * at + i * j->in_group * width;

            if (j->halves)
                pack_pairs(j, (const uint16_t *)j->filter + tap, at, n, width, to);
            else
                direct_pack_channels(j, (const float *)j->filter + tap, g, at, n, width, to);
        }
    }
}

/* Is the filter packed as it is? */
static bool is_packed(const direct_job *j)
{
    return !j->halves && !j->c.transposed && j->conv->groups == 1 && j->blocks == 1 &&
           j->out_group == j->vectors * j->tiles->lanes;
}

static mf_status pack_filter(direct_job *j, mf_tensor *packed)
{
    const int64_t width = j->vectors * j->tiles->lanes;

    if (is_packed(j)) {
        j->w = j->filter;
        return MF_OK;
    }
    MF_TRY(mf_tensor_alloc(packed, MF_DTYPE_F32, &MF_SHAPE(j->conv->groups, j->cells, width)));
    j->w = packed->data;
    return mf_kernel_parallel(j->k, mf_correlation_taps(&j->c), pack_tap, j);
}

/* ---- a section: some rows of one image ---- */

typedef struct direct_block {
    const direct_job *job;
    int64_t vectors, channels; /* the block's vectors, and how many of their lanes are channels */
    mf_conv_tile tile; /* runs, filter, strides */
} direct_block;

/* A tile whose results are not whole vectors, or not floats. */
static void run_edge_tile(const direct_block *b, mf_conv_tile *t, int rows, char *out)
{
    const int lanes = b->job->tiles->lanes;
    const int64_t row = t->out_step * b->job->out_bytes, width = b->vectors * lanes;
    const size_t bytes = (size_t)b->channels * sizeof(float);
    float edge[MF_CONV_ROWS * MF_CONV_VECTORS * 16];

    t->out = edge;
    t->out_step = width;
    for (int r = 0; t->add && r < rows; r++) {
        memset(edge + r * width, 0, (size_t)width * sizeof(float));
        memcpy(edge + r * width, out + r * row, bytes);
    }
    b->job->tiles->tile[b->vectors - 1][rows - 1](t);
    for (int r = 0; r < rows; r++) {
        mf_bf16 *to = (mf_bf16 *)(void *)(out + r * row);

        if (!b->job->halves)
            memcpy(out + r * row, edge + r * width, bytes);
        for (int64_t v = 0; b->job->halves && v < b->channels; v++)
            to[v] = mf_bf16_from_f32(edge[r * width + v]);
    }
}

/* A line of positions: tiles of about equal size. */
static void run_line(const direct_block *b, const float *in, char *out)
{
    const direct_job *j = b->job;
    const int64_t n = j->c.out[j->c.nd - 1], most = j->tiles->rows[b->vectors - 1];
    const int64_t tiles = (n + most - 1) / most;
    const bool whole = !j->halves && b->channels == b->vectors * j->tiles->lanes;

    for (int64_t i = 0, from = 0, to; i < tiles; i++, from = to) {
        char *at = out + from * b->tile.out_step * j->out_bytes;
        mf_conv_tile t = b->tile;

        to = n * (i + 1) / tiles;
        t.in = in + from * t.in_step;
        t.out = (float *)(void *)at;
        if (whole)
            j->tiles->tile[b->vectors - 1][to - from - 1](&t);
        else
            run_edge_tile(b, &t, (int)(to - from), at);
    }
}

/* Rows [from, from + rows) of an image; `in` belongs to the first one. */
static void run_rows(const direct_block *b, const float *in, char *out, int64_t from, int64_t rows)
{
    const mf_correlation *c = &b->job->c;
    const mf_conv_section *s = &b->job->section;
    const int64_t middle = c->nd > 2 ? c->out[1] : 1;
    const int64_t in_plane = c->nd > 2 ? c->stride[1] * s->step[1] : 0;
    int64_t out_step[MF_WINDOW_DIMS] = { 0 }, step = c->out_channels * b->job->out_bytes;

    for (int d = c->nd - 1; d >= 0; d--) {
        out_step[d] = step;
        step *= c->out_size[d];
        out += c->out_first[d] * out_step[d];
    }
    out += from * c->out_step[0] * out_step[0];
    for (int64_t r = 0; r < rows; r++) {
        if (mf_stopped_after(middle * c->out[c->nd - 1] * b->job->cells))
            return;
        for (int64_t m = 0; m < middle; m++)
            run_line(b, in + r * c->stride[0] * s->step[0] + m * in_plane,
                     out + r * c->out_step[0] * out_step[0] +
                         (c->nd > 2 ? m * c->out_step[1] * out_step[1] : 0));
    }
}

/* The runs in [first, *next) are a chunk of the window; returns its cells. Sums continue in the
 * results, so results of 16 bits have a single chunk. */
static int64_t chunk_at(const direct_job *j, int first, int *next)
{
    int64_t cells = 0;

    for (*next = first; *next < j->n_runs; (*next)++) {
        if (cells > 0 && cells + j->runs[*next].length > CHUNK && !j->halves)
            break;
        cells += j->runs[*next].length;
    }
    return cells;
}

static void run_block(const direct_job *j, int64_t group, int64_t block, const float *in, char *out,
                      int64_t from, int64_t rows)
{
    const int64_t lanes = j->tiles->lanes, v = first_vector(j, block), last = j->c.nd - 1;
    direct_block b = { .job = j, .vectors = first_vector(j, block + 1) - v };
    const int64_t width = b.vectors * lanes;
    const float *w = j->w + j->cells * (group * j->vectors + v) * lanes;
    int next = 0;

    b.channels = j->out_group - v * lanes < width ? j->out_group - v * lanes : width;
    b.tile = (mf_conv_tile){ .in_step = j->c.stride[last] * j->c.channels,
                             .w_step = width,
                             .out_step = j->c.out_step[last] * j->c.out_channels };
    in += group * j->in_group;
    out += (group * j->out_group + v * lanes) * j->out_bytes;
    do { /* once even if there are no taps: results are then 0 */
        const int first = next;
        const int64_t cells = chunk_at(j, first, &next);

        b.tile.runs = j->runs + first;
        b.tile.n_runs = next - first;
        b.tile.w = w;
        b.tile.add = first > 0;
        run_rows(&b, in, out, from, rows);
        w += cells * width;
    } while (next < j->n_runs);
}

static void run_section(const direct_job *j, int64_t image, int64_t from, int64_t rows,
                        float *buffer)
{
    const float *in = mf_conv_section_read(&j->section, j->in + image * j->section.image_bytes,
                                           from, rows, buffer);
    char *out = j->out + image * j->out_image * j->out_bytes;
    const int64_t row = j->out_image / j->c.out_size[0];

    for (int64_t g = 0; g < j->conv->groups; g++) {
        for (int64_t b = 0; b < j->blocks; b++)
            run_block(j, g, b, in, out, from, rows);
    }
    if (j->then)
        j->then->run(j->then, image * j->out_image + from * row,
                     image * j->out_image + (from + rows) * row);
}

/* ---- the epilogue of a whole result ---- */

typedef struct then_job {
    const mf_epilogue *then;
    int64_t count;
} then_job;

static void then_piece(void *ctx, int64_t piece)
{
    const then_job *j = ctx;
    const int64_t from = piece * SECTION;

    j->then->run(j->then, from, j->count - from < SECTION ? j->count : from + SECTION);
}

mf_status mf_conv_then(const mf_kernel *k, int64_t count)
{
    if (!k->then)
        return MF_OK;
    return mf_kernel_parallel(k, (count + SECTION - 1) / SECTION, then_piece,
                              &(then_job){ k->then, count });
}

/* ---- pieces ---- */

static int64_t section_rows(const direct_job *j)
{
    const int64_t row = j->out_image / j->c.out_size[0];
    const int64_t rows =
        SECTION / row > 2 * j->section.reach ? SECTION / row : 2 * j->section.reach;

    return rows < j->c.out[0] ? rows : j->c.out[0];
}

static void direct_piece(void *ctx, int64_t piece)
{
    direct_job *j = ctx;
    const int64_t to = (piece + 1) * j->per_piece < j->rows ? (piece + 1) * j->per_piece : j->rows;
    const int64_t most = section_rows(j);
    mf_tensor buffer = { 0 };

    if (mf_tensor_alloc(&buffer, MF_DTYPE_F32,
                        &MF_SHAPE(mf_conv_section_cells(&j->section, most))) != MF_OK) {
        atomic_store(&j->status, (int)MF_RESOURCE_EXHAUSTED);
        return;
    }
    for (int64_t at = piece * j->per_piece, n; at < to; at += n) {
        const int64_t from = at % j->c.out[0];

        n = j->c.out[0] - from < most ? j->c.out[0] - from : most;
        n = n < to - at ? n : to - at;
        run_section(j, at / j->c.out[0], from, n, buffer.data);
    }
    mf_tensor_clear(&buffer);
}

/* Whole images if there are enough of them, because sections of an image read common rows. */
static int64_t direct_cut_rows(direct_job *j)
{
    const int64_t row = j->out_image / j->c.out_size[0];
    const double work = (double)j->rows * (double)row * (double)j->cells;
    int64_t pieces = work < DIRECT_WORK * MAX_DIRECT_PIECES ? (int64_t)(work / DIRECT_WORK) + 1
                                                            : MAX_DIRECT_PIECES;

    j->per_piece = (j->rows + pieces - 1) / pieces;
    if (j->per_piece > j->c.out[0])
        j->per_piece = (j->per_piece + j->c.out[0] - 1) / j->c.out[0] * j->c.out[0];
    return (j->rows + j->per_piece - 1) / j->per_piece;
}

/* Runs of at most MAX_RUN cells. The order of cells stays. */
static int divide_runs(const mf_tap_run *from, int n, mf_tap_run *to)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        for (int64_t at = 0; at < from[i].length; at += MAX_RUN) {
            const int64_t rest = from[i].length - at;

            to[count++] = (mf_tap_run){ from[i].at + at, rest < MAX_RUN ? rest : MAX_RUN };
        }
    }
    return count;
}

static mf_status find_runs(direct_job *j)
{
    const int64_t taps = mf_correlation_taps(&j->c), most = taps + j->cells / MAX_RUN + 1;
    mf_tap_run *whole = mf_calloc(taps + 1, sizeof *whole);

    j->runs = mf_calloc(most, sizeof *j->runs);
    if (whole && j->runs)
        j->n_runs = divide_runs(
            whole,
            mf_correlation_runs(&j->c, j->section.step, j->in_group, j->conv->groups == 1, whole),
            j->runs);
    mf_free(whole);
    return j->runs && whole ? MF_OK : MF_NOMEM("the taps of a convolution");
}

static mf_status run_correlation(direct_job *j)
{
    const int64_t channels = j->c.channels;
    mf_tensor packed = { 0 };
    mf_status st;

    j->c.channels = j->halves ? (channels + 1) / 2 : channels;
    mf_conv_section_init(&j->c, channels * j->out_bytes, &j->section);
    j->rows = j->conv->window.batch * j->c.out[0];
    j->in_channels = channels / j->conv->groups;
    j->in_group = j->c.channels / j->conv->groups;
    j->out_group = j->c.out_channels / j->conv->groups;
    j->cells = mf_correlation_taps(&j->c) * j->in_group;
    cut_channels(j);
    MF_TRY_TO(done, find_runs(j));
    MF_TRY_TO(done, pack_filter(j, &packed));
    MF_TRY_TO(done, mf_kernel_parallel(j->k, direct_cut_rows(j), direct_piece, j));
    st = (mf_status)atomic_load(&j->status);
    if (st != MF_OK)
        st = MF_FAIL(st, "a piece of the convolution found no memory");
done:
    mf_free(j->runs);
    mf_tensor_clear(&packed);
    return st;
}

mf_status mf_conv_direct(const mf_kernel *k, const mf_conv *conv, mf_dtype type, void *x,
                         const void *w, void *y)
{
    const bool forward = conv->kind == MF_CONV_FORWARD, halves = type == MF_DTYPE_BF16;
    int64_t *storage = mf_calloc(mf_correlation_storage(conv), sizeof *storage);
    const int64_t count = mf_correlation_count(conv);
    int64_t images = 0; /* elements of the result */
    mf_status st = storage ? MF_OK : MF_NOMEM("the taps of a convolution");

    for (int64_t i = 0; st == MF_OK && i < count; i++) {
        direct_job j = { .k = k,
                         .conv = conv,
                         .tiles = halves ? mf_conv_tiles_bf16() : mf_conv_tiles_float(),
                         .halves = halves,
                         .then = count == 1 ? k->then : NULL,
                         .in = forward ? x : y,
                         .filter = w,
                         .out = forward ? y : x,
                         .out_bytes = (int64_t)mf_dtype_cell(type) };

        mf_correlation_init(conv, i, storage, &j.c);
        j.out_image = j.c.out_channels;
        for (int d = 0; d < j.c.nd; d++)
            j.out_image *= j.c.out_size[d];
        st = run_correlation(&j);
        images = j.out_image * conv->window.batch;
    }
    if (st == MF_OK && count > 1)
        st = mf_conv_then(k, images);
    mf_free(storage);
    return st;
}
