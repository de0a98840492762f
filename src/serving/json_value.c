/* SPDX-License-Identifier: Apache-2.0 */
/* json_value.c - parses one JSON value into elements of a tensor. */
#include "serving/json_value.h"

#include "formats/image.h"

#include <float.h>
#include <math.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>

const char *mf_serve_value_kind(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "a map";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_NULL:
        return "null";
    default:
        return "a truth value";
    }
}

bool mf_serve_value_is_bytes(const json_t *v)
{
    return json_is_object(v) && json_object_size(v) == 1 &&
           json_is_string(json_object_get(v, "b64"));
}

/* The current element of the row, for messages. */
typedef struct json_value_cursor {
    const mf_serve_place *place;
    int64_t index[MF_MAX_RANK];
    int depth; /* depth of nested lists */
    int64_t next; /* element of the row */
} json_value_cursor;

static mf_status json_value_wrong(const json_value_cursor *c, const char *fmt, ...) MF_PRINTF(2, 3);

static mf_status json_value_wrong(const json_value_cursor *c, const char *fmt, ...)
{
    char where[MF_MAX_RANK * 24 + 1] = "", what[256];
    size_t n = 0;
    va_list args;

    for (int i = 0; i < c->depth; i++)
        n += (size_t)snprintf(where + n, sizeof where - n, "[%lld]", (long long)c->index[i]);
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s%s: %s", c->place->path, where, what);
}

/* ---- one element ---- */

static mf_status json_value_put_number(json_value_cursor *c, double value)
{
    if (c->place->to)
        mf_tensor_put(c->place->to, c->place->at + c->next, value);
    c->next++;
    return MF_OK;
}

/* Integers above 2^53 are not exact as doubles. */
static mf_status put_integer(json_value_cursor *c, int64_t value)
{
    static const struct {
        mf_dtype dtype;
        int64_t min, max;
    } ranges[] = {
        { MF_DTYPE_I8, INT8_MIN, INT8_MAX },    { MF_DTYPE_I16, INT16_MIN, INT16_MAX },
        { MF_DTYPE_I32, INT32_MIN, INT32_MAX }, { MF_DTYPE_U8, 0, UINT8_MAX },
        { MF_DTYPE_U16, 0, UINT16_MAX },        { MF_DTYPE_U32, 0, UINT32_MAX },
        { MF_DTYPE_U64, 0, INT64_MAX },
    };
    const mf_dtype dtype = c->place->input->dtype;

    for (int i = 0; i < MF_COUNT(ranges); i++) {
        if (ranges[i].dtype == dtype && (value < ranges[i].min || value > ranges[i].max))
            return json_value_wrong(c, "%lld does not fit %s", (long long)value,
                                    mf_dtype_name(dtype));
    }
    if ((dtype != MF_DTYPE_I64 && dtype != MF_DTYPE_U64) || !c->place->to)
        return json_value_put_number(c, (double)value);
    ((int64_t *)c->place->to->data)[c->place->at + c->next++] = value;
    return MF_OK;
}

static mf_status json_value_put_string(json_value_cursor *c, const char *data, size_t len)
{
    const int64_t i = c->place->at + c->next++;

    return c->place->to ? mf_string_set((mf_string *)c->place->to->data + i, data, len) : MF_OK;
}

static mf_status decode_element(json_value_cursor *c, const json_t *v)
{
    const mf_dtype dtype = c->place->input->dtype;

    if (dtype == MF_DTYPE_STRING && json_is_string(v))
        return json_value_put_string(c, json_string_value(v), json_string_length(v));
    if (dtype == MF_DTYPE_BOOL && json_is_boolean(v))
        return json_value_put_number(c, json_is_true(v));
    if (dtype == MF_DTYPE_F32 && json_is_number(v) && fabs(json_number_value(v)) > FLT_MAX)
        return json_value_wrong(c, "%g does not fit a float",
                                json_number_value(v)); /* it would become Inf */
    if (mf_dtype_is_float(dtype) && json_is_number(v))
        return json_value_put_number(c, json_number_value(v));
    if (mf_dtype_is_int(dtype) && json_is_integer(v))
        return put_integer(c, json_integer_value(v));
    return json_value_wrong(c, "expected %s, found %s", mf_dtype_name(dtype),
                            mf_serve_value_kind(v));
}

/* ---- bytes ---- */

/* Decodes an image file to the channels of the input. */
static mf_status decode_picture(json_value_cursor *c, const void *data, size_t len)
{
    const mf_shape *s = &c->place->input->shape;
    const int64_t channels = s->rank == 3 ? s->dims[2] : 1;
    mf_buf pixels = { 0 };
    mf_image image = { 0 };
    mf_status st = mf_image_info(data, len, &image);

    if (st == MF_OK && (image.height != s->dims[0] || image.width != s->dims[1])) {
        st = json_value_wrong(c, "the image is %lldx%lld, not %lldx%lld", (long long)image.height,
                              (long long)image.width, (long long)s->dims[0], (long long)s->dims[1]);
        return st;
    }
    if (st == MF_OK && c->place->to) {
        st = mf_image_decode(data, len, (int)channels, &pixels, &image);
        if (st == MF_OK)
            memcpy((char *)c->place->to->data + c->place->at, pixels.data, pixels.len);
    }
    mf_buf_deinit(&pixels);
    if (st != MF_OK)
        return json_value_wrong(c, "%.150s", mf_error_message());
    c->next += c->place->input->count;
    return MF_OK;
}

static bool takes_pictures(const mf_serve_input *in)
{
    const mf_shape *s = &in->shape;

    return in->dtype == MF_DTYPE_U8 &&
           (s->rank == 2 || (s->rank == 3 && (s->dims[2] == 1 || s->dims[2] == 3)));
}

/* True for an image file that is not a row of pixels. Pixels may begin with the three bytes of a
 * JPEG signature, or even the eight bytes of a PNG signature. */
static bool json_value_is_picture(const mf_serve_input *in, const char *data, size_t len)
{
    const mf_image_format format = mf_image_format_of(data, len);

    return takes_pictures(in) &&
           (format == MF_IMAGE_PNG || (format == MF_IMAGE_JPEG && len != (size_t)in->count));
}

/* Decoded base64: a whole row, or an element that is a string. */
static mf_status use_bytes(json_value_cursor *c, const char *data, size_t len)
{
    const mf_serve_place *p = c->place;
    const mf_dtype dtype = p->input->dtype;
    const int64_t n = p->input->count;
    const size_t size = mf_dtype_size(dtype);

    if (dtype == MF_DTYPE_STRING && c->depth == p->input->shape.rank)
        return json_value_put_string(c, data, len);
    if (c->depth == 0 && json_value_is_picture(p->input, data, len))
        return decode_picture(c, data, len);
    if (dtype == MF_DTYPE_STRING || c->depth > 0 || len != (size_t)n * size)
        return json_value_wrong(c, "%zu bytes of base64 are no row of %lld %s%s", len, (long long)n,
                                mf_dtype_name(dtype),
                                takes_pictures(p->input) ? ", nor a PNG or JPEG file" : "");
    for (size_t i = 0; dtype == MF_DTYPE_BOOL && i < len; i++) {
        if ((unsigned char)data[i] > 1)
            return json_value_wrong(c, "byte %zu is neither 0 nor 1", i);
    }
    if (p->to)
        memcpy((char *)p->to->data + (size_t)p->at * size, data, len);
    c->next += n;
    return MF_OK;
}

static mf_status decode_bytes(json_value_cursor *c, const json_t *v)
{
    const json_t *text = json_object_get(v, "b64");
    const size_t len = json_string_length(text);
    struct base64_decode_ctx ctx;
    size_t n = BASE64_DECODE_LENGTH(len);
    uint8_t *data = mf_calloc((int64_t)n + 1, 1);
    mf_status st;

    if (!data)
        return MF_NOMEM("bytes of a request");
    base64_decode_init(&ctx);
    if (!base64_decode_update(&ctx, &n, data, len, json_string_value(text)) ||
        !base64_decode_final(&ctx))
        st = json_value_wrong(c, "the value of \"b64\" is not base64");
    else
        st = use_bytes(c, (const char *)data, n);
    mf_free(data);
    return st;
}

/* ---- lists ---- */

static mf_status decode_any(json_value_cursor *c, const json_t *v)
{
    const mf_shape *s = &c->place->input->shape;
    const int depth = c->depth;
    const bool bytes = mf_serve_value_is_bytes(v);
    mf_status st = MF_OK;

    if (bytes && (depth == 0 || depth == s->rank))
        return decode_bytes(c, v);
    if (depth == s->rank)
        return decode_element(c, v);
    if (!json_is_array(v))
        return json_value_wrong(c, "expected a list of %lld, found %s", (long long)s->dims[depth],
                                mf_serve_value_kind(v));
    if (json_array_size(v) != (size_t)s->dims[depth])
        return json_value_wrong(c, "expected a list of %lld, found one of %zu",
                                (long long)s->dims[depth], json_array_size(v));
    c->depth = depth + 1;
    for (size_t i = 0; st == MF_OK && i < json_array_size(v); i++) {
        c->index[depth] = (int64_t)i;
        st = decode_any(c, json_array_get(v, i));
    }
    c->depth = depth;
    return st;
}

/* All elements of the row in one list. */
static mf_status decode_flat(json_value_cursor *c, const json_t *v)
{
    mf_status st = MF_OK;

    c->depth = 1;
    for (size_t i = 0; st == MF_OK && i < json_array_size(v); i++) {
        c->index[0] = (int64_t)i;
        st = decode_element(c, json_array_get(v, i));
    }
    return st;
}

mf_status mf_serve_value_decode(const json_t *v, const mf_serve_place *place)
{
    const mf_shape *s = &place->input->shape;
    json_value_cursor c = { .place = place };

    if (place->flat_too && s->rank != 1 && json_is_array(v) &&
        json_array_size(v) == (size_t)place->input->count && !json_is_array(json_array_get(v, 0)))
        MF_TRY(decode_flat(&c, v));
    else
        MF_TRY(decode_any(&c, v));
    MF_ASSERT(c.next == place->input->count); /* the lists have matched the shape */
    return MF_OK;
}
