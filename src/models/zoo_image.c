/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_image.c - models of images. */
#include "models/zoo.h"

#include <meshflow/mesh.h>

#include <string.h>

/* ---- inputs and outputs ---- */

static mf_output zoo_image_layer(mf_zoo_call *z, const char *kind, mf_output x,
                                 const char *settings)
{
    return mf_layer(z->model, kind, MF_IN(x), "%s", settings);
}

/* Scales bytes to [0,1]; other types are converted to float. */
static mf_output zoo_image_numbers(mf_zoo_call *z, mf_output x, mf_dtype dtype)
{
    if (!x.node || dtype == MF_DTYPE_F32)
        return x;
    return mf_layer(z->model, "Rescaling", MF_IN(x), "scale=%.9g",
                    dtype == MF_DTYPE_U8 ? 1.0 / 255.0 : 1.0);
}

/* [h,w,c]; a channel dimension is added if there is none. */
static mf_output zoo_image(mf_zoo_call *z)
{
    const mf_column *c = mf_zoo_column(z, "image");
    mf_output x = mf_zoo_input(z, "image", 2, 3);

    if (!x.node)
        return x;
    mf_name_dims(z->model->graph, x,
                 c->rank == 3 ? "batch,height,width,channels" : "batch,height,width");
    x = zoo_image_numbers(z, x, c->dtype);
    return c->rank == 3 ? x
                        : mf_layer(z->model, "Reshape", MF_IN(x), "target_shape=[%lld,%lld,1]",
                                   (long long)c->dims[0], (long long)c->dims[1]);
}

/* ---- rows of numbers ---- */

/* The image, or the only column besides the label. */
static const char *only_column(const mf_zoo_call *z)
{
    const char *name = "image";
    int others = 0;

    for (int i = 0; i < z->n_columns && !mf_zoo_column(z, "image"); i++) {
        if (strcmp(z->columns[i].name, "label") != 0 && others++ == 0)
            name = z->columns[i].name;
    }
    return others > 1 ? "image" : name;
}

static mf_output mlp_build(mf_zoo_call *z)
{
    const char *name = only_column(z);
    const double dropout = mf_options_float(&z->o, "dropout");
    int64_t n;
    const int64_t *units = mf_options_ints(&z->o, "units", &n);
    mf_output x = mf_zoo_input(z, name, 0, MF_MAX_RANK - 1);

    if (!x.node)
        return x;
    x = zoo_image_layer(z, "Flatten", zoo_image_numbers(z, x, mf_zoo_column(z, name)->dtype), "");
    for (int64_t i = 0; i < n; i++) {
        x = mf_layer(z->model, "Dense", MF_IN(x), "units=%lld activation=%s dim=hidden",
                     (long long)units[i], mf_options_string(&z->o, "activation"));
        if (dropout > 0.0)
            x = mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", dropout);
    }
    return mf_zoo_scores(z, x, true);
}

/* ---- convolutions ---- */

static mf_output fashion_cnn_build(mf_zoo_call *z)
{
    mf_output x = zoo_image(z);

    x = zoo_image_layer(z, "Conv2D", x,
                        "filters=32 kernel_size=3 padding=same activation=relu dim=filters");
    x = zoo_image_layer(z, "MaxPooling2D", x, "");
    x = zoo_image_layer(z, "Conv2D", x,
                        "filters=64 kernel_size=3 padding=same activation=relu dim=filters");
    x = zoo_image_layer(z, "MaxPooling2D", x, "");
    x = zoo_image_layer(z, "Flatten", x, "");
    x = zoo_image_layer(z, "Dense", x, "units=128 activation=relu dim=hidden");
    return mf_zoo_scores(z, x, false);
}

static mf_output cnn_build(mf_zoo_call *z)
{
    mf_output x = zoo_image(z);

    x = zoo_image_layer(z, "Conv2D", x,
                        "filters=32 kernel_size=5 padding=same activation=relu dim=filters");
    x = zoo_image_layer(z, "MaxPooling2D", x, "");
    x = zoo_image_layer(z, "Conv2D", x,
                        "filters=64 kernel_size=5 padding=same activation=relu dim=filters");
    x = zoo_image_layer(z, "MaxPooling2D", x, "");
    x = zoo_image_layer(z, "Flatten", x, "");
    x = zoo_image_layer(z, "Dense", x, "units=1024 activation=relu dim=hidden");
    x = mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", mf_options_float(&z->o, "dropout"));
    return mf_zoo_scores(z, x, false);
}

static mf_output small_conv(mf_zoo_call *z, mf_output x, int64_t filters, bool pool)
{
    x = mf_layer(z->model, "Conv2D", MF_IN(x),
                 "filters=%lld kernel_size=3 padding=same use_bias=false "
                 "kernel_initializer=he_normal",
                 (long long)filters);
    if (pool)
        x = zoo_image_layer(z, "MaxPooling2D", x, "");
    x = mf_layer(z->model, "BatchNormalization", MF_IN(x), "momentum=%.9g",
                 mf_options_float(&z->o, "momentum"));
    return zoo_image_layer(z, "ReLU", x, "");
}

/* Two convolutions, then pooling that halves height and width. Pooling comes before the second
 * normalisation: a quarter of the elements to normalise, and the maximum commutes with a positive
 * scale. */
static mf_output small_stage(mf_zoo_call *z, mf_output x, int64_t filters)
{
    x = small_conv(z, small_conv(z, x, filters, false), filters, true);
    return mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g",
                    0.5 * mf_options_float(&z->o, "dropout"));
}

static mf_output cnn_small_build(mf_zoo_call *z)
{
    const int64_t width = mf_options_int(&z->o, "width");
    mf_output x = zoo_image(z);

    for (int stage = 0; stage < 3; stage++)
        x = small_stage(z, x, width << stage);
    x = zoo_image_layer(z, "Flatten", x, "");
    x = mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", mf_options_float(&z->o, "dropout"));
    return mf_zoo_scores(z, x, false);
}

/* ---- residual networks (He et al. 2015, section 4.2) ---- */

/* Three stages of 1, 2 and 4 times `width` filters; the second and third halve the image. */
static mf_output resnet(mf_zoo_call *z, int blocks)
{
    const int64_t width = mf_options_int(&z->o, "width");
    const double l2 = mf_options_float(&z->o, "l2"), momentum = mf_options_float(&z->o, "momentum");
    mf_output x = zoo_image(z);

    x = mf_layer(z->model, "Conv2D", MF_IN(x),
                 "filters=%lld kernel_size=3 padding=same use_bias=false "
                 "kernel_initializer=he_normal l2=%.9g",
                 (long long)width, l2);
    x = mf_layer(z->model, "BatchNormalization", MF_IN(x), "momentum=%.9g", momentum);
    x = zoo_image_layer(z, "ReLU", x, "");
    for (int stage = 0; stage < 3; stage++) {
        for (int block = 0; block < blocks; block++)
            x = mf_layer(z->model, "ResidualBlock", MF_IN(x),
                         "filters=%lld strides=%d l2=%.9g momentum=%.9g", (long long)width << stage,
                         stage > 0 && block == 0 ? 2 : 1, l2, momentum);
    }
    return mf_zoo_scores(z, zoo_image_layer(z, "GlobalAveragePooling2D", x, ""), false);
}

static mf_output resnet8_build(mf_zoo_call *z)
{
    return resnet(z, 1);
}

static mf_output resnet20_build(mf_zoo_call *z)
{
    return resnet(z, 3);
}

/* ---- the table ---- */

#define IMAGE "image of bytes or floats [h,w,c], label a class"
#define MNIST "image=uint8[28,28,1] label=int32[] classes=10"
#define CIFAR "image=uint8[32,32,3] label=int32[] classes=10"
#define CLASSES "sparse_categorical_crossentropy", "accuracy"
#define RESNET "{width: int >= 1 = 16, momentum: float = 0.9, l2: float = 0.0001}"

const mf_zoo_kind mf_zoo_image[] = {
    { "mlp", "{units: list(int) = [128], activation: string = 'relu', dropout: float = 0.0}",
      "dense layers", "image, or the only column besides the label", MNIST, CLASSES, mlp_build },
    { "fashion-cnn", "{}", "two 3x3 convolutions with pooling, then dense 128", IMAGE, MNIST,
      CLASSES, fashion_cnn_build },
    { "cnn", "{dropout: float = 0.4}",
      "two 5x5 convolutions with pooling, then dense 1024: "
      "the network of TensorFlow's tutorial",
      IMAGE, MNIST, CLASSES, cnn_build },
    { "cnn-small", "{width: int >= 1 = 16, dropout: float = 0.1, momentum: float = 0.9}",
      "six 3x3 convolutions with batch normalisation, below 100,000 parameters", IMAGE, MNIST,
      CLASSES, cnn_small_build },
    { "resnet8", RESNET, "residual network of three blocks", IMAGE, CIFAR, CLASSES, resnet8_build },
    { "resnet20", RESNET, "residual network of nine blocks", IMAGE, CIFAR, CLASSES,
      resnet20_build },
    { 0 },
};
