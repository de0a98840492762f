/* SPDX-License-Identifier: Apache-2.0 */
/* step_flops.c - the operations of a step are those of its products, whatever the shards. */
#include "planner/step_flops.h"

#include "mf_test.h"
#include "models/zoo.h"
#include "planner/planner.h"

enum { BATCH = 16 };

/* For each sample. */
static double flops_of(const char *model, const char *data, int shards)
{
    const mf_compile_options options = { .loss = "sparse_categorical_crossentropy",
                                         .optimizer = "momentum",
                                         .shards = shards,
                                         .threads = 1 };
    mf_arena *arena = mf_arena_new();
    mf_planned_step step;
    mf_trainer *t;
    mf_column *columns;
    mf_model *m;
    int64_t classes;
    double flops = 0;
    int n;

    T_OK(mf_zoo_columns(data, arena, &columns, &n, &classes));
    T_OK(mf_zoo_build(model, columns, n, classes, &m));
    T_OK(mf_model_compile(m, &options, &t));
    T_OK(mf_planned_step_of(t, BATCH, arena, &step));
    T_OK(mf_step_flops(&step, &flops));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_arena_free(arena);
    return flops / BATCH;
}

/* The first layer needs no gradient of its input: two products instead of three. */
MF_TEST(step_flops_of_dense_layers)
{
    static const char data[] = "image=uint8[28,28,1] label=int32[] classes=10";
    const double first = 784 * 128, second = 128 * 10;

    T_EQ(flops_of("mlp", data, 1), 2 * (2 * first + 3 * second));
    T_EQ(flops_of("mlp", data, 8), 2 * (2 * first + 3 * second));
}

MF_TEST(step_flops_of_convolutions)
{
    static const char data[] = "image=uint8[28,28,1] label=int32[] classes=10";
    const double first = 28 * 28 * 32 * 9, second = 14 * 14 * 64 * 9 * 32;
    const double dense = 3136 * 128 + 128 * 10;

    T_EQ(flops_of("fashion-cnn", data, 1), 2 * (2 * first + 3 * second + 3 * dense));
    T_EQ(flops_of("fashion-cnn", data, 4), 2 * (2 * first + 3 * second + 3 * dense));
}

/* Products of batches of matrices: scores of attention, and their use. */
MF_TEST(step_flops_of_attention)
{
    static const char data[] = "tokens=int32[8] label=int32[8] classes=32";
    const double t = 8, w = 16, projections = 4 * t * w * w, attention = 2 * t * t * w;
    const double dense = 2 * t * w * 4 * w, scores = t * w * 32;

    T_EQ(flops_of("transformer layers=1 width=16 heads=2", data, 2),
         2 * 3 * (projections + attention + dense + scores));
}
