/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - the interface of a layer: a row in a table of its file, looked up by name. build() adds
 * ops to the graph and requests weights; errors are recorded in the graph (sticky), so calls need
 * no checks. */
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
    bool trainable; /* neither this layer nor an enclosing one has trainable=false */
    const char *name; /* "conv2d_1": the prefix of its weights and nodes */
} mf_layer_call;

typedef struct mf_layer_kind {
    const char *name; /* Keras's; NULL ends a table */
    const char *settings; /* signature, see options.h; name and trainable are added */
    int min_in, max_in;
    int min_rank; /* of in[0], the batch included */
    const char *about;
    mf_output (*build)(mf_layer_call *l);
} mf_layer_kind;

/* One table per family, terminated by NULL (layer.c). */
extern const mf_layer_kind *const mf_layer_families[];

/* Adds a weight "name/what" and returns its value. `initializer`: see initializer.h. */
mf_output mf_layer_weight(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer);
/* Adds a table and returns the rows of `ids`. Its gradient has only these rows. */
mf_output mf_layer_lookup(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output ids);
/* A weight that follows a statistic instead of gradients; the value is for inference. */
mf_output mf_layer_moving(mf_layer_call *l, const char *what, const mf_shape *shape,
                          const char *initializer, mf_output batch, double momentum);
/* State that samples pass on to the samples at the same position of the next batch, without
 * gradients: returns the rows for the samples of `like`, in training. The weight is [rows, ...]
 * with at least as many rows as a batch has samples. */
mf_output mf_layer_kept(mf_layer_call *l, const char *what, const mf_shape *shape,
                        const char *initializer, mf_output like);
/* Sets the rows for the next batch. */
void mf_layer_keep(mf_layer_call *l, const char *what, mf_output rows);
/* Adds a term to the loss: one number per sample, [n]. */
void mf_layer_add_loss(mf_layer_call *l, mf_output per_sample);
/* `training` in training, otherwise `inference`; only one of them is computed. */
mf_output mf_layer_by_mode(mf_layer_call *l, mf_output training, mf_output inference);
/* Uniform numbers in [0,1) of the shape of `like`, whose first dimension is the samples: a function
 * of (seed, step, index of the sample in the batch, element). For training only. */
mf_output mf_layer_uniform(mf_layer_call *l, mf_output like);
/* The same for layers that draw several times: `draw` distinguishes the draws. */
mf_output mf_layer_uniforms(mf_layer_call *l, mf_output like, int64_t draw);
/* Dropout of x in training (layer_dropout.c). */
mf_output mf_layer_dropout(mf_layer_call *l, mf_output x, double rate);
/* Applies an activation such as "relu" (layer_activation.c). */
mf_output mf_layer_activation(mf_layer_call *l, const char *name, mf_output x);

/* ---- shared parts of layers (layer_parts.c) ---- */

/* Settings of layers with a kernel. */
#define MF_KERNEL_SETTINGS                                                                         \
    "kernel_initializer: string = 'glorot_uniform', bias_initializer: string = 'zeros', "          \
    "l1: float = 0.0, l2: float = 0.0"

/* A weight with the settings kernel_initializer, l1 and l2. Its last dimension is named by the
 * setting `dim`, which every layer has. */
mf_output mf_layer_kernel(mf_layer_call *l, const char *what, const mf_shape *shape);
/* Names the dimensions of the weight that was added last, see mf_name_dims(): "vocab,". */
void mf_layer_name_dims(mf_layer_call *l, const char *names);
/* A bias with the setting bias_initializer. */
mf_output mf_layer_bias(mf_layer_call *l, int64_t units);
/* Adds a bias and applies the activation, by the settings use_bias and activation. */
mf_output mf_layer_bias_activation(mf_layer_call *l, mf_output y, int64_t units);
/* A setting of one or two numbers >= 1; one number stands for both. false: the failure is recorded.
 */
bool mf_layer_pair(mf_layer_call *l, const char *setting, int64_t pair[2]);
mf_output mf_layer_number(mf_layer_call *l, double value);
mf_output mf_layer_reshape(mf_layer_call *l, mf_output x, const int64_t *dims, int rank);
/* Mean, Max, Sum ... over these axes. */
mf_output mf_layer_reduce(mf_layer_call *l, const char *op, mf_output x, const int64_t *axes, int n,
                          bool keep);
/* x divided by its L2 norm, over the last dimension. */
mf_output mf_layer_unit_length(mf_layer_call *l, mf_output x);
/* x times a matrix of `units` columns, over the last dimension. For higher ranks all rows form one
 * product: the gradient of a batched product would have one matrix per sample. */
mf_output mf_layer_matmul(mf_layer_call *l, mf_output x, mf_output kernel, int64_t units);

/* ---- linear layers (linear.c) ---- */

/* Settings of compressed linear layers, see docs/guides/model-compression.md. */
#define MF_PRODUCT_SETTINGS                                                                        \
    "rank: int >= 0 = 0, quantize: string in ['none','observe','int8','int8_tensor'] = 'none'"

typedef struct mf_product {
    mf_shape kernel; /* [in,out], or [height,width,in,out] of a convolution */
    const char *window; /* attributes of the convolution; NULL: a matrix product */
} mf_product;

/* activation(x * kernel + bias), by MF_KERNEL_SETTINGS and MF_PRODUCT_SETTINGS. */
mf_output mf_layer_product(mf_layer_call *l, mf_output x, const mf_product *p);

/* Records the failure of this layer; returns an empty output. */
mf_output mf_layer_fail(mf_layer_call *l, const char *fmt, ...) MF_PRINTF(2, 3);

#endif
