/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - generated tensors: repeated values, sequences; and bitcasts. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"
#include "ops/state/tensor_list.h"

/* ---- Fill, ZerosLike, OnesLike, Empty ---- */

typedef struct fill_job {
    mf_tensor *out;
    const void *value; /* NULL: zero */
    int64_t piece; /* elements */
} fill_job;

/* Plain types only: cannot fail. */
static void fill_fill_piece(void *ctx, int64_t piece)
{
    const fill_job *job = ctx;
    const int64_t from = piece * job->piece, rest = job->out->count - from;
    const int64_t n = rest < job->piece ? rest : job->piece;
    mf_status st = MF_OK;

    if (job->value)
        st = mf_cells_fill(job->out->dtype, job->out->data, from, n, job->value);
    else
        mf_cells_zero(job->out->dtype, job->out->data, from, n);
    MF_ASSERT(st == MF_OK);
}

static mf_status fill_all(mf_kernel *k, mf_tensor *out, const void *value)
{
    fill_job job = { .out = out, .value = value, .piece = 65536 };

    if (!mf_dtype_is_plain(out->dtype)) {
        if (value)
            return mf_cells_fill(out->dtype, out->data, 0, out->count, value);
        mf_cells_zero(out->dtype, out->data, 0, out->count);
    } else if (out->count <= job.piece) {
        fill_fill_piece(&job, 0);
    } else {
        return mf_kernel_parallel(k, (out->count + job.piece - 1) / job.piece, fill_fill_piece,
                                  &job);
    }
    return MF_OK;
}

static mf_status fill_fill_infer(mf_infer *in)
{
    MF_TRY(mf_infer_shape_input(in, 0, &in->out[0]));
    return MF_OK;
}

static mf_status fill_fill_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_shape_read(k->in[0], "dims", &shape));
    if (k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "value must be a scalar, got %" PRId64 " elements",
                       k->in[1]->count);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return fill_all(k, out, k->in[1]->data);
}

static mf_status fill_fill_grad(mf_grad *g)
{
    g->dx[1] = MF_G2("Sum", g->dy[0], mf_grad_all_axes(g, g->dy[0]));
    return MF_OK;
}

static mf_status zeros_like_run(mf_kernel *k)
{
    mf_tensor *out;

    if (k->in[0]->dtype == MF_DTYPE_VARIANT)
        return mf_tensor_list_zeros(k);
    if (k->in[0]->dtype == MF_DTYPE_RESOURCE)
        return MF_FAIL(MF_UNIMPLEMENTED, "op %s has no kernel for type %s", k->node->op_name,
                       mf_dtype_name(k->in[0]->dtype));
    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    return fill_all(k, out, NULL);
}

static mf_status ones_like_run(mf_kernel *k)
{
    _Alignas(16) char one[16] = { 0 };
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    mf_cells_one(out->dtype, one, 0, 1);
    return fill_all(k, out, one);
}

/* Always zeroed: pooled memory may hold data of another session. */
static mf_status fill_empty_run(mf_kernel *k)
{
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(mf_shape_read(k->in[0], "shape", &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return fill_all(k, out, NULL);
}

/* ---- Range ---- */

/* Rounds to the type of the computation, as if every operation were done in it. */
#define ROUND(kind, x) ROUND_##kind(x)
#define ROUND_f32(x) (x)
#define ROUND_f64(x) (x)
#define ROUND_f16(x) mf_f16_to_f32(mf_f16_from_f32(x))
#define ROUND_bf16(x) mf_bf16_to_f32(mf_bf16_from_f32(x))

#define FLOAT_RANGE(NAME, kind, EXPR)                                                              \
    static mf_status range_size_##kind(const mf_tensor *const *in, int64_t *n)                     \
    {                                                                                              \
        const MF_S_##kind *a = in[0]->data, *b = in[1]->data, *c = in[2]->data;                    \
        const MF_C_##kind start = MF_LD_##kind(a, 0), limit = MF_LD_##kind(b, 0);                  \
        const MF_C_##kind delta = MF_LD_##kind(c, 0);                                              \
        return float_size((double)start, (double)limit, (double)delta,                             \
                          (double)ROUND(kind, ROUND(kind, limit - start) / delta), n);             \
    }                                                                                              \
    static void range_##kind(const mf_tensor *const *in, void *out, int64_t n)                     \
    {                                                                                              \
        const MF_S_##kind *a = in[0]->data, *c = in[2]->data;                                      \
        const MF_C_##kind start = MF_LD_##kind(a, 0), delta = MF_LD_##kind(c, 0);                  \
        MF_S_##kind *o = out;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const MF_C_##kind at = ROUND(kind, (MF_C_##kind)i);                                    \
            o[i] = MF_ST_##kind(start + ROUND(kind, at * delta));                                  \
        }                                                                                          \
    }

#define INT_RANGE(NAME, kind, EXPR)                                                                \
    static mf_status range_size_##kind(const mf_tensor *const *in, int64_t *n)                     \
    {                                                                                              \
        return int_size(mf_tensor_int_at(in[0], 0), mf_tensor_int_at(in[1], 0),                    \
                        mf_tensor_int_at(in[2], 0), n);                                            \
    }                                                                                              \
    static void range_##kind(const mf_tensor *const *in, void *out, int64_t n)                     \
    {                                                                                              \
        const uint64_t start = (uint64_t)mf_tensor_int_at(in[0], 0);                               \
        const uint64_t delta = (uint64_t)mf_tensor_int_at(in[2], 0);                               \
        MF_S_##kind *o = out;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            o[i] = (MF_S_##kind)(start + (uint64_t)i * delta);                                     \
    }

static mf_status float_size(double start, double limit, double delta, double quotient, int64_t *n)
{
    *n = 0;
    if (delta == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires delta != 0: %g", delta);
    if (delta > 0 ? start > limit : start < limit)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires start %s limit when delta %s 0: %g/%g",
                       delta > 0 ? "<=" : ">=", delta > 0 ? ">" : "<", start, limit);
    quotient = __builtin_ceil(__builtin_fabs(quotient));
    if (!(quotient < 9e15))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires ((limit - start) / delta) <= 2^53: %g",
                       quotient);
    *n = (int64_t)quotient;
    return MF_OK;
}

static mf_status int_size(int64_t start, int64_t limit, int64_t delta, int64_t *n)
{
    const uint64_t span =
        delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t size;

    *n = 0;
    if (delta == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires delta != 0: 0");
    if (delta > 0 ? start > limit : start < limit)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Requires start %s limit when delta %s 0: %" PRId64 "/%" PRId64,
                       delta > 0 ? "<=" : ">=", delta > 0 ? ">" : "<", start, limit);
    size = span / step + (span % step != 0);
    if (size > INT64_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires ((limit - start) / delta) < 2^63");
    *n = (int64_t)size;
    return MF_OK;
}

MF_EACH_FLOAT(FLOAT_RANGE, range, )
MF_EACH_INT(INT_RANGE, range, )

typedef struct range_fns {
    mf_status (*size)(const mf_tensor *const *in, int64_t *n);
    void (*fill)(const mf_tensor *const *in, void *out, int64_t n);
} range_fns;

#define ROW(T, kind) [MF_DTYPE_##T] = { range_size_##kind, range_##kind }
static const range_fns range_table[MF_DTYPE_COUNT] = {
    ROW(F32, f32), ROW(F64, f64), ROW(F16, f16), ROW(BF16, bf16), ROW(I8, i8),   ROW(I16, i16),
    ROW(I32, i32), ROW(I64, i64), ROW(U8, u8),   ROW(U16, u16),   ROW(U32, u32), ROW(U64, u64),
};

static mf_status range_infer(mf_infer *in)
{
    const mf_tensor *const *v = in->in_value;
    int64_t n;

    for (int i = 0; i < 3; i++)
        MF_TRY(mf_infer_rank(in, i, 0));
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM);
    if (!v[0] || !v[1] || !v[2] || !range_table[v[0]->dtype].size)
        return MF_OK;
    MF_TRY(range_table[v[0]->dtype].size(v, &n));
    in->out[0].dims[0] = n;
    return MF_OK;
}

static mf_status fill_range_run(mf_kernel *k)
{
    const range_fns *fns = &range_table[k->in[0]->dtype];
    mf_tensor *out;
    int64_t n;

    if (!fns->size)
        return MF_FAIL(MF_UNIMPLEMENTED, "op Range has no kernel for type %s",
                       mf_dtype_name(k->in[0]->dtype));
    if (k->in[0]->count != 1 || k->in[1]->count != 1 || k->in[2]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "start, limit and delta must be scalars");
    MF_TRY(fns->size(k->in, &n));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n), &out));
    fns->fill(k->in, out->data, n);
    return MF_OK;
}

/* ---- LinSpace ---- */

#define LINSPACE(NAME, kind, EXPR)                                                                 \
    static void linspace_##kind(const mf_tensor *const *in, void *out, int64_t n)                  \
    {                                                                                              \
        const MF_S_##kind *a = in[0]->data, *b = in[1]->data;                                      \
        const MF_C_##kind start = MF_LD_##kind(a, 0), stop = MF_LD_##kind(b, 0);                   \
        MF_S_##kind *o = out;                                                                      \
        if (n > 1) {                                                                               \
            const MF_C_##kind gaps = ROUND(kind, (MF_C_##kind)(n - 1));                            \
            const MF_C_##kind step = ROUND(kind, ROUND(kind, stop - start) / gaps);                \
            for (int64_t i = 0; i < n - 1; i++) {                                                  \
                const MF_C_##kind at = ROUND(kind, (MF_C_##kind)i);                                \
                o[i] = MF_ST_##kind(start + ROUND(kind, step * at));                               \
            }                                                                                      \
            o[n - 1] = MF_ST_##kind(stop);                                                         \
        } else {                                                                                   \
            o[0] = MF_ST_##kind(start);                                                            \
        }                                                                                          \
    }
MF_EACH_FLOAT(LINSPACE, linspace, )

static mf_status linspace_infer(mf_infer *in)
{
    int64_t n;

    for (int i = 0; i < 3; i++)
        MF_TRY(mf_infer_rank(in, i, 0));
    in->out[0] = MF_SHAPE(MF_UNKNOWN_DIM);
    if (!mf_infer_int_input(in, 2, &n))
        return MF_OK;
    if (n <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires num > 0: %" PRId64, n);
    in->out[0].dims[0] = n;
    return MF_OK;
}

static mf_status linspace_run(mf_kernel *k)
{
    mf_tensor *out;
    int64_t n;

    if (k->in[0]->count != 1 || k->in[1]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "start and stop must be scalars");
    MF_TRY(mf_int_read(k->in[2], "num", &n));
    if (n <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Requires num > 0: %" PRId64, n);
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n), &out));
    switch (out->dtype) {
    case MF_DTYPE_F32:
        linspace_f32(k->in, out->data, n);
        break;
    case MF_DTYPE_F64:
        linspace_f64(k->in, out->data, n);
        break;
    case MF_DTYPE_F16:
        linspace_f16(k->in, out->data, n);
        break;
    default:
        linspace_bf16(k->in, out->data, n);
        break;
    }
    return MF_OK;
}

/* ---- Bitcast ---- */

/* A smaller element type adds a last dimension, a larger one removes it. */
static mf_status bitcast_result(const mf_node *node, const mf_shape *from, mf_shape *out)
{
    const mf_dtype to_type = mf_out_type(node, 0), from_type = mf_type_base(node->in_types[0]);
    const int64_t a = (int64_t)mf_dtype_size(from_type), b = (int64_t)mf_dtype_size(to_type);

    *out = *from;
    if (a == b || from->rank < 0)
        return MF_OK;
    if (a > b) {
        MF_TRY(mf_rank_check(from->rank + 1));
        out->dims[out->rank++] = a / b;
        return MF_OK;
    }
    if (from->rank == 0 || (from->dims[from->rank - 1] >= 0 && from->dims[from->rank - 1] != b / a))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Cannot bitcast from %s to %s: the last dimension must be %" PRId64,
                       mf_dtype_name(from_type), mf_dtype_name(to_type), b / a);
    out->rank--;
    return MF_OK;
}

static mf_status bitcast_infer(mf_infer *in)
{
    return bitcast_result(in->node, &in->in[0], &in->out[0]);
}

static mf_status bitcast_run(mf_kernel *k)
{
    mf_shape shape;

    MF_TRY(bitcast_result(k->node, &k->in[0]->shape, &shape));
    mf_kernel_view(k, 0, 0, &shape);
    k->out[0]->dtype = mf_out_type(k->node, 0);
    return mf_shape_count(&shape, &k->out[0]->count);
}

static void fill_split(mf_split *s)
{
    if (!s->in_value[0])
        return;
    for (int d = 0; d < s->out[0].rank; d++)
        mf_split_out(s, 0, d, mf_split_new(s, s->out[0].dims[d], MF_CUT_FREE));
    s->sizes_input = 0;
}

const mf_op mf_ops_fill[] = {
    { .name = "Fill",
      .rows = mf_rows_fill,
      .def = "(dims:index_type, value:T) -> (output:T) {T:type, index_type:type=int32 "
             "in index}",
      .infer = fill_fill_infer,
      .grad = fill_fill_grad,
      .run = fill_fill_run,
      .split = fill_split,
      .samples =
          MF_SAMPLES("i32[2]{2,3} f32[]", "i64[1]{0} f64[]", "i32[0] f32[]", "i32[1]{3} str[]{ab}",
                     "i32[1]{5} bool[]", "i32[1]{7} c128[]", "i32[2]{2,-1} f32[] !fails") },
    { .name = "ZerosLike",
      .rows = mf_rows_first,
      .def = "(x:T) -> (y:T) {T:type}",
      .flags = MF_OP_INPLACE,
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = zeros_like_run,
      .split = mf_split_same,
      .samples = MF_SAMPLES("f32[2,3] !nograd", "i32[]", "f64[0] !nograd", "str[2]", "bool[3]") },
    { .name = "OnesLike",
      .rows = mf_rows_first,
      .def = "(x:T) -> (y:T) {T:type in [bfloat16,half,float,double,int8,uint8,int16,"
             "uint16,int32,uint32,int64,uint64,complex64,complex128,bool]}",
      .flags = MF_OP_INPLACE,
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = ones_like_run,
      .split = mf_split_same,
      .samples = MF_SAMPLES("f32[2,3] !nograd", "i8[]", "bool[4]", "c64[2] !nograd",
                            "bf16[3] !nograd", "f16[0] !nograd") },
    { .name = "Empty",
      .def = "(shape:int32) -> (output:dtype) {dtype:type, init:bool=false} "
             "is_stateful",
      .infer = fill_fill_infer,
      .grad = mf_grad_missing,
      .run = fill_empty_run,
      .samples = MF_SAMPLES("i32[2]{2,3} ; dtype=float init=true", "i32[1]{0} ; dtype=string",
                            "i32[1]{-2} ; dtype=float !fails") },
    { .name = "Range",
      .def = "(start:Tidx, limit:Tidx, delta:Tidx) -> (output:Tidx) {Tidx:type=int32 "
             "in [bfloat16,half,float,double,int8,int16,int32,int64,uint16,uint32,"
             "uint64]}",
      .infer = range_infer,
      .grad = mf_grad_none,
      .run = fill_range_run,
      .samples = MF_SAMPLES(
          "i32[]{0} i32[]{7} i32[]{2}", "i64[]{5} i64[]{-3} i64[]{-2}",
          "f32[]{0} f32[]{1} f32[]{0.1} !nograd", "f64[]{3} f64[]{3} f64[]{1} !nograd",
          "bf16[]{0} bf16[]{50} bf16[]{0.3} !nograd", "f16[]{1} f16[]{40} f16[]{0.3} !nograd",
          "i8[]{-5} i8[]{100} i8[]{3} !notf", "u32[]{1} u32[]{9} u32[]{3} !notf",
          "i32[]{0} i32[]{5} i32[]{0} !fails", "i32[]{5} i32[]{0} i32[]{1} !fails") },
    { .name = "LinSpace",
      .def = "(start:T, stop:T, num:Tidx) -> (output:T) {T:type in floats, "
             "Tidx:type=int32 in index}",
      .infer = linspace_infer,
      .grad = mf_grad_none,
      .run = linspace_run,
      .samples = MF_SAMPLES(
          "f32[]{0.3} f32[]{7.7} i32[]{11} !nograd", "f64[]{2} f64[]{-2} i64[]{5} !nograd",
          "f32[]{3} f32[]{4} i32[]{1} !nograd", "f32[]{0} f32[]{1} i32[]{0} !fails") },
    { .name = "Bitcast",
      .def = "(input:T) -> (output:type) {T:type in numbers, type:type in numbers}",
      .flags = MF_OP_VIEW,
      .infer = bitcast_infer,
      .grad = mf_grad_missing,
      .run = bitcast_run,
      .samples = MF_SAMPLES("f32[2,3] ; type=int32 !nograd", "f64[2] ; type=uint8 !nograd",
                            "u8[3,4] ; type=float !nograd !unordered", "i32[0,2] ; type=int64",
                            "u8[3] ; type=int32 !fails", "u8[] ; type=int16 !fails") },
    { 0 },
};
