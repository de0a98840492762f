/* SPDX-License-Identifier: Apache-2.0 */
/* window_split.c - split rules of convolutions and poolings, with halo exchange.
 *
 * If height or width is split, a device gets the rows that its windows read, which overlap with its
 * neighbours' (a halo); its part of the padding is an explicit attribute. */
#include "ops/nn/window_split.h"

#include "ops/nn/window.h"

#include <string.h>

typedef enum window_split_part { FORWARD, OF_INPUT, OF_FILTER } window_split_part;

typedef struct conv {
    window_split_part part;
    bool depthwise; /* every channel has filters of its own */
    int x, f, y; /* indices of image, filter and result: an input, or -1: the output */
    mf_window_attrs a;
    mf_window w;
    int rank;
} conv;

static const mf_shape *window_split_shape_of(const mf_split *s, int i)
{
    return i < 0 ? &s->out[0] : &s->in[i];
}

static mf_split_shape *window_split_dims_of(const mf_split *s, int i)
{
    return i < 0 ? &s->out_dims[0] : &s->in_dims[i];
}

/* False: not supported (groups, unknown shapes). */
static bool read_conv(const mf_split *s, conv *c)
{
    const char *name = s->node->op_name;
    int64_t size[MF_WINDOW_DIMS];
    int sizes;

    c->part = strstr(name, "BackpropInput")    ? OF_INPUT
              : strstr(name, "BackpropFilter") ? OF_FILTER
                                               : FORWARD;
    c->depthwise = strncmp(name, "Depthwise", strlen("Depthwise")) == 0;
    c->x = c->part == OF_INPUT ? -1 : 0;
    c->f = c->part == OF_FILTER ? -1 : 1;
    c->y = c->part == FORWARD ? -1 : 2;
    c->rank = window_split_shape_of(s, c->x)->rank;
    sizes = c->part == OF_INPUT ? 0 : 1;
    if (c->rank < 4 || c->rank > 5 || mf_window_read(s->node, c->rank - 2, &c->a) != MF_OK ||
        c->a.piece ||
        (c->part != FORWARD && (!s->in_value[sizes] || s->in_value[sizes]->count != c->rank)))
        return false;
    for (int d = 0; d < c->a.nd; d++)
        size[d] = window_split_shape_of(s, c->f)->dims[d];
    return mf_window_init(&c->a, window_split_shape_of(s, c->x), size, &c->w) == MF_OK &&
           c->w.channels == window_split_shape_of(s, c->f)->dims[c->rank - 2];
}

/* ---- gradients of images ---- */

static int64_t reach_of(const mf_window *w, int d)
{
    return (w->size[d] - 1) * w->dilation[d] + 1;
}

int64_t mf_window_rows(const mf_window *w, int d)
{
    const int64_t reach = reach_of(w, d), stride = w->stride[d];

    if (w->in[d] % stride == 0) /* the same for windows of any size, which can be added */
        return stride;
    return reach >= stride && (w->out[d] - 1) * stride - w->pad_lo[d] + reach >= w->in[d];
}

mf_split_dim mf_window_seen(const mf_window *w, int d, int letter, int64_t rows)
{
    return (mf_split_dim){ .letter = letter,
                           .inside = 1,
                           .step = rows,
                           .before = reach_of(w, d) - w->stride[d] - w->pad_lo[d],
                           .span = reach_of(w, d) - w->stride[d] + rows,
                           .per = w->stride[d] };
}

/* ---- attributes of a piece ---- */

/* The padding of a shard along spatial dimension d. */
static void piece_padding(const conv *c, int d, const mf_split_piece *p, int64_t *lo, int64_t *hi)
{
    const int64_t size = reach_of(&c->w, d), end = p->begin + p->size;

    *lo = c->w.pad_lo[d];
    *hi = c->w.pad_hi[d];
    if (!p->cut)
        return;
    if (c->part == OF_INPUT) { /* windows that read the shard: see window_split_add_place() */
        const int64_t rows = mf_window_rows(&c->w, d);
        const mf_split_dim seen = mf_window_seen(&c->w, d, 0, rows);
        int64_t first = p->begin, last = end;

        mf_split_window(&seen, &first, &last);
        first = first > 0 ? first : 0;
        last = last < c->w.out[d] ? last : c->w.out[d];
        *lo += p->begin * rows - first * c->w.stride[d];
        *hi = (last - first - 1) * c->w.stride[d] + size - *lo - p->size * rows;
        *hi = *hi > 0 ? *hi : 0; /* negative if windows skip the last rows */
        return;
    }
    *lo = c->w.pad_lo[d] - p->begin * c->w.stride[d];
    *hi = (end - 1) * c->w.stride[d] - c->w.pad_lo[d] + size - c->w.in[d];
    *lo = *lo > 0 ? *lo : 0;
    *hi = *hi > 0 ? *hi : 0;
}

/* The letter of spatial dimension d, indexed by the operand without a halo. */
static int place_letter(const mf_split *s, const conv *c, int d)
{
    return window_split_dims_of(s, c->part == OF_INPUT ? c->x : c->y)
        ->dims[mf_window_axis(&c->a, d + 1)]
        .letter;
}

static mf_status fix_padding(const mf_split *s, const mf_split_piece *pieces, mf_named_attr *attrs,
                             int *n, mf_arena *arena)
{
    int64_t sides[2 * MF_WINDOW_DIMS];
    bool cut = false;
    conv c;

    if (!read_conv(s, &c))
        return MF_OK;
    for (int d = 0; d < c.a.nd; d++) {
        const mf_split_piece whole = { 0 };
        const int letter = place_letter(s, &c, d);

        cut |= letter >= 0 && pieces[letter].cut;
        piece_padding(&c, d, letter >= 0 ? &pieces[letter] : &whole, &sides[2 * d],
                      &sides[2 * d + 1]);
    }
    return cut ? mf_window_sides(MF_WINDOW_PAD, sides, c.a.nd, attrs, n, arena) : MF_OK;
}

mf_status mf_window_sides(const char *name, const int64_t *sides, int nd, mf_named_attr *attrs,
                          int *n, mf_arena *arena)
{
    mf_attr list = { .kind = MF_ATTR_INT, .is_list = true, .n = 2 * nd };

    list.ints = MF_ARENA_ARRAY(arena, int64_t, list.n);
    if (!list.ints)
        return MF_NOMEM("padding");
    memcpy(list.ints, sides, (size_t)list.n * sizeof *sides);
    attrs[(*n)++] = (mf_named_attr){ name, list };
    return MF_OK;
}

/* ---- convolutions ---- */

/* Height or width. A row of the result needs the rows that its window reads; a row of the image's
 * gradient needs the rows of the result that read it. */
static void window_split_add_place(mf_split *s, const conv *c, int d)
{
    const int axis = mf_window_axis(&c->a, d + 1);
    const int64_t size = reach_of(&c->w, d), rows = mf_window_rows(&c->w, d);
    mf_split_dim *x = &window_split_dims_of(s, c->x)->dims[axis],
                 *y = &window_split_dims_of(s, c->y)->dims[axis];
    int letter;

    if (c->w.pad_lo[d] >= size || c->w.pad_hi[d] >= size || c->w.in[d] < size ||
        (c->part == OF_INPUT && rows == 0))
        return;
    letter = mf_split_new(s, c->part == OF_INPUT ? c->w.in[d] / rows : c->w.out[d],
                          c->part == OF_FILTER ? MF_CUT_SUM : MF_CUT_FREE);
    if (letter < 0)
        return;
    s->letters[letter].some = true;
    s->letters[letter].least = c->depthwise ? 0 : MF_SPLIT_ROUNDS;
    *x = *y = (mf_split_dim){ .letter = letter, .inside = 1 };
    if (c->part == OF_INPUT) {
        x->inside = rows;
        *y = mf_window_seen(&c->w, d, letter, rows);
    } else {
        *x = (mf_split_dim){ .letter = letter,
                             .inside = 1,
                             .step = c->w.stride[d],
                             .before = c->w.pad_lo[d],
                             .span = size };
    }
}

static void window_split_give(mf_split_shape *to, int dim, int letter)
{
    to->dims[dim] = (mf_split_dim){ .letter = letter, .inside = 1 };
}

/* Input channels, each of which contributes to some or all output channels. */
static void window_split_add_channels(mf_split *s, const conv *c)
{
    const int channel = mf_window_axis(&c->a, c->a.nd + 1);
    int in, out;

    if (c->depthwise) {
        in = mf_split_new(s, c->w.channels, MF_CUT_FREE);
        if (c->part == OF_FILTER) /* their number determines which samples are added first */
            s->letters[in].least = MF_SPLIT_ROUNDS;
        window_split_give(window_split_dims_of(s, c->x), channel, in);
        window_split_give(window_split_dims_of(s, c->f), c->rank - 2, in);
        window_split_give(window_split_dims_of(s, c->y), channel, in);
        window_split_dims_of(s, c->y)->dims[channel].inside =
            window_split_shape_of(s, c->f)->dims[c->rank - 1];
        return;
    }
    in = mf_split_new(s, c->w.channels, c->part == FORWARD ? MF_CUT_SUM : MF_CUT_FREE);
    out = mf_split_new(s, window_split_shape_of(s, c->f)->dims[c->rank - 1],
                       c->part == OF_INPUT ? MF_CUT_SUM : MF_CUT_FREE);
    s->letters[in].least = s->letters[out].least = MF_SPLIT_ROUNDS; /* small sizes select other
                                                                       kernels */
    window_split_give(window_split_dims_of(s, c->x), channel, in);
    window_split_give(window_split_dims_of(s, c->f), c->rank - 2, in);
    window_split_give(window_split_dims_of(s, c->f), c->rank - 1, out);
    window_split_give(window_split_dims_of(s, c->y), channel, out);
}

void mf_conv_split(mf_split *s)
{
    conv c;
    int n;

    if (!read_conv(s, &c))
        return;
    window_split_add_channels(s, &c);
    if (c.part != FORWARD)
        s->sizes_input = c.part == OF_INPUT ? 0 : 1;
    if (c.part == OF_FILTER && mf_node_int(s->node, "_shards") > 0)
        return; /* samples are added in an order of their own */
    n = mf_split_new(s, c.w.batch, c.part == OF_FILTER ? MF_CUT_SUM : MF_CUT_FREE);
    window_split_give(window_split_dims_of(s, c.x), 0, n);
    window_split_give(window_split_dims_of(s, c.y), 0, n);
    for (int d = 0; d < c.a.nd; d++)
        window_split_add_place(s, &c, d);
    s->fix = fix_padding;
}
