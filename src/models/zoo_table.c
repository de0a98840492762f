/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_table.c - models of rows with categorical fields. */
#include "models/zoo.h"

/* Pairs of adjacent fields, "[0,1,1,2,...]". */
static const char *neighbours(mf_zoo_call *z, int64_t fields)
{
    mf_buf text = { 0 };
    const char *out;

    for (int64_t i = 0; i + 1 < fields && mf_options_bool(&z->o, "cross"); i++)
        mf_buf_printf(&text, "%s%lld,%lld", i ? "," : "", (long long)i, (long long)i + 1);
    out = mf_arena_printf(z->model->graph->arena, "[%s]", text.len ? text.data : "");
    mf_buf_deinit(&text);
    return out ? out : "[]";
}

/* The sum of one number per field and pair of fields. */
static mf_output wide_side(mf_zoo_call *z, mf_output ids, int64_t fields)
{
    const long long buckets = (long long)mf_options_int(&z->o, "buckets");
    mf_output x = mf_layer(z->model, "HashedFields", MF_IN(ids), "num_bins=%lld pairs=%s", buckets,
                           neighbours(z, fields));

    x = mf_layer(z->model, "Embedding", MF_IN(x),
                 "name=wide input_dim=%lld output_dim=1 embeddings_initializer=zeros", buckets);
    return mf_apply(z->model->graph, "Sum",
                    MF_IN(x, mf_ints(z->model->graph, (int64_t[]){ 1 }, 1)));
}

static mf_output deep_side(mf_zoo_call *z, mf_output ids, mf_output dense)
{
    const long long buckets = (long long)mf_options_int(&z->o, "buckets");
    const double dropout = mf_options_float(&z->o, "dropout");
    int64_t n;
    const int64_t *units = mf_options_ints(&z->o, "units", &n);
    mf_output x = mf_layer(z->model, "HashedFields", MF_IN(ids), "num_bins=%lld", buckets);

    x = mf_layer(z->model, "Embedding", MF_IN(x),
                 "name=deep input_dim=%lld output_dim=%lld embeddings_initializer=uniform", buckets,
                 (long long)mf_options_int(&z->o, "width"));
    x = mf_layer(z->model, "Flatten", MF_IN(x), "%s", "");
    if (dense.node)
        x = mf_layer(z->model, "Concatenate", MF_IN(x, dense), "%s", "");
    for (int64_t i = 0; i < n; i++) {
        x = mf_layer(z->model, "Dense", MF_IN(x), "units=%lld activation=relu dim=hidden",
                     (long long)units[i]);
        if (dropout > 0.0)
            x = mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", dropout);
    }
    return mf_layer(z->model, "Dense", MF_IN(x), "units=1");
}

/* Cheng et al. 2016: a linear model of crossed features memorizes, a deep one generalizes. */
static mf_output wide_deep_build(mf_zoo_call *z)
{
    const mf_column *numbers = mf_zoo_column(z, "dense");
    mf_output ids = mf_zoo_input(z, "ids", 1, 1), dense = { 0 };

    if (!ids.node)
        return ids;
    if (numbers) {
        dense = mf_zoo_input(z, "dense", 1, 1);
        if (numbers->dtype != MF_DTYPE_F32)
            dense = mf_layer(z->model, "Rescaling", MF_IN(dense), "scale=1.0");
    }
    return mf_layer(
        z->model, "Add",
        MF_IN(wide_side(z, ids, mf_zoo_column(z, "ids")->dims[0]), deep_side(z, ids, dense)), "%s",
        "");
}

const mf_zoo_kind mf_zoo_table[] = {
    { "wide-deep",
      "{buckets: int >= 1 = 100000, width: int >= 1 = 16, units: list(int) = [128,64], "
      "cross: bool = true, dropout: float = 0.0}",
      "hashed crosses of fields, and embeddings with dense layers (Cheng et al. 2016)",
      "ids of integers [fields], optionally dense of numbers [d], label 0 or 1",
      "ids=int64[8] dense=float[4] label=int32[]", "binary_crossentropy", "accuracy, auc",
      wide_deep_build },
    { 0 },
};
