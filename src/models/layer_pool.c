/* SPDX-License-Identifier: Apache-2.0 */
/* layer_pool.c - pooling layers. */
#include "models/layer.h"

#include <string.h>

static mf_output pool(mf_layer_call *l, const char *op)
{
    const bool same = strcmp(mf_options_string(&l->o, "padding"), "same") == 0;
    int64_t size[2], strides[2];

    if (!mf_layer_pair(l, "pool_size", size))
        return (mf_output){ 0 };
    memcpy(strides, size, sizeof strides); /* Keras's default */
    if (mf_options_given(&l->o, "strides") && !mf_layer_pair(l, "strides", strides))
        return (mf_output){ 0 };
    return mf_applyf(l->graph, op, MF_IN(l->in[0]),
                     "ksize=[1,%lld,%lld,1] strides=[1,%lld,%lld,1] padding='%s'",
                     (long long)size[0], (long long)size[1], (long long)strides[0],
                     (long long)strides[1], same ? "SAME" : "VALID");
}

static mf_output max_build(mf_layer_call *l)
{
    return pool(l, "MaxPool");
}

static mf_output layer_pool_average_build(mf_layer_call *l)
{
    return pool(l, "AvgPool");
}

/* Over all positions of a sample. */
static mf_output global(mf_layer_call *l, const char *op, int places)
{
    const bool keep = mf_options_bool(&l->o, "keepdims");

    return mf_layer_reduce(l, op, l->in[0], (int64_t[]){ 1, 2 }, places, keep);
}

static mf_output global_average_1d(mf_layer_call *l)
{
    return global(l, "Mean", 1);
}

static mf_output global_average_2d(mf_layer_call *l)
{
    return global(l, "Mean", 2);
}

static mf_output global_max_1d(mf_layer_call *l)
{
    return global(l, "Max", 1);
}

static mf_output global_max_2d(mf_layer_call *l)
{
    return global(l, "Max", 2);
}

#define WINDOW                                                                                     \
    "{pool_size: list(int) = [2], strides: list(int) = [], "                                       \
    "padding: string in ['valid','same'] = 'valid'}"
#define GLOBAL "{keepdims: bool = false}"

const mf_layer_kind mf_layers_pool[] = {
    { "MaxPooling2D", WINDOW, 1, 1, 4, "the maximum of each window", max_build },
    { "AveragePooling2D", WINDOW, 1, 1, 4, "the mean of each window", layer_pool_average_build },
    { "GlobalAveragePooling1D", GLOBAL, 1, 1, 3, "the mean over time", global_average_1d },
    { "GlobalAveragePooling2D", GLOBAL, 1, 1, 4, "the mean of each channel", global_average_2d },
    { "GlobalMaxPooling1D", GLOBAL, 1, 1, 3, "the maximum over time", global_max_1d },
    { "GlobalMaxPooling2D", GLOBAL, 1, 1, 4, "the maximum of each channel", global_max_2d },
    { 0 },
};
