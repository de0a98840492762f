/* SPDX-License-Identifier: Apache-2.0 */
/* layer_attention.c - multi-head attention over sequences. Names and shapes of the weights are
 * those of Keras's einsums: kernels [width,heads,dim] and, for the output projection,
 * [heads,dim,width]. */
#include "models/layer.h"

#include <math.h>

static mf_output transpose_heads(mf_layer_call *l, mf_output x)
{
    return mf_apply(l->graph, "Transpose",
                    MF_IN(x, mf_ints(l->graph, (int64_t[]){ 0, 2, 1, 3 }, 4)));
}

/* [n,t,width] -> [n,heads,t,dim] */
static mf_output layer_attention_project(mf_layer_call *l, mf_output x, const char *part,
                                         int64_t heads, int64_t dim)
{
    const mf_shape s = mf_model_shape(l->model, x);
    mf_arena *arena = l->graph->arena;
    mf_output kernel, bias;

    if (s.rank != 3)
        return mf_layer_fail(l, "the %s must be sequences [n,t,c]", part);
    kernel = mf_layer_kernel(l, mf_arena_printf(arena, "%s/kernel", part),
                             &MF_SHAPE(s.dims[2], heads, dim));
    mf_layer_name_dims(l, ",heads,");
    kernel = mf_layer_reshape(l, kernel, (int64_t[]){ s.dims[2], heads * dim }, 2);
    x = mf_layer_matmul(l, x, kernel, heads * dim);
    if (mf_options_bool(&l->o, "use_bias")) {
        bias = mf_layer_weight(l, mf_arena_printf(arena, "%s/bias", part), &MF_SHAPE(heads, dim),
                               mf_options_string(&l->o, "bias_initializer"));
        mf_layer_name_dims(l, "heads,");
        x = mf_apply(l->graph, "BiasAdd",
                     MF_IN(x, mf_layer_reshape(l, bias, (int64_t[]){ heads * dim }, 1)));
    }
    return transpose_heads(l, mf_layer_reshape(l, x, (int64_t[]){ -1, s.dims[1], heads, dim }, 4));
}

/* Added to scores [.., from, to]: masks later positions. */
static mf_output causal_mask(mf_layer_call *l, int64_t from, int64_t to)
{
    mf_tensor t = { 0 };
    mf_output mask = { 0 };

    if (mf_tensor_alloc(&t, MF_DTYPE_F32, &MF_SHAPE(from, to)) != MF_OK)
        return mf_layer_fail(l, "out of memory for a mask of %lld x %lld", (long long)from,
                             (long long)to);
    for (int64_t i = 0; i < from; i++) {
        for (int64_t j = 0; j < to; j++)
            ((float *)t.data)[i * to + j] = j > i ? -1e9f : 0.0f;
    }
    mask = mf_constant(l->graph, &t, NULL);
    mf_tensor_clear(&t);
    return mask;
}

/* [n,heads,t,dim] -> [n,t,width] */
static mf_output project_out(mf_layer_call *l, mf_output x, int64_t heads, int64_t dim)
{
    const int64_t width = l->shape.dims[2];
    mf_output kernel = mf_layer_kernel(l, "attention_output/kernel", &MF_SHAPE(heads, dim, width));

    mf_layer_name_dims(l, "heads,,");
    kernel = mf_layer_reshape(l, kernel, (int64_t[]){ heads * dim, width }, 2);
    x = mf_layer_reshape(l, transpose_heads(l, x), (int64_t[]){ -1, l->shape.dims[1], heads * dim },
                         3);
    x = mf_layer_matmul(l, x, kernel, width);
    if (mf_options_bool(&l->o, "use_bias"))
        x = mf_apply(l->graph, "BiasAdd",
                     MF_IN(x, mf_layer_weight(l, "attention_output/bias", &MF_SHAPE(width),
                                              mf_options_string(&l->o, "bias_initializer"))));
    return x;
}

/* Inputs: query, value, key, as in Keras; default value: query; default key: value. */
static mf_output attention_build(mf_layer_call *l)
{
    const int64_t heads = mf_options_int(&l->o, "num_heads"),
                  dim = mf_options_int(&l->o, "key_dim");
    const int64_t given = mf_options_int(&l->o, "value_dim"), value_dim = given > 0 ? given : dim;
    const mf_output value = l->n_in > 1 ? l->in[1] : l->in[0], key = l->n_in > 2 ? l->in[2] : value;
    mf_output q = layer_attention_project(l, l->in[0], "query", heads, dim),
              k = layer_attention_project(l, key, "key", heads, dim);
    const mf_output v = layer_attention_project(l, value, "value", heads, value_dim);
    mf_output scores;

    q = mf_apply(l->graph, "Mul", MF_IN(q, mf_layer_number(l, 1.0 / sqrt((double)dim))));
    scores = mf_applyf(l->graph, "BatchMatMulV2", MF_IN(q, k), "adj_y=true");
    if (mf_options_bool(&l->o, "use_causal_mask"))
        scores = mf_apply(l->graph, "AddV2",
                          MF_IN(scores, causal_mask(l, l->shape.dims[1],
                                                    mf_model_shape(l->model, value).dims[1])));
    scores = mf_apply(l->graph, "Softmax", MF_IN(scores));
    scores = mf_layer_dropout(l, scores, mf_options_float(&l->o, "dropout"));
    return project_out(l, mf_apply(l->graph, "BatchMatMulV2", MF_IN(scores, v)), heads, value_dim);
}

const mf_layer_kind mf_layers_attention[] = {
    { "MultiHeadAttention",
      "{num_heads: int >= 1, key_dim: int >= 1, value_dim: int = 0, dropout: float = 0.0, "
      "use_causal_mask: bool = false, use_bias: bool = true, " MF_KERNEL_SETTINGS "}",
      1, 3, 3, "attention; inputs: query, value, key", attention_build },
    { 0 },
};
