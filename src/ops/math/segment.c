/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - SegmentSum and similar ops: combines rows with the same id. */
#include "graph/split.h"
#include "ops/math/segment_util.h"

#include <string.h>

/* ---- sorted ids: as many output rows as the last id says ---- */

static mf_status sorted_infer(mf_infer *in)
{
    mf_shape *out = &in->out[0];

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    MF_TRY(mf_infer_rank(in, 1, 1));
    *out = in->in[0];
    if (out->rank > 0)
        out->dims[0] = MF_UNKNOWN_DIM;
    return MF_OK;
}

static mf_status sorted_run(mf_kernel *k, mf_segments s)
{
    const mf_tensor *data = k->in[0];
    mf_shape shape = data->shape;
    mf_tensor ids = { 0 };
    mf_status st;

    if (k->in[1]->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "segment_ids should be a vector.");
    if (shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be at least rank 1");
    if (k->in[1]->count != shape.dims[0])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "segment_ids should be the same size as dimension 0 of input.");
    MF_TRY_TO(done, mf_segment_ids(k->in[1], &ids));
    s.to = ids.data;
    s.n = ids.count;
    MF_TRY_TO(done, mf_segment_check_sorted(s.to, s.n));
    if (s.n > 0 && s.to[s.n - 1] == INT64_MAX) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "segment id %lld is too large", (long long)INT64_MAX);
        goto done;
    }
    shape.dims[0] = s.n > 0 ? s.to[s.n - 1] + 1 : 0;
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &s.out));
    s.data = data;
    s.inner = mf_shape_span(&shape, 1, shape.rank);
    st = mf_segments_run(k, &s);

done:
    mf_tensor_clear(&ids);
    return st;
}

static mf_status segment_sum_run(mf_kernel *k)
{
    return sorted_run(k, (mf_segments){ .op = MF_SEGMENT_SUM });
}
static mf_status mean_run(mf_kernel *k)
{
    return sorted_run(k, (mf_segments){ .op = MF_SEGMENT_SUM, .norm = MF_NORM_MEAN });
}
static mf_status segment_prod_run(mf_kernel *k)
{
    return sorted_run(k, (mf_segments){ .op = MF_SEGMENT_PROD });
}
static mf_status segment_max_run(mf_kernel *k)
{
    return sorted_run(k, (mf_segments){ .op = MF_SEGMENT_MAX, .gaps_are_zero = true });
}
static mf_status segment_min_run(mf_kernel *k)
{
    return sorted_run(k, (mf_segments){ .op = MF_SEGMENT_MIN, .gaps_are_zero = true });
}

/* ---- unsorted ids: any order, negative ones are dropped, the number of rows is given ---- */

static mf_status segment_check_prefix(const mf_shape *data, const mf_shape *ids)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    mf_shape start = *data;

    if (data->rank < 0 || ids->rank < 0)
        return MF_OK;
    start.rank = ids->rank < data->rank ? ids->rank : data->rank;
    if (data->rank >= ids->rank && mf_shape_compatible(&start, ids))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "data.shape = %s does not start with segment_ids.shape = %s",
                   mf_shape_text(data, a), mf_shape_text(ids, b));
}

static mf_status unsorted_infer(mf_infer *in)
{
    const mf_shape *data = &in->in[0], *ids = &in->in[1];
    mf_shape *out = &in->out[0];
    int64_t n = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 2, 0));
    MF_TRY(segment_check_prefix(data, ids));
    if (mf_infer_int_input(in, 2, &n) && n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input num_segments == %lld must not be negative.",
                       (long long)n);
    if (data->rank < 0 || ids->rank < 0 || data->rank - ids->rank + 1 > MF_MAX_RANK)
        return MF_OK;
    out->rank = 1 + data->rank - ids->rank;
    out->dims[0] = n;
    for (int d = 1; d < out->rank; d++)
        out->dims[d] = data->dims[ids->rank + d - 1];
    return MF_OK;
}

/* Fails: INVALID_ARGUMENT naming the position of an id without a row. */
static mf_status check_ids(const mf_tensor *ids, const mf_shape *shape, int64_t n)
{
    const int64_t *id = ids->data;
    mf_buf place = { 0 };
    mf_status st;

    for (int64_t i = 0; i < ids->count; i++) {
        if (id[i] < n)
            continue;
        for (int d = 0; d < shape->rank; d++)
            mf_buf_printf(
                &place, "%s%lld", d ? "," : "",
                (long long)(i / mf_shape_span(shape, d + 1, shape->rank) % shape->dims[d]));
        st = MF_FAIL(MF_INVALID_ARGUMENT, "segment_ids[%s] = %lld is out of range [0, %lld)",
                     place.data ? place.data : "", (long long)id[i], (long long)n);
        mf_buf_deinit(&place);
        return st;
    }
    return MF_OK;
}

static mf_status unsorted_run(mf_kernel *k, mf_segment_op op)
{
    const mf_tensor *data = k->in[0], *rows = k->in[2];
    mf_segments s = { .op = op, .data = data };
    mf_tensor ids = { 0 };
    mf_shape shape = MF_SHAPE(0);
    char text[MF_SHAPE_TEXT];
    mf_status st;

    if (rows->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_segments should be a scalar, not shape %s",
                       mf_shape_text(&rows->shape, text));
    MF_TRY(segment_check_prefix(&data->shape, &k->in[1]->shape));
    shape.dims[0] = mf_tensor_int_at(rows, 0);
    if (shape.dims[0] < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input num_segments == %lld must not be negative.",
                       (long long)shape.dims[0]);
    for (int d = k->in[1]->shape.rank; d < data->shape.rank; d++) {
        if (shape.rank == MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "the output would have rank %d", MF_MAX_RANK + 1);
        shape.dims[shape.rank++] = data->shape.dims[d];
    }
    MF_TRY_TO(done, mf_segment_ids(k->in[1], &ids));
    MF_TRY_TO(done, check_ids(&ids, &k->in[1]->shape, shape.dims[0]));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &shape, &s.out));
    s.to = ids.data;
    s.n = ids.count;
    s.inner = mf_shape_span(&shape, 1, shape.rank);
    st = mf_segments_run(k, &s);

done:
    mf_tensor_clear(&ids);
    return st;
}

static mf_status unsorted_sum_run(mf_kernel *k)
{
    return unsorted_run(k, MF_SEGMENT_SUM);
}
static mf_status unsorted_prod_run(mf_kernel *k)
{
    return unsorted_run(k, MF_SEGMENT_PROD);
}
static mf_status unsorted_max_run(mf_kernel *k)
{
    return unsorted_run(k, MF_SEGMENT_MAX);
}
static mf_status unsorted_min_run(mf_kernel *k)
{
    return unsorted_run(k, MF_SEGMENT_MIN);
}

/* ---- gradients. A sorted op is the unsorted one without negative ids. ---- */

static bool is_unsorted(const mf_grad *g)
{
    return g->n_in == 3;
}

static mf_output segment_gather_rows(mf_grad *g, mf_output rows, mf_output ids)
{
    return MF_G3("GatherV2", rows, ids, mf_scalar(g->graph, MF_DTYPE_I32, 0));
}

/* [ids' shape, 1, 1...] with the rank of `like`, to broadcast to it. */
static mf_output column_of(mf_grad *g, mf_output x, mf_output like)
{
    const mf_output zero = mf_scalar(g->graph, MF_DTYPE_I32, 0);
    const mf_output one = mf_scalar(g->graph, MF_DTYPE_I32, 1);
    const mf_output missing = MF_G2("Sub", MF_G1("Rank", like), MF_G1("Rank", x));
    const mf_output ones = MF_G2("Fill", MF_G2("ExpandDims", missing, zero), one);

    return MF_G2("Reshape", x, MF_G3("ConcatV2", MF_G1("Shape", x), ones, zero));
}

typedef struct rows_grad {
    mf_output ids; /* not negative */
    mf_output positive; /* broadcasts to the data; empty if all are positive */
} rows_grad;

static rows_grad segment_rows_of(mf_grad *g)
{
    const mf_output ids = g->x[1];
    rows_grad r = { .ids = ids };

    if (is_unsorted(g)) {
        const mf_output zero = mf_grad_scalar(g, ids, 0);

        r.ids = MF_G2("Maximum", ids, zero);
        r.positive = column_of(g, MF_G2("GreaterEqual", ids, zero), g->x[0]);
    }
    return r;
}

/* Row ids[i] for each i; zeros if the id is negative. */
static mf_output segment_gather(mf_grad *g, rows_grad r, mf_output rows)
{
    const mf_output x = segment_gather_rows(g, rows, r.ids);

    return r.positive.node ? MF_G3("SelectV2", r.positive, x, MF_G1("ZerosLike", x)) : x;
}

static mf_output segments(mf_grad *g, const char *sorted, const char *unsorted, mf_output x)
{
    return is_unsorted(g) ? MF_G3(unsorted, x, g->x[1], g->x[2]) : MF_G2(sorted, x, g->x[1]);
}

static mf_status segment_sum_grad(mf_grad *g)
{
    g->dx[0] = segment_gather(g, segment_rows_of(g), g->dy[0]);
    return MF_OK;
}

static mf_status segment_mean_grad(mf_grad *g)
{
    const mf_output one = mf_grad_scalar(g, g->dy[0], 1);
    const mf_output ones = MF_G2("Fill", MF_G1("Shape", g->x[1]), one);
    const mf_output count = MF_G2("SegmentSum", column_of(g, ones, g->x[0]), g->x[1]);

    g->dx[0] = segment_gather_rows(g, MF_G2("RealDiv", g->dy[0], count), g->x[1]);
    return MF_OK;
}

/* Divided equally among all elements that are the extreme of their segment. */
static mf_status segment_extreme_grad(mf_grad *g)
{
    const rows_grad r = segment_rows_of(g);
    mf_output chosen = MF_G2("Equal", g->x[0], segment_gather(g, r, g->y[0])), count, dx;

    if (r.positive.node)
        chosen = MF_G2("LogicalAnd", chosen, r.positive);
    count = mf_applyf(g->graph, "Cast", MF_IN(chosen), "DstT=%s",
                      mf_dtype_name(mf_grad_type(g->dy[0])));
    count = segments(g, "SegmentSum", "UnsortedSegmentSum", count);
    dx = segment_gather(g, r, MF_G2("RealDiv", g->dy[0], count));
    g->dx[0] = MF_G3("SelectV2", chosen, dx, MF_G1("ZerosLike", dx));
    return MF_OK;
}

/* The product of the other elements: y / x without a zero; with exactly one zero, the product of
 * the rest, for that element alone; with more, zero. */
static mf_status prod_grad(mf_grad *g)
{
    const rows_grad r = segment_rows_of(g);
    const mf_output x = g->x[0], zero = MF_G2("Equal", x, mf_grad_scalar(g, x, 0));
    const mf_output zero_int = mf_applyf(g->graph, "Cast", MF_IN(zero), "DstT=int32");
    const mf_output zeros = segments(g, "SegmentSum", "UnsortedSegmentSum", zero_int);
    const mf_output many = MF_G2("Greater", zeros, mf_scalar(g->graph, MF_DTYPE_I32, 1));
    const mf_output dy = MF_G3("SelectV2", many, MF_G1("ZerosLike", g->dy[0]), g->dy[0]);
    const mf_output safe = MF_G3("SelectV2", zero, MF_G1("OnesLike", x), x);
    const mf_output rest = segments(g, "SegmentProd", "UnsortedSegmentProd", safe);
    const mf_output others = MF_G3("SelectV2", zero, segment_gather_rows(g, rest, r.ids),
                                   MF_G2("RealDiv", segment_gather_rows(g, g->y[0], r.ids), safe));

    g->dx[0] = MF_G2("Mul", segment_gather(g, r, dy), others);
    return MF_OK;
}

#define SORTED_OP(NAME, TYPES, GRAD, RUN, ...)                                                     \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(data:T, segment_ids:Tindices) -> (output:T) {T:type in " TYPES                    \
               ", Tindices:type in index}",                                                        \
        .infer = sorted_infer, .grad = GRAD, .run = RUN,                                           \
        .samples =                                                                                 \
            MF_SAMPLES("f32[5,3] i32[5]{0,0,1,3,3}", "f64[4] i64[4]{1,1,1,2}", "f32[0,3] i32[0]",  \
                       "i32[3,2]@1:9 i32[3]{0,0,2}", "f16[4,2] i32[4]{0,0,0,1} !nograd",           \
                       "f32[3] i32[3]{0,2,1} !fails", "f32[3] i32[3]{-1,0,1} !fails",              \
                       "f32[3] i32[2]{0,1} !fails", "f32[] i32[1]{0} !fails", __VA_ARGS__)         \
    }
/* Ids can be split: shards are added. Elements of a row are independent. */
static void unsorted_split(mf_split *s)
{
    const bool sum = strcmp(s->node->op_name, "UnsortedSegmentSum") == 0;
    const int ids = s->in[1].rank;

    for (int d = 0; sum && d < ids; d++) {
        const int letter = mf_split_new(s, s->in[1].dims[d], MF_CUT_SUM);

        mf_split_in(s, 0, d, letter);
        mf_split_in(s, 1, d, letter);
    }
    for (int d = ids; d < s->in[0].rank; d++)
        mf_split_through(s, 0, d, d - ids + 1);
    s->index_letter = mf_split_new(s, s->out[0].dims[0], MF_CUT_FREE);
    s->index_input = 1;
    s->index_range = MF_INDEX_BELOW;
    s->count_input = 2;
    mf_split_out(s, 0, 0, s->index_letter);
}

#define UNSORTED_OP(NAME, TYPES, INDICES, GRAD, RUN, ...)                                          \
    {                                                                                              \
        .name = NAME,                                                                              \
        .def = "(data:T, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:T) {"         \
               "T:type in " TYPES ", Tindices:type in " INDICES ", Tnumsegments:type=int32 in "    \
               "index}",                                                                           \
        .infer = unsorted_infer, .grad = GRAD, .run = RUN, .split = unsorted_split,                \
        .samples =                                                                                 \
            MF_SAMPLES("f32[5,3] i32[5]{2,0,-1,3,0} i32[]{5}",                                     \
                       "f64[2,3] i64[2,3]{1,1,0,2,0,1} i32[]{3}", "f32[3] i32[]{1} i32[]{2}",      \
                       "f32[0,2] i32[0] i64[]{2}", "i16[3,2] i32[3]{0,0,2} i32[]{4}",              \
                       "f32[2] i32[2]{0,2} i32[]{2} !fails", "f32[3] i32[2]{0,1} i32[]{2} !fails", \
                       "f32[1] i32[1]{0} i32[]{-1} !fails", __VA_ARGS__)                           \
    }

const mf_op mf_ops_segment[] = {
    SORTED_OP("SegmentSum", "numbers", segment_sum_grad, segment_sum_run,
              "c64[3] i32[3]{0,1,1} !nograd", "u8[5]@0:250 i32[5]{0,0,0,1,1}"),
    SORTED_OP("SegmentMean", "numbers", segment_mean_grad, mean_run,
              "c128[3] i32[3]{0,1,1} !nograd"),
    SORTED_OP("SegmentProd", "numbers", prod_grad, segment_prod_run,
              "f64[4]{0,2,0,0} i32[4]{0,0,1,1} !nograd"),
    SORTED_OP("SegmentMin", "reals", segment_extreme_grad, segment_min_run,
              "u8[5]@0:250 i32[5]{0,0,0,1,2}"),
    SORTED_OP("SegmentMax", "reals", segment_extreme_grad, segment_max_run,
              "i64[5] i32[5]{0,0,0,1,2}"),
    UNSORTED_OP("UnsortedSegmentSum", "numbers", "[int16,int32,int64]", segment_sum_grad,
                unsorted_sum_run, "c64[3] i16[3]{0,1,1} i32[]{2} !nograd",
                "f32[600,130] i32[600]@0:9 i32[]{9} !nograd",
                "bf16[3] i32[3]{0,1,1} i32[]{2} !nograd"),
    UNSORTED_OP("UnsortedSegmentProd", "numbers", "index", prod_grad, unsorted_prod_run,
                "c64[3] i32[3]{0,1,1} i32[]{2} !nograd"),
    UNSORTED_OP("UnsortedSegmentMin", "reals", "index", segment_extreme_grad, unsorted_min_run,
                "u64[3] i32[3]{0,1,1} i32[]{3}"),
    UNSORTED_OP("UnsortedSegmentMax", "reals", "index", segment_extreme_grad, unsorted_max_run,
                "i64[3] i32[3]{0,1,1} i32[]{3}"),
    { 0 },
};
