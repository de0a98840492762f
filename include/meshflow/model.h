/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - models made of layers, on top of a graph that stays within reach.
 *
 *     mf_output x = mf_model_input(m, "image", MF_DTYPE_U8, (int64_t[]){ 28, 28, 1 }, 3);
 *     x = mf_layer(m, "Rescaling", MF_IN(x), "scale=0.00392157");
 *     x = mf_layer(m, "Flatten", MF_IN(x), NULL);
 *     x = mf_layer(m, "Dense", MF_IN(x), "units=128 activation=relu");
 *     mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=10"));
 *
 * Names of layers, their settings and their weights are Keras's ("dense/kernel"). Errors are
 * sticky, as with graphs: mf_model_status() tells. One graph serves training and inference; what
 * differs between them (dropout, batch normalisation) is decided when it runs. */
#ifndef MESHFLOW_MODEL_H
#define MESHFLOW_MODEL_H

#include <meshflow/data.h>
#include <meshflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_model mf_model;

MF_API MF_MUST mf_status mf_model_new(mf_model **out);
/* A trainer keeps its model: this may be called before mf_trainer_free(). */
MF_API void mf_model_free(mf_model *model);

/* An input: the column of that name of the data set. Its first dimension, the samples of a batch,
 * is not among `dims`. */
MF_API mf_output mf_model_input(mf_model *model, const char *name, mf_dtype dtype,
                                const int64_t *dims, int rank);
/* A layer on these inputs, with settings as printf-like text (NULL: none). Every layer also takes
 * name='...' and trainable=false. `meshflow models --kind layers` lists them all. */
MF_API mf_output mf_layer(mf_model *model, const char *kind, const mf_output *inputs,
                          const char *settings, ...) __attribute__((format(printf, 4, 5)));
/* What the model answers: class scores before the softmax, or predicted numbers. */
MF_API void mf_model_output(mf_model *model, mf_output output);

/* What training makes small: the loss of every sample, [n], by Keras's name and settings
 * ("huber delta=2"). Losses over classes take scores before the softmax. For models that train
 * themselves; `meshflow models --kind losses` lists them all. */
MF_API mf_output mf_loss(mf_model *model, const char *loss, mf_output output, mf_output label);

/* A model of the zoo for such data, by name and settings ("mlp units=64"): input shapes and the
 * number of classes come from the columns. NOT_FOUND naming the known ones. */
MF_API MF_MUST mf_status mf_model_zoo(const char *name, const mf_dataset *data, mf_model **out);

/* Loss and metrics that go with a model of the zoo; NULL for others. */
MF_API void mf_model_defaults(const mf_model *model, const char **loss, const char **metrics);

/* Weights whose name matches the pattern (as of file names: "conv2d*") are trained no more; or
 * again. NOT_FOUND: none does. Before mf_model_compile(). */
MF_API MF_MUST mf_status mf_model_freeze(mf_model *model, const char *pattern, bool frozen);

/* The graph: ops may be added between layers as one likes. */
MF_API mf_graph *mf_model_graph(mf_model *model);
MF_API MF_MUST mf_status mf_model_status(const mf_model *model);
/* Numbers in all weights, and in those that are trained. */
MF_API int64_t mf_model_parameters(const mf_model *model, int64_t *trained);

#ifdef __cplusplus
}
#endif
#endif
