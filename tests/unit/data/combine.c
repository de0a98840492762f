/* SPDX-License-Identifier: Apache-2.0 */
/* combine.c - data sets that are joined, cached, mapped or augmented. */
#include "base/mem.h"
#include "data/dataset.h"
#include "mf_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* n samples: x is start + i, label is 0. */
static mf_dataset *counting(int64_t n, int32_t start)
{
    static const char *const names[] = { "x", "label" };
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_I32, &n, 1, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, &n, 1, &label));
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)mf_tensor_data(x))[i] = start + (int32_t)i;
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ x, label }, 2, &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static int32_t x_of(const mf_dataset *set, uint64_t epoch, int64_t i)
{
    int32_t x;

    T_OK(mf_dataset_read(set, epoch, i, (void *[]){ &x, NULL }));
    return x;
}

MF_TEST(data_interleave_alternates_between_sets)
{
    static const int32_t turns[] = { 0, 1, 100, 101, 200, 201, 2, 3, 102, 202, 203, 4, 204, 205 };
    mf_dataset *sets[] = { counting(5, 0), counting(3, 100), counting(6, 200) }, *all, *part;
    char seen[14] = { 0 };

    T_OK(mf_dataset_interleave(sets, 3, 0, &all));
    T_EQ(mf_dataset_count(all), 14);
    T_EQ(x_of(all, 0, 4), 4);
    T_EQ(x_of(all, 0, 5), 100);
    T_EQ(x_of(all, 0, 13), 205);
    T_EQ(mf_dataset_sample_id(all, 8), 8);
    mf_dataset_unref(all);
    T_OK(mf_dataset_interleave(sets, 3, 2, &all));
    for (int i = 0; i < 14; i++)
        T_EQ(x_of(all, 0, i), turns[i]);
    /* shards of an interleaving still cover each id once */
    for (int s = 0; s < 4; s++) {
        T_OK(mf_dataset_shard(all, 4, s, &part));
        for (int64_t i = 0; i < mf_dataset_count(part); i++)
            seen[mf_dataset_sample_id(part, i)]++;
        mf_dataset_unref(part);
    }
    for (int i = 0; i < 14; i++)
        T_EQ(seen[i], 1);
    mf_dataset_unref(all);
    for (int i = 0; i < 3; i++)
        mf_dataset_unref(sets[i]);
}

MF_TEST(data_sets_with_different_columns_are_not_joined)
{
    static const char *const names[] = { "y", "label" };
    mf_dataset *sets[2] = { counting(3, 0), NULL }, *all;
    mf_tensor *x;

    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ 3 }, 1, &x));
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ x, x }, 2, &sets[1]));
    T_FAILS(MF_INVALID_ARGUMENT, "'y', is not as the first set's 'x'",
            mf_dataset_interleave(sets, 2, 1, &all));
    T_FAILS(MF_INVALID_ARGUMENT, "1 to 64 columns", mf_dataset_of(names, NULL, 0, &all));
    mf_dataset_unref(sets[0]);
    mf_dataset_unref(sets[1]);
    mf_tensor_free(x);
}

/* ---- map ---- */

static atomic_int calls;

static mf_status twice(void *ctx, uint64_t epoch, int64_t id, const void *const *in,
                       void *const *out)
{
    const int32_t x = *(const int32_t *)in[0];

    atomic_fetch_add(&calls, 1);
    *(float *)out[0] = (float)(2 * x) + (float)epoch;
    *(int64_t *)out[1] = id;
    return x == *(const int32_t *)ctx ? MF_FAIL(MF_DATA_LOSS, "not this one") : MF_OK;
}

MF_TEST(data_map_receives_epoch_and_id)
{
    static const mf_column columns[] = { { .name = "twice", .dtype = MF_DTYPE_F32 },
                                         { .name = "id", .dtype = MF_DTYPE_I64 } };
    mf_dataset *set = counting(20, 0), *part, *mapped, *cached;
    int32_t bad = 7;
    float x;
    int64_t id, blocks;

    T_OK(mf_dataset_range(set, 5, 20, &part));
    T_OK(mf_dataset_map(part, columns, 2, twice, &bad, &mapped));
    T_OK(mf_dataset_read(mapped, 3, 5, (void *[]){ &x, &id }));
    T_EQ_F(x, 23);
    T_EQ(id, 10);
    T_EQ(mf_dataset_sample_id(mapped, 5), 10);
    blocks = mf_mem_calls();
    T_OK(mf_dataset_read(mapped, 3, 6, (void *[]){ NULL, &id })); /* not everything is wanted */
    T_EQ(id, 11);
    T_EQ(mf_mem_calls(), blocks);
    T_FAILS(MF_DATA_LOSS, "not this one", mf_dataset_read(mapped, 0, 2, (void *[]){ &x, &id }));
    T_FAILS(MF_INVALID_ARGUMENT, "cache before", mf_dataset_cache(mapped, 0, &cached));
    mf_dataset_unref(mapped);
    mf_dataset_unref(part);
    mf_dataset_unref(set);
}

/* ---- cache ---- */

typedef struct slow {
    mf_dataset base;
    atomic_int *reads; /* by sample */
} slow;

static mf_status slow_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                           void *const *columns)
{
    (void)epoch;
    if (atomic_fetch_add(&((const slow *)set)->reads[index], 1) == 0 && index == 3)
        return MF_FAIL(MF_UNAVAILABLE, "try again");
    if (columns[0])
        *(int64_t *)columns[0] = index * 3;
    if (columns[1])
        *(char *)columns[1] = (char)index;
    return MF_OK;
}

static slow *slow_set(int64_t n)
{
    static const mf_dataset_ops ops = { .read = slow_read };
    slow *s;

    T_OK(mf_dataset_new(&ops, sizeof *s, 2, &s));
    T_OK(mf_dataset_set_column(&s->base, 0, "x", MF_DTYPE_I64, &MF_SCALAR));
    T_OK(mf_dataset_set_column(&s->base, 1, "c", MF_DTYPE_I8, &MF_SCALAR));
    s->reads = mf_arena_alloc(s->base.arena, n, sizeof *s->reads);
    s->base.count = s->base.id_count = n;
    return s;
}

MF_TEST(data_cache_reads_once_and_keeps_what_fits)
{
    slow *s = slow_set(100);
    mf_dataset *cached;
    int64_t x;
    char c;

    T_OK(mf_dataset_cache(&s->base, 50 * 33, &cached)); /* space for half of them */
    T_FAILS(MF_UNAVAILABLE, "try again", mf_dataset_read(cached, 0, 3, (void *[]){ &x, &c }));
    for (int round = 0; round < 3; round++) {
        for (int64_t i = 0; i < 100; i++) {
            T_OK(mf_dataset_read(cached, 0, i, (void *[]){ round ? &x : NULL, &c }));
            T_TRUE(round == 0 || x == 3 * i);
            T_EQ(c, (char)i);
        }
    }
    for (int i = 0; i < 100; i++)
        T_EQ(s->reads[i], i == 3 ? 2 : i < 50 ? 1 : 3);
    mf_dataset_unref(cached);
    mf_dataset_unref(&s->base);
}

static void *read_all(void *set)
{
    for (int64_t i = 0; i < 2000; i++) {
        int64_t x = -1;

        T_OK(mf_dataset_read(set, 0, i == 3 ? 4 : i, (void *[]){ &x, NULL }));
        T_EQ(x, 3 * (i == 3 ? 4 : i));
    }
    return NULL;
}

MF_TEST(data_cache_serves_many_threads)
{
    slow *s = slow_set(2000);
    pthread_t threads[4];
    mf_dataset *cached;

    T_OK(mf_dataset_cache(&s->base, 0, &cached));
    for (int i = 0; i < 4; i++)
        T_EQ(pthread_create(&threads[i], NULL, read_all, cached), 0);
    for (int i = 0; i < 4; i++)
        T_EQ(pthread_join(threads[i], NULL), 0);
    mf_dataset_unref(cached);
    mf_dataset_unref(&s->base);
}

/* ---- augment ---- */

static bool same_bits(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

enum { N = 12, H = 6, W = 5, C = 2, IMAGE = H * W * C };

static mf_dataset *pictures(void)
{
    static const char *const names[] = { "image", "label" };
    mf_tensor *image, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_U8, (int64_t[]){ N, H, W, C }, 4, &image));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ N }, 1, &label));
    for (int i = 0; i < N * IMAGE; i++)
        ((unsigned char *)mf_tensor_data(image))[i] = (unsigned char)(1 + i % 250);
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ image, label }, 2, &set));
    mf_tensor_free(image);
    mf_tensor_free(label);
    return set;
}

/* Is `got` the image shifted by (dy, dx), flipped or not? */
static bool is_moved(const unsigned char *from, const unsigned char *got, int dy, int dx, bool flip)
{
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            const int sy = y + dy, sx = (flip ? W - 1 - x : x) + dx;
            const bool inside = sy >= 0 && sy < H && sx >= 0 && sx < W;

            for (int c = 0; c < C; c++) {
                if (got[(y * W + x) * C + c] != (inside ? from[(sy * W + sx) * C + c] : 0))
                    return false;
            }
        }
    }
    return true;
}

MF_TEST(data_crop_and_flip_produce_all_shifts)
{
    mf_dataset *set = pictures(), *changed;
    unsigned char from[IMAGE], got[IMAGE];
    int seen[5][5][2] = { 0 };

    T_OK(mf_dataset_augment(set, "crop=2 flip=true", 1, &changed));
    for (uint64_t epoch = 0; epoch < 60; epoch++) {
        for (int64_t i = 0; i < N; i++) {
            int found = 0;

            T_OK(mf_dataset_read(set, 0, i, (void *[]){ from, NULL }));
            T_OK(mf_dataset_read(changed, epoch, i, (void *[]){ got, NULL }));
            for (int k = 0; k < 50; k++) {
                const int dy = k / 10 - 2, dx = k / 2 % 5 - 2;

                if (is_moved(from, got, dy, dx, k % 2 != 0)) {
                    seen[dy + 2][dx + 2][k % 2]++;
                    found++;
                }
            }
            T_EQ(found, 1);
        }
    }
    for (int k = 0; k < 50; k++)
        T_TRUE(seen[k / 10][k / 2 % 5][k % 2] > 0);
    mf_dataset_unref(changed);
    mf_dataset_unref(set);
}

MF_TEST(data_augment_depends_only_on_seed_epoch_and_id)
{
    const char *settings = "crop=1 flip=true cutout=3 mean=[0.5,0.25] std=[2]";
    mf_dataset *set = pictures(), *a, *b, *part, *other;
    float x[IMAGE], y[IMAGE];
    int differ = 0;

    T_OK(mf_dataset_augment(set, settings, 1, &a));
    T_OK(mf_dataset_augment(set, settings, 2, &other));
    T_OK(mf_dataset_range(set, 5, N, &part));
    T_OK(mf_dataset_augment(part, settings, 1, &b));
    for (int64_t i = 5; i < N; i++) {
        T_OK(mf_dataset_read(a, 9, i, (void *[]){ x, NULL }));
        T_OK(mf_dataset_read(b, 9, i - 5, (void *[]){ y, NULL })); /* the same id */
        T_TRUE(same_bits(x, y, sizeof x));
        T_OK(mf_dataset_read(a, 10, i, (void *[]){ y, NULL }));
        differ += !same_bits(x, y, sizeof x);
        T_OK(mf_dataset_read(other, 9, i, (void *[]){ y, NULL }));
        differ += !same_bits(x, y, sizeof x);
    }
    T_TRUE(differ >= 10);
    mf_dataset_unref(a);
    mf_dataset_unref(b);
    mf_dataset_unref(other);
    mf_dataset_unref(part);
    mf_dataset_unref(set);
}

MF_TEST(data_cutout_is_a_black_square_and_normalise_is_affine)
{
    mf_dataset *set = pictures(), *a;
    unsigned char from[IMAGE], got[IMAGE];
    const mf_column *columns;
    float x[IMAGE];
    int black = 0;

    T_OK(mf_dataset_augment(set, "cutout=2", 3, &a));
    for (int64_t i = 0; i < N; i++) {
        T_OK(mf_dataset_read(set, 0, i, (void *[]){ from, NULL }));
        T_OK(mf_dataset_read(a, 4, i, (void *[]){ got, NULL }));
        for (int k = 0; k < IMAGE; k++) {
            T_TRUE(got[k] == from[k] || got[k] == 0);
            black += got[k] == 0;
        }
    }
    T_TRUE(black > N * C * 2 && black <= N * C * 4); /* it may extend beyond the edge */
    mf_dataset_unref(a);
    T_OK(mf_dataset_augment(set, "mean=[0.5,0.25] std=[2]", 3, &a));
    T_EQ(mf_dataset_columns(a, &columns), 2);
    T_EQ(columns[0].dtype, MF_DTYPE_F32);
    T_OK(mf_dataset_read(a, 0, 0, (void *[]){ x, NULL }));
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ from, NULL }));
    for (int k = 0; k < IMAGE; k++)
        T_EQ_F(x[k], ((float)from[k] / 255.0f - (k % 2 ? 0.25f : 0.5f)) / 2.0f);
    mf_dataset_unref(a);
    T_FAILS(MF_INVALID_ARGUMENT, "no column 'photo'",
            mf_dataset_augment(set, "image=photo", 0, &a));
    T_FAILS(MF_INVALID_ARGUMENT, "is not an image", mf_dataset_augment(set, "image=label", 0, &a));
    T_FAILS(MF_INVALID_ARGUMENT, "mean has 3 numbers",
            mf_dataset_augment(set, "mean=[1,2,3]", 0, &a));
    T_FAILS(MF_INVALID_ARGUMENT, "std is 0", mf_dataset_augment(set, "std=[0]", 0, &a));
    T_FAILS(MF_INVALID_ARGUMENT, "fit into 6 x 5", mf_dataset_augment(set, "crop=7", 0, &a));
    mf_dataset_unref(set);
}
