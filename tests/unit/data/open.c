/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - data sets by name and from files; views of them. */
#include "data/dataset.h"
#include "mf_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FASHION "/usr/share/datasets/fashion-mnist"

static void need_fashion_mnist(void)
{
    if (access(FASHION, F_OK) != 0)
        T_SKIP("dataset-fashion-mnist is not installed");
}

MF_TEST(data_fashion_mnist_opens_by_name)
{
    const mf_column *columns;
    const char *const *names;
    unsigned char image[784];
    int32_t label = -1, seen = 0;
    mf_dataset *set;

    need_fashion_mnist();
    for (int test = 0; test < 2; test++) {
        T_OK(mf_dataset_open("fashion-mnist", test ? "part=test" : NULL, &set));
        T_EQ(mf_dataset_count(set), test ? 10000 : 60000);
        T_EQ(mf_dataset_columns(set, &columns), 2);
        T_STREQ(columns[0].name, "image");
        T_EQ(columns[0].dtype, MF_DTYPE_U8);
        T_EQ(columns[0].rank, 3);
        T_TRUE(columns[0].dims[0] == 28 && columns[0].dims[1] == 28 && columns[0].dims[2] == 1);
        T_STREQ(columns[1].name, "label");
        T_TRUE(columns[1].dtype == MF_DTYPE_I32 && columns[1].rank == 0);
        T_EQ(mf_dataset_classes(set, &names), 10);
        T_STREQ(names[9], "Ankle boot");
        for (int64_t i = mf_dataset_count(set); i-- > 0;) {
            T_OK(mf_dataset_read(set, 0, i, (void *[]){ image, &label }));
            seen |= 1 << label;
        }
        T_EQ(seen, 1023);
        T_EQ(label, 9); /* both parts begin with a boot */
        T_FAILS(MF_OUT_OF_RANGE, "no sample",
                mf_dataset_read(set, 0, -1, (void *[]){ NULL, NULL }));
        mf_dataset_unref(set);
    }
    T_OK(mf_dataset_open(FASHION, "part=test", &set));
    T_EQ(mf_dataset_classes(set, &names), 10);
    T_TRUE(names == NULL);
    mf_dataset_unref(set);
}

MF_TEST(data_missing_files_and_names_are_reported)
{
    mf_dataset *set;

    T_FAILS(MF_NOT_FOUND, "did you mean 'fashion-mnist'?",
            mf_dataset_open("fashion_mnist", NULL, &set));
    T_FAILS(MF_NOT_FOUND, "'/nowhere/at/all'", mf_dataset_open("/nowhere/at/all", NULL, &set));
    T_FAILS(MF_NOT_FOUND, "apt install dataset-fashion-mnist",
            mf_dataset_open("fashion-mnist", "dir=/nowhere", &set));
    T_FAILS(MF_INVALID_ARGUMENT, "part cannot be 'both'",
            mf_dataset_open("fashion-mnist", "part=both", &set));
    T_FAILS(MF_INVALID_ARGUMENT, "write it in front", mf_dataset_open("/etc/passwd", NULL, &set));
    T_TRUE(set == NULL);
}

MF_TEST(data_splits_and_shards_cover_a_set_once)
{
    static const char *const names[] = { "x" };
    int64_t n = 1000;
    mf_tensor *x;
    mf_dataset *set, *half[2], *part, *again;
    char seen[1000] = { 0 };

    T_OK(mf_tensor_new(MF_DTYPE_I32, &n, 1, &x));
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ x }, 1, &set));
    T_OK(mf_dataset_split(set, 0.3, 7, &half[0], &half[1]));
    T_EQ(mf_dataset_count(half[0]), 300);
    T_EQ(mf_dataset_count(half[1]), 700);
    for (int h = 0; h < 2; h++) {
        for (int s = 0; s < 3; s++) {
            T_OK(mf_dataset_shard(half[h], 3, s, &part));
            for (int64_t i = 0; i < mf_dataset_count(part); i++)
                seen[mf_dataset_sample_id(part, i)]++;
            mf_dataset_unref(part);
        }
    }
    for (int i = 0; i < 1000; i++)
        T_EQ(seen[i], 1);
    T_OK(mf_dataset_split(set, 0.3, 7, &part, &again));
    for (int64_t i = 0; i < 300; i++)
        T_EQ(mf_dataset_sample_id(part, i), mf_dataset_sample_id(half[0], i));
    mf_dataset_unref(part);
    mf_dataset_unref(again);
    T_OK(mf_dataset_range(set, 990, 1000, &part));
    T_EQ(mf_dataset_sample_id(part, 9), 999);
    T_FAILS(MF_OUT_OF_RANGE, "there are 1000", mf_dataset_range(set, 0, 1001, &again));
    T_FAILS(MF_INVALID_ARGUMENT, "no shard 3 of 3", mf_dataset_shard(set, 3, 3, &again));
    mf_dataset_unref(part);
    mf_dataset_unref(half[0]);
    mf_dataset_unref(half[1]);
    mf_dataset_unref(set);
    mf_tensor_free(x);
}
