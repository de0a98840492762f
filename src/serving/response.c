/* SPDX-License-Identifier: Apache-2.0 */
/* response.c - encodes tensors as the JSON of TensorFlow Serving's answers. */
#include "serving/rest_request.h"

#include <math.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>

/* As TensorFlow Serving does: NaN and Infinity are written, although JSON does not have them. */
static void add_number(mf_buf *out, double value, int digits)
{
    if (isnan(value))
        mf_buf_str(out, "NaN");
    else if (isinf(value))
        mf_buf_str(out, value < 0 ? "-Infinity" : "Infinity");
    else {
        char text[40];

        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        mf_buf_str(out, text);
        if (!strpbrk(text, ".e"))
            mf_buf_str(out, ".0"); /* so that every reader takes it for a float */
    }
}

static void add_string(mf_buf *out, const mf_string *s)
{
    char *room;

    mf_buf_str(out, "{\"b64\": \"");
    room = mf_buf_room(out, BASE64_ENCODE_RAW_LENGTH(s->len));
    if (room)
        base64_encode_raw(room, s->len, (const uint8_t *)s->data);
    mf_buf_str(out, "\"}");
}

static void add_element(mf_buf *out, const mf_tensor *t, int64_t i)
{
    if (t->dtype == MF_DTYPE_STRING)
        add_string(out, (const mf_string *)t->data + i);
    else if (t->dtype == MF_DTYPE_BOOL)
        mf_buf_str(out, mf_tensor_int_at(t, i) ? "true" : "false");
    else if (mf_dtype_is_int(t->dtype))
        mf_buf_printf(out, "%lld", (long long)mf_tensor_int_at(t, i));
    else
        add_number(out, mf_tensor_float_at(t, i), t->dtype == MF_DTYPE_F64 ? 17 : 9);
}

/* Nested lists from dimension `axis` on; *at advances. */
static void add_value(mf_buf *out, const mf_tensor *t, int axis, int64_t *at)
{
    if (axis == t->shape.rank) {
        add_element(out, t, (*at)++);
        return;
    }
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < t->shape.dims[axis]; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        add_value(out, t, axis + 1, at);
    }
    mf_buf_str(out, "]");
}

/* [["label", probability], ...]: the softmax of the scores. */
static void add_classes(mf_buf *out, const mf_serve_signature *s, const mf_tensor *t, int64_t at)
{
    double most = -INFINITY, sum = 0;

    for (int64_t i = 0; i < s->classes; i++)
        most = fmax(most, mf_tensor_float_at(t, at + i));
    for (int64_t i = 0; i < s->classes; i++)
        sum += exp(mf_tensor_float_at(t, at + i) - most);
    mf_buf_str(out, "[");
    for (int64_t i = 0; i < s->classes; i++) {
        mf_buf_str(out, i > 0 ? ", [" : "[");
        if (s->class_names)
            mf_buf_json(out, s->class_names[i], strlen(s->class_names[i]));
        else
            mf_buf_printf(out, "\"%lld\"", (long long)i);
        mf_buf_str(out, ", ");
        add_number(out, exp(mf_tensor_float_at(t, at + i) - most) / sum, 9);
        mf_buf_str(out, "]");
    }
    mf_buf_str(out, "]");
}

void mf_serve_answer_encode(const mf_serve_signature *s, const mf_serve_request *r,
                            const mf_tensor *output, int64_t first, mf_buf *out)
{
    int64_t at = first * s->output.count;

    mf_buf_printf(out, "{\"%s\": [",
                  r->verb != MF_SERVE_PREDICT ? "results"
                  : r->by_column              ? "outputs"
                                              : "predictions");
    for (int64_t i = 0; i < r->rows; i++) {
        mf_buf_str(out, i > 0 ? ", " : "");
        if (r->verb == MF_SERVE_CLASSIFY) {
            add_classes(out, s, output, at);
            at += s->output.count;
        } else if (r->verb == MF_SERVE_REGRESS) {
            add_element(out, output, at++);
        } else {
            add_value(out, output, 1, &at);
        }
    }
    mf_buf_str(out, "]}\n");
}

void mf_serve_error_encode(const char *message, mf_buf *out)
{
    mf_buf_str(out, "{\"error\": ");
    mf_buf_json(out, message, strlen(message));
    mf_buf_str(out, "}\n");
}
