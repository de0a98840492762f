/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - models made of layers, built on a graph that stays accessible.
 *
 *     mf_output x = mf_model_input(m, "image", MF_DTYPE_U8, (int64_t[]){ 28, 28, 1 }, 3);
 *     x = mf_layer(m, "Rescaling", MF_IN(x), "scale=0.00392157");
 *     x = mf_layer(m, "Flatten", MF_IN(x), NULL);
 *     x = mf_layer(m, "Dense", MF_IN(x), "units=128 activation=relu");
 *     mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=10"));
 *
 * Names of layers, their settings and their weights are those of Keras ("dense/kernel"). Errors are
 * sticky, as with graphs: mf_model_status() reports the first one. One graph serves training and
 * inference; ops that differ between them (dropout, batch normalisation) decide when they run. */
#ifndef MESHFLOW_MODEL_H
#define MESHFLOW_MODEL_H

#include <meshflow/data.h>
#include <meshflow/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_model mf_model;

MF_API MF_MUST mf_status mf_model_new(mf_model **out);
/* May be called before mf_trainer_free(): a trainer holds a reference to its model. */
MF_API void mf_model_free(mf_model *model);

/* An input: the column of this name in the data set. `dims` excludes the first dimension, the
 * samples of a batch. */
MF_API mf_output mf_model_input(mf_model *model, const char *name, mf_dtype dtype,
                                const int64_t *dims, int rank);
/* Add a layer on these inputs, with settings as printf-like text (NULL: none). Every layer also
 * accepts name='...' and trainable=false. `meshflow models --kind layers` lists all layers. */
MF_API mf_output mf_layer(mf_model *model, const char *kind, const mf_output *inputs,
                          const char *settings, ...) __attribute__((format(printf, 4, 5)));
/* Set the output of the model: class scores before the softmax, or predicted values. */
MF_API void mf_model_output(mf_model *model, mf_output output);

/* The loss of every sample, [n], by the name and settings of Keras ("huber delta=2"): the value
 * that training minimises. Losses over classes take scores before the softmax. For models that
 * define their own loss; `meshflow models --kind losses` lists all losses. */
MF_API mf_output mf_loss(mf_model *model, const char *loss, mf_output output, mf_output label);

/* A model of the zoo, by name and settings ("mlp units=64"). The columns determine input shapes and
 * the number of classes. Fails: NOT_FOUND naming the known models. */
MF_API MF_MUST mf_status mf_model_zoo(const char *name, const mf_dataset *data, mf_model **out);

/* Default loss and metrics of a model of the zoo; NULL for other models. */
MF_API void mf_model_defaults(const mf_model *model, const char **loss, const char **metrics);

/* Exclude weights whose name matches the pattern (a glob: "conv2d*") from training, or include them
 * again. Call it before mf_model_compile(). Fails: NOT_FOUND (no name matches). */
MF_API MF_MUST mf_status mf_model_freeze(mf_model *model, const char *pattern, bool frozen);

/* The graph. Ops may be added between layers. */
MF_API mf_graph *mf_model_graph(mf_model *model);
MF_API MF_MUST mf_status mf_model_status(const mf_model *model);
/* Number of parameters in all weights, and in the trainable ones. */
MF_API int64_t mf_model_parameters(const mf_model *model, int64_t *trained);

#ifdef __cplusplus
}
#endif
#endif
