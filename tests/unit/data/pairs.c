/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - pairs of augmented views: their labels, and what they depend on. */
#include "mf_test.h"

#include <meshflow/data.h>

#include <stdlib.h>
#include <string.h>

enum { N = 9, SIDE = 11, C = 2, IMAGE = SIDE * SIDE * C };

typedef struct pair {
    unsigned char image[2][IMAGE];
    int32_t same, class;
} pair;

/* A square in the middle, with another colour in each image. */
static mf_dataset *squares(void)
{
    mf_tensor *image, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_U8, (int64_t[]){ N, SIDE, SIDE, C }, 4, &image));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ N }, 1, &label));
    memset(mf_tensor_data(image), 0, mf_tensor_bytes(image));
    for (int i = 0; i < N; i++) {
        unsigned char *to = (unsigned char *)mf_tensor_data(image) + i * IMAGE;

        for (int p = 0; p < 25 * C; p++)
            to[((p / C / 5 + 3) * SIDE + p / C % 5 + 3) * C + p % C] =
                (unsigned char)(60 + 20 * i + p % C);
        ((int32_t *)mf_tensor_data(label))[i] = i % 3;
    }
    T_OK(mf_dataset_of((const char *[]){ "image", "label" }, (const mf_tensor *[]){ image, label },
                       2, &set));
    mf_tensor_free(image);
    mf_tensor_free(label);
    return set;
}

static pair read_pair(const mf_dataset *set, uint64_t epoch, int64_t i)
{
    pair p;

    memset(&p, 0, sizeof p);
    T_OK(mf_dataset_read(set, epoch, i, (void *[]){ p.image, &p.same, &p.class }));
    return p;
}

/* The image of a view, from the colour of its middle, which small rotations and shifts keep. */
static int owner(const unsigned char *image)
{
    return (image[(SIDE / 2 * SIDE + SIDE / 2) * C] - 60) / 20;
}

MF_TEST(data_pairs_match_their_labels)
{
    mf_dataset *set = squares(), *pairs;
    int counts[2] = { 0 }, others[N] = { 0 };

    T_OK(mf_dataset_pairs(set, "rotate=15 crop=1", 4, &pairs));
    T_EQ(mf_dataset_count(pairs), N);
    for (uint64_t epoch = 0; epoch < 100; epoch++) {
        for (int64_t i = 0; i < N; i++) {
            const pair p = read_pair(pairs, epoch, i);

            T_EQ(owner(p.image[0]), i);
            T_EQ(owner(p.image[1]) == i, p.same);
            T_EQ(p.class, i % 3);
            counts[p.same]++;
            others[owner(p.image[1])]++;
        }
    }
    T_TRUE(counts[0] > 400 && counts[1] > 400);
    for (int i = 0; i < N; i++)
        T_TRUE(others[i] > 50);
    mf_dataset_unref(pairs);
    mf_dataset_unref(set);
}

MF_TEST(data_pairs_without_augmentation_are_the_images_themselves)
{
    mf_dataset *set = squares(), *pairs;
    unsigned char image[IMAGE];

    T_OK(mf_dataset_pairs(set, "rotate=0 crop=0", 4, &pairs));
    for (int64_t i = 0; i < N; i++) {
        const pair p = read_pair(pairs, 3, i);

        T_OK(mf_dataset_read(set, 0, owner(p.image[1]), (void *[]){ image, NULL }));
        T_TRUE(memcmp(image, p.image[1], IMAGE) == 0);
    }
    mf_dataset_unref(pairs);
    mf_dataset_unref(set);
}

/* A rotated square has other corners and the same area. */
MF_TEST(data_pairs_are_rotated)
{
    mf_dataset *set = squares(), *pairs;
    int corners = 0;

    T_OK(mf_dataset_pairs(set, "rotate=45 crop=0", 4, &pairs));
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        const pair p = read_pair(pairs, epoch, 0);
        long sum = 0;

        for (int i = 0; i < IMAGE; i += C)
            sum += p.image[0][i];
        T_TRUE(labs(sum - 25L * 60) < 100);
        corners += p.image[0][(3 * SIDE + 3) * C] < 50;
    }
    T_TRUE(corners > 10);
    mf_dataset_unref(pairs);
    mf_dataset_unref(set);
}

MF_TEST(data_pairs_depend_only_on_seed_epoch_and_id)
{
    mf_dataset *set = squares(), *a, *b;
    int differ = 0;

    T_OK(mf_dataset_pairs(set, NULL, 4, &a));
    T_OK(mf_dataset_pairs(set, NULL, 5, &b));
    for (int64_t i = 0; i < N; i++) {
        const pair x = read_pair(a, 1, i), again = read_pair(a, 1, i), later = read_pair(a, 2, i),
                   other = read_pair(b, 1, i);

        T_TRUE(memcmp(&x, &again, sizeof x) == 0);
        differ += memcmp(&x, &later, sizeof x) != 0;
        differ += memcmp(&x, &other, sizeof x) != 0;
    }
    T_TRUE(differ > N);
    mf_dataset_unref(a);
    mf_dataset_unref(b);
    mf_dataset_unref(set);
}

MF_TEST(data_pairs_reject_invalid_settings)
{
    mf_dataset *set = squares(), *one, *out;

    T_OK(mf_dataset_range(set, 0, 1, &one));
    T_FAILS(MF_INVALID_ARGUMENT, "at least two images", mf_dataset_pairs(one, NULL, 0, &out));
    T_FAILS(MF_INVALID_ARGUMENT, "rotate is 91, but must be 0 to 90 degrees",
            mf_dataset_pairs(set, "rotate=91", 0, &out));
    T_FAILS(MF_INVALID_ARGUMENT, "crop must fit into 11 x 11",
            mf_dataset_pairs(set, "crop=12", 0, &out));
    T_FAILS(MF_INVALID_ARGUMENT, "the data has no column 'photo'",
            mf_dataset_pairs(set, "image=photo", 0, &out));
    T_FAILS(MF_INVALID_ARGUMENT, "column 'label' is not an image",
            mf_dataset_pairs(set, "image=label", 0, &out));
    T_FAILS(MF_INVALID_ARGUMENT, "did you mean 'rotate'",
            mf_dataset_pairs(set, "rotat=3", 0, &out));
    mf_dataset_unref(one);
    mf_dataset_unref(set);
}
