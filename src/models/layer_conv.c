/* SPDX-License-Identifier: Apache-2.0 */
/* layer_conv.c - convolutions over images [n,h,w,c] and sequences [n,t,c]. Kernels have Keras's
 * shape: height, width, input channels (per group), output channels. linear.c adds the convolution,
 * its bias and activation. */
#include "models/layer.h"

#include <string.h>

typedef struct window {
    int64_t size[2], strides[2], dilation[2];
    const char *padding; /* the op's value of the attribute */
} window;

static bool read_window(mf_layer_call *l, window *w)
{
    const char *padding = mf_options_string(&l->o, "padding");

    w->padding = strcmp(padding, "same") == 0 ? "SAME" : "VALID";
    return mf_layer_pair(l, "kernel_size", w->size) && mf_layer_pair(l, "strides", w->strides) &&
           mf_layer_pair(l, "dilation_rate", w->dilation);
}

/* As attributes of an op. */
static const char *window_text(mf_layer_call *l, const window *w)
{
    const char *text = mf_arena_printf(
        l->graph->arena, "strides=[1,%lld,%lld,1] dilations=[1,%lld,%lld,1] padding='%s'",
        (long long)w->strides[0], (long long)w->strides[1], (long long)w->dilation[0],
        (long long)w->dilation[1], w->padding);

    if (!text)
        mf_graph_fail(l->graph, MF_NOMEM("a layer"));
    return text ? text : "";
}

static mf_output convolve(mf_layer_call *l, const char *op, mf_output x, mf_output kernel,
                          const window *w)
{
    return mf_applyf(l->graph, op, MF_IN(x, kernel), "%s", window_text(l, w));
}

/* ---- images ---- */

static mf_output conv2d_build(mf_layer_call *l)
{
    const int64_t filters = mf_options_int(&l->o, "filters"),
                  groups = mf_options_int(&l->o, "groups");
    const int64_t channels = l->shape.rank == 4 ? l->shape.dims[3] : -1;
    window w;

    if (!read_window(l, &w))
        return (mf_output){ 0 };
    if (channels > 0 && (channels % groups != 0 || filters % groups != 0))
        return mf_layer_fail(l, "%lld groups must divide both %lld channels and %lld filters",
                             (long long)groups, (long long)channels, (long long)filters);
    if (groups > 1 && (mf_options_int(&l->o, "rank") > 0 ||
                       strcmp(mf_options_string(&l->o, "quantize"), "none") != 0))
        return mf_layer_fail(l, "rank and quantize require one group, but groups=%lld",
                             (long long)groups);
    return mf_layer_product(
        l, l->in[0],
        &(mf_product){ .kernel = MF_SHAPE(w.size[0], w.size[1],
                                          channels > 0 ? channels / groups : -1, filters),
                       .window = window_text(l, &w) });
}

static mf_output depthwise_build(mf_layer_call *l)
{
    const int64_t channels = l->shape.rank == 4 ? l->shape.dims[3] : -1;
    const int64_t times = mf_options_int(&l->o, "depth_multiplier");
    window w;
    mf_output kernel;

    if (!read_window(l, &w))
        return (mf_output){ 0 };
    kernel = mf_layer_kernel(l, "kernel", &MF_SHAPE(w.size[0], w.size[1], channels, times));
    return mf_layer_bias_activation(l, convolve(l, "DepthwiseConv2dNative", l->in[0], kernel, &w),
                                    channels * times);
}

static mf_output separable_build(mf_layer_call *l)
{
    const int64_t channels = l->shape.rank == 4 ? l->shape.dims[3] : -1;
    const int64_t times = mf_options_int(&l->o, "depth_multiplier");
    const int64_t filters = mf_options_int(&l->o, "filters");
    const window point = { { 1, 1 }, { 1, 1 }, { 1, 1 }, "VALID" };
    window w;
    mf_output y, kernel;

    if (!read_window(l, &w))
        return (mf_output){ 0 };
    kernel =
        mf_layer_kernel(l, "depthwise_kernel", &MF_SHAPE(w.size[0], w.size[1], channels, times));
    y = convolve(l, "DepthwiseConv2dNative", l->in[0], kernel, &w);
    kernel = mf_layer_kernel(l, "pointwise_kernel",
                             &MF_SHAPE(1, 1, channels > 0 ? channels * times : -1, filters));
    return mf_layer_bias_activation(l, convolve(l, "Conv2D", y, kernel, &point), filters);
}

/* ---- sequences: images of height 1 ---- */

static mf_output conv1d_build(mf_layer_call *l)
{
    const int64_t filters = mf_options_int(&l->o, "filters");
    const int64_t channels = l->shape.rank == 3 ? l->shape.dims[2] : -1;
    const int64_t size = mf_options_int(&l->o, "kernel_size");
    const int64_t dilation = mf_options_int(&l->o, "dilation_rate");
    const char *padding = mf_options_string(&l->o, "padding");
    const window w = { .size = { 1, size },
                       .strides = { 1, mf_options_int(&l->o, "strides") },
                       .dilation = { 1, dilation },
                       .padding = strcmp(padding, "same") == 0 ? "SAME" : "VALID" };
    mf_output x = l->in[0],
              kernel = mf_layer_kernel(l, "kernel", &MF_SHAPE(size, channels, filters));

    if (strcmp(padding, "causal") == 0) {
        const int64_t before[6] = { 0, 0, (size - 1) * dilation, 0, 0, 0 };

        x = mf_apply(
            l->graph, "Pad",
            MF_IN(x, mf_layer_reshape(l, mf_ints(l->graph, before, 6), (int64_t[]){ 3, 2 }, 2)));
    }
    x = mf_apply(l->graph, "ExpandDims", MF_IN(x, mf_scalar(l->graph, MF_DTYPE_I32, 1)));
    kernel = mf_apply(l->graph, "ExpandDims", MF_IN(kernel, mf_scalar(l->graph, MF_DTYPE_I32, 0)));
    x = convolve(l, "Conv2D", x, kernel, &w);
    x = mf_applyf(l->graph, "Squeeze", MF_IN(x), "squeeze_dims=[1]");
    return mf_layer_bias_activation(l, x, filters);
}

/* ---- the table ---- */

#define WINDOW                                                                                     \
    "strides: list(int) = [1], padding: string in ['valid','same'] = 'valid', "                    \
    "dilation_rate: list(int) = [1], "
#define END "activation: string = 'linear', use_bias: bool = true, " MF_KERNEL_SETTINGS "}"

const mf_layer_kind mf_layers_conv[] = {
    { "Conv1D",
      "{filters: int >= 1, kernel_size: int >= 1, strides: int >= 1 = 1, "
      "padding: string in ['valid','same','causal'] = 'valid', dilation_rate: int >= 1 = 1, " END,
      1, 1, 3, "convolution over time of sequences [n,t,c]", conv1d_build },
    { "Conv2D",
      "{filters: int >= 1, kernel_size: list(int), groups: int >= 1 = 1, " MF_PRODUCT_SETTINGS
      ", " WINDOW END,
      1, 1, 4, "2D convolution of images [n,h,w,c]", conv2d_build },
    { "DepthwiseConv2D", "{kernel_size: list(int), depth_multiplier: int >= 1 = 1, " WINDOW END, 1,
      1, 4, "convolution of each channel separately", depthwise_build },
    { "SeparableConv2D",
      "{filters: int >= 1, kernel_size: list(int), depth_multiplier: int >= 1 = 1, " WINDOW END, 1,
      1, 4, "each channel separately, then 1x1 across channels", separable_build },
    { 0 },
};
