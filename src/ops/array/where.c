/* SPDX-License-Identifier: Apache-2.0 */
/* where.c - conversions between indices and masks: OneHot, Where; and UnravelIndex. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

/* ---- OneHot ---- */

static mf_status one_hot_result(const mf_shape *index, int64_t depth, int64_t axis, int *at,
                                mf_shape *out)
{
    MF_TRY(mf_rank_check(index->rank + 1));
    if (axis < -1 || axis > index->rank)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Expected axis to be -1 or between [0, %d).  But received: %" PRId64,
                       index->rank + 1, axis);
    *at = axis == -1 ? index->rank : (int)axis;
    *out = (mf_shape){ .rank = index->rank + 1 };
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = d < *at ? index->dims[d] : d == *at ? depth : index->dims[d - 1];
    return MF_OK;
}

static mf_status one_hot_infer(mf_infer *in)
{
    int64_t depth = MF_UNKNOWN_DIM;
    int at;

    MF_TRY(mf_infer_rank(in, 1, 0));
    MF_TRY(mf_infer_rank(in, 2, 0));
    MF_TRY(mf_infer_rank(in, 3, 0));
    if (mf_infer_int_input(in, 1, &depth) && depth < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "depth must be non-negative, got: %" PRId64, depth);
    if (in->in[0].rank < 0)
        return MF_OK;
    return one_hot_result(&in->in[0], depth, mf_node_int(in->node, "axis"), &at, &in->out[0]);
}

/* out is [pre, depth, post]; a piece is one index of pre. */
typedef struct one_hot_job {
    const mf_tensor *index, *on, *off;
    mf_tensor *out;
    int64_t depth, post, pre, per_piece;
} one_hot_job;

static mf_status one_hot_rows(const one_hot_job *job, int64_t from, int64_t to)
{
    const int64_t block = job->depth * job->post;

    MF_TRY(mf_cells_fill(job->out->dtype, job->out->data, from * block, (to - from) * block,
                         job->off->data));
    for (int64_t i = from * job->post; i < to * job->post; i++) {
        const int64_t v = mf_index_at(job->index, i);

        if (v >= 0 && v < job->depth)
            MF_TRY(mf_cells_copy(job->out->dtype, job->out->data,
                                 i / job->post * block + v * job->post + i % job->post,
                                 job->on->data, 0, 1));
    }
    return MF_OK;
}

static void one_hot_piece(void *ctx, int64_t piece)
{
    const one_hot_job *job = ctx;
    const int64_t from = piece * job->per_piece, to = from + job->per_piece;
    const mf_status st = one_hot_rows(job, from, to < job->pre ? to : job->pre);

    MF_ASSERT(st == MF_OK); /* plain types cannot fail */
}

static mf_status one_hot_run(mf_kernel *k)
{
    one_hot_job job = { .index = k->in[0], .on = k->in[2], .off = k->in[3] };
    mf_shape shape;
    int at;

    MF_TRY(mf_int_read(k->in[1], "depth", &job.depth));
    if (job.depth < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "depth must be non-negative, got: %" PRId64, job.depth);
    if (job.on->count != 1 || job.off->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "on_value and off_value must be scalars");
    MF_TRY(one_hot_result(&job.index->shape, job.depth, *(const int64_t *)k->state, &at, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &job.out));
    if (job.out->count == 0)
        return MF_OK;
    job.pre = mf_shape_span(&job.index->shape, 0, at);
    job.post = mf_shape_span(&job.index->shape, at, job.index->shape.rank);
    job.per_piece = 65536 / (job.depth * job.post) + 1;
    if (!mf_dtype_is_plain(job.out->dtype) || job.pre <= job.per_piece)
        return one_hot_rows(&job, 0, job.pre);
    return mf_kernel_parallel(k, (job.pre + job.per_piece - 1) / job.per_piece, one_hot_piece,
                              &job);
}

/* ---- Where ---- */

/* Positions of nonzero elements from `from` on, into out (NULL: only count). */
#define FIND(NAME, kind, EXPR)                                                                     \
    static int64_t find_##kind(const void *data, int64_t n, int64_t *out)                          \
    {                                                                                              \
        const MF_S_##kind *a = data;                                                               \
        int64_t found = 0;                                                                         \
        if (!out) {                                                                                \
            for (int64_t i = 0; i < n; i++)                                                        \
                found += EXPR(MF_LD_##kind(a, i));                                                 \
            return found;                                                                          \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (EXPR(MF_LD_##kind(a, i)))                                                          \
                out[found++] = i;                                                                  \
        }                                                                                          \
        return found;                                                                              \
    }
#define NOT_ZERO(x) ((x) != 0)
MF_EACH_FLOAT(FIND, find, NOT_ZERO)
MF_EACH_INT(FIND, find, NOT_ZERO)
MF_EACH_COMPLEX(FIND, find, NOT_ZERO)
FIND(find, b8, NOT_ZERO)

typedef int64_t find_fn(const void *data, int64_t n, int64_t *out);
static find_fn *const find_fns[MF_DTYPE_COUNT] = {
    MF_FN_FLOATS(find),         MF_FN_INTS(find),           MF_FN_COMPLEX(find),
    [MF_DTYPE_BOOL] = find_b8,  [MF_DTYPE_QI8] = find_i8,   [MF_DTYPE_QU8] = find_u8,
    [MF_DTYPE_QI16] = find_i16, [MF_DTYPE_QU16] = find_u16, [MF_DTYPE_QI32] = find_i32,
};

static mf_status where_infer(mf_infer *in)
{
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM, in->in[0].rank < 0 ? MF_UNKNOWN_DIM : in->in[0].rank);
    return MF_OK;
}

static mf_status where_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const int rank = x->shape.rank;
    find_fn *find = find_fns[x->dtype];
    int64_t n, *at;
    mf_tensor *out;

    if (!find)
        return MF_FAIL(MF_UNIMPLEMENTED, "op Where has no kernel for type %s",
                       mf_dtype_name(x->dtype));
    if (rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "WhereOp : Unhandled input dimensions: 0");
    n = find(x->data, x->count, NULL);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n, rank), &out));
    at = out->data;
    (void)find(x->data, x->count, at);
    if (rank == 1)
        return MF_OK;
    for (int64_t i = n - 1; i >= 0; i--) { /* backwards: row i overwrites flat positions >= i */
        int64_t flat = at[i];

        for (int d = rank - 1; d >= 0; d--) {
            at[i * rank + d] = flat % x->shape.dims[d];
            flat /= x->shape.dims[d];
        }
    }
    return MF_OK;
}

/* ---- UnravelIndex ---- */

static mf_status unravel_infer(mf_infer *in)
{
    const mf_shape *index = &in->in[0], *dims = &in->in[1];
    const int64_t rank = dims->rank == 1 ? dims->dims[0] : MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 1, 1));
    if (index->rank == 0)
        in->out[0] = MF_SHAPE(rank);
    else if (index->rank == 1)
        in->out[0] = MF_SHAPE(rank, index->dims[0]);
    return MF_OK;
}

static mf_status unravel_run(mf_kernel *k)
{
    const mf_tensor *index = k->in[0], *dims = k->in[1];
    mf_shape shape;
    mf_tensor *out;
    int64_t size;

    if (dims->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The indices can only be 1-D, got rank %d",
                       dims->shape.rank);
    if (index->shape.rank > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "The indices can only be scalar or vector, got rank %d",
                       index->shape.rank);
    if (index->count == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "received empty tensor indices");
    MF_TRY(mf_shape_read(dims, "dims", &shape));
    MF_TRY(mf_shape_count(&shape, &size));
    for (int64_t i = 0; i < index->count; i++) {
        if (mf_index_at(index, i) < 0 || mf_index_at(index, i) >= size)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "index %" PRId64 " is out of bound as with dims of %" PRId64 " elements",
                           mf_index_at(index, i), size);
    }
    MF_TRY(mf_kernel_out(
        k, 0, index->shape.rank == 0 ? &MF_SHAPE(shape.rank) : &MF_SHAPE(shape.rank, index->count),
        &out));
    for (int64_t i = 0; i < index->count; i++) {
        int64_t flat = mf_index_at(index, i);

        for (int d = shape.rank - 1; d >= 0; d--) {
            mf_index_put(out, d * index->count + i, flat % shape.dims[d]);
            flat /= shape.dims[d];
        }
    }
    return MF_OK;
}

static void one_hot_split(mf_split *s)
{
    int axis;

    if (!mf_axis_fix(mf_node_int(s->node, "axis"), s->out[0].rank, &axis))
        return;
    mf_split_around(s, 0, 1, axis, false, true);
    if (s->node->in_types[0] == MF_DTYPE_U8)
        return; /* no index stands for nothing */
    s->index_letter = mf_split_new(s, s->out[0].dims[axis], MF_CUT_FREE);
    s->index_input = 0;
    s->count_input = 1;
    mf_split_out(s, 0, axis, s->index_letter);
}

const mf_op mf_ops_where[] = {
    { .name = "OneHot",
      .rows = mf_rows_one_hot,
      .def = "(indices:TI, depth:int32, on_value:T, off_value:T) -> (output:T) "
             "{axis:int=-1, T:type, TI:type=int64 in [uint8,int8,int32,int64]}",
      .infer = one_hot_infer,
      .grad = mf_grad_none,
      .prepare = mf_prepare_axis,
      .run = one_hot_run,
      .split = one_hot_split,
      .samples = MF_SAMPLES("i32[3]{0,2,5} i32[]{4} f32[] f32[] !nograd",
                            "i64[2,2]{1,-1,0,2} i32[]{3} i32[] i32[] ; axis=0",
                            "i64[2,2]{1,-1,0,2} i32[]{3} f64[] f64[] ; axis=1 !nograd",
                            "u8[]{1} i32[]{2} bool[] bool[]", "i32[2]{1,0} i32[]{2} str[] str[]",
                            "i32[2]{1,0} i32[]{0} i8[] i8[]", "i32[0] i32[]{3} f32[] f32[] !nograd",
                            "i32[2]{1,0} i32[]{-2} f32[] f32[] !fails",
                            "i32[2]{1,0} i32[]{2} f32[] f32[] ; axis=3 !fails") },
    { .name = "Where",
      .def = "(input:T) -> (index:int64) {T:type=bool in [float,double,int32,uint8,"
             "int16,int8,complex64,int64,qint8,quint8,qint32,bfloat16,qint16,quint16,"
             "uint16,complex128,half,uint32,uint64,bool]}",
      .infer = where_infer,
      .grad = mf_grad_missing,
      .run = where_run,
      .samples = MF_SAMPLES("bool[7]", "bool[2,3,4]", "f32[2,3]{0,1,-0,2,0,0} !nograd", "i32[0,2]",
                            "c64[3]{0,1,0} !nograd", "bool[] !fails") },
    { .name = "UnravelIndex",
      .def = "(indices:Tidx, dims:Tidx) -> (output:Tidx) {Tidx:type=int32 in index}",
      .infer = unravel_infer,
      .grad = mf_grad_missing,
      .run = unravel_run,
      .samples = MF_SAMPLES("i32[3]{5,0,11} i32[2]{3,4}", "i64[]{5} i64[3]{2,3,4}",
                            "i32[0] i32[1]{3} !fails", "i32[1]{12} i32[2]{3,4} !fails",
                            "i32[1]{1} i32[]{4} !fails") },
    { 0 },
};
