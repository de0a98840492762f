/* SPDX-License-Identifier: Apache-2.0 */
/* replicas.c - several replicas in one process: the same bits wherever the weights are stored. */
#include "base/param.h"
#include "unit/train/loop/everything.h"
#include "unit/train/loop/toy.h"

#include <stdio.h>
#include <string.h>

typedef struct setup {
    const char *strategy; /* NULL: none */
    int shards, batch;
    const char *optimizer, *precision;
    double ema;
} setup;

static void train(const setup *s, char sha[65])
{
    mf_dataset *set = corners();
    mf_model *m = everything();
    mf_strategy *strategy = NULL;
    mf_trainer *t;

    if (s->strategy)
        T_OK(mf_strategy_open(s->strategy, NULL, &strategy));
    T_OK(mf_model_compile(m,
                          &(mf_compile_options){ .optimizer = s->optimizer,
                                                 .precision = s->precision,
                                                 .ema = s->ema,
                                                 .metrics = "accuracy",
                                                 .clip = "global_norm=5",
                                                 .shards = s->shards,
                                                 .threads = 2,
                                                 .seed = 5,
                                                 .strategy = strategy },
                          &t));
    T_OK(mf_fit(t, set, NULL, &(mf_fit_options){ .epochs = 2, .batch = s->batch }));
    T_OK(mf_trainer_sha256(t, sha));
    mf_trainer_free(t);
    mf_strategy_close(strategy);
    mf_model_free(m);
    mf_dataset_unref(set);
}

static void compare(const char *kind, const setup *of)
{
    char alone[65], sha[65], text[64];
    setup s = *of;

    T_OK(mf_param_set("replica_check_steps=1"));
    train(&s, alone);
    for (int n = 1; n <= 4; n++) {
        (void)snprintf(text, sizeof text, "%s replicas=%d", kind, n);
        s.strategy = text;
        train(&s, sha);
        if (strcmp(sha, alone) != 0)
            T_FAIL("%s, %d shards of %d samples: %s, alone: %s", text, s.shards, s.batch, sha,
                   alone);
    }
}

MF_TEST(replicas_mirrored_give_the_same_weights)
{
    compare("mirrored", &(setup){ NULL, 8, 16, "momentum learning_rate=0.05", NULL, 0.0 });
    compare("mirrored", &(setup){ NULL, 7, 50, "adam", NULL, 0.9 });
    compare("mirrored", &(setup){ NULL, 3, 16, "adam", "fp16", 0.0 });
}

MF_TEST(replicas_mirrored_accept_fewer_samples_than_shards_and_fewer_shards_than_replicas)
{
    compare("mirrored", &(setup){ NULL, 8, 3, "sgd learning_rate=0.05", NULL, 0.0 });
    compare("mirrored", &(setup){ NULL, 2, 16, "sgd learning_rate=0.05", NULL, 0.0 });
}

MF_TEST(replicas_with_central_storage_give_the_same_weights)
{
    compare("central_storage", &(setup){ NULL, 8, 16, "momentum learning_rate=0.05", NULL, 0.0 });
    compare("central_storage", &(setup){ NULL, 7, 3, "adam", NULL, 0.9 });
    compare("central_storage", &(setup){ NULL, 3, 16, "adam", "fp16", 0.0 });
}

/* ---- a small net with readable variables ---- */

typedef struct mirrored {
    toy toy;
    mf_strategy *s;
} mirrored;

static void begin(mirrored *m, const char *strategy, void (*make)(toy *p))
{
    make(&m->toy);
    T_OK(mf_strategy_open(strategy, NULL, &m->s));
    toy_compile(&m->toy, (mf_compile_options){ .optimizer = "momentum learning_rate=0.05",
                                               .strategy = m->s });
}

static void end(mirrored *m)
{
    toy_end(&m->toy);
    mf_strategy_close(m->s);
}

MF_TEST(replicas_update_rows_of_tables)
{
    static const char *const kinds[] = { "mirrored replicas=1", "mirrored replicas=3",
                                         "central_storage replicas=2" };
    char first[65], sha[65];

    for (int i = 0; i < MF_COUNT(kinds); i++) {
        mirrored m;

        begin(&m, kinds[i], toy_table);
        toy_fit(&m.toy, 20);
        T_OK(mf_trainer_sha256(m.toy.trainer, i ? sha : first));
        if (i)
            T_STREQ(sha, first);
        end(&m);
    }
}

/* Values that are set between two calls of mf_fit() reach all replicas. */
MF_TEST(replicas_follow_variables_that_were_set)
{
    mirrored m;
    mf_tensor *value;

    T_OK(mf_param_set("replica_check_steps=1"));
    begin(&m, "mirrored replicas=3", toy_line);
    toy_fit(&m.toy, 5);
    T_OK(mf_trainer_get(m.toy.trainer, "dense/kernel", &value));
    ((float *)value->data)[2] += 3.0f;
    T_OK(mf_trainer_set(m.toy.trainer, "dense/kernel", value));
    mf_tensor_free(value);
    toy_fit(&m.toy, 5);
    end(&m);
}

MF_TEST(replicas_learn_and_are_evaluated)
{
    mirrored m;
    double before;

    begin(&m, "mirrored replicas=2", toy_line);
    before = toy_loss(&m.toy);
    toy_fit(&m.toy, 100);
    T_TRUE(toy_loss(&m.toy) < before / 10);
    end(&m);
}

/* A NaN loss fails on all replicas; none waits for another. */
MF_TEST(replicas_fail_together)
{
    static const char *const kinds[] = { "mirrored replicas=3", "central_storage replicas=3" };

    for (int i = 0; i < MF_COUNT(kinds); i++) {
        mirrored m;
        mf_tensor *value;

        begin(&m, kinds[i], toy_line);
        T_OK(mf_trainer_get(m.toy.trainer, "dense/kernel", &value));
        ((float *)value->data)[0] = 1e38f * 1e38f;
        T_OK(mf_trainer_set(m.toy.trainer, "dense/kernel", value));
        mf_tensor_free(value);
        T_FAILS(MF_INVALID_ARGUMENT, "the loss is NaN/Inf",
                mf_fit(m.toy.trainer, m.toy.data, NULL, &(mf_fit_options){ .steps = 5 }));
        end(&m);
    }
}

static mf_status stop_after(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    (void)t;
    if (report->step == 4)
        mf_strategy_stop(ctx);
    return MF_OK;
}

MF_TEST(replicas_stop_on_request_of_the_strategy)
{
    mirrored m;

    begin(&m, "mirrored replicas=2", toy_line);
    T_OK(mf_fit(m.toy.trainer, m.toy.data, NULL,
                &(mf_fit_options){ .steps = 50,
                                   .hooks = &(mf_hook){ .ctx = m.s, .after_step = stop_after },
                                   .n_hooks = 1 }));
    T_EQ(mf_trainer_step(m.toy.trainer), 5);
    end(&m);
}

MF_TEST(replicas_settings_are_checked)
{
    mf_strategy *s;

    T_FAILS(MF_INVALID_ARGUMENT, "no aggregation 'mode'",
            mf_strategy_open("mirrored aggregation=mode", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "below 0.5",
            mf_strategy_open("mirrored aggregation=trimmed_mean trim=0.5", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "trim needs aggregation=trimmed_mean",
            mf_strategy_open("mirrored aggregation=median trim=0.2", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "3 weights for 2 members",
            mf_strategy_open("mirrored replicas=2 aggregation=weighted weights=[1,2,3]", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "weight 1 is 0",
            mf_strategy_open("mirrored replicas=2 aggregation=weighted weights=[1,0]", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "at most", mf_strategy_open("mirrored replicas=999", NULL, &s));
    T_FAILS(MF_NOT_FOUND, "mirrored", mf_strategy_open("mirored", NULL, &s));
}

/* ---- aggregation ---- */

static void aggregated(const char *strategy, void (*make)(toy *p), float weights[TOY_INPUTS])
{
    mirrored m;

    begin(&m, strategy, make);
    toy_fit(&m.toy, 8);
    for (int i = 0; i < TOY_INPUTS; i++)
        weights[i] = (float)toy_value(&m.toy, "dense/kernel", i);
    end(&m);
}

MF_TEST(replicas_trimmed_mean_and_median_do_not_depend_on_the_number_of_replicas)
{
    static const char *const how[] = { "median", "trimmed_mean trim=0.2" };
    float first[TOY_INPUTS], w[TOY_INPUTS], sum[TOY_INPUTS];
    char text[80];

    aggregated("mirrored replicas=2", toy_line, sum);
    for (int k = 0; k < MF_COUNT(how); k++) {
        for (int n = 1; n <= 3; n++) {
            (void)snprintf(text, sizeof text, "mirrored replicas=%d aggregation=%s", n, how[k]);
            aggregated(text, toy_line, n == 1 ? first : w);
            if (n > 1)
                T_TRUE(memcmp(w, first, sizeof w) == 0);
        }
        T_TRUE(memcmp(first, sum, sizeof first) != 0);
    }
}

/* Nothing is trimmed: the mean of the means of equal shards is the mean. */
MF_TEST(replicas_trimmed_mean_without_trimming_is_the_mean)
{
    float sum[TOY_INPUTS], w[TOY_INPUTS];

    aggregated("mirrored replicas=2", toy_line, sum);
    aggregated("mirrored replicas=2 aggregation=trimmed_mean trim=0.0", toy_line, w);
    for (int i = 0; i < TOY_INPUTS; i++)
        T_NEAR(w[i], sum[i], 1e-5);
    aggregated("mirrored replicas=2 aggregation=weighted weights=[3,3]", toy_line, w);
    for (int i = 0; i < TOY_INPUTS; i++) /* both have as many samples */
        T_TRUE(w[i] == sum[i]);
}

/* One step of plain SGD from w: with `sum` the step is exactly the number of shards times as long,
 * for any number of replicas. */
static void step_of(const char *strategy, const char *name, void (*make)(toy *p),
                    double moved[TOY_INPUTS], int64_t *shards)
{
    mirrored m;

    begin(&m, strategy, make);
    *shards = m.toy.trainer->options.shards;
    for (int i = 0; i < TOY_INPUTS; i++)
        moved[i] = -toy_value(&m.toy, name, i);
    toy_fit(&m.toy, 1);
    for (int i = 0; i < TOY_INPUTS; i++)
        moved[i] += toy_value(&m.toy, name, i);
    end(&m);
}

static void sum_up(const char *name, void (*make)(toy *p))
{
    double mean[TOY_INPUTS], sum[TOY_INPUTS];
    char text[80];
    int64_t shards;
    int moved = 0;

    step_of("mirrored replicas=2 aggregation=mean", name, make, mean, &shards);
    for (int n = 1; n <= 3; n++) {
        (void)snprintf(text, sizeof text, "mirrored replicas=%d aggregation=sum", n);
        step_of(text, name, make, sum, &shards);
        for (int i = 0; i < TOY_INPUTS; i++) {
            T_NEAR(sum[i], (double)shards * mean[i], 1e-5);
            moved += mean[i] != 0.0;
        }
    }
    T_TRUE(shards > 1 && moved > 0);
}

MF_TEST(replicas_sum_is_the_mean_times_the_number_of_shards)
{
    sum_up("dense/kernel", toy_line);
    sum_up("embedding/embeddings", toy_table);
}

/* After one step from w, weights 1 and 3 give w + (A + 3 B) / 2, where A and B are what the halves
 * of the batch give to the sum w + A + B; and 3 and 1 give w + (3 A + B) / 2. */
static void weigh(const char *name, void (*make)(toy *p))
{
    static const char *const how[] = { "mirrored replicas=2",
                                       "mirrored replicas=2 aggregation=weighted weights=[1,3]",
                                       "mirrored replicas=2 aggregation=weighted weights=[3,1]" };
    double w[3][TOY_INPUTS], before[TOY_INPUTS];
    int differ = 0;

    for (int k = 0; k < 3; k++) {
        mirrored m;

        begin(&m, how[k], make);
        for (int i = 0; i < TOY_INPUTS; i++)
            before[i] = toy_value(&m.toy, name, i);
        toy_fit(&m.toy, 1);
        for (int i = 0; i < TOY_INPUTS; i++)
            w[k][i] = toy_value(&m.toy, name, i);
        end(&m);
    }
    for (int i = 0; i < TOY_INPUTS; i++) {
        T_NEAR(w[1][i] + w[2][i] - 2 * before[i], 2 * (w[0][i] - before[i]), 1e-6);
        differ += w[1][i] != w[0][i] && w[1][i] != w[2][i];
    }
    T_TRUE(differ > 0);
}

MF_TEST(replicas_are_weighted_in_weights_and_in_rows)
{
    weigh("dense/kernel", toy_line);
    weigh("embedding/embeddings", toy_table);
}

MF_TEST(replicas_median_of_rows_is_refused_by_name)
{
    toy p;
    mf_strategy *s;

    toy_table(&p);
    T_OK(mf_strategy_open("mirrored replicas=2 aggregation=median", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "embedding",
            mf_model_compile(p.model,
                             &(mf_compile_options){ .loss = "mean_squared_error", .strategy = s },
                             &p.trainer));
    toy_end(&p);
    mf_strategy_close(s);
}
