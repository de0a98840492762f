/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - random tensors from a stream that continues from step to step. */
#include "ops/random/random_util.h"

/* TensorFlow reserves this many blocks per result of a call. */
enum { BLOCKS_PER_RESULT = 256 };

static mf_status random_fill_run(mf_kernel *k, mf_random_kind kind)
{
    uint64_t low = 0, range = 1;
    mf_shape shape;
    mf_tensor *out;
    int64_t count;

    MF_TRY(mf_random_shape(k->in[0], &shape));
    MF_TRY(mf_shape_count(&shape, &count));
    if (kind == MF_RANDOM_RANGE)
        MF_TRY(mf_random_range(k->in[1], k->in[2], count == 0, &low, &range));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    if (out->count == 0)
        return MF_OK;
    return mf_random_fill(k, mf_random_reserve(k, (uint64_t)out->count * BLOCKS_PER_RESULT), kind,
                          low, range, out);
}

static mf_status random_uniform_run(mf_kernel *k)
{
    return random_fill_run(k, MF_RANDOM_UNIFORM);
}
static mf_status random_normal_run(mf_kernel *k)
{
    return random_fill_run(k, MF_RANDOM_NORMAL);
}
static mf_status random_truncated_run(mf_kernel *k)
{
    return random_fill_run(k, MF_RANDOM_TRUNCATED);
}
static mf_status random_range_run(mf_kernel *k)
{
    return random_fill_run(k, MF_RANDOM_RANGE);
}

/* ---- RandomShuffle: the rows in another order ---- */

static mf_status shuffle_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    const int64_t n = x->shape.rank > 0 ? x->shape.dims[0] : 1;
    mf_tensor order = { 0 }, *out;
    int64_t row, *at;
    mf_status st = MF_OK;

    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    if (out->count == 0)
        return MF_OK;
    if (n <= 1)
        return mf_cells_copy(x->dtype, out->data, 0, x->data, 0, x->count);
    MF_TRY(mf_tensor_alloc(&order, MF_DTYPE_I64, &MF_SHAPE(n)));
    at = order.data;
    for (int64_t i = 0; i < n; i++)
        at[i] = i;
    mf_random_draw d = { .gen = mf_random_reserve(k, (uint64_t)(n - 1 + 3) / 4), .used = 4 };

    for (int64_t i = 0; i < n - 1; i++) {
        const int64_t j = i + (int64_t)(mf_random_u32(&d) % (uint32_t)(n - i)), t = at[i];

        at[i] = at[j];
        at[j] = t;
    }
    row = x->count / n;
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = mf_cells_copy(x->dtype, out->data, i * row, x->data, at[i] * row, row);
    mf_tensor_clear(&order);
    return st;
}

#define RANDOM_OP(NAME, DEF, INFER, RUN, ...)                                                      \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = mf_grad_none,                            \
        .prepare = mf_random_prepare, .release = mf_random_release, .run = RUN,                    \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define FLOAT_DEF                                                                                  \
    "(shape:T) -> (output:dtype) {seed:int=0, seed2:int=0, dtype:type in floats, "                 \
    "T:type in index} is_stateful"
#define FLOAT_SAMPLES                                                                              \
    "i32[2]{3,5} ; seed=7 seed2=11 dtype=float", "i64[1]{9} ; seed=1 seed2=-3 dtype=double",       \
        "i32[2]{0,3} ; seed=1 dtype=float", "i32[0] ; seed2=5 dtype=float",                        \
        "i32[1]{17} ; seed=3 dtype=half", "i32[1]{17} ; seed=3 dtype=bfloat16 !tol:1e-2",          \
        "i32[1]{9000} ; seed=123456789012 seed2=9 dtype=float",                                    \
        "i32[1]{4} ; dtype=float !unordered", "i32[1]{-1} ; dtype=float !fails"

const mf_op mf_ops_random[] = {
    RANDOM_OP("RandomUniform", FLOAT_DEF, mf_random_infer, random_uniform_run, FLOAT_SAMPLES),
    RANDOM_OP("RandomStandardNormal", FLOAT_DEF, mf_random_infer, random_normal_run, FLOAT_SAMPLES),
    RANDOM_OP("TruncatedNormal", FLOAT_DEF, mf_random_infer, random_truncated_run, FLOAT_SAMPLES),
    RANDOM_OP("RandomUniformInt",
              "(shape:T, minval:Tout, maxval:Tout) -> (output:Tout) {seed:int=0, seed2:int=0, "
              "Tout:type in index, T:type in index} is_stateful",
              mf_random_infer, random_range_run, "i32[1]{9} i32[]{-3} i32[]{100} ; seed=4",
              "i32[2]{2,3} i64[]{-3} i64[]{10000000000} ; seed=4 seed2=5",
              "i32[1]{0} i32[]{3} i32[]{3} ; seed=1", "i32[1]{2} i32[]{3} i32[]{3} !fails",
              "i32[1]{2} i32[1]{3} i32[]{4} !fails"),
    RANDOM_OP("RandomShuffle",
              "(value:T) -> (output:T) {seed:int=0, seed2:int=0, T:type} is_stateful",
              mf_infer_same, shuffle_run, "f32[7] ; seed=3", "i32[5,2] ; seed=1 seed2=2",
              "str[4] ; seed=9", "f32[0,2] ; seed=1", "bool[] ; seed=1", "c64[3] ; seed=2"),
    { 0 },
};
