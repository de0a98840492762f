/* SPDX-License-Identifier: Apache-2.0 */
/* stateless_random.c - random tensors that are pure functions of a seed, or of a key and a counter.
 */
#include "ops/random/random_util.h"

/* TensorFlow's ids of the algorithms; automatic selection is always Philox. */
enum { ALG_PHILOX = 1, ALG_THREEFRY = 2, ALG_AUTO = 3 };

/* The stream of key, counter and algorithm, inputs 1 to 3. */
static mf_status stream_from_key(const mf_kernel *k, bool empty, mf_philox *out)
{
    const mf_tensor *key = k->in[1], *counter = k->in[2], *alg = k->in[3];
    char text[MF_SHAPE_TEXT];
    uint64_t id;

    if (alg->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input 3 (0-based) must have shape [], not %s",
                       mf_shape_text(&alg->shape, text));
    id = (uint64_t)mf_tensor_int_at(alg, 0);
    if (id != ALG_PHILOX && id != ALG_AUTO && !empty) /* as in TensorFlow: not checked if the output
                                                         is empty */
        return MF_FAIL(MF_INVALID_ARGUMENT, "Unsupported algorithm id: %lld", (long long)id);
    if (key->shape.rank != 1 || key->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "key must have shape [1], not %s",
                       mf_shape_text(&key->shape, text));
    if (counter->shape.rank != 1 || counter->count < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "counter must be a vector with length at least 2; got shape: %s",
                       mf_shape_text(&counter->shape, text));
    *out = mf_philox_init(((const uint64_t *)key->data)[0], ((const uint64_t *)counter->data)[1]);
    out->counter[0] = (uint32_t)((const uint64_t *)counter->data)[0];
    out->counter[1] = (uint32_t)(((const uint64_t *)counter->data)[0] >> 32);
    return MF_OK;
}

/* Inputs: shape and seed, or shape, key, counter and algorithm; then the limits of a range. */
static mf_status stateless_random_fill_run(mf_kernel *k, mf_random_kind kind)
{
    const int limits = kind == MF_RANDOM_RANGE ? 2 : 0;
    uint64_t low = 0, range = 1;
    mf_philox gen;
    mf_shape shape;
    mf_tensor *out;
    int64_t count;

    MF_TRY(mf_random_shape(k->in[0], &shape));
    MF_TRY(mf_shape_count(&shape, &count));
    if (k->n_in - limits == 2)
        MF_TRY(mf_random_from_seed(k->in[1], &gen));
    else
        MF_TRY(stream_from_key(k, count == 0, &gen));
    if (limits)
        MF_TRY(mf_random_range(k->in[k->n_in - 2], k->in[k->n_in - 1], count == 0, &low, &range));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    return mf_random_fill(k, gen, kind, low, range, out);
}

static mf_status stateless_random_uniform_run(mf_kernel *k)
{
    return stateless_random_fill_run(k, MF_RANDOM_UNIFORM);
}
static mf_status stateless_random_normal_run(mf_kernel *k)
{
    return stateless_random_fill_run(k, MF_RANDOM_NORMAL);
}
static mf_status stateless_random_truncated_run(mf_kernel *k)
{
    return stateless_random_fill_run(k, MF_RANDOM_TRUNCATED);
}
static mf_status stateless_random_range_run(mf_kernel *k)
{
    return stateless_random_fill_run(k, MF_RANDOM_RANGE);
}
static mf_status bits_run(mf_kernel *k)
{
    return stateless_random_fill_run(k, MF_RANDOM_BITS);
}

/* ---- seeds to keys ---- */

static mf_status key_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 1));
    in->out[0] = MF_SHAPE(1);
    in->out[1] = MF_SHAPE(2);
    if (in->n_out == 3)
        in->out[2] = MF_SCALAR;
    return MF_OK;
}

static mf_status put_alg(mf_kernel *k, int i)
{
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, i, &MF_SCALAR, &out));
    *(int32_t *)out->data = ALG_PHILOX;
    return MF_OK;
}

static mf_status key_run(mf_kernel *k)
{
    mf_tensor *key, *counter;
    mf_philox gen;

    MF_TRY(mf_random_from_seed(k->in[0], &gen));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(1), &key));
    MF_TRY(mf_kernel_out(k, 1, &MF_SHAPE(2), &counter));
    ((uint64_t *)key->data)[0] = (uint64_t)gen.key[1] << 32 | gen.key[0];
    ((uint64_t *)counter->data)[0] = 0;
    ((uint64_t *)counter->data)[1] = (uint64_t)gen.counter[3] << 32 | gen.counter[2];
    return k->n_out == 3 ? put_alg(k, 2) : MF_OK;
}

static mf_status alg_run(mf_kernel *k)
{
    return put_alg(k, 0);
}

#define STATELESS_OP(NAME, DEF, RUN, ...)                                                          \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_random_infer, .grad = mf_grad_none, .run = RUN,      \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define FLOATS "dtype:type=float in floats, "
#define BITS "dtype:type=uint64 in [int32,int64,uint32,uint64], "
#define BY_SEED(TYPES, SEEDS)                                                                      \
    "(shape:T, seed:Tseed) -> (output:dtype) {" TYPES "T:type=int32 in index, Tseed:type=int64 "   \
    "in " SEEDS "}"
#define BY_KEY(TYPES)                                                                              \
    "(shape:Tshape, key:uint64, counter:uint64, alg:int32) -> (output:dtype) {" TYPES              \
    "Tshape:type=int32 in index}"
#define SEED_SAMPLES                                                                               \
    "i32[2]{3,5} i32[2]{1,2}", "i64[1]{9} i64[2]{-1,7} ; dtype=double", "i32[1]{0} i32[2]{3,4}",   \
        "i32[0] i32[2]{3,4}", "i32[1]{7} i64[2]{5,6} ; dtype=half", "i32[1]{9000} i64[2]{5,6}",    \
        "i32[1]{3} i32[3]{1,2,3} !fails", "i32[1]{-3} i32[2]{1,2} !fails"
#define KEY_SAMPLES                                                                                \
    "i32[2]{3,5} u64[1]{77} u64[2]{1,2} i32[]{1}",                                                 \
        "i64[1]{7} u64[1]{7} u64[3]{1,2,3} i32[]{3} ; dtype=double",                               \
        "i32[1]{0} u64[1]{77} u64[2]{1,2} i32[]{1}",                                               \
        "i32[1]{5} u64[1]{77} u64[2]{1,2} i32[]{1} ; dtype=bfloat16 !tol:1e-2",                    \
        "i32[1]{5} u64[2]{77,1} u64[2]{1,2} i32[]{1} !fails",                                      \
        "i32[1]{5} u64[1]{77} u64[2]{1,2} i32[]{2} !fails"

const mf_op mf_ops_stateless_random[] = {
    STATELESS_OP("StatelessRandomUniform", BY_SEED(FLOATS, "index"), stateless_random_uniform_run,
                 SEED_SAMPLES),
    STATELESS_OP("StatelessRandomNormal", BY_SEED(FLOATS, "index"), stateless_random_normal_run,
                 SEED_SAMPLES),
    STATELESS_OP("StatelessTruncatedNormal", BY_SEED(FLOATS, "index"),
                 stateless_random_truncated_run, SEED_SAMPLES),
    STATELESS_OP("StatelessRandomUniformFullInt", BY_SEED(BITS, "[int32,int64,uint32,uint64]"),
                 bits_run, "i32[1]{9} i32[2]{1,2} ; dtype=int32", "i32[2]{2,3} u64[2]{1,2} !fails",
                 "i32[1]{3} i64[2]{1,2} ; dtype=uint32", "i32[1]{3} i64[2]{1,2} ; dtype=int64"),
    STATELESS_OP("StatelessRandomUniformInt",
                 "(shape:T, seed:Tseed, minval:dtype, maxval:dtype) -> (output:dtype) {dtype:type "
                 "in index, T:type in index, Tseed:type=int64 in index}",
                 stateless_random_range_run, "i32[1]{9} i32[2]{1,2} i32[]{-5} i32[]{50}",
                 "i32[1]{3} i64[2]{1,2} i64[]{-5} i64[]{500000000000}",
                 "i32[1]{3} i64[2]{1,2} i64[]{5} i64[]{5} !fails"),
    STATELESS_OP("StatelessRandomUniformV2", BY_KEY(FLOATS), stateless_random_uniform_run,
                 KEY_SAMPLES),
    STATELESS_OP("StatelessRandomNormalV2", BY_KEY(FLOATS), stateless_random_normal_run,
                 KEY_SAMPLES),
    STATELESS_OP("StatelessTruncatedNormalV2", BY_KEY(FLOATS), stateless_random_truncated_run,
                 KEY_SAMPLES),
    STATELESS_OP("StatelessRandomUniformFullIntV2", BY_KEY(BITS), bits_run,
                 "i32[1]{9} u64[1]{7} u64[2]{1,2} i32[]{1} ; dtype=int32",
                 "i32[1]{9} u64[1]{7} u64[2]{1,2} i32[]{1}"),
    STATELESS_OP(
        "StatelessRandomUniformIntV2",
        "(shape:Tshape, key:uint64, counter:uint64, alg:int32, minval:dtype, maxval:dtype) "
        "-> (output:dtype) {dtype:type in [int32,int64,uint32,uint64], "
        "Tshape:type=int32 in index}",
        stateless_random_range_run, "i32[1]{9} u64[1]{7} u64[2]{1,2} i32[]{1} i32[]{-7} i32[]{9}",
        "i32[1]{5} u64[1]{7} u64[2]{1,2} i32[]{3} u64[]{1} u64[]{9} !notf",
        "i32[1]{5} u64[1]{7} u64[2]{1,2} i32[]{3} i32[]{1} i32[]{0} !fails"),
    { .name = "StatelessRandomGetKeyCounter",
      .def = "(seed:Tseed) -> (key:uint64, counter:uint64) {Tseed:type=int64 in index}",
      .infer = key_infer,
      .grad = mf_grad_missing,
      .run = key_run,
      .samples = MF_SAMPLES("i32[2]{1,2}", "i64[2]{-9,5}", "i32[3]{1,2,3} !fails") },
    { .name = "StatelessRandomGetKeyCounterAlg",
      .def = "(seed:Tseed) -> (key:uint64, counter:uint64, alg:int32) {Tseed:type=int64 in index}",
      .infer = key_infer,
      .grad = mf_grad_missing,
      .run = key_run,
      .samples = MF_SAMPLES("i32[2]{1,2}", "i64[2]{-9,5}") },
    { .name = "StatelessRandomGetAlg",
      .def = "() -> (alg:int32) {} is_stateful",
      .infer = mf_infer_scalar,
      .grad = mf_grad_missing,
      .run = alg_run,
      .samples = MF_SAMPLES("") },
    { 0 },
};
