/* SPDX-License-Identifier: Apache-2.0 */
/* zoo.c - models of the zoo: parameter counts, inputs, columns. */
#include "models/zoo.h"

#include "mf_test.h"

/* A model for columns as text ("" : its example). */
static mf_status make(const char *text, const char *columns, mf_model **out)
{
    mf_arena *arena = mf_arena_new();
    mf_column *list;
    int64_t classes;
    int n;

    T_OK(mf_zoo_columns(columns, arena, &list, &n, &classes));
    const mf_status st = mf_zoo_build(text, list, n, classes, out);
    mf_arena_free(arena);
    return st;
}

static int64_t parameters(const char *text, const char *columns)
{
    mf_model *m;
    int64_t n;

    T_OK(make(text, columns, &m));
    T_TRUE(m->output.node != NULL);
    n = mf_model_parameters(m, NULL);
    mf_model_free(m);
    return n;
}

static const char MNIST[] = "image=uint8[28,28,1] label=int32[] classes=10";
static const char CIFAR[] = "image=uint8[32,32,3] label=int32[] classes=10";

MF_TEST(models_zoo_image_models_have_the_known_numbers_of_parameters)
{
    T_EQ(parameters("mlp", MNIST), 101770);
    T_EQ(parameters("mlp units=[64,32]", MNIST), 784 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10);
    T_EQ(parameters("fashion-cnn", MNIST), 421642);
    T_EQ(parameters("cnn", MNIST), 3274634);
    T_EQ(parameters("cnn-small", MNIST), 78234);
    T_TRUE(parameters("cnn-small", CIFAR) < 100000);
    T_EQ(parameters("resnet20", CIFAR), 274042);
    T_EQ(parameters("resnet8", MNIST), 78426);
    T_EQ(parameters("faster-rcnn", "image=uint8[128,128,1] label=float[5,5] classes=10"), 503357);
}

MF_TEST(models_zoo_contrastive_models_have_the_known_numbers_of_parameters)
{
    static const char PAIRS[] = "pair=uint8[2,28,28,1] label=int32[] classes=2";

    T_EQ(parameters("triplet", MNIST), 421642 - 1290 + 128 * 64 + 64);
    T_EQ(parameters("siamese width=8", PAIRS), 421642 - 1290 + 128 * 8 + 8);
    T_EQ(parameters("rbm units=20 chains=3", MNIST), 784 * 20 + 784 + 20 + 3 * 784);
}

MF_TEST(models_zoo_other_models_have_the_known_numbers_of_parameters)
{
    static const char REVIEWS[] = "tokens=int32[32] label=int32[] classes=2";
    static const char TEXT[] = "tokens=int32[32] label=int32[32] classes=50";
    const int64_t block = 4 * (64 * 64 + 64) + 2 * 128 + (64 * 256 + 256) + (256 * 64 + 64);

    T_EQ(parameters("lstm vocabulary=100", REVIEWS),
         100 * 64 + 64 * 256 + 64 * 256 + 256 + 64 * 2 + 2);
    T_EQ(parameters("text-cnn vocabulary=100", REVIEWS),
         100 * 64 + (3 + 4 + 5) * 64 * 64 + 3 * 64 + 192 * 2 + 2);
    T_EQ(parameters("transformer", TEXT), 50 * 64 + 32 * 64 + 2 * block + 128 + 64 * 50);
    T_EQ(parameters("moe-transformer experts=3", TEXT),
         50 * 64 + 32 * 64 + 2 * block - (64 * 256 + 256) - (256 * 64 + 64) + 64 * 3 +
             3 * 2 * 64 * 256 + 128 + 64 * 50);
    T_EQ(parameters("transformer vocabulary=100 layers=1", REVIEWS),
         100 * 64 + 32 * 64 + block + 128 + 64 * 2 + 2);
    T_EQ(parameters("wide-deep buckets=1000 units=8", "ids=int64[3] dense=float[2] label=int32[]"),
         1000 + 16000 + (3 * 16 + 2) * 8 + 8 + 9);
}

MF_TEST(models_zoo_takes_images_without_channels_and_floats)
{
    T_EQ(parameters("fashion-cnn", "image=float[28,28] label=int32[] classes=10"), 421642);
    T_EQ(parameters("mlp", "features=float[13] label=float[]"), 13 * 128 + 128 + 129);
}

MF_TEST(models_zoo_names_missing_columns)
{
    mf_model *m;

    T_FAILS(MF_NOT_FOUND, "did you mean 'resnet20'", make("resnet21", MNIST, &m));
    T_FAILS(MF_NOT_FOUND, "`meshflow models` lists them", make("zzzzzzzzzz", MNIST, &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cnn needs a column 'image'",
            make("cnn", "tokens=int32[64] label=int32[] classes=2", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "the data has tokens int32[64]",
            make("cnn", "tokens=int32[64] label=int32[] classes=2", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "cnn needs a label (--set label=COLUMN for tables)",
            make("cnn", "image=float[28,28,1]", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "pairs of images (--pairs makes", make("siamese", MNIST, &m));
    T_FAILS(MF_INVALID_ARGUMENT, "two images in a pair",
            make("siamese", "pair=uint8[3,28,28,1] label=int32[]", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "did you mean 'units'", make("mlp unit=3", MNIST, &m));
    T_FAILS(MF_INVALID_ARGUMENT, "a label of boxes with classes", make("faster-rcnn", MNIST, &m));
    T_TRUE(m == NULL);
}

MF_TEST(models_zoo_every_model_is_built_for_its_example)
{
    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++)
            T_TRUE(parameters(k->name, k->example) > 0);
    }
}

MF_TEST(models_zoo_columns_as_text_are_checked)
{
    mf_arena *arena = mf_arena_new();
    mf_column *list;
    int64_t classes;
    int n;

    T_OK(mf_zoo_columns("a=float[2,3]  b=int64[] classes=7", arena, &list, &n, &classes));
    T_EQ(n, 2);
    T_EQ(classes, 7);
    T_EQ(list[0].dims[1], 3);
    T_EQ(list[1].rank, 0);
    T_FAILS(MF_INVALID_ARGUMENT, "column 'a'",
            mf_zoo_columns("a=float", arena, &list, &n, &classes));
    T_FAILS(MF_INVALID_ARGUMENT, "dimension 1 is 0",
            mf_zoo_columns("a=float[1,0]", arena, &list, &n, &classes));
    T_FAILS(MF_INVALID_ARGUMENT, "expected name=type",
            mf_zoo_columns("image", arena, &list, &n, &classes));
    mf_arena_free(arena);
}

MF_TEST(models_zoo_regression_follows_from_a_float_label)
{
    static const char *const models[] = { "mlp", "fashion-cnn", "resnet8" };
    const char *loss, *metrics;
    mf_model *m;

    for (int i = 0; i < MF_COUNT(models); i++) {
        T_OK(make(models[i], "image=uint8[28,28,1] label=float[]", &m));
        mf_model_defaults(m, &loss, &metrics);
        T_STREQ(loss, "mean_squared_error");
        T_STREQ(metrics, "mean_absolute_error");
        T_EQ(mf_model_shape(m, m->output).dims[1], 1);
        mf_model_free(m);
    }
    T_OK(make("mlp", "x=float[3] label=float[4]", &m)); /* a row of numbers */
    T_EQ(mf_model_shape(m, m->output).dims[1], 4);
    mf_model_free(m);
    T_FAILS(MF_INVALID_ARGUMENT, "the number of classes of the label (--set classes=N",
            make("mlp", "x=float[3] label=int32[]", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "one class for each sample, not a row of classes",
            make("mlp", "tokens=int32[64] label=int32[64] classes=33", &m));
}
