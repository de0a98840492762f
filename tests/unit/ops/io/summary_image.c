/* SPDX-License-Identifier: Apache-2.0 */
/* summary_image.c - ImageSummary: contents of the images, which the samples of ops do not check. */
#include "graph/graph.h"
#include "mf_test.h"
#include "proto/summary.pb-c.h"
#include "proto/wire.h"

#include <meshflow/session.h>

#include <math.h>
#include <png.h>
#include <string.h>

static mf_tensor *tensor(mf_dtype type, const int64_t *dims, int rank)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(type, dims, rank, &t));
    return t;
}

/* The summary of these images, decoded into the arena; NULL when the run fails. */
static const Tensorflow__Summary *summarize(const mf_tensor *images, int64_t max_images,
                                            mf_arena *arena)
{
    mf_tensor *tag = tensor(MF_DTYPE_STRING, NULL, 0), *out = NULL;
    mf_tensor *bad = tensor(MF_DTYPE_U8, (const int64_t[]){ 4 }, 1);
    const char *fetch = "img", *data;
    ProtobufCMessage *message = NULL;
    mf_session *s;
    mf_graph *g;
    mf_node *node;
    size_t len;

    memcpy(mf_tensor_data(bad), (const uint8_t[]){ 9, 8, 7, 6 }, 4);
    T_OK(mf_tensor_set_string(tag, 0, "t", 1));
    T_OK(mf_graph_new(&g));
    const mf_output in[] = { mf_constant(g, tag, NULL), mf_constant(g, images, NULL) };
    const mf_named_attr attrs[] = {
        { "bad_color", { .kind = MF_ATTR_TENSOR, .n = 1, .tensor = mf_graph_own_tensor(g, bad) } },
        { "max_images", { .kind = MF_ATTR_INT, .n = 1, .i = max_images } },
    };

    T_OK(mf_graph_add(g,
                      &(mf_node_spec){ .name = "img",
                                       .op = "ImageSummary",
                                       .inputs = in,
                                       .n_inputs = 2,
                                       .attrs = attrs,
                                       .n_attrs = 2 },
                      &node));
    T_OK(mf_session_new(g, NULL, &s));
    if (mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &out) == MF_OK) {
        T_OK(mf_tensor_get_string(out, 0, &data, &len));
        T_OK(mf_wire_decode(&tensorflow__summary__descriptor, data, len, NULL, arena, &message));
    }
    mf_tensor_free(out);
    mf_session_free(s);
    mf_graph_free(g);
    mf_tensor_free(tag);
    mf_tensor_free(bad);
    return (const Tensorflow__Summary *)message;
}

static void pixels_are(const Tensorflow__Summary__Value *v, uint32_t format, const uint8_t *want,
                       size_t n)
{
    png_image png = { .version = PNG_IMAGE_VERSION };
    uint8_t have[64];

    T_EQ(v->value_case, TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE);
    T_TRUE(png_image_begin_read_from_memory(&png, v->image->encoded_image_string.data,
                                            v->image->encoded_image_string.len));
    png.format = format;
    T_EQ(PNG_IMAGE_SIZE(png), n);
    T_TRUE(png_image_finish_read(&png, NULL, have, 0, NULL));
    for (size_t i = 0; i < n; i++)
        T_EQ(have[i], want[i]);
}

MF_TEST(image_summary_keeps_bytes_and_numbers_the_images)
{
    mf_tensor *t = tensor(MF_DTYPE_U8, (const int64_t[]){ 2, 1, 2, 3 }, 4);
    mf_arena *arena = mf_arena_new();
    const Tensorflow__Summary *s;

    for (int i = 0; i < 12; i++)
        ((uint8_t *)mf_tensor_data(t))[i] = (uint8_t)(20 * i);
    s = summarize(t, 3, arena);
    T_TRUE(s != NULL);
    T_EQ(s->n_value, 2);
    T_STREQ(s->value[0]->tag, "t/image/0");
    T_STREQ(s->value[1]->tag, "t/image/1");
    T_EQ(s->value[0]->image->height, 1);
    T_EQ(s->value[0]->image->width, 2);
    T_EQ(s->value[0]->image->colorspace, 3);
    pixels_are(s->value[1], PNG_FORMAT_RGB, (const uint8_t[]){ 120, 140, 160, 180, 200, 220 }, 6);
    s = summarize(t, 1, arena);
    T_EQ(s->n_value, 1);
    T_STREQ(s->value[0]->tag, "t/image");
    mf_arena_free(arena);
    mf_tensor_free(t);
}

MF_TEST(image_summary_scales_floats_and_marks_what_is_not_finite)
{
    static const float plain[] = { 0, 1, 2, 4 }, both[] = { -2, 0, 1, NAN };
    mf_tensor *t = tensor(MF_DTYPE_F32, (const int64_t[]){ 1, 2, 2, 1 }, 4);
    mf_arena *arena = mf_arena_new();
    const Tensorflow__Summary *s;

    memcpy(mf_tensor_data(t), plain, sizeof plain);
    s = summarize(t, 1, arena);
    pixels_are(s->value[0], PNG_FORMAT_GRAY, (const uint8_t[]){ 0, 63, 127, 255 }, 4);
    mf_tensor_free(t);
    t = tensor(MF_DTYPE_F32, (const int64_t[]){ 1, 2, 2, 1 }, 4);
    memcpy(mf_tensor_data(t), both, sizeof both);
    s = summarize(t, 1, arena);
    pixels_are(s->value[0], PNG_FORMAT_GRAY, (const uint8_t[]){ 1, 128, 191, 9 }, 4);
    mf_arena_free(arena);
    mf_tensor_free(t);
}

MF_TEST(image_summary_rejects_two_channels_and_no_pixels)
{
    mf_arena *arena = mf_arena_new();
    mf_tensor *two = tensor(MF_DTYPE_F32, (const int64_t[]){ 1, 2, 2, 2 }, 4);
    mf_tensor *none = tensor(MF_DTYPE_F32, (const int64_t[]){ 1, 0, 2, 1 }, 4);

    T_TRUE(summarize(two, 1, arena) == NULL);
    T_TRUE(summarize(none, 1, arena) == NULL);
    mf_tensor_free(two);
    mf_tensor_free(none);
    mf_arena_free(arena);
}
