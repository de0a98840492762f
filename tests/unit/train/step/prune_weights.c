/* SPDX-License-Identifier: Apache-2.0 */
/* prune_weights.c - weights that are pruned to zero during training. */
#include "train/step/prune_weights.h"

#include "unit/train/loop/toy.h"

#include <stdio.h>

enum { HIDDEN = 20 };

/* The linear task of toy.h, with one more layer. */
static void two_layers(toy *p)
{
    mf_output in;

    toy_line(p);
    mf_model_free(p->model);
    T_OK(mf_model_new(&p->model));
    in = mf_model_input(p->model, "x", MF_DTYPE_F32, (int64_t[]){ TOY_INPUTS }, 1);
    in = mf_layer(p->model, "Dense", MF_IN(in), "units=%d activation=tanh", HIDDEN);
    mf_model_output(p->model, mf_layer(p->model, "Dense", MF_IN(in), "units=1"));
}

static int zeros(const toy *p, const char *name, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += toy_value(p, name, i) == 0.0;
    return count;
}

static int all_zeros(const toy *p)
{
    return zeros(p, "dense/kernel", TOY_INPUTS * HIDDEN) + zeros(p, "dense_1/kernel", HIDDEN);
}

MF_TEST(prune_reaches_the_configured_sparsity_and_keeps_it)
{
    toy p;

    two_layers(&p);
    toy_compile(&p, (mf_compile_options){
                        .optimizer = "momentum",
                        .learning_rate = 0.01,
                        .weight_decay = 0.001,
                        .prune = "magnitude sparsity=0.7 begin=2 end=10 every=3 first=0.1" });
    toy_fit(&p, 2);
    T_EQ(all_zeros(&p), 0);
    toy_fit(&p, 1);
    T_EQ(all_zeros(&p), 14); /* a tenth of 140 */
    toy_fit(&p, 7);
    T_TRUE(all_zeros(&p) > 14 && all_zeros(&p) < 98);
    toy_fit(&p, 1);
    T_EQ(all_zeros(&p), 98);
    toy_fit(&p, 30); /* without `hold` momentum would change them */
    T_EQ(all_zeros(&p), 98);
    T_TRUE(zeros(&p, "dense/bias", HIDDEN) < HIDDEN);
    toy_end(&p);
}

MF_TEST(prune_by_layer_gives_each_layer_the_same_sparsity)
{
    toy p;

    two_layers(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "adam",
                                          .prune = "magnitude sparsity=0.5 scope=layer" });
    toy_fit(&p, 3);
    T_EQ(zeros(&p, "dense/kernel", TOY_INPUTS * HIDDEN), TOY_INPUTS * HIDDEN / 2);
    T_EQ(zeros(&p, "dense_1/kernel", HIDDEN), HIDDEN / 2);
    toy_end(&p);
    two_layers(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "sgd",
                                          .prune = "magnitude sparsity=0.5 only=dense/*" });
    toy_fit(&p, 3);
    T_EQ(zeros(&p, "dense/kernel", TOY_INPUTS * HIDDEN), TOY_INPUTS * HIDDEN / 2);
    T_EQ(zeros(&p, "dense_1/kernel", HIDDEN), 0);
    toy_end(&p);
}

MF_TEST(prune_hold_keeps_existing_zeros)
{
    toy p;
    mf_tensor *kernel;

    two_layers(&p);
    toy_compile(&p, (mf_compile_options){ .optimizer = "adam", .prune = "hold" });
    T_OK(mf_trainer_get(p.trainer, "dense/kernel", &kernel));
    for (int i = 0; i < TOY_INPUTS * HIDDEN; i += 3)
        ((float *)kernel->data)[i] = 0;
    T_OK(mf_trainer_set(p.trainer, "dense/kernel", kernel));
    mf_tensor_free(kernel);
    toy_fit(&p, 20);
    T_EQ(zeros(&p, "dense/kernel", TOY_INPUTS * HIDDEN), TOY_INPUTS * HIDDEN / 3);
    toy_end(&p);
}

MF_TEST(prune_settings_survive_printing)
{
    static const char *const texts[] = {
        "hold only='dense*'", "magnitude sparsity=0.9",
        "magnitude sparsity=0.5 first=0.1 begin=3 end=9 every=2 scope=layer only=a*"
    };
    mf_arena *arena = mf_arena_new();

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_buf text = { 0 };
        mf_prune a, b;

        T_OK(mf_prune_parse(texts[i], arena, &a));
        mf_prune_text(&a, &text);
        T_OK(mf_prune_parse(text.data, arena, &b));
        T_TRUE(a.holds == b.holds && a.global == b.global);
        T_STREQ(a.only, b.only);
        T_TRUE(a.begin == b.begin && a.end == b.end && a.every == b.every);
        T_TRUE(a.end_given == b.end_given && a.every_given == b.every_given);
        T_EQ_F(a.first, b.first);
        T_EQ_F(a.last, b.last);
        mf_buf_deinit(&text);
    }
    mf_arena_free(arena);
}

MF_TEST(prune_rejects_invalid_settings)
{
    static const struct {
        const char *text, *part;
        mf_status code;
    } bad[] = {
        { "magnitude", "needs the setting sparsity", MF_INVALID_ARGUMENT },
        { "magnitude sparsity=1.0", "from 0 to below 1", MF_INVALID_ARGUMENT },
        { "magnitude sparsity=0.5 first=0.6", "the first is not above the last",
          MF_INVALID_ARGUMENT },
        { "magnitude sparsity=0.5 begin=9 end=3", "end=3 is before begin=9", MF_INVALID_ARGUMENT },
        { "magnitud sparsity=0.5", "did you mean 'magnitude'", MF_NOT_FOUND },
    };
    toy p;

    for (int i = 0; i < MF_COUNT(bad); i++) {
        two_layers(&p);
        T_FAILS(bad[i].code, bad[i].part,
                mf_model_compile(
                    p.model,
                    &(mf_compile_options){ .loss = "mean_squared_error", .prune = bad[i].text },
                    &p.trainer));
        toy_end(&p);
    }
    two_layers(&p);
    T_FAILS(MF_INVALID_ARGUMENT, "--prune and --ema cannot be combined",
            mf_model_compile(
                p.model,
                &(mf_compile_options){ .loss = "mean_squared_error", .ema = 0.9, .prune = "hold" },
                &p.trainer));
    toy_end(&p);
}
