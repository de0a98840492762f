/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_serve.c - bodies of REST requests. The first byte selects the method and the model; a parsed
 * request
 * has the model's shapes, and a response can be made. */
#include "serving/rest_request.h"

#include <stdint.h>

static const mf_serve_signature picture = {
    .inputs = { { "image", MF_DTYPE_U8, { .rank = 3, .dims = { 2, 2, 1 } }, 4 } },
    .n_inputs = 1,
    .output = { "scores", MF_DTYPE_F32, { .rank = 1, .dims = { 2 } }, 2 },
    .classes = 2,
};

static const mf_serve_signature several = {
    .inputs = { { "x", MF_DTYPE_F32, { .rank = 2, .dims = { 2, 3 } }, 6 },
                { "words", MF_DTYPE_STRING, { .rank = 1, .dims = { 2 } }, 2 },
                { "n", MF_DTYPE_I64, { .rank = 0 }, 1 },
                { "small", MF_DTYPE_I8, { .rank = 1, .dims = { 2 } }, 2 },
                { "is", MF_DTYPE_BOOL, { .rank = 0 }, 1 } },
    .n_inputs = 5,
    .output = { "values", MF_DTYPE_F32, { .rank = 0 }, 1 },
};

static void answer(const mf_serve_signature *s, const mf_serve_request *r)
{
    mf_shape shape = { .rank = s->output.shape.rank + 1, .dims = { r->rows, 2 } };
    mf_tensor output = { 0 };
    mf_buf out = { 0 };

    MF_ASSERT(r->rows > 0);
    for (int i = 0; i < s->n_inputs; i++) {
        MF_ASSERT(r->inputs[i].dtype == s->inputs[i].dtype);
        MF_ASSERT(r->inputs[i].count == r->rows * s->inputs[i].count);
    }
    if (mf_tensor_alloc(&output, MF_DTYPE_F32, &shape) != MF_OK)
        return;
    for (int64_t i = 0; i < output.count; i++)
        ((float *)output.data)[i] = (float)i;
    mf_serve_answer_encode(s, r, &output, 0, &out);
    mf_tensor_clear(&output);
    mf_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const mf_serve_signature *s = size > 0 && data[0] & 4 ? &several : &picture;
    mf_serve_request r;

    if (size == 0)
        return 0;
    if (mf_serve_request_decode(s, (mf_serve_verb)((data[0] & 3) % 3), (const char *)data + 1,
                                size - 1, &r) == MF_OK)
        answer(s, &r);
    mf_serve_request_deinit(&r);
    return 0;
}
