/* SPDX-License-Identifier: Apache-2.0 */
/* model_signature.h - a model as its clients see it: named inputs, one output, both by the row. */
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
    mf_serve_input inputs[MF_SERVE_INPUTS]; /* in the order of the model's */
    int n_inputs;
    mf_serve_input output;
    int64_t classes; /* of which the output has a score each; 0: it has none */
    const char *const *class_names; /* NULL: they have none */
} mf_serve_signature;

/* Owns: what it refers to is the model's. Fails: UNIMPLEMENTED (an input whose shape is not known,
 * or too many of them). */
MF_MUST mf_status mf_serve_signature_init(mf_serve_signature *s, mf_model *model, int64_t classes,
                                          const char *const *class_names);
/* What TensorFlow Serving answers to GET /v1/models/NAME/metadata. */
void mf_serve_signature_metadata(const mf_serve_signature *s, const char *name, int64_t version,
                                 mf_buf *out);

#endif
