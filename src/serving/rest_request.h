/* SPDX-License-Identifier: Apache-2.0 */
/* rest_request.h - decodes bodies of TensorFlow Serving's REST requests to tensors, and encodes
 * answers.
 *
 *     {"instances": [ROW, ...]}             row format: {"predictions": [ROW, ...]}
 *     {"inputs": VALUE}                     column format: {"outputs": VALUE}
 *     {"examples": [{NAME: VALUE}, ...]}    of :classify and :regress: {"results": [...]}
 *
 * A row is a value, or a map from input names to values. Bytes are {"b64": "..."}: a string for an
 * input of strings; for other inputs the elements of a row in memory order, or, for pixels, a PNG
 * or JPEG file. */
#ifndef MF_SERVING_REST_REQUEST_H
#define MF_SERVING_REST_REQUEST_H

#include "serving/model_signature.h"
#include "tensor/tensor.h"

typedef enum mf_serve_verb { MF_SERVE_PREDICT, MF_SERVE_CLASSIFY, MF_SERVE_REGRESS } mf_serve_verb;

typedef struct mf_serve_request {
    mf_serve_verb verb;
    bool by_column; /* "inputs" */
    int64_t rows; /* at least 1 */
    mf_tensor inputs[MF_SERVE_INPUTS]; /* [rows, ...], in the order of the signature */
} mf_serve_request;

/* Owns: mf_serve_request_deinit(), also after a failure. Fails: INVALID_ARGUMENT naming the place
 * ("instances[3].image[0]: ..."), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_serve_request_decode(const mf_serve_signature *s, mf_serve_verb verb,
                                          const char *text, size_t len, mf_serve_request *out);
void mf_serve_request_deinit(mf_serve_request *r);

/* Encodes the request's rows of the model's output, from row `first` on. */
void mf_serve_answer_encode(const mf_serve_signature *s, const mf_serve_request *r,
                            const mf_tensor *output, int64_t first, mf_buf *out);
/* {"error": "..."} */
void mf_serve_error_encode(const char *message, mf_buf *out);

#endif
