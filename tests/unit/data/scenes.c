/* SPDX-License-Identifier: Apache-2.0 */
/* scenes.c - generated scenes for detection: they depend only on part, seed and ID. */
#include "data/dataset.h"
#include "mf_test.h"

#include <string.h>

enum { SIDE = 128, OBJECTS = 5, FIELDS = 5 };

typedef struct scene {
    unsigned char image[SIDE * SIDE];
    float label[OBJECTS * FIELDS];
} scene;

static void read_scene(const mf_dataset *set, int64_t i, scene *out)
{
    T_OK(mf_dataset_read(set, 0, i, (void *[]){ out->image, out->label }));
}

static bool equal(const scene *a, const scene *b)
{
    bool same = memcmp(a->image, b->image, sizeof a->image) == 0;

    for (int i = 0; i < OBJECTS * FIELDS; i++)
        same &= a->label[i] == b->label[i];
    return same;
}

static int objects_of(const scene *s)
{
    int n = 0;

    while (n < OBJECTS && s->label[n * FIELDS + 4] >= 0)
        n++;
    for (int i = n; i < OBJECTS; i++)
        T_EQ(s->label[i * FIELDS + 4], -1);
    return n;
}

MF_TEST(data_scenes_depend_only_on_part_seed_and_id)
{
    mf_dataset *a, *b, *other, *test;
    scene x, y;

    T_OK(mf_dataset_open("scenes", "count=50", &a));
    T_OK(mf_dataset_open("scenes", "count=70", &b));
    T_OK(mf_dataset_open("scenes", "seed=1", &other));
    T_OK(mf_dataset_open("scenes", "part=test", &test));
    T_EQ(mf_dataset_count(a), 50);
    T_EQ(mf_dataset_count(other), 20000);
    T_EQ(mf_dataset_count(test), 2000);
    T_EQ(mf_dataset_classes(a, NULL), 10);
    read_scene(a, 49, &x);
    read_scene(b, 49, &y);
    T_TRUE(equal(&x, &y));
    read_scene(other, 49, &y);
    T_TRUE(!equal(&x, &y));
    read_scene(test, 49, &y);
    T_TRUE(!equal(&x, &y));
    y = x;
    memset(y.label, 0, sizeof y.label);
    T_OK(mf_dataset_read(a, 7, 49, (void *[]){ NULL, y.label })); /* of any epoch */
    T_TRUE(equal(&x, &y));
    mf_dataset_unref(a);
    mf_dataset_unref(b);
    mf_dataset_unref(other);
    mf_dataset_unref(test);
}

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static bool overlap(const float *a, const float *b)
{
    return smaller(a[2], b[2]) > (a[0] > b[0] ? a[0] : b[0]) &&
           smaller(a[3], b[3]) > (a[1] > b[1] ? a[1] : b[1]);
}

MF_TEST(data_scenes_have_several_objects_some_overlapping)
{
    int64_t classes[10] = { 0 }, n_objects = 0, overlaps = 0;
    mf_dataset *set;
    scene s;

    T_OK(mf_dataset_open("scenes", NULL, &set));
    for (int i = 0; i < 300; i++) {
        int n;

        read_scene(set, i, &s);
        n = objects_of(&s);
        T_TRUE(n >= 1);
        n_objects += n;
        for (int k = 0; k < n; k++) {
            const float *b = s.label + k * FIELDS;

            T_TRUE(b[0] >= 0 && b[1] >= 0 && b[2] <= 1 && b[3] <= 1 && b[2] > b[0] && b[3] > b[1]);
            T_TRUE(b[2] - b[0] <= 51.0F / SIDE && b[3] - b[1] <= 51.0F / SIDE);
            T_TRUE(b[4] < 10);
            classes[(int)b[4]]++;
            for (int j = 0; j < k; j++)
                overlaps += overlap(b, s.label + j * FIELDS);
        }
    }
    T_TRUE(n_objects > 3 * 300 && n_objects < 4 * 300);
    T_TRUE(overlaps > 50);
    for (int c = 0; c < 10; c++)
        T_TRUE(classes[c] > 50);
    mf_dataset_unref(set);
}

MF_TEST(data_scenes_name_the_missing_image_directory)
{
    mf_dataset *set;

    T_FAILS(MF_NOT_FOUND, "Fashion-MNIST is not in '/nowhere'",
            mf_dataset_open("scenes", "dir='/nowhere'", &set));
}
