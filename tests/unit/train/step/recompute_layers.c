/* SPDX-License-Identifier: Apache-2.0 */
/* recompute_layers.c - recomputed activations give the same weights. */
#include "compiler/compiler.h"
#include "unit/train/loop/everything.h"

#include <stdio.h>
#include <string.h>

typedef struct training {
    const char *recompute, *precision, *disable;
    int shards, turns;
} training;

static void train(const training *how, char sha[65])
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_trainer *t;

    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "adam",
                                                 .metrics = "accuracy",
                                                 .clip = "global_norm=5",
                                                 .shards = how->shards,
                                                 .micro_batches = how->turns,
                                                 .precision = how->precision,
                                                 .disable = how->disable,
                                                 .recompute = how->recompute,
                                                 .seed = 5 },
                          &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .epochs = 2, .batch = 13 }));
    T_OK(mf_trainer_sha256(t, sha));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

static void check(training how)
{
    static const char *const segments[] = { "layers", "2", "3", "5", "100" };
    char kept[65], again[65];

    train(&how, kept);
    for (int i = 0; i < MF_COUNT(segments); i++) {
        how.recompute = segments[i];
        train(&how, again);
        if (strcmp(kept, again) != 0)
            T_FAIL("%s, %d shards: %s, kept: %s", segments[i], how.shards, again, kept);
    }
}

MF_TEST(train_recompute_gives_the_same_weights)
{
    check((training){ .shards = 1 });
    check((training){ .shards = 5 });
    check((training){ .shards = 4, .turns = 2 });
    check((training){ .shards = 2, .precision = "bf16" });
    check((training){ .shards = 3, .disable = "shards,fuse,cse,schedule,simplify" });
}

/* Only nodes inside the block are copied. */
MF_TEST(train_recompute_can_be_set_per_layer)
{
    mf_model *m;
    mf_trainer *t;
    mf_output x;
    mf_graph *g;
    int block = 0, other = 0;

    T_OK(mf_model_new(&m));
    x = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ 4, 8 }, 2);
    x = mf_layer(m, "TransformerBlock", MF_IN(x), "num_heads=2 units=16 recompute=true");
    x = mf_layer(m, "TransformerBlock", MF_IN(x), "num_heads=2 units=16");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(x), "units=3"));
    T_OK(mf_model_compile(m, &(mf_compile_options){ .optimizer = "sgd" }, &t));
    g = mf_model_graph(m);
    for (int64_t i = 0; i < g->n_nodes; i++) {
        if (strncmp(g->nodes[i]->name, "recompute/", 10) != 0)
            continue;
        block += mf_node_layer(g->nodes[i]) == 1;
        other += mf_node_layer(g->nodes[i]) != 1;
    }
    T_TRUE(block > 0);
    T_EQ(other, 0);
    mf_trainer_free(t);
    mf_model_free(m);
}

MF_TEST(train_recompute_rejects_invalid_settings)
{
    static const char *const wrong[] = { "0", "-1", "all", "2x", "", "99999999999" };

    for (int i = 0; i < MF_COUNT(wrong); i++) {
        mf_model *m = everything();
        mf_trainer *t;

        T_FAILS(MF_INVALID_ARGUMENT, "expected 'layers'",
                mf_model_compile(m, &(mf_compile_options){ .recompute = wrong[i] }, &t));
        mf_model_free(m);
    }
}

/* A step of a model with this many blocks. */
static mf_step_memory memory_of_blocks(int blocks, const char *recompute)
{
    mf_tensor *x, *label;
    mf_dataset *set;
    mf_step_memory is;
    mf_model *m;
    mf_trainer *t;
    mf_output y;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 32, 64, 32 }, 3, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ 32, 64 }, 2, &label));
    memset(mf_tensor_data(x), 0, 32 * 64 * 32 * 4);
    memset(mf_tensor_data(label), 0, 32 * 64 * 4);
    T_OK(mf_dataset_of((const char *[]){ "x", "label" }, (const mf_tensor *[]){ x, label }, 2,
                       &set));
    T_OK(mf_model_new(&m));
    y = mf_model_input(m, "x", MF_DTYPE_F32, (int64_t[]){ 64, 32 }, 2);
    for (int i = 0; i < blocks; i++)
        y = mf_layer(m, "TransformerBlock", MF_IN(y), "num_heads=2 units=128 dropout=0.1");
    mf_model_output(m, mf_layer(m, "Dense", MF_IN(y), "units=3"));
    T_OK(mf_model_compile(
        m,
        &(mf_compile_options){
            .optimizer = "adam", .recompute = recompute, .threads = 1, .shards = 1 },
        &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 2, .batch = 32 }));
    mf_trainer_memory(t, &is);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
    mf_tensor_free(x);
    mf_tensor_free(label);
    return is;
}

static mf_step_memory memory_of(const char *recompute)
{
    return memory_of_blocks(6, recompute);
}

/* For each further block only its input is kept. A reversible block, whose input follows from its
 * output, would save no more than that. */
MF_TEST(train_recompute_keeps_one_value_of_a_block)
{
    const int64_t value = (int64_t)32 * 64 * 32 * (int64_t)sizeof(float);
    const mf_step_memory three = memory_of_blocks(3, "layers"),
                         five = memory_of_blocks(5, "layers");
    const mf_step_memory kept_three = memory_of_blocks(3, NULL),
                         kept_five = memory_of_blocks(5, NULL);

    T_EQ(five.planned - three.planned, 2 * value);
    T_TRUE(kept_five.planned - kept_three.planned > 20 * 2 * value);
}

MF_TEST(train_recompute_reduces_memory_as_planned)
{
    const mf_step_memory kept = memory_of(NULL), again = memory_of("layers");

    printf("# kept: %lld bytes, %lld planned; computed again: %lld, %lld planned\n",
           (long long)kept.step, (long long)kept.planned, (long long)again.step,
           (long long)again.planned);
    T_EQ(kept.variables, again.variables);
    T_TRUE(again.step < kept.step * 2 / 5);
    T_TRUE(kept.planned <= kept.step && kept.planned >= kept.step * 19 / 20);
    T_TRUE(again.planned <= again.step && again.planned >= again.step * 19 / 20);
}
