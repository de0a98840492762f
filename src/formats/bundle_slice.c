/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_slice.c - slices of tensors: their text form, their shapes, and their keys in the index.
 * Keys use an order-preserving encoding, so slices of a tensor are adjacent. */
#include "formats/bundle.h"

#include <string.h>

/* ---- texts ---- */

typedef struct bundle_slice_text {
    const char *p, *end;
} bundle_slice_text;

static bool bundle_slice_number(bundle_slice_text *t, int64_t *out)
{
    int64_t v = 0;
    const char *begin = t->p;

    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
        if (!mf_mul_i64(v, 10, &v) || !mf_add_i64(v, *t->p - '0', &v))
            return false;
    }
    *out = v;
    return t->p > begin;
}

static bool bundle_slice_eat(bundle_slice_text *t, char c)
{
    if (t->p == t->end || *t->p != c)
        return false;
    t->p++;
    return true;
}

/* "0,2" or "-" */
static bool bundle_slice_extent(bundle_slice_text *t, int64_t *start, int64_t *length)
{
    *start = 0;
    *length = -1;
    if (bundle_slice_eat(t, '-'))
        return true;
    return bundle_slice_number(t, start) && bundle_slice_eat(t, ',') &&
           bundle_slice_number(t, length);
}

/* "4 2 0,2:-": numbers followed by a space are dimensions, the rest is the slice. */
static bool bundle_slice_parse(bundle_slice_text *t, mf_shape *full, mf_slice *slice)
{
    *full = MF_SCALAR;
    *slice = (mf_slice){ 0 };
    for (;;) {
        const bundle_slice_text mark = *t;
        int64_t dim;

        if (!bundle_slice_number(t, &dim) || !bundle_slice_eat(t, ' ')) {
            *t = mark;
            break;
        }
        if (full->rank == MF_MAX_RANK)
            return false;
        full->dims[full->rank++] = dim;
    }
    for (int d = 0; d < full->rank; d++) {
        if ((d > 0 && !bundle_slice_eat(t, ':')) ||
            !bundle_slice_extent(t, &slice->start[d], &slice->length[d]))
            return false;
        slice->rank++;
    }
    return t->p == t->end;
}

mf_status mf_slice_parse(const char *s, size_t len, mf_shape *full, mf_slice *slice)
{
    bundle_slice_text t = { s, s + len };
    mf_shape part;

    if (!bundle_slice_parse(&t, full, slice))
        return MF_FAIL(MF_INVALID_ARGUMENT, "'%.*s' is not a shape and a slice, like \"4 2 0,2:-\"",
                       (int)(len < 200 ? len : 200), s);
    return mf_slice_shape(slice, full, &part);
}

mf_status mf_slice_shape(const mf_slice *slice, const mf_shape *full, mf_shape *out)
{
    char shape[MF_SHAPE_TEXT];
    int64_t count;

    *out = *full;
    if (slice->rank != full->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a slice of rank %d of a tensor of shape %s",
                       slice->rank, mf_shape_text(full, shape));
    for (int d = 0; d < full->rank; d++) {
        if (slice->length[d] < 0 && slice->start[d] == 0)
            continue;
        if (slice->length[d] < 0 || slice->start[d] < 0 || slice->start[d] > full->dims[d] ||
            slice->length[d] > full->dims[d] - slice->start[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Extent in dimension %d out of bounds: shape = %s, extent = %lld,%lld",
                           d, mf_shape_text(full, shape), (long long)slice->start[d],
                           (long long)slice->length[d]);
        out->dims[d] = slice->length[d];
    }
    return mf_shape_count(full, &count);
}

bool mf_slice_is_full(const mf_slice *slice, const mf_shape *full)
{
    mf_shape part;

    return mf_slice_shape(slice, full, &part) == MF_OK && mf_shape_equal(&part, full);
}

/* As many complete rows of the outermost dimension as fit; if none fits, of the next dimension. */
int64_t mf_slice_of_range(const mf_shape *full, int64_t from, int64_t to, mf_slice *slice,
                          mf_shape *shape)
{
    int64_t row = 1, n = 1;
    int d = 0;

    for (; d < full->rank; d++) {
        row = mf_shape_span(full, d + 1, full->rank);
        if (from % row == 0 && from + row <= to)
            break;
    }
    *slice = (mf_slice){ .rank = full->rank };
    *shape = *full;
    for (int i = 0; i < full->rank; i++) {
        const int64_t index = from / mf_shape_span(full, i + 1, full->rank) % full->dims[i];

        if (i > d) {
            slice->length[i] = -1;
            continue;
        }
        if (i == d)
            n = (to - from) / row < full->dims[d] - index ? (to - from) / row
                                                          : full->dims[d] - index;
        slice->start[i] = index;
        slice->length[i] = shape->dims[i] = i == d ? n : 1;
    }
    return n * row;
}

/* ---- keys ---- */

/* A length byte, then the number's bytes without leading zeros, most significant first. */
static void write_number(mf_buf *out, uint64_t v)
{
    char bytes[9];
    int n = 0;

    for (int shift = 56; shift >= 0; shift -= 8) {
        if (n > 0 || v >> shift != 0)
            bytes[++n] = (char)(v >> shift);
    }
    bytes[0] = (char)n;
    mf_buf_bytes(out, bytes, (size_t)n + 1);
}

/* 00 and ff are escaped by the byte after them; 00 01 ends the string. */
static void bundle_slice_write_string(mf_buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        mf_buf_bytes(out, s + i, 1);
        if (s[i] == '\0')
            mf_buf_bytes(out, "\xff", 1);
        else if (s[i] == '\xff')
            mf_buf_bytes(out, "\0", 1);
    }
    mf_buf_bytes(out, "\0\1", 2);
}

/* Big-endian in the minimum number of bytes, which the first bits encode: 10..., 110...; inverted
 * for negative numbers. */
static void write_signed(mf_buf *out, int64_t v)
{
    static const uint8_t head[11][2] = { { 0, 0 },    { 0x80, 0 },    { 0xc0, 0 },   { 0xe0, 0 },
                                         { 0xf0, 0 }, { 0xf8, 0 },    { 0xfc, 0 },   { 0xfe, 0 },
                                         { 0xff, 0 }, { 0xff, 0x80 }, { 0xff, 0xc0 } };
    const uint64_t x = (uint64_t)(v < 0 ? ~v : v);
    const int bits = x ? 64 - __builtin_clzll(x) : 0, len = bits / 7 + 1;
    uint8_t bytes[10];

    memset(bytes, v < 0 ? 0xff : 0, sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[9 - i] = (uint8_t)((uint64_t)v >> (8 * i));
    bytes[10 - len] ^= head[len][0];
    if (len > 1)
        bytes[11 - len] ^= head[len][1];
    mf_buf_bytes(out, bytes + 10 - len, (size_t)len);
}

void mf_bundle_slice_key(const char *name, size_t len, const mf_slice *slice, mf_buf *out)
{
    write_number(out, 0);
    bundle_slice_write_string(out, name, len);
    write_number(out, (uint64_t)slice->rank);
    for (int d = 0; d < slice->rank; d++) {
        write_signed(out, slice->start[d]);
        write_signed(out, slice->length[d]);
    }
}
