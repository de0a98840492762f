/* SPDX-License-Identifier: Apache-2.0 */
/* augment.c - random augmentation of images: crop of a padded copy, flip, cutout, normalization.
 * The result depends only on Philox(seed, epoch, id), not on the reader, the time or the batch. */
#include "base/host_state.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/order.h"
#include "graph/settings.h"

#include <string.h>

enum { MAX_CHANNELS = 16 };

typedef struct augment {
    mf_dataset base;
    mf_dataset *inner;
    int column; /* the image */
    int64_t height, width, channels;
    int64_t crop, cutout;
    bool flip, to_float;
    uint64_t seed;
    float table[MAX_CHANNELS][256]; /* lookup table from byte to float, by channel */
    mf_scratch *scratch;
} augment;

/* Random draws for one sample. */
typedef struct augment_draw {
    int64_t top, left; /* offset of the crop relative to the image: -crop .. crop */
    bool mirrored;
    int64_t hole_y, hole_x; /* centre of the cutout square */
} augment_draw;

static augment_draw augment_draw_for(const augment *a, uint64_t epoch, int64_t id)
{
    mf_philox p = mf_philox_init(a->seed ^ 0x6175676d656e7400u, epoch);
    uint32_t b[4], c[4];

    mf_philox_skip(&p, 2 * (uint64_t)id);
    mf_philox_next(&p, b);
    mf_philox_next(&p, c);
    return (augment_draw){
        .top = mf_order_below(b[0], b[1], 2 * a->crop + 1) - a->crop,
        .left = mf_order_below(b[2], b[3], 2 * a->crop + 1) - a->crop,
        .mirrored = a->flip && (c[0] & 1) != 0,
        .hole_y = mf_order_below(c[1], 0, a->height),
        .hole_x = mf_order_below(c[2], 0, a->width),
    };
}

/* One row, shifted and possibly flipped; pixels from outside are black. */
static void place_row(const augment *a, const augment_draw *d, const unsigned char *from, int64_t y,
                      unsigned char *to)
{
    const int64_t c = a->channels, w = a->width, sy = y + d->top;
    const int64_t shift = d->mirrored ? d->left : -d->left; /* shift of the image to the right */
    const int64_t begin = shift > 0 ? shift : 0, end = shift < 0 ? w + shift : w;

    if (sy < 0 || sy >= a->height || begin >= end) {
        memset(to, 0, (size_t)(w * c));
        return;
    }
    from += sy * w * c;
    memset(to, 0, (size_t)(begin * c));
    memset(to + end * c, 0, (size_t)((w - end) * c));
    if (!d->mirrored) {
        memcpy(to + begin * c, from + (begin + d->left) * c, (size_t)((end - begin) * c));
        return;
    }
    for (int64_t x = begin; x < end; x++) {
        const unsigned char *pixel = from + (w - 1 - x + d->left) * c;

        for (int64_t k = 0; k < c; k++)
            to[x * c + k] = pixel[k];
    }
}

static void cut_hole(const augment *a, const augment_draw *d, int64_t y, unsigned char *row)
{
    const int64_t half = a->cutout / 2;
    int64_t from = d->hole_x - half, to = from + a->cutout;

    if (y < d->hole_y - half || y >= d->hole_y - half + a->cutout)
        return;
    from = from < 0 ? 0 : from;
    to = to > a->width ? a->width : to;
    memset(row + from * a->channels, 0, (size_t)((to - from) * a->channels));
}

static void augment_normalise(const augment *a, const unsigned char *row, float *to)
{
    for (int64_t x = 0; x < a->width; x++) {
        for (int64_t k = 0; k < a->channels; k++)
            *to++ = a->table[k][*row++];
    }
}

static void augment_change(const augment *a, const augment_draw *d, const unsigned char *from,
                           unsigned char *row, void *to)
{
    const int64_t n = a->width * a->channels;

    for (int64_t y = 0; y < a->height; y++) {
        unsigned char *at = a->to_float ? row : (unsigned char *)to + y * n;

        place_row(a, d, from, y, at);
        if (a->cutout > 0)
            cut_hole(a, d, y, at);
        if (a->to_float)
            augment_normalise(a, at, (float *)to + y * n);
    }
}

static mf_status augment_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                              void *const *columns)
{
    const augment *a = (const augment *)set;
    void *inner[MF_DATASET_COLUMNS];
    mf_scratch_block *block;
    mf_status st;

    if (!columns[a->column])
        return a->inner->ops->read(a->inner, epoch, index, columns);
    MF_TRY(mf_scratch_take(a->scratch, &block));
    memcpy(inner, columns, (size_t)set->n_columns * sizeof *inner);
    inner[a->column] = block->data;
    st = a->inner->ops->read(a->inner, epoch, index, inner);
    if (st == MF_OK) {
        const augment_draw d = augment_draw_for(a, epoch, mf_dataset_sample_id(a->inner, index));

        augment_change(a, &d, (const unsigned char *)block->data,
                       (unsigned char *)block->data + a->inner->bytes[a->column],
                       columns[a->column]);
    }
    mf_scratch_give(a->scratch, block);
    return st;
}

static int64_t augment_sample_id(const mf_dataset *set, int64_t index)
{
    return mf_dataset_sample_id(((const augment *)set)->inner, index);
}

static int64_t augment_file(const mf_dataset *set, int64_t index)
{
    return mf_dataset_file(((const augment *)set)->inner, index);
}

static void augment_deinit(mf_dataset *set)
{
    augment *a = (augment *)set;

    if (a->scratch)
        mf_scratch_deinit(a->scratch);
    mf_dataset_unref(a->inner);
}

static const mf_dataset_ops augment_ops = { .read = augment_read,
                                            .sample_id = augment_sample_id,
                                            .file = augment_file,
                                            .deinit = augment_deinit };

/* ---- settings ---- */

static const char SETTINGS[] = "{crop: int >= 0 = 0, flip: bool = false, cutout: int >= 0 = 0, "
                               "mean: list(float) = [], std: list(float) = [], "
                               "image: string = 'image'}";

static mf_status check_value_counts(const augment *a, const mf_attr *list, const char *name)
{
    if (list->n != 0 && list->n != 1 && list->n != a->channels)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "augment: %s has %lld numbers; write one, or one for each of %lld channels",
                       name, (long long)list->n, (long long)a->channels);
    return MF_OK;
}

static mf_status make_table(augment *a, const mf_options *o)
{
    const mf_attr *mean = mf_options_get(o, "mean"), *std = mf_options_get(o, "std");

    MF_TRY(check_value_counts(a, mean, "mean"));
    MF_TRY(check_value_counts(a, std, "std"));
    a->to_float = mean->n > 0 || std->n > 0;
    for (int64_t k = 0; k < a->channels; k++) {
        const float m = mean->n == 0 ? 0 : mean->floats[mean->n == 1 ? 0 : k];
        const float s = std->n == 0 ? 1 : std->floats[std->n == 1 ? 0 : k];

        if (!(s > 0))
            return MF_FAIL(MF_INVALID_ARGUMENT, "augment: std is %g, but must be above 0",
                           (double)s);
        for (int v = 0; v < 256; v++)
            a->table[k][v] = ((float)v / 255.0f - m) / s;
    }
    return MF_OK;
}

static mf_status find_image(augment *a, const char *name)
{
    const mf_column *c;

    a->column = mf_dataset_find_column(a->inner, name);
    if (a->column < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "augment: the data has no column '%s'", name);
    c = &a->inner->columns[a->column];
    if (c->dtype != MF_DTYPE_U8 || c->rank != 3 || c->dims[2] > MAX_CHANNELS)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "augment: column '%s' is not an image, which is uint8 "
                       "[height,width,channels]",
                       name);
    a->height = c->dims[0];
    a->width = c->dims[1];
    a->channels = c->dims[2];
    return MF_OK;
}

static mf_status augment_fill(augment *a, const mf_options *o)
{
    MF_TRY(find_image(a, mf_options_string(o, "image")));
    MF_TRY(make_table(a, o));
    a->crop = mf_options_int(o, "crop");
    a->cutout = mf_options_int(o, "cutout");
    a->flip = mf_options_bool(o, "flip");
    if (a->crop > a->height || a->crop > a->width || a->cutout > a->height || a->cutout > a->width)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "augment: crop and cutout must fit into %lld x %lld "
                       "pixels",
                       (long long)a->height, (long long)a->width);
    MF_TRY(mf_dataset_like(&a->base, a->inner));
    if (a->to_float)
        MF_TRY(mf_dataset_set_column(&a->base, a->column, mf_options_string(o, "image"),
                                     MF_DTYPE_F32, &MF_SHAPE(a->height, a->width, a->channels)));
    a->base.count = a->inner->count;
    a->base.id_count = a->inner->id_count;
    a->base.varies |= a->crop > 0 || a->cutout > 0 || a->flip;
    a->scratch = MF_ARENA_NEW(a->base.arena, mf_scratch);
    if (!a->scratch)
        return MF_NOMEM("a data set");
    mf_scratch_init(a->scratch,
                    a->inner->bytes[a->column] + (size_t)(a->width * a->channels)); /* plus one row
                                                                                     */
    return MF_OK;
}

mf_status mf_dataset_augment(mf_dataset *set, const char *settings, uint64_t seed, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    mf_arena *arena = mf_arena_new();
    augment *a = NULL;
    mf_options o;
    mf_status st;

    *out = NULL;
    if (!arena)
        return MF_NOMEM("settings");
    MF_TRY_TO(done, mf_options_parse("augment", SETTINGS, settings, arena, &o));
    MF_TRY_TO(done, mf_dataset_new(&augment_ops, sizeof *a, set->n_columns, &a));
    a->inner = mf_dataset_ref(set);
    a->seed = seed;
    MF_TRY_TO(done, augment_fill(a, &o));
    *out = mf_dataset_ref(&a->base);
done:
    mf_dataset_unref(a ? &a->base : NULL);
    mf_arena_free(arena);
    return st;
}
