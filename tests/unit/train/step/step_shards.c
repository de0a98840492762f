/* SPDX-License-Identifier: Apache-2.0 */
/* step_shards.c - weights do not depend on threads or on how shards are grouped into runs. */
#include "compiler/compiler.h"
#include "unit/train/loop/everything.h"

#include <string.h>

/* Trains for some steps, with a last batch that is not full. */
static void train_in(int turns, int threads, int shards, int batch, const char *disable,
                     char sha[65])
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_trainer *t;

    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = "momentum learning_rate=0.05",
                                                 .metrics = "accuracy",
                                                 .clip = "global_norm=5",
                                                 .shards = shards,
                                                 .micro_batches = turns,
                                                 .threads = threads,
                                                 .seed = 5,
                                                 .disable = disable },
                          &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .epochs = 2, .batch = batch }));
    T_OK(mf_trainer_sha256(t, sha));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

static void train(int threads, int shards, int batch, const char *disable, char sha[65])
{
    train_in(1, threads, shards, batch, disable, sha);
}

MF_TEST(train_micro_batches_give_the_same_bits)
{
    static const int shards[] = { 2, 7, 8 }, batches[] = { 5, 16, 50 };

    for (int i = 0; i < MF_COUNT(shards); i++) {
        for (int k = 0; k < MF_COUNT(batches); k++) {
            char at_once[65], in_turns[65];

            train(2, shards[i], batches[k], NULL, at_once);
            for (int turns = 2; turns <= 8; turns += 3) {
                train_in(turns, 2, shards[i], batches[k], NULL, in_turns);
                if (strcmp(at_once, in_turns) != 0)
                    T_FAIL("%d shards of %d samples in %d turns: %s, at once: %s", shards[i],
                           batches[k], turns, in_turns, at_once);
            }
        }
    }
}

MF_TEST(train_weights_do_not_depend_on_threads)
{
    char first[65], sha[65];

    train(1, 5, 16, NULL, first);
    for (int threads = 2; threads <= 4; threads++) {
        train(threads, 5, 16, NULL, sha);
        T_STREQ(sha, first);
    }
}

MF_TEST(train_weights_do_not_depend_on_any_exact_pass)
{
    char first[65], sha[65];
    int n;
    const mf_pass *passes = mf_passes(&n);

    train(2, 5, 16, NULL, first);
    for (int i = 0; i < n; i++) {
        if (!passes[i].exact || strcmp(passes[i].name, "inline") == 0)
            continue;
        train(2, 5, 16, passes[i].name, sha);
        if (strcmp(sha, first) != 0)
            T_FAIL("without the pass %s the weights are %s, not %s", passes[i].name, sha, first);
    }
}

MF_TEST(train_shards_in_one_or_several_runs_give_the_same_bits_for_any_batch)
{
    static const int shards[] = { 1, 2, 3, 7, 8, 16, 64 }, batches[] = { 1, 3, 16, 50 };

    for (int i = 0; i < MF_COUNT(shards); i++) {
        for (int k = 0; k < MF_COUNT(batches); k++) {
            char together[65], apart[65];

            train(2, shards[i], batches[k], NULL, together);
            train(2, shards[i], batches[k], "shards", apart);
            if (strcmp(together, apart) != 0)
                T_FAIL("%d shards of %d samples: %s together, %s apart", shards[i], batches[k],
                       together, apart);
        }
    }
}

MF_TEST(train_learns_to_classify_corners)
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_result results[MF_MAX_RESULTS];
    mf_trainer *t;
    int n;

    T_OK(mf_model_compile(
        m,
        &(mf_compile_options){ .optimizer = "momentum learning_rate=0.05", .metrics = "accuracy" },
        &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .epochs = 30, .batch = 10 }));
    T_OK(mf_evaluate(t, set, results, &n));
    T_EQ(n, 2);
    T_STREQ(results[1].name, "accuracy");
    T_EQ_F(results[1].value, 1.0);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

MF_TEST(train_variables_are_read_and_set_by_name)
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_trainer *t;
    mf_tensor *before, *after, *wrong;
    char first[65], second[65];

    T_OK(mf_model_compile(m, &(mf_compile_options){ .optimizer = "momentum" }, &t));
    T_STREQ(mf_trainer_variable(t, 0), "conv2d/kernel");
    T_TRUE(mf_trainer_variable(t, 1000) == NULL && mf_trainer_variable(t, -1) == NULL);
    T_OK(mf_trainer_get(t, "dense/kernel", &before));
    T_OK(mf_trainer_sha256(t, first));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .steps = 3, .batch = 10 }));
    T_OK(mf_trainer_get(t, "dense/kernel", &after));
    T_TRUE(memcmp(mf_tensor_data(before), mf_tensor_data(after), mf_tensor_bytes(before)) != 0);
    T_OK(mf_trainer_sha256(t, first));
    T_OK(mf_trainer_set(t, "dense/kernel", before));
    T_OK(mf_trainer_sha256(t, second));
    T_TRUE(strcmp(first, second) != 0);
    T_OK(mf_trainer_set(t, "dense/kernel", after));
    T_OK(mf_trainer_sha256(t, second));
    T_STREQ(second, first);
    T_FAILS(MF_NOT_FOUND, "did you mean 'dense/kernel'", mf_trainer_get(t, "dense/kernal", &wrong));
    T_FAILS(MF_INVALID_ARGUMENT, "", mf_trainer_set(t, "dense/bias", before));
    mf_tensor_free(before);
    mf_tensor_free(after);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}
