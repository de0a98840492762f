/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_order.c - reorders, joins and slices sparse tensors: SparseReorder, SparseConcat,
 * SparseSlice. As in TensorFlow, indices are not checked against the shape, so their sums and
 * differences wrap. */
#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/math/math_util.h"
#include "ops/sparse/sparse_util.h"

/* ---- SparseReorder ---- */

static mf_status reorder_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    in->out[0] = in->in[0];
    in->out[1] = in->in[1];
    return MF_OK;
}

/* The elements of s in this order. */
static mf_status put_in_order(mf_kernel *k, const mf_sparse *s, const int64_t *order)
{
    mf_tensor *index, *values;

    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(s->n, s->rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(s->n), &values));
    for (int64_t i = 0; i < s->n; i++) {
        for (int d = 0; d < s->rank; d++)
            ((int64_t *)index->data)[i * s->rank + d] = mf_sparse_at(s, order[i], d);
        MF_TRY(mf_cells_copy(values->dtype, values->data, i, s->values->data, order[i], 1));
    }
    return MF_OK;
}

static mf_status reorder_run(mf_kernel *k)
{
    int64_t *order = NULL;
    mf_sparse s;
    mf_status st;

    MF_TRY(mf_sparse_read(k, 0, &s));
    MF_TRY_TO(done, mf_sparse_order(&s, &order));
    st = put_in_order(k, &s, order);
done:
    mf_free(order);
    return st;
}

/* Sorting the positions the same way gives each element's destination. */
static mf_status reorder_grad(mf_grad *g)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output places =
        MF_G3("Range", zero, MF_G1("Size", g->x[1]), mf_scalar(g->graph, MF_DTYPE_I32, 1));
    const mf_output moved = MF_G3("SparseReorder", g->x[0], places, g->x[2]);

    if (g->dy[1].node)
        g->dx[1] = MF_G3("GatherV2", g->dy[1],
                         MF_G1("InvertPermutation", ((mf_output){ moved.node, 1 })), zero);
    return MF_OK;
}

/* ---- SparseConcat ---- */

static mf_status sparse_order_concat_infer(mf_infer *in)
{
    const int n = in->n_in / 3;
    int64_t rank = -1;

    for (int i = 0; i < n; i++) {
        MF_TRY(mf_infer_rank(in, i, 2));
        MF_TRY(mf_infer_rank(in, n + i, 1));
        MF_TRY(mf_infer_rank(in, 2 * n + i, 1));
        if (in->in[2 * n + i].rank == 1)
            rank = in->in[2 * n + i].dims[0];
    }
    in->out[0] = MF_SHAPE(-1, rank);
    in->out[1] = MF_SHAPE(-1);
    in->out[2] = MF_SHAPE(rank);
    return MF_OK;
}

typedef struct concat_plan {
    int64_t size[MF_MAX_RANK], n;
    int rank, axis;
} concat_plan;

/* Inputs i, n + i and 2 n + i are one sparse tensor. */
static mf_status sparse_order_read_part(const mf_kernel *k, int i, mf_sparse *out)
{
    const int n = k->n_in / 3;
    const mf_tensor *const in[3] = { k->in[i], k->in[n + i], k->in[2 * n + i] };
    const mf_kernel part = { .in = in, .n_in = 3 };

    return mf_sparse_read(&part, 0, out);
}

static mf_status plan_concat(const mf_kernel *k, concat_plan *p)
{
    for (int i = 0; i < k->n_in / 3; i++) {
        mf_sparse s;

        MF_TRY(sparse_order_read_part(k, i, &s));
        if (i == 0) {
            p->rank = s.rank;
            MF_TRY(mf_axis_read(mf_node_int(k->node, "concat_dim"), s.rank, "Concat dimension",
                                &p->axis));
            memcpy(p->size, s.size, sizeof p->size);
            p->size[p->axis] = 0;
        }
        if (s.rank != p->rank)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Ranks of all input tensors must match: expected %d but got %d at "
                           "position %d",
                           p->rank, s.rank, i);
        for (int d = 0; d < s.rank; d++) {
            if (d != p->axis && s.size[d] != p->size[d])
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "Input shapes must match: expected %" PRId64 " for dimension %d but "
                               "got %" PRId64 " at position %d",
                               p->size[d], d, s.size[d], i);
        }
        if (!mf_add_i64(p->size[p->axis], s.size[p->axis], &p->size[p->axis]))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the result is too large");
        p->n += s.n;
    }
    return MF_OK;
}

/* Concatenates all parts, with shifted indices. */
static mf_status gather_parts(const mf_kernel *k, const concat_plan *p, mf_tensor *index,
                              mf_tensor *values)
{
    int64_t offset = 0, at = 0;

    for (int i = 0; i < k->n_in / 3; i++) {
        int64_t *to = (int64_t *)index->data + at * p->rank;
        mf_sparse s;

        MF_TRY(sparse_order_read_part(k, i, &s));
        for (int64_t e = 0; e < s.n * s.rank; e++)
            to[e] =
                (int64_t)MF_WRAP_ADD(mf_index_at(s.index, e), e % s.rank == p->axis ? offset : 0);
        MF_TRY(mf_cells_copy(values->dtype, values->data, at, s.values->data, 0, s.n));
        at += s.n;
        offset += s.size[p->axis];
    }
    return MF_OK;
}

static mf_status sparse_order_concat_run(mf_kernel *k)
{
    mf_tensor index = { 0 }, values = { 0 }, *shape;
    int64_t *order = NULL;
    concat_plan p = { .n = 0 };
    mf_sparse all;
    mf_status st;

    MF_TRY(plan_concat(k, &p));
    MF_TRY_TO(done, mf_tensor_alloc(&index, MF_DTYPE_I64, &MF_SHAPE(p.n, p.rank)));
    MF_TRY_TO(done, mf_tensor_alloc(&values, mf_out_type(k->node, 1), &MF_SHAPE(p.n)));
    MF_TRY_TO(done, gather_parts(k, &p, &index, &values));
    all = (mf_sparse){ p.n, p.rank, &index, &values, { 0 } };
    MF_TRY_TO(done, mf_sparse_order(&all, &order));
    MF_TRY_TO(done, put_in_order(k, &all, order));
    MF_TRY_TO(done, mf_kernel_out(k, 2, &MF_SHAPE(p.rank), &shape));
    for (int d = 0; d < p.rank; d++)
        mf_index_put(shape, d, p.size[d]);
done:
    mf_free(order);
    mf_tensor_clear(&index);
    mf_tensor_clear(&values);
    return st;
}

/* ---- SparseSlice ---- */

static mf_status sparse_order_slice_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    MF_TRY(mf_infer_rank(in, 3, 1));
    MF_TRY(mf_infer_rank(in, 4, 1));
    in->out[0] = MF_SHAPE(-1, in->in[0].rank == 2 ? in->in[0].dims[1] : -1);
    in->out[1] = MF_SHAPE(-1);
    in->out[2] = in->in[2];
    return MF_OK;
}

static bool sparse_order_is_inside(const mf_sparse *s, int64_t i, const mf_ivec *start,
                                   const int64_t *size)
{
    for (int d = 0; d < s->rank; d++) {
        const int64_t at = mf_sparse_at(s, i, d); /* start and size are not negative */

        if (at < start->v[d] || at - start->v[d] >= size[d])
            return false;
    }
    return true;
}

static mf_status sparse_order_slice_run(mf_kernel *k)
{
    mf_tensor *index, *values, *shape;
    int64_t size[MF_MAX_RANK], n = 0;
    mf_ivec start, want;
    mf_sparse s;

    MF_TRY(mf_sparse_read(k, 0, &s));
    MF_TRY(mf_ivec_read(k->in[3], MF_MAX_RANK, "start", &start));
    MF_TRY(mf_ivec_read(k->in[4], MF_MAX_RANK, "size", &want));
    if (start.n != s.rank || want.n != s.rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected start and size to have %d elements, got %d and %d", s.rank,
                       start.n, want.n);
    for (int d = 0; d < s.rank; d++) {
        if (start.v[d] < 0 || want.v[d] < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "start %" PRId64 " and size %" PRId64
                           " of dimension %d must not be negative",
                           start.v[d], want.v[d], d);
        size[d] = start.v[d] >= s.size[d]              ? 0
                  : want.v[d] < s.size[d] - start.v[d] ? want.v[d]
                                                       : s.size[d] - start.v[d];
    }
    for (int64_t i = 0; i < s.n; i++)
        n += sparse_order_is_inside(&s, i, &start, size);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n, s.rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &values));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(s.rank), &shape));
    for (int d = 0; d < s.rank; d++)
        mf_index_put(shape, d, size[d]);
    for (int64_t i = 0, at = 0; i < s.n; i++) {
        if (!sparse_order_is_inside(&s, i, &start, size))
            continue;
        for (int d = 0; d < s.rank; d++)
            mf_index_put(index, at * s.rank + d, mf_sparse_at(&s, i, d) - start.v[d]);
        MF_TRY(mf_cells_copy(values->dtype, values->data, at++, s.values->data, i, 1));
    }
    return MF_OK;
}

static mf_status sparse_order_slice_grad(mf_grad *g)
{
    if (g->dy[1].node)
        g->dx[1] =
            mf_apply(g->graph, "SparseSliceGrad", MF_IN(g->dy[1], g->x[0], g->x[3], g->y[0]));
    return MF_OK;
}

static mf_status slice_grad_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 2));
    MF_TRY(mf_infer_rank(in, 3, 2));
    in->out[0] = MF_SHAPE(in->in[1].rank == 2 ? in->in[1].dims[0] : -1);
    return MF_OK;
}

/* (gradient, indices, start, indices of the slice): both are in the same order. */
static mf_status slice_grad_run(mf_kernel *k)
{
    const mf_tensor *dy = k->in[0], *all = k->in[1], *start = k->in[2], *some = k->in[3];
    int64_t at = 0, rank;
    mf_tensor *out;

    if (dy->shape.rank != 1 || all->shape.rank != 2 || start->shape.rank != 1 ||
        some->shape.rank != 2 || some->shape.dims[0] != dy->count ||
        some->shape.dims[1] != all->shape.dims[1] || start->count != all->shape.dims[1])
        return MF_FAIL(MF_INVALID_ARGUMENT, "gradient, indices, start and sliced indices do not "
                                            "fit: a vector, a matrix, a vector and a matrix of as "
                                            "many columns");
    rank = all->shape.dims[1];
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(all->shape.dims[0]), &out));
    for (int64_t i = 0; i < all->shape.dims[0]; i++) {
        bool same = at < dy->count;

        for (int64_t d = 0; same && d < rank; d++)
            same = (uint64_t)mf_index_at(all, i * rank + d) ==
                   MF_WRAP_ADD(mf_index_at(some, at * rank + d), mf_index_at(start, d));
        if (same)
            MF_TRY(mf_cells_copy(out->dtype, out->data, i, dy->data, at++, 1));
        else
            mf_cells_zero(out->dtype, out->data, i, 1);
    }
    if (at == dy->count)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Elements of backprop_val_grad aren't all propagated. Num elements: %" PRId64
                   ", used: %" PRId64,
                   dy->count, at);
}

#define SPARSE_OP(NAME, DEF, INFER, RUN, GRAD, ...)                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = GRAD, .run = RUN,                        \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_sparse_order[] = {
    SPARSE_OP("SparseReorder",
              "(input_indices:int64, input_values:T, input_shape:int64) -> (output_indices:int64, "
              "output_values:T) {T:type}",
              reorder_infer, reorder_run, reorder_grad,
              "i64[4,2]{2,1,0,3,2,0,0,1} f32[4] i64[2]{3,4}",
              "i64[3,3]{1,1,1,0,1,1,0,0,1} str[3] i64[3]{2,2,2}", "i64[0,2] f64[0] i64[2]{3,4}",
              "i64[2,1]{4,2} i32[2] i64[1]{5}", "i64[2,1]{4,2} f32[3] i64[1]{5} !fails",
              "i64[2,2]{4,2,1,1} f32[2] i64[1]{5} !fails"),
    SPARSE_OP("SparseConcat",
              "(indices:N*int64, values:N*T, shapes:N*int64) -> (output_indices:int64, "
              "output_values:T, output_shape:int64) {concat_dim:int, N:int>=2, T:type}",
              sparse_order_concat_infer, sparse_order_concat_run, mf_grad_missing,
              "i64[2,2]{0,1,2,0} i64[3,2]{0,0,1,3,2,2} f32[2] f32[3] i64[2]{3,2} i64[2]{3,4} ; "
              "concat_dim=1 N=2",
              "i64[2,2]{0,1,2,0} i64[3,2]{0,0,1,3,2,2} str[2] str[3] i64[2]{3,4} i64[2]{5,4} ; "
              "concat_dim=0 N=2",
              "i64[0,2] i64[1,2]{0,1} i32[0] i32[1] i64[2]{3,4} i64[2]{3,2} ; concat_dim=-1 N=2",
              "i64[0,2] i64[1,2]{0,1} i32[0] i32[1] i64[2]{3,4} i64[2]{4,2} ; concat_dim=1 N=2 "
              "!fails",
              "i64[0,2] i64[1,2]{0,1} i32[0] i32[1] i64[2]{3,4} i64[2]{3,4} ; concat_dim=2 N=2 "
              "!fails"),
    SPARSE_OP("SparseSlice",
              "(indices:int64, values:T, shape:int64, start:int64, size:int64) -> "
              "(output_indices:int64, output_values:T, output_shape:int64) {T:type}",
              sparse_order_slice_infer, sparse_order_slice_run, sparse_order_slice_grad,
              "i64[4,2]{0,1,0,3,2,0,3,1} f32[4] i64[2]{5,6} i64[2]{0,1} i64[2]{4,3}",
              "i64[4,2]{0,1,0,3,2,0,3,1} str[4] i64[2]{5,6} i64[2]{1,0} i64[2]{9,2}",
              "i64[0,2] f64[0] i64[2]{5,6} i64[2]{1,0} i64[2]{9,2}",
              "i64[1,2]{0,1} f32[1] i64[2]{5,6} i64[1]{1} i64[2]{9,2} !fails",
              "i64[1,2]{0,1} f32[1] i64[2]{5,6} i64[2]{1,-1} i64[2]{9,2} !fails !notf"),
    SPARSE_OP("SparseSliceGrad",
              "(backprop_val_grad:T, input_indices:int64, input_start:int64, output_indices:int64) "
              "-> (val_grad:T) {T:type in numbers}",
              slice_grad_infer, slice_grad_run, mf_grad_missing,
              "f32[2] i64[4,2]{0,1,0,3,2,0,3,1} i64[2]{0,1} i64[2,2]{0,0,0,2}",
              "i32[0] i64[1,2]{0,1} i64[2]{0,1} i64[0,2]",
              "f32[2] i64[4,2]{0,1,0,3,2,0,3,1} i64[2]{0,1} i64[1,2]{0,0} !fails",
              "f32[1] i64[1,2]{0,1} i64[2]{0,1} i64[1,2]{3,0} !fails"),
    { 0 },
};
