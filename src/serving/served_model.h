/* SPDX-License-Identifier: Apache-2.0 */
/* served_model.h - a model with the weights of one checkpoint, ready for inference. */
#ifndef MF_SERVING_SERVED_MODEL_H
#define MF_SERVING_SERVED_MODEL_H

#include "serving/rest_request.h"

#include <meshflow/meshflow.h>

/* What is served, without weights. Owns: borrows everything. */
typedef struct mf_serve_model {
    const char *model; /* model text: "mlp units=64" */
    const mf_column *columns; /* of the training data */
    int n_columns;
    int64_t classes;
    const char *const *class_names; /* NULL: no names */
    mf_compile_options compile; /* threads, precision */
    const struct mf_strategy_settings *mesh; /* the strategy mesh; NULL: one device */
} mf_serve_model;

typedef struct mf_served mf_served;

/* Builds the model, reads its weights, and runs it once, so that the first request is not slow.
 * Fails as building does, and as mf_trainer_use(). */
MF_MUST mf_status mf_served_new(const mf_serve_model *what, const char *checkpoint,
                                mf_served **out);
void mf_served_free(mf_served *s);
const mf_serve_signature *mf_served_signature(const mf_served *s);

/* Runs the rows of all requests as one batch. *output has the rows in the order of the requests.
 * Owns: mf_tensor_clear(). */
MF_MUST mf_status mf_served_run(mf_served *s, const mf_serve_request *const *requests, int n,
                                mf_tensor *output);

/* The model without weights or session. Owns: the caller frees it. */
MF_MUST mf_status mf_serve_model_build(const mf_serve_model *what, mf_model **out);

#endif
