/* SPDX-License-Identifier: Apache-2.0 */
/* ragged.c - RaggedTensorToSparse. A ragged tensor is its values and, for each ragged dimension
 * from the outside, where its rows begin and end. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* Splits are in order and each points into the next, the last into the values. */
static mf_status check_splits(const mf_kernel *k)
{
    for (int d = 0; d + 1 < k->n_in; d++) {
        const mf_tensor *s = k->in[d], *next = k->in[d + 1];
        const bool last = d + 2 == k->n_in;
        const int64_t rows =
            last ? (next->shape.rank > 0 ? next->shape.dims[0] : -1) : next->count - 1;

        if (s->shape.rank != 1 || s->count < 1 || rows < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid ragged splits %d: they must be a vector that is not empty, and "
                           "values at least a vector",
                           d);
        if (mf_index_at(s, 0) != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "First value of ragged splits must be 0.");
        for (int64_t i = 1; i < s->count; i++) {
            if (mf_index_at(s, i) < mf_index_at(s, i - 1))
                return MF_FAIL(
                    MF_INVALID_ARGUMENT,
                    "Ragged splits should be non decreasing, but split %d is not at %" PRId64, d,
                    i);
        }
        if (mf_index_at(s, s->count - 1) != rows)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Final value of ragged splits must match the length: %" PRId64
                           " vs. %" PRId64,
                           mf_index_at(s, s->count - 1), rows);
    }
    return MF_OK;
}

/* The row of splits `s` that element `at` of the next level is in. */
static int64_t ragged_row_of(const mf_tensor *s, int64_t at)
{
    int64_t low = 0, high = s->count - 1;

    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;

        if (mf_index_at(s, mid) <= at)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static mf_status ragged_ragged_infer(mf_infer *in)
{
    const mf_shape *values = &in->in[in->n_in - 1];
    const int64_t rank = values->rank < 0 ? -1 : values->rank + in->n_in - 1;

    for (int i = 0; i + 1 < in->n_in; i++)
        MF_TRY(mf_infer_rank(in, i, 1));
    MF_TRY(mf_infer_rank_at_least(in, in->n_in - 1, 1));
    in->out[0] = MF_SHAPE(-1, rank);
    in->out[1] = MF_SHAPE(-1);
    in->out[2] = MF_SHAPE(rank);
    return MF_OK;
}

static mf_status ragged_ragged_run(mf_kernel *k)
{
    const int ragged = k->n_in - 1;
    const mf_tensor *values = k->in[ragged];
    const int rank = ragged + values->shape.rank;
    const int64_t inner = mf_shape_span(&values->shape, 1, values->shape.rank);
    mf_tensor *indices, *out, *shape;

    MF_TRY(check_splits(k));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(values->count, rank), &indices));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(values->count), &out));
    MF_TRY(mf_kernel_out(k, 2, &MF_SHAPE(rank), &shape));
    MF_TRY(mf_cells_copy(values->dtype, out->data, 0, values->data, 0, values->count));
    for (int64_t i = 0; i < values->count; i++) {
        int64_t *index = (int64_t *)indices->data + i * rank, rest = i % inner, at = i / inner;

        for (int d = values->shape.rank - 1; d > 0; d--) {
            index[ragged + d] = rest % values->shape.dims[d];
            rest /= values->shape.dims[d];
        }
        for (int d = ragged - 1; d >= 0; d--) {
            const int64_t row = ragged_row_of(k->in[d], at);

            index[d + 1] = at - mf_index_at(k->in[d], row);
            at = row;
        }
        index[0] = at;
    }
    mf_index_put(shape, 0, k->in[0]->count - 1);
    for (int d = 0; d < ragged; d++) {
        int64_t longest = 0;

        for (int64_t i = 1; i < k->in[d]->count; i++) {
            const int64_t length = mf_index_at(k->in[d], i) - mf_index_at(k->in[d], i - 1);

            longest = length > longest ? length : longest;
        }
        mf_index_put(shape, d + 1, longest);
    }
    for (int d = 1; d < values->shape.rank; d++)
        mf_index_put(shape, ragged + d, values->shape.dims[d]);
    return MF_OK;
}

/* Values keep their order. */
static mf_status ragged_ragged_grad(mf_grad *g)
{
    const mf_output values = g->x[g->n_in - 1];

    if (g->dy[1].node)
        g->dx[g->n_in - 1] = MF_G2("Reshape", g->dy[1], MF_G1("Shape", values));
    return MF_OK;
}

const mf_op mf_op_ragged_to_sparse = {
    .name = "RaggedTensorToSparse",
    .def = "(rt_nested_splits:RAGGED_RANK*Tsplits, rt_dense_values:T) -> (sparse_indices:int64, "
           "sparse_values:T, sparse_dense_shape:int64) {RAGGED_RANK:int>=1, T:type, "
           "Tsplits:type=int64 in index}",
    .infer = ragged_ragged_infer,
    .grad = ragged_ragged_grad,
    .run = ragged_ragged_run,
    .samples = MF_SAMPLES("i64[4]{0,2,2,5} f32[5]", "i64[3]{0,1,3} i64[4]{0,2,2,5} str[5]",
                          "i32[3]{0,1,3} f32[3,2,2]", "i64[1]{0} f32[0]", "i64[2]{0,0} i32[0,2]",
                          "i64[4]{0,2,1,5} f32[5] !fails", "i64[3]{1,2,5} f32[5] !fails",
                          "i64[3]{0,2,4} f32[5] !fails", "i64[0] f32[5] !fails"),
};
