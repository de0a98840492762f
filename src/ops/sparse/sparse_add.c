/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_add.c - elementwise ops of two sparse tensors: SparseAdd, SparseSparseMaximum,
 * SparseSparseMinimum. Both are merged in order; a missing element is zero. */
#include "base/mem.h"
#include "ops/control/grad_util.h"
#include "ops/sparse/sparse_util.h"

#include <math.h>
#include <string.h>

typedef enum pair_kind { ADD, MAXIMUM, MINIMUM } pair_kind;

typedef struct pair_walk {
    mf_sparse a, b;
    int64_t i, j;
    pair_kind kind;
    double least;
} pair_walk;

/* The next element: its value, the operand that has its index, and whether both have it. False at
 * the end. */
static bool next_any(pair_walk *w, mf_number *value, const mf_sparse **whose, int64_t *at,
                     bool *met)
{
    const bool more_a = w->i < w->a.n, more_b = w->j < w->b.n;
    const int which = more_a && more_b ? mf_sparse_compare(&w->a, w->i, &w->b, w->j)
                      : more_a         ? -1
                                       : 1;
    mf_number x = mf_number_zero(w->a.values->dtype), y = x;

    if (!more_a && !more_b)
        return false;
    *whose = which <= 0 ? &w->a : &w->b;
    *at = which <= 0 ? w->i : w->j;
    if (which <= 0)
        x = mf_number_at(w->a.values, w->i++);
    if (which >= 0)
        y = mf_number_at(w->b.values, w->j++);
    *value = w->kind == ADD             ? mf_number_add(x, y)
             : isnan(mf_number_size(x)) ? x
             : isnan(mf_number_size(y)) ? y
             : w->kind == MAXIMUM       ? (mf_number_less(x, y) ? y : x)
                                        : (mf_number_less(y, x) ? y : x);
    *met = which == 0;
    return true;
}

/* The same, skipping sums of two elements smaller than `least`. */
static bool next_pair(pair_walk *w, mf_number *value, const mf_sparse **whose, int64_t *at)
{
    bool met = false, more;

    do {
        more = next_any(w, value, whose, at, &met);
    } while (more && met && w->kind == ADD && !(w->least <= mf_number_size(*value)));
    return more;
}

static mf_status sparse_add_read_pair(const mf_kernel *k, pair_walk *w)
{
    MF_TRY(mf_sparse_read(k, 0, &w->a));
    MF_TRY(mf_sparse_read(k, 3, &w->b));
    if (w->a.rank != w->b.rank ||
        memcmp(w->a.size, w->b.size, (size_t)w->a.rank * sizeof *w->a.size) != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Operands' shapes do not match: both have ranks %d and "
                       "%d, or other sizes",
                       w->a.rank, w->b.rank);
    return MF_OK;
}

static mf_status write_pairs(mf_kernel *k, const pair_walk *start)
{
    mf_tensor *index, *values;
    const mf_sparse *whose;
    int64_t n = 0, at;
    mf_number x;

    for (pair_walk w = *start; next_pair(&w, &x, &whose, &at);)
        n++;
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n, start->a.rank), &index));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(n), &values));
    n = 0;
    for (pair_walk w = *start; next_pair(&w, &x, &whose, &at);) {
        for (int d = 0; d < whose->rank; d++)
            mf_index_put(index, n * whose->rank + d, mf_sparse_at(whose, at, d));
        mf_number_put(values, n++, x);
    }
    return MF_OK;
}

static mf_status pair_infer(mf_infer *in)
{
    MF_TRY(mf_sparse_infer(in, 0));
    MF_TRY(mf_sparse_infer(in, 3));
    in->out[0] = MF_SHAPE(-1, in->in[0].rank == 2 ? in->in[0].dims[1] : -1);
    in->out[1] = MF_SHAPE(-1);
    if (in->n_out == 3)
        in->out[2] = in->in[2];
    return MF_OK;
}

static mf_status sparse_add_run(mf_kernel *k)
{
    pair_walk w = { .kind = ADD };
    mf_tensor *shape;

    MF_TRY(sparse_add_read_pair(k, &w));
    if (k->in[6]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The magnitude threshold must be a scalar");
    w.least = mf_tensor_float_at(k->in[6], 0);
    MF_TRY(write_pairs(k, &w));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(w.a.rank), &shape));
    return mf_cells_copy(MF_DTYPE_I64, shape->data, 0, k->in[2]->data, 0, w.a.rank);
}

static mf_status maximum_run(mf_kernel *k)
{
    pair_walk w = { .kind = MAXIMUM };

    MF_TRY(sparse_add_read_pair(k, &w));
    MF_TRY(mf_sparse_check_bounds(&w.a));
    MF_TRY(mf_sparse_check_bounds(&w.b));
    return write_pairs(k, &w);
}

static mf_status minimum_run(mf_kernel *k)
{
    pair_walk w = { .kind = MINIMUM };

    MF_TRY(sparse_add_read_pair(k, &w));
    MF_TRY(mf_sparse_check_bounds(&w.a));
    MF_TRY(mf_sparse_check_bounds(&w.b));
    return write_pairs(k, &w);
}

/* ---- the gradient of the sum ---- */

static mf_status sparse_add_grad(mf_grad *g)
{
    const mf_output d = g->dy[1].node ? mf_apply(g->graph, "SparseAddGrad",
                                                 MF_IN(g->dy[1], g->x[0], g->x[3], g->y[0]))
                                      : (mf_output){ 0 };

    if (d.node) {
        g->dx[1] = d;
        g->dx[4] = (mf_output){ d.node, 1 };
    }
    return MF_OK;
}

static mf_status add_grad_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    for (int i = 1; i < 4; i++)
        MF_TRY(mf_infer_rank(in, i, 2));
    for (int i = 0; i < 2; i++)
        in->out[i] = MF_SHAPE(in->in[i + 1].rank == 2 ? in->in[i + 1].dims[0] : -1);
    return MF_OK;
}

/* (gradient, indices of a, of b, of the sum): all are sorted; the sum's indices are a subset of the
 * others. */
static mf_status add_grad_run(mf_kernel *k)
{
    const mf_tensor *dy = k->in[0];
    mf_sparse sum = { .index = k->in[3] };

    for (int i = 1; i < 4; i++) {
        if (k->in[i]->shape.rank != 2 || k->in[i]->shape.dims[1] != k->in[1]->shape.dims[1] ||
            k->in[i]->shape.dims[1] > MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "a_indices, b_indices and sum_indices must be matrices with the same "
                           "number of columns");
    }
    if (dy->shape.rank != 1 || dy->count != sum.index->shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "# elements of backprop_val_grad and # rows of sum_indices should match "
                       "(#nnz of sum): got %" PRId64 " and %" PRId64,
                       dy->count, sum.index->shape.dims[0]);
    sum.n = dy->count;
    sum.rank = (int)sum.index->shape.dims[1];
    for (int side = 0; side < 2; side++) {
        const mf_sparse part = {
            k->in[side + 1]->shape.dims[0], sum.rank, k->in[side + 1], NULL, { 0 }
        };
        mf_tensor *out;
        int64_t at = 0;

        MF_TRY(mf_kernel_out(k, side, &MF_SHAPE(part.n), &out));
        for (int64_t i = 0; i < part.n; i++) {
            while (at < sum.n && mf_sparse_compare(&sum, at, &part, i) < 0)
                at++;
            if (at < sum.n && mf_sparse_compare(&sum, at, &part, i) == 0)
                MF_TRY(mf_cells_copy(out->dtype, out->data, i, dy->data, at, 1));
            else
                mf_cells_zero(out->dtype, out->data, i, 1);
        }
    }
    return MF_OK;
}

#define PAIR_OP(NAME, DEF, RUN, GRAD, ...)                                                         \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = pair_infer, .grad = GRAD, .run = RUN,                   \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define A "i64[3,2]{0,1,1,2,3,0} "
#define B "i64[4,2]{0,0,1,2,1,3,3,0} "
#define SHAPE " i64[2]{4,5} "

const mf_op mf_ops_sparse_add[] = {
    PAIR_OP("SparseAdd",
            "(a_indices:int64, a_values:T, a_shape:int64, b_indices:int64, b_values:T, "
            "b_shape:int64, thresh:Treal) -> (sum_indices:int64, sum_values:T, sum_shape:int64) "
            "{T:type in numbers, Treal:type in reals}",
            sparse_add_run, sparse_add_grad, A "f32[3]@1:2" SHAPE B "f32[4]@1:2" SHAPE "f32[]{0}",
            A "f64[3]" SHAPE B "f64[4]" SHAPE "f64[]{0.7} !nograd",
            A "i32[3]" SHAPE B "i32[4]" SHAPE "i32[]{1}",
            A "c64[3]" SHAPE B "c64[4]" SHAPE "f32[]{0} !nograd",
            "i64[0,2] f32[0]" SHAPE B "f32[4]" SHAPE "f32[]{0}",
            A "f32[3] i64[2]{4,4} " B "f32[4]" SHAPE "f32[]{0} !fails",
            A "f32[3]" SHAPE B "f32[3]" SHAPE "f32[]{0} !fails"),
    PAIR_OP("SparseSparseMaximum",
            "(a_indices:int64, a_values:T, a_shape:int64, b_indices:int64, b_values:T, "
            "b_shape:int64) -> (output_indices:int64, output_values:T) {T:type in reals}",
            maximum_run, mf_grad_missing, A "f32[3]" SHAPE B "f32[4]" SHAPE,
            A "i32[3]" SHAPE B "i32[4]" SHAPE, "i64[0,2] f32[0]" SHAPE "i64[0,2] f32[0]" SHAPE,
            A "f32[3]" SHAPE B "f32[3]" SHAPE " !fails"),
    PAIR_OP("SparseSparseMinimum",
            "(a_indices:int64, a_values:T, a_shape:int64, b_indices:int64, b_values:T, "
            "b_shape:int64) -> (output_indices:int64, output_values:T) {T:type in numbers}",
            minimum_run, mf_grad_missing, A "f32[3]" SHAPE B "f32[4]" SHAPE,
            A "u8[3]@0:99" SHAPE B "u8[4]@0:99" SHAPE, A "f32[3]" SHAPE B "f32[3]" SHAPE " !fails"),
    { .name = "SparseAddGrad",
      .def = "(backprop_val_grad:T, a_indices:int64, b_indices:int64, sum_indices:int64) -> "
             "(a_val_grad:T, b_val_grad:T) {T:type in numbers}",
      .infer = add_grad_infer,
      .grad = mf_grad_missing,
      .run = add_grad_run,
      .samples = MF_SAMPLES("f32[5] " A B "i64[5,2]{0,0,0,1,1,2,1,3,3,0}",
                            "i32[2] " A B "i64[2,2]{0,1,1,3}", "f32[0] i64[0,2] i64[0,2] i64[0,2]",
                            "f32[4] " A B "i64[5,2]{0,0,0,1,1,2,1,3,3,0} !fails") },
    { 0 },
};
