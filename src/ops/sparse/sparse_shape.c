/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_shape.c - changes the shape of sparse tensors: SparseReshape, SparseFillEmptyRows. A
 * sparse tensor is a matrix of indices [n, rank], n values and a shape. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- SparseReshape ---- */

/* Replaces a -1 in `want` so that it has as many elements as `from`. */
static mf_status fill_in_size(const mf_ivec *from, mf_ivec *want)
{
    int64_t have = 1, product = 1;
    int unknown = -1;

    for (int d = 0; d < from->n; d++) {
        if (from->v[d] < 0 || !mf_mul_i64(have, from->v[d], &have))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "input shape: size %" PRId64 " of dimension %d is negative, or the "
                           "product is too large",
                           from->v[d], d);
    }
    for (int d = 0; d < want->n; d++) {
        if (want->v[d] == -1 && unknown >= 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "only one output dimension may be -1, not both %d and %d", unknown, d);
        if (want->v[d] == -1)
            unknown = d;
        else if (want->v[d] < 0 || !mf_mul_i64(product, want->v[d], &product))
            return MF_FAIL(MF_INVALID_ARGUMENT, "size %d must be non-negative, not %" PRId64, d,
                           want->v[d]);
    }
    if (unknown >= 0 && product == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "reshape cannot infer the missing input size for an empty tensor unless all "
                       "specified input sizes are non-zero");
    if (unknown >= 0) {
        want->v[unknown] = have / product;
        product *= want->v[unknown];
    }
    if (product == have)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Input to reshape is a tensor with %" PRId64 " dense values, but the requested "
                   "shape has %" PRId64,
                   have, product);
}

static mf_status check_matrix(const mf_tensor *indices, const mf_tensor *shape)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (indices->shape.rank == 2 && shape->shape.rank == 1 &&
        indices->shape.dims[1] == shape->count)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "indices must be a matrix with a column for each dimension, got %s for a shape "
                   "of %s",
                   mf_shape_text(&indices->shape, a), mf_shape_text(&shape->shape, b));
}

static mf_status sparse_shape_reshape_infer(mf_infer *in)
{
    const mf_shape *indices = &in->in[0], *wanted = &in->in[2];

    MF_TRY(mf_infer_rank(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 1));
    MF_TRY(mf_infer_rank(in, 2, 1));
    in->out[0] = MF_SHAPE(indices->rank == 2 ? indices->dims[0] : MF_UNKNOWN_DIM,
                          wanted->rank == 1 ? wanted->dims[0] : MF_UNKNOWN_DIM);
    in->out[1] = MF_SHAPE(in->out[0].dims[1]);
    return MF_OK;
}

/* As in TensorFlow nothing is checked: an index outside the shape stays outside. */
static void move_index(const mf_ivec *from_sizes, const mf_ivec *to_sizes, const int64_t *from,
                       int64_t *to)
{
    uint64_t at = 0; /* may wrap */
    int64_t left, step = 1;

    for (int d = 0; d < from_sizes->n; d++)
        at = at * (uint64_t)from_sizes->v[d] + (uint64_t)from[d];
    left = (int64_t)at;
    for (int d = 1; d < to_sizes->n; d++)
        step *= to_sizes->v[d] > 0 ? to_sizes->v[d] : 1;
    for (int d = 0; d < to_sizes->n; d++) {
        to[d] = left / step;
        left %= step;
        if (d + 1 < to_sizes->n)
            step /= to_sizes->v[d + 1] > 0 ? to_sizes->v[d + 1] : 1;
    }
}

static mf_status sparse_shape_reshape_run(mf_kernel *k)
{
    const mf_tensor *indices = k->in[0];
    const int64_t *from;
    int64_t *to;
    mf_tensor *out, *shape;
    mf_ivec sizes, wanted;

    MF_TRY(check_matrix(indices, k->in[1]));
    MF_TRY(mf_ivec_read(k->in[1], MF_MAX_RANK, "input_shape", &sizes));
    MF_TRY(mf_ivec_read(k->in[2], MF_MAX_RANK, "new_shape", &wanted));
    MF_TRY(fill_in_size(&sizes, &wanted));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(indices->shape.dims[0], wanted.n), &out));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(wanted.n), &shape));
    for (int d = 0; d < wanted.n; d++)
        mf_index_put(shape, d, wanted.v[d]);
    from = indices->data;
    to = out->data;
    if (sizes.n == wanted.n && memcmp(sizes.v, wanted.v, (size_t)sizes.n * sizeof *sizes.v) == 0) {
        if (indices->count > 0)
            memcpy(to, from, (size_t)indices->count * sizeof *to);
        return MF_OK;
    }
    for (int64_t i = 0; i < indices->shape.dims[0]; i++)
        move_index(&sizes, &wanted, from + i * sizes.n, to + i * wanted.n);
    return MF_OK;
}

/* ---- SparseFillEmptyRows ---- */

typedef struct fill_plan {
    int64_t rows, n, rank;
    mf_tensor start; /* start of each row's values in the output; [rows + 1] */
    bool *empty;
} fill_plan;

static mf_status sparse_shape_fill_infer(mf_infer *in)
{
    const mf_shape *indices = &in->in[0];

    MF_TRY(mf_infer_rank(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 1));
    MF_TRY(mf_infer_rank(in, 2, 1));
    MF_TRY(mf_infer_rank(in, 3, 0));
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM, indices->rank == 2 ? indices->dims[1] : MF_UNKNOWN_DIM);
    in->out[1] = MF_SHAPE(MF_UNKNOWN_DIM);
    in->out[2] = MF_SHAPE(MF_UNKNOWN_DIM);
    in->out[3] = MF_SHAPE(indices->rank == 2 ? indices->dims[0] : MF_UNKNOWN_DIM);
    return MF_OK;
}

static mf_status check_fill(const mf_kernel *k)
{
    const mf_tensor *indices = k->in[0], *values = k->in[1], *shape = k->in[2];

    if (indices->shape.rank != 2 || values->shape.rank != 1 || shape->shape.rank != 1 ||
        k->in[3]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "indices must be a matrix, values and dense_shape "
                                            "vectors, default_value a scalar");
    if (values->count != indices->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The length of `values` (%" PRId64 ") must match the first dimension of "
                       "`indices` (%" PRId64 ")",
                       values->count, indices->shape.dims[0]);
    if (shape->count == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Dense shape cannot be empty.");
    return check_matrix(indices, shape);
}

/* Counts the values of each row, then computes their destinations. */
static mf_status plan_rows(const mf_kernel *k, fill_plan *p)
{
    const int64_t *indices = k->in[0]->data;
    int64_t *start, total = 0;

    p->rows = mf_tensor_int_at(k->in[2], 0);
    p->n = k->in[0]->shape.dims[0];
    p->rank = k->in[0]->shape.dims[1];
    if (p->rows < 0 || (p->rows == 0 && p->n > 0))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Received SparseTensor with dense_shape[0] = %" PRId64
                       " but indices.shape[0] = %" PRId64,
                       p->rows, p->n);
    MF_TRY(mf_tensor_alloc(&p->start, MF_DTYPE_I64, &MF_SHAPE(p->rows + 1)));
    start = p->start.data;
    memset(start, 0, (size_t)(p->rows + 1) * sizeof *start);
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t row = indices[i * p->rank];

        if (row < 0 || row >= p->rows)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "indices(%" PRId64 ", 0) is invalid: %" PRId64 " >= %" PRId64, i, row,
                           p->rows);
        start[row]++;
    }
    for (int64_t r = 0; r <= p->rows; r++) {
        const int64_t count = r == p->rows ? 0 : start[r];

        if (r < p->rows)
            p->empty[r] = count == 0;
        start[r] = total;
        total += r == p->rows ? 0 : count > 0 ? count : 1;
    }
    return MF_OK;
}

/* Values keep their order within a row; an empty row gets the default value in column 0. */
static mf_status move_values(mf_kernel *k, const fill_plan *p, mf_tensor *indices,
                             mf_tensor *values, mf_tensor *map)
{
    const int64_t *from = k->in[0]->data;
    int64_t *to = indices->data, *start = p->start.data;

    for (int64_t r = 0; r < p->rows; r++) {
        if (!p->empty[r])
            continue;
        memset(to + start[r] * p->rank, 0, (size_t)p->rank * sizeof *to);
        to[start[r] * p->rank] = r;
        MF_TRY(mf_cells_copy(values->dtype, values->data, start[r], k->in[3]->data, 0, 1));
    }
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t at = start[from[i * p->rank]]++;

        memcpy(to + at * p->rank, from + i * p->rank, (size_t)p->rank * sizeof *to);
        MF_TRY(mf_cells_copy(values->dtype, values->data, at, k->in[1]->data, i, 1));
        ((int64_t *)map->data)[i] = at;
    }
    return MF_OK;
}

static mf_status sparse_shape_fill_run(mf_kernel *k)
{
    mf_tensor *indices, *values, *empty, *map;
    fill_plan p = { 0 };
    int64_t rows, total;
    mf_status st;

    MF_TRY(check_fill(k));
    rows = mf_tensor_int_at(k->in[2], 0);
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(rows < 0 ? 0 : rows), &empty));
    p.empty = empty->data;
    MF_TRY_TO(done, plan_rows(k, &p));
    total = ((const int64_t *)p.start.data)[p.rows];
    MF_TRY_TO(done, mf_kernel_out(k, 0, &MF_SHAPE(total, p.rank), &indices));
    MF_TRY_TO(done, mf_kernel_out(k, 1, &MF_SHAPE(total), &values));
    MF_TRY_TO(done, mf_kernel_out(k, 3, &MF_SHAPE(p.n), &map));
    st = move_values(k, &p, indices, values, map);
done:
    mf_tensor_clear(&p.start);
    return st;
}

/* The gradient of a value is at its destination; all others are added to the default's. */
static mf_status sparse_shape_fill_grad(mf_grad *g)
{
    const mf_output map = { g->node, 3 }, zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    mf_output rest;

    if (!g->dy[1].node)
        return MF_OK;
    g->dx[1] = MF_G3("GatherV2", g->dy[1], map, zero);
    rest = MF_G3("TensorScatterUpdate", g->dy[1], MF_G2("ExpandDims", map, one),
                 MF_G1("ZerosLike", g->dx[1]));
    g->dx[3] = MF_G2("Sum", rest, zero);
    return MF_OK;
}

const mf_op mf_ops_sparse_shape[] = {
    { .name = "SparseReshape",
      .def = "(input_indices:int64, input_shape:int64, new_shape:int64) -> (output_indices:int64, "
             "output_shape:int64) {}",
      .infer = sparse_shape_reshape_infer,
      .grad = mf_grad_none,
      .run = sparse_shape_reshape_run,
      .samples = MF_SAMPLES("i64[3,2]{0,1,1,2,3,0} i64[2]{4,3} i64[3]{2,2,3}",
                            "i64[2,3]{0,1,1,1,0,2} i64[3]{2,2,3} i64[2]{-1,6}",
                            "i64[0,2] i64[2]{4,3} i64[1]{12}", "i64[1,1]{5} i64[1]{6} i64[1]{-1}",
                            "i64[1,2]{0,1} i64[2]{4,3} i64[1]{11} !fails",
                            "i64[1,2]{0,1} i64[2]{4,3} i64[2]{-1,-1} !fails",
                            "i64[1,2]{0,1} i64[3]{4,3,1} i64[1]{12} !fails") },
    { .name = "SparseFillEmptyRows",
      .def = "(indices:int64, values:T, dense_shape:int64, default_value:T) -> "
             "(output_indices:int64, output_values:T, empty_row_indicator:bool, "
             "reverse_index_map:int64) {T:type}",
      .infer = sparse_shape_fill_infer,
      .grad = sparse_shape_fill_grad,
      .run = sparse_shape_fill_run,
      .samples = MF_SAMPLES(
          "i64[4,2]{0,1,0,3,2,0,3,1} f32[4] i64[2]{5,6} f32[]",
          "i64[2,2]{1,0,1,3} str[2] i64[2]{2,4} str[]", "i64[0,2] f64[0] i64[2]{3,4} f64[]",
          "i64[0,2] i32[0] i64[2]{0,4} i32[]", "i64[2,2]{1,0,0,3} i64[2] i64[2]{2,4} i64[]",
          "i64[1,2]{2,0} f32[1] i64[2]{2,4} f32[] !fails",
          "i64[1,2]{1,0} f32[2] i64[2]{2,4} f32[] !fails",
          "i64[1,2]{1,0} f32[1] i64[2]{0,4} f32[] !fails") },
    { 0 },
};
