/* SPDX-License-Identifier: Apache-2.0 */
/* layer_overrides.c - changes='...': other settings for layers of a model. */
#include "models/layer_overrides.h"

#include "mf_test.h"
#include "models/zoo.h"

#include <string.h>

static mf_status build(const char *text, mf_model **out)
{
    static const mf_column columns[] = {
        { .name = "image", .dtype = MF_DTYPE_U8, .rank = 3, .dims = { 28, 28, 1 } },
        { .name = "label", .dtype = MF_DTYPE_I32 },
    };

    return mf_zoo_build(text, columns, MF_COUNT(columns), 10, out);
}

static int64_t last_dim(const mf_model *m, const char *weight)
{
    const mf_weight *w = mf_model_weight(m, weight);

    if (!w)
        T_FAIL("there is no weight %s", weight);
    return w->shape.dims[w->shape.rank - 1];
}

MF_TEST(layer_overrides_change_the_model)
{
    mf_model *m;

    T_OK(build("fashion-cnn changes='conv2d_1 filters=24; dense units=40 rank=8'", &m));
    T_EQ(last_dim(m, "conv2d/kernel"), 32);
    T_EQ(last_dim(m, "conv2d_1/kernel"), 24);
    T_EQ(last_dim(m, "dense/kernel_a"), 8);
    T_EQ(last_dim(m, "dense/kernel_b"), 40);
    T_TRUE(!mf_model_weight(m, "dense/kernel"));
    mf_model_free(m);
}

MF_TEST(layer_overrides_with_a_star_skip_layers_without_the_setting)
{
    mf_model *m;

    T_OK(build("fashion-cnn changes='* quantize=observe'", &m));
    T_TRUE(mf_model_weight(m, "conv2d/input_high") != NULL);
    T_TRUE(mf_model_weight(m, "dense_1/input_low") != NULL);
    mf_model_free(m);
}

MF_TEST(layer_overrides_of_unknown_layers_are_rejected)
{
    mf_model *m;

    T_FAILS(MF_NOT_FOUND, "no layer is called 'dens'; did you mean 'dense'?",
            build("fashion-cnn changes='dens units=4'", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "did you mean 'units'",
            build("fashion-cnn changes='dense unit=4'", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "at least 1 is needed",
            build("fashion-cnn changes='dense units=0'", &m));
    T_FAILS(MF_INVALID_ARGUMENT, "quantize cannot be 'int4'",
            build("fashion-cnn changes='dense quantize=int4'", &m));
}

MF_TEST(layer_overrides_are_a_setting_of_every_model)
{
    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++)
            T_TRUE(!strstr(k->settings, "changes:"));
    }
}
