/* SPDX-License-Identifier: Apache-2.0 */
/* source_scenes.c - "scenes": grey images of 128x128 with two to five items of Fashion-MNIST at
 * different sizes, partly occluded, on a textured background; the label has their boxes and
 * classes. A scene is a function of part, seed and id alone, in integer arithmetic except for the
 * boxes. Scenes of the test part use items of Fashion-MNIST's test part. */
#include "data/generated.h"
#include "formats/image.h"

#include <string.h>

enum {
    SIZE = 128, /* side of a scene */
    THING = 28, /* side of an image of Fashion-MNIST */
    FEWEST = 2, /* minimum number of objects */
    MOST = 5,
    FIELDS = 5, /* y0, x0, y1, x1, class */
    LARGEST = 2 * THING, /* maximum size of an object */
    CELL = 16, /* cell of the coarse texture */
    CELLS = SIZE / CELL + 1,
    TRIES = 20, /* attempts to place an object */
    FAINT = 24, /* darker pixels are background */
};

typedef struct scenes {
    mf_dataset base;
    mf_dataset *things;
    int image, label; /* columns of Fashion-MNIST */
    uint64_t seed;
    bool test;
} scenes;

typedef struct area {
    int top, left, height, width;
} area;

/* ---- background ---- */

static void draw_ground(mf_draws *d, unsigned char *out)
{
    const int level = 10 + mf_draws_below(d, 40), period = 6 + mf_draws_below(d, 20);
    const int right = mf_draws_below(d, 5) - 2, down = mf_draws_below(d, 5) - 2;
    const int depth = mf_draws_below(d, 16); /* of the stripes */
    int coarse[CELLS][CELLS];
    uint32_t noise = 0;

    for (int i = 0; i < CELLS * CELLS; i++)
        coarse[i / CELLS][i % CELLS] = mf_draws_below(d, 48);
    for (int i = 0; i < SIZE * SIZE; i++) {
        const int y = i / SIZE, x = i % SIZE, v = y % CELL, u = x % CELL;
        const int *above = &coarse[y / CELL][x / CELL], *below = above + CELLS;
        const int mix = (above[0] * (CELL - u) + above[1] * u) * (CELL - v) +
                        (below[0] * (CELL - u) + below[1] * u) * v;
        const int stripe = ((x * right + y * down) % period + period) % period < period / 2;

        noise = i % 8 ? noise >> 4 : mf_draws_next(d);
        out[i] = (unsigned char)(level + mix / (CELL * CELL) + depth * stripe + (int)(noise & 15));
    }
}

/* ---- objects ---- */

/* Bounding box of the item in its image; height 0: empty. */
static area source_scenes_extent(const unsigned char *thing)
{
    const area nothing = { 0 };
    int top = THING, left = THING, bottom = -1, right = -1;

    for (int i = 0; i < THING * THING; i++) {
        const int y = i / THING, x = i % THING;

        if (thing[i] < FAINT)
            continue;
        top = y < top ? y : top;
        left = x < left ? x : left;
        bottom = y > bottom ? y : bottom;
        right = x > right ? x : right;
    }
    if (bottom < 0)
        return nothing;
    return (area){ top, left, bottom - top + 1, right - left + 1 };
}

static int source_scenes_shared(int a, int a_size, int b, int b_size)
{
    const int from = a > b ? a : b, to = a + a_size < b + b_size ? a + a_size : b + b_size;

    return to > from ? to - from : 0;
}

/* Objects may overlap by up to a quarter of the smaller one. */
static bool has_room(const area *a, const area *others, int n)
{
    for (int i = 0; i < n; i++) {
        const area *b = &others[i];
        const int both = source_scenes_shared(a->top, a->height, b->top, b->height) *
                         source_scenes_shared(a->left, a->width, b->left, b->width);
        const int mine = a->height * a->width, its = b->height * b->width;

        if (4 * both > (mine < its ? mine : its))
            return false;
    }
    return true;
}

static bool find_room(mf_draws *d, area *a, const area *others, int n)
{
    for (int i = 0; i < TRIES; i++) {
        a->top = mf_draws_below(d, SIZE - a->height + 1);
        a->left = mf_draws_below(d, SIZE - a->width + 1);
        if (has_room(a, others, n))
            return true;
    }
    return false;
}

/* Dark edges are transparent. */
static void paste(const unsigned char *thing, const area *from, const area *to, unsigned char *out)
{
    unsigned char cut[THING * THING], scaled[LARGEST * LARGEST];
    const mf_image before = { from->height, from->width, 1 }, after = { to->height, to->width, 1 };

    for (int y = 0; y < from->height; y++)
        memcpy(cut + y * from->width, thing + (from->top + y) * THING + from->left,
               (size_t)from->width);
    mf_image_resize(cut, &before, scaled, &after);
    for (int y = 0; y < to->height; y++) {
        unsigned char *row = out + (to->top + y) * SIZE + to->left;

        for (int x = 0; x < to->width; x++) {
            const int v = scaled[y * to->width + x], cover = v < 32 ? 8 * v : 256;

            row[x] = (unsigned char)((row[x] * (256 - cover) + v * cover) / 256);
        }
    }
}

static void write_label(const area *a, int class, float *to)
{
    const float fields[FIELDS] = { (float)a->top / SIZE, (float)a->left / SIZE,
                                   (float)(a->top + a->height) / SIZE,
                                   (float)(a->left + a->width) / SIZE, (float)class };

    memcpy(to, fields, sizeof fields);
}

/* Adds one more object if there is space for it. */
static mf_status add_object(const scenes *s, mf_draws *d, unsigned char *out, area *areas, int *n,
                            float *label)
{
    const int which = mf_draws_below(d, (int)s->things->count);
    const int percent = 100 + mf_draws_below(d, 81);
    unsigned char thing[THING * THING] = { 0 };
    void *columns[MF_DATASET_COLUMNS] = { NULL };
    int32_t class = 0;
    area from, *to = &areas[*n];

    columns[s->image] = thing;
    columns[s->label] = &class;
    MF_TRY(mf_dataset_read(s->things, 0, which, columns));
    from = source_scenes_extent(thing);
    *to = (area){ .height = from.height * percent / 100, .width = from.width * percent / 100 };
    if (from.height == 0 || !find_room(d, to, areas, *n))
        return MF_OK;
    paste(thing, &from, to, out);
    write_label(to, class, label + FIELDS * *n);
    (*n)++;
    return MF_OK;
}

/* ---- data set ---- */

static mf_status scenes_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                             void *const *columns)
{
    const scenes *s = (const scenes *)set;
    mf_draws d = mf_draws_of(s->seed, (uint64_t)index << 1 | s->test);
    unsigned char image[SIZE * SIZE];
    float label[MOST * FIELDS] = { 0 };
    area areas[MOST];
    int n = 0, wanted;

    (void)epoch;
    for (int i = 0; i < MOST; i++)
        label[i * FIELDS + 4] = -1;
    draw_ground(&d, image);
    wanted = FEWEST + mf_draws_below(&d, MOST - FEWEST + 1);
    for (int i = 0; i < wanted; i++)
        MF_TRY(add_object(s, &d, image, areas, &n, label));
    mf_generated_put(columns[0], image, sizeof image);
    mf_generated_put(columns[1], label, sizeof label);
    return MF_OK;
}

static void scenes_deinit(mf_dataset *set)
{
    mf_dataset_unref(((scenes *)set)->things);
}

static const mf_dataset_ops scenes_ops = { .read = scenes_read, .deinit = scenes_deinit };

static mf_status open_things(scenes *s, const char *folder)
{
    const mf_column *image;
    const char *const *names;
    mf_buf settings = { 0 };
    int64_t classes;
    mf_status st;

    mf_buf_printf(&settings, "part=%s dir='%s'", s->test ? "test" : "train", folder);
    st = mf_buf_finish(&settings);
    if (st == MF_OK)
        st = mf_dataset_open("fashion-mnist", settings.data, &s->things);
    mf_buf_deinit(&settings);
    MF_TRY(st);
    s->image = mf_dataset_find_column(s->things, "image");
    s->label = mf_dataset_find_column(s->things, "label");
    image = &s->things->columns[s->image];
    if (s->things->count < 1 || image->rank != 3 || image->dims[0] != THING ||
        image->dims[1] != THING || image->dims[2] != 1 || image->dtype != MF_DTYPE_U8)
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has no grey images of %d x %d", folder, THING,
                       THING);
    classes = mf_dataset_classes(s->things, &names);
    return mf_dataset_set_classes(&s->base, names, classes);
}

static mf_status scenes_open(const char *data, const mf_options *o, mf_dataset **out)
{
    const int64_t count = mf_options_int(o, "count");
    scenes *s;
    mf_status st;

    (void)data;
    MF_TRY(mf_dataset_new(&scenes_ops, sizeof *s, 2, &s));
    s->test = strcmp(mf_options_string(o, "part"), "test") == 0;
    s->seed = (uint64_t)mf_options_int(o, "seed");
    s->base.count = s->base.id_count = count > 0 ? count : s->test ? 2000 : 20000;
    MF_TRY_TO(fail, open_things(s, mf_options_string(o, "dir")));
    MF_TRY_TO(fail,
              mf_dataset_set_column(&s->base, 0, "image", MF_DTYPE_U8, &MF_SHAPE(SIZE, SIZE, 1)));
    MF_TRY_TO(fail,
              mf_dataset_set_column(&s->base, 1, "label", MF_DTYPE_F32, &MF_SHAPE(MOST, FIELDS)));
    *out = &s->base;
    return MF_OK;
fail:
    mf_dataset_unref(&s->base);
    return st;
}

const mf_source mf_source_scenes = {
    .name = "scenes",
    .summary = "made from Fashion-MNIST: 128x128 images of several items, with boxes and classes",
    .settings = "{" MF_GENERATED_SETTINGS ", dir: string = '/usr/share/datasets/fashion-mnist'}",
    .open = scenes_open,
    .is_name = true,
};
