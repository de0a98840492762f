/* SPDX-License-Identifier: Apache-2.0 */
/* precision.c - mixed precision: which tensors have 16 bits, loss scaling, and storage in 16 bits.
 */
#include "formats/tensors.h"
#include "graph/graph.h"
#include "mf_test.h"
#include "unit/train/loop/folder.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <string.h>

enum { SAMPLES = 32, WIDTH = 6, MANY = 8192 };

/* Two halves of numbers; the label is the larger half. */
static mf_dataset *numbers(int n)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ n, WIDTH }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ n }, 1, &label));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < WIDTH; k++)
            ((float *)mf_tensor_data(x))[i * WIDTH + k] =
                (float)((i * 13 + k * 7) % 10) * 0.1f + ((k < WIDTH / 2) == i % 2);
        ((int32_t *)mf_tensor_data(label))[i] = i % 2;
    }
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return set;
}

static mf_dataset *halves(void)
{
    return numbers(SAMPLES);
}

static mf_trainer *trainer(const char *precision, mf_model **m)
{
    mf_trainer *t;
    mf_output x;

    T_OK(mf_model_new(m));
    x = mf_model_input(*m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    x = mf_layer(*m, "Dense", MF_IN(x), "units=8 activation=relu");
    x = mf_layer(*m, "LayerNormalization", MF_IN(x), NULL);
    mf_model_output(*m, mf_layer(*m, "Dense", MF_IN(x), "units=2"));
    T_OK(mf_model_compile(*m,
                          &(mf_compile_options){ .optimizer = "momentum learning_rate=0.1",
                                                 .metrics = "accuracy",
                                                 .precision = precision,
                                                 .seed = 2 },
                          &t));
    return t;
}

static mf_dtype output_type(const mf_model *m, const char *name)
{
    mf_node *n = mf_graph_find(mf_model_graph((mf_model *)(uintptr_t)m), name);

    return n ? n->out_types[0] : MF_DTYPE_INVALID;
}

static double accuracy_after(const char *precision, int steps)
{
    mf_dataset *set = halves();
    mf_result results[MF_MAX_RESULTS];
    mf_model *m;
    mf_trainer *t = trainer(precision, &m);
    int n;

    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = steps, .batch = 8 }));
    T_OK(mf_evaluate(t, set, results, &n));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
    return results[1].value;
}

MF_TEST(precision_products_are_low_and_normalisation_is_float)
{
    mf_model *m;
    mf_trainer *t = trainer("bf16", &m);

    T_EQ(output_type(m, "dense/MatMul/bfloat16"), MF_DTYPE_BF16);
    T_EQ(output_type(m, "dense/Relu/bfloat16"), MF_DTYPE_BF16);
    T_EQ(output_type(m, "dense_1/MatMul/bfloat16"), MF_DTYPE_BF16);
    T_EQ(output_type(m, "dense/kernel/Read"), MF_DTYPE_F32);
    for (int64_t i = 0; i < mf_model_graph(m)->n_nodes; i++) {
        const mf_node *n = mf_model_graph(m)->nodes[i];

        if (strncmp(n->name, "layer_normalization/", 20) == 0 && n->n_outputs > 0)
            T_TRUE(n->out_types[0] != MF_DTYPE_BF16);
    }
    mf_trainer_free(t);
    mf_model_free(m);
}

MF_TEST(precision_layers_can_be_kept_by_name)
{
    mf_model *m;
    mf_trainer *t = trainer("bf16 keep=dense_1/*", &m);

    T_EQ(output_type(m, "dense/MatMul/bfloat16"), MF_DTYPE_BF16);
    T_EQ(output_type(m, "dense_1/MatMul/bfloat16"), MF_DTYPE_INVALID);
    mf_trainer_free(t);
    mf_model_free(m);
}

MF_TEST(precision_all_kinds_learn)
{
    T_EQ_F(accuracy_after("fp32", 60), 1.0);
    T_EQ_F(accuracy_after("bf16", 60), 1.0);
    T_EQ_F(accuracy_after("fp16", 60), 1.0);
}

/* ---- memory ---- */

/* Peak memory of a step of a model with three layers, from its account. There are so many
 * samples that weights and their gradients, which stay floats, are negligible. */
static mf_step_memory step_memory(const char *precision)
{
    mf_dataset *set = numbers(MANY);
    mf_step_memory memory;
    mf_model *m;
    mf_trainer *t;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    for (int i = 0; i < 3; i++)
        x = mf_layer(m, "Dense", MF_IN(x), "units=128 activation=relu");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=2"));
    T_OK(mf_model_compile(
        m, &(mf_compile_options){ .optimizer = "sgd", .precision = precision, .threads = 1 }, &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 1, .batch = MANY }));
    mf_trainer_memory(t, &memory);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
    return memory;
}

/* On processors without 16-bit arithmetic, kernels widen one tile at a time. These buffers are
 * in the measured memory, but not in the planned memory. */
MF_TEST(precision_halves_the_memory_of_tensors_of_low_type)
{
    static const char *const low[] = { "bf16", "fp16" };
    const mf_step_memory fp32 = step_memory("fp32"), kept = step_memory("bf16 keep=*");

    T_TRUE(fp32.step >= MANY * 4 * 128 * 4); /* three layers' values, and a gradient on its way */
    T_EQ(kept.step, fp32.step);
    for (int i = 0; i < MF_COUNT(low); i++) {
        const mf_step_memory m = step_memory(low[i]);

        T_NEAR((double)m.planned / (double)fp32.planned, 0.5, 0.01);
        T_NEAR((double)m.step / (double)fp32.step, 0.5, 0.03);
        T_EQ(m.variables - fp32.variables,
             i * 8); /* weights are floats; fp16 has a scale besides */
    }
}

MF_TEST(precision_steps_whose_gradients_overflow_are_skipped)
{
    mf_dataset *set = halves();
    char before[65], after[65];
    mf_model *m;
    mf_trainer *t = trainer("fp16 loss_scale=1e30", &m);

    T_OK(mf_trainer_sha256(t, before));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 3, .batch = 8 }));
    T_OK(mf_trainer_sha256(t, after));
    T_STREQ(after, before); /* the factor is still far too large */
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 150, .batch = 8 }));
    T_OK(mf_trainer_sha256(t, after));
    T_TRUE(strcmp(after, before) != 0);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(precision_errors_name_unknown_settings)
{
    mf_model *m;
    mf_trainer *t;

    T_OK(mf_model_new(&m));
    mf_output x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=2"));
    T_FAILS(MF_INVALID_ARGUMENT, "no precision 'int4'",
            mf_model_compile(m, &(mf_compile_options){ .precision = "int4" }, &t));
    mf_model_free(m);
}

/* Regression: the last layers were not checked before the types changed. */
MF_TEST(precision_branches_joined_in_the_output_keep_its_shape)
{
    static const char *const kinds[] = { "bf16", "fp16" };

    for (int i = 0; i < 2; i++) {
        mf_dataset *set;
        mf_model *m;
        mf_trainer *t;

        T_OK(mf_dataset_open("synthetic-ctr", NULL, &set));
        T_OK(mf_model_zoo("wide-deep", set, &m));
        T_OK(mf_model_compile(
            m, &(mf_compile_options){ .loss = "binary_crossentropy", .precision = kinds[i] }, &t));
        mf_trainer_free(t);
        mf_model_free(m);
        mf_dataset_unref(set);
    }
}

/* ---- the type that is stored ---- */

static mf_tensor read_stored(const char *prefix, const char *name)
{
    mf_tensor value = { 0 };
    mf_tensors *file;

    T_OK(mf_tensors_open(prefix, &file));
    T_OK(mf_tensors_read(file, mf_tensors_find(file, name), &value));
    mf_tensors_close(file);
    return value;
}

static void fit(mf_trainer *t, int64_t steps)
{
    mf_dataset *set = halves();

    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = steps, .batch = 8 }));
    mf_dataset_unref(set);
}

/* Weights are updated in 32 bits; the checkpoint stores them in 16 bits, and slots unchanged. A
 * restored training continues from the rounded weights, with the same bits each time. */
static void check_stored(const char *precision, mf_dtype type, float (*round)(float))
{
    static const char weight[] = "dense/kernel", slot[] = "dense/kernel/Momentum";
    char dir[32], prefix[FOLDER_PATH], plain[65], saved[65], first[65], second[65];
    mf_model *a_model, *b_model;
    mf_trainer *a = trainer("fp32", &a_model), *b;
    mf_tensor kept, kept_slot, *now, *now_slot;

    folder_new(dir);
    (void)snprintf(prefix, sizeof prefix, "%s/weights", dir);
    fit(a, 5);
    T_OK(mf_trainer_sha256(a, plain));
    mf_trainer_free(a);
    mf_model_free(a_model);
    a = trainer(precision, &a_model);
    fit(a, 5);
    T_OK(mf_trainer_save(a, prefix));
    T_OK(mf_trainer_sha256(a, saved));
    T_STREQ(saved, plain); /* of what is updated, not of what is stored */
    kept = read_stored(prefix, weight);
    kept_slot = read_stored(prefix, slot);
    T_EQ(kept.dtype, type);
    T_EQ(kept_slot.dtype, MF_DTYPE_F32);
    T_OK(mf_trainer_get(a, weight, &now));
    T_OK(mf_trainer_get(a, slot, &now_slot));
    for (int64_t i = 0; i < kept.count; i++)
        T_TRUE(mf_tensor_float_at(&kept, i) == (double)round(((const float *)now->data)[i]));
    T_TRUE(memcmp(kept_slot.data, now_slot->data, mf_tensor_bytes(now_slot)) == 0);
    T_TRUE(mf_tensor_bytes(&kept) * 2 == mf_tensor_bytes(now));
    for (int i = 0; i < 2; i++) {
        b = trainer(precision, &b_model);
        T_OK(mf_trainer_restore(b, prefix));
        T_EQ(mf_trainer_step(b), 5);
        fit(b, 9);
        T_OK(mf_trainer_sha256(b, i ? second : first));
        mf_trainer_free(b);
        mf_model_free(b_model);
    }
    T_STREQ(second, first);
    mf_tensor_clear(&kept);
    mf_tensor_clear(&kept_slot);
    mf_tensor_free(now);
    mf_tensor_free(now_slot);
    mf_trainer_free(a);
    mf_model_free(a_model);
    folder_remove(dir);
}

static float by_bf16(float x)
{
    return mf_bf16_to_f32(mf_bf16_from_f32(x));
}

static float by_f16(float x)
{
    return mf_f16_to_f32(mf_f16_from_f32(x));
}

MF_TEST(precision_weights_are_stored_in_the_configured_type)
{
    check_stored("fp32 stored=bf16", MF_DTYPE_BF16, by_bf16);
    check_stored("fp32 stored=fp16", MF_DTYPE_F16, by_f16);
}

MF_TEST(precision_a_weight_that_the_stored_type_cannot_hold_is_named)
{
    char dir[32], prefix[FOLDER_PATH];
    mf_model *m;
    mf_trainer *t = trainer("bf16 stored=fp16", &m);
    mf_tensor *w;

    folder_new(dir);
    (void)snprintf(prefix, sizeof prefix, "%s/weights", dir);
    T_OK(mf_trainer_get(t, "dense_1/bias", &w));
    ((float *)w->data)[1] = 70000;
    T_OK(mf_trainer_set(t, "dense_1/bias", w));
    T_FAILS(MF_OUT_OF_RANGE, "the weight 'dense_1/bias' has the number 70000",
            mf_trainer_save(t, prefix));
    ((float *)w->data)[1] = INFINITY; /* the type can hold this value */
    T_OK(mf_trainer_set(t, "dense_1/bias", w));
    T_OK(mf_trainer_save(t, prefix));
    mf_tensor_free(w);
    mf_trainer_free(t);
    mf_model_free(m);
    folder_remove(dir);
}

MF_TEST(precision_types_that_cannot_be_stored_are_named)
{
    mf_model *m;
    mf_trainer *t;

    T_OK(mf_model_new(&m));
    mf_output x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ WIDTH }, 1);
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=2"));
    T_FAILS(MF_INVALID_ARGUMENT, "cannot be stored as 'int8'",
            mf_model_compile(m, &(mf_compile_options){ .precision = "bf16 stored=int8" }, &t));
    mf_model_free(m);
}
