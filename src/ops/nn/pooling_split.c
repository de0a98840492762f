/* SPDX-License-Identifier: Apache-2.0 */
/* pooling_split.c - split rules of poolings (window_split.h).
 *
 * Adjacent windows are split between them. If windows overlap, a device gets the rows that its
 * windows read. A gradient of an image needs all windows that reach into its shard, and everything
 * that these windows read: it is computed for that many rows, and those around the shard are
 * cropped. */
#include "ops/nn/window.h"
#include "ops/nn/window_split.h"

#include <string.h>

typedef enum role { NEITHER, IMAGE, POOLED } role; /* shape of an input or output */

typedef struct pool {
    role in[3], out;
    const mf_shape *image;
    mf_window_attrs a;
    mf_window w;
} pool;

/* False: not supported. */
static bool read_pool(const mf_split *s, pool *p)
{
    const char *op = s->node->op_name;
    const int rank = s->out[0].rank;

    if (strstr(op, "Argmax") || strstr(op, "V2"))
        return false;
    if (strstr(op, "GradGrad"))
        *p = (pool){ .in = { IMAGE, POOLED, IMAGE }, .out = POOLED };
    else if (strncmp(op, "Max", 3) == 0 && strstr(op, "Grad"))
        *p = (pool){ .in = { IMAGE, POOLED, POOLED }, .out = IMAGE };
    else if (strstr(op, "Grad"))
        *p = (pool){ .in = { NEITHER, POOLED }, .out = IMAGE };
    else
        *p = (pool){ .in = { IMAGE }, .out = POOLED };
    p->image = p->out == IMAGE ? &s->out[0] : &s->in[0];
    return rank >= 4 && rank <= 5 && mf_window_read(s->node, rank - 2, &p->a) == MF_OK &&
           !p->a.piece && mf_window_init(&p->a, p->image, p->a.size, &p->w) == MF_OK &&
           (p->in[0] != NEITHER || (s->in_value[0] && s->in_value[0]->count == rank));
}

/* Every input and output gets the letter, with separate rules for images and pooled values. */
static void pooling_split_give(mf_split *s, const pool *p, int d, mf_split_dim image,
                               mf_split_dim pooled)
{
    for (int i = 0; i < s->n_in; i++) {
        if (p->in[i] != NEITHER)
            s->in_dims[i].dims[d] = p->in[i] == IMAGE ? image : pooled;
    }
    s->out_dims[0].dims[d] = p->out == IMAGE ? image : pooled;
}

/* ---- places ---- */

/* True if windows are adjacent and cover everything. */
static bool tiles(const pool *p, int d)
{
    return p->w.size[d] == p->w.stride[d] && p->w.in[d] == p->w.out[d] * p->w.size[d] &&
           p->w.pad_lo[d] == 0 && p->w.pad_hi[d] == 0;
}

/* Rows of a gradient that stay together: if the image is needed, too, shards must begin at a
 * window, so the grain is the stride. 0: cannot be split. */
static int64_t pooling_split_rows_of(const pool *p, int d)
{
    if (p->in[0] == NEITHER)
        return mf_window_rows(&p->w, d);
    return p->w.in[d] % p->w.stride[d] == 0 ? p->w.stride[d] : 0;
}

/* True if windows are adjacent or overlap, and none is empty. */
static bool slides(const pool *p, int d)
{
    return p->w.size[d] >= p->w.stride[d] && p->w.pad_lo[d] < p->w.size[d] &&
           p->w.pad_hi[d] < p->w.size[d] && p->w.in[d] >= p->w.size[d] &&
           (p->out == POOLED || (pooling_split_rows_of(p, d) > 0 && p->a.nd == 2));
}

/* The windows that read a shard of the image, ignoring its borders. */
static void windows_of(const pool *p, int d, const mf_split_piece *piece, int64_t *first,
                       int64_t *last)
{
    const mf_split_dim seen = mf_window_seen(&p->w, d, 0, pooling_split_rows_of(p, d));

    *first = piece->begin;
    *last = piece->begin + piece->size;
    mf_split_window(&seen, first, last);
}

static void pooling_split_add_place(mf_split *s, const pool *p, int d)
{
    const mf_window *w = &p->w;
    const int axis = mf_window_axis(&p->a, d + 1);
    const bool side_by_side = tiles(p, d), grad = !side_by_side && p->out == IMAGE;
    mf_split_dim image = { .inside = 1 }, pooled = { .inside = 1 };
    int letter;

    if (!side_by_side && !slides(p, d))
        return;
    letter =
        mf_split_new(s, grad ? w->in[d] / pooling_split_rows_of(p, d) : w->out[d], MF_CUT_FREE);
    if (letter < 0)
        return;
    image.letter = pooled.letter = letter;
    s->letters[letter].some = !side_by_side;
    if (side_by_side) {
        image.inside = w->size[d];
    } else if (grad) { /* windows [first, last): the rows of the image that they read */
        int64_t first, last;

        pooled = mf_window_seen(w, d, letter, pooling_split_rows_of(p, d));
        windows_of(p, d, &(mf_split_piece){ .begin = 0, .size = 1 }, &first, &last);
        image.step = w->stride[d];
        image.before = w->pad_lo[d] - first * w->stride[d];
        image.span = (last - first - 1) * w->stride[d] + w->size[d];
    } else {
        image.step = w->stride[d];
        image.before = w->pad_lo[d];
        image.span = w->size[d];
    }
    pooling_split_give(s, p, axis, image, pooled);
    if (grad)
        s->out_dims[0].dims[axis] =
            (mf_split_dim){ .letter = letter, .inside = pooling_split_rows_of(p, d) };
}

/* ---- attributes of a piece ---- */

static int64_t positive(int64_t x)
{
    return x > 0 ? x : 0;
}

/* The padding that rows [begin, end) of the pooled value read. */
static void padding_of(const mf_window *w, int d, int64_t begin, int64_t end, int64_t pad[2])
{
    pad[0] = positive(w->pad_lo[d] - begin * w->stride[d]);
    pad[1] = positive((end - 1) * w->stride[d] - w->pad_lo[d] + w->size[d] - w->in[d]);
}

/* Rows that windows [first, last) read on either side of a shard of the image. */
static void crop_of(const pool *p, int d, const mf_split_piece *piece, int64_t first, int64_t last,
                    int64_t crop[2])
{
    const int64_t rows = pooling_split_rows_of(p, d);
    const int64_t end = (last - 1) * p->w.stride[d] - p->w.pad_lo[d] + p->w.size[d];

    crop[0] = piece->begin * rows - positive(first * p->w.stride[d] - p->w.pad_lo[d]);
    crop[1] = (end < p->w.in[d] ? end : p->w.in[d]) - (piece->begin + piece->size) * rows;
}

static mf_status fix_sides(const mf_split *s, const mf_split_piece *pieces, mf_named_attr *attrs,
                           int *n, mf_arena *arena)
{
    int64_t pad[2 * MF_WINDOW_DIMS], crop[2 * MF_WINDOW_DIMS] = { 0 };
    bool cut = false;
    pool p;

    if (!read_pool(s, &p))
        return MF_OK;
    for (int d = 0; d < p.a.nd; d++) {
        const int letter = s->out_dims[0].dims[mf_window_axis(&p.a, d + 1)].letter;
        const mf_split_piece *piece = letter >= 0 ? &pieces[letter] : NULL;

        pad[2 * d] = p.w.pad_lo[d];
        pad[2 * d + 1] = p.w.pad_hi[d];
        if (!piece || !piece->cut || tiles(&p, d))
            continue;
        cut = true;
        if (p.out == POOLED) {
            padding_of(&p.w, d, piece->begin, piece->begin + piece->size, &pad[2 * d]);
        } else {
            int64_t first, last;

            windows_of(&p, d, piece, &first, &last);
            padding_of(&p.w, d, positive(first), last < p.w.out[d] ? last : p.w.out[d],
                       &pad[2 * d]);
            crop_of(&p, d, piece, first, last, &crop[2 * d]);
        }
    }
    if (!cut)
        return MF_OK;
    MF_TRY(mf_window_sides(MF_WINDOW_PAD, pad, p.a.nd, attrs, n, arena));
    return p.out == IMAGE ? mf_window_sides(MF_WINDOW_CROP, crop, p.a.nd, attrs, n, arena) : MF_OK;
}

void mf_pool_split(mf_split *s)
{
    pool p;

    if (!read_pool(s, &p))
        return;
    for (int d = 0; d <= p.a.nd + 1; d++) {
        const int axis = mf_window_axis(&p.a, d);

        if (d >= 1 && d <= p.a.nd) {
            pooling_split_add_place(s, &p, d - 1);
        } else if (d == 0 || p.a.channel_size == 1) {
            const mf_split_dim alone = { .letter =
                                             mf_split_new(s, p.image->dims[axis], MF_CUT_FREE),
                                         .inside = 1 };

            pooling_split_give(s, &p, axis, alone, alone);
        }
    }
    if (p.in[0] == NEITHER)
        s->sizes_input = 0;
    s->fix = fix_sides;
}
