/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_detect.c - models that find objects in images. */
#include "models/boxes.h"
#include "models/zoo.h"

#include <meshflow/mesh.h>

/* A convolution with batch normalisation. */
static mf_output zoo_detect_conv(mf_zoo_call *z, mf_output x, int64_t filters, int size,
                                 int strides)
{
    x = mf_layer(z->model, "Conv2D", MF_IN(x),
                 "filters=%lld kernel_size=%d strides=%d padding=same use_bias=false "
                 "kernel_initializer=he_normal",
                 (long long)filters, size, strides);
    x = mf_layer(z->model, "BatchNormalization", MF_IN(x), "momentum=0.9");
    return mf_layer(z->model, "ReLU", MF_IN(x), "%s", "");
}

static mf_output proposals(mf_zoo_call *z, mf_output x, const mf_column *image)
{
    int64_t n;
    const int64_t *sizes = mf_options_ints(&z->o, "anchors", &n);
    mf_buf text = { 0 };
    mf_output y = { 0 };

    for (int64_t i = 0; i < n; i++)
        mf_buf_printf(&text, "%s%lld", i ? "," : "", (long long)sizes[i]);
    if (mf_buf_finish(&text) != MF_OK)
        mf_graph_fail(z->model->graph, MF_NOMEM("anchors"));
    else
        y = mf_layer(
            z->model, "RegionProposals", MF_IN(x),
            "name=rpn anchors=[%s] image=[%lld,%lld] filters=%lld proposals=%lld mesh=%lld",
            text.data, (long long)image->dims[0], (long long)image->dims[1],
            4 * (long long)mf_options_int(&z->o, "width"),
            (long long)mf_options_int(&z->o, "proposals"),
            (long long)mf_options_int(&z->o, "mesh"));
    mf_buf_deinit(&text);
    return y;
}

/* The stride of the features is 4 pixels for crops and 8 for proposals. */
static mf_output faster_rcnn_build(mf_zoo_call *z)
{
    const mf_column *image = mf_zoo_column(z, "image"), *label = mf_zoo_column(z, "label");
    const int64_t width = mf_options_int(&z->o, "width");
    mf_output x = mf_zoo_input(z, "image", 3, 3), features, regions, scores, codes;

    if (!x.node)
        return x;
    if (!label || label->rank != 2 || label->dims[1] != MF_BOX_LABEL || z->classes < 1)
        return mf_zoo_fail(z, "a label of boxes with classes (%s)", z->kind->needs);
    mf_name_dims(z->model->graph, x, "batch,height,width,channels");
    x = mf_layer(z->model, "Rescaling", MF_IN(x), "scale=%.9g",
                 image->dtype == MF_DTYPE_U8 ? 1.0 / 255.0 : 1.0);
    x = zoo_detect_conv(z, x, width, 5, 2);
    x = zoo_detect_conv(z, x, 2 * width, 3, 2);
    features = zoo_detect_conv(z, x, 4 * width, 3, 1);
    regions = proposals(z, zoo_detect_conv(z, features, 4 * width, 3, 2), image);
    x = mf_layer(z->model, "RoIAlign", MF_IN(features, regions), "name=roi_align");
    x = mf_layer(z->model, "Dense", MF_IN(x),
                 "units=%lld activation=relu kernel_initializer=he_normal dim=hidden",
                 (long long)mf_options_int(&z->o, "units"));
    x = mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", mf_options_float(&z->o, "dropout"));
    scores = mf_layer(z->model, "Dense", MF_IN(x), "name=scores units=%lld dim=classes",
                      1 + (long long)z->classes);
    codes = mf_layer(z->model, "Dense", MF_IN(x),
                     "name=boxes units=4 kernel_initializer='random_normal stddev=0.01'");
    return mf_layer(z->model, "Detections", MF_IN(scores, codes, regions), "%s", "");
}

const mf_zoo_kind mf_zoo_detect[] = {
    { "faster-rcnn",
      "{width: int >= 1 = 16, units: int >= 1 = 128, proposals: int >= 1 = 32, "
      "anchors: list(int) = [30,14,46,20,14,30,20,46,28,26,44,40], dropout: float = 0.1, "
      "mesh: int = -1}",
      "object detector: regions proposed at anchors, then classified (Ren et al. 2015)",
      "image of bytes or floats [h,w,c], label boxes with classes [objects,5]",
      "image=uint8[128,128,1] label=float[5,5] classes=10", "detection",
      "mean_average_precision, matched_anchors", faster_rcnn_build },
    { 0 },
};
