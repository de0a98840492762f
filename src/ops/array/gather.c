/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - selects rows of a tensor by index, or by tuples of indices. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/array/scatter.h"
#include "ops/control/grad_util.h"

#include <string.h>

/* ---- copying rows ---- */

/* out row (a, i) = x row (a, index (a / per_batch, i)): a counts batches and outer dimensions. */
typedef struct gather_job {
    mf_dtype dtype;
    const char *x;
    char *out;
    const mf_tensor *index;
    int64_t rows, chosen; /* rows of x to select from, rows selected, per a */
    int64_t outer, total; /* values of a per batch; rows of out */
    size_t bytes; /* of a row */
    int64_t rows_per_piece;
} gather_job;

#define COPY_ROWS(BYTES)                                                                           \
    for (; at < end; at++) {                                                                       \
        const int64_t a = at / job->chosen, i = at % job->chosen;                                  \
        const int64_t from = mf_index_at(job->index, a / job->outer * job->chosen + i);            \
        char *to = job->out + (size_t)at * (BYTES);                                                \
        if (from < 0)                                                                              \
            memset(to, 0, BYTES);                                                                  \
        else                                                                                       \
            memcpy(to, job->x + (size_t)(a * job->rows + from) * (BYTES), BYTES);                  \
    }

static void gather_piece(void *ctx, int64_t piece)
{
    const gather_job *job = ctx;
    int64_t at = piece * job->rows_per_piece;
    const int64_t next = at + job->rows_per_piece, end = next < job->total ? next : job->total;

    switch (job->bytes) { /* memcpy with a constant size is inlined */
    case 4:
        COPY_ROWS(4)
        break;
    case 8:
        COPY_ROWS(8)
        break;
    default:
        COPY_ROWS(job->bytes)
        break;
    }
}

/* Strings and objects. */
static mf_status gather_cells(const gather_job *job, int64_t row)
{
    for (int64_t at = 0; at < job->total; at++) {
        const int64_t a = at / job->chosen, i = at % job->chosen;
        const int64_t from = mf_index_at(job->index, a / job->outer * job->chosen + i);

        if (from < 0)
            mf_cells_zero(job->dtype, job->out, at * row, row);
        else
            MF_TRY(mf_cells_copy(job->dtype, job->out, at * row, job->x,
                                 (a * job->rows + from) * row, row));
    }
    return MF_OK;
}

static mf_status gather_all(mf_kernel *k, gather_job *job, int64_t row)
{
    int64_t pieces;

    if (job->total == 0 || row == 0)
        return MF_OK;
    if (!mf_dtype_is_plain(job->dtype))
        return gather_cells(job, row);
    job->bytes = (size_t)row * mf_dtype_cell(job->dtype);
    job->rows_per_piece = job->bytes >= 65536 ? 1 : (int64_t)(65536 / job->bytes);
    pieces = (job->total + job->rows_per_piece - 1) / job->rows_per_piece;
    return mf_kernel_parallel(k, pieces, gather_piece, job);
}

/* ---- Gather, GatherV2 ---- */

typedef struct gather_dims {
    int axis, batch;
} gather_dims;

static mf_status gather_dims_fix(int64_t axis, int64_t batch, const mf_shape *x,
                                 const mf_shape *index, gather_dims *out)
{
    if (batch < 0)
        batch += index->rank;
    if (batch < 0 || batch > index->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT, "batch_dims %" PRId64 " is not in [0, %d]", batch,
                       index->rank);
    MF_TRY(mf_axis_read(axis, x->rank, "axis", &out->axis));
    if (batch > out->axis)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "batch_dims (%" PRId64 ") must be less than or equal to axis (%d).", batch,
                       out->axis);
    out->batch = (int)batch;
    return MF_OK;
}

static mf_status gather_result(const mf_shape *x, const mf_shape *index, const gather_dims *g,
                               mf_shape *out)
{
    const int rank = x->rank - 1 + index->rank - g->batch;

    MF_TRY(mf_rank_check(rank));
    *out = (mf_shape){ .rank = 0 };
    for (int d = 0; d < g->batch; d++) {
        if (x->dims[d] >= 0 && index->dims[d] >= 0 && x->dims[d] != index->dims[d])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "params.shape[%d]: %" PRId64 " should be equal to indices.shape[%d]: "
                           "%" PRId64,
                           d, x->dims[d], d, index->dims[d]);
    }
    for (int d = 0; d < g->axis; d++) /* a batch dimension may be known in either input */
        out->dims[out->rank++] = d < g->batch && x->dims[d] < 0 ? index->dims[d] : x->dims[d];
    for (int d = g->batch; d < index->rank; d++)
        out->dims[out->rank++] = index->dims[d];
    for (int d = g->axis + 1; d < x->rank; d++)
        out->dims[out->rank++] = x->dims[d];
    return MF_OK;
}

static mf_status gather_gather_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0], *index = &in->in[1];
    int64_t axis = 0;
    gather_dims g;

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    if (x->rank < 0 || index->rank < 0 || (in->n_in > 2 && !mf_infer_int_input(in, 2, &axis)))
        return MF_OK;
    MF_TRY(gather_dims_fix(axis, mf_node_int(in->node, "batch_dims"), x, index, &g));
    return gather_result(x, index, &g, &in->out[0]);
}

static mf_status gather_gather_prepare(mf_prepare *p)
{
    int64_t *batch = MF_ARENA_NEW(p->arena, int64_t);

    if (!batch)
        return MF_NOMEM("a kernel");
    *batch = mf_node_int(p->node, "batch_dims"); /* Gather has none: 0 */
    p->state = batch;
    return MF_OK;
}

static mf_status gather_gather_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *index = k->in[1];
    int64_t axis = 0, row;
    gather_job job = { .dtype = x->dtype, .x = x->data, .index = index };
    gather_dims g;
    mf_shape shape;
    mf_tensor *out;

    if (k->n_in > 2)
        MF_TRY(mf_int_read(k->in[2], "axis", &axis));
    if (x->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "params must be at least 1 dimensional");
    MF_TRY(gather_dims_fix(axis, *(const int64_t *)k->state, &x->shape, &index->shape, &g));
    MF_TRY(gather_result(&x->shape, &index->shape, &g, &shape));
    MF_TRY(mf_indices_check(index, x->shape.dims[g.axis]));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    row = mf_shape_span(&x->shape, g.axis + 1, x->shape.rank);
    job.out = out->data;
    job.rows = x->shape.dims[g.axis];
    job.chosen = mf_shape_span(&index->shape, g.batch, index->shape.rank);
    job.outer = mf_shape_span(&x->shape, g.batch, g.axis);
    job.total = row > 0 ? out->count / row : 0;
    return gather_all(k, &job, row);
}

/* TensorFlow returns IndexedSlices here; this gradient is dense: the rows of dy summed into zeros
 * of the shape of params. */
static mf_status first_axis_grad(mf_grad *g, mf_output index)
{
    const mf_output shape = MF_G1("Shape", g->x[0]);
    const mf_output zero = mf_ints(g->graph, (int64_t[]){ 0 }, 1);
    const mf_output one = mf_ints(g->graph, (int64_t[]){ 1 }, 1);
    const mf_output rows =
        mf_applyf(g->graph, "StridedSlice", MF_IN(shape, zero, one, one), "shrink_axis_mask=1");

    g->dx[0] = MF_G2("Reshape", MF_G3("UnsortedSegmentSum", g->dy[0], index, rows), shape);
    return MF_OK;
}

/* The product of elements [from, to) of the vector `shape`, as a vector of one. */
static mf_output span(mf_grad *g, mf_output shape, mf_output from, mf_output to)
{
    const mf_output zero = mf_ints(g->graph, (int64_t[]){ 0 }, 1);
    const mf_output size = MF_G2("Sub", to, from);

    return mf_applyf(g->graph, "Prod", MF_IN(MF_G3("Slice", shape, from, size), zero),
                     "keep_dims=true");
}

static mf_output vector(mf_grad *g, mf_output a, mf_output b, mf_output c, mf_output d)
{
    const mf_output axis = mf_scalar(g->graph, MF_DTYPE_I32, 0);

    return mf_apply(g->graph, "ConcatV2", MF_IN(a, b, c, d, axis));
}

/* The same along any axis. With params viewed as [batch, outer, rows, inner] and dy as [batch,
 * outer, chosen, inner]: transpose rows before outer, number them through all batches, sum, and
 * transpose back. */
static mf_status any_axis_grad(mf_grad *g, mf_output index, mf_output axis)
{
    const int64_t batch_attr = mf_node_int(g->node, "batch_dims");
    const mf_output turn = mf_ints(g->graph, (int64_t[]){ 0, 2, 1, 3 }, 4);
    const mf_output zero = mf_ints(g->graph, (int64_t[]){ 0 }, 1);
    const mf_output one = mf_ints(g->graph, (int64_t[]){ 1 }, 1);
    const mf_output scalar = mf_ints(g->graph, NULL, 0);
    const mf_output zero_scalar = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one_scalar = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output shape = MF_G1("Shape", g->x[0]);
    const mf_output rank = MF_G2("Reshape", MF_G1("Rank", g->x[0]), one);
    const mf_output at = MF_G2("Reshape", MF_G2("FloorMod", axis, rank), one);
    const mf_output after = MF_G2("AddV2", at, one);
    mf_output batch_dims = mf_ints(g->graph, &batch_attr, 1);
    mf_output batch, outer, rows, inner, chosen, ids, first, total, dy, sums;

    if (batch_attr < 0)
        batch_dims = MF_G2("AddV2", batch_dims, MF_G1("Rank", g->x[1]));
    batch = span(g, shape, zero, batch_dims);
    outer = span(g, shape, batch_dims, at);
    rows = span(g, shape, at, after);
    inner = span(g, shape, after, rank);
    chosen =
        span(g, MF_G1("Shape", g->x[1]), batch_dims, MF_G2("Reshape", MF_G1("Rank", g->x[1]), one));
    dy = MF_G2("Reshape", g->dy[0], vector(g, batch, outer, chosen, inner));
    dy = MF_G2("Transpose", dy, turn);
    total = MF_G2("Mul", batch, rows);
    first = MF_G3("Range", zero_scalar, MF_G2("Reshape", batch, scalar), one_scalar);
    first = MF_G2("Reshape", MF_G2("Mul", first, rows), mf_ints(g->graph, (int64_t[]){ -1, 1 }, 2));
    if (mf_grad_type(index) != MF_DTYPE_I32)
        first = mf_applyf(g->graph, "Cast", MF_IN(first), "DstT=%s",
                          mf_dtype_name(mf_grad_type(index)));
    ids = MF_G2("Reshape", index, MF_G3("ConcatV2", batch, chosen, zero_scalar));
    ids = MF_G2("AddV2", ids, first);
    sums = MF_G3("UnsortedSegmentSum", dy, ids, MF_G2("Reshape", total, scalar));
    sums = MF_G2("Reshape", sums, vector(g, batch, rows, outer, inner));
    g->dx[0] = MF_G2("Reshape", MF_G2("Transpose", sums, turn), shape);
    return MF_OK;
}

static bool gather_is_zero(mf_output axis)
{
    const mf_attr *value = axis.node ? mf_node_attr(axis.node, "value") : NULL;

    return axis.node && strcmp(axis.node->op_name, "Const") == 0 && value &&
           value->kind == MF_ATTR_TENSOR && value->tensor->count == 1 &&
           mf_tensor_int_at(value->tensor, 0) == 0;
}

static mf_status gather_gather_grad(mf_grad *g)
{
    mf_output index = g->x[1], axis;

    if (mf_grad_type(index) == MF_DTYPE_I16)
        index = mf_applyf(g->graph, "Cast", MF_IN(index), "DstT=int32");
    if (g->n_in < 3 || (gather_is_zero(g->x[2]) && mf_node_int(g->node, "batch_dims") == 0))
        return first_axis_grad(g, index);
    axis = g->x[2];
    if (mf_grad_type(axis) != MF_DTYPE_I32)
        axis = mf_applyf(g->graph, "Cast", MF_IN(axis), "DstT=int32");
    return any_axis_grad(g, index, axis);
}

/* ---- GatherNd ---- */

static mf_status gather_gather_nd_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0], *index = &in->in[1];
    mf_shape *out = &in->out[0];
    int64_t depth;

    MF_TRY(mf_infer_rank_at_least(in, 1, 1));
    if (index->rank < 1 || x->rank < 0 || index->dims[index->rank - 1] < 0)
        return MF_OK;
    depth = index->dims[index->rank - 1];
    if (depth > x->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "indices.shape[-1] must be <= params.rank, but saw indices.shape[-1]: "
                       "%" PRId64 " and params.rank: %d",
                       depth, x->rank);
    MF_TRY(mf_rank_check(index->rank - 1 + x->rank - (int)depth));
    out->rank = 0;
    for (int d = 0; d < index->rank - 1; d++)
        out->dims[out->rank++] = index->dims[d];
    for (int d = (int)depth; d < x->rank; d++)
        out->dims[out->rank++] = x->dims[d];
    return MF_OK;
}

static mf_status gather_nd_shape(const mf_tensor *x, const mf_tensor *index, mf_shape *out)
{
    const int outer = index->shape.rank - 1;
    int64_t depth;

    if (outer < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "indices must be at least a vector");
    depth = index->shape.dims[outer];
    if (depth > x->shape.rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "index innermost dimension length must be <= params rank; saw: %" PRId64
                       " vs. %d",
                       depth, x->shape.rank);
    MF_TRY(mf_rank_check(outer + x->shape.rank - (int)depth));
    out->rank = 0;
    for (int d = 0; d < outer; d++)
        out->dims[out->rank++] = index->shape.dims[d];
    for (int d = (int)depth; d < x->shape.rank; d++)
        out->dims[out->rank++] = x->shape.dims[d];
    return MF_OK;
}

static mf_status gather_gather_nd_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *index = k->in[1];
    mf_tensor rows = { 0 }, *out;
    gather_job job = { .dtype = x->dtype, .x = x->data, .index = &rows, .outer = 1 };
    mf_bad_indices bad;
    mf_shape shape;
    mf_status st;
    int64_t row;

    MF_TRY(mf_bad_indices_read(k->node, &bad));
    MF_TRY(gather_nd_shape(x, index, &shape));
    row = mf_shape_span(&shape, index->shape.rank - 1, shape.rank);
    MF_TRY(mf_nd_rows(index, &x->shape, bad, &rows));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &out));
    job.out = out->data;
    job.chosen = job.total = rows.count;
    st = gather_all(k, &job, row);

done:
    mf_tensor_clear(&rows);
    return st;
}

static mf_status gather_gather_nd_grad(mf_grad *g)
{
    const mf_output shape = mf_applyf(g->graph, "Shape", MF_IN(g->x[0]), "out_type=%s",
                                      mf_dtype_name(mf_grad_type(g->x[1])));

    g->dx[0] = mf_applyf(g->graph, "ScatterNd", MF_IN(g->x[1], g->dy[0], shape),
                         "bad_indices_policy='%s'", mf_node_string(g->node, "bad_indices_policy"));
    return MF_OK;
}

/* Indices, the elements of a row, and batches can be split. */
static void gather_split(mf_split *s)
{
    const mf_shape *params = &s->in[0], *ids = &s->in[1];
    int64_t at = 0;
    gather_dims g;

    if (s->n_in > 2 && !s->in_value[2])
        return;
    if (s->n_in > 2)
        at = mf_tensor_int_at(s->in_value[2], 0);
    if (gather_dims_fix(at, mf_node_int(s->node, "batch_dims"), params, ids, &g) != MF_OK)
        return;
    for (int d = 0; d < params->rank; d++) {
        if (d != g.axis)
            mf_split_through(s, 0, d, d < g.axis ? d : d + ids->rank - g.batch - 1);
        if (d < g.batch)
            mf_split_in(s, 1, d, s->in_dims[0].dims[d].letter);
    }
    for (int d = g.batch; d < ids->rank; d++)
        mf_split_through(s, 1, d, g.axis + d - g.batch);
    if (g.axis == 0 && mf_dtype_is_plain(s->node->in_types[0]) &&
        s->node->in_types[0] != MF_DTYPE_BOOL)
        mf_split_rows(s, "_RowsOrZero");
}

/* Tuples, and the elements that they select, can be split. */
static void gather_nd_split(mf_split *s)
{
    const int tuples = s->in[1].rank - 1, depth = (int)s->in[1].dims[tuples];

    for (int d = 0; d < tuples; d++)
        mf_split_through(s, 1, d, d);
    for (int d = depth; d < s->in[0].rank; d++) {
        mf_split_through(s, 0, d, tuples + d - depth);
        s->letters[s->n_letters - 1].some = true; /* nothing can be selected from an empty shard */
    }
}

const mf_op mf_ops_gather[] = {
    { .name = "GatherV2",
      .rows = mf_rows_lookup,
      .def = "(params:Tparams, indices:Tindices, axis:Taxis) -> (output:Tparams) "
             "{batch_dims:int=0, Tparams:type, Tindices:type in [int16,int32,int64], "
             "Taxis:type in index}",
      .infer = gather_gather_infer,
      .grad = gather_gather_grad,
      .prepare = gather_gather_prepare,
      .run = gather_gather_run,
      .split = gather_split,
      .samples = MF_SAMPLES(
          "f32[5,3] i32[4]{1,4,0,1} i32[]{0}", "f64[2,3,4] i64[2,2]{0,2,1,2} i32[]{1}",
          "f32[2,3] i32[]{2} i64[]{-1}", "f32[2,3,4] i32[2,2]{0,2,1,2} i32[]{1} ; batch_dims=1",
          "f32[2,2,3] i32[2,2]{0,2,1,2} i32[]{2} ; batch_dims=1",
          "f32[2,2,3] i32[2,2,1]{0,2,1,2} i32[]{2} ; batch_dims=-1", "f32[4] i32[0] i32[]{0}",
          "str[3] i32[2]{2,0} i32[]{0}", "i8[3,2] i16[3]{2,0,1} i32[]{0}",
          "c128[3,2] i32[2]{2,0} i32[]{0}", "f32[0,2] i32[0] i32[]{0}",
          "f32[5,3] i32[2]{1,5} i32[]{0} !fails", "f32[5,3] i32[2]{-1,2} i32[]{0} !fails",
          "f32[5] i32[1]{0} i32[]{1} !fails",
          "f32[2,3] i32[3,1]{0,0,0} i32[]{1} ; batch_dims=1 !fails") },
    { .name = "Gather",
      .def = "(params:Tparams, indices:Tindices) -> (output:Tparams) "
             "{validate_indices:bool=true, Tparams:type, Tindices:type in index}",
      .infer = gather_gather_infer,
      .grad = gather_gather_grad,
      .prepare = gather_gather_prepare,
      .run = gather_gather_run,
      .split = gather_split,
      .samples = MF_SAMPLES("f32[5,3] i32[4]{1,4,0,1}", "f64[4] i64[2,2]{0,2,1,2}",
                            "f32[3] i32[1]{3} !fails") },
    { .name = "GatherNd",
      .def = "(params:Tparams, indices:Tindices) -> (output:Tparams) {Tparams:type, "
             "Tindices:type in [int16,int32,int64], bad_indices_policy:string=''}",
      .infer = gather_gather_nd_infer,
      .grad = gather_gather_nd_grad,
      .run = gather_gather_nd_run,
      .split = gather_nd_split,
      .samples = MF_SAMPLES(
          "f32[3,4] i32[2,2]{0,1,2,3}", "f32[4,5] i32[3,2,1]{0,3,1,2,2,0}",
          "f64[3,4,2] i64[2,1]{2,0}", "f32[3,4] i32[2,0] !nograd", "str[3] i32[2,1]{2,0}",
          "f32[3] i32[0,1]", "f32[2,2] i32[2]{1,0} !nograd",
          "f32[3] i32[2,1]{5,1} ; bad_indices_policy='IGNORE'", "f32[3,4] i32[1,2]{0,4} !fails",
          "f32[3] i32[1,2]{0,0} !fails", "f32[3] i32[]{0} !fails") },
    { 0 },
};
