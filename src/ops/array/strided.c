/* SPDX-License-Identifier: Apache-2.0 */
/* strided.c - index arithmetic of StridedSlice. */
#include "ops/array/strided.h"

#include "ops/array/array_util.h"

enum { MAX_SPEC = 32 }; /* bits of a mask */

void mf_strided_masks_read(const mf_node *node, mf_strided_masks *out)
{
    *out = (mf_strided_masks){ .begin = mf_node_int(node, "begin_mask"),
                               .end = mf_node_int(node, "end_mask"),
                               .ellipsis = mf_node_int(node, "ellipsis_mask"),
                               .new_axis = mf_node_int(node, "new_axis_mask"),
                               .shrink = mf_node_int(node, "shrink_axis_mask") };
}

/* The specification of one dimension of the input. */
typedef struct dim_spec {
    int64_t begin, end, stride;
    bool known; /* begin and end are */
    bool stride_known;
    bool from_start, to_end; /* masked */
    bool shrink;
} dim_spec;

static const dim_spec whole_dim = {
    .stride = 1, .known = true, .stride_known = true, .from_start = true, .to_end = true
};

static bool strided_bit(int64_t mask, int64_t i)
{
    return (mask >> i & 1) != 0;
}

typedef struct spec_reader {
    const mf_tensor *begin, *end, *strides;
    const mf_strided_masks *masks;
    int64_t n;
    dim_spec dims[MF_MAX_RANK];
    int n_dims, rank;
    /* The result's dimensions in order: an input dimension, or -1 for a new one. */
    int order[MAX_SPEC + MF_MAX_RANK];
    int n_order;
} spec_reader;

static void add_whole(spec_reader *r)
{
    r->order[r->n_order++] = r->n_dims;
    r->dims[r->n_dims++] = whole_dim;
}

static mf_status add_indexed(spec_reader *r, int64_t i)
{
    dim_spec *d;

    if (r->n_dims == r->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Index out of range using input dim %d; input has only %d dims", r->n_dims,
                       r->rank);
    d = &r->dims[r->n_dims];
    *d = (dim_spec){ .known = r->begin && r->end,
                     .stride_known = r->strides != NULL,
                     .begin = r->begin ? mf_index_at(r->begin, i) : 0,
                     .end = r->end ? mf_index_at(r->end, i) : 0,
                     .stride = r->strides ? mf_index_at(r->strides, i) : 1,
                     .from_start = strided_bit(r->masks->begin, i),
                     .to_end = strided_bit(r->masks->end, i),
                     .shrink = strided_bit(r->masks->shrink, i) };
    if (!d->shrink)
        r->order[r->n_order++] = r->n_dims;
    r->n_dims++;
    return MF_OK;
}

/* Assigns the specification to the input's dimensions: "..." stands for all dimensions not
 * mentioned; default: at the end. */
static mf_status read_spec(spec_reader *r)
{
    const uint64_t marks = (uint64_t)r->masks->ellipsis;
    int64_t ellipsis = -1, mentioned = 0;

    if (marks & (marks - 1)) /* even if it covers no dimensions */
        return MF_FAIL(MF_INVALID_ARGUMENT, "Multiple ellipses in slice spec not allowed");

    for (int64_t i = 0; i < r->n; i++) {
        if (!strided_bit(r->masks->ellipsis, i)) {
            mentioned += !strided_bit(r->masks->new_axis, i);
        } else {
            ellipsis = i;
        }
    }
    for (int64_t i = 0; i <= r->n; i++) {
        if (i == ellipsis || (i == r->n && ellipsis < 0)) {
            for (int64_t left = r->rank - mentioned; left > 0 && r->n_dims < r->rank; left--)
                add_whole(r);
        } else if (i < r->n && strided_bit(r->masks->new_axis, i)) {
            r->order[r->n_order++] = -1;
        } else if (i < r->n) {
            MF_TRY(add_indexed(r, i));
        }
    }
    return MF_OK;
}

/* A bound as an index of a dimension of `dim`, clamped. */
static int64_t clamp_bound(int64_t x, int64_t dim, int64_t stride)
{
    const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;
    const int64_t at = x < 0 ? dim + x : x;

    return at < low ? low : at > high ? high : at;
}

static void set_range(mf_strided *s, int d, const dim_spec *spec, int64_t dim)
{
    const int64_t first = spec->stride > 0 ? 0 : dim - 1, last = spec->stride > 0 ? dim : -1;
    const int64_t begin = spec->from_start ? first : clamp_bound(spec->begin, dim, spec->stride);
    const int64_t end = spec->to_end ? last : clamp_bound(spec->end, dim, spec->stride);
    const int64_t length = end - begin;

    s->begin[d] = begin;
    s->stride[d] = spec->stride;
    s->size[d] = length == 0 || (length < 0) != (spec->stride < 0)
                     ? 0
                     : length / spec->stride + (length % spec->stride != 0);
    if (s->size[d] < 2)
        s->stride[d] = 0; /* not used, and possibly huge */
}

static mf_status set_dim(mf_strided *s, int d, const dim_spec *spec, int64_t dim)
{
    s->size[d] = spec->shrink ? 1 : MF_UNKNOWN_DIM;
    if (spec->stride_known && spec->stride == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "strides[%d] must be non-zero", d);
    if (spec->shrink && spec->stride_known && spec->stride < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "only stride 1 allowed on non-range indexing.");
    if (dim < 0 || !spec->stride_known)
        return MF_OK;
    if (spec->shrink && spec->known) {
        s->begin[d] = spec->begin < 0 ? dim + spec->begin : spec->begin;
        s->stride[d] = 0;
        if (s->begin[d] < 0 || s->begin[d] >= dim)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "slice index %" PRId64 " of dimension %d out of bounds.", spec->begin,
                           d);
    } else if (!spec->shrink && (spec->known || (spec->from_start && spec->to_end))) {
        set_range(s, d, spec, dim);
    }
    return MF_OK;
}

mf_status mf_strided_init(mf_strided *s, const mf_shape *input, const mf_tensor *begin,
                          const mf_tensor *end, const mf_tensor *strides, int64_t n_spec,
                          const mf_strided_masks *masks)
{
    spec_reader r = { .begin = begin,
                      .end = end,
                      .strides = strides,
                      .masks = masks,
                      .n = n_spec,
                      .rank = input->rank };

    *s = (mf_strided){ .rank = input->rank, .shape = MF_SHAPE_UNKNOWN };
    if (n_spec < 0 || n_spec >= MAX_SPEC)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "begin, end and strides have %" PRId64 " elements; at most %d are possible",
                       n_spec, MAX_SPEC - 1);
    MF_TRY(read_spec(&r));
    for (int d = 0; d < input->rank; d++)
        MF_TRY(set_dim(s, d, &r.dims[d], input->dims[d]));
    MF_TRY(mf_rank_check(r.n_order));
    s->shape.rank = r.n_order;
    for (int i = 0; i < r.n_order; i++)
        s->shape.dims[i] = r.order[i] < 0 ? 1 : s->size[r.order[i]];
    return MF_OK;
}

mf_status mf_strided_of(mf_strided *s, const mf_shape *input, const mf_tensor *begin,
                        const mf_tensor *end, const mf_tensor *strides,
                        const mf_strided_masks *masks)
{
    if (begin->shape.rank != 1 || end->shape.rank != 1 || strides->shape.rank != 1 ||
        begin->count != end->count || begin->count != strides->count)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Expected begin, end, and strides to be 1D equal size tensors, but got %" PRId64
            ", %" PRId64 " and %" PRId64 " elements",
            begin->count, end->count, strides->count);
    return mf_strided_init(s, input, begin, end, strides, begin->count, masks);
}

int64_t mf_strided_layout(const mf_strided *s, const mf_shape *input, int64_t step[MF_MAX_RANK])
{
    int64_t at = 0;

    mf_strides_of(input, step);
    for (int d = 0; d < s->rank; d++) {
        at += s->size[d] > 0 ? s->begin[d] * step[d] : 0;
        step[d] *= s->stride[d];
    }
    return at;
}

static mf_strided_copy slice_move(const mf_strided *s, const int64_t *in_step, bool write,
                                  bool repeat)
{
    mf_strided_copy m = { .rank = s->rank };
    int64_t dense = 1;

    for (int d = s->rank - 1; d >= 0; d--) {
        m.dims[d] = s->size[d];
        m.to[d] = write ? in_step[d] : dense;
        m.from[d] = write ? (repeat ? 0 : dense) : in_step[d];
        dense *= s->size[d];
    }
    return m;
}

mf_status mf_strided_read(mf_pool *pool, const mf_strided *s, const mf_shape *input, mf_dtype dtype,
                          const void *x, void *dense)
{
    int64_t step[MF_MAX_RANK];
    const int64_t at = mf_strided_layout(s, input, step);
    mf_strided_copy m = slice_move(s, step, false, false);

    m.dtype = dtype;
    m.src = mf_cell_at(dtype, x, at);
    m.dst = dense;
    return mf_strided_copy_run(pool, &m);
}

mf_status mf_strided_write(mf_pool *pool, const mf_strided *s, const mf_shape *input,
                           mf_dtype dtype, void *x, const void *dense, bool repeat)
{
    int64_t step[MF_MAX_RANK];
    const int64_t at = mf_strided_layout(s, input, step);
    mf_strided_copy m = slice_move(s, step, true, repeat);

    m.dtype = dtype;
    m.src = dense;
    m.dst = mf_cell_at(dtype, x, at);
    return mf_strided_copy_run(pool, &m);
}

/* Broadcasts `value` to the slice's shape. */
static mf_status strided_spread(mf_pool *pool, const mf_strided *s, const mf_tensor *value,
                                mf_tensor *out)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];
    int64_t from[MF_MAX_RANK], to[MF_MAX_RANK];
    mf_strided_copy m = { .dtype = value->dtype, .src = value->data };
    const int shift = s->shape.rank - value->shape.rank;

    mf_strides_of(&value->shape, from);
    mf_strides_of(&s->shape, to);
    for (int d = shift < 0 ? shift : 0; d < s->shape.rank; d++) {
        const int64_t size = d - shift < 0 ? 1 : value->shape.dims[d - shift];

        if (size != 1 && (d < 0 || size != s->shape.dims[d]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Cannot broadcast a value of shape %s into %s",
                           mf_shape_text(&value->shape, have), mf_shape_text(&s->shape, want));
        if (d >= 0)
            mf_strided_copy_add(&m, s->shape.dims[d], to[d], size == 1 ? 0 : from[d - shift]);
    }
    MF_TRY(mf_tensor_alloc(out, value->dtype, &s->shape));
    m.dst = out->data;
    return mf_strided_copy_run(pool, &m);
}

mf_status mf_strided_assign(mf_pool *pool, const mf_strided *s, const mf_shape *input, void *x,
                            const mf_tensor *value)
{
    mf_tensor whole = { 0 };
    int64_t count;
    mf_status st;

    MF_TRY(mf_shape_count(&s->shape, &count));
    if (count == 0)
        return MF_OK;
    if (mf_shape_equal(&s->shape, &value->shape))
        return mf_strided_write(pool, s, input, value->dtype, x, value->data, false);
    st = strided_spread(pool, s, value, &whole);
    if (st == MF_OK)
        st = mf_strided_write(pool, s, input, value->dtype, x, whole.data, false);
    mf_tensor_clear(&whole);
    return st;
}
