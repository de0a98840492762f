/* SPDX-License-Identifier: Apache-2.0 */
/* optimizers.c - optimizers lower the loss; settings, decay, averages. tests/tf/training.py
 * compares their numbers with TensorFlow's. */
#include "unit/train/loop/toy.h"

#include <stdio.h>
#include <stdlib.h>

static void expect_falling(const char *optimizer, void (*make)(toy *p), const mf_compile_options *o)
{
    mf_compile_options options = o ? *o : (mf_compile_options){ 0 };
    double before, after;
    toy p;

    make(&p);
    options.optimizer = optimizer;
    options.learning_rate = 0.1;
    toy_compile(&p, options);
    before = toy_loss(&p);
    toy_fit(&p, 150);
    after = toy_loss(&p);
    if (!(after < 0.5 * before))
        T_FAIL("%s: the loss is %g, and was %g", optimizer, after, before);
    toy_end(&p);
}

MF_TEST(train_every_optimizer_lowers_the_loss)
{
    for (const mf_optimizer_kind *k = mf_optimizers; k->name; k++)
        expect_falling(k->name, toy_line, NULL);
    expect_falling("momentum nesterov=true", toy_line, NULL);
    expect_falling("rmsprop centered=true momentum=0.5", toy_line, NULL);
    expect_falling("adam amsgrad=true", toy_line, NULL);
}

MF_TEST(train_every_optimizer_updates_rows_of_a_table)
{
    for (const mf_optimizer_kind *k = mf_optimizers; k->name; k++)
        expect_falling(k->name, toy_table, NULL);
    expect_falling("adam lazy=true", toy_table, NULL);
    expect_falling("adamw amsgrad=true", toy_table, NULL);
}

MF_TEST(train_every_optimizer_works_without_locks)
{
    const mf_compile_options o = { .hogwild = true, .ema = 0.9, .weight_decay = 0.001 };

    for (const mf_optimizer_kind *k = mf_optimizers; k->name; k++) {
        expect_falling(k->name, toy_line, &o);
        expect_falling(k->name, toy_table, &o);
    }
}

static mf_status compile(mf_compile_options options)
{
    mf_status st;
    toy p;

    toy_line(&p);
    options.loss = "mean_squared_error";
    st = mf_model_compile(p.model, &options, &p.trainer);
    toy_end(&p);
    return st;
}

MF_TEST(train_optimizers_reject_invalid_settings)
{
    T_FAILS(MF_NOT_FOUND, "there is no optimizer 'adamm'; did you mean 'adam'?",
            compile((mf_compile_options){ .optimizer = "adamm" }));
    T_FAILS(MF_INVALID_ARGUMENT, "beta_3",
            compile((mf_compile_options){ .optimizer = "adam beta_3=0.9" }));
    T_FAILS(MF_INVALID_ARGUMENT,
            "adam: beta_1=1.5 is out of range; it must be at least 0 and below 1",
            compile((mf_compile_options){ .optimizer = "adam beta_1=1.5" }));
    T_FAILS(MF_INVALID_ARGUMENT, "ftrl: learning_rate_power=0.5 is out of range",
            compile((mf_compile_options){ .optimizer = "ftrl learning_rate_power=0.5" }));
    T_FAILS(MF_INVALID_ARGUMENT, "sgd: learning_rate=-1 is out of range; it must be 0 or more",
            compile((mf_compile_options){ .optimizer = "sgd learning_rate=-1.0" }));
    T_FAILS(MF_INVALID_ARGUMENT, "weight_decay is -1",
            compile((mf_compile_options){ .weight_decay = -1.0 }));
    T_FAILS(MF_INVALID_ARGUMENT, "the moving average, is 1;",
            compile((mf_compile_options){ .ema = 1.0 }));
    T_FAILS(MF_INVALID_ARGUMENT, "give one of value=, norm= and global_norm=",
            compile((mf_compile_options){ .clip = "value=1.0 norm=1.0" }));
    T_FAILS(MF_INVALID_ARGUMENT, "give one of value=, norm= and global_norm=",
            compile((mf_compile_options){ .clip = "norm=-1.0" }));
    T_FAILS(MF_INVALID_ARGUMENT, "length", compile((mf_compile_options){ .clip = "length=1.0" }));
}

static void set_ones(const toy *p, const char *name)
{
    mf_variable *v = mf_trainer_find(p->trainer, name)->variable;
    mf_tensor ones = { 0 };

    T_OK(mf_tensor_alloc(&ones, MF_DTYPE_F32, &v->declared));
    for (int64_t i = 0; i < ones.count; i++)
        mf_tensor_put(&ones, i, 1.0);
    T_OK(mf_variable_assign(v, &ones, true));
    mf_tensor_clear(&ones);
}

/* With gradients close to zero only the decay changes the weights. */
MF_TEST(train_decay_shrinks_kernels_and_leaves_biases)
{
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){
                        .clip = "value=1e-30", .weight_decay = 0.5, .learning_rate = 0.1 });
    set_ones(&p, "dense/kernel");
    set_ones(&p, "dense/bias");
    toy_fit(&p, 3);
    T_NEAR(toy_value(&p, "dense/kernel", 0), 0.95 * 0.95 * 0.95, 1e-6);
    T_EQ_F(toy_value(&p, "dense/bias", 0), 1.0);
    toy_end(&p);
}

/* ---- moving average ---- */

static const char average[] = "dense/kernel/ExponentialMovingAverage";

MF_TEST(train_averages_follow_the_weights)
{
    double want;
    toy p;

    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .ema = 0.75, .optimizer = "momentum" });
    want = toy_value(&p, "dense/kernel", 2);
    T_EQ_F(toy_value(&p, average, 2), want);
    for (int i = 0; i < 5; i++) {
        toy_fit(&p, 1);
        want = 0.75 * want + 0.25 * toy_value(&p, "dense/kernel", 2);
        T_NEAR(toy_value(&p, average, 2), want, 1e-6);
    }
    toy_end(&p);
}

MF_TEST(train_evaluates_with_the_average_when_asked_and_keeps_the_weights)
{
    char before[65], after[65];
    double plain, averaged;
    toy p;

    for (int use = 0; use < 2; use++) {
        toy_line(&p);
        toy_compile(&p, (mf_compile_options){ .ema = 0.99, .ema_eval = use, .learning_rate = 0.1 });
        toy_fit(&p, 20);
        T_OK(mf_trainer_sha256(p.trainer, before));
        *(use ? &averaged : &plain) = toy_loss(&p);
        T_OK(mf_trainer_sha256(p.trainer, after));
        T_STREQ(before, after);
        toy_end(&p);
    }
    T_TRUE(averaged > plain * 1.5); /* it lags behind */
}

MF_TEST(train_averages_are_in_checkpoints_and_restart_without_them)
{
    char dir[] = "/tmp/meshflow-ema-XXXXXX", prefix[64], plain[64];
    double kept;
    toy p, q;

    T_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(prefix, sizeof prefix, "%s/a", dir);
    (void)snprintf(plain, sizeof plain, "%s/b", dir);
    toy_line(&p);
    toy_compile(&p, (mf_compile_options){ .ema = 0.9, .seed = 5 });
    toy_fit(&p, 4);
    kept = toy_value(&p, average, 1);
    T_OK(mf_trainer_save(p.trainer, prefix));
    toy_line(&q); /* without an average, with other weights */
    toy_compile(&q, (mf_compile_options){ .seed = 5 });
    T_OK(mf_trainer_save(q.trainer, plain));
    T_OK(mf_trainer_restore(p.trainer, plain));
    T_EQ_F(toy_value(&p, average, 1), toy_value(&q, "dense/kernel", 1));
    T_OK(mf_trainer_restore(p.trainer, prefix));
    T_EQ_F(toy_value(&p, average, 1), kept);
    toy_end(&p);
    toy_end(&q);
}
