/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_codec.c - converts tensors and shapes from and to TensorProto and TensorShapeProto. */
#include "proto/tensor_codec.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensor_content is little-endian and copied without conversion");

/* ---- shapes ---- */

mf_status mf_shape_decode(const Tensorflow__TensorShapeProto *proto, mf_shape *out)
{
    *out = MF_SCALAR;
    if (!proto)
        return MF_OK;
    if (proto->unknown_rank) {
        if (proto->n_dim > 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "a shape of unknown rank has %zu dimensions",
                           proto->n_dim);
        *out = MF_SHAPE_UNKNOWN;
        return MF_OK;
    }
    if (proto->n_dim > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "rank %zu is above the limit of %d", proto->n_dim,
                       MF_MAX_RANK);
    out->rank = (int)proto->n_dim;
    for (int i = 0; i < out->rank; i++) {
        out->dims[i] = proto->dim[i]->size;
        if (out->dims[i] < MF_UNKNOWN_DIM)
            return MF_FAIL(MF_INVALID_ARGUMENT, "dimension %d of a shape is %lld", i,
                           (long long)out->dims[i]);
    }
    return MF_OK;
}

mf_status mf_shape_encode(const mf_shape *shape, mf_arena *arena,
                          Tensorflow__TensorShapeProto **out)
{
    Tensorflow__TensorShapeProto *proto = MF_ARENA_NEW(arena, Tensorflow__TensorShapeProto);
    const int rank = shape->rank < 0 ? 0 : shape->rank;

    *out = NULL;
    if (!proto)
        return MF_NOMEM("a shape");
    tensorflow__tensor_shape_proto__init(proto);
    proto->unknown_rank = shape->rank < 0;
    if (rank > 0) {
        Tensorflow__TensorShapeProto__Dim *dims =
            MF_ARENA_ARRAY(arena, Tensorflow__TensorShapeProto__Dim, rank);

        proto->dim = MF_ARENA_ARRAY(arena, Tensorflow__TensorShapeProto__Dim *, rank);
        if (!dims || !proto->dim)
            return MF_NOMEM("a shape");
        proto->n_dim = (size_t)rank;
        for (int i = 0; i < rank; i++) {
            tensorflow__tensor_shape_proto__dim__init(&dims[i]);
            dims[i].size = shape->dims[i];
            proto->dim[i] = &dims[i];
        }
    }
    *out = proto;
    return MF_OK;
}

/* ---- the values of a message ---- */

/* The *_val field of a type. Elements are the low `size` bytes of values of `width` bytes: exact if
 * the two are equal, the bits of a wider integer if not. */
typedef struct val_field {
    size_t n_offset, offset; /* in Tensorflow__TensorProto: number of values, their array */
    size_t width; /* bytes of one element in that array */
    size_t parts; /* values per element: 2 for complex */
} val_field;

#define VAL(field, width, parts)                                                                   \
    {                                                                                              \
        offsetof(Tensorflow__TensorProto, n_##field), offsetof(Tensorflow__TensorProto, field),    \
            width, parts                                                                           \
    }

static const val_field val_fields[MF_DTYPE_COUNT] = {
    [MF_DTYPE_F32] = VAL(float_val, 4, 1),
    [MF_DTYPE_F64] = VAL(double_val, 8, 1),
    [MF_DTYPE_I32] = VAL(int_val, 4, 1),
    [MF_DTYPE_U8] = VAL(int_val, 4, 1),
    [MF_DTYPE_I16] = VAL(int_val, 4, 1),
    [MF_DTYPE_I8] = VAL(int_val, 4, 1),
    [MF_DTYPE_C64] = VAL(scomplex_val, 8, 2),
    [MF_DTYPE_I64] = VAL(int64_val, 8, 1),
    [MF_DTYPE_BOOL] = VAL(bool_val, sizeof(protobuf_c_boolean), 1),
    [MF_DTYPE_QI8] = VAL(int_val, 4, 1),
    [MF_DTYPE_QU8] = VAL(int_val, 4, 1),
    [MF_DTYPE_QI32] = VAL(int_val, 4, 1),
    [MF_DTYPE_BF16] = VAL(half_val, 4, 1),
    [MF_DTYPE_QI16] = VAL(int_val, 4, 1),
    [MF_DTYPE_QU16] = VAL(int_val, 4, 1),
    [MF_DTYPE_U16] = VAL(int_val, 4, 1),
    [MF_DTYPE_C128] = VAL(dcomplex_val, 16, 2),
    [MF_DTYPE_F16] = VAL(half_val, 4, 1),
    [MF_DTYPE_U32] = VAL(uint32_val, 4, 1),
    [MF_DTYPE_U64] = VAL(uint64_val, 8, 1),
};

/* Properties of a message, checked before storage is allocated. */
typedef struct draft {
    const Tensorflow__TensorProto *proto;
    mf_dtype dtype;
    mf_shape shape;
    int64_t count; /* elements */
    size_t max_bytes; /* SIZE_MAX: no limit */
} draft;

static mf_status tensor_codec_check_room(const draft *d, int64_t elements, size_t size,
                                         size_t *left)
{
    int64_t bytes;

    if (!mf_mul_i64(elements, (int64_t)size, &bytes) || (size_t)bytes > *left)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "a tensor of %lld elements would need more than %zu bytes",
                       (long long)d->count, d->max_bytes);
    *left -= (size_t)bytes;
    return MF_OK;
}

static mf_status check_value_count(const draft *d, size_t values)
{
    if (values > (uint64_t)d->count)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%zu values for a tensor of %lld elements", values,
                       (long long)d->count);
    return MF_OK;
}

/* ---- plain types ---- */

static mf_status check_content(const draft *d, size_t len)
{
    int64_t bytes;

    if (mf_mul_i64(d->count, (int64_t)mf_dtype_size(d->dtype), &bytes) && (uint64_t)bytes == len)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "%zu bytes of content for %lld elements of type %s", len,
                   (long long)d->count, mf_dtype_name(d->dtype));
}

static mf_status decode_content(const draft *d, mf_tensor *out)
{
    const ProtobufCBinaryData content = d->proto->tensor_content;

    MF_TRY(check_content(d, content.len));
    MF_TRY(mf_tensor_alloc(out, d->dtype, &d->shape));
    memcpy(out->data, content.data, content.len);
    if (d->dtype == MF_DTYPE_BOOL) {
        uint8_t *b = out->data;

        for (int64_t i = 0; i < d->count; i++)
            b[i] = b[i] != 0;
    }
    return MF_OK;
}

/* Repeat the element at `from` until the end: each copy doubles the filled part. */
static void tensor_codec_splat(char *data, int64_t from, int64_t count, size_t size)
{
    const size_t total = (size_t)(count - from) * size;
    char *first = data + (size_t)from * size;

    for (size_t done = size; done < total;) {
        const size_t n = done < total - done ? done : total - done;

        memcpy(first + done, first, n);
        done += n;
    }
}

static mf_status decode_values(const draft *d, mf_tensor *out)
{
    const val_field field = val_fields[d->dtype];
    const size_t size = mf_dtype_size(d->dtype);
    const char *proto = (const char *)d->proto;
    const char *values;
    size_t n;

    memcpy(&n, proto + field.n_offset, sizeof n);
    memcpy(&values, proto + field.offset, sizeof values);
    if (n % field.parts != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%zu values cannot be pairs of a complex tensor", n);
    n /= field.parts;
    MF_TRY(check_value_count(d, n));
    MF_TRY(mf_tensor_alloc(out, d->dtype, &d->shape));
    if (d->count == 0)
        return MF_OK;
    if (n == 0) {
        memset(out->data, 0, (size_t)d->count * size);
        return MF_OK;
    }
    if (size == field.width) {
        memcpy(out->data, values, n * size);
    } else {
        for (size_t i = 0; i < n; i++)
            memcpy((char *)out->data + i * size, values + i * field.width, size);
    }
    tensor_codec_splat(out->data, (int64_t)n - 1, d->count, size);
    return MF_OK;
}

/* ---- strings ---- */

enum { STRING_OVERHEAD = 32 }; /* approximate heap overhead of a string */

/* The varint at *at; false when it is cut off or wider than 64 bits. */
static bool tensor_codec_read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* All lengths as varints, then all bytes. */
static mf_status decode_string_content(const draft *d, size_t left, mf_tensor *out)
{
    const ProtobufCBinaryData content = d->proto->tensor_content;
    const uint8_t *at = content.data, *end = content.data + content.len, *text;
    uint64_t len = 0, total = 0;

    for (int64_t i = 0; i < d->count; i++) {
        if (!tensor_codec_read_varint(&at, end, &len))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the length of string %lld is cut off",
                           (long long)i);
        if (len > content.len - total)
            return MF_FAIL(MF_INVALID_ARGUMENT, "string %lld runs past the end of the content",
                           (long long)i);
        total += len;
    }
    if (total != (uint64_t)(end - at))
        return MF_FAIL(MF_INVALID_ARGUMENT, "strings of %llu bytes in %td bytes of content",
                       (unsigned long long)total, end - at);
    MF_TRY(tensor_codec_check_room(d, (int64_t)total, 1, &left));
    MF_TRY(tensor_codec_check_room(d, d->count, STRING_OVERHEAD, &left));
    MF_TRY(mf_tensor_alloc(out, d->dtype, &d->shape));
    text = at;
    at = content.data;
    for (int64_t i = 0; i < d->count; i++) {
        (void)tensor_codec_read_varint(&at, end, &len);
        MF_TRY(mf_string_set((mf_string *)out->data + i, text, len));
        text += len;
    }
    return MF_OK;
}

static mf_status decode_string_values(const draft *d, size_t left, mf_tensor *out)
{
    const size_t n = d->proto->n_string_val;
    const ProtobufCBinaryData *values = d->proto->string_val;

    MF_TRY(check_value_count(d, n));
    for (size_t i = 0; i < n; i++) {
        const int64_t times = i + 1 == n ? d->count - (int64_t)i : 1;

        MF_TRY(tensor_codec_check_room(d, times, values[i].len + STRING_OVERHEAD, &left));
    }
    MF_TRY(mf_tensor_alloc(out, d->dtype, &d->shape));
    for (int64_t i = 0; n > 0 && i < d->count; i++) {
        const ProtobufCBinaryData *value = &values[(size_t)i < n ? (size_t)i : n - 1];

        MF_TRY(mf_string_set((mf_string *)out->data + i, value->data, value->len));
    }
    return MF_OK;
}

/* ---- tensors ---- */

static mf_status check_dtype(int32_t number)
{
    if (number == MF_DTYPE_RESOURCE || number == MF_DTYPE_VARIANT)
        return MF_FAIL(MF_UNIMPLEMENTED, "tensors of type %s cannot be sent or stored by value",
                       mf_dtype_name((mf_dtype)number));
    if (number > MF_DTYPE_REF && mf_dtype_is_valid(number - MF_DTYPE_REF))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a tensor cannot have the reference type %s_ref",
                       mf_dtype_name((mf_dtype)(number - MF_DTYPE_REF)));
    if (number == MF_DTYPE_INVALID)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a tensor without element type");
    if (!mf_dtype_is_valid(number))
        return MF_FAIL(MF_UNIMPLEMENTED, "tensors of element type %d are not supported", number);
    return MF_OK;
}

/* left: bytes that it may still allocate. */
static mf_status tensor_codec_begin(const Tensorflow__TensorProto *proto, size_t max_bytes,
                                    draft *d, size_t *left)
{
    *d = (draft){ .proto = proto,
                  .dtype = (mf_dtype)proto->dtype,
                  .max_bytes = max_bytes > 0 ? max_bytes : SIZE_MAX };
    *left = d->max_bytes;
    MF_TRY(check_dtype(proto->dtype));
    MF_TRY(mf_shape_decode(proto->tensor_shape, &d->shape));
    MF_TRY(mf_shape_count(&d->shape, &d->count));
    return tensor_codec_check_room(d, d->count, mf_dtype_cell(d->dtype), left);
}

static bool can_stay(const mf_iovec *part)
{
    return part && part->release && (uintptr_t)part->data % MF_BUFFER_ALIGN == 0;
}

mf_status mf_tensor_decode_apart(const Tensorflow__TensorProto *proto, size_t bytes,
                                 size_t max_bytes, const mf_iovec *stays, mf_tensor *out)
{
    size_t left;
    draft d;

    MF_TRY(tensor_codec_begin(proto, max_bytes, &d, &left));
    MF_TRY(check_content(&d, bytes));
    if (!can_stay(stays))
        return mf_tensor_alloc(out, d.dtype, &d.shape);
    MF_TRY(mf_buffer_borrow(stays, &out->buffer));
    out->dtype = d.dtype;
    out->shape = d.shape;
    out->count = d.count;
    out->data = out->buffer->data;
    return MF_OK;
}

mf_status mf_tensor_decode(const Tensorflow__TensorProto *proto, size_t max_bytes, mf_tensor *out)
{
    size_t left;
    mf_status st;
    draft d;

    MF_TRY(tensor_codec_begin(proto, max_bytes, &d, &left));
    if (d.dtype == MF_DTYPE_STRING)
        st = proto->tensor_content.len > 0 ? decode_string_content(&d, left, out)
                                           : decode_string_values(&d, left, out);
    else
        st = proto->tensor_content.len > 0 ? decode_content(&d, out) : decode_values(&d, out);
    if (st != MF_OK)
        mf_tensor_clear(out);
    return st;
}

static mf_status encode_strings(const mf_tensor *tensor, mf_arena *arena,
                                Tensorflow__TensorProto *proto)
{
    const mf_string *strings = tensor->data;

    if (tensor->count == 0)
        return MF_OK;
    proto->string_val = MF_ARENA_ARRAY(arena, ProtobufCBinaryData, tensor->count);
    if (!proto->string_val)
        return MF_NOMEM("the strings of a tensor");
    proto->n_string_val = (size_t)tensor->count;
    for (int64_t i = 0; i < tensor->count; i++)
        proto->string_val[i] =
            (ProtobufCBinaryData){ .len = strings[i].len, .data = (uint8_t *)strings[i].data };
    return MF_OK;
}

mf_status mf_tensor_encode(const mf_tensor *tensor, mf_arena *arena, Tensorflow__TensorProto **out)
{
    Tensorflow__TensorProto *proto = MF_ARENA_NEW(arena, Tensorflow__TensorProto);

    *out = NULL;
    MF_TRY(check_dtype((int32_t)tensor->dtype));
    if (!proto)
        return MF_NOMEM("a tensor's message");
    tensorflow__tensor_proto__init(proto);
    proto->dtype = (int32_t)tensor->dtype;
    MF_TRY(mf_shape_encode(&tensor->shape, arena, &proto->tensor_shape));
    if (tensor->dtype == MF_DTYPE_STRING) {
        MF_TRY(encode_strings(tensor, arena, proto));
    } else {
        proto->tensor_content.len = (size_t)tensor->count * mf_dtype_size(tensor->dtype);
        proto->tensor_content.data = tensor->data;
    }
    *out = proto;
    return MF_OK;
}
