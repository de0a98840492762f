/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_partition.c - distributes rows to several tensors by number, and stitches them together.
 */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- DynamicPartition ---- */

static mf_status dynamic_partition_check_prefix(const mf_shape *data, const mf_shape *prefix)
{
    mf_shape head = *data;
    char td[MF_SHAPE_TEXT], tp[MF_SHAPE_TEXT];

    if (data->rank < 0 || prefix->rank < 0)
        return MF_OK;
    head.rank = prefix->rank;
    if (prefix->rank <= data->rank && mf_shape_compatible(&head, prefix))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "data.shape must start with partitions.shape, got data.shape = %s, "
                   "partitions.shape = %s",
                   mf_shape_text(data, td), mf_shape_text(prefix, tp));
}

static mf_status partition_infer(mf_infer *in)
{
    const mf_shape *data = &in->in[0], *numbers = &in->in[1];

    MF_TRY(dynamic_partition_check_prefix(data, numbers));
    if (data->rank < 0 || numbers->rank < 0)
        return MF_OK;
    for (int i = 0; i < in->n_out; i++) {
        mf_shape *out = &in->out[i];

        *out = MF_SHAPE(MF_UNKNOWN_DIM);
        MF_TRY(mf_rank_check(1 + data->rank - numbers->rank));
        for (int d = numbers->rank; d < data->rank; d++)
            out->dims[out->rank++] = data->dims[d];
    }
    return MF_OK;
}

static mf_status count_parts(const mf_tensor *numbers, int n, int64_t *counts)
{
    const int32_t *v = numbers->data;

    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < numbers->count; i++) {
        if (v[i] < 0 || v[i] >= n)
            return MF_FAIL(MF_INVALID_ARGUMENT, "partitions[%" PRId64 "] = %d is not in [0, %d)", i,
                           v[i], n);
        counts[v[i]]++;
    }
    return MF_OK;
}

static mf_status partition_fill(mf_kernel *k, int64_t *counts)
{
    const mf_tensor *data = k->in[0], *numbers = k->in[1];
    const int prefix = numbers->shape.rank;
    const int64_t row = mf_shape_span(&data->shape, prefix, data->shape.rank);
    mf_shape shape = MF_SHAPE(0);
    mf_tensor *out;

    MF_TRY(mf_rank_check(1 + data->shape.rank - prefix));
    for (int d = prefix; d < data->shape.rank; d++)
        shape.dims[shape.rank++] = data->shape.dims[d];
    for (int i = 0; i < k->n_out; i++) {
        MF_TRY(mf_stop_after(500));
        shape.dims[0] = counts[i];
        counts[i] = 0;
        MF_TRY(mf_kernel_out(k, i, &shape, &out));
    }
    for (int64_t i = 0; i < numbers->count; i++) {
        const int32_t to = ((const int32_t *)numbers->data)[i];

        MF_TRY(mf_stop_after(10 + row));
        MF_TRY(mf_cells_copy(data->dtype, k->out[to]->data, counts[to]++ * row, data->data, i * row,
                             row));
    }
    return MF_OK;
}

static mf_status partition_run(mf_kernel *k)
{
    mf_tensor counts = { 0 };
    mf_status st;

    MF_TRY(dynamic_partition_check_prefix(&k->in[0]->shape, &k->in[1]->shape));
    MF_TRY(mf_tensor_alloc(&counts, MF_DTYPE_I64, &MF_SHAPE(k->n_out)));
    st = count_parts(k->in[1], k->n_out, counts.data);
    if (st == MF_OK)
        st = partition_fill(k, counts.data);
    mf_tensor_clear(&counts);
    return st;
}

/* Row numbers are partitioned like the rows; they are the destinations of the gradients. */
static mf_status partition_grad(mf_grad *g)
{
    const mf_output i0 = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output i1 = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output order = MF_G3("Range", i0, MF_G1("Size", g->x[1]), i1);
    const mf_output shaped = MF_G2("Reshape", order, MF_G1("Shape", g->x[1]));
    const mf_output dealt = mf_applyf(g->graph, "DynamicPartition", MF_IN(shaped, g->x[1]),
                                      "num_partitions=%d", g->n_out);
    mf_output *list = MF_ARENA_ARRAY(g->graph->arena, mf_output, 2 * g->n_out + 1);

    if (!list)
        return MF_NOMEM("a gradient");
    for (int i = 0; i < g->n_out; i++) {
        list[i] = (mf_output){ dealt.node, i };
        list[g->n_out + i] = mf_grad_dy_or_zeros(g, i);
    }
    list[2 * g->n_out] = (mf_output)MF_END;
    g->dx[0] =
        MF_G2("Reshape", mf_applyf(g->graph, "ParallelDynamicStitch", list, "N=%d", g->n_out),
              MF_G1("Shape", g->x[0]));
    return MF_OK;
}

/* ---- DynamicStitch, ParallelDynamicStitch: N vectors of row numbers, N tensors ---- */

/* Shape of a row: data[i].shape without the prefix indices[i].shape. */
static mf_status dynamic_partition_row_shape(const mf_shape *index, const mf_shape *data,
                                             mf_shape *out)
{
    MF_TRY(dynamic_partition_check_prefix(data, index));
    *out = MF_SHAPE_UNKNOWN;
    if (data->rank < 0 || index->rank < 0)
        return MF_OK;
    out->rank = data->rank - index->rank;
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = data->dims[index->rank + d];
    return MF_OK;
}

static mf_status merge_rows(mf_shape *all, const mf_shape *one, int i)
{
    char ta[MF_SHAPE_TEXT], to[MF_SHAPE_TEXT];

    if (!mf_shape_compatible(all, one))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Need data[0].shape[1:] = data[%d].shape[1:], got rows of shape %s and %s",
                       i, mf_shape_text(all, ta), mf_shape_text(one, to));
    return mf_shape_merge(all, one, all);
}

static mf_status stitch_infer(mf_infer *in)
{
    const int n = in->n_in / 2;
    mf_shape row = MF_SHAPE_UNKNOWN, one;
    int64_t rows = 0;

    for (int i = 0; i < n; i++) {
        const mf_tensor *index = in->in_value[i];

        MF_TRY(dynamic_partition_row_shape(&in->in[i], &in->in[n + i], &one));
        MF_TRY(merge_rows(&row, &one, i));
        for (int64_t j = 0; index && rows >= 0 && j < index->count; j++) {
            const int64_t v = mf_index_at(index, j);

            rows = v >= rows ? v + 1 : rows;
        }
        if (!index)
            rows = MF_UNKNOWN_DIM;
    }
    if (row.rank < 0)
        return MF_OK;
    MF_TRY(mf_rank_check(row.rank + 1));
    in->out[0] = MF_SHAPE(rows);
    for (int d = 0; d < row.rank; d++)
        in->out[0].dims[in->out[0].rank++] = row.dims[d];
    return MF_OK;
}

static mf_status stitch_shape(mf_kernel *k, int n, mf_shape *row, int64_t *rows)
{
    mf_shape one;

    *row = MF_SHAPE_UNKNOWN;
    *rows = 0;
    for (int i = 0; i < n; i++) {
        const int32_t *v = k->in[i]->data;

        MF_TRY(dynamic_partition_row_shape(&k->in[i]->shape, &k->in[n + i]->shape, &one));
        MF_TRY(merge_rows(row, &one, i));
        for (int64_t j = 0; j < k->in[i]->count; j++) {
            if (v[j] < 0)
                return MF_FAIL(MF_INVALID_ARGUMENT, "indices[%d][%" PRId64 "] = %d is out of range",
                               i, j, v[j]);
            *rows = v[j] >= *rows ? (int64_t)v[j] + 1 : *rows;
        }
    }
    return mf_rank_check(row->rank + 1);
}

/* Later rows win; rows without an index are zero. */
static mf_status stitch_run(mf_kernel *k)
{
    const int n = k->n_in / 2;
    int64_t rows, size;
    mf_shape row, shape;
    mf_tensor *out;

    MF_TRY(stitch_shape(k, n, &row, &rows));
    shape = MF_SHAPE(rows);
    for (int d = 0; d < row.rank; d++)
        shape.dims[shape.rank++] = row.dims[d];
    size = mf_shape_span(&row, 0, row.rank);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_cells_zero(out->dtype, out->data, 0, out->count);
    for (int i = 0; i < n; i++) {
        const int32_t *v = k->in[i]->data;

        for (int64_t j = 0; j < k->in[i]->count; j++)
            MF_TRY(mf_cells_copy(out->dtype, out->data, v[j] * size, k->in[n + i]->data, j * size,
                                 size));
    }
    return MF_OK;
}

static mf_status stitch_grad(mf_grad *g)
{
    const mf_output axis = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const int n = g->n_in / 2;

    for (int i = 0; i < n; i++)
        g->dx[n + i] = MF_G3("GatherV2", g->dy[0], g->x[i], axis);
    return MF_OK;
}

const mf_op mf_ops_partition[] = {
    { .name = "DynamicPartition",
      .def = "(data:T, partitions:int32) -> (outputs:num_partitions*T) "
             "{num_partitions:int>=1, T:type}",
      .infer = partition_infer,
      .grad = partition_grad,
      .run = partition_run,
      .samples = MF_SAMPLES("f32[5,2] i32[5]{1,0,1,2,0} ; num_partitions=3",
                            "f64[4] i32[4]{1,1,1,1} ; num_partitions=2",
                            "i32[2,2] i32[2,2]{0,1,1,0} ; num_partitions=2",
                            "str[3] i32[3]{0,1,0} ; num_partitions=2",
                            "f32[2,3] i32[]{1} ; num_partitions=2 !notf",
                            "f32[2] i32[2]{0,2} ; num_partitions=2 !fails",
                            "f32[2] i32[3]{0,1,0} ; num_partitions=2 !fails") },
    { .name = "DynamicStitch",
      .def = "(indices:N*int32, data:N*T) -> (merged:T) {N:int>=1, T:type}",
      .infer = stitch_infer,
      .grad = stitch_grad,
      .run = stitch_run,
      .samples = MF_SAMPLES("i32[2]{0,2} i32[1]{1} f32[2,3] f32[1,3] ; N=2",
                            "i32[]{1} i32[2,1]{0,2} f64[2] f64[2,1,2] ; N=2",
                            "i32[2]{0,0} i32[2] ; N=1", "i32[0] f32[0,2] ; N=1",
                            "i32[2]{1,0} str[2] ; N=1", "i32[1]{-1} f32[1] ; N=1 !fails",
                            "i32[1]{0} i32[1]{1} f32[1,2] f32[1] ; N=2 !fails") },
    { .name = "ParallelDynamicStitch",
      .def = "(indices:N*int32, data:N*T) -> (merged:T) {N:int>=1, T:type}",
      .infer = stitch_infer,
      .grad = stitch_grad,
      .run = stitch_run,
      .samples = MF_SAMPLES("i32[2]{0,2} i32[1]{1} f32[2,3] f32[1,3] ; N=2",
                            "i32[1]{-1} f32[1] ; N=1 !fails") },
    { 0 },
};
