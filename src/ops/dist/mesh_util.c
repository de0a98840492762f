/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_util.c - packs boxes of tensors, waits for several messages, and combines them, for
 * _MeshMove and _MeshReduce. */
#include "ops/dist/mesh_util.h"

#include "base/mem.h"
#include "tensor/reduction_tree.h"

#include <string.h>

/* ---- parts of tensors ---- */

/* Rows of a box in the memory of a tensor: dimensions that the box covers completely are part of a
 * row. */
typedef struct rows {
    int outer; /* dimensions to iterate over */
    int64_t row; /* contiguous elements */
    int64_t stride[MF_MAX_RANK];
    int64_t start;
} rows;

static rows find_rows(const mf_shape *shape, mf_mesh_box box)
{
    rows r = { .outer = shape->rank, .row = 1 };
    int64_t stride = 1;
    bool whole = true;

    for (int d = shape->rank - 1; d >= 0; d--) {
        r.stride[d] = stride;
        r.start += box.begin[d] * stride;
        stride *= shape->dims[d];
        if (whole) {
            r.row *= box.size[d];
            r.outer = d;
            whole = box.size[d] == shape->dims[d];
        }
    }
    return r;
}

/* Calls memcpy for each row; rows are contiguous in `packed`. */
static void mesh_util_walk(const rows *r, mf_mesh_box box, size_t cell, char *data, char *packed,
                           bool pack)
{
    const size_t bytes = (size_t)r->row * cell;
    int64_t at[MF_MAX_RANK] = { 0 };
    int64_t offset = r->start;
    int d;

    for (;;) {
        char *there = data + (size_t)offset * cell;

        memcpy(pack ? packed : there, pack ? there : packed, bytes);
        packed += bytes;
        for (d = r->outer - 1; d >= 0; d--) {
            offset += r->stride[d];
            if (++at[d] < box.size[d])
                break;
            offset -= box.size[d] * r->stride[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

static mf_status mesh_util_check_type(const mf_tensor *t)
{
    if (!mf_dtype_is_plain(t->dtype))
        return MF_FAIL(MF_UNIMPLEMENTED, "values of type %s cannot go to another device",
                       mf_dtype_name(t->dtype));
    return MF_OK;
}

mf_status mf_mesh_infer_shape(mf_infer *in)
{
    in->out[0] = *mf_node_shape(in->node, "shape");
    return MF_OK;
}

bool mf_mesh_box_fits(mf_mesh_box box, const mf_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        if (box.begin[d] < 0 || box.size[d] < 0 || box.size[d] > shape->dims[d] ||
            box.begin[d] > shape->dims[d] - box.size[d])
            return false;
    }
    return true;
}

mf_status mf_mesh_pack(const mf_tensor *from, mf_mesh_box box, mf_tensor *out)
{
    const int64_t n = mf_mesh_box_count(box.size, from->shape.rank);
    const rows r = find_rows(&from->shape, box);

    MF_TRY(mesh_util_check_type(from));
    if (from->buffer && n > 0 && r.row == n) {
        mf_tensor_set(out, from);
        out->data = (char *)out->data + (size_t)r.start * mf_dtype_cell(from->dtype);
        out->shape = MF_SHAPE(n);
        out->count = n;
        return MF_OK;
    }
    MF_TRY(mf_tensor_alloc(out, from->dtype, &MF_SHAPE(n)));
    if (n > 0)
        mesh_util_walk(&r, box, mf_dtype_cell(from->dtype), from->data, out->data, true);
    return MF_OK;
}

mf_status mf_mesh_unpack(const mf_tensor *piece, mf_mesh_box box, mf_tensor *to)
{
    const int64_t n = mf_mesh_box_count(box.size, to->shape.rank);
    const rows r = find_rows(&to->shape, box);

    if (piece->count != n || piece->dtype != to->dtype)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "another device has sent %lld of %s instead of %lld of %s",
                       (long long)piece->count, mf_dtype_name(piece->dtype), (long long)n,
                       mf_dtype_name(to->dtype));
    if (n > 0)
        mesh_util_walk(&r, box, mf_dtype_cell(to->dtype), to->data, piece->data, false);
    return MF_OK;
}

/* ---- waiting ---- */

mf_mesh_link *mf_mesh_link_of(const mf_kernel *k)
{
    if (!k->step->mesh)
        (void)MF_FAIL(MF_FAILED_PRECONDITION, "this session is not on a mesh");
    return k->step->mesh;
}

void mf_mesh_wait_init(mf_mesh_wait *w, mf_kernel *k, int pieces)
{
    w->k = k;
    w->link = k->step->mesh;
    w->why.status = MF_OK;
    atomic_init(&w->left, pieces);
    pthread_mutex_init(&w->lock, NULL);
    atomic_fetch_add(&w->link->collectives, 1);
}

void mf_mesh_wait_less(mf_mesh_wait *w, mf_status status)
{
    mf_kernel *k = w->k;
    mf_error why;

    if (status != MF_OK) {
        pthread_mutex_lock(&w->lock);
        if (w->why.status == MF_OK)
            mf_error_save(status, &w->why);
        pthread_mutex_unlock(&w->lock);
        /* This device's messages will not arrive, so peers may never send what is awaited here. */
        w->link->kind->fail(w->link, status);
    }
    if (atomic_fetch_sub(&w->left, 1) > 1)
        return;
    why = w->why;
    pthread_mutex_destroy(&w->lock);
    w->free(w);
    mf_kernel_done(k, why.status == MF_OK ? MF_OK : mf_error_restore(&why));
}

mf_status mf_mesh_send(mf_mesh_link *l, int to, int64_t key, const mf_tensor *piece)
{
    atomic_fetch_add(&l->sent, piece->count * (int64_t)mf_dtype_cell(piece->dtype));
    return l->kind->send(l, to, key, piece);
}

void mf_mesh_count_received(mf_mesh_link *l, const mf_tensor *piece)
{
    atomic_fetch_add(&l->received, piece->count * (int64_t)mf_dtype_cell(piece->dtype));
}

/* ---- reducing ---- */

/* By the reduction tree over the parts, one leaf each. */
static mf_status mesh_util_add(mf_dtype dtype, const void *const *parts, int n, int64_t count,
                               void *out)
{
    mf_reduction_tree_part *leaves = mf_calloc(n, sizeof *leaves);
    mf_status st;

    if (!leaves)
        return MF_NOMEM("a sum");
    for (int i = 0; i < n; i++)
        leaves[i] = (mf_reduction_tree_part){ { i, i + 1 }, parts[i] };
    st = mf_reduction_tree_sum(n, (mf_reduction_tree_node){ 0, n }, leaves, n, dtype, count, out);
    mf_free(leaves);
    return st;
}

static float mesh_util_half_to_float(mf_dtype dtype, const void *from, int64_t i)
{
    return dtype == MF_DTYPE_F16 ? mf_f16_to_f32(((const mf_f16 *)from)[i])
                                 : mf_bf16_to_f32(((const mf_bf16 *)from)[i]);
}

/* 16-bit floats are added as float and rounded once. */
static mf_status add_halves(mf_dtype dtype, const void *const *parts, int n, int64_t count,
                            void *out)
{
    float *wide = mf_calloc((n + 1) * count, sizeof *wide), *sum = wide;
    const void **widened = mf_calloc(n, sizeof *widened);
    mf_status st = wide && widened ? MF_OK : MF_NOMEM("a sum");

    for (int k = 0; st == MF_OK && k < n; k++) {
        float *to = wide + (k + 1) * count;

        widened[k] = to;
        for (int64_t i = 0; i < count; i++)
            to[i] = mesh_util_half_to_float(dtype, parts[k], i);
    }
    if (st == MF_OK)
        st = mesh_util_add(MF_DTYPE_F32, widened, n, count, sum);
    for (int64_t i = 0; st == MF_OK && i < count; i++) {
        if (dtype == MF_DTYPE_F16)
            ((mf_f16 *)out)[i] = mf_f16_from_f32(sum[i]);
        else
            ((mf_bf16 *)out)[i] = mf_bf16_from_f32(sum[i]);
    }
    mf_free(wide);
    mf_free(widened);
    return st;
}

#define ADD_INTS(T)                                                                                \
    for (int64_t i = 0; i < count; i++)                                                            \
    ((T *)out)[i] = (T)(((T *)out)[i] + ((const T *)parts[k])[i])

/* Integers wrap around, so the order does not matter. */
static mf_status add_ints(mf_dtype dtype, const void *const *parts, int n, int64_t count, void *out)
{
    const size_t cell = mf_dtype_cell(dtype);

    memcpy(out, parts[0], (size_t)count * cell);
    for (int k = 1; k < n; k++) {
        if (cell == 1)
            ADD_INTS(uint8_t);
        else if (cell == 2)
            ADD_INTS(uint16_t);
        else if (cell == 4)
            ADD_INTS(uint32_t);
        else
            ADD_INTS(uint64_t);
    }
    return MF_OK;
}

/* True if number i of a wins, as the larger or smaller one. NaN wins over everything. */
static bool beats(mf_cut how, const mf_tensor *a, const mf_tensor *b, int64_t i)
{
    double x, y;

    if (mf_dtype_is_int(a->dtype)) { /* doubles cannot hold 64 bits */
        const int64_t flip = a->dtype == MF_DTYPE_U64 ? INT64_MIN : 0; /* keeps the order of
                                                                          unsigned numbers */
        const int64_t v = mf_tensor_int_at(a, i) ^ flip, w = mf_tensor_int_at(b, i) ^ flip;

        return how == MF_CUT_MAX ? v > w : v < w;
    }
    x = mf_tensor_float_at(a, i);
    y = mf_tensor_float_at(b, i);
    return y == y && (x != x || (how == MF_CUT_MAX ? x > y : x < y));
}

static mf_status mesh_util_choose(mf_cut how, mf_dtype dtype, const void *const *parts, int n,
                                  int64_t count, void *out)
{
    const size_t cell = mf_dtype_cell(dtype);
    mf_tensor best = { .dtype = dtype, .count = count, .data = out };

    if (!mf_dtype_is_plain(dtype) || mf_dtype_is_complex(dtype))
        return MF_FAIL(MF_UNIMPLEMENTED, "%s is not compared between devices",
                       mf_dtype_name(dtype));
    memcpy(out, parts[0], (size_t)count * cell);
    for (int k = 1; k < n; k++) {
        const mf_tensor part = { .dtype = dtype,
                                 .count = count,
                                 .data = (void *)(uintptr_t)parts[k] };

        for (int64_t i = 0; i < count; i++) {
            if (beats(how, &part, &best, i))
                memcpy((char *)out + (size_t)i * cell, (const char *)parts[k] + (size_t)i * cell,
                       cell);
        }
    }
    return MF_OK;
}

/* All parts but one are zero, bit by bit. */
static mf_status join_bits(mf_dtype dtype, const void *const *parts, int n, int64_t count,
                           void *out)
{
    const size_t bytes = (size_t)count * mf_dtype_cell(dtype);
    unsigned char *to = out;

    memcpy(to, parts[0], bytes);
    for (int k = 1; k < n; k++) {
        const unsigned char *from = parts[k];

        for (size_t i = 0; i < bytes; i++)
            to[i] |= from[i];
    }
    return MF_OK;
}

mf_status mf_mesh_combine(mf_cut how, mf_dtype dtype, const void *const *parts, int n,
                          int64_t count, void *out)
{
    if (count == 0)
        return MF_OK;
    if (how == MF_CUT_ONE)
        return join_bits(dtype, parts, n, count, out);
    if (how != MF_CUT_SUM)
        return mesh_util_choose(how, dtype, parts, n, count, out);
    if (mf_dtype_is_int(dtype))
        return add_ints(dtype, parts, n, count, out);
    if (dtype == MF_DTYPE_F16 || dtype == MF_DTYPE_BF16)
        return add_halves(dtype, parts, n, count, out);
    if (dtype == MF_DTYPE_C64) /* real and imaginary parts separately */
        return mesh_util_add(MF_DTYPE_F32, parts, n, 2 * count, out);
    if (dtype == MF_DTYPE_C128)
        return mesh_util_add(MF_DTYPE_F64, parts, n, 2 * count, out);
    return mesh_util_add(dtype, parts, n, count, out);
}
