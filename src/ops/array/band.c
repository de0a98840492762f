/* SPDX-License-Identifier: Apache-2.0 */
/* band.c - MatrixBandPart; Diag and DiagPart, whose diagonals consist of whole tensors. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- MatrixBandPart ---- */

static mf_status band_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 0));
    MF_TRY(mf_infer_rank(in, 2, 0));
    return mf_infer_same(in);
}

/* A row keeps columns [row - lower, row + upper]; negative bounds keep all. */
static mf_status band_rows(const mf_tensor *x, mf_tensor *out, int64_t lower, int64_t upper)
{
    const int64_t rows = x->shape.dims[x->shape.rank - 2], cols = x->shape.dims[x->shape.rank - 1];
    const int64_t all = cols > 0 ? x->count / cols : 0;

    for (int64_t r = 0; r < all; r++) {
        const int64_t i = r % rows;
        int64_t from = lower < 0 || i < lower ? 0 : i - lower;
        int64_t to = upper < 0 || upper >= cols - i ? cols : i + upper + 1;

        from = from < cols ? from : cols;
        to = to < from ? from : to;
        mf_cells_zero(x->dtype, out->data, r * cols, from);
        MF_TRY(mf_cells_copy(x->dtype, out->data, r * cols + from, x->data, r * cols + from,
                             to - from));
        mf_cells_zero(x->dtype, out->data, r * cols + to, cols - to);
    }
    return MF_OK;
}

static mf_status band_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    char text[MF_SHAPE_TEXT];
    int64_t lower, upper;
    mf_tensor *out;

    if (x->shape.rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be at least 2-dim, received shape: %s",
                       mf_shape_text(&x->shape, text));
    MF_TRY(mf_int_read(k->in[1], "num_lower", &lower));
    MF_TRY(mf_int_read(k->in[2], "num_upper", &upper));
    if (lower > x->shape.dims[x->shape.rank - 2])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "num_lower must be negative or less or equal to number of rows (%" PRId64
                       ") got: %" PRId64,
                       x->shape.dims[x->shape.rank - 2], lower);
    if (upper > x->shape.dims[x->shape.rank - 1])
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "num_upper must be negative or less or equal to number of columns (%" PRId64
                       ") got: %" PRId64,
                       x->shape.dims[x->shape.rank - 1], upper);
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    return band_rows(x, out, lower, upper);
}

static mf_status band_grad(mf_grad *g)
{
    g->dx[0] = MF_G3("MatrixBandPart", g->dy[0], g->x[1], g->x[2]);
    return MF_OK;
}

/* ---- Diag, DiagPart ---- */

static mf_status band_diag_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0];
    mf_shape *out = &in->out[0];

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    if (x->rank < 0)
        return MF_OK;
    MF_TRY(mf_rank_check(2 * x->rank));
    out->rank = 2 * x->rank;
    for (int d = 0; d < out->rank; d++)
        out->dims[d] = x->dims[d % x->rank];
    return MF_OK;
}

static mf_status band_diag_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_shape shape = { .rank = 2 * x->shape.rank };
    mf_tensor *out;

    if (x->shape.rank < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input must be at least rank 1, got 0");
    MF_TRY(mf_rank_check(shape.rank));
    for (int d = 0; d < shape.rank; d++)
        shape.dims[d] = x->shape.dims[d % x->shape.rank];
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    mf_cells_zero(out->dtype, out->data, 0, out->count);
    for (int64_t i = 0; i < x->count; i++)
        MF_TRY(mf_cells_copy(x->dtype, out->data, i * (x->count + 1), x->data, i, 1));
    return MF_OK;
}

/* The first half of the dimensions of x, which must equal the second half. */
static mf_status half_shape(const mf_shape *x, mf_shape *out)
{
    char text[MF_SHAPE_TEXT];
    const int half = x->rank / 2;

    out->rank = half;
    if (x->rank % 2 != 0 || x->rank == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The rank of the tensor should be even and positive, "
                       "got shape %s",
                       mf_shape_text(x, text));
    for (int d = 0; d < half; d++) {
        const int64_t a = x->dims[d], b = x->dims[half + d];

        if (a >= 0 && b >= 0 && a != b)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "Invalid shape %s: dimensions %d and %d do not match.",
                           mf_shape_text(x, text), d, half + d);
        out->dims[d] = a >= 0 ? a : b;
    }
    return MF_OK;
}

static mf_status band_part_infer(mf_infer *in)
{
    return in->in[0].rank < 0 ? MF_OK : half_shape(&in->in[0], &in->out[0]);
}

static mf_status band_part_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    mf_shape shape;
    mf_tensor *out;

    MF_TRY(half_shape(&x->shape, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; i < out->count; i++)
        MF_TRY(mf_cells_copy(x->dtype, out->data, i, x->data, i * (out->count + 1), 1));
    return MF_OK;
}

static mf_status band_diag_grad(mf_grad *g)
{
    g->dx[0] = MF_G1("DiagPart", g->dy[0]);
    return MF_OK;
}

static mf_status band_part_grad(mf_grad *g)
{
    g->dx[0] = MF_G1("Diag", g->dy[0]);
    return MF_OK;
}

const mf_op mf_ops_band[] = {
    { .name = "MatrixBandPart",
      .def = "(input:T, num_lower:Tindex, num_upper:Tindex) -> (band:T) {T:type, "
             "Tindex:type=int64 in index}",
      .infer = band_infer,
      .grad = band_grad,
      .run = band_run,
      .samples =
          MF_SAMPLES("f32[3,4] i64[]{1} i64[]{-1}", "f64[2,4,3] i32[]{0} i32[]{1}",
                     "i32[5,2] i64[]{1} i64[]{0}", "f32[3,3] i64[]{-1} i64[]{0}",
                     "f32[0,3] i64[]{0} i64[]{0}", "bool[3,3] i64[]{0} i64[]{0}",
                     "f32[3,3] i64[]{4} i64[]{0} !fails", "f32[3] i64[]{0} i64[]{0} !fails") },
    { .name = "Diag",
      .def = "(diagonal:T) -> (output:T) {T:type in [bfloat16,half,float,double,int32,"
             "int64,complex64,complex128]}",
      .infer = band_diag_infer,
      .grad = band_diag_grad,
      .run = band_diag_run,
      .samples = MF_SAMPLES("f32[3]", "f64[2,3]", "i32[0]", "c64[2]", "f32[] !fails") },
    { .name = "DiagPart",
      .def = "(input:T) -> (diagonal:T) {T:type in [bfloat16,half,float,double,int32,"
             "int64,complex64,complex128]}",
      .infer = band_part_infer,
      .grad = band_part_grad,
      .run = band_part_run,
      .samples =
          MF_SAMPLES("f32[3,3]", "f64[2,3,2,3]", "i32[0,0]", "f32[2,3] !fails", "f32[3] !fails") },
    { 0 },
};
