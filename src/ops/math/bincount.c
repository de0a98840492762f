/* SPDX-License-Identifier: Apache-2.0 */
/* bincount.c - counting: Bincount, DenseBincount and HistogramFixedWidth. */
#include "ops/control/grad_util.h"

#include <math.h>

/* ---- Bincount: how often (or with what total weight) each small integer occurs ---- */

static mf_status bincount_check_size(int64_t size)
{
    if (size < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "size (%lld) must be non-negative", (long long)size);
    return MF_OK;
}

static mf_status bincount_infer(mf_infer *in)
{
    const bool dense = in->node->op_name[0] == 'D';
    const mf_shape *x = &in->in[0];
    int64_t size = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 1, 0));
    if (mf_infer_int_input(in, 1, &size))
        MF_TRY(bincount_check_size(size));
    if (dense && x->rank > 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be at most rank 2 but is rank %d", x->rank);
    if (dense && x->rank == 2)
        in->out[0] = MF_SHAPE(x->dims[0], size);
    else if (!dense || x->rank >= 0)
        in->out[0] = MF_SHAPE(size);
    return MF_OK;
}

static void bincount_add_weight(mf_tensor *out, int64_t bin, const mf_tensor *weights, int64_t i,
                                bool binary)
{
    const bool weighted = weights->count > 0 && !binary;

    switch ((int)out->dtype) {
    case MF_DTYPE_F32: {
        float *o = (float *)out->data + bin;
        *o = binary ? 1.0f : *o + (weighted ? ((const float *)weights->data)[i] : 1.0f);
        break;
    }
    case MF_DTYPE_F64: {
        double *o = (double *)out->data + bin;
        *o = binary ? 1.0 : *o + (weighted ? ((const double *)weights->data)[i] : 1.0);
        break;
    }
    case MF_DTYPE_I32: {
        uint32_t *o = (uint32_t *)out->data + bin;
        *o = binary ? 1 : *o + (weighted ? ((const uint32_t *)weights->data)[i] : 1);
        break;
    }
    default: {
        uint64_t *o = (uint64_t *)out->data + bin;
        *o = binary ? 1 : *o + (weighted ? ((const uint64_t *)weights->data)[i] : 1);
        break;
    }
    }
}

static mf_status bincount_run(mf_kernel *k)
{
    const bool dense = k->node->op_name[0] == 'D';
    const bool binary = dense && mf_node_bool(k->node, "binary_output");
    const mf_tensor *x = k->in[0], *weights = k->in[2];
    const bool rows = dense && x->shape.rank == 2;
    int64_t size, row_length;
    mf_shape shape;
    mf_tensor *out;

    if (k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be rank 0 but is rank %d",
                       k->in[1]->shape.rank);
    if (dense && x->shape.rank > 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Shape must be at most rank 2 but is rank %d",
                       x->shape.rank);
    size = mf_tensor_int_at(k->in[1], 0);
    MF_TRY(bincount_check_size(size));
    if (weights->count > 0 &&
        (dense ? !mf_shape_equal(&weights->shape, &x->shape) : weights->count != x->count))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "`weights` must be the same shape as `arr` or a length-0 `Tensor`: %lld "
                       "weights for %lld values",
                       (long long)weights->count, (long long)x->count);
    for (int64_t i = 0; i < x->count; i++) {
        if (mf_tensor_int_at(x, i) < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Input arr must be non-negative! (%lld)",
                           (long long)mf_tensor_int_at(x, i));
    }
    shape = rows ? MF_SHAPE(x->shape.dims[0], size) : MF_SHAPE(size);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
    row_length = rows ? x->shape.dims[1] : x->count;
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t value = mf_tensor_int_at(x, i);

        if (value < size) /* larger values are ignored */
            bincount_add_weight(out, i / row_length * size + value, weights, i, binary);
    }
    return MF_OK;
}

/* ---- HistogramFixedWidth: bins of equal width between two limits; the outer ones take the rest
 * ---- */

static mf_status histogram_infer(mf_infer *in)
{
    int64_t n = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 1, 1));
    MF_TRY(mf_infer_rank(in, 2, 0));
    if (mf_infer_int_input(in, 2, &n) && n < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "nbins should be a positive number, but got '%lld'",
                       (long long)n);
    in->out[0] = MF_SHAPE(n);
    return MF_OK;
}

/* b - a, rounded to the type of the values, so that bin borders equal TensorFlow's. */
static double bincount_distance(mf_dtype type, double a, double b)
{
    return type == MF_DTYPE_F32 ? (double)((float)b - (float)a) : b - a;
}

static int64_t bin_of(const mf_tensor *x, int64_t i, double low, double step, int64_t n)
{
    const double at = bincount_distance(x->dtype, low, mf_tensor_float_at(x, i)) / step;

    return at <= 0                ? 0
           : at < (double)(n - 1) ? (int64_t)at
                                  : n - 1; /* also for NaN, from inf/inf
                                            */
}

static mf_status bincount_histogram_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *range = k->in[1];
    double low, high, step;
    mf_tensor *out;
    int64_t n;

    if (range->count != 2 || range->shape.rank != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "value_range should be a vector of 2 elements.");
    if (k->in[2]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "nbins should be a scalar.");
    low = mf_tensor_float_at(range, 0);
    high = mf_tensor_float_at(range, 1);
    n = mf_tensor_int_at(k->in[2], 0);
    if (!(low < high))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "value_range should satisfy value_range[0] < value_range[1], but got "
                       "'[%g, %g]'",
                       low, high);
    if (n < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "nbins should be a positive number, but got '%lld'",
                       (long long)n);
    for (int64_t i = 0; i < x->count; i++) {
        if (isnan(mf_tensor_float_at(x, i)))
            return MF_FAIL(MF_INVALID_ARGUMENT, "Histogram values must not contain NaN");
    }
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(n), &out));
    memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
    step = bincount_distance(x->dtype, low, high) / (double)n;
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t bin = bin_of(x, i, low, step, n);

        if (out->dtype == MF_DTYPE_I32)
            ((uint32_t *)out->data)[bin]++;
        else
            ((int64_t *)out->data)[bin]++;
    }
    return MF_OK;
}

const mf_op mf_ops_bincount[] = {
    { .name = "Bincount",
      .def =
          "(arr:int32, size:int32, weights:T) -> (bins:T) {T:type in [int32,int64,float,double]}",
      .infer = bincount_infer,
      .grad = mf_grad_missing,
      .run = bincount_run,
      .samples =
          MF_SAMPLES("i32[9]@0:6 i32[]{4} f32[0]", "i32[2,3]@0:4 i32[]{4} f64[2,3]",
                     "i32[5]@0:3 i32[]{3} i64[5]", "i32[0] i32[]{2} i32[0]",
                     "i32[3]{1,-1,0} i32[]{4} f32[0] !fails",
                     "i32[3]{1,1,0} i32[]{4} f32[2] !fails", "i32[1]{1} i32[]{-1} f32[0] !fails") },
    { .name = "DenseBincount",
      .def = "(input:Tidx, size:Tidx, weights:T) -> (output:T) {Tidx:type in index, T:type in "
             "[int32,int64,float,double], binary_output:bool=false}",
      .infer = bincount_infer,
      .grad = mf_grad_missing,
      .run = bincount_run,
      .samples = MF_SAMPLES("i32[9]@0:6 i32[]{4} f32[0]", "i64[2,3]@0:4 i64[]{4} f64[2,3]",
                            "i32[2,5]@0:3 i32[]{3} i64[0] ; binary_output=true",
                            "i32[0,3] i32[]{2} i32[0]", "i32[3]{1,-1,0} i32[]{4} f32[0] !fails",
                            "i32[1,1,1]{1} i32[]{2} f32[0] !fails") },
    { .name = "HistogramFixedWidth",
      .def = "(values:T, value_range:T, nbins:int32) -> (out:dtype) {T:type in "
             "[int32,int64,float,double], dtype:type=int32 in index}",
      .infer = histogram_infer,
      .grad = mf_grad_missing,
      .run = bincount_histogram_run,
      .samples =
          MF_SAMPLES("f32[40] f32[2]{-1,1} i32[]{5}", "f64[3,4] f64[2]{-3,3} i32[]{1}",
                     "i32[9] i32[2]{0,4} i32[]{3} ; dtype=int64", "f32[0] f32[2]{0,1} i32[]{2}",
                     "f32[4] f32[2]{1,1} i32[]{2} !fails", "f32[4] f32[2]{0,1} i32[]{0} !fails") },
    { 0 },
};
