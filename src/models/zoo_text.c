/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_text.c - models of sequences of tokens. */
#include "models/zoo.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs and outputs ---- */

/* Every token has a label of its own: a language model. */
static bool is_language_model(const mf_zoo_call *z)
{
    const mf_column *tokens = mf_zoo_column(z, "tokens"), *label = mf_zoo_column(z, "label");

    return tokens && label && label->rank == 1 && tokens->rank == 1 &&
           label->dims[0] == tokens->dims[0];
}

/* Number of distinct tokens. */
static int64_t vocabulary(const mf_zoo_call *z)
{
    if (!mf_options_given(&z->o, "vocabulary") && is_language_model(z) && z->classes > 0)
        return z->classes;
    return mf_options_int(&z->o, "vocabulary");
}

static mf_output embedded(mf_zoo_call *z, const char *initializer)
{
    const mf_output tokens = mf_zoo_input(z, "tokens", 1, 1);

    return mf_layer(z->model, "Embedding", MF_IN(tokens),
                    "input_dim=%lld output_dim=%lld embeddings_initializer='%s'",
                    (long long)vocabulary(z), (long long)mf_options_int(&z->o, "width"),
                    initializer);
}

static mf_output dropped(mf_zoo_call *z, mf_output x)
{
    return mf_layer(z->model, "Dropout", MF_IN(x), "rate=%.9g", mf_options_float(&z->o, "dropout"));
}

/* ---- models ---- */

static mf_output zoo_text_lstm_build(mf_zoo_call *z)
{
    const bool places = is_language_model(z);
    mf_output x = embedded(z, "uniform");

    x = mf_layer(z->model, "LSTM", MF_IN(x), "units=%lld return_sequences=%s",
                 (long long)mf_options_int(&z->o, "units"), places ? "true" : "false");
    x = dropped(z, x);
    if (places)
        return mf_layer(z->model, "Dense", MF_IN(x), "units=%lld dim=vocab",
                        (long long)vocabulary(z));
    return mf_zoo_scores(z, x, false);
}

/* Kim 2014: convolutions with several kernel sizes in parallel. */
static mf_output text_cnn_build(mf_zoo_call *z)
{
    enum { MOST = 8 };
    int64_t n;
    const int64_t *sizes = mf_options_ints(&z->o, "sizes", &n);
    mf_output x = embedded(z, "uniform"), found[MOST + 1], y;

    if (n < 1 || n > MOST)
        return mf_zoo_fail(z, "1 to %d kernel sizes", MOST);
    for (int64_t i = 0; i < n; i++) {
        y = mf_layer(z->model, "Conv1D", MF_IN(x),
                     "filters=%lld kernel_size=%lld activation=relu padding=same",
                     (long long)mf_options_int(&z->o, "filters"), (long long)sizes[i]);
        found[i] = mf_layer(z->model, "GlobalMaxPooling1D", MF_IN(y), "%s", "");
    }
    found[n] = (mf_output)MF_END;
    y = n > 1 ? mf_layer(z->model, "Concatenate", found, "%s", "") : found[0];
    return mf_zoo_scores(z, dropped(z, y), false);
}

/* Every second block has a mixture of experts. */
static const char *experts_of(const mf_zoo_call *z, int64_t block, char text[], size_t size)
{
    if (strcmp(z->kind->name, "moe-transformer") != 0 || block % 2 == 0)
        return "";
    (void)snprintf(text, size, "experts=%lld top=%lld capacity_factor=%.9g balance=%.9g",
                   (long long)mf_options_int(&z->o, "experts"),
                   (long long)mf_options_int(&z->o, "top"),
                   mf_options_float(&z->o, "capacity_factor"), mf_options_float(&z->o, "balance"));
    return text;
}

/* If every token has a label, each is predicted from those before it (GPT). With one label, the
 * mean over the positions is classified (a small BERT). */
static mf_output transformer_build(mf_zoo_call *z)
{
    const bool places = is_language_model(z);
    const bool causal =
        mf_options_given(&z->o, "causal") ? mf_options_bool(&z->o, "causal") : places;
    const int64_t width = mf_options_int(&z->o, "width");
    mf_output x = embedded(z, "random_normal stddev=0.02");

    x = mf_layer(z->model, "PositionEmbedding", MF_IN(x),
                 "initializer='random_normal stddev=0.02'");
    x = dropped(z, x);
    for (int64_t i = 0; i < mf_options_int(&z->o, "layers"); i++) {
        char experts[160];

        x = mf_layer(z->model, "TransformerBlock", MF_IN(x),
                     "num_heads=%lld units=%lld dropout=%.9g use_causal_mask=%s %s",
                     (long long)mf_options_int(&z->o, "heads"), 4 * (long long)width,
                     mf_options_float(&z->o, "dropout"), causal ? "true" : "false",
                     experts_of(z, i, experts, sizeof experts));
    }
    x = mf_layer(z->model, "LayerNormalization", MF_IN(x), "epsilon=0.00001");
    if (places)
        return mf_layer(z->model, "Dense", MF_IN(x), "units=%lld use_bias=false dim=vocab",
                        (long long)vocabulary(z));
    return mf_zoo_scores(z, mf_layer(z->model, "GlobalAveragePooling1D", MF_IN(x), "%s", ""),
                         false);
}

/* ---- the table ---- */

#define TOKENS "tokens of integers [t], label a class"
#define OR_TOKENS ", or the tokens that follow [t]"
#define REVIEWS "tokens=int32[64] label=int32[] classes=2"
#define CLASSES "sparse_categorical_crossentropy", "accuracy"
#define WORDS "{vocabulary: int >= 1 = 20000, "

const mf_zoo_kind mf_zoo_text[] = {
    { "lstm", WORDS "width: int >= 1 = 64, units: int >= 1 = 64, dropout: float = 0.2}",
      "embedding and LSTM", TOKENS OR_TOKENS, REVIEWS, CLASSES, zoo_text_lstm_build },
    { "text-cnn",
      WORDS "width: int >= 1 = 64, filters: int >= 1 = 64, sizes: list(int) = [3,4,5], "
            "dropout: float = 0.5}",
      "embedding and convolutions of three kernel sizes (Kim 2014)", TOKENS, REVIEWS, CLASSES,
      text_cnn_build },
    { "transformer",
      WORDS "layers: int >= 1 = 2, width: int >= 1 = 64, heads: int >= 1 = 4, "
            "dropout: float = 0.1, causal: bool = true}",
      "small GPT if every token has a label, otherwise small BERT", TOKENS OR_TOKENS,
      "tokens=int32[64] label=int32[64] classes=256", "sparse_categorical_crossentropy",
      "accuracy, perplexity", transformer_build },
    { "moe-transformer",
      WORDS "layers: int >= 1 = 2, width: int >= 1 = 64, heads: int >= 1 = 4, "
            "experts: int >= 1 = 4, top: int >= 1 = 2, capacity_factor: float = 1.25, "
            "balance: float = 0.01, dropout: float = 0.1, causal: bool = true}",
      "transformer in which every second block has a mixture of experts", TOKENS OR_TOKENS,
      "tokens=int32[64] label=int32[64] classes=256", "sparse_categorical_crossentropy",
      "accuracy, perplexity", transformer_build },
    { 0 },
};
