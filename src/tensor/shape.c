/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - shapes, fully or partly known: comparison, merging, broadcasting, text. */
#include "tensor/shape.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

bool mf_shape_is_static(const mf_shape *s)
{
    if (s->rank < 0)
        return false;
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0)
            return false;
    }
    return true;
}

bool mf_shape_equal(const mf_shape *a, const mf_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

bool mf_shape_compatible(const mf_shape *a, const mf_shape *b)
{
    if (a->rank < 0 || b->rank < 0)
        return true;
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

mf_status mf_shape_count(const mf_shape *s, int64_t *out)
{
    char text[MF_SHAPE_TEXT];
    int64_t n = 1, checked = 1;

    *out = 0;
    if (!mf_shape_is_static(s))
        return MF_FAIL(MF_INVALID_ARGUMENT, "shape %s is not fully known", mf_shape_text(s, text));
    for (int i = 0; i < s->rank; i++) {
        /* A zero must not hide an overflow of the others: [0, 2^62, 2^62] is refused too. */
        if (!mf_mul_i64(checked, s->dims[i] > 0 ? s->dims[i] : 1, &checked))
            return MF_FAIL(MF_INVALID_ARGUMENT, "shape %s has more than 2^63 elements",
                           mf_shape_text(s, text));
        n *= s->dims[i];
    }
    *out = n;
    return MF_OK;
}

int64_t mf_shape_span(const mf_shape *s, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= s->dims[i];
    return n;
}

mf_status mf_shape_from_dims(const int64_t *dims, int64_t rank, mf_shape *out)
{
    int64_t count;

    if (rank < 0 || rank > MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "rank %" PRId64 " is not between 0 and %d", rank,
                       MF_MAX_RANK);
    *out = (mf_shape){ .rank = (int)rank };
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "dimension %d is %" PRId64 "; it must be >= 0", i,
                           dims[i]);
        out->dims[i] = dims[i];
    }
    return mf_shape_count(out, &count);
}

mf_status mf_shape_merge(const mf_shape *a, const mf_shape *b, mf_shape *out)
{
    char ta[MF_SHAPE_TEXT], tb[MF_SHAPE_TEXT];

    if (!mf_shape_compatible(a, b))
        return MF_FAIL(MF_INVALID_ARGUMENT, "shapes %s and %s are not compatible",
                       mf_shape_text(a, ta), mf_shape_text(b, tb));
    if (a->rank < 0) {
        *out = *b;
        return MF_OK;
    }
    mf_shape merged = *a;

    for (int i = 0; i < a->rank && b->rank >= 0; i++) {
        if (merged.dims[i] < 0)
            merged.dims[i] = b->dims[i];
    }
    *out = merged;
    return MF_OK;
}

/* One dimension of a broadcast: -2 when impossible. */
static int64_t broadcast_dim(int64_t a, int64_t b)
{
    if (a == b)
        return a;
    if (a == 1)
        return b;
    if (b == 1)
        return a;
    if (a < 0)
        return b; /* a is 1 or equals b; the other one decides */
    if (b < 0)
        return a;
    return -2;
}

mf_status mf_shape_broadcast(const mf_shape *a, const mf_shape *b, mf_shape *out)
{
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    mf_shape r = { .rank = rank };
    char ta[MF_SHAPE_TEXT], tb[MF_SHAPE_TEXT];

    if (a->rank < 0 || b->rank < 0) {
        *out = MF_SHAPE_UNKNOWN;
        return MF_OK;
    }
    for (int i = 0; i < rank; i++) {
        const int ia = i - (rank - a->rank), ib = i - (rank - b->rank);

        r.dims[i] = broadcast_dim(ia < 0 ? 1 : a->dims[ia], ib < 0 ? 1 : b->dims[ib]);
        if (r.dims[i] == -2)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Incompatible shapes: %s vs. %s",
                           mf_shape_text(a, ta), mf_shape_text(b, tb));
    }
    *out = r;
    return MF_OK;
}

const char *mf_shape_text(const mf_shape *s, char text[MF_SHAPE_TEXT])
{
    int used;

    if (s->rank < 0) {
        (void)snprintf(text, MF_SHAPE_TEXT, "<unknown>");
        return text;
    }
    used = snprintf(text, MF_SHAPE_TEXT, "[");
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] < 0)
            used += snprintf(text + used, MF_SHAPE_TEXT - (size_t)used, "%s?", i ? "," : "");
        else
            used += snprintf(text + used, MF_SHAPE_TEXT - (size_t)used, "%s%" PRId64, i ? "," : "",
                             s->dims[i]);
    }
    (void)snprintf(text + used, MF_SHAPE_TEXT - (size_t)used, "]");
    return text;
}
