/* SPDX-License-Identifier: Apache-2.0 */
/* window_split.c - see window_split.h.
 *
 * Where height or width is cut, a processor gets the rows that its windows see, which overlap with
 * its neighbours' (a halo); what of the padding it has is said explicitly. */
#include "ops/window_split.h"

#include "ops/window.h"

#include <string.h>

typedef enum part { FORWARD, OF_INPUT, OF_FILTER } part;

typedef struct conv {
    part part;
    int x, f, y; /* where image, filter and result are: an input, or -1: the output */
    mf_window_attrs a;
    mf_window w;
    int rank;
} conv;

static const mf_shape *shape_of(const mf_split *s, int i)
{
    return i < 0 ? &s->out[0] : &s->in[i];
}

static mf_split_shape *dims_of(const mf_split *s, int i)
{
    return i < 0 ? &s->out_dims[0] : &s->in_dims[i];
}

/* False: it is not for us: groups, blocks, shapes that are not known. */
static bool read_conv(const mf_split *s, conv *c)
{
    const char *name = s->node->op_name;
    int64_t size[MF_WINDOW_DIMS];
    int sizes;

    c->part = strstr(name, "BackpropInput")    ? OF_INPUT
              : strstr(name, "BackpropFilter") ? OF_FILTER
                                               : FORWARD;
    c->x = c->part == OF_INPUT ? -1 : 0;
    c->f = c->part == OF_FILTER ? -1 : 1;
    c->y = c->part == FORWARD ? -1 : 2;
    c->rank = shape_of(s, c->x)->rank;
    sizes = c->part == OF_INPUT ? 0 : 1;
    if (mf_node_bool(s->node, "_blocked") || c->rank < 4 || c->rank > 5 ||
        mf_window_read(s->node, c->rank - 2, &c->a) != MF_OK ||
        (c->part != FORWARD && (!s->in_value[sizes] || s->in_value[sizes]->count != c->rank)))
        return false;
    for (int d = 0; d < c->a.nd; d++)
        size[d] = shape_of(s, c->f)->dims[d];
    return mf_window_init(&c->a, shape_of(s, c->x), size, &c->w) == MF_OK &&
           c->w.channels == shape_of(s, c->f)->dims[c->rank - 2];
}

static int64_t reach(const conv *c, int d)
{
    return (c->w.size[d] - 1) * c->w.dilation[d] + 1;
}

/* ---- attributes of a piece ---- */

/* What of the padding of spatial dimension d a piece has. */
static void piece_padding(const conv *c, int d, const mf_split_piece *p, int64_t *lo, int64_t *hi)
{
    const int64_t size = reach(c, d), end = p->begin + p->size;

    *lo = c->w.pad_lo[d];
    *hi = c->w.pad_hi[d];
    if (!p->cut)
        return;
    if (c->part == OF_INPUT) { /* rows of the result that reach into the piece: see add_place() */
        const int64_t first = p->begin + c->w.pad_lo[d] - size + 1, last = end - 1 + c->w.pad_lo[d];
        const int64_t from = first > 0 ? first : 0;
        const int64_t n = (last < c->w.out[d] - 1 ? last : c->w.out[d] - 1) - from + 1;

        *lo = p->begin + c->w.pad_lo[d] - from;
        *hi = n - 1 + size - p->size - *lo;
        return;
    }
    *lo = c->w.pad_lo[d] - p->begin * c->w.stride[d];
    *hi = (end - 1) * c->w.stride[d] - c->w.pad_lo[d] + size - c->w.in[d];
    *lo = *lo > 0 ? *lo : 0;
    *hi = *hi > 0 ? *hi : 0;
}

static mf_attr *attr_named(mf_named_attr *attrs, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0)
            return &attrs[i].value;
    }
    return NULL;
}

/* The letter of spatial dimension d, by the one of image and result that is not slid over. */
static int place_letter(const mf_split *s, const conv *c, int d)
{
    return dims_of(s, c->part == OF_INPUT ? c->x : c->y)->dims[mf_window_axis(&c->a, d + 1)].letter;
}

static mf_status fix_padding(const mf_split *s, const mf_split_piece *pieces, mf_named_attr *attrs,
                             int n, mf_arena *arena)
{
    mf_attr *padding = attr_named(attrs, n, "padding");
    mf_attr *lists = attr_named(attrs, n, "explicit_paddings");
    bool cut = false;
    conv c;

    if (!padding || !lists || !read_conv(s, &c))
        return MF_OK;
    for (int d = 0; d < c.a.nd; d++)
        cut |= place_letter(s, &c, d) >= 0 && pieces[place_letter(s, &c, d)].cut;
    if (!cut)
        return MF_OK;
    *lists = (mf_attr){ .kind = MF_ATTR_INT, .is_list = true, .n = 2 * c.rank };
    lists->ints = MF_ARENA_ARRAY(arena, int64_t, lists->n);
    if (!lists->ints)
        return MF_NOMEM("padding");
    for (int d = 0; d < c.a.nd; d++) {
        const int axis = mf_window_axis(&c.a, d + 1), letter = place_letter(s, &c, d);
        const mf_split_piece whole = { 0 };

        piece_padding(&c, d, letter >= 0 ? &pieces[letter] : &whole, &lists->ints[2 * axis],
                      &lists->ints[2 * axis + 1]);
    }
    padding->s = (mf_bytes){ "EXPLICIT", strlen("EXPLICIT") };
    return MF_OK;
}

/* ---- convolutions ---- */

/* Height or width. A row of the result needs the rows that its window sees; a row of the image's
 * gradient those of the result that see it, which lie together where windows move by one. */
static void add_place(mf_split *s, const conv *c, int d)
{
    const int axis = mf_window_axis(&c->a, d + 1);
    const int64_t size = reach(c, d);
    mf_split_dim *x = &dims_of(s, c->x)->dims[axis], *y = &dims_of(s, c->y)->dims[axis];
    int letter;

    if (c->w.pad_lo[d] >= size || c->w.pad_hi[d] >= size || c->w.in[d] < size ||
        (c->part == OF_INPUT && c->w.stride[d] != 1))
        return;
    letter = mf_split_new(s, c->part == OF_INPUT ? c->w.in[d] : c->w.out[d],
                          c->part == OF_FILTER ? MF_CUT_SUM : MF_CUT_FREE);
    if (letter < 0)
        return;
    s->letters[letter].some = true;
    s->letters[letter].least = MF_SPLIT_ROUNDS;
    *x = *y = (mf_split_dim){ .letter = letter, .inside = 1 };
    if (c->part == OF_INPUT)
        *y = (mf_split_dim){ .letter = letter,
                             .inside = 1,
                             .step = 1,
                             .before = size - 1 - c->w.pad_lo[d],
                             .span = size };
    else
        *x = (mf_split_dim){ .letter = letter,
                             .inside = 1,
                             .step = c->w.stride[d],
                             .before = c->w.pad_lo[d],
                             .span = size };
}

static void give(mf_split_shape *to, int dim, int letter)
{
    to->dims[dim] = (mf_split_dim){ .letter = letter, .inside = 1 };
}

void mf_conv_split(mf_split *s)
{
    int n, in, out, channel;
    conv c;

    if (!read_conv(s, &c))
        return;
    channel = mf_window_axis(&c.a, c.a.nd + 1);
    in = mf_split_new(s, c.w.channels, c.part == FORWARD ? MF_CUT_SUM : MF_CUT_FREE);
    out = mf_split_new(s, shape_of(s, c.f)->dims[c.rank - 1],
                       c.part == OF_INPUT ? MF_CUT_SUM : MF_CUT_FREE);
    s->letters[in].least = s->letters[out].least = MF_SPLIT_ROUNDS; /* other kernels are chosen */
    give(dims_of(s, c.x), channel, in);
    give(dims_of(s, c.f), c.rank - 2, in);
    give(dims_of(s, c.f), c.rank - 1, out);
    give(dims_of(s, c.y), channel, out);
    if (c.part != FORWARD)
        s->sizes_input = c.part == OF_INPUT ? 0 : 1;
    if (c.part == OF_FILTER && mf_node_int(s->node, "_shards") > 0)
        return; /* samples are added in an order of their own */
    n = mf_split_new(s, c.w.batch, c.part == OF_FILTER ? MF_CUT_SUM : MF_CUT_FREE);
    give(dims_of(s, c.x), 0, n);
    give(dims_of(s, c.y), 0, n);
    if (c.rank != 4) /* others cannot say their padding */
        return;
    for (int d = 0; d < c.a.nd; d++)
        add_place(s, &c, d);
    s->fix = fix_padding;
}

/* ---- poolings ---- */

/* Windows that lie side by side and leave nothing out. */
static bool tiles(const mf_split *s, int64_t window, int64_t stride, int64_t in, int64_t out)
{
    int64_t n;

    (void)mf_node_ints(s->node, "explicit_paddings", &n);
    return n == 0 && window == stride && in == out * window;
}

void mf_pool_split(mf_split *s)
{
    const bool avg_grad = strcmp(s->node->op_name, "AvgPoolGrad") == 0;
    const bool grad = avg_grad || strcmp(s->node->op_name, "MaxPoolGrad") == 0;
    const char *format = mf_node_string(s->node, "data_format");
    const int rank = s->out[0].rank, c = format[1] == 'C' ? 1 : rank - 1;
    const mf_shape *pooled = avg_grad ? &s->in[1] : grad ? &s->in[2] : &s->out[0];
    const mf_shape *image = grad ? &s->out[0] : &s->in[0];
    int64_t n, n_strides;
    const int64_t *ksize = mf_node_ints(s->node, "ksize", &n);
    const int64_t *strides = mf_node_ints(s->node, "strides", &n_strides);

    if (strstr(s->node->op_name, "Argmax") || strlen(format) != 4 || n != rank ||
        n_strides != rank || strstr(s->node->op_name, "GradGrad") ||
        (avg_grad && (!s->in_value[0] || s->in_value[0]->count != rank)))
        return;
    for (int d = 0; d < rank; d++) {
        const bool alone = d == 0 || d == c;
        mf_split_dim small = { .inside = 1 }, large = { .inside = ksize[d] };

        if (alone ? ksize[d] != 1
                  : !tiles(s, ksize[d], strides[d], image->dims[d], pooled->dims[d]))
            continue;
        small.letter = large.letter = mf_split_new(s, pooled->dims[d], MF_CUT_FREE);
        s->out_dims[0].dims[d] = grad ? large : small;
        for (int i = avg_grad; i < s->n_in; i++)
            s->in_dims[i].dims[d] = i == 0 ? large : small; /* first the image, if it is there */
    }
    if (avg_grad)
        s->sizes_input = 0;
}
