/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_segment.c - SparseSegmentSum, Mean and SqrtN: combines selected rows of the data by sorted
 * ids. The core of embedding lookups. */
#include "ops/math/segment_util.h"

#include <math.h>

static mf_segment_norm sparse_segment_norm_of(const mf_node *node)
{
    return strstr(node->op_name, "Mean")    ? MF_NORM_MEAN
           : strstr(node->op_name, "SqrtN") ? MF_NORM_SQRT
                                            : MF_NORM_NONE;
}

static mf_status sparse_segment_sparse_infer(mf_infer *in)
{
    mf_shape *out = &in->out[0];
    int64_t n = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 1));
    MF_TRY(mf_infer_rank(in, 2, 1));
    if (in->n_in == 4) {
        MF_TRY(mf_infer_rank(in, 3, 0));
        if (mf_infer_int_input(in, 3, &n) && n < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "cannot make %lld rows", (long long)n);
    }
    *out = in->in[0];
    if (out->rank > 0)
        out->dims[0] = n;
    return MF_OK;
}

/* Shapes of data, indices and ids; the optional number of output rows in *rows (-1: not given). */
static mf_status sparse_segment_check_inputs(const mf_kernel *k, int64_t *rows)
{
    const mf_tensor *data = k->in[0], *indices = k->in[1], *ids = k->in[2];

    *rows = -1;
    if (k->n_in == 4) {
        if (k->in[3]->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the number of rows should be a scalar, not rank %d",
                           k->in[3]->shape.rank);
        *rows = mf_tensor_int_at(k->in[3], 0);
        if (*rows < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "segment ids must be >= 0, not %lld",
                           (long long)*rows);
    }
    if (data->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be at least rank 1");
    if (indices->shape.rank != 1 || ids->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "indices and segment_ids should be vectors.");
    if (indices->count != ids->count)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "segment_ids and indices should have same size. (%lld and %lld)",
                       (long long)ids->count, (long long)indices->count);
    return MF_OK;
}

static mf_status sparse_segment_check_range(const char *what, const int64_t *v, int64_t n,
                                            int64_t limit)
{
    for (int64_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] >= limit)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Bad: %s[%lld] == %lld out of range [0, %lld)",
                           what, (long long)i, (long long)v[i], (long long)limit);
    }
    return MF_OK;
}

static mf_status sparse_segment_sparse_run(mf_kernel *k)
{
    const mf_tensor *data = k->in[0];
    mf_segments s = { .data = data, .norm = sparse_segment_norm_of(k->node) };
    mf_tensor ids = { 0 }, indices = { 0 };
    mf_shape shape = data->shape;
    int64_t rows;
    mf_status st;

    MF_TRY(sparse_segment_check_inputs(k, &rows));
    MF_TRY_TO(done, mf_segment_ids(k->in[1], &indices));
    MF_TRY_TO(done, mf_segment_ids(k->in[2], &ids));
    s.to = ids.data;
    s.from = indices.data;
    s.n = ids.count;
    MF_TRY_TO(done, mf_segment_check_sorted(s.to, s.n));
    MF_TRY_TO(done, sparse_segment_check_range("indices", s.from, s.n, shape.dims[0]));
    if (s.n > 0 && (rows < 0 ? s.to[s.n - 1] == INT64_MAX : s.to[s.n - 1] >= rows)) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "segment ids must be < num_segments: %lld, %lld",
                     (long long)s.to[s.n - 1], (long long)rows);
        goto done;
    }
    shape.dims[0] = rows >= 0 ? rows : s.n > 0 ? s.to[s.n - 1] + 1 : 0;
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &s.out));
    s.inner = mf_shape_span(&shape, 1, shape.rank);
    st = mf_segments_run(k, &s);

done:
    mf_tensor_clear(&ids);
    mf_tensor_clear(&indices);
    return st;
}

/* 1 / count or 1 / sqrt(count) of the segment of each id. */
static mf_status id_scales(const int64_t *ids, int64_t n, int64_t segments, mf_segment_norm norm,
                           mf_tensor *out)
{
    mf_tensor counts = { 0 };
    int64_t *count;
    double *scale;

    MF_TRY(mf_tensor_alloc(&counts, MF_DTYPE_I64, &MF_SHAPE(segments)));
    const mf_status st = mf_tensor_alloc(out, MF_DTYPE_F64, &MF_SHAPE(n));

    if (st == MF_OK) {
        count = counts.data;
        scale = out->data;
        memset(count, 0, (size_t)segments * sizeof *count);
        for (int64_t i = 0; i < n; i++)
            count[ids[i]]++;
        for (int64_t i = 0; i < n; i++) {
            const double c = (double)count[ids[i]];

            scale[i] = 1.0 / (norm == MF_NORM_SQRT ? __builtin_sqrt(c) : c);
        }
    }
    mf_tensor_clear(&counts);
    return st;
}

/* The inverse: data row indices[i] accumulates gradient row segment_ids[i]. */
static mf_status sparse_grad_run(mf_kernel *k)
{
    const mf_segment_norm norm = sparse_segment_norm_of(k->node);
    mf_segments s = { .data = k->in[0] };
    mf_tensor ids = { 0 }, indices = { 0 }, scales = { 0 };
    mf_shape shape = k->in[0]->shape;
    mf_status st;

    MF_TRY(sparse_segment_check_inputs(k, &shape.dims[0]));
    MF_TRY_TO(done, mf_segment_ids(k->in[1], &indices));
    MF_TRY_TO(done, mf_segment_ids(k->in[2], &ids));
    s.to = indices.data;
    s.from = ids.data;
    s.n = ids.count;
    MF_TRY_TO(done, sparse_segment_check_range("indices", s.to, s.n, shape.dims[0]));
    MF_TRY_TO(done,
              sparse_segment_check_range("segment_ids", s.from, s.n, k->in[0]->shape.dims[0]));
    if (norm != MF_NORM_NONE) {
        MF_TRY_TO(done, id_scales(s.from, s.n, k->in[0]->shape.dims[0], norm, &scales));
        s.scale = scales.data;
    }
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &s.out));
    s.inner = mf_shape_span(&shape, 1, shape.rank);
    st = mf_segments_run(k, &s);

done:
    mf_tensor_clear(&ids);
    mf_tensor_clear(&indices);
    mf_tensor_clear(&scales);
    return st;
}

static mf_status sparse_segment_sparse_grad(mf_grad *g)
{
    const mf_segment_norm norm = sparse_segment_norm_of(g->node);
    const char *op = norm == MF_NORM_MEAN   ? "SparseSegmentMeanGrad"
                     : norm == MF_NORM_SQRT ? "SparseSegmentSqrtNGrad"
                                            : "SparseSegmentSumGrad";
    const mf_output zero = mf_ints(g->graph, (const int64_t[]){ 0 }, 1);
    const mf_output one = mf_ints(g->graph, (const int64_t[]){ 1 }, 1);
    const mf_output rows =
        mf_applyf(g->graph, "StridedSlice", MF_IN(MF_G1("Shape", g->x[0]), zero, one, one),
                  "shrink_axis_mask=1");

    g->dx[0] = mf_apply(g->graph, op, MF_IN(g->dy[0], g->x[1], g->x[2], rows));
    return MF_OK;
}

#define SPARSE_OP(NAME, TYPES)                                                                     \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(data:T, indices:Tidx, segment_ids:Tsegmentids) -> (output:T) {T:type in " TYPES   \
               ", Tidx:type=int32 in index, Tsegmentids:type=int32 in index, "                     \
               "sparse_gradient:bool=false}",                                                      \
        .infer = sparse_segment_sparse_infer, .grad = sparse_segment_sparse_grad,                  \
        .run = sparse_segment_sparse_run,                                                          \
        .samples = MF_SAMPLES(                                                                     \
            "f32[5,3] i32[4]{4,0,0,2} i32[4]{0,0,1,3}", "f64[4] i64[3]{1,1,3} i64[3]{1,2,2}",      \
            "f32[3,2] i32[0] i32[0] !notf", "f32[20,70] i32[9]@0:20 i32[9]{0,0,0,0,0,0,0,0,0}",    \
            "f16[4,2] i32[3]{1,1,3} i32[3]{0,0,0} !nograd",                                        \
            "f32[3] i32[2]{0,3} i32[2]{0,1} !fails", "f32[3] i32[2]{0,2} i32[2]{1,0} !fails",      \
            "f32[3] i32[2]{0,2} i32[1]{1} !fails")                                                 \
    }
#define SPARSE_OP_NUM(NAME, TYPES)                                                                 \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(data:T, indices:Tidx, segment_ids:Tsegmentids, num_segments:Tnumsegments) -> "    \
               "(output:T) {T:type in " TYPES ", Tidx:type=int32 in index, "                       \
               "Tnumsegments:type=int32 in index, Tsegmentids:type=int32 in index, "               \
               "sparse_gradient:bool=false}",                                                      \
        .infer = sparse_segment_sparse_infer, .grad = sparse_segment_sparse_grad,                  \
        .run = sparse_segment_sparse_run,                                                          \
        .samples = MF_SAMPLES("f32[5,3] i32[4]{4,0,0,2} i32[4]{0,0,1,3} i32[]{6}",                 \
                              "f64[3,2] i32[0] i32[0] i64[]{2} !notf",                             \
                              "f32[3] i32[2]{0,1} i32[2]{0,2} i32[]{2} !fails",                    \
                              "f32[3] i32[2]{0,1} i32[2]{0,2} i32[]{-2} !fails")                   \
    }
#define SPARSE_GRAD_OP(NAME)                                                                       \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(grad:T, indices:Tidx, segment_ids:Tsegmentids, output_dim0:int32) -> "            \
               "(output:T) {T:type in floats, Tidx:type=int32 in index, "                          \
               "Tsegmentids:type=int32 in index}",                                                 \
        .infer = sparse_segment_sparse_infer, .grad = mf_grad_missing, .run = sparse_grad_run,     \
        .samples = MF_SAMPLES("f32[4,3] i32[4]{4,0,0,2} i32[4]{0,0,1,3} i32[]{5}",                 \
                              "f64[3] i64[2]{1,1} i64[2]{0,2} i32[]{2}",                           \
                              "f32[2] i32[0] i32[0] i32[]{3} !notf",                               \
                              "f32[2] i32[1]{3} i32[1]{0} i32[]{3} !fails",                        \
                              "f32[2] i32[1]{0} i32[1]{2} i32[]{3} !fails")                        \
    }

const mf_op mf_ops_sparse_segment[] = {
    SPARSE_OP("SparseSegmentSum", "reals"),
    SPARSE_OP("SparseSegmentMean", "floats"),
    SPARSE_OP("SparseSegmentSqrtN", "floats"),
    SPARSE_OP_NUM("SparseSegmentSumWithNumSegments", "reals"),
    SPARSE_OP_NUM("SparseSegmentMeanWithNumSegments", "floats"),
    SPARSE_OP_NUM("SparseSegmentSqrtNWithNumSegments", "floats"),
    SPARSE_GRAD_OP("SparseSegmentSumGrad"),
    SPARSE_GRAD_OP("SparseSegmentMeanGrad"),
    SPARSE_GRAD_OP("SparseSegmentSqrtNGrad"),
    { 0 },
};
