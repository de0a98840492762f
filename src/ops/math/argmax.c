/* SPDX-License-Identifier: Apache-2.0 */
/* argmax.c - index of the largest or smallest element along an axis: the first of several, and
 * never a NaN unless all are NaN. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

#include <math.h>

enum { TILE = 128 };

/* at[j] for `cols` adjacent columns of n rows, `stride` apart. */
typedef void arg_fn(const void *x, int64_t n, int64_t stride, int64_t cols, int64_t *at);

/* The first row is taken as it is; a NaN there gives way to anything. */
#define ARG_LOOP(NAME, kind, BETTER)                                                               \
    static void NAME##_##kind(const void *in, int64_t n, int64_t stride, int64_t cols,             \
                              int64_t *at)                                                         \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        MF_C_##kind best[TILE];                                                                    \
        for (int64_t j = 0; j < cols; j++) {                                                       \
            best[j] = MF_LD_##kind(x, j);                                                          \
            at[j] = 0;                                                                             \
        }                                                                                          \
        if (cols == 1) {                                                                           \
            MF_C_##kind top = best[0];                                                             \
            int64_t where = 0;                                                                     \
            for (int64_t r = 1; r < n; r++) {                                                      \
                const MF_C_##kind v = MF_LD_##kind(x, r * stride);                                 \
                if (BETTER(v, top)) {                                                              \
                    top = v;                                                                       \
                    where = r;                                                                     \
                }                                                                                  \
            }                                                                                      \
            at[0] = where;                                                                         \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = 1; r < n; r++) {                                                          \
            const MF_S_##kind *row = x + r * stride;                                               \
            MF_IVDEP                                                                               \
            for (int64_t j = 0; j < cols; j++) {                                                   \
                const MF_C_##kind v = MF_LD_##kind(row, j);                                        \
                const bool better = BETTER(v, best[j]);                                            \
                best[j] = better ? v : best[j];                                                    \
                at[j] = better ? r : at[j];                                                        \
            }                                                                                      \
        }                                                                                          \
    }

#define GREATER(v, best) ((v) > (best) || ((best) != (best) && (v) == (v)))
#define LESS(v, best) ((v) < (best) || ((best) != (best) && (v) == (v)))
#define INT_GREATER(v, best) ((v) > (best))
#define INT_LESS(v, best) ((v) < (best))
MF_EACH_FLOAT(ARG_LOOP, max, GREATER)
MF_EACH_FLOAT(ARG_LOOP, min, LESS)
MF_EACH_INT(ARG_LOOP, max, INT_GREATER)
MF_EACH_INT(ARG_LOOP, min, INT_LESS)

#define LOOPS(NAME)                                                                                \
    {                                                                                              \
        MF_FN_FLOATS(NAME), MF_FN_INTS(NAME), [MF_DTYPE_BOOL] = NAME##_u8                          \
    }
static arg_fn *const max_loops[MF_DTYPE_COUNT] = LOOPS(max);
static arg_fn *const min_loops[MF_DTYPE_COUNT] = LOOPS(min);

typedef struct argmax_job {
    arg_fn *fn;
    const char *in;
    mf_tensor *out;
    size_t item;
    int64_t n, inner, tiles, tiles_per_piece, total_tiles;
} argmax_job;

static void argmax_store(mf_tensor *out, int64_t first, int64_t n, const int64_t *at)
{
    if (out->dtype == MF_DTYPE_I64) {
        memcpy((int64_t *)out->data + first, at, (size_t)n * sizeof *at);
    } else if (out->dtype == MF_DTYPE_I32) {
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)out->data)[first + i] = (int32_t)at[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out->data)[first + i] = (uint16_t)at[i];
    }
}

static void argmax_run_piece(void *ctx, int64_t piece)
{
    const argmax_job *j = ctx;
    const int64_t end = (piece + 1) * j->tiles_per_piece;
    int64_t at[TILE];

    for (int64_t t = piece * j->tiles_per_piece; t < end && t < j->total_tiles; t++) {
        const int64_t outer = t / j->tiles, col = t % j->tiles * TILE;
        const int64_t cols = j->inner - col < TILE ? j->inner - col : TILE;

        j->fn(j->in + (size_t)(outer * j->n * j->inner + col) * j->item, j->n, j->inner, cols, at);
        argmax_store(j->out, outer * j->inner + col, cols, at);
    }
}

static mf_status argmax_axis_of(int64_t value, int rank, int *axis)
{
    if (mf_axis_fix(value, rank, axis))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT, "Expected dimension in the range [%d, %d), but got %lld",
                   -rank, rank, (long long)value);
}

static void without_axis(const mf_shape *in, int axis, mf_shape *out)
{
    *out = MF_SCALAR;
    for (int d = 0; d < in->rank; d++) {
        if (d != axis)
            out->dims[out->rank++] = in->dims[d];
    }
}

static mf_status arg_infer(mf_infer *in)
{
    int64_t value;
    int axis = 0;

    MF_TRY(mf_infer_rank(in, 1, 0));
    if (in->in[0].rank < 0)
        return MF_OK;
    if (mf_infer_int_input(in, 1, &value)) {
        MF_TRY(argmax_axis_of(value, in->in[0].rank, &axis));
        without_axis(&in->in[0], axis, &in->out[0]);
    } else if (in->in[0].rank > 0) {
        in->out[0].rank = in->in[0].rank - 1;
        for (int d = 0; d < in->out[0].rank; d++)
            in->out[0].dims[d] = MF_UNKNOWN_DIM;
    }
    return MF_OK;
}

static mf_status argmax_run(mf_kernel *k, arg_fn *const loops[MF_DTYPE_COUNT])
{
    const mf_tensor *x = k->in[0];
    char text[MF_SHAPE_TEXT];
    mf_shape shape;
    mf_tensor *out;
    int64_t pieces;
    int axis = 0;

    if (k->in[1]->count != 1 || k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "dim must be a scalar, but received tensor of shape: %s",
                       mf_shape_text(&k->in[1]->shape, text));
    MF_TRY(argmax_axis_of(mf_tensor_int_at(k->in[1], 0), x->shape.rank, &axis));
    if (!loops[x->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "%s of type %s is not supported", k->node->op_name,
                       mf_dtype_name(x->dtype));
    if (x->shape.dims[axis] == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Reduction axis %d is empty in shape %s", axis,
                       mf_shape_text(&x->shape, text));
    without_axis(&x->shape, axis, &shape);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    argmax_job j = {
        .fn = loops[x->dtype], .in = x->data, .out = out, .item = mf_dtype_cell(x->dtype)
    };

    j.n = x->shape.dims[axis];
    j.inner = mf_shape_span(&x->shape, axis + 1, x->shape.rank);
    j.tiles = (j.inner + TILE - 1) / TILE;
    j.total_tiles = mf_shape_span(&x->shape, 0, axis) * j.tiles;
    j.tiles_per_piece = 2 * MF_LOOP_GRAIN / (j.n * (j.inner < TILE ? j.inner : TILE));
    j.tiles_per_piece = j.tiles_per_piece < 1 ? 1 : j.tiles_per_piece;
    pieces = (j.total_tiles + j.tiles_per_piece - 1) / j.tiles_per_piece;
    return mf_kernel_parallel(k, pieces, argmax_run_piece, &j);
}

static mf_status argmax_max_run(mf_kernel *k)
{
    return argmax_run(k, max_loops);
}
static mf_status argmax_min_run(mf_kernel *k)
{
    return argmax_run(k, min_loops);
}

#define ARG_TYPES                                                                                  \
    "T:type in [float,double,int32,uint8,int16,int8,int64,bfloat16,uint16,half,uint32,uint64,"     \
    "qint8,quint8,qint32,qint16,quint16,bool], "

static void arg_split(mf_split *s)
{
    int axis;

    if (mf_split_axis(s, 1, s->in[0].rank, &axis))
        mf_split_around(s, 0, 1, axis, true, false);
}

const mf_op mf_ops_argmax[] = {
    { .name = "ArgMax",
      .rows = mf_rows_axes,
      .def = "(input:T, dimension:Tidx) -> (output:output_type) {" ARG_TYPES
             "Tidx:type=int32 in [int16,int32,int64], "
             "output_type:type=int64 in [int16,uint16,int32,int64]}",
      .infer = arg_infer,
      .grad = mf_grad_none,
      .run = argmax_max_run,
      .split = arg_split,
      .samples = MF_SAMPLES("f32[3,5] i32[]{1}", "f32[3,5] i32[]{0}", "f64[2,3,4] i64[]{-2}",
                            "f32[7] i32[]{0} ; output_type=int32", "i8[4,3] i32[]{0}",
                            "u64[5]@0:3 i32[]{0}", "bool[3,4] i32[]{1}", "f16[3,4] i32[]{1}",
                            "bf16[200,3] i16[]{0} ; output_type=int16 !notf", "f32[2,0] i32[]{0}",
                            "f32[9,300] i32[]{0} ; output_type=uint16", "f32[0,2] i32[]{0} !fails",
                            "f32[2] i32[]{1} !fails", "f32[] i32[]{0} !fails") },
    { .name = "ArgMin",
      .rows = mf_rows_axes,
      .def = "(input:T, dimension:Tidx) -> (output:output_type) {" ARG_TYPES
             "Tidx:type=int32 in index, output_type:type=int64 in index}",
      .infer = arg_infer,
      .grad = mf_grad_none,
      .run = argmax_min_run,
      .split = arg_split,
      .samples = MF_SAMPLES("f32[3,5] i32[]{1}", "f32[3,5] i32[]{0}", "i64[2,3,4] i64[]{1}",
                            "f32[7] i32[]{-1} ; output_type=int32", "u16[5]@0:3 i32[]{0}",
                            "f32[3,0] i32[]{1} !fails") },
    { 0 },
};
