/* SPDX-License-Identifier: Apache-2.0 */
/* ragged_dense.c - RaggedTensorToTensor: rows of different lengths in a tensor of the longest
 * length, or of given sizes. Missing elements have the default value; elements beyond the sizes are
 * dropped. */
#include "base/mem.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

#include <stdio.h>
#include <string.h>

enum { SHAPE, VALUES, DEFAULT, PARTITIONS }; /* inputs */

typedef struct ragged_job {
    int levels; /* ragged dimensions */
    bool by_rows; /* partitions give the row of each value, not where rows begin */
    const mf_tensor *const *partition; /* from the outside */
    int64_t rows; /* of the first dimension */
    int64_t inner; /* numbers of a value */
    mf_shape shape; /* of the result */
} ragged_job;

static bool is_kind(const mf_attr *kinds, int i, const char *name)
{
    return strlen(name) == kinds->strings[i].len &&
           memcmp(kinds->strings[i].data, name, strlen(name)) == 0;
}

/* FIRST_DIM_SIZE and then VALUE_ROWIDS, or ROW_SPLITS. */
static mf_status set_partitions(const mf_kernel *k, ragged_job *job)
{
    const mf_attr *kinds = mf_node_attr(k->node, "row_partition_types");
    const int n = k->n_in - PARTITIONS;

    if (!kinds || kinds->n != n)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there are %d row partitions and %d types of them", n,
                       kinds ? (int)kinds->n : 0);
    job->by_rows = is_kind(kinds, 0, "FIRST_DIM_SIZE");
    job->levels = n - job->by_rows;
    job->partition = k->in + PARTITIONS + job->by_rows;
    for (int i = job->by_rows; i < n; i++) {
        if (!is_kind(kinds, i, job->by_rows ? "VALUE_ROWIDS" : "ROW_SPLITS"))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Cannot handle row partition type %.*s at place %d",
                           (int)kinds->strings[i].len, kinds->strings[i].data, i);
        if (k->in[PARTITIONS + i]->shape.rank != 1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "row partition %d must be a vector", i);
    }
    if (job->levels < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "there is no row partition");
    if (job->by_rows)
        return mf_int_read(k->in[PARTITIONS], "the size of the first dimension", &job->rows);
    job->rows = job->partition[0]->count - 1;
    if (job->rows < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "row splits must have at least one element");
    return MF_OK;
}

/* Checks the entries of partition d, row splits or value rowids: they must not decrease. */
static mf_status check_level(const ragged_job *job, int d, int64_t rows, int64_t *longest,
                             int64_t *next_rows)
{
    const mf_tensor *p = job->partition[d];
    int64_t length = 0, last = 0;

    *longest = 0;
    if (!job->by_rows && (p->count != rows + 1 || mf_index_at(p, 0) != 0))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "row splits %d must begin with 0 and have %" PRId64
                       " elements, not %" PRId64,
                       d, rows + 1, p->count);
    for (int64_t i = job->by_rows ? 0 : 1; i < p->count; i++) {
        const int64_t at = mf_index_at(p, i);

        if (at < last || (job->by_rows && at >= rows))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid row partition %d: element %" PRId64 " is %" PRId64
                           " after %" PRId64,
                           d, i, at, last);
        length = job->by_rows ? (at == last ? length + 1 : 1) : at - last;
        *longest = length > *longest ? length : *longest;
        last = at;
    }
    *next_rows = job->by_rows ? p->count : last;
    return MF_OK;
}

/* The sizes of the result: as given, or of the longest row. */
static mf_status set_shape(const mf_kernel *k, ragged_job *job)
{
    const mf_tensor *given = k->in[SHAPE], *values = k->in[VALUES];
    const int rank = job->levels + values->shape.rank;
    int64_t rows = job->rows, longest;
    char text[MF_SHAPE_TEXT];

    MF_TRY(mf_rank_check(rank));
    if (given->shape.rank > 1 || (given->shape.rank == 1 && given->count != rank) ||
        (given->shape.rank == 0 && mf_index_at(given, 0) != -1))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "rt_input.shape and shape are incompatible: %d dimensions, a shape of %s",
                       rank, mf_shape_text(&given->shape, text));
    job->shape.rank = rank;
    job->shape.dims[0] = job->rows;
    for (int d = 0; d < job->levels; d++) {
        MF_TRY(check_level(job, d, rows, &longest, &rows));
        job->shape.dims[d + 1] = longest;
    }
    if (rows > values->shape.dims[0] || (job->by_rows && rows != values->shape.dims[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "row partitions have %" PRId64 " values, and there are %" PRId64, rows,
                       values->shape.dims[0]);
    for (int d = 1; d < values->shape.rank; d++)
        job->shape.dims[job->levels + d] = values->shape.dims[d];
    for (int d = 0; d < rank && given->shape.rank == 1; d++) {
        const int64_t size = mf_index_at(given, d);

        if (size < -1)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Dimension %" PRId64 " must be >= -1", size);
        if (size >= 0 && d > job->levels && size != job->shape.dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "rt_input.shape and shape are incompatible: dimension %d is %" PRId64
                           ", not %" PRId64,
                           d, job->shape.dims[d], size);
        job->shape.dims[d] = size >= 0 ? size : job->shape.dims[d];
    }
    job->inner = mf_shape_span(&values->shape, 1, values->shape.rank);
    return MF_OK;
}

/* Copies entries from..to of partition d into row `at` of the result, where rows are counted over
 * the dimensions up to d. */
static mf_status ragged_dense_copy_row(const mf_kernel *k, const ragged_job *job, int d,
                                       int64_t from, int64_t to, int64_t at, mf_tensor *out)
{
    const int64_t size = job->shape.dims[d + 1];

    for (int64_t i = from; i < to && i - from < size; i++) {
        const int64_t place = at * size + i - from;
        const mf_tensor *p = d + 1 < job->levels ? job->partition[d + 1] : NULL;

        if (!p)
            MF_TRY(mf_cells_copy(out->dtype, out->data, place * job->inner, k->in[VALUES]->data,
                                 i * job->inner, job->inner));
        else
            MF_TRY(ragged_dense_copy_row(k, job, d + 1, mf_index_at(p, i), mf_index_at(p, i + 1),
                                         place, out));
    }
    return MF_OK;
}

/* Converts the rowids of each value to row splits. Owns: tensors in `splits`. */
static mf_status make_splits(const ragged_job *job, mf_tensor *splits)
{
    int64_t rows = job->rows;

    for (int d = 0; d < job->levels; d++) {
        const mf_tensor *p = job->partition[d];
        int64_t *ends;

        MF_TRY(mf_tensor_alloc(&splits[d], MF_DTYPE_I64, &MF_SHAPE(rows + 1)));
        ends = splits[d].data;
        memset(ends, 0, (size_t)(rows + 1) * sizeof *ends);
        for (int64_t i = 0; i < p->count; i++)
            ends[mf_index_at(p, i) + 1]++;
        for (int64_t r = 0; r < rows; r++)
            ends[r + 1] += ends[r];
        rows = p->count;
    }
    return MF_OK;
}

static mf_status fill_default(const mf_kernel *k, const ragged_job *job, mf_tensor *out)
{
    const mf_tensor *value = k->in[DEFAULT];
    const mf_shape inner = { .rank = k->in[VALUES]->shape.rank - 1 };
    mf_shape want = inner, both;
    char text[MF_SHAPE_TEXT];

    for (int d = 0; d < want.rank; d++)
        want.dims[d] = k->in[VALUES]->shape.dims[d + 1];
    if (value->shape.rank > want.rank || mf_shape_broadcast(&value->shape, &want, &both) != MF_OK ||
        !mf_shape_equal(&both, &want))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "default_value.shape=%s and the values' do not fit: it must broadcast to a "
                       "value",
                       mf_shape_text(&value->shape, text));
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i % (job->inner > 0 ? job->inner : 1), at = 0, step = 1;

        for (int d = want.rank - 1, v = value->shape.rank - 1; v >= 0; d--, v--) {
            at += value->shape.dims[v] == 1 ? 0 : rest % want.dims[d] * step;
            rest /= want.dims[d];
            step *= value->shape.dims[v];
        }
        MF_TRY(mf_cells_copy(out->dtype, out->data, i, value->data, at, 1));
    }
    return MF_OK;
}

static mf_status ragged_dense_ragged_run(mf_kernel *k)
{
    mf_tensor splits[MF_MAX_RANK] = { { 0 } }, *out;
    const mf_tensor *made[MF_MAX_RANK];
    ragged_job job = { .levels = 0 };
    mf_status st;

    MF_TRY(set_partitions(k, &job));
    if (k->in[VALUES]->shape.rank < 1 || job.levels >= MF_MAX_RANK || job.rows < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "values must be at least a vector, in at most %d ragged "
                       "dimensions of at least 0 rows",
                       MF_MAX_RANK - 1);
    MF_TRY(set_shape(k, &job));
    MF_TRY(mf_kernel_out(k, 0, &job.shape, &out));
    MF_TRY_TO(done, fill_default(k, &job, out));
    if (job.by_rows) {
        MF_TRY_TO(done, make_splits(&job, splits));
        for (int d = 0; d < job.levels; d++)
            made[d] = &splits[d];
        job.partition = made;
    }
    for (int64_t r = 0; r < job.rows && r < job.shape.dims[0]; r++)
        MF_TRY_TO(done, ragged_dense_copy_row(k, &job, 0, mf_index_at(job.partition[0], r),
                                              mf_index_at(job.partition[0], r + 1), r, out));
done:
    for (int d = 0; d < MF_MAX_RANK; d++)
        mf_tensor_clear(&splits[d]);
    return st;
}

static mf_status ragged_dense_ragged_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, VALUES, 1));
    return MF_OK;
}

/* Converting the numbers of the values the same way gives their destinations. */
static mf_status ragged_dense_ragged_grad(mf_grad *g)
{
    const mf_output values = g->x[VALUES], zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1), dy = g->dy[0];
    const mf_attr *kinds = mf_node_attr(g->node, "row_partition_types");
    const int n = g->n_in - PARTITIONS, levels = n - is_kind(kinds, 0, "FIRST_DIM_SIZE");
    const mf_output shape = MF_G1("Shape", values);
    const mf_output count = mf_applyf(g->graph, "StridedSlice",
                                      MF_IN(shape, mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                                            mf_ints(g->graph, (const int64_t[]){ 1 }, 1),
                                            mf_ints(g->graph, (const int64_t[]){ 1 }, 1)),
                                      "shrink_axis_mask=1");
    const mf_output outer =
        mf_apply(g->graph, "StridedSlice",
                 MF_IN(MF_G1("Shape", dy), mf_ints(g->graph, (const int64_t[]){ 0 }, 1),
                       mf_ints(g->graph, (const int64_t[]){ levels + 1 }, 1),
                       mf_ints(g->graph, (const int64_t[]){ 1 }, 1)));
    mf_output in[2 * MF_MAX_RANK + 4] = { outer, MF_G3("Range", zero, count, one),
                                          mf_scalar(g->graph, MF_DTYPE_I32, -1) };
    mf_output places, there, elsewhere, dx, rest, axes;
    char names[(2 * MF_MAX_RANK + 1) * sizeof "'FIRST_DIM_SIZE',"];
    int used = 0;

    if (n > 2 * MF_MAX_RANK)
        return mf_grad_missing(g);
    for (int i = 0; i < n; i++) {
        in[PARTITIONS + i] = g->x[PARTITIONS + i];
        used += snprintf(names + used, sizeof names - (size_t)used, "%s'%s'", i ? "," : "",
                         i < n - levels    ? "FIRST_DIM_SIZE"
                         : n - levels == 1 ? "VALUE_ROWIDS"
                                           : "ROW_SPLITS");
    }
    in[PARTITIONS + n] = (mf_output)MF_END;
    places = mf_applyf(g->graph, "RaggedTensorToTensor", in, "row_partition_types=[%s]", names);
    there = MF_G1("Where", MF_G2("GreaterEqual", places, zero));
    elsewhere = MF_G1("Where", MF_G2("Less", places, zero));
    dx = MF_G3("ScatterNd", MF_G2("ExpandDims", MF_G2("GatherNd", places, there), one),
               MF_G2("GatherNd", dy, there), shape);
    rest = MF_G2("GatherNd", dy, elsewhere);
    axes = MF_G2("BroadcastGradientArgs", MF_G1("Shape", g->x[DEFAULT]), MF_G1("Shape", rest));
    g->dx[VALUES] = dx;
    g->dx[DEFAULT] = MF_G2("Reshape", MF_G2("Sum", rest, axes), MF_G1("Shape", g->x[DEFAULT]));
    return MF_OK;
}

#define SPLITS " ; row_partition_types=['ROW_SPLITS']"
#define ROWS " ; row_partition_types=['FIRST_DIM_SIZE','VALUE_ROWIDS']"

const mf_op mf_op_ragged_to_tensor = {
    .name = "RaggedTensorToTensor",
    .def = "(shape:Tshape, values:T, default_value:T, "
           "row_partition_tensors:num_row_partition_tensors*Tindex) -> (result:T) {T:type, "
           "Tindex:type in index, Tshape:type in index, num_row_partition_tensors:int>=1, "
           "row_partition_types:list(string)}",
    .infer = ragged_dense_ragged_infer,
    .grad = ragged_dense_ragged_grad,
    .run = ragged_dense_ragged_run,
    .samples = MF_SAMPLES("i64[]{-1} f32[5] f32[] i64[4]{0,2,2,5}" SPLITS,
                          "i64[2]{-1,2} f64[5] f64[] i64[4]{0,2,2,5}" SPLITS,
                          "i32[2]{5,-1} f64[5] f64[] i64[]{4} i64[5]{0,0,2,2,2}" ROWS,
                          "i64[3]{-1,-1,2} f64[3,2] f64[2] i32[3]{0,2,3}" SPLITS,
                          "i64[]{-1} str[4] str[] i64[3]{0,2,3} "
                          "i64[4]{0,1,1,4} ; row_partition_types=['ROW_SPLITS','ROW_SPLITS']",
                          "i64[]{-1} i32[4] i32[] i64[]{3} i64[3]{0,2,2} i64[4]{0,1,2,2} ; "
                          "row_partition_types=['FIRST_DIM_SIZE','VALUE_ROWIDS','VALUE_ROWIDS']",
                          "i64[]{-1} f32[0] f32[] i64[1]{0}" SPLITS,
                          "i64[2]{2,1} f64[5] f64[] i64[4]{0,2,2,5}" SPLITS,
                          "i64[3]{-1,-1,3} f32[3,2] f32[2] i64[3]{0,2,3}" SPLITS " !fails",
                          "i64[]{-1} f32[3] f32[1] i64[3]{0,2,3}" SPLITS " !fails",
                          "i64[]{-1} f32[3] f32[] i64[4]{0,2,1,3}" SPLITS " !fails",
                          "i64[1]{2} f32[3] f32[] i64[3]{0,2,3}" SPLITS " !fails"),
};
