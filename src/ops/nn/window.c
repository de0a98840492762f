/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - sizes, strides, dilation and padding of convolution and pooling windows. */
#include "ops/nn/window.h"

#include "base/mem.h"

/* The values of a list attribute, in the order batch, spatial..., channels. */
static mf_status ordered(const mf_window_attrs *a, const char *what, const int64_t *values,
                         int64_t n, int64_t *batch, int64_t *spatial, int64_t *channels)
{
    if (n != a->nd + 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Sliding window %s field must specify %d dimensions, "
                       "got %lld",
                       what, a->nd + 2, (long long)n);
    for (int d = 0; d < a->nd + 2; d++) {
        if (values[d] < 1 || values[d] > INT32_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Sliding window %s for dimension %d must be "
                           "positive and fit 32 bits, got %lld",
                           what, d, (long long)values[d]);
    }
    *batch = values[0];
    *channels = values[mf_window_axis(a, a->nd + 1)];
    for (int d = 0; d < a->nd; d++)
        spatial[d] = values[mf_window_axis(a, d + 1)];
    return MF_OK;
}

/* An attribute of shards: before and after, by spatial dimension. Unchanged if absent. */
static mf_status read_sides(const mf_node *node, const char *name, int nd, int64_t *lo, int64_t *hi)
{
    int64_t n;
    const int64_t *sides = mf_node_ints(node, name, &n);

    if (n == 0)
        return MF_OK;
    if (n != 2 * nd)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s must contain %d values, but got: %lld", name,
                       2 * nd, (long long)n);
    for (int i = 0; i < 2 * nd; i++) {
        if (sides[i] < 0 || sides[i] > INT32_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be nonnegative and fit 32 bits, got %lld",
                           name, (long long)sides[i]);
        *(i % 2 ? &hi[i / 2] : &lo[i / 2]) = sides[i];
    }
    return MF_OK;
}

static mf_status read_padding(const mf_node *node, mf_window_attrs *a)
{
    const char *padding = mf_node_string(node, "padding");
    int64_t n;
    const int64_t *pads = mf_node_ints(node, "explicit_paddings", &n);

    a->padding = padding[0] == 'S'   ? MF_PAD_SAME
                 : padding[0] == 'V' ? MF_PAD_VALID
                                     : MF_PAD_EXPLICIT;
    MF_TRY(read_sides(node, MF_WINDOW_CROP, a->nd, a->crop_lo, a->crop_hi));
    if (mf_node_attr(node, MF_WINDOW_PAD)) {
        a->padding = MF_PAD_EXPLICIT;
        a->piece = true;
        return read_sides(node, MF_WINDOW_PAD, a->nd, a->pad_lo, a->pad_hi);
    }
    if (a->padding != MF_PAD_EXPLICIT) {
        if (n != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "explicit_paddings attribute must be empty if the "
                           "padding attribute is not EXPLICIT, got %lld values",
                           (long long)n);
        return MF_OK;
    }
    if (n != 2 * (a->nd + 2))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "explicit_paddings attribute must contain %d values, "
                       "but got: %lld",
                       2 * (a->nd + 2), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (pads[i] < 0 || pads[i] > INT32_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "All elements of explicit_paddings must be "
                           "nonnegative, got %lld",
                           (long long)pads[i]);
    }
    for (int d = 0; d < a->nd + 2; d++) {
        const int axis = mf_window_axis(a, d);

        if (d >= 1 && d <= a->nd) {
            a->pad_lo[d - 1] = pads[2 * axis];
            a->pad_hi[d - 1] = pads[2 * axis + 1];
        } else if (pads[2 * axis] || pads[2 * axis + 1]) {
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Nonzero explicit padding in the batch or depth dimensions is not "
                           "supported");
        }
    }
    return MF_OK;
}

mf_status mf_window_set_pool(mf_window_attrs *a, const int64_t *ksize, const int64_t *strides)
{
    int64_t batch_size, batch_stride;

    MF_TRY(ordered(a, "ksize", ksize, a->nd + 2, &batch_size, a->size, &a->channel_size));
    MF_TRY(ordered(a, "stride", strides, a->nd + 2, &batch_stride, a->stride, &a->channel_stride));
    if (batch_size != 1 || batch_stride != 1)
        return MF_FAIL(MF_UNIMPLEMENTED, "Pooling is not yet supported on the batch dimension.");
    return MF_OK;
}

mf_status mf_window_read(const mf_node *node, int nd, mf_window_attrs *out)
{
    const char *format = mf_node_string(node, "data_format");
    int64_t n_strides, n_dilations, n_sizes, batch, channels, batch2 = 1, channels2 = 1;
    const int64_t *strides = mf_node_ints(node, "strides", &n_strides);
    const int64_t *dilations = mf_node_ints(node, "dilations", &n_dilations);
    const int64_t *sizes = mf_node_ints(node, "ksize", &n_sizes);

    *out = (mf_window_attrs){ .nd = nd, .channel_size = 1, .channel_stride = 1 };
    out->channels_first = format[0] == 'N' && format[1] == 'C';
    if (strcmp(format, "NCHW_VECT_C") == 0)
        return MF_FAIL(MF_UNIMPLEMENTED, "data_format NCHW_VECT_C is not supported on the CPU");
    for (int d = 0; d < nd; d++)
        out->size[d] = out->stride[d] = out->dilation[d] = 1;
    MF_TRY(read_padding(node, out));
    if (n_sizes > 0) {
        if (n_sizes != nd + 2 || n_strides != nd + 2)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Sliding window ksize and strides fields must "
                           "specify %d dimensions, got %lld and %lld",
                           nd + 2, (long long)n_sizes, (long long)n_strides);
        return mf_window_set_pool(out, sizes, strides);
    }
    if (n_strides == 0 && !mf_node_attr(node, "strides"))
        return MF_OK; /* MaxPoolV2: ksize and strides are inputs */
    MF_TRY(ordered(out, "strides", strides, n_strides, &batch, out->stride, &channels));
    if (n_dilations > 0)
        MF_TRY(
            ordered(out, "dilations", dilations, n_dilations, &batch2, out->dilation, &channels2));
    if (batch != 1 || channels != 1 || batch2 != 1 || channels2 != 1)
        return MF_FAIL(MF_UNIMPLEMENTED, "Current implementation does not yet support strides and "
                                         "dilations in the batch and depth dimensions.");
    return MF_OK;
}

mf_shape mf_window_shape(const mf_window_attrs *a, int64_t batch, const int64_t *spatial,
                         int64_t channels)
{
    mf_shape s = { .rank = a->nd + 2 };

    s.dims[0] = batch;
    s.dims[mf_window_axis(a, a->nd + 1)] = channels;
    for (int d = 0; d < a->nd; d++)
        s.dims[mf_window_axis(a, d + 1)] = spatial[d];
    return s;
}

mf_status mf_window_length(const mf_window_attrs *a, int d, int64_t in, int64_t size, int64_t *out,
                           int64_t *pad_lo, int64_t *pad_hi)
{
    const int64_t stride = a->stride[d];
    int64_t reach, pad, full;

    *out = a->padding == MF_PAD_SAME && in >= 0 ? in / stride + (in % stride > 0) : MF_UNKNOWN_DIM;
    *pad_lo = a->padding == MF_PAD_EXPLICIT ? a->pad_lo[d] : 0;
    *pad_hi = a->padding == MF_PAD_EXPLICIT ? a->pad_hi[d] : 0;
    if (in < 0 || size < 0)
        return MF_OK;
    if (size < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the window has size %lld along spatial dimension %d",
                       (long long)size, d);
    if (!mf_mul_i64(size - 1, a->dilation[d], &reach) ||
        !mf_add_i64(in, *pad_lo + *pad_hi, &full) || reach > INT64_MAX / 4 || full > INT64_MAX / 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "window of %lld steps of %lld is too large",
                       (long long)size, (long long)a->dilation[d]);
    reach++; /* extent of the dilated window */
    if (a->piece && (*pad_lo >= reach || *pad_hi >= reach))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "a piece has %lld and %lld of padding for windows of "
                       "%lld",
                       (long long)*pad_lo, (long long)*pad_hi, (long long)reach);
    if (a->padding == MF_PAD_SAME) {
        pad = (*out - 1) * stride + reach - in;
        pad = pad > 0 ? pad : 0;
        *pad_lo = pad / 2;
        *pad_hi = pad - pad / 2;
        return MF_OK;
    }
    if (full - reach + stride < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Computed output size would be negative: [input_size: %lld, "
                       "effective_filter_size: %lld, stride: %lld]",
                       (long long)full, (long long)reach, (long long)stride);
    *out = (full - reach + stride) / stride;
    return MF_OK;
}

mf_status mf_window_init(const mf_window_attrs *a, const mf_shape *in, const int64_t *size,
                         mf_window *out)
{
    *out = (mf_window){ .nd = a->nd,
                        .channels_first = a->channels_first,
                        .batch = in->dims[0],
                        .channels = in->dims[mf_window_axis(a, a->nd + 1)] };
    for (int d = 0; d < a->nd; d++) {
        out->in[d] = in->dims[mf_window_axis(a, d + 1)];
        out->size[d] = size[d];
        out->stride[d] = a->stride[d];
        out->dilation[d] = a->dilation[d];
        MF_TRY(mf_window_length(a, d, out->in[d], size[d], &out->out[d], &out->pad_lo[d],
                                &out->pad_hi[d]));
    }
    return MF_OK;
}
