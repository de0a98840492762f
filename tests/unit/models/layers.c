/* SPDX-License-Identifier: Apache-2.0 */
/* layers.c - shapes, parameters, names and invalid settings of all layers. */
#include "mf_test.h"
#include "models/layer.h"
#include "unit/models/model_run.h"

#include <string.h>

typedef struct case_ {
    const char *kind, *settings;
    mf_dtype dtype;
    mf_shape in; /* without the batch */
    int copies; /* inputs */
    const char *out;
    int64_t parameters;
} case_;

#define F32 MF_DTYPE_F32
#define I32 MF_DTYPE_I32
/* MF_SHAPE() as a constant expression. */
#define DIMS(...)                                                                                  \
    {                                                                                              \
        (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),                               \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define IMAGE DIMS(8, 6, 4)
#define TEXT DIMS(10, 6)

static const case_ cases[] = {
    { "Dense", "units=7", F32, DIMS(3), 1, "[?,7]", 28 },
    { "Dense", "units=7 use_bias=false", F32, TEXT, 1, "[?,10,7]", 42 },
    { "Conv1D", "filters=5 kernel_size=3", F32, TEXT, 1, "[?,8,5]", 95 },
    { "Conv1D", "filters=5 kernel_size=3 padding=causal", F32, TEXT, 1, "[?,10,5]", 95 },
    { "Conv2D", "filters=5 kernel_size=3 strides=2 padding=same", F32, IMAGE, 1, "[?,4,3,5]", 185 },
    { "Conv2D", "filters=6 kernel_size=[3,1] groups=2", F32, IMAGE, 1, "[?,6,6,6]", 42 },
    { "DepthwiseConv2D", "kernel_size=3 depth_multiplier=2", F32, IMAGE, 1, "[?,6,4,8]", 80 },
    { "SeparableConv2D", "filters=5 kernel_size=3", F32, IMAGE, 1, "[?,6,4,5]", 36 + 20 + 5 },
    { "MaxPooling2D", "", F32, IMAGE, 1, "[?,4,3,4]", 0 },
    { "AveragePooling2D", "pool_size=3 strides=1 padding=same", F32, IMAGE, 1, "[?,8,6,4]", 0 },
    { "GlobalAveragePooling1D", "", F32, TEXT, 1, "[?,6]", 0 },
    { "GlobalAveragePooling2D", "keepdims=true", F32, IMAGE, 1, "[?,1,1,4]", 0 },
    { "GlobalMaxPooling1D", "", F32, TEXT, 1, "[?,6]", 0 },
    { "GlobalMaxPooling2D", "", F32, IMAGE, 1, "[?,4]", 0 },
    { "BatchNormalization", "", F32, IMAGE, 1, "[?,8,6,4]", 16 },
    { "LayerNormalization", "center=false", F32, TEXT, 1, "[?,10,6]", 6 },
    { "GroupNormalization", "groups=2", F32, IMAGE, 1, "[?,8,6,4]", 8 },
    { "UnitNormalization", "", F32, TEXT, 1, "[?,10,6]", 0 },
    { "RBM", "units=5 chains=7", F32, DIMS(3), 1, "[?]", 15 + 3 + 5 + 21 },
    { "Dropout", "rate=0.5", F32, TEXT, 1, "[?,10,6]", 0 },
    { "SpatialDropout1D", "rate=0.5", F32, TEXT, 1, "[?,10,6]", 0 },
    { "SpatialDropout2D", "rate=0.5", F32, IMAGE, 1, "[?,8,6,4]", 0 },
    { "Embedding", "input_dim=9 output_dim=5", I32, DIMS(10), 1, "[?,10,5]", 45 },
    { "PositionEmbedding", "", F32, TEXT, 1, "[?,10,6]", 60 },
    { "Hashing", "num_bins=9", I32, DIMS(10), 1, "[?,10]", 0 },
    { "HashedFields", "num_bins=9 pairs=[0,1,2,1]", I32, DIMS(3), 1, "[?,5]", 0 },
    { "CategoryEncoding", "num_tokens=9", I32, DIMS(10), 1, "[?,9]", 0 },
    { "SimpleRNN", "units=5", F32, TEXT, 1, "[?,5]", 60 },
    { "LSTM", "units=5 return_sequences=true", F32, TEXT, 1, "[?,10,5]", 240 },
    { "GRU", "units=5", F32, TEXT, 1, "[?,5]", 195 },
    { "MultiHeadAttention", "num_heads=2 key_dim=3", F32, TEXT, 1, "[?,10,6]", 4 * 42 },
    { "Add", "", F32, TEXT, 3, "[?,10,6]", 0 },
    { "Subtract", "", F32, TEXT, 2, "[?,10,6]", 0 },
    { "Multiply", "", F32, TEXT, 2, "[?,10,6]", 0 },
    { "Average", "", F32, TEXT, 3, "[?,10,6]", 0 },
    { "Maximum", "", F32, TEXT, 2, "[?,10,6]", 0 },
    { "Concatenate", "", F32, TEXT, 3, "[?,10,18]", 0 },
    { "Flatten", "", F32, IMAGE, 1, "[?,192]", 0 },
    { "Reshape", "target_shape=[-1,4]", F32, IMAGE, 1, "[?,48,4]", 0 },
    { "Permute", "dims=[3,1,2]", F32, IMAGE, 1, "[?,4,8,6]", 0 },
    { "ZeroPadding2D", "padding=[1,2]", F32, IMAGE, 1, "[?,10,10,4]", 0 },
    { "Rescaling", "scale=0.5", MF_DTYPE_U8, IMAGE, 1, "[?,8,6,4]", 0 },
    { "Activation", "activation=gelu", F32, TEXT, 1, "[?,10,6]", 0 },
    { "ReLU", "", F32, TEXT, 1, "[?,10,6]", 0 },
    { "LeakyReLU", "", F32, TEXT, 1, "[?,10,6]", 0 },
    { "Softmax", "", F32, TEXT, 1, "[?,10,6]", 0 },
    { "ResidualBlock", "filters=4", F32, IMAGE, 1, "[?,8,6,4]", 2 * (144 + 16) },
    { "ResidualBlock", "filters=8 strides=2", F32, IMAGE, 1, "[?,4,3,8]", 288 + 576 + 32 + 3 * 32 },
    { "TransformerBlock", "num_heads=2 units=12", F32, TEXT, 1, "[?,10,6]",
      4 * 42 + 2 * 12 + 84 + 78 },
    { "TransformerBlock", "num_heads=2 units=12 experts=3", F32, TEXT, 1, "[?,10,6]",
      4 * 42 + 2 * 12 + 18 + 3 * 2 * 72 },
    { "MixtureOfExperts", "experts=4 units=12 top=1", F32, TEXT, 1, "[?,10,6]", 24 + 4 * 2 * 72 },
    { "RegionProposals", "anchors=[4,8,8,4] image=[32,24] filters=5 proposals=3", F32, IMAGE, 1,
      "[?,3,4]", 9 * 4 * 5 + 5 + 5 * 2 + 2 + 5 * 8 + 8 },
    { "RoIAlign", "size=3", F32, IMAGE, 2, "[?,6,36]", 0 },
    { "Detections", "most=7", F32, DIMS(10, 4), 3, "[?,7,6]", 0 },
};

static mf_output place(mf_model *m, const case_ *c)
{
    mf_output x = mf_model_input(m, "x", c->dtype, c->in.dims, c->in.rank);
    const mf_output in[] = { x, x, x };
    mf_output list[4];

    memcpy(list, in, sizeof in);
    if (strcmp(c->kind, "RoIAlign") == 0) /* the only one whose inputs differ in rank */
        list[1] = mf_model_input(m, "boxes", MF_DTYPE_F32, (int64_t[]){ 6, 4 }, 2);
    list[c->copies] = (mf_output)MF_END;
    return mf_layer(m, c->kind, list, "%s", c->settings);
}

MF_TEST(models_layers_have_the_expected_shapes_and_parameters)
{
    char text[MF_SHAPE_TEXT];

    for (int i = 0; i < MF_COUNT(cases); i++) {
        mf_model *m;

        T_OK(mf_model_new(&m));
        const mf_output y = place(m, &cases[i]);
        T_OK(mf_model_status(m));
        const mf_shape s = mf_model_shape(m, y);
        T_STREQ(mf_shape_text(&s, text), cases[i].out);
        T_EQ(mf_model_parameters(m, NULL), cases[i].parameters);
        T_STREQ(m->made[0].kind, cases[i].kind);
        T_EQ(m->made[0].n_weights, m->n_weights);
        mf_model_free(m);
    }
}

MF_TEST(models_layers_are_all_tested)
{
    for (const mf_layer_kind *const *f = mf_layer_families; *f; f++) {
        for (const mf_layer_kind *k = *f; k->name; k++) {
            bool found = false;

            for (int i = 0; i < MF_COUNT(cases); i++)
                found |= strcmp(cases[i].kind, k->name) == 0;
            if (!found)
                T_FAIL("no case for layer %s", k->name);
        }
    }
}

static const struct {
    const char *kind, *settings;
    mf_dtype dtype;
    mf_shape in;
    int copies;
    const char *message;
} bad[] = {
    { "Dens", "units=3", F32, TEXT, 1, "there is no layer 'Dens'; did you mean 'Dense'?" },
    { "Dense", "", F32, TEXT, 1, "Dense needs the setting units" },
    { "Dense", "units=3 activation=rely", F32, TEXT, 1,
      "layer 'dense': there is no activation 'rely'" },
    { "Dense", "units=3 kernel_initializer=he_norm", F32, TEXT, 1, "did you mean 'he_normal'" },
    { "Conv2D", "filters=3 kernel_size=3", F32, TEXT, 1, "at least 4 dimensions" },
    { "Conv2D", "filters=3 kernel_size=[3,3,3]", F32, IMAGE, 1, "layer 'conv2d': kernel_size" },
    { "Conv2D", "filters=3 kernel_size=3 padding=full", F32, IMAGE, 1, "one of valid, same" },
    { "Conv2D", "filters=3 kernel_size=3 groups=3", F32, IMAGE, 1, "3 groups" },
    { "Dropout", "rate=1.0", F32, TEXT, 1, "in [0,1), but is 1" },
    { "Reshape", "target_shape=[7]", F32, IMAGE, 1, "the 192 elements of a sample" },
    { "Permute", "dims=[1,1,2]", F32, IMAGE, 1, "1 to 3 once" },
    { "ZeroPadding2D", "padding=[1,2,3]", F32, IMAGE, 1, "one, two or four" },
    { "Add", "", F32, TEXT, 1, "layer Add takes 2 or more inputs, but got 1" },
    { "Concatenate", "axis=0", F32, TEXT, 2, "axis=0 is not a dimension of a sample" },
    { "GroupNormalization", "groups=3", F32, IMAGE, 1, "groups=3 does not divide 4 channels" },
    { "LSTM", "units=3", F32, DIMS(2000, 2), 1, "1 to 1024 steps" },
    { "RBM", "units=3", F32, IMAGE, 1, "add Flatten before it" },
    { "HashedFields", "num_bins=3 pairs=[0,3]", I32, DIMS(3), 1, "each, from 0 to 2" },
    { "TransformerBlock", "num_heads=4 units=8", F32, TEXT, 1,
      "4 heads do not divide a width of 6" },
};

MF_TEST(models_layers_reject_invalid_settings)
{
    for (int i = 0; i < MF_COUNT(bad); i++) {
        const case_ c = {
            bad[i].kind, bad[i].settings, bad[i].dtype, bad[i].in, bad[i].copies, "", 0
        };
        mf_model *m;

        T_OK(mf_model_new(&m));
        T_TRUE(place(m, &c).node == NULL);
        T_TRUE(mf_layer(m, "ReLU", MF_IN(m->inputs[0]), "%s", "").node == NULL);
        T_FAILS(strstr(bad[i].message, "there is no layer") || strstr(bad[i].message, "he_normal")
                    ? MF_NOT_FOUND
                    : MF_INVALID_ARGUMENT,
                bad[i].message, mf_model_status(m));
        mf_model_free(m);
    }
}

MF_TEST(models_layers_are_named_as_keras_names_them)
{
    mf_model *m;
    mf_output x;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", F32, T_DIMS(10, 6));
    x = mf_layer(m, "Dense", MF_IN(x), "units=3 l2=0.5");
    x = mf_layer(m, "Dense", MF_IN(x), "units=3 l1=0.25 trainable=false");
    x = mf_layer(m, "Dense", MF_IN(x), "units=3 name=last");
    x = mf_layer(m, "LeakyReLU", MF_IN(x), "%s", "");
    (void)mf_layer(m, "SimpleRNN", MF_IN(x), "units=2");
    T_OK(mf_model_status(m));
    T_STREQ(m->made[3].name, "leaky_re_lu");
    T_TRUE(mf_model_weight(m, "simple_rnn/simple_rnn_cell/recurrent_kernel") != NULL);
    T_TRUE(mf_model_weight(m, "last/bias") != NULL);
    T_NEAR(mf_model_weight(m, "dense/kernel")->l2, 0.5, 0);
    T_NEAR(mf_model_weight(m, "dense/bias")->l2, 0.0, 0);
    T_NEAR(mf_model_weight(m, "dense_1/kernel")->l1, 0.25, 0);
    T_TRUE(mf_model_weight(m, "dense/kernel")->trained);
    T_TRUE(!mf_model_weight(m, "dense_1/kernel")->trained);
    (void)mf_layer(m, "Dense", MF_IN(x), "units=3 name=last");
    T_FAILS(MF_INVALID_ARGUMENT, "there is a weight 'kernel' already", mf_model_status(m));
    mf_model_free(m);
}

MF_TEST(models_layers_with_trainable_false_use_moving_statistics)
{
    mf_model *m;
    mf_output x, y[2];
    mf_tensor *in, *out[2];

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", F32, T_DIMS(4, 4, 2));
    y[0] = mf_layer(m, "ResidualBlock", MF_IN(x), "filters=2 trainable=false");
    T_OK(mf_model_status(m));
    y[1] = t_model_training(m, y[0], 1);
    mf_session *s = t_model_start(m, 3);
    in = t_floats(T_DIMS(2, 4, 4, 2), NULL, 0.1f);
    for (int i = 0; i < 2; i++)
        out[i] = t_model_fetch(s, m, y[i], &in);
    T_TRUE(memcmp(mf_tensor_data(out[0]), mf_tensor_data(out[1]), mf_tensor_bytes(out[0])) == 0);
    for (int i = 0; i < 2; i++)
        mf_tensor_free(out[i]);
    mf_tensor_free(in);
    mf_session_free(s);
    mf_model_free(m);
}
