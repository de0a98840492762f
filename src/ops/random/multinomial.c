/* SPDX-License-Identifier: Apache-2.0 */
/* multinomial.c - samples class numbers by unnormalised log-probabilities. */
#include "ops/random/random_util.h"

#include <math.h>
#include <sleef.h>

enum { BLOCKS_PER_RESULT = 256 };

static mf_status multinomial_infer(mf_infer *in)
{
    int64_t n = MF_UNKNOWN_DIM;

    MF_TRY(mf_infer_rank(in, 0, 2));
    MF_TRY(mf_infer_rank(in, 1, 0));
    if (mf_infer_int_input(in, 1, &n) && n < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_samples should be non-negative, got %lld",
                       (long long)n);
    in->out[0] = MF_SHAPE(in->in[0].rank == 2 ? in->in[0].dims[0] : MF_UNKNOWN_DIM, n);
    return MF_OK;
}

static mf_status multinomial_check(const mf_kernel *k, int64_t *samples)
{
    const mf_tensor *logits = k->in[0], *n = k->in[1];
    char text[MF_SHAPE_TEXT];

    if (logits->shape.rank != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "logits should be a matrix, got shape %s",
                       mf_shape_text(&logits->shape, text));
    if (n->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_samples should be a scalar, got shape %s",
                       mf_shape_text(&n->shape, text));
    *samples = mf_tensor_int_at(n, 0);
    if (*samples < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_samples should be non-negative, got %lld",
                       (long long)*samples);
    if (logits->shape.dims[1] == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_classes should be positive, got 0");
    return MF_OK;
}

/* Running sums of exp(logit - maximum); values that are not finite have probability 0. */
static double cumulate(const mf_tensor *logits, int64_t row, int64_t classes, double *sums)
{
    double top = -INFINITY, total = 0;

    for (int64_t c = 0; c < classes; c++) {
        const double v = mf_tensor_float_at(logits, row * classes + c);

        if (isfinite(v) && v > top)
            top = v;
    }
    for (int64_t c = 0; c < classes; c++) {
        const double v = mf_tensor_float_at(logits, row * classes + c);

        if (isfinite(v))
            total += Sleef_exp_u10(v - top);
        sums[c] = total;
    }
    return total;
}

/* The first class whose running sum exceeds `value`. */
static int64_t find_class(const double *sums, int64_t classes, double value)
{
    int64_t low = 0, high = classes;

    while (low < high) {
        const int64_t mid = low + (high - low) / 2;

        if (sums[mid] > value)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static mf_status multinomial_draw(mf_kernel *k, mf_philox gen, int64_t samples)
{
    const mf_tensor *logits = k->in[0];
    const int64_t rows = logits->shape.dims[0], classes = logits->shape.dims[1];
    mf_random_draw d = { .gen = gen, .used = 4 };
    mf_tensor sums = { 0 }, *out;
    mf_status st = MF_OK;

    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(rows, samples), &out));
    if (out->count == 0)
        return MF_OK;
    MF_TRY(mf_tensor_alloc(&sums, MF_DTYPE_F64, &MF_SHAPE(classes)));
    for (int64_t row = 0; row < rows && st == MF_OK; row++) {
        const double total = cumulate(logits, row, classes, sums.data);

        for (int64_t s = 0; s < samples; s++) {
            const uint32_t x0 = mf_random_u32(&d), x1 = mf_random_u32(&d);
            const double value = mf_random_to_double(x0, x1) * total;
            const int64_t found = find_class(sums.data, classes, value), at = row * samples + s;

            if (out->dtype == MF_DTYPE_I64)
                ((int64_t *)out->data)[at] = found;
            else
                ((int32_t *)out->data)[at] = (int32_t)found;
        }
        st = mf_stop_after(10 * (classes + 10 * samples));
    }
    mf_tensor_clear(&sums);
    return st;
}

static mf_status stateful_run(mf_kernel *k)
{
    int64_t samples = 0, count;

    MF_TRY(multinomial_check(k, &samples));
    /* The stream advances as if rows had a multiple of four samples, two numbers each. */
    MF_TRY(mf_shape_count(&MF_SHAPE(k->in[0]->shape.dims[0], (samples + 3) / 4 * 4), &count));
    return multinomial_draw(k, mf_random_reserve(k, (uint64_t)count * 2 * BLOCKS_PER_RESULT),
                            samples);
}

static mf_status stateless_run(mf_kernel *k)
{
    int64_t samples = 0;
    mf_philox gen;

    MF_TRY(multinomial_check(k, &samples));
    MF_TRY(mf_random_from_seed(k->in[2], &gen));
    return multinomial_draw(k, gen, samples);
}

const mf_op mf_ops_multinomial[] = {
    { .name = "Multinomial",
      .def = "(logits:T, num_samples:int32) -> (output:output_dtype) {seed:int=0, seed2:int=0, "
             "T:type in reals, output_dtype:type=int64 in index} is_stateful",
      .infer = multinomial_infer,
      .grad = mf_grad_none,
      .prepare = mf_random_prepare,
      .release = mf_random_release,
      .run = stateful_run,
      .samples = MF_SAMPLES("f32[1,3] i32[]{4} ; seed=8", "f64[3,5] i32[]{7} ; seed=1 seed2=2",
                            "i32[2,3] i32[]{3} ; seed=1 output_dtype=int32",
                            "f32[2,3] i32[]{0} ; seed=1", "f32[0,3] i32[]{2} ; seed=1",
                            "f32[2,0] i32[]{2} !fails", "f32[2,2] i32[]{-2} !fails") },
    { .name = "StatelessMultinomial",
      .def = "(logits:T, num_samples:int32, seed:Tseed) -> (output:output_dtype) {T:type in reals, "
             "Tseed:type=int64 in index, output_dtype:type=int64 in index}",
      .infer = multinomial_infer,
      .grad = mf_grad_none,
      .run = stateless_run,
      .samples = MF_SAMPLES("f32[1,3] i32[]{4} i32[2]{1,2}", "f64[3,5] i32[]{7} i64[2]{3,4}",
                            "f16[2,3] i32[]{3} i64[2]{3,4} ; output_dtype=int32") },
    { 0 },
};
