/* SPDX-License-Identifier: Apache-2.0 */
/* summary_image.c - ImageSummary: a batch of images as PNG files inside a Summary message. */
#include "formats/image.h"
#include "ops/io/summary_util.h"

#include <math.h>

typedef struct image {
    int64_t height, width, channels;
    uint8_t *pixels; /* height * width * channels */
} image;

/* ---- pixels ---- */

/* Scales floats to 0..255: from 0 if none is negative, else around 128. A pixel that is not finite
 * gets the bad colour. */
static void pixels_from_floats(const mf_tensor *t, int64_t first, const uint8_t *bad, image *im)
{
    const int64_t n = im->height * im->width, c = im->channels;
    float least = INFINITY, most = -INFINITY, scale, offset, size;

    for (int64_t p = 0; p < n; p++) {
        for (int64_t j = 0; j < c; j++) {
            const float v = (float)mf_tensor_float_at(t, first + p * c + j);

            if (isfinite(v)) {
                least = v < least ? v : least;
                most = v > most ? v : most;
            }
        }
    }
    offset = least < 0 ? 128.0f : 0.0f;
    size = least < 0 ? fmaxf(fabsf(least), fabsf(most)) : most;
    scale = !(size >= 1e-6f) ? 0.0f : (least < 0 ? 127.0f : 255.0f) / size;
    for (int64_t p = 0; p < n; p++) {
        bool finite = true;

        for (int64_t j = 0; j < c; j++)
            finite &= isfinite((float)mf_tensor_float_at(t, first + p * c + j)) != 0;
        for (int64_t j = 0; j < c; j++)
            im->pixels[p * c + j] =
                finite ? (uint8_t)((float)mf_tensor_float_at(t, first + p * c + j) * scale + offset)
                       : bad[j];
    }
}

static void bad_colour(const mf_node *node, uint8_t bad[4])
{
    static const uint8_t red[4] = { 255, 0, 0, 255 };
    const mf_attr *a = mf_node_attr(node, "bad_color");
    const mf_tensor *t = a && a->kind == MF_ATTR_TENSOR && a->n > 0 ? a->tensor : NULL;

    memcpy(bad, red, sizeof red);
    for (int64_t i = 0; t && t->dtype == MF_DTYPE_U8 && i < t->count && i < 4; i++)
        bad[i] = ((const uint8_t *)t->data)[i];
}

static mf_status add_image(mf_summary *s, const image *im, const char *tag)
{
    const mf_image size = { im->height, im->width, im->channels };
    Tensorflow__Summary__Image *message = MF_ARENA_NEW(s->arena, Tensorflow__Summary__Image);
    Tensorflow__Summary__Value *v;
    mf_buf buf = { 0 };
    mf_status st;

    MF_TRY(mf_summary_value(s, tag, strlen(tag), &v));
    if (!message)
        return MF_NOMEM("an image");
    tensorflow__summary__image__init(message);
    MF_TRY_TO(done, mf_png_encode(im->pixels, &size, &buf));
    message->height = (int32_t)im->height;
    message->width = (int32_t)im->width;
    message->colorspace = (int32_t)im->channels;
    message->encoded_image_string.len = buf.len;
    message->encoded_image_string.data = (uint8_t *)mf_arena_strndup(s->arena, buf.data, buf.len);
    v->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE;
    v->image = message;
    if (!message->encoded_image_string.data)
        st = MF_NOMEM("an image");

done:
    mf_buf_deinit(&buf);
    return st;
}

static mf_status add_images(const mf_kernel *k, mf_summary *s, image *im)
{
    const mf_tensor *t = k->in[1];
    const mf_string *tag = mf_strings(k->in[0]);
    const int64_t most = mf_node_int(k->node, "max_images");
    const int64_t n = t->shape.dims[0] < most ? t->shape.dims[0] : most;
    const int64_t size = im->height * im->width * im->channels;
    uint8_t bad[4];

    bad_colour(k->node, bad);
    for (int64_t i = 0; i < n; i++) {
        const char *name =
            most == 1 ? mf_arena_printf(s->arena, "%.*s/image", (int)tag->len, mf_string_data(tag))
                      : mf_arena_printf(s->arena, "%.*s/image/%lld", (int)tag->len,
                                        mf_string_data(tag), (long long)i);

        if (!name)
            return MF_NOMEM("an image");
        if (t->dtype == MF_DTYPE_U8)
            memcpy(im->pixels, (const uint8_t *)t->data + i * size, (size_t)size);
        else
            pixels_from_floats(t, i * size, bad, im);
        MF_TRY(add_image(s, im, name));
    }
    return MF_OK;
}

static mf_status image_run(mf_kernel *k)
{
    const mf_shape *shape = &k->in[1]->shape;
    mf_tensor pixels = { 0 };
    char text[MF_SHAPE_TEXT];
    mf_summary s = { 0 };
    image im;
    mf_status st;

    if (k->in[0]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tags must be a scalar");
    if (shape->rank != 4 || (shape->dims[3] != 1 && shape->dims[3] != 3 && shape->dims[3] != 4))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tensor must be 4-D with last dim 1, 3, or 4, not %s",
                       mf_shape_text(shape, text));
    im = (image){ shape->dims[1], shape->dims[2], shape->dims[3], NULL };
    if (shape->dims[0] > INT32_MAX || im.height > INT32_MAX || im.width > INT32_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Tensor too large for summary %s",
                       mf_shape_text(shape, text));
    if (shape->dims[0] > 0 && (im.height == 0 || im.width == 0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "images of shape %s have no pixels",
                       mf_shape_text(shape, text));
    MF_TRY_TO(done, mf_summary_init(&s));
    if (shape->dims[0] > 0) {
        MF_TRY_TO(done, mf_tensor_alloc(&pixels, MF_DTYPE_U8,
                                        &MF_SHAPE(im.height, im.width, im.channels)));
        im.pixels = pixels.data;
        MF_TRY_TO(done, add_images(k, &s, &im));
    }
    MF_TRY_TO(done, mf_summary_store(k, &s));

done:
    mf_tensor_clear(&pixels);
    mf_summary_deinit(&s);
    return st;
}

static mf_status image_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 0));
    MF_TRY(mf_infer_rank(in, 1, 4));
    return mf_infer_scalar(in);
}

const mf_op mf_op_image_summary = {
    .name = "ImageSummary",
    .def = "(tag:string, tensor:T) -> (summary:string) {max_images:int>=1=3, T:type=float in "
           "[uint8,float,half,double], bad_color:tensor=uint8[4]{255,0,0,255}}",
    .infer = image_infer,
    .grad = mf_grad_none,
    .run = image_run,
    /* The bytes of a PNG depend on the compression library: not compared with TensorFlow. */
    .samples = MF_SAMPLES("str[]{img} u8[2,3,4,3]@0:256 !notf",
                          "str[]{img} f32[1,2,2,1] ; max_images=1 !notf",
                          "str[]{img} f64[5,2,2,4]@0:1 !notf", "str[]{img} f16[1,1,1,1] !notf",
                          "str[]{img} f32[0,2,2,1] !notf", "str[]{img} f32[1,2,2,2] !fails",
                          "str[]{img} f32[2,2,1] !fails"),
};
