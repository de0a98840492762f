/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_contrast.c - contrastive models: pairs of views, triplets, and restricted Boltzmann machines
 * (docs/guides/contrastive.md). */
#include "models/zoo.h"

#include <meshflow/mesh.h>

static mf_output zoo_contrast_layer(mf_zoo_call *z, const char *kind, mf_output x,
                                    const char *settings)
{
    return mf_layer(z->model, kind, MF_IN(x), "%s", settings);
}

static mf_output zoo_contrast_reshape(mf_zoo_call *z, mf_output x, const int64_t *dims, int rank)
{
    return mf_apply(z->model->graph, "Reshape", MF_IN(x, mf_ints(z->model->graph, dims, rank)));
}

/* Scales bytes to [0,1]. */
static mf_output zoo_contrast_numbers(mf_zoo_call *z, mf_output x, mf_dtype dtype)
{
    if (!x.node || dtype == MF_DTYPE_F32)
        return x;
    return mf_layer(z->model, "Rescaling", MF_IN(x), "scale=%.9g",
                    dtype == MF_DTYPE_U8 ? 1.0 / 255.0 : 1.0);
}

/* Images [n,h,w,c] become vectors of length 1. */
static mf_output tower(mf_zoo_call *z, mf_output x)
{
    x = zoo_contrast_layer(z, "Conv2D", x,
                           "filters=32 kernel_size=3 padding=same activation=relu dim=filters");
    x = zoo_contrast_layer(z, "MaxPooling2D", x, "");
    x = zoo_contrast_layer(z, "Conv2D", x,
                           "filters=64 kernel_size=3 padding=same activation=relu dim=filters");
    x = zoo_contrast_layer(z, "MaxPooling2D", x, "");
    x = zoo_contrast_layer(z, "Flatten", x, "");
    x = zoo_contrast_layer(z, "Dense", x, "units=128 activation=relu dim=hidden");
    x = mf_layer(z->model, "Dense", MF_IN(x), "units=%lld",
                 (long long)mf_options_int(&z->o, "width"));
    return zoo_contrast_layer(z, "UnitNormalization", x, "name=embedding");
}

/* Both images of a pair pass the same tower, concatenated. */
static mf_output siamese_build(mf_zoo_call *z)
{
    const mf_column *c = mf_zoo_column(z, "pair");
    mf_graph *g = z->model->graph;
    const int64_t last = 1;
    mf_output x, a, d;

    if (!c)
        return mf_zoo_fail(z, "pairs of images (--pairs makes them from images)");
    x = mf_zoo_input(z, "pair", 4, 4);
    if (!x.node)
        return x;
    if (c->dims[0] != 2)
        return mf_zoo_fail(z, "two images in a pair");
    x = zoo_contrast_reshape(z, zoo_contrast_numbers(z, x, c->dtype),
                             (int64_t[]){ -1, c->dims[1], c->dims[2], c->dims[3] }, 4);
    x = tower(z, x);
    x = zoo_contrast_reshape(z, x, (int64_t[]){ -1, 2, mf_options_int(&z->o, "width") }, 3);
    a = mf_applyf(g, "Unpack", MF_IN(x), "num=2 axis=1");
    if (!a.node)
        return a;
    d = mf_apply(g, "SquaredDifference", MF_IN(a, (mf_output){ a.node, 1 }));
    d = mf_applyf(g, "Sum", MF_IN(d, mf_ints(g, &last, 1)), "keep_dims=true");
    /* The derivative of a square root at 0 is infinite. */
    d = mf_apply(g, "AddV2", MF_IN(d, mf_scalar(g, MF_DTYPE_F32, 1e-12)));
    return mf_apply(g, "Sqrt", MF_IN(d));
}

static mf_output zoo_contrast_image(mf_zoo_call *z)
{
    const mf_column *c = mf_zoo_column(z, "image");
    mf_output x = mf_zoo_input(z, "image", 3, 3);

    if (x.node)
        mf_name_dims(z->model->graph, x, "batch,height,width,channels");
    return x.node ? zoo_contrast_numbers(z, x, c->dtype) : x;
}

static mf_output zoo_contrast_triplet_build(mf_zoo_call *z)
{
    return z->classes > 0 ? tower(z, zoo_contrast_image(z)) : mf_zoo_fail(z, "a label of classes");
}

static mf_output zoo_contrast_rbm_build(mf_zoo_call *z)
{
    return mf_layer(
        z->model, "RBM", MF_IN(zoo_contrast_layer(z, "Flatten", zoo_contrast_image(z), "")),
        "units=%lld k=%lld chains=%lld", (long long)mf_options_int(&z->o, "units"),
        (long long)mf_options_int(&z->o, "k"), (long long)mf_options_int(&z->o, "chains"));
}

#define IMAGE "image of bytes or floats [h,w,c], label a class"
#define MNIST "image=uint8[28,28,1] label=int32[] classes=10"

const mf_zoo_kind mf_zoo_contrast[] = {
    { "siamese", "{width: int >= 1 = 64}",
      "distance of two images: one tower of two convolutions for both",
      "pair of images [2,h,w,c], label 1 if both are views of the same (--pairs)",
      "pair=uint8[2,28,28,1] label=int32[] classes=2", "contrastive", "verification",
      siamese_build },
    { "triplet", "{width: int >= 1 = 64}",
      "embeddings of images: two convolutions, vectors of length 1", IMAGE, MNIST, "triplet", NULL,
      zoo_contrast_triplet_build },
    { "rbm", "{units: int >= 1 = 256, k: int >= 1 = 1, chains: int >= 0 = 0}",
      "restricted Boltzmann machine, contrastive divergence or persistent chains", IMAGE, MNIST,
      "layers", "reconstruction_error", zoo_contrast_rbm_build },
    { 0 },
};
