/* SPDX-License-Identifier: Apache-2.0 */
/* json_value.h - decodes one JSON value to elements of a tensor. */
#ifndef MF_SERVING_JSON_VALUE_H
#define MF_SERVING_JSON_VALUE_H

#include "serving/model_signature.h"
#include "tensor/tensor.h"

#include <jansson.h>

/* Where elements are stored, and the name of the place for messages. */
typedef struct mf_serve_place {
    const mf_serve_input *input;
    mf_tensor *to; /* NULL: the value is only checked */
    int64_t at; /* the first element */
    bool flat_too; /* a row may be a flat list, as features of examples are */
    char path[160]; /* "instances[3].image" */
} mf_serve_place;

/* Decodes the elements of one row. Fails: INVALID_ARGUMENT naming the place. */
MF_MUST mf_status mf_serve_value_decode(const json_t *v, const mf_serve_place *place);
/* {"b64": "..."}, which is not a map of inputs. */
bool mf_serve_value_is_bytes(const json_t *v);
/* "a list", for messages. */
const char *mf_serve_value_kind(const json_t *v);

#endif
