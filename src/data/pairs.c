/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - pairs of augmented views, and whether both are views of the same image. Sample i of the
 * set is rotated and shifted at random; for every second sample the other image is another view of
 * it, otherwise a view of another image. All of it depends only on Philox(seed, epoch, id), as in
 * augment.c. */
#include "base/host_state.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/order.h"
#include "graph/settings.h"

#include <math.h>

enum { PAIR, SAME, CLASS }; /* columns; the last one only if the set has a label */

typedef struct pairs {
    mf_dataset base;
    mf_dataset *inner;
    int image, label; /* columns of the inner set; label -1: none */
    int64_t height, width, channels;
    int64_t crop;
    double slope; /* tan of half the maximum angle */
    uint64_t seed;
    mf_scratch *scratch;
} pairs;

/* ---- one view ---- */

typedef struct pairs_view {
    float cos, sin;
    float top, left; /* shift */
} pairs_view;

/* The tangent of half the angle is drawn: sine and cosine are then rational functions of it, with
 * the same bits on every machine. */
static pairs_view draw_view(const pairs *p, mf_philox *gen)
{
    uint32_t b[4];
    double t, square;

    mf_philox_next(gen, b);
    t = p->slope * ((double)b[0] * 0x1p-31 - 1.0);
    square = t * t;
    return (pairs_view){
        .cos = (float)((1.0 - square) / (1.0 + square)),
        .sin = (float)(2.0 * t / (1.0 + square)),
        .top = (float)(mf_order_below(b[1], 0, 2 * p->crop + 1) - p->crop),
        .left = (float)(mf_order_below(b[2], 0, 2 * p->crop + 1) - p->crop),
    };
}

/* Pixels outside the image are black. */
static float pairs_pixel(const pairs *p, const unsigned char *from, int64_t y, int64_t x,
                         int64_t channel)
{
    if (y < 0 || y >= p->height || x < 0 || x >= p->width)
        return 0.0f;
    return (float)from[(y * p->width + x) * p->channels + channel];
}

/* Bilinear interpolation. */
static void place_pixel(const pairs *p, const unsigned char *from, float y, float x,
                        unsigned char *to)
{
    const float floor_y = floorf(y), floor_x = floorf(x), dy = y - floor_y, dx = x - floor_x;
    const int64_t iy = (int64_t)floor_y, ix = (int64_t)floor_x;

    for (int64_t c = 0; c < p->channels; c++) {
        const float above = pairs_pixel(p, from, iy, ix, c) * (1.0f - dx) +
                            pairs_pixel(p, from, iy, ix + 1, c) * dx;
        const float below = pairs_pixel(p, from, iy + 1, ix, c) * (1.0f - dx) +
                            pairs_pixel(p, from, iy + 1, ix + 1, c) * dx;

        to[c] = (unsigned char)(above * (1.0f - dy) + below * dy + 0.5f);
    }
}

static void place_view(const pairs *p, const pairs_view *v, const unsigned char *from,
                       unsigned char *to)
{
    const float mid_y = (float)(p->height - 1) * 0.5f, mid_x = (float)(p->width - 1) * 0.5f;

    for (int64_t y = 0; y < p->height; y++) {
        for (int64_t x = 0; x < p->width; x++, to += p->channels) {
            const float fy = (float)y - mid_y, fx = (float)x - mid_x;

            place_pixel(p, from, v->sin * fx + v->cos * fy + mid_y + v->top,
                        v->cos * fx - v->sin * fy + mid_x + v->left, to);
        }
    }
}

/* ---- a pair ---- */

typedef struct pairs_draw {
    bool same;
    int64_t other; /* id of the second image */
    pairs_view views[2];
} pairs_draw;

static pairs_draw pairs_draw_for(const pairs *p, uint64_t epoch, int64_t index)
{
    mf_philox gen = mf_philox_init(p->seed ^ 0x7061697273000000u, epoch);
    uint32_t b[4];
    pairs_draw d;

    mf_philox_skip(&gen, 3 * (uint64_t)mf_dataset_sample_id(p->inner, index));
    mf_philox_next(&gen, b);
    d.same = (b[0] & 1) != 0;
    d.other = d.same
                  ? index
                  : (index + 1 + mf_order_below(b[1], b[2], p->inner->count - 1)) % p->inner->count;
    for (int i = 0; i < 2; i++)
        d.views[i] = draw_view(p, &gen);
    return d;
}

static mf_status pairs_read_image(const pairs *p, uint64_t epoch, int64_t index, void *image)
{
    void *columns[MF_DATASET_COLUMNS] = { 0 };

    columns[p->image] = image;
    return p->inner->ops->read(p->inner, epoch, index, columns);
}

static mf_status place_pair(const pairs *p, const pairs_draw *d, uint64_t epoch, int64_t index,
                            unsigned char *to)
{
    mf_scratch_block *block;
    mf_status st;

    MF_TRY(mf_scratch_take(p->scratch, &block));
    st = pairs_read_image(p, epoch, index, block->data);
    if (st == MF_OK)
        place_view(p, &d->views[0], (const unsigned char *)block->data, to);
    if (st == MF_OK && !d->same)
        st = pairs_read_image(p, epoch, d->other, block->data);
    if (st == MF_OK)
        place_view(p, &d->views[1], (const unsigned char *)block->data,
                   to + p->height * p->width * p->channels);
    mf_scratch_give(p->scratch, block);
    return st;
}

static mf_status pairs_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                            void *const *columns)
{
    const pairs *p = (const pairs *)set;
    const pairs_draw d = pairs_draw_for(p, epoch, index);

    if (columns[SAME])
        *(int32_t *)columns[SAME] = d.same;
    if (p->label >= 0 && columns[CLASS]) {
        void *inner[MF_DATASET_COLUMNS] = { 0 };

        inner[p->label] = columns[CLASS];
        MF_TRY(p->inner->ops->read(p->inner, epoch, index, inner));
    }
    return columns[PAIR] ? place_pair(p, &d, epoch, index, columns[PAIR]) : MF_OK;
}

static int64_t pairs_sample_id(const mf_dataset *set, int64_t index)
{
    return mf_dataset_sample_id(((const pairs *)set)->inner, index);
}

static int64_t pairs_file(const mf_dataset *set, int64_t index)
{
    return mf_dataset_file(((const pairs *)set)->inner, index);
}

static void pairs_deinit(mf_dataset *set)
{
    pairs *p = (pairs *)set;

    if (p->scratch)
        mf_scratch_deinit(p->scratch);
    mf_dataset_unref(p->inner);
}

static const mf_dataset_ops pairs_ops = {
    .read = pairs_read, .sample_id = pairs_sample_id, .file = pairs_file, .deinit = pairs_deinit
};

/* ---- settings ---- */

static const char SETTINGS[] =
    "{rotate: float = 20.0, crop: int >= 0 = 3, image: string = 'image'}";

/* Finds the image column and, if there is one, the class column. */
static mf_status pairs_find_columns(const mf_dataset *set, const char *name, int *image, int *label)
{
    const mf_column *c;

    *image = mf_dataset_find_column(set, name);
    *label = mf_dataset_find_column(set, "label");
    if (*image < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "pairs: the data has no column '%s'", name);
    c = &set->columns[*image];
    if (c->dtype != MF_DTYPE_U8 || c->rank != 3)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "pairs: column '%s' is not an image, which is uint8 "
                       "[height,width,channels]",
                       name);
    if (*label >= 0 &&
        (set->columns[*label].dtype != MF_DTYPE_I32 || set->columns[*label].rank != 0))
        *label = -1;
    return MF_OK;
}

/* tan(x) for x up to pi/4, to five digits: a series, so that the bits do not depend on libm. */
static double tangent(double x)
{
    const double s = x * x;

    return x * (1 + s * (1.0 / 3 +
                         s * (2.0 / 15 +
                              s * (17.0 / 315 +
                                   s * (62.0 / 2835 +
                                        s * (1382.0 / 155925 + s * (21844.0 / 6081075 +
                                                                    s * 929569.0 / 638512875)))))));
}

static mf_status pairs_fill(pairs *p, const mf_options *o)
{
    static const char *const names[] = { "no", "yes" };
    const double degrees = mf_options_float(o, "rotate");
    const mf_column *image = &p->inner->columns[p->image];

    p->height = image->dims[0];
    p->width = image->dims[1];
    p->channels = image->dims[2];
    p->crop = mf_options_int(o, "crop");
    p->slope = tangent(degrees * (0.5 * 3.14159265358979323846 / 180.0));
    if (!(degrees >= 0.0 && degrees <= 90.0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "pairs: rotate is %g, but must be 0 to 90 degrees",
                       degrees);
    if (p->crop > p->height || p->crop > p->width)
        return MF_FAIL(MF_INVALID_ARGUMENT, "pairs: crop must fit into %lld x %lld pixels",
                       (long long)p->height, (long long)p->width);
    if (p->inner->count < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "pairs: at least two images are needed");
    MF_TRY(mf_dataset_set_column(&p->base, PAIR, "pair", MF_DTYPE_U8,
                                 &MF_SHAPE(2, p->height, p->width, p->channels)));
    MF_TRY(mf_dataset_set_column(&p->base, SAME, "label", MF_DTYPE_I32, &MF_SCALAR));
    if (p->label >= 0)
        MF_TRY(mf_dataset_set_column(&p->base, CLASS, "class", MF_DTYPE_I32, &MF_SCALAR));
    MF_TRY(mf_dataset_set_classes(&p->base, names, 2));
    p->base.count = p->inner->count;
    p->base.id_count = p->inner->id_count;
    p->base.files = p->inner->files;
    p->base.n_files = p->inner->n_files;
    p->base.varies = true;
    p->scratch = MF_ARENA_NEW(p->base.arena, mf_scratch);
    if (!p->scratch)
        return MF_NOMEM("a data set");
    mf_scratch_init(p->scratch, p->inner->bytes[p->image]);
    return MF_OK;
}

mf_status mf_dataset_pairs(mf_dataset *set, const char *settings, uint64_t seed, mf_dataset **out)
{
    MF_ENTRY;
    MF_NEED(set, out);

    int image, label;
    pairs *p = NULL;
    mf_arena *arena = mf_arena_new();
    mf_options o;
    mf_status st;

    *out = NULL;
    if (!arena)
        return MF_NOMEM("settings");
    MF_TRY_TO(done, mf_options_parse("pairs", SETTINGS, settings, arena, &o));
    MF_TRY_TO(done, pairs_find_columns(set, mf_options_string(&o, "image"), &image, &label));
    MF_TRY_TO(done, mf_dataset_new(&pairs_ops, sizeof *p, label >= 0 ? 3 : 2, &p));
    p->inner = mf_dataset_ref(set);
    p->image = image;
    p->label = label;
    p->seed = seed;
    MF_TRY_TO(done, pairs_fill(p, &o));
    *out = mf_dataset_ref(&p->base);
done:
    mf_dataset_unref(p ? &p->base : NULL);
    mf_arena_free(arena);
    return st;
}
