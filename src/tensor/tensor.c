/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - the tensor: allocation, references, views, the public handle. */
#include "tensor/tensor.h"

#include "base/host_state.h"
#include "base/mem.h"
#include "base/quota.h"

#include <inttypes.h>

mf_status mf_tensor_alloc(mf_tensor *t, mf_dtype dtype, const mf_shape *shape)
{
    char text[MF_SHAPE_TEXT];
    int64_t count;
    mf_buffer *buffer;

    if (!mf_dtype_is_valid((int)dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%d is not a supported element type", (int)dtype);
    MF_TRY(mf_shape_count(shape, &count));
    if (mf_buffer_new(dtype, count, &buffer) != MF_OK)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "OOM when allocating tensor with shape%s and type %s",
                       mf_shape_text(shape, text), mf_dtype_name(dtype));
    *t = (mf_tensor){
        .dtype = dtype, .shape = *shape, .count = count, .data = buffer->data, .buffer = buffer
    };
    return MF_OK;
}

void mf_tensor_set(mf_tensor *dst, const mf_tensor *src)
{
    mf_buffer *old = dst->buffer;

    (void)mf_buffer_ref(src->buffer);
    *dst = *src;
    mf_buffer_unref(old);
}

void mf_tensor_move(mf_tensor *dst, mf_tensor *src)
{
    mf_buffer_unref(dst->buffer);
    *dst = *src;
    src->buffer = NULL;
    src->dtype = MF_DTYPE_INVALID;
    src->data = NULL;
}

void mf_tensor_clear(mf_tensor *t)
{
    mf_buffer *old = t->buffer;

    t->buffer = NULL;
    t->dtype = MF_DTYPE_INVALID;
    t->data = NULL;
    mf_buffer_unref(old);
}

void mf_tensor_reshape(mf_tensor *dst, const mf_tensor *src, const mf_shape *shape)
{
    const mf_shape s = *shape;

    mf_tensor_set(dst, src);
    dst->shape = s;
}

/* ---- objects ---- */

/* A loop in a client's graph can nest lists without limit; destroying them recursively could
 * overflow the stack. Beyond this depth an object is destroyed after the outermost one. */
enum { DESTROY_DEPTH = 64 };
static _Thread_local int destroying; /* current nesting of destructors */
static _Thread_local mf_object *waiting;

void mf_object_destroy(mf_object *o)
{
    if (destroying == DESTROY_DEPTH) {
        o->next = waiting;
        waiting = o;
        return;
    }
    destroying++;
    o->type->destroy(o);
    while (destroying == 1 && waiting) {
        o = waiting;
        waiting = o->next;
        o->type->destroy(o);
    }
    destroying--;
}

mf_status mf_tensor_clone(mf_tensor *dst, const mf_tensor *src)
{
    mf_tensor t = { 0 };

    MF_TRY(mf_tensor_alloc(&t, src->dtype, &src->shape));
    const mf_status st = mf_cells_copy(src->dtype, t.data, 0, src->data, 0, src->count);

    if (st != MF_OK) {
        mf_tensor_clear(&t);
        return st;
    }
    mf_tensor_move(dst, &t);
    return MF_OK;
}

mf_status mf_string_new(mf_string *s, int64_t len)
{
    char *bytes = NULL;

    if (len != 0) { /* negative: the length does not fit in int64_t */
        bytes = len > 0 && len < mf_quota_room() ? mf_calloc(len + 1, 1) : NULL;
        if (!bytes)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                           "OOM when allocating a string of %" PRIu64 " bytes: %" PRId64
                           " bytes are in use",
                           (uint64_t)len, mf_quota_used());
    }
    mf_free(s->data);
    s->data = bytes;
    s->len = (size_t)len;
    return MF_OK;
}

mf_status mf_string_set(mf_string *s, const void *data, size_t len)
{
    mf_string copy = { 0 }; /* `data` may point into the old one */

    MF_TRY(mf_string_new(&copy, (int64_t)len));
    if (len > 0)
        memcpy(copy.data, data, len);
    mf_free(s->data);
    *s = copy;
    return MF_OK;
}

mf_status mf_cells_copy(mf_dtype dtype, void *dst, int64_t dst_at, const void *src, int64_t src_at,
                        int64_t n)
{
    const size_t cell = mf_dtype_cell(dtype);

    if (n <= 0)
        return MF_OK;
    if (mf_dtype_is_plain(dtype)) {
        memcpy((char *)dst + (size_t)dst_at * cell, (const char *)src + (size_t)src_at * cell,
               (size_t)n * cell);
    } else if (dtype == MF_DTYPE_STRING) {
        mf_string *d = (mf_string *)dst + dst_at;
        const mf_string *s = (const mf_string *)src + src_at;

        for (int64_t i = 0; i < n; i++)
            MF_TRY(mf_string_set(&d[i], s[i].data, s[i].len));
    } else {
        mf_object **d = (mf_object **)dst + dst_at;
        mf_object *const *s = (mf_object *const *)src + src_at;

        for (int64_t i = 0; i < n; i++) {
            mf_object_unref(d[i]);
            d[i] = mf_object_ref(s[i]);
        }
    }
    return MF_OK;
}

static int64_t to_int(double v, int64_t lo, int64_t hi)
{
    if (v != v)
        return 0;
    return v <= (double)lo ? lo : v >= (double)hi ? hi : (int64_t)v;
}

int64_t mf_tensor_int_at(const mf_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MF_DTYPE_I64:
    case MF_DTYPE_U64:
        return ((const int64_t *)t->data)[i];
    case MF_DTYPE_I32:
    case MF_DTYPE_QI32:
        return ((const int32_t *)t->data)[i];
    case MF_DTYPE_U32:
        return ((const uint32_t *)t->data)[i];
    case MF_DTYPE_I16:
    case MF_DTYPE_QI16:
        return ((const int16_t *)t->data)[i];
    case MF_DTYPE_U16:
    case MF_DTYPE_QU16:
        return ((const uint16_t *)t->data)[i];
    case MF_DTYPE_I8:
    case MF_DTYPE_QI8:
        return ((const int8_t *)t->data)[i];
    case MF_DTYPE_U8:
    case MF_DTYPE_QU8:
    case MF_DTYPE_BOOL:
        return ((const uint8_t *)t->data)[i];
    default:
        return to_int(mf_tensor_float_at(t, i), INT64_MIN, INT64_MAX);
    }
}

double mf_tensor_float_at(const mf_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MF_DTYPE_F32:
        return (double)((const float *)t->data)[i];
    case MF_DTYPE_F64:
        return ((const double *)t->data)[i];
    case MF_DTYPE_F16:
        return (double)mf_f16_to_f32(((const mf_f16 *)t->data)[i]);
    case MF_DTYPE_BF16:
        return (double)mf_bf16_to_f32(((const mf_bf16 *)t->data)[i]);
    case MF_DTYPE_C64:
        return (double)((const float *)t->data)[2 * i];
    case MF_DTYPE_C128:
        return ((const double *)t->data)[2 * i];
    case MF_DTYPE_U64:
        return (double)((const uint64_t *)t->data)[i];
    case MF_DTYPE_INVALID:
    case MF_DTYPE_STRING:
    case MF_DTYPE_RESOURCE:
    case MF_DTYPE_VARIANT:
        return 0;
    default:
        return (double)mf_tensor_int_at(t, i);
    }
}

static uint64_t to_unsigned(double v, uint64_t hi)
{
    return !(v > 0) ? 0 : v >= (double)hi ? hi : (uint64_t)v;
}

void mf_tensor_put(mf_tensor *t, int64_t i, double value)
{
    switch (t->dtype) {
    case MF_DTYPE_F32:
        ((float *)t->data)[i] = (float)value;
        break;
    case MF_DTYPE_F64:
        ((double *)t->data)[i] = value;
        break;
    case MF_DTYPE_F16:
        ((mf_f16 *)t->data)[i] = mf_f16_from_f32((float)value);
        break;
    case MF_DTYPE_BF16:
        ((mf_bf16 *)t->data)[i] = mf_bf16_from_f32((float)value);
        break;
    case MF_DTYPE_C64:
        ((float *)t->data)[2 * i] = (float)value;
        ((float *)t->data)[2 * i + 1] = 0;
        break;
    case MF_DTYPE_C128:
        ((double *)t->data)[2 * i] = value;
        ((double *)t->data)[2 * i + 1] = 0;
        break;
    case MF_DTYPE_I64:
        ((int64_t *)t->data)[i] = to_int(value, INT64_MIN, INT64_MAX);
        break;
    case MF_DTYPE_U64:
        ((uint64_t *)t->data)[i] = to_unsigned(value, UINT64_MAX);
        break;
    case MF_DTYPE_I32:
    case MF_DTYPE_QI32:
        ((int32_t *)t->data)[i] = (int32_t)to_int(value, INT32_MIN, INT32_MAX);
        break;
    case MF_DTYPE_U32:
        ((uint32_t *)t->data)[i] = (uint32_t)to_unsigned(value, UINT32_MAX);
        break;
    case MF_DTYPE_I16:
    case MF_DTYPE_QI16:
        ((int16_t *)t->data)[i] = (int16_t)to_int(value, INT16_MIN, INT16_MAX);
        break;
    case MF_DTYPE_U16:
    case MF_DTYPE_QU16:
        ((uint16_t *)t->data)[i] = (uint16_t)to_unsigned(value, UINT16_MAX);
        break;
    case MF_DTYPE_I8:
    case MF_DTYPE_QI8:
        ((int8_t *)t->data)[i] = (int8_t)to_int(value, INT8_MIN, INT8_MAX);
        break;
    case MF_DTYPE_U8:
    case MF_DTYPE_QU8:
        ((uint8_t *)t->data)[i] = (uint8_t)to_unsigned(value, UINT8_MAX);
        break;
    case MF_DTYPE_BOOL:
        ((uint8_t *)t->data)[i] = value != 0;
        break;
    default:
        break;
    }
}

static void tensor_print_element(const mf_tensor *t, int64_t i, mf_buf *out)
{
    if (t->dtype == MF_DTYPE_STRING) {
        const mf_string *s = (const mf_string *)t->data + i;

        mf_buf_quoted(out, s->data, s->len);
    } else if (t->dtype == MF_DTYPE_BOOL) {
        mf_buf_str(out, mf_tensor_int_at(t, i) ? "true" : "false");
    } else if (mf_dtype_is_float(t->dtype)) {
        mf_buf_printf(out, t->dtype == MF_DTYPE_F64 ? "%.17g" : "%.9g", mf_tensor_float_at(t, i));
    } else if (mf_dtype_is_complex(t->dtype)) {
        const double im = t->dtype == MF_DTYPE_C64 ? (double)((const float *)t->data)[2 * i + 1]
                                                   : ((const double *)t->data)[2 * i + 1];

        mf_buf_printf(out, "(%.9g,%.9g)", mf_tensor_float_at(t, i), im);
    } else if (t->dtype == MF_DTYPE_U64) {
        mf_buf_printf(out, "%" PRIu64, ((const uint64_t *)t->data)[i]);
    } else if (!mf_dtype_is_plain(t->dtype)) {
        const mf_object *o = ((mf_object *const *)t->data)[i];

        mf_buf_printf(out, "<%s>", o ? o->type->name : "none");
    } else {
        mf_buf_printf(out, "%" PRId64, mf_tensor_int_at(t, i));
    }
}

void mf_tensor_print(const mf_tensor *t, int64_t max, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_printf(out, "Tensor<%s %s:", mf_dtype_name(t->dtype), mf_shape_text(&t->shape, text));
    for (int64_t i = 0; i < t->count && i < max; i++) {
        mf_buf_str(out, " ");
        tensor_print_element(t, i, out);
    }
    mf_buf_str(out, t->count > max ? "...>" : ">");
}

/* ---- the public handle ---- */

mf_status mf_tensor_new(mf_dtype dtype, const int64_t *dims, int rank, mf_tensor **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(out);
    MF_NEED_ARRAY(dims, rank > 0 ? rank : 0);

    mf_shape shape;
    mf_tensor *t;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_shape_from_dims(dims, rank, &shape));
    t = mf_calloc(1, sizeof *t);
    if (!t)
        return MF_NOMEM("a tensor");
    st = mf_tensor_alloc(t, dtype, &shape);
    if (st != MF_OK) {
        mf_free(t);
        return st;
    }
    if (mf_dtype_is_plain(dtype))
        memset(t->data, 0, (size_t)t->count * mf_dtype_cell(dtype));
    *out = t;
    return MF_OK;
}

mf_status mf_tensor_wrap(mf_dtype dtype, const int64_t *dims, int rank, void *data, size_t bytes,
                         void (*release)(void *data, void *ctx), void *ctx, mf_tensor **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(out);
    MF_NEED_ARRAY(dims, rank > 0 ? rank : 0);
    MF_NEED_ARRAY(data, bytes > 0 ? 1 : 0);

    mf_shape shape;
    int64_t count, need;
    mf_tensor *t;

    *out = NULL;
    if (!mf_dtype_is_valid((int)dtype) || !mf_dtype_is_plain(dtype))
        return MF_FAIL(MF_INVALID_ARGUMENT, "the caller's memory cannot hold elements of type %s",
                       mf_dtype_name(dtype));
    MF_TRY(mf_shape_from_dims(dims, rank, &shape));
    MF_TRY(mf_shape_count(&shape, &count));
    if (!mf_mul_i64(count, (int64_t)mf_dtype_size(dtype), &need) || (size_t)need != bytes)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%zu bytes given for %" PRId64 " elements of type %s",
                       bytes, count, mf_dtype_name(dtype));
    t = mf_calloc(1, sizeof *t);
    if (!t)
        return MF_NOMEM("a tensor");
    *t = (mf_tensor){ .dtype = dtype, .shape = shape, .count = count, .data = data };
    const mf_status st = mf_buffer_wrap(data, bytes, release, ctx, &t->buffer);

    if (st != MF_OK) {
        mf_free(t);
        return st;
    }
    *out = t;
    return MF_OK;
}

mf_status mf_tensor_copy(const mf_tensor *tensor, mf_tensor **out)
{
    MF_ENTRY_SMALL;
    MF_NEED(tensor, out);

    mf_tensor *t = mf_calloc(1, sizeof *t);

    *out = t;
    if (!t)
        return MF_NOMEM("a tensor");
    mf_tensor_set(t, tensor);
    return MF_OK;
}

void mf_tensor_free(mf_tensor *tensor)
{
    MF_ENTRY_OR();

    if (!tensor)
        return;
    mf_tensor_clear(tensor);
    mf_free(tensor);
}

mf_dtype mf_tensor_dtype(const mf_tensor *tensor)
{
    return tensor ? tensor->dtype : MF_DTYPE_INVALID;
}

int mf_tensor_rank(const mf_tensor *tensor)
{
    return tensor ? tensor->shape.rank : 0;
}

int64_t mf_tensor_dim(const mf_tensor *tensor, int axis)
{
    return tensor && axis >= 0 && axis < tensor->shape.rank ? tensor->shape.dims[axis] : -1;
}

int64_t mf_tensor_count(const mf_tensor *tensor)
{
    return tensor ? tensor->count : 0;
}

void *mf_tensor_data(const mf_tensor *tensor)
{
    return tensor && mf_dtype_is_plain(tensor->dtype) ? tensor->data : NULL;
}

size_t mf_tensor_bytes(const mf_tensor *tensor)
{
    return tensor ? (size_t)tensor->count * mf_dtype_size(tensor->dtype) : 0;
}

static mf_status string_at(const mf_tensor *t, int64_t i, mf_string **out)
{
    if (t->dtype != MF_DTYPE_STRING)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the tensor holds %s, not strings",
                       mf_dtype_name(t->dtype));
    if (i < 0 || i >= t->count)
        return MF_FAIL(MF_OUT_OF_RANGE, "element %" PRId64 " of a tensor of %" PRId64, i, t->count);
    *out = (mf_string *)t->data + i;
    return MF_OK;
}

mf_status mf_tensor_set_string(mf_tensor *tensor, int64_t i, const char *data, size_t len)
{
    MF_ENTRY_SMALL;
    MF_NEED(tensor);
    MF_NEED_ARRAY(data, len > 0 ? 1 : 0);

    mf_string *s = NULL;

    MF_TRY(string_at(tensor, i, &s));
    return mf_string_set(s, data, len);
}

mf_status mf_tensor_get_string(const mf_tensor *tensor, int64_t i, const char **data, size_t *len)
{
    MF_ENTRY_SMALL;
    MF_NEED(tensor, data, len);

    mf_string *s = NULL;

    MF_TRY(string_at(tensor, i, &s));
    *data = s->data ? s->data : "";
    *len = s->len;
    return MF_OK;
}
