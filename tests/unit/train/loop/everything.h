/* SPDX-License-Identifier: Apache-2.0 */
/* everything.h - a small net with something of everything, and pictures for it. */
#ifndef MF_TESTS_EVERYTHING_H
#define MF_TESTS_EVERYTHING_H

#include "mf_test.h"

#include <meshflow/meshflow.h>

enum { SAMPLES = 50, SIDE = 8 };

/* Images whose brightest corner is the label. */
static inline mf_dataset *corners(void)
{
    mf_tensor *image, *label;
    mf_dataset *set;

    T_OK(mf_tensor_new(MF_DTYPE_U8, (int64_t[]){ SAMPLES, SIDE, SIDE, 1 }, 4, &image));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &label));
    for (int i = 0; i < SAMPLES; i++) {
        uint8_t *x = (uint8_t *)mf_tensor_data(image) + i * SIDE * SIDE;
        const int corner = i * 7 % 4;

        for (int p = 0; p < SIDE * SIDE; p++)
            x[p] = (uint8_t)((i * 31 + p * 17) % 97);
        for (int p = 0; p < 9; p++)
            x[(p / 3 + corner / 2 * 5) * SIDE + p % 3 + corner % 2 * 5] = 250;
        ((int32_t *)mf_tensor_data(label))[i] = corner;
    }
    T_OK(mf_dataset_of((const char *[]){ "image", "label" }, (const mf_tensor *[]){ image, label },
                       2, &set));
    mf_tensor_free(image);
    mf_tensor_free(label);
    return set;
}

/* A model with convolutions, normalisation, dropout, a residual connection and dense layers. */
static inline mf_model *everything(void)
{
    mf_model *m;
    mf_output x, y;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "image", MF_DTYPE_U8, (int64_t[]){ SIDE, SIDE, 1 }, 3);
    x = mf_layer(m, "Rescaling", MF_IN(x), "scale=0.00392157");
    x = mf_layer(m, "Conv2D", MF_IN(x), "filters=8 kernel_size=[3,3] padding=same activation=relu");
    y = mf_layer(m, "Conv2D", MF_IN(x), "filters=8 kernel_size=[3,3] padding=same use_bias=false");
    y = mf_layer(m, "BatchNormalization", MF_IN(y), "momentum=0.9");
    x = mf_layer(m, "ReLU", MF_IN(mf_layer(m, "Add", MF_IN(x, y), NULL)), NULL);
    x = mf_layer(m, "MaxPooling2D", MF_IN(x), NULL);
    x = mf_layer(m, "Flatten", MF_IN(x), NULL);
    x = mf_layer(m, "Dense", MF_IN(x), "units=24 activation=tanh");
    x = mf_layer(m, "LayerNormalization", MF_IN(x), NULL);
    x = mf_layer(m, "Dropout", MF_IN(x), "rate=0.25");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=4"));
    T_OK(mf_model_status(m));
    return m;
}

#endif
