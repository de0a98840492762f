/* SPDX-License-Identifier: Apache-2.0 */
/* Computing in 16 bits: what changes its type, what does not, and loss scaling. */
#include "graph/graph.h"
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <math.h>
#include <string.h>

enum { SAMPLES = 32, WIDTH = 6 };

/* Numbers whose larger half is the label. */
static mf_dataset *halves(void)
{
    mf_tensor *x, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, WIDTH }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES; i++) {
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

MF_TEST(precision_steps_whose_gradients_overflow_are_left_out)
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

MF_TEST(precision_unknown_ones_are_named)
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

/* Its last layers were not looked at before the types changed. */
MF_TEST(precision_branches_that_meet_in_the_output_keep_its_shape)
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
