/* SPDX-License-Identifier: Apache-2.0 */
/* rest_request.c - requests and responses of the REST API, and their errors. */
#include "serving/rest_request.h"

#include "mf_test.h"

#include <string.h>

static const char *const names[] = { "no", "yes" };

static const mf_serve_signature picture = {
    .inputs = { { "image", MF_DTYPE_U8, { .rank = 2, .dims = { 2, 2 } }, 4 } },
    .n_inputs = 1,
    .output = { "scores", MF_DTYPE_F32, { .rank = 1, .dims = { 2 } }, 2 },
    .classes = 2,
    .class_names = names,
};

static const mf_serve_signature two = {
    .inputs = { { "x", MF_DTYPE_F32, { .rank = 1, .dims = { 2 } }, 2 },
                { "word", MF_DTYPE_STRING, { .rank = 0 }, 1 } },
    .n_inputs = 2,
    .output = { "values", MF_DTYPE_F32, { .rank = 0 }, 1 },
};

static const mf_serve_signature strings = {
    .inputs = { { "words", MF_DTYPE_STRING, { .rank = 1, .dims = { 2 } }, 2 } },
    .n_inputs = 1,
    .output = { "values", MF_DTYPE_F32, { .rank = 0 }, 1 },
};

/* Four grey pixels. */
#define PNG                                                                                        \
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAAAABX3VL4AAAADklEQVR4nGNITGJITgEABJ0BiyFVTx4AAAAASUVORK5C" \
    "YI"                                                                                           \
    "I="

static mf_status decode(const mf_serve_signature *s, mf_serve_verb verb, const char *text,
                        mf_serve_request *r)
{
    return mf_serve_request_decode(s, verb, text, strlen(text), r);
}

static void refuses(const mf_serve_signature *s, mf_serve_verb verb, const char *text,
                    const char *why)
{
    mf_serve_request r;

    T_FAILS(MF_INVALID_ARGUMENT, why, decode(s, verb, text, &r));
    mf_serve_request_deinit(&r);
}

/* ---- what is read ---- */

static void reads_picture(const char *text, bool by_column, int64_t rows)
{
    mf_serve_request r;

    T_OK(decode(&picture, MF_SERVE_PREDICT, text, &r));
    T_EQ(r.rows, rows);
    T_EQ(r.by_column, by_column);
    T_EQ(r.inputs[0].shape.dims[0], rows);
    for (int64_t i = 0; i < 4; i++)
        T_EQ(((const uint8_t *)r.inputs[0].data)[i], i + 1);
    mf_serve_request_deinit(&r);
}

MF_TEST(serve_request_rows_columns_names_and_bytes_are_the_same)
{
    reads_picture("{\"instances\": [[[1,2],[3,4]], [[5,6],[7,255]]]}", false, 2);
    reads_picture("{\"instances\": [{\"image\": [[1,2],[3,4]]}]}", false, 1);
    reads_picture("{\"signature_name\": \"serving_default\", \"instances\": [[[1,2],[3,4]]]}",
                  false, 1);
    reads_picture("{\"instances\": [{\"b64\": \"AQIDBA==\"}]}", false, 1);
    reads_picture("{\"instances\": [{\"image\": {\"b64\": \"AQIDBA==\"}}]}", false, 1);
    reads_picture("{\"inputs\": [[[1,2],[3,4]]]}", true, 1);
    reads_picture("{\"inputs\": {\"image\": [[[1,2],[3,4]], [[0,0],[0,0]]]}}", true, 2);
}

MF_TEST(serve_request_takes_several_inputs_and_strings)
{
    mf_serve_request r;
    const mf_string *words;

    T_OK(decode(&two, MF_SERVE_PREDICT,
                "{\"instances\": [{\"x\": [1, 2.5], \"word\": \"a\"},"
                " {\"word\": {\"b64\": \"AGI=\"}, \"x\": [-1e3, 4]}]}",
                &r));
    words = r.inputs[1].data;
    T_EQ_F(((const float *)r.inputs[0].data)[1], 2.5f);
    T_EQ_F(((const float *)r.inputs[0].data)[2], -1000.0f);
    T_EQ((int64_t)words[1].len, 2);
    T_EQ(memcmp(words[1].data, "\0b", 2), 0);
    mf_serve_request_deinit(&r);
}

MF_TEST(serve_request_examples_are_flat_and_share_a_context)
{
    mf_serve_request r;

    T_OK(decode(&picture, MF_SERVE_CLASSIFY, "{\"examples\": [{\"image\": [1,2,3,4]}]}", &r));
    T_EQ(((const uint8_t *)r.inputs[0].data)[3], 4);
    mf_serve_request_deinit(&r);
    T_OK(decode(&two, MF_SERVE_REGRESS,
                "{\"context\": {\"word\": \"w\"}, \"examples\": [{\"x\": [1,2]}, {\"x\": [3,4]}]}",
                &r));
    T_EQ(r.rows, 2);
    T_EQ(((const mf_string *)r.inputs[1].data)[1].data[0], 'w');
    mf_serve_request_deinit(&r);
}

/* ---- what is refused ---- */

MF_TEST(serve_request_errors_locate_wrong_shapes_and_types)
{
    const mf_serve_verb p = MF_SERVE_PREDICT;

    refuses(&picture, p, "{\"instances\": [[[1,2],[3,4]], [[1,2],[3]]]}",
            "instances[1][1]: expected a list of 2, found one of 1");
    refuses(&picture, p, "{\"instances\": [[[1,2],[3,256]]]}",
            "instances[0][1][1]: 256 does not fit uint8");
    refuses(&picture, p, "{\"instances\": [[[1,2],[3,0.5]]]}",
            "expected uint8, found a number with a fraction");
    refuses(&picture, p, "{\"instances\": [7]}", "expected a list of 2, found a whole number");
    refuses(&picture, p, "{\"inputs\": 7}", "inputs: expected a list of rows");
    refuses(&picture, p, "{\"instances\": [{\"b64\": \"AQID\"}]}", "3 bytes of base64");
    refuses(&picture, p, "{\"instances\": [{\"b64\": \"A!\"}]}", "not base64");
    refuses(&picture, p, "{\"instances\": [[[{\"b64\": \"" PNG "\"}, 7], [7, 7]]]}",
            "[0][0][0]: 71 bytes of base64 are no row of 4");
    refuses(&strings, p, "{\"instances\": [{\"b64\": \"AGI=\"}]}", "2 bytes of base64");
    refuses(&two, p, "{\"inputs\": {\"x\": [[1,2]], \"word\": [\"a\", \"b\"]}}",
            "inputs.word has 2 rows, and x has 1");
}

MF_TEST(serve_request_errors_list_valid_names_and_keys)
{
    const mf_serve_verb p = MF_SERVE_PREDICT;

    refuses(&picture, p, "{\"instances\": [[[1,2],", "JSON Parse error");
    refuses(&picture, p, "", "JSON Parse error");
    refuses(&picture, p, "[1]", "expected a map, found a list");
    refuses(&picture, p, "{}", "\"instances\" or \"inputs\" is missing");
    refuses(&picture, p, "{\"instances\": [], \"inputs\": []}", "not both");
    refuses(&picture, p, "{\"instances\": []}", "has no rows");
    refuses(&picture, p, "{\"signature_name\": \"other\", \"instances\": []}",
            "there is no signature \"other\"");
    refuses(&two, p, "{\"instances\": [{\"x\": [1,2]}]}", "\"word\" is missing");
    refuses(&two, p, "{\"instances\": [{\"x\": [1,1e39], \"word\": \"\"}]}",
            "instances[0].x[1]: 1e+39 does not fit a float");
    refuses(&two, p, "{\"instances\": [{\"x\": [1,2], \"word\": \"\", \"y\": 1}]}",
            "no input \"y\"; the model's inputs are \"x\", \"word\"");
    refuses(&two, p, "{\"instances\": [[1,2]]}", "expected a map of inputs");
    refuses(&two, MF_SERVE_CLASSIFY, "{\"examples\": []}", "not scores of classes");
    refuses(&picture, MF_SERVE_REGRESS, "{\"examples\": []}", "one number");
}

/* ---- answers ---- */

static void answers(const mf_serve_signature *s, const mf_serve_request *r, const char *expected)
{
    mf_shape shape = { .rank = 1 + s->output.shape.rank, .dims = { 2, 2 } };
    mf_tensor output = { 0 };
    mf_buf out = { 0 };

    T_OK(mf_tensor_alloc(&output, MF_DTYPE_F32, &shape));
    for (int64_t i = 0; i < output.count; i++)
        ((float *)output.data)[i] = 0.5f * (float)i;
    mf_serve_answer_encode(s, r, &output, 1, &out);
    T_STREQ(out.data, expected);
    mf_buf_deinit(&out);
    mf_tensor_clear(&output);
}

MF_TEST(serve_responses_have_the_format_of_the_request)
{
    answers(&picture, &(mf_serve_request){ .rows = 1 }, "{\"predictions\": [[1.0, 1.5]]}\n");
    answers(&picture, &(mf_serve_request){ .rows = 1, .by_column = true },
            "{\"outputs\": [[1.0, 1.5]]}\n");
    answers(&two, &(mf_serve_request){ .rows = 1 }, "{\"predictions\": [0.5]}\n");
    answers(&two, &(mf_serve_request){ .rows = 1, .verb = MF_SERVE_REGRESS },
            "{\"results\": [0.5]}\n");
    answers(&picture, &(mf_serve_request){ .rows = 1, .verb = MF_SERVE_CLASSIFY },
            "{\"results\": [[[\"no\", 0.377540669], [\"yes\", 0.622459331]]]}\n");
}
