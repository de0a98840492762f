/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - what a layer is: a row in a table of its file, found by name. build() adds ops to the
 * graph and asks for weights; errors are the graph's (sticky), so it needs no checks after each
 * call. */
#ifndef MF_MODELS_LAYER_H
#define MF_MODELS_LAYER_H

#include "models/model.h"

typedef struct mf_layer_call {
    mf_model *model;
    mf_graph *graph;
    const mf_output *in;
    int n_in;
    mf_shape shape; /* of in[0] */
    mf_options o; /* its settings */
    bool trainable; /* neither it nor a layer it is part of has trainable=false */
    const char *name; /* "conv2d_1": the prefix of its weights and nodes */
} mf_layer_call;

typedef struct mf_layer_kind {
    const char *name; /* Keras's; NULL ends a table */
    const char *settings; /* signature, see options.h; name and trainable are added to it */
    int min_in, max_in;
    int min_rank; /* of in[0], the batch included */
    const char *about;
    mf_output (*build)(mf_layer_call *l);
} mf_layer_kind;

/* The tables, one for each family; NULL ends the list (layer.c). */
extern const mf_layer_kind *const mf_layer_families[];

/* A weight "name/what" and its value. `initializer` is text as initializer.h reads it. */
mf_output mf_layer_weight(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer);
/* A table looked up by rows (its gradient concerns these alone): the rows of `ids`. */
mf_output mf_layer_lookup(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output ids);
/* A weight that is not trained but follows a statistic; the value is for inference. */
mf_output mf_layer_moving(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output batch, double momentum);
/* Rows that samples leave for those who have their place in the next batch, and that no gradient
 * changes: what there is for the samples of `like`, in training. The weight is [rows, ...], at
 * least as many as a batch has samples. */
mf_output mf_layer_kept(mf_layer_call *l, const char *what, const mf_shape *shape,
                        const char *initializer, mf_output like);
/* And what they leave. */
void mf_layer_keep(mf_layer_call *l, const char *what, mf_output rows);
/* Something that training makes small besides the loss: a number for each sample, [n]. */
void mf_layer_add_loss(mf_layer_call *l, mf_output per_sample);
/* `training` while training, else `inference`; only one of them is computed. */
mf_output mf_layer_by_mode(mf_layer_call *l, mf_output training, mf_output inference);
/* Uniform numbers in [0,1) of the shape of `like`, whose first dimension are the samples: a
 * function of (seed, step, place of the sample in the batch, element). For training only. */
mf_output mf_layer_uniform(mf_layer_call *l, mf_output like);
/* The same for layers that draw several times: `draw` tells them apart. */
mf_output mf_layer_uniforms(mf_layer_call *l, mf_output like, int64_t draw);
/* x, of which training leaves out this part (layer_dropout.c). */
mf_output mf_layer_dropout(mf_layer_call *l, mf_output x, double rate);
/* "relu" and so on, applied (layer_activation.c). */
mf_output mf_layer_activation(mf_layer_call *l, const char *name, mf_output x);

/* ---- what many layers are made of (layer_parts.c) ---- */

/* The settings that go with a kernel. */
#define MF_KERNEL_SETTINGS                                                                         \
    "kernel_initializer: string = 'glorot_uniform', bias_initializer: string = 'zeros', "          \
    "l1: float = 0.0, l2: float = 0.0"

/* A weight by the settings kernel_initializer, l1 and l2. Its last dimension is called as the
 * setting `dim` says, which every layer has. */
mf_output mf_layer_kernel(mf_layer_call *l, const char *what, const mf_shape *shape);
/* Names for the dimensions of the weight that was made last, see mf_name_dims(): "vocab,". */
void mf_layer_name_dims(mf_layer_call *l, const char *names);
/* A bias, by the setting bias_initializer. */
mf_output mf_layer_bias(mf_layer_call *l, int64_t units);
/* What ends most layers: the settings use_bias and activation. */
mf_output mf_layer_bias_activation(mf_layer_call *l, mf_output y, int64_t units);
/* A setting of one or two numbers >= 1, one standing for both; false: recorded as the failure. */
bool mf_layer_pair(mf_layer_call *l, const char *setting, int64_t pair[2]);
mf_output mf_layer_number(mf_layer_call *l, double value);
mf_output mf_layer_reshape(mf_layer_call *l, mf_output x, const int64_t *dims, int rank);
/* Mean, Max, Sum ... over these axes. */
mf_output mf_layer_reduce(mf_layer_call *l, const char *op, mf_output x, const int64_t *axes, int n,
                          bool keep);
/* x divided by its length, over the last dimension. */
mf_output mf_layer_unit_length(mf_layer_call *l, mf_output x);
/* x times a matrix of `units` columns, over the last dimension. Of higher ranks one product of all
 * rows is made: the gradient of a batched one would hold a matrix for each sample. */
mf_output mf_layer_matmul(mf_layer_call *l, mf_output x, mf_output kernel, int64_t units);

/* ---- products with kernels (linear.c) ---- */

/* Settings of layers that are one: in a smaller form, see docs/guides/model-compression.md. */
#define MF_PRODUCT_SETTINGS                                                                        \
    "rank: int >= 0 = 0, quantize: string in ['none','observe','int8','int8_tensor'] = 'none'"

typedef struct mf_product {
    mf_shape kernel; /* [in,out], or [height,width,in,out] of a convolution */
    const char *window; /* attributes of the convolution; NULL: it is a matrix */
} mf_product;

/* activation(x * kernel + bias), by MF_KERNEL_SETTINGS and MF_PRODUCT_SETTINGS. */
mf_output mf_layer_product(mf_layer_call *l, mf_output x, const mf_product *p);

/* Records why this layer cannot be built; returns an empty output. */
mf_output mf_layer_fail(mf_layer_call *l, const char *fmt, ...) MF_PRINTF(2, 3);

#endif
