/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - Cumsum, Cumprod and CumulativeLogsumexp along an axis. */
#include "graph/rows.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/elementwise.h"

#include <math.h>
#include <sleef.h>

enum { TILE = 128 };

/* `cols` adjacent columns of n rows, `stride` apart (negative: backwards). Floats are accumulated
 * in double. */
typedef void scan_fn(const void *in, void *out, int64_t n, int64_t stride, int64_t cols,
                     bool exclusive);

#define SCAN_LOOP(NAME, kind, ACC, FIRST, OP)                                                      \
    static void NAME##_##kind(const void *in, void *out, int64_t n, int64_t stride, int64_t cols,  \
                              bool exclusive)                                                      \
    {                                                                                              \
        const MF_S_##kind *x = in;                                                                 \
        MF_S_##kind *y = out;                                                                      \
        ACC acc[TILE];                                                                             \
        for (int64_t j = 0; j < cols; j++)                                                         \
            acc[j] = (ACC)(FIRST);                                                                 \
        for (int64_t r = 0; r < n; r++, x += stride, y += stride) {                                \
            MF_IVDEP                                                                               \
            for (int64_t j = 0; j < cols; j++) {                                                   \
                const ACC v = (ACC)MF_LD_##kind(x, j), next = (ACC)OP(acc[j], v);                  \
                y[j] = MF_ST_##kind((MF_C_##kind)(exclusive ? acc[j] : next));                     \
                acc[j] = next;                                                                     \
            }                                                                                      \
        }                                                                                          \
    }

#define SUM(a, b) ((a) + (b))
#define PROD(a, b) ((a) * (b))
#define WIDE_PROD(a, b) ((uint64_t)(a) * (uint64_t)(b))

#define FLOAT_SCANS(NAME, FIRST, OP)                                                               \
    SCAN_LOOP(NAME, f32, double, FIRST, OP)                                                        \
    SCAN_LOOP(NAME, f64, double, FIRST, OP)                                                        \
    SCAN_LOOP(NAME, f16, double, FIRST, OP)                                                        \
    SCAN_LOOP(NAME, bf16, double, FIRST, OP)
#define OTHER_SCANS(NAME, FIRST, OP, INT_OP)                                                       \
    SCAN_LOOP(NAME, u8, uint8_t, FIRST, INT_OP)                                                    \
    SCAN_LOOP(NAME, u16, uint16_t, FIRST, INT_OP)                                                  \
    SCAN_LOOP(NAME, u32, uint32_t, FIRST, INT_OP)                                                  \
    SCAN_LOOP(NAME, u64, uint64_t, FIRST, INT_OP)                                                  \
    SCAN_LOOP(NAME, c64, double _Complex, FIRST, OP)                                               \
    SCAN_LOOP(NAME, c128, double _Complex, FIRST, OP)
FLOAT_SCANS(sum, 0, SUM)
FLOAT_SCANS(prod, 1, PROD)
OTHER_SCANS(sum, 0, SUM, SUM)
OTHER_SCANS(prod, 1, PROD, WIDE_PROD)

/* log(exp(a) + exp(b)); infinities and NaN give the values of the formula. */
static double log_add(double a, double b)
{
    const double top = a > b ? a : b, low = a > b ? b : a;

    if (!(top - low < INFINITY)) /* one or both are -inf, +inf or NaN */
        return a != a || b != b ? NAN : top;
    return top + Sleef_log1p_u10(Sleef_exp_u10(low - top));
}
FLOAT_SCANS(logsum, -INFINITY, log_add)

/* Signed integers have the bits of unsigned ones. */
#define NUMBER_LOOPS(NAME)                                                                         \
    {                                                                                              \
        MF_FN_FLOATS(NAME), MF_FN_UNSIGNED(NAME),                                                  \
            MF_FN_COMPLEX(NAME), [MF_DTYPE_I8] = NAME##_u8, [MF_DTYPE_I16] = NAME##_u16,           \
                                 [MF_DTYPE_I32] = NAME##_u32, [MF_DTYPE_I64] = NAME##_u64          \
    }
static scan_fn *const sum_loops[MF_DTYPE_COUNT] = NUMBER_LOOPS(sum);
static scan_fn *const prod_loops[MF_DTYPE_COUNT] = NUMBER_LOOPS(prod);
static scan_fn *const logsum_loops[MF_DTYPE_COUNT] = { MF_FN_FLOATS(logsum) };

typedef struct scan_args {
    bool exclusive, reverse;
} scan_args;

typedef struct scan_job {
    scan_fn *fn;
    const scan_args *args;
    const char *in;
    char *out;
    size_t item;
    int64_t n, inner, tiles, tiles_per_piece, total_tiles;
} scan_job;

static void scan_run_piece(void *ctx, int64_t piece)
{
    const scan_job *j = ctx;
    const int64_t end = (piece + 1) * j->tiles_per_piece;
    const int64_t last = j->args->reverse ? (j->n - 1) * j->inner : 0;
    const int64_t stride = j->args->reverse ? -j->inner : j->inner;

    for (int64_t t = piece * j->tiles_per_piece; t < end && t < j->total_tiles; t++) {
        const int64_t outer = t / j->tiles, col = t % j->tiles * TILE;
        const int64_t cols = j->inner - col < TILE ? j->inner - col : TILE;
        const size_t at = (size_t)(outer * j->n * j->inner + col + last) * j->item;

        j->fn(j->in + at, j->out + at, j->n, stride, cols, j->args->exclusive);
    }
}

static mf_status scan_axis_of(int64_t value, int rank, int *axis)
{
    if (mf_axis_fix(value, rank, axis))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "ScanOp: Expected scan axis in the range [%d, %d), but got %lld", -rank, rank,
                   (long long)value);
}

static mf_status scan_infer(mf_infer *in)
{
    int64_t value;
    int axis = 0;

    MF_TRY(mf_infer_rank(in, 1, 0));
    if (in->in[0].rank >= 0 && mf_infer_int_input(in, 1, &value))
        MF_TRY(scan_axis_of(value, in->in[0].rank, &axis));
    return mf_infer_same(in);
}

static mf_status scan_prepare(mf_prepare *p)
{
    scan_args *args = MF_ARENA_NEW(p->arena, scan_args);

    if (!args)
        return MF_NOMEM("a scan");
    args->exclusive = mf_node_bool(p->node, "exclusive");
    args->reverse = mf_node_bool(p->node, "reverse");
    p->state = args;
    return MF_OK;
}

static mf_status scan_run(mf_kernel *k, scan_fn *const loops[MF_DTYPE_COUNT])
{
    const mf_tensor *x = k->in[0];
    char text[MF_SHAPE_TEXT];
    mf_tensor *out;
    int64_t pieces;
    int axis = 0;

    if (k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "ScanOp: axis must be a scalar, not %s",
                       mf_shape_text(&k->in[1]->shape, text));
    MF_TRY(scan_axis_of(mf_tensor_int_at(k->in[1], 0), x->shape.rank, &axis));
    if (!loops[x->dtype])
        return MF_FAIL(MF_UNIMPLEMENTED, "%s of type %s is not supported", k->node->op_name,
                       mf_dtype_name(x->dtype));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    if (out->count == 0)
        return MF_OK;
    scan_job j = { .fn = loops[x->dtype], .args = k->state, .in = x->data, .out = out->data };

    j.item = mf_dtype_cell(x->dtype);
    j.n = x->shape.dims[axis];
    j.inner = mf_shape_span(&x->shape, axis + 1, x->shape.rank);
    j.tiles = (j.inner + TILE - 1) / TILE;
    j.total_tiles = mf_shape_span(&x->shape, 0, axis) * j.tiles;
    j.tiles_per_piece = 2 * MF_LOOP_GRAIN / (j.n * (j.inner < TILE ? j.inner : TILE));
    j.tiles_per_piece = j.tiles_per_piece < 1 ? 1 : j.tiles_per_piece;
    pieces = (j.total_tiles + j.tiles_per_piece - 1) / j.tiles_per_piece;
    return mf_kernel_parallel(k, pieces, scan_run_piece, &j);
}

static mf_status scan_sum_run(mf_kernel *k)
{
    return scan_run(k, sum_loops);
}
static mf_status scan_prod_run(mf_kernel *k)
{
    return scan_run(k, prod_loops);
}
static mf_status logsum_run(mf_kernel *k)
{
    return scan_run(k, logsum_loops);
}

/* ---- gradients: the same scan in reverse ---- */

static mf_output scan_back(mf_grad *g, const char *op, mf_output x)
{
    return mf_applyf(g->graph, op, MF_IN(x, g->x[1]), "exclusive=%s reverse=%s",
                     mf_node_bool(g->node, "exclusive") ? "true" : "false",
                     mf_node_bool(g->node, "reverse") ? "false" : "true");
}

static mf_status cumsum_grad(mf_grad *g)
{
    g->dx[0] = scan_back(g, "Cumsum", g->dy[0]);
    return MF_OK;
}

static mf_status cumprod_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("DivNoNan", scan_back(g, "Cumsum", MF_G2("Mul", g->y[0], g->dy[0])), g->x[0]);
    return MF_OK;
}

/* The part of the gradient where sign * dy > 0, in logarithms. */
static mf_output logsum_part(mf_grad *g, mf_output dy)
{
    const mf_dtype type = mf_grad_type(dy);
    const double least = type == MF_DTYPE_F64    ? -1.7976931348623157e308
                         : type == MF_DTYPE_F16  ? -65504.0
                         : type == MF_DTYPE_BF16 ? -3.3895313892515355e38
                                                 : -3.4028234663852886e38;
    const mf_output positive = MF_G2("Greater", dy, mf_grad_scalar(g, dy, 0));
    const mf_output log_dy =
        MF_G3("SelectV2", positive, MF_G1("Log", dy), mf_grad_scalar(g, dy, least));
    const mf_output back = scan_back(g, "CumulativeLogsumexp", MF_G2("Sub", log_dy, g->y[0]));

    return MF_G1("Exp", MF_G2("AddV2", back, g->x[0]));
}

static mf_status logsum_grad(mf_grad *g)
{
    g->dx[0] = MF_G2("Sub", logsum_part(g, g->dy[0]), logsum_part(g, MF_G1("Neg", g->dy[0])));
    return MF_OK;
}

/* Lines along the axis are independent. */
static void scan_split(mf_split *s)
{
    int axis;

    if (mf_split_axis(s, 1, s->in[0].rank, &axis))
        mf_split_around(s, 0, 1, axis, true, true);
}

#define SCAN_OP(ROWS, NAME, TYPES, GRAD, RUN, ...)                                                 \
    {                                                                                              \
        .name = NAME, .rows = ROWS,                                                                \
        .def = "(x:T, axis:Tidx) -> (out:T) {exclusive:bool=false, reverse:bool=false, "           \
               "T:type in " TYPES ", Tidx:type=int32 in index}",                                   \
        .flags = MF_OP_INPLACE, .infer = scan_infer, .grad = GRAD, .prepare = scan_prepare,        \
        .run = RUN, .split = scan_split, .samples = MF_SAMPLES(__VA_ARGS__)                        \
    }

const mf_op mf_ops_scan[] = {
    SCAN_OP(mf_rows_axes, "Cumsum", "numbers", cumsum_grad, scan_sum_run, "f32[7] i32[]{0}",
            "f32[3,5] i32[]{0} ; exclusive=true", "f64[3,5] i64[]{-1} ; reverse=true",
            "f32[2,3,4] i32[]{1} ; exclusive=true reverse=true", "i8[9]@-90:90 i32[]{0}",
            "u32[4,2] i32[]{0}", "c64[5] i32[]{0} !nograd", "f16[6] i32[]{0} !nograd",
            "f32[0,3] i32[]{0}", "f32[] i32[]{0} !fails", "f32[3] i32[]{1} !fails",
            "f32[5,300] i32[]{0}", "f32[3,4,5] i32[]{1}"),
    SCAN_OP(NULL, "Cumprod", "numbers", cumprod_grad, scan_prod_run, "f32[6]@0.5:2 i32[]{0}",
            "f64[3,4]@0.5:2 i32[]{0} ; exclusive=true", "f64[3,4]@0.5:2 i64[]{1} ; reverse=true",
            "f32[2,3]@0.5:2 i32[]{1} ; exclusive=true reverse=true", "i16[9]@-9:9 i32[]{0}",
            "c128[4] i32[]{0} !nograd", "f32[0] i32[]{0}"),
    SCAN_OP(NULL, "CumulativeLogsumexp", "floats", logsum_grad, logsum_run, "f32[6] i32[]{0}",
            "f64[3,4] i32[]{0} ; exclusive=true !nograd", "f64[3,4] i64[]{1} ; reverse=true",
            "f32[2,3] i32[]{-1} ; exclusive=true reverse=true !nograd", "f32[0] i32[]{0}",
            "f16[4] i32[]{0} !nograd !notf"),
    { 0 },
};
