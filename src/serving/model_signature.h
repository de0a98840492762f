/* SPDX-License-Identifier: Apache-2.0 */
/* model_signature.h - the interface of a served model: named inputs and one output, row by row. */
#ifndef MF_SERVING_MODEL_SIGNATURE_H
#define MF_SERVING_MODEL_SIGNATURE_H

#include "models/model.h"

enum { MF_SERVE_INPUTS = 32 };

typedef struct mf_serve_input {
    const char *name;
    mf_dtype dtype;
    mf_shape shape; /* of one row; all dimensions are known */
    int64_t count; /* elements of one row, at least 1 */
} mf_serve_input;

typedef struct mf_serve_signature {
    mf_serve_input inputs[MF_SERVE_INPUTS]; /* in the order of the model */
    int n_inputs;
    mf_serve_input output;
    int64_t classes; /* classes that the output scores; 0: the output is not scores */
    const char *const *class_names; /* NULL: no names */
} mf_serve_signature;

/* Owns: borrows from the model. Fails: UNIMPLEMENTED (an input of unknown shape, or too many
 * inputs). */
MF_MUST mf_status mf_serve_signature_init(mf_serve_signature *s, mf_model *model, int64_t classes,
                                          const char *const *class_names);
/* What TensorFlow Serving answers to GET /v1/models/NAME/metadata. */
void mf_serve_signature_metadata(const mf_serve_signature *s, const char *name, int64_t version,
                                 mf_buf *out);

#endif
