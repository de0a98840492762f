/* SPDX-License-Identifier: Apache-2.0 */
/* layer_embedding.c - embeddings of integers, and hashing of features to integers. */
#include "models/layer.h"

#include <string.h>

static mf_dtype layer_embedding_type_of(mf_output x)
{
    return x.node->out_types[x.port];
}

static mf_output layer_embedding_cast(mf_layer_call *l, mf_output x, mf_dtype dtype)
{
    return layer_embedding_type_of(x) == dtype
               ? x
               : mf_applyf(l->graph, "Cast", MF_IN(x), "DstT=%s", mf_dtype_name(dtype));
}

static mf_output embedding_build(mf_layer_call *l)
{
    const int64_t rows = mf_options_int(&l->o, "input_dim"),
                  dim = mf_options_int(&l->o, "output_dim");
    const bool wide = layer_embedding_type_of(l->in[0]) == MF_DTYPE_I64;
    const mf_output out = mf_layer_lookup(
        l, "embeddings", &MF_SHAPE(rows, dim), mf_options_string(&l->o, "embeddings_initializer"),
        layer_embedding_cast(l, l->in[0], wide ? MF_DTYPE_I64 : MF_DTYPE_I32));

    mf_layer_name_dims(l, "vocab,");
    return out;
}

static mf_output position_build(mf_layer_call *l)
{
    const mf_shape shape = MF_SHAPE(l->shape.dims[1], l->shape.dims[2]);
    const mf_output place =
        mf_layer_weight(l, "embeddings", &shape, mf_options_string(&l->o, "initializer"));

    return mf_apply(l->graph, "AddV2", MF_IN(l->in[0], place));
}

/* ---- hashing ---- */

static mf_output hashing_build(mf_layer_call *l)
{
    const mf_dtype dtype = layer_embedding_type_of(l->in[0]);
    mf_output x = l->in[0];

    if (dtype == MF_DTYPE_F32 || dtype == MF_DTYPE_F64) /* as Keras does */
        x = layer_embedding_cast(l, x, MF_DTYPE_I64);
    if (dtype != MF_DTYPE_STRING)
        x = mf_apply(l->graph, "AsString", MF_IN(x));
    return mf_applyf(l->graph, "StringToHashBucketFast", MF_IN(x), "num_buckets=%lld",
                     (long long)mf_options_int(&l->o, "num_bins"));
}

static mf_output unsigned_constant(mf_layer_call *l, const uint64_t *values, int64_t n)
{
    mf_tensor t = { 0 };
    mf_output c = { 0 };

    if (mf_tensor_alloc(&t, MF_DTYPE_U64, &MF_SHAPE(n)) != MF_OK)
        return mf_layer_fail(l, "out of memory");
    memcpy(t.data, values, (size_t)n * sizeof *values);
    c = mf_constant(l->graph, &t, NULL);
    mf_tensor_clear(&t);
    return c;
}

static mf_output layer_embedding_two(mf_layer_call *l, const char *op, mf_output a, mf_output b)
{
    return mf_apply(l->graph, op, MF_IN(a, b));
}

/* x ^= x >> shift; x *= factor */
static mf_output xor_shift_multiply(mf_layer_call *l, mf_output x, uint64_t shift, uint64_t factor)
{
    x = layer_embedding_two(
        l, "BitwiseXor", x,
        layer_embedding_two(l, "RightShift", x, unsigned_constant(l, &shift, 1)));
    return factor == 1 ? x : layer_embedding_two(l, "Mul", x, unsigned_constant(l, &factor, 1));
}

/* The finalizer of splitmix64: every bit of the result depends on every bit of x. */
static mf_output layer_embedding_mix(mf_layer_call *l, mf_output x)
{
    x = xor_shift_multiply(l, x, 30, UINT64_C(0xbf58476d1ce4e5b9));
    x = xor_shift_multiply(l, x, 27, UINT64_C(0x94d049bb133111eb));
    return xor_shift_multiply(l, x, 31, 1);
}

static mf_output column(mf_layer_call *l, mf_output x, const int64_t *which, int64_t n)
{
    return mf_apply(l->graph, "GatherV2",
                    MF_IN(x, mf_ints(l->graph, which, n), mf_scalar(l->graph, MF_DTYPE_I32, 1)));
}

/* Pairs a[0],b[0],a[1],b[1]...: mix(mix(x_a) + x_b), so (1,2) differs from (2,1). */
static mf_output crossed(mf_layer_call *l, mf_output x, const int64_t *pairs, int64_t n)
{
    int64_t *side = MF_ARENA_ARRAY(l->graph->arena, int64_t, n);
    mf_output left;

    if (!side)
        return mf_layer_fail(l, "out of memory");
    for (int64_t i = 0; i < n; i++)
        side[i / 2 + (i % 2) * (n / 2)] = pairs[i];
    left = layer_embedding_mix(l, column(l, x, side, n / 2));
    return layer_embedding_mix(
        l, layer_embedding_two(l, "AddV2", left, column(l, x, side + n / 2, n / 2)));
}

/* The index of the field is part of the hash, so all fields can share one table. */
static mf_output fields_build(mf_layer_call *l)
{
    const int64_t fields = l->shape.dims[1];
    const uint64_t bins = (uint64_t)mf_options_int(&l->o, "num_bins");
    int64_t n;
    const int64_t *pairs = mf_options_ints(&l->o, "pairs", &n);
    uint64_t *salt = MF_ARENA_ARRAY(l->graph->arena, uint64_t, fields);
    mf_output x, pair;

    if (!salt || l->shape.rank != 2 || layer_embedding_type_of(l->in[0]) == MF_DTYPE_STRING)
        return mf_layer_fail(l, "its input must be integers [n,fields]");
    for (int64_t i = 0; i < n; i++) {
        if (n % 2 != 0 || pairs[i] < 0 || pairs[i] >= fields)
            return mf_layer_fail(l, "pairs must have two fields each, from 0 to %lld",
                                 (long long)fields - 1);
    }
    for (int64_t i = 0; i < fields; i++)
        salt[i] = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = layer_embedding_cast(l, layer_embedding_cast(l, l->in[0], MF_DTYPE_I64), MF_DTYPE_U64);
    x = layer_embedding_mix(l,
                            layer_embedding_two(l, "AddV2", x, unsigned_constant(l, salt, fields)));
    if (n > 0) {
        pair = crossed(l, x, pairs, n);
        x = mf_apply(l->graph, "ConcatV2", MF_IN(x, pair, mf_scalar(l->graph, MF_DTYPE_I32, 1)));
    }
    return layer_embedding_cast(
        l, layer_embedding_two(l, "FloorMod", x, unsigned_constant(l, &bins, 1)), MF_DTYPE_I64);
}

/* ---- one-hot and multi-hot ---- */

static mf_output category_build(mf_layer_call *l)
{
    const char *mode = mf_options_string(&l->o, "output_mode");
    const mf_output depth =
        mf_scalar(l->graph, MF_DTYPE_I32, (double)mf_options_int(&l->o, "num_tokens"));
    const int64_t last = l->shape.rank - 1;
    mf_output x = layer_embedding_cast(l, l->in[0], MF_DTYPE_I64);

    x = mf_apply(l->graph, "OneHot",
                 MF_IN(x, depth, mf_layer_number(l, 1.0), mf_layer_number(l, 0.0)));
    if (strcmp(mode, "one_hot") == 0 || last == 0)
        return x;
    return mf_layer_reduce(l, strcmp(mode, "count") == 0 ? "Sum" : "Max", x, &last, 1, false);
}

const mf_layer_kind mf_layers_embedding[] = {
    { "Embedding",
      "{input_dim: int >= 1, output_dim: int >= 1, embeddings_initializer: string = 'uniform'}", 1,
      1, 1, "rows of a table, indexed by integers", embedding_build },
    { "PositionEmbedding", "{initializer: string = 'uniform'}", 1, 1, 3,
      "adds a learned vector for each position", position_build },
    { "Hashing", "{num_bins: int >= 1}", 1, 1, 1,
      "hashes integers or strings to bins (FarmHash of their text, as Keras)", hashing_build },
    { "HashedFields", "{num_bins: int >= 1, pairs: list(int) = []}", 1, 1, 2,
      "hashes integers [n,fields], and pairs of fields, to rows of one table (splitmix64)",
      fields_build },
    { "CategoryEncoding",
      "{num_tokens: int >= 1, output_mode: string in ['multi_hot','one_hot','count'] = "
      "'multi_hot'}",
      1, 1, 1, "integers to vectors of 0 and 1", category_build },
    { 0 },
};
