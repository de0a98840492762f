/* SPDX-License-Identifier: Apache-2.0 */
/* methods.c - each method of compression on small models with random weights. */
#include "compress/compress.h"
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 300, SIDE = 16 };

static uint32_t noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Smooth noise in ten classes. */
static mf_dataset *images(void)
{
    mf_tensor *image, *label;
    mf_dataset *data;
    uint32_t seed = 5, v = 0;

    T_OK(mf_tensor_new(MF_DTYPE_U8, (int64_t[]){ SAMPLES, SIDE, SIDE, 1 }, 4, &image));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES * SIDE * SIDE; i++) {
        v = (7 * v + (noise(&seed) & 255)) / 8;
        ((uint8_t *)mf_tensor_data(image))[i] = (uint8_t)v;
    }
    for (int i = 0; i < SAMPLES; i++)
        ((int32_t *)mf_tensor_data(label))[i] = i % 10;
    T_OK(mf_dataset_of((const char *const[]){ "image", "label" },
                       (const mf_tensor *const[]){ image, label }, 2, &data));
    mf_tensor_free(image);
    mf_tensor_free(label);
    return data;
}

typedef struct made {
    mf_dataset *data;
    mf_compressed s;
    char path[64];
    mf_buf report;
} made;

/* A model with fresh weights. */
static void make(made *m, const char *text)
{
    mf_model *model;
    mf_trainer *t;

    *m = (made){ .data = images() };
    (void)snprintf(m->path, sizeof m->path, "/tmp/mf-compress-%d", (int)getpid());
    T_OK(mf_model_zoo(text, m->data, &model));
    T_OK(mf_model_compile(model, &(mf_compile_options){ .seed = 4 }, &t));
    T_OK(mf_trainer_save(t, m->path));
    mf_trainer_free(t);
    mf_model_free(model);
    T_OK(mf_compressed_init(&m->s, text, m->data, m->path));
}

static void unmake(made *m)
{
    char name[128];

    (void)snprintf(name, sizeof name, "%s.index", m->path);
    (void)unlink(name);
    (void)snprintf(name, sizeof name, "%s.data-00000-of-00001", m->path);
    (void)unlink(name);
    mf_buf_deinit(&m->report);
    mf_compressed_deinit(&m->s);
    mf_dataset_unref(m->data);
}

static mf_tensor *predict(const mf_compressed *s, mf_dataset *data)
{
    mf_compressed_trainer t;
    mf_tensor *out;

    T_OK(mf_compressed_train(s, &(mf_compile_options){ .threads = 2 }, &t));
    T_OK(mf_predict(t.trainer, data, &out));
    mf_compressed_trainer_free(&t);
    return out;
}

/* Root mean square of the differences, relative to that of the first values. */
static double apart(const mf_tensor *a, const mf_tensor *b)
{
    const float *x = mf_tensor_data(a), *y = mf_tensor_data(b);
    double sum = 0, all = 0;

    T_EQ(mf_tensor_count(a), mf_tensor_count(b));
    for (int64_t i = 0; i < mf_tensor_count(a); i++) {
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(sum / all);
}

static mf_status compress_units(made *m, const char *text)
{
    mf_units_settings how;

    MF_TRY(mf_units_settings_parse(text, m->s.arena, &how));
    return mf_compress_units(&m->s, &how, &m->report);
}

static mf_status compress_rank(made *m, const char *text)
{
    mf_rank_settings how;

    MF_TRY(mf_rank_settings_parse(text, m->s.arena, &how));
    return mf_compress_rank(&m->s, &how, &m->report);
}

/* ---- units ---- */

/* A unit whose kernel is zero gives what its bias says; with a bias of zero and a relu, nothing. So
 * without such units the model says the same. */
MF_TEST(compress_removing_units_without_effect_keeps_the_outputs)
{
    made m;
    mf_tensor *before, *after;
    mf_tensor *kernel;

    make(&m, "mlp units=[32,24]");
    kernel = mf_compressed_find(&m.s, "dense/kernel");
    for (int64_t i = 0; i < kernel->count; i++) {
        if (i % 32 % 2 == 1)
            ((float *)kernel->data)[i] = 0;
    }
    before = predict(&m.s, m.data);
    T_OK(compress_units(&m, "share=0.5 layers=dense"));
    T_STREQ(m.report.data, "dense: kept 16 of 32 units\n");
    T_EQ(mf_compressed_find(&m.s, "dense/kernel")->shape.dims[1], 16);
    T_EQ(mf_compressed_find(&m.s, "dense_1/kernel")->shape.dims[0], 16);
    after = predict(&m.s, m.data);
    T_TRUE(apart(before, after) < 1e-6);
    mf_tensor_free(before);
    mf_tensor_free(after);
    unmake(&m);
}

MF_TEST(compress_removed_filters_remove_their_rows_behind_flatten)
{
    made m;
    mf_tensor *before, *after, *kernel;

    make(&m, "cnn-small width=16");
    kernel = mf_compressed_find(
        &m.s, "conv2d_5/kernel"); /* the last convolution, before the images are flattened */
    T_EQ(kernel->shape.dims[3], 64);
    for (int64_t i = 0; i < kernel->count; i++) {
        if (i % 64 >= 40)
            ((float *)kernel->data)[i] = 0;
    }
    before = predict(&m.s, m.data);
    T_OK(compress_units(&m, "share=0.375 layers=conv2d_5"));
    T_EQ(mf_compressed_find(&m.s, "conv2d_5/kernel")->shape.dims[3], 40);
    T_EQ(mf_compressed_find(&m.s, "batch_normalization_5/gamma")->count, 40);
    T_EQ(mf_compressed_find(&m.s, "dense/kernel")->shape.dims[0] % 40, 0);
    after = predict(&m.s, m.data);
    T_TRUE(apart(before, after) < 1e-5);
    mf_tensor_free(before);
    mf_tensor_free(after);
    unmake(&m);
}

MF_TEST(compress_layers_with_a_residual_connection_keep_their_units)
{
    made m;
    mf_tensor *before, *after, *kernel;

    make(&m, "resnet8 width=16");
    T_FAILS(MF_INVALID_ARGUMENT, "units of layer 'conv2d' cannot be removed",
            compress_units(&m, "share=0.5 layers=conv2d"));
    kernel = mf_compressed_find(&m.s, "residual_block_2/conv1/kernel");
    for (int64_t i = 0; i < kernel->count; i++) {
        if (i % 64 % 2 == 0)
            ((float *)kernel->data)[i] = 0;
    }
    before = predict(&m.s, m.data);
    T_OK(compress_units(&m, "share=0.5 layers=*_2/conv*"));
    T_TRUE(strstr(m.report.data, "residual_block_2/conv1: kept 32 of 64 filters\n") != NULL);
    T_TRUE(strstr(m.report.data, "residual_block_2/conv2: skipped\n") != NULL);
    after = predict(&m.s, m.data);
    T_NEAR(apart(before, after), 0, 1e-5);
    mf_tensor_free(before);
    mf_tensor_free(after);
    T_FAILS(MF_NOT_FOUND, "no layer whose units can be removed is called 'convolution'",
            compress_units(&m, "share=0.5 layers=convolution"));
    T_FAILS(MF_INVALID_ARGUMENT, "from 0 to below 1", compress_units(&m, "share=1.0"));
    unmake(&m);
}

/* ---- low rank ---- */

MF_TEST(compress_low_rank_error_follows_from_the_singular_values)
{
    enum { ROWS = 40, COLUMNS = 24 };
    mf_tensor matrix = { 0 };
    uint32_t seed = 3;

    T_OK(mf_tensor_alloc(&matrix, MF_DTYPE_F32, &MF_SHAPE(ROWS, COLUMNS)));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        ((float *)matrix.data)[i] = (float)noise(&seed) / (float)(1 << 23) - 1.0f;
    for (int64_t rank = 1; rank <= COLUMNS; rank += 5) {
        mf_tensor a = { 0 }, b = { 0 };
        double error, sum = 0, all = 0;
        int64_t r = rank;

        T_OK(mf_low_rank(&matrix, &r, 0, &a, &b, &error));
        T_EQ(r, rank);
        for (int i = 0; i < ROWS; i++) {
            for (int k = 0; k < COLUMNS; k++) {
                const double want = (double)((float *)matrix.data)[i * COLUMNS + k];
                double got = 0;

                for (int64_t j = 0; j < rank; j++)
                    got += (double)((float *)a.data)[i * rank + j] *
                           (double)((float *)b.data)[j * COLUMNS + k];
                sum += (got - want) * (got - want);
                all += want * want;
            }
        }
        T_NEAR(sqrt(sum / all), error, 1e-5);
        mf_tensor_clear(&a);
        mf_tensor_clear(&b);
    }
    mf_tensor_clear(&matrix);
}

MF_TEST(compress_factors_of_full_rank_reproduce_the_kernel)
{
    made m;
    mf_tensor *before, *after, *kernel;

    make(&m, "mlp units=[64]");
    kernel = mf_compressed_find(&m.s, "dense/kernel"); /* of rank 8 */
    for (int64_t i = 0; i < kernel->count; i++)
        ((float *)kernel->data)[i] = (float)((i / 64 * 7 + i % 8 * 3) % 11) / 40.0f - 0.1f;
    before = predict(&m.s, m.data);
    T_OK(compress_rank(&m, "rank=8 layers=dense"));
    T_TRUE(!mf_compressed_find(&m.s, "dense/kernel"));
    T_EQ(mf_compressed_find(&m.s, "dense/kernel_a")->shape.dims[1], 8);
    after = predict(&m.s, m.data);
    T_NEAR(apart(before, after), 0, 1e-4);
    T_FAILS(MF_NOT_FOUND, "no dense layer or convolution",
            compress_rank(&m, "rank=4 layers=dense"));
    T_FAILS(MF_INVALID_ARGUMENT, "one of rank=16 and energy=0.95",
            compress_rank(&m, "rank=4 energy=0.5"));
    mf_tensor_free(before);
    mf_tensor_free(after);
    unmake(&m);
}

MF_TEST(compress_a_convolution_of_low_rank_becomes_two_convolutions)
{
    made m;
    mf_tensor *before, *after;

    make(&m, "cnn-small width=16");
    before = predict(&m.s, m.data);
    T_OK(compress_rank(&m, "rank=13 layers=conv2d_1"));
    T_TRUE(mf_shape_equal(&mf_compressed_find(&m.s, "conv2d_1/kernel_b")->shape,
                          &MF_SHAPE(1, 1, 13, 16)));
    after = predict(&m.s, m.data);
    T_TRUE(apart(before, after) < 0.5);
    mf_tensor_free(before);
    mf_tensor_free(after);
    unmake(&m);
}

MF_TEST(compress_the_rank_follows_from_the_energy)
{
    mf_tensor matrix = { 0 }, a = { 0 }, b = { 0 };
    int64_t rank = 0;
    double error;

    T_OK(mf_tensor_alloc(&matrix, MF_DTYPE_F32, &MF_SHAPE(4, 4)));
    memset(matrix.data, 0, 16 * sizeof(float));
    for (int i = 0; i < 4; i++) /* squares: 64, 16, 4, 1 of 85 */
        ((float *)matrix.data)[5 * i] = (float)(8 >> i);
    T_OK(mf_low_rank(&matrix, &rank, 0.94, &a, &b, &error));
    T_EQ(rank, 2);
    T_NEAR(error, sqrt(5.0 / 85.0), 1e-6);
    mf_tensor_clear(&matrix);
    mf_tensor_clear(&a);
    mf_tensor_clear(&b);
}

/* ---- shared values ---- */

MF_TEST(compress_shared_values_are_few_and_close_to_the_weights)
{
    enum { N = 5000 };
    float *x = mf_calloc(N, sizeof *x), *was = mf_calloc(N, sizeof *was);
    uint32_t seed = 2;
    double error;
    int distinct = 0;

    for (int i = 0; i < N; i++)
        was[i] = x[i] = i % 5 == 0 ? 0.0f : (float)noise(&seed) / (float)(1 << 23) - 1.0f;
    T_OK(mf_share_values(x, N, 16, &error));
    for (int i = 0; i < N; i++) {
        bool seen = x[i] == 0;

        T_EQ(x[i] == 0, was[i] == 0);
        T_TRUE(fabsf(x[i] - was[i]) < 0.1f); /* 16 values between -1 and 1 are 0.125 apart */
        for (int k = 0; k < i && !seen; k++)
            seen = x[k] == x[i];
        distinct += !seen;
    }
    T_TRUE(distinct <= 16);
    T_TRUE(error < 0.04); /* 0.125 / sqrt(12) */
    T_OK(mf_share_values(x, N, 16, &error));
    T_NEAR(error, 0, 1e-6); /* shared already */
    mf_free(x);
    mf_free(was);
}

/* ---- bytes ---- */

MF_TEST(compress_int8_outputs_are_close_to_float_outputs)
{
    static const char *const ways[] = { "int8", "int8 per=tensor", "int8 range=mean samples=600" };

    for (int i = 0; i < MF_COUNT(ways); i++) {
        made m;
        mf_quantize_settings q;
        mf_tensor *before, *after, *rounded;

        make(&m, "cnn-small width=16");
        before = predict(&m.s, m.data);
        T_OK(mf_quantize_settings_parse(ways[i], m.s.arena, &q));
        T_OK(mf_compress_quantize(&m.s, &q, m.data, NULL, &m.report));
        after = predict(&m.s, m.data);
        T_TRUE(apart(before, after) < 0.1);
        T_OK(mf_compress_round(&m.s, &q)); /* no effect: kernels are rounded anyway */
        rounded = predict(&m.s, m.data);
        T_TRUE(apart(after, rounded) < 1e-6);
        mf_tensor_free(before);
        mf_tensor_free(after);
        mf_tensor_free(rounded);
        unmake(&m);
    }
}

MF_TEST(compress_int8_and_low_rank_can_be_combined)
{
    made m;
    mf_quantize_settings q;
    mf_tensor *before, *after;

    make(&m, "mlp units=[48,32]");
    T_OK(compress_rank(&m, "rank=12"));
    before = predict(&m.s, m.data);
    T_OK(mf_quantize_settings_parse("int8", m.s.arena, &q));
    T_OK(mf_compress_quantize(&m.s, &q, m.data, NULL, &m.report));
    after = predict(&m.s, m.data);
    T_TRUE(apart(before, after) < 0.1);
    mf_tensor_free(before);
    mf_tensor_free(after);
    unmake(&m);
}

/* Training of a model that computes in int8 rounds as int8 inference does. */
MF_TEST(compress_training_rounds_as_int8_inference_does)
{
    made m;
    mf_quantize_settings q;
    mf_compressed_trainer t;
    mf_result evaluated[MF_MAX_RESULTS];
    double seen = 0;
    int n;

    make(&m, "mlp units=[32]");
    T_OK(mf_quantize_settings_parse("int8", m.s.arena, &q));
    T_OK(mf_compress_quantize(&m.s, &q, m.data, NULL, &m.report));
    T_OK(mf_compressed_train(
        &m.s, &(mf_compile_options){ .optimizer = "sgd", .learning_rate = 1e-30 }, &t));
    T_OK(mf_evaluate(t.trainer, m.data, evaluated, &n));
    for (int i = 0; i < 3; i++) {
        mf_result results[MF_MAX_RESULTS];
        mf_iterator *it;
        const mf_batch *batch;

        T_OK(mf_iterator_new(
            m.data, &(mf_iterator_options){ .batch = 100, .in_order = true, .epochs = 1 }, &it));
        for (int b = 0; b <= i; b++)
            T_OK(mf_iterator_next(it, &batch));
        T_OK(mf_trainer_run_step(t.trainer, m.data, batch, results));
        seen += results[0].value / 3;
        mf_iterator_free(it);
    }
    T_NEAR(seen, evaluated[0].value, 0.02 * evaluated[0].value);
    mf_compressed_trainer_free(&t);
    unmake(&m);
}
